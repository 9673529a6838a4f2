"""NAACCR XML, held against what the standard's own reader was seen to accept and refuse."""

import json
from pathlib import Path
from xml.etree import ElementTree

import polars as pl
import pytest

from bundle.conftest import people, reports
from bundle.naaccr_reader import NAACCR, refusals
from pathveil.bundle.coder import Code
from pathveil.bundle.incoming import Origin
from pathveil.bundle.naaccr_xml import naaccr_items, patient_start, tumour, xml_writer
from pathveil.bundle.outputs import Coded
from pathveil.bundle.predict import predict_to_file
from pathveil.corpus.abstracts import open_abstracts

RECORDED = json.loads(Path(__file__).with_name("naaccr_reader.json").read_text())["files"]
SURE = {
    "site": Code("C50", 0.99, False),
    "subsite": Code("C50.4", 0.99, False),
    "laterality": Code("bilateral", 0.99, False),
    "histology": Code("8500", 0.99, False),
    "behavior": Code("3", 0.99, False),
}


@pytest.mark.parametrize("file", RECORDED, ids=[file["name"] for file in RECORDED])
def test_our_reading_of_the_rules_is_the_readers(file):
    assert bool(refusals(file["xml"])) == bool(file["reader said"]), (refusals(file["xml"]), file["reader said"])


def test_items_are_the_standards_codes():
    assert naaccr_items(SURE) == {
        "primarySite": "C504",
        "laterality": "4",
        "histologicTypeIcdO3": "8500",
        "behaviorCodeIcdO3": "3",
    }
    assert naaccr_items({task: Code(code.code, 0.5, True) for task, code in SURE.items()}) == {}
    sides = ("not_paired", "right", "left", "one_side", "bilateral", "midline", "paired_unknown")
    codes = [naaccr_items({"laterality": Code(side, 1.0, False)})["laterality"] for side in sides]
    assert codes == ["0", "1", "2", "3", "4", "5", "9"]
    # A label the standard has no code for is left out rather than written wrongly.
    assert naaccr_items({"laterality": Code("sideways", 1.0, False), "subsite": Code("C50", 1.0, False)}) == {}
    assert naaccr_items({"subsite": Code("C5\u0660.4", 1.0, False)}) == {}


def test_what_contradicts_is_left_to_a_person():
    assert naaccr_items(SURE | {"laterality": Code("not_paired", 0.99, False)}) == {
        "histologicTypeIcdO3": "8500",
        "behaviorCodeIcdO3": "3",
    }
    unsure = SURE | {"laterality": Code("not_paired", 0.5, True)}  # nothing is said of the side
    assert naaccr_items(unsure)["primarySite"] == "C504"


def test_hostile_ids_and_numbers_give_a_file_that_is_read(tmp_path):
    numbers = ('a<b>&"c\x00]]>', "S" * 21, " S-1\n2 ", "S-3", "S-3", "4", "5", "6", "7", "\u200b", None, "\x85", "")
    origins = tuple(Origin(f"r{n}", number) for n, number in enumerate(numbers))
    with xml_writer(tmp_path / "a.xml", tmp_path / "a.jsonl") as write:
        for case in ('x<y>&"', "123456789", "12", "\u0661", "", None):
            write(Coded(case, origins, SURE, tumor=1, tumors=2))
            doubtful = Origin("d", "DOUBT")
            write(Coded(case, (doubtful,), {"site": Code("C50", 0.5, True)}, tumor=2, tumors=2, doubtful=("d",)))
    text = (tmp_path / "a.xml").read_text()
    assert refusals(text) == []
    root = ElementTree.fromstring(text)
    assert "DOUBT" not in text and "DOUBT" in (tmp_path / "a.jsonl").read_text()
    assert len(root.findall(f"{NAACCR}Patient")) == 6 and len(root.findall(f".//{NAACCR}Tumor")) == 12
    values = [item.text for item in root[0].iter(f"{NAACCR}Item")]
    assert values == ["C504", "4", "8500", "3", 'a<b>&"c]]>', "S-1 2", "S-3", "4", "5"]
    assert [p[0].text for p in root if p[0].tag == f"{NAACCR}Item"] == ["00000012"]
    lines = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert [(line["patient"], line["tumor"]) for line in lines] == [(n, t) for n in range(1, 7) for t in (1, 2)]
    assert lines[0]["case_id"] == 'x<y>&"' and lines[0]["reports"][1]["report_number"] == "S" * 21
    assert lines[1]["codes"]["site"]["probability"] == 0.5
    assert patient_start("12").count("00000012") == 1 and tumour({}, ()) == "    <Tumor>\n    </Tumor>\n"


def test_a_table_becomes_a_file_and_one_beside_it(bundle, tmp_path):
    table = reports(50, seed=21).with_columns(
        case_id=pl.col("case_id").str.replace("case-", "12"), report_number=pl.format("S-{}", "report_id")
    )
    table.write_parquet(tmp_path / "in.parquet")
    result = predict_to_file(bundle, tmp_path / "in.parquet", tmp_path / "out.xml")
    text = (tmp_path / "out.xml").read_text()
    assert refusals(text) == [] and 'recordType="A"' in text and "pathveil" not in text
    assert result.sidecar == str(tmp_path / "out.probabilities.jsonl") and result.cases == 25
    beside = [json.loads(line) for line in (tmp_path / "out.probabilities.jsonl").read_text().splitlines()]
    tumours = ElementTree.fromstring(text).findall(f".//{NAACCR}Tumor")
    assert len(tumours) == len(beside) == result.answers >= 25
    for one, line in zip(tumours, beside, strict=True):
        numbers = [item.text for item in one if item.get("naaccrId", "").startswith("pathReport")]
        told = [one for one in line["reports"] if one["report_id"] not in line["doubtful"]]
        assert numbers == [report["report_number"] for report in told]
    together = (text + json.dumps(beside)).lower()
    assert not [name for number in range(50) for name in people(number) if name.lower() in together]
    # What we write, we read: abstracts as labels.
    read = open_abstracts(tmp_path / "out.xml").collect()
    doubtful = {report for line in beside for report in line["doubtful"]}
    sure = table.filter(~pl.col("report_id").is_in(doubtful))
    assert set(read["report_number"].drop_nulls()) == set(sure["report_number"]) and sure.height > 25


def test_the_official_messages(bundle, hl7_samples, tmp_path):
    result = predict_to_file(bundle, hl7_samples, tmp_path / "out.xml", key=b"0123456789abcdef")
    text = (tmp_path / "out.xml").read_text()
    # The three samples are reports of one patient.
    assert refusals(text) == [] and result.reports == 3 and result.cases == 1 and result.format == "naaccr-xml"
    again = tmp_path / "again.xml"
    predict_to_file(bundle, hl7_samples, again, key=b"0123456789abcdef")
    assert again.read_bytes() == (tmp_path / "out.xml").read_bytes()
