"""Rows that cannot be used: skipped, counted and named; or, where they are many, the table is refused."""

import json

import polars as pl
import pytest

from pathveil.corpus.intake import import_corpus
from pathveil.errors import CorpusError, UsageError

SECRET = "Quastenflosser"


@pytest.fixture
def lab(tmp_path):
    """Forty rows of which each of five is wrong in its own way, and one lacks nothing but a label."""
    rows = [f"R{n},K{n},North,{13 + n % 9}/02/2016,{SECRET} colon {n},C18" for n in range(40)]
    rows[3] = rows[3].replace("R3,", "R1,")
    rows[7] = rows[7].replace("K7", " ")
    rows[11] = "R11,K11,North,14/02/2016,  ,C18"
    rows[15] = rows[15].replace("/02/", "/14/")
    rows[19] += ",one too many"
    rows[23] = rows[23].removesuffix("C18")
    path = tmp_path / "lab.csv"
    path.write_text("\n".join(["report_id,case_id,registry,date,text,site", *rows]) + "\n")
    return path


def test_bad_rows_are_skipped_and_named(lab, tmp_path):
    result = import_corpus(lab, out=tmp_path / "c.parquet", most_skipped=0.2)
    assert result.reports == 35 and result.tables.rows == 40 and result.tables.skipped_total == 5
    assert [(one.row, one.reason) for one in result.tables.skipped] == [
        (5, "has the report_id of an earlier row"),
        (9, "has no case_id"),
        (13, "has no text"),
        (17, "has a date that cannot be read"),
        (21, "has 7 fields, its header has 6"),
    ]
    assert {one.file for one in result.tables.skipped} == {str(lab)}
    page = result.summary()
    assert "rows      40 read, 5 skipped" in page and f"{lab}: line 9 has no case_id" in page
    assert SECRET not in page + result.to_json()
    corpus = pl.read_parquet(tmp_path / "c.parquet")
    kept = [f"R{n}" for n in range(40) if n not in (3, 7, 11, 15, 19)]
    assert corpus["report_id"].to_list() == kept and corpus["site"].null_count() == 1
    assert corpus.columns == ["report_id", "case_id", "registry", "date", "text", "site"]
    assert corpus["date"][0].isoformat() == "2016-02-13"


def test_many_bad_rows_or_strictness_refuse_the_table(lab, tmp_path, inside):
    with pytest.raises(CorpusError) as caught:
        import_corpus(lab, out=tmp_path / "c.parquet")
    assert "5 of 40 rows cannot be used, more than the 10 % that may be left out (--most-skipped)" in str(caught.value)
    assert "column 'case_id': 1 report has none (R7)" in str(caught.value) and SECRET not in str(caught.value)
    done = inside("corpus", "import", lab, "--strict", "--out", tmp_path / "c.parquet")
    assert done.returncode == 2 and "the record at line 21 has 7 fields" in done.stderr
    with pytest.raises(UsageError, match="--most-skipped 1: expected a share"):
        import_corpus(lab, out=tmp_path / "c.parquet", most_skipped=1)
    assert not (tmp_path / "c.parquet").exists()
    done = inside("corpus", "import", lab, "--most-skipped", "0.2", "--out", tmp_path / "c.parquet", "--json")
    assert json.loads(done.stdout)["tables"]["reasons"]["has no text"] == 1


def test_lines_of_json_and_other_tables(tmp_path):
    rows = [{"report_id": f"r{n}", "case_id": "k", "registry": "R", "text": f"colon {n}"} for n in range(30)]
    lines = [json.dumps(row) for row in rows]
    lines[4] = f'{{"report_id": "{SECRET}'
    lines[9] = "[]"
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    result = import_corpus(tmp_path / "a.jsonl", out=tmp_path / "c.parquet")
    assert [(one.row, one.reason) for one in result.tables.skipped] == [
        (5, "is not JSON; expected one object a line"),
        (10, "is not an object; expected one object a line"),
    ]
    assert result.reports == 28 and result.tables.rows == 30 and SECRET not in result.to_json()
    rows[12]["text"] = None
    pl.DataFrame(rows).write_parquet(tmp_path / "b.parquet")
    (tmp_path / "c.json").write_text(json.dumps({"made": "today", "reports": rows}))
    for name in ("b.parquet", "c.json"):
        result = import_corpus(tmp_path / name, out=tmp_path / "c.parquet")
        assert [(one.row, one.reason) for one in result.tables.skipped] == [(13, "has no text")]
        assert result.reports == 29


def test_reports_that_two_files_have_are_kept_once(tmp_path):
    header = "report_id,case_id,registry,text\n"
    (tmp_path / "a.csv").write_text(header + "".join(f"r{n},k,R,colon\n" for n in range(20)))
    (tmp_path / "b.csv").write_text(header + "r7,k,R,colon\n" + "".join(f"s{n},k,R,colon\n" for n in range(20)))
    result = import_corpus([tmp_path / "a.csv", tmp_path / "b.csv"], out=tmp_path / "c.parquet")
    assert result.reports == 40
    (one,) = result.tables.skipped
    assert (one.file, one.row, one.reason) == (str(tmp_path / "b.csv"), 2, "has the report_id of an earlier row")
