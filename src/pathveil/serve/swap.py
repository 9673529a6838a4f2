"""Another model in place of the one in use: first both answer the cases that wait, then a person decides to switch."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool

from pathveil.bundle.model import Model
from pathveil.serve.casework import NEW, WAITING
from pathveil.serve.chain import note
from pathveil.serve.coding import Answerer, Asked, CodeOut, ReportOut
from pathveil.serve.detail import allowed
from pathveil.serve.faults import Fault
from pathveil.serve.sent import Sent

if TYPE_CHECKING:
    from pathveil.serve.app import Service

COMPARED = 200  # waiting cases that both models answer
SHOWN = 30  # codes in which they differ, on the page


@dataclass(frozen=True)
class Difference:
    """A task that the two models code differently in a case."""

    case: str
    name: str  # of the case, as the queue has it
    task: str
    now: CodeOut
    then: CodeOut


@dataclass
class Candidate:
    """A model that was compared: by task, how many of the cases both code alike, and from how many each abstains; and
    the codes in which they differ."""

    name: str
    sha256: str
    cases: int
    tasks: dict[str, dict[str, int]]
    differing: list[Difference]
    answerer: Answerer
    form: str


async def compare(service: "Service", folder: Path, *, by: str) -> Candidate:
    """Load a model, whole and of the same tasks, and have it answer beside the one in use."""
    desk = service.desk
    assert desk is not None
    model = await run_in_threadpool(Model.load, folder, require_signature=desk.require_signature)
    old = service.pool.answerer
    if set(model.tasks) != set(old.model.tasks):
        raise Fault(422, "the other model is for other tasks")
    candidate = await run_in_threadpool(Answerer, model, detail=allowed(model.form, None))
    rows = await run_in_threadpool(
        desk.base.rows, "SELECT id, case_id FROM cases WHERE status = ? ORDER BY received LIMIT ?", WAITING, COMPARED
    )
    sent = []
    for row in rows:
        reports = await run_in_threadpool(desk.casework.reports, row["id"])
        sent += [Sent(report.report_id, report.text, case_id=row["id"]) for report in reports]
    tasks = {task: {"same": 0, "abstained now": 0, "abstained then": 0} for task in model.tasks}
    answers = await service.pool.patient_code(sent, Asked(by_case=True)) if sent else ("", [])
    others = await run_in_threadpool(candidate.answer, sent, Asked(by_case=True)) if sent else []
    names, differing = {row["id"]: row["case_id"] or row["id"] for row in rows}, []
    for one, other in zip(first_tumours(answers[1]), first_tumours(others), strict=True):
        for task, counts in tasks.items():
            now, then = one.codes[task], other.codes[task]
            counts["same"] += now.code == then.code
            counts["abstained now"] += now.abstained
            counts["abstained then"] += then.abstained
            if now.code != then.code:
                case = one.case_id or ""
                differing.append(Difference(case, names[case], task, now, then))

    def write_down() -> None:
        with desk.base.transaction() as do:
            note(
                do,
                by,
                "model compared",
                {"model": candidate.model_sha256, "with": old.model_sha256, "cases": len(rows)},
            )

    await run_in_threadpool(write_down)
    return Candidate(folder.name, candidate.model_sha256, len(rows), tasks, differing, candidate, model.form)


def first_tumours(answers: Sequence[ReportOut]) -> list[ReportOut]:
    """One answer a case."""
    cases: dict[str | None, ReportOut] = {}
    for answer in answers:
        cases.setdefault(answer.case_id, answer)
    return list(cases.values())


async def switch(service: "Service", sha256: str, *, by: str) -> None:
    """Answer with the compared model from now on; cases that wait are coded again by it."""
    desk = service.desk
    assert desk is not None
    candidate: Candidate | None = desk.candidate
    if candidate is None or candidate.sha256 != sha256:
        raise Fault(409, "compare the model first")
    before = service.pool.answerer.model_sha256
    service.pool.answerer, service.form, desk.candidate = candidate.answerer, candidate.form, None

    def write_down() -> None:
        with desk.base.transaction() as do:
            do("UPDATE cases SET status = ? WHERE status = ?", NEW, WAITING)
            note(do, by, "model switched", {"model": candidate.sha256, "before": before})

    await run_in_threadpool(write_down)
    desk.arrived.set()
