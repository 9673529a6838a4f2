"""How far people and model, and two people, agree; pure functions of decisions.

>>> round(kappa([("a", "a"), ("a", "b"), ("b", "b"), ("b", "b")]), 3)
0.5
>>> kappa([("a", "a")]) is None    # with one code for everything, chance alone agrees
True
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

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


class Judged(NamedTuple):
    """A code that the model proposed, and whether the person who decided first kept it."""

    task: str
    period: str
    kept: bool
    sure: bool


def judged(decisions: Iterable[Mapping[str, Any]]) -> Iterator[Judged]:
    """Of first decisions, by tumour; one that a person added or took away has no two codes to compare."""
    for decision in decisions:
        if decision["round"] == 1:
            found = zip(decision["codes"], decision["proposed"], decision["abstained"], strict=False)
            for codes, proposed, abstained in found:
                for task, code in codes.items():
                    yield Judged(task, decision["made"][:7], code == proposed[task], task not in abstained)


def model_agreement(decisions: Iterable[Mapping[str, Any]]) -> list[TaskAgreement]:
    """By task and month, over first decisions."""
    counts: dict[tuple[str, str], list[bool]] = {}
    for one in judged(decisions):
        counts.setdefault((one.task, one.period), []).append(one.kept)
    return [
        TaskAgreement(task=task, period=period, cases=len(kept), kept=sum(kept))
        for (task, period), kept in counts.items()
    ]


def check_promises(
    decisions: Iterable[Mapping[str, Any]], promised: Mapping[str, float], *, fewest: int = 30
) -> list[PromiseCheck]:
    """Whether codes that the model did not abstain from are kept as often as its thresholds promise.

    It is called broken only where chance hardly explains it: the share kept lies more than two standard errors below.
    """
    sure: dict[str, list[bool]] = {}
    for one in judged(decisions):
        if one.sure:
            sure.setdefault(one.task, []).append(one.kept)
    found = []
    for task, kept in sure.items():
        promise, cases, holds = promised.get(task), len(kept), None
        if promise is not None and cases >= fewest:
            holds = sum(kept) / cases >= promise - 2 * (promise * (1 - promise) / cases) ** 0.5
        found.append(PromiseCheck(task=task, sure=cases, kept=sum(kept), promised=promise, holds=holds))
    return found


def two_people(decisions: Iterable[Mapping[str, Any]]) -> list[TwoPeople]:
    """By task, over cases that two people coded without seeing each other's codes."""
    by_case: dict[str, dict[int, Sequence[Mapping[str, str]]]] = {}
    for decision in decisions:
        by_case.setdefault(decision["case_key"], {})[decision["round"]] = decision["codes"]
    pairs: dict[str, list[tuple[str, str]]] = {}
    for rounds in by_case.values():
        for first, second in zip(rounds.get(1, ()), rounds.get(2, ()), strict=False):  # tumour by tumour
            for task in first.keys() & second.keys():
                pairs.setdefault(task, []).append((first[task], second[task]))
    return [
        TwoPeople(task=task, cases=len(own), same=sum(a == b for a, b in own), kappa=kappa(own))
        for task, own in pairs.items()
    ]
