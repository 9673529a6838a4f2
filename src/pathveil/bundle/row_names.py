"""Names of a figure's rows, made to fit: registries and codes of one's own may be called anything.

A name is cut in its middle, since names of one kind often begin or end alike; where that makes two the same they are
numbered, and a sentence says what each stands for.

>>> shortened(["North", "Cancer Registry of the North-East", "Cancer Registry of the South-East"], 110)
['North', 'Cance…-East 1', 'Cance…-East 2']
>>> shortened(["site", "expected", "histology", "expected"], 110)
['site', 'expected', 'histology', 'expected']
"""

from collections.abc import Sequence
from dataclasses import replace

from pathveil.charts import Mark, intervals

ROOM, MORE_ROOM = 150, 230  # of the figure's width, for names as they mostly are and for long ones
MARGIN = 12
NARROW = frozenset("fijlrtI.,;:!|()[]'/- ")
WIDE = frozenset("mwMW@%…—")


def draw_rows(
    marks: Sequence[Mark], *, title: str, ends: Sequence[str] = (), chance: float | None = None
) -> tuple[str, str]:
    """A figure of rows with names that fit, each with its end (such as a count), and a sentence with those cut."""
    ends = ends or [""] * len(marks)
    names = [mark.name for mark in marks]
    last = max(map(width_of, ends), default=0.0)
    longest = max(map(width_of, names), default=0.0) + last
    label = ROOM if longest <= ROOM - MARGIN else MORE_ROOM
    short = shortened(names, label - MARGIN - last)
    named = [replace(mark, name=name + end) for mark, name, end in zip(marks, short, ends, strict=True)]
    cut = [f"{one} is {name}" for one, name in zip(short, names, strict=True) if one != name]
    return intervals(named, chance=chance, title=title, label=label), f"{'; '.join(cut)}." if cut else ""


def shortened(names: Sequence[str], room: float) -> list[str]:
    """Names of at most this width, no two of them the same that were not."""
    short = [name if width_of(name) <= room else fitted(name, room - width_of(" 15")) for name in names]
    wholes = {one: {whole for other, whole in zip(short, names, strict=True) if other == one} for one in short}
    return [
        f"{name} {short[:place].count(name) + 1}" if len(wholes[name]) > 1 else name for place, name in enumerate(short)
    ]


def fitted(name: str, room: float) -> str:
    """As much of a name's beginning and end as has room."""
    cuts = (f"{name[: (kept + 1) // 2]}…{name[len(name) - kept // 2 :]}" for kept in range(len(name) - 1, 1, -1))
    return next((cut for cut in cuts if width_of(cut) <= room), name[:1] + "…")


def width_of(text: str) -> float:
    """About how wide a text is in a figure's letters of 12 pixels; rather more than less."""
    return sum(width_of_sign(sign) for sign in text)


def width_of_sign(sign: str) -> float:
    if sign in NARROW:
        return 4.9
    if sign in WIDE or sign > "\u2e80":  # from there on most are as wide as they are high
        return 12.0
    return 9.5 if sign.isupper() else 7.7
