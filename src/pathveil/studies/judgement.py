"""From comparisons to an answer: a finding holds, does not, or is left open, at other registries and at these.

All comparisons of a study are read together, each off an interval at the level at which all of them cover at 95 %
(``statistics.confidence_of_each``). Where a fold or registry was repeated, every comparison has a second interval for
these registries alone (``statistics.among_these``), and says how many registries would decide it (``studies.power``).

>>> open_one = Judgement("A3", compared=[Compared("B − I6", Comparison(0.002, 0.008, 7))])
>>> [finding] = judge_together([open_one])
>>> finding.holds is None, finding.evidence.comparisons[0].needed[1].registries
(True, 11)
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import stats

from pathveil.studies.claims import CLAIMS, TESTS
from pathveil.studies.power import power_table
from pathveil.studies.rows import AmongThese, Difference, Evidence, Finding, NeededUnits, ProbeAccuracy, SpreadOfUnits
from pathveil.studies.statistics import (
    CONFIDENCE,
    Answer,
    Comparison,
    above,
    alike,
    among_these,
    confidence_of_each,
    wholly_above,
    wholly_within,
)


@dataclass(frozen=True)
class Probe:
    """The better probe's accuracy in each seed, on so many unseen reports. The question is about the encoders that were
    trained, so there is no spread over seeds in the answer: each seed's share has its exact binomial interval, and all
    seeds must agree."""

    values: tuple[float, ...]
    documents: tuple[int, ...]
    bound: float
    norm: float  # of the features, shown beside it
    other_modes: Mapping[str, float]  # the same accuracy of other modes, shown beside it

    @property
    def mean(self) -> float:
        return float(np.mean(self.values))

    def interval(self, confidence: float) -> tuple[float, float]:
        """From the lowest end of any seed to the highest."""
        ends = []
        for value, documents in zip(self.values, self.documents, strict=True):
            found = stats.binomtest(round(value * documents), documents).proportion_ci(confidence, method="exact")
            ends.append((float(found.low), float(found.high)))
        return min(low for low, _ in ends), max(high for _, high in ends)

    def answer(self, confidence: float) -> Answer:
        low, high = self.interval(confidence)
        return True if high <= self.bound else (False if low > self.bound else None)


@dataclass(frozen=True)
class Compared:
    """A comparison by name; with a margin it must be alike, else above zero. ``case_error`` is the part of its error
    that the choice of cases has, where cases were resampled."""

    name: str
    comparison: Comparison
    margin: float | None = None
    case_error: float | None = None
    cases: int = 0

    def answer(self, confidence: float) -> Answer:
        if self.margin is None:
            return above(self.comparison, confidence=confidence)
        return alike(self.comparison, margin=self.margin, confidence=confidence)

    def these(self, confidence: float) -> AmongThese | None:
        """The same asked of these registries alone."""
        if self.case_error is None or self.comparison.within is None:
            return None
        low, high = among_these(self.comparison, self.case_error, confidence=confidence)
        holds = wholly_above(low, high) if self.margin is None else wholly_within(low, high, margin=self.margin)
        return AmongThese(low=low, high=high, confidence=confidence, cases=self.cases, holds=holds)

    def difference(self, confidence: float, **more: Any) -> Difference:
        """With its interval at the confidence it is read at, and at 95 % by itself."""
        comparison = self.comparison
        told: dict[str, Any] = {"low": None, "high": None, "alone": None}
        if comparison.units > 1:
            low, high = comparison.interval(confidence)
            told = {"low": low, "high": high, "alone": list(comparison.interval())}
        if self.margin is not None:
            told["margin"] = self.margin
        these = self.these(confidence)
        if these is not None:
            told["these"] = these
        about = {"confidence": confidence, "units": comparison.units, **more}
        return Difference(compared=self.name, difference=comparison.mean, **told, **about)

    def judged(self, confidence: float, intervals: int) -> Difference:
        """With what a finding also says of it: its chance, its spread, and what would decide it."""
        more: dict[str, Any] = {}
        if self.margin is None:
            p = self.comparison.p
            more = {"p": p, "p_adjusted": min(1.0, intervals * p)}
        if self.comparison.units > 1:
            spread = {name: getattr(self.comparison, name) for name in ("between", "within", "repeats")}
            needed = power_table(self.comparison, margin=self.margin, confidence=confidence)
            more |= {"spread": SpreadOfUnits(**spread), "needed": [NeededUnits(**vars(one)) for one in needed]}
        return self.difference(confidence, **more)


@dataclass
class Judgement:
    """A finding on its way: comparisons, a probe within its bound; and what is shown beside them and not judged."""

    id: str
    compared: list[Compared] = field(default_factory=list)
    probe: Probe | None = None
    balanced: list[Compared] = field(default_factory=list)  # the same comparisons on balanced accuracy
    beside: list[Compared] = field(default_factory=list)
    missing: str = ""
    test: str = ""  # with the study's own numbers, where the stated one has none

    @property
    def intervals(self) -> int:
        """How many it is read off; none where it is not judged."""
        return 0 if self.missing else len(self.compared) + (self.probe is not None)


def judge_together(judgements: Sequence[Judgement]) -> list[Finding]:
    """Findings, their answers read off intervals that cover together."""
    count = sum(judgement.intervals for judgement in judgements)
    return [_finding(judgement, count) for judgement in judgements]


def _finding(judgement: Judgement, count: int) -> Finding:
    """One of those that are read off so many intervals in all."""
    confidence = confidence_of_each(count)
    answers = [one.answer(confidence) for one in judgement.compared]
    compared: list[Difference | ProbeAccuracy] = [one.judged(confidence, count) for one in judgement.compared]
    if judgement.probe is not None:
        answers.append(judgement.probe.answer(confidence))
        compared.append(_probe_accuracy(judgement.probe, confidence))
    more: dict[str, Any] = {"missing": judgement.missing} if judgement.missing else {}
    if judgement.beside:
        more["beside"] = [one.difference(CONFIDENCE) for one in judgement.beside]
    second: dict[str, Any] = {}
    if judgement.balanced and not judgement.missing:
        more["balanced"] = [one.judged(confidence, count) for one in judgement.balanced]
        second["holds_balanced"] = all_of([one.answer(confidence) for one in judgement.balanced])
    these = [one.these(confidence) for one in judgement.compared]
    here = [one.holds for one in these if one is not None]
    asked_here = bool(here) and len(here) == len(these) and judgement.probe is None and not judgement.missing
    return Finding(
        id=judgement.id,
        claim=CLAIMS[judgement.id],
        holds=None if judgement.missing else all_of(answers),
        **second,
        **({"holds_here": all_of(here)} if asked_here else {}),
        evidence=Evidence(test=judgement.test or TESTS[judgement.id], comparisons=compared, **more),
    )


def all_of(answers: Sequence[Answer]) -> Answer:
    """True if all are, False if any is, None otherwise."""
    if not answers:
        return None
    return False if any(a is False for a in answers) else (True if all(answers) else None)


def _probe_accuracy(probe: Probe, confidence: float) -> ProbeAccuracy:
    low, high = probe.interval(confidence)
    return ProbeAccuracy(
        compared="probe accuracy",
        value=probe.mean,
        bound=probe.bound,
        units=len(probe.values),
        low=low,
        high=high,
        alone=list(probe.interval(CONFIDENCE)),
        confidence=confidence,
        norm=probe.norm,
        other_modes=dict(probe.other_modes),
    )
