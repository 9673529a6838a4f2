"""Compiled looks at the XML of large sheets: cells, and the strings that sheets share, in the plain shape in which
machines write them.

A piece in which anything else stands is left, as a whole, to slower readers, which know what to forgive and what to
say: each byte must be of a row, a cell, a formula, a value or a blank between them. Loading numba takes a third of a
second, so callers look at large sheets alone.

>>> xml = b'<row r="3"><c r="B3" s="1"><v>8500</v></c><c r="D3" t="str"><f>A1</f><v>x &lt; y</v></c></row><row/>'
>>> found = find_cells(xml, "", last=2)
>>> found.texts, found.columns.tolist(), found.rows.tolist(), found.height, found.last
(['8500', 'x < y'], [1, 3], [0, 0], 2, 4)
>>> found.ways, found.way_of.tolist()
([(' s="1">', 1), (' t="str">', 1)], [0, 1])
>>> find_cells(b"<row><!-- --></row>", "", last=0) is None
True
>>> find_strings(b'<si><t> left </t></si><si><t xml:space="preserve">_x0041_ </t></si>', "")
(b'leftA ', array([4, 6]))
"""

import re
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numba import njit

from pathveil.untrusted import bounds
from pathveil.untrusted.compiled_looks import BLANK, CR, LF, QUOTE, TAB, WIDE, compiled

MOST_COLUMNS = bounds.SHEET_COLUMNS
MOST_WAYS = 64  # in which the cells of a piece are written
TAGS = ["<row", "</row>", "<c", "</c>", "<f", "</f>", "<v>", "</v>"]
ROW, ROW_END, CELL, CELL_END, FORMULA, FORMULA_END, NUMBER, NUMBER_END = range(8)
TAGS += ["<is>", "</is>", "<si>", "</si>", "<t>", "<t ", "</t>"]
STRING, STRING_END, SHARED, SHARED_END, TEXT, TEXT_AND_MORE, TEXT_END = range(8, 15)
NOWHERE, VALUE, WITHIN = range(3)  # where in a cell its value stands: nowhere, as it is, or as a string within tags
AS_IT_IS, TRIMMED, KEPT = range(3)  # of a text: whether it is a string, and what becomes of blanks around it
NUL, AMPERSAND, SLASH, OPEN, EQUALS, CLOSE, UNDERSCORE = b"\0&/<=>_"
ESCAPE, PLACE = np.frombuffer(b"_x00", np.uint8), np.frombuffer(b' r="', np.uint8)
PRESERVED = np.frombuffer(b'xml:space="preserve">', np.uint8)
LESS, GREATER, AND = (np.frombuffer(name, np.uint8) for name in (b"&lt;", b"&gt;", b"&amp;"))
QUOTATION, APOSTROPHE = (np.frombuffer(name, np.uint8) for name in (b"&quot;", b"&apos;"))

inlined = njit(cache=True, nogil=True, inline="always")  # a call would cost more than what these do


class FoundCells(NamedTuple):
    """The cells of some rows, one row behind the other."""

    texts: list[str]
    rows: np.ndarray  # of each cell, from 0
    columns: np.ndarray
    way_of: np.ndarray
    ways: list[tuple[str, int]]  # in which cells are written: attributes but for the place, and where the value stands
    height: int
    last: int  # the number of the last row


def find_cells(piece: bytes, prefix: str, *, last: int) -> FoundCells | None:
    """The cells of whole rows, which stand behind the row of that number; none where not all is plain."""
    data, most = np.frombuffer(piece, np.uint8), len(piece) // 4 + 1  # cells, of which the shortest is <c/>
    texts, ways = np.empty(len(piece), np.uint8), np.empty((MOST_WAYS, 3), np.int64)
    rows, columns, way_of = np.empty(most, np.int32), np.empty(most, np.uint16), np.empty(most, np.uint8)
    height, cells, size, kinds, last = cells_of(data, tags_of(prefix), last, texts, rows, columns, way_of, ways)
    if height < 0:
        return None
    try:
        found = str(texts[: size - 1].data, "utf-8").split("\0") if cells else []
    except UnicodeDecodeError:
        return None
    attributes = [(piece[begin:end].decode(), where) for begin, end, where in ways[:kinds].tolist()]
    return FoundCells(found, rows[:cells], columns[:cells], way_of[:cells], attributes, height, last)


def find_strings(piece: bytes, prefix: str) -> tuple[bytes, np.ndarray] | None:
    """The strings that sheets share, one behind the other, and where each ends; none where not all is plain."""
    data, texts = np.frombuffer(piece, np.uint8), np.empty(len(piece), np.uint8)
    ends = np.empty(len(piece) // 16 + 1, np.int64)  # the shortest is <si><t></t></si>
    count = strings_of(data, tags_of(prefix), texts, ends)
    if count < 0:
        return None
    found = texts[: ends[count - 1] if count else 0]
    try:
        str(found.data, "utf-8")
    except UnicodeDecodeError:
        return None
    return found.tobytes(), ends[:count]


def texts_between(data: np.ndarray, begins: np.ndarray, ends: np.ndarray) -> list[str] | None:
    """Texts from here to there; none where one of them holds a zero."""
    texts = np.empty((ends - begins).sum() + len(ends), np.uint8)
    put_together(data, begins, ends, texts)
    found = str(texts[:-1].data, "utf-8").split("\0")
    return found if len(found) == len(ends) else None


@lru_cache(8)
def tags_of(prefix: str) -> np.ndarray:
    """Each tag as it is written with a prefix, behind the number of its bytes."""
    named = [re.sub("</?", lambda found: found[0] + prefix, tag).encode() for tag in TAGS]
    tags = np.zeros((len(named), 1 + max(map(len, named))), np.int64)
    for row, tag in zip(tags, named, strict=True):
        row[: 1 + len(tag)] = len(tag), *tag
    return tags


@compiled
def put_together(data, begins, ends, texts):
    """Write texts, each with a zero behind it."""
    written = 0
    for number in range(len(begins)):
        for place in range(begins[number], ends[number]):
            texts[written] = data[place]
            written += 1
        texts[written] = NUL
        written += 1


@compiled
def strings_of(data, tags, texts, ends):
    """Write strings, and note where each ends: how many there are; less than none where something is not plain."""
    count, written, at = 0, 0, behind_blanks(data, 0)
    while at < len(data):
        at, written = string_of(data, behind(data, at, tags, SHARED), tags, texts, written)
        at = behind_blanks(data, behind(data, behind_blanks(data, at), tags, SHARED_END))
        if at < 0:
            return -1
        ends[count] = written
        count += 1
    return count


@compiled
def cells_of(data, tags, last, texts, rows, columns, way_of, ways):
    """Note the cells, and write their texts each with a zero behind it: how many rows, cells, bytes and ways there are,
    and the number of the last row. Less than no row is said where something is not plain."""
    size, height, cells, written, kinds, wrong = len(data), 0, 0, 0, 0, (-1, 0, 0, 0, 0)
    usual = np.zeros(MOST_COLUMNS, np.uint8)  # how the cell above was written
    at = behind_blanks(data, 0)
    while at < size:
        at, column, number = place_of(data, behind(data, at, tags, ROW))
        at = row_opened(data, at)
        if at < 0 or column >= 0 or 0 <= number <= last:
            return wrong
        last, first, expected, is_open = number if number >= 0 else last + 1, cells, 0, data[at - 2] != SLASH
        is_placed = False
        while is_open:
            at = behind_blanks(data, at)
            end = behind(data, at, tags, ROW_END)
            if end >= 0:
                at = end
                break
            begin, column, said = place_of(data, behind(data, at, tags, CELL))
            is_placed = column >= 0 if cells == first else is_placed
            column = column if is_placed else expected
            if begin < 0 or said != (number if is_placed else -1) or not expected <= column < MOST_COLUMNS:
                return wrong
            way = usual[column]
            end = behind_same(data, begin, ways, way) if way < kinds else -1
            end = attributes_end(data, begin) if end < 0 else end
            if end < 0:
                return wrong
            at, where = end, NOWHERE
            if data[end - 2] != SLASH:
                at, where, written = value_of(data, end, tags, texts, written)
                at = behind(data, behind_blanks(data, at), tags, CELL_END)
            way = way_like(data, begin, end, where, ways, kinds, way)
            if at < 0 or way == MOST_WAYS:
                return wrong
            if way == kinds:
                ways[way] = begin, end, where
                kinds += 1
            rows[cells], columns[cells], way_of[cells] = height, column, way
            usual[column], texts[written] = way, NUL
            written, cells, expected = written + 1, cells + 1, column + 1
        height += 1
        at = behind_blanks(data, at)
    return height, cells, written, kinds, last


@inlined
def behind(data, at, tags, tag):
    """The place behind a tag that begins here; -1 where it does not, or where there is no place."""
    end = at + np.int64(tags[tag, 0])
    if at < 0 or end > len(data):
        return -1
    for place in range(at, end):
        if data[np.uint64(place)] != tags[tag, np.uint64(place - at + 1)]:
            return -1
    return end


@inlined
def behind_same(data, at, ways, way):
    """The place behind attributes that are written in a way; -1 where they are others."""
    start, length = ways[way, 0], ways[way, 1] - ways[way, 0]
    if at + length > len(data):
        return -1
    for place in range(length):
        if data[np.uint64(start + place)] != data[np.uint64(at + place)]:
            return -1
    return at + length


@inlined
def behind_word(data, at, word):
    if at < 0 or at + len(word) > len(data):
        return -1
    for place in range(len(word)):
        if data[at + place] != word[place]:
            return -1
    return at + len(word)


@inlined
def is_blank(byte):
    return byte == BLANK or byte == LF or byte == CR or byte == TAB


@inlined
def behind_blanks(data, at):
    while 0 <= at < len(data) and is_blank(data[at]):
        at += 1
    return at


@inlined
def place_of(data, at):
    """Where attributes go on behind a place such as r="B3", its column, and its row; -1 for each that is not told."""
    begin = behind_word(data, at, PLACE)
    if begin < 0:
        return at, -1, -1
    at, column, number = begin, 0, 0
    while at < len(data) and ord("A") <= data[at] <= ord("Z"):
        column = 26 * column + np.int64(data[at]) - 64
        at += 1
    letters, begin = at - begin, at
    while at < len(data) and ord("0") <= data[at] <= ord("9") and at - begin < 7:
        number = 10 * number + np.int64(data[at]) - 48
        at += 1
    if letters > 3 or at == begin or at == len(data) or data[at] != QUOTE:
        return -1, -1, -1
    return at + 1, column - 1, number


@compiled
def attributes_end(data, at):
    """Where the attributes of a tag end, with their bracket; -1 where they do not, or are not plain."""
    if at < 0:
        return -1
    while at < len(data) and data[at] != CLOSE:
        byte = data[at]
        if byte == OPEN or byte == AMPERSAND or byte == NUL or byte > 127:
            return -1
        at += 1
    return at + 1 if at < len(data) else -1


@compiled
def row_opened(data, at):
    """Where the content of a row begins, whose further attributes say nothing of its place."""
    end = attributes_end(data, at)
    if end < 0 or not (is_blank(data[at]) or data[at] == SLASH or data[at] == CLOSE):
        return -1
    for place in range(at, end - 1):
        if is_blank(data[place]) and data[place + 1] == ord("r"):
            if data[place + 2] == EQUALS or is_blank(data[place + 2]):
                return -1
    return end


@inlined
def way_like(data, begin, end, where, ways, kinds, guess):
    """The number of the way in which a cell is written, which is probably the one guessed; a new one where none of
    those before is it."""
    for turn in range(-1, kinds):
        way = guess if turn < 0 else turn
        if way < kinds and ways[way, 2] == where and behind_same(data, begin, ways, way) == end:
            return way
    return kinds


@inlined
def value_of(data, at, tags, texts, written):
    """What stands in a cell: where the cell goes on, where its value stood, and how many bytes of texts there are."""
    inside = behind(data, at, tags, FORMULA)
    if inside >= 0:
        at = behind_formula(data, inside, tags)
    inside = behind(data, at, tags, NUMBER)
    if inside >= 0:
        at, written = text_of(data, inside, texts, written, AS_IT_IS)
        return behind(data, at, tags, NUMBER_END), VALUE, written
    inside = behind(data, at, tags, STRING)
    if inside < 0:
        return at, NOWHERE, written
    at, written = string_of(data, inside, tags, texts, written)
    return behind(data, behind_blanks(data, at), tags, STRING_END), WITHIN, written


@inlined
def string_of(data, at, tags, texts, written):
    """A string within its tags: where what is behind it begins, and how many bytes of texts there are."""
    kept = behind(data, at, tags, TEXT_AND_MORE)
    at = behind(data, at, tags, TEXT) if kept < 0 else behind_word(data, kept, PRESERVED)
    if at >= 0:
        at, written = text_of(data, at, texts, written, TRIMMED if kept < 0 else KEPT)
    return behind(data, at, tags, TEXT_END), written


@compiled
def behind_formula(data, at, tags):
    if at < len(data) and not (is_blank(data[at]) or data[at] == SLASH or data[at] == CLOSE):
        return -1
    at = attributes_end(data, at)
    if at < 0 or data[at - 2] == SLASH:
        return at
    while at < len(data) and data[at] != OPEN:
        byte = data[at]
        if byte == NUL or byte > 127 or (byte == AMPERSAND and not reference(data, at)[1]):
            return -1
        at += 1
    return behind(data, at, tags, FORMULA_END)


@compiled
def text_of(data, at, texts, written, kind):
    """Write a text as it is meant: where it ends, and how many bytes of texts there are; -1 where it is not plain."""
    size, solid = len(data), written  # behind what blanks may be taken from
    if kind == TRIMMED:
        at = behind_blanks(data, at)
    while at < size:
        if at + WIDE <= size:  # nearly all bytes are to be written as they are
            begin, out, first = np.uint64(at), np.uint64(written), np.uint8(WIDE)
            for place in range(WIDE):
                byte = data[begin + np.uint64(place)]
                met = (byte == OPEN) | (byte == AMPERSAND) | (byte == CR) | (byte == NUL) | (byte == UNDERSCORE)
                first = min(first, np.uint8(place) if met else np.uint8(WIDE))
            for place in range(WIDE):
                texts[out + np.uint64(place)] = data[begin + np.uint64(place)]
            at += first
            written += first
            if first == WIDE:
                continue
        byte = np.int64(data[at])
        if byte == OPEN:
            while kind == TRIMMED and written > solid and is_blank(texts[written - 1]):
                written -= 1
            return at, written
        if byte == NUL:
            break
        length = 1
        if byte == AMPERSAND:
            byte, length = reference(data, at)
            if not length:
                break
        elif byte == CR:
            byte, length = LF, 2 if at + 1 < size and data[at + 1] == LF else 1
        elif byte == UNDERSCORE and kind != AS_IT_IS:
            byte, length = escape(data, at)
            if byte == NUL:
                break
            if byte > 127:
                texts[written] = 192 + (byte >> 6)
                byte, written = 128 + (byte & 63), written + 1
            solid = written + 1 if length > 1 else solid
        texts[written] = byte
        at, written = at + length, written + 1
    return -1, written


@compiled
def escape(data, at):
    """The character that Excel writes as _x000D_, and how long that is written; the underscore where it is one."""
    if behind_word(data, at, ESCAPE) >= 0 and at + 7 <= len(data) and data[at + 6] == UNDERSCORE:
        high, low = hexadecimal(data[at + 4]), hexadecimal(data[at + 5])
        if high >= 0 and low >= 0:
            return 16 * high + low, 7
    return UNDERSCORE, 1


@compiled
def hexadecimal(byte):
    """The value of a digit; less than 0 where it is none."""
    digit, letter = np.int64(byte) - ord("0"), (np.int64(byte) | 32) - ord("a")
    return digit if 0 <= digit < 10 else letter + 10 if 0 <= letter < 6 else -1


@compiled
def reference(data, at):
    """The character to which a name refers, and how long that is written; no length where it is another."""
    for name, byte in ((LESS, ord("<")), (GREATER, ord(">")), (AND, ord("&")), (QUOTATION, ord('"')), (APOSTROPHE, 39)):
        if behind_word(data, at, name) >= 0:
            return byte, len(name)
    return 0, 0
