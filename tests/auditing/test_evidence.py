"""Protocols, buckets, case scores and suppression, on records whose answer is known."""

import json

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from pathveil.auditing import evidence
from pathveil.auditing.evidence import ALL, CONTROL, CROSS, GIVEN, MATCHED, TOGETHER, Records, Score


def records(*, reports_a_case: int = 1, cases: int = 900, seed: int = 0) -> Records:
    """A third members and a third non-members of registry 0, a third non-members of registry 1; one rare class."""
    rng = np.random.default_rng(seed)
    case = np.repeat(np.arange(cases), reports_a_case)
    rare = rng.random(len(case)) < 0.1
    return Records(
        member=case % 3 == 0,
        cases=case,
        labels={"site": rare.astype(int), "histology": rng.integers(0, 3, len(case))},
        classes={"site": ("C50", "C80"), "histology": ("8500", "8140", "8000")},
        registries=(case % 3 == 2).astype(int),
    )


def pick(rows, **wanted):
    found = [row for row in rows if all(getattr(row, key) == value for key, value in wanted.items())]
    assert len(found) == 1, (wanted, len(found))
    return found[0]


def test_protocols_put_the_right_people_on_each_side():
    data = records()
    found = {protocol.name: protocol for protocol in evidence.protocols(data)}
    assert list(found) == [MATCHED, CROSS, CONTROL]
    assert (found[MATCHED].negative == (data.cases % 3 == 1)).all()
    assert (found[CROSS].positive == data.member).all() and (found[CROSS].negative == (data.cases % 3 == 2)).all()
    assert (found[CONTROL].positive == found[MATCHED].negative).all()
    unknown = Records(data.member, data.cases, data.labels, data.classes)
    assert [protocol.name for protocol in evidence.protocols(unknown)] == [GIVEN]


def test_a_change_of_source_shows_in_the_control_and_not_in_the_matched_protocol():
    data = records()
    rng = np.random.default_rng(1)
    shift = Score("loss", "site", rng.normal(size=900) - 2.0 * data.registries)  # the source and nothing else
    rows = evidence.measure([shift], data, edges=(100,))
    assert abs(pick(rows, protocol=MATCHED, bucket=ALL).auc.value - 0.5) < 0.06
    assert pick(rows, protocol=CROSS, bucket=ALL).auc.value > 0.85
    control = pick(rows, protocol=CONTROL, bucket=ALL)
    assert control.auc.value > 0.85 and not control.decides


def test_figures_are_those_of_the_records_in_the_cell():
    data = records()
    values = np.random.default_rng(2).normal(size=900) + data.member
    rows = evidence.measure([Score("loss", "site", values)], data, edges=(100,))
    rare = (data.labels["site"] == 1) & (data.registries == 0)
    row = pick(rows, protocol=MATCHED, bucket="< 100")
    assert (row.n_members, row.n_non_members) == (int(data.member[rare].sum()), int((~data.member[rare]).sum()))
    assert row.auc.value == pytest.approx(roc_auc_score(data.member[rare], values[rare]), abs=1e-6)
    assert row.tpr_at_fpr["0.01"].value is None and "cannot be measured" in row.tpr_at_fpr["0.01"].note
    assert row.tpr_at_fpr["0.1"].sure <= row.tpr_at_fpr["0.1"].low
    json.dumps([row.to_dict() for row in rows], allow_nan=False)


def test_accuracy_is_over_the_classes_of_the_scores_task():
    data = records()
    values = np.random.default_rng(7).normal(size=900) + data.member
    scores = [Score("loss", task, values, threshold=0.5) for task in ("site", "histology", TOGETHER)]
    rows = evidence.measure(scores, data, edges=(1,))
    home = data.registries == 0
    right = ((values >= 0.5) == data.member)[home]
    for task, label in (("site", "site"), ("histology", "histology"), (TOGETHER, "site")):
        row, classes = pick(rows, protocol=MATCHED, task=task), data.labels[label][home]
        shares = [right[classes == one].mean() for one in np.unique(classes)]
        assert row.accuracy.value == pytest.approx(np.mean(shares), abs=1e-6)
        assert row.report_accuracy.value == pytest.approx(right.mean(), abs=1e-6)


def test_a_class_keeps_the_bucket_that_its_mean_number_of_samples_gives():
    data = records()
    scores = [Score("loss", "site", np.random.default_rng(8).normal(size=900))]
    own = pick(evidence.measure(scores, data, edges=(100,)), protocol=MATCHED, bucket="≥ 100")
    given = {"site": np.array([50.0, 150.0]), "histology": np.zeros(3)}
    swapped = pick(evidence.measure(scores, data, edges=(100,), training=given), protocol=MATCHED, bucket="< 100")
    assert own.n_members == swapped.n_members == (data.member & (data.labels["site"] == 0)).sum()


def test_small_cells_hold_no_number():
    data = records(cases=240)
    rows = evidence.measure([Score("loss", "site", np.zeros(240))], data, edges=(20,))
    row = pick(rows, protocol=MATCHED, bucket="< 20")
    assert row.to_dict()["suppressed"].startswith("fewer than 10")
    assert not {"auc", "n_members"} & row.to_dict().keys()


def test_scores_without_a_value_are_left_out():
    data = records()
    values = np.random.default_rng(3).normal(size=900)
    values[:450] = np.nan
    row = evidence.measure([Score("loss", "site", values)], data, edges=(1,))[0]
    assert row.n_members == 150


def test_a_case_is_judged_by_all_its_reports():
    """Three weak reports a case: together they tell more, and the row by case says so."""
    data = records(reports_a_case=3)
    values = np.random.default_rng(4).normal(size=2700) + 0.5 * data.member
    rows = evidence.measure([Score("LiRA online", TOGETHER, values, shadows=4, adds_up=True)], data, edges=(1,))
    by_report = pick(rows, protocol=MATCHED, unit="report", bucket=ALL)
    by_case = pick(rows, protocol=MATCHED, unit="case")
    assert by_case.n_members == by_case.member_cases == by_report.member_cases == 300
    means = values.reshape(900, 3).mean(1)
    home = np.arange(900) % 3 < 2
    assert by_case.auc.value == pytest.approx(roc_auc_score(data.member[::3][home], means[home]), abs=1e-6)
    assert by_case.auc.low > by_report.auc.value


def test_bounds_for_all_looks_are_lower_the_more_looks_there_are():
    data = records()
    values = np.random.default_rng(5).normal(size=900) + 1.5 * data.member
    one = evidence.measure([Score("loss", "site", values)], data, edges=(1,))
    many = evidence.measure([Score(f"loss {k}", "site", values) for k in range(30)], data, edges=(1,))
    first, last = one[0].tpr_at_fpr["0.1"], many[0].tpr_at_fpr["0.1"]
    assert last.low == first.low and 0 < last.sure < first.sure < first.low


def test_curves_are_aggregates_that_rise():
    data = records()
    values = np.random.default_rng(6).normal(size=900) + data.member
    drawn = evidence.curves([Score("loss", "site", values)], data)
    assert [curve.protocol for curve in drawn] == [MATCHED, CROSS, CONTROL]
    for curve in drawn:
        assert len(curve.fpr) == 60 < data.member.sum()
        assert np.all(np.diff(curve.tpr) >= 0)
        assert all(low <= tpr <= high for low, tpr, high in zip(curve.low, curve.tpr, curve.high, strict=True))


def test_buckets_follow_the_papers_edges():
    training = np.array([0, 99, 100, 999, 1000, 9999, 10_000])
    assert evidence.bucket_of(np.arange(7), training).tolist() == [0, 0, 1, 1, 2, 2, 3]
    assert evidence.bucket_names() == ("< 100", "100 to 999", "1,000 to 9,999", "≥ 10,000")
    assert evidence.bucket_names((25,)) == ("< 25", "≥ 25")
