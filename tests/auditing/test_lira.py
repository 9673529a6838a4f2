"""LiRA against the closed form, per record in plain NumPy and SciPy; the variance prior against simulation."""

import numpy as np
import pytest
from scipy.special import polygamma
from scipy.stats import norm

from pathveil.auditing.lira import lira, lira_offline, trigamma_inverse, variance_prior
from pathveil.auditing.metrics import auc


def toy(*, shadows: int, records: int, effect: float, seed: int):
    """Records of different hardness, spread and influence; margins are normal, as LiRA assumes."""
    rng = np.random.default_rng(seed)
    hardness, spread = rng.normal(0, 3, records), np.sqrt(1 / rng.gamma(4, 1 / 4, records))
    influence = effect * rng.gamma(1, 1, records)
    first = rng.random((shadows // 2, records)) < 0.5
    inside = np.concatenate([first, ~first])
    values = hardness + inside * influence + spread * rng.normal(size=(shadows, records))
    member = rng.random(records) < 0.5
    target = hardness + member * influence + spread * rng.normal(size=records)
    return target, values, inside, member


@pytest.mark.parametrize("variance", ["record", "global"])
def test_scores_are_the_difference_of_normal_log_densities(variance):
    target, values, inside, _ = toy(shadows=16, records=30, effect=2.0, seed=0)
    pooled = {}
    for side, mask in (("in", inside), ("out", ~inside)):
        squares = sum(((values[mask[:, i], i] - values[mask[:, i], i].mean()) ** 2).sum() for i in range(30))
        pooled[side] = squares / sum(mask[:, i].sum() - 1 for i in range(30))
    online, offline = [], []
    for i in range(30):
        a, b = values[inside[:, i], i], values[~inside[:, i], i]
        sd_in = a.std(ddof=1) if variance == "record" else np.sqrt(pooled["in"])
        sd_out = b.std(ddof=1) if variance == "record" else np.sqrt(pooled["out"])
        online.append(norm.logpdf(target[i], a.mean(), sd_in) - norm.logpdf(target[i], b.mean(), sd_out))
        offline.append(-norm.logsf(target[i], b.mean(), sd_out))
    np.testing.assert_allclose(lira(target, values, inside, variance=variance), online)
    np.testing.assert_allclose(lira_offline(target, values, inside, variance=variance), offline)


def test_shrunk_variance_lies_between_and_helps_with_few_shadows():
    few = {kind: [] for kind in ("record", "global", "shrunk")}
    for seed in range(5):
        target, values, inside, member = toy(shadows=8, records=3000, effect=1.5, seed=seed)
        for kind, found in few.items():
            score = lira(target, values, inside, variance=kind)
            usable = ~np.isnan(score)
            found.append(auc(score[usable], member[usable]))
    assert np.mean(few["record"]) < np.mean(few["global"])
    assert np.mean(few["shrunk"]) > np.mean(few["record"]) + 0.02
    assert np.mean(few["shrunk"]) > np.mean(few["global"]) - 0.005


def test_the_variance_prior_is_found():
    rng = np.random.default_rng(0)
    true = 2.0 * 8 / rng.chisquare(8, 200_000)  # scale 2, eight degrees of freedom
    freedom = np.full(200_000, 5)
    freedom_found, scale_found = variance_prior(true * rng.chisquare(5, 200_000) / 5, freedom)
    assert freedom_found == pytest.approx(8, rel=0.1) and scale_found == pytest.approx(2, rel=0.05)
    alike = variance_prior(3.0 * rng.chisquare(5, 200_000) / 5, freedom)
    assert alike[0] > 200 and alike[1] == pytest.approx(3, rel=0.05)


@pytest.mark.parametrize("x", [0.05, 0.7, 3.0, 400.0])
def test_trigamma_is_inverted(x):
    assert trigamma_inverse(float(polygamma(1, x))) == pytest.approx(x)


def test_records_without_both_kinds_of_shadow_get_no_score():
    values = np.array([[1.0, 1.0, np.nan], [2.0, 0.0, np.nan], [0.0, 0.5, np.nan]])
    inside = np.array([[True, True, True], [True, False, False], [True, False, False]])
    score = lira(np.array([1.0, 1.0, np.nan]), values, inside)
    assert np.isnan(score).tolist() == [True, False, True]
    assert np.isnan(lira_offline(np.array([1.0, 1.0, np.nan]), values, inside)).tolist() == [True, False, True]


def test_without_any_effect_it_is_chance():
    target, values, inside, member = toy(shadows=16, records=4000, effect=0.0, seed=3)
    score = lira(target, values, inside)
    assert abs(auc(score, member) - 0.5) < 0.03
