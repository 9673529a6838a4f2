"""Terms and contradictions, against the published lists where they are there."""

import csv

import pytest

from conftest import SHARED
from pathveil.icdo.codes import known_histologies, known_sites
from pathveil.icdo.combinations import find_contradictions, find_term, is_implausible_at, with_term
from pathveil.icdo.lists import code_lists


def test_every_known_code_has_a_term():
    for task, codes in (
        ("site", known_sites()),
        ("subsite", code_lists().names),
        ("histology", known_histologies()),
        ("behavior", "012369"),
        ("laterality", ("not_paired", "right", "left", "one_side", "bilateral", "midline", "paired_unknown")),
    ):
        assert [code for code in codes if not find_term(task, code)] == []
    assert find_term("site", "C99") == find_term("grade", "2") == find_term("histology", "banana") == ""
    assert find_term("histology", "8500", behavior="2") == "ductal carcinoma in situ"
    assert find_term("histology", "8500", behavior="0") == find_term("histology", "8500")  # has no benign form
    assert with_term("subsite", "C18.7") == "C18.7 (sigmoid colon)" and with_term("site", "X") == "X"


@pytest.mark.parametrize(
    "codes, tasks",
    [
        ({"site": "C50", "subsite": "C50.4", "histology": "8500", "behavior": "3", "laterality": "left"}, []),
        ({"site": "C18", "subsite": "C50.4"}, [("site", "subsite")]),
        ({"subsite": "C61.9", "histology": "9440", "behavior": "3"}, [("subsite", "histology", "behavior")]),
        ({"site": "C61", "histology": "9440"}, [("site", "histology")]),
        ({"site": "C50", "laterality": "not_paired"}, [("site", "laterality")]),
        ({"site": "C44", "laterality": "not_paired"}, []),  # some skin is paired, some is not
        ({"subsite": "C50.4", "histology": "8500", "behavior": "6"}, []),  # SEER lists no metastases
        ({"site": "lung", "subsite": "C50.4", "histology": "ductal", "laterality": "port"}, []),  # no codes
        ({"histology": "8500", "laterality": "left"}, []),
        ({}, []),
    ],
)
def test_contradictions(codes, tasks):
    found = find_contradictions(codes)
    assert [one.tasks for one in found] == tasks
    for one in found:
        assert one.codes == tuple(codes[task] for task in one.tasks) and one.codes[0] in one.sentence


def test_what_seer_lists_is_never_a_contradiction():
    path = SHARED / "data" / "icdo3" / "seer_site_histology.csv"
    if not path.exists():
        pytest.skip(f"needs SEER's list at {path}")
    with path.open(newline="", encoding="latin-1") as file:
        rows = [(row["Site recode"], row["Histology/Behavior"]) for row in csv.DictReader(file)]
    wrong = []
    for spans, morphology in rows:
        for span in spans.split(","):
            first = span.partition("-")[0].strip()
            histology, _, behavior = morphology.partition("/")
            if f"{first[:3]}.{first[3:]}" in code_lists().names and is_implausible_at(
                f"{first[:3]}.{first[3:]}", histology, behavior
            ):
                wrong.append((first, morphology))
    assert len(rows) > 5000 and wrong == []
