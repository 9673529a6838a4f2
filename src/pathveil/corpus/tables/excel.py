"""Spreadsheets (.xlsx, .xlsm, .xls, .xlsb, .ods) as tables: calamine reads a sheet in a child process.

No bound of ours reaches a native reader, so it works in a process with limited memory (``untrusted/apart.py``) and
hands the rows over as a Parquet file. The whole sheet is in that process's memory.
"""

import json
import re
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pathveil.corpus.tables.files import BATCH, parquet_in_folder
from pathveil.errors import CorpusError, PathveilError, UsageError
from pathveil.untrusted import Refused, parse_json
from pathveil.untrusted.apart import run_apart
from pathveil.untrusted.archives import ZIP, open_archive
from pathveil.untrusted.text import open_regular

if TYPE_CHECKING:
    import polars as pl

SECONDS = 60  # for a file of no size, and for each of its 8 MB
OLE = b"\xd0\xcf\x11\xe0"  # the first bytes of .xls, and of a workbook with a password
NUMBERED = re.compile(r"(.*)_\d+")  # calamine's name for a second column of one name


def open_excel(path: Path, *, sheet: str | None = None) -> "pl.LazyFrame":
    """Read a sheet, the first unless named; its first row that is not empty names the columns."""
    folder = tempfile.TemporaryDirectory(prefix="pathveil-")
    table = Path(folder.name) / "sheet.parquet"
    call_calamine(path, "sheet_to_parquet", str(table), *([] if sheet is None else [sheet]))
    return parquet_in_folder(table, folder)


def other_sheets(path: Path) -> list[str]:
    """List the sheets behind the first; none where the file cannot be read."""
    try:
        return parse_json(call_calamine(path, "sheet_names"))[1:]
    except (PathveilError, OSError):
        return []


def call_calamine(path: Path, function: str, *arguments: str) -> str:
    """Run a function of this module in a child process, if the file begins as a spreadsheet does and is no ZIP bomb."""
    try:
        with open_regular(path) as file:
            start = file.read(4)
        if start == ZIP:
            with open_archive(path) as archive:
                if archive.testzip():  # calamine looks at no checksum
                    raise Refused("is no whole archive")
        elif path.suffix.lower() in (".xlsx", ".xlsm"):
            raise Refused(
                "is locked with a password, or an older .xls under another name" if start == OLE else "is no archive"
            )
        seconds = SECONDS + SECONDS * path.stat().st_size // (8 << 20)
        return run_apart(__name__, function, str(path), *arguments, seconds=seconds)
    except Refused as fault:
        raise CorpusError(f"{path}: is no spreadsheet, or is damaged; it {fault}") from None


def sheet_names(path: str) -> str:
    """List a workbook's sheets as JSON. Runs in the child process."""
    fastexcel = import_module("fastexcel")
    with calamine_faults(path):
        return json.dumps(fastexcel.read_excel(path).sheet_names)


def sheet_to_parquet(path: str, out: str, sheet: str | None = None) -> str:
    """Write a sheet's rows as Parquet. Runs in the child process."""
    import polars as pl

    fastexcel = import_module("fastexcel")
    with calamine_faults(path):
        if sheet is not None and sheet not in (names := fastexcel.read_excel(path).sheet_names):
            raise UsageError(f"{path}: has no sheet '{sheet}'; it has {', '.join(names)[:200]}")
        options: dict[str, Any] = {"sheet_id": 1} if sheet is None else {"sheet_name": sheet}
        try:
            table = pl.read_excel(path, engine="calamine", infer_schema_length=None, **options)
        except (fastexcel.UnsupportedColumnTypeCombinationError, fastexcel.CalamineCellError):
            # Spans of time among numbers, or #NAME?: as texts such columns can be read, the error as an empty cell.
            table = pl.read_excel(path, engine="calamine", infer_schema_length=0, **options)
        except pl.exceptions.NoDataError:
            raise CorpusError(f"{path}: {empty_sheet(fastexcel.read_excel(path), sheet)}") from None
        check_names(fastexcel, path, sheet, [column.name for column in table if column.null_count() < table.height])
        table.with_columns(pl.selectors.float().fill_nan(None)).write_parquet(out, row_group_size=BATCH)
    return out


@contextmanager
def calamine_faults(path: str) -> Generator[None]:
    """Turn what calamine and polars raise into one sentence. Their messages can quote cells."""
    try:
        yield
    except (CorpusError, UsageError):
        raise
    except BaseException as error:
        # fastexcel does not export the class of its panics, which are no Exception.
        if isinstance(error, Exception) or type(error).__name__ == "PanicException":
            raise CorpusError(f"{path}: is no spreadsheet, or is damaged or locked with a password") from None
        raise


def empty_sheet(workbook: Any, sheet: str | None) -> str:
    """Say that a sheet has no rows, and which others have some."""
    name = sheet or workbook.sheet_names[0]
    others = [other for other in workbook.sheet_names if other != name and workbook.load_sheet(other).width]
    hint = f"; these do: {', '.join(others)[:200]} (--sheet)" if others else ""
    return f"sheet '{name[:60]}' holds no rows{hint}"


def check_names(fastexcel: Any, path: str, sheet: str | None, columns: list[str]) -> None:
    """Refuse two columns of one name, of which calamine numbers the second (text, text_1)."""
    import polars as pl

    numbered = [found for found in map(NUMBERED.fullmatch, columns) if found and found[1] in columns]
    if not numbered:
        return
    workbook, first = fastexcel.read_excel(path), {}
    header = pl.DataFrame(workbook.load_sheet(sheet or 0, header_row=None, n_rows=1, dtypes="string")).row(0)
    infos = workbook.load_sheet(sheet or 0, n_rows=1).available_columns()
    for number, (name, info) in enumerate(zip(header, infos, strict=True), start=1):
        if info.name not in columns:
            continue
        if name in first:
            raise CorpusError(
                f"{path}: columns {first[name]} and {number} have the same name; is its first row a header?"
            )
        first[name] = number
