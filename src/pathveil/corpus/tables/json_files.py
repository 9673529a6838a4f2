"""JSON as a table: lines of objects (JSONL), or a list of objects, as polars reads them.

polars builds the columns of all lines, and takes minutes or crashes where they are nested deeply or each has other
names; so lines are bounded before. Where polars refuses a file, Python's ``json`` names the faulty line.
Fields within fields are named with points: ``report.sections.text`` is the text of each of a report's sections.

>>> with tempfile.TemporaryDirectory() as folder:
...     path = Path(folder) / "reports.json"
...     _ = path.write_text('{"reports": [{"id": 7}, {"id": 8, "text": "left breast"}]}')
...     open_json(path).collect().rows()
[(7, None), (8, 'left breast')]
"""

import codecs
import json
import math
import re
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pathveil.corpus.tables.files import LONGEST_LINE, Note, one_file, polars_faults, streamed
from pathveil.errors import CorpusError
from pathveil.untrusted import Refused, bounds, parse_json
from pathveil.untrusted.archives import open_bytes
from pathveil.untrusted.text import check_table_json

if TYPE_CHECKING:
    import polars as pl

LARGEST_LIST = 1 << 30  # bytes of a JSON file, which is read as a whole
NO_NUMBER = re.compile(rb"[:,\[]\s*+-?(?:NaN|Infinity)\b")
ESCAPED_HALF = re.compile(rb"\\u[dD]")  # of a character that JSON may write as two escapes
NO_LIST = "expected a list of objects, one a report"


def open_jsonl(path: Path, *, note: Note | None = None) -> "pl.LazyFrame":
    """Open a JSONL file. With ``note``, it is called for a line that is no object, which becomes an empty row."""
    import polars as pl

    try:
        if not check_lines(path):
            raise pl.exceptions.ComputeError
        # All lines are looked at for the columns: one that first appears late in a file must not be lost.
        frame = pl.scan_ndjson(one_file(path), infer_schema_length=None)
        frame.collect_schema()
        return frame
    except polars_faults():
        if note is None or (mended := mended_jsonl(path, note=note)) is None:
            raise CorpusError(f"{path}: {jsonl_fault(path)}") from None
        return mended


def check_lines(path: Path) -> bool:
    """Refuse lines that polars cannot bear; False where one has half a character, which polars reads as another."""
    names: set[bytes] = set()
    size = number = 0
    whole = True
    try:
        with open_bytes(path) as file:
            for number, line in enumerate(iter(lambda: file.readline(LONGEST_LINE), b""), start=1):
                size += len(line)
                names |= check_table_json(line)
                if len(names) > bounds.COLUMNS or not bounds.grown(16 * number * len(names), sent=size):
                    raise Refused("has other names than those before; expected the same columns in each line")
                whole = whole and not (ESCAPED_HALF.search(line) and line_fault(line))
    except Refused as fault:
        raise CorpusError(f"{path}: line {number:,} {fault}") from None
    return whole


def mended_jsonl(path: Path, *, note: Note) -> "pl.LazyFrame | None":
    """A copy of a JSONL file with an empty object for each line that is none; none where that does not help.

    A byte order mark, with which some begin, and blank lines are left out; NaN, as Python writes it, is nothing.
    """
    import polars as pl

    folder = tempfile.TemporaryDirectory(prefix="pathveil-")
    copy, faults, number, mended = Path(folder.name) / "mended.jsonl", {}, 0, False
    with open_bytes(path) as file, copy.open("wb") as out:
        for line in iter(lambda: file.readline(LONGEST_LINE), b""):
            mended = mended or line.startswith(codecs.BOM_UTF8)
            line = line.removeprefix(codecs.BOM_UTF8) if not number else line
            if not line.strip():
                continue
            number += 1
            if fault := line_fault(line):
                faults[number], line = fault, b"{}"
            elif NO_NUMBER.search(line):
                mended, line = True, json.dumps(finite_in(parse_json(line, finite=False))).encode()
            out.write(line.rstrip(b"\r\n") + b"\n")
    if not (faults or mended) or 2 * len(faults) > number:
        return None
    for row, fault in faults.items():
        note(row, fault)
    table = pl.scan_ndjson(one_file(copy), infer_schema_length=None)
    schema = table.collect_schema()

    def frames() -> "Iterable[pl.DataFrame]":
        assert folder.name  # which stays as long as the frame
        return table.collect_batches(maintain_order=True, engine="streaming")

    return streamed(frames, schema)


def finite_in(value: Any) -> Any:
    """A value of JSON with nothing where it holds NaN or infinity.

    >>> finite_in({"a": [1.5, float("nan")]})
    {'a': [1.5, None]}
    """
    if isinstance(value, dict):
        return {name: finite_in(one) for name, one in value.items()}
    if isinstance(value, list):
        return [finite_in(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def jsonl_fault(path: Path) -> str:
    """Find where a JSONL file is wrong, line by line in Python: it is asked only once reading has failed."""
    with open_bytes(path) as file:
        number = 0
        for number, line in enumerate(iter(lambda: file.readline(LONGEST_LINE), b""), start=1):
            if fault := line_fault(line):
                return f"line {number:,} {fault}"
            if number == 1 and line.startswith(codecs.BOM_UTF8):
                return "begins with a byte order mark; 'pathveil corpus import' leaves it out"
    return "is empty" if not number else "its lines differ in their types; expected the same columns of text in each"


def line_fault(line: bytes) -> str:
    """What is wrong with a line of JSONL, if anything is."""
    if len(line) == LONGEST_LINE:
        return f"is longer than {LONGEST_LINE:,} bytes; expected one report a line"
    try:
        line.decode()
        value = parse_json(line, finite=False) if line.strip() else {}
    except UnicodeDecodeError:
        return "is not UTF-8"
    except Refused:
        return "is not JSON; expected one object a line"
    return "" if isinstance(value, dict) else "is not an object; expected one object a line"


def open_json(path: Path) -> "pl.LazyFrame":
    """Open a JSON file: a list of objects, or an object that holds one such list. The whole file is in memory."""
    import polars as pl

    try:
        with open_bytes(path) as file:
            data = file.read(LARGEST_LIST + 1).removeprefix(codecs.BOM_UTF8)
        if len(data) > LARGEST_LIST:
            raise Refused(f"is larger than {LARGEST_LIST >> 30} GB; write JSON lines (.jsonl), an object a line")
        names = check_table_json(data)
        if len(names) > bounds.COLUMNS or not bounds.grown(16 * data.count(b"{") * len(names), sent=len(data)):
            raise Refused(f"each object has other fields ({len(names):,} in all); expected the same in each")
        if ESCAPED_HALF.search(data):
            parse_json(data, finite=False)  # which refuses half a character, where polars reads another
        try:
            frame = pl.read_json(data, infer_schema_length=None)
        except polars_faults():
            raise Refused(json_fault(data)) from None
        frame = list_within(frame) if data.lstrip().startswith(b"{") else frame
        if not frame.height:
            raise Refused(NO_LIST)
        return frame.lazy()
    except Refused as fault:
        raise CorpusError(f"{path}: {fault}") from None


def json_fault(data: bytes) -> str:
    """Say why polars does not read a JSON file."""
    try:
        content = parse_json(data, depth=bounds.TABLE_DEPTH)
    except Refused as fault:
        return str(fault)
    if not isinstance(content, list | dict) or not all(isinstance(one, dict) for one in content):
        return NO_LIST
    return "its objects differ in their types; expected the same fields in each"


def list_within(frame: "pl.DataFrame") -> "pl.DataFrame":
    """Find the list of objects in an object, or in objects of one field each ({"export": {"reports": …}}).

    Without one, the object is the only report. Several lists, or an object a report under a name of its own, are
    refused: read as one report, they would give it everybody's texts.
    """
    import polars as pl

    inner = frame
    while True:
        kinds = inner.schema
        lists = [
            name for name, kind in kinds.items() if isinstance(kind, pl.List) and isinstance(kind.inner, pl.Struct)
        ]
        if len(lists) > 1:
            raise Refused("holds several lists of objects; expected one, of the reports")
        if lists:
            return inner.select(pl.col(lists[0]).explode()).unnest(lists[0])
        if len(kinds) != 1 or not isinstance(kinds.dtypes()[0], pl.Struct):
            break
        inner = inner.unnest(kinds.names()[0])
    fields = {
        tuple(field.name for field in kind.fields) if isinstance(kind, pl.Struct) else () for kind in kinds.dtypes()
    }
    if len(kinds) > 2 and len(fields) == 1 and fields != {()}:
        raise Refused(
            "holds an object for each report, or column, under a name of its own; expected a list of objects, one a "
            "report (of pandas: orient='records')"
        )
    return frame


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
