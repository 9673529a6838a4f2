"""Attacks on one model's answers: by hand and against plain loops."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import log_softmax, softmax
from scipy.stats import entropy

from pathveil.auditing import attacks

LOGITS = arrays(np.float64, st.tuples(st.integers(1, 6), st.integers(2, 5)), elements=st.floats(-20, 20))


@given(LOGITS, st.integers(0, 10))
def test_log_softmax_margin_and_loss_against_scipy(logits, seed):
    labels = np.random.default_rng(seed).integers(0, logits.shape[1], len(logits))
    np.testing.assert_allclose(attacks.log_softmax(logits), log_softmax(logits, axis=1), atol=1e-9)
    p = softmax(logits, axis=1)
    own = p[np.arange(len(p)), labels]
    rest = np.array([p[i, np.arange(p.shape[1]) != label].sum() for i, label in enumerate(labels)])
    np.testing.assert_allclose(
        attacks.confidence_margin(logits, labels), np.log(own) - np.log(rest), rtol=1e-6, atol=1e-6
    )
    np.testing.assert_allclose(attacks.loss_score(p, labels), np.log(np.maximum(own, 1e-12)))
    np.testing.assert_allclose(attacks.entropy_score(p, labels), -entropy(p, axis=1), atol=1e-9)


def test_the_margin_survives_float16_logits_where_the_probability_rounds_to_one():
    logits = np.array([[30.0, 0.0]], np.float16)
    assert attacks.confidence_margin(logits, np.array([0])).tolist() == [30.0]


def test_modified_entropy_by_hand():
    """Song and Mittal, equation 8: −(1 − p_y) log p_y − Σ_{i≠y} p_i log(1 − p_i)."""
    p, labels = np.array([[0.7, 0.2, 0.1], [0.7, 0.2, 0.1]]), np.array([0, 2])
    right = -0.3 * math.log(0.7) - 0.2 * math.log(0.8) - 0.1 * math.log(0.9)
    wrong = -0.9 * math.log(0.1) - 0.7 * math.log(0.3) - 0.2 * math.log(0.8)
    np.testing.assert_allclose(attacks.modified_entropy_score(p, labels), [-right, -wrong])
    sure = attacks.modified_entropy_score(np.array([[1.0, 0.0]]), np.array([0]))
    assert sure == pytest.approx(0, abs=1e-9)
    assert np.isfinite(attacks.modified_entropy_score(np.array([[1.0, 0.0]]), np.array([1]))).all()


def test_a_missing_label_gives_no_score():
    p, labels = np.array([[0.5, 0.5], [0.9, 0.1]]), np.array([-1, 0])
    scores = (attacks.loss_score, attacks.entropy_score, attacks.modified_entropy_score, attacks.label_score)
    for score in scores:
        assert np.isnan(score(p, labels)).tolist() == [True, False]
    assert np.isnan(attacks.confidence_margin(np.log(p), labels)).tolist() == [True, False]


def test_the_gap_attack_is_half_the_gap_above_one_half():
    rng = np.random.default_rng(0)
    member = np.arange(1000) < 500
    right = rng.random(1000) < np.where(member, 0.95, 0.8)
    p = np.where(right[:, None], [[0.6, 0.4]], [[0.4, 0.6]])
    guess = attacks.label_score(p, np.zeros(1000, int)) > 0.5
    balanced = ((guess == member)[member].mean() + (guess == member)[~member].mean()) / 2
    assert balanced == pytest.approx(0.5 + (right[member].mean() - right[~member].mean()) / 2)


def test_the_risk_score_is_the_posterior():
    """Two scores and one class: the histogram's answer is Bayes's, up to the smoothing."""
    rng = np.random.default_rng(1)
    member = rng.random(40_000) < 0.5
    scores = (rng.random(40_000) < np.where(member, 0.8, 0.3)).astype(float)
    labels = np.zeros(40_000, int)
    risk = attacks.privacy_risk_score(
        np.array([1.0, 0.0, np.nan]),
        np.array([0, 0, -1]),
        known_scores=scores,
        known_labels=labels,
        known_member=member,
    )
    np.testing.assert_allclose(risk[:2], [0.8 / 1.1, 0.2 / 0.9], atol=0.02)
    assert np.isnan(risk[2])


def test_the_risk_score_of_a_class_nobody_knows_is_that_of_all_classes():
    rng = np.random.default_rng(2)
    member = np.arange(2000) % 2 == 0
    scores, labels = rng.normal(size=2000) + member, rng.integers(0, 2, 2000)
    known = {"known_scores": scores, "known_labels": labels, "known_member": member}
    new = attacks.privacy_risk_score(np.array([-2.0, 3.0]), np.array([7, 7]), **known)
    assert new[0] < 0.4 and new[1] > 0.7
    seen = attacks.privacy_risk_score(np.array([-2.0, 3.0]), np.array([0, 0]), **known)
    np.testing.assert_allclose(new, seen, atol=0.1)


def test_joint_and_case_scores_by_hand():
    site, histology = np.array([1.0, np.nan, np.nan, 2.0]), np.array([2.0, 3.0, np.nan, 4.0])
    together = attacks.joint([site, histology])
    np.testing.assert_array_equal(together, [3.0, 3.0, np.nan, 6.0])
    cases = np.array([7, 7, 8, 9])
    names, added = attacks.by_case(together, cases, ratio=True)
    assert names.tolist() == [7, 9] and added.tolist() == [6.0, 6.0]
    assert attacks.by_case(together, cases, ratio=False)[1].tolist() == [3.0, 6.0]
