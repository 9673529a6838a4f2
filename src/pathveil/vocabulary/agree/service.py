"""Key holder and hub as HTTPS services: a bearer token names the site, the path names the agreement, bodies are bytes.

    key holder   GET  /v1/AGREEMENT/key            its name and public key
                 POST /v1/AGREEMENT/points/N       a batch of points → proof and points
                 POST /v1/AGREEMENT/done           the site has all it needs
    hub          POST /v1/AGREEMENT/set            bind to a set → the batches still to come
                 POST /v1/AGREEMENT/tags/N         a batch of tags
                 GET  /v1/AGREEMENT/result         202 while others are missing, then the places
                 POST /v1/AGREEMENT/received       the site has its answer

AGREEMENT is the sha256 of the terms. A body larger than its one right size is refused before it is read. What is logged
is a site's name, a number and what was decided: never a point, a tag, a token or a body.

>>> from pathveil.vocabulary.agree.agreement import Agreement
>>> terms = Agreement.propose(sites=["R1", "R2", "R3"], hub="https://h.example",
...                           holders={"a": "https://a.example", "b": "https://b.example"})
>>> [route.path for route in keyholder_app(KeyHolder(terms, "a"), {}).routes]
['/v1/{agreement}/key', '/v1/{agreement}/points/{number}', '/v1/{agreement}/done']
"""

import asyncio
import contextlib
import json
import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from pathveil.errors import AgreementError, MissingExtraError, UsageError
from pathveil.vocabulary.agree import oprf
from pathveil.vocabulary.agree.agreement import Agreement, site_of_token
from pathveil.vocabulary.agree.hub import TAG, Hub
from pathveil.vocabulary.agree.keyholder import KeyHolder

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
LINGER = 3.0  # seconds a server stays after the end, for a site whose last answer was lost

Handler = Callable[[Request, str], Awaitable[Response]]


def keyholder_app(holder: KeyHolder, digests: Mapping[str, str]) -> Starlette:
    async def key(request: Request, site: str) -> Response:
        return JSONResponse({"holder": holder.name, "public_key": holder.public_key.hex()})

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
        ("GET", "key", key),
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
    """What a site binds itself to, as checked values."""
    try:
        content = json.loads(body)
        commitment, batches, keys = content["commitment"], content["batches"], content["keys"]
        right = (
            isinstance(batches, int)
            and re.fullmatch("[0-9a-f]{64}", commitment) is not None
            and isinstance(keys, dict)
            and all(re.fullmatch("[0-9a-f]{64}", key) for key in keys.values())
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        right = False
    if not right:
        raise AgreementError("a set is announced by its commitment, its batches and the public keys seen", status=400)
    return {"commitment": commitment, "batches": batches, "keys": keys}


async def read(request: Request, limit: int) -> bytes:
    """The body, which may have ``limit`` bytes at most; a longer one is not taken in."""
    too_large = AgreementError(f"the body is too large; at most {limit} bytes are expected here", status=413)
    announced = request.headers.get("content-length", "0")
    if not re.fullmatch("[0-9]{1,12}", announced) or int(announced) > limit:
        raise too_large
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > limit:
            raise too_large
    return bytes(body)


def _app(agreement: Agreement, digests: Mapping[str, str], paths: list[tuple[str, str, Handler]]) -> Starlette:
    def guarded(handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            site = "unknown"
            try:
                scheme, _, token = request.headers.get("authorization", "").partition(" ")
                site = site_of_token(token if scheme.lower() == "bearer" else "", digests)
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

    return Starlette(routes=[Route(f"/v1/{{agreement}}/{path}", guarded(h), methods=[verb]) for verb, path, h in paths])


def make_server(app: Starlette, *, host: str, port: int, certificate: Path, key: Path) -> uvicorn.Server:
    """The server for an app, with its certificate read."""
    for path in (certificate, key):
        if not path.is_file():
            raise UsageError(
                f"{path}: no such file; 'pathveil vocab agree certificates' makes a certificate and its key"
            )
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        ssl_certfile=certificate,
        ssl_keyfile=key,
        log_config=None,
        access_log=False,
        server_header=False,
        limit_concurrency=256,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=5,  # an idle connection is not waited for
    )
    try:
        config.load()
    except OSError:
        raise UsageError(f"{certificate} and {key} are not a certificate and its key (PEM)") from None
    return uvicorn.Server(config)


def serve(server: uvicorn.Server, *, finished: Callable[[], bool]) -> None:
    """Serve until ``finished`` says so, or until interrupted."""

    async def watch() -> None:
        while not finished():
            await asyncio.sleep(0.2)
        await asyncio.sleep(LINGER)
        server.should_exit = True

    async def run() -> None:
        watcher = asyncio.create_task(watch())
        try:
            await server.serve()
        except SystemExit:  # uvicorn's way of saying that the port is taken
            pass
        watcher.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watcher

    asyncio.run(run())
    if not server.started:
        raise UsageError(f"cannot listen on {server.config.host} port {server.config.port}; is something else there?")
