"""The papers' findings, judged on one's own data: holds, does not hold, or not enough evidence.

Each finding has a claim, a test that is stated in the report, and the numbers behind the answer. Comparisons are paired
over folds (vocabulary study) or over registries (distribution study), each registry's tasks and seeds averaged first:
all registries of a seed share one centralized model, and all seeds of a registry its reports. Every interval of a study
is taken at the level at which all of them cover together at 95 % (``statistics.confidence_of_each``), those of the
strong adversary's findings included, and answers in both directions are read off these intervals. A finding of several
comparisons holds if all come out, and does not hold if one is contradicted. "Alike" means an interval within a margin:
0.01 for micro F1 and attack accuracy, 0.02 for macro F1.

Where a fold or registry was repeated (other splits and trainings), ``holds_here`` is read off a second interval, of the
same differences at these registries alone (``statistics.among_these``), and every comparison says how many registries
would decide it (``studies.power``).

A finding whose arms the study lacks is *not judged*: ``holds`` is None and ``evidence["missing"]`` says what it lacks.
Where ``missing`` is absent, None means that there is not enough evidence.

Attacks are judged on the paper's accuracy, the mean over attack models, of which each class has one. In a study of
seven registries four reports of five are members, and who calls everyone a member is right about four of five. So each
of these findings is judged a second time on balanced accuracy (the mean of the shares of members and of non-members
told rightly), and says where that decides otherwise. The share of all reports told rightly stands beside them, as does
the matched protocol.

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
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any

import numpy as np

from pathveil.auditing.attack_names import CLASSIFIERS
from pathveil.auditing.evidence import ALL, CROSS, MATCHED
from pathveil.disclosure import FEWEST_CASES_TOLD
from pathveil.studies.claims import ATTACK, MARGIN, PROBE_MARGIN, TESTS
from pathveil.studies.judgement import Compared, Judgement, Probe, judge_together
from pathveil.studies.over_cases import CaseDraws, ResampledFigures, class_scores
from pathveil.studies.rows import Finding
from pathveil.studies.statistics import Comparison, compare
from pathveil.studies.tables import AttackRow, ProbeRow, RegistryClassScore, RegistryScore, TaskScore
from pathveil.vocabulary.encoded import EncodedCorpus


def paired(
    rows: Sequence[Any],
    *,
    arms: tuple[Any, Any],
    arm: str,
    match: Sequence[str],
    block: Sequence[str],
    repeat: str,
    value: Callable[[Any], float],
) -> Comparison | None:
    """First arm minus second where both have a row with the same ``match`` fields and the same ``repeat``; None where
    there is no pair."""
    match = (*match, repeat)
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
    repeats = [key[-1] for key in common]
    return compare([sides[0][key] for key in common], [sides[1][key] for key in common], blocks=blocks, repeats=repeats)


def distribution_findings(
    scores: Sequence[RegistryScore],
    *,
    per_class: Sequence[RegistryClassScore],
    probes: Sequence[ProbeRow],
    adversaries: Sequence[str] = ("adversarial",),
    resampled: ResampledFigures | None = None,
) -> dict[str, list[Finding]]:
    """B1 to B5 of the first adversary, and B2 to B5 of any other (B1 is about none), judged together, from the rows of
    a distribution study."""

    def both_figures(id: str, first: str, second: str, *, near: bool) -> Judgement:
        compared = modes_compared(scores, first, second, near=near, resampled=resampled)
        missing = "" if compared else f"the study has no {first} beside {second}"
        return Judgement(id, compared=compared, missing=missing)

    asked = [(adversaries[0], both_figures("B1", "centralized", "single", near=False))]
    for adversary in adversaries:
        asked += [
            (adversary, both_figures("B2", adversary, "centralized", near=True)),
            (adversary, both_figures("B3", adversary, "single", near=False)),
            (adversary, _rare_gain(per_class, adversary, resampled)),
            (adversary, _probing(probes, adversary)),
        ]
    for adversary, judgement in asked:
        judgement.test = TESTS[judgement.id].replace("of adversarial", f"of {adversary}")
    found: dict[str, list[Finding]] = {adversary: [] for adversary in adversaries}
    for (adversary, _), finding in zip(asked, judge_together([judgement for _, judgement in asked]), strict=True):
        found[adversary].append(finding)
    return found


def modes_compared(
    scores: Sequence[RegistryScore],
    first: str,
    second: str,
    *,
    near: bool,
    resampled: ResampledFigures | None = None,
) -> list[Compared]:
    """Micro and macro F1 of one mode minus another's, paired over registries; none where no registry has both."""
    found = []
    for figure in ("micro", "macro"):
        comparison = paired(
            scores,
            arms=(first, second),
            arm="mode",
            match=("registry", "task"),
            block=("registry",),
            repeat="seed",
            value=lambda row, figure=figure: getattr(row, figure).value,
        )
        if comparison is None:
            return []
        margin = MARGIN[figure] if near else None
        about = with_cases(resampled, figure, (first, second))
        found.append(Compared(f"{figure} F1, {first} − {second}", comparison, margin, **about))
    return found


def with_cases(resampled: ResampledFigures | None, figure: str, arms: tuple[str, str]) -> dict[str, Any]:
    """What a comparison is told of resampled cases, where they were."""
    error = None if resampled is None else resampled.error(figure, arms)
    return {} if resampled is None or error is None else {"case_error": error, "cases": resampled.draws.cases}


Halves = dict[tuple[str, int, str], tuple[list[str], list[str]]]  # by registry, seed and task: rarer classes, others


def class_halves(per_class: Sequence[RegistryClassScore], modes: Sequence[str]) -> Halves:
    """The rarer and the other half of the classes that all these modes list at a registry, by their support there and
    then by name; a middle class is in neither."""
    listed: dict[tuple[str, int, str], dict[tuple[int, str], set[str]]] = {}
    for row in per_class:
        if row.mode in modes:
            place = listed.setdefault((row.registry, row.seed, row.task), {})
            place.setdefault((row.support, row.label), set()).add(row.mode)
    halves = {}
    for place in sorted(listed):
        names = [label for (_, label), there in sorted(listed[place].items()) if len(there) == len(modes)]
        half = len(names) // 2
        if half:
            halves[place] = names[:half], names[-half:]
    return halves


RARER, RARER_MORE = "F1 of the rarer half", "F1 of the rarer half − other half"  # as resampled figures are called


def _rare_gain(
    per_class: Sequence[RegistryClassScore], adversary: str, resampled: ResampledFigures | None
) -> Judgement:
    """B4: a class's gain, its support deciding which half it is in."""
    arms = (adversary, "single")
    halves = class_halves(per_class, arms)
    if not halves:
        enough = f"two classes of {FEWEST_CASES_TOLD} test cases or more that {adversary} and single both score"
        return Judgement("B4", missing=f"no registry has {enough}; with more reports a registry it would be judged")
    f1 = {(row.mode, row.registry, row.seed, row.task, row.label): row.f1.value for row in per_class}

    def gain(place: tuple[str, int, str], names: Sequence[str]) -> float:
        return float(np.mean([f1[(adversary, *place, name)] - f1[("single", *place, name)] for name in names]))

    rare, other = ([gain(place, both[side]) for place, both in halves.items()] for side in (0, 1))
    units = {"blocks": [place[0] for place in halves], "repeats": [place[1] for place in halves]}
    return Judgement(
        "B4",
        compared=[
            Compared(
                f"F1 of the rarer half, {adversary} − single",
                compare(rare, [0.0] * len(rare), **units),
                **with_cases(resampled, f"{RARER}, {adversary}", arms),
            ),
            Compared(
                "gain in F1, rarer half − other half",
                compare(rare, other, **units),
                **with_cases(resampled, f"{RARER_MORE}, {adversary}", arms),
            ),
        ],
    )


def resampled_modes(
    corpus: EncodedCorpus,
    answers: Iterable[tuple[str, int, Mapping[int, np.ndarray], Mapping[str, np.ndarray]]],
    scores: Sequence[RegistryScore],
    per_class: Sequence[RegistryClassScore],
    adversaries: Sequence[str],
) -> ResampledFigures:
    """The figures that B1 to B4 compare, with other cases: from each mode's and seed's unseen documents by registry,
    and the classes it names (``said-<task>``)."""
    found = ResampledFigures(CaseDraws(cases=corpus.cases, registries=corpus.registries))
    halves = {adversary: class_halves(per_class, (adversary, "single")) for adversary in adversaries}
    told = {(row.registry, row.mode, row.seed, row.task) for row in scores}
    for mode, seed, unseen, arrays in answers:
        for number, rows in unseen.items():
            name = corpus.registry_names[number]
            for task in corpus.tasks:
                if (name, mode, seed, task) not in told:
                    continue
                place = (name, seed, task)
                truth, said = np.asarray(corpus.labels[task])[rows], np.asarray(arrays[f"said-{task}"])[rows]
                found.add_scores(place, mode, rows, truth, said)
                for adversary in adversaries:
                    if place in halves[adversary] and mode in (adversary, "single"):
                        both = [
                            [corpus.classes[task].index(label) for label in half] for half in halves[adversary][place]
                        ]
                        _add_halves(found, (adversary, mode), place, rows, truth, said, both)
    return found


def _add_halves(
    found: ResampledFigures,
    arms: tuple[str, str],
    place: tuple[str, int, str],
    rows: np.ndarray,
    truth: np.ndarray,
    said: np.ndarray,
    both: Sequence[Sequence[int]],
) -> None:
    """F1 of the rarer half of the classes that an adversary and single training list, and how far it is above the other
    half's."""
    adversary, mode = arms
    known = truth >= 0
    classes, f1, _ = class_scores(truth[known], said[known], found.draws.of(rows[known]))
    rare, other = (f1[np.isin(classes, half)].mean(0) for half in both)
    found.add(f"{RARER}, {adversary}", place, mode, rare)
    found.add(f"{RARER_MORE}, {adversary}", place, mode, rare - other)


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
    table1: Sequence[AttackRow],
    table2: Sequence[TaskScore],
    *,
    attack: str = CLASSIFIERS,
    resampled: ResampledFigures | None = None,
) -> list[Finding]:
    """A1 to A7 from the rows of a vocabulary study; each row carries its fold (the attack registry)."""
    rows = [row for row in table1 if row.measured and row.attack == attack]
    everything = [row for row in rows if row.bucket == ALL]
    numbers = sorted({row.shadows for row in everything if row.protocol == CROSS})
    most = numbers[-1] if numbers else 0
    strategies = {row.strategy for row in everything if row.shadows == most and row.protocol == CROSS}
    intersections, informative = by_kind(strategies)

    def over(id: str, first: str | None, second: str | None) -> Judgement:
        if first is None or second is None:
            return Judgement(id, missing="the study does not contain both vocabularies")
        settled = [row for row in everything if row.shadows == most]
        judgement = _leaking(id, settled, arm="strategy", arms=(first, second), match=("fold",))
        about = with_cases(resampled, "accuracy", (first, second))
        judgement.compared = [replace(one, **about) for one in judgement.compared]
        return judgement

    full = intersections[-1] if intersections else None
    baseline = "B" if "B" in strategies else None
    judgements = [
        _shadows(everything, numbers),
        _rarity([row for row in rows if row.shadows == most]),
        over("A3", baseline, full),
        over("A4", informative[-1] if len(informative) > 1 else None, informative[0] if informative else None),
        over("A5", "I2" if "I2" in strategies else None, baseline),
        _keeps(table2, full, resampled),
        _loses(table2, informative[0] if informative else None, resampled),
    ]
    return judge_together(judgements)


def by_kind(names: Collection[str]) -> tuple[list[str], list[str]]:
    """Intersections and mutual-information vocabularies among the names, the smallest number first.

    >>> by_kind(["B", "I6", "MI500", "I2", "MI100"])
    (['I2', 'I6'], ['MI100', 'MI500'])
    """
    intersections = sorted((s for s in names if re.fullmatch(r"I\d+", s)), key=lambda s: int(s[1:]))
    return intersections, sorted((s for s in names if re.fullmatch(r"MI\d+", s)), key=lambda s: int(s[2:]))


def compared_vocabularies(names: Collection[str]) -> set[str]:
    """Those that A3 to A7 compare with each other."""
    intersections, informative = by_kind(names)
    return {"B", "I2", *intersections[-1:], *informative[:1], *informative[-1:]} & set(names)


# What is judged, the second judgement, and what stands beside them: a name, the protocol, the figure.
JUDGED = ("accuracy", CROSS, "accuracy")
BALANCED = ("balanced accuracy", CROSS, "balanced_accuracy")
BESIDE = (
    ("share of all reports", CROSS, "report_accuracy"),
    ("accuracy, matched protocol", MATCHED, "accuracy"),
    ("balanced accuracy, matched protocol", MATCHED, "balanced_accuracy"),
)


def _leaking(id: str, rows: Sequence[AttackRow], *, arm: str, arms: tuple[Any, Any], match: Sequence[str]) -> Judgement:
    """One arm leaks more than another."""

    def compared(figure: tuple[str, str, str]) -> tuple[str, Comparison | None]:
        name, protocol, value = figure
        own = [row for row in rows if row.protocol == protocol and getattr(row, value) is not None]
        told = f"{name}, {arms[0]} − {arms[1]}" + (" shadows" if arm == "shadows" else "")
        about = {"arms": arms, "arm": arm, "match": match, "block": ("fold",), "repeat": "repeat"}
        return told, paired(own, **about, value=lambda row: getattr(row, value))

    def comparisons(*figures: tuple[str, str, str]) -> list[Compared]:
        return [Compared(name, found) for name, found in map(compared, figures) if found is not None]

    judged = comparisons(JUDGED)
    missing = "" if judged else f"no fold was attacked with both {arms[0]} and {arms[1]}"
    return Judgement(id, compared=judged, balanced=comparisons(BALANCED), beside=comparisons(*BESIDE), missing=missing)


def _shadows(rows: Sequence[AttackRow], numbers: Sequence[int]) -> Judgement:
    if len(numbers) < 3:
        return Judgement("A1", missing="levelling off needs attacks at three numbers of shadows at least")
    fewest, most = numbers[0], numbers[-1]
    settled = min(numbers[1:-1], key=lambda n: abs(n - most * 2 / 3))
    match = ("fold", "strategy")
    judgement = _leaking("A1", rows, arm="shadows", arms=(most, fewest), match=match)
    level = _leaking("A1", rows, arm="shadows", arms=(most, settled), match=match)
    for both, alike in ((judgement.compared, level.compared), (judgement.balanced, level.balanced)):
        both += [replace(one, margin=MARGIN["accuracy"]) for one in alike]
    judgement.beside += level.beside
    judgement.missing = judgement.missing or level.missing
    judgement.test = (
        f"accuracy {ATTACK}, all vocabularies, with {most} shadows (the most) above that with {fewest} (the "
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
        repeat="repeat",
        value=figure,
    )


def _keeps(table2: Sequence[TaskScore], full: str | None, resampled: ResampledFigures | None) -> Judgement:
    judgement = Judgement("A6", missing="" if full else "the study has no intersection vocabulary")
    for figure in ("micro", "macro") if full else ():
        comparison = _tasks(table2, str(full), "B", attrgetter(figure))
        if comparison is None:
            judgement.missing = "the study has no baseline beside the intersection"
        else:
            about = with_cases(resampled, figure, (str(full), "B"))
            judgement.compared.append(Compared(f"{figure} F1, {full} − B", comparison, MARGIN[figure], **about))
    return judgement


def _loses(table2: Sequence[TaskScore], smallest: str | None, resampled: ResampledFigures | None) -> Judgement:
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
            about = with_cases(resampled, figure, ("B", str(smallest)))
            judgement.compared.append(Compared(f"{figure} F1, B − {smallest}", comparison, **about))
    comparison = _tasks(table2, "B", str(smallest), lambda row: row.macro - row.micro) if losses else None
    if comparison is not None:
        about = with_cases(resampled, "macro − micro", ("B", str(smallest)))
        name = f"loss in macro − loss in micro F1, {smallest}"
        judgement.compared.append(Compared(name, comparison, **about))
    return judgement
