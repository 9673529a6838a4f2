"""A party's state on disk: an SQLite file that survives a kill at any moment, or in memory for a simulation.

Each party opens its own with the tables it needs. The file belongs to one agreement and one role; opening it with
another is refused. Deleted rows are overwritten (``secure_delete``) and the folder is closed to other users.

>>> from pathveil.agreement.agreement import Agreement
>>> from pathveil.agreement.offer import made_up_offers
>>> (hub, *holders), _ = made_up_offers("hub", "a", "b")
>>> terms = Agreement.propose(sites=["R1", "R2", "R3"], hub=hub, holders=holders)
>>> store = Store(None, agreement=terms, role="hub", tables="CREATE TABLE seen (site TEXT PRIMARY KEY)")
>>> with store.transaction() as database:
...     _ = database.execute("INSERT INTO seen VALUES ('R1')")
>>> store.rows("SELECT site FROM seen")
[('R1',)]
"""

import os
import sqlite3
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from pathveil.agreement.agreement import Agreement
from pathveil.errors import UsageError

FILE = "state.sqlite"
BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)  # another connection holds it


class Store:
    """One connection shared by a server's threads, one at a time."""

    def __init__(self, folder: Path | None, *, agreement: Agreement, role: str, tables: str):
        self.folder = folder
        self.lock = threading.RLock()
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            (folder / FILE).touch(mode=0o600)
        # Autocommit: transactions are begun and ended by hand, in one place.
        self.database = sqlite3.connect(
            ":memory:" if folder is None else folder / FILE, check_same_thread=False, isolation_level=None
        )
        self.database.execute("PRAGMA secure_delete = ON")
        self.database.execute("PRAGMA busy_timeout = 0")
        try:
            # One process at a time; and no rollback journal with old rows in it left lying about.
            self.database.execute("PRAGMA journal_mode = TRUNCATE")
            self.database.execute("PRAGMA locking_mode = EXCLUSIVE")
            with self.transaction() as database:
                if not self.rows("SELECT 1 FROM sqlite_master WHERE name = 'about'"):
                    database.execute("CREATE TABLE about (key TEXT PRIMARY KEY, value TEXT)")
                    for statement in filter(str.strip, tables.split(";")):
                        database.execute(statement)
                    self.set_value("agreement", agreement.sha256)
                    self.set_value("role", role)
        except sqlite3.DatabaseError as error:
            self.database.close()
            busy = isinstance(error, sqlite3.OperationalError) and error.sqlite_errorcode in BUSY
            raise UsageError(
                f"{folder}: another process is using this state folder; one {role} at a time"
                if busy
                else f"{folder}: {FILE} is damaged or not a state file; start the agreement anew in an empty folder"
            ) from None
        if (self.value("agreement"), self.value("role")) != (agreement.sha256, role):
            self.database.close()
            raise UsageError(f"{folder}: is the state of another agreement or role; give {role} a folder of its own")

    @contextmanager
    def transaction(self) -> Generator[sqlite3.Connection]:
        """All of it happens, or nothing."""
        with self.lock:
            self.database.execute("BEGIN IMMEDIATE")
            try:
                yield self.database
            except BaseException:
                self.database.execute("ROLLBACK")
                raise
            self.database.execute("COMMIT")

    def rows(self, query: str, *values: object) -> list[tuple]:
        with self.lock:
            return self.database.execute(query, values).fetchall()

    def set_value(self, key: str, value: str) -> None:
        """Keep one named value; inside a transaction or alone."""
        with self.lock:
            self.database.execute("INSERT OR REPLACE INTO about VALUES (?, ?)", (key, value))

    def value(self, key: str) -> str | None:
        found = self.rows("SELECT value FROM about WHERE key = ?", key)
        return found[0][0] if found else None

    def close(self) -> None:
        with self.lock:
            self.database.close()

    def erase(self) -> None:
        """Close, overwrite and remove the file."""
        self.close()
        if self.folder is not None:
            erase_state(self.folder)


def erase_state(folder: Path) -> None:
    for name in (FILE, f"{FILE}-journal"):
        erase_file(folder / name)


def erase_file(path: Path) -> None:
    """Overwrite with zeros, flush, remove. (A disk or file system that keeps old blocks may still have them.)"""
    if not path.exists():
        return
    with path.open("r+b") as file:
        file.write(bytes(path.stat().st_size))
        file.flush()
        os.fsync(file.fileno())
    path.unlink()
