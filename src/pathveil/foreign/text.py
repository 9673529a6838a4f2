"""Bytes, JSON and TOML of a bounded size and depth; and text that is safe to print.

JSON is parsed by Python's own parser, which would recurse as deep as a text is nested and takes ``NaN``, ``1e999`` and
one name twice: depth is measured before, the rest is refused on the way.

>>> parse_json(b'{"threshold": NaN}')
Traceback (most recent call last):
pathveil.foreign.bounds.Refused: holds a number that is none (NaN or infinity)
>>> printable("R1\\x1b[2J")
'R1�[2J'
"""

import json
import math
import os
import re
import stat
import tomllib
from collections.abc import Iterable
from io import BufferedReader
from pathlib import Path
from typing import Any, NamedTuple

from pathveil.foreign import bounds
from pathveil.foreign.bounds import Refused

STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?'
NOT_BRACKETS = re.compile(STRING + rb"|[^\[\]{}\"]++", re.DOTALL)
TOML_STRING = rb"\"\"\".*?\"\"\"|'''.*?'''|\"(?:[^\"\\\n]|\\.)*+\"|'[^'\n]*+'|\#[^\n]*+"
NOT_TOML_BRACKETS = re.compile(TOML_STRING + rb"|[^\[\]{}\"'#]++|[\"']", re.DOTALL)
LONG_KEY = re.compile(rb"""(?<![\w-])(?:(?:"[^"\n]*+"|'[^'\n]*+'|[\w-]++)[ \t]*+\.[ \t]*+){32}""")
HALF = re.compile(rb"\\u[dD][89a-fA-F]|\xed[\xa0-\xbf]")  # of a character outside the first plane, as JSON writes it
# Of what a terminal obeys or hides: control characters but tab and line feed, marks that turn the direction of
# writing, and halves of characters, which no terminal takes.
UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def read_bytes(path: Path, *, most: int = bounds.JSON_BYTES) -> bytes:
    """All of a file, which must be one (a pipe never ends) and may have ``most`` bytes; OSError where it is missing."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise Refused(f"is larger than the {most:,} bytes that such a file may have")
        data = file.read(most + 1)
    if len(data) > most:
        raise Refused("grew while it was read")
    return data


def open_regular(path: Path) -> BufferedReader:
    """Open a file for reading; one that is no file (a pipe, a device) is refused before it is waited for."""
    if not stat.S_ISREG(path.stat().st_mode):
        if path.is_dir():
            raise IsADirectoryError(21, "Is a directory", str(path))
        raise Refused("is no file")
    return path.open("rb")


def read_text(path: Path, *, most: int = bounds.JSON_BYTES) -> str:
    """All of a text file in UTF-8."""
    try:
        return read_bytes(path, most=most).decode()
    except UnicodeDecodeError:
        raise Refused("is not UTF-8") from None


def parse_json(data: bytes | str, *, depth: int = bounds.DEPTH, finite: bool = True) -> Any:
    """What a JSON text says. ``finite=False`` takes NaN and infinity, for files of our own that have them."""
    raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    check_depth(NOT_BRACKETS, raw, depth)
    try:
        text = data if isinstance(data, str) else data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Refused("cannot be read as JSON (it is not UTF-8)") from None
    constant, number = (_no_number, _finite) if finite else (None, None)
    try:
        found = json.loads(text, object_pairs_hook=_each_name_once, parse_constant=constant, parse_float=number)
        if HALF.search(raw):
            json.dumps(found, ensure_ascii=False).encode()
        return found
    except Refused:
        raise
    except UnicodeEncodeError:
        raise Refused("holds half a character") from None
    except (ValueError, RecursionError):
        raise Refused("cannot be read as JSON") from None


def json_decoder() -> json.JSONDecoder:
    """The decoder behind ``parse_json``, for texts that are read value by value; depth is the caller's to bound."""
    return json.JSONDecoder(object_pairs_hook=_each_name_once, parse_constant=_no_number, parse_float=_finite)


def parse_toml(data: bytes, *, most: int = bounds.SMALL_BYTES) -> dict[str, Any]:
    """What a TOML text says; where it is wrong, by line and column."""
    if len(data) > most:
        raise Refused(f"is larger than the {most:,} bytes that such a file may have")
    check_depth(NOT_TOML_BRACKETS, data, bounds.DEPTH)
    if LONG_KEY.search(data):
        raise Refused("has a name of more than 32 parts")
    try:
        return tomllib.loads(data.decode("utf-8-sig").replace("\r\n", "\n"), parse_float=_finite)
    except UnicodeDecodeError:
        raise Refused("is not TOML: it is not UTF-8") from None
    except tomllib.TOMLDecodeError as fault:
        raise Refused(f"is not TOML: {printable(str(fault))}") from None
    except Refused:
        raise
    except (ValueError, RecursionError):
        raise Refused("is not TOML") from None


class JsonLines(NamedTuple):
    """What a JSONL file holds: its bytes, lines, different names, and its columns if each holds texts alone."""

    size: int
    rows: int
    names: int
    texts: list[str] | None


def check_json_lines(lines: Iterable[bytes]) -> JsonLines:
    """Bound the depth of each line of a JSONL file, and the names of all.

    Whether a line is JSON is judged only while all are objects of texts: then a reader need not look at them before.

    >>> check_json_lines([b'{"id": "1", "site": null}\\n', b'{"id": "2", "site": "C50"}\\n'])
    JsonLines(size=53, rows=2, names=2, texts=['id', 'site'])
    """
    names: set[bytes] = set()
    columns: dict[str, bool] = {}  # name: whether a text was met
    shapes: set[tuple[str, ...]] = set()  # the names of lines met before
    size = number = 0
    for number, line in enumerate(lines, start=1):
        size += len(line)
        found = texts_of(line) if columns or number == 1 else None
        if found is not None and (shape := tuple(found)) in shapes:
            if not all(columns.values()):
                columns |= {name: True for name, text in found.items() if text is not None}
            continue
        try:
            check_depth(NOT_BRACKETS, line, bounds.TABLE_DEPTH)
        except Refused as fault:
            raise Refused(f"line {number:,} {fault}") from None
        names.update(filter(None, NAMES.findall(line)))  # a text that names nothing is found as an empty name
        if len(names) > bounds.COLUMNS:
            raise Refused(f"line {number:,} is past {bounds.COLUMNS:,} different names; expected one object a report")
        if found is None:
            columns = {}
        else:
            columns |= {name: columns.get(name, False) or text is not None for name, text in found.items()}
            shapes = shapes | {shape} if len(shapes) < MOST_SHAPES else shapes
    texts = list(columns) if columns and all(columns.values()) else None
    return JsonLines(size, number, len(names), texts)


MOST_SHAPES = 1_000
DECODER = json.JSONDecoder()


def texts_of(line: bytes) -> dict[str, str | None] | None:
    """The object in a line if each of its values is a text or null; none where it is anything else."""
    try:
        text = line.decode()
        found, end = DECODER.raw_decode(text)
    except (ValueError, RecursionError):
        return None
    if type(found) is not dict or text[end:].strip() or not TEXT_OR_NULL.issuperset(map(type, found.values())):
        return None
    return None if b"\\u" in line and HALF.search(line) else found


TEXT_OR_NULL = {str, type(None)}
NAMES = re.compile(rb'("[^"\\]*+(?:\\.[^"\\]*+)*+")\s*+:|' + STRING.replace(b'"?', b'"'), re.DOTALL)


def check_depth(passed_over: re.Pattern[bytes], data: bytes, most: int) -> None:
    """Refuse a text whose brackets, those within strings left out, are nested deeper or are too many."""
    if data.count(b"[") + data.count(b"{") <= most:
        return
    level = deepest = count = 0
    for bracket in passed_over.sub(b"", data):
        if bracket in b"[{":
            level, count = level + 1, count + 1
            if level > deepest:
                deepest = level
                if deepest > most:
                    raise Refused(f"is nested more than {most} levels deep")
        else:
            level -= 1
    if count > bounds.CONTAINERS:
        raise Refused(f"holds more than {bounds.CONTAINERS:,} lists and objects")


def are_names(names: Any) -> bool:
    """Whether something is a list of texts, each there once."""
    return isinstance(names, list) and all(isinstance(name, str) for name in names) and len(set(names)) == len(names)


def printable(text: str) -> str:
    """Text without what a terminal would obey: a name from a file may hold escapes that rewrite the screen."""
    return UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text)


def _each_name_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise Refused("has a name twice in one object")
    return found


def _no_number(_: str) -> float:
    raise Refused("holds a number that is none (NaN or infinity)")


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise Refused("holds a number that is none (NaN or infinity)")
    return value
