"""Reports that stand in several rows: lines, sections and pieces, put together whatever the order of the rows."""

import random

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pathveil
from pathveil.bundle.incoming import OneReading, read_files
from pathveil.corpus import report_rows
from pathveil.corpus.intake import import_corpus
from pathveil.corpus.mapping import TableMapping
from pathveil.corpus.proposal import propose_mapping
from pathveil.errors import CorpusError, UsageError

SECRET = "Quastenflosser"
COLUMNS = {"report_id": "ACC", "case_id": "MRN", "line": "LINE_NO", "text": "LINE_TEXT"}
LINES = ["FINAL DIAGNOSIS:", "Left breast, core biopsy:", "", "ductal carcinoma, grade 2."]


def table(*, reports: int = 30, lines: list[str] = LINES) -> pl.DataFrame:
    rows = [
        {"ACC": f"S{n}", "MRN": n // 2, "LINE_NO": place, "LINE_TEXT": line and f"{line} {n}", "TOPO": "C504"}
        for n in range(reports)
        for place, line in enumerate(lines, start=1)
    ]
    return pl.DataFrame(rows)


def imported(tmp_path, frame: pl.DataFrame, *, name: str = "t.csv", columns: dict | None = None, **told):
    path = tmp_path / name
    frame.write_csv(path) if name.endswith(".csv") else frame.write_parquet(path)
    columns = COLUMNS | {"subsite": "TOPO"} if columns is None else columns
    result = import_corpus(path, out=tmp_path / "c.parquet", registry="R", columns=columns, **told)
    return pl.read_parquet(tmp_path / "c.parquet"), result


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_lines_become_reports(tmp_path, monkeypatch, name):
    monkeypatch.setattr(report_rows, "AT_ONCE", 7)  # so that reports lie across batches
    found, result = imported(tmp_path, table(), name=name)
    assert found["report_id"].to_list() == [f"S{n}" for n in range(30)] and result.cases == 15
    assert found["text"][3] == "FINAL DIAGNOSIS: 3\nLeft breast, core biopsy: 3\n\nductal carcinoma, grade 2. 3"
    assert set(found["subsite"]) == {"C50.4"} and "line" not in found.columns
    assert result.joined is not None and result.joined.rows == 120 and result.joined.reports == 30
    assert "  joined    120 rows into 30 reports\n" in result.summary()


@given(st.lists(st.integers(1, 6), min_size=1, max_size=12), st.randoms(use_true_random=False), st.integers(2, 9))
@settings(max_examples=40, deadline=None)
def test_the_order_of_rows_does_not_matter(counts, chance: random.Random, at_once):
    """Together or not, within batches or across them; numbers as texts, with blanks around ids."""
    rows = [(f" S{n}", f"{place}", f"line {place} of {n}") for n, count in enumerate(counts) for place in range(count)]
    expected = {f"S{n}": "\n".join(f"line {k} of {n}" for k in range(count)) for n, count in enumerate(counts)}
    for together in (True, False):
        if not together:
            chance.shuffle(rows)
        frame = pl.LazyFrame(rows, schema=["report_id", "line", "text"], orient="row")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(report_rows, "AT_ONCE", at_once)
            found, told = report_rows.join_rows(frame, source="t")
            assert dict(found.select("report_id", "text").collect().iter_rows()) == expected
            assert told == {"rows": len(rows), "reports": len(counts), "differing": 0}


def test_pieces_of_a_fixed_width_are_joined_within_words(tmp_path):
    whole = [f"Left breast, core biopsy: infiltrating ductal carcinoma of no special type {n}. " * 9 for n in range(20)]
    rows = [
        {"ACC": f"S{n}", "MRN": n, "LINE_NO": place, "LINE_TEXT": text[60 * place : 60 * place + 60]}
        for n, text in enumerate(whole)
        for place in range(len(text) // 60 + 1)
    ]
    found, _ = imported(tmp_path, pl.DataFrame(rows), columns=COLUMNS)
    assert found["text"].to_list() == [text.strip() for text in whole]
    padded = pl.DataFrame(rows[:1] * 2 + rows[-1:]).with_columns(pl.col("LINE_TEXT").str.pad_end(80))
    joined = report_rows.look_at(padded.lazy().rename({"ACC": "report_id", "LINE_TEXT": "text"}), source="t")
    assert not joined.is_cut  # lines padded with blanks are lines


def test_sections_in_rows_have_headings_in_the_order_of_messages(tmp_path):
    rows = [
        ("S1", 1, "Makroskopie", "Drei Zylinder."),
        ("S1", 2, "Diagnose", "Mammakarzinom,"),
        ("S1", 3, None, "invasiv duktal."),
        ("S2", 1, "Frozen section", "Benign."),
        ("S2", 2, "FINAL DIAGNOSIS", "Fibroadenoma."),
    ]
    frame = pl.DataFrame(rows, schema=["ACC", "MRN", "PART", "LINE_TEXT"], orient="row")
    columns = {"report_id": "ACC", "case_id": "MRN", "section": "PART", "text": "LINE_TEXT"}
    with pytest.raises(CorpusError, match="the first, at line 2, is of a report whose rows name different patients"):
        imported(tmp_path, frame, columns=columns)
    found, _ = imported(tmp_path, frame.with_columns(MRN="ACC"), columns=columns)
    assert found["text"].to_list() == [
        "FINAL DIAGNOSIS\nMammakarzinom,\ninvasiv duktal.\n\nGROSS DESCRIPTION\nDrei Zylinder.",
        "FINAL DIAGNOSIS\nFibroadenoma.\n\nFROZEN SECTION\nBenign.",
    ]


def test_rows_that_disagree(tmp_path):
    """Different patients under one number are no report; different codes are none, and counted; repeats count once."""
    frame = table().with_columns(pl.col("MRN").cast(pl.String))
    frame[5, "MRN"] = "99"  # of S1, whose first line is 6
    frame[8, "TOPO"] = "C509"  # of S2
    again = pl.concat([frame, frame.filter(pl.col("ACC") == "S4")])  # as a join with two diagnoses gives them
    found, result = imported(tmp_path, again)
    assert found["report_id"].to_list() == [f"S{n}" for n in range(30) if n != 1]
    assert found.filter(report_id="S2")["subsite"].to_list() == [None] and found["subsite"].null_count() == 1
    assert found.filter(report_id="S4")["text"][0].count("FINAL") == 1
    assert result.joined is not None and result.joined.differing == 1
    assert [one.row for one in result.tables.skipped] == [6]
    assert "t.csv: line 6 is of a report whose rows name different patients or registries" in result.summary()
    assert "            codes that differ within a report left out: 1 report\n" in result.summary()
    with pytest.raises(CorpusError, match="row 5 is of a report whose rows name different patients"):
        imported(tmp_path, again, strict=True)


def test_rows_without_a_number_are_named(tmp_path):
    frame = table()
    frame[0, "ACC"], frame[7, "ACC"] = None, " "
    found, result = imported(tmp_path, frame)
    assert found.height == 30 and found["text"][0].startswith("Left breast")
    assert [(one.row, one.reason) for one in result.tables.skipped] == [
        (2, "has no report_id"),
        (9, "has no report_id"),
    ]


def test_what_is_no_number_of_reports_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(report_rows, "MOST_ROWS", 20)
    monkeypatch.setattr(report_rows, "AT_ONCE", 7)
    with pytest.raises(
        CorpusError, match=r"more than 20 rows have one report_id; is it the column of report numbers\?"
    ):
        imported(tmp_path, table().with_columns(ACC=pl.lit(SECRET)))
    monkeypatch.setattr(report_rows, "MOST_HELD", 50)
    with pytest.raises(CorpusError, match="do not stand together, and there are more than 50; order the table"):
        imported(tmp_path, pl.concat([table(), table()]))
    with pytest.raises(UsageError, match="there is no column 'report_id'; say which column it is with --column"):
        imported(tmp_path, table(), columns={"line": "LINE_NO", "text": "LINE_TEXT"})
    assert not (tmp_path / "c.parquet").exists()


def test_other_readers_take_them_too(tmp_path):
    """The position of an answer is that of the report's first row; a frame in Python needs no file."""
    frame = table()
    columns = {**COLUMNS, "subsite": "TOPO"}
    corpus = pathveil.read(frame, columns=columns, registry="R")
    assert len(corpus) == 30 and corpus.to_frame()["text"][0].count("\n") == 3
    path, reading = tmp_path / "t.csv", OneReading()
    frame.write_csv(path)
    told = {"form": "auto", "key": b"", "reading": reading, "mapping": TableMapping(columns=columns)}
    coded = [report for batch in read_files(path, **told) for report in batch]
    assert [one.origin.position for one in coded] == list(range(1, 121, 4)) and reading.put_together
    assert coded[2].text == corpus.to_frame()["text"][2] and coded[2].origin.report_id == "S2"


def test_a_proposal_knows_them(tmp_path):
    path = tmp_path / "lab.csv"
    table().drop("TOPO").with_columns(Section=pl.lit("Final Diagnosis")).write_csv(path)
    result = propose_mapping(path, out=tmp_path / "m.toml")
    assert result.columns["line"] == "LINE_NO" and result.reasons["report_id"] == "30 reports in 120 rows"
    tumours = table(lines=["A whole report, of which each tumour of it has a row", "x"]).with_columns(
        pl.col("LINE_TEXT").first().over("ACC"), TumorSeq="LINE_NO"
    )
    tumours.drop("LINE_NO").write_csv(path)
    result = propose_mapping(path, out=tmp_path / "n.toml")
    assert "line" not in result.columns and "say what numbers them (line = …)" in result.reasons["report_id"]
    with pytest.raises(CorpusError, match="put together with --column line=COLUMN or section=COLUMN"):
        imported(tmp_path, table(), columns={"report_id": "ACC", "case_id": "MRN", "text": "LINE_TEXT"})
