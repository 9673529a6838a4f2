"""SQLite: read as a table, never written to, refused in sentences that quote nothing."""

import random
import sqlite3
from contextlib import closing

import polars as pl
import pytest

from pathveil.corpus.intake import import_corpus
from pathveil.corpus.labels import label_corpus
from pathveil.corpus.proposal import propose_mapping
from pathveil.corpus.reading import read
from pathveil.corpus.tables import database as database_module
from pathveil.corpus.tables.database import open_sqlite
from pathveil.corpus.tables.files import BATCH, open_table
from pathveil.corpus.tables.opening import detect_format
from pathveil.errors import CorpusError, PathveilError, UsageError

SECRET = "Quastenflosser"
ROWS = [(f"r{n}", n // 2, f"{SECRET} {n}", "C504", 8500 + n % 2) for n in range(6)]


@pytest.fixture
def database(tmp_path):
    path = tmp_path / "lab.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute(
            "create table reports (report_id text, case_id integer, text text, site text, histology real)"
        )
        connection.executemany("insert into reports values (?, ?, ?, ?, ?)", ROWS)
    connection.close()
    return path


def test_a_database_with_one_table(database, tmp_path):
    result = import_corpus(database, out=tmp_path / "c.parquet", registry="R1")
    corpus = pl.read_parquet(tmp_path / "c.parquet")
    assert result.reports == 6 and result.files[0].format == "sqlite"
    assert corpus["histology"].to_list() == ["8500", "8501"] * 3 and set(corpus["subsite"]) == {"C50.4"}
    assert corpus["case_id"].to_list() == ["0", "0", "1", "1", "2", "2"]
    assert read(database, registry="R1").to_frame().equals(corpus)


def test_a_query_is_streamed_and_can_only_read(database, tmp_path):
    with sqlite3.connect(database) as connection:
        many = [(f"x{n}", n, "text", "C50", 8500) for n in range(BATCH + 10)]
        connection.executemany("insert into reports values (?, ?, ?, ?, ?)", many)
        connection.execute("create table other (a)")
    connection.close()
    query = "select report_id as report_id, text from reports where report_id like 'x%'"
    frame = open_table(database, form="sqlite", query=query)
    assert frame.select(pl.len()).collect().item() == BATCH + 10
    assert frame.head(2).collect().rows() == [("x0", "text"), ("x1", "text")]
    with pytest.raises(UsageError, match="has 2 tables \\(other, reports\\); say what to read with --query"):
        open_table(database, form="sqlite")
    for wrong in (
        "drop table reports",
        "selec x",
        "select nothing from reports",
        "select 1; select 2",
        "select 1 a, 2 a",
    ):
        with pytest.raises(UsageError, match=r"query"):
            open_table(database, form="sqlite", query=wrong).collect()
    assert sqlite3.connect(database).execute("select count(*) from reports").fetchone() == (BATCH + 16,)
    before = sorted(tmp_path.iterdir())
    for writing in ("vacuum into '{}'", "attach database '{}' as other"):  # a mapping may be another party's
        with pytest.raises(UsageError, match="the query cannot be run"):
            open_table(database, form="sqlite", query=writing.format(tmp_path / "copy.db")).collect()
    assert sorted(tmp_path.iterdir()) == before


def test_labels_and_mappings_come_from_a_database_too(database, tmp_path):
    result = propose_mapping(database, out=tmp_path / "m.toml")
    assert result.columns["text"] == "text" and result.columns["histology"] == "histology"
    reports = pl.DataFrame({"report_id": ["r1", "z"], "case_id": ["1", "2"], "registry": ["R"] * 2, "text": ["x"] * 2})
    reports.write_parquet(tmp_path / "r.parquet")
    done = label_corpus(tmp_path / "r.parquet", database, on=["report_id"], out=tmp_path / "l.parquet")
    assert (done.matched, done.unmatched) == (1, 1)


def test_a_damaged_database_is_refused(database, tmp_path):
    rng, whole = random.Random(2), database.read_bytes()
    for _ in range(20):
        damaged = bytearray(whole)
        for _ in range(40):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        (tmp_path / "d.db").write_bytes(damaged)
        try:
            import_corpus(tmp_path / "d.db", out=tmp_path / "c.parquet", registry="R1")
        except PathveilError as error:
            assert SECRET not in str(error)
    with sqlite3.connect(database) as connection:
        connection.execute("update reports set text = cast(x'ff' || 'Quastenflosser' as text)")
    connection.close()
    with pytest.raises(PathveilError) as caught:
        import_corpus(database, out=tmp_path / "c.parquet", registry="R1")
    assert SECRET not in str(caught.value)
    (tmp_path / "d.db").write_bytes(b"no database " * 100)
    with pytest.raises(UsageError, match="is it a SQLite database"):
        import_corpus(tmp_path / "d.db", out=tmp_path / "c.parquet", registry="R1")


@pytest.mark.parametrize(
    "view",
    [
        "with recursive n(x) as (select 1 union all select x + 1 from n) select x as report_id from n",
        "with recursive n(x) as (select 1 union all select x + 1 from n) select x as report_id from n where x < 0",
    ],
)
def test_a_view_that_never_ends_is_stopped(tmp_path, monkeypatch, view):
    """A database is another party's program as well: records of nothing, and a search that finds none."""
    monkeypatch.setattr(database_module, "MOST_RECORDS", 100)
    monkeypatch.setattr(database_module, "MOST_WORK", 3)
    with closing(sqlite3.connect(tmp_path / "a.db")) as database:
        database.execute(f"create view reports as {view}")
    with pytest.raises((CorpusError, UsageError, pl.exceptions.ComputeError), match=r"more records|query"):
        open_sqlite(tmp_path / "a.db").collect()


def test_texts_of_a_database_in_another_encoding_are_called_that(tmp_path):
    with sqlite3.connect(tmp_path / "r.db") as opened:
        opened.execute("create table reports (report_id, text)")
        opened.execute("insert into reports values ('a', cast(? as text))", (f"Präparat {SECRET}".encode("latin-1"),))
    opened.close()
    with pytest.raises(CorpusError, match=r"r\.db: holds text that is not UTF-8; export it as CSV") as caught:
        open_table(tmp_path / "r.db", form="sqlite").collect()
    assert SECRET not in str(caught.value)


def test_a_database_is_known_by_its_contents(database, tmp_path):
    assert detect_format(database.rename(tmp_path / "export.bin")) == "sqlite"
