"""Tables on disk: which files are meant, opened lazily, and written so that nothing is ever left half-written.

Parquet and JSONL are read by polars. CSV is read by Python's ``csv``, a batch at a time: it forgives what hospital
exports do to quotation marks, streams gzip, and knows the line at fault, so that a message can name it unquoted.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     path = Path(folder) / "reports.csv"
...     _ = path.write_text('report_id;text\\n1;"left breast\\nbiopsy"\\n2;\\n')
...     open_table(path).collect().rows()
[('1', 'left breast\\nbiopsy'), ('2', None)]
"""

import codecs
import csv
import hashlib
import io
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING

from pathveil.errors import CorpusError, UsageError
from pathveil.files import new_file, sha256_of_file
from pathveil.foreign import Refused, bounds, parse_json
from pathveil.foreign.archives import open_bytes
from pathveil.foreign.parquet import check_parquet
from pathveil.foreign.text import check_json_lines

if TYPE_CHECKING:
    import polars as pl

FORMS = {"parquet": (".parquet",), "csv": (".csv", ".tsv"), "jsonl": (".jsonl", ".ndjson")}
# Tables that are read only to be imported; in a folder they are passed over, since they may be anything.
OTHER_FORMS = {
    "excel": (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods"),
    "sqlite": (".sqlite", ".sqlite3", ".db"),
    "json": (".json",),
    "naaccr": (".xml",),  # abstracts, which hold labels and no reports
}
BATCH = 5_000  # reports in memory at a time, and in a Parquet row group, so that readers stay flat as well
LONGEST = 1 << 24  # characters in a CSV field; past it a quotation mark was never closed
LONGEST_LINE, LONGEST_HEADER = bounds.LONGEST_LINE, 1 << 20  # of a text file; past it this is no table
DELIMITERS = ",;\t|"
SAMPLE = 1 << 16  # bytes from which the delimiter is told
UNREADABLE = (OSError, EOFError, zlib.error)  # what a missing, locked or damaged file raises (gzip's is an OSError)

Paths = str | Path | Sequence[str | Path]


def files(paths: Paths, *, meant: Callable[[Path], object] | None = None, expected: str | None = None) -> list[Path]:
    """The files meant: a folder stands for the tables in it, by name; hidden and unfinished files are passed over.

    ``meant`` tells which files of a folder are wanted instead of tables, and ``expected`` what they are.
    """
    given = [Path(paths)] if isinstance(paths, str | Path) else [Path(path) for path in paths]
    if not given:
        raise CorpusError(f"no file was given; expected {expected or 'a corpus file or a folder of them'}")
    found = []
    for path in given:
        if path.is_dir():
            names = [file for file in sorted(path.iterdir()) if file.is_file() and not file.name.startswith((".", "_"))]
            inside = [file for file in names if (meant or form_of)(file)]
            if not inside:
                raise CorpusError(f"{path}: the folder holds no {expected or ', '.join(suffixes()) + ' file'}")
            found += inside
        elif path.exists():
            found.append(path)
        else:
            raise CorpusError(f"{path}: there is no such file")
    return found


def form_of(path: Path) -> str | None:
    """What a table's name says it is: ``parquet``, ``csv`` or ``jsonl``."""
    return form_among(path, FORMS)


def form_among(path: Path, forms: Mapping[str, tuple[str, ...]]) -> str | None:
    name = path.name.lower().removesuffix(".gz")
    return next((form for form, endings in forms.items() if name.endswith(endings)), None)


def suffixes() -> list[str]:
    return [ending for endings in FORMS.values() for ending in endings]


def open_table(
    path: Path,
    *,
    form: str | None = None,
    encoding: str | None = None,
    delimiter: str | None = None,
    query: str | None = None,
    sheet: str | None = None,
) -> "pl.LazyFrame":
    """One table, not yet read, columns as in the file (CSV: all strings, so that no code loses a leading zero).

    ``encoding`` and ``delimiter`` are those of a CSV file; else it is UTF-8, separated by what its first lines have.
    ``query`` says what to read of a database, ``sheet`` which of a spreadsheet. The forms that only an import reads
    must be named by ``form``.
    """
    from pathveil.corpus import abstracts, sources

    form = form or form_of(path)
    readers = {
        "parquet": open_parquet,
        "csv": lambda path: open_csv(path, encoding=encoding, delimiter=delimiter),
        "jsonl": open_jsonl,
        "json": sources.open_json,
        "sqlite": lambda path: sources.open_sqlite(path, query=query),
        "excel": lambda path: sources.open_excel(path, sheet=sheet),
        "naaccr": abstracts.open_abstracts,
    }
    if form not in readers:
        raise CorpusError(
            f"{path}: its name ends in none of {', '.join(suffixes())} (or these with .gz); "
            "HL7 messages are read by 'pathveil corpus import'"
        )
    try:
        return readers[form](path)
    except UNREADABLE as error:
        raise CorpusError(f"{path}: cannot be read ({type(error).__name__}); is it damaged or locked?") from None


def read_table(path: Path, *, numbers: Callable[[str], bool] = lambda _: False) -> "pl.DataFrame":
    """One table in memory. ``numbers`` says by its name whether a CSV column holds numbers; 0,5 is read as 0.5.

    A column of numbers in which a cell is none stays text, for the caller to refuse.
    """
    import polars as pl

    if not path.is_file():
        raise CorpusError(f"{path}: cannot be read (there is no such file)")
    try:
        table = open_table(path).collect()
    except polars_faults():
        raise CorpusError(f"{path}: cannot be read to its end; is it cut short or damaged?") from None
    texts = [name for name, dtype in table.schema.items() if dtype == pl.String and numbers(name)]
    values = table.select(pl.col(texts).str.replace(",", ".", literal=True).cast(pl.Float64, strict=False))
    whole = [name for name in texts if values[name].null_count() == table[name].null_count()]
    return table.with_columns(values.select(whole))


def polars_faults() -> tuple[type[BaseException], ...]:
    """What polars raises on damaged files, its panics included. Their messages can quote a file; none is passed on."""
    import polars as pl

    return pl.exceptions.PolarsError, pl.exceptions.PanicException


def open_parquet(path: Path) -> "pl.LazyFrame":
    import polars as pl

    try:
        check_parquet(path)
        frame = pl.scan_parquet(path)
        frame.collect_schema()
        return frame
    except Refused as fault:
        raise CorpusError(f"{path}: {fault}") from None
    except polars_faults():
        raise CorpusError(f"{path}: is not a Parquet file, or is cut short") from None


def open_jsonl(path: Path) -> "pl.LazyFrame":
    import polars as pl

    check_jsonl(path)
    try:
        # All lines are looked at for the columns: a label that first appears late in a file must not be lost.
        frame = pl.scan_ndjson(path, infer_schema_length=None)
        frame.collect_schema()
        return frame
    except polars_faults():
        raise CorpusError(f"{path}: {jsonl_fault(path)}") from None


def check_jsonl(path: Path) -> None:
    """Refuse lines that polars would take minutes and gigabytes for: nested deeply, or each with names of its own."""
    try:
        with open_bytes(path) as file:
            size, rows, names = check_json_lines(iter(lambda: file.readline(LONGEST_LINE), b""))
    except Refused as fault:
        raise CorpusError(f"{path}: {fault}") from None
    if not bounds.grown(16 * rows * names, sent=size):
        raise CorpusError(f"{path}: each line has other names ({names:,} in all); expected the same columns in each")


def jsonl_fault(path: Path) -> str:
    """Find where a JSONL file is wrong, line by line in Python: it is asked only once reading has failed."""
    with open_bytes(path) as file:
        number = 0
        for number, line in enumerate(iter(lambda: file.readline(LONGEST_LINE), b""), start=1):
            if len(line) == LONGEST_LINE:
                return f"line {number:,} is longer than {LONGEST_LINE:,} bytes; expected one report a line"
            try:
                line.decode()
                value = parse_json(line, finite=False) if line.strip() else {}
            except UnicodeDecodeError:
                return f"line {number:,} is not UTF-8"
            except Refused:
                return f"line {number:,} is not JSON; expected one object a line"
            if not isinstance(value, dict):
                return f"line {number:,} is not an object; expected one object a line"
    return "is empty" if not number else "its lines differ in their types; expected the same columns of text in each"


def open_csv(path: Path, *, encoding: str | None = None, delimiter: str | None = None) -> "pl.LazyFrame":
    """A CSV file (commas, semicolons, tabs or bars, unless told) as a lazy frame of strings."""
    import polars as pl
    from polars.io.plugins import register_io_source

    encoding = encoding or "utf-8-sig"
    lines = first_lines(path, encoding=encoding)
    delimiter = delimiter or delimiter_of(lines)
    csv.field_size_limit(LONGEST)
    try:
        columns = header_of(next(csv.reader(lines, delimiter=delimiter)), path=path)
    except (csv.Error, StopIteration):
        raise CorpusError(f"{path}: line 1 is no header; expected the names of columns") from None
    schema = pl.Schema(dict.fromkeys(columns, pl.String))

    def batches(
        wanted: list[str] | None, predicate: "pl.Expr | None", rows: int | None, size: int | None
    ) -> Iterator["pl.DataFrame"]:
        records = csv_records(path, separator=delimiter, fields=len(columns), encoding=encoding)
        next(records)
        if rows is not None:
            records = islice(records, rows)
        while chunk := list(islice(records, BATCH)):
            table = dict(zip(columns, zip(*chunk, strict=True), strict=True))
            batch = pl.DataFrame({name: table[name] for name in wanted or columns}, schema_overrides=schema)
            batch = batch.with_columns(pl.when(pl.all() != "").then(pl.all()))
            yield batch if predicate is None else batch.filter(predicate)

    return register_io_source(batches, schema=schema)


def first_lines(path: Path, *, encoding: str) -> list[str]:
    """The header of a text file and the lines that follow it at once; the last may be cut short."""
    try:
        with open_bytes(path) as file:
            start = file.read(LONGEST_HEADER)
    except UNREADABLE as error:
        raise CorpusError(f"{path}: cannot be read ({type(error).__name__}); is it damaged or locked?") from None
    decoder = codecs.getincrementaldecoder(encoding)()
    for end in (SAMPLE, LONGEST_HEADER):
        try:
            lines = list(io.StringIO(decoder.decode(start[:end]), newline=""))
        except UnicodeError:
            # The fault may lie behind the header, whose reader then names its line.
            lines = start[:end].splitlines(keepends=True)[:1]
            try:
                lines = [lines[0].decode(encoding)]
            except UnicodeError:
                raise CorpusError(f"{path}: line 1 is not {spoken_encoding(encoding)}; {ENCODING_HINT}") from None
        if len(lines) > 1 or end >= len(start):
            break
        decoder.reset()
    if not lines or not lines[0].strip():
        raise CorpusError(f"{path}: is empty; expected a header line")
    if len(lines) == 1 and len(start) == LONGEST_HEADER:
        raise CorpusError(f"{path}: its first line has no end; expected a header line with the names of columns")
    return lines


def delimiter_of(lines: list[str]) -> str:
    """What separates the fields: what makes the most columns in the header, of those the following records keep to.

    >>> delimiter_of(["name, first;text\\n", "Ada;a, b, c\\n", "Bob;d\\n"])
    ';'
    """

    def fit(delimiter: str) -> tuple[bool, int]:
        csv.field_size_limit(LONGEST)
        try:
            header, *records = csv.reader(lines[:20], delimiter=delimiter)
        except csv.Error:
            return False, 0
        records = [record for record in records if record]
        records = records[:-1] or records  # the last may be cut short
        kept = sum(len(record) == len(header) for record in records)
        return len(header) > 1 and kept >= len(records) * 0.8, len(header)

    return max(DELIMITERS, key=fit)


def header_of(names: list[str], *, path: Path) -> list[str]:
    """The columns' names; a line that is no header is refused, and never quoted: it may be a report."""
    columns = [name.strip() or f"unnamed_{number}" for number, name in enumerate(names, start=1)]
    for number, name in enumerate(columns, start=1):
        if len(name) > 80 or re.search(r"\d{6}", name):
            raise CorpusError(f"{path}: line 1 is no header (field {number} is no name of a column); add one")
        if name in columns[: number - 1]:
            first = columns.index(name) + 1
            raise CorpusError(f"{path}: columns {first} and {number} have the same name; is line 1 a header?")
    return columns


ENCODING_HINT = "import it with 'pathveil corpus import', which finds encodings, or say which with --encoding"


def find_encoding(path: Path) -> str:
    """The encoding of a text file: UTF-16 by its mark, UTF-8 where all of it is, else Windows-1252 (with Latin-1).

    Other one-byte encodings hold the same bytes for other letters, so they must be told.
    """
    utf8, windows = (codecs.getincrementaldecoder(name)() for name in ("utf-8", "cp1252"))
    fits_utf8 = fits_windows = True
    first_lines(path, encoding="latin-1")  # refuses what has no header before all of it is read
    try:
        with open_bytes(path) as file:
            piece = file.read(SAMPLE)
            if piece[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
                return "utf-16"
            while piece and (fits_utf8 or fits_windows):
                fits_utf8 = fits_utf8 and decodes(utf8, piece)
                fits_windows = fits_windows and decodes(windows, piece)
                piece = file.read(LONGEST_HEADER)
    except UNREADABLE as error:
        raise CorpusError(f"{path}: cannot be read ({type(error).__name__}); is it damaged or cut short?") from None
    if fits_utf8 and decodes(utf8, b"", final=True):
        return "utf-8-sig"
    if fits_windows:
        return "cp1252"
    raise CorpusError(f"{path}: is neither UTF-8 nor Windows-1252; say what it is with --encoding, for example cp850")


def decodes(decoder: codecs.IncrementalDecoder, piece: bytes, *, final: bool = False) -> bool:
    try:
        decoder.decode(piece, final)
    except UnicodeDecodeError:
        return False
    return True


def check_encoding(name: str) -> str:
    """Refuse a name that is no encoding of text."""
    try:
        "".encode(name)
    except (LookupError, ValueError):
        raise UsageError(f"--encoding {name[:40]} is not known; expected utf-8, utf-16, cp1252, cp850, …") from None
    return "utf-8-sig" if codecs.lookup(name).name == "utf-8" else name


def spoken_encoding(encoding: str) -> str:
    return {"utf-8-sig": "UTF-8"}.get(encoding, encoding)


def csv_records(path: Path, *, separator: str, fields: int, encoding: str = "utf-8-sig") -> Iterator[list[str]]:
    """The records of a CSV file, blank lines left out; a fault names its line."""
    csv.field_size_limit(LONGEST)
    with open_bytes(path) as binary, io.TextIOWrapper(binary, encoding=encoding, newline="") as file:
        reader = csv.reader(bounded_lines(file, path), delimiter=separator)
        start = 1
        try:
            for record in reader:
                if record and len(record) != fields:
                    raise CorpusError(
                        f"{path}: the record at line {start:,} has {len(record)} fields, its header has {fields}"
                    )
                if record:
                    yield record
                start = reader.line_num + 1
        except UnicodeError:
            raise CorpusError(
                f"{path}: is not {spoken_encoding(encoding)} after line {start:,}; {ENCODING_HINT}"
            ) from None
        except csv.Error:
            raise CorpusError(
                f"{path}: the record at line {start:,} opens a quotation mark and never closes it"
            ) from None
        except UNREADABLE:
            raise CorpusError(f"{path}: is damaged after line {start:,}; is it cut short?") from None


def bounded_lines(file: IO[str], path: Path) -> Iterator[str]:
    """The lines of a text file; one without an end is refused before it fills the memory."""
    while line := file.readline(LONGEST_LINE):
        if len(line) == LONGEST_LINE:
            raise CorpusError(f"{path}: a line is longer than {LONGEST_LINE:,} characters; expected one record a line")
        yield line


def write_parquet(frame: "pl.LazyFrame", path: Path) -> None:
    """The frame as one Parquet file, streamed; under its name only once it is whole."""
    with new_file(path, error=CorpusError) as part:
        stream_parquet(frame, part, path)


def stream_parquet(frame: "pl.LazyFrame", part: Path, path: Path) -> None:
    """Write a frame to the unfinished file ``part``; an error names ``path``, which it is to become."""
    try:
        frame.sink_parquet(part, row_group_size=BATCH, compression="zstd", engine="streaming")
    except polars_faults():
        raise CorpusError(f"{path}: could not be written; is a source damaged, or the disk full?") from None


def content_sha256(paths: Paths) -> str:
    """A hash of the files' bytes: of one file what ``sha256sum`` prints, of several the hash of theirs in order."""
    digests = [sha256_of_file(path) for path in files(paths)]
    if len(digests) == 1:
        return digests[0]
    return hashlib.sha256(bytes.fromhex("".join(digests))).hexdigest()
