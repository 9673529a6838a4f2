"""Reports through a model, a batch at a time: texts, frames, tables or HL7 in; ``Predictions`` or a file out.

An input needs a column ``text`` and nothing else; ids are kept where there are any. With ``by_case`` (always in NAACCR
XML) the reports of a case are answered together: the mean of their log-probabilities, as if each were one more look at
the same tumour. The input is then read twice, first only to count each case's reports, so that a case is answered as
soon as its last report was read and memory holds the open ones alone.
"""

import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import log_softmax

from pathveil.bundle.coder import Code, Coder, decide
from pathveil.bundle.explanation import explain_codes
from pathveil.bundle.model import Model
from pathveil.bundle.outputs import Coded, format_of, writer
from pathveil.corpus import Corpus
from pathveil.corpus.intake import SkippedMessage, Tally, detect_format, expand_folders, read_reports
from pathveil.corpus.reading import as_polars
from pathveil.corpus.tables import FORMS, open_table
from pathveil.errors import CorpusError, UsageError
from pathveil.files import new_file
from pathveil.progress import Progress, silent
from pathveil.results import Part, Result
from pathveil.wording import counted

if TYPE_CHECKING:
    import polars as pl

BATCH = 1_000  # reports coded at a time

EXPECTED = "expected a list of texts, a frame with a column 'text', a Corpus or a path"

Reports = Any  # what EXPECTED says; polars is not imported to name its frames


class Prediction(Part):
    """The codes of a report, or of a case from all its reports."""

    report_ids: tuple[str, ...]
    case_id: str | None
    codes: dict[str, Code]  # by task


class Predictions(Result):
    """What a model says about reports."""

    bundle: str  # sha256 of the model's bundle; empty where it was never saved
    by_case: bool
    results: tuple[Prediction, ...]

    def rows(self) -> list[dict[str, Any]]:
        return [self._row(result) for result in self.results]

    def _row(self, result: Prediction) -> dict[str, Any]:
        row: dict[str, Any] = {"case_id": result.case_id}
        if self.by_case:
            row["reports"] = len(result.report_ids)
        else:
            row = {"report_id": result.report_ids[0]} | row
        for task, code in result.codes.items():
            row |= {task: code.code, f"{task}_probability": code.probability}
            row |= {f"{task}_abstained": code.abstained, f"{task}_lifted": code.lifted}
        return row

    def summary(self) -> str:
        tasks = {task: 0 for result in self.results[:1] for task in result.codes}
        for result in self.results:
            for task, code in result.codes.items():
                tasks[task] += not code.abstained
        answers = counted(len(self.results), "case" if self.by_case else "report")
        return "\n".join([answers, "", *coded_table(tasks, len(self.results))])

    def __len__(self) -> int:
        return len(self.results)


class TaskCounts(Part):
    """Answers that were given, and that were left to a person."""

    coded: int
    abstained: int


class PredictionSummary(Result):
    """What was coded into a file."""

    reports: int
    answers: int
    by_case: bool
    out: str
    format: str
    bundle: str  # sha256
    skipped_messages: int
    skipped: list[SkippedMessage]  # the first of them
    tasks: dict[str, TaskCounts]

    def rows(self) -> list[dict[str, Any]]:
        return [{"task": task, **counts.to_dict()} for task, counts in self.tasks.items()]

    def summary(self) -> str:
        cases = f" ({self.answers:,} cases)" if self.by_case else ""
        lines = [f"{self.reports:,} reports coded into {self.out}{cases}"]
        if self.skipped_messages:
            first = self.skipped[0]
            lines.append(
                f"{self.skipped_messages:,} messages were skipped; the first, message {first.message} of "
                f"{first.file}, {first.reason}"
            )
        table = coded_table({task: counts.coded for task, counts in self.tasks.items()}, self.answers)
        return "\n".join([*lines, "", *table, "", f"Counts of {'cases' if self.by_case else 'reports'}."])


def coded_table(coded: dict[str, int], answers: int) -> list[str]:
    lines = [f"{'task':<12}{'coded':>10}{'left to a person':>20}"]
    for task, number in coded.items():
        left = answers - number
        lines.append(f"{task:<12}{number:>10,}{left:>14,} ({left / max(answers, 1):.0%})")
    return lines


@dataclass(frozen=True)
class Incoming:
    """One report to code."""

    report_id: str
    case_id: str | None
    text: str
    number: str | None = None  # the laboratory's own

    @property
    def case(self) -> str:
        """The name of its case; a report without one is a case of its own."""
        return f"case {self.case_id}" if self.case_id else f"report {self.report_id}"


@dataclass
class OpenCase:
    """A case whose reports are still coming."""

    total: dict[str, np.ndarray]  # task: log-probabilities (classes,), summed over reports with a known word
    reports: list[str] = field(default_factory=list)
    number: str | None = None
    counted: int = 0  # reports with a known word


def predict(
    model: Model, reports: Reports, *, by_case: bool = False, device: str = "cpu", progress: Progress = silent
) -> Predictions:
    """Code reports and keep the answers: texts, a frame with a column ``text``, or a file or folder."""
    secret = secrets.token_bytes(32)
    answers = code(
        Coder(model, device=device),
        lambda: batches_of(reports, key=secret, tally=Tally()),
        by_case=by_case,
        progress=progress,
    )
    results = tuple(
        Prediction(report_ids=coded.report_ids, case_id=coded.case_id, codes=dict(coded.codes)) for coded in answers
    )
    return Predictions(bundle=model.sha256, by_case=by_case, results=results)


def predict_to_file(
    model: Model,
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
) -> PredictionSummary:
    """Code every report of ``source`` into the file ``out``; counts of what was coded and what was left to people.

    ``explain`` adds, for each task, that many places of the report's text that speak most for or against its code.
    """
    form = format_of(out, output_format)
    if input_format not in ("auto", "hl7", *FORMS):
        raise UsageError(f"--format {input_format} is not known; expected auto, hl7, {', '.join(FORMS)}")
    by_case = by_case or form == "naaccr-xml"
    if explain and (by_case or form != "jsonl"):
        raise UsageError("explanations are places in a report's text: write JSONL, one answer a report")
    secret = key or secrets.token_bytes(32)
    tallies: list[Tally] = []  # one each time the input is read
    taken, reports, answers = Counter[str](), 0, 0

    def batches() -> Iterator[list[Incoming]]:
        tallies.append(Tally())
        return read_files(source, form=input_format, key=secret, tally=tallies[-1])

    coder = Coder(model, device=device)
    with new_file(out, error=CorpusError) as part, writer(part, form, model.tasks, by_case=by_case) as write:
        for coded in code(coder, batches, by_case=by_case, explain=explain, progress=progress):
            write(coded)
            answers += 1
            reports += len(coded.report_ids)
            taken.update(task for task, code in coded.codes.items() if not code.abstained)
        if not reports:
            raise CorpusError(f"{source}: holds no report")
    return PredictionSummary(
        reports=reports,
        answers=answers,
        by_case=by_case,
        out=str(out),
        format=form,
        bundle=model.sha256,
        skipped_messages=tallies[-1].skipped_total,
        skipped=tallies[-1].skipped,
        tasks={task: TaskCounts(coded=taken[task], abstained=answers - taken[task]) for task in model.tasks},
    )


def code(
    coder: Coder,
    batches: Callable[[], Iterable[list[Incoming]]],
    *,
    by_case: bool,
    explain: int = 0,
    progress: Progress = silent,
) -> Iterator[Coded]:
    """The codes of each report, or of each case; ``batches`` gives the reports anew each time it is called."""
    expected = Counter(report.case for batch in batches() for report in batch) if by_case else Counter()
    cases: dict[str, OpenCase] = {}
    done = 0
    for batch in batches():
        log_probabilities, empty = coder.read([report.text for report in batch])
        if by_case:
            yield from finished_cases(coder.model, batch, log_probabilities, empty, cases, expected)
        else:
            for report, codes in zip(batch, decide(coder.model, log_probabilities, empty=empty), strict=True):
                why = explain_codes(coder.model, report.text, codes, top=explain) if explain else None
                yield Coded(report.case_id, (report.report_id,), codes, report.number, why)
        done += len(batch)
        progress("coding reports", done, 0)


def finished_cases(
    model: Model,
    batch: Sequence[Incoming],
    log_probabilities: dict[str, np.ndarray],
    empty: np.ndarray,
    cases: dict[str, OpenCase],
    expected: Counter[str],
) -> Iterator[Coded]:
    """Add a batch to the open cases, and take out those that are complete."""
    for row, report in enumerate(batch):
        if report.case not in cases:
            cases[report.case] = OpenCase({task: np.zeros(logs.shape[1]) for task, logs in log_probabilities.items()})
        case = cases[report.case]
        case.reports.append(report.report_id)
        case.number = case.number or report.number
        if not empty[row]:
            case.counted += 1
            for task, logs in log_probabilities.items():
                case.total[task] += logs[row]
        if len(case.reports) == expected[report.case]:
            del cases[report.case]
            mean = {task: total[None] / max(case.counted, 1) for task, total in case.total.items()}
            normal = {task: log_softmax(logs, axis=1) for task, logs in mean.items()}
            codes = decide(model, normal, empty=np.array([case.counted == 0]))[0]
            yield Coded(report.case_id, tuple(case.reports), codes, case.number)


def batches_of(reports: Reports, *, key: bytes, tally: Tally) -> Iterator[list[Incoming]]:
    """Reports from wherever they are, a batch at a time."""
    if isinstance(reports, str | Path):
        if isinstance(reports, str) and not is_path(reports):
            raise UsageError("a text alone is taken for a path, and there is none of this name; give a list of texts")
        yield from read_files(Path(reports), form="auto", key=key, tally=tally)
        return
    if isinstance(reports, Sequence):
        if not all(isinstance(text, str) for text in reports):
            raise UsageError(EXPECTED)
        for start in range(0, len(reports), BATCH):
            texts = enumerate(reports[start : start + BATCH], start=start + 1)
            yield [Incoming(str(number), None, text) for number, text in texts]
        return
    frame = reports.lazy() if isinstance(reports, Corpus) else as_polars(reports)
    if frame is None:
        raise UsageError(f"{EXPECTED}; got {type(reports).__name__}")
    yield from read_frame(frame, source="the frame", first=0)


def is_path(text: str) -> bool:
    try:
        return Path(text).exists()
    except OSError:  # too long for a name
        return False


def read_files(source: Path, *, form: str, key: bytes, tally: Tally) -> Iterator[list[Incoming]]:
    """The reports of a file or folder, a batch at a time; table rows without an id are numbered from 1 over all."""
    number = 0
    for path in expand_folders(source):
        kind = detect_format(path) if form == "auto" else form
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
            for batch in read_frame(open_table(path, form=kind), source=path, first=number):
                number += len(batch)
                yield batch


def read_frame(frame: "pl.LazyFrame", *, source: Path | str, first: int) -> Iterator[list[Incoming]]:
    """The reports of a table; rows without an id are numbered after ``first``."""
    import polars as pl

    names = frame.collect_schema().names()
    if "text" not in names:
        raise CorpusError(f"{source}: column 'text' is missing; expected the reports' text there")
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
        raise CorpusError(f"{source}: cannot be read to its end; is it cut short or damaged?") from None
