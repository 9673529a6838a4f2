"""Answers for other registries and for these, side by side."""

from pathveil.studies.judgement import Compared, Judgement, all_of, judge_together
from pathveil.studies.statistics import Comparison


def judged(*compared: Compared):
    [finding] = judge_together([Judgement("A6", compared=list(compared))])
    return finding


def test_registries_that_differ_leave_open_what_holds_here():
    """Units far apart say little about others, and repeats that agree much about these."""
    mixed = Compared("F1", Comparison(0.02, 0.02, 7, repeats=9, within=0.001), case_error=0.001, cases=900)
    finding = judged(mixed)
    assert finding.holds is None and finding.holds_here is True
    [told] = finding.evidence.comparisons
    assert told.low < 0 < told.these.low and told.these.cases == 900 and told.these.confidence == told.confidence
    against = Compared("F1", Comparison(-0.02, 0.02, 7, repeats=9, within=0.001), case_error=0.001, cases=900)
    assert judged(against).holds_here is False
    near = Compared("F1", Comparison(0.001, 0.02, 7, 9, 0.001), margin=0.01, case_error=0.001, cases=900)
    assert judged(near).holds_here is True and judged(near, against).holds_here is False


def test_nothing_is_said_of_these_where_one_comparison_cannot_be():
    repeated = Compared("F1", Comparison(0.02, 0.001, 7, repeats=2, within=0.001), case_error=0.001, cases=9)
    once = Compared("F1", Comparison(0.02, 0.001, 7))
    finding = judged(repeated, once)
    assert finding.holds is True and "holds_here" not in finding.to_dict()
    [missing] = judge_together([Judgement("A3", compared=[repeated], missing="no I6")])
    assert missing.holds is None and "holds_here" not in missing.to_dict()


def test_all_of():
    assert all_of([]) is None and all_of([True, None]) is None
    assert all_of([True, True]) is True and all_of([None, False]) is False
