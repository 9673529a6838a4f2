"""Temperatures recover a known one; thresholds do what a search over all of them does."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax

from pathveil.training.calibration import NEVER, expected_calibration_error, fit_temperature, threshold_for


def drawn(documents=20_000, classes=6, seed=0):
    """Logits, and labels drawn from exactly the probabilities they state."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 2, (documents, classes))
    labels = (softmax(logits, axis=1).cumsum(1) < rng.random((documents, 1))).sum(1)
    return logits, labels


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_a_known_temperature_is_found(temperature):
    logits, labels = drawn()
    assert fit_temperature(logits * temperature, labels) == pytest.approx(temperature, rel=0.05)


def test_temperature_leaves_out_what_cannot_be_predicted():
    logits, labels = drawn(documents=3000)
    mixed = labels.copy()
    mixed[::7], mixed[1::7] = -1, 99
    keep = (mixed >= 0) & (mixed < 99)
    assert fit_temperature(logits, mixed) == pytest.approx(fit_temperature(logits[keep], labels[keep]))
    assert fit_temperature(logits, np.full(3000, -1)) == 1.0


def test_an_all_right_model_gets_no_endless_confidence():
    labels = np.arange(4).repeat(25)
    temperature = fit_temperature(np.eye(4)[labels], labels)
    assert 0.19 < temperature < 0.3


@given(
    st.lists(st.tuples(st.sampled_from([0.2, 0.4, 0.5, 0.8, 0.9]), st.booleans()), min_size=1, max_size=40),
    st.floats(0.3, 1.0),
)
def test_threshold_agrees_with_trying_them_all(rows, wanted):
    confidence, right = np.array([c for c, _ in rows]), np.array([r for _, r in rows])
    found = threshold_for(confidence, right, accuracy=wanted)
    possible = [t for t in sorted(set(confidence)) if right[confidence >= t].sum() >= wanted * (confidence >= t).sum()]
    if not possible:
        assert found.probability == NEVER and found.abstained == 1.0
        return
    assert found.probability == possible[0]
    above = confidence >= found.probability
    assert found.accuracy == pytest.approx(right[above].mean())
    assert found.abstained == pytest.approx(1 - above.mean())
    assert found.low <= found.accuracy


def test_wilson_bound_is_the_textbook_one():
    found = threshold_for(np.full(100, 0.9), np.arange(100) < 90, accuracy=0.5)
    assert found.low == pytest.approx(0.8256, abs=5e-4)  # Wilson 95 % of 90 of 100: 0.8256 to 0.9448


def test_nothing_held_out_means_nothing_is_coded():
    found = threshold_for(np.array([]), np.array([], bool), accuracy=0.97)
    assert found.probability == NEVER and found.documents == 0


def test_calibration_error():
    logits, labels = drawn()
    probabilities = softmax(logits, axis=1)
    right = probabilities.argmax(1) == labels
    assert expected_calibration_error(probabilities.max(1), right) < 0.02
    sharp = softmax(3 * logits, axis=1)
    assert expected_calibration_error(sharp.max(1), right) > 0.05
    assert expected_calibration_error(np.ones(4), np.array([True, False, True, False])) == 0.5
