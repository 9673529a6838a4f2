"""Why a model chose a code: places in the report's own text, with what each adds to the code's score.

A network's logit divides exactly among the windows of words its filters chose (``pathveil.model.explain``), a linear
view's among its words. The score of a code is the blend's sum of both, the networks' parts averaged; what a place adds
is summed over the views that point at it. Places are offsets into the text: nothing of the text itself is kept.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from pathveil.bundle.coder import Code, Coder
from pathveil.bundle.model import Model
from pathveil.model.explain import window_weights
from pathveil.results import Part, Result
from pathveil.text import tokenize_spans
from pathveil.training.linear import weighted_counts
from pathveil.vocabulary.words import FIRST_WORD

if TYPE_CHECKING:
    from pathveil.training.ensemble import Ensemble

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
        lines = []
        for task, reasons in self.tasks.items():
            places = ", ".join(f"{place.start}–{place.end} {place.weight:+.2f}" for place in reasons.places)
            lines.append(f"{task:<12}{reasons.code.code} ({reasons.code.probability:.3f}): {places or '–'}")
        return "\n".join([*lines, "", "Places are characters of the report's text, with what each adds to the score."])


def explain_text(model: Model, text: str, *, top: int = TOP) -> Explanation:
    """Each task's code for one report, and the ``top`` places behind it."""
    (codes,) = Coder(model).code([text])
    return explain_codes(model, text, codes, top=top)


def explain_codes(
    model: Model, text: str, codes: Mapping[str, Code], *, top: int = TOP, ensemble: "Ensemble | None" = None
) -> Explanation:
    """The ``top`` places of a report's text behind each of the codes that it was given.

    ``ensemble`` is the model's own where somebody has it with tables already; it answers the same, and sooner.
    """
    found = tokenize_spans(text, words=model.clip, identifiers=model.identifiers)
    if not found:
        return Explanation(tasks={task: Reasons(code=code, places=()) for task, code in codes.items()})
    ids = np.array([model.vocabulary.id_of(word) for word, _, _ in found], np.int32)
    begins, ends = np.array([span[1:] for span in found]).T
    ensemble = ensemble or model.ensemble()
    labels = {task: model.labels[task].index(code.code) for task, code in codes.items()}
    starts, stops, weights = [], [], {task: [] for task in codes}  # of every place, and what it adds
    members = ensemble.tables or ensemble.members
    for member in members:
        at, lengths, added = window_weights(member, ids.tolist(), labels)
        starts.append(begins[at])
        stops.append(ends[at + lengths - 1])
        for task in codes:
            weights[task].append(model.blend[task][0] * added[task] / len(members))
    if ensemble.linear is not None:
        known = ids >= FIRST_WORD
        starts.append(begins[known])
        stops.append(ends[known])
        document = weighted_counts(ids, np.array([0, len(ids)]), ensemble.linear.idf)
        words, where = document.indices, np.searchsorted(np.sort(document.indices), ids[known])
        order, times = np.argsort(words), np.bincount(ids, minlength=model.vocabulary.size)
        for task, label in labels.items():
            # A word's weight is shared by its places.
            each = document.data * ensemble.linear.weights[task][label, words] * model.blend[task][1] / times[words]
            weights[task].append(each[order][where].astype(np.float64))
    # Several views, or windows of several sizes, may point at the same characters.
    pairs, place = np.unique(np.stack([np.concatenate(starts), np.concatenate(stops)], 1), axis=0, return_inverse=True)
    tasks = {}
    for task, code in codes.items():
        total = np.bincount(place.ravel(), weights=np.concatenate(weights[task]), minlength=len(pairs))
        strongest = np.lexsort((pairs[:, 1], pairs[:, 0], -np.abs(total)))[:top]
        places = tuple(
            Place(start=start, end=end, weight=weight)
            for (start, end), weight in zip(pairs[strongest].tolist(), total[strongest].tolist(), strict=True)
        )
        tasks[task] = Reasons(code=code, places=places)
    return Explanation(tasks=tasks)
