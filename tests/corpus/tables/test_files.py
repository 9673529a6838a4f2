"""Tables on disk: CSV as hospitals write it, damaged files told by their line, and writing that is all or nothing."""

import gzip
import os
import random

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pathveil.corpus.schema import scan, validate
from pathveil.corpus.tables.csv_files import delimiter_of
from pathveil.corpus.tables.files import BATCH, files, form_of, open_table, write_parquet
from pathveil.errors import CorpusError

SECRET = "Quastenflosser"


@pytest.fixture
def table(tmp_path):
    def make(content: str | bytes, name: str = "r.csv"):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return make


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_csv_of_every_separator(table, separator, end):
    rows = [["report_id", "text"], ["1", f'"a{separator} ""b""{end}c"'], ["2", ""], ["007", 'say d"e']]
    content = end.join(separator.join(row) for row in rows) + end + end
    expected = [("1", f'a{separator} "b"{end}c'), ("2", None), ("007", 'say d"e')]
    assert open_table(table(content)).collect().rows() == expected
    assert open_table(table("\ufeff" + content, "bom.csv")).collect().rows() == expected
    assert open_table(table(gzip.compress(content.encode()), "r.csv.gz")).collect().rows() == expected


def test_slices_of_a_parquet_file_are_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr("pathveil.corpus.tables.files.SLICE", 1)
    monkeypatch.setattr("pathveil.corpus.tables.files.FEWEST_ROWS", 3)
    whole = pl.DataFrame({"report_id": [f"r{n}" for n in range(10)], "n": range(10)})
    whole.write_parquet(tmp_path / "r.parquet", row_group_size=4)
    frame = open_table(tmp_path / "r.parquet", sliced=True)
    assert frame.collect().equals(whole)
    assert frame.select(pl.len()).collect().item() == 10
    assert frame.head(7).select("n").collect()["n"].to_list() == list(range(7))
    assert frame.filter(pl.col("n") % 4 == 1).select("report_id").collect()["report_id"].to_list() == ["r1", "r5", "r9"]


def test_a_parquet_file_that_is_cut_while_it_is_read_does_not_end_quietly(tmp_path, monkeypatch):
    """polars ends as if there were no more rows where reading some of them panics."""
    monkeypatch.setattr("pathveil.corpus.tables.files.FEWEST_ROWS", 100)
    monkeypatch.setattr("pathveil.corpus.tables.files.MOST_ROWS", 100)
    whole = pl.DataFrame({"text": [random.Random(n).randbytes(200).hex() for n in range(3_000)]})
    whole.write_parquet(tmp_path / "r.parquet", row_group_size=100)
    frame = open_table(tmp_path / "r.parquet", sliced=True)

    def read() -> None:
        for _ in frame.collect_batches(chunk_size=100, maintain_order=True, engine="streaming"):
            os.truncate(tmp_path / "r.parquet", 100_000)

    with pytest.raises(CorpusError, match=r"r\.parquet: changed while it was read, or is damaged"):
        read()


def test_csv_is_lazy_and_takes_part_in_the_plan(table):
    lines = "".join(f"{number},x{number % 3}\n" for number in range(3 * BATCH + 7))
    frame = open_table(table("report_id,text\n" + lines))
    assert frame.select(pl.len()).collect().item() == 3 * BATCH + 7
    assert frame.head(3).collect().rows() == [("0", "x0"), ("1", "x1"), ("2", "x2")]
    kept = frame.filter(pl.col("text") == "x1").select("report_id").collect(engine="streaming")
    assert kept["report_id"].to_list() == [str(number) for number in range(1, 3 * BATCH + 7, 3)]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (f"report_id,text\n1,a\n2,{SECRET},c\n", "the record at line 3 has 3 fields, its header has 2"),
        (f'report_id,text\n1,"a\nb"\n2\n3,{SECRET}\n', "the record at line 4 has 1 field, its header has 2"),
        (b"report_id,text\n1,a\n2,caf\xe9 " + SECRET.encode() + b"\n", "is not UTF-8 at line 3"),
        (b"r\xe9port,text\n", "line 1 is not UTF-8"),
        ("\n\n", "is empty; expected a header line"),
        (f"\nreport_id,text\n1,{SECRET}\n", "line 1 is blank; expected a header line"),
        ("report_id,text,text\n1,a,b\n", "columns 2 and 3 have the same name"),
        ('report_id,text\n1,"' + "x" * (1 << 24) + "y\n2,b\n", "the record at line 2 opens a quotation mark"),
    ],
)
def test_faults_of_csv_name_their_line(table, content, sentence):
    with pytest.raises(CorpusError) as caught:
        open_table(table(content)).collect()
    assert sentence in str(caught.value) and SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (f'{{"report_id": 1}}\n{{"text": "{SECRET}" oops\n', "line 2 is not JSON; expected one object a line"),
        ('{"report_id": 1}\n[1, 2]\n', "line 2 is not an object"),
        (b'{"report_id": "caf\xe9"}\n', "line 1 is not UTF-8"),
        ("", "is empty"),
    ],
)
def test_faults_of_jsonl_name_their_line(table, content, sentence):
    with pytest.raises(CorpusError) as caught:
        open_table(table(content, "r.jsonl"))
    assert sentence in str(caught.value) and SECRET not in str(caught.value)


def test_a_label_that_first_comes_late_is_not_lost(table):
    lines = [f'{{"report_id": {number}, "text": "x"}}' for number in range(3000)]
    frame = open_table(table("\n".join([*lines, '{"report_id": "z", "text": "x", "site": "C50"}']), "r.jsonl"))
    assert frame.select(pl.col("site").drop_nulls(), pl.col("report_id").last()).collect().rows() == [("C50", "z")]


@pytest.mark.parametrize("name", ["r.csv.gz", "r.jsonl.gz"])
def test_a_gzip_cut_short_is_told(table, name):
    row = '{"report_id": "1", "text": "' + SECRET + '"}' if "json" in name else f"1,{SECRET}"
    whole = gzip.compress(("report_id,text\n" * ("csv" in name) + (row + "\n") * 5000).encode())
    path = table(whole[: len(whole) // 2], name)
    with pytest.raises(CorpusError, match=name) as caught:
        open_table(path).collect()
    assert SECRET not in str(caught.value)


def test_a_parquet_file_cut_short_is_told(table, tmp_path):
    pl.DataFrame({"report_id": [SECRET]}).write_parquet(tmp_path / "a.parquet")
    with pytest.raises(CorpusError, match=r"b.parquet: is not a Parquet file, or is cut short"):
        open_table(table((tmp_path / "a.parquet").read_bytes()[:-20], "b.parquet"))


def test_no_damage_to_a_parquet_file_shows_a_traceback_or_a_text(tmp_path):
    names = [f"r{number}" for number in range(500)]
    columns = {"report_id": names, "case_id": names, "registry": ["R"] * 500, "text": [f"{SECRET} {n}" for n in names]}
    pl.DataFrame(columns).write_parquet(tmp_path / "a.parquet")
    whole, rng = (tmp_path / "a.parquet").read_bytes(), random.Random(1)
    refused = 0
    for _ in range(60):
        damaged = bytearray(whole)
        for _ in range(rng.choice([1, 3, 20])):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        (tmp_path / "b.parquet").write_bytes(damaged)
        try:
            validate(scan(tmp_path / "b.parquet"))
        except CorpusError as error:
            refused += 1
            assert SECRET not in str(error)
    assert refused > 30


def test_names_of_forms(tmp_path):
    names = {"a.PARQUET": "parquet", "a.tsv": "csv", "a.csv.GZ": "csv", "a.ndjson": "jsonl", "a.hl7": None, "csv": None}
    assert {name: form_of(tmp_path / name) for name in names} == names
    (tmp_path / "a.hl7").write_text("MSH|")
    with pytest.raises(CorpusError, match="HL7 messages are read by 'pathveil corpus import'"):
        scan(tmp_path / "a.hl7")
    assert files([tmp_path / "a.hl7"]) == [tmp_path / "a.hl7"]


def test_writing_is_all_or_nothing(tmp_path, table):
    out = tmp_path / "out" / "c.parquet"
    bad = open_table(table("report_id,text\n" + "1,a\n" * (BATCH + 1) + "2,b,c\n"))
    with pytest.raises(CorpusError, match="fields"):
        write_parquet(bad, out)
    assert list(out.parent.iterdir()) == []
    write_parquet(pl.LazyFrame({"a": [1]}), out)
    assert [path.name for path in out.parent.iterdir()] == ["c.parquet"]
    with pytest.raises(CorpusError, match="cannot be written"):
        write_parquet(pl.LazyFrame({"a": [1]}), tmp_path / "r.csv" / "x.parquet")


cells = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n\x00"), max_size=20)


@given(st.lists(st.tuples(cells, cells), min_size=1, max_size=20))
@settings(max_examples=100, deadline=None)
def test_csv_round_trips(tmp_path_factory, rows):
    """What polars writes, we read; polars' writer is the oracle for quoting."""
    path = tmp_path_factory.mktemp("csv") / "r.csv"
    frame = pl.DataFrame(rows, schema=["report_id", "text"], orient="row")
    frame.write_csv(path, quote_style="always")
    expected = [tuple(cell or None for cell in row) for row in rows if any(row)]
    assert open_table(path).collect().rows() == expected


def test_the_row_groups_of_a_corpus_are_small(tmp_path):
    numbers = [str(number) for number in range(2 * BATCH)]
    corpus = pl.LazyFrame({"report_id": numbers, "case_id": numbers, "registry": ["R"] * len(numbers), "text": numbers})
    write_parquet(corpus, tmp_path / "c.parquet")
    assert validate(scan(tmp_path / "c.parquet")).collect().equals(corpus.collect())


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (f"{SECRET} left breast;{SECRET} left breast\nx;y\n", "columns 1 and 2 have the same name; is line 1 a header"),
        (f"{SECRET} MRN 4661447;left breast\nx;y\n", "line 1 is no header (field 1 is no name of a column)"),
        (f"1;{SECRET} {'long ' * 20}\nx;y\n", "line 1 is no header (field 2 is no name of a column)"),
        (SECRET * (1 << 17), "its first line has no end; expected a header line"),
    ],
)
def test_a_file_without_a_header_is_refused_unquoted(table, content, sentence):
    for name in ("r.csv", "r.csv.gz"):
        path = table(gzip.compress(content.encode()) if "gz" in name else content, name)
        with pytest.raises(CorpusError) as caught:
            open_table(path)
        assert sentence in str(caught.value) and SECRET not in str(caught.value)


def test_lines_that_end_in_a_bare_carriage_return_are_lines(table):
    """As old Macintosh programs and some laboratory systems write them; Python's own csv module gives up on these."""
    rows = ["report_id,text,site", 'r1,"two words, quoted",C50', "r2,three more words,C61"]
    for end in ("\r", "\r\n", "\n"):
        found = open_table(table(end.join([*rows, ""]), "r.csv")).collect()
        assert found["text"].to_list() == ["two words, quoted", "three more words"] and found.width == 3


def test_json_nested_too_deeply_is_refused(table):
    with pytest.raises(CorpusError, match=r"r.jsonl: line 1 is"):
        open_table(table('{"text":' + '{"a":' * 5000 + "1" + "}" * 5000 + "}\n", "r.jsonl")).collect()


@pytest.mark.parametrize(
    ("content", "delimiter"),
    [
        ("name, first;text\nAda;a, b, c\nBob;d\n", ";"),
        ("a|b\n1|x, y; z\n", "|"),
        ('id,"text;with;marks"\n1,"a;b"\n', ","),
        ("text\nplain, with; marks\n", ","),
    ],
)
def test_the_delimiter_is_what_the_records_keep_to(content, delimiter):
    assert delimiter_of(content.splitlines(keepends=True)) == delimiter


@pytest.mark.parametrize("ending", ["parquet", "jsonl", "csv"])
def test_signs_of_patterns_in_a_name_mean_no_other_file(tmp_path, ending):
    """To polars lab[1] is a pattern that lab1 fits."""
    for number, name in enumerate(["lab1", "lab[1]", "la*", "lab?"]):
        frame = pl.DataFrame({"a": [str(number)]})
        path = tmp_path / f"{name}.{ending}"
        {"parquet": frame.write_parquet, "jsonl": frame.write_ndjson, "csv": frame.write_csv}[ending](path)
        assert open_table(path).select("a").collect()["a"].to_list() == [str(number)]
    folder = tmp_path / "in[1]"
    folder.mkdir()
    write_parquet(pl.LazyFrame({"a": ["5"]}), folder / "a.parquet")
    assert open_table(folder / "a.parquet").collect()["a"].to_list() == ["5"]


@pytest.mark.parametrize("ending", ["parquet", "jsonl"])
def test_a_name_that_polars_cannot_take_is_told(tmp_path, ending):
    path = tmp_path / f"lab\udcff.{ending}"
    pl.DataFrame({"a": ["x"]}).write_parquet(tmp_path / "a.parquet")
    path.write_bytes((tmp_path / "a.parquet").read_bytes() if ending == "parquet" else b'{"a": "x"}\n')
    with pytest.raises(CorpusError, match="its name, or that of its folder, is not UTF-8; rename it"):
        open_table(path)


def test_a_pipe_is_told_to_be_one(tmp_path):
    os.mkfifo(tmp_path / "reports.csv")
    for paths in (tmp_path / "reports.csv", [tmp_path / "reports.csv"]):
        with pytest.raises(CorpusError, match="is a pipe or a device, and is read more than once; write it to a file"):
            files(paths)
    with pytest.raises(CorpusError, match="the folder holds no"):
        files(tmp_path)
