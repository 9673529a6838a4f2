"""What the model says about reports, in the shape that clients get: codes with terms, and as much detail as is allowed.

A report's answer has, for each task, the code, its term, whether the model abstains and, as ``detail`` allows, how
probable the code is, the two next ones, and the places in the text that spoke for it. With ``labels`` there is a code
and nothing else: the order of the next codes, and what a word weighs, are answers of the same network.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from pydantic import Field

from pathveil.bundle import explanation
from pathveil.bundle.answers import contradictions_of
from pathveil.bundle.coder import Code, Coder, decide
from pathveil.bundle.explanation import explain_codes
from pathveil.bundle.model import Model
from pathveil.bundle.tumours import answer_tumours
from pathveil.results import Part
from pathveil.serve.detail import told
from pathveil.serve.sent import Sent
from pathveil.serve.settings import Detail


class Place(Part):
    """Characters ``start`` to ``end`` of the report's text that spoke for (or, below 0, against) the code."""

    start: int
    end: int
    weight: float


class Alternative(Part):
    """A code that the model holds for less likely."""

    code: str
    term: str | None
    probability: float | str | None = Field(None, description="A number, or the name of a band; absent for labels.")


class CodeOut(Part):
    """A task's code."""

    code: str
    term: str | None
    probability: float | str | None = Field(None, description="A number, or the name of a band; absent for labels.")
    abstained: bool = Field(description="The model is not sure enough: a person decides.")
    lifted: bool = Field(False, description="Another code is more probable; this one is rarer.")
    alternatives: list[Alternative] = Field(default_factory=list)
    places: list[Place] | None = None


class ReportOut(Part):
    """A report's codes, or a case's from all its reports."""

    report_id: str | None = None
    report_ids: list[str] | None = Field(None, description="Of an answer by case.")
    case_id: str | None = None
    report_number: str | None = Field(None, description="The laboratory's own, where the message had it.")
    codes: dict[str, CodeOut]
    contradictions: list[str] = Field(description="Codes of different tasks that do not go together.")
    text: str | None = Field(
        None, description="The text that the places are places of, where it was put together from a message's fields."
    )


class CodeResponse(Part):
    """What the model says."""

    model: str = Field(description="sha256 of the model's bundle.")
    results: list[ReportOut]


@dataclass(frozen=True)
class Asked:
    """How reports are to be answered."""

    places: int = 0
    by_case: bool = False


class Answerer:
    """Answers for a model, with a detail that never changes; not to be used from two threads at once."""

    def __init__(self, model: Model, *, detail: Detail = "probabilities"):
        self.model, self.detail = model, detail
        self.coder = Coder(model)

    def answer(self, reports: Sequence[Sent], asked: Asked = Asked()) -> list[ReportOut]:
        """The answers to some reports, in their order; by case, in the order of the cases' first reports."""
        log_probabilities, empty = self.coder.read([report.text for report in reports])
        if asked.by_case:
            return self._by_case(reports, log_probabilities, empty)
        coded = decide(self.model, log_probabilities, empty=empty)
        return [self._report(report, codes, asked.places) for report, codes in zip(reports, coded, strict=True)]

    def _report(self, report: Sent, codes: Mapping[str, Code], places: int) -> ReportOut:
        why = None
        if places and self.detail != "labels":
            why = explain_codes(self.model, report.text, codes, top=places)
        return ReportOut(
            report_id=report.report_id,
            case_id=report.case_id,
            report_number=report.number,
            codes={
                task: self._code(code, None if why is None else why.tasks[task].places) for task, code in codes.items()
            },
            contradictions=[one.sentence for one in contradictions_of(codes)],
            text=report.text if why is not None and report.rewritten else None,
        )

    def _code(self, code: Code, places: Sequence[explanation.Place] | None) -> CodeOut:
        hidden = self.detail == "labels"
        others = () if hidden else code.alternatives
        return CodeOut(
            code=code.code,
            term=code.term or None,
            probability=told(code.probability, self.detail),
            abstained=code.abstained,
            lifted=code.lifted and not hidden,
            alternatives=[
                Alternative(code=one.code, term=one.term or None, probability=told(one.probability, self.detail))
                for one in others
            ],
            places=None
            if places is None
            else [Place(start=one.start, end=one.end, weight=round(one.weight, 3)) for one in places],
        )

    def _by_case(
        self, reports: Sequence[Sent], log_probabilities: Mapping[str, np.ndarray], empty: np.ndarray
    ) -> list[ReportOut]:
        """An answer for each tumour that a case's reports tell of, as in 'pathveil predict --by-case'."""
        coded = decide(self.model, log_probabilities, empty=empty)
        cases: dict[str, list[int]] = {}
        for row, report in enumerate(reports):
            name = f"case {report.case_id}" if report.case_id else f"report {report.report_id}"
            cases.setdefault(name, []).append(row)
        answers = []
        for rows in cases.values():
            logs = {task: said[rows] for task, said in log_probabilities.items()}
            for group, codes, _ in answer_tumours(self.model, [coded[row] for row in rows], logs, empty=empty[rows]):
                ids = [reports[rows[place]].report_id for place in group]
                answer = self._report(reports[rows[group[0]]], codes, 0)
                answers.append(answer.model_copy(update={"report_id": None, "report_ids": ids}))
        return answers
