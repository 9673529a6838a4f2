"""A reviewer's pages: second looks, differences, what was laid aside; agreement as figures; exports."""

from itertools import zip_longest
from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from pathveil.serve import exports
from pathveil.serve.accounts import Session
from pathveil.serve.agreement import check_promises, model_agreement, two_people
from pathveil.serve.casework import DIFFERS, SECOND, SKIPPED
from pathveil.serve.chain import note
from pathveil.serve.faults import Fault
from pathveil.serve.pages import desk_of, for_people, show

if TYPE_CHECKING:
    from pathveil.serve.app import Handler

EXPORTS = {
    "corrections.csv": (exports.corrections, "text/csv; charset=utf-8"),
    "labels.csv": (exports.labels, "text/csv; charset=utf-8"),
    "codes.xml": (exports.naaccr_xml, "application/xml"),
}


def review_routes() -> "list[tuple[str, str, Handler]]":
    return [
        ("GET", "/review", for_people(review, role="reviewer")),
        ("GET", "/figures", for_people(figures)),
        ("GET", "/export/{name}", for_people(export, role="reviewer")),
    ]


async def review(request: Request, session: Session) -> Response:
    work = desk_of(request).casework
    differing = []
    for row in await run_in_threadpool(work.by_status, DIFFERS, session.user):
        decisions = await run_in_threadpool(work.decisions, case=row["id"], rounds=(1, 2))
        last = {one["round"]: one for one in decisions}
        if {1, 2} <= set(last):
            both = zip_longest(last[1]["codes"], last[2]["codes"], fillvalue={})
            rows = [
                (tumour, task, one.get(task, "–"), other.get(task, "–"))
                for tumour, (one, other) in enumerate(both, start=1)
                for task in one | other
                if one.get(task) != other.get(task)
            ]
            differing.append(row | {"first": last[1]["who"], "second": last[2]["who"], "rows": rows})
    seconds = await run_in_threadpool(work.by_status, SECOND, session.user)
    return show(
        request,
        "review.html",
        differing=differing,
        seconds=[row for row in seconds if row["first_coder"] != session.user.name],
        skipped=await run_in_threadpool(work.by_status, SKIPPED, session.user),
        people=two_people(await run_in_threadpool(work.decisions)),
        exports=list(EXPORTS),
    )


async def figures(request: Request, session: Session) -> Response:
    """How far model and people agree, by task and month; and whether thresholds keep what they promise."""
    decisions = await run_in_threadpool(desk_of(request).casework.decisions)
    own = [row for row in decisions if session.user.sees(row["registry"])]
    model = request.state.service.pool.answerer.model
    promised = {task: threshold.accuracy for task, threshold in model.thresholds.items() if threshold.accuracy}
    by_task: dict[str, list] = {task: [] for task in model.tasks}
    for one in sorted(model_agreement(own), key=lambda one: one.period):
        by_task.setdefault(one.task, []).append(one)
    promises = check_promises([row for row in own if row["model"] == model.model_sha256], promised)
    return show(
        request, "figures.html", by_task=by_task, promises=promises, cases=len({row["case_key"] for row in own})
    )


async def export(request: Request, session: Session) -> Response:
    name = request.path_params["name"]
    if name not in EXPORTS:
        raise Fault(404, "there is no such export")
    desk, (make, kind) = desk_of(request), EXPORTS[name]
    tasks = request.state.service.pool.answerer.model.tasks

    def made() -> str:
        rows = exports.final_decisions(desk.casework, session.user)
        with desk.base.transaction() as do:
            note(do, session.user.name, "exported", {"what": name, "cases": len(rows)})
        return make(rows, tasks)

    content = await run_in_threadpool(made)
    return Response(content, media_type=kind, headers={"content-disposition": f'attachment; filename="{name}"'})
