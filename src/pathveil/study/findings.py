"""The papers' findings, judged on one's own data: holds, does not hold, or not enough evidence.

Each finding has a claim, a test that is stated in the report, and the numbers behind the answer. Comparisons are paired
over folds (vocabulary study) or over registries (distribution study), each registry's tasks and seeds averaged first:
all registries of a seed share one centralized model, and all seeds of a registry its reports. Every interval of a study
is taken at the level at which all of them cover together at 95 % (``statistics.confidence_of_each``), those of the
strong adversary's findings included, and answers in both directions are read off these intervals. A finding of several
comparisons holds if all come out, and does not hold if one is contradicted. "Alike" means an interval within a margin:
0.01 for micro F1 and attack accuracy, 0.02 for macro F1.

A finding whose arms the study lacks is *not judged*: ``holds`` is None and ``evidence["missing"]`` says what it lacks.
Where ``missing`` is absent, None means that there is not enough evidence.

Attacks are judged on balanced accuracy (the mean of the shares of members and of non-members told rightly): in a study
of seven registries four reports of five are members, and who calls everyone a member is right about four of five. The
paper's own figure, accuracy over all reports, stands beside it, as does the matched protocol.

>>> def score(registry: str, mode: str, value: float) -> RegistryScore:
...     f1 = {"value": value, "low": value, "high": value}
...     row = {"registry": registry, "mode": mode, "seed": 1, "task": "site", "documents": 20, "cases": 20}
...     return RegistryScore(**row, micro=f1, macro=f1)
>>> rows = [score(r, mode, base + bonus)
...         for r, base in (("R1", .7), ("R2", .8), ("R3", .75), ("R4", .72), ("R5", .78), ("R6", .74))
...         for mode, bonus in (("single", 0.0), ("centralized", 0.05 + base / 100))]
>>> found = distribution_findings(rows, per_class=[], probes=[])["adversarial"]
>>> found[0].id, found[0].holds, found[1].id, found[1].evidence.missing
('B1', True, 'B2', 'the study has no adversarial beside centralized')
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

import numpy as np
from scipy import stats

from pathveil.audit.attack_names import CLASSIFIERS
from pathveil.audit.evidence import ALL, CROSS, MATCHED
from pathveil.disclosure import FEWEST_CASES_TOLD
from pathveil.study.result import (
    AttackRow,
    Difference,
    Evidence,
    Finding,
    ProbeAccuracy,
    ProbeRow,
    RegistryClassScore,
    RegistryScore,
    TaskScore,
)
from pathveil.study.statistics import CONFIDENCE, Answer, Comparison, above, alike, compare, confidence_of_each

MARGIN = {"micro": 0.01, "macro": 0.02, "accuracy": 0.01}
PROBE_MARGIN = 0.02  # above what the label alone gives away

CLAIMS = {
    "A1": "more shadow models raise attack accuracy, which levels off",
    "A2": "rarer classes leak more",
    "A3": "the full intersection leaks less than the baseline",
    "A4": "fewer mutual-information words leak less",
    "A5": "I2 leaks more than the baseline",
    "A6": "intersection keeps F1",
    "A7": "small mutual-information vocabularies lose F1, macro more than micro",
    "B1": "single-registry training is below centralized",
    "B2": "shared/private adversarial training is indistinguishable from centralized",
    "B3": "shared/private adversarial training is above single-registry",
    "B4": "the gain is in rare classes",
    "B5": "a fresh probe cannot tell the registry from the shared features",
}

ATTACK = "of the paper's attack, cross-registry protocol"
OVER = "paired over registries (means over tasks and seeds)"
TESTS = {
    "A1": f"balanced accuracy {ATTACK}, all vocabularies, with the most shadows above that with the fewest, and alike "
    "(±0.01) with the number nearest two thirds of the most; paired over folds",
    "A2": f"balanced accuracy {ATTACK}, all vocabularies, in the rarest bucket above that in the most frequent one; "
    "paired over folds",
    "A3": f"balanced accuracy {ATTACK}, on the baseline above that on the full intersection; paired over folds",
    "A4": f"balanced accuracy {ATTACK}, on the largest mutual-information vocabulary above that on the smallest; "
    "paired over folds",
    "A5": f"balanced accuracy {ATTACK}, on I2 above that on the baseline; paired over folds",
    "A6": "micro F1 (±0.01) and macro F1 (±0.02) of the full intersection alike the baseline's; paired over folds "
    "(means over tasks)",
    "A7": "micro and macro F1 of the smallest mutual-information vocabulary below the baseline's, and the loss larger "
    "in macro F1; paired over folds (means over tasks)",
    "B1": f"micro and macro F1 of centralized above single, {OVER}",
    "B2": f"micro F1 (±0.01) and macro F1 (±0.02) of adversarial alike centralized, {OVER}",
    "B3": f"micro and macro F1 of adversarial above single, {OVER}",
    "B4": "F1 of adversarial above single in the rarer half of the classes, and the gain larger there than in the "
    f"other half, {OVER}; of a registry's classes only those with at least {FEWEST_CASES_TOLD} test cases there are "
    "scored, so the rarest are in neither half",
    "B5": "the better probe's accuracy on unseen reports at most 0.02 above what the true label alone gives away, in "
    "every seed",
}


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


@dataclass
class Judgement:
    """A finding on its way: comparisons that must be above zero, others that must be alike, a probe within its bound;
    and what is shown beside them and not judged."""

    id: str
    over: list[tuple[str, Comparison]] = field(default_factory=list)
    near: list[tuple[str, Comparison, float]] = field(default_factory=list)
    probe: Probe | None = None
    beside: list[tuple[str, Comparison]] = field(default_factory=list)
    missing: str = ""
    test: str = ""  # with the study's own numbers, where the stated one has none

    @property
    def intervals(self) -> int:
        """How many it is read off; none where it is not judged."""
        return 0 if self.missing else len(self.over) + len(self.near) + (self.probe is not None)


def judge_together(judgements: Sequence[Judgement]) -> list[Finding]:
    """Findings, their answers read off intervals that cover together."""
    count = sum(judgement.intervals for judgement in judgements)
    return [_finding(judgement, count) for judgement in judgements]


def _finding(judgement: Judgement, count: int) -> Finding:
    """One of those that are read off so many intervals in all."""
    confidence = confidence_of_each(count)
    answers: list[Answer] = []
    compared: list[Difference | ProbeAccuracy] = []
    for name, comparison in judgement.over:
        answers.append(above(comparison, confidence=confidence))
        chance = {"p": comparison.p, "p_adjusted": min(1.0, count * comparison.p)}
        compared.append(_difference(name, comparison, confidence, **chance))
    for name, comparison, margin in judgement.near:
        answers.append(alike(comparison, margin=margin, confidence=confidence))
        compared.append(_difference(name, comparison, confidence, margin=margin))
    if judgement.probe is not None:
        answers.append(judgement.probe.answer(confidence))
        compared.append(_probe_accuracy(judgement.probe, confidence))
    more: dict[str, Any] = {"missing": judgement.missing} if judgement.missing else {}
    if judgement.beside:
        more["beside"] = [_difference(name, comparison, CONFIDENCE) for name, comparison in judgement.beside]
    return Finding(
        id=judgement.id,
        claim=CLAIMS[judgement.id],
        holds=None if judgement.missing else all_of(answers),
        evidence=Evidence(test=judgement.test or TESTS[judgement.id], comparisons=compared, **more),
    )


def all_of(answers: Sequence[Answer]) -> Answer:
    """True if all are, False if any is, None otherwise."""
    if not answers:
        return None
    return False if any(a is False for a in answers) else (True if all(answers) else None)


def _difference(name: str, comparison: Comparison, confidence: float, **more: float) -> Difference:
    """A difference with its interval at the confidence it is read at, and at 95 % by itself."""
    ends: dict[str, Any] = {"low": None, "high": None, "alone": None}
    if comparison.units > 1:
        low, high = comparison.interval(confidence)
        ends = {"low": low, "high": high, "alone": list(comparison.interval())}
    about = {"confidence": confidence, "units": comparison.units, **more}
    return Difference(compared=name, difference=comparison.mean, **ends, **about)


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


def paired(
    rows: Sequence[Any],
    *,
    arms: tuple[Any, Any],
    arm: str,
    match: Sequence[str],
    block: Sequence[str],
    value: Callable[[Any], float],
) -> Comparison | None:
    """First arm minus second where both have a row with the same ``match`` fields; None where there is no pair."""
    sides: tuple[dict[tuple, float], dict[tuple, float]] = ({}, {})
    for row in rows:
        for side, wanted in zip(sides, arms, strict=True):
            if getattr(row, arm) == wanted:
                side[tuple(getattr(row, name) for name in match)] = value(row)
    common = [key for key in sides[0] if key in sides[1]]
    if not common:
        return None
    places = [list(match).index(name) for name in block]
    blocks = [tuple(key[place] for place in places) for key in common]
    return compare([sides[0][key] for key in common], [sides[1][key] for key in common], blocks=blocks)


def distribution_findings(
    scores: Sequence[RegistryScore],
    *,
    per_class: Sequence[RegistryClassScore],
    probes: Sequence[ProbeRow],
    adversaries: Sequence[str] = ("adversarial",),
) -> dict[str, list[Finding]]:
    """B1 to B5 of the first adversary, and B2 to B5 of any other (B1 is about none), judged together, from the rows of
    a distribution study."""

    def both_figures(id: str, first: str, second: str, *, near: bool) -> Judgement:
        judgement = Judgement(id)
        for figure in ("micro", "macro"):
            comparison = paired(
                scores,
                arms=(first, second),
                arm="mode",
                match=("registry", "task", "seed"),
                block=("registry",),
                value=lambda row, figure=figure: getattr(row, figure).value,
            )
            if comparison is None:
                judgement.missing = f"the study has no {first} beside {second}"
            elif near:
                judgement.near.append((f"{figure} F1, {first} − {second}", comparison, MARGIN[figure]))
            else:
                judgement.over.append((f"{figure} F1, {first} − {second}", comparison))
        return judgement

    asked = [(adversaries[0], both_figures("B1", "centralized", "single", near=False))]
    for adversary in adversaries:
        asked += [
            (adversary, both_figures("B2", adversary, "centralized", near=True)),
            (adversary, both_figures("B3", adversary, "single", near=False)),
            (adversary, _rare_gain(per_class, adversary)),
            (adversary, _probing(probes, adversary)),
        ]
    for adversary, judgement in asked:
        judgement.test = TESTS[judgement.id].replace("of adversarial", f"of {adversary}")
    found: dict[str, list[Finding]] = {adversary: [] for adversary in adversaries}
    for (adversary, _), finding in zip(asked, judge_together([judgement for _, judgement in asked]), strict=True):
        found[adversary].append(finding)
    return found


def _rare_gain(per_class: Sequence[RegistryClassScore], adversary: str) -> Judgement:
    """B4: a class's gain, its support deciding which half it is in; halves are taken within a registry, task and seed,
    a middle class in neither."""
    gains: dict[tuple, dict[str, float]] = {}
    for row in per_class:
        if row.mode in (adversary, "single"):
            place = (row.registry, row.task, row.seed, row.support, row.label)
            gains.setdefault(place, {})[row.mode] = row.f1.value
    whole = {place: sides[adversary] - sides["single"] for place, sides in gains.items() if len(sides) == 2}
    rare, other, blocks = [], [], []
    for group in sorted({place[:3] for place in whole}):
        inside = [whole[place] for place in sorted(whole) if place[:3] == group]  # by support, then by name
        half = len(inside) // 2
        if half:
            rare.append(float(np.mean(inside[:half])))
            other.append(float(np.mean(inside[-half:])))
            blocks.append(group[0])
    if not blocks:
        return Judgement("B4", missing=f"no registry lists two classes under both {adversary} and single")
    return Judgement(
        "B4",
        over=[
            (f"F1 of the rarer half, {adversary} − single", compare(rare, [0.0] * len(rare), blocks=blocks)),
            ("gain in F1, rarer half − other half", compare(rare, other, blocks=blocks)),
        ],
    )


def _probing(probes: Sequence[ProbeRow], adversary: str) -> Judgement:
    """B5: a proportion against a bound."""
    own = [row for row in probes if row.mode == adversary]
    if not own:
        return Judgement("B5", missing=f"the study has no probe of {adversary}")
    others: dict[str, list[float]] = {}
    for row in probes:
        if row.mode != adversary:
            others.setdefault(row.mode, []).append(row.best)
    probe = Probe(
        values=tuple(row.best for row in own),
        documents=tuple(row.documents for row in own),
        bound=float(np.mean([max(row.chance, row.label or 0.0) for row in own])) + PROBE_MARGIN,
        norm=float(np.mean([row.norm for row in own])),
        other_modes={mode: float(np.mean(values)) for mode, values in others.items()},
    )
    return Judgement("B5", probe=probe)


def vocabulary_findings(
    table1: Sequence[AttackRow], table2: Sequence[TaskScore], *, attack: str = CLASSIFIERS
) -> list[Finding]:
    """A1 to A7 from the rows of a vocabulary study; each row carries its fold (the attack registry)."""
    rows = [row for row in table1 if row.measured and row.attack == attack]
    everything = [row for row in rows if row.bucket == ALL]
    numbers = sorted({row.shadows for row in everything if row.protocol == CROSS})
    most = numbers[-1] if numbers else 0
    strategies = {row.strategy for row in everything if row.shadows == most and row.protocol == CROSS}
    intersections = sorted((s for s in strategies if re.fullmatch(r"I\d+", s)), key=lambda s: int(s[1:]))
    informative = sorted((s for s in strategies if re.fullmatch(r"MI\d+", s)), key=lambda s: int(s[2:]))

    def over(id: str, first: str | None, second: str | None) -> Judgement:
        if first is None or second is None:
            return Judgement(id, missing="the study does not contain both vocabularies")
        settled = [row for row in everything if row.shadows == most]
        return _leaking(id, settled, arm="strategy", arms=(first, second), match=("fold",))

    full = intersections[-1] if intersections else None
    baseline = "B" if "B" in strategies else None
    judgements = [
        _shadows(everything, numbers),
        _rarity([row for row in rows if row.shadows == most]),
        over("A3", baseline, full),
        over("A4", informative[-1] if len(informative) > 1 else None, informative[0] if informative else None),
        over("A5", "I2" if "I2" in strategies else None, baseline),
        _keeps(table2, full),
        _loses(table2, informative[0] if informative else None),
    ]
    return judge_together(judgements)


# What is judged, and what stands beside it: a name, the protocol, the figure.
JUDGED = ("balanced accuracy", CROSS, "balanced_accuracy")
BESIDE = (
    ("accuracy over all reports", CROSS, "accuracy"),
    ("balanced accuracy, matched protocol", MATCHED, "balanced_accuracy"),
)


def _leaking(id: str, rows: Sequence[AttackRow], *, arm: str, arms: tuple[Any, Any], match: Sequence[str]) -> Judgement:
    """One arm leaks more than another."""

    def compared(figure: tuple[str, str, str]) -> tuple[str, Comparison | None]:
        name, protocol, value = figure
        own = [row for row in rows if row.protocol == protocol]
        told = f"{name}, {arms[0]} − {arms[1]}" + (" shadows" if arm == "shadows" else "")
        return told, paired(
            own, arms=arms, arm=arm, match=match, block=("fold",), value=lambda row: getattr(row, value)
        )

    name, judged = compared(JUDGED)
    if judged is None:
        return Judgement(id, missing=f"no fold was attacked with both {arms[0]} and {arms[1]}")
    beside = [(told, found) for told, found in map(compared, BESIDE) if found is not None]
    return Judgement(id, over=[(name, judged)], beside=beside)


def _shadows(rows: Sequence[AttackRow], numbers: Sequence[int]) -> Judgement:
    if len(numbers) < 3:
        return Judgement("A1", missing="levelling off needs attacks at three numbers of shadows at least")
    fewest, most = numbers[0], numbers[-1]
    settled = min(numbers[1:-1], key=lambda n: abs(n - most * 2 / 3))
    match = ("fold", "strategy")
    judgement = _leaking("A1", rows, arm="shadows", arms=(most, fewest), match=match)
    level = _leaking("A1", rows, arm="shadows", arms=(most, settled), match=match)
    judgement.near = [(name, comparison, MARGIN["accuracy"]) for name, comparison in level.over]
    judgement.beside += level.beside
    judgement.missing = judgement.missing or level.missing
    judgement.test = (
        f"balanced accuracy {ATTACK}, all vocabularies, with {most} shadows (the most) above that with {fewest} (the "
        f"fewest), and alike (±0.01) with {settled} (nearest two thirds of the most); paired over folds"
    )
    return judgement


def _rarity(rows: Sequence[AttackRow]) -> Judgement:
    inside = [row for row in rows if row.bucket != ALL]
    judged = sorted((row for row in inside if row.protocol == CROSS), key=lambda row: row.bucket_order)
    names = list(dict.fromkeys(row.bucket for row in judged))
    if len(names) < 2:
        return Judgement("A2", missing="fewer than two buckets could be measured")
    return _leaking("A2", inside, arm="bucket", arms=(names[0], names[-1]), match=("fold", "strategy"))


def _tasks(
    table2: Sequence[TaskScore], first: str, second: str, figure: Callable[[TaskScore], float]
) -> Comparison | None:
    return paired(
        table2,
        arms=(first, second),
        arm="strategy",
        match=("attack_registry", "task"),
        block=("attack_registry",),
        value=figure,
    )


def _keeps(table2: Sequence[TaskScore], full: str | None) -> Judgement:
    judgement = Judgement("A6", missing="" if full else "the study has no intersection vocabulary")
    for figure in ("micro", "macro") if full else ():
        comparison = _tasks(table2, str(full), "B", attrgetter(figure))
        if comparison is None:
            judgement.missing = "the study has no baseline beside the intersection"
        else:
            judgement.near.append((f"{figure} F1, {full} − B", comparison, MARGIN[figure]))
    return judgement


def _loses(table2: Sequence[TaskScore], smallest: str | None) -> Judgement:
    judgement = Judgement("A7", missing="" if smallest else "the study has no mutual-information vocabulary")
    losses = (
        {figure: _tasks(table2, "B", str(smallest), attrgetter(figure)) for figure in ("micro", "macro")}
        if smallest
        else {}
    )
    for figure, comparison in losses.items():
        if comparison is None:
            judgement.missing = "the study has no baseline beside mutual information"
        else:
            judgement.over.append((f"{figure} F1, B − {smallest}", comparison))
    comparison = _tasks(table2, "B", str(smallest), lambda row: row.macro - row.micro) if losses else None
    if comparison is not None:
        judgement.over.append((f"loss in macro − loss in micro F1, {smallest}", comparison))
    return judgement
