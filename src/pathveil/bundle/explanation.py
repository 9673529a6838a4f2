"""Why a model chose a code: places in the report's own text, with what each adds to the code's score.

A network's logit divides exactly among the windows of words its filters chose (``pathveil.model.explain``), a linear
view's among its words. The score of a code is the blend's sum of both, the networks' parts averaged; what a place adds
is summed over the views that point at it. Places are offsets into the text: nothing of the text itself is kept.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pathveil.bundle.coder import FEW, Code, Coder, decide
from pathveil.bundle.model import Model
from pathveil.results import Part, Result
from pathveil.text import tokenize_spans
from pathveil.training.linear import weighted_counts
from pathveil.vocabulary.words import FIRST_WORD

if TYPE_CHECKING:
    from pathveil.training.ensemble import LinearView

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


class Reading(NamedTuple):
    """What is behind a model's answers to one text: its words, and the windows that each network's filters chose."""

    ids: np.ndarray  # (words,)
    begins: np.ndarray  # (words,) characters of the text
    ends: np.ndarray
    features: np.ndarray  # (networks, K, F)
    starts: np.ndarray  # (networks, K, F) the word at which each feature's window starts; −1 for a feature of zero


def read_to_explain(coder: Coder, texts: Sequence[str]) -> tuple[dict[str, np.ndarray], np.ndarray, list[Reading]]:
    """What ``Coder.read`` gives, and what explains it, from one run of the networks."""
    if len(texts) > FEW:
        coder.prepare()
    model = coder.model
    found = [tokenize_spans(text, words=model.clip, identifiers=model.identifiers) for text in texts]
    numbers = {word: model.vocabulary.id_of(word) for word in {span[0] for spans in found for span in spans}}
    ids = np.array([numbers[span[0]] for spans in found for span in spans], np.int32)
    offsets = np.cumsum([0, *map(len, found)])
    logs, features, starts = coder.ensemble.read_windows(ids, offsets)
    readings = []
    for row, spans in enumerate(found):
        begins, ends = np.array([span[1:] for span in spans], np.int64).reshape(-1, 2).T
        own = ids[offsets[row] : offsets[row + 1]]
        readings.append(Reading(own, begins, ends, features[row], starts[row]))
    empty = np.array([not (reading.ids >= FIRST_WORD).any() for reading in readings])
    return logs, empty, readings


def explain_text(model: Model, text: str, *, top: int = TOP) -> Explanation:
    """Each task's code for one report, and the ``top`` places behind it."""
    coder = Coder(model)
    logs, empty, (reading,) = read_to_explain(coder, [text])
    (codes,) = decide(model, logs, empty=empty)
    return explain_reading(coder, reading, codes, top=top)


def explain_codes(model: Model, text: str, codes: Mapping[str, Code], *, top: int = TOP) -> Explanation:
    """The ``top`` places of a report's text behind each of the codes that it was given."""
    coder = Coder(model)
    _, _, (reading,) = read_to_explain(coder, [text])
    return explain_reading(coder, reading, codes, top=top)


def explain_reading(coder: Coder, reading: Reading, codes: Mapping[str, Code], *, top: int = TOP) -> Explanation:
    """The same for a report that was read already."""
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
    linear = linear_weights(ensemble.linear, ids[known], codes, model) if ensemble.linear else {}
    tasks = {}
    for task, code in codes.items():
        label = model.labels[task].index(code.code)
        heads = np.stack([member.head(task)[0][label].detach().cpu().numpy() for member in members])  # (networks, K·F)
        added = reading.features.astype(np.float64) * heads.reshape(won.shape)
        weights = np.concatenate([added[won] * model.blend[task][0] / len(members), linear.get(task, ())])
        total = np.bincount(place, weights=weights, minlength=len(pairs))
        strongest = np.argsort(-np.abs(total), kind="stable")[:top]  # of equals the first in the text
        starts, stops = np.divmod(pairs[strongest], width)
        places = zip(starts.tolist(), stops.tolist(), total[strongest].tolist(), strict=True)
        tasks[task] = Reasons(code=code, places=tuple(Place(start=a, end=b, weight=w) for a, b, w in places))
    return Explanation(tasks=tasks)


def linear_weights(
    view: "LinearView", ids: np.ndarray, codes: Mapping[str, Code], model: Model
) -> dict[str, np.ndarray]:
    """What each word of a report adds to each task's code by the linear view; its places share a word's weight."""
    document = weighted_counts(ids, np.array([0, len(ids)]), view.idf)
    words, order = document.indices, np.argsort(document.indices)
    where, times = np.searchsorted(words[order], ids), np.bincount(ids, minlength=model.vocabulary.size)
    found = {}
    for task, code in codes.items():
        label = model.labels[task].index(code.code)
        each = document.data * view.weights[task][label, words] * model.blend[task][1] / times[words]
        found[task] = each[order][where].astype(np.float64)
    return found
