"""Controls: an audit that finds something where nothing is, or nothing where something was planted, proves nothing.

From predictions alone. *Null*: membership is dealt out anew at random, by case, many times, and every attack is run
again from the start; the mean AUC must be 0.5 within its interval, or the audit flatters itself. *Planted leak*: half
of the non-member cases are declared members and their answers moved half-way towards certainty of the true label, as a
model does with what it has memorised; the attacks must find it. An audit that trains models has real ones: a model
that saw neither side (``judged_null``), and one with canaries in its training set (``found``).

>>> import numpy as np
>>> rng = np.random.default_rng(0)
>>> control = null_verdict("null", [rng.normal(0.5, 0.01, 20)], ["loss"])
>>> control["holds"], null_verdict("null", [rng.normal(0.6, 0.01, 20)], ["loss"])["holds"]
(True, False)
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.stats import norm, t

from pathveil.audit import metrics
from pathveil.audit.evidence import FEWEST_CASES, TOGETHER, Records, Score
from pathveil.audit.predictions import score
from pathveil.progress import Progress, silent

PERMUTATIONS = 20
SURE = 0.999  # controls are checked on every attack of every audit, so they may rarely cry wolf


def from_predictions(
    records: Records, probabilities: dict[str, np.ndarray], *, seed: int = 0, progress: Progress = silent
) -> list[dict[str, Any]]:
    """The null and the planted control of an audit that has only predictions."""
    return [
        permuted_membership(records, probabilities, seed=seed, progress=progress),
        planted_leak(records, probabilities, seed=seed),
    ]


def overall(scores: Sequence[Score]) -> list[Score]:
    """The scores of all tasks together; of the only task where there is one."""
    joint = [one for one in scores if one.task == TOGETHER]
    return joint or list(scores)


def permuted_membership(
    records: Records, probabilities: dict[str, np.ndarray], *, seed: int, progress: Progress = silent
) -> dict[str, Any]:
    names, place = np.unique(records.cases, return_inverse=True)
    members = len(np.unique(records.cases[records.member]))
    areas: dict[str, list[float]] = {}
    for number in range(PERMUTATIONS):
        progress("null control", number, PERMUTATIONS)
        rng = np.random.default_rng([seed, 1, number])
        dealt = (rng.permutation(len(names)) < members)[place]
        for one in overall(score(records, probabilities, seed=seed, known=dealt)):
            kept = ~np.isnan(one.values)
            areas.setdefault(one.attack, []).append(float(metrics.auc(one.values[kept], dealt[kept])))
    progress("null control", PERMUTATIONS, PERMUTATIONS)
    return null_verdict("membership dealt out at random", list(map(np.array, areas.values())), list(areas))


def null_verdict(name: str, areas: Sequence[np.ndarray], attacks: Sequence[str]) -> dict[str, Any]:
    """Do all attacks' mean AUCs hold 0.5 in their intervals?"""
    listed = []
    for attack, values in zip(attacks, areas, strict=True):
        reach = t.isf((1 - SURE) / 2 / len(areas), len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values))
        estimate = metrics.Estimate(float(values.mean()), float(values.mean() - reach), float(values.mean() + reach))
        listed.append({"attack": attack, "auc": estimate.as_json(), "holds": estimate.low <= 0.5 <= estimate.high})
    return {"name": name, "kind": "null", "holds": all(one["holds"] for one in listed), "attacks": listed}


def planted_leak(records: Records, probabilities: dict[str, np.ndarray], *, seed: int) -> dict[str, Any]:
    others = np.flatnonzero(~records.member)
    cases = np.unique(records.cases[others])
    rng = np.random.default_rng([seed, 2])
    chosen = np.isin(records.cases[others], cases[rng.permutation(len(cases)) < len(cases) / 2])
    labels = {task: label[others] for task, label in records.labels.items()}
    moved = {}
    for task, answer in probabilities.items():
        part = answer[others].copy()
        rows = np.flatnonzero(chosen & (labels[task] >= 0))
        part[rows] /= 2
        part[rows, labels[task][rows]] += 0.5
        moved[task] = part
    planted = replace(records, member=chosen, cases=records.cases[others], labels=labels, registries=None)
    return found("planted leak", planted, overall(score(planted, moved, seed=seed)), seed=seed)


def found(name: str, records: Records, scores: Sequence[Score], *, seed: int) -> dict[str, Any]:
    """Is the leak found, by at least one attack, beyond doubt?"""
    areas = _areas(records, scores, seed=seed)
    listed = [{"attack": attack, "auc": area.as_json(), "holds": area.low > 0.5} for attack, area in areas]
    return {"name": name, "kind": "planted", "holds": any(one["holds"] for one in listed), "attacks": listed}


def judged_null(name: str, records: Records, scores: Sequence[Score], *, seed: int) -> dict[str, Any]:
    """Do all attacks on a model that saw neither side hold 0.5 in their intervals?"""
    areas = _areas(records, scores, seed=seed)
    listed = [
        {"attack": attack, "auc": area.as_json(), "holds": area.low <= 0.5 <= area.high} for attack, area in areas
    ]
    holds = bool(listed) and all(one["holds"] for one in listed)
    return {"name": name, "kind": "null", "holds": holds, "attacks": listed}


def _areas(records: Records, scores: Sequence[Score], *, seed: int) -> list[tuple[str, metrics.Estimate]]:
    """AUCs with intervals wide enough for all of them at once: normal, with the bootstrap's standard error by case."""
    areas = []
    for one in scores:
        kept = ~np.isnan(one.values)
        positive, cases, values = records.member[kept], records.cases[kept], one.values[kept]
        if min(len(np.unique(cases[positive])), len(np.unique(cases[~positive]))) < FEWEST_CASES:
            continue  # a handful parted by luck would look like certainty
        resampled = metrics.auc_resampled(values, positive, metrics.case_weights(positive, cases, seed=seed))
        reach = float(norm.isf((1 - SURE) / 2 / len(scores)) * resampled.std(ddof=1))
        area = float(metrics.auc(values, positive))
        areas.append((one.attack, metrics.Estimate(area, max(area - reach, 0.0), min(area + reach, 1.0))))
    return areas
