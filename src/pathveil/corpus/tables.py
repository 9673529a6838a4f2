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

import csv
import gzip
import hashlib
import io
import json
import zlib
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from pathveil.errors import CorpusError
from pathveil.files import new_file, sha256_of_file

if TYPE_CHECKING:
    import polars as pl

FORMS = {"parquet": (".parquet",), "csv": (".csv", ".tsv"), "jsonl": (".jsonl", ".ndjson")}
BATCH = 5_000  # reports in memory at a time, and in a Parquet row group, so that readers stay flat as well
LONGEST = 1 << 24  # characters in a CSV field; past it a quotation mark was never closed
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
    name = path.name.lower().removesuffix(".gz")
    return next((form for form, endings in FORMS.items() if name.endswith(endings)), None)


def suffixes() -> list[str]:
    return [ending for endings in FORMS.values() for ending in endings]


def open_table(path: Path, *, form: str | None = None) -> "pl.LazyFrame":
    """One table, not yet read, columns as in the file (CSV: all strings, so that no code loses a leading zero)."""
    form = form or form_of(path)
    readers = {"parquet": open_parquet, "csv": open_csv, "jsonl": open_jsonl}
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
        frame = pl.scan_parquet(path)
        frame.collect_schema()
        return frame
    except polars_faults():
        raise CorpusError(f"{path}: is not a Parquet file, or is cut short") from None


def open_jsonl(path: Path) -> "pl.LazyFrame":
    import polars as pl

    try:
        # All lines are looked at for the columns: a label that first appears late in a file must not be lost.
        frame = pl.scan_ndjson(path, infer_schema_length=None)
        frame.collect_schema()
        return frame
    except polars_faults():
        raise CorpusError(f"{path}: {jsonl_fault(path)}") from None


def jsonl_fault(path: Path) -> str:
    """Find where a JSONL file is wrong, line by line in Python: it is asked only once reading has failed."""
    with open_bytes(path) as file:
        number = 0
        for number, line in enumerate(file, start=1):
            try:
                value = json.loads(line) if line.strip() else {}
            except UnicodeDecodeError:
                return f"line {number:,} is not UTF-8"
            except ValueError:
                return f"line {number:,} is not JSON; expected one object a line"
            if not isinstance(value, dict):
                return f"line {number:,} is not an object; expected one object a line"
    return "is empty" if not number else "its lines differ in their types; expected the same columns of text in each"


def open_csv(path: Path) -> "pl.LazyFrame":
    """A CSV file (commas, semicolons, tabs or bars, whichever its header has most of) as a lazy frame of strings."""
    import polars as pl
    from polars.io.plugins import register_io_source

    with open_bytes(path) as file:
        try:
            header = file.readline().decode("utf-8-sig")
        except UnicodeDecodeError:
            raise CorpusError(f"{path}: line 1 is not UTF-8; convert it, for example with iconv") from None
    if not header.strip():
        raise CorpusError(f"{path}: is empty; expected a header line")
    separator = max(",;\t|", key=header.count)
    columns = [name.strip() for name in next(csv.reader([header], delimiter=separator))]
    if len(set(columns)) < len(columns):
        again = next(name for name in columns if columns.count(name) > 1)
        raise CorpusError(f"{path}: column '{again[:40]}' is there twice")

    schema = pl.Schema(dict.fromkeys(columns, pl.String))

    def batches(
        wanted: list[str] | None, predicate: "pl.Expr | None", rows: int | None, size: int | None
    ) -> Iterator["pl.DataFrame"]:
        records = csv_records(path, separator=separator, fields=len(columns))
        next(records)
        if rows is not None:
            records = islice(records, rows)
        while chunk := list(islice(records, BATCH)):
            table = dict(zip(columns, zip(*chunk, strict=True), strict=True))
            batch = pl.DataFrame({name: table[name] for name in wanted or columns}, schema_overrides=schema)
            batch = batch.with_columns(pl.when(pl.all() != "").then(pl.all()))
            yield batch if predicate is None else batch.filter(predicate)

    return register_io_source(batches, schema=schema)


def csv_records(path: Path, *, separator: str, fields: int) -> Iterator[list[str]]:
    """The records of a CSV file, blank lines left out; a fault names its line."""
    csv.field_size_limit(LONGEST)
    with open_bytes(path) as binary, io.TextIOWrapper(binary, encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, delimiter=separator)
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
        except UnicodeDecodeError:
            raise CorpusError(
                f"{path}: is not UTF-8 after line {start:,}; convert it, for example with iconv"
            ) from None
        except csv.Error:
            raise CorpusError(
                f"{path}: the record at line {start:,} opens a quotation mark and never closes it"
            ) from None
        except UNREADABLE:
            raise CorpusError(f"{path}: is damaged after line {start:,}; is it cut short?") from None


@contextmanager
def open_bytes(path: Path) -> Generator[IO[bytes]]:
    """A file's bytes, unzipped where it begins as gzip does, whatever its name."""
    with path.open("rb") as file:
        zipped = file.peek(2)[:2] == b"\x1f\x8b"
        if not zipped:
            yield file
            return
        with gzip.open(file) as unzipped:
            yield cast(IO[bytes], unzipped)


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
