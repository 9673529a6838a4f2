"""Metrics against scikit-learn, SciPy, plain loops, and simulation."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest
from sklearn.metrics import balanced_accuracy_score, roc_auc_score, roc_curve

from pathveil.auditing import metrics
from pathveil.auditing.resamples import resample


@st.composite
def scored(draw):
    n = draw(st.integers(4, 60))
    scores = draw(st.lists(st.integers(-5, 5) | st.floats(-5, 5, width=16), min_size=n, max_size=n))
    member = np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    member[0], member[1] = True, False
    return np.array(scores, float), member


@given(scored())
def test_roc_and_auc_agree_with_scikit_learn(case):
    scores, member = case
    fpr, tpr = metrics.roc(scores, member)
    want_fpr, want_tpr, _ = roc_curve(member, scores, drop_intermediate=False)
    np.testing.assert_allclose(fpr, want_fpr)
    np.testing.assert_allclose(tpr, want_tpr)
    assert metrics.auc(scores, member) == pytest.approx(roc_auc_score(member, scores))


@given(scored(), st.floats(0.0, 1.0))
def test_tpr_at_an_fpr_is_what_the_best_randomised_threshold_reaches(case, level):
    scores, member = case
    curve = metrics.roc(scores, member)
    best = 0.0
    for x0, y0 in zip(*curve, strict=True):  # every mixture of two neighbouring thresholds that keeps to the level
        if x0 <= level:
            best = max(best, y0)
    for (x0, y0), (x1, y1) in zip(zip(*curve, strict=True), zip(curve[0][1:], curve[1][1:], strict=True), strict=False):
        if x0 <= level < x1:
            best = max(best, y0 + (y1 - y0) * (level - x0) / (x1 - x0))
    assert metrics.tpr_at(curve, level) == pytest.approx(best)


@pytest.mark.parametrize(("k", "n"), [(0, 10), (3, 10), (10, 10), (17, 400)])
def test_clopper_pearson_agrees_with_scipy(k, n):
    want = binomtest(k, n).proportion_ci(0.95, method="exact")
    assert metrics.clopper_pearson(k / n, n, risk=0.025) == pytest.approx((want.low, want.high))


def test_too_few_non_members_is_said_and_not_numbered():
    rng = np.random.default_rng(0)
    member = np.arange(600) < 300
    curve = metrics.roc(rng.normal(size=600), member)
    estimate = metrics.tpr_interval(curve, 0.01, member_cases=300, non_member_cases=300)
    assert math.isnan(estimate.value) and estimate.low == 0.0
    assert "300 non-member cases" in estimate.note and "437" in estimate.note
    assert estimate.as_json()["value"] is None
    measured = metrics.tpr_interval(curve, 0.1, member_cases=300, non_member_cases=300)
    assert not measured.note and measured.low <= measured.value <= measured.high


@pytest.mark.parametrize("fpr", [0.1, 0.01])
def test_the_needed_number_is_where_measuring_begins(fpr):
    curve = (np.array([0.0, 1.0]), np.array([0.0, 1.0]))
    needed = metrics.non_members_needed(fpr)
    assert metrics.tpr_interval(curve, fpr, member_cases=50, non_member_cases=needed - 1).note
    assert not metrics.tpr_interval(curve, fpr, member_cases=50, non_member_cases=needed).note


@pytest.mark.parametrize(("shift", "fpr"), [(0.0, 0.1), (1.0, 0.1), (1.5, 0.02)])
def test_the_interval_covers_the_truth(shift, fpr):
    """Normal scores, where the true TPR at a true FPR is known; coverage must be at least what is promised."""
    from scipy.stats import norm

    rng = np.random.default_rng(1)
    truth = norm.sf(norm.isf(fpr) - shift)
    member = np.arange(700) < 300
    missed = 0
    for _ in range(400):
        scores = rng.normal(size=700) + shift * member
        estimate = metrics.tpr_interval(metrics.roc(scores, member), fpr, member_cases=300, non_member_cases=400)
        missed += not estimate.low <= truth <= estimate.high
    assert missed <= 30  # 20 expected at most; 30 is beyond the 98.7th percentile of Bin(400, 0.05)


def test_fewer_cases_than_reports_widen_the_interval():
    rng = np.random.default_rng(2)
    member = np.arange(1000) < 500
    curve = metrics.roc(rng.normal(size=1000) + member, member)
    wide = metrics.tpr_interval(curve, 0.1, member_cases=100, non_member_cases=100)
    narrow = metrics.tpr_interval(curve, 0.1, member_cases=500, non_member_cases=500)
    assert wide.value == narrow.value
    assert wide.low < narrow.low < narrow.high < wide.high


@given(scored(), st.integers(0, 3))
def test_resampled_accuracy_equals_that_of_the_resampled_records(case, seed):
    scores, member = case
    cases = np.arange(len(member)) // 2 + 1000 * member
    resamples = resample(member, cases, resamples=5, seed=seed)
    guess = scores > 0
    drawn = [np.repeat(np.arange(len(member)), times) for times in resamples.counts[resamples.rows].T]
    plain, balanced = metrics.report_accuracies(guess, member, resamples)
    assert plain.value == pytest.approx((guess == member).mean())
    assert balanced.value == pytest.approx(balanced_accuracy_score(member, guess))
    # The interval is the middle 95 % of the resampled figures, and holds the figure itself.
    for estimate, figures in (
        (plain, [(guess == member)[rows].mean() for rows in drawn]),
        (balanced, [balanced_accuracy_score(member[rows], guess[rows]) for rows in drawn]),
    ):
        low, high = np.quantile(figures, [0.025, 0.975])
        assert estimate.low == pytest.approx(min(low, estimate.value), abs=1e-12)
        assert estimate.high == pytest.approx(max(high, estimate.value), abs=1e-12)


def test_the_papers_accuracy_is_the_mean_over_classes():
    """Three classes: one judged rightly in 3 of 4 reports, one in 1 of 2, and one without a non-member."""
    classes = np.array([0, 0, 0, 0, 1, 1, 2, 2, -1])
    member = np.array([1, 1, 1, 0, 1, 0, 1, 1, 0], bool)
    guess = np.array([1, 1, 1, 1, 0, 0, 1, 1, 0], bool)
    found = metrics.class_accuracy(guess, member, classes, resample(member, np.arange(9)))
    assert found.value == pytest.approx((3 / 4 + 1 / 2) / 2)
    assert 0 <= found.low < found.value < found.high <= 1
    assert metrics.report_accuracies(guess, member, resample(member, np.arange(9)))[0].value == pytest.approx(7 / 9)
    alone = metrics.class_accuracy(guess[6:], member[6:], classes[6:], resample(member[6:], np.arange(3)))
    assert np.isnan(alone.value) and "no class has both" in alone.note


def test_resampled_class_accuracy_equals_that_of_the_resampled_records():
    rng = np.random.default_rng(4)
    member, guess, classes = rng.random(80) < 0.5, rng.random(80) < 0.5, rng.integers(0, 3, 80)
    resamples = resample(member, np.arange(80) // 2 + 1000 * member, resamples=40)
    figures = []
    for times in resamples.counts[resamples.rows].T:
        rows = np.repeat(np.arange(80), times)
        figures.append(np.mean([(guess == member)[rows[classes[rows] == label]].mean() for label in range(3)]))
    found = metrics.class_accuracy(guess, member, classes, resamples)
    assert [found.low, found.high] == pytest.approx(list(np.quantile(figures, [0.025, 0.975])), abs=1e-12)


def test_auc_interval_covers_and_narrows_with_cases():
    rng = np.random.default_rng(3)
    member = np.arange(2000) < 1000
    scores = rng.normal(size=2000) + 0.5 * member
    estimate = metrics.auc_estimate(scores, member, resample(member, np.arange(2000)))
    assert estimate.low < 0.638 < estimate.high  # Φ(0.5/√2)
    assert estimate.high - estimate.low < 0.06
    clustered = metrics.auc_estimate(np.repeat(scores[::20], 20), member, resample(member, np.arange(2000) // 20))
    assert clustered.high - clustered.low > 3 * (estimate.high - estimate.low)


def test_thresholds_learned_on_the_other_half_do_not_flatter():
    rng = np.random.default_rng(4)
    accuracies, own = [], []
    for seed in range(40):
        scores, member, cases = rng.normal(size=60), np.arange(60) % 2 == 0, np.arange(60)
        guess = metrics.cross_fitted_guess(scores, member, cases, seed=seed)
        accuracies.append((guess == member).mean())
        own.append(((scores >= metrics.best_threshold(scores, member)) == member).mean())
    assert abs(np.mean(accuracies) - 0.5) < 0.04
    assert np.mean(own) > 0.57


@given(scored())
def test_the_best_threshold_has_the_best_balanced_accuracy(case):
    scores, member = case
    cut = metrics.best_threshold(scores, member)
    found = balanced_accuracy_score(member, scores >= cut)
    for other in [*np.unique(scores), math.inf]:
        assert found >= balanced_accuracy_score(member, scores >= other) - 1e-12
