"""CSV and JSONL keep what links a code to its report."""

import csv
import io
import json

import pytest

from pathveil.bundle.coder import Alternative, Code
from pathveil.bundle.incoming import Origin
from pathveil.bundle.outputs import Coded, format_of, line_writer
from pathveil.errors import UsageError
from pathveil.icdo.combinations import find_contradictions

SITE = Code("C61", 0.91, False, False, "prostate gland", (Alternative("C50", "breast", 0.05),))
CODES = {"site": SITE, "laterality": Code("left", 0.5, True, True, "left", (), True)}
REPORTS = (Origin("r1", "S-97-1", "MSG7", "lab.hl7", 3), Origin("r2", None, None, "lab.hl7", 4))
AGAINST = find_contradictions({"site": "C61", "laterality": "left"})


def written(form: str, coded: Coded, **options) -> str:
    file = io.StringIO()
    line_writer(file, form, ("site", "laterality"), **({"by_case": False, "joint": False} | options))(coded)
    return file.getvalue()


def test_a_report_in_csv_can_be_found_again():
    (row,) = csv.DictReader(io.StringIO(written("csv", Coded("k1", REPORTS[:1], CODES, AGAINST))))
    ids = ("report_id", "case_id", "report_number", "message_id", "file", "position")
    assert [row[name] for name in ids] == ["r1", "k1", "S-97-1", "MSG7", "lab.hl7", "3"]
    assert row["contradictions"] == AGAINST[0].sentence
    assert (row["site"], row["site_term"], row["site_probability"]) == ("C61", "prostate gland", "0.9100")
    assert (row["site_second"], row["site_second_probability"], row["site_third"]) == ("C50", "0.0500", "")
    assert row["laterality_abstained"] == row["laterality_lifted"] == "true" and "site_adjusted" not in row
    (row,) = csv.DictReader(io.StringIO(written("csv", Coded("k1", REPORTS[:1], CODES), joint=True)))
    assert row["laterality_adjusted"] == "true"


def test_a_case_lists_its_reports():
    coded = Coded("k1", REPORTS, CODES, tumor=2, tumors=2, doubtful=REPORTS[1:])
    (row,) = csv.DictReader(io.StringIO(written("csv", coded, by_case=True)))
    ids = ("case_id", "tumor", "tumors", "reports", "report_ids", "message_ids", "files", "positions", "doubtful")
    links = ["r1; r2", "MSG7; ", "lab.hl7; lab.hl7", "3; 4"]  # of each report one place, filled or not
    assert [row[name] for name in ids] == ["k1", "2", "2", "2", *links, "r2"]
    assert row["report_numbers"] == "S-97-1; "
    line = json.loads(written("jsonl", coded, by_case=True))
    assert (
        line["report_ids"] == ["r1", "r2"]
        and line["doubtful"] == ["r2"]
        and line["reports"][0]["report_number"] == "S-97-1"
    )
    assert line["reports"][1] == {
        "report_id": "r2",
        "report_number": None,
        "message_id": None,
        "file": "lab.hl7",
        "position": 4,
        "doubtful": True,
    }
    assert line["reports"][0]["doubtful"] is False


def test_a_number_that_holds_what_parts_numbers_has_one_place():
    coded = Coded("k1", (Origin("r1", "S-1; S-2"), Origin("r2", "S-3")), CODES)
    (row,) = csv.DictReader(io.StringIO(written("csv", coded, by_case=True)))
    assert row["report_numbers"].split("; ") == ["S-1, S-2", "S-3"]
    assert json.loads(written("jsonl", coded, by_case=True))["reports"][0]["report_number"] == "S-1; S-2"


@pytest.mark.parametrize("sign", ["=", "+", "-", "@", "\t", "\r", "\n", "＝"])
def test_no_cell_of_a_csv_is_a_formula(sign):
    """Whoever names a report, a case or a code; what is a number stays one, and JSONL has it all as it came."""
    evil = f"{sign}HYPERLINK(1)"
    origin, code = Origin(evil, evil, evil, evil, 3), Code(evil, 0.25, False, term=evil, alternatives=())
    for by_case in (False, True):
        coded = Coded(evil, (origin,), {"site": code, "laterality": code}, doubtful=(origin,))
        (row,) = csv.DictReader(io.StringIO(written("csv", coded, by_case=by_case), newline=""))
        assert {cell[0] for cell in row.values() if "HYPER" in cell} == {"'"} and row["site_probability"] == "0.2500"
        assert sum("HYPER" in cell for cell in row.values()) == (10 if by_case else 9)
        assert json.loads(written("jsonl", coded, by_case=by_case))["case_id"] == evil
    second = Coded("k", (Origin("a"), Origin("-5"), Origin(f"=HYPERLINK({sign})")), CODES, AGAINST)
    (row,) = csv.DictReader(io.StringIO(written("csv", second, by_case=True), newline=""))
    assert row["report_ids"] == f"a; -5; '=HYPERLINK({sign})" and row["contradictions"] == AGAINST[0].sentence
    (row,) = csv.DictReader(io.StringIO(written("csv", Coded("S;=1", (Origin("S\n @x"),), CODES)), newline=""))
    assert (row["case_id"], row["report_id"]) == ("S;'=1", "S\n '@x")  # where semicolons separate cells
    numbered = Coded("-17", (Origin("+3.5", "-1-1"),), CODES)
    (row,) = csv.DictReader(io.StringIO(written("csv", numbered)))
    assert (row["case_id"], row["report_id"], row["report_number"]) == ("-17", "+3.5", "'-1-1")


def test_a_report_in_jsonl_says_everything():
    line = json.loads(written("jsonl", Coded("k1", REPORTS[:1], CODES, AGAINST, text="left lobe")))
    assert (line["report_id"], line["report_number"], line["message_id"], line["position"]) == (
        "r1",
        "S-97-1",
        "MSG7",
        3,
    )
    assert line["codes"]["site"]["alternatives"] == [{"code": "C50", "term": "breast", "probability": 0.05}]
    assert line["codes"]["laterality"] == {
        "code": "left", "probability": 0.5, "abstained": True, "lifted": True, "term": "left",
        "alternatives": [], "adjusted": True,
    }  # fmt: skip
    assert line["contradictions"][0]["tasks"] == ["site", "laterality"] and line["text"] == "left lobe"


def test_the_format_is_the_names_or_as_told(tmp_path):
    assert format_of(tmp_path / "A.CSV") == "csv" and format_of(None) == "jsonl" and format_of(None, "csv") == "csv"
    assert format_of(tmp_path / "a.dat", "naaccr-xml") == "naaccr-xml"
    with pytest.raises(UsageError, match="expected csv, jsonl or naaccr-xml"):
        format_of(tmp_path / "a.xlsx")
