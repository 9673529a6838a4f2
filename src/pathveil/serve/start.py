"""From a folder and a few options to a service that can be served."""

import hmac
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pathveil.bundle.model import Model
from pathveil.errors import UsageError
from pathveil.serve.app import Service
from pathveil.serve.coding import Answerer
from pathveil.serve.desk import Desk
from pathveil.serve.detail import allowed
from pathveil.serve.incoming import read_file
from pathveil.serve.pool import Pool
from pathveil.serve.settings import ServeSettings
from pathveil.serve.tokens import Clients, read_tokens

SHORTEST_KEY = 16  # bytes of a key file


def make_service(
    folder: Path,
    *,
    settings: ServeSettings,
    token_file: Path | None = None,
    detail: str | None = None,
    key: bytes | None = None,
    store: Path | str | None = None,
    store_key: bytes | None = None,
    models: Path | None = None,
    feeds: Sequence[Any] = (),
    require_signature: Path | None = None,
    words_key: Path | None = None,
) -> Service:
    """A service for the model of a bundle or a release, of the detail that its form allows; with a store, also for
    people. The key of HL7 patients' ids is the store's own where none is given, so that ids stay.

    With ``require_signature``, a public key's file, only for a release that the key's owner signed; ``words_key`` is
    the file with the secret of hashed words."""
    model = Model.load(folder, require_signature=require_signature, words_key=words_key)
    answerer = Answerer(model, detail=allowed(model.form, detail))
    clients = read_tokens(token_file) if token_file else Clients({})
    desk = None
    if store is not None:
        desk = Desk(store, settings, secret=store_key)
        desk.feeds, desk.models, desk.require_signature = list(feeds), models, require_signature
        key = key or hmac.digest(desk.key, b"ids of patients", "sha256")
    elif feeds:
        raise UsageError("--watch, --mllp and --queue need --store, where reports wait for a person")
    pool = Pool(answerer, waiting=settings.waiting_requests, seconds=settings.answer_seconds)
    own = key or secrets.token_bytes(32)
    return Service(pool=pool, clients=clients, settings=settings, key=own, form=model.form, desk=desk)


def queue_file(service: Service, path: Path) -> int:
    """Put a file's reports into the queue; how many are new."""
    assert service.desk is not None
    return sum(service.desk.casework.receive(batch, source="file") for batch in read_file(path, key=service.key))


def address_of(text: str) -> tuple[str, int]:
    """The host and port of HOST:PORT, or of a port on this machine.

    >>> address_of("2575"), address_of("0.0.0.0:2575")
    (('127.0.0.1', 2575), ('0.0.0.0', 2575))
    """
    host, _, port = text.rpartition(":")
    if not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise UsageError(f"--mllp {text}: expected a port, or an address and a port as in 0.0.0.0:2575")
    return host or "127.0.0.1", int(port)


def read_key(path: Path) -> bytes:
    """A secret from a file: whatever it holds, if it is long enough to be one."""
    try:
        key = path.read_bytes().strip()
    except OSError as fault:
        raise UsageError(f"{path}: cannot be read ({fault.strerror}); expected a file that holds a secret") from None
    if len(key) < SHORTEST_KEY:
        raise UsageError(f"{path}: holds fewer than {SHORTEST_KEY} bytes; make one with: openssl rand -hex 32 > {path}")
    return key
