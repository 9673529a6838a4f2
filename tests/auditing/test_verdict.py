"""The verdict, case by case."""

import pytest

from pathveil.auditing.appetite import Appetite, Limit
from pathveil.auditing.controls import Control
from pathveil.auditing.evidence import CanaryRow, Cell, Figure, MeasuredRow, ShareFound, SuppressedRow, TooFew
from pathveil.auditing.verdict import judge

APPETITE = Appetite(release="probabilities", limits=(Limit(fpr=0.1, overall=0.2, worst_task=0.25, worst_bucket=0.3),))
HOLDS = [Control(name=kind, kind=kind, holds=True) for kind in ("null", "planted")]


CELL = Cell(
    protocol="matched", attack="loss", task="all tasks", unit="report", bucket="all", shadows=0, label_only=False,
    decides=True,
)  # fmt: skip


def row(low, value, high, *, sure=None, auc=0.6, **changes):
    area = Figure(value=auc, low=auc - 0.02, high=auc + 0.02)
    found = ShareFound(value=value, low=low, high=high, sure=low if sure is None else sure)
    sizes = dict.fromkeys(("n_members", "n_non_members", "member_cases", "non_member_cases"), 500)
    accuracies = {"accuracy": area, "report_accuracy": area, "balanced_accuracy": area, "auc": area}
    return MeasuredRow(**(dict(CELL) | changes), **sizes, **accuracies, tpr_at_fpr={"0.1": found})


def whole(**overall):
    """A complete set of rows, safe but for the changes given for the overall one."""
    safe = {"low": 0.08, "value": 0.1, "high": 0.14}
    return [
        row(**{**safe, **overall}),
        row(**safe, task="site"),
        row(**safe, task="histology"),
        row(**safe, bucket="< 100"),
        row(**safe, bucket="≥ 100"),
    ]


def test_all_limits_kept_is_a_pass_with_three_numbers():
    verdict = judge(whole(), controls=HOLDS, appetite=APPETITE)
    assert (verdict.answer, verdict.exit_code) == ("pass", 0)
    assert [number.criterion for number in verdict.numbers] == ["overall", "worst_task", "worst_bucket"]
    assert verdict.sentence.startswith("Pass: ") and "14 %" in verdict.sentence and "20 %" in verdict.sentence


def test_a_limit_surely_broken_is_a_fail():
    verdict = judge(whole(low=0.3, value=0.4, high=0.5), controls=HOLDS, appetite=APPETITE)
    assert (verdict.answer, verdict.exit_code) == ("fail", 3)
    assert "40 % (30 % to 50 %)" in verdict.sentence


def test_attacks_on_weights_count_only_where_weights_leave():
    rows = [*whole(), row(low=0.5, value=0.6, high=0.7, attack="gradient norm", weights_only=True)]
    assert judge(rows, controls=HOLDS, appetite=APPETITE).answer == "pass"
    assert judge(rows, controls=HOLDS, appetite=APPETITE.changed(release="weights")).answer == "fail"


def canary(low, auc, high, *, sure=None, label_only=False, kind="mislabelled"):
    return CanaryRow(
        kind=kind, attack="LiRA online", label_only=label_only, auc=auc, low=low, high=high,
        sure=low if sure is None else sure, canaries=50, models=20,
    )  # fmt: skip


def test_an_appetite_may_limit_the_worst_kind_of_canary():
    appetite = APPETITE.changed(worst_canary=0.65)
    judged = {"controls": HOLDS, "appetite": appetite}
    safe, found, unclear = canary(0.48, 0.5, 0.55), canary(0.8, 0.9, 0.95, kind="twin"), canary(0.6, 0.63, 0.7)
    kept = judge(whole(), **judged, canaries=[safe])
    assert (kept.answer, kept.canary.state) == ("pass", "kept")
    broken = judge(whole(), **judged, canaries=[safe, found])
    assert broken.answer == "fail" and broken.canary.kind == "twin"
    assert (
        broken.sentence.startswith("Fail: an attacker who is shown two canaries (twin)") and "0.90" in broken.sentence
    )
    undecided = judge(whole(), **judged, canaries=[safe, unclear])
    assert undecided.answer == "not enough evidence" and "0.63" in undecided.sentence and undecided.reasons
    assert judge(whole(), **judged).reasons == (
        "the appetite limits what canaries may give away, and none were planted (--canaries)",
    )
    # What is broken elsewhere is said first; without a limit canaries decide nothing; labels give only labels away.
    worse = judge(whole(low=0.3, value=0.4, high=0.5), **judged, canaries=[found])
    assert worse.answer == "fail" and "40 % (30 % to 50 %)" in worse.sentence
    assert judge(whole(), controls=HOLDS, appetite=APPETITE, canaries=[found]).answer == "pass"
    labels = [row(low=0.08, value=0.1, high=0.14, label_only=True)]
    alone = Appetite(release="label", worst_canary=0.65, limits=(Limit(fpr=0.1, overall=0.2),))
    only = judge(labels, controls=HOLDS, appetite=alone, canaries=[found, canary(0.4, 0.5, 0.6, label_only=True)])
    assert only.answer == "pass"


def test_a_lower_bound_that_many_looks_undo_is_no_fail():
    verdict = judge(whole(low=0.3, value=0.4, high=0.5, sure=0.1), controls=HOLDS, appetite=APPETITE)
    assert (verdict.answer, verdict.exit_code) == ("not enough evidence", 4)


def test_an_interval_across_the_limit_is_not_enough_evidence():
    verdict = judge(whole(low=0.1, value=0.15, high=0.21), controls=HOLDS, appetite=APPETITE)
    assert verdict.answer == "not enough evidence" and "21 %" in verdict.sentence
    assert any("all tasks together" in reason for reason in verdict.reasons)


@pytest.mark.parametrize(
    ("common", "rare", "state"),
    [
        ((0.70, 0.75, 0.80), (0.68, 0.97, 1.0), "broken"),  # the common codes are the surer breach
        ((0.10, 0.20, 0.45), (0.18, 0.22, 0.40), "open"),  # and here what may be more
        ((0.00, None, 1.00), (0.18, 0.22, 0.40), "open"),
        ((0.10, 0.20, 0.29), (0.18, 0.22, 0.28), "kept"),
    ],
)
def test_the_worst_row_is_the_highest_value_whichever_row_decides(common, rare, state):
    paper = row(0.9, 0.98, 1.0, bucket="< 100", attack="shadow classifiers", decides=False)
    rows = [*whole(), row(*common, bucket="≥ 100"), row(*rare, bucket="< 100"), paper]
    verdict = judge(rows, controls=HOLDS, appetite=APPETITE)
    decisive, worst = verdict.numbers[-1], verdict.worst[-1]
    assert (decisive.criterion, decisive.bucket, decisive.value) == ("worst_bucket", "≥ 100", common[1])
    assert (worst.criterion, worst.bucket, worst.value) == ("worst_bucket", "< 100", rare[1])
    assert decisive.state == state and verdict.worst[:2] == verdict.numbers[:2]


@pytest.mark.parametrize("where", [{"task": "histology"}, {"bucket": "< 100"}])
def test_the_worst_task_and_the_worst_bucket_decide_too(where):
    verdict = judge([*whole(), row(0.5, 0.6, 0.7, **where)], controls=HOLDS, appetite=APPETITE)
    assert verdict.answer == "fail"


def test_failed_controls_give_no_pass():
    for kind in ("null", "planted"):
        failed = [Control(name="the control", kind=kind, holds=False)]
        verdict = judge(whole(), controls=failed, appetite=APPETITE)
        assert verdict.answer == "not enough evidence" and "the control" in verdict.sentence
    leaking = whole(low=0.3, value=0.4, high=0.5)
    null = [Control(name="the control", kind="null", holds=False)]
    assert judge(leaking, controls=null, appetite=APPETITE).answer == "not enough evidence"
    planted = [Control(name="the control", kind="planted", holds=False)]
    assert judge(leaking, controls=planted, appetite=APPETITE).answer == "fail"


def test_only_label_attacks_count_when_only_labels_are_released():
    rows = [*whole(low=0.3, value=0.4, high=0.5), *(one.model_copy(update={"label_only": True}) for one in whole())]
    assert judge(rows, controls=HOLDS, appetite=APPETITE).answer == "fail"
    labels = APPETITE.model_copy(update={"release": "label"})
    assert judge(rows, controls=HOLDS, appetite=labels).answer == "pass"


def test_the_papers_attack_never_decides():
    rows = [*whole(), row(0.8, 0.9, 1.0, attack="shadow classifiers", decides=False)]
    assert judge(rows, controls=HOLDS, appetite=APPETITE).answer == "pass"


def test_cross_registry_counts_only_above_its_control():
    leak = {"low": 0.5, "value": 0.6, "high": 0.7, "protocol": "cross-registry", "auc": 0.8}
    source = row(0.5, 0.6, 0.7, protocol="cross-registry control", auc=0.79, decides=False)
    assert judge([*whole(), row(**leak), source], controls=HOLDS, appetite=APPETITE).answer == "pass"
    weaker = row(0.1, 0.2, 0.3, protocol="cross-registry control", auc=0.6, decides=False)
    assert judge([*whole(), row(**leak), weaker], controls=HOLDS, appetite=APPETITE).answer == "fail"


def test_a_broken_limit_is_shown_by_membership_alone_where_it_can_be():
    leak = row(0.6, 0.7, 0.8, protocol="cross-registry", auc=0.9)
    source = row(0.1, 0.2, 0.3, protocol="cross-registry control", auc=0.6, decides=False)
    rows = [*whole(low=0.3, value=0.4, high=0.5), leak, source]
    verdict = judge(rows, controls=HOLDS, appetite=APPETITE)
    assert verdict.answer == "fail" and verdict.numbers[0].protocol == "matched" and "40 %" in verdict.sentence
    assert verdict.worst[0].protocol == "matched"  # what a change of source adds is not the worst


def test_a_bucket_without_non_members_blocks_a_pass_and_one_without_members_does_not():
    cell = dict(CELL) | {"bucket": "< 5"}
    few = SuppressedRow(**cell, suppressed=TooFew.NON_MEMBERS)
    verdict = judge([*whole(), few], controls=HOLDS, appetite=APPETITE)
    assert verdict.answer == "not enough evidence" and any("< 5" in reason for reason in verdict.reasons)
    nobody = SuppressedRow(**cell, suppressed=TooFew.MEMBERS)
    assert judge([*whole(), nobody], controls=HOLDS, appetite=APPETITE).answer == "pass"


def test_one_task_and_one_bucket_stand_for_the_whole():
    verdict = judge([row(0.08, 0.1, 0.14, task="site")], controls=HOLDS, appetite=APPETITE)
    assert verdict.answer == "pass" and len(verdict.numbers) == 3


def test_nothing_measured_is_not_a_pass():
    assert judge([], controls=HOLDS, appetite=APPETITE).answer == "not enough evidence"
