"""Reports out of files of messages, HL7 v2 or FHIR: each once, with a count of what was left out and why.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     path = Path(folder) / "lab.hl7"
...     _ = path.write_bytes(b"MSH|^~\\\\&||LAB\\rPID|1||1077^^^LAB^MR\\rOBR|1||S1\\rOBX|1|TX|22637-3||polyp\\r" * 2)
...     tally = Tally()
...     [report.text for report in read_reports(path, registry=None, key=b"secret", strict=False, tally=tally)]
['FINAL DIAGNOSIS\\npolyp']
>>> tally.messages, tally.reports, tally.repeated
(2, 1, 1)
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pathveil.corpus.messages.fhir import Beside, gather_beside, read_resources
from pathveil.corpus.messages.naaccr import Report, Skipped, read_messages
from pathveil.corpus.messages.versions import RENEWED, Settled, Version, Versions
from pathveil.corpus.rows import LISTED
from pathveil.corpus.seen import Seen
from pathveil.corpus.tables.files import BATCH, UNREADABLE, streamed
from pathveil.errors import CorpusError
from pathveil.files import name_of
from pathveil.progress import Progress
from pathveil.results import Part
from pathveil.untrusted.archives import open_bytes

if TYPE_CHECKING:
    import polars as pl


class SkippedMessage(Part):
    """A message that could not be used, and where it is."""

    file: str
    message: int
    line: int
    reason: str


@dataclass
class Tally:
    """What happened while messages were read."""

    messages: int = 0
    reports: int = 0
    repeated: int = 0  # sent before, word for word
    replaced: int = 0  # by a later version
    withdrawn: int = 0  # later
    undated: int = 0
    masked: int = 0  # places where a text named its patient
    masked_reports: int = 0
    placeholders: int = 0  # reports that have one in the place of the patient's number
    with_placeholder: Seen = field(default_factory=Seen)  # which, by the hashes of their ids
    rewritten: int = 0  # texts of tables that were RTF or pages
    skipped: list[SkippedMessage] = field(default_factory=list)  # the first ones
    skipped_total: int = 0
    seen: Seen = field(default_factory=Seen)  # report ids
    versions: Versions = field(default_factory=Versions)
    settled: Settled | None = None  # what an earlier reading found of them

    def note(self, report: Report, number: int) -> None:
        """Note which version a report, ``number`` by the hash of its id, is; also where it is sent again."""
        if self.settled is None and report.version:
            self.versions.add(report.version, number, report.masked)

    def note_withdrawn(self, versions: tuple[Version, ...], beside: list[Report]) -> None:
        """Note what a message withdraws; the reports ``beside`` it in that message are no part of it."""
        keys = {report.version.key for report in beside if report.version}
        for version in versions:
            self.versions.add(version._replace(state=RENEWED) if version.key in keys else version)

    def stands(self, number: int) -> bool:
        """Whether a report is the version that stands, as far as is known yet."""
        if self.settled is None:
            return True
        is_replaced, is_withdrawn = self.settled.replaced.holds(number), self.settled.withdrawn.holds(number)
        self.replaced += is_replaced
        self.withdrawn += is_withdrawn
        return not is_replaced and not is_withdrawn

    def leave_out(self, settled: Settled, reports: "Iterable[pl.DataFrame]") -> "Iterator[np.ndarray]":
        """Which of the reports that were read stand, batch by batch; those that do not are counted as such alone."""
        self.settled, self.reports, self.undated, self.placeholders = settled, 0, 0, 0
        for batch in reports:
            numbers = [number_of(one) for one in batch["report_id"]]
            stand = np.array([self.stands(number) for number in numbers], bool)
            self.placeholders += sum(self.with_placeholder.holds(numbers[place]) for place in np.flatnonzero(stand))
            self.reports += int(stand.sum())
            self.undated += int((batch["date"].is_null().to_numpy() & stand).sum())
            yield stand
        masked = self.versions.masked_of(settled)
        self.masked -= sum(masked)
        self.masked_reports -= sum(count > 0 for count in masked)


def number_of(report_id: str) -> int:
    """A report's id, which is a hash, as a number."""
    return int(report_id.removeprefix("report-")[:16], 16)


FIELDS = {"report_number": "number", "message_position": "position"}  # columns that a Report calls otherwise


def scan_messages(
    paths: Mapping[Path, str], *, registry: str | None, key: bytes, strict: bool, tally: Tally, progress: Progress
) -> "pl.LazyFrame":
    """A lazy frame of the reports in files of messages, each with its form; ``tally`` counts while it is read."""
    import polars as pl

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

    def frame(some: list[tuple[Report, str]]) -> "pl.DataFrame":
        values = {
            name: [getattr(report, FIELDS.get(name, name)) for report, _ in some]
            for name in schema
            if name != "message_file"
        }
        return pl.DataFrame(values | {"message_file": [name for _, name in some]}, schema=schema)

    def frames() -> Iterator["pl.DataFrame"]:
        waiting: list[tuple[Report, str]] = []
        beside = gather_beside([path for path, form in paths.items() if form == "fhir"])
        for path, form in paths.items():
            name = name_of(path.name)
            for report in read_reports(
                path, form=form, registry=registry, key=key, strict=strict, tally=tally, beside=beside
            ):
                waiting.append((report, name))
                if len(waiting) == BATCH:
                    progress("reading messages", tally.messages, 0)
                    yield frame(waiting)
                    waiting = []
        yield frame(waiting)

    return streamed(frames, schema)


def settle_versions(
    paths: Mapping[Path, str], *, registry: str | None, key: bytes, beside: Beside | None
) -> Settled | None:
    """Read files of messages, each with its form, to learn which versions of reports stand; none where all do."""
    tally = Tally()
    for path, form in paths.items():
        for _ in read_reports(path, form=form, registry=registry, key=key, strict=False, tally=tally, beside=beside):
            pass
    return tally.versions.settle()


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
    before, withdrawn = tally.messages, ()
    try:
        with open_bytes(path) as file:
            if form == "fhir":
                found = read_resources(file, key=key, registry=registry, beside=beside)
            else:
                found = read_messages(file, key=key, registry=registry)
            for message in found:
                if isinstance(message, Skipped):
                    tally.messages += not message.part
                    withdrawn += message.withdraws
                    if not message.part:  # else its reports follow
                        tally.note_withdrawn(withdrawn, [])
                        withdrawn = ()
                    note_skipped(message, path=path, strict=strict, tally=tally)
                    continue
                tally.messages += 1
                if withdrawn:
                    tally.note_withdrawn(withdrawn, message)
                    withdrawn = ()
                for report in message:
                    number = number_of(report.report_id)
                    is_new = tally.seen.add(number)
                    tally.note(report, number)
                    if not is_new:
                        tally.repeated += 1
                        continue
                    if not tally.stands(number):
                        continue
                    tally.reports += 1
                    tally.undated += report.date is None
                    tally.masked += report.masked
                    tally.masked_reports += report.masked > 0
                    if report.placeholder:
                        tally.placeholders += tally.with_placeholder.add(number)
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
