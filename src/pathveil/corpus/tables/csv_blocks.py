"""Blocks of a CSV file that are by the book: polars reads these as any other reader would, and faster than all.

By the book every quotation mark opens a field, closes it, or is one of two within one, and every record has as many
fields as the header. Where a block is not, Python's ``csv`` reads on, which forgives more.

>>> regular_table(b'1,"a\\nb"\\n2,"a ""c"" d"\\n3,"', 0, ["id", "text"], delimiter=",", line=5)[0].rows()
[('1', 'a\\nb', 5), ('2', 'a "c" d', 7)]
>>> regular_table(b'1,5" nail, 3"\\n', 0, ["id", "text"], delimiter=",", line=5) is None
True
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pathveil.corpus.tables.files import ROW, polars_faults

if TYPE_CHECKING:
    import polars as pl

PART = 1 << 17  # bytes in which we look for quotation marks at a time
QUOTE, LF, CR = b'"\n\r'


class Block(NamedTuple):
    """Whole records by the book, as bytes; whether each has as many fields as it should may still be open."""

    data: bytes
    starts: np.ndarray  # the line at which each record begins, from 0
    lines: int
    is_counted: bool  # the fields of each record were


def regular_table(
    buffer: bytes, start: int, columns: list[str], *, delimiter: str, line: int, large: bool = False
) -> "tuple[pl.DataFrame, Block] | None":
    """The records of a buffer from ``start`` on as polars reads them, each with its line, and the block that they are;
    none where they are not by the book. Those of a ``large`` file are looked at by compiled code."""
    import polars as pl

    block = (counted_block if large else block_of)(buffer, start, delimiter=delimiter, fields=len(columns))
    table = table_of(block.data, columns, delimiter) if block else None
    if block is None or table is None or table.height != len(block.starts):
        return None
    if not block.is_counted and table[columns[-1]].null_count() and is_short(table, block.data, delimiter):
        return None
    return table.with_columns(pl.Series(ROW, line + block.starts.astype(np.int64))), block


def counted_block(buffer: bytes, start: int, *, delimiter: str, fields: int) -> Block | None:
    """As much of a buffer as is whole records by the book, found by compiled code."""
    from pathveil.untrusted.compiled_looks import whole_records

    end, starts, lines = whole_records(buffer, start, delimiter=delimiter, fields=fields)
    return Block(buffer[start:end], starts, lines, is_counted=True) if lines else None


def table_of(data: bytes, columns: list[str], delimiter: str) -> "pl.DataFrame | None":
    """Records as polars reads them; none where one has too many fields."""
    import polars as pl

    schema = pl.Schema(dict.fromkeys(columns, pl.String))
    try:
        return pl.read_csv(data, has_header=False, schema=schema, separator=delimiter, infer_schema=False)
    except polars_faults():
        return None


def block_of(buffer: bytes, start: int, *, delimiter: str, fields: int) -> Block | None:
    """As much of a buffer as is whole records as far as quotation marks tell, up to a line end with an even number of
    them before it; none where that is not by the book."""
    data = np.frombuffer(buffer, np.uint8)[start:]
    breaks, marks = places_of(LF, data), places_of(QUOTE, data)
    before = np.bincount(np.searchsorted(breaks, marks), minlength=len(breaks) + 1)[:-1]  # marks since the last break
    ends = np.flatnonzero(np.cumsum(before) & 1 == 0)
    if not len(ends):
        return None
    size = int(breaks[ends[-1]]) + 1
    # A CR without an LF ends a line, too; a record's, by the book, is none.
    returns = places_of(CR, data[:size]) if buffer.find(b"\r", start, start + size) >= 0 else breaks[:0]
    bare = returns[data[returns + 1] != LF]
    lines = ends + 1 + np.searchsorted(bare, breaks[ends])  # up to the end of each record
    starts = np.concatenate([[0], lines[:-1]])
    if not is_by_the_book(data[:size], marks[: np.searchsorted(marks, size)], bare, delimiter):
        return None
    return Block(buffer[start : start + size], starts, int(lines[-1]), is_counted=False)


def places_of(code: int, data: np.ndarray) -> np.ndarray:
    """Where a byte is. A part at a time: what the processor's cache holds is not asked of the memory again."""
    starts = range(0, len(data), PART)
    parts = [np.flatnonzero(data[start : start + PART] == code) for start in starts]
    for start, part in zip(starts, parts, strict=True):
        part += start
    return np.concatenate(parts) if parts else np.zeros(0, np.intp)


def is_by_the_book(data: np.ndarray, marks: np.ndarray, bare: np.ndarray, delimiter: str) -> bool:
    """Whether each of the quotation ``marks`` opens a field, closes it, or is one of two within it, and each CR that is
    ``bare`` of an LF stands within a field."""
    if not (np.searchsorted(marks, bare) & 1).all():
        return False
    comma, opening, closing = ord(delimiter), marks[::2], marks[1::2]  # of two in a field, the second opens
    before, after = data[opening - 1], data[closing + 1]  # before the first is the last, a line end
    if not ((before == comma) | (before == LF) | (before == QUOTE)).all():
        return False
    return bool(((after == comma) | (after == LF) | (after == CR) | (after == QUOTE)).all())


def is_short(table: "pl.DataFrame", block: bytes, delimiter: str) -> bool:
    """Whether a record lacks fields: no record has too many, so there are too few delimiters."""
    import polars as pl

    within = pl.sum_horizontal(pl.all().str.count_matches(delimiter, literal=True)).fill_null(0).sum()
    held = table.select(within).item()
    return block.count(delimiter.encode()) - held != table.height * (table.width - 1)
