"""The intervals behind the findings: paired differences over folds or registries, all of a study's read at once.

A finding compares two arms (two vocabularies, two modes) on the same folds, or on the same registries and seeds. Each
pair gives one difference; differences of one block (a fold; a registry with its tasks and seeds) are not independent,
so they are averaged within blocks first and blocks are the units. Their mean has Student's interval. Where a study
reads m intervals, each is taken at 1 − 0.05/m (Bonferroni), so that all of them cover what they estimate in 95 of 100
studies, however they depend on each other; an answer in either direction is read off such an interval.

Why not an exact test: the signs of seven differences can fall in 128 ways, so no p-value is below 1/128, and a study
that asks seven things at once could never answer one. Student's interval takes the block means as roughly normal.

>>> comparison = compare([0.72, 0.73, 0.71, 0.74], [0.70, 0.70, 0.70, 0.70], blocks=["R1", "R2", "R3", "R4"])
>>> [[round(end, 3) for end in comparison.interval(level)] for level in (0.95, confidence_of_each(11))]
[[0.004, 0.046], [-0.025, 0.075]]
>>> above(comparison), above(comparison, confidence=confidence_of_each(11))
(True, None)
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

CONFIDENCE = 0.95

Answer = bool | None


def confidence_of_each(intervals: int) -> float:
    """The confidence at which each of so many intervals is taken for all of them to cover at 95 %.

    >>> confidence_of_each(1), confidence_of_each(10)
    (0.95, 0.995)
    """
    return 1 - (1 - CONFIDENCE) / max(1, intervals)


@dataclass(frozen=True)
class Comparison:
    """A mean paired difference, its standard error, and the number of units it rests on."""

    mean: float
    error: float
    units: int

    def interval(self, confidence: float = CONFIDENCE) -> tuple[float, float]:
        """Student's; unbounded where one unit says nothing about how units vary."""
        if self.units < 2:
            return float("-inf"), float("inf")
        half = float(stats.t.ppf((1 + confidence) / 2, self.units - 1)) * self.error
        return self.mean - half, self.mean + half

    @property
    def p(self) -> float:
        """Two-sided, of no difference: below 1 − confidence just where that interval leaves zero out."""
        if self.units < 2 or self.mean == 0:
            return 1.0
        return float(2 * stats.t.sf(abs(self.mean) / self.error, self.units - 1)) if self.error else 0.0


def block_means(values: Sequence[float], blocks: Sequence[Hashable]) -> np.ndarray:
    """One mean a block, in the order blocks first appear.

    >>> block_means([1.0, 3.0, 10.0], ["R1", "R1", "R2"]).tolist()
    [2.0, 10.0]
    """
    grouped: dict[Hashable, list[float]] = {}
    for value, block in zip(values, blocks, strict=True):
        grouped.setdefault(block, []).append(value)
    return np.array([np.mean(group) for group in grouped.values()])


def compare(first: Sequence[float], second: Sequence[float], *, blocks: Sequence[Hashable]) -> Comparison:
    """First minus second, paired, over block means."""
    differences = block_means(list(np.subtract(first, second)), blocks)
    error = float(stats.sem(differences)) if len(differences) > 1 else 0.0
    return Comparison(float(differences.mean()), error, len(differences))


def above(comparison: Comparison, *, confidence: float = CONFIDENCE) -> Answer:
    """Is the first arm above the second? True if the whole interval is, False if none of it is, None otherwise."""
    low, high = comparison.interval(confidence)
    if low > 0:
        return True
    return False if high <= 0 else None


def alike(comparison: Comparison, *, margin: float, confidence: float = CONFIDENCE) -> Answer:
    """Are the arms indistinguishable, to a margin? True if the whole interval lies within ±margin, False if it lies
    wholly outside, None where it straddles an edge.

    >>> alike(Comparison(0.001, 0.002, 7), margin=0.01)
    True
    >>> alike(Comparison(-0.03, 0.004, 7), margin=0.01)
    False
    """
    low, high = comparison.interval(confidence)
    if -margin <= low and high <= margin:
        return True
    return False if high < -margin or low > margin else None
