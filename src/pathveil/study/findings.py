"""The papers' findings, judged on one's own data: holds, does not hold, or not enough evidence.

Each finding has a claim, a test that is stated in the report, and the numbers behind the answer. Comparisons are paired
over folds (vocabulary study) or over registries and seeds (distribution study; over registries alone where all seeds
have the same test cases); the one-sided p-values of a study's findings are adjusted together (Holm). A finding that
needs several comparisons to come out has the largest of their p-values (an intersection–union test). "Alike" means a
95 % interval within a margin: 0.01 for micro F1 and attack accuracy, 0.02 for macro F1. A finding whose arms the study
lacks is listed as not judged.

>>> rows = [{"registry": r, "task": "site", "seed": 1, "mode": mode, "micro": {"value": base + bonus},
...          "macro": {"value": base + bonus}}
...         for r, base in (("R1", .7), ("R2", .8), ("R3", .75), ("R4", .72), ("R5", .78), ("R6", .74))
...         for mode, bonus in (("single", 0.0), ("centralized", 0.05 + base / 100))]
>>> found = {finding["id"]: finding["holds"] for finding in distribution_findings(rows, per_class=[], probes=[])}
>>> found["B1"], found["B2"]
(True, None)
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pathveil.study.statistics import Answer, Comparison, above, alike, compare, holm

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

TESTS = {
    "A1": "attack accuracy with the most shadows above that with one, and alike (±0.01) with two thirds of the most",
    "A2": "balanced attack accuracy in the rarest bucket above that in the most frequent one, paired over folds",
    "A3": "attack accuracy on the baseline above that on the full intersection, paired over folds",
    "A4": "attack accuracy on the largest mutual-information vocabulary above that on the smallest, paired over folds",
    "A5": "attack accuracy on I2 above that on the baseline, paired over folds",
    "A6": "micro F1 (±0.01) and macro F1 (±0.02) of the full intersection alike the baseline's, paired over folds",
    "A7": "F1 of the smallest mutual-information vocabulary below the baseline's, and the loss larger in macro F1",
    "B1": "micro and macro F1 of centralized above single, paired over registries and seeds (means over tasks)",
    "B2": "micro F1 (±0.01) and macro F1 (±0.02) of adversarial alike centralized, paired over registries and seeds",
    "B3": "micro and macro F1 of adversarial above single, paired over registries and seeds",
    "B4": "the gain in F1 of adversarial over single larger in the rarer half of the listed classes than in the other",
    "B5": "the better probe's accuracy on unseen cases at most 0.02 above what the true label alone gives away",
}


@dataclass
class Judgement:
    """A finding on its way: comparisons that must be above zero, and others that must be alike."""

    id: str
    over: list[tuple[str, Comparison]] = field(default_factory=list)
    near: list[tuple[str, Comparison, float]] = field(default_factory=list)
    missing: str = ""


def verdicts(judgements: Sequence[Judgement]) -> list[dict[str, Any]]:
    """Answers with the findings' p-values adjusted together."""
    tested = [judgement for judgement in judgements if judgement.over]
    pending = holm([max(comparison.p for _, comparison in judgement.over) for judgement in tested])
    adjusted = dict(zip((judgement.id for judgement in tested), pending, strict=True))
    findings = []
    for judgement in judgements:
        answers: list[Answer] = []
        evidence = []
        for name, comparison in judgement.over:
            answers.append(above(comparison, p=adjusted[judgement.id]))
            evidence.append({"compared": name, **_shown(comparison), "p_adjusted": adjusted[judgement.id]})
        for name, comparison, margin in judgement.near:
            answers.append(alike(comparison, margin=margin))
            evidence.append({"compared": name, **_shown(comparison), "margin": margin})
        findings.append(_finding(judgement.id, both(answers), evidence, missing=judgement.missing))
    return findings


def both(answers: Sequence[Answer]) -> Answer:
    """True if all are, False if any is, None otherwise."""
    if not answers:
        return None
    return False if any(a is False for a in answers) else (True if all(answers) else None)


def _shown(comparison: Comparison) -> dict[str, Any]:
    finite = np.isfinite(comparison.low)
    return {
        "difference": comparison.mean,
        "low": comparison.low if finite else None,
        "high": comparison.high if finite else None,
        "p": comparison.p,
        "units": comparison.units,
    }


def _finding(id: str, holds: Answer, evidence: Any, *, missing: str = "") -> dict[str, Any]:
    shown = {"test": TESTS[id], "comparisons": evidence} | ({"missing": missing} if missing else {})
    return {"id": id, "claim": CLAIMS[id], "holds": holds, "evidence": shown}


Row = Mapping[str, Any]


def paired(
    rows: Sequence[Row],
    *,
    arms: tuple[Any, Any],
    arm: str,
    match: Sequence[str],
    block: Sequence[str],
    value: Callable[[Row], float],
) -> Comparison | None:
    """First arm minus second where both have a row with the same ``match`` fields; None where there is no pair."""
    sides: tuple[dict[tuple, float], dict[tuple, float]] = ({}, {})
    for row in rows:
        for side, wanted in zip(sides, arms, strict=True):
            if row[arm] == wanted:
                side[tuple(row[name] for name in match)] = value(row)
    common = [key for key in sides[0] if key in sides[1]]
    if not common:
        return None
    places = [list(match).index(name) for name in block]
    blocks = [tuple(key[place] for place in places) for key in common]
    return compare([sides[0][key] for key in common], [sides[1][key] for key in common], blocks=blocks)


def distribution_findings(
    scores: Sequence[Row],
    *,
    per_class: Sequence[Row],
    probes: Sequence[Row],
    adversarial: str = "adversarial",
    same_cases: bool = False,
) -> list[dict[str, Any]]:
    """B1 to B5 from the rows of a distribution study; where all seeds are tested on the ``same_cases``, a registry's
    differences are averaged first."""
    block = ("registry",) if same_cases else ("registry", "seed")

    def modes(first: str, second: str, figure: str) -> Comparison | None:
        match = ("registry", "task", "seed")
        return paired(
            scores,
            arms=(first, second),
            arm="mode",
            match=match,
            block=block,
            value=lambda row: row[figure]["value"],
        )

    def both_figures(id: str, first: str, second: str, *, near: bool) -> Judgement:
        judgement = Judgement(id)
        for figure in ("micro", "macro"):
            comparison = modes(first, second, figure)
            if comparison is None:
                judgement.missing = f"the study has no {first} beside {second}"
            elif near:
                judgement.near.append((f"{figure} F1, {first} − {second}", comparison, MARGIN[figure]))
            else:
                judgement.over.append((f"{figure} F1, {first} − {second}", comparison))
        return judgement

    judgements = [
        both_figures("B1", "centralized", "single", near=False),
        both_figures("B2", adversarial, "centralized", near=True),
        both_figures("B3", adversarial, "single", near=False),
        _rare_gain(per_class, adversarial, same_cases=same_cases),
    ]
    return [*verdicts(judgements), _probe_finding(probes, adversarial)]


def _rare_gain(per_class: Sequence[Row], adversarial: str, *, same_cases: bool) -> Judgement:
    """B4: a class's gain, its support deciding which half it is in; halves are taken within a registry and task."""
    judgement = Judgement("B4")
    gains: dict[tuple, dict[str, list[float]]] = {}
    for row in per_class:
        if row["mode"] in (adversarial, "single"):
            place = (row["registry"], row["task"], row["seed"], row["label"])
            sides = gains.setdefault(place, {"support": [row["support"]]})
            sides.setdefault(row["mode"], []).append(row["f1"]["value"])
    whole = {key: s for key, s in gains.items() if adversarial in s and "single" in s}
    first, second, blocks = [], [], []
    for group in sorted({key[:3] for key in whole}):
        inside = sorted(
            (s["support"][0], s[adversarial][0] - s["single"][0]) for k, s in whole.items() if k[:3] == group
        )
        half = len(inside) // 2
        if half:
            first.append(float(np.mean([gain for _, gain in inside[:half]])))
            second.append(float(np.mean([gain for _, gain in inside[-half:]])))
            blocks.append((group[0], None if same_cases else group[2]))
    if blocks:
        judgement.over.append(("gain in F1, rarer half − other half", compare(first, second, blocks=blocks)))
    else:
        judgement.missing = "no registry lists two classes under both modes"
    return judgement


def _probe_finding(probes: Sequence[Row], adversarial: str) -> dict[str, Any]:
    """B5: a proportion against a bound, with the spread over seeds and a binomial floor."""
    own = [row for row in probes if row["mode"] == adversarial]
    if not own:
        return _finding("B5", None, [], missing=f"the study has no probe of {adversarial}")
    accuracy = np.array([max(row["linear"], row["mlp"]) for row in own])
    bound = float(np.mean([max(row["chance"], row["label"] or 0.0) for row in own])) + PROBE_MARGIN
    documents = min(row["documents"] for row in own)
    mean = float(accuracy.mean())
    error = max(
        accuracy.std(ddof=1) / len(accuracy) ** 0.5 if len(own) > 1 else 0.0, (mean * (1 - mean) / documents) ** 0.5
    )
    low, high = mean - 1.96 * error, mean + 1.96 * error
    holds = True if high <= bound else (False if low > bound else None)
    norm = float(np.mean([row["norm"] for row in own]))
    others = {row["mode"]: max(row["linear"], row["mlp"]) for row in probes if row["mode"] != adversarial}
    shown = {"compared": "probe accuracy", "value": mean, "low": low, "high": high, "bound": bound, "norm": norm}
    return _finding("B5", holds, [shown | {"other_modes": others}])


def vocabulary_findings(
    table1: Sequence[Row], table2: Sequence[Row], *, protocol: str = "cross-registry", attack: str = "per-class"
) -> list[dict[str, Any]]:
    """A1 to A7 from the rows of a vocabulary study; each row carries its fold (the attack registry)."""
    rows = [row for row in table1 if row["protocol"] == protocol and row["attack"] == attack]
    everything = [row for row in rows if row["bucket"] == "all"]
    numbers = sorted({row["shadows"] for row in everything})
    most = numbers[-1] if numbers else 0
    settled = [row for row in everything if row["shadows"] == most]
    strategies = {row["strategy"]: row["size"] for row in settled}
    intersections = sorted((s for s in strategies if re.fullmatch(r"I\d+", s)), key=lambda s: int(s[1:]))
    informative = sorted((s for s in strategies if re.fullmatch(r"MI\d+", s)), key=lambda s: int(s[2:]))

    def attacked(first: str, second: str) -> Comparison | None:
        arms, value = (first, second), _accuracy
        return paired(settled, arms=arms, arm="strategy", match=("fold",), block=("fold",), value=value)

    def over(id: str, first: str | None, second: str | None) -> Judgement:
        comparison = attacked(first, second) if first and second else None
        if comparison is None:
            return Judgement(id, missing="the study does not contain both vocabularies")
        return Judgement(id, over=[(f"attack accuracy, {first} − {second}", comparison)])

    full = intersections[-1] if intersections else None
    judgements = [
        _shadows(everything, numbers),
        _rarity(rows, most),
        over("A3", "B", full),
        over("A4", informative[-1] if len(informative) > 1 else None, informative[0] if informative else None),
        over("A5", "I2" if "I2" in strategies else None, "B"),
        _keeps(table2, full),
        _loses(table2, informative[0] if informative else None),
    ]
    return verdicts(judgements)


def _accuracy(row: Row) -> float:
    return row["accuracy"]


def _shadows(rows: Sequence[Row], numbers: Sequence[int]) -> Judgement:
    judgement = Judgement("A1")
    if len(numbers) < 3:
        judgement.missing = "levelling off needs attacks at three numbers of shadows at least"
        return judgement
    settled = min(numbers[1:-1], key=lambda n: abs(n - numbers[-1] * 2 / 3))
    match = ("fold", "strategy")
    for other, near in ((numbers[0], False), (settled, True)):
        arms = (numbers[-1], other)
        comparison = paired(rows, arms=arms, arm="shadows", match=match, block=("fold",), value=_accuracy)
        if comparison is None:
            judgement.missing = "no fold was attacked with these numbers of shadows"
        elif near:
            judgement.near.append((f"accuracy, {arms[0]} − {other} shadows", comparison, MARGIN["accuracy"]))
        else:
            judgement.over.append((f"accuracy, {arms[0]} − {other} shadows", comparison))
    return judgement


def _rarity(rows: Sequence[Row], most: int) -> Judgement:
    inside = [row for row in rows if row["shadows"] == most and row["bucket"] != "all"]
    inside = [row for row in inside if row["balanced_accuracy"] is not None]
    names = list(dict.fromkeys(row["bucket"] for row in sorted(inside, key=lambda row: row["bucket_order"])))
    if len(names) < 2:
        return Judgement("A2", missing="fewer than two buckets could be measured")
    comparison = paired(
        inside,
        arms=(names[0], names[-1]),
        arm="bucket",
        match=("fold", "strategy"),
        block=("fold",),
        value=lambda row: row["balanced_accuracy"],
    )
    if comparison is None:
        return Judgement("A2", missing="no fold has both the rarest and the most frequent bucket")
    return Judgement("A2", over=[(f"balanced accuracy, {names[0]} − {names[-1]}", comparison)])


def _tasks(table2: Sequence[Row], first: str, second: str, figure: str) -> Comparison | None:
    return paired(
        table2,
        arms=(first, second),
        arm="strategy",
        match=("attack_registry", "task"),
        block=("attack_registry",),
        value=lambda row: row[figure],
    )


def _keeps(table2: Sequence[Row], full: str | None) -> Judgement:
    judgement = Judgement("A6", missing="" if full else "the study has no intersection vocabulary")
    for figure in ("micro", "macro") if full else ():
        comparison = _tasks(table2, str(full), "B", figure)
        if comparison is None:
            judgement.missing = "the study has no baseline beside the intersection"
        else:
            judgement.near.append((f"{figure} F1, {full} − B", comparison, MARGIN[figure]))
    return judgement


def _loses(table2: Sequence[Row], smallest: str | None) -> Judgement:
    judgement = Judgement("A7", missing="" if smallest else "the study has no mutual-information vocabulary")
    losses = {figure: _tasks(table2, "B", str(smallest), figure) for figure in ("micro", "macro")} if smallest else {}
    for figure, comparison in losses.items():
        if comparison is None:
            judgement.missing = "the study has no baseline beside mutual information"
        else:
            judgement.over.append((f"{figure} F1, B − {smallest}", comparison))
    spread = [row | {"gap": row["macro"] - row["micro"]} for row in map(dict, table2)]
    comparison = _tasks(spread, "B", str(smallest), "gap") if losses else None
    if comparison is not None:
        judgement.over.append((f"loss in macro − loss in micro F1, {smallest}", comparison))
    return judgement
