"""The cells of a sheet, and the strings that sheets share, out of their XML as it streams by.

Machines write both in one plain shape, which a regular expression takes apart a megabyte at a time, and of large
sheets compiled code, three times as fast (``compiled_sheets.py``); whatever has another shape (runs of formatting,
comments, references to characters) goes through expat instead. Whether a piece is plain is not guessed: what is left of
it between the cells that were found must be their closing tags, so that there is nothing else in it. All ways give the
same: a ``Block`` of rows, each column's values as written beside what its cells say of themselves.

>>> sheet = b'<worksheet><sheetData><row r="3"><c r="B3" s="1"><v>8500</v></c></row></sheetData></worksheet>'
>>> [block.columns for block in sheet_blocks(lambda: io.BytesIO(sheet))]
[{1: WrittenColumn(values=['8500'], how=[' s="1"><v>'], ways={' s="1"><v>'})}]
"""

import io
import re
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import IO, Any

import numpy as np

from pathveil.untrusted import Refused, bounds
from pathveil.untrusted.xml import xml_events

PIECE = 1 << 20  # bytes of XML taken apart at a time
LONGEST = 1 << 23  # bytes of a row, or of a string: some cells may hold 32,767 characters each
HEAD = 1 << 20  # bytes in which the rows, or the strings, must begin
MOST_COLUMNS = bounds.SHEET_COLUMNS
MOST_CELLS = 1 << 19  # of a block, those that are not there among them: a wide header may stand above narrow rows
OPENINGS = {  # where a part's content begins, with the prefix of its names
    "row": re.compile(rb"<((?:[A-Za-z_][\w.-]*:)?)sheetData>"),
    "si": re.compile(rb"<((?:[A-Za-z_][\w.-]*:)?)sst(?:\s[^<>]*[^<>/])?>"),
}
ENCODING = re.compile(rb"""<\?xml[^>]*\sencoding\s*=\s*["']([^"']*)""")
NAMED = {"&lt;": "<", "&gt;": ">", "&quot;": '"', "&apos;": "'", "&amp;": "&"}
REFERENCE = re.compile("|".join(NAMED))
OTHER_REFERENCE = re.compile(f"&(?!{'|'.join(name[1:] for name in NAMED)})")  # to a character by number, or to what
ESCAPED = re.compile(r"_x00([0-9A-Fa-f]{2})_")  # how Excel writes characters that XML cannot hold, and line ends
PLACE = re.compile(r"([A-Za-z]{1,3})(\d{1,7})", re.ASCII)
BLANKS = " \t\r\n"
SPACE = "http://www.w3.org/XML/1998/namespace}space"

# How a cell is written: its attributes but for its place, and behind them where its value stands.
VALUE, TRIMMED, KEPT, WHOLE = "<v>", "<is><t>", '<is><t xml:space="preserve">', "<is>"
NOTHING = ""  # of a cell that is not there
WHERE = (NOTHING, VALUE, WHOLE)  # as compiled code counts them


@dataclass
class WrittenColumn:
    """A column's values as written, and how each was."""

    values: list[str | None] = field(default_factory=list)
    how: list[str] = field(default_factory=list)
    ways: set[str] = field(default_factory=set)  # all that are in ``how``

    def add(self, values: Sequence[str | None], how: Sequence[str]) -> None:
        self.values.extend(values)
        self.how.extend(how)
        self.ways.update(how[:1] if how.count(how[0]) == len(how) else how)

    def rows(self, start: int, end: int | None = None) -> "WrittenColumn":
        return WrittenColumn(self.values[start:end], self.how[start:end], set(self.how[start:end]))

    def fill(self, height: int) -> None:
        if missing := height - len(self.values):
            self.add([None] * missing, [NOTHING] * missing)


class Block:
    """Some rows of a sheet, by the numbers of their columns."""

    def __init__(self) -> None:
        self.height = 0
        self.columns: dict[int, WrittenColumn] = {}

    def add(
        self, columns: Sequence[int], rows: int, values: Sequence[Sequence[str | None]], how: Sequence[Sequence[str]]
    ) -> None:
        """Take rows that have cells in the same columns."""
        for number, some, ways in zip(columns, values, how, strict=True):
            column = self.columns.setdefault(number, WrittenColumn())
            column.fill(self.height)
            column.add(some, ways)
        self.height += rows

    def has_room(self, columns: Sequence[int], rows: int) -> bool:
        width = len(self.columns) + sum(number not in self.columns for number in columns)
        return not self.height or width * (self.height + rows) <= MOST_CELLS

    def filled(self) -> "Block":
        for column in self.columns.values():
            column.fill(self.height)
        return self


class Order:
    """The numbers of rows, which must rise: what streams by cannot be put into another order."""

    def __init__(self) -> None:
        self.last = 0

    def next(self, written: str | None) -> None:
        number = int(written) if written else self.last + 1
        if number <= self.last:
            raise Refused("holds a row twice, or rows out of order")
        self.last = number


class Unusual(Exception):
    """A piece is not of the plain shape: expat is to read it."""


def sheet_blocks(opened: Callable[[], IO[bytes]], *, large: bool = False) -> Iterator[Block]:
    """The rows of a sheet, some at a time; ``opened`` opens its XML, and a ``large`` one is looked at by compiled
    code."""
    order = Order()
    for prefix, head, piece in pieces(opened, "row"):
        last = order.last
        if large and piece is not None and (block := found_block(piece, prefix, order)) is not None:
            yield block
            continue
        try:
            yield from plain_blocks(plain_text(piece), prefix, order)
        except Unusual:
            order.last = last
            with opened() if piece is None else io.BytesIO(closed(head, piece, "row")) as file:
                yield from blocks_of_events(xml_events(file), order)


def shared_strings(opened: Callable[[], IO[bytes]], *, large: bool = False) -> Iterator[tuple[bytes, np.ndarray]]:
    """The strings that sheets share, some at a time: their bytes one behind the other, and where each ends."""
    for prefix, head, piece in pieces(opened, "si"):
        if large and piece is not None and (found := found_strings(piece, prefix)) is not None:
            yield found
            continue
        try:
            yield encoded(plain_strings(plain_text(piece), prefix))
        except Unusual:
            with opened() if piece is None else io.BytesIO(closed(head, piece, "si")) as file:
                yield from map(encoded, strings_of_events(xml_events(file)))


def found_strings(piece: bytes, prefix: str) -> tuple[bytes, np.ndarray] | None:
    """Strings of the plain shape, as compiled code finds them; none where it does not."""
    from pathveil.untrusted.compiled_sheets import find_strings

    return find_strings(piece, prefix)


def encoded(texts: list[str]) -> tuple[bytes, np.ndarray]:
    """Texts as bytes one behind the other, and where each ends."""
    try:
        each = [text.encode() for text in texts]
    except UnicodeEncodeError:
        raise Refused("holds half a character") from None
    return b"".join(each), np.cumsum([len(text) for text in each], dtype=np.int64)


def pieces(opened: Callable[[], IO[bytes]], element: str) -> Iterator[tuple[str, bytes, bytes | None]]:
    """The prefix of names, what stands before all elements, and some whole elements; none where all must go through
    expat: in an encoding other than UTF-8, or where nothing begins as it should."""
    with opened() as file, closing(read_ahead(file)) as coming:
        start = file.read(HEAD)
        opening, declared = OPENINGS[element].search(start), ENCODING.search(start)
        if not opening or b"<!" in start[: opening.end()] or (declared and declared[1].upper() != b"UTF-8"):
            yield "", b"", None
            return
        head, rest, prefix = start[: opening.end()], start[opening.end() :], opening[1]
        begin = b"<%b%b" % (prefix, element.encode())
        last = b"</%b%b>" % (prefix, b"sheetData" if element == "row" else b"sst")
        while True:
            ended = rest.find(last)
            whole = ended if ended >= 0 else rest.rfind(begin)  # before which all others have ended
            if whole > 0:
                yield prefix.decode(), head, rest[:whole]
                rest = rest[whole:]
            if ended >= 0:
                break
            if len(rest) > LONGEST:
                raise Refused("holds a row or a string without an end")
            piece = next(coming, None)
            if piece is None:
                raise Refused("is cut short")
            rest += piece
        for _ in coming:  # to its end, where its checksum is looked at
            pass


def read_ahead(file: IO[bytes]) -> Generator[bytes]:
    """The pieces of a file, the next of which is inflated while one is taken apart."""
    with ThreadPoolExecutor(1) as thread:
        coming = thread.submit(file.read, PIECE)
        while piece := coming.result():
            coming = thread.submit(file.read, PIECE)
            yield piece


def closed(head: bytes, piece: bytes, element: str) -> bytes:
    """A piece as a document of its own."""
    prefix = OPENINGS[element].findall(head)[-1]
    ends = [b"sheetData", b"worksheet"] if element == "row" else [b"sst"]
    return head + piece + b"".join(b"</%b%b>" % (prefix, end) for end in ends)


def plain_text(piece: bytes | None) -> str:
    """A piece as text, with the line ends that XML makes of others."""
    try:
        text = "" if piece is None else piece.decode()
    except UnicodeDecodeError:
        raise Refused("holds text that is not UTF-8") from None
    if piece is None or "\0" in text or OTHER_REFERENCE.search(text):
        raise Unusual
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def found_block(piece: bytes, prefix: str, order: Order) -> Block | None:
    """The rows of a piece of the plain shape, as compiled code finds them; none where it does not."""
    from pathveil.untrusted.compiled_sheets import find_cells

    found = find_cells(piece, prefix, last=order.last)
    if found is None:
        return None
    ways = np.array([attributes + WHERE[where] for attributes, where in found.ways], object)
    counts, height, block = np.bincount(found.columns), found.height, Block()
    columns = np.flatnonzero(counts).tolist()
    if len(columns) * height > MOST_CELLS or any(attributes_of(way) is None for way in ways):
        return None
    block.height, order.last = height, found.last
    if len(found.texts) == len(columns) * height:  # all rows have cells in the same columns
        for place, number in enumerate(columns):
            mine, column = slice(place, None, len(columns)), WrittenColumn()
            column.add(found.texts[mine], ways[found.way_of[mine]].tolist())
            block.columns[number] = column
        return block
    by_column, texts = np.argsort(found.columns, kind="stable"), np.array(found.texts, object)
    for number, mine in zip(columns, np.split(by_column, np.cumsum(counts[columns])[:-1]), strict=True):
        values, how, rows = np.full(height, None, object), np.full(height, NOTHING, object), found.rows[mine]
        values[rows], how[rows] = texts[mine], ways[found.way_of[mine]]
        block.columns[number] = column = WrittenColumn()
        column.add(values.tolist(), how.tolist())
    return block


@lru_cache(8)
def plain_cells(prefix: str) -> tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str]]:
    """How rows and cells begin (name, column, row, other attributes and where the value stands, the value), how they
    end, and formulas."""
    p = re.escape(prefix)
    where = f'(?:<{p}(?:v|is><{p}t(?: xml:space="preserve")?+)>)?+'
    return (
        re.compile(rf'<{p}(c|row)(?: r="([A-Z]{{0,3}}+)([0-9]{{1,7}}+)")?+([^>]*+>{where})([^<]*+)'),
        re.compile(rf"(?:\s*</{p}(?:v|t|is|c|row)>)*\s*"),
        re.compile(rf"<{p}f(?:\s[^<>]*)?(?:/>|>[^<]*</{p}f>)"),
    )


@lru_cache(8)
def plain_string(prefix: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """How strings begin (whether blanks around them are kept, the text), and how they end."""
    p = re.escape(prefix)
    return (
        re.compile(f'<{p}si><{p}t((?: xml:space="preserve")?)>([^<]*)'),
        re.compile(rf"(?:\s*</{p}(?:t|si)>)*\s*"),
    )


def taken_apart(text: str, begin: re.Pattern[str], end: re.Pattern[str]) -> list[list[str]]:
    """What each group of ``begin`` matched; there is nothing else in the text but ends."""
    parts, step = begin.split(text), begin.groups + 1
    if not all(map(end.fullmatch, set(parts[::step]))):
        raise Unusual
    return [parts[place::step] for place in range(1, step)]


def plain_blocks(text: str, prefix: str, order: Order) -> list[Block]:
    """The rows of a text of the plain shape."""
    begin, end, formula = plain_cells(prefix)
    text = formula.sub("", text) if f"<{prefix}f" in text else text
    names, letters, numbers, how, values = taken_apart(text, begin, end)
    starts = [place for place, name in enumerate(names) if name == "row"]
    if not starts or starts[0] or any(" r=" in one or one[0].isalnum() for one in {how[place] for place in starts}):
        raise Unusual
    how = [one.replace(f"<{prefix}", "<") for one in how] if prefix else how
    values = [with_characters(value) if "&" in value else value for value in values] if "&" in text else values
    blocks = [Block()]
    for columns, rows, start, stop in runs(starts, letters, numbers, order):
        if not blocks[-1].has_room(columns, rows):
            blocks.append(Block())
        cells, width = range(start + 1, start + 1 + len(columns)), len(columns) + 1
        blocks[-1].add(columns, rows, [values[k:stop:width] for k in cells], [how[k:stop:width] for k in cells])
    ways = set().union(*(column.ways for block in blocks for column in block.columns.values()))
    if any(attributes_of(way) is None for way in ways - {NOTHING}):
        raise Unusual
    return [block.filled() for block in blocks]


def runs(
    starts: list[int], letters: list[str], numbers: list[str], order: Order
) -> Iterator[tuple[tuple[int, ...], int, int, int]]:
    """Rows behind each other with cells in the same columns: these, how many rows, and where they begin and end."""
    begun, rows, layout = starts[0], 0, letters[starts[0] + 1 : starts[1] if starts[1:] else None]
    for start, end in pairwise((*starts, len(letters))):
        said, cells = numbers[start], numbers[start + 1 : end]
        if cells.count(said) < len(cells) and any(cells):
            raise Unusual
        order.next(said)
        if (here := letters[start + 1 : end]) != layout:
            yield columns_of(tuple(layout)), rows, begun, start
            begun, rows, layout = start, 0, here
        rows += 1
    yield columns_of(tuple(layout)), rows, begun, len(letters)


@lru_cache(256)
def columns_of(layout: tuple[str, ...]) -> tuple[int, ...]:
    """The numbers of the columns in which a row has cells, which must rise."""
    columns = tuple(map(column_number, layout)) if any(layout) else tuple(range(len(layout)))
    if any(one >= two for one, two in pairwise((-1, *columns, MOST_COLUMNS))):
        raise Unusual
    return columns


@lru_cache(MOST_COLUMNS)
def column_number(letters: str | None) -> int:
    """A is 0, Z is 25, AA is 26."""
    number = 0
    for letter in (letters or "").upper():
        number = 26 * number + ord(letter) - 64
    return number - 1


def attributes_of(how: str) -> dict[str, str] | None:
    """The attributes of a cell other than its place; none where they are not plainly written."""
    written = re.fullmatch(r'((?: [\w:]+="\w*")*) ?/?>(?:<.*)?', how, re.ASCII)
    if not written or " r=" in how:
        return None
    return dict(re.findall(r' ([\w:]+)="(\w*)"', written[1]))


def with_characters(text: str) -> str:
    """A text with the characters that it refers to by name."""
    return REFERENCE.sub(lambda found: NAMED[found[0]], text)


def cleaned(text: str, *, keep: bool) -> str:
    """A string as Excel shows it."""
    text = text if keep else text.strip(BLANKS)
    return ESCAPED.sub(lambda found: chr(int(found[1], 16)), text) if "_x00" in text else text


def plain_strings(text: str, prefix: str) -> list[str]:
    """The strings of a text of the plain shape."""
    spaces, texts = taken_apart(text, *plain_string(prefix))
    if "&" in text:
        texts = [with_characters(one) if "&" in one else one for one in texts]
    if "_x00" in text or not all(spaces):
        texts = [cleaned(one, keep=bool(space)) for space, one in zip(spaces, texts, strict=True)]
    return texts


class StringParts:
    """A string that may be made of runs; how it is pronounced is left out."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.keep = self.is_phonetic = False

    def see(self, event: str, name: str, content: Any) -> None:
        if name == "rPh":
            self.is_phonetic = event == "start"
        elif name == "t" and event == "start":
            self.keep = content.get(SPACE) == "preserve"
        elif name == "t" and not self.is_phonetic:
            self.parts.append(cleaned(content, keep=self.keep))


def strings_of_events(events: Iterator[tuple[str, str, Any]]) -> Iterator[list[str]]:
    texts: list[str] = []
    string, size = StringParts(), 0
    for event, name, content in events:
        if name == "si" and event == "start":
            string = StringParts()
        elif name == "si":
            texts.append("".join(string.parts))
            size += len(texts[-1]) + 8
            if size > PIECE:
                yield texts
                texts, size = [], 0
        else:
            string.see(event, name, content)
    yield texts


def blocks_of_events(events: Iterator[tuple[str, str, Any]], order: Order) -> Iterator[Block]:
    block, size = Block(), 0
    for number, cells in rows_of_events(events):
        order.next(number)
        if size > PIECE or not block.has_room(list(cells), 1):
            yield block.filled()
            block, size = Block(), 0
        block.add(list(cells), 1, [[value] for value, _ in cells.values()], [[how] for _, how in cells.values()])
        size += sum(64 + len(value or "") for value, _ in cells.values())
    yield block.filled()


def rows_of_events(events: Iterator[tuple[str, str, Any]]) -> Iterator[tuple[str, dict[int, tuple[str | None, str]]]]:
    """The number of each row, as written, and its cells by their columns; of two in one place the latter."""
    inside = False
    number, column = "", 0
    cells: dict[int, tuple[str | None, str]] = {}
    cell: dict[str, str] | None = None
    value: str | None = None
    string: StringParts | None = None
    for event, name, content in events:
        if name == "sheetData":
            inside = event == "start"
        elif not inside:
            continue
        elif event == "start" and name == "row":
            number, column, cells = content.get("r", ""), 0, {}
            if number and not (number.isascii() and number.isdigit() and len(number) < 8):
                raise Refused("holds a row whose number is none")
        elif event == "start" and name == "c":
            cell, value, string = content, None, None
        elif cell is None:
            if name == "row":
                yield number, cells
        elif name == "is":
            string = StringParts() if event == "start" else string
        elif name == "v" and event == "end":
            value = content
        elif name == "c":
            number, column = placed(cell.get("r"), number, column)
            attributes = "".join(f' {key}="{cell[key]}"' for key in ("s", "t") if key in cell) + ">"
            if string is not None:
                cells[column] = "".join(string.parts), attributes + WHOLE
            elif value is not None:
                cells[column] = value, attributes + VALUE
            cell, column = None, column + 1
        elif string is not None:
            string.see(event, name, content)


def placed(written: str | None, row: str, column: int) -> tuple[str, int]:
    """The row and the column in which a cell stands: where it says, or behind the one before it."""
    if written is not None:
        place = PLACE.fullmatch(written)
        if place is None:
            raise Refused("holds a cell whose place is none")
        if row and int(place[2]) != int(row):
            raise Refused("holds a cell that says another row than the one it stands in")
        row, column = place[2], column_number(place[1])
    if column >= MOST_COLUMNS:
        raise Refused(f"holds more than {MOST_COLUMNS:,} columns")
    return row, column
