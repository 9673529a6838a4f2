"""Reports out of a file, for the queue: HL7 messages, or a table with a column ``text`` and whatever else it has."""

from collections.abc import Iterator
from pathlib import Path

from pathveil.bundle.incoming import known
from pathveil.corpus.messages import Tally, read_reports
from pathveil.corpus.naaccr import Report
from pathveil.corpus.opening import detect_format, missing_as_empty, with_plain_texts, written_out
from pathveil.corpus.tables import open_table
from pathveil.errors import CorpusError
from pathveil.serve.sent import Sent

BATCH = 200  # reports at a time
COLUMNS = ("report_id", "case_id", "registry", "date", "text", "report_number")


def read_file(path: Path, *, key: bytes) -> Iterator[list[Sent]]:
    """A file's reports, some at a time; a message that cannot be used is left out, a table without text refused."""
    form = detect_format(path, remedy="let its name end in .csv, .jsonl, …")
    if form == "hl7":
        waiting: list[Sent] = []
        for report in read_reports(path, registry=None, key=key, strict=False, tally=Tally()):
            waiting.append(sent_report(report))
            if len(waiting) == BATCH:
                yield waiting
                waiting = []
        if waiting:
            yield waiting
        return
    import polars as pl

    frame = with_plain_texts(missing_as_empty(open_table(path, form=form), COLUMNS))  # NULL is nobody's id
    schema = frame.collect_schema()
    if "text" not in schema:
        raise CorpusError(f"{path}: column 'text' is missing; expected the reports' text there")
    columns = [
        written_out(name, schema[name]) if name in schema else pl.lit(None, pl.String).alias(name) for name in COLUMNS
    ]
    number = 0
    for rows in frame.select(columns).collect_batches(chunk_size=BATCH, maintain_order=True, engine="streaming"):
        reports = []
        for row in rows.iter_rows():
            report_id, case_id, registry, date, text, own = map(known, row)
            number += 1
            name = report_id or f"{path.name} {number}"
            reports.append(
                Sent(name, text or "", case_id=case_id, registry=registry, date=date and date[:10], number=own)
            )
        yield reports


def sent_report(report: Report) -> Sent:
    """A report of a message."""
    return Sent(
        report_id=report.report_id,
        case_id=report.case_id,
        registry=report.registry,
        date=report.date.isoformat() if report.date else None,
        text=report.text,
        number=report.number,
        rewritten=True,
    )
