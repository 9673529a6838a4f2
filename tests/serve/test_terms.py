"""The search for a code, as registrars type it."""

import pytest

from pathveil.serve.terms import search


@pytest.mark.parametrize(
    ("task", "query", "code"),
    [
        ("subsite", "upper inner", "C50.2"),
        ("subsite", "lower inner", "C50.3"),
        ("histology", "invasive lobular", "8520"),
        ("histology", "hodgkin", "9650"),
        ("histology", "neuroendocrine tumor", "8240"),
        ("histology", "clear cell renal", "8310"),
        ("histology", "ductal", "8500"),
        ("histology", "melanoma", "8720"),
        ("histology", "squamous", "8070"),
        ("histology", "adenocarcinoma, NOS", "8140"),
        ("histology", "8500/3", "8500"),
        ("histology", "8500/2", "8500"),
        ("histology", "85003", "8500"),
        ("subsite", "50.9", "C50.9"),
        ("subsite", "c509", "C50.9"),
        ("site", "c259", "C25"),
        ("site", "sigmoid", "C18"),
        ("subsite", "RUL", "C34.1"),
        ("behavior", "/3", "3"),
        *[
            ("laterality", digit, side)
            for digit, side in zip(
                "0123459",
                ("not_paired", "right", "left", "one_side", "bilateral", "midline", "paired_unknown"),
                strict=True,
            )
        ],
    ],
)
def test_what_registrars_type_finds_the_code_first(task, query, code):
    crowd = dict.fromkeys(("C50.8", "8522", "8247", "8373", "9663", "8721"), 50.0)  # frequent ones that fit less
    for counts in ({}, crowd):
        assert search(task, query, counts=counts)[0].code == code


def test_of_codes_that_fit_alike_the_more_frequent_comes_first():
    for rare, frequent in (("9661", "9662"), ("9662", "9661")):
        codes = [one.code for one in search("histology", "hodgkin", counts={frequent: 2.0, rare: 1.0})]
        assert codes.index(frequent) < codes.index(rare)


def test_a_synonym_is_said_and_what_only_comes_near_too():
    assert [one.synonym for one in search("histology", "dcis", most=1)] == ["DCIS"]
    assert [one.synonym for one in search("histology", "hodgkin lymphoma", most=1)] == [""]
    assert [one.is_near for one in search("histology", "hodgkin")] == [False] * 12
    near = search("histology", "hodgkin xyzzy")
    assert near[0].code == "9650" and all(one.is_near for one in near)
    for query in ("xyzzy", "9999/3", "of the", "-"):
        assert search("histology", query) == []
