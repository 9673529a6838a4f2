"""Against closed forms, scikit-learn, and worlds that are drawn again."""

import numpy as np
import pytest
from sklearn.metrics import f1_score

from pathveil.studies.over_cases import CaseDraws, ResampledFigures, class_accuracies, class_scores
from pathveil.studies.statistics import among_these, compare


def test_every_registry_keeps_its_number_of_cases_and_a_case_its_reports():
    cases = np.array([5, 5, 7, 8, 9, 9])
    draws = CaseDraws(cases=cases, registries=np.array([0, 0, 0, 1, 1, 1]), resamples=50)
    weights = draws.of(np.arange(6))
    assert (weights[0] == weights[1]).all() and (weights[4] == weights[5]).all()
    assert (weights[[0, 2]].sum(0) == 2).all() and (weights[[3, 4]].sum(0) == 2).all()
    assert draws.cases == 4 and weights[2].std() > 0


def test_weights_stand_for_repeated_documents():
    rng = np.random.default_rng(0)
    truth, said = rng.integers(0, 4, 60), rng.integers(0, 4, 60)
    member = rng.random(60) < 0.6
    draws = CaseDraws(cases=np.arange(60), registries=member.astype(int), resamples=5)
    weights = draws.of(np.arange(60))
    _, f1, micro = class_scores(truth, said, weights)
    accuracy = class_accuracies(said > 1, member, truth, weights)
    for number in range(5):
        rows = np.repeat(np.arange(60), weights[:, number].astype(int))
        labels = np.arange(4)
        expected = f1_score(truth[rows], said[rows], average=None, labels=labels, zero_division=0)
        assert f1[:, number] == pytest.approx(expected, abs=1e-5)
        assert micro[number] == pytest.approx((truth == said)[rows].mean(), abs=1e-5)
        right = ((said > 1) == member)[rows]
        by_class = [right[truth[rows] == label].mean() for label in range(4)]
        assert accuracy[number] == pytest.approx(np.mean(by_class), abs=1e-5)


def test_the_error_of_a_difference_of_means_is_the_closed_form():
    """Micro F1 of two models on one set of cases: the error of a mean of paired differences."""
    rng = np.random.default_rng(2)
    truth = rng.integers(0, 3, 900)
    arms = {name: np.where(rng.random(900) < share, truth, 3) for name, share in (("B", 0.8), ("I6", 0.7))}
    found = ResampledFigures(CaseDraws(cases=np.arange(900), registries=np.zeros(900), resamples=800))
    for name, said in arms.items():
        found.add_scores(("R1", 1, "site"), name, np.arange(900), truth, said)
    differences = (arms["B"] == truth).astype(float) - (arms["I6"] == truth)
    assert found.error("micro", ("B", "I6")) == pytest.approx(differences.std() / 30, rel=0.1)
    assert found.error("macro", ("B", "I6")) > 0
    assert found.error("micro", ("B", "I2")) is None


def test_these_registries_are_covered_where_cases_and_trainings_are_drawn_again():
    """Seven registries whose own differences stay; cases and trainings are new in every world."""
    rng = np.random.default_rng(3)
    own = rng.normal(0, 0.05, 7)  # what registries differ by, which no new case or training changes
    covered = narrower = 0
    worlds = 300
    for _ in range(worlds):
        case_noise = rng.normal(0, 0.01)  # shared by all folds and repeats, as cases are
        values = own[:, None] + case_noise + rng.normal(0, 0.02, (7, 4))
        blocks, repeats = np.repeat(np.arange(7), 4).tolist(), np.tile(np.arange(4), 7).tolist()
        found = compare(values.ravel().tolist(), [0.0] * 28, blocks=blocks, repeats=repeats)
        low, high = among_these(found, 0.01)
        covered += low <= own.mean() <= high
        elsewhere = found.interval()
        narrower += high - low < elsewhere[1] - elsewhere[0]
    assert 0.92 <= covered / worlds <= 0.99 and narrower == worlds


def test_without_repeats_nothing_is_said_of_these():
    low, high = among_these(compare([0.1, 0.2], [0.0, 0.0], blocks=["R1", "R2"]), 0.01)
    assert (low, high) == (float("-inf"), float("inf"))
