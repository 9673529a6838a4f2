"""Why a bundle chose a code: places in the report's own text, with what each adds to the code's score.

A network's logit divides exactly among the windows of words its filters chose (``pathveil.model.explain``), a linear
view's among its words. The score of a code is the blend's sum of both, the networks' parts averaged; what a place adds
is summed over the views that point at it. Places are offsets into the text: nothing of the text itself is kept.
"""

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from pathveil.bundle.coder import Code, Coder, clip_of
from pathveil.bundle.folder import Bundle
from pathveil.model.explain import explain, spans
from pathveil.text import tokenize_spans
from pathveil.training.linear import weighted_counts
from pathveil.vocabulary.words import FIRST_WORD

TOP = 8  # places shown a task


@dataclass(frozen=True)
class Reason:
    """A task's code and the places in the text that speak most for and against it, strongest first."""

    code: Code
    places: tuple[tuple[int, int, float], ...]  # (start, end, weight) into the text

    def as_dict(self) -> dict[str, object]:
        return {"places": [{"start": a, "end": b, "weight": round(weight, 4)} for a, b, weight in self.places]}


def explain_text(bundle: Bundle, text: str, *, top: int = TOP) -> dict[str, Reason]:
    """Each task's code for one report, and the ``top`` places behind it."""
    (codes,) = Coder(bundle).code([text])
    found = tokenize_spans(text, words=clip_of(bundle))
    ids = np.array([bundle.vocabulary.id_of(word) for word, _, _ in found], np.int32)
    where = [(start, end) for _, start, end in found]
    reasons = {}
    for task, code in codes.items():
        label = bundle.labels[task].index(code.code)
        share, *linear_share = bundle.blend[task]
        weights: defaultdict[tuple[int, int], float] = defaultdict(float)
        for member in bundle.model.members:
            for start, end, weight in spans(explain(member, ids.tolist(), task=task, label=label), where):
                weights[start, end] += share * weight / len(bundle.model.members)
        if bundle.model.linear is not None:
            view = bundle.model.linear
            document = weighted_counts(ids, np.array([0, len(ids)]), view.idf)
            added = np.zeros(bundle.vocabulary.size)
            added[document.indices] = document.data * view.weights[task][label, document.indices] * linear_share[0]
            times = np.bincount(ids, minlength=bundle.vocabulary.size)
            for word, place in zip(ids.tolist(), where, strict=True):
                if word >= FIRST_WORD:
                    weights[place] += float(added[word] / times[word])  # a word's weight is shared by its places
        strongest = sorted(weights.items(), key=lambda item: (-abs(item[1]), item[0]))[:top]
        reasons[task] = Reason(code, tuple((start, end, weight) for (start, end), weight in strongest))
    return reasons
