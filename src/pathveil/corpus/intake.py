"""Reports from wherever they are into one corpus file: tables of any form and HL7 messages, together or apart.

The sources are streamed once into an unfinished file beside the result; that is validated, then written with dates as
dates, and takes its name only when all went well. A message that cannot be used is skipped, counted and named by its
position; a table that breaks the schema stops the import with sentences that say where.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     table = Path(folder) / "lab.csv"
...     _ = table.write_text("PATIENT,report_id,text\\n7,a,colon polyp\\n7,b,colon resection\\n")
...     out = Path(folder) / "lab.parquet"
...     result = import_corpus([table], out=out, registry="R1", columns={"case_id": "PATIENT"})
>>> result.reports, result.cases, result.registries
(2, 1, {'R1': 2})
"""

import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from pathveil.corpus.codes import CodeCounts, normalise_codes
from pathveil.corpus.dates import EXAMPLES, ISO, find_format, in_iso_form, mixed_formats
from pathveil.corpus.fhir import Beside, gather_beside, read_resources
from pathveil.corpus.mapping import TableMapping
from pathveil.corpus.naaccr import Report, Skipped, read_messages
from pathveil.corpus.opening import MESSAGES, decimals_as_text, open_source, rename_columns, sources_of
from pathveil.corpus.rows import LISTED, MOST_SKIPPED, SHOWN, SOURCE, RowCounts, Unread, check_rows
from pathveil.corpus.schema import EXPECTED_DATE, REQUIRED, with_corpus_types, with_dates
from pathveil.corpus.tables import (
    BATCH,
    ROW,
    UNREADABLE,
    Paths,
    content_sha256,
    polars_faults,
    with_rows,
    write_parquet,
)
from pathveil.errors import CorpusError, UsageError
from pathveil.files import scratch_file
from pathveil.foreign.archives import open_bytes
from pathveil.progress import Progress, silent
from pathveil.results import Part, Result
from pathveil.wording import counted, listed

if TYPE_CHECKING:
    import polars as pl


class SkippedMessage(Part):
    """A message that could not be used, and where it is."""

    file: str
    message: int
    line: int
    reason: str


class MessageCounts(Part):
    """What became of the HL7 messages."""

    messages: int
    reports: int
    repeated: int
    undated: int
    masked: int
    masked_reports: int
    skipped_total: int
    skipped: list[SkippedMessage]
    key: Literal["file", "random, not kept"]


class ImportedFile(Part):
    """A file that was read, and how."""

    file: str
    format: str
    encoding: str | None = None  # of CSV
    dates: str | None = None  # their format, where it is not 2016-05-02


class ImportResult(Result):
    """What an import read and wrote."""

    out: str
    sha256: str
    files: list[ImportedFile]
    reports: int
    cases: int
    registries: dict[str, int]
    columns: list[str]
    codes: CodeCounts
    hl7: MessageCounts | None = None  # where there were messages
    tables: RowCounts | None = None  # where there were tables

    def rows(self) -> list[dict[str, Any]]:
        return [{"registry": name, "reports": reports} for name, reports in self.registries.items()]

    def summary(self) -> str:
        forms = ", ".join(sorted({file.format for file in self.files}))
        named = ", ".join(f"{name} {count:,}" for name, count in list(self.registries.items())[:10])
        lines = [
            f"{counted(self.reports, 'report')} of {counted(self.cases, 'case')} in {self.out}",
            f"  from      {counted(len(self.files), 'file')} ({forms})",
            f"  registry  {named}{', …' if len(self.registries) > 10 else ''}",
            f"  columns   {', '.join(self.columns)}",
            f"  sha256    {self.sha256}",
        ]
        for name, kinds in (
            ("dates", {file.dates for file in self.files} - {None}),
            ("encoding", {file.encoding for file in self.files} - {None, "utf-8-sig"}),
        ):
            if kinds:
                lines.insert(2, f"  {name:<9} {', '.join(sorted(map(str, kinds)))}")
        if self.tables and self.tables.skipped_total:
            lines += self.tables.lines()
        return "\n".join(lines + code_lines(self.codes) + (message_lines(self.hl7) if self.hl7 else []))


def code_lines(codes: CodeCounts) -> list[str]:
    lines = []
    if codes.rewritten:
        written = ", ".join(f"{task} {count:,}" for task, count in codes.rewritten.items())
        lines.append(f"  codes     written in this project's form: {written}")
    if codes.unknown:
        what = "kept" if codes.kept_unknown else "left out, their reports without that label; --keep-unknown-codes"
        lines.append(f"  unknown   codes that ICD-O-3 does not have were {what}")
        lines += [f"            {one.sentence()}" for one in codes.unknown]
    return lines


def message_lines(messages: MessageCounts) -> list[str]:
    lines = [f"  messages  {messages.messages:,} read, {messages.skipped_total:,} skipped"]
    for skipped in messages.skipped[:SHOWN]:
        place = f"{skipped.file}: message {skipped.message:,} (line {skipped.line:,})"
        lines.append(f"            {place} {skipped.reason}")
    if messages.skipped_total > SHOWN:
        lines.append(f"            … and {messages.skipped_total - SHOWN:,} more; --json lists the first {LISTED}")
    if messages.repeated:
        lines.append(f"  repeated  {counted(messages.repeated, 'report')} sent more than once, kept once")
    if messages.undated:
        lines.append(f"  undated   {counted(messages.undated, 'report')} without a date that can be read")
    if messages.masked:
        places = counted(messages.masked, "place")
        lines.append(f"  masked    the patient was named in {places} of {counted(messages.masked_reports, 'report')}")
    if messages.key != "file":
        lines.append("  case ids  made with a key that was not kept: they match no other import (see --key-file)")
    return lines


class Seen:
    """Numbers met before, eight bytes each: a set of a million is a hundred megabytes.

    >>> seen = Seen()
    >>> [seen.add(number) for number in (5, 7, 5)]
    [True, True, False]
    """

    RECENT = 50_000

    def __init__(self) -> None:
        self.recent: set[int] = set()
        self.earlier = np.empty(0, np.uint64)  # sorted

    def add(self, number: int) -> bool:
        """Note a number below 2**64; whether it was new."""
        if number in self.recent:
            return False
        if len(self.earlier):
            place = int(np.searchsorted(self.earlier, np.uint64(number)))
            if place < len(self.earlier) and int(self.earlier[place]) == number:
                return False
        self.recent.add(number)
        if len(self.recent) == self.RECENT:
            recent = np.fromiter(self.recent, np.uint64, self.RECENT)
            self.earlier = np.concatenate([self.earlier, recent])
            self.earlier.sort()
            self.recent.clear()
        return True


@dataclass
class Tally:
    """What happened while messages were read."""

    messages: int = 0
    reports: int = 0
    repeated: int = 0  # sent before, word for word
    undated: int = 0
    masked: int = 0  # places where a text named its patient
    masked_reports: int = 0
    skipped: list[SkippedMessage] = field(default_factory=list)  # the first ones
    skipped_total: int = 0
    seen: Seen = field(default_factory=Seen)  # report ids


def import_corpus(
    sources: Paths,
    *,
    out: Path,
    form: str = "auto",
    registry: str | None = None,
    key: bytes | None = None,
    strict: bool = False,
    columns: Mapping[str, str] | None = None,
    mapping: TableMapping | None = None,
    database: str | None = None,
    keep_unknown_codes: bool = False,
    most_skipped: float = MOST_SKIPPED,
    progress: Progress = silent,
) -> ImportResult:
    """Read all sources into the Parquet file ``out`` and say what was read.

    ``registry`` names the registry of messages (else MSH-4) and of tables that have no such column. ``key`` makes the
    case ids of messages; without one, a random key is used and forgotten, and the ids match no other import.
    ``mapping`` says how tables are written and what their columns are called; ``columns`` adds names to it.
    ``database`` is the address of one from which its query is read. Messages and rows that cannot be used are skipped
    and counted; ``strict`` refuses the first, and a table of which more than the share ``most_skipped`` is such rows is
    refused. Codes are put into this project's form; those that ICD-O-3 does not have are counted, and kept only with
    ``keep_unknown_codes``.
    """
    import polars as pl

    if out.suffix != ".parquet":
        raise UsageError(f"{out}: a corpus is written as Parquet; expected a name that ends in .parquet")
    if not 0 <= most_skipped < 1:
        raise UsageError(f"--most-skipped {most_skipped:g}: expected a share such as 0.1, below 1")
    most_skipped = 0 if strict else most_skipped
    mapping = (mapping or TableMapping()).with_columns(columns or {})
    found = sources_of(sources, form=form, mapping=mapping, database=database)
    for source in found:
        if source.form == "naaccr":
            raise CorpusError(f"{source.name}: NAACCR XML holds labels, no reports; give it to 'pathveil corpus label'")
    secret, tally = key or secrets.token_bytes(32), Tally()
    frames, unread = [], {}
    for number, source in enumerate(found):
        if source.form not in MESSAGES:
            unread[number] = Unread(within=source.form == "jsonl")
            note = unread[number] if most_skipped else None
            table = open_source(source, mapping=mapping, database=database, note=note)
            table = table if note else with_rows(table)
            frame = prepare_table(table, source=source.name, registry=registry, columns=mapping.columns)
            frames.append(frame.with_columns(pl.lit(number).alias(SOURCE)))
    if messages := {Path(source.name): source.form for source in found if source.form in MESSAGES}:
        frames.append(scan_hl7(messages, registry=registry, key=secret, strict=strict, tally=tally, progress=progress))
    read = [ImportedFile(file=str(source.name), format=source.form, encoding=source.encoding) for source in found]
    with scratch_file(out) as staged:
        progress("reading", 0, 0)
        # In groups of rows as small as we like them, whatever the source: it is read several times.
        write_parquet(pl.concat(frames, how="diagonal_relaxed"), staged, compression="lz4")
        corpus = pl.scan_parquet(staged)
        if messages and not tally.messages:
            raise CorpusError(f"{next(iter(messages))}: holds no DiagnosticReport, only what reports refer to")
        if tally.messages and not tally.reports:
            first = tally.skipped[0]
            raise CorpusError(
                f"{first.file}: no report could be read; {counted(tally.messages, 'message')} skipped, "
                f"the first because it {first.reason}"
            )
        progress("checking", 0, 0)
        try:
            corpus, read, expected_date = with_iso_dates(corpus, read, mapping.dates)
            names = [file.file for file in read]
            corpus, rows = check_rows(
                corpus, names=names, unread=unread, most_skipped=most_skipped, expected_date=expected_date
            )
            corpus, codes = normalise_codes(corpus.drop(SOURCE, ROW, strict=False), keep_unknown=keep_unknown_codes)
        except polars_faults():
            raise CorpusError(f"{read[0].file}: cannot be read to its end; is it cut short or damaged?") from None
        progress("writing", 0, 0)
        write_parquet(with_dates(corpus), out)
    return account(out, read=read, codes=codes, tally=tally, rows=rows, keyed=key is not None)


def with_iso_dates(
    frame: "pl.LazyFrame", read: list[ImportedFile], told: str | None
) -> tuple["pl.LazyFrame", list[ImportedFile], str]:
    """Dates in ISO's form, each file's by its own format; also the files with it, and what a complaint should expect.

    A column whose format cannot be told from its contents is left as it is, for the schema to refuse.
    """
    import polars as pl

    schema = frame.collect_schema()
    if "date" not in schema or schema["date"] != pl.String or SOURCE not in schema:
        return frame, read, EXPECTED_DATE
    expected, date = EXPECTED_DATE, pl.col("date")
    found = list(read)
    without_time = pl.col("date").str.replace(r"[T ]\d{1,2}:\d{2}.*$", "")  # with it there would be millions
    for number, file in enumerate(read):
        if file.format in MESSAGES:
            continue
        of_file = frame.filter(pl.col(SOURCE) == number).select(without_time).drop_nulls().unique()
        values = of_file.collect(engine="streaming")["date"].to_list()
        form = told or find_format(values)
        if form is None:
            expected = f"{EXPECTED_DATE}, or their format told with --dates ({EXAMPLES})"
            if mixed := mixed_formats(values):
                expected += f"; {file.file} mixes {listed(mixed)}"
        elif form != ISO:
            found[number] = file.model_copy(update={"dates": form})
            date = pl.when(pl.col(SOURCE) == number).then(in_iso_form(pl.col("date"), form)).otherwise(date)
    return frame.with_columns(date.alias("date")), found, expected


def prepare_table(
    frame: "pl.LazyFrame", *, source: Path | str, registry: str | None, columns: Mapping[str, str]
) -> "pl.LazyFrame":
    """Rename a table's columns, fill in its registry and check its types."""
    import polars as pl

    frame = rename_columns(frame, source=source, columns=columns)
    if registry is not None and "registry" in frame.collect_schema():
        raise UsageError(f"{source}: has a column 'registry' already; leave out --registry")
    if registry is not None:
        frame = frame.with_columns(pl.lit(registry).alias("registry"))
    missing = [name for name in REQUIRED if name not in frame.collect_schema()]
    try:
        return with_corpus_types(decimals_as_text(frame), source=source)
    except CorpusError as fault:
        if missing == ["registry"]:
            raise CorpusError(f"{fault}; say whose reports these are with --registry NAME") from None
        hint = f"; 'pathveil corpus map {source} --out map.toml' proposes which column is which" if missing else ""
        raise CorpusError(f"{fault}{hint}") from None


FIELDS = {"report_number": "number", "message_position": "position"}  # columns that a Report calls otherwise


def scan_hl7(
    paths: Mapping[Path, str], *, registry: str | None, key: bytes, strict: bool, tally: Tally, progress: Progress
) -> "pl.LazyFrame":
    """A lazy frame of the reports in files of messages, each with its form; ``tally`` counts while it is read."""
    import polars as pl
    from polars.io.plugins import register_io_source

    schema = pl.Schema(
        {
            "report_id": pl.String,
            "case_id": pl.String,
            "registry": pl.String,
            "date": pl.Date,
            "year": pl.Int32,
            "text": pl.String,
            "report_number": pl.String,
            "kind": pl.String,
            "message_id": pl.String,
            "message_file": pl.String,
            "message_position": pl.Int64,
        }
    )

    def batches(
        wanted: list[str] | None, predicate: "pl.Expr | None", rows: int | None, size: int | None
    ) -> Iterator["pl.DataFrame"]:
        def frame(some: list[tuple[Report, str]]) -> "pl.DataFrame":
            values = {
                name: [getattr(report, FIELDS.get(name, name)) for report, _ in some]
                for name in schema
                if name != "message_file"
            }
            batch = pl.DataFrame(values | {"message_file": [name for _, name in some]}, schema=schema)
            batch = batch.select(wanted or schema.names())
            return batch if predicate is None else batch.filter(predicate)

        waiting: list[tuple[Report, str]] = []
        beside = gather_beside([path for path, form in paths.items() if form == "fhir"])
        for path, form in paths.items():
            for report in read_reports(
                path, form=form, registry=registry, key=key, strict=strict, tally=tally, beside=beside
            ):
                waiting.append((report, path.name))
                if len(waiting) == BATCH:
                    progress("reading messages", tally.messages, 0)
                    yield frame(waiting)
                    waiting = []
        yield frame(waiting)

    return register_io_source(batches, schema=schema)


def read_reports(
    path: Path,
    *,
    form: str = "hl7",
    registry: str | None,
    key: bytes,
    strict: bool,
    tally: Tally,
    beside: Beside | None = None,
) -> Iterator[Report]:
    """Yield the reports of a file of HL7 messages or FHIR resources, each once; ``beside`` are resources elsewhere."""
    before = tally.messages
    try:
        with open_bytes(path) as file:
            if form == "fhir":
                found = read_resources(file, key=key, registry=registry, beside=beside)
            else:
                found = read_messages(file, key=key, registry=registry)
            for message in found:
                tally.messages += 1
                if isinstance(message, Skipped):
                    note_skipped(message, path=path, strict=strict, tally=tally)
                    continue
                for report in message:
                    number = int(report.report_id.removeprefix("report-")[:16], 16)
                    if not tally.seen.add(number):
                        tally.repeated += 1
                        continue
                    tally.reports += 1
                    tally.undated += report.date is None
                    tally.masked += report.masked
                    tally.masked_reports += report.masked > 0
                    yield report
    except UNREADABLE as error:
        raise CorpusError(
            f"{path}: is damaged after message {tally.messages - before:,} ({type(error).__name__}); is it cut short?"
        ) from None
    if tally.messages == before and not (beside and form == "fhir"):
        expected = {"fhir": "FHIR resource"}.get(form, "HL7 message; expected one that begins with MSH")
        raise CorpusError(f"{path}: holds no {expected}")


def note_skipped(message: Skipped, *, path: Path, strict: bool, tally: Tally) -> None:
    place = f"message {message.message:,} (line {message.line:,})"
    if strict:
        raise CorpusError(f"{path}: {place} {message.reason}; without --strict it would be skipped")
    tally.skipped_total += 1
    if len(tally.skipped) < LISTED:
        tally.skipped.append(
            SkippedMessage(file=str(path), message=message.message, line=message.line, reason=message.reason)
        )


def account(
    out: Path, *, read: list[ImportedFile], codes: CodeCounts, tally: Tally, rows: RowCounts | None, keyed: bool
) -> ImportResult:
    """What an import read and wrote."""
    import polars as pl

    corpus = pl.scan_parquet(out)
    registries = corpus.group_by("registry").len().collect(engine="streaming").sort("registry")
    # Hashes, sorted: a million take eight megabytes, a set of them ten times that.
    cases = corpus.select(pl.col("case_id").hash()).collect(engine="streaming")["case_id"].sort()
    messages = None
    if any(file.format in MESSAGES for file in read):
        messages = MessageCounts(
            messages=tally.messages,
            reports=tally.reports,
            repeated=tally.repeated,
            undated=tally.undated,
            masked=tally.masked,
            masked_reports=tally.masked_reports,
            skipped_total=tally.skipped_total,
            skipped=tally.skipped,
            key="file" if keyed else "random, not kept",
        )
    return ImportResult(
        out=str(out),
        sha256=content_sha256(out),
        files=read,
        reports=int(registries["len"].sum()),
        cases=len(cases) - int((cases == cases.shift()).sum()),
        registries=dict(registries.iter_rows()),
        columns=corpus.collect_schema().names(),
        codes=codes,
        hl7=messages,
        tables=rows,
    )
