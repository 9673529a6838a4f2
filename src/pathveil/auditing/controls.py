"""Controls: an audit that finds something where nothing is, or nothing where something was planted, proves nothing.

An audit that trains models has real ones: a model that saw neither side, on which every attack must come out at 0.5
(``judge_null``), and one with canaries in its training set, which must be found (``judge_planted``).

From predictions alone less can be known. *Null*: membership is dealt out anew at random, by case, many times, and every
attack that learns from known members is run again from the start; its mean AUC must hold 0.5 in its interval, or it
flatters itself. An attack that looks at no membership cannot: dealt out at random, its AUC is 0.5 by construction, and
it is not run again. Whether members and non-members differ by more than membership cannot be told from predictions.
*Planted leak*: half of the non-member cases are declared members and their answers moved half-way towards certainty of
the true label, as a model does with what it has memorised; the attacks must find it.

>>> import numpy as np
>>> rng = np.random.default_rng(0)
>>> control = judge_permuted("null", {"privacy risk": rng.normal(0.5, 0.01, 20)})
>>> control.holds, judge_permuted("null", {"privacy risk": rng.normal(0.6, 0.01, 20)}).holds
(True, False)
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
from scipy.stats import norm, t

from pathveil.auditing import metrics
from pathveil.auditing.all_attacks import overall, shadowless_attacks
from pathveil.auditing.evidence import Figure, Records, Score
from pathveil.auditing.resamples import resample
from pathveil.disclosure import may_be_told
from pathveil.progress import Progress, silent
from pathveil.results import Part
from pathveil.rng import generator

PERMUTATIONS = 20
SURE = 0.999  # controls are checked on every attack of every audit, so they may rarely cry wolf


class ControlledAttack(Part):
    """How one attack came out under a control."""

    attack: str
    auc: Figure
    holds: bool


class Control(Part):
    """A control and whether it held: 0.5 in every interval (null), one attack above it beyond doubt (planted)."""

    name: str
    kind: Literal["null", "planted"]
    holds: bool
    attacks: tuple[ControlledAttack, ...] = ()


def permuted_membership(
    records: Records, probabilities: Mapping[str, np.ndarray], *, seed: int, progress: Progress = silent
) -> Control:
    """Do attacks that learn from known members find nothing where membership is dealt out at random?"""
    names, place = np.unique(records.cases, return_inverse=True)
    members = len(np.unique(records.cases[records.member]))
    areas: dict[str, list[float]] = {}
    for number in range(PERMUTATIONS):
        progress("null control", number, PERMUTATIONS)
        dealt = (generator(seed, 1, number).permutation(len(names)) < members)[place]
        for one in overall(shadowless_attacks(records, probabilities, seed=seed, known=dealt)):
            if one.learns:
                kept = ~np.isnan(one.values)
                areas.setdefault(one.attack, []).append(float(metrics.auc(one.values[kept], dealt[kept])))
    progress("null control", PERMUTATIONS, PERMUTATIONS)
    name = "attacks that learn from known members, with membership dealt out at random"
    return judge_permuted(name, {attack: np.array(values) for attack, values in areas.items()})


def judge_permuted(name: str, areas: Mapping[str, np.ndarray]) -> Control:
    """Do all attacks' mean AUCs over the permutations hold 0.5 in their intervals?"""
    found = []
    for attack, values in areas.items():
        reach = t.isf((1 - SURE) / 2 / len(areas), len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values))
        area = metrics.Estimate(float(values.mean()), float(values.mean() - reach), float(values.mean() + reach))
        found.append(ControlledAttack(attack=attack, auc=Figure.of(area), holds=area.low <= 0.5 <= area.high))
    return Control(name=name, kind="null", holds=all(one.holds for one in found), attacks=tuple(found))


Attack = Callable[[Records, Mapping[str, np.ndarray], np.ndarray], Sequence[Score]]


def planted_leak(
    records: Records, probabilities: Mapping[str, np.ndarray], *, seed: int, attack: Attack | None = None
) -> Control:
    """Is a leak found that was planted in the answers?

    ``attack(records, probabilities, places)`` scores the non-members at these places of ``records``, some of them now
    called members; without it the attacks that need no shadows do.
    """
    others = np.flatnonzero(~records.member)
    cases = np.unique(records.cases[others])
    chosen = np.isin(records.cases[others], cases[generator(seed, 2).permutation(len(cases)) < len(cases) / 2])
    planted = replace(records.take(others), member=chosen, registries=None)
    moved = {}
    for task, answer in probabilities.items():
        part = answer[others].copy()
        rows = np.flatnonzero(chosen & (planted.labels[task] >= 0))
        part[rows] /= 2
        part[rows, planted.labels[task][rows]] += 0.5
        moved[task] = part
    scores = shadowless_attacks(planted, moved, seed=seed) if attack is None else attack(planted, moved, others)
    return judge_planted("planted leak", planted, overall(scores), seed=seed)


def judge_planted(name: str, records: Records, scores: Sequence[Score], *, seed: int) -> Control:
    """Is the leak found, by at least one attack, beyond doubt?"""
    found = tuple(
        ControlledAttack(attack=attack, auc=Figure.of(area), holds=area.low > 0.5)
        for attack, area in _areas(records, scores, seed=seed)
    )
    return Control(name=name, kind="planted", holds=any(one.holds for one in found), attacks=found)


def judge_null(name: str, records: Records, scores: Sequence[Score], *, seed: int) -> Control:
    """Do all attacks on a model that saw neither side hold 0.5 in their intervals?"""
    found = tuple(
        ControlledAttack(attack=attack, auc=Figure.of(area), holds=area.low <= 0.5 <= area.high)
        for attack, area in _areas(records, scores, seed=seed)
    )
    return Control(name=name, kind="null", holds=bool(found) and all(one.holds for one in found), attacks=found)


def _areas(records: Records, scores: Sequence[Score], *, seed: int) -> list[tuple[str, metrics.Estimate]]:
    """AUCs with intervals wide enough for all of them at once: normal, with the bootstrap's standard error by case."""
    areas = []
    for one in scores:
        kept = ~np.isnan(one.values)
        positive, cases, values = records.member[kept], records.cases[kept], one.values[kept]
        if not may_be_told(len(np.unique(cases[positive])), len(np.unique(cases[~positive]))):
            continue  # a handful parted by luck would look like certainty
        resampled = resample(positive, cases, seed=seed).auc(values, positive)
        reach = float(norm.isf((1 - SURE) / 2 / len(scores)) * resampled.std(ddof=1))
        area = float(metrics.auc(values, positive))
        areas.append((one.attack, metrics.Estimate(area, max(area - reach, 0.0), min(area + reach, 1.0))))
    return areas
