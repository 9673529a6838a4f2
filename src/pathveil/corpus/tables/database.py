"""What a query gives of a database, streamed: PostgreSQL, SQLite by address, or any that SQLAlchemy has a driver for.

The address comes from an environment variable, never from the command line, where a password could be seen by others;
libpq's own (``PGPASSWORD``, ``~/.pgpass``) work too. The transaction can only read, and holds one batch of rows at a
time. Values come as text, as those of CSV do, so that codes keep their form. No message quotes what the database holds.

>>> import sqlite3, tempfile
>>> path = Path(tempfile.mkdtemp()) / "lab.db"
>>> with sqlite3.connect(path) as database:
...     _ = database.execute("create table reports (id integer, body text)")
...     _ = database.execute("insert into reports values (7, 'left breast')")
>>> open_database(f"sqlite:///{path}", query="select id as report_id, body as text from reports").collect().rows()
[('7', 'left breast')]
"""

import os
import re
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from pathveil.corpus.tables.files import BATCH, streamed
from pathveil.corpus.tables.sources import as_text, open_sqlite, text_frames
from pathveil.errors import CorpusError, MissingExtraError, UsageError

if TYPE_CHECKING:
    import polars as pl

NAME = "the database"  # how messages call it: its address may hold a password
Rows = tuple[list[str], Iterator[Any]]  # names of columns, records
Run = Callable[[], AbstractContextManager[Rows]]


def address_from_environment(variable: str) -> str:
    """The address in an environment variable."""
    if "://" in variable:
        raise UsageError(
            "--database takes the name of an environment variable that holds the address: what stands on a command "
            "line can be seen by others"
        )
    address = os.environ.get(variable, "")
    if not re.match(r"[A-Za-z][\w+.-]*://", address):
        raise UsageError(
            f"the environment variable {variable[:40]} holds no database's address; expected one such as "
            "postgresql://user@host/database"
        )
    return address


def open_database(address: str, *, query: str | None) -> "pl.LazyFrame":
    """What a query gives, as a lazy frame of strings."""
    import polars as pl

    if not query:
        raise UsageError(f"{NAME}: say what to read with --query, for example 'select * from reports'")
    scheme = urlsplit(address).scheme.lower()
    if scheme == "sqlite":
        return open_sqlite(Path(unquote(urlsplit(address).path).removeprefix("/")), query=query)
    run = _postgresql(address, query) if scheme in ("postgresql", "postgres") else _sqlalchemy(address, query)
    with run() as (columns, _):
        if not columns or len(set(columns)) < len(columns):
            raise UsageError(f"{NAME}: --query gives no columns, or two of one name; expected a select that names each")
    schema = pl.Schema(dict.fromkeys(columns, pl.String))

    def frames() -> Iterator["pl.DataFrame"]:
        with run() as (_, records):
            yield from text_frames(records, columns, text=_text)

    return streamed(frames, schema)


def _text(value: Any) -> str | None:
    if isinstance(value, memoryview):
        value = bytes(value)
    try:
        return as_text(value)
    except UnicodeDecodeError:
        raise CorpusError(f"{NAME}: a column holds bytes that are no text; leave it out of the query") from None


def _postgresql(address: str, query: str) -> Run:
    """A query through a cursor on the server, which sends a batch at a time."""
    try:
        import psycopg
        from psycopg.types.string import TextLoader
    except ImportError:
        raise MissingExtraError(package="psycopg", extra="postgresql", purpose="reading PostgreSQL") from None

    @contextmanager
    def run() -> Generator[Rows]:
        try:
            with psycopg.connect(address, connect_timeout=30) as connection:
                connection.read_only = True
                connection.execute("set datestyle to iso")
                for kind in ("date", "timestamp", "timestamptz"):  # Python has no infinite days
                    connection.adapters.register_loader(kind, TextLoader)
                with connection.cursor(name="pathveil") as cursor:
                    cursor.itersize = BATCH
                    cursor.execute(query)  # ty: ignore[invalid-argument-type]
                    yield [column.name for column in cursor.description or ()], iter(cursor)
        except psycopg.Error as error:
            raise _refusal(error, error.sqlstate or "", error.diag.message_primary) from None

    return run


def _refusal(error: Exception, state: str, message: str | None) -> Exception:
    """The database's complaint where it is about the query (class 42) or the connection; others may quote rows."""
    if state.startswith("42") and message:
        return UsageError(f"{NAME}: the query cannot be run ({' '.join(message.split())[:120]})")
    if state.startswith("25"):
        return UsageError(f"{NAME}: the query would change something; expected a select")
    why = state[:5] or type(error).__name__
    if why != "DataError" and (not state or state.startswith(("08", "28", "3D"))):
        return UsageError(f"{NAME}: cannot be reached ({why}); check its address and password")
    return CorpusError(f"{NAME}: the query stopped on the way ({'SQLSTATE ' if state else ''}{why})")


def _sqlalchemy(address: str, query: str) -> Run:
    """A query through whatever driver SQLAlchemy has for the address, such as mssql+pyodbc or oracle+oracledb."""
    try:
        import sqlalchemy
        from sqlalchemy.exc import SQLAlchemyError
    except ImportError:
        raise MissingExtraError(
            package="sqlalchemy and the database's driver", extra="databases", purpose="reading such a database"
        ) from None
    try:
        engine = sqlalchemy.create_engine(address, poolclass=sqlalchemy.NullPool)
    except (SQLAlchemyError, ImportError, ValueError):
        raise UsageError(f"{NAME}: SQLAlchemy knows no such address, or its driver is not installed") from None

    @contextmanager
    def run() -> Generator[Rows]:
        try:
            with engine.connect().execution_options(stream_results=True, yield_per=BATCH) as connection:
                found = connection.execute(sqlalchemy.text(query))
                if not found.returns_rows:
                    raise UsageError(f"{NAME}: the query gives no rows; expected a select")
                yield list(found.keys()), iter(found)
                connection.rollback()
        except SQLAlchemyError as error:
            raise UsageError(f"{NAME}: the query cannot be run ({type(error).__name__})") from None

    return run
