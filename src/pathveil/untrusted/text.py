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
from collections.abc import Iterable, Iterator
from io import BufferedReader
from pathlib import Path
from typing import IO, Any, NamedTuple

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


def check_json_lines(file: IO[bytes], *, large: bool = False) -> JsonLines:
    """Bound the depth of each line of a JSONL file, and the names of all; of a ``large`` one by a compiled look.

    Whether a line is JSON is judged only while all are objects of texts: then a reader need not look at them before.

    >>> import io
    >>> check_json_lines(io.BytesIO(b'{"id": "1", "site": null}\\n{"id": "2", "site": "C50"}\\n'))
    JsonLines(size=53, rows=2, names=2, texts=['id', 'site'])
    """
    check = LineCheck()
    if large:
        check.look_at_all(file)
    else:
        check.look_at_texts(file)
    texts = list(check.columns) if check.columns and all(check.columns.values()) else None
    return JsonLines(check.size, check.rows, len(check.names), texts)


class LineCheck:
    """What was met in lines of JSON."""

    def __init__(self) -> None:
        self.size = self.rows = 0
        self.names: dict[bytes, None] = {}  # as they are written, in the order they came
        self.columns: dict[str, bool] = {}  # name: whether a text was met; none once a line is no object of texts
        self.shapes: set[tuple[str, ...]] = set()  # the names of lines met before
        self.alike: re.Pattern[bytes] | None = None  # lines of texts under the same names as one met before

    def __call__(self, line: bytes) -> None:
        self.size += len(line)
        self.rows += 1
        try:
            found = texts_of(line) if self.columns or self.rows == 1 else None
            if found is not None and (shape := tuple(found)) in self.shapes:
                met = {name: True for name, text in found.items() if text is not None and not self.columns[name]}
                if met:
                    self.columns |= met
                    self.alike = lines_like(shape, self.columns)
                return
            check_depth(NOT_BRACKETS, line, bounds.TABLE_DEPTH)
            names = list(filter(None, NAMES.findall(line)))  # a text that names nothing is an empty name
            if len(set(names)) < len(names) and line.count(b"{") == 1:
                texts_of(line)  # which refuses a name that stands twice
        except Refused as fault:
            raise Refused(f"line {self.rows:,} {fault}") from None
        self.names |= dict.fromkeys(names)
        if len(self.names) > bounds.COLUMNS:
            raise Refused(
                f"line {self.rows:,} is past {bounds.COLUMNS:,} different names; expected one object a report"
            )
        if found is None:
            self.columns, self.alike = {}, None
        else:
            self.columns |= {name: self.columns.get(name, False) or text is not None for name, text in found.items()}
            self.alike = lines_like(shape, self.columns) if len(self.shapes) < MOST_SHAPES else self.alike
            self.shapes |= {shape} if len(self.shapes) < MOST_SHAPES else set()

    def look_at_texts(self, file: IO[bytes]) -> None:
        """Lines like one met before are passed over by a regular expression, others are read."""
        for block in blocks_of_lines(file):
            at, is_sound = 0, (self.alike is not None or not self.rows) and has_sound_texts(block)
            while at < len(block):
                if is_sound and self.alike:
                    rows, end = 0, at
                    while found := self.alike.match(block, end):
                        rows, end = rows + 1, found.end()
                    is_sound = block.count(b"\n", at, end) == rows  # there is none within a text
                    if is_sound:
                        self.size, self.rows, at = self.size + end - at, self.rows + rows, end
                if at < len(block):
                    end = block.find(b"\n", at) + 1 or len(block)
                    self(block[at:end])
                    at = end

    def look_at_all(self, file: IO[bytes]) -> None:
        """Lines of names that are known are looked at by a compiled function, others by Python."""
        from pathveil.untrusted.compiled_looks import JsonLook

        look, looks, understood = JsonLook(), 0, 0
        for block in blocks_of_lines(file):
            at, sound = 0, is_utf8(block)
            while at < len(block):
                if sound and len(self.names) <= MOST_NAMES and understood >= looks - MOST_LOOKS:
                    rows, end = look.understood(block, at)
                    self.size, self.rows = self.size + end - at, self.rows + rows
                    looks, understood, at = looks + 1, understood + rows, end
                if at < len(block):
                    end = block.find(b"\n", at) + 1 or len(block)
                    self(block[at:end])
                    at = end
                    if len(look.known) < len(self.names) <= MOST_NAMES:
                        look.learn(self.names)
        if look.others:
            self.columns = {}
        elif self.columns:
            self.columns |= {json.loads(name): True for name in look.texts}


MOST_NAMES, MOST_LOOKS = 200, 1_000  # that a look is told to know, and that may be in vain


def blocks_of_lines(file: IO[bytes]) -> Iterator[bytes]:
    """A file some whole lines at a time; a line that is longer than any should be comes in pieces."""
    rest = b""
    while piece := file.read(1 << 18):  # small enough for memory that is at hand, and for the processor's cache
        block = rest + piece
        end = block.rfind(b"\n") + 1 or (len(block) if len(block) >= bounds.LONGEST_LINE else 0)
        rest = block[end:]
        if end:
            yield block[:end]
    if rest:
        yield rest


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


def has_sound_texts(block: bytes) -> bool:
    """Whether a block is UTF-8 without control characters or escapes that JSON does not have; halves of characters and
    backslashes that are escaped are left to a parser."""
    import numpy as np

    data = np.frombuffer(block, np.uint8)
    ends = np.count_nonzero(data == ord("\n")) + (block.count(b"\r\n") if b"\r" in block else 0)
    if np.count_nonzero(data < ord(" ")) != ends or not is_utf8(block):
        return False
    escaped = data[np.flatnonzero(data[:-1] == ord("\\")) + 1]
    return bool(np.frombuffer(ESCAPED, bool)[escaped].all()) and not (
        (escaped == ord("u")).any() and NO_CHARACTER.search(block)
    )


def lines_like(shape: tuple[str, ...], columns: dict[str, bool]) -> re.Pattern[bytes]:
    """Lines of a block with sound texts that are objects of these names, with a text or null each; null alone where no
    text was met, so that the first one is noticed.

    >>> like = lines_like(("id", "site"), {"id": True, "site": False})
    >>> bool(like.match(b'{"id": "5\\\\" nail", "site":null}\\n')), bool(like.match(b'{"id": "1", "site": "C50"}\\n'))
    (True, False)
    """
    names = (re.escape(json.dumps(name, ensure_ascii=False).encode()) for name in shape)
    values = (TEXT_HERE if columns[name] else b"null" for name in shape)
    fields = b", ?+".join(b"%b: ?+%b" % pair for pair in zip(names, values, strict=True))
    return re.compile(rb"\{%b\}\r?+\n" % fields)


ESCAPED = bytes(byte in b'"/bfnrtu' for byte in range(256))
NO_CHARACTER = re.compile(rb"\\u(?:[dD][89a-fA-F]|(?![0-9a-fA-F]{4}))")
TEXT_HERE = rb'(?:"[^"]*+(?:(?<=\\)"[^"]*+)*+"|null)'
MOST_SHAPES = 1_000


def texts_of(line: bytes) -> dict[str, str | None] | None:
    """The object in a line if each of its values is a text or null; none where it is anything else. An object that has
    a name twice is ``Refused``: a reader would take either value for it, and lose the other."""
    try:
        text = line.decode()
        found, end = ONCE.raw_decode(text)
    except Refused:
        raise
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


ONCE = json.JSONDecoder(object_pairs_hook=_each_name_once)


def _no_number(_: str) -> float:
    raise Refused("holds a number that is none (NaN or infinity)")


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise Refused("holds a number that is none (NaN or infinity)")
    return value
