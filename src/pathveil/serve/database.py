"""The store's database: SQLite in a folder, or PostgreSQL where a registry has one, through the same statements.

What is committed is on the disk: SQLite runs in WAL with full synchronisation, PostgreSQL by its default. So whatever
was acknowledged after a transaction is there again after a kill or a power cut. Statements use ``?`` and types that
both know; rows are dictionaries.

>>> import tempfile
>>> base = Database.open(Path(tempfile.mkdtemp()))
>>> with base.transaction() as do:
...     _ = do("INSERT INTO facts (name, value) VALUES (?, ?)", "seen", "yes")
>>> base.rows("SELECT value FROM facts WHERE name = ?", "seen")
[{'value': 'yes'}]
"""

import contextlib
import sqlite3
import threading
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

from pathveil.errors import MissingExtraError, UsageError

FILE = "store.sqlite"
TABLES = "1"  # raised whenever the tables below change so that an older store lacks something
SCHEMA = """
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS cases (
    id TEXT PRIMARY KEY, case_id TEXT, registry TEXT NOT NULL, day TEXT NOT NULL, received TEXT NOT NULL,
    status TEXT NOT NULL, answer TEXT, model TEXT, abstained BIGINT NOT NULL, uncertainty DOUBLE PRECISION NOT NULL,
    holder TEXT, held_until TEXT, first_coder TEXT, closed TEXT, reason TEXT);
CREATE INDEX IF NOT EXISTS cases_by_status ON cases (status, abstained, uncertainty);
CREATE TABLE IF NOT EXISTS reports (
    id TEXT PRIMARY KEY, case_key TEXT NOT NULL, place BIGINT NOT NULL, report_id TEXT NOT NULL, number TEXT,
    registry TEXT NOT NULL, day TEXT NOT NULL, source TEXT NOT NULL, received TEXT NOT NULL, text BYTEA);
CREATE INDEX IF NOT EXISTS reports_by_case ON reports (case_key);
CREATE TABLE IF NOT EXISTS decisions (
    id TEXT PRIMARY KEY, case_key TEXT NOT NULL, who TEXT NOT NULL, round BIGINT NOT NULL, codes TEXT NOT NULL,
    proposed TEXT NOT NULL, abstained TEXT NOT NULL, reports TEXT NOT NULL, model TEXT NOT NULL, made TEXT NOT NULL,
    undone BIGINT NOT NULL);
CREATE INDEX IF NOT EXISTS decisions_by_case ON decisions (case_key);
CREATE TABLE IF NOT EXISTS drafts (
    case_key TEXT NOT NULL, who TEXT NOT NULL, codes TEXT NOT NULL, reports TEXT NOT NULL, added BIGINT NOT NULL,
    PRIMARY KEY (case_key, who));
CREATE TABLE IF NOT EXISTS log (
    number BIGINT PRIMARY KEY, made TEXT NOT NULL, who TEXT NOT NULL, what TEXT NOT NULL, detail TEXT NOT NULL,
    before TEXT NOT NULL, hash TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS users (
    name TEXT PRIMARY KEY, password TEXT NOT NULL, role TEXT NOT NULL, registries TEXT NOT NULL,
    active BIGINT NOT NULL, made TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS sessions (
    digest TEXT PRIMARY KEY, name TEXT NOT NULL, csrf TEXT NOT NULL, made TEXT NOT NULL, expires TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS files (
    name TEXT PRIMARY KEY, digest TEXT NOT NULL, outcome TEXT NOT NULL, made TEXT NOT NULL)
"""
# The log is only ever added to, whoever writes the statement.
APPEND_ONLY = {
    "sqlite": [
        f"CREATE TRIGGER IF NOT EXISTS log_no_{verb.lower()} BEFORE {verb} ON log "
        "BEGIN SELECT RAISE(ABORT, 'the log is only added to'); END"
        for verb in ("UPDATE", "DELETE")
    ],
    "postgresql": [
        "CREATE OR REPLACE FUNCTION pathveil_append_only() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'the log is only added to'; END $$",
        "DROP TRIGGER IF EXISTS log_append_only ON log",
        "CREATE TRIGGER log_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON log "
        "FOR EACH STATEMENT EXECUTE FUNCTION pathveil_append_only()",
    ],
}

Do = Callable[..., list[dict[str, Any]]]


class Database:
    """One connection that one thread uses at a time: transactions are short, and writers would wait anyway."""

    def __init__(self, connect: Callable[[], Any], kind: str):
        self.connect, self.kind, self.lock = connect, kind, threading.RLock()
        self.connection = connect()
        with self.transaction() as do:
            for statement in (*SCHEMA.split(";\n"), *APPEND_ONLY[kind]):
                do(statement)

    @classmethod
    def open(cls, place: Path | str) -> "Database":
        """The database of a folder, or the PostgreSQL one of an address (postgresql://…)."""
        if str(place).startswith(("postgresql://", "postgres://")):
            return cls(lambda: _postgresql(str(place)), "postgresql")
        folder = Path(place)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return cls(lambda: _sqlite(folder / FILE), "sqlite")

    @contextlib.contextmanager
    def transaction(self) -> Generator[Do]:
        """All statements or none of them; on the disk when the block has ended."""
        with self.lock:
            if self.kind == "postgresql" and self.connection.closed:
                self.connection = self.connect()  # the server was started anew
            self._run("BEGIN IMMEDIATE" if self.kind == "sqlite" else "BEGIN")
            try:
                yield self._run
            except BaseException:
                with contextlib.suppress(Exception):
                    self._run("ROLLBACK")
                raise
            self._run("COMMIT")

    def rows(self, statement: str, *values: Any) -> list[dict[str, Any]]:
        """What a question finds."""
        with self.transaction() as do:
            return do(statement, *values)

    def close(self) -> None:
        with self.lock:
            self.connection.close()

    def _run(self, statement: str, *values: Any) -> list[dict[str, Any]]:
        if self.kind == "postgresql":
            cursor = self.connection.execute(statement.replace("?", "%s"), values or None)
        else:
            cursor = self.connection.execute(statement, values)
        if cursor.description is None:
            return []
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def _sqlite(path: Path) -> sqlite3.Connection:
    try:
        path.touch(mode=0o600)  # the write-ahead log takes its mode
        connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None, timeout=30)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA secure_delete = ON")  # text that is erased is overwritten
        return connection
    except (sqlite3.DatabaseError, OSError):
        raise UsageError(f"{path}: cannot be opened as a store; expected one that 'pathveil serve' has made") from None


def _postgresql(address: str) -> Any:
    try:
        import psycopg
    except ModuleNotFoundError:
        raise MissingExtraError(package="psycopg", extra="postgresql", purpose="a store in PostgreSQL") from None
    try:
        return psycopg.connect(address, autocommit=True)
    except psycopg.OperationalError:  # not its message, which may quote the address with a password
        raise UsageError("the PostgreSQL server of --store cannot be reached, or refuses the user") from None
