"""How far people and model, and two people, agree; pure functions of decisions.

>>> round(kappa([("a", "a"), ("a", "b"), ("b", "b"), ("b", "b")]), 3)
0.5
>>> kappa([("a", "a")]) is None    # with one code for everything, chance alone agrees
True
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pathveil.results import Part


class TaskAgreement(Part):
    """Of a task, in a stretch of time: cases decided, and how many kept the model's code."""

    task: str
    period: str  # 2026-11
    cases: int
    kept: int


class PromiseCheck(Part):
    """Of a task: the codes the model was sure of, how many people kept, and what its threshold had promised."""

    task: str
    sure: int
    kept: int
    promised: float | None
    holds: bool | None  # none where too few were decided to say


class TwoPeople(Part):
    """Of a task: cases coded by two people, how many alike, and Cohen's kappa."""

    task: str
    cases: int
    same: int
    kappa: float | None


def kappa(pairs: Sequence[tuple[str, str]]) -> float | None:
    """Cohen's kappa; none where chance alone would agree always, or there is nothing."""
    if not pairs:
        return None
    total = len(pairs)
    observed = sum(one == other for one, other in pairs) / total
    first, second = Counter(one for one, _ in pairs), Counter(other for _, other in pairs)
    chance = sum(first[code] * second[code] for code in first) / total**2
    return None if chance == 1 else (observed - chance) / (1 - chance)


def model_agreement(decisions: Iterable[Mapping[str, Any]]) -> list[TaskAgreement]:
    """By task and month, over first decisions."""
    cases: Counter[tuple[str, str]] = Counter()
    kept: Counter[tuple[str, str]] = Counter()
    for decision in decisions:
        if decision["round"] == 1:
            for task, code in decision["codes"].items():
                place = task, decision["made"][:7]
                cases[place] += 1
                kept[place] += code == decision["proposed"][task]
    return [
        TaskAgreement(task=task, period=period, cases=n, kept=kept[task, period]) for (task, period), n in cases.items()
    ]


def check_promises(
    decisions: Iterable[Mapping[str, Any]], promised: Mapping[str, float], *, fewest: int = 30
) -> list[PromiseCheck]:
    """Whether codes that the model did not abstain from are kept as often as its thresholds promise.

    It is called broken only where chance hardly explains it: the share kept lies more than two standard errors below.
    """
    sure: Counter[str] = Counter()
    kept: Counter[str] = Counter()
    for decision in decisions:
        if decision["round"] == 1:
            for task, code in decision["codes"].items():
                if task not in decision["abstained"]:
                    sure[task] += 1
                    kept[task] += code == decision["proposed"][task]
    found = []
    for task, cases in sure.items():
        promise, holds = promised.get(task), None
        if promise is not None and cases >= fewest:
            holds = kept[task] / cases >= promise - 2 * (promise * (1 - promise) / cases) ** 0.5
        found.append(PromiseCheck(task=task, sure=cases, kept=kept[task], promised=promise, holds=holds))
    return found


def two_people(decisions: Iterable[Mapping[str, Any]]) -> list[TwoPeople]:
    """By task, over cases that two people coded without seeing each other's codes."""
    by_case: dict[str, dict[int, Mapping[str, str]]] = {}
    for decision in decisions:
        by_case.setdefault(decision["case_key"], {})[decision["round"]] = decision["codes"]
    pairs: dict[str, list[tuple[str, str]]] = {}
    for rounds in by_case.values():
        if 1 in rounds and 2 in rounds:
            for task in rounds[1]:
                if task in rounds[2]:
                    pairs.setdefault(task, []).append((rounds[1][task], rounds[2][task]))
    return [
        TwoPeople(task=task, cases=len(own), same=sum(a == b for a, b in own), kappa=kappa(own))
        for task, own in pairs.items()
    ]
