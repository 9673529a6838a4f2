"""How many registries, and reports of each, would decide a comparison.

A comparison that is undecided leaves behind how much units differ (``between``) and how much a repeat of one unit does
(``within``). With n registries, of which each has f times the reports and is met r times, the mean difference has
the standard error

    √((between² + within² ÷ (r f)) ÷ n)

so more reports and repeats take away chance within a registry, and only more registries what registries differ by. That
the part within falls as reports grow is an assumption: for cases that are tested on it is so, for the chance of a
training roughly. The power of a test for a difference is the noncentral t distribution's; for one of likeness (the
whole interval within a margin, the true difference being none) it is summed over what the error may come out as.

>>> found = Comparison(0.002, 0.008, 7, repeats=6, within=0.02)
>>> round(power_of_difference(0.02, error=found.error, units=7, confidence=0.995), 2)
0.15
>>> registries_needed(found, difference=0.02, confidence=0.995), registries_needed(found, margin=0.01, confidence=0.995)
(19, 79)
"""

from dataclasses import dataclass

import numpy as np
from scipy import stats

from pathveil.studies.statistics import Comparison

POWER = 0.8
MOST_REGISTRIES = 1000
DIFFERENCES = (0.01, 0.02, 0.03)  # that a difference between two arms may be; the papers' own are .02 to .04
REPORTS = (1, 3, 10)  # times the reports of a registry
QUANTILES = (np.arange(400) + 0.5) / 400  # of what a standard error may come out as


@dataclass(frozen=True)
class Needed:
    """The registries that decide a comparison with a chance of 80 %; none where a thousand do not."""

    difference: float  # that there is, or the margin within which there is none
    reports: int  # of a registry, times those of the study
    registries: int | None


def expected_error(comparison: Comparison, *, registries: int, reports: float = 1.0) -> float:
    """The standard error that so many registries with so many times the reports would have."""
    within = comparison.within or 0.0
    chance = within**2 / (comparison.repeats * reports)
    return float(((comparison.between**2 + chance) / registries) ** 0.5)


def power_of_difference(difference: float, *, error: float, units: int, confidence: float) -> float:
    """The chance that an interval over so many units lies wholly on the side where a true difference is."""
    if error == 0:
        return 1.0
    freedom = units - 1
    edge = float(stats.t.ppf((1 + confidence) / 2, freedom))
    return float(stats.nct.sf(edge, freedom, abs(difference) / error))


def power_of_likeness(margin: float, *, error: float, units: int, confidence: float) -> float:
    """The chance that an interval lies wholly within a margin where there is no difference."""
    if error == 0:
        return 1.0
    freedom = units - 1
    edge = float(stats.t.ppf((1 + confidence) / 2, freedom))
    found = error * np.sqrt(stats.chi2.ppf(QUANTILES, freedom) / freedom)  # errors, each as likely as another
    room = np.maximum(margin - edge * found, 0.0)
    return float(np.mean(2 * stats.norm.cdf(room / error) - 1))


def registries_needed(
    comparison: Comparison,
    *,
    difference: float | None = None,
    margin: float | None = None,
    reports: float = 1.0,
    confidence: float,
) -> int | None:
    """The fewest registries with which a true ``difference``, or likeness within a ``margin``, is found in four studies
    of five."""

    def enough(units: int) -> bool:
        told = {"error": expected_error(comparison, registries=units, reports=reports), "units": units}
        if margin is not None:
            return power_of_likeness(margin, **told, confidence=confidence) >= POWER
        return power_of_difference(difference or 0.0, **told, confidence=confidence) >= POWER

    if not enough(MOST_REGISTRIES):
        return None
    low, high = 1, MOST_REGISTRIES  # one unit decides nothing
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def registries_that_decide(comparison: Comparison, *, margin: float | None = None, confidence: float) -> int | None:
    """The fewest registries with which four studies of five decide a comparison whose mean and spread stay as they are:
    away from zero or, with a ``margin``, within it or outside, by the room that the mean leaves to the edge. None where
    a thousand do not: the mean is at what it is held against.

    >>> found = Comparison(0.02, 0.01, 4)
    >>> registries_that_decide(found, confidence=0.95), registries_that_decide(found, margin=0.03, confidence=0.95)
    (10, 44)
    >>> registries_that_decide(Comparison(0.0, 0.01, 4), confidence=0.95) is None
    True
    """
    room = abs(abs(comparison.mean) - (margin or 0.0))
    inside = margin is not None and abs(comparison.mean) < margin
    return registries_needed(comparison, **{"margin" if inside else "difference": room}, confidence=confidence)


def power_table(comparison: Comparison, *, margin: float | None = None, confidence: float) -> list[Needed]:
    """What would decide a comparison: for a few differences (or its margin) and numbers of reports, the registries.
    Without repeats what is within a registry cannot be told from what is between them, and only as many reports as the
    study has are asked about."""
    if comparison.units < 2:
        return []
    found = []
    for size in DIFFERENCES if margin is None else (margin,):
        asked = {"margin": size} if margin is not None else {"difference": size}
        for reports in REPORTS if comparison.within is not None else REPORTS[:1]:
            number = registries_needed(comparison, **asked, reports=reports, confidence=confidence)
            found.append(Needed(size, reports, number))
    return found
