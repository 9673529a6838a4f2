"""Figures of the drift page."""

from xml.etree import ElementTree

from pathveil.bundle.drift import CodeShare, Compared, TaskDrift
from pathveil.bundle.drift_page import mix_chart
from pathveil.training.scores import Interval


def test_only_codes_that_both_sides_tell_are_drawn():
    shares = [("C50", 0.4, 0.2), ("C61", None, 0.3), ("C18", 0.1, None)]
    codes = [CodeShare(code=code, term="", new=new, reference=old) for code, new, old in shares]
    half = Compared(new=0.5, reference=None)
    fields = {"abstained": half, "abstained_interval": Interval(0.5, 0.4, 0.6), "probability": half}
    one = TaskDrift(mix_distance=0.2, mix_expected=0.1, codes=codes, **fields)
    labels = [text.text for text in ElementTree.fromstring(mix_chart("site", one)).iter("text")]
    assert "C50" in labels and "C61" not in labels and "C18" not in labels
    assert mix_chart("site", one.model_copy(update={"codes": codes[1:]})) == ""
