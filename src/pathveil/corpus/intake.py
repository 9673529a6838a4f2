"""Reports from wherever they are into one corpus file: tables of any form and HL7 messages, together or apart.

The sources are streamed once, checked on the way (``one_pass.py``), into an unfinished file beside the result, which
takes its name only when all went well. A message that cannot be used is skipped, counted and named by its
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
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from pathveil.corpus.mapping import Columns, TableMapping
from pathveil.corpus.messages.files import SkippedMessage, Tally, scan_messages
from pathveil.corpus.messages.versions import Settled
from pathveil.corpus.one_pass import Learned, OnePass
from pathveil.corpus.report_rows import PLACE, JoinedRows, one_row_a_report
from pathveil.corpus.rows import LISTED, MOST_SKIPPED, SHOWN, SOURCE, RowCounts, Unread, check_most_skipped
from pathveil.corpus.schema import REQUIRED, with_corpus_types
from pathveil.corpus.tables.database import NAME as DATABASE
from pathveil.corpus.tables.files import (
    BATCH,
    PARQUET,
    ROW,
    Paths,
    content_sha256,
    one_file,
    streamed,
    unchanged,
    with_rows,
    write_parquet,
)
from pathveil.corpus.tables.opening import (
    MESSAGES,
    Source,
    check_for_reports,
    check_lists,
    check_output,
    decimals_as_text,
    missing_as_empty,
    open_source,
    passed_over,
    sentence_of,
    sources_of,
    tables_among,
    title_above,
)
from pathveil.errors import CorpusError, UsageError
from pathveil.files import new_file, scratch_file
from pathveil.formatting import counted
from pathveil.icdo.codes import CodeCounts
from pathveil.progress import Progress, silent
from pathveil.results import Part, Result

if TYPE_CHECKING:
    import polars as pl

MOST_COLUMNS = 40  # that a summary names
MOST_READINGS = 4  # of sources that do not change, the last but one tells all
FRAME = "the frame"  # what a message calls a source without a name


class MessageCounts(Part):
    """What became of the HL7 messages."""

    messages: int
    reports: int
    repeated: int
    replaced: int  # by a later version
    withdrawn: int  # later
    undated: int
    placeholders: int  # reports that have one in the place of the patient's number
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
    passed_over: list[str]  # names of what lies in a given folder and was not read
    reports: int
    cases: int
    registries: dict[str, int]
    columns: list[str]
    codes: CodeCounts
    hl7: MessageCounts | None = None  # where there were messages
    tables: RowCounts | None = None  # where there were tables
    joined: JoinedRows | None = None  # where reports stood in several rows

    def rows(self) -> list[dict[str, Any]]:
        return [{"registry": name, "reports": reports} for name, reports in self.registries.items()]

    def summary(self) -> str:
        forms = ", ".join(sorted({file.format for file in self.files}))
        named = ", ".join(f"{name} {count:,}" for name, count in list(self.registries.items())[:10])
        lines = [
            f"{self.counts()} in {self.out}",
            f"  from      {counted(len(self.files), 'file')} ({forms})",
            f"  registry  {named}{', …' if len(self.registries) > 10 else ''}",
            f"  columns   {', '.join(self.columns[:MOST_COLUMNS])}{', …' if len(self.columns) > MOST_COLUMNS else ''}",
            f"  sha256    {self.sha256}",
        ]
        lines[2:2] = self.others()
        for name, kinds in (
            ("dates", {file.dates for file in self.files} - {None}),
            ("encoding", {file.encoding for file in self.files} - {None, "utf-8-sig"}),
        ):
            if kinds:
                lines.insert(2, f"  {name:<9} {', '.join(sorted(map(str, kinds)))}")
        lines += [line for part in (self.joined, self.tables) if part for line in part.lines()]
        lines += code_lines(self.codes)
        return "\n".join(lines + (message_lines(self.hl7) if self.hl7 else []))

    def counts(self) -> str:
        """How many reports and cases were read, in words."""
        return f"{counted(self.reports, 'report')} of {counted(self.cases, 'case')}"

    def left_out(self) -> list[str]:
        """The lines of the summary on what was not read, or could not be used: files, rows of tables, and codes."""
        return [*self.others(), *(self.tables.lines() if self.tables else []), *unknown_lines(self.codes)]

    def others(self) -> list[str]:
        """The line of the summary on what lies in a given folder and was not read."""
        return [f"  not read  {sentence_of(self.passed_over)}"] if self.passed_over else []


def code_lines(codes: CodeCounts) -> list[str]:
    lines = []
    if codes.rewritten:
        written = ", ".join(f"{task} {count:,}" for task, count in codes.rewritten.items())
        lines.append(f"  codes     written in this project's form: {written}")
    return lines + unknown_lines(codes)


def unknown_lines(codes: CodeCounts) -> list[str]:
    lines = []
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
    if messages.replaced:
        lines.append(f"  replaced  {counted(messages.replaced, 'report')} by a later version")
    if messages.withdrawn:
        lines.append(f"  withdrawn {counted(messages.withdrawn, 'report')} by a later message")
    if messages.undated:
        lines.append(f"  undated   {counted(messages.undated, 'report')} without a date that can be read")
    if messages.placeholders:
        reports = f"{counted(messages.placeholders, 'report')} with a placeholder (zeros, nines, UNKNOWN, …)"
        lines.append(f"  numbers   {reports} and no number of the patient;")
        lines.append("            name and birth date, or what else there is, say whose they are")
    if messages.masked:
        places = counted(messages.masked, "place")
        lines.append(f"  masked    the patient was named in {places} of {counted(messages.masked_reports, 'report')}")
    if messages.key != "file":
        lines.append("  case ids  made with a key that was not kept: they match no other import (see --key-file)")
    return lines


def import_corpus(
    sources: Paths,
    *,
    out: Path,
    form: str = "auto",
    registry: str | None = None,
    key: bytes | None = None,
    strict: bool = False,
    columns: Columns | None = None,
    mapping: TableMapping | None = None,
    database: str | None = None,
    frame: "pl.LazyFrame | None" = None,
    keep_unknown_codes: bool = False,
    most_skipped: float = MOST_SKIPPED,
    progress: Progress = silent,
) -> ImportResult:
    """Read all sources into the Parquet file ``out`` and say what was read.

    ``registry`` names the registry of messages (else MSH-4) and of tables that have no such column. ``key`` makes the
    case ids of messages; without one, a random key is used and forgotten, and the ids match no other import.
    ``mapping`` says how tables are written and what their columns are called; ``columns`` adds names to it.
    ``database`` is the address of one from which its query is read, and ``frame`` takes the place of all sources.
    Messages and rows that cannot be used are skipped and counted; ``strict`` refuses the first, and a table of which
    more than the share ``most_skipped`` is such rows is refused. Codes are put into this project's form; those that
    ICD-O-3 does not have are counted, and kept only with ``keep_unknown_codes``.
    """
    import polars as pl

    if out.suffix != ".parquet":
        raise UsageError(f"{out}: a corpus is written as Parquet; expected a name that ends in .parquet")
    check_most_skipped(most_skipped)
    check_output(out, sources=sources, renews=[PARQUET])
    mapping = (mapping or TableMapping()).with_columns(columns or {})
    given = Sources(
        [Source(FRAME, "frame")]
        if frame is not None
        else sources_of(sources, form=form, mapping=mapping, database=database),
        mapping=mapping,
        database=database,
        frame=frame,
        registry=registry,
        key=key or secrets.token_bytes(32),
        strict=strict,
        most_skipped=0 if strict else most_skipped,
        progress=progress,
    )
    with new_file(out, error=CorpusError) as part, scratch_file(out) as staged:
        progress("reading", 0, 0)
        with unchanged(tables_among(given.found)):
            one, tally = read_sources(given, part, staged, out, keep_unknown_codes=keep_unknown_codes)
        progress("checking", 0, 0)

        def whole() -> "pl.LazyFrame":
            write_parquet(given.open(Tally()).with_columns(one.dates()), staged, compression="lz4")
            return pl.scan_parquet(one_file(staged))

        rows = None
        if one.rows is not None:
            rows = one.rows.account(
                names=given.names,
                unread=given.unread,
                most_skipped=given.most_skipped,
                whole=whole,
                expected_date=one.expected_date(given.names),
            )
            tally.repeated += one.rows.messages_again
            tally.reports -= one.rows.messages_again
    read = [
        ImportedFile(file=str(source.name), format=source.form, encoding=source.encoding, dates=one.format_of(number))
        for number, source in enumerate(given.found)
    ]
    others = passed_over(sources)
    told = {"read": read, "others": others, "one": one, "tally": tally, "rows": rows, "joined": given.joined.values()}
    return account(out, **told, keyed=key is not None)


@dataclass
class Sources:
    """Where reports come from, and how they are opened."""

    found: list[Source]
    _: KW_ONLY
    mapping: TableMapping
    database: str | None
    frame: "pl.LazyFrame | None"
    registry: str | None
    key: bytes
    strict: bool
    most_skipped: float
    progress: Progress
    unread: dict[int, Unread] = field(default_factory=dict)  # records that readers of tables passed over
    joined: dict[int, Counter[str]] = field(default_factory=dict)  # rows of tables that were put together

    def __post_init__(self) -> None:
        for source in self.found:
            if source.form == "text":
                folder = Path(source.name).parent
                raise CorpusError(
                    f"{source.name}: a text does not say whose it is; give a table that names such files, with "
                    f"--texts {folder}"
                )
            check_for_reports(source)
        self.names = [str(source.name) for source in self.found]
        self.messages = {Path(source.name): source.form for source in self.found if source.form in MESSAGES}

    def open(self, tally: Tally) -> "pl.LazyFrame":
        """All of them, not yet read; ``tally`` counts messages while they are."""
        import polars as pl

        frames = []
        for number, source in enumerate(self.found):
            if source.form not in MESSAGES:
                self.unread[number] = Unread.of(source.form)
                note = self.unread[number] if self.most_skipped and self.frame is None else None
                table = self.frame
                if table is None:
                    table = open_source(source, mapping=self.mapping, database=self.database, note=note)
                table = table if note else with_rows(table)
                columns, registry = self.mapping.columns, self.registry or self.mapping.registry
                told = {"columns": columns, "texts": self.mapping.texts, "note": note}
                table, joined = one_row_a_report(table, source=source.name, **told)
                if joined is not None:
                    self.joined[number] = joined
                frame = prepare_table(table, source=source.name, registry=registry)
                frames.append(frame.with_columns(pl.lit(number).alias(SOURCE)))
        check_lists(frames, [str(source.name) for source in self.found if source.form not in MESSAGES])
        if self.messages:
            told = {"registry": self.registry, "key": self.key, "strict": self.strict}
            frames.append(scan_messages(self.messages, **told, tally=tally, progress=self.progress))
        return pl.concat(frames, how="diagonal_relaxed")


def read_sources(
    sources: Sources, part: Path, staged: Path, out: Path, *, keep_unknown_codes: bool
) -> tuple[OnePass, Tally]:
    """Read all sources into ``part``: once, or until nothing more is learned from them."""
    known, settled = Learned(), None
    for _ in range(MOST_READINGS):
        tally = Tally(settled=settled)
        dates = sources.mapping.dates
        one = OnePass(sources.open(tally), dates=dates, keep_unknown=keep_unknown_codes, known=known)
        one.write(part, out)
        check_messages(sources.messages, tally)
        known = one.learned(part)
        settled = settled or tally.versions.settle()
        if known == one.used and tally.settled is settled:
            return one, tally
        if known == one.used and settled and len(sources.messages) == len(sources.found):
            one = take_out_outdated(part, staged, out, settled=settled, tally=tally)
            check_messages(sources.messages, tally)
            return one, tally
    raise CorpusError(f"{sources.names[0]}: changed while it was read; import it once it is whole")


def take_out_outdated(part: Path, staged: Path, out: Path, *, settled: Settled, tally: Tally) -> OnePass:
    """Write the reports of messages again without those that do not stand: that costs little beside reading them."""
    import polars as pl

    part.replace(staged)
    whole = pl.scan_parquet(one_file(staged))

    def batches(frame: "pl.LazyFrame") -> "Iterator[pl.DataFrame]":
        yield from frame.collect_batches(chunk_size=BATCH, maintain_order=True, engine="streaming")

    stands = np.concatenate(list(tally.leave_out(settled, batches(whole.select("report_id", "date")))))

    def frames() -> "Iterator[pl.DataFrame]":
        place = 0
        for batch in batches(whole):
            yield batch.filter(pl.Series(stands[place : place + batch.height]))
            place += batch.height

    one = OnePass(streamed(frames, whole.collect_schema()), dates=None, keep_unknown=False, known=Learned())
    one.write(part, out)
    return one


def check_messages(messages: Mapping[Path, str], tally: Tally) -> None:
    """Refuse files of messages that hold no report."""
    if messages and not tally.messages:
        raise CorpusError(f"{next(iter(messages))}: holds no DiagnosticReport, only what reports refer to")
    if tally.withdrawn and not tally.reports:
        raise CorpusError(f"all reports that were sent are withdrawn ({tally.withdrawn:,}); nothing is left to import")
    if tally.messages and not tally.reports:
        first = tally.skipped[0]
        raise CorpusError(
            f"{first.file}: no report could be read; {counted(tally.messages, 'message')} skipped, "
            f"the first because it {first.reason}"
        )


def prepare_table(
    frame: "pl.LazyFrame",
    *,
    source: Path | str,
    registry: str | None,
) -> "pl.LazyFrame":
    """Fill in a table's registry and check its types; its columns have our names.

    Labels keep their blanks, and labels and dates the words for nothing: whoever reads each value once sees to both.
    """
    import polars as pl

    frame = missing_as_empty(frame.drop(PLACE, strict=False), ("report_id", "case_id", "registry", "text", "year"))
    if registry is not None and says_registry(frame):
        raise UsageError(f"{source}: has a column 'registry' already; leave out --registry, or registry in the mapping")
    if registry is not None:
        frame = frame.with_columns(pl.lit(registry).alias("registry"))
    missing = [name for name in REQUIRED if name not in frame.collect_schema()]
    try:
        return with_corpus_types(decimals_as_text(frame), source=source, stripped=False)
    except CorpusError as fault:
        if missing == ["registry"]:
            way = 'registry="NAME"' if source == FRAME else "--registry NAME of 'corpus import', or in a mapping"
            raise CorpusError(f"{fault}; say whose reports these are with {way}") from None
        table = "--database VARIABLE" if source == DATABASE else source
        hint = f"; 'pathveil corpus map {table} --out map.toml' proposes which column is which" if missing else ""
        if missing and source == FRAME:
            hint = f'; say which it is with columns={{"{missing[0]}": "ITS NAME"}}'
        title = title_above([name for name in frame.collect_schema().names() if name not in (ROW, "registry")])
        raise CorpusError(f"{fault}{f'; {title}' if missing and title else hint}") from None


def says_registry(frame: "pl.LazyFrame") -> bool:
    """Whether a table has a column of registries with something in it."""
    import polars as pl

    if "registry" not in frame.collect_schema():
        return False
    named = pl.col("registry").cast(pl.String).str.strip_chars() != ""
    return bool(frame.select("registry").filter(named).head(1).collect(engine="streaming").height)


def account(
    out: Path,
    *,
    read: list[ImportedFile],
    others: list[str],
    one: OnePass,
    tally: Tally,
    rows: RowCounts | None,
    joined: Collection[Counter[str]],
    keyed: bool,
) -> ImportResult:
    """What an import read and wrote."""
    import polars as pl

    messages = None
    if any(file.format in MESSAGES for file in read):
        messages = MessageCounts(
            messages=tally.messages,
            reports=tally.reports,
            repeated=tally.repeated,
            replaced=tally.replaced,
            withdrawn=tally.withdrawn,
            undated=tally.undated,
            placeholders=tally.placeholders,
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
        passed_over=others,
        reports=one.registries.total(),
        cases=len(one.cases),
        registries=dict(sorted(one.registries.items())),
        columns=list(pl.read_parquet_schema(out)),
        codes=one.codes.account(),
        hl7=messages,
        tables=rows,
        joined=JoinedRows(**{name: sum(one[name] for one in joined) for name in JoinedRows.model_fields})
        if joined
        else None,
    )
