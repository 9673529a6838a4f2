"""The pages for people: log-in, sessions, forms, and what all pages share.

Every page is HTML from the server, made by templates that escape whatever they are given. A page is for a session; a
form must bring the session's own secret and come from this very site. Refusals are pages as well, one sentence each.
"""

import asyncio
import hmac
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from pathveil.errors import PathveilError
from pathveil.serve.accounts import Role, Session
from pathveil.serve.desk import Desk
from pathveil.serve.faults import Fault
from pathveil.serve.limits import read_limited

if TYPE_CHECKING:
    from pathveil.serve.app import Handler, Service

COOKIE = "pathveil_session"
LARGEST_FORM = 100_000
STATIC = {"page.css": "text/css", "page.js": "text/javascript", "icon.svg": "image/svg+xml"}

Page = Callable[[Request, Session], Awaitable[Response]]
Answered = Callable[["Service", str, "Handler"], "Handler"]


@cache
def templates() -> Environment:
    made = Environment(loader=PackageLoader("pathveil.serve"), autoescape=True, undefined=StrictUndefined)
    made.trim_blocks = made.lstrip_blocks = True
    made.filters["percent"] = lambda share: "–" if share is None else f"{100 * share:.0f} %"
    made.filters["chance"] = lambda share: (
        "< 1 %" if share < 0.01 else "> 99 %" if share > 0.99 else f"{100 * share:.0f} %"
    )
    return made


def desk_of(request: Request) -> Desk:
    desk = request.state.service.desk
    assert desk is not None
    return desk


def show(request: Request, name: str, *, status: int = 200, **content: Any) -> Response:
    """A page from its template, with what every page needs."""
    session: Session | None = getattr(request.state, "session", None)
    shared = {
        "user": session.user if session else None,
        "csrf": session.csrf if session else "",
        "said": "",
        "fault": "",
    }
    return HTMLResponse(templates().get_template(name).render(shared | content), status)


TITLES = {403: "Not allowed", 404: "Not here", 405: "Not here", 413: "Too large", 429: "Too often", 503: "Come again"}


def show_message(request: Request, title: str, sentence: str, *, status: int = 200) -> Response:
    """A page that says one thing, and leads on."""
    from_admin = request.url.path.startswith("/admin/")
    return show(request, "message.html", status=status, title=title, sentence=sentence, from_admin=from_admin)


def refused(request: Request, fault: Fault, headers: Mapping[str, str]) -> Response:
    """A fault as a person sees it."""
    title = TITLES.get(fault.status, "That did not work")
    response = show_message(request, title, str(fault), status=fault.status)
    response.headers.update(headers)
    return response


def for_people(page: Page, *, role: Role = "coder") -> "Handler":
    """A page for those who have logged in with at least this role; others are sent to the log-in, or refused."""

    async def checked(request: Request) -> Response:
        request.state.refusal = refused
        session = await run_in_threadpool(desk_of(request).accounts.session, request.cookies.get(COOKIE, ""))
        if session is None:
            if request.method == "GET":
                return RedirectResponse("/login", 303)
            raise Fault(403, "you are logged out; log in and do it again")
        request.state.session, request.state.who = session, session.user.name
        if not session.user.may(role):
            raise Fault(403, f"this is for the role {role}")
        if not request.state.service.asked.take(f"person {session.user.name}"):
            raise Fault(429, "too many requests in a minute; wait a little", again=5)
        try:
            return await page(request, session)
        except Fault:
            raise
        except PathveilError as error:
            raise Fault(422, str(error)) from None

    return checked


async def form_of(request: Request, session: Session | None) -> dict[str, str]:
    """A form's fields, if it came from a page of ours in this session."""
    origin = request.headers.get("origin")
    if origin is not None and origin.partition("://")[2] != request.headers.get("host", ""):
        raise Fault(403, "the form came from another site")
    body = await read_limited(request, most=LARGEST_FORM, seconds=request.state.service.settings.body_seconds)
    try:
        found = parse_qs(body.decode("utf-8"), keep_blank_values=True, max_num_fields=200)
    except (ValueError, UnicodeDecodeError):
        raise Fault(400, "the form cannot be read") from None
    fields = {name: values[-1] for name, values in found.items()}
    if session is not None and not hmac.compare_digest(fields.pop("csrf", "").encode(), session.csrf.encode()):
        raise Fault(403, "the form is of another session; load the page again")
    return fields


def page_routes(service: "Service", answered: Answered) -> list[Route]:
    """All pages."""
    from pathveil.serve.admin_pages import admin_routes
    from pathveil.serve.queue_pages import queue_routes
    from pathveil.serve.review_pages import review_routes

    routes: list[tuple[str, str, Handler]] = [
        ("GET", "/", for_people(home)),
        ("GET", "/login", log_in_page),
        ("POST", "/login", log_in),
        ("POST", "/logout", for_people(log_out)),
        ("GET", "/setup", set_up_page),
        ("POST", "/setup", set_up),
        ("GET", "/static/{name}", static),
        *queue_routes(),
        *review_routes(),
        *admin_routes(),
    ]
    return [Route(path, answered(service, f"page {path}", handler), methods=[verb]) for verb, path, handler in routes]


async def home(request: Request, session: Session) -> Response:
    return RedirectResponse("/queue", 303)


async def static(request: Request) -> Response:
    """One of the few files that pages use; the name is looked up, never a path."""
    name = request.path_params["name"]
    if name not in STATIC:
        raise Fault(404, "there is no such page")
    content = (files("pathveil.serve") / "static" / name).read_bytes()
    return Response(content, media_type=STATIC[name], headers={"cache-control": "max-age=300"})


async def log_in_page(request: Request) -> Response:
    if not await run_in_threadpool(desk_of(request).accounts.any):
        return show_message(request, "Nobody can log in yet", NOBODY)
    return show(request, "login.html", given="")


NOBODY = "The service wrote a link to its log (on the terminal that started it): open it to make the first user."


async def log_in(request: Request) -> Response:
    request.state.refusal = refused
    service: Service = request.state.service
    fields = await form_of(request, None)
    name, password = fields.get("name", "")[:100], fields.get("password", "")[:1000]
    address = request.client.host if request.client else "-"
    buckets = address, f"name {name}"  # many names from one place, or one name from many
    if not service.failed.take(*buckets):  # before the hash, so that guesses at once are counted too
        raise Fault(429, "too many wrong passwords; wait a minute", again=60)
    accounts = desk_of(request).accounts
    found = await accounts.hash_in_turn(accounts.log_in, name, password)
    if found is None:
        return show(request, "login.html", status=403, given=name, fault="The name or the password is wrong.")
    service.failed.give_back(*buckets)
    request.state.who = name
    response = RedirectResponse("/queue", 303)
    secure = request.url.scheme == "https"
    hours = int(3600 * service.settings.session_hours)
    response.set_cookie(COOKIE, found[0], max_age=hours, httponly=True, samesite="strict", secure=secure)
    return response


async def log_out(request: Request, session: Session) -> Response:
    await form_of(request, session)
    await run_in_threadpool(desk_of(request).accounts.log_out, session)
    response = RedirectResponse("/login", 303)
    response.delete_cookie(COOKIE, httponly=True, samesite="strict")
    return response


def check_setup(request: Request, token: str) -> Desk:
    desk = desk_of(request)
    if not desk.setup_token or not hmac.compare_digest(token.encode(), desk.setup_token.encode()):
        raise Fault(404, "there is no such page")
    return desk


async def set_up_page(request: Request) -> Response:
    request.state.refusal = refused
    check_setup(request, token := request.query_params.get("token", ""))
    return show(request, "setup.html", token=token)


SETTING_UP = asyncio.Lock()


async def set_up(request: Request) -> Response:
    """The first user, an administrator, made with the link that the service wrote when it started."""
    request.state.refusal = refused
    fields = await form_of(request, None)
    async with SETTING_UP:
        desk = check_setup(request, fields.get("token", ""))
        try:
            await desk.accounts.hash_in_turn(
                desk.accounts.add, fields.get("name", ""), fields.get("password", ""), "admin", by="setup"
            )
        except PathveilError as error:
            return show(request, "setup.html", status=422, token=fields["token"], fault=str(error))
        desk.setup_token = None
    return RedirectResponse("/login", 303)
