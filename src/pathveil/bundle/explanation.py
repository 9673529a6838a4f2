"""Why a model chose a code: places in the report's own text, with what each adds to the code's score.

A network's logit divides exactly among the windows of words its filters chose (``pathveil.model.explain``), a linear
view's among its words. The score of a code is the blend's sum of both, the networks' parts averaged; what a place adds
is summed over the views that point at it. Places are offsets into the text: nothing of the text itself is kept.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pathveil.bundle.coder import FEW, Code, Coder, decide, unread
from pathveil.bundle.model import Model
from pathveil.formatting import width_of
from pathveil.model.explain import head_rows
from pathveil.results import Part, Result
from pathveil.text.tokenizer import tokenize_spans
from pathveil.training.linear import document_vector
from pathveil.vocabulary.words import FIRST_WORD

if TYPE_CHECKING:
    from pathveil.training.linear_view import LinearView

TOP = 8  # places shown a task


class Place(Part):
    """Characters ``start`` to ``end`` of a report's text, and what they add to a code's score."""

    start: int
    end: int
    weight: float


class Reasons(Part):
    """A task's code and the places in the text that speak most for and against it, strongest first."""

    code: Code
    places: tuple[Place, ...]


class Explanation(Result):
    """The codes of one report, and the places in its text behind each."""

    tasks: dict[str, Reasons]

    def rows(self) -> list[dict[str, Any]]:
        return [
            {"task": task, "code": reasons.code.code, "probability": reasons.code.probability, **place.to_dict()}
            for task, reasons in self.tasks.items()
            for place in reasons.places
        ]

    def summary(self) -> str:
        lines, wide = [], width_of(self.tasks)
        for task, reasons in self.tasks.items():
            places = ", ".join(f"{place.start}–{place.end} {place.weight:+.2f}" for place in reasons.places)
            lines.append(f"{task:<{wide}}{reasons.code.code} ({reasons.code.probability:.3f}): {places or '–'}")
        return "\n".join([*lines, "", "Places are characters of the report's text, with what each adds to the score."])


class Reading(NamedTuple):
    """What is behind a model's answers to one text: its words, and the windows that each network's filters chose."""

    ids: np.ndarray  # (words,)
    begins: np.ndarray  # (words,) characters of the text
    ends: np.ndarray
    features: np.ndarray  # (networks, K, F)
    starts: np.ndarray  # (networks, K, F) the word at which each feature's window starts; −1 for a feature of zero


def read_to_explain(coder: Coder, texts: Sequence[str]) -> tuple[dict[str, np.ndarray], np.ndarray, list[Reading]]:
    """What ``Coder.read`` gives, and what explains it, from one run of the networks."""
    model = coder.model
    if len(texts) > FEW:
        coder.prepare()
    tokens = [tokenize_spans(text, words=model.clip, identifiers=model.identifiers) for text in texts]
    ids = np.array([model.vocabulary.id_of(word) for one in tokens for word, _, _ in one], np.int32)
    offsets = np.cumsum([0, *map(len, tokens)], dtype=np.int64)
    begins, ends = (np.array([token[edge] for one in tokens for token in one], np.int64) for edge in (1, 2))
    logs, features, starts = coder.ensemble.read_windows(ids, offsets)
    readings = [
        Reading(ids[first:last], begins[first:last], ends[first:last], features[row], starts[row])
        for row, (first, last) in enumerate(pairwise(offsets.tolist()))
    ]
    return logs, unread(model, ids, offsets), readings


def explain_text(model: Model, text: str, *, top: int = TOP) -> Explanation:
    """Each task's code for one report, and the ``top`` places behind it."""
    coder = Coder(model)
    logs, empty, (reading,) = read_to_explain(coder, [text])
    (codes,) = decide(model, logs, empty=empty)
    return explain_reading(coder, reading, codes, top=top)


def explain_reading(coder: Coder, reading: Reading, codes: Mapping[str, Code], *, top: int = TOP) -> Explanation:
    """The ``top`` places behind each of the codes that a report was given, which was read already."""
    if not len(reading.ids):
        return Explanation(tasks={task: Reasons(code=code, places=()) for task, code in codes.items()})
    model, ensemble = coder.model, coder.ensemble
    members = ensemble.tables or ensemble.members
    ids, won = reading.ids, reading.starts >= 0
    at, lengths = reading.starts[won], np.broadcast_to(np.array(members[0].windows)[:, None], won.shape)[won]
    known = ids >= FIRST_WORD if ensemble.linear else np.zeros(len(ids), bool)
    # Several views, or windows of several sizes, may point at the same characters.
    begins = np.concatenate([reading.begins[at], reading.begins[known]])
    ends = np.concatenate([reading.ends[at + lengths - 1], reading.ends[known]])
    width = int(reading.ends[-1]) + 1
    pairs, place = np.unique(begins * width + ends, return_inverse=True)
    labels = {task: model.labels[task].index(code.code) for task, code in codes.items()}
    heads = np.stack([head_rows(member, labels) for member in members], 1).reshape(-1, *won.shape)
    added = (reading.features.astype(np.float64) * heads)[:, won]  # (tasks, windows)
    linear = linear_weights(ensemble.linear, ids[known], labels, model) if ensemble.linear else {}
    tasks = {}
    for row, (task, code) in enumerate(codes.items()):
        weights = np.concatenate([added[row] * model.blend[task][0] / len(members), linear.get(task, ())])
        total = np.bincount(place, weights=weights, minlength=len(pairs))
        strongest = largest(np.abs(total), top)
        starts, stops = np.divmod(pairs[strongest], width)
        places = zip(starts.tolist(), stops.tolist(), total[strongest].tolist(), strict=True)
        tasks[task] = Reasons(code=code, places=tuple(Place(start=a, end=b, weight=w) for a, b, w in places))
    return Explanation(tasks=tasks)


def largest(numbers: np.ndarray, top: int) -> np.ndarray:
    """Where the ``top`` largest numbers are, the largest first, of equals the first; without sorting the others.

    >>> largest(np.array([1.0, 3.0, 2.0, 3.0]), 3).tolist()
    [1, 3, 2]
    """
    if top < len(numbers):
        least = np.partition(numbers, len(numbers) - top)[len(numbers) - top] if top else np.inf
        at = np.flatnonzero(numbers >= least)
    else:
        at = np.arange(len(numbers))
    return at[np.argsort(-numbers[at], kind="stable")][:top]


def linear_weights(
    view: "LinearView", ids: np.ndarray, labels: Mapping[str, int], model: Model
) -> dict[str, np.ndarray]:
    """What each word of a report adds to each task's class by the linear view; its places share a word's weight."""
    words, values, which, times = document_vector(ids, view.idf)
    return {
        task: (values * view.weights[task][label, words] * model.blend[task][1] / times)[which].astype(np.float64)
        for task, label in labels.items()
    }
