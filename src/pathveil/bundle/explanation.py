"""Why a model chose a code: places in the report's own text, with what each adds to the code's score.

A network's logit divides exactly among the windows of words its filters chose (``pathveil.model.explain``), a linear
view's among its words. The score of a code is the blend's sum of both, the networks' parts averaged; what a place adds
is summed over the views that point at it. Places are offsets into the text: nothing of the text itself is kept.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np

from pathveil.bundle.coder import Code, Coder
from pathveil.bundle.model import Model
from pathveil.model.explain import explain, spans
from pathveil.results import Part, Result
from pathveil.text import tokenize_spans
from pathveil.training.linear import weighted_counts
from pathveil.vocabulary.words import FIRST_WORD

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


def explain_codes(model: Model, text: str, codes: Mapping[str, Code], *, top: int = TOP) -> Explanation:
    """The ``top`` places of a report's text behind each of the codes that it was given."""
    found = tokenize_spans(text, words=model.clip, identifiers=model.identifiers)
    ids = np.array([model.vocabulary.id_of(word) for word, _, _ in found], np.int32)
    where = [(start, end) for _, start, end in found]
    ensemble = model.ensemble()
    tasks = {}
    for task, code in codes.items():
        label = model.labels[task].index(code.code)
        share, *linear_share = model.blend[task]
        weights: defaultdict[tuple[int, int], float] = defaultdict(float)
        for member in ensemble.members:
            for start, end, weight in spans(explain(member, ids.tolist(), task=task, label=label), where):
                weights[start, end] += share * weight / len(ensemble.members)
        if ensemble.linear is not None:
            view = ensemble.linear
            document = weighted_counts(ids, np.array([0, len(ids)]), view.idf)
            added = np.zeros(model.vocabulary.size)
            added[document.indices] = document.data * view.weights[task][label, document.indices] * linear_share[0]
            times = np.bincount(ids, minlength=model.vocabulary.size)
            for word, place in zip(ids.tolist(), where, strict=True):
                if word >= FIRST_WORD:
                    weights[place] += float(added[word] / times[word])  # a word's weight is shared by its places
        strongest = sorted(weights.items(), key=lambda item: (-abs(item[1]), item[0]))[:top]
        places = tuple(Place(start=start, end=end, weight=weight) for (start, end), weight in strongest)
        tasks[task] = Reasons(code=code, places=places)
    return Explanation(tasks=tasks)
