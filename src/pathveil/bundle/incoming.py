"""Reports to be coded, a batch at a time, from texts, frames, tables or HL7, each with what leads back to where it was.

An input needs a column ``text`` and nothing else; ids are kept where there are any. A report's file and position (a row
of a table, a message of an HL7 file, both from 1) are always known, its laboratory's number and its message's id where
the input has them. Records of a table that cannot be read are skipped, counted and named (``corpus/rows.py``).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pathveil.corpus import Corpus
from pathveil.corpus.intake import FRAME
from pathveil.corpus.mapping import AnyMapping, TableMapping, mapping_of
from pathveil.corpus.messages.fhir import Beside, gather_beside
from pathveil.corpus.messages.files import Tally, read_reports, settle_versions
from pathveil.corpus.messages.markup import plain_or_none, plain_texts
from pathveil.corpus.reading import as_polars
from pathveil.corpus.report_rows import LINE, PLACE, SECTION, joins_rows, one_row_a_report
from pathveil.corpus.rows import MOST_SKIPPED, SOURCE, RowCheck, RowCounts, Unread, check_most_skipped
from pathveil.corpus.schema import AS_WRITTEN, MESSAGE_STARTS, no_text
from pathveil.corpus.tables.files import ROW, unchanged, with_rows
from pathveil.corpus.tables.opening import (
    MESSAGES,
    Columns,
    check_for_reports,
    missing_as_empty,
    open_source,
    parts_of,
    sources_of,
    tables_among,
    written_out,
)
from pathveil.corpus.tables.text_files import text_of
from pathveil.errors import CorpusError, UsageError
from pathveil.files import name_of

if TYPE_CHECKING:
    import polars as pl

BATCH = 1_000  # reports coded at a time
COLUMNS = ("report_id", "case_id", "text", "report_number", "message_id")

ANY_SENDER = "unknown"  # in place of a message's own registry, which no code needs

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


@dataclass
class OneReading:
    """How reports are read from their beginning to their end, and what became of them."""

    most_skipped: float = MOST_SKIPPED  # of a table's rows; a table with more that cannot be read is refused
    strict: bool = False  # refuse the first row or message instead of skipping it
    tally: Tally = field(default_factory=Tally)  # of messages
    rows: RowCounts | None = None  # of tables, where there were any; known once all was read
    numbered: bool = False  # a table has a column of the laboratory's numbers
    put_together: bool = False  # a table's text is made of several columns or rows, or of a list

    def __post_init__(self) -> None:
        check_most_skipped(self.most_skipped)

    @property
    def may_skip(self) -> bool:
        return self.most_skipped > 0 and not self.strict


def batches_of(
    reports: Reports, *, key: bytes, reading: OneReading, mapping: AnyMapping = None
) -> Iterator[list[Incoming]]:
    """Reports from wherever they are, a batch at a time; ``mapping`` says how the tables of a path are written, and of
    a frame what its columns are called."""
    if isinstance(reports, str | Path):
        if isinstance(reports, str) and not is_path(reports):
            raise UsageError("a text alone is taken for a path, and there is none of this name; give a list of texts")
        yield from read_files(Path(reports), form="auto", key=key, reading=reading, mapping=mapping)
        return
    if isinstance(reports, Sequence):
        if not all(isinstance(text, str) for text in reports):
            raise UsageError(EXPECTED)
        for start in range(0, len(reports), BATCH):
            texts = enumerate(map(made_plain, reports[start : start + BATCH]), start=start + 1)
            yield [Incoming(Origin(str(number), position=number), None, text) for number, text in texts]
        return
    frame = reports.lazy() if isinstance(reports, Corpus) else as_polars(reports)
    if frame is None:
        raise UsageError(f"{EXPECTED}; got {type(reports).__name__}")
    told = mapping_of(mapping)
    columns = columns_read(told)
    if (columns or told.texts) and not isinstance(reports, Corpus):
        frame, _ = one_row_a_report(frame, source=FRAME, columns=columns, texts=told.texts)
    yield from read_frame(frame, source=FRAME, file=None, first=0, tally=reading.tally)


def is_path(text: str) -> bool:
    try:
        return Path(text).exists()
    except OSError:  # too long for a name
        return False


def read_files(
    source: Path, *, form: str, key: bytes, reading: OneReading, mapping: AnyMapping = None
) -> Iterator[list[Incoming]]:
    """The reports of a file or folder, a batch at a time; table rows without an id are numbered from 1 over all.

    ``mapping`` says how tables are written and what their columns are called.
    """
    told, check, unread = mapping_of(mapping), RowCheck(), {}
    found = sources_of([source], form=form, mapping=told)
    beside = gather_beside([Path(one.name) for one in found if one.form == "fhir"])
    messages = {Path(one.name): one.form for one in found if one.form in MESSAGES}
    reading.tally.settled = settle_versions(messages, registry=ANY_SENDER, key=key, beside=beside)
    yield from read_texts([Path(one.name) for one in found if one.form == "text"], tally=reading.tally)
    first = 0
    for number, one in enumerate(found):
        path = Path(one.name)
        if one.form == "text":
            continue
        if one.form in MESSAGES:
            yield from read_messages(path, form=one.form, key=key, reading=reading, beside=beside)
            continue
        check_for_reports(one)
        unread[number] = notes = Unread.of(one.form)
        note = notes if reading.may_skip else None
        with unchanged(tables_among([one])):
            table = open_source(one, mapping=told, note=note)
            table = table if note else with_rows(table)
            named = columns_read(told)
            reading.put_together = reading.put_together or is_put_together(table, named)
            table, _ = one_row_a_report(table, source=path, columns=named, texts=told.texts, note=note)
            reading.numbered = reading.numbered or "report_number" in table.collect_schema()
            where = {"source": path, "file": name_of(path), "first": first, "number": number}
            yield from read_frame(table, **where, tally=reading.tally, unread=notes, check=check)
        first += check.sizes[number] + (0 if notes.within else len(notes.reasons))
    if check.total or any(notes.reasons for notes in unread.values()):
        names = [str(one.name) for one in found]
        most_skipped = reading.most_skipped if reading.may_skip else 0
        reading.rows = check.account(names=names, unread=unread, most_skipped=most_skipped)


def read_texts(found: list[Path], *, tally: Tally) -> Iterator[list[Incoming]]:
    """Reports that are texts, each named by its file."""
    for start in range(0, len(found), BATCH):
        batch = []
        for path in found[start : start + BATCH]:
            text, name = text_of(path), name_of(Path(path.stem))
            plain = made_plain(text)
            tally.rewritten += plain != text
            batch.append(Incoming(Origin(name, name, file=name_of(path), position=1), None, plain))
        yield batch


def columns_read(mapping: TableMapping) -> Columns:
    """What a mapping says of the columns that coding needs: a table to be coded may lack the others."""
    return {ours: theirs for ours, theirs in mapping.columns.items() if ours in (*COLUMNS, LINE, SECTION)}


def is_put_together(table: "pl.LazyFrame", columns: Columns) -> bool:
    """Whether the text is made of several columns or rows, or of a list, so that nobody has it as it is coded."""
    import polars as pl

    if joins_rows(columns):
        return True
    schema = table.collect_schema()
    parts = parts_of("text", columns.get("text", "text"), schema)
    return len(parts) > 1 or isinstance(schema.get(parts[0]), pl.List)


def read_messages(
    path: Path, *, form: str, key: bytes, reading: OneReading, beside: Beside | None
) -> Iterator[list[Incoming]]:
    """The reports of a file of messages; one sent twice comes once, of several versions the one that stands."""
    waiting: list[Incoming] = []
    told = {"strict": reading.strict, "tally": reading.tally, "beside": beside}
    for report in read_reports(path, form=form, registry=ANY_SENDER, key=key, **told):
        origin = Origin(report.report_id, report.number, report.message_id, name_of(path), report.position)
        waiting.append(Incoming(origin, report.case_id, report.text))
        if len(waiting) == BATCH:
            yield waiting
            waiting = []
    if waiting:
        yield waiting


def read_frame(
    frame: "pl.LazyFrame",
    *,
    source: Path | str,
    file: str | None,
    first: int,
    tally: Tally,
    number: int = 0,
    unread: Unread | None = None,
    check: RowCheck | None = None,
) -> Iterator[list[Incoming]]:
    """The reports of a table; rows without an id are numbered after ``first``. ``check`` leaves out rows without text.

    Positions count what is left out and the records that its reader passed over (``unread``) too, so that they lead to
    the same rows.
    """
    import polars as pl

    frame = missing_as_empty(frame, COLUMNS)  # NULL as a case id would make one case of many
    schema = frame.collect_schema()
    if "text" not in schema:
        way = "give that column alone, or rename it" if source == FRAME else "or its name with --map or --column"
        raise CorpusError(f"{source}: column 'text' is missing; expected the reports' text there, {way}")
    if schema["text"].is_numeric() or schema["text"].is_nested() or schema["text"].is_temporal():
        raise CorpusError(f"{source}: column 'text' holds {schema['text']}, expected the reports' text there")
    chosen = [
        written_out(name, schema[name]) if name in schema else pl.lit(None, pl.String).alias(name) for name in COLUMNS
    ]
    notes = unread or Unread()
    frame = frame if PLACE in schema else frame.with_row_index(PLACE)
    others = [ROW] if ROW in schema else []
    try:
        for rows in frame.select(*chosen, PLACE, *others, pl.lit(number).alias(SOURCE)).collect_batches(
            chunk_size=BATCH, maintain_order=True, engine="streaming"
        ):
            rows = rows.with_columns(pl.col("text").alias(AS_WRITTEN), plain_texts(rows["text"]))
            rows = check.without({"text": no_text()}, rows.lazy()) if check else rows
            batch, passed = [], passed_before(notes, rows)
            for (report_id, case_id, text, lab_number, message, place, *_, written), before in zip(
                rows.iter_rows(), passed, strict=True
            ):
                at = place + 1 + before
                own, case, lab_number, message = (known(name) for name in (report_id, case_id, lab_number, message))
                lab_number = lab_number if "report_number" in schema else own  # its only id is the laboratory's
                if (text or "").startswith(MESSAGE_STARTS):
                    raise CorpusError(
                        f"{source}: row {at:,} holds an HL7 message, no text; give messages in a file whose name ends "
                        "in .hl7"
                    )
                origin = Origin(own or str(first + at), lab_number, message, file, at)
                tally.rewritten += text != written
                batch.append(Incoming(origin, case, text or ""))
            if batch:
                yield batch
    except pl.exceptions.PolarsError:
        raise CorpusError(f"{source}: cannot be read to its end; is it cut short or damaged?") from None


def made_plain(text: str) -> str:
    """A report's text without RTF or tags, as every table's is read; empty where it is RTF beyond reason."""
    return plain_or_none(text) or ""


def passed_before(notes: Unread, rows: "pl.DataFrame") -> list[int]:
    """How many records were passed over before each of these rows, named as in the notes."""
    if notes.within or not notes.reasons:
        return [0] * len(rows)
    return np.searchsorted(sorted(notes.reasons), rows[ROW].to_numpy()).tolist()


def known(name: str | None) -> str | None:
    """An id without the blanks around it, as in tables of fixed width; none where there is nothing else."""
    return (name or "").strip() or None
