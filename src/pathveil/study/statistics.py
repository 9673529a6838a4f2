"""The tests behind the findings: paired differences over folds, registries and seeds, with multiplicity in mind.

A finding compares two arms (two vocabularies, two modes) on the same folds, registries and seeds. Each pair gives one
difference; differences of one block (a fold, or a registry with its seeds) are not independent, so they are averaged
within blocks first and blocks are the units. With few units a normal approximation is a guess: ``sign_flip`` counts all
2ⁿ ways the signs could have fallen (every one equally likely if the arms were alike) and needs nothing else.

>>> import numpy as np
>>> differences = np.array([0.02, 0.03, 0.01, 0.04, 0.02, 0.03, 0.02])
>>> round(sign_flip(differences), 4)  # all seven positive: 1 in 2⁷, one-sided
0.0078
>>> [round(value, 3) for value in holm([0.01, 0.04, 0.03])]
[0.03, 0.06, 0.06]
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

EXACT = 16  # units up to which all sign patterns are counted; beyond, a seeded sample of them
SAMPLED = 100_000

Answer = bool | None


@dataclass(frozen=True)
class Comparison:
    """A mean paired difference with its 95 % interval and one-sided p-value for being above zero."""

    mean: float
    low: float
    high: float
    p: float
    units: int


def block_means(values: Sequence[float], blocks: Sequence[Hashable]) -> np.ndarray:
    """One mean a block, in the order blocks first appear.

    >>> block_means([1.0, 3.0, 10.0], ["R1", "R1", "R2"]).tolist()
    [2.0, 10.0]
    """
    grouped: dict[Hashable, list[float]] = {}
    for value, block in zip(values, blocks, strict=True):
        grouped.setdefault(block, []).append(value)
    return np.array([np.mean(group) for group in grouped.values()])


def sign_flip(differences: np.ndarray, *, seed: int = 0) -> float:
    """One-sided p-value that the mean difference is above zero, by flipping signs."""
    n = len(differences)
    if n == 0:
        return 1.0
    if n <= EXACT:
        signs = 1 - 2 * ((np.arange(2**n)[:, None] >> np.arange(n)) & 1)  # (2ⁿ, n)
        means = signs @ differences
        return float((means >= differences.sum() - 1e-12).mean())
    signs = np.random.default_rng(seed).integers(0, 2, (SAMPLED, n)) * 2 - 1
    reached = (signs @ differences >= differences.sum() - 1e-12).sum()
    return float((reached + 1) / (SAMPLED + 1))


def compare(
    first: Sequence[float], second: Sequence[float], *, blocks: Sequence[Hashable], confidence: float = 0.95
) -> Comparison:
    """First minus second, paired; the interval is Student's over block means (no interval with a single block)."""
    differences = block_means(list(np.subtract(first, second)), blocks)
    mean = float(differences.mean())
    if len(differences) < 2:
        return Comparison(mean, float("-inf"), float("inf"), 1.0, len(differences))
    half = stats.t.ppf((1 + confidence) / 2, len(differences) - 1) * stats.sem(differences)
    return Comparison(mean, mean - half, mean + half, sign_flip(differences), len(differences))


def holm(values: Sequence[float]) -> list[float]:
    """Holm's step-down adjustment: p-values that may be read each by itself although several were asked at once."""
    order = np.argsort(values, kind="stable")
    adjusted, highest = np.empty(len(values)), 0.0
    for rank, place in enumerate(order):
        highest = max(highest, min(1.0, (len(values) - rank) * values[place]))
        adjusted[place] = highest
    return adjusted.tolist()


def above(comparison: Comparison, *, p: float | None = None, level: float = 0.05) -> Answer:
    """Is the first arm above the second? True if the (adjusted) test says so; False if it is not, with the interval
    excluding a difference of that sign; None where the data do not say."""
    if (comparison.p if p is None else p) <= level and comparison.mean > 0:
        return True
    return False if comparison.high <= 0 else None


def alike(comparison: Comparison, *, margin: float) -> Answer:
    """Are the arms indistinguishable, to a margin? True if the whole 95 % interval lies within ±margin, False if it
    lies wholly outside, None where it straddles an edge.

    >>> alike(Comparison(0.001, -0.004, 0.006, 0.4, 7), margin=0.01)
    True
    >>> alike(Comparison(-0.03, -0.04, -0.02, 1.0, 7), margin=0.01)
    False
    """
    if -margin <= comparison.low and comparison.high <= margin:
        return True
    return False if comparison.high < -margin or comparison.low > margin else None
