"""Reports through a model, a batch at a time: texts, frames, tables or HL7 in; ``Predictions`` or a file out.

With ``by_case`` (always in NAACCR XML) the reports of a case are answered together, each tumour that they tell of by
itself (``pathveil.bundle.tumours``): the mean of its reports' log-probabilities, as if each were one more look at the
same tumour. With ``one_tumor`` a case is one tumour whatever its reports say, as where case ids name tumours. The input
is then read twice, first only to count each case's reports, so that a case is answered as soon as its last report was
read and memory holds the open ones alone.
"""

import secrets
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import numpy as np

from pathveil.bundle.coder import Code, Coder, decide, nothing_read
from pathveil.bundle.explanation import explain_reading, read_to_explain
from pathveil.bundle.incoming import Incoming, OneReading, Origin, Reports, batches_of, read_files
from pathveil.bundle.joint import Rules
from pathveil.bundle.model import Model
from pathveil.bundle.naaccr_xml import TASKS, certain_reports, patient_number, report_numbers, sidecar_of, xml_writer
from pathveil.bundle.outputs import Coded, Write, check_written, format_of, line_writer
from pathveil.bundle.predictions import Prediction, Predictions, PredictionSummary, TaskCounts
from pathveil.bundle.text_answers import contradictions_of
from pathveil.bundle.tumours import answer_tumours
from pathveil.corpus.intake import check_messages
from pathveil.corpus.mapping import AnyMapping
from pathveil.corpus.rows import MOST_SKIPPED
from pathveil.corpus.seen import Seen
from pathveil.corpus.tables.files import FORMS, OTHER_FORMS
from pathveil.corpus.tables.opening import MESSAGES, passed_over, sentence_of
from pathveil.errors import CorpusError, UsageError
from pathveil.files import new_file
from pathveil.formatting import counted, listed
from pathveil.progress import Progress, silent

FORGOTTEN_KEY = (
    "case and report ids of messages were made with a key that was not kept, so they match no other run; "
    "--key-file keeps them. Report number, message id, file and position lead to the reports all the same."
)


@dataclass(frozen=True)
class Asked:
    """How reports are to be answered."""

    by_case: bool = False
    one_tumor: bool = False  # of a case, whatever its reports say
    joint: Rules | None = None
    explain: int = 0  # places for each code
    with_text: bool = False


@dataclass
class OpenCase:
    """A case whose reports are still coming."""

    case_id: str | None
    origins: list[Origin] = field(default_factory=list)
    codes: list[dict[str, Code]] = field(default_factory=list)  # of each report alone
    logs: dict[str, list[np.ndarray]] = field(default_factory=dict)  # task: each report's log-probabilities (classes,)
    empty: list[bool] = field(default_factory=list)  # reports of which the model reads nothing


def predict(
    model: Model,
    reports: Reports,
    *,
    by_case: bool = False,
    one_tumor: bool = False,
    joint: Iterable[str] | None = None,
    device: str = "cpu",
    progress: Progress = silent,
) -> Predictions:
    """Code reports and keep the answers: texts, a frame with a column ``text``, or a file or folder."""
    secret = secrets.token_bytes(32)
    asked = Asked(by_case=by_case, one_tumor=one_tumor, joint=rules_of(model, joint))
    readings: list[OneReading] = []

    def batches() -> Iterator[list[Incoming]]:
        readings.append(OneReading())
        return batches_of(reports, key=secret, reading=readings[-1])

    counts = Counts()
    answers = counts.of(code(Coder(model, device=device), batches, asked=asked, progress=progress))
    results = tuple(
        Prediction(
            report_ids=tuple(one.report_id for one in coded.reports),
            case_id=coded.case_id,
            codes=dict(coded.codes),
            contradictions=coded.contradictions,
            reports=coded.reports,
            tumor=coded.tumor,
            tumors=coded.tumors,
            doubtful=tuple(one.report_id for one in coded.doubtful),
        )
        for coded in answers
    )
    return Predictions(
        model_sha256=model.model_sha256,
        by_case=by_case,
        results=results,
        tables=readings[-1].rows,
        skipped_messages=readings[-1].tally.skipped_total,
        warnings=tuple(warnings_of(readings[-1], counts, keyed=False, by_case=by_case)),
    )


def predict_to_file(
    model: Model,
    source: Path,
    out: Path | IO[str],
    *,
    input_format: str = "auto",
    mapping: AnyMapping = None,
    output_format: str | None = None,
    by_case: bool = False,
    one_tumor: bool = False,
    joint: Iterable[str] | None = None,
    key: bytes | None = None,
    explain: int = 0,
    with_text: bool = False,
    most_skipped: float = MOST_SKIPPED,
    strict: bool = False,
    device: str = "cpu",
    progress: Progress = silent,
) -> PredictionSummary:
    """Code every report of ``source`` into the file ``out``; counts of what was coded and what was left to people.

    ``mapping``, or its file, says how tables are written and what their columns are called. ``out`` may be a stream,
    such as the standard output. ``joint`` names rules that a report's codes must keep (``pathveil.bundle.joint``).
    ``explain`` adds, for each task, that many places of the report's text that speak most for or against its code, and
    ``with_text`` the text that they lie in. Messages and rows that cannot be read are skipped and counted; ``strict``
    refuses the first, and a table of which more than the share ``most_skipped`` is such rows is refused.
    """
    if not isinstance(out, Path) and not hasattr(out, "write"):
        raise UsageError(f"out: expected the name of a file, or a stream; got {type(out).__name__}")
    path = out if isinstance(out, Path) else None
    form = format_of(path, output_format)
    known = ("auto", "text", *MESSAGES, *FORMS, *(name for name in OTHER_FORMS if name != "naaccr"))
    if input_format not in known:
        raise UsageError(f"--format {input_format} is not known; expected {', '.join(known)}")
    if form == "naaccr-xml" and path is None:
        raise UsageError("NAACCR XML has a second file beside it, so it cannot go to the standard output; name a file")
    if form == "naaccr-xml" and not any(task in model.tasks for task in TASKS):
        raise UsageError(
            f"NAACCR XML has items for {listed(TASKS)}, and the model codes none of these (it codes "
            f"{listed(model.tasks)}); write CSV or JSONL"
        )
    if path is not None:
        written = [path, sidecar_of(path)] if form == "naaccr-xml" else [path]
        check_written(written, sources=[source])
    asked = Asked(by_case or form == "naaccr-xml", one_tumor, rules_of(model, joint), explain, with_text)
    if one_tumor and not asked.by_case:
        raise UsageError("--one-tumor says how reports of a case are answered together; give --by-case too")
    if (explain or with_text) and (asked.by_case or form != "jsonl"):
        raise UsageError("explanations are places in a report's text: write JSONL, one answer a report")
    secret = key or secrets.token_bytes(32)
    readings: list[OneReading] = []  # one each time the input is read

    def batches() -> Iterator[list[Incoming]]:
        readings.append(reading := OneReading(most_skipped=most_skipped, strict=strict))
        for batch in read_files(source, form=input_format, key=secret, reading=reading, mapping=mapping):
            if explain and not with_text:
                check_places(reading)
            yield batch

    rules = tuple(joint) if joint is not None else None
    counts = Counts(xml=form == "naaccr-xml")
    with open_output(out, form, model.tasks, by_case=asked.by_case, joint=rules is not None) as write:
        for coded in counts.of(code(Coder(model, device=device), batches, asked=asked, progress=progress)):
            write(coded)
        if not counts.reports:
            check_messages({}, readings[-1].tally)  # which says why none could be read
            raise CorpusError(f"{source}: holds no report")
    tally = readings[-1].tally
    return PredictionSummary(
        reports=counts.reports,
        answers=counts.answers,
        cases=counts.cases if asked.by_case else 0,
        by_case=asked.by_case,
        out="-" if path is None else str(path),
        sidecar=str(sidecar_of(path)) if path and form == "naaccr-xml" else None,
        format=form,
        model_sha256=model.model_sha256,
        joint=rules,
        contradictions=counts.contradictions,
        skipped_messages=tally.skipped_total,
        skipped=tally.skipped,
        warnings=[
            *([f"not read: {sentence_of(others)}."] if (others := passed_over(source)) else []),
            *warnings_of(readings[-1], counts, keyed=key is not None, by_case=asked.by_case),
        ],
        tasks={
            task: TaskCounts(coded=counts.taken[task], abstained=counts.answers - counts.taken[task])
            for task in model.tasks
        },
        tables=readings[-1].rows,
    )


def check_places(reading: OneReading) -> None:
    """Refuse to name places of texts that nobody has as they are coded."""
    ways = (
        (reading.tally.messages, "put together from a message"),
        (reading.put_together, "put together from several columns, rows or a list"),
        (reading.tally.rewritten, "made from RTF or a page"),
    )
    for is_so, how in ways:
        if is_so:
            raise UsageError(
                f"the places of an explanation lie in the text as it is {how}, which you do not have; "
                "give that text along with --with-text"
            )


@dataclass
class Counts:
    """What was written so far."""

    reports: int = 0
    answers: int = 0
    cases: int = 0
    without_case: int = 0  # reports
    contradictions: int = 0  # answers with one
    doubtful: int = 0  # reports that may tell of another tumour than the one they were taken for
    unread: int = 0  # reports of which the model reads nothing
    taken: Counter[str] = field(default_factory=Counter)  # task: answers that are sure
    ids: Seen = field(default_factory=Seen)  # hashes of report ids
    repeated: int = 0  # reports with the id of one before
    xml: bool = False
    patients: Seen = field(default_factory=Seen)  # numbers of patients that NAACCR XML has
    is_patient_known: bool = False  # whether the last one has such a number
    unlinked: int = 0  # answers that no number in NAACCR XML leads back from
    unnumbered: int = 0  # those of them none of whose reports has a number at all

    def of(self, answers: Iterable[Coded]) -> Iterator[Coded]:
        """The same answers, counted as they pass."""
        for coded in answers:
            self.add(coded)
            yield coded

    def add(self, coded: Coded) -> None:
        self.answers += 1
        self.reports += len(coded.reports)
        self.cases += coded.tumor == 1
        self.without_case += coded.case_id is None
        self.contradictions += bool(coded.contradictions)
        self.doubtful += len(coded.doubtful)
        self.unread += coded.unread
        if self.xml:
            self.add_links(coded)
        self.repeated += sum(not self.ids.add(hash(one.report_id) % 2**64) for one in coded.reports)
        self.taken.update(task for task, code in coded.codes.items() if not code.abstained)

    def add_links(self, coded: Coded) -> None:
        """Whether a number of its patient or of a report leads back from the XML; numbers as its writer gives them."""
        if coded.tumor == 1:
            self.is_patient_known = bool(patient_number(coded.case_id, self.patients))
        if not self.is_patient_known and not report_numbers(certain_reports(coded)):
            self.unlinked += 1
            self.unnumbered += not any(one.report_number for one in coded.reports)


def warnings_of(reading: OneReading, counts: Counts, *, keyed: bool, by_case: bool) -> list[str]:
    """What a user should know who goes on with the file."""
    tally = reading.tally
    found = [FORGOTTEN_KEY] if tally.messages and not keyed else []
    if counts.unread:
        found.append(nothing_read(counts.unread))
    found += repeated_ids(counts)
    if tally.replaced or tally.withdrawn:
        ends = ((tally.replaced, "replaced by a later version"), (tally.withdrawn, "withdrawn by a later message"))
        found.append(" and ".join(f"{counted(n, 'report')} {end}" for n, end in ends if n) + ": not coded.")
    if by_case and counts.without_case:
        which = "it" if counts.without_case == 1 else "each"
        found.append(f"{counted(counts.without_case, 'report')} without a case id: {which} is a case of its own.")
    if counts.unlinked:
        have, their, line = ("has", "its", "line") if counts.unlinked == 1 else ("have", "their", "lines")
        # Another column helps a table that has none of these numbers; not messages, nor numbers that are too long.
        helps = counts.unnumbered and not tally.messages and not reading.numbered
        remedy = "; --column report_number=THEIRS names the laboratory's numbers" if helps else ""
        found.append(
            f"{counted(counts.unlinked, 'tumour')} {have} no number of a patient or a report in the XML, so only "
            f"{their} order leads to the {line} beside it{remedy}."
        )
    if counts.doubtful:
        them, numbers = ("it", "its number is") if counts.doubtful == 1 else ("them", "their numbers are")
        which = f"; {numbers} not in the XML" if counts.xml else ""
        found.append(
            f"{counted(counts.doubtful, 'report')} may tell of another tumour ('doubtful' names {them}){which}."
        )
    return found


def repeated_ids(counts: Counts) -> list[str]:
    """What to say where ids do not lead from a code to one report."""
    if not counts.repeated:
        return []
    have = "has" if counts.repeated == 1 else "have"
    return [
        f"{counted(counts.repeated, 'report')} {have} the report_id of an earlier one: the id alone does not lead from "
        "codes to their report; file and position do."
    ]


def rules_of(model: Model, joint: Iterable[str] | None) -> Rules | None:
    return None if joint is None else Rules.of(model.labels, joint)


@contextmanager
def open_output(
    out: Path | IO[str], form: str, tasks: Sequence[str], *, by_case: bool, joint: bool
) -> Generator[Write]:
    """A function that writes an answer; files take their names only when all is written."""
    if not isinstance(out, Path):
        yield line_writer(out, form, tasks, by_case=by_case, joint=joint)
    elif form == "naaccr-xml":
        with (
            new_file(sidecar_of(out), error=CorpusError) as beside,
            new_file(out, error=CorpusError) as part,
            xml_writer(part, beside) as write,
        ):
            yield write
    else:
        with (
            new_file(out, error=CorpusError) as part,
            part.open("w", encoding="utf-8", newline="") as file,
        ):
            yield line_writer(file, form, tasks, by_case=by_case, joint=joint)


def code(
    coder: Coder,
    batches: Callable[[], Iterable[list[Incoming]]],
    *,
    asked: Asked = Asked(),
    progress: Progress = silent,
) -> Iterator[Coded]:
    """The codes of each report, or of each case's tumours; ``batches`` gives the reports anew at each call."""
    expected = Counter(report.case for batch in batches() for report in batch) if asked.by_case else Counter()
    cases: dict[str, OpenCase] = {}
    done = 0
    for batch in batches():
        texts = [report.text for report in batch]
        if asked.explain:
            logs, empty, readings = read_to_explain(coder, texts)
        else:
            (logs, empty), readings = coder.read(texts), [None] * len(batch)
        decided = decide(coder.model, logs, empty=empty, joint=asked.joint)
        if asked.by_case:
            for case in finished_cases(batch, decided, logs, empty, cases, expected):
                yield from tumours_of(coder.model, case, asked)
        else:
            for report, codes, reading, unread in zip(batch, decided, readings, empty.tolist(), strict=True):
                why = explain_reading(coder, reading, codes, top=asked.explain) if reading else None
                text = report.text if asked.with_text else None
                against = contradictions_of(codes)
                yield Coded(report.case_id, (report.origin,), codes, against, why, text, unread=unread)
        done += len(batch)
        progress("coding reports", done, 0)


def finished_cases(
    batch: Sequence[Incoming],
    decided: Sequence[dict[str, Code]],
    logs: dict[str, np.ndarray],
    empty: np.ndarray,
    cases: dict[str, OpenCase],
    expected: Counter[str],
) -> Iterator[OpenCase]:
    """Add a batch to the open cases, and take out those that are complete."""
    for row, (report, codes) in enumerate(zip(batch, decided, strict=True)):
        case = cases.setdefault(report.case, OpenCase(report.case_id))
        case.origins.append(report.origin)
        case.codes.append(codes)
        case.empty.append(bool(empty[row]))
        for task, said in logs.items():
            case.logs.setdefault(task, []).append(said[row].copy())  # a view would keep its whole batch in memory
        if len(case.origins) == expected[report.case]:
            yield cases.pop(report.case)


def tumours_of(model: Model, case: OpenCase, asked: Asked) -> Iterator[Coded]:
    """The answer for each tumour that the reports of a case tell of."""
    logs = {task: np.stack(said) for task, said in case.logs.items()}  # (reports, classes)
    empty = np.array(case.empty)
    found = answer_tumours(model, case.codes, logs, empty=empty, one_tumor=asked.one_tumor, joint=asked.joint)
    for number, (group, codes, doubtful) in enumerate(found, start=1):
        yield Coded(
            case.case_id,
            tuple(case.origins[row] for row in group),
            codes,
            contradictions_of(codes),
            unread=sum(case.empty[row] for row in group),
            tumor=number,
            tumors=len(found),
            doubtful=tuple(case.origins[row] for row in doubtful),
        )
