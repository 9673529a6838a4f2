"""RMIA against the pairwise likelihood ratios of its definition, one pair at a time."""

import numpy as np
import pytest

from pathveil.auditing.metrics import auc
from pathveil.auditing.rmia import Tuning, log_ratio, rmia, softened, tuned


def toy(seed: int, *, records: int = 40, shadows: int = 6):
    rng = np.random.default_rng(seed)
    inside = np.zeros((shadows, records), bool)
    for column in range(records):
        inside[rng.permutation(shadows)[: shadows // 2], column] = True
    values = np.clip(rng.beta(2, 1, (shadows, records)) + 0.1 * inside, 1e-3, 1)
    return rng.beta(2, 1, records), values, inside


@pytest.mark.parametrize("offline", [False, True])
@pytest.mark.parametrize("gamma", [1.0, 2.0])
def test_scores_count_the_pairs_of_the_definition(offline, gamma):
    target, values, inside = toy(0)
    population = np.arange(20, 40)
    a, prior = 0.3, np.zeros(40)
    for i in range(40):
        outside = values[~inside[:, i], i].mean()
        prior[i] = ((1 + a) * outside + 1 - a) / 2 if offline else (values[inside[:, i], i].mean() + outside) / 2
    want = [np.mean([(target[i] / prior[i]) / (target[z] / prior[z]) >= gamma for z in population]) for i in range(40)]
    ratio = log_ratio(np.log(target), np.log(values), inside, offline=offline)
    found = rmia(ratio, population=ratio[population], gamma=gamma)
    close = np.abs(found - want) > 1e-9
    assert not close[:20].any()
    # A population record meets itself at a ratio of exactly 1, where rounding may fall either way.
    assert (np.abs(found - want)[20:] <= 1 / 20 + 1e-9).all()


def test_joint_probabilities_far_below_the_smallest_float_are_no_trouble():
    target = np.array([-900.0, -1000.0])
    shadows, inside = np.full((2, 2), -1000.0), np.array([[True, False], [False, True]])
    np.testing.assert_allclose(log_ratio(target, shadows, inside), [100.0, 0.0], atol=1e-9)


def test_missing_models_and_labels_give_no_score():
    shadows, inside = np.log([[0.5, 0.5, np.nan]]), np.array([[True, False, False]])
    ratio = log_ratio(np.log([0.5, 0.5, np.nan]), shadows, inside)
    assert np.isnan(ratio).all()
    offline = log_ratio(np.log([0.5, 0.5, np.nan]), shadows, inside, offline=True)
    assert np.isnan(offline).tolist() == [True, False, True]
    assert np.isnan(rmia(offline, population=offline)).tolist() == [True, False, True]


def test_the_score_orders_records_as_the_ratio_does():
    target, values, inside = toy(1, records=400)
    ratio = log_ratio(np.log(target), np.log(values), inside)
    member = np.arange(400) < 200
    assert auc(rmia(ratio, population=ratio[~member]), member) == pytest.approx(auc(ratio, member), abs=0.005)


def test_a_of_one_is_the_plain_ratio_to_strangers_without_a_warning():
    target, values, inside = toy(2)
    with np.errstate(all="raise"):
        found = log_ratio(np.log(target), np.log(values), inside, offline=True, a=1.0)
    want = [np.log(target[i] / values[~inside[:, i], i].mean()) for i in range(40)]
    np.testing.assert_allclose(found, want, atol=1e-9)


def test_softening_divides_the_log_odds_and_keeps_what_is_missing():
    log_p = np.array([np.log(0.8), np.nan, 0.0, -80.0])
    with np.errstate(all="raise"):
        found = softened(log_p, 2.0)
    assert np.exp(found[0]) == pytest.approx(1 / (1 + np.exp(-np.log(4) / 2)))
    assert np.isnan(found[1]) and found[2] == pytest.approx(0.0, abs=1e-9) and found[3] == pytest.approx(-40.0)
    assert softened(log_p, 1.0) is log_p


def test_shadows_too_few_to_tune_on_leave_the_default():
    log_p, inside = np.log(np.full((2, 30), 0.5)), np.stack([np.arange(30) < 15, np.arange(30) >= 15])
    assert tuned([log_p], inside) == tuned([log_p], inside, offline=True) == Tuning()
