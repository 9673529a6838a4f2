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
    labels = [text.text for text in ElementTree.fromstring(mix_chart("site", one)[0]).iter("text")]
    assert "C50" in labels and "C61" not in labels and "C18" not in labels
    assert one_sided(one) == "2 more codes can be told on one side only and are in the table."
    single = one_sided(one.model_copy(update={"codes": codes[:2]}))
    assert single == "1 more code can be told on one side only and is in the table."
    assert one_sided(one.model_copy(update={"codes": codes[:1]})) == ""
    assert mix_chart("site", one.model_copy(update={"codes": codes[1:]})) == ("", "")


def test_long_names_of_codes_are_cut_and_told():
    names = ("Cancer Registry of the far North-East", "Cancer Registry of the South-West")
    codes = [CodeShare(code=name, term="", new=0.5, reference=0.4) for name in names]
    fields = {"abstained": ComparedShare(new=None, reference=None), "abstained_interval": None}
    fields |= {"is_abstained_more": False, "probability": Compared(new=0.5, reference=None)}
    chart, cut = mix_chart("lab", TaskDrift(mix_distance=0.2, mix_expected=0.1, codes=codes, **fields))
    labels = [text.text for text in ElementTree.fromstring(chart).iter("text")]
    assert not set(names) & set(labels) and all(f" is {name}" in cut for name in names)
