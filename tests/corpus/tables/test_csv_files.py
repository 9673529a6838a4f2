"""CSV: plain records go to polars, all others to Python's csv, and nobody can tell which it was."""

import codecs
import csv
import gzip
import io
from unittest import mock

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pathveil.corpus.intake import import_corpus
from pathveil.corpus.mapping import TableMapping
from pathveil.corpus.tables import csv_files
from pathveil.corpus.tables.csv_files import open_csv
from pathveil.corpus.tables.files import ROW
from pathveil.errors import CorpusError

SECRET = "Quastenflosser"
FIELDS = st.text(st.sampled_from("ab ,;\t\"\n\r'é"), max_size=5)


def by_python(content: str, delimiter: str) -> list[tuple[str | None, ...]]:
    """The records as Python's csv reads the whole text at once, without those that hold nothing."""
    header, *records = csv.reader(io.StringIO(content, newline=""), delimiter=delimiter)
    kept = [record for record in records if len(record) == len(header) and any(record)]
    return [tuple(value or None for value in record) for record in kept]


@given(st.lists(st.tuples(FIELDS, FIELDS, FIELDS), min_size=1, max_size=12), st.sampled_from([",", ";", "\t"]))
@settings(max_examples=120, deadline=None)
def test_what_is_written_by_the_book_is_read_alike(tmp_path_factory, records, delimiter):
    out = io.StringIO(newline="")
    csv.writer(out, delimiter=delimiter, lineterminator="\r\n").writerows([("a", "b", "c"), *records])
    path = tmp_path_factory.mktemp("csv") / "r.csv"
    path.write_bytes(out.getvalue().encode())
    assert open_csv(path, delimiter=delimiter).collect().rows() == by_python(out.getvalue(), delimiter)


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize("encoding", ["utf-8-sig", "cp1252", "utf-16"])
def test_bad_records_are_told_by_line_and_the_rest_is_kept(tmp_path, monkeypatch, quick, encoding):
    if not quick:
        monkeypatch.setattr(csv_files, "read_block", lambda *_, **__: None)
    monkeypatch.setattr(csv_files, "BLOCK", 64)  # so that a file has many blocks
    good = [f'{n};"Präparat {n},\n2. Zeile";x' for n in range(30)]
    lines = ["id;text;note", *good[:10], f"{SECRET};too few", *good[10:20], "a;b;c;d", "", *good[20:], "last;one;y"]
    path = tmp_path / "r.csv"
    path.write_bytes("\r\n".join(lines).encode(encoding))
    told: list[tuple[int, str]] = []
    table = open_csv(path, encoding=encoding, note=lambda row, why: told.append((row, why))).collect()
    assert told == [(22, "has 2 fields, its header has 3"), (43, "has 4 fields, its header has 3")]
    assert table["id"].to_list() == [*map(str, range(30)), "last"] and table["text"][7] == "Präparat 7,\n2. Zeile"
    assert table[ROW].to_list()[:3] == [2, 4, 6] and table[ROW].to_list()[-1] == 65
    with pytest.raises(CorpusError, match="the record at line 22 has 2 fields, its header has 3") as caught:
        open_csv(path, encoding=encoding).collect()
    assert SECRET not in str(caught.value)
    assert open_csv(path, encoding=encoding, note=lambda *_: None).head(2).collect().height == 2


def test_a_record_of_several_lines_that_does_not_fit_is_one_fault(tmp_path):
    """Its text is no row of faults of its own; a record that a mark swallowed, of several lines too, is found."""
    path, told = tmp_path / "t.csv", []
    path.write_text(
        'id,text,site\n1,"left breast,\nbiopsy\nof the lump",C50,extra\n2,"colon\npolyp",C18\n'
        '3,5" nail"s,\n4,"rectum\nbiopsy",C20\n5,"never said,\n6,"lung\nlobe",C34\n7,skin,C44\n'
    )
    table = open_csv(path, note=lambda row, why: told.append((row, why))).collect()
    assert table["id"].to_list() == ["2", "3", "4", "6", "7"]
    assert told == [(2, "has 4 fields, its header has 3"), (10, told[1][1])]


def test_a_quotation_mark_by_mistake_swallows_no_record(tmp_path):
    """Only the line with the mark is lost; the records that a reader would take for its text are read."""
    records = [f"{n},5 mm,x" for n in range(50)]
    records[20] = '20,"5 mm,x'
    path = tmp_path / "r.csv"
    path.write_text("\n".join(["id,text,note", *records]) + "\n")
    told: list[tuple[int, str]] = []
    table = open_csv(path, note=lambda row, why: told.append((row, why))).collect()
    assert [row for row, _ in told] == [22]
    assert table["id"].to_list() == [str(n) for n in range(50) if n != 20]


def test_nor_do_the_lines_behind_one_take_the_longer_the_more_there_are(tmp_path):
    """All lines are read again, and were counted again for each of them: this file took an hour."""
    path, noted = tmp_path / "r.csv", []
    path.write_text('id,text\n1,"' + "a\n" * 200_000 + "2,b\n")
    table = open_csv(path, note=lambda row, _: noted.append(row)).collect()
    assert table.rows() == [("2", "b", 200_002)] and noted == list(range(2, 200_002))


def test_nor_does_one_in_the_last_column(tmp_path):
    """There what follows up to the file's end would fit as text; a file cut short in a report is told the same way."""
    path = tmp_path / "r.csv"
    path.write_text("\n".join(["id,text", *(f"{n},5 mm" for n in range(20)), '20,"5 mm', "21,x", "22,y"]))
    told: list[tuple[int, str]] = []
    table = open_csv(path, note=lambda row, why: told.append((row, why))).collect()
    assert told == [(22, "opens a quotation mark and never closes it")] and table["id"].to_list()[-2:] == ["21", "22"]
    with pytest.raises(CorpusError, match="the record at line 22 opens a quotation mark and never closes it"):
        open_csv(path).collect()
    path.write_text('id,text\n1,"5 mm')  # nothing follows that could be lost
    assert open_csv(path).collect()["text"].to_list() == ["5 mm"]


@given(
    st.lists(st.tuples(FIELDS, FIELDS, FIELDS), min_size=1, max_size=12),
    st.sampled_from([",", ";", "\t"]),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from(
        ["", '5" nail{0}b{0}c{1}', "a{0}b{1}", "\udce9", '{1}{1}"a"b{0}"c{0}d{1}', '1{0}"2{1}3{0}4{0}5{1}']
    ),
)
@settings(max_examples=200, deadline=None)
def test_polars_and_python_read_alike(tmp_path_factory, records, delimiter, end, spoilt):
    """Whatever is in a file: a quotation mark that is none, a line too short, bytes of another encoding."""
    out = io.StringIO(newline="")
    csv.writer(out, delimiter=delimiter, lineterminator=end).writerows([("a", "b", "c"), *records])
    path = tmp_path_factory.mktemp("csv") / "r.csv"
    content = out.getvalue() + spoilt.format(delimiter, end) + out.getvalue()
    path.write_bytes(content.encode("utf-8", "surrogateescape"))

    def read(**patch: object) -> tuple[object, list[tuple[int, str]]]:
        notes: list[tuple[int, str]] = []
        with mock.patch.multiple(csv_files, **patch):
            try:
                table = open_csv(path, delimiter=delimiter, note=lambda *note: notes.append(note)).collect()
            except CorpusError as error:
                return str(error), notes
        return table.rows(), notes

    (expected, noted), (found, notes) = read(read_block=lambda *_, **__: None), read(BLOCK=24)
    assert found == expected and (notes == noted or isinstance(found, str))


@given(st.lists(st.text(st.sampled_from('ab,"\n\r'), max_size=8), min_size=1, max_size=10))
@settings(max_examples=300, deadline=None)
def test_plain_records_are_read_by_polars_as_by_python(lines):
    """However quotation marks and ends of lines fall."""
    content = "\n".join(lines) + "\n"
    block = csv_files.plain_records(",", 2).match(content)[0]
    if block:
        reader = csv.reader(io.StringIO(block, newline=""))
        records, starts, end = [], [], 0
        for record in reader:
            records.append(tuple(record))
            starts.append(end + 1)
            end = reader.line_num
        table = csv_files.read_block(block, ["x", "y"], delimiter=",", line=1)
        assert table is not None and table[ROW].to_list() == starts
        assert table.drop(ROW).select(pl.all().fill_null("")).rows() == records


@pytest.mark.parametrize("way", ["polars", "python"])
def test_a_bare_return_within_a_text_is_no_reason_to_be_slow(tmp_path, monkeypatch, way):
    """Old systems end lines with it, in one report of four hundred of TCGA's; lines are counted alike by both ways."""
    texts = ["left\rbreast", "colon\r\npolyp", "a\r\rb\r", "skin"]
    rows = [f'{n},"{text} {n}",C50' for n, text in enumerate(texts * 9)]
    path = tmp_path / "r.csv"
    path.write_bytes("\n".join(["id,text,site", *rows, ""]).encode())
    slow = []
    original = csv_files.tables_of
    monkeypatch.setattr(csv_files, "tables_of", lambda *given: slow.append(1) or original(*given))
    if way == "python":
        monkeypatch.setattr(csv_files, "read_block", lambda *_, **__: None)
    table = open_csv(path, note=lambda *_: None).collect()
    assert bool(slow) == (way == "python")
    assert table["text"].to_list() == [f"{text} {n}" for n, text in enumerate(texts * 9)]
    assert table[ROW].to_list()[:6] == [2, 4, 6, 10, 11, 13] and table[ROW][-1] == 82


def test_a_delimiter_that_the_header_does_not_have_is_told(tmp_path):
    (tmp_path / "t.csv").write_text("report_id\ttext\n1\tleft, right\n")
    with pytest.raises(CorpusError, match=r"line 1 has no ',', by which .* were told .*; they seem to be by tab"):
        open_csv(tmp_path / "t.csv", delimiter=",")
    (tmp_path / "t.csv").write_text("word\nleft\n")  # a table of one column has none
    assert open_csv(tmp_path / "t.csv", delimiter=";").collect().rows() == [("left",)]


def test_carets_separate_fields_too(tmp_path):
    """As hospital systems that have HL7 in mind export tables; the marks of a term are none of them."""
    (tmp_path / "t.csv").write_text("report_id^case_id^text\n1^P1^left breast, biopsy; core\n")
    assert open_csv(tmp_path / "t.csv").collect().rows() == [("1", "P1", "left breast, biopsy; core")]
    (tmp_path / "t.csv").write_text("code,text,note\nC50^Breast^ICDO,left,x\n")
    assert open_csv(tmp_path / "t.csv").collect()["code"].to_list() == ["C50^Breast^ICDO"]


def test_a_table_with_marks_of_its_own_is_told_how_they_should_be(tmp_path):
    """Texts in single quotation marks, or marks behind a backslash: most records then have too many fields."""
    for text in ("'{}, biopsy, right'", '"{} \\"core, 3\\", right"'):
        rows = [f"{n},P{n},R1,{text.format(SECRET)}" for n in range(9)]
        (tmp_path / "t.csv").write_text("\n".join(["report_id,case_id,registry,text", *rows, ""]))
        with pytest.raises(CorpusError, match='must stand in "…", its own marks twice') as caught:
            import_corpus(tmp_path / "t.csv", out=tmp_path / "c.parquet")
        assert SECRET not in str(caught.value) and not (tmp_path / "c.parquet").exists()


def test_headers_of_files_that_were_put_together_are_no_records(tmp_path):
    (tmp_path / "t.csv").write_text(f"report_id,text \n1,{SECRET}\n\ufeffreport_id,text \n2,text\nreport_id,a\n")
    faults = []
    frame = open_csv(tmp_path / "t.csv", note=lambda line, reason: faults.append((line, reason)))
    assert frame.collect().rows() == [("1", SECRET, 2), ("2", "text", 4), ("report_id", "a", 5)]
    assert faults == [(3, "is the header again")]


def test_empty_rows_of_a_spreadsheet_are_no_records(tmp_path):
    """They were reports without an id, and `predict` coded them."""
    path = tmp_path / "r.csv"
    path.write_text('report_id,text\n,\n1,a\n,\n"",\n,b\n2,\n' + ",\n" * 40)
    faults = []
    table = open_csv(path, note=lambda line, reason: faults.append((line, reason))).collect()
    assert table.rows() == [("1", "a", 3), (None, "b", 6), ("2", None, 7)] and not faults
    assert open_csv(path).collect().rows() == [("1", "a"), (None, "b"), ("2", None)]


def test_a_large_table_in_another_encoding_is_called_that(tmp_path):
    """It was said of one beyond a megabyte that its first line has no end."""
    path = tmp_path / "lab.csv"
    path.write_bytes(b"report_id;text\n" + "7;Pr\u00e4parat vom Kolon\n".encode("cp1252") * 60_000)
    with pytest.raises(CorpusError, match=r"lab\.csv: is not UTF-8 at line 2"):
        open_csv(path).collect()


@pytest.mark.parametrize(
    ("written", "told", "named"),
    [("utf-8-sig", "cp1252", "UTF-8"), ("utf-8", "latin-1", "UTF-8"), ("utf-16", "cp850", "UTF-16")],
)
def test_an_encoding_that_is_plainly_another_is_refused(tmp_path, written, told, named):
    """A mapping that was made of last month's table may tell it."""
    (tmp_path / "r.csv").write_bytes("report_id;case_id;text\n1;1;Größe\n".encode(written))
    mapping = TableMapping(encoding=told)
    with pytest.raises(CorpusError, match=f"r.csv: is {named}, but was told to be {told}"):
        import_corpus(tmp_path / "r.csv", out=tmp_path / "c.parquet", registry="R", mapping=mapping)
    mapping = TableMapping(encoding=written)
    import_corpus(tmp_path / "r.csv", out=tmp_path / "c.parquet", registry="R", mapping=mapping)
    assert pl.read_parquet(tmp_path / "c.parquet")["text"].to_list() == ["Größe"]


@pytest.mark.parametrize("sign", ["ö", "≤"])
def test_an_encoding_is_held_against_the_whole_file(tmp_path, sign):
    """Reports in English may go on for pages before the first letter that tells."""
    rows = "".join(f"{number};1;{'colon ' * 200}\n" for number in range(200))
    (tmp_path / "r.csv").write_text(f"report_id;case_id;text\n{rows}last;1;{sign} 2 cm\n", encoding="utf-8")
    with pytest.raises(CorpusError, match=r"r\.csv: is UTF-8, but was told to be cp1252"):
        import_corpus(
            tmp_path / "r.csv", out=tmp_path / "c.parquet", registry="R", mapping=TableMapping(encoding="cp1252")
        )


def test_a_damaged_archive_whose_encoding_was_told_is_one_sentence(tmp_path):
    rows = "".join(f"{number};1;colon {number * 7919 % 104_729}\n" for number in range(60_000))
    packed = gzip.compress(f"report_id;case_id;text\n{rows}".encode(), compresslevel=1)
    (tmp_path / "r.csv.gz").write_bytes(packed[:-1000])
    with pytest.raises(CorpusError, match=r"r\.csv\.gz: is damaged after line 1; is it cut short"):
        import_corpus(
            tmp_path / "r.csv.gz", out=tmp_path / "c.parquet", registry="R", mapping=TableMapping(encoding="cp1252")
        )


@pytest.mark.parametrize("told", [None, "cp1252"])
def test_a_mark_of_utf_8_before_another_encoding_is_passed_over(tmp_path, told):
    """Some programs write it before Windows-1252."""
    (tmp_path / "r.csv").write_bytes(codecs.BOM_UTF8 + "report_id;case_id;text\n1;1;Größe\n".encode("cp1252"))
    import_corpus(tmp_path / "r.csv", out=tmp_path / "c.parquet", registry="R", mapping=TableMapping(encoding=told))
    assert pl.read_parquet(tmp_path / "c.parquet").select("report_id", "text").rows() == [("1", "Größe")]
