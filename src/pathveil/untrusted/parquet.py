"""Parquet: what a footer and its pages declare, held against the bytes that are there before it is allocated.

A Parquet file ends with a footer in Thrift's compact protocol that says where each column's pages lie and how large
they become; each page begins with a header that says it again. A reader allocates what it is told: a file of a
kilobyte that declares a terabyte ends the process. So the few numbers that matter are read here, in Python, where a lie
is a number.

>>> import tempfile, polars as pl
>>> path = Path(tempfile.mkdtemp()) / "a.parquet"
>>> pl.DataFrame({"text": ["left", "right"]}).write_parquet(path)
>>> check_parquet(path)
2
"""

import io
from pathlib import Path
from typing import IO, Any

from pathveil.untrusted import bounds
from pathveil.untrusted.bounds import Refused
from pathveil.untrusted.text import open_regular

WRONG = "is not a Parquet file, or is cut short or damaged"
MAGIC = b"PAR1"
FOOTER = 1 << 26  # bytes
HEADER = 1 << 16  # bytes of a page's header, its statistics included
ROWS = 1_000_000  # that a file of no size may declare; else at most eight a byte
DEPTH = 16  # of structures in the footer
# Fields by their number in parquet.thrift.
ROW_GROUPS, FILE_ROWS, SCHEMA = 4, 3, 2
COLUMNS, GROUP_ROWS = 1, 3
ELSEWHERE, ABOUT = 1, 3
VALUES, UNPACKED, PACKED, DATA_AT, DICTIONARY_AT = 5, 6, 7, 9, 11
PAGE_UNPACKED, PAGE_PACKED, PAGE, DICTIONARY, PAGE_V2 = 2, 3, 5, 7, 8


def check_parquet(path: Path) -> int:
    """Refuse a file whose declared sizes are not those it has; the number of its rows. OSError where there is none."""
    with open_regular(path) as file:
        size = file.seek(0, io.SEEK_END)
        file.seek(0)
        if size < 12 or file.read(4) != MAGIC:
            raise Refused(WRONG)
        file.seek(size - 8)
        length, magic = int.from_bytes(file.read(4), "little"), file.read(4)
        if magic != MAGIC or not 0 < length <= min(FOOTER, size - 12):
            raise Refused(WRONG)
        file.seek(size - 8 - length)
        footer, _ = Thrift(file.read(length)).structure()
        return check_footer(file, footer, end=size - 8 - length)


def check_footer(file: IO[bytes], footer: dict[int, Any], *, end: int) -> int:
    groups, rows = of(footer, ROW_GROUPS, list), of(footer, FILE_ROWS, int)
    if len(of(footer, SCHEMA, list)) > bounds.COLUMNS or rows < 0:
        raise Refused("has more columns than a table of reports has")
    if rows > ROWS + 8 * end:
        raise Refused("declares more rows than so few bytes can hold")
    unpacked = 0
    for group in groups:
        columns = of(group, COLUMNS, list)
        if len(columns) > bounds.COLUMNS:
            raise Refused(WRONG)
        for column in columns:
            if not isinstance(column, dict) or ELSEWHERE in column:
                raise Refused(WRONG)  # its pages would lie in another file, anywhere
            about = of(column, ABOUT, dict)
            check_pages(file, about, end=end)
            unpacked += of(about, UNPACKED, int)
    if sum(of(group, GROUP_ROWS, int) for group in groups) != rows or any(of(g, GROUP_ROWS, int) < 0 for g in groups):
        raise Refused(WRONG)
    if not bounds.grown(unpacked, sent=end):
        raise Refused(f"inflates to more than {bounds.GROWTH} times its size")
    return rows


def check_pages(file: IO[bytes], about: dict[int, Any], *, end: int) -> None:
    """Walk the pages of a column: they must fill the place that the footer gives it, and hold what it says."""
    packed, unpacked, values = (of(about, field, int) for field in (PACKED, UNPACKED, VALUES))
    starts = [about[field] for field in (DATA_AT, DICTIONARY_AT) if isinstance(about.get(field), int)]
    at = min((start for start in starts if start > 0), default=0)
    if at < 4 or packed < 0 or unpacked < 0 or values < 0 or at + packed > end:
        raise Refused(WRONG)
    stop, found, became = at + packed, 0, 0
    while at < stop:
        file.seek(at)
        header, length = Thrift(file.read(min(HEADER, stop - at))).structure()
        inside, outside = of(header, PAGE_PACKED, int), of(header, PAGE_UNPACKED, int)
        if inside < 0 or outside < 0 or at + length + inside > stop:
            raise Refused(WRONG)
        for field in (PAGE, PAGE_V2):
            if field in header:
                found += of(of(header, field, dict), 1, int)
        if DICTIONARY in header and not 0 <= of(of(header, DICTIONARY, dict), 1, int) <= outside + 1:
            raise Refused(WRONG)
        at, became = at + length + inside, became + length + outside
    if found != values or became > unpacked:
        raise Refused(WRONG)


def of(structure: Any, field: int, kind: type) -> Any:
    """A field that must be there, of a type."""
    value = structure.get(field) if isinstance(structure, dict) else None
    if type(value) is not kind:
        raise Refused(WRONG)
    return value


class Thrift:
    """Values of Thrift's compact protocol, each bounded by the bytes that are left."""

    def __init__(self, data: bytes):
        self.data, self.at = data, 0

    def structure(self, depth: int = 0) -> tuple[dict[int, Any], int]:
        """Fields by their numbers, and how many bytes were read."""
        if depth > DEPTH:
            raise Refused(WRONG)
        fields: dict[int, Any] = {}
        number = 0
        while head := self.byte():
            number = number + (head >> 4) if head >> 4 else self.signed()
            if number in fields:
                raise Refused(WRONG)
            fields[number] = self.value(head & 15, depth)
        return fields, self.at

    def value(self, kind: int, depth: int) -> Any:
        if kind in (1, 2):  # true, false
            return kind == 1
        if kind == 3:
            return self.byte()
        if kind in (4, 5, 6):
            return self.signed()
        if kind == 7:
            return self.bytes(8)
        if kind == 8:
            return self.bytes(self.unsigned())
        if kind in (9, 10):
            return self.items(depth)
        if kind == 12:
            return self.structure(depth + 1)[0]
        raise Refused(WRONG)

    def items(self, depth: int) -> list[Any]:
        if depth > DEPTH:
            raise Refused(WRONG)
        head = self.byte()
        size = head >> 4 if head >> 4 < 15 else self.unsigned()
        if size > len(self.data) - self.at:
            raise Refused(WRONG)
        kind = head & 15
        if kind in (1, 2):
            return [self.byte() == 1 for _ in range(size)]
        return [self.value(kind, depth + 1) for _ in range(size)]

    def byte(self) -> int:
        if self.at >= len(self.data):
            raise Refused(WRONG)
        self.at += 1
        return self.data[self.at - 1]

    def bytes(self, size: int) -> bytes:
        if size > len(self.data) - self.at:
            raise Refused(WRONG)
        self.at += size
        return self.data[self.at - size : self.at]

    def unsigned(self) -> int:
        value = shift = 0
        while True:
            part = self.byte()
            value |= (part & 127) << shift
            shift += 7
            if part < 128:
                return value
            if shift > 63:
                raise Refused(WRONG)

    def signed(self) -> int:
        value = self.unsigned()
        return (value >> 1) ^ -(value & 1)
