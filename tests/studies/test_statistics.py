"""Against scipy, by hand, and by the properties an interval must have."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some
from scipy import stats

from pathveil.studies.statistics import Comparison, above, alike, block_means, compare, confidence_of_each


@given(some.lists(some.floats(-1, 1), min_size=2, max_size=9), some.floats(0.5, 0.999))
def test_the_interval_and_p_are_scipys(differences, confidence):
    found = compare(differences, [0.0] * len(differences), blocks=range(len(differences)))
    if found.error < 1e-9:
        return
    told = stats.ttest_1samp(differences, 0)
    expected = told.confidence_interval(confidence)
    assert found.interval(confidence) == pytest.approx((expected.low, expected.high), abs=1e-9)
    assert found.p == pytest.approx(told.pvalue, abs=1e-9)


@pytest.mark.parametrize("count", [1, 9])
def test_so_many_intervals_cover_together(count):
    rng = np.random.default_rng(count)
    worlds = 600
    missed = 0
    for _ in range(worlds):
        drawn = rng.normal(0, 1, (count, 7))
        ends = [compare(row, [0.0] * 7, blocks=range(7)).interval(confidence_of_each(count)) for row in drawn]
        missed += any(low > 0 or high < 0 for low, high in ends)
    assert missed / worlds == pytest.approx(0.05, abs=0.025)


def test_an_adjusted_p_of_five_percent_is_where_the_interval_touches_zero():
    edge = Comparison(float(stats.t.ppf((1 + confidence_of_each(16)) / 2, 6)), 1.0, 7)
    assert edge.interval(confidence_of_each(16))[0] == pytest.approx(0, abs=1e-9)
    assert 16 * edge.p == pytest.approx(0.05)


def test_blocks_are_the_units():
    comparison = compare([1.0, 3.0, 5.0], [0.0, 0.0, 0.0], blocks=["a", "a", "b"])
    assert comparison.units == 2 and comparison.mean == 3.5
    half = stats.t.ppf(0.975, 1) * stats.sem([2.0, 5.0])
    assert comparison.interval() == pytest.approx((3.5 - half, 3.5 + half))
    assert block_means([1.0], ["a"]).tolist() == [1.0]


def test_one_block_says_nothing():
    comparison = compare([1.0], [0.0], blocks=["a"])
    assert above(comparison) is None and alike(comparison, margin=5) is None and comparison.p == 1


def test_answers():
    assert above(Comparison(0.1, 0.02, 7)) is True
    assert above(Comparison(-0.1, 0.02, 7)) is False
    assert above(Comparison(0.01, 0.03, 7)) is None
    assert above(Comparison(0.1, 0.03, 7), confidence=confidence_of_each(16)) is None
    assert above(Comparison(-0.1, 0.03, 7)) is False
    assert above(Comparison(-0.1, 0.03, 7), confidence=confidence_of_each(16)) is None
    assert alike(Comparison(0.01, 0.03, 7), margin=0.02) is None
    assert alike(Comparison(0.0, 0.006, 7), margin=0.02) is True
    assert alike(Comparison(0.0, 0.006, 7), margin=0.02, confidence=confidence_of_each(16)) is None
    assert alike(Comparison(0.04, 0.006, 7), margin=0.02) is False
    assert alike(Comparison(0.04, 0.006, 7), margin=0.02, confidence=confidence_of_each(16)) is None
    assert above(Comparison(0.1, 0.0, 7)) is True and Comparison(0.1, 0.0, 7).p == 0
