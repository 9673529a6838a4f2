"""Reports to be coded, a batch at a time, from texts, frames, tables or HL7, each with what leads back to where it was.

An input needs a column ``text`` and nothing else; ids are kept where there are any. A report's file and position (a row
of a table, a message of an HL7 file, both from 1) are always known, its laboratory's number and its message's id where
the input has them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pathveil.corpus import Corpus
from pathveil.corpus.fhir import Beside, gather_beside
from pathveil.corpus.mapping import TableMapping
from pathveil.corpus.messages import Tally, read_reports
from pathveil.corpus.opening import MESSAGES, open_source, rename_columns, sources_of
from pathveil.corpus.reading import as_polars
from pathveil.errors import CorpusError, UsageError

if TYPE_CHECKING:
    import polars as pl

BATCH = 1_000  # reports coded at a time
COLUMNS = ("report_id", "case_id", "text", "report_number", "message_id")

EXPECTED = "expected a list of texts, a frame with a column 'text', a Corpus or a path"

Reports = Any  # what EXPECTED says; polars is not imported to name its frames


@dataclass(frozen=True)
class Origin:
    """What links a code to its report."""

    report_id: str
    report_number: str | None = None  # the laboratory's own
    message_id: str | None = None  # of the HL7 message (MSH-10)
    file: str | None = None
    position: int | None = None  # row of a table, message of an HL7 file, from 1


@dataclass(frozen=True)
class Incoming:
    """One report to code."""

    origin: Origin
    case_id: str | None
    text: str

    @property
    def case(self) -> str:
        """The name of its case; a report without one is a case of its own.

        Ids repeat, in the table or as the number of a row that has none, so the report's place names such a case too.
        """
        if self.case_id:
            return f"case {self.case_id}"
        return f"report {self.origin.report_id}, {self.origin.position} of {self.origin.file}"


def batches_of(
    reports: Reports, *, key: bytes, tally: Tally, mapping: TableMapping | None = None
) -> Iterator[list[Incoming]]:
    """Reports from wherever they are, a batch at a time; ``mapping`` says how the tables of a path are written."""
    if isinstance(reports, str | Path):
        if isinstance(reports, str) and not is_path(reports):
            raise UsageError("a text alone is taken for a path, and there is none of this name; give a list of texts")
        yield from read_files(Path(reports), form="auto", key=key, tally=tally, mapping=mapping)
        return
    if isinstance(reports, Sequence):
        if not all(isinstance(text, str) for text in reports):
            raise UsageError(EXPECTED)
        for start in range(0, len(reports), BATCH):
            texts = enumerate(reports[start : start + BATCH], start=start + 1)
            yield [Incoming(Origin(str(number), position=number), None, text) for number, text in texts]
        return
    frame = reports.lazy() if isinstance(reports, Corpus) else as_polars(reports)
    if frame is None:
        raise UsageError(f"{EXPECTED}; got {type(reports).__name__}")
    yield from read_frame(frame, source="the frame", file=None, first=0)


def is_path(text: str) -> bool:
    try:
        return Path(text).exists()
    except OSError:  # too long for a name
        return False


def read_files(
    source: Path, *, form: str, key: bytes, tally: Tally, mapping: TableMapping | None = None
) -> Iterator[list[Incoming]]:
    """The reports of a file or folder, a batch at a time; table rows without an id are numbered from 1 over all.

    ``mapping`` says how tables are written and what their columns are called.
    """
    number, mapping = 0, mapping or TableMapping()
    found = sources_of([source], form=form, mapping=mapping)
    beside = gather_beside([Path(one.name) for one in found if one.form == "fhir"])
    for one in found:
        path = Path(one.name)
        if one.form in MESSAGES:
            yield from read_messages(path, form=one.form, key=key, tally=tally, beside=beside)
        else:
            table = open_source(one, mapping=mapping)
            named = {ours: theirs for ours, theirs in mapping.columns.items() if ours in COLUMNS}
            table = rename_columns(table, source=path, columns=named)
            for batch in read_frame(table, source=path, file=str(path), first=number):
                number += len(batch)
                yield batch


def read_messages(
    path: Path, *, form: str, key: bytes, tally: Tally, beside: Beside | None
) -> Iterator[list[Incoming]]:
    """The reports of a file of messages; one sent twice comes once."""
    waiting: list[Incoming] = []
    for report in read_reports(path, form=form, registry=None, key=key, strict=False, tally=tally, beside=beside):
        origin = Origin(report.report_id, report.number, report.message_id, str(path), report.position)
        waiting.append(Incoming(origin, report.case_id, report.text))
        if len(waiting) == BATCH:
            yield waiting
            waiting = []
    if waiting:
        yield waiting


def read_frame(frame: "pl.LazyFrame", *, source: Path | str, file: str | None, first: int) -> Iterator[list[Incoming]]:
    """The reports of a table; rows without an id are numbered after ``first``."""
    import polars as pl

    schema = frame.collect_schema()
    if "text" not in schema:
        raise CorpusError(
            f"{source}: column 'text' is missing; expected the reports' text there, or its name with --map or --column"
        )
    if schema["text"].is_numeric() or schema["text"].is_nested() or schema["text"].is_temporal():
        raise CorpusError(f"{source}: column 'text' holds {schema['text']}, expected the reports' text there")
    chosen = [
        written_out(name, schema[name]) if name in schema else pl.lit(None, pl.String).alias(name) for name in COLUMNS
    ]
    row = 0
    try:
        for rows in frame.select(chosen).collect_batches(chunk_size=BATCH, maintain_order=True, engine="streaming"):
            batch = []
            for report_id, case_id, text, number, message in rows.iter_rows():
                row += 1
                own, case, number, message = (known(name) for name in (report_id, case_id, number, message))
                batch.append(Incoming(Origin(own or str(first + row), number, message, file, row), case, text or ""))
            if batch:
                yield batch
    except pl.exceptions.PolarsError:
        raise CorpusError(f"{source}: cannot be read to its end; is it cut short or damaged?") from None


def written_out(name: str, dtype: "pl.DataType") -> "pl.Expr":
    """A column as text. A table with gaps turns numbers into decimals (1234.0); they are written as they were."""
    import polars as pl

    column = pl.col(name)
    if not dtype.is_float():
        return column.cast(pl.String)
    column = column.fill_nan(None)
    whole = pl.when(column == column.round()).then(column).cast(pl.Int64, strict=False).cast(pl.String)
    return pl.coalesce(whole, column.cast(pl.String)).alias(name)


def known(name: str | None) -> str | None:
    """An id as it came; none where it is blank, as in tables of fixed width."""
    return name if name and not name.isspace() else None
