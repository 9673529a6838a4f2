"""Tables on disk: which files are meant, opened lazily, and written so that nothing is ever left half-written.

Parquet is read here, CSV by ``csv_files.py``, spreadsheets by ``excel.py``, JSON by ``json_files.py``, databases by
``database.py``. A fault names its line, and quotes nothing.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     path = Path(folder) / "reports.csv"
...     _ = path.write_text('report_id;text\\n1;"left breast\\nbiopsy"\\n2;\\n')
...     open_table(path).collect().rows()
[('1', 'left breast\\nbiopsy'), ('2', None)]
"""

import glob
import hashlib
import os
import tempfile
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pathveil.errors import CorpusError
from pathveil.files import name_of, new_file, sha256_of_file
from pathveil.formatting import listed
from pathveil.untrusted import Refused, bounds
from pathveil.untrusted.text import open_regular

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
SLICE, FEWEST_ROWS, MOST_ROWS = 1 << 25, 1_000, 50_000  # bytes and rows of another's Parquet file at a time
PIECE = 1 << 20
FREE_ROWS = 1_000_000  # that a Parquet file of no size may declare
PARQUET = b"PAR1"  # the first bytes of such a file
LONGEST_LINE = bounds.LONGEST_LINE  # bytes of a line of JSONL
UNREADABLE = (OSError, EOFError, zlib.error)  # what a missing, locked or damaged file raises (gzip's is an OSError)

ROW = "row of the source"  # a column of tables whose rows are to be named: in CSV the line where a record begins

UNFIT = "its header has"  # within why a record does not fit

Paths = str | Path | Sequence[str | Path]
Note = Callable[[int, str], None]  # told the row that is passed over, and why


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
                deeper = (
                    "; folders in it are not looked into, give them" if any(map(Path.is_dir, path.iterdir())) else ""
                )
                raise CorpusError(f"{path}: the folder holds no {expected or ', '.join(suffixes()) + ' file'}{deeper}")
            found += inside
        else:
            check_is_file(path)
            found.append(path)
    return found


def check_is_file(path: Path) -> None:
    """Refuse what is no file, where one is expected: reports are read more than once, which a pipe cannot be."""
    if path.is_dir():
        raise CorpusError(f"{path}: is a folder; expected one table")
    if not path.exists():
        raise CorpusError(f"{path}: there is no such file")
    if not path.is_file():
        raise CorpusError(f"{path}: is a pipe or a device, and is read more than once; write it to a file first")


@contextmanager
def unchanged(paths: Iterable[Path]) -> Generator[None]:
    """Refuse files that somebody writes while they are read here: readers end as if there were no more behind a cut."""
    before = {path: state_of(path) for path in paths}
    yield
    for path, state in before.items():
        if state_of(path) != state:
            raise CorpusError(f"{path}: changed while it was read; read it again once it is whole")


def state_of(path: Path) -> tuple[int, int, int]:
    """What changes when a file is written or replaced; the same for one that is gone."""
    try:
        stat = path.stat()
    except OSError:
        return (0, 0, 0)
    return (stat.st_ino, stat.st_size, stat.st_mtime_ns)


def names_of(paths: Paths) -> str:
    """What was given, as a phrase: the first three, and how many more."""
    given = [str(paths)] if isinstance(paths, str | Path) else list(map(str, paths))
    return listed([*given[:3], *([f"{len(given) - 3:,} more"] if len(given) > 3 else [])])


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
    note: Note | None = None,
    sliced: bool = False,
) -> "pl.LazyFrame":
    """One table, not yet read, columns as in the file (CSV: all strings, so that no code loses a leading zero).

    ``encoding`` and ``delimiter`` are those of a CSV file; else it is UTF-8, separated by what its first lines have.
    ``query`` says what to read of a database, ``sheet`` which of a spreadsheet. The forms that only an import reads
    must be named by ``form``. With ``note``, a record that cannot be read is told to it and passed over, and the frame
    has a column ``ROW`` besides. ``sliced``: a Parquet file is read some rows at a time, see ``in_slices``.
    """
    from pathveil.corpus.tables import abstracts, csv_files, database, excel, json_files

    form = form or form_of(path)
    readers = {
        "parquet": lambda path: in_slices(open_parquet(path), path) if sliced else open_parquet(path),
        "csv": lambda path: csv_files.open_csv(path, encoding=encoding, delimiter=delimiter, note=note),
        "jsonl": lambda path: json_files.open_jsonl(path, note=note),
        "json": json_files.open_json,
        "sqlite": lambda path: database.open_sqlite(path, query=query),
        "excel": lambda path: excel.open_excel(path, sheet=sheet),
        "naaccr": abstracts.open_abstracts,
    }
    if form not in readers:
        raise CorpusError(
            f"{path}: its name ends in none of {', '.join(suffixes())} (or these with .gz); "
            "HL7 messages are read by 'pathveil corpus import'"
        )
    try:
        frame = readers[form](path)
        return frame if note is None or form == "csv" else with_rows(frame)
    except UNREADABLE as error:
        raise CorpusError(f"{path}: cannot be read ({type(error).__name__}); is it damaged or locked?") from None


def with_rows(frame: "pl.LazyFrame") -> "pl.LazyFrame":
    """The frame with the number of each row, from 1."""
    import polars as pl

    return frame.with_row_index(ROW, offset=1).with_columns(pl.col(ROW).cast(pl.Int64))


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


def one_file(path: Path) -> str:
    """The name by which polars opens this file and no other: brackets, stars and ~ would be patterns to it.

    >>> one_file(Path("/lab/reports[1].parquet"))
    '/lab/reports[[]1].parquet'
    """
    if name_of(path.absolute()) != str(path.absolute()):
        raise CorpusError(f"{path}: its name, or that of its folder, is not UTF-8; rename it")
    return glob.escape(str(path.absolute()))


def open_parquet(path: Path) -> "pl.LazyFrame":
    """Open a Parquet file, after a look at its footer."""
    import polars as pl

    try:
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
        frame = pl.scan_parquet(one_file(path))
        if len(frame.collect_schema()) > bounds.COLUMNS:
            raise CorpusError(f"{path}: has more than {bounds.COLUMNS:,} columns; a table of reports has fewer")
        if frame.select(pl.len()).collect().item() > FREE_ROWS + 8 * size:
            raise CorpusError(f"{path}: declares more rows than so few bytes can hold")
        return frame
    except Refused as fault:
        raise CorpusError(f"{path}: {fault}") from None
    except polars_faults():
        raise CorpusError(f"{path}: is not a Parquet file, or is cut short or damaged") from None


def in_slices(frame: "pl.LazyFrame", path: Path) -> "pl.LazyFrame":
    """The frame of a Parquet file, read some rows at a time: others' files have groups of rows of any size, and
    polars would hold several of them at once. Where reading fails, polars itself would end as if there were no more."""
    import polars as pl
    from polars.io.plugins import register_io_source

    total = frame.select(pl.len()).collect().item()

    def batches(
        wanted: list[str] | None, predicate: "pl.Expr | None", rows: int | None, size: int | None
    ) -> Iterator["pl.DataFrame"]:
        schema = frame.collect_schema()
        columns = frame if wanted is None else frame.select(wanted or schema.names()[:1])  # which tells how many rows
        last = total if rows is None else min(rows, total)
        start, some = 0, FEWEST_ROWS
        while start < last:
            try:
                batch = columns.slice(start, min(some, last - start)).collect()
            except (*polars_faults(), OSError):
                raise CorpusError(f"{path}: changed while it was read, or is damaged") from None
            start += some
            some = int(SLICE * batch.height / max(batch.estimated_size(), 1))
            some = min(max(some, FEWEST_ROWS), MOST_ROWS)
            batch = batch if predicate is None else batch.filter(predicate)
            yield from pieces_of(batch if wanted is None else batch.select(wanted))

    return register_io_source(batches, schema=frame.collect_schema())


def streamed(frames: "Callable[[], Iterable[pl.DataFrame]]", schema: "pl.Schema") -> "pl.LazyFrame":
    """Frames that come one after another as one that is not yet read; they are asked for anew by every reading.

    >>> import polars as pl
    >>> some = [pl.DataFrame({"id": ["1", "2"]}), pl.DataFrame({"id": ["3"]})]
    >>> streamed(lambda: some, some[0].schema).head(3).filter(pl.col("id") != "1").collect()["id"].to_list()
    ['2', '3']
    """
    from polars.io.plugins import register_io_source

    def batches(
        wanted: list[str] | None, predicate: "pl.Expr | None", rows: int | None, size: int | None
    ) -> Iterator["pl.DataFrame"]:
        left = rows
        for frame in frames():
            frame = frame if left is None else frame.head(left)
            left = None if left is None else left - frame.height
            frame = frame.select(wanted) if wanted else frame
            yield from pieces_of(frame if predicate is None else frame.filter(predicate))
            if left == 0:
                return

    return register_io_source(batches, schema=schema)


def pieces_of(batch: "pl.DataFrame") -> Iterator["pl.DataFrame"]:
    """A batch in pieces of about ``PIECE`` bytes: polars reads some thirty ahead of what it works on."""
    rows = max(int(PIECE * batch.height / max(batch.estimated_size(), 1)), 1)
    for start in range(0, batch.height, rows):
        yield batch[start : start + rows]


def parquet_in_folder(path: Path, folder: tempfile.TemporaryDirectory[str]) -> "pl.LazyFrame":
    """Open our own Parquet file in a temporary folder, which stays as long as the frame does."""
    import polars as pl

    table = pl.scan_parquet(one_file(path))

    def frames() -> "Iterable[pl.DataFrame]":
        assert folder.name
        return table.collect_batches(maintain_order=True, engine="streaming")

    return streamed(frames, table.collect_schema())


def write_parquet(frame: "pl.LazyFrame", path: Path, *, compression: Literal["zstd", "lz4"] = "zstd") -> None:
    """The frame as one Parquet file, streamed; under its name only once it is whole."""
    with new_file(path, error=CorpusError) as part:
        stream_parquet(frame, part, path, compression=compression)


def stream_parquet(
    frame: "pl.LazyFrame", part: Path, path: Path, *, compression: Literal["zstd", "lz4"] = "zstd"
) -> None:
    """Write a frame to the unfinished file ``part``; an error names ``path``, which it is to become."""
    with as_written(path):
        frame.sink_parquet(part, row_group_size=BATCH, compression=compression, engine="streaming")


@contextmanager
def as_written(path: Path) -> Generator[None]:
    """What polars complains of while ``path`` is made becomes a sentence."""
    try:
        yield
    except polars_faults():
        raise CorpusError(f"{path}: could not be written; is a source damaged, or the disk full?") from None


def content_sha256(paths: Paths) -> str:
    """A hash of the files' bytes: of one file what ``sha256sum`` prints, of several the hash of theirs in order."""
    digests = [sha256_of_file(path) for path in files(paths)]
    if len(digests) == 1:
        return digests[0]
    return hashlib.sha256(bytes.fromhex("".join(digests))).hexdigest()
