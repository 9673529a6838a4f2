"""The service as an application: who asks, what is asked for, within which limits; and what a fault looks like.

    GET  /healthz  /readyz           for whoever watches the process; open
    GET  /openapi.json               what the API takes and gives; open
    GET  /metrics  /v1/model         with a token
    POST /v1/code                    reports to codes, with a token
    POST /v1/queue                   reports to the queue of the page, with a token, where a store is kept

Every answer, refusals included, goes through one place, which counts it, writes one line about it (who, which route,
which status, how long) and sets the headers that keep a browser from doing anything unasked. No line and no message
holds anything that was sent.
"""

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from pathveil.serve import fhir
from pathveil.serve.bodies import FHIR, read_body
from pathveil.serve.coding import Asked, CodeResponse, ReportOut
from pathveil.serve.faults import Fault
from pathveil.serve.limits import Buckets, read_limited
from pathveil.serve.metrics import Metrics
from pathveil.serve.openapi import document
from pathveil.serve.pool import Pool
from pathveil.serve.sent import Sent
from pathveil.serve.settings import ServeSettings
from pathveil.serve.tokens import Clients

if TYPE_CHECKING:
    from pathveil.serve.desk import Desk

log = logging.getLogger("pathveil.serve")

Handler = Callable[[Request], Awaitable[Response]]

HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",  # with none at all, browsers would not say where a form comes from
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",  # answers are about patients
}


@dataclass
class Service:
    """Everything that a request may need."""

    pool: Pool
    clients: Clients
    settings: ServeSettings
    key: bytes  # of the ids of HL7 patients
    form: str = "bundle"  # of the release
    metrics: Metrics = field(default_factory=Metrics)
    desk: "Desk | None" = None  # the store and what works on it, where one is kept
    ready: bool = False

    def __post_init__(self) -> None:
        self.asked = Buckets(self.settings.requests_a_minute)
        self.failed = Buckets(self.settings.failures_a_minute)


def make_app(service: Service) -> Starlette:
    """The application; its life span starts and stops the pool, and what works on the store."""

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncGenerator[None]:
        await service.pool.start()
        warm = asyncio.create_task(warm_up(service))
        async with service.desk.at_work(service) if service.desk else contextlib.nullcontext():
            try:
                yield
            finally:
                warm.cancel()
        await service.pool.stop()

    routes = [
        Route("/healthz", answered(service, "healthz", health)),
        Route("/readyz", answered(service, "readyz", ready)),
        Route("/openapi.json", answered(service, "openapi", describe)),
        Route("/metrics", answered(service, "metrics", for_clients(show_metrics))),
        Route("/v1/model", answered(service, "model", for_clients(show_model))),
        Route("/v1/code", answered(service, "code", for_clients(code)), methods=["POST"]),
    ]
    if service.desk:
        from pathveil.serve.pages import page_routes

        routes.append(Route("/v1/queue", answered(service, "queue", for_clients(put_into_queue)), methods=["POST"]))
        routes += page_routes(service, answered)
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers={HTTPException: not_found})
    app.state.service = service
    return app


async def warm_up(service: Service) -> None:
    """Have the networks built and compiled before the first client waits for them."""
    reports = [Sent(report_id=str(number), text="final diagnosis: carcinoma") for number in range(2)]
    with contextlib.suppress(Fault):
        await service.pool.patient_code(reports, Asked(places=1))
    service.ready = True


def answered(service: Service, route: str, handler: Handler) -> Handler:
    """A handler whose every outcome is an answer, counted and logged without what was sent."""

    async def endpoint(request: Request) -> Response:
        began = time.perf_counter()
        request.state.service, request.state.who = service, "-"
        try:
            response = await handler(request)
        except Fault as fault:
            response = refusal(request, fault)
        except Exception as error:  # not its message, which might quote what was sent
            log.error("a defect of ours in %s: %s", route, type(error).__name__)
            response = refusal(request, Fault(500, "the service failed; its log has the kind of the fault"))
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        seconds = time.perf_counter() - began
        service.metrics.requests.labels(route, str(response.status_code)).inc()
        service.metrics.seconds.labels(route).observe(seconds)
        if route not in ("healthz", "readyz"):
            log.info(
                "%s %s %s %d %.0f ms", request.state.who, request.method, route, response.status_code, 1e3 * seconds
            )
        return response

    return endpoint


def refusal(request: Request, fault: Fault) -> Response:
    headers = {"retry-after": str(fault.again)} if fault.again else {}
    if fault.status == 401:
        headers["www-authenticate"] = "Bearer"
    if fault.status in (408, 413):
        headers["connection"] = "close"  # the rest of a body is not waited for
    page = getattr(request.state, "refusal", None)  # set by pages, whose reader is a person
    return page(request, fault, headers) if page else JSONResponse({"error": str(fault)}, fault.status, headers)


async def not_found(request: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", 500)
    sentence = {404: "there is no such page", 405: "this cannot be done here"}.get(status, "the request is refused")
    headers = dict(getattr(error, "headers", None) or {}) | HEADERS
    if request.app.state.service.desk and "text/html" in request.headers.get("accept", ""):  # a person's browser
        from pathveil.serve.pages import refused

        return refused(request, Fault(status, sentence), headers)
    return JSONResponse({"error": sentence}, status, headers)


def for_clients(handler: Handler) -> Handler:
    """A handler for programs with a token, so many times a minute."""

    async def checked(request: Request) -> Response:
        service: Service = request.state.service
        address = request.client.host if request.client else "-"
        client = service.clients.name_of(request.headers.get("authorization", ""))
        if client is None:
            if not service.failed.take(address):
                raise Fault(429, "too many requests without a known token; wait a minute", again=60)
            raise Fault(401, "a token is needed: Authorization: Bearer …")
        request.state.who = client
        if not service.asked.take(client):
            raise Fault(429, "too many requests in a minute; wait a little", again=5)
        return await handler(request)

    return checked


async def health(request: Request) -> Response:
    return PlainTextResponse("ok\n")


async def ready(request: Request) -> Response:
    service: Service = request.state.service
    return PlainTextResponse("ready\n") if service.ready else PlainTextResponse("not ready yet\n", 503)


async def describe(request: Request) -> Response:
    service: Service = request.state.service
    return JSONResponse(document(service.settings, with_queue=service.desk is not None))


async def show_metrics(request: Request) -> Response:
    service: Service = request.state.service
    service.metrics.waiting.set(service.pool.jobs.qsize())
    return Response(service.metrics.page(), media_type="text/plain; version=0.0.4; charset=utf-8")


async def show_model(request: Request) -> Response:
    service: Service = request.state.service
    return JSONResponse(model_facts(service))


def model_facts(service: Service) -> dict[str, Any]:
    """What may be told of the model: its hash, form, tasks, thresholds, and what it reaches."""
    answerer = service.pool.answerer
    model = answerer.model
    return {
        "model_sha256": answerer.model_sha256,
        "form": service.form,
        "detail": answerer.detail,
        "tasks": {
            task: {
                "codes": len(labels),
                "threshold": threshold.to_dict() if (threshold := model.thresholds.get(task)) else None,
                "scores": scores.to_dict() if (scores := model.scores.get(task)) else None,
            }
            for task, labels in model.labels.items()
        },
        "words": len(model.words),
        "audited": model.audit is not None,
    }


async def code(request: Request) -> Response:
    """Reports to codes, as JSON or, for who accepts FHIR alone, as a Bundle of Observations."""
    service: Service = request.state.service
    asked = asked_for(request, service.settings)
    reports = await reports_of(request)
    model, results = await service.pool.code(reports, asked)
    count_answers(service, results, door="api", reports=len(reports))
    if service.desk:
        await run_in_threadpool(service.desk.note_coded, request.state.who, reports, results, model)
    if request.headers.get("accept", "").partition(";")[0].strip().lower() == FHIR:
        bundle = fhir.to_bundle([result.to_dict() for result in results], model=model)
        return Response(json.dumps(bundle), media_type=FHIR)
    content = CodeResponse(model=model, results=results).model_dump_json(exclude_none=True, exclude_defaults=False)
    return Response(content, media_type="application/json")


async def put_into_queue(request: Request) -> Response:
    """Reports to the queue: acknowledged once they are on the disk, coded afterwards."""
    service: Service = request.state.service
    assert service.desk is not None
    reports = await reports_of(request)
    new = await service.desk.receive(reports, source=f"api:{request.state.who}")
    return JSONResponse({"received": len(reports), "new": new}, 202)


async def reports_of(request: Request) -> list[Sent]:
    service: Service = request.state.service
    settings = service.settings
    body = await read_limited(request, most=settings.largest_body, seconds=settings.body_seconds)
    kind = request.headers.get("content-type", "")
    return await run_in_threadpool(read_body, kind, body, settings, key=service.key)


def asked_for(request: Request, settings: ServeSettings) -> Asked:
    places, by_case = request.query_params.get("explain", "0"), request.query_params.get("by_case", "false")
    if not places.isascii() or not places.isdigit() or len(places) > 4 or int(places) > settings.most_places:
        raise Fault(422, f"explain: expected a number from 0 to {settings.most_places}")
    if by_case not in ("true", "false"):
        raise Fault(422, "by_case: expected true or false")
    return Asked(places=int(places), by_case=by_case == "true")


def count_answers(service: Service, results: list[ReportOut], *, door: str, reports: int) -> None:
    service.metrics.reports.labels(door).inc(reports)
    for result in results:
        for task, found in result.codes.items():
            if found.abstained:
                service.metrics.abstained.labels(task).inc()
