"""Figures of the drift page."""

from xml.etree import ElementTree

from pathveil.bundle.drift import CodeShare, Compared, ComparedShare, TaskDrift
from pathveil.bundle.drift_page import mix_chart, one_sided
from pathveil.training.scores import Interval


def test_only_codes_that_both_sides_tell_are_drawn():
    shares = [("C50", 0.4, 0.2), ("C61", None, 0.3), ("C18", 0.1, None)]
    codes = [CodeShare(code=code, term="", new=new, reference=old) for code, new, old in shares]
    half = ComparedShare(new=0.5, reference=None)
    fields = {"abstained": half, "abstained_interval": Interval(0.5, 0.4, 0.6), "is_abstained_more": False}
    fields["probability"] = Compared(new=0.5, reference=None)
    one = TaskDrift(mix_distance=0.2, mix_expected=0.1, codes=codes, **fields)
    labels = [text.text for text in ElementTree.fromstring(mix_chart("site", one)).iter("text")]
    assert "C50" in labels and "C61" not in labels and "C18" not in labels
    assert one_sided(one) == "2 more codes can be told on one side only and are in the table."
    single = one_sided(one.model_copy(update={"codes": codes[:2]}))
    assert single == "1 more code can be told on one side only and is in the table."
    assert one_sided(one.model_copy(update={"codes": codes[:1]})) == ""
    assert mix_chart("site", one.model_copy(update={"codes": codes[1:]})) == ""
