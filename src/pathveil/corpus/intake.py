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
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pathveil.corpus.codes import CodeCounts, normalise_codes
from pathveil.corpus.database import NAME as DATABASE
from pathveil.corpus.database import open_database
from pathveil.corpus.dates import EXAMPLES, ISO, find_format, in_iso_form
from pathveil.corpus.fhir import MARK, read_resources
from pathveil.corpus.hl7 import HEADER, WRAPPER
from pathveil.corpus.mapping import TableMapping, open_mapped
from pathveil.corpus.naaccr import Report, Skipped, read_messages
from pathveil.corpus.schema import EXPECTED_DATE, TASKS, validate, with_corpus_types
from pathveil.corpus.sources import nested_field
from pathveil.corpus.tables import (
    BATCH,
    FORMS,
    OTHER_FORMS,
    UNREADABLE,
    Paths,
    content_sha256,
    files,
    find_encoding,
    form_among,
    form_of,
    write_parquet,
)
from pathveil.errors import CorpusError, UsageError
from pathveil.files import scratch_file
from pathveil.foreign.archives import open_bytes
from pathveil.progress import Progress, silent
from pathveil.results import Part, Result
from pathveil.wording import counted

if TYPE_CHECKING:
    import polars as pl

MESSAGES = ("hl7", "fhir")  # forms in which reports come with their patient
HL7_NAMES = (".hl7", ".er7", ".txt", ".dat")
SOURCE = "number of the source"  # a column of the staged file: the place of the table in the list of sources
START = 4_096  # bytes that tell a file's form
LISTED, SHOWN = 100, 10  # skipped messages that a result names, as data and to a person


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
    seen: set[int] = field(default_factory=set)  # of report ids, as numbers to save memory


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
    progress: Progress = silent,
) -> ImportResult:
    """Read all sources into the Parquet file ``out`` and say what was read.

    ``registry`` names the registry of messages (else MSH-4) and of tables that have no such column. ``key`` makes the
    case ids of messages; without one, a random key is used and forgotten, and the ids match no other import.
    ``mapping`` says how tables are written and what their columns are called; ``columns`` adds names to it.
    ``database`` is the address of one from which its query is read. ``strict``
    stops at the first unusable message. Codes are put into this project's form; those that ICD-O-3 does not have are
    counted, and kept only with ``keep_unknown_codes``.
    """
    import polars as pl

    if form not in ("auto", *MESSAGES, *FORMS, *OTHER_FORMS):
        known = ", ".join([*MESSAGES, *FORMS, *OTHER_FORMS])
        raise UsageError(f"--format {form} is not known; expected auto, {known}")
    if out.suffix != ".parquet":
        raise UsageError(f"{out}: a corpus is written as Parquet; expected a name that ends in .parquet")
    mapping = (mapping or TableMapping()).with_columns(columns or {})
    given = expand_folders(sources) if sources or database is None else []
    paths = {path: form if form != "auto" else detect_format(path) for path in given}
    for path, kind in paths.items():
        if kind == "naaccr":
            raise CorpusError(f"{path}: NAACCR XML holds labels, no reports; give it to 'pathveil corpus label'")
    read = [
        ImportedFile(file=str(path), format=kind, encoding=encoding_of(path, kind, mapping))
        for path, kind in paths.items()
    ]
    if database is not None:
        read.append(ImportedFile(file=DATABASE, format="database"))
    secret, tally = key or secrets.token_bytes(32), Tally()
    frames = []
    for number, file in enumerate(read):
        if file.format not in MESSAGES:
            if database is not None and file.format == "database":
                table = open_database(database, query=mapping.query)
            else:
                table = open_mapped(Path(file.file), form=file.format, encoding=file.encoding, mapping=mapping)
            frame = prepare_table(table, source=file.file, registry=registry, columns=mapping.columns)
            frames.append(frame.with_columns(pl.lit(number).alias(SOURCE)))
    if messages := {path: kind for path, kind in paths.items() if kind in MESSAGES}:
        frames.append(scan_hl7(messages, registry=registry, key=secret, strict=strict, tally=tally, progress=progress))
    with scratch_file(out) as staged:
        progress("reading", 0, 0)
        write_parquet(pl.concat(frames, how="diagonal_relaxed"), staged)
        if tally.messages and not tally.reports:
            first = tally.skipped[0]
            raise CorpusError(
                f"{first.file}: no report could be read; {counted(tally.messages, 'message')} skipped, "
                f"the first because it {first.reason}"
            )
        progress("checking", 0, 0)
        corpus, read, expected_date = with_iso_dates(pl.scan_parquet(staged), read, mapping.dates)
        corpus, codes = normalise_codes(corpus.drop(SOURCE, strict=False), keep_unknown=keep_unknown_codes)
        corpus = validate(corpus, expected_date=expected_date)
        progress("writing", 0, 0)
        write_parquet(corpus, out)
    return account(out, read=read, codes=codes, tally=tally, keyed=key is not None)


def encoding_of(path: Path, form: str, mapping: TableMapping) -> str | None:
    """The encoding of a CSV file: as told, else found; other forms say theirs themselves."""
    if form != "csv":
        return None
    return mapping.encoding or find_encoding(path)


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
    for number, file in enumerate(read):
        if file.format in MESSAGES:
            continue
        of_file = frame.filter(pl.col(SOURCE) == number).select("date").drop_nulls().unique()
        form = told or find_format(of_file.collect(engine="streaming")["date"])
        if form is None:
            expected = f"{EXPECTED_DATE}, or their format told with --dates ({EXAMPLES})"
        elif form != ISO:
            found[number] = file.model_copy(update={"dates": form})
            date = pl.when(pl.col(SOURCE) == number).then(in_iso_form(pl.col("date"), form)).otherwise(date)
    return frame.with_columns(date.alias("date")), found, expected


def expand_folders(sources: Paths) -> list[Path]:
    """The files meant; of a folder, those whose names are a table's or a message file's."""
    return files(
        sources,
        meant=lambda file: form_of(file) or has_hl7_name(file) or is_fhir(file),
        expected="table or HL7 file",
    )


def is_fhir(path: Path) -> bool:
    """Whether a JSON file begins as a FHIR resource; other JSON files of a folder may be anything."""
    if form_among(path, {"json": OTHER_FORMS["json"]}) is None:
        return False
    try:
        with open_bytes(path) as file:
            return MARK in file.read(START)
    except UNREADABLE:
        return False


def has_hl7_name(path: Path) -> bool:
    return path.name.lower().removesuffix(".gz").endswith(HL7_NAMES)


def detect_format(path: Path) -> str:
    """Tell a file's format by its name, or by how it begins."""
    named = form_of(path) or form_among(path, OTHER_FORMS)
    if named and named not in ("json", "jsonl"):
        return named
    try:
        with open_bytes(path) as file:
            start = file.read(START)
    except UNREADABLE as error:
        raise CorpusError(f"{path}: cannot be read ({type(error).__name__})") from None
    if named:
        return "fhir" if MARK in start else named
    if start[:2] in (b"\xff\xfe", b"\xfe\xff"):
        start = start.decode("utf-16", errors="replace").encode()
    if start.startswith(b"PAR1"):
        return "parquet"
    if start.startswith(b"SQLite format 3\0"):
        return "sqlite"
    if HEADER.match(start.lstrip(b"\x0b")) or WRAPPER.match(start.lstrip(b"\x0b")) or b"\nMSH|" in start:
        return "hl7"
    raise CorpusError(f"{path}: is neither a table nor HL7 by its name and beginning; say which with --format")


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
    return with_corpus_types(decimals_as_text(frame), source=source)


def rename_columns(frame: "pl.LazyFrame", *, source: Path | str, columns: Mapping[str, str]) -> "pl.LazyFrame":
    """The frame with our names for the columns that have others; a.b is the field b within a column a."""
    schema = frame.collect_schema()
    names, within = schema.names(), {}
    for ours, theirs in columns.items():
        if theirs not in names and (field := nested_field(schema, theirs)) is not None:
            within[ours] = field
        elif theirs not in names:
            raise UsageError(f"{source}: has no column '{theirs}' to take {ours} from")
        if ours in names and ours != theirs:
            raise UsageError(f"{source}: has a column '{ours}' already, so '{theirs}' cannot take its place")
    frame = frame.with_columns(**within) if within else frame
    return frame.rename({theirs: ours for ours, theirs in columns.items() if ours not in within})


def decimals_as_text(frame: "pl.LazyFrame") -> "pl.LazyFrame":
    """Codes that a spreadsheet made numbers as text (8500.0), for ``normalise_codes`` to read."""
    import polars as pl

    schema = frame.collect_schema()
    decimal = [task for task in TASKS if task in schema and schema[task].is_float()]
    return frame.with_columns(pl.col(decimal).fill_nan(None).cast(pl.String)) if decimal else frame


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
        }
    )

    def batches(
        wanted: list[str] | None, predicate: "pl.Expr | None", rows: int | None, size: int | None
    ) -> Iterator["pl.DataFrame"]:
        def frame(some: list[Report]) -> "pl.DataFrame":
            values = [(r.report_id, r.case_id, r.registry, r.date, r.year, r.text, r.number, r.kind) for r in some]
            batch = pl.DataFrame(values, schema=schema, orient="row").select(wanted or schema.names())
            return batch if predicate is None else batch.filter(predicate)

        waiting: list[Report] = []
        for report in chain.from_iterable(
            read_reports(path, form=form, registry=registry, key=key, strict=strict, tally=tally)
            for path, form in paths.items()
        ):
            waiting.append(report)
            if len(waiting) == BATCH:
                progress("reading messages", tally.messages, 0)
                yield frame(waiting)
                waiting = []
        yield frame(waiting)

    return register_io_source(batches, schema=schema)


def read_reports(
    path: Path, *, form: str = "hl7", registry: str | None, key: bytes, strict: bool, tally: Tally
) -> Iterator[Report]:
    """Yield the reports of a file of HL7 messages or FHIR resources, each once."""
    before = tally.messages
    try:
        with open_bytes(path) as file:
            for message in (read_resources if form == "fhir" else read_messages)(file, key=key, registry=registry):
                tally.messages += 1
                if isinstance(message, Skipped):
                    note_skipped(message, path=path, strict=strict, tally=tally)
                    continue
                for report in message:
                    number = int(report.report_id.removeprefix("report-")[:16], 16)
                    if number in tally.seen:
                        tally.repeated += 1
                        continue
                    tally.seen.add(number)
                    tally.reports += 1
                    tally.undated += report.date is None
                    tally.masked += report.masked
                    tally.masked_reports += report.masked > 0
                    yield report
    except UNREADABLE as error:
        raise CorpusError(
            f"{path}: is damaged after message {tally.messages - before:,} ({type(error).__name__}); is it cut short?"
        ) from None
    if tally.messages == before:
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


def account(out: Path, *, read: list[ImportedFile], codes: CodeCounts, tally: Tally, keyed: bool) -> ImportResult:
    """What an import read and wrote."""
    import polars as pl

    corpus = pl.scan_parquet(out)
    registries = corpus.group_by("registry").len().collect(engine="streaming").sort("registry")
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
        cases=corpus.select(pl.col("case_id").n_unique()).collect(engine="streaming").item(),
        registries=dict(registries.iter_rows()),
        columns=corpus.collect_schema().names(),
        codes=codes,
        hl7=messages,
    )
