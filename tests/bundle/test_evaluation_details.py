"""Details of an evaluation: by hand, against other formulas, and never about fewer than ten cases."""

import numpy as np
import pytest
from scipy.stats import binomtest
from sklearn.metrics import precision_recall_fscore_support

from pathveil.bundle.evaluation_details import (
    accuracy_of,
    calibration_bins,
    confused,
    coverage_curve,
    detail_task,
    group_rows,
)
from pathveil.training.metrics import evaluate

NAMES = ("C18", "C50", "C61", "C99")


@pytest.fixture(scope="module")
def answers():
    """600 documents of 300 cases; class 2 has few cases, class 3 the model never saw."""
    rng = np.random.default_rng(4)
    cases = np.repeat(np.arange(300), 2)
    truth = np.repeat(rng.permutation(np.repeat(np.arange(4), [150, 132, 9, 9])), 2)
    truth[:6] = -1
    probability = rng.uniform(0.4, 1.0, 600)
    chosen = np.where(rng.random(600) < probability, np.minimum(truth, 2), (truth + 1) % 3)
    return truth, chosen, probability, cases


def test_an_interval_is_wilsons_where_cases_are_single_reports():
    right = np.arange(80) % 4 > 0
    told, wilson = accuracy_of(right, np.arange(80)), binomtest(60, 80).proportion_ci(method="wilson")
    assert (told.value, told.low, told.high) == pytest.approx((0.75, wilson.low, wilson.high), abs=1e-4)
    doubled = accuracy_of(np.repeat(right, 2), np.repeat(np.arange(80), 2))  # every report twice tells nothing new
    assert (doubled.low, doubled.high) == pytest.approx((told.low, told.high), abs=1e-6)
    assert accuracy_of(np.ones(10, bool), np.arange(10)).high == 1.0


def test_nothing_is_told_of_fewer_than_ten_cases(answers):
    truth, chosen, probability, cases = answers
    registry = np.where(cases < 290, "R1", "R2").astype(str)
    registry[cases >= 295] = "R3"  # five cases each
    groups = {"registry": registry, "year": np.full(600, "")}
    scores = evaluate(truth, chosen, cases=cases, resamples=50)
    options = {"truth": truth, "chosen": chosen, "probability": probability, "cases": cases}
    options["empty"] = np.zeros(600, bool)
    told = detail_task("site", scores, groups=groups, names=NAMES, **options)
    held = {name: len(np.unique(cases[truth == label])) for label, name in enumerate(NAMES)}
    assert 0 < held["C61"] < 10 and 0 < held["C99"] < 10 < held["C18"]
    assert [row.label for row in told.classes] == ["C18", "C50"] and told.rare_classes == 2
    assert [row.name for row in told.registries] == ["R1"] and told.small_groups == 2 and told.years == []
    assert "R2" not in told.model_dump_json() and "C99" not in told.model_dump_json()
    labelled = truth >= 0
    expected = precision_recall_fscore_support(truth[labelled], chosen[labelled], labels=[0])
    row = told.classes[0]
    assert (row.precision, row.recall, row.f1.value) == pytest.approx([part[0] for part in expected[:3]])
    assert row.term == "colon" and row.documents == int((truth == 0).sum())


def test_what_is_told_hides_what_is_not():
    """A rare class of three cases, a small registry, a rare confusion: sums less what is told are of ten cases."""
    cases = np.arange(100)
    truth = np.repeat([0, 1, 2], [60, 37, 3])
    groups = np.repeat(["R1", "R2", "R3"], [50, 46, 4])
    rows, small = group_rows(groups, np.ones(100, bool), cases)
    assert [row.name for row in rows] == ["R1"] and small == 2
    chosen = np.where(cases < 25, 1, truth)  # 25 of class 0 are said to be 1
    chosen[60:72], chosen[-1] = 0, 0  # 12 of class 1 are said to be 0, and one of class 2
    assert [(one.label, one.said) for one in confused(truth, chosen, cases, names=NAMES)[0]] == [("C18", "C50")]
    assert confused(truth, chosen, cases, names=NAMES)[1] == 13
    scores = evaluate(truth, chosen, cases=cases, resamples=10)
    options = {"truth": truth, "chosen": chosen, "probability": np.ones(100), "cases": cases}
    told = detail_task(
        "site", scores, groups={"registry": groups, "year": groups}, names=NAMES, empty=truth > 9, **options
    )
    assert [row.label for row in told.classes] == ["C18"] and told.rare_classes == 2


def test_confusions_and_errors_add_up(answers):
    truth, chosen, _, cases = (part[6:] for part in answers)
    found, others = confused(truth, chosen, cases, names=NAMES)
    rest = int((truth != chosen).sum()) - sum(one.documents for one in found)
    assert found and 0 < rest and others in (rest, None)
    for one in found:
        where = (truth == NAMES.index(one.label)) & (chosen == NAMES.index(one.said))
        assert where.sum() == one.documents and len(np.unique(cases[where])) >= 10
    assert confused(truth, truth, cases, names=NAMES) == ([], 0)
    few = np.where(np.arange(len(truth)) < 4, (truth + 1) % 3, truth)
    assert confused(truth, few, cases, names=NAMES) == ([], None)


def test_calibration_and_coverage_by_hand():
    probability = np.repeat([0.95, 0.55], [40, 40])
    right = np.r_[np.arange(40) < 36, np.arange(40) < 20]
    none = np.arange(0)
    high = calibration_bins(probability, right, np.arange(80), unbinned=none)[1]
    assert (high.low, high.documents, high.right) == (0.9, 40, 0.9) and high.probability == pytest.approx(0.95)
    curve = coverage_curve(np.tile(probability, 3), np.tile(right, 3), np.arange(240))
    assert [one.coverage for one in curve][:2] == [0.05, 0.1] and curve[-1].accuracy == 56 / 80
    half = next(one for one in curve if one.coverage == 0.5)
    assert (half.accuracy, half.probability) == (0.9, 0.95)
    assert calibration_bins(probability, right, np.zeros(80), unbinned=none) == []
    assert coverage_curve(probability, right, np.zeros(80)) == []


def test_bins_and_points_of_a_curve_tell_nothing_of_few_by_subtraction():
    right, cases = np.arange(100) % 3 > 0, np.arange(100)
    probability = np.repeat([0.95, 0.75, 0.55], [60, 36, 4])
    bins = calibration_bins(probability, right, cases, unbinned=cases[:0])
    assert [one.low for one in bins] == [0.9]  # 36 hide the four
    unread = calibration_bins(probability[:96], right[:96], cases[:96], unbinned=cases[96:])
    assert unread == bins  # so do they those without a known word
    assert len(calibration_bins(probability[:96], right[:96], cases[:96], unbinned=cases[:0])) == 2
    taken = [round(one.coverage * 100) for one in coverage_curve(probability, right, cases)]
    assert taken == list(range(10, 101, 10))
    taken = [round(one.coverage * 64) for one in coverage_curve(probability[:64], right[:64], cases[:64])]
    assert np.diff([0, *taken]).min() >= 10 and taken[-1] == 64


def test_groups_without_a_name_are_passed_over():
    rows, small = group_rows(np.array(["", "2016"] * 10), np.ones(20, bool), np.arange(20))
    assert [row.name for row in rows] == ["2016"] and small == 0
    rows, small = group_rows(np.repeat(["", "2016", "2017"], [3, 30, 20]), np.ones(53, bool), np.arange(53))
    assert [row.name for row in rows] == ["2016"] and small == 1  # three without a year, which 2017 hides
