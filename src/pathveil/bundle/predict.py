"""Reports through a bundle to a file, a batch at a time: tables or HL7 in; CSV, JSONL or NAACCR XML out.

An input needs a column ``text`` and nothing else; ids are kept where there are any. With ``by_case`` (always in NAACCR
XML) the reports of a case are answered together: the mean of their log-probabilities, as if each were one more look at
the same tumour. The input is then read twice, first only to count each case's reports, so that a case is written as
soon as its last report was read and memory holds the open ones alone.
"""

import secrets
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import log_softmax

from pathveil.bundle.coder import Coder, decide
from pathveil.bundle.explanation import explain_text
from pathveil.bundle.folder import Bundle
from pathveil.bundle.outputs import Coded, Write, format_of, writer
from pathveil.corpus.intake import Tally, detect, expand, read_reports
from pathveil.corpus.tables import FORMS, open_table
from pathveil.errors import CorpusError, UsageError
from pathveil.files import new_file
from pathveil.progress import Progress, silent

BATCH = 1_000  # reports coded at a time


@dataclass(frozen=True)
class Incoming:
    """One report to code."""

    report_id: str
    case_id: str | None
    text: str
    number: str | None  # the laboratory's own


@dataclass
class Open:
    """A case whose reports are still coming."""

    reports: list[str]
    number: str | None
    total: dict[str, np.ndarray]  # task: log-probabilities (classes,), summed over reports with a known word
    counted: int = 0  # such reports


def predict(
    bundle: Bundle,
    source: Path,
    out: Path,
    *,
    input_format: str = "auto",
    output_format: str | None = None,
    by_case: bool = False,
    key: bytes | None = None,
    explain: int = 0,
    device: str = "cpu",
    progress: Progress = silent,
) -> dict[str, Any]:
    """Code every report of ``source`` into the file ``out``; counts of what was coded and what was left to people.

    ``explain`` adds, for each task, that many places of the report's text that speak most for or against its code.
    """
    form = format_of(out, output_format)
    if input_format not in ("auto", "hl7", *FORMS):
        raise UsageError(f"--format {input_format} is not known; expected auto, hl7, {', '.join(FORMS)}")
    by_case = by_case or form == "naaccr-xml"
    if explain and (by_case or form != "jsonl"):
        raise UsageError("explanations are places in a report's text: write JSONL, one answer a report")
    secret, tally = key or secrets.token_bytes(32), Tally()
    coder = Coder(bundle, device=device)
    taken = Counter[str]()
    counts = Counter[str]()

    def batches() -> Iterator[list[Incoming]]:
        return read(source, form=input_format, key=secret, tally=tally)

    expected = count_cases(read(source, form=input_format, key=secret, tally=Tally())) if by_case else None
    with new_file(out, error=CorpusError) as part, writer(part, form, bundle.tasks, by_case=by_case) as write:

        def put(coded: Coded) -> None:
            write(coded)
            counts["answers"] += 1
            taken.update(task for task, code in coded.codes.items() if not code.abstained)

        cases: dict[str, Open] = {}
        for batch in batches():
            said, empty = coder.read([report.text for report in batch])
            if expected is None:
                for report, codes in zip(batch, decide(bundle, said, empty=empty), strict=True):
                    why = explain_text(bundle, report.text, top=explain) if explain else {}
                    reasons = {task: reason.as_dict() for task, reason in why.items()}
                    put(Coded(report.case_id, (report.report_id,), codes, report.number, reasons))
            else:
                gather(bundle, batch, said, empty, cases, expected, put)
            counts["reports"] += len(batch)
            progress("coding reports", counts["reports"], 0)
        if not counts["reports"]:
            raise CorpusError(f"{source}: holds no report")
    return {
        "reports": counts["reports"],
        "answers": counts["answers"],
        "by_case": by_case,
        "out": str(out),
        "format": form,
        "bundle": bundle.sha256,
        "skipped_messages": tally.skipped_total,
        "skipped": [message.to_dict() for message in tally.skipped],
        "tasks": {task: {"coded": taken[task], "abstained": counts["answers"] - taken[task]} for task in bundle.tasks},
    }


def gather(
    bundle: Bundle,
    batch: list[Incoming],
    said: Mapping[str, np.ndarray],
    empty: np.ndarray,
    cases: dict[str, Open],
    expected: Counter[str],
    put: Write,
) -> None:
    """Add a batch to the open cases, and write those that are complete."""
    for row, report in enumerate(batch):
        name = case_of(report)
        if name not in cases:
            cases[name] = Open([], None, {task: np.zeros(logs.shape[1]) for task, logs in said.items()})
        case = cases[name]
        case.reports.append(report.report_id)
        case.number = case.number or report.number
        if not empty[row]:
            case.counted += 1
            for task, logs in said.items():
                case.total[task] += logs[row]
        if len(case.reports) == expected[name]:
            del cases[name]
            mean = {task: total[None] / max(case.counted, 1) for task, total in case.total.items()}
            normal = {task: log_softmax(logs, axis=1) for task, logs in mean.items()}
            codes = decide(bundle, normal, empty=np.array([case.counted == 0]))[0]
            put(Coded(report.case_id, tuple(case.reports), codes, case.number))


def case_of(report: Incoming) -> str:
    """A case's name; a report without one is a case of its own."""
    return f"case {report.case_id}" if report.case_id else f"report {report.report_id}"


def count_cases(batches: Iterator[list[Incoming]]) -> Counter[str]:
    return Counter(case_of(report) for batch in batches for report in batch)


def read(source: Path, *, form: str, key: bytes, tally: Tally) -> Iterator[list[Incoming]]:
    """The reports of a file or folder, a batch at a time."""
    number = 0
    for path in expand(source):
        kind = detect(path) if form == "auto" else form
        if kind == "hl7":
            waiting: list[Incoming] = []
            for report in read_reports(path, registry=None, key=key, strict=False, tally=tally):
                waiting.append(Incoming(report.report_id, report.case_id, report.text, report.number))
                if len(waiting) == BATCH:
                    yield waiting
                    waiting = []
            if waiting:
                yield waiting
        else:
            for batch in read_table(path, kind, first=number):
                number += len(batch)
                yield batch


def read_table(path: Path, kind: str, *, first: int) -> Iterator[list[Incoming]]:
    """The reports of a table; rows without an id are numbered from 1 over all files."""
    import polars as pl

    frame = open_table(path, form=kind)
    names = frame.collect_schema().names()
    if "text" not in names:
        raise CorpusError(f"{path}: column 'text' is missing; expected the reports' text there")
    chosen = [
        pl.col(name).cast(pl.String) if name in names else pl.lit(None, pl.String).alias(name)
        for name in ("report_id", "case_id", "text", "report_number")
    ]
    try:
        for rows in frame.select(chosen).collect_batches(chunk_size=BATCH, maintain_order=True, engine="streaming"):
            batch = []
            for report_id, case_id, text, number in rows.iter_rows():
                first += 1
                batch.append(Incoming(report_id or str(first), case_id or None, text or "", number or None))
            if batch:
                yield batch
    except pl.exceptions.PolarsError:
        raise CorpusError(f"{path}: cannot be read to its end; is it cut short or damaged?") from None


def describe(result: Mapping[str, Any]) -> str:
    """What was coded, for people."""
    what = "cases" if result["by_case"] else "reports"
    lines = [f"{result['reports']:,} reports coded into {result['out']}"]
    if result["by_case"]:
        lines[0] += f" ({result['answers']:,} cases)"
    if result["skipped_messages"]:
        first = result["skipped"][0]
        lines.append(
            f"{result['skipped_messages']:,} messages were skipped; the first, message {first['message']} of "
            f"{first['file']}, {first['reason']}"
        )
    lines += ["", f"{'task':<12}{'coded':>10}{'left to a person':>20}"]
    for task, number in result["tasks"].items():
        share = number["coded"] / max(result["answers"], 1)
        lines.append(f"{task:<12}{number['coded']:>10,}{number['abstained']:>14,} ({1 - share:.0%})")
    return "\n".join([*lines, "", f"Counts of {what}."])
