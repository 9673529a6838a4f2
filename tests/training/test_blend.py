"""Pools of opinions: the choice is the best of what is tried, and probabilities are calibrated."""

import numpy as np
import pytest
from scipy.special import log_softmax
from sklearn.metrics import f1_score

from pathveil.training.blend import POWERS, SHARES, blended, cross_fit, fit_pool, micro_plus_macro, rarity_of
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
        logs = blended(scaled, (1 - share, share))
        chosen = (logs + power * rarity).argmax(1)
        if (chosen == labels).sum() < (logs.argmax(1) == labels).sum():
            chosen = logs.argmax(1)  # a lift that costs more codes than it mends is not used
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


def test_micro_plus_macro_by_hand():
    labels = {"a": np.array([0] * 6 + [1] * 6 + [2]), "b": np.array([0] * 5 + [-1] * 8)}
    chosen = {"a": np.array([0] * 6 + [1] * 3 + [0] * 3 + [0]), "b": np.zeros(13, int)}
    # a: 9 of 13 right; F1 of class 0: 12/(6 + 10), of class 1: 6/(6 + 3); class 2 has one document. b: all right.
    expected = (9 / 13 + 1) / 2 + (12 / 16 + 6 / 9 + 1) / 3
    assert micro_plus_macro(chosen, labels) == pytest.approx(expected)


def test_a_task_whose_cases_lose_by_the_lift_is_not_lifted():
    """One task gains right codes by a lift, the other loses some: only the first is lifted."""
    views, labels = said()
    rarity = rarity_of(labels, 8)
    biased = log_softmax(views[0] - 0.5 * rarity, axis=1)  # says rare classes too seldom, so that a lift mends it
    rng = np.random.default_rng(1)
    rare = rng.uniform(0, 0.5, 3000)  # calibrated, and never above a half: whoever says "rare" errs more often than not
    sides = (rng.random(3000) < rare).astype(int)
    truth = {"site": labels, "side": sides}
    pool = fit_pool({"site": [biased], "side": [np.log(np.stack([1 - rare, rare], axis=1))]}, truth, truth)
    assert pool.power > 0 and pool.lift["site"].any() and not pool.lift["side"].any()
    lifted = blended([biased], pool.coefficients["site"]) + pool.lift["site"]
    assert (lifted.argmax(1) == labels).mean() >= (biased.argmax(1) == labels).mean()


def test_cross_fitted_scores_are_not_better_than_new_cases_show():
    """Over 80 worlds with few held-out cases: what chose share, lift and temperature looks better on the same cases
    than on new ones; what was chosen by other cases does not."""
    same, crossed, new = [], [], []
    for seed in range(80):
        views, labels = said(documents=150, classes=6, seed=seed, noise=(2.5, 2.5))
        later, later_labels = said(documents=4000, classes=6, seed=1000 + seed, noise=(2.5, 2.5))
        judged = np.flatnonzero(np.bincount(labels, minlength=6) >= 5)

        def score(logs, chosen, truth, judged=judged):
            f1 = f1_score(truth, chosen, labels=judged, average="macro", zero_division=0)
            return (chosen == truth).mean() + f1, unlikely(logs, truth)

        given = {"site": views}, {"site": labels}, {"site": labels}
        pool = fit_pool(*given)
        for found, both, truth in ((same, views, labels), (new, later, later_labels)):
            logs = blended(both, pool.coefficients["site"])
            found.append(score(logs, (logs + pool.lift["site"]).argmax(1), truth))
        held = cross_fit(*given, rows=np.arange(150), cases=np.arange(150) // 2)
        crossed.append(score(held.log_probabilities["site"], held.chosen["site"], labels))
    (gain, loss), (cross_gain, cross_loss) = (np.array(found).T - np.array(new).T for found in (same, crossed))
    error = cross_gain.std() / len(gain) ** 0.5
    assert gain.mean() > 3 * error and cross_gain.mean() < 2 * error
    error = cross_loss.std() / len(loss) ** 0.5
    assert loss.mean() < -error and cross_loss.mean() > -2 * error, (loss.mean(), cross_loss.mean(), error)


def test_cross_fitting_does_not_look_at_a_case_it_answers():
    """Other labels for one case change nothing about what is said of it."""
    views, labels = said(documents=300)
    cases = np.arange(300) // 2
    held = cross_fit({"site": views}, {"site": labels}, {"site": labels}, rows=np.arange(300), cases=cases)
    other = labels.copy()
    other[:2] = (labels[:2] + 1) % 8
    again = cross_fit({"site": views}, {"site": other}, {"site": labels}, rows=np.arange(300), cases=cases)
    np.testing.assert_array_equal(held.log_probabilities["site"][:2], again.log_probabilities["site"][:2])
    assert not np.array_equal(held.log_probabilities["site"], again.log_probabilities["site"])
