"""Databases and nested JSON: read as tables, refused in sentences that quote nothing."""

import gzip
import io
import json
import random
import sqlite3
from contextlib import closing

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pathveil.corpus.intake import import_corpus
from pathveil.corpus.labels import label_corpus
from pathveil.corpus.proposal import propose_mapping
from pathveil.corpus.reading import read
from pathveil.corpus.tables import sources
from pathveil.corpus.tables.files import BATCH, open_table
from pathveil.corpus.tables.opening import detect_format
from pathveil.corpus.tables.sources import nested_field, nested_names, object_lines, open_json
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


NESTED = [
    {
        "id": {"report": f"r{n}", "case": f"c{n}"},
        "report": {"sections": [{"name": "dx", "text": f"{SECRET} {n}"}, {"name": "gross", "text": "core"}]},
        "codes": ["C504", "8500/3"],
    }
    for n in range(3)
]
COLUMNS = {
    "report_id": "id.report",
    "case_id": "id.case",
    "text": "report.sections.text",
    "subsite": "codes.0",
    "histology": "codes.1",
}


@pytest.mark.parametrize("name", ["r.json", "r.json.gz", "r.jsonl", "wrapped.json", "wrapped twice.json"])
def test_fields_within_fields(tmp_path, name):
    lines = "\n".join(map(json.dumps, NESTED))
    content = lines if "jsonl" in name else json.dumps({"total": 3, "reports": NESTED} if "wrap" in name else NESTED)
    content = json.dumps({"export": json.loads(content)}) if "twice" in name else content
    (tmp_path / name).write_bytes(gzip.compress(content.encode()) if name.endswith("gz") else content.encode())
    import_corpus(tmp_path / name, out=tmp_path / "c.parquet", registry="R1", columns=COLUMNS)
    corpus = pl.read_parquet(tmp_path / "c.parquet")
    assert corpus["text"].to_list() == [f"{SECRET} {n}\ncore" for n in range(3)]
    assert corpus.select("report_id", "site", "subsite", "histology", "behavior").row(2) == (
        "r2", "C50", "C50.4", "8500", "3",
    )  # fmt: skip
    with pytest.raises(UsageError, match=r"has no column 'id.nothing' to take case_id from"):
        import_corpus(tmp_path / name, out=tmp_path / "c.parquet", columns=COLUMNS | {"case_id": "id.nothing"})


def test_one_report_with_the_ids_of_several_is_refused(tmp_path):
    """A list that lies too deep to be found would be one report with everybody's texts."""
    (tmp_path / "r.json").write_text(json.dumps({"made": "2016", "export": {"reports": NESTED}}))
    columns = {ours: f"export.reports.id.{name}" for ours, name in (("report_id", "report"), ("case_id", "case"))}
    columns["text"] = columns["case_id"]
    with pytest.raises(CorpusError, match="column 'report_id': 1 report has none"):
        import_corpus(tmp_path / "r.json", out=tmp_path / "c.parquet", registry="R1", columns=columns)
    (tmp_path / "r.json").write_text(json.dumps({"made": "2016", "export": {"reports": NESTED[:1]}}))
    import_corpus(tmp_path / "r.json", out=tmp_path / "c.parquet", registry="R1", columns=columns)
    assert pl.read_parquet(tmp_path / "c.parquet")["report_id"].to_list() == ["r0"]


@pytest.mark.parametrize("name", ["text", "lines"])
def test_json_with_a_list_of_lines(tmp_path, name):
    lines = ["left breast, core biopsy of a mass that was seen at mammography:"]
    lines.append("invasive ductal carcinoma of no special type, grade 2")
    report = {"report_id": "1", "case_id": "1", "registry": "R", name: lines, "codes": ["C50.4"]}
    (tmp_path / "r.json").write_text(json.dumps([report]))
    columns = {"subsite": "codes"} | ({"text": name} if name != "text" else {})
    import_corpus(tmp_path / "r.json", out=tmp_path / "c.parquet", columns=columns)
    assert pl.read_parquet(tmp_path / "c.parquet").select("text", "subsite").rows() == [("\n".join(lines), "C50.4")]
    (tmp_path / "r.json").write_text(json.dumps([report | {"report_id": f"r{n}"} for n in range(9)]))
    assert propose_mapping(tmp_path / "r.json", out=tmp_path / "m.toml").columns["text"] == name


@pytest.fixture(params=["small", "large"])
def size(request, monkeypatch):
    """Files are taken for small ones, or for large ones."""
    monkeypatch.setattr(sources, "LARGE", 1 << 26 if request.param == "small" else 0)


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("ensure_ascii", [True, False])
def test_json_on_lines_of_any_kind(tmp_path, size, line_end, ensure_ascii):
    """Objects are taken as they are written, whatever stands between their parts; so are escapes of all kinds."""
    texts = ['two\nlines, a "mark" and a \\ \t', "\u2028 ≤ 2 mm 🔬", "", None, "{[,:]}"]
    reports = [{"id": n, "share": n / 7, "text": text, "of": {"kinds": ["a\n"]}} for n, text in enumerate(texts)]
    written = json.dumps({"reports": reports}, indent=2, ensure_ascii=ensure_ascii).replace("\n", line_end)
    (tmp_path / "r.json").write_bytes(written.encode())
    assert open_json(tmp_path / "r.json").collect().to_dicts() == reports
    flat = [{"id": f"{n}", "text": text} for n, text in enumerate(texts)]
    written = json.dumps(flat, indent=1, ensure_ascii=ensure_ascii).replace("\n", line_end)
    (tmp_path / "r.json").write_bytes(written.encode())
    assert open_json(tmp_path / "r.json").collect().to_dicts() == flat


def test_lists_in_one_file_and_none_in_another_are_told(tmp_path):
    """It was asked whether the disk is full."""
    row = {"report_id": "a", "case_id": "1", "text": "colon"}
    for name, addenda in (("a", ["x"]), ("b", None), ("c", "x")):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(row | {"report_id": name, "addenda": addenda}))
    files = [tmp_path / f"{name}.jsonl" for name in "abc"]
    assert import_corpus(files[:2], out=tmp_path / "c.parquet", registry="R").reports == 2
    for some in (files, files[::-1]):
        with pytest.raises(CorpusError, match=r"a\.jsonl: column 'addenda' holds lists, and none in .*c\.jsonl"):
            import_corpus(some, out=tmp_path / "c.parquet", registry="R")


class Trickle(io.BytesIO):
    """A file that is read a few bytes at a time."""

    def read(self, size=-1):
        return super().read(min(size, 50) if size > 0 else size)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(st.dictionaries(st.text(max_size=5), JSON, max_size=4), min_size=1, max_size=9), st.booleans())
def test_objects_of_a_list_are_found_by_compiled_code_too(objects, ensure_ascii):
    for indent in (None, 1):
        written = json.dumps({"n": 1, "reports": objects}, indent=indent, ensure_ascii=ensure_ascii).encode()
        for kind in (io.BytesIO, Trickle):
            lines = b"".join(object_lines(kind(written), large=True)).splitlines()
            assert [json.loads(line) for line in lines] == objects


def test_names_of_fields_within_fields(tmp_path):
    (tmp_path / "r.json").write_text(json.dumps(NESTED))
    schema = open_json(tmp_path / "r.json").collect_schema()
    names = ["id.report", "id.case", "report.sections.name", "report.sections.text", "codes"]
    assert nested_names(schema) == names
    assert all(nested_field(schema, name) is not None for name in names)
    assert nested_field(schema, "id.x") is None and nested_field(schema, "x.id") is None
    result = propose_mapping(tmp_path / "r.json", out=tmp_path / "m.toml")
    assert result.columns["text"] == "report.sections.text" and SECRET not in (tmp_path / "m.toml").read_text()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("[" * 100_000, "expected a list of objects, one a report"),
        ('[{"a": ' + "[" * 100_000, "nested more than 24 levels deep"),
        ('[{"a": ' + "[" * 30 + "]" * 30 + "}]", "nested more than 24 levels deep"),
        ('{"a": [{"b": "c"}], "d": [{"e": "f"}]}', "several lists of objects"),
        ('{"x": {"a": [{"b": "c"}], "d": [{"e": "f"}]}}', "several lists of objects"),
        (
            json.dumps({f"{SECRET}{n}": {"text": "x"} for n in range(3)}),
            "holds an object for each report, or column, under a name of its own; expected a list of objects",
        ),
        (f'[{{"text": "{SECRET}"', "cannot be read as JSON"),
        (f'["{SECRET}"]', "expected a list of objects, one a report"),
        ("[]", "expected a list of objects"),
        ("7", "expected a list of objects"),
        (b"\xff\xfe\x00", "cannot be read as JSON"),
        (rf'[{{"text": "{SECRET} \ud83d"}}]', "holds half a character"),
        (f'[{{"text": "{SECRET}", "text": "b"}}]', "has a name twice in one object"),
        (f'[{{"text": "{SECRET}", "n": NaN}}]', "holds a number that is none"),
        (f'[{{"text": "{SECRET}\nb"}}]', "cannot be read as JSON"),
        (f'[{{"text": "{SECRET}" "b"}}]', "cannot be read as JSON"),
        (f'[{{"text": "{SECRET}"]]', "cannot be read as JSON"),
        (f'[{{"text": "{SECRET}"}},]', "expected a list of objects, one a report"),
    ],
)
def test_json_that_is_no_table(tmp_path, size, content, sentence):
    (tmp_path / "r.json").write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(CorpusError) as caught:
        open_table(tmp_path / "r.json", form="json")
    assert sentence in str(caught.value) and SECRET not in str(caught.value)


def test_other_forms_in_a_folder_are_passed_over(tmp_path, database):
    columns = {"report_id": ["a"], "case_id": ["1"], "registry": ["R"], "text": ["x"]}
    pl.DataFrame(columns).write_parquet(tmp_path / "a.parquet")
    (tmp_path / "split.json").write_text("{}")
    assert import_corpus(tmp_path, out=tmp_path / "out" / "c.parquet").reports == 1
    assert detect_format(database.rename(tmp_path / "export.bin")) == "sqlite"


@pytest.mark.parametrize(
    "view",
    [
        "with recursive n(x) as (select 1 union all select x + 1 from n) select x as report_id from n",
        "with recursive n(x) as (select 1 union all select x + 1 from n) select x as report_id from n where x < 0",
    ],
)
def test_a_view_that_never_ends_is_stopped(tmp_path, monkeypatch, view):
    """A database is another party's program as well: records of nothing, and a search that finds none."""
    monkeypatch.setattr(sources, "MOST_RECORDS", 100)
    monkeypatch.setattr(sources, "MOST_WORK", 3)
    with closing(sqlite3.connect(tmp_path / "a.db")) as database:
        database.execute(f"create view reports as {view}")
    with pytest.raises((CorpusError, UsageError, pl.exceptions.ComputeError), match=r"more records|query"):
        sources.open_sqlite(tmp_path / "a.db").collect()


def test_texts_of_a_database_in_another_encoding_are_called_that(tmp_path):
    with sqlite3.connect(tmp_path / "r.db") as opened:
        opened.execute("create table reports (report_id, text)")
        opened.execute("insert into reports values ('a', cast(? as text))", (f"Präparat {SECRET}".encode("latin-1"),))
    opened.close()
    with pytest.raises(CorpusError, match=r"r\.db: holds text that is not UTF-8; export it as CSV") as caught:
        open_table(tmp_path / "r.db", form="sqlite").collect()
    assert SECRET not in str(caught.value)
