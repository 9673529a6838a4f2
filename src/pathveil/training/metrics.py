"""Micro and macro F1, accuracy and per-class F1, with bootstrap 95 % intervals by case.

Every document has one label and one prediction, both numbers; −1 is a missing label, and such a document is left out. A
label the model never saw is any number it cannot predict: always an error. Macro F1 is the mean over all classes that
occur as a label or a prediction, as scikit-learn's.

Cases are resampled, not documents: reports of one patient are not independent. A resample is a row of case counts; a
product with three sparse indicator matrices (hits, predictions, labels by class) gives every count of every resample at
once, so a thousand resamples of 50,000 documents and 326 classes take seconds. Two resampling schemes are used:
- micro F1, accuracy: cases drawn from all cases;
- macro F1, per-class F1: cases drawn within classes (the rarest label of a case is its stratum). In a plain bootstrap
  rare classes vanish from many resamples, and the mean over those that are left comes out too high. A class of one case
  has no spread in this scheme: the interval speaks of the classes that were observed.

>>> import numpy as np
>>> truth = np.array([0, 0, 0, 1, 1, 2, -1])
>>> predicted = np.array([0, 0, 1, 1, 1, 0, 2])
>>> scores = evaluate(truth, predicted, cases=np.arange(7), resamples=200, seed=1)
>>> scores.documents, round(scores.micro.value, 3), round(scores.macro.value, 3)
(6, 0.667, 0.489)
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from pathveil.rng import generator
from pathveil.training.scores import Interval

BLOCK_CELLS = 8_000_000  # case counts held at a time: 32 MB as float32


@dataclass(frozen=True)
class ClassScore:
    """How one class fares."""

    label: int
    support: int  # documents that carry it
    precision: float
    recall: float
    f1: Interval


@dataclass(frozen=True)
class TaskScores:
    """How a model fares on one task."""

    documents: int  # with a label
    micro: Interval
    macro: Interval
    accuracy: Interval
    per_class: tuple[ClassScore, ...]

    def as_dict(self) -> dict[str, dict[str, float]]:
        """The contract's three figures."""
        return {"micro": self.micro.as_dict(), "macro": self.macro.as_dict(), "accuracy": self.accuracy.as_dict()}


def evaluate(
    truth: np.ndarray, predicted: np.ndarray, *, cases: np.ndarray, resamples: int = 1000, seed: int = 0
) -> TaskScores:
    """Scores of one task with their intervals; documents with truth −1 are left out."""
    task = _Labelled(truth, cases)
    hits = _counts(task, predicted)
    f1 = _f1(*hits.whole())
    accuracy = task.accuracy(predicted)
    micro_draws, macro_draws, class_draws = [], [], []
    for draw in task.draws(resamples, seed, stratified=False):
        tp, _, carried = hits.of(draw)
        micro_draws.append(tp.sum(0) / np.maximum(carried.sum(0), 1))
    for draw in task.draws(resamples, seed, stratified=True):
        resampled = _f1(*hits.of(draw))  # (classes, resamples in the block)
        macro_draws.append(resampled.mean(0))
        class_draws.append(resampled)
    micro = _interval(accuracy, np.concatenate(micro_draws))
    macro = _interval(float(f1.mean()), np.concatenate(macro_draws))
    low, high = np.percentile(np.concatenate(class_draws, axis=1), [2.5, 97.5], axis=1)
    tp, said, carried = hits.whole()
    per_class = tuple(
        ClassScore(
            label=int(label),
            support=int(carried[row]),
            precision=float(tp[row] / said[row]) if said[row] else 0.0,
            recall=float(tp[row] / carried[row]) if carried[row] else 0.0,
            f1=Interval(float(f1[row]), float(low[row]), float(high[row])),
        )
        for row, label in enumerate(hits.classes)
    )
    # Each document has exactly one label and one prediction, so every false positive is also a false negative, and
    # micro F1 is the accuracy.
    return TaskScores(documents=task.documents, micro=micro, macro=macro, accuracy=micro, per_class=per_class)


def paired_difference(
    truth: np.ndarray,
    first: np.ndarray,
    second: np.ndarray,
    *,
    cases: np.ndarray,
    resamples: int = 1000,
    seed: int = 0,
) -> dict[str, Interval]:
    """Micro and macro F1 of ``first`` minus those of ``second`` on the same resamples: narrower than two intervals.

    >>> truth = np.array([0, 0, 1, 1] * 50)
    >>> better, worse = truth.copy(), truth.copy()
    >>> worse[:20] = 0
    >>> difference = paired_difference(truth, better, worse, cases=np.arange(200))
    >>> round(difference["micro"].value, 3), difference["micro"].low > 0
    (0.05, True)
    """
    task = _Labelled(truth, cases)
    a, b = _counts(task, first), _counts(task, second)
    micro, macro = [], []
    for draw in task.draws(resamples, seed, stratified=False):
        (tp_a, _, carried), (tp_b, _, _) = a.of(draw), b.of(draw)
        micro.append((tp_a.sum(0) - tp_b.sum(0)) / np.maximum(carried.sum(0), 1))
    for draw in task.draws(resamples, seed, stratified=True):
        macro.append(_f1(*a.of(draw)).mean(0) - _f1(*b.of(draw)).mean(0))
    return {
        "micro": _interval(task.accuracy(first) - task.accuracy(second), np.concatenate(micro)),
        "macro": _interval(
            float(_f1(*a.whole()).mean()) - float(_f1(*b.whole()).mean()),
            np.concatenate(macro),
        ),
    }


def macro_f1(truth: np.ndarray, predicted: np.ndarray) -> float:
    """Macro F1 alone, without an interval: for choosing between models on validation cases."""
    task = _Labelled(truth, np.arange(len(truth)))
    return float(_f1(*_counts(task, predicted).whole()).mean())


def commonest_macro_f1(truth: np.ndarray, learnt: np.ndarray) -> float:
    """Macro F1 of always answering the commonest of the labels ``learnt``: what a model must exceed to be any use.

    >>> round(commonest_macro_f1(np.array([0, 0, 0, 1, -1]), np.array([0, 0, 1])), 4)  # 2 · 3 ÷ (4 + 3), 0 of the other
    0.4286
    """
    known = learnt[learnt >= 0]
    answer = np.bincount(known).argmax() if len(known) else -1
    return macro_f1(truth, np.full(len(truth), answer))


class _Labelled:
    """The documents of one task that have a label, their cases numbered from 0, and ways to resample those cases."""

    def __init__(self, truth: np.ndarray, cases: np.ndarray):
        self.rows = np.flatnonzero(np.asarray(truth) >= 0)
        self.documents = len(self.rows)
        if not self.documents:
            raise ValueError("no document has a label")
        self.truth = np.asarray(truth)[self.rows]
        self.case = np.unique(np.asarray(cases)[self.rows], return_inverse=True)[1]
        self.cases = int(self.case.max()) + 1

    def accuracy(self, predicted: np.ndarray) -> float:
        return float((np.asarray(predicted)[self.rows] == self.truth).mean())

    def draws(self, resamples: int, seed: int, *, stratified: bool) -> Iterator[np.ndarray]:
        """Case counts in blocks, each (cases, some resamples) float32."""
        rng = generator(seed, int(stratified))
        order, start, size = self._strata() if stratified else self._one_stratum()
        block = max(1, BLOCK_CELLS // self.cases)
        for done in range(0, resamples, block):
            count = np.empty((min(block, resamples - done), self.cases), np.float32)
            for row in count:
                # A case's place draws one case of its own stratum, so every stratum keeps its size.
                drawn = start + (rng.random(self.cases) * size).astype(np.int64)
                row[:] = np.bincount(order[drawn], minlength=self.cases)
            yield np.ascontiguousarray(count.T)

    def _one_stratum(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return np.arange(self.cases), np.zeros(self.cases, np.int64), np.full(self.cases, self.cases)

    def _strata(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Cases in the order of their strata, and for each place in it the stratum's start and size."""
        _, label, support = np.unique(self.truth, return_inverse=True, return_counts=True)
        # Rank labels from rarest to commonest; a case belongs to the rarest label among its documents.
        rank = np.empty(len(support), np.int64)
        rank[np.argsort(support, kind="stable")] = np.arange(len(support))
        stratum = np.full(self.cases, len(support))
        np.minimum.at(stratum, self.case, rank[label])
        order = np.argsort(stratum, kind="stable")
        _, start, number, size = np.unique(stratum[order], return_index=True, return_inverse=True, return_counts=True)
        return order, start[number], size[number]


@dataclass(frozen=True)
class _Hits:
    """Indicator matrices of one task's predictions, (classes, cases), whose products with case counts give counts."""

    classes: np.ndarray
    matrices: tuple[sparse.csr_matrix, sparse.csr_matrix, sparse.csr_matrix]  # true positives, predicted, actual

    def whole(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        tp, said, carried = (np.asarray(matrix.sum(axis=1)).ravel() for matrix in self.matrices)
        return tp, said, carried

    def of(self, draw: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        tp, said, carried = (matrix @ draw for matrix in self.matrices)  # (classes, resamples) each
        return tp, said, carried


def _counts(task: _Labelled, predicted: np.ndarray) -> _Hits:
    predicted = np.asarray(predicted)[task.rows]
    classes, number = np.unique(np.concatenate([task.truth, predicted]), return_inverse=True)
    actual, said = number[: task.documents], number[task.documents :]

    def indicator(label: np.ndarray, keep: np.ndarray) -> sparse.csr_matrix:
        ones = np.ones(int(keep.sum()), np.float32)
        return sparse.csr_matrix((ones, (label[keep], task.case[keep])), shape=(len(classes), task.cases))

    every = np.ones(task.documents, bool)
    return _Hits(classes, (indicator(actual, actual == said), indicator(said, every), indicator(actual, every)))


def _f1(tp: np.ndarray, said: np.ndarray, carried: np.ndarray) -> np.ndarray:
    """2 TP ÷ (predicted + actual) a class; 0 where a class that is only ever predicted is not in the resample."""
    return 2 * tp / np.maximum(said + carried, 1)


def _interval(value: float, resampled: np.ndarray) -> Interval:
    low, high = np.percentile(resampled, [2.5, 97.5])
    return Interval(float(value), float(low), float(high))
