"""The queue and a case: where a registrar spends the day."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from pathveil.corpus.combinations import contradictions, term_of
from pathveil.serve.accounts import Session
from pathveil.serve.casework import DIFFERS, ORDERS, SECOND
from pathveil.serve.faults import Fault
from pathveil.serve.marking import pieces_of
from pathveil.serve.pages import desk_of, for_people, form_of, show
from pathveil.serve.terms import search, terms

if TYPE_CHECKING:
    from pathveil.serve.app import Handler

REASONS = ("no tumour described", "text incomplete", "two primaries", "needs another report", "not reportable")


def queue_routes() -> "list[tuple[str, str, Handler]]":
    return [
        ("GET", "/queue", for_people(queue)),
        ("GET", "/next", for_people(next_case)),
        ("GET", "/case/{case}", for_people(case)),
        ("POST", "/case/{case}/decide", for_people(decide)),
        ("POST", "/case/{case}/skip", for_people(skip)),
        ("POST", "/undo", for_people(undo)),
        ("GET", "/search", for_people(search_codes)),
        ("GET", "/combinations", for_people(combinations)),
    ]


def chosen_order(request: Request) -> dict[str, Any]:
    """How the person has ordered the queue, as a query goes on from page to page."""
    order, registry = request.query_params.get("order", "uncertainty"), request.query_params.get("registry", "")
    return {"order": order if order in ORDERS else "uncertainty", "registry": registry[:200]}


async def queue(request: Request, session: Session) -> Response:
    work, asked = desk_of(request).casework, chosen_order(request)
    rows = await run_in_threadpool(lambda: work.queue(session.user, **asked))
    total = await run_in_threadpool(work.waiting, session.user)
    registries = await run_in_threadpool(work.registries, session.user)
    return show(
        request,
        "queue.html",
        rows=rows,
        total=total,
        registries=registries,
        asked=asked,
        query=urlencode(asked),
        orders=list(ORDERS),
        said=SAID.get(request.query_params.get("said", ""), ""),
    )


SAID = {
    "accepted": "Accepted.",
    "changed": "Kept with your changes.",
    "skipped": "Laid aside.",
    "undone": "Undone: the case is here again.",
    "nothing": "There is nothing to undo.",
    "empty": "The queue is empty.",
}


async def next_case(request: Request, session: Session) -> Response:
    asked = chosen_order(request)
    rows = await run_in_threadpool(desk_of(request).casework.queue, session.user, most=1, **asked)
    said = request.query_params.get("said", "")
    said = said if said in SAID else ""
    if not rows:
        return RedirectResponse(f"/queue?{urlencode(asked | {'said': said or 'empty'})}", 303)
    return RedirectResponse(f"/case/{rows[0]['id']}?{urlencode(asked | {'said': said})}", 303)


async def case(request: Request, session: Session) -> Response:
    desk, asked = desk_of(request), chosen_order(request)
    found = await run_in_threadpool(desk.casework.open, request.path_params["case"], session.user)
    answer, before = {"note": None} | found["answer"], []
    if found["status"] == DIFFERS:
        before = await run_in_threadpool(desk.casework.decisions, case=found["id"])
    places = {one["report_id"]: one["places"] for one in answer.get("reports", [])}
    reports = [
        {"report": report, "pieces": pieces_of(report.text, places.get(report.report_id, {}))}
        for report in found["texts"]
    ]
    return show(
        request,
        "case.html",
        case=found | {"answer": answer},
        tasks=[task_facts(task, code) for task, code in answer["codes"].items()],
        contradictions=answer["contradictions"],
        reports=reports,
        before=before,
        second=found["status"] == SECOND,
        asked=asked,
        query=urlencode(asked),
        reasons=REASONS,
        left=await run_in_threadpool(desk.casework.waiting, session.user),
        said=SAID.get(request.query_params.get("said", ""), ""),
    )


def task_facts(task: str, code: Mapping[str, Any]) -> dict[str, Any]:
    """What a page shows of a task: up to three codes, the proposed one first, chosen unless the model abstains."""
    offered = [code, *code["alternatives"]]
    return {
        "name": task,
        "abstained": code["abstained"],
        "lifted": code["lifted"],
        "offered": [
            {
                "code": one["code"],
                "term": one.get("term") or "",
                "probability": one.get("probability"),
                "chosen": number == 0 and not code["abstained"],
            }
            for number, one in enumerate(offered)
        ],
    }


async def decide(request: Request, session: Session) -> Response:
    desk = desk_of(request)
    fields = await form_of(request, session)
    model = request.state.service.pool.answerer.model
    codes = {name.removeprefix("code."): value.strip() for name, value in fields.items() if name.startswith("code.")}
    for task, code in codes.items():
        if code not in model.labels.get(task, ()) and code not in terms(task):
            raise Fault(422, f"{task}: this is no code of ICD-O-3, nor one that the model knows; search for it")
    second = int(desk.fact("second_percent", "10"))
    case = request.path_params["case"]
    await run_in_threadpool(desk.casework.decide, case, session.user, codes, second_percent=second)
    last = (await run_in_threadpool(desk.casework.decisions, case=case))[-1]
    said = "accepted" if last["codes"] == last["proposed"] else "changed"
    return RedirectResponse(f"/next?{urlencode(chosen_order(request) | {'said': said})}", 303)


async def skip(request: Request, session: Session) -> Response:
    fields = await form_of(request, session)
    reason = fields.get("other", "").strip() or fields.get("reason", "")
    await run_in_threadpool(desk_of(request).casework.skip, request.path_params["case"], session.user, reason)
    return RedirectResponse(f"/next?{urlencode(chosen_order(request) | {'said': 'skipped'})}", 303)


async def undo(request: Request, session: Session) -> Response:
    await form_of(request, session)
    case = await run_in_threadpool(desk_of(request).casework.undo, session.user)
    asked = chosen_order(request)
    if case is None:
        return RedirectResponse(f"/queue?{urlencode(asked | {'said': 'nothing'})}", 303)
    return RedirectResponse(f"/case/{case}?{urlencode(asked | {'said': 'undone'})}", 303)


def codes_in(request: Request, tasks: tuple[str, ...]) -> dict[str, str]:
    """The codes chosen so far, from a query."""
    return {task: request.query_params[task][:40] for task in tasks if request.query_params.get(task)}


async def search_codes(request: Request, session: Session) -> Response:
    """Codes by number or term, each with whether it goes together with those of the other tasks."""
    model = request.state.service.pool.answerer.model
    task, query = request.query_params.get("task", ""), request.query_params.get("q", "")[:80]
    if task not in model.labels:
        raise Fault(422, "there is no such task")
    chosen = codes_in(request, model.tasks)
    found = [(one.code, one.term) for one in search(task, query, known=frozenset(model.labels[task]))]
    if not terms(task):  # a task of the registry's own
        found = [(code, "") for code in model.labels[task] if query.lower() in code.lower()][:12]
    rows = []
    for code, term in found:
        against = [one for one in contradictions(chosen | {task: code}) if task in one.tasks]
        rows.append({"code": code, "term": term, "fits": not against})
    return JSONResponse({"found": rows})


async def combinations(request: Request, session: Session) -> Response:
    """What the chosen codes say against each other."""
    chosen = codes_in(request, request.state.service.pool.answerer.model.tasks)
    behavior = chosen.get("behavior")
    named = {task: term_of(task, code, behavior if task == "histology" else None) for task, code in chosen.items()}
    return JSONResponse({"contradictions": [one.sentence for one in contradictions(chosen)], "terms": named})
