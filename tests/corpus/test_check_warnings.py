"""Warnings about a corpus: each on one made to earn it."""

import datetime

import polars as pl
import pytest

from corpus.good_corpus import LONG, SECRET, corpus
from pathveil.corpus.check import check
from pathveil.corpus.check_warnings import CorpusWarning


def ids(frame: pl.LazyFrame, **options) -> dict[str, CorpusWarning]:
    result = check(frame, today=datetime.date(2020, 1, 1), **options)
    assert SECRET not in result.to_json()
    return {warning.id: warning for warning in result.warnings}


def test_a_good_corpus_earns_no_warning():
    assert ids(corpus()) == {}


MISREAD = [sign.encode().decode("cp1252") for sign in ("ö", "≥", "“", "µ")]  # UTF-8 taken for Windows' Latin
FIRST_FOUR = ["r00", "r01", "r02", "r03"]


@pytest.mark.parametrize(
    ("columns", "name", "count", "reports"),
    [
        ({"text": [f"Dx: C18.7 {LONG}", f"dx c50.4. {LONG}"]}, "leaked-labels", 2, ["r00", "r01"]),
        ({"text": [f"ductal carcinoma 8500/3 {LONG}"]}, "leaked-labels", 1, ["r00"]),
        ({"case_id": ["c1"]}, "shared-cases", 1, ["r00", "r01"]),
        ({"text": [LONG, "x " * 20, LONG, LONG]}, "repeated-texts", 3, ["r00", "r02", "r03"]),
        ({"text": [f"MRN: 12345 {LONG}", f"518-555-0137 {LONG}"]}, "identifiers", 2, ["r00", "r01"]),
        ({"text": [f"a@b.org {LONG}"]}, "identifiers", 1, ["r00"]),
        ({"text": [f"DOB 07/06/1957 {LONG}", f"SSN 123-45-6789 {LONG}"]}, "identifiers", 2, ["r00", "r01"]),
        ({"year": [None, None]}, "undated", 2, ["r00", "r01"]),
        ({"year": [1900, 2030]}, "odd-years", 2, ["r00", "r01"]),
        ({"date": [datetime.date(2001, 1, 1)] + [None] * 39}, "years-differ", 1, ["r00"]),
        ({"text": ["too short"]}, "short-texts", 1, ["r00"]),
        ({"text": [f"bad \ufffd {LONG}", f"worse \x07 {LONG}"]}, "damaged-texts", 2, ["r00", "r01"]),
        ({"text": [*(f"{one} {LONG}" for one in MISREAD), f"FAÇÃO 2 µm {LONG}"]}, "damaged-texts", 4, FIRST_FOUR),
        ({"text": [f"{{\\rtf1 {LONG}", f"<br/> {LONG}"]}, "markup", 2, ["r00", "r01"]),
        ({"site": ["C61"] * 4 + ["C34"]}, "rare-classes", 2, []),
        ({"site": ["C50"] * 40}, "constant-task", 40, []),
        ({"site": [None] * 30}, "missing-labels", 30, []),
        ({"site": ["C50", None] * 20}, "registry-without-task", 1, []),
        ({"site": [None] * 40}, "no-labels", 40, []),
        ({"site": ["C99", "banana", SECRET]}, "unknown-codes", 3, []),
        ({"laterality": ["L", "left"] * 20}, "another-form", 20, []),
        ({"laterality": pl.Series([None] * 40, dtype=pl.String)}, "empty-task", 40, []),
        ({"site": ["c50"] * 5}, "spelling", 1, []),
        ({"case_id": ["c2"], "site": ["C50", "C50", "C18"]}, "differing-labels", 1, ["r00", "r02"]),
        ({"subsite": ["C18.7"] + ["C50.4", "C50.9", "C18.1", "C18.2"] * 9 + ["C50.4"] * 3}, "subsite-outside-site", 21,
         ["r00", "r02", "r04", "r06", "r08"]),
    ],
)  # fmt: skip
def test_each_warning_on_a_corpus_that_earns_it(columns, name, count, reports):
    warning = ids(corpus(**columns))[name]
    assert (warning.count, warning.reports) == (count, reports), warning


def test_ids_that_a_spreadsheet_rounded():
    warning = ids(corpus(case_id=["1.23E+11", "2", "1,2e+12"], text=[LONG, f"{LONG} b", f"{LONG} c"]))["rounded-cases"]
    assert (warning.count, warning.reports) == (2, ["r00", "r02"])


def test_a_text_holding_its_own_label_is_told_apart():
    subsite = ["C50.4" if number % 4 < 2 else "C18.7" for number in range(40)]
    both = [f"c50.4 {LONG}", f"C18.7 {LONG}", f"C18.7 {LONG}"]
    warning = ids(corpus(subsite=subsite, text=both))["leaked-labels"]
    assert warning.count == 3 and warning.reports == ["r00", "r02"] and "in 2 it is" in warning.sentence
    codes = {"histology": ["8500"] * 20 + ["8140"] * 20, "behavior": ["3"] * 20 + ["2"] * 20}
    warning = ids(corpus(text=[f"8500/3 {LONG}", f"8140/3 {LONG}"], **codes))["leaked-labels"]
    assert warning.count == 2 and warning.reports == ["r00"]


def test_numbers_that_are_no_codes():
    fine = ["lot 18500/31", "block C12", "C50 cells", "2/3 nodes", "7500/3", "seen 9/1999", "KC50.41"]
    assert "leaked-labels" not in ids(corpus(text=[f"{text} {LONG}" for text in fine]))


def test_codes_that_contradict_each_other():
    subsite = ["C61.9", "C50.4"] * 20
    found = ids(corpus(subsite=subsite, histology=["9440", "8500"] + ["8140", "8500"] * 19, behavior=["3"] * 40))
    assert found["implausible-histology"].count == 1 and found["implausible-histology"].reports == ["r00"]
    unsaid = ids(corpus(subsite=subsite, histology=["9440", "8500"] * 20, behavior=[None] * 30 + ["3"] * 10))
    assert unsaid["implausible-histology"].count == 20  # the behavior need not be known
    found = ids(corpus(subsite=subsite, laterality=["left", "not_paired"] + ["not_paired", "right"] * 19))
    assert found["side-of-unpaired-site"].count == 2 and found["side-of-unpaired-site"].reports == ["r00", "r01"]
    fine = ids(corpus(subsite=subsite, laterality=["not_paired", "midline"] * 20, histology=["8140", "8500"] * 20))
    assert not {"implausible-histology", "side-of-unpaired-site", "unknown-codes"} & set(fine)


def test_one_case_is_one_case():
    sentence = ids(corpus(case_id=["c2"], site=["C50", "C50", "C18"]))["differing-labels"].sentence
    assert sentence.startswith("task site has more than one label within 1 case")
    assert "1 cases" not in sentence


def test_what_is_missing_to_train_is_told_and_unknown_codes_are_listed():
    assert "nothing can be trained" in ids(corpus().drop("site"))["no-labels"].sentence
    assert "no-labels" not in ids(corpus())
    sentence = ids(corpus(site=["C99", "C99", "banana", SECRET]))["unknown-codes"].sentence
    assert sentence.startswith("task site: 4 reports (C99 2, what looks like no code 2) of codes that ICD-O-3")


def test_one_is_one():
    assert ", 1 report in all" in ids(corpus(site=["C61"]))["rare-classes"].sentence
    outside = ids(corpus(subsite=["C61.9", *["C50.4"] * 39], site=["C50"] * 40))["subsite-outside-site"]
    assert outside.sentence == "1 of 40 reports (2.5%) has a subsite that is not within its site"
    shared = ids(corpus(case_id=["c1"]))["shared-cases"]
    assert shared.sentence == "1 case in more than one registry: a split by registry is not apart"


def test_codes_in_another_form_are_told_apart_from_unknown_ones():
    codes, sides = ["C504", "C50.4", "C999", "banana"], ["Right", "left", "right", "right"]
    found = ids(corpus(subsite=codes * 10, laterality=sides * 10))
    assert found["unknown-codes"].sentence == (
        "task subsite: 20 reports (C999 10, what looks like no code 10) of codes that ICD-O-3 does not have"
    )
    assert found["another-form"].sentence == (
        "20 labels written otherwise than here (subsite 10, laterality 10), such as C504 for C50.4; "
        "'pathveil corpus import' puts them into one form"
    )
