"""From a folder and a few options to a service that can be served."""

import secrets
from pathlib import Path

from pathveil.bundle.model import Model
from pathveil.bundle.release import Release, read_release
from pathveil.errors import UsageError
from pathveil.serve.answers import Answerer
from pathveil.serve.app import Service
from pathveil.serve.detail import allowed
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
) -> Service:
    """A service for the model of a bundle or a release, of the detail that its form allows."""
    form = most_detail(read_release(folder))
    answerer = Answerer(Model.load(folder), detail=allowed(form, detail))
    clients = read_tokens(token_file) if token_file else Clients({})
    pool = Pool(answerer, waiting=settings.waiting_requests, seconds=settings.answer_seconds)
    return Service(pool=pool, clients=clients, settings=settings, key=key or secrets.token_bytes(32), form=form)


def most_detail(release: Release | None) -> str:
    """The form that answers are held to; a bundle that nobody released is the operator's own, with its weights."""
    if release is None:
        return "weights"
    return "labels" if release.appetite and release.appetite.release == "label" else release.form


def read_key(path: Path) -> bytes:
    """A secret from a file: whatever it holds, if it is long enough to be one."""
    try:
        key = path.read_bytes().strip()
    except OSError as fault:
        raise UsageError(f"{path}: cannot be read ({fault.strerror}); expected a file that holds a secret") from None
    if len(key) < SHORTEST_KEY:
        raise UsageError(f"{path}: holds fewer than {SHORTEST_KEY} bytes; make one with: openssl rand -hex 32 > {path}")
    return key
