"""A first proposal of a mapping: which column of a table is which, written down as a file to correct.

The proposal (``column_guesses.py``) names columns and counts, never contents.

>>> import tempfile
>>> from pathveil.corpus.mapping import read_mapping
>>> with tempfile.TemporaryDirectory() as folder:
...     table = Path(folder) / "lab.csv"
...     _ = table.write_text("PatientID;ReportNo;Datum;Befund;ICDO\\n7;a;17/02/2016;Mammakarzinom;C504\\n")
...     result = propose_mapping(table, out=Path(folder) / "map.toml")
...     read_mapping(Path(folder) / "map.toml").columns == result.columns
True
>>> result.columns
{'text': 'Befund', 'report_id': 'ReportNo', 'case_id': 'PatientID', 'date': 'Datum', 'subsite': 'ICDO'}
>>> result.dates, result.missing
('dd/mm/yyyy', ['registry'])
"""

import json
import re
import shlex
from pathlib import Path
from typing import Any

from pathveil.corpus.column_guesses import (
    NAMES,
    SHORT_YEAR,
    Column,
    doubts_of,
    holds_value,
    is_of_a_record,
    propose_columns,
    propose_rows,
    propose_sections,
    share_of,
    typical_length,
)
from pathveil.corpus.dates import ISO, find_format, formats_of, mixed_formats
from pathveil.corpus.mapping import TableMapping
from pathveil.corpus.rows import Unread
from pathveil.corpus.schema import IMPORT_MESSAGES, MESSAGE_STARTS, REQUIRED, TASKS, given
from pathveil.corpus.tables.csv_files import delimiter_of, first_lines
from pathveil.corpus.tables.database import NAME as DATABASE
from pathveil.corpus.tables.excel import other_sheets
from pathveil.corpus.tables.files import ROW, check_is_file, polars_faults
from pathveil.corpus.tables.json_files import nested_names
from pathveil.corpus.tables.opening import MESSAGES, Source, column_of, open_source, sources_of, title_above
from pathveil.errors import CorpusError, UsageError, short
from pathveil.files import check_new, name_of, write_text
from pathveil.formatting import counted, listed
from pathveil.results import Result
from pathveil.untrusted import printable

ROWS = 2_000  # of a table that a proposal looks at
IDS = ("report_id", "case_id")  # by which a table of codes finds its reports, the surer one first
CONTROL = re.compile(r"[\x00-\x1f\x7f]+")  # what no line of TOML may hold
ROWS_OF_A_REPORT = {"line": "numbers the rows of each report", "section": "names the section that a row is of"}


class MappingResult(Result):
    """The proposal: which column is which, and what no column seems to be."""

    file: str
    out: str
    rows_read: int
    encoding: str | None
    delimiter: str | None
    dates: str | None
    undecided: str | None  # why the format of the dates must be told
    query: str | None
    sheet: str | None
    passed_over: int  # records that do not fit the header
    one_object: bool  # all of a JSON file is one object
    other_sheets: list[str]  # of a workbook whose first holds no reports
    columns: dict[str, str | list[str]]  # of the text also several
    reasons: dict[str, str]  # ours: why that column
    missing: list[str]  # what a corpus needs and no column looks like
    doubts: dict[str, str]  # ours: which column has such a name and other contents
    unused: int  # columns that are kept as they are

    def rows(self) -> list[dict[str, Any]]:
        return [
            {
                "column": ours,
                "theirs": theirs if isinstance(theirs, str) else " + ".join(theirs),
                "reason": self.reasons[ours],
            }
            for ours, theirs in self.columns.items()
        ]

    def summary(self) -> str:
        lines = [f"A mapping of {self.file} in {self.out}; correct what is wrong there"]
        wide = max((len(theirs) for theirs in self.columns.values() if isinstance(theirs, str)), default=0)
        lines += [f"  {row['column']:<11} {row['theirs']:<{wide}}  {row['reason']}" for row in self.rows()]
        if self.unused:
            lines.append(f"  not used, but kept: {counted(self.unused, 'column')}")
        lines += [f"  not taken as {ours}: {reason}" for ours, reason in self.doubts.items()]
        if self.undecided:
            lines.append(f"  how dates are written must be told in the file: {self.undecided}")
        if self.passed_over:
            lines.append(f"  not looked at: {counted(self.passed_over, 'record')} that an import would skip")
        if self.one_object:
            lines.append(
                "  the file is one object, so one report; of several, give the list, or an object that holds it"
            )
        if self.other_sheets:
            lines.append(
                f"  the first sheet was read; there are others (--sheet): {', '.join(self.other_sheets)[:200]}"
            )
        source = "--database VARIABLE" if self.file == DATABASE else shlex.quote(self.file)
        out = shlex.quote(self.out)
        labels = any(task in self.columns for task in TASKS)
        if labels and "text" in self.missing and (shared := [name for name in IDS if name in self.columns]):
            lines.append("  no column looks like text: it can give its codes to reports from elsewhere")
            to = f"corpus label REPORTS {source} --on {shared[0]} --map {out} --out labelled.parquet"
            return "\n".join([*lines, f"Then: pathveil {to}"])
        if missing := [name for name in self.missing if name != "registry"]:
            lines.append(f"  no column looks like {listed(missing)}, which a corpus needs: name it in the file")
        registry = " --registry NAME" if "registry" in self.missing else ""
        lines.append(f"Then: pathveil corpus import {source} --map {out}{registry} --out corpus.parquet")
        return "\n".join(lines)


def propose_mapping(
    path: Path | None, *, out: Path, mapping: TableMapping | None = None, database: str | None = None
) -> MappingResult:
    """Look at the first rows of a table, and write which column seems to be which as a file to correct.

    The table is a file, or without one what the mapping's query gives of the ``database`` at that address.
    """
    check_new(out)  # it may have been corrected by hand
    told = mapping or TableMapping()
    if path is not None:
        check_is_file(path)
    (source,) = sources_of([] if path is None else [path], mapping=told, database=database if path is None else None)
    if source.form in MESSAGES:
        raise UsageError(f"{source.name}: messages need no mapping; give them to 'pathveil corpus import' as they are")
    encoding, delimiter = source.encoding, told.delimiter
    if path is not None and encoding is not None:
        delimiter = delimiter or delimiter_of(first_lines(path, encoding=encoding))
    told = told.changed(encoding=encoding, delimiter=delimiter)
    unread = Unread()
    columns = columns_of(source, told, database, unread=unread)
    if title := title_above([column.name for column in columns if column.values]):
        raise CorpusError(f"{source.name}: {title}")
    if any(holds_value(column.name) for column in columns):
        raise CorpusError(
            f"{source.name}: the names of its columns are dates or codes, as of a record; add a line with names"
        )
    if source.form in ("csv", "excel") and any(map(is_of_a_record, columns)):
        raise CorpusError(f"{source.name}: its first row seems to be a record; add a row with the names of the columns")
    chosen = propose_columns(columns)
    if "text" in chosen and share_of(chosen["text"][0], lambda value: value.startswith(MESSAGE_STARTS)) >= 0.5:
        named = short(chosen["text"][0].name)
        raise CorpusError(f"{source.name}: column '{named}' holds HL7 messages, no texts; {IMPORT_MESSAGES}")
    dates = told.dates
    if "date" in chosen and not dates:
        found = find_format(chosen["date"][0].values)
        dates = found if found != ISO else None
    names: dict[str, str | list[str]] = {ours: column.name for ours, (column, _) in chosen.items()}
    reasons = {ours: reason for ours, (_, reason) in chosen.items()}
    if sections := propose_sections(columns, chosen):
        theirs = [column.name for column in sections]
        names = {"text": theirs if len(theirs) > 1 else theirs[0]} | {k: v for k, v in names.items() if k != "text"}
        reasons["text"] = f"{sum(map(typical_length, sections)):,.0f} characters on average"
    if "report_id" in chosen and "text" in chosen:
        several, numbers = propose_rows(columns, chosen), chosen["report_id"][0]
        names |= several
        reasons |= {ours: ROWS_OF_A_REPORT[ours] for ours in several}
        different = len(set(numbers.values))
        if several:
            reasons["report_id"] = f"{different:,} reports in {numbers.rows:,} rows"
        elif different < numbers.rows:
            reasons["report_id"] += "; if a report has several rows, say what numbers them (line = …)"
    rows = max((column.rows for column in columns), default=0)
    doubts = doubts_of(columns, chosen)
    for column in columns:
        if column.name in doubts and column.name in TASKS and column.values:  # such as a hospital's site
            names[f"other_{column.name}"] = column.name
            reasons[f"other_{column.name}"] = "few of its values are codes"
    result = MappingResult(
        file=str(source.name),
        out=str(out),
        rows_read=rows,
        encoding=None if encoding == "utf-8-sig" else encoding,
        delimiter=delimiter,
        dates=dates,
        undecided=None if dates or "date" not in chosen else why_undecided(chosen["date"][0].values),
        query=told.query,
        sheet=told.sheet,
        passed_over=len(unread.reasons),
        one_object=source.form == "json" and rows == 1,
        other_sheets=[] if "text" in names or source.form != "excel" or told.sheet else other_sheets(Path(source.name)),
        columns=names,
        reasons=reasons,
        missing=[name for name in REQUIRED if name not in names],
        doubts=doubts,
        unused=len(columns) - sum(1 if isinstance(theirs, str) else len(theirs) for theirs in names.values()),
    )
    write_text(out, mapping_text(result, others=[column.name for column in columns]))
    return result


def why_undecided(values: list[str]) -> str | None:
    """Why the contents of a column of dates do not tell their format, where they do not."""
    if find_format(values) is not None:
        return None
    if short := next(filter(None, map(SHORT_YEAR.fullmatch, values)), None):
        orders = ("dd-mmm-yy",) if short[2].isalpha() else ("dd-mm-yy", "mm-dd-yy")
        forms = " or ".join(orders).replace("-", short[1])
        return f"years have two digits, so the format is not guessed: {forms}"
    if mixed := mixed_formats(values):
        return f"the column mixes {listed(mixed)}"
    formats = sorted(set().union(*map(formats_of, values)))
    if not formats or not all(map(formats_of, values)):
        return "some of its values are days in no format that is found"
    return f"the contents do not say whether day or month is first: {' or '.join(formats)}"


def columns_of(source: Source, mapping: TableMapping, database: str | None, *, unread: Unread) -> list[Column]:
    """The columns of a table, and the fields within them, with the values of its first rows.

    Records that an import would skip are passed over here too, unless they are the greater part.
    """
    import polars as pl

    frame = open_source(source, mapping=mapping, database=database, note=unread).drop(ROW)
    schema = frame.collect_schema()
    found = {name: column_of(schema, name) for name in nested_names(schema)}
    fields = {name: field for name, field in found.items() if field is not None}
    try:
        table = (
            frame.head(ROWS).select(**{name: field for name, field in fields.items() if field is not None}).collect()
        )
    except polars_faults():
        raise CorpusError(f"{source.name}: cannot be read; is it cut short or damaged?") from None
    if len(unread.reasons) > table.height:
        row, reason = next(iter(unread.reasons.items()))
        raise CorpusError(
            f"{source.name}: the record at line {row:,} {reason}; is its first line the names of the columns?"
        )
    columns = []
    for name, dtype in table.schema.items():
        texts = table.select(given(pl.col(name).cast(pl.String, strict=False))) if not dtype.is_nested() else None
        cells = [None] * table.height if texts is None else texts.to_series().to_list()
        values = [value for value in cells if value is not None and value.strip()]
        columns.append(Column(name, values, table.height, [(cell and cell.strip()) or None for cell in cells]))
    return columns


def mapping_text(result: MappingResult, *, others: list[str]) -> str:
    """The mapping as a commented TOML file."""

    def line(name: str, value: str | list[str] | None, remark: str) -> str:
        return f"{name} = {quoted(value)}  # {remark}" if value else f"# {name} = …  # {remark}"

    called = " ".join(printable(name_of(Path(result.file).name)).split())  # a name may have several lines
    lines = [
        f"# Which column of {called} is which: a proposal from its first {result.rows_read:,} rows.",
        "# Correct what is wrong, then: pathveil corpus import FILE --map THIS --out corpus.parquet",
        "",
        line("encoding", result.encoding, "found" if result.encoding else "UTF-8"),
        line("delimiter", result.delimiter, "what separates the fields of a CSV file"),
    ]
    if result.undecided:
        lines.append(f"# dates = …  # {result.undecided}")
    else:
        lines.append(line("dates", result.dates, "found" if result.dates else "2016-05-02 or 20160502"))
    for name in ("query", "sheet"):
        if told := getattr(result, name):
            lines.append(line(name, told, "as told"))
    if "registry" not in result.columns:
        lines.append(line("registry", None, "whose reports these are; no column looks like it"))
    lines += ["", "[columns]  # ours = theirs; other columns are kept as they are"]
    for field in (*NAMES, *(name for name in result.columns if name not in NAMES)):
        if field in result.columns:
            lines.append(line(field, result.columns[field], result.reasons[field]))
        elif field in result.doubts:
            lines.append(f"# {field} = …  # perhaps {result.doubts[field]}")
        elif field in REQUIRED and field != "registry":
            lines.append(f"# {field} = …  # no column looks like it, and a corpus needs it")
    taken = [theirs if isinstance(theirs, list) else [theirs] for theirs in result.columns.values()]
    rest = [name for name in others if not any(name in some for some in taken)]
    if rest:
        lines += ["", "# Not used: " + ", ".join(map(quoted, rest))]
    return "".join(f"{CONTROL.sub(' ', line)}\n" for line in lines)  # a column's name may have a line end in it


def quoted(value: str | list[str]) -> str:
    """A text, or several, as TOML writes them."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
