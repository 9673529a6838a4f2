"""How well an attack tells members from non-members: ROC, AUC, TPR at a low FPR, accuracy, each with its interval.

A score is higher for records that look more like members. Low false-positive rates are where an attack harms people
(Carlini et al., 2022, "Membership Inference Attacks From First Principles"), and where a handful of non-members proves
nothing. So a TPR at a fixed FPR comes with an interval that carries both uncertainties, the threshold's (how many
non-members lie above it in truth) and the TPR's own, each by Clopper and Pearson at half the risk; and where the
non-members are too few for any threshold to be known to hold the FPR, the answer is that it cannot be measured.
Reports of one case are not independent: sample sizes are numbers of cases, and resampling is by case.

>>> import numpy as np
>>> member = np.array([1, 1, 1, 0, 0, 0], bool)
>>> auc(np.array([3.0, 2.0, 1.0, 2.5, 0.5, 0.2]), member).round(3)
np.float64(0.778)
>>> non_members_needed(0.01), non_members_needed(0.001)
(437, 4380)
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.special import betaincinv
from scipy.stats import binom, rankdata

from pathveil.auditing.resamples import Resamples

CONFIDENCE = 0.95
FPRS = (0.1, 0.01, 0.001)


@dataclass(frozen=True)
class Estimate:
    """A number and its interval; ``value`` is NaN where it cannot be measured, and ``note`` then says why."""

    value: float
    low: float
    high: float
    note: str = ""

    def as_json(self) -> dict[str, float | str | None]:
        content: dict[str, float | str | None] = {
            "value": None if math.isnan(self.value) else round(self.value, 6),
            "low": round(self.low, 6),
            "high": round(self.high, 6),
        }
        return content | ({"note": self.note} if self.note else {})


def roc(scores: np.ndarray, member: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """False- and true-positive rates of every threshold, from (0, 0) to (1, 1); equal scores share one point."""
    order = np.argsort(-scores, kind="stable")
    ranked, positive = scores[order], member[order]
    last = np.append(np.flatnonzero(np.diff(ranked)), len(ranked) - 1)  # the end of each run of equal scores
    tpr = np.cumsum(positive)[last] / positive.sum()
    fpr = np.cumsum(~positive)[last] / (~positive).sum()
    return np.append(0.0, fpr), np.append(0.0, tpr)


def auc(scores: np.ndarray, member: np.ndarray) -> np.float64:
    """The chance that a member scores above a non-member, ties counting one half."""
    members = int(member.sum())
    others = len(member) - members
    ranks = rankdata(scores)[member].sum()
    return np.float64((ranks - members * (members + 1) / 2) / (members * others))


def tpr_at(curve: tuple[np.ndarray, np.ndarray], fpr: float) -> float:
    """The TPR of the best threshold whose FPR is at most ``fpr``; within a run of ties the attacker tosses a coin."""
    x, y = curve
    at = int(np.searchsorted(x, fpr, side="right")) - 1
    if at == len(x) - 1:
        return float(y[at])
    return float(y[at] + (y[at + 1] - y[at]) * (fpr - x[at]) / (x[at + 1] - x[at]))


def clopper_pearson(share: float, n: int, *, risk: float) -> tuple[float, float]:
    """Bounds on a proportion, each wrong with chance at most ``risk``; ``share * n`` need not be whole."""
    k = share * n
    low = 0.0 if k <= 0 else float(betaincinv(k, n - k + 1, risk))
    high = 1.0 if k >= n else float(betaincinv(k + 1, n - k, 1 - risk))
    return low, high


def non_members_needed(fpr: float, *, confidence: float = CONFIDENCE) -> int:
    """The fewest non-member cases with which some threshold is known to have at most this FPR."""
    return math.ceil(math.log((1 - confidence) / 4) / math.log1p(-fpr))


def tpr_interval(
    curve: tuple[np.ndarray, np.ndarray],
    fpr: float,
    *,
    member_cases: int,
    non_member_cases: int,
    confidence: float = CONFIDENCE,
) -> Estimate:
    """The TPR at a true FPR of ``fpr``, with a distribution-free interval.

    The two-sided risk is shared by four events: the threshold's FPR is above or below what it seems, the TPR there is
    above or below what it seems. The lower bound stands on a threshold strict enough that its true FPR is surely at
    most ``fpr``, the upper bound on one loose enough that it is surely at least that.
    """
    risk = (1 - confidence) / 4
    strict, loose = _likely_counts(non_member_cases, fpr, risk)
    high = clopper_pearson(tpr_at(curve, loose / non_member_cases), member_cases, risk=risk)[1]
    if strict < 0:
        needed = non_members_needed(fpr, confidence=confidence)
        note = f"cannot be measured with {non_member_cases} non-member cases; at least {needed} are needed"
        return Estimate(math.nan, 0.0, high, note)
    low = clopper_pearson(tpr_at(curve, strict / non_member_cases), member_cases, risk=risk)[0]
    return Estimate(tpr_at(curve, fpr), low, high)


@cache
def _likely_counts(n: int, fpr: float, risk: float) -> tuple[int, int]:
    """Of ``n`` non-members so many lie above a threshold of true FPR ``fpr``: fewer than the first plus one, or more
    than the second, only with chance ``risk`` each. The first is −1 where even none at all is likely."""
    strict = int(binom.ppf(risk, n, fpr)) - 1
    if binom.cdf(strict + 1, n, fpr) <= risk:
        strict += 1
    return strict, int(binom.isf(risk, n, fpr))


def auc_estimate(
    scores: np.ndarray, member: np.ndarray, drawn: Resamples, *, confidence: float = CONFIDENCE
) -> Estimate:
    value = float(auc(scores, member))
    return Estimate(value, *_percentiles(drawn.auc(scores, member), confidence, value))


def rows_by_class(member: np.ndarray, classes: np.ndarray) -> list[np.ndarray]:
    """The records of each class that has members and non-members; without a non-member no guess can be wrong there.

    >>> rows_by_class(np.array([True, False, True, True]), np.array([5, 5, 7, -1]))
    [array([0, 1])]
    """
    both = np.intersect1d(classes[member], classes[~member])
    return [np.flatnonzero(classes == label) for label in both[both >= 0]]


def class_accuracy(
    guess: np.ndarray, member: np.ndarray, classes: np.ndarray, drawn: Resamples, *, confidence: float = CONFIDENCE
) -> Estimate:
    """The vocabulary paper's accuracy: the share of right guesses in each class, averaged over the classes.

    Each class has an attack model of its own, and the paper's table and figure average over "all the attack models".
    """
    right, groups = guess == member, rows_by_class(member, classes)
    if not groups:
        return Estimate(math.nan, 0.0, 1.0, "no class has both members and non-members")
    with np.errstate(invalid="ignore", divide="ignore"):
        shares = [drawn.of(rows[right[rows]]).times() / drawn.of(rows).times() for rows in groups]
    value = float(np.mean([right[rows].mean() for rows in groups]))
    return Estimate(value, *_percentiles(_mean_of_known(np.stack(shares)), confidence, value))


def _mean_of_known(values: np.ndarray) -> np.ndarray:
    """Column means without NaN: a resample may have drawn no record of a class."""
    known = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        return np.where(known, values, 0).sum(axis=0) / known.sum(axis=0)


def report_accuracies(
    guess: np.ndarray, member: np.ndarray, drawn: Resamples, *, confidence: float = CONFIDENCE
) -> tuple[Estimate, Estimate]:
    """Share of right guesses over all records, and its mean over members and non-members (the balanced figure)."""
    right = guess == member
    members, others = drawn.of(member).times(), drawn.of(~member).times()  # (resamples,) each
    found, spared = drawn.of(member & right).times(), drawn.of(~member & right).times()
    with np.errstate(invalid="ignore", divide="ignore"):
        plain = (found + spared) / (members + others)
        balanced = (found / members + spared / others) / 2
    value = float(right.mean())
    value_balanced = float((right[member].mean() + right[~member].mean()) / 2)
    return (
        Estimate(value, *_percentiles(plain, confidence, value)),
        Estimate(value_balanced, *_percentiles(balanced, confidence, value_balanced)),
    )


def _percentiles(resampled: np.ndarray, confidence: float, value: float) -> tuple[float, float]:
    tail = (1 - confidence) / 2
    low, high = np.nanquantile(resampled, [tail, 1 - tail])
    return min(float(low), value), max(float(high), value)


def halves(cases: np.ndarray, *, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(learn, apply) masks, twice: what is fitted on one half of the cases is used on the other."""
    names, place = np.unique(cases, return_inverse=True)
    first = np.random.default_rng(seed).permutation(len(names)) < len(names) / 2
    mask = first[place]
    yield mask, ~mask
    yield ~mask, mask


def best_threshold(scores: np.ndarray, member: np.ndarray) -> float:
    """The cut with the highest balanced accuracy: guess member at or above it."""
    distinct = np.unique(scores)[::-1]
    fpr, tpr = roc(scores, member)
    best = int(np.argmax(tpr - fpr))
    return math.inf if best == 0 else float(distinct[best - 1])


def cross_fitted_guess(scores: np.ndarray, member: np.ndarray, cases: np.ndarray, *, seed: int = 0) -> np.ndarray:
    """Member or not, by a threshold learned on the other half of the cases, so that its accuracy is not flattered."""
    guess = np.zeros(len(scores), bool)
    for learn, use in halves(cases, seed=seed):
        if member[learn].all() or not member[learn].any():
            guess[use] = scores[use] >= np.median(scores)  # nothing to learn from: split in the middle
        else:
            guess[use] = scores[use] >= best_threshold(scores[learn], member[learn])
    return guess
