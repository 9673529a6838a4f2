"""Findings come out as the rows say, in both directions and in between."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy.optimize import nnls

from pathveil.disclosure import FEWEST_CASES_TOLD
from pathveil.studies import findings as module
from pathveil.studies.claims import CLAIMS, TESTS
from pathveil.studies.findings import vocabulary_findings
from pathveil.studies.over_cases import CaseDraws, ResampledFigures
from pathveil.studies.report.findings import finding_rows
from pathveil.studies.rows import Estimate, Finding
from pathveil.studies.statistics import confidence_of_each
from pathveil.studies.tables import AttackRow, ProbeRow, RegistryClassScore, RegistryScore, TaskScore

REGISTRIES = [f"R{number}" for number in range(1, 8)]


def score(registry: str, task: str, seed: int, mode: str, micro: float, macro: float) -> RegistryScore:
    f1 = {"micro": Estimate.model_construct(value=micro), "macro": Estimate.model_construct(value=macro)}
    return RegistryScore.model_construct(registry=registry, task=task, seed=seed, mode=mode, **f1)


def of_class(registry: str, mode: str, label: str, support: int, f1: float, *, seed: int = 1) -> RegistryClassScore:
    place = {"registry": registry, "task": "site", "seed": seed, "mode": mode, "label": label, "support": support}
    return RegistryClassScore.model_construct(**place, f1=Estimate.model_construct(value=f1))


def changed(row, **changes):
    return row.model_copy(update=changes)


def scores(gains: dict[str, float], *, noise: float = 0.002, seeds=(1, 2, 3), world: int = 0) -> list[RegistryScore]:
    rng = np.random.default_rng(world)
    return [
        score(registry, task, seed, mode, *(0.7 + gain + rng.normal(0, noise) for _ in ("micro", "macro")))
        for registry in REGISTRIES
        for task in ("site", "subsite")
        for seed in seeds
        for mode, gain in gains.items()
    ]


def per_class(gain_rare: float, gain_common: float) -> list[RegistryClassScore]:
    rng = np.random.default_rng(1)

    def f1(mode: str, support: int) -> float:
        return 0.5 + (mode != "single") * (gain_rare if support < 50 else gain_common) + rng.normal(0, 0.005)

    return [
        of_class(registry, mode, f"C{support}", support, f1(mode, support))
        for registry in REGISTRIES
        for support in (10, 20, 100, 200)
        for mode in ("single", "adversarial")
    ]


def probes(value: float) -> list[ProbeRow]:
    base = {"mode": "adversarial", "chance": 0.5, "label": 0.68, "norm": 3.0, "documents": 1200, "head": {}}
    return [ProbeRow(**base, seed=seed, linear=value, mlp=value + 0.005) for seed in (1, 2, 3)]


def distribution_findings(*args, **rows) -> list[Finding]:
    return module.distribution_findings(*args, **rows)["adversarial"]


def answers(findings) -> dict:
    return {finding.id: finding.holds for finding in findings}


def one(findings, id: str) -> Finding:
    (found,) = [finding for finding in findings if finding.id == id]
    return found


def test_the_papers_world():
    rows = scores({"single": 0.0, "centralized": 0.05, "adversarial": 0.05})
    found = answers(distribution_findings(rows, per_class=per_class(0.1, 0.0), probes=probes(0.64)))
    assert found == dict.fromkeys(("B1", "B2", "B3", "B4", "B5"), True)


def test_the_opposite_world():
    rows = scores({"single": 0.05, "centralized": 0.0, "adversarial": -0.05})
    found = answers(distribution_findings(rows, per_class=per_class(0.0, 0.1), probes=probes(0.9)))
    assert found == dict.fromkeys(("B1", "B2", "B3", "B4", "B5"), False)


def test_noise_is_taken_for_evidence_in_one_study_of_twenty():
    """Any answer, of either adversary, in either direction."""
    arms = dict.fromkeys(("single", "centralized", "adversarial", "strong"), 0.0)
    worlds, answered = 300, 0
    for world in range(worlds):
        rows = scores(arms, noise=0.2, seeds=(1,), world=world)
        found = module.distribution_findings(rows, per_class=[], probes=[], adversaries=("adversarial", "strong"))
        answered += any(finding.holds is not None for own in found.values() for finding in own)
    assert 0 < answered / worlds < 0.08


def test_one_set_of_class_weights_makes_the_papers_whole_from_its_buckets():
    """So the paper's accuracy is a mean over its 70 classes: weights of the four buckets of classes, the same for every
    vocabulary and number of shadows, give the "All" rows of its Table 1 (columns B and I2 to I6)."""
    table = pl.read_csv(Path(__file__).with_name("paper_table1.csv"))
    columns = table.columns[2:]
    parts = {name: group.select(columns).to_numpy().ravel() for (name,), group in table.group_by("training samples")}
    whole, buckets = parts.pop("all"), np.stack([*parts.values()], axis=1)
    assert whole.shape == (42,) and buckets.shape == (42, 4)
    weights, _ = nnls(buckets, whole)
    assert weights.sum() == pytest.approx(1, abs=0.005)
    assert np.abs(buckets @ weights - whole).max() < 0.003
    by_bucket = dict(zip(parts, weights, strict=True))
    expected = {"< 100": 0.108, "100 to 999": 0.506, "1,000 to 9,999": 0.310, "≥ 10,000": 0.077}
    assert by_bucket == pytest.approx(expected, abs=0.01)


def table1(accuracy, *, balanced=None) -> list[AttackRow]:
    rng = np.random.default_rng(2)
    rows = []
    for fold in REGISTRIES:
        for strategy, size in (("B", 900), ("I2", 880), ("I6", 300), ("MI500", 500), ("MI100", 100)):
            for shadows in (1, 10, 20):
                for order, bucket in enumerate(("all", "< 100", "≥ 100")):
                    value = accuracy(strategy, shadows, bucket) + rng.normal(0, 0.001)
                    fair = value if balanced is None else balanced + rng.normal(0, 0.001)
                    place = {"attack": "shadow classifiers", "fold": fold, "strategy": strategy, "size": size}
                    place |= {"shadows": shadows, "bucket": bucket, "bucket_order": order}
                    for protocol, figures in (("cross-registry", (value, 0.8, fair)), ("matched", (0.5, 0.8, 0.5))):
                        named = zip(("accuracy", "report_accuracy", "balanced_accuracy"), figures, strict=True)
                        rows.append(AttackRow.model_construct(**place, protocol=protocol, **dict(named)))
    return rows


def table2(micro, macro) -> list[TaskScore]:
    rng = np.random.default_rng(3)
    return [
        TaskScore.model_construct(
            attack_registry=fold,
            strategy=strategy,
            size=1,
            task=task,
            micro=micro.get(strategy, 0.9) + rng.normal(0, 0.001),
            macro=macro.get(strategy, 0.6) + rng.normal(0, 0.001),
        )
        for fold in REGISTRIES
        for strategy in ("B", "I2", "I6", "MI500", "MI100")
        for task in ("site", "subsite")
    ]


def test_the_vocabulary_papers_world():
    leak = {"B": 0.58, "I2": 0.61, "I6": 0.56, "MI500": 0.55, "MI100": 0.52}

    def accuracy(strategy, shadows, bucket):
        return leak[strategy] + (0 if shadows > 1 else -0.02) + (0.1 if bucket == "< 100" else 0)

    found = answers(vocabulary_findings(table1(accuracy), table2({"MI100": 0.8}, {"MI100": 0.4})))
    assert found == dict.fromkeys(("A1", "A2", "A3", "A4", "A5", "A6", "A7"), True)


def test_the_opposite_vocabulary_world():
    leak = {"B": 0.56, "I2": 0.52, "I6": 0.61, "MI500": 0.52, "MI100": 0.55}

    def accuracy(strategy, shadows, bucket):
        return leak[strategy] - (0 if shadows > 1 else -0.02) - (0.1 if bucket == "< 100" else 0)

    found = answers(
        vocabulary_findings(table1(accuracy), table2({"I6": 0.8, "MI100": 0.95}, {"I6": 0.5, "MI100": 0.9}))
    )
    assert found == dict.fromkeys(("A1", "A2", "A3", "A4", "A5", "A6", "A7"), False)


def test_attacks_are_judged_on_the_papers_accuracy_and_again_on_the_balanced_one():
    """Where an attack is right in more classes but finds no more members, the two decide differently."""
    leak = {"B": 0.80, "I2": 0.83, "I6": 0.78, "MI500": 0.75, "MI100": 0.55}

    def accuracy(strategy, shadows, bucket):
        return leak[strategy] + (0 if shadows > 1 else -0.02) + (0.1 if bucket == "< 100" else 0)

    found = vocabulary_findings(table1(accuracy, balanced=0.6), table2({}, {}))
    for id in ("A1", "A2", "A3", "A4", "A5"):
        finding = one(found, id)
        assert finding.holds is True and finding.holds_balanced is not True
        assert "mean over classes" in finding.evidence.test and "cross-registry" in finding.evidence.test
        assert finding.evidence.comparisons[0].low > 0.01
        assert finding.evidence.balanced[0].compared.startswith("balanced accuracy")
        assert abs(finding.evidence.balanced[0].difference) < 0.005
        reports, matched = finding.evidence.beside[:2]
        assert reports.compared.startswith("share of all reports") and reports.difference == 0
        assert "matched" in matched.compared and matched.difference == 0
    assert one(found, "A6").holds_balanced is None and "holds_balanced" not in one(found, "A6").to_dict()
    lines = finding_rows([one(found, "A3")])[0]["lines"]
    assert "On balanced accuracy the answer differs: not enough evidence." in lines


def test_the_shadows_test_says_which_numbers_were_compared():
    found = vocabulary_findings(table1(lambda strategy, shadows, bucket: 0.6), table2({}, {}))
    told = one(found, "A1").evidence
    assert "with 20 shadows" in told.test and "with 1 (" in told.test and "with 10 (" in told.test
    assert [row.compared for row in told.comparisons] == [
        "accuracy, 20 − 1 shadows",
        "accuracy, 20 − 10 shadows",
    ]


def test_rare_classes_that_lose_less_have_not_gained():
    rows = scores({"single": 0.0, "centralized": 0.0, "adversarial": 0.0})
    found = one(distribution_findings(rows, per_class=per_class(-0.05, -0.15), probes=[]), "B4")
    gained, more = found.evidence.comparisons
    assert found.holds is False and gained.high < 0 < more.low


def test_the_rarer_half_is_told_by_support_and_name_never_by_gain():
    """Of two classes as rare, the one that gained less is not the rarer one."""
    rows = [
        of_class(registry, mode, label, 10, 0.5 + (mode == "adversarial") * gain)
        for registry in REGISTRIES
        for label, gain in (("C1", 0.2), ("C2", 0.0))
        for mode in ("single", "adversarial")
    ]
    gained, more = one(distribution_findings([], per_class=rows, probes=[]), "B4").evidence.comparisons
    assert gained.difference == pytest.approx(0.2) and more.difference == pytest.approx(0.2)


def test_registries_are_the_units_and_seeds_are_averaged():
    rows = scores({"single": 0.0, "centralized": 0.05, "adversarial": 0.05}, seeds=(1, 2, 3))
    per = [changed(row, seed=seed) for row in per_class(0.1, 0.0) for seed in (1, 2)]
    for finding in distribution_findings(rows, per_class=per, probes=[]):
        assert all(row.units == len(REGISTRIES) for row in finding.evidence.comparisons)


def test_all_intervals_of_a_study_are_read_together_the_strong_adversarys_too():
    rows = scores({"single": 0.0, "centralized": 0.05, "adversarial": 0.05, "strong": 0.05})
    per = per_class(0.1, 0.0)
    per += [changed(row, mode="strong") for row in per if row.mode == "adversarial"]
    probe = probes(0.66) + [changed(row, mode="strong") for row in probes(0.66)]
    found = module.distribution_findings(rows, per_class=per, probes=probe, adversaries=("adversarial", "strong"))
    assert [finding.id for finding in found["strong"]] == ["B2", "B3", "B4", "B5"]
    shown = [row for name in found for finding in found[name] for row in finding.evidence.comparisons]
    assert len(shown) == 16 and {row.confidence for row in shown} == {confidence_of_each(16)}
    alone = distribution_findings(rows, per_class=per, probes=probe)
    assert {row.confidence for finding in alone for row in finding.evidence.comparisons} == {confidence_of_each(9)}


@pytest.mark.parametrize("sign", [1, -1])
def test_what_one_interval_alone_would_say_is_not_enough_in_either_direction(sign):
    """A difference just past its own 95 % interval is not past one that is read with eight others."""
    spread = np.array([-1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5]) * 0.02  # standard error .0082, 95 % ± .020
    rows = [
        score(registry, "site", 1, mode, 0.7 + gain, 0.7 + gain)
        for registry, shift in zip(REGISTRIES, spread, strict=True)
        for mode, gain in (("single", 0.0), ("centralized", sign * 0.024 + shift), ("adversarial", shift))
    ]
    found = one(distribution_findings(rows, per_class=per_class(0.1, 0.0), probes=probes(0.7)), "B1")
    shown = found.evidence.comparisons[0]
    assert found.holds is None and shown.low < 0 < shown.high
    assert shown.alone[0] * shown.alone[1] > 0  # zero is outside
    assert shown.p < 0.05 < shown.p_adjusted


@pytest.mark.parametrize("values", [(0.66, 0.66, 0.80), (0.80, 0.80, 0.66)])
def test_a_probe_is_judged_in_every_seed(values):
    rows = [changed(row, linear=value, mlp=value) for row, value in zip(probes(0.5), values, strict=True)]
    assert one(distribution_findings([], per_class=[], probes=rows), "B5").holds is None


def test_the_classes_that_are_listed_are_those_the_run_lists():
    assert f"at least {FEWEST_CASES_TOLD} test cases" in TESTS["B4"]


@pytest.mark.parametrize(
    "judge", [lambda: vocabulary_findings([], []), lambda: distribution_findings([], per_class=[], probes=[])]
)
def test_a_study_without_the_arms_judges_nothing_and_says_so(judge):
    for finding in judge():
        assert finding.holds is None and finding.evidence.missing


def test_a_finding_with_half_its_arms_is_not_judged():
    """Rising is seen, levelling off is not: that is no evidence for both."""
    leak = table1(lambda strategy, shadows, bucket: 0.5 + 0.1 * (shadows > 1))
    level = [row for row in leak if row.shadows != 10 or row.fold == "none"]
    level += [changed(row, fold="elsewhere") for row in leak if row.shadows == 10]
    finding = one(vocabulary_findings(level, table2({}, {})), "A1")
    assert finding.holds is None and finding.evidence.missing


def test_too_little_evidence_is_not_the_same_as_missing_arms():
    rows = scores({"single": 0.0, "centralized": 0.0}, noise=0.2)
    found = distribution_findings(rows, per_class=[], probes=[])
    assert one(found, "B1").holds is None and not one(found, "B1").evidence.missing
    assert one(found, "B2").holds is None and "adversarial" in one(found, "B2").evidence.missing


def test_every_claim_has_its_test():
    assert CLAIMS.keys() == TESTS.keys()


def test_repeats_take_chance_out_of_a_unit_and_add_none():
    """Six repeats of a noisy study: the same seven units, a narrower interval, and an answer for these registries."""
    rng = np.random.default_rng(5)

    def rows(repeats: int) -> list[TaskScore]:
        made = []
        for repeat in range(1, repeats + 1):
            for fold in REGISTRIES:
                for strategy, micro in (("B", 0.8), ("I6", 0.8), ("MI100", 0.4)):
                    value = micro + rng.normal(0, 0.01)
                    about = {"attack_registry": fold, "repeat": repeat, "strategy": strategy, "size": 1}
                    made.append(TaskScore.model_construct(**about, task="site", micro=value, macro=value))
        return made

    # Attacks of one repeat give the strategies; their findings are not looked at.
    attacks = [changed(row, repeat=1) for row in table1(lambda strategy, shadows, bucket: 0.6)]
    draws = CaseDraws(cases=np.arange(50), registries=np.zeros(50), resamples=20)
    resampled = ResampledFigures(draws)
    for figure in ("micro", "macro", "macro − micro"):
        for strategy in ("B", "I6", "MI100"):
            resampled.add(figure, ("R1", 1, "site"), strategy, np.full(20, 0.5))
    once = one(vocabulary_findings(attacks, rows(1), resampled=resampled), "A6")
    often = one(vocabulary_findings(attacks, rows(12), resampled=resampled), "A6")
    first, more = once.evidence.comparisons[0], often.evidence.comparisons[0]
    assert first.units == more.units == 7 and more.spread.repeats == 12
    assert more.high - more.low < (first.high - first.low) / 2
    assert first.these is None and once.holds_here is None
    assert more.these.cases == 50 and more.these.low < more.difference < more.these.high and often.holds_here is True
    assert "holds_here" not in once.to_dict() and often.to_dict()["holds_here"] is True
    assert more.needed[0].difference == 0.01 and [row.reports for row in more.needed] == [1, 3, 10]
