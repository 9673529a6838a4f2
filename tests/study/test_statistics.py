"""Against scipy, by hand, and by the properties a test must have."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some
from scipy import stats

from pathveil.study.statistics import Comparison, above, alike, block_means, compare, holm, sign_flip


# Multiples of a power of two: sums are exact, so that both sides agree on what is a tie.
@given(some.lists(some.integers(-1024, 1024).filter(bool).map(lambda n: n / 1024), min_size=2, max_size=9))
def test_sign_flip_is_scipys_exact_permutation_test(differences):
    values = np.array(differences)
    expected = stats.permutation_test(
        (values,), np.mean, permutation_type="samples", alternative="greater", n_resamples=np.inf
    ).pvalue
    assert sign_flip(values) == pytest.approx(expected, abs=1e-9)


def test_sign_flip_of_many_units_is_sampled_and_repeats():
    values = np.random.default_rng(0).normal(0.1, 1, 40)
    exactish = stats.ttest_1samp(values, 0, alternative="greater").pvalue
    assert sign_flip(values) == sign_flip(values)
    assert sign_flip(values) == pytest.approx(exactish, abs=0.02)


def test_holm_by_hand():
    assert holm([0.01, 0.02, 0.03, 0.5]) == pytest.approx([0.04, 0.06, 0.06, 0.5])
    assert holm([]) == []


def test_blocks_are_the_units():
    comparison = compare([1.0, 3.0, 5.0], [0.0, 0.0, 0.0], blocks=["a", "a", "b"])
    assert comparison.units == 2 and comparison.mean == 3.5
    half = stats.t.ppf(0.975, 1) * stats.sem([2.0, 5.0])
    assert (comparison.low, comparison.high) == pytest.approx((3.5 - half, 3.5 + half))
    assert block_means([1.0], ["a"]).tolist() == [1.0]


def test_one_block_says_nothing():
    comparison = compare([1.0], [0.0], blocks=["a"])
    assert above(comparison) is None and alike(comparison, margin=5) is None


def test_answers():
    assert above(Comparison(0.1, 0.05, 0.15, 0.01, 7)) is True
    assert above(Comparison(-0.1, -0.15, -0.05, 1.0, 7)) is False
    assert above(Comparison(0.01, -0.05, 0.07, 0.4, 7)) is None
    assert above(Comparison(0.1, 0.05, 0.15, 0.01, 7), p=0.2) is None
    assert alike(Comparison(0.01, -0.05, 0.07, 0.4, 7), margin=0.02) is None
