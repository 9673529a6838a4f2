"""What coding reports gives: the answers themselves, or counts of what was written to a file."""

from collections.abc import Sequence
from typing import Any

from pathveil.bundle.coder import Code
from pathveil.bundle.incoming import Origin
from pathveil.bundle.text_answers import answer_lines
from pathveil.corpus.intake import SkippedMessage
from pathveil.corpus.rows import RowCounts
from pathveil.formatting import counted, width_of
from pathveil.icdo.combinations import Contradiction
from pathveil.results import Part, Result


class Prediction(Part):
    """The codes of a report, or of a case's tumour from all its reports."""

    report_ids: tuple[str, ...]
    case_id: str | None
    codes: dict[str, Code]  # by task
    contradictions: tuple[Contradiction, ...]
    reports: tuple[Origin, ...]  # where each was
    tumor: int = 1  # of the case's
    tumors: int = 1
    doubtful: tuple[str, ...] = ()  # ids of reports that may tell of another tumour


class Predictions(Result):
    """What a model says about reports."""

    model_sha256: str
    by_case: bool
    results: tuple[Prediction, ...]
    tables: RowCounts | None = None  # what became of the rows of tables, where there were any
    skipped_messages: int = 0
    warnings: tuple[str, ...] = ()

    def rows(self) -> list[dict[str, Any]]:
        return [self._row(result) for result in self.results]

    def _row(self, result: Prediction) -> dict[str, Any]:
        row: dict[str, Any] = {"case_id": result.case_id}
        links = [vars(one) for one in result.reports]
        if self.by_case:
            row |= {"tumor": result.tumor, "reports": len(links)}
            row |= {f"{name}s": [one[name] for one in links] for name in links[0]}
            row["doubtful"] = list(result.doubtful)
        else:
            row = {"report_id": result.report_ids[0]} | row | links[0]
        row["contradictions"] = [one.sentence for one in result.contradictions]
        for task, code in result.codes.items():
            row |= {task: code.code, f"{task}_term": code.term, f"{task}_probability": code.probability}
            row |= {f"{task}_abstained": code.abstained, f"{task}_lifted": code.lifted}
            row |= {f"{task}_adjusted": code.adjusted}
        return row

    def summary(self) -> str:
        tasks = {task: 0 for result in self.results[:1] for task in result.codes}
        for result in self.results:
            for task, code in result.codes.items():
                tasks[task] += not code.abstained
        told = [*skipped_lines(self.skipped_messages, self.tables), *(f"Note: {warning}" for warning in self.warnings)]
        if len(self.results) == 1:
            return "\n".join([*answer_lines(self.results[0].codes, self.results[0].contradictions), *told])
        answers = counted(len(self.results), "tumour" if self.by_case else "report")
        against = sum(bool(result.contradictions) for result in self.results)
        lines = [answers, "", *coded_table(tasks, len(self.results))]
        return "\n".join([*lines, *(["", contradiction_line(against)] if against else []), *told])

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
    cases: int  # with by_case; else 0
    by_case: bool
    out: str
    sidecar: str | None  # what NAACCR XML has no item for
    format: str
    model_sha256: str
    joint: tuple[str, ...] | None  # rules that codes had to keep
    contradictions: int  # answers with one at least
    skipped_messages: int
    skipped: list[SkippedMessage]  # the first of them
    warnings: list[str]
    tasks: dict[str, TaskCounts]
    tables: RowCounts | None = None  # what became of the rows of tables, where there were any

    def rows(self) -> list[dict[str, Any]]:
        return [{"task": task, **counts.to_dict()} for task, counts in self.tasks.items()]

    def summary(self) -> str:
        cases = f" ({counted(self.answers, 'tumour')} of {counted(self.cases, 'case')})" if self.by_case else ""
        where = "the standard output" if self.out == "-" else self.out
        lines = [f"{counted(self.reports, 'report')} coded into {where}{cases}"]
        if self.sidecar:
            lines.append(f"Probabilities, ids and the next probable codes are in {self.sidecar}.")
        lines += skipped_lines(self.skipped_messages, self.tables, self.skipped)
        table = coded_table({task: counts.coded for task, counts in self.tasks.items()}, self.answers)
        lines += ["", *table, "", f"Counts of {'tumours' if self.by_case else 'reports'}."]
        if self.contradictions:
            lines.append(contradiction_line(self.contradictions))
        return "\n".join([*lines, *(f"Note: {warning}" for warning in self.warnings)])


def skipped_lines(messages: int, tables: RowCounts | None, named: Sequence[SkippedMessage] = ()) -> list[str]:
    """What of an input was skipped: messages with the first of them, and rows as an import tells them."""
    lines = []
    if messages:
        first = f"; the first, message {named[0].message} of {named[0].file}, {named[0].reason}" if named else ""
        lines.append(f"{counted(messages, 'message')} skipped{first}")
    if tables:
        lines += tables.lines()
    return lines


def contradiction_line(number: int) -> str:
    have = "has" if number == 1 else "have"
    return f"{counted(number, 'answer')} {have} codes that contradict each other; each says which."


def coded_table(coded: dict[str, int], answers: int) -> list[str]:
    wide = width_of(coded)
    lines = [f"{'task':<{wide}}{'coded':>10}{'left to a person':>20}"]
    for task, number in coded.items():
        left = answers - number
        lines.append(f"{task:<{wide}}{number:>10,}{left:>14,} ({left / max(answers, 1):.0%})")
    return lines
