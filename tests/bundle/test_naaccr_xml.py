"""NAACCR XML, held against what the standard's own reader was seen to accept and refuse."""

import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import polars as pl
import pytest

from bundle.conftest import people, reports
from bundle.naaccr_reader import NAACCR, refusals
from pathveil.bundle.coder import Code
from pathveil.bundle.incoming import Origin
from pathveil.bundle.naaccr_xml import naaccr_items, xml_writer
from pathveil.bundle.outputs import Coded
from pathveil.bundle.predict import predict_to_file
from pathveil.corpus.tables.abstracts import open_abstracts
from pathveil.errors import UsageError

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
            write(Coded(case, (doubtful,), {"site": Code("C50", 0.5, True)}, tumor=2, tumors=2, doubtful=(doubtful,)))
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


def test_two_cases_never_share_a_patient_number(tmp_path):
    with xml_writer(tmp_path / "a.xml", tmp_path / "a.jsonl") as write:
        for case in ("12", "0012", "7", "00000012"):
            write(Coded(case, (Origin("r"),), SURE))
    patients = ElementTree.fromstring((tmp_path / "a.xml").read_text()).findall(f"{NAACCR}Patient")
    numbers = [[item.text for item in patient.findall(f"{NAACCR}Item")] for patient in patients]
    assert numbers == [["00000012"], [], ["00000007"], []]


def test_one_doubtful_report_takes_no_number_from_others_of_its_id(tmp_path):
    """Ids repeat; the place of a report does not."""
    origins = tuple(Origin("r", f"S-{place}", None, "lab.csv", place) for place in (1, 2, 3))
    with xml_writer(tmp_path / "a.xml", tmp_path / "a.jsonl") as write:
        write(Coded("x", origins, SURE, doubtful=origins[1:2]))
    line = json.loads((tmp_path / "a.jsonl").read_text())
    assert [line["items"][f"pathReportNumber{place}"] for place in (1, 2)] == ["S-1", "S-3"]
    assert [one["position"] for one in line["reports"] if one["doubtful"]] == [2] and line["doubtful"] == ["r"]


def test_the_file_beside_it_has_the_items_as_they_are_in_the_xml(tmp_path):
    """A system that took the XML in has its numbers, not its order."""
    origins = [Origin(f"r{number}", f"S-{number}\U0001f600") for number in range(30)] + [
        Origin("long", "\U0001f600" * 11)
    ]
    with xml_writer(tmp_path / "a.xml", tmp_path / "a.jsonl") as write:
        write(Coded("12", tuple(origins), SURE, tumor=1, tumors=2))
        write(Coded("12", (Origin("x", "S-ü"),), SURE | {"behavior": Code("6", 1.0, False)}, tumor=2, tumors=2))
        write(Coded(None, origins[-1:], {"laterality": Code("7", 1.0, False)}))
    text = (tmp_path / "a.xml").read_text()
    assert refusals(text) == []
    lines = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    found = [
        {item.get("naaccrId"): item.text for item in (*patient.findall(f"{NAACCR}Item"), *tumour)}
        for patient in ElementTree.fromstring(text)
        for tumour in patient.findall(f"{NAACCR}Tumor")
    ]
    assert [line["items"] for line in lines] == found
    assert found[0]["patientIdNumber"] == found[1]["patientIdNumber"] == "00000012" and len(lines[0]["reports"]) == 31
    assert "behaviorCodeIcdO3" not in found[1] and found[2] == {}  # which registries do not code


def test_a_table_becomes_a_file_and_one_beside_it(bundle, tmp_path):
    table = reports(50, seed=21).with_columns(
        case_id=pl.col("case_id").str.replace("case-", "12"), report_number=pl.format("S-{}", "report_id")
    )
    table.write_parquet(tmp_path / "in.parquet")
    result = predict_to_file(bundle, tmp_path / "in.parquet", tmp_path / "out.xml")
    text = (tmp_path / "out.xml").read_text()
    assert refusals(text) == [] and 'recordType="A"' in text and "pathveil" not in text
    assert not [warning for warning in result.warnings if "in the XML, so only" in warning]
    table.drop("report_number", "case_id").write_parquet(tmp_path / "one.parquet")  # its ids are the numbers there are
    one = predict_to_file(bundle, tmp_path / "one.parquet", tmp_path / "one.xml")
    assert one.warnings == ["50 reports without a case id: each is a case of its own."]
    ids = [
        item.text
        for item in ElementTree.parse(tmp_path / "one.xml").iter(f"{NAACCR}Item")
        if "Report" in str(item.attrib)
    ]
    assert ids == table["report_id"].to_list()
    table.drop("report_number", "case_id", "report_id").write_parquet(tmp_path / "bare.parquet")
    bare = predict_to_file(bundle, tmp_path / "bare.parquet", tmp_path / "bare.xml")
    assert [one for one in bare.warnings if one.startswith("50 tumours have no number of a patient or a report")]
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


def test_tumours_that_nothing_leads_to_are_counted_and_a_remedy_named_where_there_is_one(bundle, tmp_path):
    table = reports(20).with_columns(case_id=pl.Series([str(number) for number in range(18)] + ["0004", "0005"]))
    told = "no number of a patient or a report in the XML, so only"
    remedy = "--column report_number=THEIRS"

    def warning(table: pl.DataFrame, **options) -> str:
        table.write_parquet(tmp_path / "in.parquet")
        result = predict_to_file(bundle, tmp_path / "in.parquet", tmp_path / "out.xml", **options)
        return next((one for one in result.warnings if told in one), "")

    # 4 and 0004 would be one patient to the XML, which gives the second no number.
    bare = table.drop("report_id")
    assert warning(bare) == f"2 tumours have {told} their order leads to the lines beside it; {remedy} names the " + (
        "laboratory's numbers."
    )
    assert warning(bare[:19]).startswith(f"1 tumour has {told} its order leads to the line beside it")
    assert warning(table) == ""
    long = table.with_columns(report_id=pl.format("{}{}", pl.lit("S" * 20), "report_id"))
    assert told in warning(long) and remedy not in warning(long)  # numbers there are
    blank = table.with_columns(report_number=pl.lit(None, pl.String))
    assert told in warning(blank) and remedy not in warning(blank)  # and here the column was found


def test_a_model_of_tasks_without_items_is_refused(bundle, tmp_path):
    """Its file would hold numbers of reports and no code; a place takes four characters, which a site has not."""
    reports(3).write_parquet(tmp_path / "in.parquet")
    site = replace(bundle, labels={"site": bundle.labels["site"]})
    with pytest.raises(UsageError, match=r"codes none of these .it codes site.; write CSV or JSONL"):
        predict_to_file(site, tmp_path / "in.parquet", tmp_path / "out.xml")
    assert [path.name for path in tmp_path.iterdir()] == ["in.parquet"]


def test_the_official_messages(bundle, hl7_samples, tmp_path):
    result = predict_to_file(bundle, hl7_samples, tmp_path / "out.xml", key=b"0123456789abcdef")
    text = (tmp_path / "out.xml").read_text()
    # The three samples are of one patient, and the last two are one report, as FT and as TX.
    assert refusals(text) == [] and result.reports == 2 and result.cases == 1 and result.format == "naaccr-xml"
    assert [one for one in result.warnings if one.startswith("1 report replaced by a later version")]
    again = tmp_path / "again.xml"
    predict_to_file(bundle, hl7_samples, again, key=b"0123456789abcdef")
    assert again.read_bytes() == (tmp_path / "out.xml").read_bytes()
