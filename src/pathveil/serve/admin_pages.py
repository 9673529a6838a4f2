"""An administrator's page: users, feeds, double coding, the log, and another model, compared before it is used."""

from pathlib import Path
from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from pathveil.serve.accounts import ROLES, Session
from pathveil.serve.chain import check
from pathveil.serve.faults import Fault
from pathveil.serve.pages import desk_of, for_people, form_of, show
from pathveil.serve.swap import SHOWN, compare, switch

if TYPE_CHECKING:
    from pathveil.serve.app import Handler

SAID = {
    "added": "The user can log in.",
    "locked": "The user is locked out.",
    "let-in": "The user can log in again.",
    "password": "The user logs in with the new password from now on.",
    "second": "Kept.",
    "switched": "The service answers with the other model now.",
}


def admin_routes() -> "list[tuple[str, str, Handler]]":
    return [
        ("GET", "/admin", for_people(admin, role="admin")),
        ("POST", "/admin/users", for_people(add_user, role="admin")),
        ("POST", "/admin/users/{name}", for_people(change_user, role="admin")),
        ("POST", "/admin/password", for_people(set_password, role="admin")),
        ("POST", "/admin/second", for_people(set_second, role="admin")),
        ("POST", "/admin/model", for_people(compare_model, role="admin")),
        ("POST", "/admin/switch", for_people(switch_model, role="admin")),
    ]


async def admin(request: Request, session: Session, *, fault: str = "") -> Response:
    from pathveil.serve.app import model_facts

    service, desk = request.state.service, desk_of(request)
    return show(
        request,
        "admin.html",
        status=422 if fault else 200,
        fault=fault,
        users=await run_in_threadpool(desk.accounts.users),
        roles=ROLES,
        second=await run_in_threadpool(desk.fact, "second_percent", "10"),
        feeds=[feed.describe() for feed in desk.feeds],
        log=await run_in_threadpool(check, desk.base),
        model=model_facts(service),
        models=models_in(desk.models),
        candidate=desk.candidate,
        shown=SHOWN,
        said=SAID.get(request.query_params.get("said", ""), ""),
    )


def models_in(folder: Path | None) -> list[str]:
    """The names of the models beside the one in use."""
    if folder is None or not folder.is_dir():
        return []
    return sorted(path.name for path in folder.iterdir() if (path / "MANIFEST.json").is_file())


async def add_user(request: Request, session: Session) -> Response:
    fields = await form_of(request, session)
    registries = [name.strip() for name in fields.get("registries", "").split(",") if name.strip()]
    given = fields.get("name", ""), fields.get("password", ""), fields.get("role", "")
    accounts = desk_of(request).accounts
    await accounts.hash_in_turn(accounts.add, *given, registries=registries, by=session.user.name)
    return RedirectResponse("/admin?said=added", 303)


async def change_user(request: Request, session: Session) -> Response:
    fields, name = await form_of(request, session), request.path_params["name"]
    if name == session.user.name:
        raise Fault(422, "nobody locks themselves out")
    active = fields.get("active") == "1"
    accounts = desk_of(request).accounts
    await run_in_threadpool(accounts.change, name, active=active, by=session.user.name)
    return RedirectResponse(f"/admin?said={'let-in' if active else 'locked'}", 303)


async def set_password(request: Request, session: Session) -> Response:
    fields = await form_of(request, session)
    accounts = desk_of(request).accounts
    given = fields.get("name", ""), fields.get("password", "")
    await accounts.hash_in_turn(accounts.set_password, *given, by=session.user.name)
    return RedirectResponse("/admin?said=password", 303)


async def set_second(request: Request, session: Session) -> Response:
    value = (await form_of(request, session)).get("percent", "")
    if not value.isascii() or not value.isdigit() or int(value[:4]) > 100:
        raise Fault(422, "expected a number from 0 to 100")
    desk = desk_of(request)
    await run_in_threadpool(desk.set_fact, "second_percent", str(int(value)), by=session.user.name)
    return RedirectResponse("/admin?said=second", 303)


async def compare_model(request: Request, session: Session) -> Response:
    """Load another model and set its answers beside those of the one in use, on the cases that wait."""
    desk, name = desk_of(request), (await form_of(request, session)).get("model", "")
    if desk.models is None or name not in models_in(desk.models):  # a name of the list, never a path
        raise Fault(422, "there is no such model in the folder of models")
    desk.candidate = await compare(request.state.service, desk.models / name, by=session.user.name)
    return RedirectResponse("/admin#model", 303)


async def switch_model(request: Request, session: Session) -> Response:
    fields = await form_of(request, session)
    await switch(request.state.service, fields.get("sha256", ""), by=session.user.name)
    return RedirectResponse("/admin?said=switched", 303)
