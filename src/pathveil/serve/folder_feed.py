"""A watched folder: files that are put there go into the queue.

A file is taken once it has stopped growing, and is never changed or removed; the store remembers its name, size and
time, and what became of it. Its reports are stored before it counts as taken, and one that is stored already is not
stored twice, so a kill in between loses nothing and doubles nothing.
"""

import asyncio
import logging
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool

from pathveil.errors import PathveilError
from pathveil.serve.chain import now
from pathveil.serve.incoming import read_file
from pathveil.serve.sent import Sent

if TYPE_CHECKING:
    from pathveil.serve.app import Service

log = logging.getLogger("pathveil.serve")

EVERY = 2.0  # seconds between two looks


class FolderFeed:
    """Looks into a folder from time to time."""

    def __init__(self, folder: Path, *, every: float = EVERY):
        self.folder, self.every = folder, every
        self.before: dict[Path, tuple[int, int]] = {}  # size and time at the last look
        self.taken = self.failed = 0

    def describe(self) -> str:
        return f"folder {self.folder}: {self.taken} files taken, {self.failed} could not be read"

    async def run(self, service: "Service") -> None:
        while True:
            try:
                await self.look(service)
            except OSError as fault:
                log.warning("the watched folder cannot be read: %s", fault.strerror)
            await asyncio.sleep(self.every)

    async def look(self, service: "Service") -> None:
        """Take the files that are as they were at the last look."""
        now_there: dict[Path, tuple[int, int]] = {}
        for path in sorted(self.folder.iterdir()):
            if path.name.startswith(".") or path.suffix == ".part" or path.is_symlink() or not path.is_file():
                continue
            state = path.stat()
            now_there[path] = (state.st_size, state.st_mtime_ns)
            if self.before.get(path) == now_there[path]:
                await self.take(service, path, f"{state.st_size} {state.st_mtime_ns}")
        self.before = now_there

    async def take(self, service: "Service", path: Path, state: str) -> None:
        """Store a file's reports, and then that it was taken."""
        desk = service.desk
        assert desk is not None
        seen = await run_in_threadpool(desk.base.rows, "SELECT digest FROM files WHERE name = ?", path.name)
        if seen and seen[0]["digest"] == state:
            return
        outcome = "taken"
        try:
            batches = read_file(path, key=service.key)
            while True:
                reports: list[Sent] = await run_in_threadpool(lambda: next(batches, []))
                if not reports:
                    break
                await desk.receive(reports, source="folder")
            self.taken += 1
        except PathveilError:  # its message names the path; the store keeps that it failed, an operator looks
            outcome = "refused"
            self.failed += 1
            log.warning("a file of the watched folder cannot be read as HL7, FHIR or a table; the others go on")
        service.metrics.messages.labels("folder", outcome).inc()

        def remember() -> None:
            with desk.base.transaction() as do:
                do("DELETE FROM files WHERE name = ?", path.name)
                do("INSERT INTO files VALUES (?, ?, ?, ?)", path.name, state, outcome, now())

        await run_in_threadpool(remember)
