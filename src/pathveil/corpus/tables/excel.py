"""Spreadsheets as tables: workbooks of today (.xlsx, .xlsm) as streams, older and other kinds through calamine.

A workbook is an archive of XML. Its sheet is read as it streams by (``excel_cells.py``), the strings that its cells
refer to lie in a temporary file, and so do the rows until the last of them has told the types of the columns
(``excel_spool.py``): a sheet of a million reports takes no more memory than one of thousands. What comes out is what
calamine reads of it. Which of the archive's files is the sheet, the relationships between them say.

The formats of earlier and other programs (.xls, .xlsb, .ods) are read by calamine, which holds a whole sheet, in a
process of its own with a bound on its memory: one cell in a far corner is a table of all cells before it.
"""

import mmap
import posixpath
import re
import tempfile
import zipfile
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from pathveil.corpus.tables.excel_cells import shared_strings, sheet_blocks
from pathveil.corpus.tables.excel_columns import Context, Kind
from pathveil.corpus.tables.excel_spool import Spool, kept_on_disk
from pathveil.corpus.tables.files import BATCH, LARGE, held_frame, polars_faults, streamed
from pathveil.errors import CorpusError, MissingExtraError, UsageError
from pathveil.untrusted import Refused
from pathveil.untrusted.apart import run_apart
from pathveil.untrusted.archives import ZIP, open_archive
from pathveil.untrusted.text import open_regular
from pathveil.untrusted.xml import xml_events

if TYPE_CHECKING:
    import polars as pl

OLE = b"\xd0\xcf\x11\xe0"  # how a file of older programs begins
MOST_LISTED = 1 << 18  # sheets, styles and relationships of a workbook
MOMENTS = frozenset((*range(14, 23), 45, 47))  # numbers of formats that every workbook has
SPANS = frozenset((46,))
QUOTED = re.compile(r'[\\_*].|"[^"]*"?', re.DOTALL)  # of a format: what it shows as it is
BRACKETED = re.compile(r"\[([^\]]*)(?:\]|$)")
SPAN = re.compile(r"\[(?:h+|m+|s+)\]", re.IGNORECASE)
MOMENT = re.compile(r"^[^a]*?[dmhys]|a.*?[pm/]", re.IGNORECASE)  # 5 PM is one, and "General" is none


def open_excel(path: Path, *, sheet: str | None = None, apart: bool = False) -> "pl.LazyFrame":
    """A sheet of a spreadsheet, the first unless named, as a lazy frame; its first row names the columns.

    Two columns of one name get numbers, as calamine gives them; are names to be ``apart``, they are refused.
    """
    folder = tempfile.TemporaryDirectory(prefix="pathveil-")
    try:
        with open_regular(path) as file:
            start = file.read(4)
        if start == ZIP:
            with open_archive(path) as archive:
                workbook = find_workbook(archive)
                if workbook is not None:
                    return stream_sheet(Workbook(archive, workbook), path, sheet, folder, apart=apart)
        elif path.suffix.lower() in (".xlsx", ".xlsm"):
            raise Refused(
                "is locked with a password, or an older .xls under another name" if start == OLE else "is no archive"
            )
        return read_apart(path, sheet, folder)
    except Refused as fault:
        raise CorpusError(f"{path}: is no spreadsheet, or is damaged; it {fault}") from None


def other_sheets(path: Path) -> list[str]:
    """The sheets of a workbook behind its first; of older and other spreadsheets, none are told."""
    try:
        with open_archive(path) as archive:
            part = find_workbook(archive)
            return [] if part is None else list(Workbook(archive, part).sheets)[1:]
    except (Refused, OSError):
        return []


def stream_sheet(
    workbook: "Workbook", path: Path, sheet: str | None, folder: tempfile.TemporaryDirectory[str], *, apart: bool
) -> "pl.LazyFrame":
    """A sheet of a workbook as a lazy frame over the rows that were kept of it."""
    import polars as pl

    name, part = workbook.choose(sheet, path)
    spool = workbook.read(part, Path(folder.name))
    if apart and (two := spool.same_names()):
        raise CorpusError(f"{path}: columns {two[0]} and {two[1]} have the same name; is its first row a header?")
    schema = spool.schema()
    if not schema:
        others = [other for other in workbook.sheets if other != name and workbook.holds_rows(other)]
        hint = f"; these do: {', '.join(others)[:200]} (--sheet)" if others else ""
        raise CorpusError(f"{path}: sheet '{name[:60]}' holds no rows{hint}")

    def frames() -> "Iterator[pl.DataFrame]":
        assert folder.name  # which keeps it
        return spool.frames()

    return streamed(frames, pl.Schema(schema.values()))


def find_workbook(archive: zipfile.ZipFile) -> str | None:
    """The part of an archive that is a workbook in XML; none where it is of another kind of spreadsheet."""
    parts = parts_of(archive)
    if "content.xml" in parts or "xl/workbook.bin" in parts:
        return None
    for kind, target in relationships(archive, parts, "").values():
        if kind == "officeDocument" and target in parts:
            return target
    raise Refused("holds no workbook")


def parts_of(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """The files of an archive by their names, which some programs write with other slashes or capitals."""
    return {info.filename.replace("\\", "/").lstrip("/").lower(): info for info in archive.infolist()}


def relationships(archive: zipfile.ZipFile, parts: dict[str, zipfile.ZipInfo], part: str) -> dict[str, tuple[str, str]]:
    """What a part refers to: by its id, the kind and the name of another part."""
    folder, name = posixpath.split(part)
    place = posixpath.join(folder, "_rels", f"{name}.rels")
    found: dict[str, tuple[str, str]] = {}
    if place not in parts:
        return found
    with archive.open(parts[place]) as file:
        for event, element, content in xml_events(file):
            if event == "start" and element == "Relationship" and content.get("TargetMode") != "External":
                target = content.get("Target", "").replace("\\", "/").lower()
                target = target if target.startswith("/") else posixpath.join("/", folder, target)
                kind = content.get("Type", "").rpartition("/")[2]
                found[content.get("Id", "")] = kind, posixpath.normpath(target).lstrip("/")
            check_few(found)
    return found


def check_few(found: Any) -> None:
    if len(found) > MOST_LISTED:
        raise Refused(f"lists more than {MOST_LISTED:,} sheets, styles or relationships")


class Workbook:
    """The sheets of a workbook, and what their cells refer to."""

    def __init__(self, archive: zipfile.ZipFile, part: str):
        self.archive, self.parts, self.is_1904 = archive, parts_of(archive), False
        self.folder, self.related = posixpath.dirname(part), relationships(archive, self.parts, part)
        self.sheets: dict[str, str] = {}  # name: part
        for event, element, content in self.events(part):
            if event == "start" and element == "workbookPr":
                self.is_1904 = content.get("date1904") in ("1", "true")
            elif event == "start" and element == "sheet":
                ids = [value for key, value in content.items() if key.rpartition("}")[2] == "id"]
                kind, target = self.related.get(ids[0] if ids else "", ("", ""))
                if kind == "worksheet":  # not a chart or a dialogue
                    self.sheets.setdefault(content.get("name", ""), target)
                check_few(self.sheets)
        styles = self.part_of("styles")
        self.formats = [] if styles is None else list(self.read_formats(styles))

    def part_of(self, kind: str) -> str | None:
        """The part of a kind of which there is one; by its usual name where no relationship says it."""
        usual = posixpath.join(self.folder, f"{kind.lower()}.xml")
        targets = [target for one, target in self.related.values() if one == kind]
        return next((part for part in (*targets, usual) if part in self.parts), None)

    def size_of(self, part: str) -> int:
        return self.parts[part].file_size if part in self.parts else 0

    def open(self, part: str) -> IO[bytes]:
        if part not in self.parts:
            raise Refused("lacks a part to which it refers")
        return self.archive.open(self.parts[part])

    def events(self, part: str) -> Iterator[tuple[str, str, Any]]:
        with self.open(part) as file:
            yield from xml_events(file)

    def read_formats(self, part: str) -> Iterator[Kind]:
        """What numbers of each style are."""
        custom: dict[str, Kind] = {}
        inside, styles = False, 0
        for event, element, content in self.events(part):
            if element == "cellXfs":
                inside = event == "start"
            elif event == "start" and element == "numFmt":
                custom[content.get("numFmtId", "")] = kind_of_format(content.get("formatCode", ""))
                check_few(custom)
            elif event == "start" and element == "xf" and inside:
                number = content.get("numFmtId", "")
                usual = int(number) if number.isdecimal() and len(number) < 4 else 0
                known = Kind.MOMENT if usual in MOMENTS else Kind.SPAN if usual in SPANS else Kind.NUMBER
                styles += 1
                check_few(range(styles))
                yield custom.get(number, known)

    def choose(self, sheet: str | None, path: Path) -> tuple[str, str]:
        """The name and the part of a sheet: as named, or the first."""
        if not self.sheets:
            raise CorpusError(f"{path}: has no sheet")
        if sheet is not None and sheet not in self.sheets:
            raise UsageError(f"{path}: has no sheet '{sheet}'; it has {', '.join(self.sheets)[:200]}")
        name = next(iter(self.sheets)) if sheet is None else sheet
        return name, self.sheets[name]

    def read(self, part: str, folder: Path) -> Spool:
        """All rows of a sheet, kept in a folder."""
        shared = self.part_of("sharedStrings")
        large = self.size_of(part) + self.size_of(shared or "") > LARGE
        with SharedStrings(folder, large=large) as strings:
            if shared is not None:
                for some, ends in shared_strings(lambda: self.open(shared), large=large):
                    strings.add(some, ends)
            context = Context(self.formats, self.is_1904, strings.of)
            spool = Spool(folder, context, sent=self.size_of(part))
            for block in sheet_blocks(lambda: self.open(part), large=large):
                spool.add(block)
        return spool

    def holds_rows(self, sheet: str) -> bool:
        """Whether any cell of a sheet seems to be filled; a damaged one holds none."""
        try:
            blocks = sheet_blocks(lambda: self.open(self.sheets[sheet]))
            return any(any(any(column.values) for column in block.columns.values()) for block in blocks)
        except Refused:
            return False


class SharedStrings:
    """The strings to which cells refer by number, in two files: their bytes one behind the other, and where each ends.

    Both are mapped once a string is asked for, so that the system keeps of them in memory what it has room for.
    """

    def __init__(self, folder: Path, *, large: bool):
        self.large = large  # read by compiled code
        self.bytes, self.ends = (folder / "strings").open("w+b"), (folder / "ends").open("w+b")
        self.count = self.size = 0
        self.mapped: list[mmap.mmap] = []

    def __enter__(self) -> "SharedStrings":
        return self

    def __exit__(self, *_: object) -> None:
        for one in (*self.mapped, self.bytes, self.ends):
            one.close()

    def add(self, texts: bytes, ends: np.ndarray) -> None:
        with kept_on_disk():
            self.bytes.write(texts)
            self.ends.write((self.size + ends).tobytes())
        self.count += len(ends)
        self.size += len(texts)

    def of(self, numbers: "pl.Series") -> "pl.Series":
        """The strings of these numbers, which are written as texts."""
        import polars as pl

        wanted = numbers.cast(pl.Int64, strict=False)
        there = wanted.drop_nulls().to_numpy()
        if wanted.null_count() > numbers.null_count() or there.min() < 0 or there.max() >= self.count:
            raise Refused("refers to strings that it does not hold")
        if (there[1:] > there[:-1]).all():  # as texts, of which no two are the same
            texts = pl.Series(self.read(there), dtype=pl.String)
        else:
            each, places = np.unique(there, return_inverse=True)
            texts = pl.Series(self.read(each), dtype=pl.String).gather(places)
        if len(texts) == len(wanted):
            return texts
        is_there = wanted.is_not_null()
        return texts.gather(np.maximum(np.cumsum(is_there.to_numpy()) - 1, 0)).set(~is_there, None)

    def read(self, numbers: np.ndarray) -> list[str]:
        if not self.mapped:
            for file in (self.bytes, self.ends):
                with kept_on_disk():
                    file.write(b"\0")  # an empty file cannot be mapped
                    file.flush()
                self.mapped.append(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        data, places = self.mapped
        ends = np.frombuffer(places, np.int64, self.count)
        begins, ends = np.where(numbers > 0, ends[numbers - 1], 0), ends[numbers]
        if self.large:
            from pathveil.untrusted.compiled_sheets import texts_between

            found = texts_between(np.frombuffer(data, np.uint8), begins, ends)
            if found is not None:
                return found
        return [data[begin:end].decode() for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)]


def kind_of_format(code: str) -> Kind:
    """Whether a format of numbers is one of moments, or of spans of time such as [h]:mm.

    >>> [kind_of_format(code).value for code in ("dd/mm/yyyy", "[h]:mm", "0.00", '0 "days"', "#,##0;[Red]-0")]
    ['moment', 'span', 'number', 'number', 'number']
    """
    first = QUOTED.sub("", code).partition(";")[0]
    span = SPAN.search(first)
    moment = MOMENT.search(BRACKETED.sub(lambda found: "\0" * len(found[0]), first))
    if span and (moment is None or span.start() < moment.end()):
        return Kind.SPAN
    return Kind.MOMENT if moment else Kind.NUMBER


def read_apart(path: Path, sheet: str | None, folder: tempfile.TemporaryDirectory[str]) -> "pl.LazyFrame":
    """A sheet that calamine reads, in a process of its own."""
    if find_spec("fastexcel") is None:
        raise MissingExtraError(package="fastexcel", extra="excel", purpose=f"{path}: reading spreadsheets")
    table = Path(folder.name) / "sheet.parquet"
    named = [] if sheet is None else [sheet]
    run_apart("pathveil.corpus.tables.excel", "excel_to_parquet", str(path), str(table), *named)
    return held_frame(table, folder)


def excel_to_parquet(path: str, out: str, sheet: str | None = None) -> str:
    """Put a sheet into a Parquet file; for a process of its own."""
    import polars as pl

    fastexcel = import_module("fastexcel")
    wrong = f"{path}: is no spreadsheet, or is damaged or locked with a password"
    try:
        names = fastexcel.read_excel(path).sheet_names
        if sheet is not None and sheet not in names:
            raise UsageError(f"{path}: has no sheet '{sheet}'; it has {', '.join(names)[:200]}")
        if not names:
            raise CorpusError(f"{path}: has no sheet")
        table = pl.read_excel(path, engine="calamine", sheet_name=sheet or names[0], infer_schema_length=None)
        table.write_parquet(out, row_group_size=BATCH)
    except pl.exceptions.NoDataError:
        raise CorpusError(f"{path}: sheet '{(sheet or names[0])[:60]}' holds no rows") from None
    except (*polars_faults(), fastexcel.FastExcelError, MemoryError, ValueError):
        raise CorpusError(wrong) from None
    except BaseException as error:
        if type(error).__name__ == "PanicException":  # of the reader's own kind, which it does not export
            raise CorpusError(wrong) from None
        raise
    return out
