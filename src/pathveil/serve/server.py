"""The service on a port: uvicorn, with TLS, behind a gate, and with an end to connections that send nothing.

uvicorn waits for ever for a request's head, and counts whoever is connected against its limit; so a few hundred idle
connections would shut everybody else out. Here a connection has ``header_seconds`` for its TLS and each head, and an
address can have so many connections that have not yet sent a head and no more: a further one takes the place of one of
these, so that whoever has something to ask is let in, however many sit idle (``gate.py``).
"""

import asyncio
import ipaddress
import socket
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol

from pathveil.errors import UsageError
from pathveil.gate import Gate, Limits
from pathveil.serve.settings import ServeSettings

AT_A_TIME = 64  # connections taken in before what came over others is looked at
KEEP_ALIVE = 30  # seconds that a connection stays open between two requests


class ServiceGate(Gate):
    """The gate of the service: known is whose request's head has come."""

    def __init__(self, place: tuple[str, int], settings: ServeSettings):
        self.settings = settings
        super().__init__(place)

    @property
    def limits(self) -> Limits:
        settings, busy = self.settings, KEEP_ALIVE + self.settings.body_seconds + self.settings.answer_seconds
        an_address = settings.connections_an_address
        return Limits(settings.header_seconds, busy, an_address, settings.connections // 2, an_address)


def impatient(settings: ServeSettings, gate: Gate) -> type[H11Protocol]:
    """uvicorn's protocol with a time limit for heads, which tells the gate whose has come."""

    class Impatient(H11Protocol):
        waits: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:
            super().connection_made(transport)
            self.wait()

        def connection_lost(self, exc: Exception | None) -> None:
            self.stop_waiting()
            super().connection_lost(exc)

        def wait(self, seconds: float = settings.header_seconds) -> None:
            self.stop_waiting()
            self.waits = self.loop.call_later(seconds, self.give_up)

        def stop_waiting(self) -> None:
            if self.waits is not None:
                self.waits.cancel()
                self.waits = None

        def give_up(self) -> None:
            if (self.cycle is None or self.cycle.response_complete) and not self.transport.is_closing():
                self.transport.close()

        def handle_events(self) -> None:
            super().handle_events()
            if self.cycle is not None and not self.cycle.response_complete:
                self.stop_waiting()  # a head is here; what comes now has limits of its own
                gate.admit(self.client, str(self.client[0]) if self.client else "-")

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self.wait(KEEP_ALIVE)  # a client of ours may think for a moment

    return Impatient


def check_place(host: str, *, certificate: Path | None, key: Path | None, behind_proxy: bool) -> None:
    """Refuse to send reports over a network in the clear."""
    if (certificate is None) != (key is None):
        raise UsageError("give --certificate and --certificate-key together")
    for path in (certificate, key):
        if path is not None and not path.is_file():
            raise UsageError(f"{path}: no such file; expected a PEM file")
    try:
        local = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        local = False
    if not local and certificate is None and not behind_proxy:
        raise UsageError(
            f"--host {host} can be reached from other machines, and reports would travel in the clear: give "
            "--certificate and --certificate-key, or --behind-proxy where a reverse proxy does TLS"
        )


def make_server(
    app: Starlette,
    settings: ServeSettings,
    *,
    host: str,
    port: int,
    certificate: Path | None = None,
    key: Path | None = None,
    behind_proxy: bool = False,
) -> tuple[uvicorn.Server, ServiceGate]:
    """The server of an app, and the gate that it listens at."""
    unusable = UsageError(f"cannot listen on {host} port {port}; is something else there?")
    try:
        gate = ServiceGate((socket.gethostbyname(host) if ":" not in host else host, port), settings)
    except OSError:
        raise unusable from None
    config = uvicorn.Config(
        app,
        http=impatient(settings, gate),
        ws="none",
        loop="asyncio",  # whose connections the gate counts
        backlog=AT_A_TIME,
        ssl_certfile=certificate,
        ssl_keyfile=key,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=behind_proxy,
        limit_concurrency=settings.connections,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=10,
        h11_max_incomplete_event_size=32_768,
    )
    try:
        config.load()
    except OSError:
        gate.close()
        raise UsageError(f"{certificate} and {key} are not a certificate and its key (PEM)") from None
    return uvicorn.Server(config), gate


async def serve_behind(server: uvicorn.Server, gate: Gate) -> None:
    """Serve until told to stop; who stays too long is closed."""

    async def sweep() -> None:
        while True:
            gate.sweep()
            await asyncio.sleep(0.1)

    sweeper = asyncio.create_task(sweep())
    try:
        await server.serve(sockets=[gate])
    finally:
        sweeper.cancel()
        gate.close()


def run_server(server: uvicorn.Server, gate: ServiceGate) -> None:
    """Serve what ``make_server`` made, until told to stop."""
    try:
        asyncio.run(serve_behind(server, gate))
    except KeyboardInterrupt:
        return
    if not server.started:
        raise UsageError("the service did not start; its log says why")
