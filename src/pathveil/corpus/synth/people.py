"""Invented people: patients, physicians, laboratories, addresses and numbers, marked where they stand in the text.

What is personal is wrapped in private-use characters while a report is written, with one more for its kind, and
``reveal`` takes them out again and says where they stood. Common names come from lists that everyone knows; three
surnames in ten are composed of syllables, so that a long tail of names exists that one case alone holds.

>>> reveal("seen by Dr. " + mark("physician_name", "Ada Quarbescu") + " today")
('seen by Dr. Ada Quarbescu today', [('physician_name', 12, 25)])
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pathveil.corpus.synth.grammar import Draw
from pathveil.resources import blocks

KINDS = (
    "patient_name",
    "relative_name",
    "physician_name",
    "record_number",
    "birth_date",
    "service_date",
    "address",
    "phone",
    "email",
    "laboratory",
    "detail",
)
OPEN, CLOSE = "\ue000", "\ue001"
SIGN = {kind: chr(0xE010 + number) for number, kind in enumerate(KINDS)}
KIND = {sign: kind for kind, sign in SIGN.items()}
COMPOSED = 0.3  # of surnames


def mark(kind: str, text: str) -> str:
    return f"{OPEN}{SIGN[kind]}{text}{CLOSE}"


def reveal(marked: str) -> tuple[str, list[tuple[str, int, int]]]:
    """The text without marks, and the kind, start and end of each span in it."""
    pieces, spans, length = [], [], 0
    for part in marked.split(CLOSE):
        before, opening, personal = part.partition(OPEN)
        pieces.append(before)
        length += len(before)
        if opening:
            pieces.append(personal[1:])
            spans.append((KIND[personal[0]], length, length + len(personal) - 1))
            length += len(personal) - 1
    return "".join(pieces), spans


@lru_cache(maxsize=1)
def lists() -> dict[str, tuple[str, ...]]:
    """The lists of people.txt; lists of phrases are divided by '|', lists of words by spaces."""
    found = {}
    for name, _, body in blocks("corpus.synth", "people.txt"):
        text = " ".join(body)
        found[name] = tuple(text.split("|") if "|" in text else text.split())
    return found


def pick(draw: Draw, things: tuple[str, ...]) -> str:
    return things[int(draw() * len(things))]


def pick_common(draw: Draw, things: tuple[str, ...]) -> str:
    """The earlier ones more often: a few very common names, many less common ones."""
    lean = draw()
    return things[int(lean * lean * len(things))]


def surname(draw: Draw) -> str:
    names = lists()
    if draw() >= COMPOSED:
        return pick_common(draw, names["surnames"])
    return pick(draw, names["rare.start"]) + pick(draw, names["rare.middle"]) + pick(draw, names["rare.end"])


def given_name(draw: Draw, sex: str) -> str:
    return pick_common(draw, lists()["female" if sex == "F" else "male"])


def town(draw: Draw) -> str:
    names = lists()
    return pick(draw, names["town.start"]) + pick(draw, names["town.end"])


@dataclass(frozen=True)
class Patient:
    """One person; all strings unmarked."""

    sex: str  # F or M
    given: str
    surname: str
    relative: tuple[str, str]  # sex, name
    birth: int  # day number
    record: str
    address: str
    phone: str
    detail: str  # marked already


@dataclass(frozen=True)
class Habits:
    """How a region writes dates, numbers and addresses."""

    date: str  # a key of DATES
    record: str  # '#' stands for a digit
    accession: str  # also {yy}, {yyyy}
    phone: str
    address: str  # {number} {street} {town} {code}
    code: str


DATES = ("m/d/y", "d/m/y", "iso", "long", "dots")
MONTHS = tuple("January February March April May June July August September October November December".split())


def date(year: int, month: int, day: int, style: str) -> str:
    """A date as a laboratory writes it.

    >>> [date(2011, 3, 7, style) for style in DATES]
    ['03/07/2011', '07/03/2011', '2011-03-07', '7 March 2011', '07.03.2011']
    """
    if style == "m/d/y":
        return f"{month:02d}/{day:02d}/{year}"
    if style == "d/m/y":
        return f"{day:02d}/{month:02d}/{year}"
    if style == "iso":
        return f"{year}-{month:02d}-{day:02d}"
    if style == "long":
        return f"{day} {MONTHS[month - 1]} {year}"
    return f"{day:02d}.{month:02d}.{year}"


def digits(draw: Draw, pattern: str) -> str:
    """A pattern with its runs of '#' filled in.

    >>> digits(lambda: 0.35, "MR-##/#")
    'MR-35/3'
    """
    first, *rest = shape(pattern)
    return first + "".join(f"{int(draw() * 10**length):0{length}d}{after}" for length, after in rest)


@lru_cache(maxsize=4096)
def shape(pattern: str) -> tuple[Any, ...]:
    """What stands before the first run, then each run's length and what stands after it."""
    pieces = re.split("(#+)", pattern)
    return (pieces[0], *((len(run), after) for run, after in zip(pieces[1::2], pieces[2::2], strict=True)))


def physician(draw: Draw) -> str:
    """A physician's name, with or without an initial."""
    sex = "F" if draw() < 0.4 else "M"
    first, last = given_name(draw, sex), surname(draw)
    form = draw()
    if form < 0.4:
        return f"{first} {last}"
    if form < 0.7:
        return f"{first[0]}. {last}"
    return f"{first} {chr(65 + int(draw() * 26))}. {last}"


def laboratory(draw: Draw) -> str:
    names = lists()
    where = town(draw) if draw() < 0.7 else f"St. {given_name(draw, 'F' if draw() < 0.5 else 'M')}"
    return f"{where} {pick(draw, names['hospital.kind'])}"


def address(draw: Draw, habits: Habits, towns: tuple[str, ...]) -> str:
    names = lists()
    number = str(1 + int(draw() * 9800)) if draw() < 0.6 else str(1 + int(draw() * 240))
    street = f"{pick(draw, names['street.name'])} {pick_common(draw, names['street.kind'])}"
    place = pick_common(draw, towns) if draw() < 0.8 else town(draw)
    return habits.address.format(number=number, street=street, town=place, code=digits(draw, habits.code))
