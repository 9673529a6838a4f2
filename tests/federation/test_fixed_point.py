"""Whole numbers in place of floats: sums are exact, whatever their order, and never go round."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pathveil.federation.fixed_point import BITS, WIDE, FixedPoint, exponent_of, next_exponent


@pytest.mark.parametrize("bits", [*BITS, WIDE])
@pytest.mark.parametrize("sites", [2, 3, 7, 8, 9])
def test_the_largest_values_of_all_sites_add_up_without_going_round(bits, sites):
    form = FixedPoint(bits, sites)
    for sign in (1, -1):
        parts = [form.words(np.array([sign * form.most, 0, 7])) for _ in range(sites)]
        data = [form.packed(part) for part in parts]
        assert all(len(part) == 3 * bits // 8 for part in data)
        total = sum(form.unpacked(part).astype(np.uint64) for part in data)
        assert form.signed(total).tolist() == [sign * sites * form.most, 0, 7 * sites]
    assert 2 * form.most * sites < 2**bits <= 8 * (form.most + 1) * sites  # and no more than two bits are left unused


@given(
    st.lists(st.floats(-1e3, 1e3, width=32), min_size=1, max_size=20),
    st.sampled_from(BITS),
    st.integers(-3, 12),
    st.integers(1, 1000),
)
def test_a_value_is_the_nearest_step_or_the_end_of_the_range(values, bits, exponent, weight):
    """The oracle works in fractions."""
    form = FixedPoint(bits, 5)
    found, clipped, peak = form.encoded(np.array(values, np.float32), exponent=exponent, weight=weight)
    exact = [Fraction(value) * weight / Fraction(2) ** exponent for value in values]
    steps = [round(value * 2**form.shift) for value in exact]  # halves to even
    assert peak == float(max(map(abs, exact)))
    assert found.tolist() == [max(-form.most, min(form.most, step)) for step in steps]
    assert clipped == sum(abs(step) > form.most for step in steps)
    assert form.decoded(found, exponent=exponent).tolist() == [
        float(int(step) * Fraction(2) ** (exponent - form.shift)) for step in found
    ]


def test_a_sum_does_not_depend_on_the_order_of_sites_as_that_of_floats_does():
    rng = np.random.default_rng(0)
    parts = [rng.normal(0, 0.1, 500).astype(np.float32) for _ in range(7)]
    form = FixedPoint(32, 7)
    whole = [form.encoded(part, exponent=0)[0] for part in parts]
    assert (sum(whole) == sum(whole[::-1])).all() and (sum(parts) != sum(parts[::-1])).any()
    np.testing.assert_allclose(form.decoded(sum(whole), exponent=0), np.sum(parts, axis=0, dtype=float), atol=2e-8)


def test_a_range_follows_the_largest_values():
    assert [exponent_of(value) for value in (0.5, 0.51, 1e-40, 1e30)] == [0, 0, -40, 60]
    last, found = 9, []
    for peaks in (0.3, 0.3, 5.0, 0.01, 0.01, 0.0):
        last = next_exponent(last, peaks, fall=1 if found else 20)
        assert 2**last > peaks  # what would have fitted in the round before
        found.append(last)
    assert found == [0, 0, 4, 3, 2, 1]
