"""What the choice of cases does to a comparison: a paired bootstrap over cases, through all folds, repeats and tasks.

A case stands in several folds and repeats at once, as a member here and unseen there. So one resample draws every
registry's cases anew, once, and each figure of every model is computed again with the cases' new weights; both arms of
a comparison meet the same resample. The spread of the mean difference over resamples is the part of its error that
comes from these cases and not others (``statistics.among_these`` adds the part that trainings have). Models are not
trained again.

Macro F1 keeps the classes that a model met: one that a resample has no case of counts nothing in both arms.

>>> draws = CaseDraws(cases=np.arange(4), registries=np.array([0, 0, 1, 1]), resamples=3)
>>> draws.of(np.array([0, 1])).sum(0).tolist()  # two cases of a registry are drawn anew as two
[2.0, 2.0, 2.0]
"""

from collections import defaultdict
from collections.abc import Hashable, Sequence

import numpy as np
from scipy import sparse

from pathveil.auditing.metrics import rows_by_class
from pathveil.rng import generator

RESAMPLES = 400

Place = tuple[Hashable, Hashable, Hashable]  # a block, a repeat, a task


class CaseDraws:
    """How often each case is drawn in each resample, registries apart."""

    def __init__(self, *, cases: np.ndarray, registries: np.ndarray, resamples: int = RESAMPLES, seed: int = 0):
        names, first, self.place = np.unique(cases, return_index=True, return_inverse=True)
        self.cases, self.resamples = len(names), resamples
        self.weights = np.zeros((len(names), resamples), np.float32)
        own = np.asarray(registries)[first]  # a case of two registries counts as the first one's
        rng = generator(seed, 3)
        for registry in np.unique(own):
            inside = np.flatnonzero(own == registry)
            drawn = rng.integers(0, len(inside), (resamples, len(inside)))
            for resample, row in enumerate(drawn):
                self.weights[inside, resample] = np.bincount(row, minlength=len(inside))

    def of(self, rows: np.ndarray) -> np.ndarray:
        """Weights of documents (documents, resamples)."""
        return self.weights[self.place[rows]]


def class_accuracies(guess: np.ndarray, member: np.ndarray, classes: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The mean over classes of the share of an attack's right guesses, in every resample."""
    right = (guess == member).astype(np.float32)
    with np.errstate(invalid="ignore"):
        shares = [right[rows] @ weights[rows] / weights[rows].sum(0) for rows in rows_by_class(member, classes)]
    return np.nanmean(shares, axis=0)


def class_scores(
    truth: np.ndarray, said: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # (classes,), (classes, resamples), (resamples,)
    """The classes met, each one's F1 in every resample, and the share of right answers."""
    classes, number = np.unique(np.concatenate([truth, said]), return_inverse=True)
    actual, answered = number[: len(truth)], number[len(truth) :]

    def summed(label: np.ndarray, kept: np.ndarray) -> np.ndarray:
        ones = np.ones(int(kept.sum()), np.float32)
        shape = (len(classes), len(truth))
        return sparse.csr_matrix((ones, (label[kept], np.flatnonzero(kept))), shape=shape) @ weights

    every = np.ones(len(truth), bool)
    hits, claimed, carried = summed(actual, actual == answered), summed(answered, every), summed(actual, every)
    f1 = 2 * hits / np.maximum(claimed + carried, 1)
    return classes, f1, hits.sum(0) / np.maximum(carried.sum(0), 1)


class ResampledFigures:
    """Figures of arms in every resample, by what they are of: what comparisons' errors are read off."""

    def __init__(self, draws: CaseDraws):
        self.draws = draws
        self.values: dict[str, dict[Place, dict[str, np.ndarray]]] = defaultdict(lambda: defaultdict(dict))

    def add(self, figure: str, place: Place, arm: str, resampled: np.ndarray) -> None:
        self.values[figure][place][arm] = resampled

    def add_scores(self, place: Place, arm: str, rows: np.ndarray, truth: np.ndarray, said: np.ndarray) -> None:
        """Micro and macro F1 of a model's answers to the documents that have a label."""
        known = truth >= 0
        _, f1, micro = class_scores(truth[known], said[known], self.draws.of(rows[known]))
        self.add("micro", place, arm, micro)
        self.add("macro", place, arm, f1.mean(0))
        self.add("macro − micro", place, arm, f1.mean(0) - micro)

    def error(self, figure: str, arms: Sequence[str]) -> float | None:
        """The standard error of first minus second, averaged within blocks and over them; None where no place has
        both."""
        blocks: dict[Hashable, list[np.ndarray]] = {}
        for place, found in self.values[figure].items():
            if arms[0] in found and arms[1] in found:
                blocks.setdefault(place[0], []).append(found[arms[0]] - found[arms[1]])
        if not blocks:
            return None
        whole = np.mean([np.mean(own, axis=0) for own in blocks.values()], axis=0)
        return float(whole.std(ddof=1))
