"""The store and what works on it while the service runs: new cases are coded, feeds are read, old texts erased.

What a restart must not lose is in the database alone. The model's proposals are made after a report is stored, by one
task that takes whatever is new; killed in the middle, it finds the same cases again.
"""

import asyncio
import contextlib
import hashlib
import logging
import secrets
import time
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.concurrency import run_in_threadpool

from pathveil.bundle.model import Model
from pathveil.errors import UsageError
from pathveil.files import sha256_of_json
from pathveil.serve.accounts import Accounts
from pathveil.serve.casework import Casework
from pathveil.serve.chain import note
from pathveil.serve.coding import Asked, ReportOut, propose_case
from pathveil.serve.database import TABLES, Database
from pathveil.serve.sealing import Sealer
from pathveil.serve.sent import Sent
from pathveil.serve.settings import ServeSettings

if TYPE_CHECKING:
    from pathveil.serve.app import Service

log = logging.getLogger("pathveil.serve")

CASES_AT_ONCE = 50
PLACES = 6  # highlighted words a task
ERASE_EVERY = 600  # seconds
COUNT_EVERY = 60  # seconds that counts of codes are good for
SEALED = "sealed"


class Desk:
    """Everything that is kept."""

    def __init__(
        self, place: Path | str, settings: ServeSettings, *, secret: bytes | None = None, cheap_passwords: bool = False
    ):
        self.base = Database.open(place)
        if self.fact("tables", TABLES) != TABLES:
            raise UsageError(
                "the store was begun by another version of pathveil, whose tables differ; use that version"
            )
        self.sealer = Sealer(secret)
        self.key = bytes.fromhex(self.fact("key", secrets.token_hex(32)))
        self._check_seal(secret)
        self.accounts = Accounts(self.base, hours=settings.session_hours, cheap=cheap_passwords)
        self.casework = Casework(
            self.base,
            self.sealer,
            key=self.key,
            hold_minutes=settings.hold_minutes,
            keep_hours=settings.keep_text_hours,
        )
        self.setup_token: str | None = None
        if not self.accounts.any():
            self.allow_setup()
        self.feeds: list[Any] = []  # objects with ``run(service)`` and ``describe()``
        self.models: Path | None = None  # where an administrator may choose another model from
        self.require_signature: Path | None = None  # the public key of whose releases alone may be chosen
        self.arrived = asyncio.Event()
        self.candidate: Any = None  # another model, compared and not yet in use
        self.counted: dict[str, Counter[str]] = {}  # codes that people decided, by task
        self.counted_until = 0.0

    def allow_setup(self) -> None:
        """Let whoever has the link, which is shown to who started the service, make an administrator, once."""
        self.setup_token = secrets.token_urlsafe(18)

    def fact(self, name: str, otherwise: str) -> str:
        """A fact of the store, written down when it is first asked for."""
        with self.base.transaction() as do:
            found = do("SELECT value FROM facts WHERE name = ?", name)
            if not found:
                do("INSERT INTO facts VALUES (?, ?)", name, otherwise)
        return found[0]["value"] if found else otherwise

    def set_fact(self, name: str, value: str, *, by: str) -> None:
        self.fact(name, value)
        with self.base.transaction() as do:
            do("UPDATE facts SET value = ? WHERE name = ?", value, name)
            note(do, by, "setting changed", {name: value})

    def frequencies(self, model: Model, task: str) -> dict[str, float]:
        """How frequent each code is: among what people decided here, and as much as a hundred cases in training."""
        if time.monotonic() > self.counted_until:
            self.counted, self.counted_until = self.casework.decided_codes(), time.monotonic() + COUNT_EVERY
        found = {
            code: 100.0 * share
            for code, share in model.provenance.get("profile", {}).get("mix", {}).get(task, {}).items()
        }
        for code, number in self.counted.get(task, {}).items():
            found[code] = found.get(code, 0.0) + number
        return found

    def _check_seal(self, secret: bytes | None) -> None:
        """A store that was begun with a key is opened with the same one, and never without."""
        trial = self.sealer.close(SEALED, SEALED).hex() if secret else ""
        kept = self.fact(SEALED, trial)
        if kept:
            self.sealer.open(bytes.fromhex(kept), SEALED)
        elif secret:
            raise UsageError("the store was begun without --store-key; begin a new one with it, or leave it out")

    async def receive(self, reports: Sequence[Sent], *, source: str) -> int:
        """Store reports for the queue; how many are new."""
        new = await run_in_threadpool(self.casework.receive, reports, source=source)
        self.arrived.set()
        return new

    def note_coded(self, who: str, reports: Sequence[Sent], results: Sequence[ReportOut], model: str) -> None:
        """A line of the log about what a program had coded: hashes with the store's key, and codes."""
        digest = hashlib.blake2b(key=self.key, digest_size=16)
        for report in reports:
            digest.update(report.text.encode("utf-8", "surrogatepass"))
        codes = sha256_of_json([{task: code.code for task, code in one.codes.items()} for one in results])
        with self.base.transaction() as do:
            note(
                do, who, "asked", {"reports": len(reports), "texts": digest.hexdigest(), "codes": codes, "model": model}
            )

    @contextlib.asynccontextmanager
    async def at_work(self, service: "Service") -> AsyncGenerator[None]:
        """Code what comes and read the feeds, as long as the block lasts."""
        jobs = [self._code_new(service), self._erase(), *(feed.run(service) for feed in self.feeds)]
        tasks = [asyncio.create_task(job) for job in jobs]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self.base.close()

    async def _code_new(self, service: "Service") -> None:
        while True:
            self.arrived.clear()
            try:
                while await self.code_waiting(service):
                    pass
                service.metrics.queue.set(await run_in_threadpool(self.casework.waiting))
            except Exception as error:  # the queue must not stop for one fault; the cases are still there
                log.error("a defect of ours in the queue: %s", type(error).__name__)
                await asyncio.sleep(5)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(30):  # wait_for would swallow an end that comes with an arrival
                    await self.arrived.wait()

    async def code_waiting(self, service: "Service") -> int:
        """Have the model's proposals for some new cases; how many there were."""
        cases = await run_in_threadpool(self.casework.uncoded, CASES_AT_ONCE)
        for case, reports in cases:
            # Whatever the sender called the case: here it is one. Two reports may have one name, but not one place.
            together = [Sent(str(report.place), report.text, case_id=case) for report in reports]
            model, tumours = await service.pool.patient_code(together, Asked(places=PLACES, by_case=True))
            answer = propose_case(tumours)
            thresholds = thresholds_digest(service.pool.answerer.model)
            propose, number = self.casework.propose, len(reports)
            await run_in_threadpool(propose, case, answer, model=model, thresholds=thresholds, reports=number)
            service.metrics.reports.labels("queue").inc(len(reports))
        return len(cases)

    async def _erase(self) -> None:
        while True:
            await run_in_threadpool(self.casework.erase_old_texts)
            await asyncio.sleep(ERASE_EVERY)


def thresholds_digest(model: Model) -> str:
    """A hash of the thresholds below which a model abstains."""
    return sha256_of_json({task: threshold.to_dict() for task, threshold in model.thresholds.items()})[:16]
