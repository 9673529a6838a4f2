"""Key holder and hub as HTTPS services: a bearer token names the site, the path names the agreement, bodies are bytes.

    key holder   POST /v1/AGREEMENT/points/N       a batch of points → proof and points
                 POST /v1/AGREEMENT/done           the site has all it needs
    hub          POST /v1/AGREEMENT/set            bind to a set → the batches still to come
                 POST /v1/AGREEMENT/tags/N         a batch of tags
                 GET  /v1/AGREEMENT/result         202 while others are missing, then the places
                 POST /v1/AGREEMENT/received       the site has its answer

AGREEMENT is the sha256 of the terms. A body larger than its one right size is refused before it is read, and a body
that comes too slowly is not waited for; who may hold connections, and how long, is the gate's business
(``gate.py``). What is logged is a site's name, a number and what was decided: never a point, a tag, a token or
a body.

>>> from pathveil.agreement.agreement import Agreement
>>> from pathveil.agreement.offer import made_up_offers
>>> (hub, *holders), secrets = made_up_offers("hub", "a", "b")
>>> terms = Agreement.propose(sites=["R1", "R2", "R3"], hub=hub, holders=holders)
>>> [route.path for route in keyholder_app(KeyHolder(terms, "a", secret=secrets["a"]), {}).routes]
['/v1/{agreement}/points/{number}', '/v1/{agreement}/done']
"""

import asyncio
import contextlib
import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from pathveil.agreement import oprf
from pathveil.agreement.agreement import Agreement, site_of_token
from pathveil.agreement.certificates import single_certificate
from pathveil.agreement.hub import TAG, Hub
from pathveil.agreement.keyholder import KeyHolder
from pathveil.agreement.offer import Pinned
from pathveil.errors import AgreementError, MissingExtraError, UsageError
from pathveil.gate import Gate
from pathveil.untrusted import parse_json
from pathveil.untrusted.body import read_body

try:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.requests import Request
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Route
except ModuleNotFoundError:
    raise MissingExtraError(
        package="starlette and uvicorn", extra="agreement", purpose="serving a key holder or a hub"
    ) from None

log = logging.getLogger("pathveil.agree")

SMALL = 4_096  # bytes of a body that is not a batch
BODY = 60.0  # seconds for a body to come in
AT_A_TIME = 64  # connections taken in before what came over others is looked at
LINGER = 3.0  # seconds a server stays after the end, for a site whose last answer was lost

GATE = "pathveil.gate"  # where a request finds the gate it came through
Handler = Callable[[Request, str], Awaitable[Response]]
ASGI = Callable[..., Awaitable[None]]


def keyholder_app(holder: KeyHolder, digests: Mapping[str, str]) -> Starlette:
    async def points(request: Request, site: str) -> Response:
        number = _number(request)
        body = await read(request, holder.agreement.batch * oprf.POINT)
        answer = await run_in_threadpool(holder.answer, site, number, body)
        log.info("site %s: batch %d answered", site, number)
        return Response(answer, media_type="application/octet-stream")

    async def done(request: Request, site: str) -> Response:
        await run_in_threadpool(holder.done, site)
        log.info("site %s: done%s", site, "; all are done, the key is erased" if holder.finished else "")
        return JSONResponse({})

    paths: list[tuple[str, str, Handler]] = [
        ("POST", "points/{number}", points),
        ("POST", "done", done),
    ]
    return _app(holder.agreement, digests, paths)


def hub_app(hub: Hub, digests: Mapping[str, str]) -> Starlette:
    async def bind(request: Request, site: str) -> Response:
        announced = _announcement(await read(request, SMALL))
        missing = await run_in_threadpool(lambda: hub.begin(site, **announced))
        log.info("site %s: bound to a set of %d batches, %d to come", site, announced["batches"], len(missing))
        return JSONResponse({"missing": missing})

    async def tags(request: Request, site: str) -> Response:
        number = _number(request)
        await run_in_threadpool(hub.put, site, number, await read(request, hub.agreement.batch * TAG))
        log.info("site %s: batch %d of tags is here; %d sites to come", site, number, len(hub.waiting_for))
        return JSONResponse({})

    async def result(request: Request, site: str) -> Response:
        answer = await run_in_threadpool(hub.result, site)
        if answer is None:
            return JSONResponse({"waiting_for": len(hub.waiting_for)}, status_code=202)
        log.info("site %s: answered", site)
        return Response(answer, media_type="application/octet-stream")

    async def received(request: Request, site: str) -> Response:
        await run_in_threadpool(hub.received, site)
        log.info("site %s: has its answer%s", site, "; all have, the tags are erased" if hub.finished else "")
        return JSONResponse({})

    paths: list[tuple[str, str, Handler]] = [
        ("POST", "set", bind),
        ("POST", "tags/{number}", tags),
        ("GET", "result", result),
        ("POST", "received", received),
    ]
    return _app(hub.agreement, digests, paths)


def _number(request: Request) -> int:
    """The batch a path names."""
    text = request.path_params["number"]
    if not re.fullmatch("[0-9]{1,6}", text):
        raise AgreementError("a batch is named by its number", status=404)
    return int(text)


def _announcement(body: bytes) -> dict:
    """What a site binds itself to, as checked values.

    Nothing else is heard: the key holders' keys are in the agreement, so no site can say that one has shown another.
    """
    try:
        content = parse_json(body)
        commitment, batches = content["commitment"], content["batches"]
        right = (
            set(content) == {"commitment", "batches"}
            and isinstance(batches, int)
            and re.fullmatch("[0-9a-f]{64}", commitment) is not None
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        right = False
    if not right:
        raise AgreementError("a set is announced by its commitment and its batches, and by nothing else", status=400)
    return {"commitment": commitment, "batches": batches}


async def read(request: Request, limit: int) -> bytes:
    """The body, which may have ``limit`` bytes at most; a longer one is not taken in."""

    def refuse(status: int, why: str) -> AgreementError:
        return AgreementError(why, status=status)

    announced = request.headers.get("content-length", "0")
    return await read_body(request.stream(), announced=announced, most=limit, seconds=BODY, refuse=refuse)


def _app(agreement: Agreement, digests: Mapping[str, str], paths: list[tuple[str, str, Handler]]) -> Starlette:
    def guarded(handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            site = "unknown"
            try:
                scheme, _, token = request.headers.get("authorization", "").partition(" ")
                site = site_of_token(token if scheme.lower() == "bearer" else "", digests)
                if gate := request.scope.get(GATE):
                    gate.admit(request.scope.get("client"), site)
                if request.path_params["agreement"] != agreement.sha256:
                    raise AgreementError("this server serves another agreement; compare the agreement files")
                return await handler(request, site)
            except AgreementError as error:
                log.warning("site %s: refused (%d): %s", site, error.status, error)
                # The rest of an unread body is not waited for.
                return JSONResponse({"error": str(error)}, error.status, headers={"connection": "close"})
            except Exception as error:
                # Not the message, which might quote what was sent.
                log.error("site %s: a defect: %s", site, type(error).__name__)
                return JSONResponse({"error": "the server failed; see its log"}, 500)

        return endpoint

    web = Starlette(routes=[Route(f"/v1/{{agreement}}/{path}", guarded(h), methods=[verb]) for verb, path, h in paths])
    web.router.redirect_slashes = False  # whoever has no token is led nowhere
    return web


class GatedServer(uvicorn.Server):
    """A server behind a gate, at which it looks ten times a second."""

    gate: Gate | None = None

    async def on_tick(self, counter: int) -> bool:
        if self.gate is not None:
            self.gate.sweep()
        return await super().on_tick(counter)


def make_agreement_server(
    app: ASGI, *, host: str, port: int, certificate: Path, key: Path, pinned: Pinned | None = None
) -> GatedServer:
    """The server for an app, with its certificate read, which must be the one that the agreement pins."""
    for path in (certificate, key):
        if not path.is_file():
            raise UsageError(f"{path}: no such file; 'pathveil vocab agree offer' makes a certificate and its key")
    if pinned is not None and single_certificate(certificate) != pinned.certificate:
        raise UsageError(
            f"{certificate}: is not the certificate that the agreement has for this server; sites would refuse it"
        )

    async def behind_gate(scope, receive, send) -> None:
        await app({**scope, GATE: made.gate}, receive, send)

    config = uvicorn.Config(
        behind_gate,
        host=host,
        port=port,
        ssl_certfile=certificate,
        ssl_keyfile=key,
        log_config=None,
        access_log=False,
        server_header=False,
        # The gate counts what comes to this loop and this parser.
        loop="asyncio",
        http="h11",
        backlog=AT_A_TIME,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=5,  # an idle connection is not waited for
    )
    try:
        config.load()
    except OSError:
        raise UsageError(f"{certificate} and {key} are not a certificate and its key (PEM)") from None
    made = GatedServer(config)
    return made


def serve(server: GatedServer, *, finished: Callable[[], bool], doubtful: Callable[[], bool] = lambda: False) -> None:
    """Serve until ``finished`` says so, or until interrupted. ``doubtful``: whether the clock needs a person's look."""
    config = server.config
    try:
        gate = server.gate = Gate((config.host, config.port))
    except OSError:
        raise UsageError(f"cannot listen on {config.host} port {config.port}; is something else there?") from None
    log.info("listening on %s port %d", *gate.getsockname()[:2])

    async def watch() -> None:
        told = False
        while not finished():
            if doubtful() and not told:
                told = True
                log.warning(
                    "the clock says that the agreement has expired, but it was set while this server ran; nothing is "
                    "answered and nothing erased: look at the clock, stop the server, and start it again"
                )
            await asyncio.sleep(0.2)
        await asyncio.sleep(LINGER)
        server.should_exit = True

    async def run() -> None:
        watcher = asyncio.create_task(watch())
        await server.serve(sockets=[gate])
        watcher.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watcher

    try:
        asyncio.run(run())
    finally:
        gate.close()
