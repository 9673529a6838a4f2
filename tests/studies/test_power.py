"""Against simulated studies, and by what power must do."""

import numpy as np
import pytest
from scipy import stats

from pathveil.studies.power import (
    expected_error,
    power_of_difference,
    power_of_likeness,
    power_table,
    registries_needed,
)
from pathveil.studies.statistics import Comparison, above, alike, compare

CONFIDENCE = 0.99


def simulated(units: int, *, mean: float, spread: float, margin: float | None = None) -> float:
    """The share of drawn studies that are decided the right way."""
    rng = np.random.default_rng(units)
    drawn = rng.normal(mean, spread, (4000, units))
    errors = drawn.std(axis=1, ddof=1) / units**0.5
    found = [Comparison(float(m), float(e), units) for m, e in zip(drawn.mean(axis=1), errors, strict=True)]
    if margin is None:
        return float(np.mean([above(one, confidence=CONFIDENCE) is True for one in found]))
    return float(np.mean([alike(one, margin=margin, confidence=CONFIDENCE) is True for one in found]))


@pytest.mark.parametrize("units", [4, 9, 30])
def test_power_is_that_of_drawn_studies(units):
    spread = 0.03
    error = spread / units**0.5
    told = power_of_difference(0.03, error=error, units=units, confidence=CONFIDENCE)
    assert told == pytest.approx(simulated(units, mean=0.03, spread=spread), abs=0.025)
    told = power_of_likeness(0.03, error=error, units=units, confidence=CONFIDENCE)
    assert told == pytest.approx(simulated(units, mean=0.0, spread=spread, margin=0.03), abs=0.025)


def test_the_registries_needed_are_the_fewest():
    found = Comparison(0.0, 0.03 / 7**0.5, 7)
    for asked in ({"difference": 0.02}, {"margin": 0.02}):
        needed = registries_needed(found, **asked, confidence=CONFIDENCE)
        size = next(iter(asked.values()))
        power = power_of_difference if "difference" in asked else power_of_likeness
        enough, short = (
            power(size, error=expected_error(found, registries=n), units=n, confidence=CONFIDENCE)
            for n in (needed, needed - 1)
        )
        assert enough >= 0.8 > short


def test_reports_help_as_far_as_chance_goes():
    """More reports take away what repeats of a registry vary by, and leave what registries differ by."""
    found = Comparison(0.0, 0.02, 7, repeats=4, within=0.04)
    assert expected_error(found, registries=7) == pytest.approx(found.error)
    floor = found.between / 7**0.5
    assert expected_error(found, registries=7, reports=1e9) == pytest.approx(floor, rel=1e-6)
    by_reports = [registries_needed(found, difference=0.02, reports=n, confidence=CONFIDENCE) for n in (1, 3, 10)]
    assert by_reports == sorted(by_reports, reverse=True) and by_reports[0] > by_reports[-1] > 2


def test_what_a_thousand_registries_do_not_decide():
    assert registries_needed(Comparison(0.0, 1.0, 7), difference=0.01, confidence=CONFIDENCE) is None
    assert registries_needed(Comparison(0.0, 0.0, 7), difference=0.01, confidence=CONFIDENCE) == 2


def test_a_table_asks_of_more_reports_only_where_repeats_tell_chance_apart():
    once, again = Comparison(0.0, 0.01, 7), Comparison(0.0, 0.01, 7, repeats=2, within=0.02)
    assert {row.reports for row in power_table(once, confidence=CONFIDENCE)} == {1}
    assert {row.reports for row in power_table(again, confidence=CONFIDENCE)} == {1, 3, 10}
    assert {row.difference for row in power_table(again, margin=0.01, confidence=CONFIDENCE)} == {0.01}
    assert power_table(Comparison(0.0, 0.0, 1), confidence=CONFIDENCE) == []


def test_variance_components_are_those_of_the_one_way_analysis():
    """Expected mean squares of a balanced design, by scipy's F and by hand."""
    rng = np.random.default_rng(1)
    values = rng.normal(0, 0.02, (7, 1)) + rng.normal(0, 0.03, (7, 5))
    blocks, repeats = np.repeat(np.arange(7), 5), np.tile(np.arange(5), 7)
    found = compare(values.ravel(), np.zeros(35), blocks=blocks.tolist(), repeats=repeats.tolist())
    within = values.var(axis=1, ddof=1).mean()
    between = 5 * values.mean(axis=1).var(ddof=1)
    assert stats.f_oneway(*values).statistic == pytest.approx(between / within)
    assert found.within == pytest.approx(within**0.5)
    assert found.between == pytest.approx(((between - within) / 5) ** 0.5)
    assert (found.units, found.repeats) == (7, 5)
