"""Codes of registries in one form: what is read, what is unknown, and that nothing else is shown."""

import random

import polars as pl
import pytest

from pathveil.corpus.code_columns import normalise_codes
from pathveil.icdo.codes import (
    known_histologies,
    known_sites,
    parse_behavior,
    parse_laterality,
    parse_morphology,
    parse_topography,
)
from pathveil.icdo.lists import LATERALITIES, code_lists

SECRET = "Quastenflosser"


@pytest.mark.parametrize(
    "value",
    ["C504", "C50.4", "c50.4", " c504 ", "C50.4 upper outer quadrant", "C504: breast", "C50,4", "C50.4\xa0breast"],
)
def test_topography(value):
    assert parse_topography(value) == ("C50", "C50.4")


@pytest.mark.parametrize(
    "value",
    [
        "C50.4-Upper outer quadrant",
        "C50.4/breast",
        "C50.4=breast",
        "C50.4.",
        "C50.4*",
        "C50.4_UOQ",
        "C 50.4",
        "(C50.4)",
        "[C504]",
        "'C504",
        '"C50.4"',
        "Upper-outer quadrant of breast (C50.4)",
        "Breast [C50.4], upper outer",
    ],
)
def test_a_topography_among_marks_and_terms(value):
    assert parse_topography(value) == ("C50", "C50.4")


@pytest.mark.parametrize(
    "value",
    [
        "8500/3-Infiltrating duct",
        "8500/3.",
        "8500/3=IDC",
        "(8500/3)",
        "'8500/3",
        "Infiltrating duct carcinoma, NOS (8500/3)",
    ],
)
def test_a_morphology_among_marks_and_terms(value):
    assert parse_morphology(value) == ("8500", "3")


def test_ranges_and_what_may_mean_two_things_are_no_codes():
    for value in ("C50-59", "C50.1/2", "C50.1-C50.4", "C50.A1", "C50-C58"):
        assert parse_topography(value) is None, value
    text = "Received is a breast with a lump of 3 cm in the upper outer quadrant (C50.4)"
    assert [parse_topography(value) for value in (text, "breast\n(C50.4)")] == [None] * 2
    assert [parse_morphology(value) for value in ("8500/03", "850003", "8500/3/2", "8500_3", "8140-8150")] == [None] * 5
    assert parse_morphology("9530/09") == ("9530", "0")  # a benign tumour, its grade unknown


def test_a_site_without_a_subsite():
    assert [parse_topography(value) for value in ("C50", "C50.-", "c50.X")] == [("C50", None)] * 3


@pytest.mark.parametrize(
    "value",
    ["8500/3", "M-85003", "M8500/3", "85003", "8500/33", "8500 / 3", "8500/3 ductal", "8500,3", "M 8500/3"],
)
def test_morphology(value):
    assert parse_morphology(value) == ("8500", "3")


def test_a_histology_alone_and_one_of_a_spreadsheet():
    assert [parse_morphology(value) for value in ("8500", "8500.0", "8500,00", "8500/")] == [("8500", None)] * 4
    assert parse_morphology("85003.0") == ("8500", "3")


@pytest.mark.parametrize(
    "value", ["banana", "", "C", "C5", "C50.411", "50.4", "7500/3", "8500/3/3", "850", f"C50{SECRET}"]
)
def test_what_is_no_code(value):
    assert parse_topography(value) is None and parse_morphology(value) is None


def test_two_codes_in_one_value_are_none():
    assert [parse_topography(value) for value in ("C504;C509", "C50.4, C34.1", "C50 C61")] == [None] * 3
    assert [parse_morphology(value) for value in ("8500/3;8520/3", "8500, 8520", "8500/3; 8500/2")] == [None] * 3
    assert (parse_behavior("3; 2"), parse_laterality("1,2")) == (None, None)
    assert parse_topography("C50.4 breast (C50)") == ("C50", "C50.4") and parse_laterality("2: left") == "left"
    assert parse_morphology("8500/3 ductal (M-8500/3)") == ("8500", "3") and parse_behavior("3 malignant") == "3"


def test_sides_as_naaccr_numbers_letters_and_words():
    names = ["not_paired", "right", "left", "one_side", "bilateral", "midline", "paired_unknown"]
    assert [parse_laterality(number) for number in "0123459"] == names and set(names) == set(LATERALITIES)
    assert [parse_laterality(f"{number}.0") for number in "12"] == ["right", "left"]
    assert [parse_laterality(name) for name in names] == names
    assert [parse_laterality(word) for word in ("R", "l", "Rechts", "Right: origin of primary", "both")] == [
        "right", "left", "right", "right", "bilateral",
    ]  # fmt: skip
    texts = {
        "Only one side involved, right or left origin unspecified": "one_side",
        "Bilateral involvement at time of diagnosis, lateral origin unknown for a single primary": "bilateral",
        "Paired site: midline tumor": "midline",
        "Paired site, but no information concerning laterality; midline tumor": "paired_unknown",
        "unilateral left": "left", "left and right": None, "right/left": None, "links > rechts": None,
        "left breast, upper": "left", "left, origin unknown": "left",
        "re.": "right", "li.": "left", "bds.": "bilateral", "1-right": "right", "1=rechts": "right", "01": "right",
        "1,0": "right", "1-2": None, "Rt.": "right", "LT": "left", "bilat.": "bilateral", "1\xa0right": "right",
        "1=left": None, "2 - Right": None, "1 unilateral": None, "0 - not a paired site": "not_paired",
        "3 - Only one side involved, right or left origin unspecified": "one_side",
        "9: Paired site, but no information concerning laterality; midline tumor": "paired_unknown",
        "rechte Mamma": "right", "linksseitig": "left", "lado derecho": None, "izquierdo": "left",
        "nicht paarig": "not_paired", "entfällt": "not_paired", "trifft nicht zu": "not_paired", "T": "not_paired",
        "keine Angabe": "paired_unknown", "Keine Angabe.": "paired_unknown", "unbekannt": "paired_unknown",
    }  # fmt: skip
    assert {text: parse_laterality(text) for text in texts} == texts
    assert [parse_laterality(word) for word in ("7", "N", "right-handed pitcher", "", "r b")][:2] == [None, None]


def test_behaviors():
    assert [parse_behavior(value) for value in ("3", "/3", "3.0", "3,0", "3 malignant", "in situ", "4", "x")] == [
        "3", "3", "3", "3", "3", "2", None, None,
    ]  # fmt: skip
    behaviors = {
        "Malignant, primary site": "3",
        "noninvasive": "2",
        "3 - noninvasive": None,
        "Borderline malignancy": "1",
    }
    assert {value: parse_behavior(value) for value in behaviors} == behaviors
    behaviors = {"1=malignant": None, "3 - in situ": None, "2 in situ": "2", "3 - Malignant, primary": "3"}
    assert {value: parse_behavior(value) for value in behaviors} == behaviors


def test_every_code_of_the_lists_is_known_and_stays():
    lists = code_lists()
    for subsite in lists.names:
        assert parse_topography(subsite) == parse_topography(subsite.replace(".", "")) == (subsite[:3], subsite)
    for morphology in lists.terms:
        assert parse_morphology(morphology) == (morphology[:4], morphology[5]) and morphology[:4] in known_histologies()
    assert len(known_sites()) == 70 and {"8086", "8820", "8509"} <= known_histologies()


def frame(**columns) -> pl.LazyFrame:
    return pl.LazyFrame(columns, schema_overrides=dict.fromkeys(columns, pl.String))


def test_a_column_fills_what_it_says_of_another_task():
    table = frame(subsite=["C504", "c61.9", None], histology=["8500/3", "8140", "M-80702"], behavior=[None, "2", "3"])
    done, counts = normalise_codes(table)
    assert done.collect().to_dict(as_series=False) == {
        "subsite": ["C50.4", "C61.9", None],
        "histology": ["8500", "8140", "8070"],
        "behavior": ["3", "2", "3"],  # its own column goes before what the morphology says
        "site": ["C50", "C61", None],
    }
    assert counts.rewritten == {"subsite": 2, "histology": 2} and not counts.unknown
    done, _ = normalise_codes(frame(site=["C504", "C18"]))
    assert done.collect().to_dict(as_series=False) == {"site": ["C50", "C18"], "subsite": ["C50.4", None]}


def test_a_missing_label_is_filled_and_a_contradiction_stays():
    table = frame(
        site=[None, None, "C18", "C50", "the breast"], subsite=["C504", "C61.9", "C50.4", None, "C50.1"],
        histology=["8500/3", "8140/2", "8140/3", None, "8500"], behavior=[None, None, "2", "3", None],
    )  # fmt: skip
    done, _ = normalise_codes(table)
    assert done.collect().to_dict(as_series=False) == {
        "site": ["C50", "C61", "C18", "C50", "C50"],  # what is no code is no label either
        "subsite": ["C50.4", "C61.9", "C50.4", None, "C50.1"],
        "histology": ["8500", "8140", "8140", None, "8500"],
        "behavior": ["3", "2", "2", "3", None],
    }
    kept, _ = normalise_codes(table, keep_unknown=True)  # sites may be classes of one's own
    assert kept.collect()["site"].to_list() == [None, None, "C18", "C50", "the breast"]


def test_unknown_codes_are_counted_and_left_out_unless_kept():
    table = frame(subsite=["C50.7", "c99.9", "C99.9", SECRET, "C50.4"], histology=["8501", "8888", "8888/3", "x", None])
    done, counts = normalise_codes(table)
    assert done.collect()["subsite"].to_list() == [None] * 4 + ["C50.4"]
    assert done.collect()["site"].to_list() == [None] * 4 + ["C50"]
    assert done.collect()["histology"].to_list() == ["8501", None, None, None, None]
    subsite, histology = counts.unknown
    assert subsite.codes == {"C50.7": 1, "C99.9": 1, "c99.9": 1} and (subsite.reports, subsite.no_codes) == (4, 1)
    assert histology.codes == {"8888": 1, "8888/3": 1, "x": 1}
    assert SECRET not in counts.to_dict().__repr__() + subsite.sentence()
    kept, _ = normalise_codes(table, keep_unknown=True)
    assert kept.collect()["subsite"].to_list() == ["C50.7", "C99.9", "C99.9", SECRET, "C50.4"]
    assert kept.collect()["histology"].to_list() == ["8501", "8888", "8888", "x", None]


def test_a_corpus_in_this_form_stays_as_it_is():
    table = frame(
        site=["C50", None], subsite=["C18.7", None], laterality=["left", "one_side"], histology=["8500", "9999"]
    )
    done, counts = normalise_codes(table, keep_unknown=True)
    assert done.collect().equals(table.collect()) and not counts.rewritten


def test_no_noise_in_a_code_column_is_shown_or_fails():
    """A small fuzz: whatever stands in a column of codes, what is shown of it looks like a code."""
    rng = random.Random(3)
    signs = "C8M-/. 0123456789abcÄ\n\tß"
    values = ["".join(rng.choices(signs, k=rng.randrange(1, 9))) + rng.choice(["", f" {SECRET}"]) for _ in range(2000)]
    for task in ("site", "subsite", "histology", "behavior", "laterality"):
        done, counts = normalise_codes(frame(**{task: values}))
        assert done.collect().height == 2000
        assert SECRET not in str(counts.to_dict()) and all(len(c) <= 8 for one in counts.unknown for c in one.codes)
