"""Codes as the items of the NAACCR standard, and as XML."""

from xml.etree import ElementTree

from pathveil.bundle.coder import Code
from pathveil.bundle.outputs import Coded, naaccr_items, patient


def test_naaccr_items_are_the_standards_codes():
    sure = {
        "site": Code("C50", 0.99, False),
        "subsite": Code("C50.4", 0.99, False),
        "laterality": Code("bilateral", 0.99, False),
        "histology": Code("8500", 0.99, False),
        "behavior": Code("3", 0.99, False),
    }
    assert naaccr_items(sure) == {
        "primarySite": "C504",
        "laterality": "4",
        "histologicTypeIcdO3": "8500",
        "behaviorCodeIcdO3": "3",
    }
    assert naaccr_items({task: Code(code.code, 0.5, True) for task, code in sure.items()}) == {}
    sides = ("not_paired", "right", "left", "one_side", "bilateral", "midline", "paired_unknown")
    codes = [naaccr_items({"laterality": Code(side, 1.0, False)})["laterality"] for side in sides]
    assert codes == ["0", "1", "2", "3", "4", "5", "9"]
    # A label the standard has no code for is left out rather than written wrongly.
    assert naaccr_items({"laterality": Code("sideways", 1.0, False), "subsite": Code("C50", 1.0, False)}) == {}


def test_ids_are_escaped():
    xml = patient(Coded('a<b>&"c\x00', ("r<1>",), {"site": Code("C50", 0.5, True)}, report_number="S&1"))
    root = ElementTree.fromstring(f'<x xmlns:pathveil="urn:x">{xml}</x>')
    assert root.find(".//{urn:x}coded").attrib["caseId"] == 'a<b>&"c'
    assert root.find(".//Item").text == "S&1"
