"""One way to open whatever reports or labels lie in: files by name and content, or what a query gives of a database.

Every command that reads tables comes through here, so that all take the same formats, encodings, sheets and queries.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     path = Path(folder) / "lab.csv"
...     _ = path.write_text("PATIENT;Befund\\n7;Kolonpolyp\\n")
...     (source,) = sources_of([path])
...     frame = open_source(source, mapping=TableMapping(columns={"text": "Befund"}))
...     source.form, rename_columns(frame, source=path, columns={"text": "Befund"}).collect().rows()
('csv', [('7', 'Kolonpolyp')])
"""

import codecs
import csv
import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pathveil.corpus.mapping import Columns, TableMapping
from pathveil.corpus.messages.fhir import MARK
from pathveil.corpus.messages.hl7 import HEADER, WRAPPER
from pathveil.corpus.messages.markup import plain_texts
from pathveil.corpus.schema import MISSING, SHOWN, TASKS, did_you_mean, given
from pathveil.corpus.tables.csv_files import delimiter_of, first_lines
from pathveil.corpus.tables.database import NAME as DATABASE
from pathveil.corpus.tables.database import open_database
from pathveil.corpus.tables.encodings import check_fits, find_encoding
from pathveil.corpus.tables.files import (
    FORMS,
    LONGEST_LINE,
    OTHER_FORMS,
    PARQUET,
    UNREADABLE,
    Note,
    Paths,
    files,
    form_among,
    form_of,
    open_table,
    with_rows,
)
from pathveil.corpus.tables.json_files import nested_field
from pathveil.errors import CorpusError, UsageError, short
from pathveil.files import check_file
from pathveil.formatting import listed
from pathveil.untrusted.archives import ZIP, open_bytes

if TYPE_CHECKING:
    import polars as pl

MESSAGES = ("hl7", "fhir")  # forms in which reports come with their patient
HL7_NAMES = (".hl7", ".er7")
ANY_NAMES = (".txt", ".dat", ".msg", ".oru", ".out", "")  # ends of names of messages too, and of anything else
# What others keep tables in and we do not read, by the ends of names, and what to do.
UNREAD = {
    "a SAS dataset; export it as CSV, or give pathveil.read() the frame of pandas.read_sas()": (
        ".sas7bdat",
        ".xpt",
    ),
    "a Stata file; export it as CSV, or give pathveil.read() the frame of pandas.read_stata()": (".dta",),
    "an SPSS file; export it as CSV, or give pathveil.read() the frame of pandas.read_spss()": (".sav",),
    "an Access database; export the table as CSV or .xlsx": (".accdb", ".mdb"),
    "an R file; write the table as CSV or Parquet there": (".rds", ".rda", ".rdata"),
    "an archive; unpack it, and give what is in it": (".zip", ".7z", ".tar", ".tgz", ".tar.gz", ".rar"),
    "a document; give texts in a table, a row or a file of messages for each": (".pdf", ".docx", ".doc"),
}
TEXTS = (".txt", ".text", ".rtf", ".html", ".htm")  # ends of names of texts, a report a file
START = 4_096  # bytes that tell a file's form
RESOURCE_START = 1 << 20  # of JSON, in which a resource says its kind: some write that last
ABSTRACTS = re.compile(rb"\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*<(?:\w+:)?NaaccrData\b", re.DOTALL)
RENAMED = "let its name end in .csv, .jsonl, …"


class Source(NamedTuple):
    """Where a table or messages lie: a file, or the database."""

    name: Path | str
    form: str
    encoding: str | None = None  # of CSV


def sources_of(
    paths: Paths, *, form: str | None = None, mapping: TableMapping | None = None, database: str | None = None
) -> list[Source]:
    """The files meant, each with its form, and the database where there is one.

    ``form`` is what a user can tell with --format, or auto; none where there is no such option.
    """
    if form not in (None, "auto", "text", *MESSAGES, *FORMS, *OTHER_FORMS):
        known = ", ".join([*MESSAGES, *FORMS, *OTHER_FORMS])
        raise UsageError(f"--format {form} is not known; expected auto, {known}")
    mapping = mapping or TableMapping()
    given = expand_folders(paths, form=form) if paths or database is None else []
    remedy = RENAMED if form is None else f"say which with --format, or {RENAMED}"
    of_texts = folders_of_texts(paths) if form in (None, "auto") else []

    def form_found(path: Path) -> str:
        return "text" if path.parent in of_texts else detect_format(path, remedy=remedy)

    kinds = [(path, form_found(path) if form in (None, "auto") else form) for path in given]
    found = [Source(path, kind, encoding_of(path, kind, mapping)) for path, kind in kinds]
    found += [Source(DATABASE, "database")] if database is not None else []
    for option, told, forms, what in (
        ("sheet", mapping.sheet, ("excel",), "spreadsheet"),
        ("query", mapping.query, ("sqlite", "database"), "database"),
    ):
        if told and not any(one.form in forms for one in found):
            raise UsageError(f"--{option}, or {option} in a mapping, is for a {what}; {found[0].name} is none")
    return found


def tables_among(sources: Sequence[Source]) -> list[Path]:
    """The files that are read as tables; a database may be written to meanwhile, and messages say where they end."""
    return [Path(one.name) for one in sources if one.form in FORMS or one.form in ("excel", "json", "naaccr")]


def check_for_reports(source: Source) -> None:
    """Refuse abstracts where reports are expected."""
    if source.form == "naaccr":
        raise CorpusError(f"{source.name}: NAACCR XML holds labels, no reports; give it to 'pathveil corpus label'")


def open_source(
    source: Source, *, mapping: TableMapping, database: str | None = None, note: Note | None = None
) -> "pl.LazyFrame":
    """A table, not yet read, as a mapping says. With ``note``, see ``open_table``."""
    if source.form in MESSAGES:
        raise CorpusError(f"{source.name}: holds messages, no table; 'pathveil corpus import' reads them as they are")
    if source.form == "database":
        frame = open_database(database or "", query=mapping.query)
        return frame if note is None else with_rows(frame)
    return open_table(
        Path(source.name),
        form=source.form,
        encoding=source.encoding,
        delimiter=mapping.delimiter,
        query=mapping.query,
        sheet=mapping.sheet,
        note=note,
        sliced=True,
    )


def expand_folders(sources: Paths, *, form: str | None = None) -> list[Path]:
    """The files meant; of a folder, those whose names are a table's or a message file's, or all texts where it holds
    neither or where texts are the ``form`` that was told."""
    texts = folders_of_texts(sources)

    def meant(file: Path) -> bool:
        return is_text(file) if form == "text" or file.parent in texts else is_meant(file)

    return files(sources, meant=meant, expected="text" if form == "text" else "table or HL7 file")


def folders_of_texts(sources: Paths) -> list[Path]:
    """The given folders that hold texts, a report a file, and neither tables nor messages under whatever names."""
    given = [Path(sources)] if isinstance(sources, str | Path) else [Path(path) for path in sources]
    found = []
    for folder in filter(Path.is_dir, given):
        inside = [path for path in folder.iterdir() if path.is_file() and not path.name.startswith((".", "_"))]
        texts = [path for path in inside if is_text(path)]
        if texts and not any(map(is_meant, inside)) and not any(map(begins_table, texts)):
            found.append(folder)
    return found


def is_text(file: Path) -> bool:
    return file.suffix.lower() in TEXTS and file.stat().st_size > 0


def begins_table(file: Path) -> bool:
    with file.open("rb") as opened:
        return is_delimited(opened.read(START))


def check_output(path: Path, *, sources: Paths = (), renews: Sequence[bytes | re.Pattern[bytes]] = ()) -> None:
    """Refuse a place where a file may not be written (``files.check_file``), the sources' files among them.

    Nor may a table be written into a folder of sources: whoever reads the folder again would take it for reports.
    """
    given = [sources] if isinstance(sources, str | Path) else sources
    for folder in map(Path, given):
        if form_of(path) and folder.is_dir() and path.parent.resolve() == folder.resolve():
            raise UsageError(f"{path}: lies in the folder that is read, and would be read with it next; choose another")
    check_file(path, reads=expand_folders(sources) if sources and path.exists() else (), renews=renews)


UNNAMED = re.compile(
    r"unnamed_\d+|__UNNAMED__\d+"
)  # what readers of CSV and of spreadsheets call a column without a name


def title_above(names: Sequence[str]) -> str:
    """What to say of a table most of whose columns have no name, as where a title stands above their names; else none.

    >>> title_above(["Extract of May", "unnamed_2", "unnamed_3"]), title_above(["acc", "text", "unnamed_3"])
    ('its first row names 1 of 3 columns; remove what stands above their names, such as a title', '')
    """
    named = sum(not UNNAMED.fullmatch(name) for name in names)
    if 2 * named >= len(names):
        return ""
    return f"its first row names {named} of {len(names)} columns; remove what stands above their names, such as a title"


def is_meant(file: Path) -> bool:
    """Whether a file of a folder is read; spreadsheets, databases and other JSON may be anything, and empty files are
    what is left where a transfer failed."""
    if not file.stat().st_size:
        return False
    return bool(form_of(file)) or has_hl7_name(file) or is_hl7_text(file) or is_fhir(file)


def passed_over(sources: Paths) -> list[str]:
    """The names of what lies in the given folders and is not read; hidden files aside."""
    given = [sources] if isinstance(sources, str | Path) else sources
    inside = [one for path in given if Path(path).is_dir() for one in sorted(Path(path).iterdir())]
    read = set(expand_folders(sources)) if inside else set()
    others = [one for one in inside if one not in read and not one.name.startswith(".")]
    return [f"{one.name}/" if one.is_dir() else one.name for one in others]


def sentence_of(names: list[str]) -> str:
    """What was passed over, in words.

    >>> sentence_of(["notes.pdf", "2021/"])
    'notes.pdf and 2021/ of the folder; to read folders, spreadsheets, databases, JSON or .txt, give them by name'
    """
    shown = [*names[:SHOWN], *([f"{len(names) - SHOWN:,} more"] if len(names) > SHOWN else [])]
    return f"{listed(shown)} of the folder; to read folders, spreadsheets, databases, JSON or .txt, give them by name"


def is_fhir(path: Path) -> bool:
    """Whether a JSON file begins as a FHIR resource; other JSON files of a folder may be anything."""
    if form_among(path, {"json": OTHER_FORMS["json"]}) is None:
        return False
    try:
        with open_bytes(path) as file:
            return MARK in file.read(RESOURCE_START)
    except UNREADABLE:
        return False


def has_hl7_name(path: Path) -> bool:
    return path.name.lower().removesuffix(".gz").endswith(HL7_NAMES)


def is_hl7_text(path: Path) -> bool:
    """Whether a file that may hold anything holds messages; a README or a table may lie beside them."""
    if Path(path.name.lower().removesuffix(".gz")).suffix not in ANY_NAMES:
        return False
    try:
        with open_bytes(path) as file:
            return begins_hl7(in_utf8(file.read(START)))
    except UNREADABLE:
        return True  # its reader says what is wrong


def begins_hl7(start: bytes) -> bool:
    return bool(HEADER.match(start.lstrip(b"\x0b")) or WRAPPER.match(start.lstrip(b"\x0b")) or b"\nMSH|" in start)


def in_utf8(start: bytes) -> bytes:
    is_wide = start[:2] in (b"\xff\xfe", b"\xfe\xff")
    return start.decode("utf-16", errors="replace").encode() if is_wide else start


def detect_format(path: Path, *, remedy: str = RENAMED) -> str:
    """Tell a file's format by its name, or by how it begins; ``remedy`` is what to do where neither tells."""
    named = form_of(path) or form_among(path, OTHER_FORMS)
    if named and named not in ("csv", "json", "jsonl", "excel", "naaccr"):
        return named
    if kind := next((kind for kind, endings in UNREAD.items() if path.name.lower().endswith(endings)), None):
        raise CorpusError(f"{path}: is {kind}")
    try:
        with open_bytes(path) as file:
            start = file.read(START if named in (None, "csv", "excel") else RESOURCE_START)
        if named == "json" and MARK not in start and holds_lines(path):
            return "jsonl"
    except UNREADABLE as error:
        raise CorpusError(f"{path}: cannot be read ({type(error).__name__}); is it damaged or locked?") from None
    if named == "csv":
        if start.startswith(ZIP):
            raise CorpusError(
                f"{path}: is no CSV but an archive or a spreadsheet; unpack it, or let its name end in .xlsx"
            )
        return named
    if named in ("json", "jsonl"):
        return "fhir" if MARK in start else named
    start = in_utf8(start)
    if named == "naaccr":
        if b"NaaccrData" not in start:
            raise CorpusError(f"{path}: is no NAACCR XML; of XML nothing else is read (FHIR is read as JSON)")
        return named
    if named == "excel":  # many programs export text, or a page, under that name
        if start.lstrip().lower().startswith((b"<html", b"<!doctype html", b"<table")):
            raise CorpusError(f"{path}: is a web page, no spreadsheet; open it in one and save it as .xlsx or CSV")
        return "csv" if is_delimited(start) else named
    if start.startswith(PARQUET):
        return "parquet"
    if start.startswith(b"SQLite format 3\0"):
        return "sqlite"
    if begins_hl7(start):
        return "hl7"
    if ABSTRACTS.match(start.removeprefix(codecs.BOM_UTF8)):
        return "naaccr"
    if not start.strip():
        raise CorpusError(f"{path}: is empty; expected a table or messages")
    if is_delimited(start):
        return "csv"
    if has_hl7_name(path):
        return "hl7"  # its reader names what is none, beside other files
    raise CorpusError(f"{path}: is neither a table nor HL7 by its name and beginning; {remedy}")


def holds_lines(path: Path) -> bool:
    """Whether a file with the name of JSON is JSONL: its first line an object, and another behind it."""
    with open_bytes(path) as file:
        first = file.readline(LONGEST_LINE).strip()
        return first.startswith(b"{") and first.endswith(b"}") and file.read(START).lstrip().startswith(b"{")


def is_delimited(start: bytes) -> bool:
    """Whether text begins as a table does: with three names of columns at least, to which the records keep.

    >>> is_delimited(b"acc;pat;text\\n1;7;colon\\n2;7;co"), is_delimited(b"Dear all, here, at last\\nare\\nfiles\\n")
    (True, False)
    """
    if b"\0" in start:
        return False
    lines = list(io.StringIO(start.decode("utf-8-sig", errors="replace"), newline=""))
    try:
        header, *records = csv.reader(lines, delimiter=delimiter_of(lines)) if lines else [[]]
    except csv.Error:
        return False
    kept = [len(record) == len(header) for record in records[:-1] if record]  # the last may be cut short
    # Some end each line in a delimiter, behind which there is nothing.
    return len(header) > 2 and all(map(str.strip, header[:-1])) and all(kept)


def encoding_of(path: Path, form: str, mapping: TableMapping) -> str | None:
    """The encoding of a CSV file: as told, else found; other forms say theirs themselves."""
    if form != "csv":
        return None
    first_lines(path, encoding="latin-1")  # refuses what has no header before all of it is read
    if mapping.encoding is None:
        return find_encoding(path)
    check_fits(path, mapping.encoding)
    return mapping.encoding


def rename_columns(frame: "pl.LazyFrame", *, source: Path | str, columns: Columns) -> "pl.LazyFrame":
    """The frame with our names for the columns that have others; a.b is the field b within a column a.

    A text of several columns (a list, or their names with + between) has each under a heading of the column's name.
    """
    import polars as pl

    schema = frame.collect_schema()
    names, made, joined = schema.names(), {}, {}
    lists = {name for name, dtype in schema.items() if isinstance(dtype, pl.List)}  # of JSON
    columns = {**{name: name for name in ("text", *TASKS) if name in lists}, **columns}
    parts = {ours: parts_of(ours, theirs, schema) for ours, theirs in columns.items()}
    taken = {part for some in parts.values() for part in some}
    for ours, some in parts.items():
        fields = {part: column_of(schema, part, joined=ours == "text") for part in some}
        for part, field in fields.items():
            if field is None:
                hint = did_you_mean(part, names) or "; is the mapping that of another table?"
                raise UsageError(f"{source}: has no column '{part}' to take {ours} from{hint}")
        if len(some) > 1:
            joined[ours] = under_headings(fields)
        elif some[0] not in names or some[0] in lists:
            made[ours] = fields[some[0]]
        if ours in names and ours not in some and (ours not in taken or ours in made or ours in joined):
            theirs = listed([f"'{part}'" for part in some])
            raise UsageError(
                f"{source}: has a column '{ours}' already, so {theirs} cannot take its place; "
                f"give that another name too (--column other_{ours}={ours})"
            )
    frame = frame.with_columns(**made, **{f"{ours} put together": text for ours, text in joined.items()})
    renamed = {some[0]: ours for ours, some in parts.items() if ours not in made and ours not in joined}
    gone = {part for ours in joined for part in parts[ours] if part in names and part not in renamed}
    return frame.drop(gone).rename(renamed | {f"{ours} put together": ours for ours in joined})


def check_lists(frames: "Sequence[pl.LazyFrame]", names: Sequence[str]) -> None:
    """Refuse tables of which one has lists where another has none (JSON): no column holds both."""
    import polars as pl

    first: dict[str, tuple[bool, str]] = {}
    for frame, name in zip(frames, names, strict=True):
        for column, dtype in frame.collect_schema().items():
            if dtype != pl.Null:
                is_list, other = first.setdefault(column, (isinstance(dtype, pl.List), name))
                if is_list != isinstance(dtype, pl.List):
                    where = [other, name] if is_list else [name, other]
                    raise CorpusError(f"{where[0]}: column '{short(column)}' holds lists, and none in {where[1]}")


def parts_of(ours: str, theirs: str | Sequence[str], schema: "pl.Schema") -> list[str]:
    """The columns that one of ours is made of. A column whose name has a + in it goes before several with + between."""
    if not isinstance(theirs, str):
        return list(theirs)
    if ours != "text" or "+" not in theirs or column_of(schema, theirs) is not None:
        return [theirs]
    return [part.strip() for part in theirs.split("+")]


def column_of(schema: "pl.Schema", name: str, *, joined: bool = True) -> "pl.Expr | None":
    """A column, of a list in it what ``nested_field`` takes, or the field within one that a name with points leads
    to."""
    import polars as pl

    is_plain = name in schema and not isinstance(schema[name], pl.List)
    return pl.col(name) if is_plain else nested_field(schema, name, joined=joined)


def under_headings(fields: "Mapping[str, pl.Expr | None]") -> "pl.Expr":
    """The text of several columns, each under a heading; blank cells and words such as NULL are left out."""
    import polars as pl

    sections = []
    for name, field in fields.items():
        assert field is not None
        text = field.cast(pl.String).map_batches(plain_texts, return_dtype=pl.String, is_elementwise=True)
        text = text.str.strip_chars()
        sections.append(pl.lit(f"{heading_of_column(name)}\n") + pl.when(~text.is_in(("", *MISSING))).then(text))
    whole = pl.concat_str(sections, separator="\n\n", ignore_nulls=True)
    return pl.when(whole != "").then(whole)


def heading_of_column(name: str) -> str:
    """A column's name as a heading; of a field within others its own.

    >>> heading_of_column("final_diagnosis"), heading_of_column("GrossDescription"), heading_of_column("path.MICRO")
    ('FINAL DIAGNOSIS', 'GROSS DESCRIPTION', 'MICRO')
    """
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name.rpartition(".")[2] or name)
    return " ".join(re.sub(r"[\W_]+", " ", words).upper().split()) or name


def missing_as_empty(frame: "pl.LazyFrame", columns: Sequence[str]) -> "pl.LazyFrame":
    """The frame with empty cells for words such as NULL in these columns, where it has them; others stay."""
    import polars as pl

    schema = frame.collect_schema()
    texts = [name for name in columns if schema.get(name) == pl.String]
    return frame.with_columns(given(pl.col(texts))) if texts else frame


def with_plain_texts(frame: "pl.LazyFrame") -> "pl.LazyFrame":
    """The frame with plain texts where they are RTF or pages; one that cannot be read is missing."""
    import polars as pl

    if frame.collect_schema().get("text") != pl.String:
        return frame
    return frame.with_columns(pl.col("text").map_batches(plain_texts, return_dtype=pl.String, is_elementwise=True))


def written_out(name: str, dtype: "pl.DataType") -> "pl.Expr":
    """A column as text. A table with gaps turns numbers into decimals (1234.0); they are written as they were."""
    import polars as pl

    column = pl.col(name)
    if not dtype.is_float():
        return column.cast(pl.String)
    column = column.fill_nan(None)
    whole = pl.when(column == column.round()).then(column).cast(pl.Int64, strict=False).cast(pl.String)
    return pl.coalesce(whole, column.cast(pl.String)).alias(name)


def decimals_as_text(frame: "pl.LazyFrame") -> "pl.LazyFrame":
    """Ids, codes and dates that a spreadsheet made numbers as text (8500.0, 20160502), for their readers."""
    import polars as pl

    schema = frame.collect_schema()
    if "date" in schema and schema["date"].is_numeric():
        frame = frame.with_columns(pl.col("date").cast(pl.Int64, strict=False).cast(pl.String))
    names = ("report_id", "case_id", "registry", *TASKS)
    decimal = [written_out(name, schema[name]) for name in names if name in schema and schema[name].is_float()]
    return frame.with_columns(decimal) if decimal else frame
