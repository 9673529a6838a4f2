"""Findings come out as the rows say, in both directions and in between."""

import numpy as np
import pytest

from pathveil.study.findings import CLAIMS, TESTS, distribution_findings, vocabulary_findings

REGISTRIES = [f"R{number}" for number in range(1, 8)]


def scores(gains: dict[str, float], *, noise: float = 0.002, seeds=(1, 2, 3)) -> list[dict]:
    rng = np.random.default_rng(0)
    return [
        {"registry": registry, "task": task, "seed": seed, "mode": mode}
        | {figure: {"value": 0.7 + gain + rng.normal(0, noise)} for figure in ("micro", "macro")}
        for registry in REGISTRIES
        for task in ("site", "subsite")
        for seed in seeds
        for mode, gain in gains.items()
    ]


def per_class(gain_rare: float, gain_common: float) -> list[dict]:
    rng = np.random.default_rng(1)
    return [
        {"registry": registry, "task": "site", "seed": 1, "mode": mode, "label": f"C{support}", "support": support}
        | {
            "f1": {
                "value": 0.5 + (mode != "single") * (gain_rare if support < 50 else gain_common) + rng.normal(0, 0.005)
            }
        }
        for registry in REGISTRIES
        for support in (10, 20, 100, 200)
        for mode in ("single", "adversarial")
    ]


def probes(value: float) -> list[dict]:
    base = {"chance": 0.5, "label": 0.68, "norm": 3.0, "documents": 1200}
    return [base | {"mode": "adversarial", "seed": s, "linear": value, "mlp": value + 0.005} for s in (1, 2, 3)]


def answers(findings) -> dict:
    return {finding["id"]: finding["holds"] for finding in findings}


def test_the_papers_world():
    rows = scores({"single": 0.0, "centralized": 0.05, "adversarial": 0.05})
    found = answers(distribution_findings(rows, per_class=per_class(0.1, 0.0), probes=probes(0.66)))
    assert found == dict.fromkeys(("B1", "B2", "B3", "B4", "B5"), True)


def test_the_opposite_world():
    rows = scores({"single": 0.05, "centralized": 0.0, "adversarial": -0.05})
    found = answers(distribution_findings(rows, per_class=per_class(0.0, 0.1), probes=probes(0.9)))
    assert found == dict.fromkeys(("B1", "B2", "B3", "B4", "B5"), False)


def test_noise_is_not_evidence():
    rows = scores({"single": 0.0, "centralized": 0.0, "adversarial": 0.0}, noise=0.2)
    found = answers(distribution_findings(rows, per_class=[], probes=probes(0.70)))
    assert found == dict.fromkeys(("B1", "B2", "B3", "B4", "B5"), None)


def table1(accuracy) -> list[dict]:
    rng = np.random.default_rng(2)
    rows = []
    for fold in REGISTRIES:
        for strategy, size in (("B", 900), ("I2", 880), ("I6", 300), ("MI500", 500), ("MI100", 100)):
            for shadows in (1, 10, 20):
                for order, bucket in enumerate(("all", "< 100", "≥ 100")):
                    value = accuracy(strategy, shadows, bucket) + rng.normal(0, 0.001)
                    rows.append(
                        {"protocol": "cross-registry", "attack": "per-class", "fold": fold, "strategy": strategy}
                        | {"size": size, "shadows": shadows, "bucket": bucket, "bucket_order": order}
                        | {"accuracy": value, "balanced_accuracy": value}
                    )
    return rows


def table2(micro, macro) -> list[dict]:
    rng = np.random.default_rng(3)
    return [
        {"attack_registry": fold, "strategy": strategy, "size": 1, "task": task}
        | {
            "micro": micro.get(strategy, 0.9) + rng.normal(0, 0.001),
            "macro": macro.get(strategy, 0.6) + rng.normal(0, 0.001),
        }
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


@pytest.mark.parametrize(
    "judge", [lambda: vocabulary_findings([], []), lambda: distribution_findings([], per_class=[], probes=[])]
)
def test_a_study_without_the_arms_judges_nothing_and_says_so(judge):
    for finding in judge():
        assert finding["holds"] is None and finding["evidence"]["missing"]


def test_every_claim_has_its_test():
    assert CLAIMS.keys() == TESTS.keys()
