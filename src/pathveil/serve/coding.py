"""What the model says about reports, in the shape that clients get: codes with terms, and as much detail as is allowed.

A report's answer has, for each task, the code, its term, whether the model abstains and, as ``detail`` allows, how
probable the code is, the two next ones, and the places in the text that spoke for it. With ``labels`` there is a code
and nothing else: the order of the next codes, and what a word weighs, are answers of the same network.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from pydantic import Field

from pathveil.bundle.coder import Code, Coder, decide
from pathveil.bundle.explanation import Reading, explain_reading, read_to_explain
from pathveil.bundle.model import Model
from pathveil.bundle.text_answers import contradictions_of
from pathveil.bundle.tumours import answer_tumours
from pathveil.formatting import counted
from pathveil.results import Part
from pathveil.serve.detail import shown_probability
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


class ReportPlaces(Part):
    """The places in one report of a case, by task."""

    report_id: str
    places: dict[str, list[Place]]
    text: str | None = None


class ReportOut(Part):
    """A report's codes, or a case's from all its reports."""

    report_id: str | None = None
    report_ids: list[str] | None = Field(None, description="Of an answer by case.")
    case_id: str | None = None
    report_number: str | None = Field(None, description="The laboratory's own; of JSON, its report_id.")
    codes: dict[str, CodeOut]
    contradictions: list[str] = Field(description="Codes of different tasks that do not go together.")
    reports: list[ReportPlaces] | None = Field(None, description="Of an answer by case: the places in each report.")
    text: str | None = Field(
        None, description="The text that the places are places of, where it was put together from a message's fields."
    )
    uncertainty: float = Field(0.0, exclude=True)  # orders the queue, and is told to nobody


class TumourOut(Part):
    """One of the tumours that a case's reports tell of, as it is proposed to a person."""

    codes: dict[str, CodeOut]
    reports: list[int]  # their places in the case


class CaseOut(Part):
    """What a person is asked about a case: its tumours and, by report and task, the places that spoke for a code."""

    tumours: list[TumourOut]
    places: dict[int, dict[str, list[Place]]]
    note: str | None  # what a person should know before all else
    uncertainty: float = Field(0.0, exclude=True)  # orders the queue


class CodeResponse(Part):
    """What the model says."""

    model: str = Field(description="The model's sha256, as on its card, audit and release.")
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
        self.model_sha256 = model.model_sha256  # reads all weights, so once
        self.coder = Coder(model, labels_alone=detail == "labels")
        self.prepared = False

    def answer(self, reports: Sequence[Sent], asked: Asked = Asked()) -> list[ReportOut]:
        """The answers to some reports, in their order; by case, in the order of the cases' first reports."""
        if not self.prepared:  # in the thread that codes, not in the one that starts the service
            self.coder.prepare()
            self.prepared = True
        texts = [report.text for report in reports]
        readings: Sequence[Reading | None] = [None] * len(reports)
        if asked.places and self.detail != "labels":
            log_probabilities, empty, readings = read_to_explain(self.coder, texts)
        else:
            log_probabilities, empty = self.coder.read(texts)
        coded = decide(self.model, log_probabilities, empty=empty)
        if asked.by_case:
            return self._by_case(reports, coded, log_probabilities, empty, readings, asked.places)
        return [
            self._report(report, codes, self._places(reading, codes, asked.places))
            for report, codes, reading in zip(reports, coded, readings, strict=True)
        ]

    def _report(
        self, report: Sent, codes: Mapping[str, Code], found: Mapping[str, list[Place]] | None = None
    ) -> ReportOut:
        return ReportOut(
            report_id=report.report_id,
            case_id=report.case_id,
            report_number=report.number,
            codes={task: self._code(code, found[task] if found else None) for task, code in codes.items()},
            contradictions=[one.sentence for one in contradictions_of(codes)],
            text=report.text if found and report.rewritten else None,
            # With labels alone, the order of a queue must not tell more either.
            uncertainty=0.0 if self.detail == "labels" else 1 - math.prod(code.probability for code in codes.values()),
        )

    def _places(self, reading: Reading | None, codes: Mapping[str, Code], most: int) -> dict[str, list[Place]] | None:
        """The places of a text that speak for or against each of some codes; none where that is not told."""
        if reading is None:
            return None
        why = explain_reading(self.coder, reading, codes, top=most)
        return {
            task: [Place(start=one.start, end=one.end, weight=round(one.weight, 3)) for one in reasons.places]
            for task, reasons in why.tasks.items()
        }

    def _code(self, code: Code, places: list[Place] | None) -> CodeOut:
        hidden = self.detail == "labels"
        return CodeOut(
            code=code.code,
            term=code.term or None,
            probability=shown_probability(code.probability, self.detail),
            abstained=code.abstained,
            lifted=code.lifted and not hidden,
            alternatives=[
                Alternative(
                    code=one.code, term=one.term or None, probability=shown_probability(one.probability, self.detail)
                )
                for one in (() if hidden else code.alternatives)
            ],
            places=places,
        )

    def _by_case(
        self,
        reports: Sequence[Sent],
        coded: Sequence[Mapping[str, Code]],
        log_probabilities: Mapping[str, np.ndarray],
        empty: np.ndarray,
        readings: Sequence[Reading | None],
        places: int,
    ) -> list[ReportOut]:
        """An answer for each tumour that a case's reports tell of, as in 'pathveil predict --by-case'; places are those
        that speak for the tumour's codes, in each of its reports."""
        cases: dict[str, list[int]] = {}
        for row, report in enumerate(reports):
            name = f"case {report.case_id}" if report.case_id else f"report {row}"  # its id may be another's too
            cases.setdefault(name, []).append(row)
        answers = []
        for rows in cases.values():
            logs = {task: said[rows] for task, said in log_probabilities.items()}
            for group, codes, _ in answer_tumours(self.model, [coded[row] for row in rows], logs, empty=empty[rows]):
                own = [reports[rows[place]] for place in group]
                found = [(reports[rows[place]], self._places(readings[rows[place]], codes, places)) for place in group]
                by_report = [
                    ReportPlaces(report_id=one.report_id, places=where, text=one.text if one.rewritten else None)
                    for one, where in found
                    if where is not None
                ]
                ids = [one.report_id for one in own]
                changes = {"report_id": None, "report_ids": ids, "reports": by_report or None}
                answers.append(self._report(own[0], codes).model_copy(update=changes))
        return answers


def propose_case(tumours: Sequence[ReportOut]) -> CaseOut:
    """What a person is asked about a case whose reports have their places in it for names; where they seem to tell of
    several tumours, a sentence says so, and the case comes first."""
    told, several = [], len(tumours) > 1
    for one in tumours:
        reports = [int(name) for name in one.report_ids or ()]
        told.append(TumourOut(codes=one.codes, reports=reports))
    return CaseOut(
        tumours=told,
        places={int(one.report_id): one.places for tumour in tumours for one in tumour.reports or ()},
        note=f"The reports seem to tell of {counted(len(tumours), 'tumour')}." if several else None,
        uncertainty=1.0 if several else tumours[0].uncertainty,
    )
