"""Tables that are no corpus yet: SQLite databases and JSON files, which only an import reads.

A database is only read, a batch at a time. Its values come as text, as those of CSV do, so that codes keep their form.
Fields within fields are named with points: ``report.sections.text`` is the text of each of a report's sections.

>>> import sqlite3, tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     path = Path(folder) / "lab.db"
...     with sqlite3.connect(path) as database:
...         _ = database.execute("create table reports (id integer, body text)")
...         _ = database.execute("insert into reports values (7, 'left breast')")
...     open_sqlite(path, query="select id as report_id, body as text from reports").collect().rows()
[('7', 'left breast')]
"""

import codecs
import json
import re
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from pathveil.corpus.tables.files import BATCH, LARGE, held_frame, polars_faults, streamed
from pathveil.errors import CorpusError, UsageError
from pathveil.formatting import counted
from pathveil.untrusted import Refused, bounds
from pathveil.untrusted.archives import open_bytes
from pathveil.untrusted.text import check_json_lines, json_decoder

if TYPE_CHECKING:
    import polars as pl

LONGEST_VALUE = 1 << 26  # bytes of a value in a database
MOST_WORK = 20_000  # millions of steps that a query may take to its next record
BLANKS, LINE_END = re.compile(r"[ \t\r\n]*"), re.compile(r"[\r\n]+")
PAIR = re.compile(r"(?i)\\ud[89a-f]")  # a character as two escapes, or half of one
NO_JSON = "cannot be read as JSON"
SAMPLE = 4_096  # characters in which a list of objects shows itself
MOST_RECORDS = 1_000_000  # that a database of no size may give
FEW = 500  # records at a time: so many are still in the processor's cache when they are put into columns


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


def open_json(path: Path) -> "pl.LazyFrame":
    """A JSON file as a lazy frame: a list of objects, or an object that holds one such list, itself or in another.

    It is read an object at a time into JSONL of our own, so that it may be larger than the memory.
    """
    folder = tempfile.TemporaryDirectory(prefix="pathveil-")
    copy, large = Path(folder.name) / "objects.jsonl", path.stat().st_size > LARGE
    try:
        with open_bytes(path) as file, copy.open("wb") as out:
            out.writelines(object_lines(file, large=large))
        if not copy.stat().st_size:
            raise CorpusError(f"{path}: expected a list of objects, one a report")
        with copy.open("rb") as lines:
            size, rows, names, texts = check_json_lines(lines, large=copy.stat().st_size > LARGE)
        if not bounds.grown(16 * rows * names, sent=size):
            raise CorpusError(f"{path}: each object has other fields ({names:,} in all); expected the same in each")
        try:
            return held_frame(copy, folder, texts=texts)
        except polars_faults():
            with open_bytes(path) as file:
                for _ in object_lines(file):  # which knows what is wrong
                    pass
            fault = "its objects differ in their types; expected the same fields in each"
            raise CorpusError(f"{path}: {fault}") from None
    except Refused as fault:
        raise CorpusError(f"{path}: {fault}") from None
    except UnicodeEncodeError:
        raise CorpusError(f"{path}: holds half a character") from None


def object_lines(file: IO[bytes], *, large: bool = False) -> Iterator[bytes]:
    """The objects of a list, or of the only list of objects that an object holds; else that object itself. Each is a
    line of JSON, and some lines may come together; those of a ``large`` file are found by compiled code."""
    text = JsonText(file, large=large)
    if text.peek() == "[":
        yield from text.elements()
    elif text.peek() == "{":
        whole: dict[str, Any] = {}
        found = False
        for name in text.names():
            if not found and text.begins_objects():
                yield from text.elements()
                found = True
            else:
                whole[name] = text.value()
                if found and is_list_of_objects(whole[name]):
                    raise Refused("holds several lists of objects; expected one, of the reports")
        if not found:
            yield from map(line_of, wrapped_objects(whole))
    else:
        raise Refused(f"{NO_JSON}; expected a list of objects, one a report")
    if text.peek():
        raise Refused(NO_JSON)


def wrapped_objects(whole: dict[str, Any]) -> list[dict[str, Any]]:
    """The only list of objects that lies in objects of one name each ({"export": {"reports": …}}); else the object.

    Read as one report, such a list would give it everybody's texts.
    """
    inner = whole
    while len(inner) == 1 and isinstance(only := next(iter(inner.values())), dict):
        inner = only
    lists = [value for value in inner.values() if is_list_of_objects(value)] if inner is not whole else []
    if len(lists) > 1:
        raise Refused("holds several lists of objects; expected one, of the reports")
    if is_keyed(inner):
        raise Refused(
            "holds an object for each report, or column, under a name of its own; expected a list of objects, one a "
            "report (of pandas: orient='records')"
        )
    return lists[0] if lists else [whole]


def is_keyed(whole: dict[str, Any]) -> bool:
    """Whether an object holds nothing but objects with the same fields, such as reports by their number."""
    fields = [frozenset(one) if isinstance(one, dict) else None for one in whole.values()]
    return len(fields) > 2 and len(set(fields)) == 1 and bool(fields[0])


def line_of(found: Any) -> bytes:
    return json.dumps(found, ensure_ascii=False).encode() + b"\n"


class JsonText:
    """JSON that is read value by value, as much of it in memory as its largest value."""

    def __init__(self, file: IO[bytes], *, large: bool = False):
        self.file, self.bytes, self.large = file, codecs.getincrementaldecoder("utf-8-sig")(), large
        self.text, self.at, self.ended = "", 0, False
        self.is_new = False  # nobody looked for lines since text was added
        self.decoder = json_decoder()

    def fill(self) -> bool:
        """Read as much again as is waiting, so that a long value is not begun too often."""
        waiting = len(self.text) - self.at
        if self.ended or waiting > bounds.LONGEST_LINE:
            return False
        piece = self.file.read(max(1 << 20, waiting))
        self.ended = not piece
        try:
            self.text, self.at = self.text[self.at :] + self.bytes.decode(piece, self.ended), 0
        except UnicodeDecodeError:
            raise Refused(f"{NO_JSON} (it is not UTF-8)") from None
        self.is_new = True
        return True

    def peek(self) -> str:
        """The next character that is no blank; none at the end."""
        while True:
            blanks = BLANKS.match(self.text, self.at)
            self.at = blanks.end() if blanks else self.at
            if self.at < len(self.text):
                return self.text[self.at]
            if not self.fill():
                return ""

    def take(self, *expected: str) -> str:
        found = self.peek()
        if found not in expected or not found:
            raise Refused(NO_JSON)
        self.at += 1
        return found

    def value(self) -> Any:
        return self.read()[0]

    def line(self) -> bytes:
        """An object as a line of JSON: as it is written, since a line end can only stand between its parts."""
        found, written = self.read()
        if PAIR.search(written):
            return line_of(found)
        return (LINE_END.sub(" ", written) if "\n" in written or "\r" in written else written).encode() + b"\n"

    def lines(self) -> bytes:
        """The objects of a list that are at hand, each a line; the next one alone where it needs more care, and then
        those behind it, until there is more text to look at."""
        if self.large and self.is_new:
            from pathveil.untrusted.compiled_looks import lines_of_elements

            here, self.is_new = self.text[self.at :].encode(), False
            lines, end = lines_of_elements(here)
            if lines:
                self.text, self.at = here[end:].decode(), 0
                return lines
        return self.line()

    def read(self) -> tuple[Any, str]:
        """The next value, and how it is written."""
        self.peek()
        while True:
            try:
                found, end = self.decoder.raw_decode(self.text, self.at)
                if end < len(self.text) or not self.fill():  # a number may go on
                    start, self.at = self.at, end
                    return found, self.text[start:end]
            except Refused:
                raise
            except RecursionError:
                raise Refused(f"is nested more than {bounds.TABLE_DEPTH} levels deep") from None
            except ValueError:
                if not self.fill():
                    raise Refused(NO_JSON) from None

    def names(self) -> Iterator[str]:
        """The names of an object, at whose values the text then stands."""
        self.take("{")
        if self.peek() == "}":
            self.take("}")
            return
        while True:
            if self.peek() != '"':
                raise Refused(NO_JSON)
            name = self.value()
            self.take(":")
            self.peek()
            yield name
            if self.take(",", "}") == "}":
                return

    def begins_objects(self) -> bool:
        """Whether a list of objects begins here."""
        while len(self.text) - self.at < SAMPLE and self.fill():
            pass
        return re.compile(r"\[\s*\{").match(self.text, self.at) is not None

    def elements(self) -> Iterator[bytes]:
        """The objects of a list, each as a line."""
        self.take("[")
        if self.peek() == "]":
            self.take("]")
            return
        while True:
            if self.peek() != "{":
                raise Refused("expected a list of objects, one a report")
            yield self.lines()
            if self.take(",", "]") == "]":
                return


def is_list_of_objects(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, dict) for one in value)


def nested_field(schema: "pl.Schema", name: str, *, joined: bool = True) -> "pl.Expr | None":
    """The field that a name with points leads to; none where there is no such.

    Texts of a list follow on lines if they are to be ``joined``; else a list of several has no value: which it were
    nobody knows, and all of them may be those of several reports.
    """
    import polars as pl

    first, *parts = name.split(".")
    if first not in schema:
        return None
    value, dtype = pl.col(first), schema[first]
    for part in parts:
        if isinstance(dtype, pl.List) and part.isdigit():
            value, dtype = value.list.get(int(part), null_on_oob=True), dtype.inner
            continue
        within = dtype.inner if isinstance(dtype, pl.List) else dtype
        kinds = {field.name: field.dtype for field in within.fields} if isinstance(within, pl.Struct) else {}
        if part not in kinds:
            return None
        if isinstance(dtype, pl.List):
            value, dtype = value.list.eval(pl.element().struct.field(part)), pl.List(kinds[part])
        else:
            value, dtype = value.struct.field(part), kinds[part]
    if dtype == pl.List(pl.String) and joined:
        return value.list.join("\n", ignore_nulls=True)
    if isinstance(dtype, pl.List) and not joined:
        return pl.when(value.list.drop_nulls().list.len() == 1).then(value.list.drop_nulls().list.first())
    return value


def nested_names(schema: "pl.Schema", *, depth: int = 6) -> list[str]:
    """The names of all fields that are no objects, those within others with points."""
    import polars as pl

    def names_of(name: str, dtype: Any, left: int) -> Iterator[str]:
        within = dtype.inner if isinstance(dtype, pl.List) else dtype
        if isinstance(within, pl.Struct) and left:
            for field in within.fields:
                yield from names_of(f"{name}.{field.name}", field.dtype, left - 1)
        else:
            yield name

    return [name for column, dtype in schema.items() for name in names_of(column, dtype, depth)]
