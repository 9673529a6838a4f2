"""The service on a port: uvicorn, with TLS, and with an end to connections that send nothing.

uvicorn waits for ever for a request's head, and counts whoever is connected against its limit; so a few hundred idle
connections would shut everybody else out. Here a connection has ``header_seconds`` for each head, and an address can
have so many connections and no more.
"""

import asyncio
import ipaddress
from collections import Counter
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol

from pathveil.errors import UsageError
from pathveil.serve.settings import ServeSettings

KEEP_ALIVE = 30  # seconds that a connection stays open between two requests


def impatient(settings: ServeSettings) -> type[H11Protocol]:
    """uvicorn's protocol with a time limit for heads and a number of connections for each address."""
    connected: Counter[str] = Counter()

    class Impatient(H11Protocol):
        waits: asyncio.TimerHandle | None = None
        address = ""

        def connection_made(self, transport: Any) -> None:
            peer = transport.get_extra_info("peername")
            self.address = str(peer[0]) if isinstance(peer, tuple) and peer else "-"
            connected[self.address] += 1
            super().connection_made(transport)
            if connected[self.address] > settings.connections_an_address:
                transport.close()
            else:
                self.wait()

        def connection_lost(self, exc: Exception | None) -> None:
            connected[self.address] -= 1
            connected.pop(self.address) if connected[self.address] <= 0 else None
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


def run_server(
    app: Starlette,
    settings: ServeSettings,
    *,
    host: str,
    port: int,
    certificate: Path | None = None,
    key: Path | None = None,
    behind_proxy: bool = False,
) -> None:
    """Serve until told to stop."""
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        http=impatient(settings),
        ws="none",
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
        raise UsageError(f"{certificate} and {key} are not a certificate and its key (PEM)") from None
    server = uvicorn.Server(config)
    try:
        server.run()
    except SystemExit:  # uvicorn's way of saying that the port is taken
        pass
    except KeyboardInterrupt:
        return
    if not server.started:
        raise UsageError(f"cannot listen on {host} port {port}; is something else there?")
