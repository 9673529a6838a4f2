"""Bytes, JSON and TOML of a bounded size and depth; and text that is safe to print.

JSON is parsed by Python's own parser, which would recurse as deep as a text is nested and takes ``NaN``, ``1e999`` and
one name twice: depth is measured before, the rest is refused on the way.

>>> parse_json(b'{"threshold": NaN}')
Traceback (most recent call last):
pathveil.untrusted.bounds.Refused: holds a number that is none (NaN or infinity)
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
from typing import Any

from pathveil.untrusted import bounds
from pathveil.untrusted.bounds import Refused

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
    except json.JSONDecodeError as fault:
        where = f" (line {fault.lineno:,})" if fault.lineno > 1 else ""
        raise Refused(f"cannot be read as JSON{where}") from None
    except (ValueError, RecursionError):
        raise Refused("cannot be read as JSON") from None


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


def check_table_json(data: bytes) -> set[bytes]:
    """Refuse JSON that is too deep for a table, or an object that has a name twice; return its names as written.

    A name twice is only seen where there is one object: a line of JSONL without fields within fields.

    >>> sorted(check_table_json(b'{"id": 1, "text": "id: 7", "of": {"id": 2}}'))
    [b'"id"', b'"of"', b'"text"']
    """
    check_depth(NOT_BRACKETS, data, bounds.TABLE_DEPTH, containers=len(data))
    names, count = set(), 0
    for found in NAMES.finditer(data):
        if found[1]:
            names.add(found[1])
            count += 1
    if len(names) < count and data.count(b"{") == 1:
        raise Refused("has a name twice in one object")
    return names


def is_utf8(data: bytes) -> bool:
    """Whether bytes are UTF-8: as polars looks at them, many at once; Python's decoder takes three times as long.

    >>> is_utf8("Präparat".encode()), is_utf8("Präparat".encode("cp1252")), is_utf8("Präparat".encode()[:3])
    (True, False, False)
    """
    if data.isascii():
        return True
    import polars as pl

    try:
        pl.Series([data]).cast(pl.String)
    except pl.exceptions.PolarsError:
        return False
    return True


def are_utf8(pieces: Iterable[bytes]) -> bool:
    """Whether the pieces of a file are UTF-8 together; a character may be broken off between two.

    >>> are_utf8([b"Pr\\xc3", b"\\xa4parat"]), are_utf8([b"Pr\\xc3", b"parat"]), are_utf8([b"Pr\\xc3"])
    (True, False, False)
    """
    rest = b""
    for piece in pieces:
        piece = rest + piece
        size = whole_characters(piece)
        if not is_utf8(piece[:size]):
            return False
        rest = piece[size:]
    return not rest


def whole_characters(data: bytes) -> int:
    """How many bytes of UTF-8 there are without a last character that is broken off.

    >>> whole_characters("Größe".encode()[:3]), whole_characters("Größe".encode())
    (2, 7)
    """
    for back in range(1, min(len(data), 3) + 1):
        byte = data[-back]
        if byte >= 0xC0:  # the first of two, three or four
            return len(data) - back if back < 2 + (byte >= 0xE0) + (byte >= 0xF0) else len(data)
        if byte < 0x80:
            break
    return len(data)


NAMES = re.compile(rb'("[^"\\]*+(?:\\.[^"\\]*+)*+")\s*+:|' + STRING.replace(b'"?', b'"'), re.DOTALL)


def check_depth(passed_over: re.Pattern[bytes], data: bytes, most: int, *, containers: int | None = None) -> None:
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
    containers = bounds.CONTAINERS if containers is None else containers
    if count > containers:
        raise Refused(f"holds more than {containers:,} lists and objects")


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
