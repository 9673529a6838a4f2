"""Every mode runs, is scored on the same unseen cases, and gives an aggregate result."""

import json

import numpy as np
import pytest

from pathveil.errors import UsageError
from pathveil.federation.heads import Confidence
from pathveil.federation.probe import probe
from pathveil.federation.run import MODES, Outcome, result_of, run, unseen_rows
from pathveil.federation.settings import FederationSettings
from pathveil.vocabulary.encoded import EncodedCorpus


def corpus(*, documents: int = 240, registries: int = 3) -> EncodedCorpus:
    """Word 2 + class marks the class; word 30 + registry marks the registry; the rest is noise."""
    rng = np.random.default_rng(0)
    label, registry = rng.integers(0, 4, documents), np.arange(documents) % registries
    lines = [np.r_[rng.integers(10, 28, 8), 2 + y, 30 + r, 2 + y] for y, r in zip(label, registry, strict=True)]
    lines = [rng.permutation(line) for line in lines]
    return EncodedCorpus(
        ids=np.concatenate(lines).astype(np.int32),
        offsets=np.arange(documents + 1) * 11,
        cases=np.arange(documents),
        registries=registry,
        registry_names=("R1", "R2", "R3")[:registries],
        labels={"site": label.astype(np.int32)},
        classes={"site": ("C10", "C20", "C30", "C40")},
        vocabulary_size=40,
    )


QUICK = {
    "dim": 12,
    "filters": 8,
    "epochs": 12,
    "batch_size": 24,
    "dropout": 0.2,
    "optimiser": "adam",
    "learning_rate": 0.02,
}


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_learns_and_reports_aggregates(mode):
    reports = corpus()
    settings = FederationSettings.strong(**QUICK) if mode == "strong" else FederationSettings(**QUICK)
    outcome = run(reports, mode=mode, settings=settings, seed=1)
    result = json.loads(json.dumps(result_of(reports, [outcome], resamples=50)))
    assert {row["registry"] for row in result["scores"]} == {"R1", "R2", "R3"}
    assert np.mean([row["micro"]["value"] for row in result["scores"]]) > 0.7
    assert all(row["micro"]["low"] <= row["micro"]["value"] <= row["micro"]["high"] for row in result["scores"])
    assert all(row["support"] >= row["cases"] >= 10 for row in result["per_class"])
    assert bool(result["probe"]) == (mode != "single")
    assert (result["traffic"][0]["bytes_to_hub"] > 0) == (mode not in ("single", "centralized"))


@pytest.mark.parametrize("mode", ["adversarial", "centralized"])
def test_training_that_diverges_is_a_sentence(mode):
    settings = FederationSettings(**QUICK | {"epochs": 2, "learning_rate": 1e30})
    with pytest.raises(UsageError, match=r"training diverged: .* lower learning_rate"):
        run(corpus(), mode=mode, settings=settings, seed=1)


def test_nothing_is_told_of_few_cases_however_many_reports_they_have():
    """A registry's 20 test reports: 10 of class 0 are 3 cases' and 10 of class 1 are 10 cases'; another has 9 cases."""
    cases = np.concatenate([np.arange(10) % 3, np.arange(10, 20), 100 + np.arange(20) % 9])
    reports = EncodedCorpus(
        ids=np.zeros(40, np.int32),
        offsets=np.arange(41),
        cases=cases,
        registries=np.repeat([0, 1], 20).astype(np.int32),
        registry_names=("R1", "R2"),
        labels={"site": np.repeat([0, 1, 0, 1], 10).astype(np.int32)},
        classes={"site": ("C1", "C2")},
        vocabulary_size=3,
    )
    answers = {number: {"site": np.zeros(20, int)} for number in (0, 1)}
    nobody = Confidence(np.zeros(0), np.zeros(0, bool), np.zeros(0, int))
    unseen = {0: np.arange(20), 1: np.arange(20, 40)}
    outcome = Outcome("fedavg", 1, unseen, answers, nobody, [], 0.0, documents=0)
    reports.labels["laterality"] = np.where(cases < 3, 0, -1).astype(np.int32)
    reports.classes["laterality"] = ("left",)
    figures = np.random.default_rng(0).normal(size=(40, 3))
    outcome.probe = probe(figures, reports.registries, cases=cases, labels=reports.labels["site"])
    outcome.head = {task: {"micro": 1.0, "macro": 1.0} for task in ("site", "laterality")}
    found = result_of(reports, [outcome], resamples=5)
    assert [(row["registry"], row["documents"], row["cases"]) for row in found["scores"]] == [("R1", 20, 13)]
    assert [(row["label"], row["support"], row["cases"]) for row in found["per_class"]] == [("C2", 10, 10)]
    assert [*found["probe"][0]["head"]] == ["site"]  # three cases have a laterality
    outcome.unseen = {1: np.arange(20, 40)}  # nine cases in all
    outcome.predictions.pop(0)
    assert result_of(reports, [outcome], resamples=5)["probe"] == []


def test_test_cases_are_the_same_in_every_mode_and_unseen():
    reports = corpus()
    once, again = unseen_rows(reports, share=0.2, seed=3), unseen_rows(reports, share=0.2, seed=3)
    assert all((once[number] == again[number]).all() for number in once)
    assert all(len(rows) == 16 for rows in once.values())


def test_one_registry_is_not_a_distribution():
    with pytest.raises(UsageError, match="at least 2 registries"):
        run(corpus(registries=1), mode="single", settings=FederationSettings(**QUICK), seed=0)


def test_a_registry_too_small_to_train_and_test_on_is_named():
    reports = corpus()
    few = np.r_[np.flatnonzero(reports.registries != 1), np.flatnonzero(reports.registries == 1)[:5]]
    with pytest.raises(UsageError, match="registry R2 has 4 cases with labels to train on and 1 to test on; expected"):
        run(reports.take(few), mode="single", settings=FederationSettings(**QUICK), seed=0)


def test_documents_seen_are_those_that_gradients_came_from():
    outcome = run(corpus(), mode="centralized", settings=FederationSettings(**(QUICK | {"epochs": 2})), seed=1)
    # 80 cases a registry: 16 to test on, 6 of the others to choose the epoch by.
    assert outcome.documents == 2 * 3 * (80 - 16 - 6) == 2 * outcome.confidence.member.sum()
