"""The queue and a case: where a registrar spends the day."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from pathveil.bundle.model import Model
from pathveil.formatting import listed
from pathveil.icdo.combinations import find_contradictions, find_term
from pathveil.serve.accounts import Session
from pathveil.serve.casework import DIFFERS, MOST_TUMOURS, ORDERS, SECOND
from pathveil.serve.faults import Fault
from pathveil.serve.marking import pieces_of
from pathveil.serve.pages import desk_of, for_people, form_of, show
from pathveil.serve.terms import Hit, code_of, search, terms

if TYPE_CHECKING:
    from pathveil.serve.app import Handler

NUMBERS = ("tumours", "added")
REASONS = ("no tumour described", "text incomplete", "needs another report", "not reportable")


def queue_routes() -> "list[tuple[str, str, Handler]]":
    return [
        ("GET", "/queue", for_people(queue)),
        ("GET", "/next", for_people(next_case)),
        ("GET", "/case/{case}", for_people(case)),
        ("POST", "/case/{case}/decide", for_people(decide)),
        ("POST", "/case/{case}/draft", for_people(save_draft)),
        ("POST", "/case/{case}/tumours", for_people(change_tumours)),
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
    rows = await run_in_threadpool(work.queue, session.user, **asked)
    total = await run_in_threadpool(work.waiting, session.user)
    registries = await run_in_threadpool(work.registries, session.user)
    return show(
        request,
        "queue.html",
        rows=rows,
        total=total,
        coming=await run_in_threadpool(work.coming),
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
    return await show_case(request, session)


async def show_case(
    request: Request, session: Session, *, form: "CodesForm | None" = None, fault: str = "", notice: str = ""
) -> Response:
    """A case, with the codes of a form that was not accepted, or else those that a person had chosen before."""
    desk, asked = desk_of(request), chosen_order(request)
    found = await run_in_threadpool(desk.casework.open, request.path_params["case"], session.user)
    answer, before = found["answer"], []
    if found["status"] == DIFFERS:
        before = await run_in_threadpool(desk.casework.decisions, case=found["id"])
    if form is None:
        draft = await run_in_threadpool(desk.casework.draft, found["id"], session.user)
        form = CodesForm(**draft) if draft else None
    several = max([len(answer["tumours"]), *(len(one["codes"]) for one in before)])
    tumours = [tumour_facts(answer, number, form) for number in range(len(form.codes) if form else several)]
    return show(
        request,
        "case.html",
        status=422 if fault else 200,
        fault=fault,
        case=found,
        note=answer.get("note"),
        tumours=tumours,
        added=form.added if form else 0,
        is_chosen=form is not None,
        reports=[(one, pieces_of(one.text, answer["places"].get(str(one.place), {}))) for one in found["texts"]],
        before=[one for one in before if one["round"] < 3],
        second=found["status"] == SECOND,
        asked=asked,
        query=urlencode(asked),
        reasons=REASONS,
        left=await run_in_threadpool(desk.casework.waiting, session.user),
        said=notice or SAID.get(request.query_params.get("said", ""), ""),
    )


class CodesForm(NamedTuple):
    """What a person has chosen for each tumour: codes by task, and the places of its reports; and how many tumours, the
    last ones, the person has added."""

    codes: list[dict[str, str]]
    reports: list[list[int]]
    added: int = 0

    @classmethod
    def read(cls, fields: Mapping[str, str]) -> "CodesForm":
        """From ``code.1.site``, or ``other.1.site`` where something was typed, and ``report.1.0``.

        >>> CodesForm.read({"tumours": "1", "code.1.site": "C50", "other.1.site": "C61", "report.1.0": "on"})
        CodesForm(codes=[{'site': 'C61'}], reports=[[0]], added=0)
        """
        number, added = (int(text) if re.fullmatch("[0-9]", text := fields.get(name, "")) else 0 for name in NUMBERS)
        number = max(1, number)
        found = cls([{} for _ in range(number)], [[] for _ in range(number)], min(added, number - 1))
        for name, value in sorted(fields.items()):  # code before other
            if match := re.fullmatch(r"(code|other|report)\.([1-9])\.(.+)", name):
                kind, place = match[1], int(match[2]) - 1
                if place >= number or not value.strip():
                    continue
                if kind != "report":
                    found.codes[place][match[3]] = value.strip()
                elif re.fullmatch("[0-9]{1,6}", match[3]):
                    found.reports[place].append(int(match[3]))
        return found


def tumour_facts(answer: Mapping[str, Any], number: int, form: CodesForm | None) -> dict[str, Any]:
    """What a page shows of a tumour: the model's proposal, or open tasks where a person says that there is one more."""
    proposed = answer["tumours"][min(number, len(answer["tumours"]) - 1)]
    own = number < len(answer["tumours"])
    chosen = form.codes[number] if form else None
    shown = chosen or {task: code["code"] for task, code in proposed["codes"].items() if own and not code["abstained"]}
    reports = form.reports[number] if form and number < len(form.reports) else proposed["reports"] if own else []
    return {
        "number": number + 1,
        "tasks": [
            task_facts(
                task, code if own else {**code, "abstained": True}, None if chosen is None else chosen.get(task, "")
            )
            for task, code in proposed["codes"].items()
        ],
        "contradictions": said_against(shown),
        "reports": reports,
    }


def said_against(chosen: Mapping[str, str]) -> list[str]:
    return [one.sentence for one in find_contradictions(chosen)]


def task_facts(task: str, code: Mapping[str, Any], chosen: str | None) -> dict[str, Any]:
    """What a page shows of a task: up to three codes, the proposed one first, chosen unless the model abstains; and
    another code that a person has chosen."""
    offered = [code, *code["alternatives"]]
    if chosen is None:
        chosen = "" if code["abstained"] else code["code"]
    known = any(one["code"] == chosen for one in offered)
    return {
        "name": task,
        "abstained": code["abstained"],
        "lifted": code["lifted"],
        "offered": [
            {
                "code": one["code"],
                "term": one.get("term") or "",
                "probability": one.get("probability"),
                "chosen": one["code"] == chosen,
            }
            for one in offered
        ],
        "other": "" if known else chosen,
        "term": "" if known else find_term(task, chosen),
    }


async def change_tumours(request: Request, session: Session) -> Response:
    """The same case with one tumour more or less; the other choices stay."""
    fields = await form_of(request, session)
    form, remove, notice = CodesForm.read(fields), fields.get("remove", ""), ""
    last = len(form.codes)
    if remove and last > 1:
        number = min(int(remove) if re.fullmatch("[1-9]", remove) else 1, last)
        del form.codes[number - 1], form.reports[number - 1]
        form = form._replace(added=form.added - (number > last - form.added))
        notice = f"Tumour {number} is taken away."
    elif not remove and last < MOST_TUMOURS:
        form.codes.append({})
        form.reports.append([])
        form = form._replace(added=form.added + 1)
        notice = f"Tumour {last + 1} is added."
    return await show_case(request, session, form=form, notice=notice)


def code_typed(model: Model, task: str, text: str) -> str:
    """The code that a form has for a task, in any form that people write; empty where it is none."""
    known = {*model.labels.get(task, ()), *terms(task)}
    return next((code for code in (text, text.upper(), text.lower(), code_of(task, text)) if code in known), "")


async def save_draft(request: Request, session: Session) -> Response:
    """What a person leaves undecided."""
    form = CodesForm.read(await form_of(request, session))
    model = request.state.service.pool.answerer.model
    codes = [
        {task: code for task in model.tasks if (code := code_typed(model, task, one.get(task, "")))}
        for one in form.codes
    ]
    save = desk_of(request).casework.save_draft
    await run_in_threadpool(save, request.path_params["case"], session.user, codes, form.reports, added=form.added)
    return Response(status_code=204)


async def decide(request: Request, session: Session) -> Response:
    desk = desk_of(request)
    form = CodesForm.read(await form_of(request, session))
    model = request.state.service.pool.answerer.model
    for codes in form.codes:
        for task, text in codes.items():
            codes[task] = code_typed(model, task, text)
            if not codes[task]:
                wrong = f"{task}: this is no code of ICD-O-3, nor one that the model knows; search for it"
                return await show_case(request, session, form=form, fault=wrong)
        if open_tasks := [task for task in model.tasks if task not in codes]:
            return await show_case(request, session, form=form, fault=f"Choose the {listed(open_tasks)} first.")
    second = int(await run_in_threadpool(desk.fact, "second_percent", "10"))
    case = request.path_params["case"]
    work, user = desk.casework, session.user
    await run_in_threadpool(work.decide, case, user, form.codes, reports=form.reports, second_percent=second)
    last = (await run_in_threadpool(work.decisions, case=case))[-1]
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
    """Codes by number or term, the best first, each with whether it goes with the codes of the other tasks."""
    model = request.state.service.pool.answerer.model
    task, query = request.query_params.get("task", ""), request.query_params.get("q", "")[:80]
    if task not in model.labels:
        raise Fault(422, "there is no such task")
    chosen = codes_in(request, model.tasks)
    counts = await run_in_threadpool(desk_of(request).frequencies, model, task)
    found = search(task, query, counts=counts)
    if not terms(task):  # a task of the registry's own
        own = sorted(model.labels[task], key=lambda code: -counts.get(code, 0))
        found = [Hit(code, "") for code in own if query.lower() in code.lower()][:12]
    rows = []
    for one in found:
        against = [other for other in find_contradictions(chosen | {task: one.code}) if task in other.tasks]
        rows.append({"code": one.code, "term": one.term, "synonym": one.synonym, "fits": not against})
    return JSONResponse({"found": rows, "near": any(one.is_near for one in found)})


async def combinations(request: Request, session: Session) -> Response:
    """What the chosen codes say against each other."""
    chosen = codes_in(request, request.state.service.pool.answerer.model.tasks)
    behavior = chosen.get("behavior")
    named = {task: find_term(task, code, behavior if task == "histology" else None) for task, code in chosen.items()}
    return JSONResponse({"contradictions": said_against(chosen), "terms": named})
