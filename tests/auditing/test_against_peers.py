"""Our attacks and those of other tools, written out from their definitions, on the stored answers of sixteen models.

Every model is the target in turn, with the other fifteen as shadows; figures are means over targets and two tasks. Each
of ours must find at least what the best of the others' finds, in AUC and in members found at 1 % false accusations.
"""

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from scipy.stats import norm

from auditing.stored_answers import TASKS, stored
from pathveil.auditing.lira import lira, lira_offline
from pathveil.auditing.metrics import auc, roc, tpr_at
from pathveil.auditing.rmia import OFFLINE_AS, log_ratio, rmia, softened, tuned

Attack = Callable[[str, int, np.ndarray], np.ndarray]  # task, target, shadows (bool) to scores
INSIDE = stored()["inside"]
ARRAYS = {name: values for name, values in stored().items() if name != "inside"}


@cache
def figures(attack: Attack) -> tuple[float, float]:
    """Mean AUC and TPR at 1 % FPR."""
    found = []
    for task in TASKS:
        for target in range(len(INSIDE)):
            scores = attack(task, target, np.arange(len(INSIDE)) != target)
            known = ~np.isnan(scores)
            member = INSIDE[target][known]
            found.append((auc(scores[known], member), tpr_at(roc(scores[known], member), 0.01)))
    area, share = np.mean(found, axis=0)
    return float(area), float(share)


def sides(values: np.ndarray, others: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(shadows, records) with NaN for the models of the other kind: in-models, out-models."""
    return np.where(INSIDE[others], values[others], np.nan), np.where(INSIDE[others], np.nan, values[others])


# TensorFlow Privacy, compute_score_lira: medians, a variance a record or one for all (fix_variance).


def tensorflow_lira(task: str, target: int, others: np.ndarray, *, fixed: bool) -> np.ndarray:
    seen, unseen = sides(ARRAYS[f"margin {task}"], others)
    spread_in, spread_out = (
        (np.nanstd(seen), np.nanstd(unseen)) if fixed else (np.nanstd(seen, axis=0), np.nanstd(unseen, axis=0))
    )
    margin = ARRAYS[f"margin {task}"][target]
    inside = norm.logpdf(margin, np.nanmedian(seen, axis=0), spread_in + 1e-30)
    return inside - norm.logpdf(margin, np.nanmedian(unseen, axis=0), spread_out + 1e-30)


def tensorflow_record(task, target, others):
    return tensorflow_lira(task, target, others, fixed=False)


def tensorflow_fixed(task, target, others):
    return tensorflow_lira(task, target, others, fixed=True)


# SACRO (a variance a record) and LeakPro (one for all), offline: the out-normal's tail.


def sacro_offline(task, target, others):
    _, unseen = sides(ARRAYS[f"margin {task}"], others)
    margin = ARRAYS[f"margin {task}"][target]
    return norm.logcdf(margin, np.nanmean(unseen, axis=0), np.nanstd(unseen, axis=0) + 1e-30)


def leakpro_offline(task, target, others):
    _, unseen = sides(ARRAYS[f"margin {task}"], others)
    return -norm.logsf(ARRAYS[f"margin {task}"][target], np.nanmean(unseen, axis=0), np.nanstd(unseen))


# RMIA: LeakPro online with temperature and γ; Privacy Meter offline with its a tuned on one reference model.


def pairs(ratio: np.ndarray, target: int, gamma: float) -> np.ndarray:
    """The share of the non-members whose ratio a record beats by γ."""
    population = ratio[~INSIDE[target]]
    return (ratio[:, None] / population[None, :] >= gamma).mean(axis=1)


def leakpro_rmia(task: str, target: int, others: np.ndarray, *, name: str, gamma: float) -> np.ndarray:
    p = np.exp(ARRAYS[f"{name} {task}"])
    seen, unseen = sides(p, others)
    return pairs(p[target] / ((np.nanmean(seen, axis=0) + np.nanmean(unseen, axis=0)) / 2), target, gamma)


def leakpro_plain(task, target, others):
    return leakpro_rmia(task, target, others, name="log_p", gamma=1.0)


def leakpro_softened(task, target, others):
    return leakpro_rmia(task, target, others, name="half", gamma=2.0)


def privacy_meter_offline(task, target, others):
    p = np.exp(ARRAYS[f"log_p {task}"])

    def scores(of: int, references: np.ndarray, a: float) -> np.ndarray:
        _, unseen = sides(p, references)
        known = ~np.isnan(unseen).all(axis=0)
        out = np.where(known, np.nansum(unseen, axis=0) / np.maximum((~np.isnan(unseen)).sum(axis=0), 1), np.nan)
        return p[of] / (((1 + a) * out + 1 - a) / 2)

    first = int(np.flatnonzero(others)[0])
    rest = others & (np.arange(len(others)) != first)
    areas = []
    for a in np.arange(0, 1.01, 0.1):
        found = scores(first, rest, a)
        known = ~np.isnan(found)
        areas.append(auc(found[known], INSIDE[first][known]))
    return pairs(scores(target, others, float(np.arange(0, 1.01, 0.1)[np.argmax(areas)])), target, 2.0)


def lira_online(task, target, others):
    margin = ARRAYS[f"margin {task}"]
    return lira(margin[target], margin[others], INSIDE[others])


def lira_out(task, target, others):
    margin = ARRAYS[f"margin {task}"]
    return lira_offline(margin[target], margin[others], INSIDE[others])


def rmia_tuned(task: str, target: int, others: np.ndarray, *, offline: bool) -> np.ndarray:
    log_p = ARRAYS[f"log_p {task}"]
    chosen = tuned([log_p[others]], INSIDE[others], offline=offline)
    said = softened(log_p, chosen.temperature)
    return log_ratio(said[target], said[others], INSIDE[others], offline=offline, a=chosen.a)


def rmia_online(task, target, others):
    return rmia_tuned(task, target, others, offline=False)


def rmia_offline(task, target, others):
    return rmia_tuned(task, target, others, offline=True)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (lira_online, (tensorflow_record, tensorflow_fixed)),
        (lira_out, (sacro_offline, leakpro_offline)),
        (rmia_online, (leakpro_plain, leakpro_softened)),
        (rmia_offline, (privacy_meter_offline,)),
    ],
    ids=["LiRA online", "LiRA offline", "RMIA online", "RMIA offline"],
)
def test_ours_finds_what_the_best_peer_finds(ours, theirs):
    area, share = figures(ours)
    assert area >= max(figures(one)[0] for one in theirs)
    assert share >= max(figures(one)[1] for one in theirs)


def test_the_closed_forms_agree_where_the_definition_is_the_same():
    for task in TASKS:
        margin, others = ARRAYS[f"margin {task}"], np.arange(len(INSIDE)) > 0
        _, unseen = sides(margin, others)
        mean, spread = np.nanmean(unseen, axis=0), np.nanstd(unseen, axis=0, ddof=1)
        found = lira_offline(margin[0], margin[others], INSIDE[others], variance="record")
        np.testing.assert_allclose(found, -norm.logsf(margin[0], mean, spread), rtol=1e-6, atol=1e-9)
        log_p = ARRAYS[f"log_p {task}"]
        ratio = log_ratio(log_p[0], log_p[others], INSIDE[others])
        counted = rmia(ratio, population=ratio[~INSIDE[0]])
        np.testing.assert_allclose(counted, leakpro_plain(task, 0, others), atol=2 / (~INSIDE[0]).sum())


def test_ranking_by_the_ratio_finds_more_than_counting_a_record_against_itself():
    def counted(task, target, others):
        ratio = log_ratio(ARRAYS[f"log_p {task}"][target], ARRAYS[f"log_p {task}"][others], INSIDE[others])
        return rmia(ratio, population=ratio[~INSIDE[target]])

    def ranked(task, target, others):
        return log_ratio(ARRAYS[f"log_p {task}"][target], ARRAYS[f"log_p {task}"][others], INSIDE[others])

    assert figures(ranked)[0] > figures(counted)[0] and figures(ranked)[1] > figures(counted)[1]


def test_the_tuned_a_beats_every_fixed_one_but_for_noise():
    for task in TASKS:
        others = np.arange(len(INSIDE)) > 0
        log_p = ARRAYS[f"log_p {task}"]
        known = tuned([log_p[others]], INSIDE[others], offline=True)
        areas = {}
        for a in OFFLINE_AS:
            said = softened(log_p, known.temperature)
            scores = log_ratio(said[0], said[others], INSIDE[others], offline=True, a=a)
            areas[a] = auc(scores, INSIDE[0])
        assert areas[known.a] >= max(areas.values()) - 0.01
        assert areas[known.a] > areas[0.3]
