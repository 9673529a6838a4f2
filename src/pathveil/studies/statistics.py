"""The intervals behind the findings: paired differences over folds or registries, all of a study's read at once.

A finding compares two arms (two vocabularies, two modes) on the same folds, or on the same registries and seeds. Each
pair gives one difference; differences of one block (a fold; a registry with its tasks and seeds) are not independent,
so they are averaged within blocks first and blocks are the units. Their mean has Student's interval. Where a study
reads m intervals, each is taken at 1 − 0.05/m (Bonferroni), so that all of them cover what they estimate in 95 of 100
studies, however they depend on each other; an answer in either direction is read off such an interval.

A block may be met several times (*repeats*: other splits of its cases, other starts). They are averaged first too: for
a balanced study that is what a mixed model with a random effect a block says of its mean. They do not add units, they
take chance out of a unit: the variance of a block's mean is that between blocks plus that within them divided by the
repeats, and the two parts say what more of either would give (``studies.power``).

Two questions are asked of the same differences. *Would it be so at other registries?* is answered by the blocks alone.
*Is it so at these registries?* takes them as given and asks about other cases of theirs and other trainings:
``among_these`` puts the error that a bootstrap over cases finds beside the spread of repeats.

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
    repeats: int = 1  # of a unit; the fewest that any has
    within: float | None = None  # spread of a repeat's difference about its unit's, where there are repeats

    @property
    def between(self) -> float:
        """Spread of the units' own differences, what repeats vary by taken out (nothing, where there is one)."""
        chance = 0.0 if self.within is None else self.within**2 / self.repeats
        return max(self.units * self.error**2 - chance, 0.0) ** 0.5

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


def compare(
    first: Sequence[float],
    second: Sequence[float],
    *,
    blocks: Sequence[Hashable],
    repeats: Sequence[Hashable] | None = None,
) -> Comparison:
    """First minus second, paired, over block means; ``repeats`` says which repeat of its block a pair belongs to.

    >>> pairs = {"blocks": ["R1", "R1", "R2", "R2"], "repeats": [1, 2, 1, 2]}
    >>> found = compare([0.1, 0.3, 0.5, 0.7], [0.0] * 4, **pairs)
    >>> found.units, found.repeats, round(found.within, 3), round(found.between, 3)
    (2, 2, 0.141, 0.265)
    """
    whole = list(np.subtract(first, second))
    differences = block_means(whole, blocks)
    error = float(stats.sem(differences)) if len(differences) > 1 else 0.0
    groups: dict[Hashable, dict[Hashable, list[float]]] = {}
    for value, block, repeat in zip(whole, blocks, repeats or [0] * len(whole), strict=True):
        groups.setdefault(block, {}).setdefault(repeat, []).append(value)
    fewest = min(map(len, groups.values()))
    own = [np.array([np.mean(group) for group in of.values()]) for of in groups.values()]
    squares = sum(float(((values - values.mean()) ** 2).sum()) for values in own)
    freedom = sum(len(values) - 1 for values in own)
    within = (squares / freedom) ** 0.5 if fewest > 1 else None
    return Comparison(float(differences.mean()), error, len(differences), fewest, within)


def among_these(comparison: Comparison, case_error: float, *, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """The interval for the units at hand: over other cases of theirs, whose part a bootstrap found (``case_error``),
    and over other splits and trainings, whose part the repeats show. Other splits test other cases, so part of what
    cases vary by is counted twice: it is rather too wide.

    >>> found = Comparison(0.01, 0.02, 7, repeats=6, within=0.03)
    >>> [round(end, 4) for end in among_these(found, 0.001)], [round(end, 4) for end in found.interval()]
    ([0.0004, 0.0196], [-0.0389, 0.0589])
    """
    if comparison.within is None:
        return float("-inf"), float("inf")
    error = float(np.hypot(case_error, comparison.within / (comparison.units * comparison.repeats) ** 0.5))
    freedom = comparison.units * (comparison.repeats - 1)
    half = float(stats.t.ppf((1 + confidence) / 2, freedom)) * error
    return comparison.mean - half, comparison.mean + half


def above(comparison: Comparison, *, confidence: float = CONFIDENCE) -> Answer:
    """Is the first arm above the second? True if the whole interval is, False if none of it is, None otherwise."""
    return wholly_above(*comparison.interval(confidence))


def wholly_above(low: float, high: float) -> Answer:
    """What an interval says of being above zero."""
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
    return wholly_within(*comparison.interval(confidence), margin=margin)


def wholly_within(low: float, high: float, *, margin: float) -> Answer:
    """What an interval says of lying within a margin of zero."""
    if -margin <= low and high <= margin:
        return True
    return False if high < -margin or low > margin else None
