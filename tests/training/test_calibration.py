"""Temperatures recover a known one; thresholds do what a search over all of them does."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax
from scipy.stats import binomtest

from pathveil.training.calibration import NEVER, fit_temperature, lowest_threshold, threshold_for


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
    found = lowest_threshold(confidence, right, accuracy=wanted)
    above = {t: confidence >= t for t in sorted(set(confidence))}
    possible = [t for t, taken in above.items() if right[taken].sum() >= wanted * (taken.sum() + 1)]
    assert found == (possible[0] if possible else NEVER)


def test_wilson_bound_is_the_textbook_one():
    found = threshold_for(np.full(100, 0.9), np.arange(100) < 90, cases=np.arange(100), accuracy=0.5)
    assert found.accuracy == pytest.approx(0.9) and found.abstained == 0.0 and found.documents == 100
    assert found.low == pytest.approx(0.8256, abs=5e-4)  # Wilson 95 % of 90 of 100: 0.8256 to 0.9448


def test_reports_of_one_case_are_one_trial():
    confidence, right, cases = np.full(100, 0.9), np.arange(100) < 90, np.arange(100)
    once = threshold_for(confidence, right, cases=cases, accuracy=0.5)
    twice = threshold_for(np.repeat(confidence, 2), np.repeat(right, 2), cases=np.repeat(cases, 2), accuracy=0.5)
    assert twice.documents == 200 and twice.low == pytest.approx(once.low)


def test_nothing_held_out_means_nothing_is_coded():
    found = threshold_for(np.array([]), np.array([], bool), cases=np.array([], int), accuracy=0.97)
    assert found.probability == NEVER and found.documents == 0


def test_a_promise_that_held_out_cases_show_to_be_broken_is_not_made():
    """Where probabilities say nothing, a lucky few stand above some threshold; those of other folds do not."""
    lucky, kept = 0, []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        confidence, right = rng.random(400), rng.random(400) < 0.75
        lucky += lowest_threshold(confidence, right, accuracy=0.8) < NEVER
        found = threshold_for(confidence, right, cases=np.arange(400), accuracy=0.8)
        if found.probability < NEVER:
            taken = round(400 * (1 - found.abstained))
            interval = binomtest(round(found.accuracy * taken), taken).proportion_ci(method="wilson")
            assert interval.high >= 0.8 and interval.low == pytest.approx(found.low)
            kept.append(found)
        else:
            assert (found.accuracy, found.low, found.abstained, found.left) == (0, 0, 1, 1)
    assert lucky > 30 and len(kept) < 0.8 * lucky


def world(rng, documents):
    """Codes that are right as often as their probability says: the best that any calibration can reach."""
    confidence = rng.beta(4, 0.7, documents)
    return confidence, rng.random(documents) < confidence


@pytest.mark.parametrize("documents", [240, 600])
def test_what_a_threshold_promises_is_kept_on_new_cases(documents):
    """Over 300 worlds, new codes above the threshold are as often right as was asked and as was said. The threshold
    that the same documents choose and judge says more than new ones keep."""
    promised, kept, low_kept, in_sample, in_sample_kept = [], [], [], [], []
    for seed in range(300):
        rng = np.random.default_rng([documents, seed])
        confidence, right = world(rng, documents)
        new, new_right = world(rng, 20_000)
        found = threshold_for(confidence, right, cases=np.arange(documents), accuracy=0.97)
        if found.probability < NEVER:
            promised.append(found.accuracy)
            kept.append(new_right[new >= found.probability].mean())
            low_kept.append(kept[-1] >= found.low)
        plain = min(t for t in (2, *confidence) if right[confidence >= t].sum() >= 0.97 * (confidence >= t).sum())
        in_sample.append(right[confidence >= plain].mean())
        in_sample_kept.append(new_right[new >= plain].mean())
    error = 3 * np.std(np.array(kept) - promised) / len(kept) ** 0.5
    assert len(kept) > 200
    assert np.mean(kept) >= 0.97
    assert np.mean(kept) >= np.mean(promised) - error
    assert np.mean(low_kept) >= 0.95
    assert np.mean(in_sample_kept) < 0.97 and np.mean(in_sample_kept) < np.mean(in_sample) - 0.002
