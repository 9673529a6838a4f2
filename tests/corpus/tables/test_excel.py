"""Workbooks are read as calamine reads them, in any shape that programs write; what is damaged is one sentence."""

import io
import random
import re
import sys
import zipfile
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from pathveil.corpus.intake import import_corpus
from pathveil.corpus.mapping import TableMapping
from pathveil.corpus.proposal import propose_mapping
from pathveil.corpus.tables import excel, excel_cells, excel_spool
from pathveil.corpus.tables.excel import kind_of_format, open_excel
from pathveil.errors import CorpusError, MissingExtraError, PathveilError, UsageError
from workbooks import MAIN, OFFICE, escape, letters, opendocument, related, sheet_xml, workbook

SECRET = "Quastenflosser"
FORMATS = [0, 14, 22, 46, 20, "dd/mm/yyyy", "[h]:mm", "0.00", '0 "days"', "#,##0;[Red]-0", "yyyy\\-mm\\-dd;@"]
FORMATS += ["[$-409]d\\-mmm\\-yy;@", "General", "h:mm AM/PM", "[mm]:ss", '"d"0', "*d0", "_m0", "[>=100][Magenta][s].00"]
TEXTS = ["left breast", "  padded ", "line\nbreak", "a & b", "x<y", "ünïcode 漢字", "_x000D_ end", "_x005F_x000D_", ""]
TEXTS += ["NA", "null", "#N/A", "8500", "\u00a0kept\u00a0", "tab\t", "8500.0", "true", "_x0041_b", "x" * 300, "1e5"]
NUMBERS = ["0", "1", "8500", "8500.0", "8.5", "-3", "1e5", "1E+2", "29.020000000000003", "42492", "42492.5", "59", "60"]
NUMBERS += ["61", "0.25", "123456.123456789", "1e-12", "", "-0", "5.", "+5", ".5"]
ERRORS = ["#N/A", "#DIV/0!", "#VALUE!", "#REF!", "#NUM!", "#NULL!"]
DAYS = ["2016-05-02", "2016-05-02T10:11:12", "2016-05-02T10:11:12.5", "1999-01-01T00:00:00"]


class Writer:
    """A sheet as some program might write it, drawn at random."""

    def __init__(self, draw: random.Random):
        self.draw, self.strings = draw, []
        self.width, self.start = draw.randint(1, 6), draw.choice([0, 0, 0, 1, 25])
        self.first, self.placed = draw.choice([1, 1, 3]), draw.choice(["all", "rows", "none"])
        kinds = ["text", "number", "date", "mixed", "truth", "shared", "span", "iso", "missing"]
        self.kinds = [draw.choice(kinds) for _ in range(self.width)]

    def space(self) -> str:
        return self.draw.choice(["", ' xml:space="preserve"'])

    def string(self, text: str, name: str) -> str:
        text, how = escape(text), self.draw.random()
        if how < 0.1:
            runs = f"<r><rPr><b/></rPr><t{self.space()}>{text}</t></r><r><t{self.space()}> b </t></r>"
            return f'<{name}>{runs}<rPh sb="0" eb="1"><t>said</t></rPh></{name}>'
        if how < 0.2:
            return self.draw.choice([f"<{name}/>", f"<{name}><t/></{name}>"])
        return f"<{name}><t{self.space()}>{text}</t></{name}>"

    def cell(self, kind: str) -> tuple[str, str]:
        """The attributes and the content of a cell."""
        draw = self.draw
        if kind == "mixed":
            kind = draw.choice(["text", "number", "date", "truth", "shared", "error", "formula", "nothing"])
        if kind == "missing":
            kind = draw.choice(["number", "number", "na", "error"])
        kind = "error" if draw.random() < 0.05 else "nothing" if draw.random() < 0.05 else kind
        style = draw.choice(["", f' s="{draw.randrange(len(FORMATS) + 1)}"'])
        formula = draw.choice(["", "", "<f>A1+B2</f>", '<f t="shared" si="0"/>'])
        if kind == "shared":
            self.strings.append(self.string(draw.choice(TEXTS), "si"))
        values = {
            "text": (f'{style} t="inlineStr"', self.string(draw.choice(TEXTS), "is")),
            "na": (f'{style} t="inlineStr"', f"<is><t>{draw.choice(['NA', '', 'null', '#N/A'])}</t></is>"),
            "shared": (f'{style} t="s"', f"<v>{len(self.strings) - 1}</v>"),
            "formula": (f'{style} t="str"', f"{formula}<v>{escape(draw.choice(TEXTS))}</v>"),
            "number": (draw.choice([' s="7"', ' t="n"', ""]), f"{formula}<v>{draw.choice(NUMBERS)}</v>"),
            "date": (f' s="{draw.choice([1, 2, 5, 10, 11])}"', f"{formula}<v>{draw.choice(NUMBERS)}</v>"),
            "span": (' s="3"', f"<v>{draw.choice(['0.5', '1', '12.000011574'])}</v>"),
            "truth": (f'{style} t="b"', f"{formula}<v>{draw.choice('01')}</v>"),
            "error": (f'{style} t="e"', f"{formula}<v>{draw.choice(ERRORS)}</v>"),
            "iso": (f'{style} t="d"', f"<v>{draw.choice(DAYS)}</v>"),
            "nothing": (style, draw.choice(["", "<v></v>", "<v/>"])),
        }
        return values[kind]

    def row(self, number: int, kinds: list[str]) -> str:
        cells = ""
        for column, kind in enumerate(kinds):
            if self.placed != "none" and self.draw.random() < 0.15:
                continue
            attributes, content = self.cell(kind)
            place = f' r="{letters(self.start + column)}{number}"' if self.placed == "all" else ""
            cells += f"<c{place}{attributes}>{content}</c>" if content else f"<c{place}{attributes}/>"
        said = f' r="{number}" spans="1:3"' if self.placed != "none" else ""
        return f"<row{said}>{cells}</row>" if cells else f"<row{said}/>"

    def write(self, path: Path) -> Path:
        rows = [self.row(self.first, ["text"] * self.width)]
        rows += [self.row(self.first + n, self.kinds) for n in range(1, self.draw.randint(2, 14)) if n != 5]
        document = sheet_xml(self.draw.choice(["", "\r\n"]).join(rows))
        if self.draw.random() < 0.3:  # as .NET's library writes all names
            document = re.sub(r"<(/?)(?=[a-z])", r"<\1x:", document).replace("xmlns=", "xmlns:x=")
        properties = self.draw.choice(["", '<workbookPr date1904="1"/>'])
        return workbook(path, {"S": document}, strings="".join(self.strings), formats=FORMATS, properties=properties)


@pytest.fixture(params=["small", "large"], autouse=True)
def size(request, monkeypatch) -> None:
    """All is read as small sheets are, and as large ones: by compiled code, with rows on disk."""
    if request.param == "large":
        monkeypatch.setattr(excel, "LARGE", -1)
        monkeypatch.setattr(excel_spool, "MOST_HELD", 0)


def by_calamine(path: Path) -> pl.DataFrame:
    frame = pl.read_excel(path, engine="calamine", infer_schema_length=None)
    return frame.with_columns(pl.selectors.float().fill_nan(None))


@pytest.fixture(scope="module")
def drawn(tmp_path_factory) -> list[Path]:
    folder = tmp_path_factory.mktemp("drawn")
    return [Writer(random.Random(f"workbook {n}")).write(folder / f"{n}.xlsx") for n in range(70)]


def test_any_workbook_reads_as_calamine_reads_it(drawn):
    fastexcel = pytest.importorskip("fastexcel")
    same = 0
    for path in drawn:
        try:
            expected = by_calamine(path)
        except (pl.exceptions.PolarsError, fastexcel.FastExcelError) as error:
            assert "Duration" in str(error) or "empty" in str(error)  # which ours reads as texts, and does not read
            continue
        assert_frame_equal(open_excel(path).collect(), expected, rel_tol=0, abs_tol=0)
        same += 1
    assert same > 45


def test_the_plain_ways_and_expat_read_the_same(drawn, monkeypatch):
    """However the XML is cut into pieces."""

    def unusual(*_):
        raise excel_cells.Unusual

    def frames() -> list[pl.DataFrame | None]:
        return [frame_or_none(path) for path in drawn[:12]]

    expected = frames()
    monkeypatch.setattr(excel_cells, "HEAD", 200)
    monkeypatch.setattr(excel_cells, "PIECE", 60)
    for one, two in zip(frames(), expected, strict=True):
        assert (one is None) == (two is None) and (one is None or one.equals(two))
    monkeypatch.setattr(excel, "LARGE", 1 << 40)
    monkeypatch.setattr(excel_cells, "plain_text", unusual)
    assert all(one.equals(two) for one, two in zip(frames(), expected, strict=True) if one is not None)


def test_what_programs_write_is_of_the_plain_shape():
    """Rows in which cells are missing, without a value, with formulas, prefixes, styles and references."""
    full = '<row r="1" spans="1:3"><c r="A1" s="1" t="s"><v>0</v></c><c r="C1" t="str"><f>A1</f><v>&lt;b</v></c></row>'
    rows = full + '<row r="3"/><row r="4"><c r="B4" s="2"/><c r="C4" t="inlineStr"><is><t>x</t></is></c></row>'
    for text, prefix in ((rows, ""), (re.sub(r"<(/?)(?=[a-z])", r"<\1x:", rows), "x:")):
        (block,) = excel_cells.plain_blocks(text, prefix, excel_cells.Order())
        values = {number: column.values for number, column in block.columns.items()}
        assert block.height == 3 and values == {0: ["0", None, None], 2: ["<b", None, "x"], 1: [None, None, ""]}


def frame_or_none(path: Path) -> pl.DataFrame | None:
    try:
        return open_excel(path).collect()
    except CorpusError as error:
        assert "holds no rows" in str(error)


@pytest.mark.parametrize("code", [form for form in FORMATS if isinstance(form, str)])
def test_formats_of_dates_are_told_as_calamine_tells_them(tmp_path, code):
    pytest.importorskip("fastexcel")
    path = workbook(
        tmp_path / "a.xlsx", {"S": '<row><c><v>1</v></c></row><row><c s="0"><v>5.5</v></c></row>'}, formats=[code]
    )
    kinds = {"number": pl.Float64, "moment": pl.Datetime, "span": pl.Duration}
    assert by_calamine(path).dtypes[0].base_type() == kinds[kind_of_format(code).value]


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


def test_the_extra_is_needed_only_for_other_kinds(tmp_path, monkeypatch):
    path = opendocument(tmp_path / "lab.ods", [["a", "b"], ["1", "x"]])
    if excel.find_spec("fastexcel"):
        assert open_excel(path).collect().rows() == [("1", "x")]
    monkeypatch.setitem(sys.modules, "fastexcel", None)
    assert open_excel(workbook(tmp_path / "lab.xlsx", {"S": ROWS})).collect().height == 6
    with pytest.raises(MissingExtraError, match=r"needs fastexcel; install it with: pip install 'pathveil\[excel\]'"):
        open_excel(path)


def test_a_sheet_without_rows_says_which_have_some(tmp_path):
    path = workbook(tmp_path / "lab.xlsx", {"Cover": [], "Reports": ROWS, "Notes": "<row/>"})
    with pytest.raises(CorpusError, match=r"lab.xlsx: sheet 'Cover' holds no rows; these do: Reports \(--sheet\)"):
        open_excel(path)
    with pytest.raises(CorpusError, match=r"lab.xlsx: sheet 'Empty' holds no rows$"):
        open_excel(workbook(path, {"Empty": []}))
    with pytest.raises(CorpusError, match=r"lab.xlsx: no report found"):
        import_corpus(workbook(path, {"S": ROWS[:1]}), out=tmp_path / "c.parquet", registry="R1")


def test_parts_are_found_wherever_they_lie(tmp_path):
    """Targets from the archive's root, other folders and names, capitals, the strict namespace, UTF-16."""
    strict, inside = (
        "http://purl.oclc.org/ooxml",
        sheet_xml('<row><c t="s"><v>0</v></c></row><row><c t="s"><v>1</v></c></row>'),
    )
    sheets = '<sheets><sheet name="S" sheetId="7" state="hidden" r:id="a"/></sheets>'
    files = {
        "_rels/.rels": related(r=("officeDocument", "/Office/Book.xml")).replace(
            OFFICE, f"{strict}/officeDocument/relationships"
        ),
        "office/book.xml": f'<workbook xmlns="{MAIN}" xmlns:r="{strict}">{sheets}</workbook>',
        "Office/_rels/Book.xml.rels": related(
            a=("worksheet", "../data/one.xml"), b=("sharedStrings", "/data/words.xml")
        ),
        "data/one.xml": f'<?xml version="1.0" encoding="UTF-16"?>{inside}'.encode("utf-16"),
        "data/words.xml": f'<sst xmlns="{strict}/main"><si><t>text</t></si><si><t>{SECRET}</t></si></sst>',
    }
    with zipfile.ZipFile(tmp_path / "a.xlsx", "w") as archive:
        for name, content in files.items():
            with archive.open(name, "w", force_zip64=True) as file:
                file.write(content if isinstance(content, bytes) else content.encode())
    assert open_excel(tmp_path / "a.xlsx").collect().to_dicts() == [{"text": SECRET}]


def test_what_calamine_refuses_or_breaks_on(tmp_path):
    """A cell in the last corner, an error of a name, spans among numbers, numbers beyond 64 bits, dates beyond 9999."""
    rows = '<row r="1"><c r="A1"><v>1</v></c><c r="B1" t="str"><v>b</v></c></row>'
    rows += '<row r="2"><c r="A2" t="e"><v>#NAME?</v></c><c r="B2" s="1"><v>1.5</v></c></row>'
    rows += '<row r="3"><c r="A3"><v>1e22</v></c><c r="B3"><v>2</v></c><c r="C3" s="0"><v>9e9</v></c></row>'
    rows += '<row r="1048576"><c r="XFD1048576" t="str"><v>far</v></c></row>'
    path = workbook(tmp_path / "a.xlsx", {"S": rows}, formats=[14, 46])
    assert open_excel(path).collect().rows() == [(None, "36:00:00", None), (1e22, "2", None), (None, None, "far")]
    assert open_excel(path).collect().columns == ["1", "b", "__UNNAMED__16383"]


CELL = '<row><c t="inlineStr"><is><t>a</t></is></c></row>'
TEXT = f'<row><c t="inlineStr"><is><t>{SECRET}</t></is></c></row>'
BOMB = f'<!DOCTYPE x [<!ENTITY a "{SECRET}">]>'


@pytest.mark.parametrize(
    ("made", "sentence"),
    [
        ({"rows": '<row r="2">' + TEXT[5:] + '<row r="1">' + TEXT[5:]}, "a row twice, or rows out of order"),
        ({"rows": '<row r="2">' + TEXT[5:] + '<row r="2">' + TEXT[5:]}, "a row twice, or rows out of order"),
        ({"rows": f'<row r="2"><c r="A7" t="str"><v>{SECRET}</v></c></row>'}, "another row than the one it stands in"),
        ({"rows": f'<row r="2"><c r="XFE2" t="str"><v>{SECRET}</v></c></row>'}, "more than 16,384 columns"),
        ({"rows": "<row>" + "<c><v>1</v></c>" * 20_000 + "</row>"}, "more than 16,384 columns"),
        ({"rows": f'<row r="{SECRET}"/>'}, "whose number is none"),
        ({"rows": f'<row><c r="{SECRET}"/></row>'}, "whose place is none"),
        ({"rows": f'<row><c t="{SECRET}"><v>1</v></c></row>'}, "of a kind that is not known"),
        (
            {"rows": CELL + '<row><c t="s"><v>2</v></c></row>', "strings": [SECRET, SECRET]},
            "strings that it does not hold",
        ),
        ({"rows": CELL + '<row><c t="s"><v>-1</v></c></row>', "strings": [SECRET]}, "strings that it does not hold"),
        ({"rows": CELL + '<row><c t="s"><v>0</v></c></row>'}, "strings that it does not hold"),
        ({"rows": sheet_xml(TEXT).removesuffix("</sheetData></worksheet>")}, "is cut short"),
        ({"rows": sheet_xml(TEXT).replace("</t>", "</u>")}, "is no XML, or is cut short, at line 1"),
        ({"rows": sheet_xml(TEXT.replace("<t>", "<t>&a;"))}, "is no XML, or is cut short"),
        ({"rows": BOMB + sheet_xml(TEXT.replace("<t>", "<t>&a;"))}, "declares a document type"),
        (
            {"rows": TEXT, "strings": (BOMB + f"<sst><si><t>{SECRET}</t></si></sst>").encode()},
            "declares a document type",
        ),
        ({"rows": sheet_xml(TEXT).encode("latin-1").replace(b"Quasten", b"\xfc\xe4")}, "is not UTF-8"),
        ({"rows": TEXT, "xl__workbook-xml": "<workbook/>"}, "has no sheet"),
        ({"rows": TEXT, "xl__workbook-xml": None}, "holds no workbook"),
        ({"rows": TEXT, "xl__worksheets__sheet1-xml": None}, "lacks a part"),
        (
            {"rows": TEXT, "xl___rels__workbook-xml-rels": related(rId1=("worksheet", "../../../etc/passwd"))},
            "lacks a part",
        ),
        ({"rows": TEXT, "xl___rels__workbook-xml-rels": related(rId1=("worksheet", "workbook.xml"))}, "holds no rows"),
        ({"rows": "<row>" + " " * 100_000_000 + "</row>"}, "inflates to more than 250 times"),
    ],
)
def test_damaged_workbooks_are_one_sentence(tmp_path, made, sentence):
    others = {name: part for name, part in made.items() if name != "rows"}
    path = workbook(tmp_path / "lab.xlsx", {"S": made["rows"]}, **others)
    with pytest.raises(PathveilError) as caught:
        open_excel(path).collect()
    assert sentence in str(caught.value) and "lab.xlsx" in str(caught.value) and SECRET not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_sheet_that_is_not_of_its_checksum_is_damaged(tmp_path):
    """Which is told at its end, by the thread that inflates."""
    path = workbook(tmp_path / "a.xlsx", {"S": ROWS}, packing=zipfile.ZIP_STORED)
    path.write_bytes(path.read_bytes().replace(b"Quastenflosser 5", b"Quastenflosser 6"))
    with pytest.raises(CorpusError, match="is no whole archive"):
        open_excel(path)


@pytest.mark.parametrize("numbers", [["0", "1", "2"], ["2", "0", "0"], ["1", "", "0"], ["", "1", "2"]])
def test_strings_are_shared_in_any_order(tmp_path, numbers):
    """In their order, again and again, where some are missing, and one that holds a zero."""
    texts = ["a", "漢", "_x0000_z"]
    cells = [f'<row><c t="s"><v>{number}</v></c><c><v>1</v></c></row>' for number in ["0", *numbers]]
    frame = open_excel(workbook(tmp_path / "a.xlsx", {"S": "".join(cells)}, strings=texts)).collect()
    read = [*texts[:2], "\0z"]
    assert frame["a"].to_list() == [read[int(number)] if number else None for number in numbers]


def test_a_table_of_almost_nothing_is_not_made_large(tmp_path):
    """Sixteen thousand names over a million rows are as many cells as no machine holds."""
    header = "".join(f'<c t="str"><v>n{n}</v></c>' for n in range(16_000))
    rows = f"<row>{header}</row>" + "<row><c><v>1</v></c></row>" * 50_000
    path = workbook(tmp_path / "a.xlsx", {"S": sheet_xml(rows)})
    with pytest.raises(CorpusError, match="says more columns and rows than its cells fill"):
        open_excel(path)


@pytest.mark.parametrize(("name", "content", "sentence"), [
    ("a.xlsx", b"\xd0\xcf\x11\xe0" + SECRET.encode() * 99, "is locked with a password, or an older .xls"),
    ("a.xlsx", SECRET.encode(), "it is no archive"),
    ("a.xlsm", b"", "it is no archive"),
    ("a.xlsx", b"PK\x03\x04" + SECRET.encode(), "is no whole archive"),
])  # fmt: skip
def test_other_files_under_its_name(tmp_path, name, content, sentence):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(CorpusError, match=sentence) as caught:
        open_excel(tmp_path / name)
    assert SECRET not in str(caught.value)


def test_a_full_disk_is_a_sentence(tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    path = workbook(tmp_path / "a.xlsx", {"S": ROWS})
    monkeypatch.setattr(excel_spool, "MOST_HELD", 0)
    monkeypatch.setattr(pl.DataFrame, "write_ipc", full)
    with pytest.raises(CorpusError, match=r"the temporary folder \(TMPDIR\) is full"):
        open_excel(path)


def test_cells_of_many_pieces_take_no_memory_of_their_own():
    """Pieces are handed on one at a time, each of about as many bytes as are read at a time."""
    row = b'<row><c t="inlineStr"><is><t>' + b"x" * 1000 + b"</t></is></c></row>"
    document = b"<worksheet><sheetData>" + row * 12_000 + b"</sheetData></worksheet>"
    heights = [block.height for block in excel_cells.sheet_blocks(lambda: io.BytesIO(document))]
    assert sum(heights) == 12_000 and max(heights) * len(row) < 1.01 * excel_cells.PIECE


def test_two_columns_of_one_name_are_refused_as_of_csv(tmp_path):
    rows = [["report_id", "case_id", "text", "text", "text"], ["1", "1", "short", "the report", None]]
    with pytest.raises(CorpusError, match="columns 3 and 4 have the same name"):
        import_corpus(workbook(tmp_path / "a.xlsx", {"S": rows}), out=tmp_path / "c.parquet", registry="R")
    rows[1][3] = None  # one that holds nothing is passed over
    path = workbook(tmp_path / "b.xlsx", {"S": rows})
    assert import_corpus(path, out=tmp_path / "c.parquet", registry="R").reports == 1
