"""Texts in UTF-8 with their identifiers replaced, many at once: marked, decided and written, in compiled code.

A text with characters beyond ASCII is looked at as one byte for each (``matcher.CLASSES``), and written from its UTF-8.
"""

import threading
from functools import cache

import numpy as np
from numba import njit

from pathveil.text.identifiers.bytes_at_once import STEP, borrow, kept, load
from pathveil.text.identifiers.deciding import AGAIN, BUCKETS, EXPRESSIONS, find_again, find_names, find_spans
from pathveil.text.identifiers.expressions import AHEAD, LATIN_LETTERS
from pathveil.text.identifiers.finding import VERSION
from pathveil.text.identifiers.marks import NAME_ENDS, find_marks
from pathveil.text.identifiers.matcher import CLASSES, program

PLANE, EVERY = 0x10000, 0x110000  # characters that nearly all texts are made of, and all there are

compiled = njit(nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)


class _Room(threading.local):
    """Arrays for marks, spans and parts of names, used again by each thread: new memory takes longer than what is done
    in it. Of large ones only what is filled in takes memory."""

    size = 0

    def of(self, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """With room for texts of so many characters."""
        if size > self.size:
            self.size = size + size // 4
            spans, parts = (np.empty((2 * self.size, columns), np.int64) for columns in (3, 4))
            self.arrays = np.empty((NAME_ENDS + 1, self.size), np.int64), spans, parts
        return self.arrays


_room = _Room()


@cache
def _machine(version: int) -> np.ndarray:
    return program(EXPRESSIONS[version])


@cache
def _classes(most: int) -> np.ndarray:
    """What stands for each character up to ``most``."""
    known = {character: byte for byte, character in CLASSES.items()}
    latin, alnum, other = known.pop("é"), known.pop("λ"), known.pop("–")
    table = np.array([alnum if character.isalnum() else other for character in map(chr, range(most))], np.uint8)
    table[:128] = range(128)
    table[[ord(letter) for letter in LATIN_LETTERS]] = latin
    for character, byte in known.items():
        table[ord(character)] = byte
    return table


def hide_bytes(utf8: np.ndarray, ends: np.ndarray, version: int = VERSION) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Texts as ``finding.encoded`` gives them with their stretches replaced, where they end then, and the stretches:
    text, first character, last character + 1, kind."""
    data, places = utf8, ends
    if len(utf8) and utf8.max() > 127:
        data, places = np.empty(len(utf8), np.uint8), np.empty(len(ends), np.int64)
        most = PLANE if utf8.max() < 0xF0 else EVERY
        size = _classify(utf8, ends, _classes(most), data, places)
        data = data[: size + AHEAD]
        data.flags.writeable = False  # as texts from bytes are: else all would be compiled twice
    marks, spans, parts = _room.of(len(data))
    counts = np.zeros(NAME_ENDS + 1, np.int64)
    find_marks(data, marks, counts)
    if not counts.any():
        return utf8, ends, np.empty((0, 4), np.int64)
    lists, machine = np.zeros((AGAIN + 1, 2), np.int64), _machine(version).copy()
    find_spans(data, places, machine, marks, counts, spans, lists, version)
    find_names(data, places, machine, marks, counts, spans, lists, version)
    heads, found = np.empty(BUCKETS, np.int64), np.empty(STEP + 8, np.int64)
    find_again(data, places, machine, spans, lists, parts, heads, found, version)
    kept, new_ends = np.empty((int(lists[AGAIN, 1]), 4), np.int64), np.empty(len(ends), np.int64)
    out = np.empty(len(utf8) + 3 * len(kept), np.uint8)
    made, size = _write(utf8, ends, places, spans, lists, kept, out, new_ends)
    out = out[: size + AHEAD]
    out.flags.writeable = False
    return out, new_ends, kept[:made]


@kept
def _classify(utf8, ends, table, data, places):
    """Fill in a byte for each character, and line ends behind the last text as far as loops look; and where texts end
    among them. Returns how many characters there are."""
    utf8, data = borrow(utf8), borrow(data)
    made, at = np.int64(0), np.int64(0)
    for text in range(len(ends)):
        while at < ends[text]:
            plain = at
            while plain < ends[text] and load(utf8, plain) & np.uint64(0x8080808080808080) == np.uint64(0):
                plain += 8
            made = _copy(utf8, at, min(plain, ends[text]), data, made)
            at = min(plain, ends[text])
            until = min(at + 8, ends[text])
            while at < until:
                byte = np.int64(utf8[at])
                size = 1 if byte < 128 else 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
                code = byte & (0x7F >> size) if size > 1 else byte
                for more in range(1, size):
                    code = code << 6 | (utf8[at + more] & 63)
                data[made] = table[code]
                at += size
                made += 1
        places[text] = made
    for more in range(AHEAD):
        data[made + more] = 10
    return made


@kept
def _write(utf8, ends, places, spans, lists, kept, out, new_ends):
    """Fill in what ``hide_bytes`` returns; return the number of stretches, and of bytes. Stretches lie in order, none
    within another: the earlier wins, of two that begin together the longer."""
    utf8, spans, lists, out = borrow(utf8), borrow(spans), borrow(lists), borrow(out)
    made, size, begin, source, last = 0, 0, np.int64(0), np.int64(0), np.int64(0)
    never = places[len(places) - 1]
    following = np.empty(len(lists), np.int64)  # where the next stretch of each list begins
    for number in range(len(lists)):
        following[number] = spans[lists[number, 0], 0] if lists[number, 0] < lists[number, 1] else never
    for text in range(len(ends)):
        is_plain = ends[text] - source == places[text] - begin
        while True:
            start, chosen = never, 0
            for number in range(len(lists)):
                is_first = following[number] < start
                start, chosen = following[number] if is_first else start, number if is_first else chosen
            if start >= places[text]:
                break
            for number in range(chosen + 1, len(lists)):
                if following[number] == start and spans[lists[number, 0], 1] > spans[lists[chosen, 0], 1]:
                    chosen = number
            best = lists[chosen, 0]
            lists[chosen, 0] += 1
            following[chosen] = spans[best + 1, 0] if best + 1 < lists[chosen, 1] else never
            stop = spans[best, 1]
            if start >= last:
                until = _byte_at(utf8, source, start - max(last, begin), is_plain)
                size = _copy(utf8, source, until, out, size)
                out[size], out[size + 1], out[size + 2] = 0xEE, 0x84, 0x80 + spans[best, 2]
                size += 3
                source, last = _byte_at(utf8, until, stop - start, is_plain), stop
                kept[made, 0], kept[made, 1], kept[made, 2] = text, start - begin, stop - begin
                kept[made, 3] = spans[best, 2]
                made += 1
        size = _copy(utf8, source, ends[text], out, size)
        new_ends[text], source, begin = size, ends[text], places[text]
    _copy(utf8, source, len(utf8), out, size)
    return made, size


@compiled
def _byte_at(utf8, place, characters, is_plain):
    """Where so many characters from ``place`` on end."""
    if is_plain:
        return place + characters
    while characters > 0:
        place += 1
        characters -= (utf8[place] & np.uint8(0xC0)) != np.uint8(0x80)
    return place


@compiled
def _copy(source, begin, end, out, size):
    part, place = source[begin:end], out[size : size + end - begin]  # counted from 0, so that many are copied at once
    for number in range(len(part)):
        place[number] = part[number]
    return size + end - begin
