"""A site's way through an agreement over HTTPS: key holders, then the hub, then the vocabulary.

Every step can be repeated: a lost connection is tried again, and a killed site is started again by the same command.
Standard library only: connections are kept open, one a thread and server. A server is believed only with the very
certificate that the agreement pins for it; no authority's word counts, and no other server's certificate.

>>> from pathveil.agreement.agreement import Agreement
>>> from pathveil.agreement.offer import made_up_offers
>>> (hub, *holders), _ = made_up_offers("hub", "a", "b")
>>> hub = hub.model_copy(update={"address": "https://localhost:1"})
>>> terms = Agreement.propose(sites=["R1", "R2", "R3"], hub=hub, holders=holders)
>>> Server(terms, "hub", token="t").call("GET", "result", attempts=1)
Traceback (most recent call last):
pathveil.errors.AgreementError: hub at https://localhost:1 cannot be reached (ConnectionRefusedError); \
run the same command again when it can
"""

import hashlib
import http.client
import json
import re
import ssl
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

from pathveil.agreement import oprf
from pathveil.agreement.agreement import HUB, Agreement
from pathveil.agreement.hub import HEADER, TAG
from pathveil.agreement.offer import Pinned
from pathveil.agreement.site import Site
from pathveil.agreement.store import erase_state
from pathveil.errors import AgreementError, UsageError
from pathveil.progress import Progress, silent
from pathveil.untrusted import parse_json
from pathveil.vocabulary.words import Vocabulary

TIMEOUT = 60.0  # seconds for one answer
PATIENCE = (0.5, 1, 2, 4, 8)  # seconds between attempts


def trust_only(server: Pinned) -> ssl.SSLContext:
    """Trust one server by its own certificate, for its host and its days, and nothing else."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # the certificate itself, whoever signed it
    context.load_verify_locations(cadata=server.certificate)
    return context


class Server:
    """One server as a site sees it."""

    def __init__(self, agreement: Agreement, name: str, *, token: str):
        self._pinned = agreement.server(name)
        self.name, self.url = name, self._pinned.address
        self._place = urlsplit(self.url)
        self._prefix = f"/v1/{agreement.sha256}/"
        self._headers = {"authorization": f"Bearer {token}", "content-type": "application/octet-stream"}
        self._trust = trust_only(self._pinned)
        self._mine = threading.local()

    def call(
        self, method: str, path: str, body: bytes = b"", *, limit: int = 4_096, attempts: int = len(PATIENCE) + 1
    ) -> tuple[int, bytes]:
        """Status and body of an answer below 400; AgreementError with the server's own sentence otherwise."""
        reason = "no answer"
        for attempt in range(attempts):
            if attempt:
                time.sleep(PATIENCE[min(attempt, len(PATIENCE)) - 1])
            try:
                status, answer = self._once(method, path, body, limit)
            except ssl.SSLCertVerificationError as error:
                raise AgreementError(
                    f"{self.name} at {self.url} is not trusted: it does not show the certificate that the agreement "
                    f"pins ({error.verify_message})"
                ) from None
            except (OSError, http.client.HTTPException) as error:
                self.close()
                reason = type(error).__name__
                continue
            if status < 400:
                return status, answer
            if status < 500:
                raise AgreementError(f"{self.name} refused: {_sentence(answer)}", status=status)
            reason = f"status {status}"
        raise AgreementError(
            f"{self.name} at {self.url} cannot be reached ({reason}); run the same command again when it can",
            status=503,
        )

    def _once(self, method: str, path: str, body: bytes, limit: int) -> tuple[int, bytes]:
        connection = getattr(self._mine, "connection", None)
        if connection is None:
            connection = http.client.HTTPSConnection(
                self._place.hostname or "", self._place.port or 443, timeout=TIMEOUT, context=self._trust
            )
            connection.connect()
            # The context trusts what the pinned certificate signed, should its owner have signed others.
            if not isinstance(connection.sock, ssl.SSLSocket) or connection.sock.getpeercert(True) != self._pinned.der:
                connection.close()
                raise AgreementError(f"{self.name} at {self.url} shows another certificate than the agreement pins")
            self._mine.connection = connection
        connection.request(method, self._prefix + path, body=body, headers=self._headers)
        response = connection.getresponse()
        answer = response.read(limit + 1)
        if len(answer) > limit or response.will_close:
            self.close()
        if len(answer) > limit:
            raise AgreementError(
                f"{self.name} sent more than the {limit} bytes expected; it does not keep the protocol"
            )
        return response.status, answer

    def close(self) -> None:
        """Let go of this thread's connection; the next call makes a new one."""
        connection = getattr(self._mine, "connection", None)
        if connection is not None:
            connection.close()
            self._mine.connection = None


def _sentence(answer: bytes) -> str:
    """The server's reason, made safe to print."""
    try:
        text = str(parse_json(answer)["error"])
    except (ValueError, KeyError, TypeError):
        return "it gave no reason"
    return "".join(letter if letter.isprintable() else " " for letter in text)[:500]


def read_tokens(folder: Path, agreement: Agreement) -> dict[str, str]:
    """The site's tokens, one file a server: hub.token and one for each key holder."""
    tokens = {}
    for name in agreement.servers:
        path = folder / f"{name}.token"
        try:
            tokens[name] = path.read_text(encoding="ascii").strip()
        except (OSError, ValueError):
            tokens[name] = ""
        if not re.fullmatch("[A-Za-z0-9_-]{20,200}", tokens[name]):
            raise UsageError(f"{path}: no token there; the operator of {name} gives one to each site")
    return tokens


def take_part(
    site: Site,
    *,
    out: Path,
    tokens: Mapping[str, str],
    workers: int = 2,
    poll: float = 5.0,
    progress: Progress = silent,
) -> Vocabulary:
    """From words to the agreed vocabulary, written to ``out``; waits for the other sites."""
    agreement = site.agreement
    servers = {name: Server(agreement, name, token=tokens[name]) for name in agreement.servers}
    _tag(site, servers, workers, progress)
    for holder in agreement.holders:
        _notify(servers[holder], "done")
    hub = servers[HUB]
    _submit(site, hub, progress)
    vocabulary = site.vocabulary_from(_wait(site, hub, poll, progress))
    vocabulary.save(out)
    _notify(hub, "received")
    site.erase()
    return vocabulary


def already_done(
    agreement: Agreement, name: str, *, out: Path, folder: Path, tokens: Mapping[str, str]
) -> Vocabulary | None:
    """The vocabulary that an earlier run wrote, if it did; what that run left undone is then done."""
    if not out.exists():
        return None
    vocabulary = Vocabulary.load(out)
    if (vocabulary.source.get("agreement"), vocabulary.source.get("site")) != (agreement.id, name):
        raise UsageError(f"{out}: is there already and is not of this agreement; give another --out")
    _notify(Server(agreement, HUB, token=tokens[HUB]), "received")
    erase_state(folder)
    return vocabulary


def _tag(site: Site, servers: Mapping[str, Server], workers: int, progress: Progress) -> None:
    pending = site.pending()
    if not pending:
        return
    batch = site.agreement.batch

    def tag(number: int) -> None:
        points = site.points(number)
        for holder in site.agreement.holders:
            _, answer = servers[holder].call("POST", f"points/{number}", points, limit=oprf.PROOF + batch * oprf.POINT)
            points = site.check(holder, number, points, answer)
        site.finish(number, points)

    with ThreadPoolExecutor(workers) as pool:
        try:
            for done, _ in enumerate(pool.map(tag, pending), start=site.batches - len(pending) + 1):
                progress("tagging words", done, site.batches)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _submit(site: Site, hub: Server, progress: Progress) -> None:
    tags = site.tags()
    size = site.agreement.batch * TAG
    announced = {"commitment": hashlib.sha256(tags).hexdigest(), "batches": site.batches}
    _, answer = hub.call("POST", "set", json.dumps(announced).encode(), limit=10 * site.batches + 1_000)
    missing = parse_json(answer)["missing"]
    for done, number in enumerate(missing, start=1):
        hub.call("POST", f"tags/{number}", tags[number * size : (number + 1) * size])
        progress("sending tags", done, len(missing))


def _wait(site: Site, hub: Server, poll: float, progress: Progress) -> bytes:
    limit = HEADER + 4 * site.batches * site.agreement.batch
    while True:
        status, answer = hub.call("GET", "result", limit=limit)
        if status == 200:
            return answer
        sites = len(site.agreement.sites)
        progress("waiting for the other sites", sites - parse_json(answer)["waiting_for"], sites)
        time.sleep(poll)


def _notify(server: Server, what: str) -> None:
    """Courtesies that let a server erase early; one that is gone has erased, or will when the agreement expires."""
    try:
        server.call("POST", what, attempts=2)
    except AgreementError as error:
        if error.status not in (410, 503):
            raise
    server.close()
