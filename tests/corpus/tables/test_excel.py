"""Spreadsheets of any kind: calamine reads them in a child process, and what it refuses is one sentence."""

import zipfile

import polars as pl
import pytest

from pathveil.corpus.intake import import_corpus
from pathveil.corpus.mapping import TableMapping
from pathveil.corpus.proposal import propose_mapping
from pathveil.corpus.tables import excel
from pathveil.corpus.tables.excel import open_excel
from pathveil.errors import CorpusError, PathveilError, UsageError
from workbooks import MAIN, OFFICE, opendocument, related, sheet_xml, workbook

SECRET = "Quastenflosser"
ROWS = [["report_id", "case_id", "text", "site", "histology"]]
ROWS += [[f"r{n}", n // 2, f"{SECRET} {n}", "C504", 8500 + n % 2] for n in range(6)]


def test_an_import(tmp_path):
    path = workbook(tmp_path / "lab.xlsx", {"Reports": ROWS, "Other": [["a"], ["b"]]})
    result = import_corpus(path, out=tmp_path / "c.parquet", registry="R1")
    corpus = pl.read_parquet(tmp_path / "c.parquet")
    assert result.files[0].format == "excel" and corpus["case_id"].to_list() == ["0", "0", "1", "1", "2", "2"]
    assert corpus["histology"].to_list() == ["8500", "8501"] * 3 and corpus["text"][5] == f"{SECRET} 5"
    assert propose_mapping(path, out=tmp_path / "m.toml").columns["text"] == "text"
    with pytest.raises(UsageError, match=r"has no sheet 'Third'; it has Reports, Other"):
        import_corpus(path, out=tmp_path / "c.parquet", mapping=TableMapping(sheet="Third"))
    assert open_excel(path, sheet="Other").collect().rows() == [("b",)]
    assert open_excel(path).select("site", "report_id").head(2).collect().rows() == [("C504", "r0"), ("C504", "r1")]
    path.write_bytes(path.read_bytes()[:300])
    with pytest.raises(CorpusError, match="is no spreadsheet, or is damaged"):
        import_corpus(path, out=tmp_path / "c.parquet", registry="R1")


def test_other_sheets_are_listed(tmp_path):
    path = workbook(tmp_path / "lab.xlsx", {"Cover": [["n"], ["1"], ["2"]], "Reports": ROWS})
    assert propose_mapping(path, out=tmp_path / "m.toml").other_sheets == ["Reports"]


def test_a_sheet_of_opendocument(tmp_path):
    path = opendocument(tmp_path / "lab.ods", [["a", "b"], ["1", "x"]])
    assert open_excel(path).collect().rows() == [("1", "x")]


def test_a_sheet_without_rows_names_those_with_some(tmp_path):
    path = workbook(tmp_path / "lab.xlsx", {"Cover": [], "Reports": ROWS, "Notes": "<row/>"})
    with pytest.raises(CorpusError, match=r"lab.xlsx: sheet 'Cover' holds no rows; these do: Reports \(--sheet\)"):
        open_excel(path)
    with pytest.raises(CorpusError, match=r"lab.xlsx: sheet 'Empty' holds no rows$"):
        open_excel(workbook(path, {"Empty": []}))
    with pytest.raises(CorpusError, match=r"lab.xlsx: no report found"):
        import_corpus(workbook(path, {"S": ROWS[:1]}), out=tmp_path / "c.parquet", registry="R1")


def test_parts_are_found_in_other_folders(tmp_path):
    """As programs other than Excel write them: targets from the archive's root, other names, the strict namespace."""
    strict = "http://purl.oclc.org/ooxml"
    inside = sheet_xml('<row><c t="s"><v>0</v></c></row><row><c t="s"><v>1</v></c></row>')
    sheets = '<sheets><sheet name="S" sheetId="7" state="hidden" r:id="a"/></sheets>'
    files = {
        "_rels/.rels": related(r=("officeDocument", "xl/workbook.xml")).replace(
            OFFICE, f"{strict}/officeDocument/relationships"
        ),
        "xl/workbook.xml": f'<workbook xmlns="{MAIN}" xmlns:r="{OFFICE}">{sheets}</workbook>',
        "xl/_rels/workbook.xml.rels": related(a=("worksheet", "/xl/data/one.xml")),
        "xl/data/one.xml": inside,
        "xl/sharedStrings.xml": f'<sst xmlns="{strict}/main"><si><t>text</t></si><si><t>{SECRET}</t></si></sst>',
    }
    with zipfile.ZipFile(tmp_path / "a.xlsx", "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    assert open_excel(tmp_path / "a.xlsx").collect().to_dicts() == [{"text": SECRET}]


@pytest.mark.parametrize("value", ['t="e"><v>#NAME?</v>', 's="1"><v>1.5</v>'])
def test_an_error_or_a_span_of_time_does_not_spoil_its_column(tmp_path, value):
    """calamine gives no type to a column with #NAME?, as a text that begins with = or - becomes, or with both times
    and numbers."""
    rows = '<row r="1"><c r="A1" t="str"><v>id</v></c><c r="B1" t="str"><v>size</v></c></row>'
    rows += f'<row r="2"><c r="A2" t="str"><v>0012</v></c><c r="B2" {value}</c></row>'
    rows += '<row r="3"><c r="A3"><v>8500</v></c><c r="B3"><v>2</v></c></row>'
    table = open_excel(workbook(tmp_path / "a.xlsx", {"S": rows}, formats=[14, 46])).collect()
    assert table["id"].to_list() == ["0012", "8500"] and table["size"][1] == "2"


CELL = '<row><c t="inlineStr"><is><t>a</t></is></c></row>'
TEXT = f'<row><c t="inlineStr"><is><t>{SECRET}</t></is></c></row>'
BOMB = f'<!DOCTYPE x [<!ENTITY a "{SECRET}">]>'


@pytest.mark.parametrize(
    "made",
    [
        {"rows": f'<row r="{SECRET}"/>'},
        {"rows": f'<row><c r="{SECRET}"/></row>'},
        {"rows": f'<row><c t="{SECRET}"><v>1</v></c></row>'},
        {"rows": CELL + '<row><c t="s"><v>2</v></c></row>', "strings": [SECRET, SECRET]},
        {"rows": CELL + '<row><c t="s"><v>0</v></c></row>'},
        {"rows": sheet_xml(TEXT).removesuffix("</sheetData></worksheet>")},
        {"rows": sheet_xml(TEXT).replace("</t>", "</u>")},
        {"rows": BOMB + sheet_xml(TEXT.replace("<t>", "<t>&a;"))},
        {"rows": sheet_xml(TEXT).encode("latin-1").replace(b"Quasten", b"\xfc\xe4")},
        {"rows": TEXT, "xl__workbook-xml": "<workbook/>"},
        {"rows": TEXT, "xl__workbook-xml": None},
        {"rows": TEXT, "xl__worksheets__sheet1-xml": None},
        {"rows": TEXT, "xl___rels__workbook-xml-rels": related(rId1=("worksheet", "../../../etc/passwd"))},
        {"rows": "<row>" + " " * 100_000_000 + "</row>"},
        {"rows": '<row r="1"><c r="A1"><v>1</v></c></row><row r="1048576"><c r="XFD1048576"><v>1</v></c></row>'},
        {"rows": f"<row>{'<c><v>7</v></c>' * 16_000}</row>" + "<row><c><v>1</v></c></row>" * 50_000},
    ],
)
def test_damaged_and_hostile_workbooks_are_one_sentence(tmp_path, monkeypatch, made):
    """Damage of any kind; then a ZIP bomb, one cell in the last corner, thousands of columns of one name."""
    monkeypatch.setattr(excel, "SECONDS", 20)
    others = {name: part for name, part in made.items() if name != "rows"}
    path = workbook(tmp_path / "lab.xlsx", {"S": made["rows"]}, **others)
    with pytest.raises(PathveilError, match=r"lab\.xlsx: is no spreadsheet, or is damaged") as caught:
        open_excel(path).collect()
    assert SECRET not in str(caught.value) and "\n" not in str(caught.value)


def test_a_sheet_that_takes_too_long_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(excel, "SECONDS", 0.01)
    with pytest.raises(CorpusError, match=r"a\.xlsx: .* takes too long to read"):
        open_excel(workbook(tmp_path / "a.xlsx", {"S": ROWS}))


def test_a_sheet_that_is_not_of_its_checksum_is_damaged(tmp_path):
    path = workbook(tmp_path / "a.xlsx", {"S": ROWS}, packing=zipfile.ZIP_STORED)
    path.write_bytes(path.read_bytes().replace(b"Quastenflosser 5", b"Quastenflosser 6"))
    with pytest.raises(CorpusError, match="is no spreadsheet, or is damaged"):
        open_excel(path)


@pytest.mark.parametrize(("name", "content", "sentence"), [
    ("a.xlsx", b"\xd0\xcf\x11\xe0" + SECRET.encode() * 99, "is locked with a password, or an older .xls"),
    ("a.xls", b"\xd0\xcf\x11\xe0" + SECRET.encode() * 99, "is no spreadsheet, or is damaged"),
    ("a.xlsx", SECRET.encode(), "it is no archive"),
    ("a.xlsm", b"", "it is no archive"),
    ("a.xlsx", b"PK\x03\x04" + SECRET.encode(), "is no whole archive"),
])  # fmt: skip
def test_other_files_under_its_name(tmp_path, name, content, sentence):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(CorpusError, match=sentence) as caught:
        open_excel(tmp_path / name)
    assert SECRET not in str(caught.value)


def test_two_columns_of_one_name_are_refused_as_of_csv(tmp_path):
    rows = [["report_id", "case_id", "text", "text", "text"], ["1", "1", "short", "the report", None]]
    with pytest.raises(CorpusError, match="columns 3 and 4 have the same name"):
        import_corpus(workbook(tmp_path / "a.xlsx", {"S": rows}), out=tmp_path / "c.parquet", registry="R")
    rows[1][3] = None  # one that holds nothing is passed over
    path = workbook(tmp_path / "b.xlsx", {"S": rows})
    assert import_corpus(path, out=tmp_path / "c.parquet", registry="R").reports == 1
    rows[0][3:] = ["text_1", "text_2"]  # their own names
    rows[1][3] = "the report"
    assert import_corpus(workbook(path, {"S": rows}), out=tmp_path / "c.parquet", registry="R").reports == 1
