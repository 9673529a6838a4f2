"""Pools of opinions: the choice is the best of what is tried, and probabilities are calibrated."""

import numpy as np
import pytest
from scipy.special import log_softmax
from sklearn.metrics import f1_score

from pathveil.training.blend import POWERS, SHARES, blended, fit_pool, judged, rarity_of
from pathveil.training.calibration import fit_temperature


def said(documents=3000, classes=8, seed=0, noise=(1.5, 1.5)):
    """Two noisy views of labels with a long tail, and the labels."""
    rng = np.random.default_rng(seed)
    labels = np.minimum(rng.zipf(1.6, documents) - 1, classes - 1)
    prior = np.log((1 + np.bincount(labels, minlength=classes)) / (documents + classes))
    truth = 2.0 * np.eye(classes)[labels] + prior
    return [log_softmax(truth + rng.normal(0, scale, truth.shape), axis=1) for scale in noise], labels


def unlikely(logs, labels):
    return -logs[np.arange(len(labels)), labels].mean()


def test_share_and_power_are_the_best_of_those_tried():
    views, labels = said()
    pool = fit_pool({"site": views}, {"site": labels}, {"site": labels})
    scaled = [view / fit_temperature(view, labels) for view in views]
    rarity = rarity_of(labels, 8)

    def gain(share, power):
        chosen = (blended(scaled, (1 - share, share)) + power * rarity).argmax(1)
        counts = np.bincount(labels, minlength=8)
        per_class = f1_score(labels, chosen, average=None, labels=np.flatnonzero(counts >= 5))
        return (chosen == labels).mean() + per_class.mean()

    best = max(gain(share, power) for share in SHARES for power in POWERS)
    assert gain(pool.share, pool.power) == pytest.approx(best, abs=1e-9)
    assert pool.power > 0 and pool.share == 0.5  # the views are equally good, the tail is long
    np.testing.assert_allclose(pool.lift["site"], pool.power * rarity, rtol=1e-6)


def test_two_views_are_likelier_than_one_and_calibrated():
    views, labels = said()
    fresh, fresh_labels = said(seed=9)
    pool = fit_pool({"site": views}, {"site": labels}, {"site": labels})
    together = blended(fresh, pool.coefficients["site"])
    for view in fresh:
        alone = log_softmax(view / fit_temperature(view, fresh_labels), axis=1)
        assert unlikely(together, fresh_labels) < unlikely(alone, fresh_labels)
    assert fit_temperature(together, fresh_labels) == pytest.approx(1.0, abs=0.06)


def test_a_useless_view_weighs_nothing():
    views, labels = said(noise=(0.5, 30.0))
    good, useless = fit_pool({"site": views}, {"site": labels}, {"site": labels}).coefficients["site"]
    assert useless < 0.02 * good


def test_a_lone_view_is_temperature_scaling():
    views, labels = said()
    pool = fit_pool({"site": views[:1]}, {"site": labels}, {"site": labels})
    (inverse,) = pool.coefficients["site"]
    assert 1 / inverse == pytest.approx(fit_temperature(views[0], labels), rel=1e-2)


def test_one_choice_serves_all_tasks():
    views, labels = said()
    other, other_labels = said(seed=3, classes=4)
    both = {"site": views, "side": other}
    truth = {"site": labels, "side": other_labels}
    pool = fit_pool(both, truth, truth)
    assert pool.lift["side"] == pytest.approx(pool.power * rarity_of(other_labels, 4), rel=1e-6)


def test_without_labels_nothing_is_lifted_and_views_weigh_alike():
    views, labels = said(documents=50)
    none = {"site": np.full(50, -1)}
    pool = fit_pool({"site": views}, none, {"site": labels})
    assert pool.share == 0.5 and pool.power == 0.0 and pool.coefficients["site"] == (0.5, 0.5)
    assert not pool.lift["site"].any()


def test_judged_by_hand():
    labels = {"a": np.array([0] * 6 + [1] * 6 + [2]), "b": np.array([0] * 5 + [-1] * 8)}
    chosen = {"a": np.array([0] * 6 + [1] * 3 + [0] * 3 + [0]), "b": np.zeros(13, int)}
    # a: 9 of 13 right; F1 of class 0: 12/(6 + 10), of class 1: 6/(6 + 3); class 2 has one document. b: all right.
    expected = (9 / 13 + 1) / 2 + (12 / 16 + 6 / 9 + 1) / 3
    assert judged(chosen, labels) == pytest.approx(expected)
