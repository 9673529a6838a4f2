"""A report's text in pieces, so that the words behind each task's code can be highlighted.

Places overlap and are of several tasks. The text is cut wherever one begins or ends, and every piece knows the tasks it
speaks for and how strongly (1 to 3). Pieces are plain strings: a template escapes them, so whatever a report holds is
shown as text.

>>> places = {"site": [{"start": 5, "end": 11, "weight": 2.0}], "histology": [{"start": 0, "end": 11, "weight": 1.0}]}
>>> [(piece.text, piece.tasks) for piece in pieces_of("left breast mass", places)]
[('left ', {'histology': 3}), ('breast', {'site': 3, 'histology': 3}), (' mass', {})]
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple


class Piece(NamedTuple):
    text: str
    tasks: dict[str, int]  # task: strength


def pieces_of(text: str, places: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[Piece]:
    """The text cut at the places that speak *for* a code; those against one are left plain."""
    spans = []
    for task, own in places.items():
        most = max((place["weight"] for place in own), default=0.0)
        for place in own:
            start, end = max(0, place["start"]), min(len(text), place["end"])
            if place["weight"] > 0 and start < end:
                share = place["weight"] / most
                spans.append((start, end, task, 3 if share > 2 / 3 else 2 if share > 1 / 3 else 1))
    cuts = sorted({0, len(text), *(span[0] for span in spans), *(span[1] for span in spans)})
    pieces = []
    for start, end in pairwise(cuts):
        tasks: dict[str, int] = {}
        for first, last, task, strength in spans:
            if first <= start and end <= last:
                tasks[task] = max(strength, tasks.get(task, 0))
        pieces.append(Piece(text[start:end], tasks))
    return pieces
