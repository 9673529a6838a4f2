"""Databases as tables: what a query gives of SQLite, PostgreSQL, or any that SQLAlchemy has a driver for, streamed.

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
import sqlite3
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from pathveil.corpus.tables.files import BATCH, streamed
from pathveil.errors import CorpusError, MissingExtraError, UsageError
from pathveil.formatting import counted

if TYPE_CHECKING:
    import polars as pl

LONGEST_VALUE = 1 << 26  # bytes of a value in a SQLite database
MOST_WORK = 20_000  # millions of steps that a query of one may take to its next record
MOST_RECORDS = 1_000_000  # that one of no size may give
FEW = 500  # records at a time: so many are still in the processor's cache when they are put into columns
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


class BoundedConnection(sqlite3.Connection):
    """A connection that gives up where the next record takes too many steps."""

    work = 0  # millions of steps since the last record

    def note(self) -> bool:
        self.work += 1
        return self.work > MOST_WORK


def open_sqlite(path: Path, *, query: str | None = None) -> "pl.LazyFrame":
    """What a query gives of a SQLite database, or its only table, as a lazy frame of strings."""
    import polars as pl

    query = query or only_table(path)
    with closing(connect(path)) as database, closing(run_query(database, query, path=path)) as cursor:
        columns = [column[0] for column in cursor.description or ()]
    if not columns or len(set(columns)) < len(columns):
        raise UsageError(f"{path}: --query gives no columns, or two of one name; expected a select that names each")
    schema = pl.Schema(dict.fromkeys(columns, pl.String))

    def frames() -> Iterator["pl.DataFrame"]:
        with closing(connect(path)) as database, closing(run_query(database, query, path=path)) as cursor:
            try:
                yield from text_frames(bounded(database, cursor, path=path), columns)
            except (sqlite3.Error, UnicodeError) as error:
                if isinstance(error, UnicodeError) or "decode" in str(error):
                    raise CorpusError(f"{path}: holds text that is not UTF-8; export it as CSV") from None
                raise CorpusError(f"{path}: the query stopped on the way; is the database damaged?") from None

    return streamed(frames, schema)


def connect(path: Path) -> BoundedConnection:
    """A connection that can only read; polars may use it from another thread than ours."""
    if not path.is_file():
        raise CorpusError(f"{path}: there is no such file")
    place = f"{path.absolute().as_uri()}?mode=ro"
    database = sqlite3.connect(place, uri=True, check_same_thread=False, factory=BoundedConnection)
    database.set_progress_handler(database.note, 1_000_000)
    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_VALUE)
    database.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)  # by which a query could write a copy elsewhere (vacuum into)
    database.execute("pragma trusted_schema = off")  # a view of another party's calls no function that does anything
    return database


def bounded(database: BoundedConnection, cursor: sqlite3.Cursor, *, path: Path) -> Iterator[tuple[Any, ...]]:
    """The records of a query; a view that never ends, or that makes records of nothing, is stopped."""
    most = MOST_RECORDS + 8 * path.stat().st_size
    for number, record in enumerate(cursor):
        if number == most:
            raise CorpusError(f"{path}: the query gives more records than the database can hold; say another --query")
        database.work = 0
        yield record


def run_query(database: sqlite3.Connection, query: str, *, path: Path) -> sqlite3.Cursor:
    try:
        return database.execute(query)
    except (sqlite3.Error, sqlite3.Warning, UnicodeError) as error:
        # Only with these codes is a message about the query; others may quote what is in the database.
        about_query = getattr(error, "sqlite_errorname", "") in ("SQLITE_ERROR", "SQLITE_READONLY")
        why = str(error) if about_query else "is it a SQLite database, and one statement?"
        if getattr(error, "sqlite_errorname", "") == "SQLITE_INTERRUPT":
            why = "it takes too long to its first record"
        raise UsageError(f"{path}: the query cannot be run ({why[:100]})") from None


def only_table(path: Path) -> str:
    """A query of the one table that there is."""
    with closing(connect(path)) as database:
        found = "select name from sqlite_master where type in ('table', 'view') and name not like 'sqlite_%' order by 1"
        names = [name for (name,) in run_query(database, found, path=path)]
    if len(names) != 1:
        raise UsageError(
            f"{path}: has {counted(len(names), 'table')} ({', '.join(names)[:200]}); "
            "say what to read with --query, for example 'select * from reports'"
        )
    quoted = names[0].replace('"', '""')
    return f'select * from "{quoted}"'


def text_frames(
    records: Iterator[Sequence[Any]], columns: Sequence[str], *, text: Callable[[Any], str | None] | None = None
) -> Iterator["pl.DataFrame"]:
    """Records of a database as frames of texts, some at a time; ``text`` makes one of a value that is none."""
    import polars as pl

    def series(name: str, values: Sequence[Any]) -> pl.Series:
        try:
            return pl.Series(name, values, pl.String, strict=True)
        except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError):
            return pl.Series(name, list(map(text or as_text, values)), pl.String)

    def frames(taken: Iterator[Sequence[Any]]) -> Iterator[pl.DataFrame]:
        while some := list(islice(taken, FEW)):
            yield pl.DataFrame([series(*column) for column in zip(columns, zip(*some, strict=True), strict=True)])

    while batch := list(frames(islice(records, BATCH))):
        yield pl.concat(batch).with_columns(pl.when(pl.all() != "").then(pl.all()))


def as_text(value: Any) -> str | None:
    """A value of a database as text; an id that became a decimal (1234.0) as the number that it was.

    >>> as_text(1234.0), as_text(1.5), as_text(b"C50"), as_text("")
    ('1234', '1.5', 'C50', None)
    """
    if isinstance(value, bytes):
        value = value.decode()
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return None if value is None or value == "" else str(value)
