"""Reports out of a file, for the queue: HL7 or FHIR, or a table with a column ``text`` and whatever else it has.

Files are read as ``corpus import`` and ``predict`` read them: encodings are found, texts made plain, and of several
versions of a report in a file the one that stands is taken.
"""

from collections.abc import Iterator
from pathlib import Path

from pathveil.bundle.incoming import ANY_SENDER, known
from pathveil.corpus.mapping import TableMapping
from pathveil.corpus.messages.fhir import gather_beside
from pathveil.corpus.messages.files import Tally, read_reports, settle_versions
from pathveil.corpus.messages.naaccr import Report
from pathveil.corpus.schema import no_text
from pathveil.corpus.tables.files import ROW, polars_faults
from pathveil.corpus.tables.opening import (
    MESSAGES,
    Source,
    detect_format,
    encoding_of,
    missing_as_empty,
    open_source,
    rename_columns,
    with_plain_texts,
    written_out,
)
from pathveil.errors import CorpusError
from pathveil.serve.sent import Sent

BATCH = 200  # reports at a time
COLUMNS = ("report_id", "case_id", "registry", "date", "report_number", "text")


def read_file(path: Path, *, key: bytes) -> Iterator[list[Sent]]:
    """A file's reports, some at a time; a message that cannot be used and a row without text are left out, a table
    without a column of texts is refused."""
    form = detect_format(path)
    if form in MESSAGES:
        waiting: list[Sent] = []
        for report in read_versions(path, form=form, key=key):
            waiting.append(report)
            if len(waiting) == BATCH:
                yield waiting
                waiting = []
        if waiting:
            yield waiting
        return
    yield from read_table(path, form=form)


def read_versions(path: Path, *, form: str, key: bytes) -> Iterator[Sent]:
    """The reports of messages that stand. FHIR's need no sender, as those of a request's body do not."""
    registry = ANY_SENDER if form == "fhir" else None
    beside = gather_beside([path] if form == "fhir" else [])
    settled = settle_versions({path: form}, registry=registry, key=key, beside=beside)
    tally = Tally(settled=settled)
    for report in read_reports(path, form=form, registry=registry, key=key, strict=False, tally=tally, beside=beside):
        yield sent_report(report)


def read_table(path: Path, *, form: str) -> Iterator[list[Sent]]:
    import polars as pl

    mapping = TableMapping()
    source = Source(path, form, encoding_of(path, form, mapping))
    frame = rename_columns(open_source(source, mapping=mapping), source=path, columns={})
    frame = with_plain_texts(missing_as_empty(frame, COLUMNS))  # NULL is nobody's id
    schema = frame.collect_schema()
    if "text" not in schema:
        raise CorpusError(f"{path}: column 'text' is missing; expected the reports' text there")
    columns = [
        written_out(name, schema[name]) if name in schema else pl.lit(None, pl.String).alias(name) for name in COLUMNS
    ]
    frame = frame.select(columns).with_row_index(ROW, offset=1).filter(~no_text().found)
    try:
        for rows in frame.collect_batches(chunk_size=BATCH, maintain_order=True, engine="streaming"):
            reports = []
            for number, *row, text in rows.iter_rows():
                report_id, case_id, registry, date, lab_number = map(known, row)
                lab_number = lab_number if "report_number" in schema else report_id  # its only id is the laboratory's
                name, day = report_id or f"{path.name} {number}", date and date[:10]
                reports.append(Sent(name, text, case_id=case_id, registry=registry, date=day, number=lab_number))
            if reports:
                yield reports
    except polars_faults():
        raise CorpusError(f"{path}: cannot be read to its end; is it cut short or damaged?") from None


def sent_report(report: Report) -> Sent:
    """A report of a message."""
    return Sent(
        report_id=report.report_id,
        case_id=report.case_id,
        registry=report.registry if report.registry != ANY_SENDER else None,
        date=report.date.isoformat() if report.date else None,
        text=report.text,
        number=report.number,
        rewritten=True,
    )
