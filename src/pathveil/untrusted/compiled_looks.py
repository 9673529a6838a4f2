"""Compiled looks at large text files: where the records of CSV or the lines of JSONL are that polars may read, being by
the book, and where the objects of a list in JSON are.

What a look does not understand it leaves to slower readers, which know what to forgive and which line is at fault.
Loading numba takes a third of a second, so callers look at large files alone.

>>> whole_records(b'1,"left\\nbreast"\\n2,colon\\n3,5" nail\\n', 0, delimiter=",", fields=2)
(24, array([0, 2], dtype=uint32), 3)
"""

from collections.abc import Iterable

import numpy as np
from numba import njit

LONGEST_RECORD = 1 << 22  # bytes of one that is by the book
DEEPEST = 24  # objects and lists within each other
MOST_CONTAINERS = 10_000  # in a line
QUOTE, LF, CR, BACKSLASH, BLANK, TAB = b'"\n\r\\ \t'
OPEN_OBJECT, CLOSE_OBJECT, OPEN_LIST, CLOSE_LIST, COLON, COMMA = b"{}[]:,"
FIELD, BARE, QUOTED, MARK, RETURN, RETURN_WITHIN = range(6)  # where in a record of CSV a byte stands
VALUE, VALUE_OR_END, NAME, NAME_OR_END, AFTER_NAME, NEXT = range(6)  # what of JSON is expected
TEXT, OTHER = 1, 2  # kinds of values that a name was met with

compiled = njit(cache=True, nogil=True)
WIDE = 64  # bytes that the processor compares at once: a loop over so many becomes a few instructions


def whole_records(buffer: bytes, start: int, *, delimiter: str, fields: int) -> tuple[int, np.ndarray, int]:
    """The records of CSV from ``start`` on, up to one that is not whole or not by the book: where they end, the line
    at which each begins, from 0, and how many lines they are.

    By the book each quotation mark opens a field, closes it, or is one of two within one, each CR outside of them
    stands before an LF, and each record has so many ``fields``.
    """
    lines = np.empty((len(buffer) - start) // fields + 1, np.uint32)
    count, end, total = records_of(np.frombuffer(buffer, np.uint8), start, ord(delimiter), fields, lines)
    return end, lines[:count], total


@compiled
def records_of(data, begin, delimiter, fields, lines):
    """Note the first line of each record; how many records there are, where the last ends, and their lines."""
    size, mode, field, line, start = len(data), FIELD, 0, 0, 0
    count, at, began = 0, begin, begin
    while at < size:
        if mode == QUOTED or mode == BARE:  # nearly all bytes say nothing
            while at + WIDE <= size:
                begin, first, breaks = np.uint64(at), np.uint8(WIDE), np.uint8(0)
                for place in range(WIDE):
                    byte = data[begin + np.uint64(place)]
                    met = (byte == QUOTE) | (byte == CR)
                    if mode == BARE:
                        met |= (byte == delimiter) | (byte == LF)
                    first = min(first, np.uint8(place) if met else np.uint8(WIDE))
                    breaks += np.uint8(byte == LF)
                if first < WIDE:
                    for place in range(first):
                        line += data[begin + np.uint64(place)] == LF
                    at += first
                    break
                line += breaks
                at += WIDE
            if at == size:
                break
        byte = data[at]
        at += 1
        if mode == QUOTED:
            if byte == QUOTE:
                mode = MARK
            elif byte == LF:
                line += 1
            elif byte == CR:
                mode = RETURN_WITHIN
        elif mode == RETURN_WITHIN:  # with an LF behind it or not, it ends a line of a text
            line += 1
            mode = QUOTED
            if byte != LF:
                at -= 1
        elif byte == LF:
            if field + 1 != fields or at - began > LONGEST_RECORD or (mode == FIELD and field == 0):
                break
            lines[count] = start
            count += 1
            line += 1
            mode, field, start, began = FIELD, 0, line, at
        elif mode == RETURN:
            break
        elif byte == delimiter:
            field += 1
            mode = FIELD
        elif byte == CR:
            if mode == FIELD and field == 0:
                break
            mode = RETURN
        elif byte == QUOTE:
            if mode == BARE:
                break
            mode = QUOTED  # opened, or the second of two
        elif mode == MARK:
            break
        else:
            mode = BARE
    return count, began, start


class JsonLook:
    """A look over lines of JSON, each an object whose names are known.

    >>> look = JsonLook()
    >>> look.learn([b'"id"', b'"site"'])
    >>> block = b'{"id": "1", "site": null}\\n{"id": "2", "site": "C50"}\\n{"id": 3, "new": 4}\\n'
    >>> look.understood(block, 0), look.texts, look.others
    ((2, 53), [b'"id"', b'"site"'], [b'"id"'])
    """

    def __init__(self) -> None:
        self.known: list[bytes] = []
        self.names, self.ends = np.zeros(0, np.uint8), np.zeros(1, np.int64)
        self.met = np.zeros(0, np.uint8)  # the kinds of values of each name

    def learn(self, names: Iterable[bytes]) -> None:
        """Know more names, as they are written, with their quotation marks."""
        self.known += [name for name in names if name not in self.known and b"\\\\" not in name]
        bare = [name[1:-1] for name in self.known]
        self.names = np.frombuffer(b"".join(bare), np.uint8)
        self.ends = np.cumsum([0, *map(len, bare)])
        self.met = np.concatenate([self.met, np.zeros(len(bare) - len(self.met), np.uint8)])

    def understood(self, block: bytes, start: int) -> tuple[int, int]:
        """How many lines from ``start`` on are understood, and where the first begins that is not."""
        return objects_of(np.frombuffer(block, np.uint8), start, self.names, self.ends, self.met)

    @property
    def texts(self) -> list[bytes]:
        """The names that were met with a text."""
        return [name for name, met in zip(self.known, self.met, strict=True) if met & TEXT]

    @property
    def others(self) -> list[bytes]:
        """The names that were met with what is neither text nor null."""
        return [name for name, met in zip(self.known, self.met, strict=True) if met & OTHER]


def lines_of_elements(text: bytes) -> tuple[bytes, int]:
    """The objects of a list of which the first begins here, each as a line, and where the last of them ends: up to one
    that goes on behind the text or must be read with more care.

    >>> lines_of_elements(b'{"id": 1,\\n "site": []}, {"id": "2]"} ,{"id')
    (b'{"id": 1,  "site": []}\\n{"id": "2]"}\\n', 36)
    """
    lines = np.empty(len(text) + 1, np.uint8)  # a line end takes the place of each comma but the last
    size, end = elements_of(np.frombuffer(text, np.uint8), lines)
    return lines[:size].tobytes(), end


@compiled
def elements_of(data, lines):
    """Write objects as lines; how many bytes they are, and where the last object ends. Strings and brackets are
    followed, whatever stands between them is left to whoever reads the lines."""
    total, size, end, at = len(data), 0, 0, 0
    while at < total and data[at] == OPEN_OBJECT:
        begin, depth, objects, breaks = at, 0, 0, False
        while True:
            byte = data[at]
            at += 1
            if byte == QUOTE:
                at = string_end(data, at) + 1
                if not at:
                    return size, end
            elif byte == OPEN_OBJECT or byte == OPEN_LIST:
                depth += 1
                if depth > DEEPEST:
                    return size, end
                objects = objects << 1 | (byte == OPEN_OBJECT)
            elif byte == CLOSE_OBJECT or byte == CLOSE_LIST:
                if (byte == CLOSE_OBJECT) != (objects & 1):
                    return size, end
                depth -= 1
                objects >>= 1
                if not depth:
                    break
            elif byte == LF or byte == CR:
                breaks = True
            if at == total:
                return size, end
        lines[size : size + at - begin] = data[begin:at]
        if breaks:
            for place in range(size, size + at - begin):
                if lines[place] == LF or lines[place] == CR:
                    lines[place] = BLANK
        size += at - begin
        lines[size] = LF
        size, end = size + 1, at
        commas = 0
        while at < total and (data[at] <= BLANK or (data[at] == COMMA and not commas)):
            commas += data[at] == COMMA
            at += 1
        if not commas:
            break
    return size, end


@compiled
def string_end(data, at):
    """Where a string ends that begins behind a quotation mark; -1 where it does not, or must be read with more care."""
    size = len(data)
    while at < size:
        while at + WIDE <= size:
            begin, first = np.uint64(at), np.uint8(WIDE)
            for place in range(WIDE):
                byte = data[begin + np.uint64(place)]
                met = (byte == QUOTE) | (byte == BACKSLASH) | (byte < BLANK)
                first = min(first, np.uint8(place) if met else np.uint8(WIDE))
            at += first
            if first < WIDE:
                break
        byte = data[at]
        at += 1
        if byte == QUOTE:
            return at - 1
        if byte < BLANK:
            return -1
        if byte == BACKSLASH:
            if at == size or not is_escape(data, at):
                return -1
            at += 5 if data[at] == ord("u") else 1
    return -1


@compiled
def is_escape(data, at):
    """Whether what is behind a backslash may stand there; of a character written as two halves that is not judged."""
    byte = data[at]
    if byte == ord("n") or byte == QUOTE or byte == BACKSLASH or byte == ord("t") or byte == ord("/"):
        return True
    if byte != ord("u"):
        return byte == ord("r") or byte == ord("b") or byte == ord("f")
    if at + 5 > len(data) or ((data[at + 1] | 32) == ord("d") and data[at + 2] > ord("7")):
        return False
    for place in range(at + 1, at + 5):
        if not (ord("0") <= data[place] <= ord("9") or ord("a") <= (data[place] | 32) <= ord("f")):
            return False
    return True


@compiled
def scalar_end(data, at):
    """Where a number, true, false or null ends, and its kind: none of null, -1 of what is none of these."""
    begin, digits = at, 0
    while at < len(data) and data[at] > BLANK and data[at] != COMMA and data[at] != CLOSE_OBJECT:
        if data[at] == CLOSE_LIST:
            break
        digits += ord("0") <= data[at] <= ord("9")
        at += 1
    size, first = at - begin, data[begin]
    if size == 4 and first == ord("n") and data[begin + 1] == ord("u"):
        return at, 0 if data[begin + 2] == data[begin + 3] == ord("l") else -1
    is_truth = (size == 4 and first == ord("t")) or (size == 5 and first == ord("f"))
    is_number = digits > 0 and (first == ord("-") or ord("0") <= first <= ord("9"))
    return at, OTHER if is_truth or is_number else -1


@compiled
def name_of(data, at, end, names, ends, guess):
    """The number of a name, which is probably the one guessed; -1 where it is not known."""
    known = len(ends) - 1
    for turn in range(known):
        number = (guess + turn) % known
        begin = ends[number]
        if ends[number + 1] - begin == end - at:
            same = True
            for place in range(end - at):
                if data[at + place] != names[begin + place]:
                    same = False
                    break
            if same:
                return number
    return -1


@compiled
def objects_of(data, start, names, ends, met):
    """How many lines are objects of known names, and where the first line is that is not; kinds of values are noted."""
    size, rows, line = len(data), 0, start
    if len(ends) == 1:
        return rows, line
    last = np.full(len(ends) - 1, -1)  # the line in which each name was met last: none may stand twice in one
    while line < size:
        if data[line] != OPEN_OBJECT:
            return rows, line
        at, depth, objects, containers, expected, number = line + 1, 1, 1, 1, NAME_OR_END, -1
        while True:
            while at < size and (data[at] == BLANK or data[at] == TAB or data[at] == CR):
                at += 1
            if at == size:
                return rows, line
            byte = data[at]
            if expected == NEXT:
                at += 1
                if depth == 0:
                    if byte != LF:
                        return rows, line
                    break
                if byte == COMMA:
                    expected = NAME if objects & 1 else VALUE
                elif byte == (CLOSE_OBJECT if objects & 1 else CLOSE_LIST):
                    depth -= 1
                    objects >>= 1
                else:
                    return rows, line
            elif expected == AFTER_NAME:
                if byte != COLON:
                    return rows, line
                at += 1
                expected = VALUE
            elif expected == NAME or expected == NAME_OR_END:
                at += 1
                if byte == QUOTE:
                    end = string_end(data, at)
                    found = -1 if end < 0 else name_of(data, at, end, names, ends, number + 1)
                    if found < 0:
                        return rows, line
                    if depth == 1:
                        if last[found] == line:
                            return rows, line
                        number, last[found] = found, line
                    at, expected = end + 1, AFTER_NAME
                elif byte == CLOSE_OBJECT and expected == NAME_OR_END:
                    depth -= 1
                    objects >>= 1
                    expected = NEXT
                else:
                    return rows, line
            elif byte == QUOTE:
                end = string_end(data, at + 1)
                if end < 0:
                    return rows, line
                if depth == 1:
                    met[number] |= TEXT
                at, expected = end + 1, NEXT
            elif byte == CLOSE_LIST and expected == VALUE_OR_END:
                depth -= 1
                objects >>= 1
                at, expected = at + 1, NEXT
            elif byte == OPEN_OBJECT or byte == OPEN_LIST:
                if depth == 1:
                    met[number] |= OTHER
                depth, containers, at = depth + 1, containers + 1, at + 1
                if depth > DEEPEST or containers > MOST_CONTAINERS:
                    return rows, line
                objects = objects << 1 | (byte == OPEN_OBJECT)
                expected = NAME_OR_END if byte == OPEN_OBJECT else VALUE_OR_END
            else:
                at, kind = scalar_end(data, at)
                if kind < 0:
                    return rows, line
                if depth == 1:
                    met[number] |= kind
                expected = NEXT
        rows, line = rows + 1, at
    return rows, line
