"""The encoding of a text file: found, or held against what was told.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     path = Path(folder) / "reports.csv"
...     _ = path.write_bytes("id;text\\n1;Größe\\n".encode("cp1252"))
...     find_encoding(path)
'cp1252'
"""

import codecs
import re
from collections.abc import Iterable, Iterator
from itertools import chain, dropwhile
from pathlib import Path
from typing import IO

from pathveil.corpus.tables.files import UNREADABLE
from pathveil.errors import CorpusError, UsageError
from pathveil.untrusted.archives import open_bytes
from pathveil.untrusted.text import are_utf8

PIECE = 1 << 17  # bytes that are looked at in one go
SAMPLE = 1 << 16  # bytes that tell an encoding by its form
ENCODING_HINT = "'pathveil corpus import' finds encodings where none is told, or tell the right one with --encoding"


UTF8_LETTER, NOT_ASCII = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|\xe2\x80[\x90-\xa6]"), re.compile(rb"[\x80-\xff]+")
MIXED = 0.05  # the share of letters beyond ASCII that may look like UTF-8 by chance


def find_encoding(path: Path) -> str:
    """The encoding of a text file: UTF-16 by its mark or zeros, UTF-8 where all is, else Windows-1252 (with Latin-1).

    Other one-byte encodings hold the same bytes for other letters, so they must be told.
    """
    try:
        with open_bytes(path) as file:
            start = file.read(SAMPLE)
        if start[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            return "utf-16"
        for name, high in (("utf-16-le", start[1::2]), ("utf-16-be", start[::2])):
            if high.count(0) > 0.9 * len(high) > 0:  # UTF-16 without its mark, as SQL Server's bcp writes it
                return name
        with open_bytes(path) as file:
            if are_utf8(read_pieces(file)):
                return "utf-8-sig"
        with open_bytes(path) as file:
            if is_windows_1252(read_pieces(file), path):
                return "cp1252"
    except UNREADABLE as error:
        raise CorpusError(f"{path}: cannot be read ({type(error).__name__}); is it damaged or cut short?") from None
    raise CorpusError(f"{path}: is neither UTF-8 nor Windows-1252; say what it is with --encoding, for example cp850")


def is_windows_1252(pieces: Iterable[bytes], path: Path) -> bool:
    """Whether all bytes of a file are letters of Windows-1252. One that mixes it and UTF-8 is refused."""
    found = high = 0
    for piece in pieces:
        if piece.isascii():
            continue
        try:
            piece.decode("cp1252")
        except UnicodeDecodeError:
            return False
        found += len(UTF8_LETTER.findall(piece))
        high += len(NOT_ASCII.findall(piece))
    if found > MIXED * high:
        raise CorpusError(f"{path}: mixes UTF-8 and another encoding; write it in one, or say which with --encoding")
    return True


def check_fits(path: Path, encoding: str) -> None:
    """Refuse an encoding as it was told, such as that of another table in a mapping, where the file's is plainly
    another: it begins with the mark of one, or its letters beyond ASCII are UTF-8 throughout."""
    name = codecs.lookup(encoding).name
    with open_bytes(path) as file:
        start = file.read(SAMPLE)
    marked = next((found for mark, found in MARKS.items() if start.startswith(mark)), None)
    if marked is None and not name.startswith("utf-8") and holds_utf8(path):  # some put UTF-8's mark before others
        marked = "utf-8"
    if marked and not name.startswith(marked):
        raise CorpusError(
            f"{path}: is {marked.upper()}, but was told to be {encoding} (--encoding, or a mapping); leave that out"
        )


def holds_utf8(path: Path) -> bool:
    """Whether a file is UTF-8 with letters beyond ASCII; most that are not say so soon."""
    try:
        with open_bytes(path) as file:
            letters = dropwhile(bytes.isascii, read_pieces(file))
            first = next(letters, None)
            return first is not None and are_utf8(chain([first], letters))
    except UNREADABLE:
        return False  # its reader says where


def read_pieces(file: IO[bytes]) -> Iterator[bytes]:
    return iter(lambda: file.read(PIECE), b"")


MARKS = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}


def check_encoding(name: str) -> str:
    """Refuse a name that is no encoding of text."""
    try:
        "".encode(name)
    except (LookupError, ValueError):
        raise UsageError(f"--encoding {name[:40]} is not known; expected utf-8, utf-16, cp1252, cp850, …") from None
    return "utf-8-sig" if codecs.lookup(name).name == "utf-8" else name


def spoken_encoding(encoding: str) -> str:
    return {"utf-8-sig": "UTF-8"}.get(encoding, encoding)
