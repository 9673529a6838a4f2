"""The few places of a text where an identifier can begin, found in compiled passes over its bytes.

The expressions of ``expressions.py`` decide what is an identifier. Tried at each digit and capital they take ten times
as long as all else that is done to a text, and nearly always for nothing. So a place is asked what an expression would
need there: as many digits as a date has, a month behind them, a title before a capital. What is marked is more than
what is found, and nothing that would be found is left out; tests hold it against the expressions alone.

Capitals, ends of numbers and colons are listed 64 bytes at a time; the lists are shortened by what stands in the eight
bytes beside each place, without a branch for a processor to guess; what is left is looked at closely.

Names are marked as runs of text. What can be a name, two words that begin with capitals, is everywhere in a report, so
a run is marked only where a label, a title of kinship, a licence or a quotation mark stands beside one of its words. A
run begins where no name can go on: one found in a run is the one found in the whole text.

>>> text = b"Left breast 2 x 1.5 cm, CD20. Seen 3/12/2008 by Dr. Ada Byron. Patient: Ada Byron" + b"\\n" * 73
>>> marks, counts = np.zeros((10, 99), np.int64), np.zeros(10, np.int64)
>>> find_marks(np.frombuffer(text, np.uint8), marks, counts)
>>> {kind: text[marks[kind, 0] :][:8].decode() for kind in range(9) if counts[kind]} == {
...     NUMERIC: "3/12/200", TITLED: "Dr. Ada ", BESIDE: "Ada Byro", NAMES: " Ada Byr"}
True
"""

import numpy as np

from pathveil.text.identifiers.byte_kinds import (
    AT,
    COLON,
    HASH,
    HYPHEN,
    POINT,
    SPACE,
    A,
    compiled,
    inlined,
    note,
)
from pathveil.text.identifiers.bytes_at_once import STEP, bits_between, borrow, first_bit, kept, listed, load
from pathveil.text.identifiers.expressions import (
    AHEAD,
    BESIDE,
    BOX,
    EMAIL,
    LABELLED,
    LETTERED,
    NAMES,
    NUMERIC,
    TITLED,
)
from pathveil.text.identifiers.name_marks import NAME_ENDS, may_matter, note_at_capital
from pathveil.text.identifiers.number_marks import (
    box_before,
    capitals_before,
    end_of_colons,
    is_labelled,
    may_be_labelled,
    may_be_numeric,
    note_at_hyphen,
    note_numeric,
)

__all__ = ["BESIDE", "NAMES", "NAME_ENDS", "NUMERIC", "TITLED", "find_marks"]

_ONE, _NONE = np.uint64(1), np.uint64(0)


@inlined
def _of(data, place, byte):
    """Which of the 64 bytes from a place on are this one."""
    return bits_between(data, place, byte, byte)


@inlined
def _behind(bits, before, many):
    """Bits moved on by so many places, those of the 64 bytes before moved in."""
    return (bits << np.uint64(many)) | (before >> np.uint64(64 - many))


@compiled
def _note_rare(data, position, found, marks, counts):
    """Note what begins at, or ends with, a box's number, a specimen's number, a hyphen or an @ among 64 bytes."""
    while found != _NONE:
        place = position + first_bit(found)
        found &= found - _ONE
        byte = data[place]
        if byte == AT:
            note(marks, counts, EMAIL, place)
        elif byte == HYPHEN:
            note_at_hyphen(data, place, marks, counts)
        elif data[place - 1] == SPACE:
            box = box_before(data, place)
            if box >= 0:
                note(marks, counts, BOX, box)
        else:
            letters = place - (data[place - 1] == HYPHEN)
            for begin in range(letters - capitals_before(data, place), letters):
                note(marks, counts, LETTERED, begin)


def find_marks(data: np.ndarray, marks: np.ndarray, counts: np.ndarray) -> None:
    """Fill in the marks of texts, by kind and in order, and how many there are of each. Before and behind each text a
    line ends, and ``AHEAD`` bytes more behind the last."""
    _find_marks(data, marks, counts, *np.empty((3, STEP + 8), np.int64))


@kept
def _find_marks(data, marks, counts, capital_at, digit_at, colon_at):
    data, marks, counts = borrow(data), borrow(marks), borrow(counts)
    capital_at, digit_at, colon_at = borrow(capital_at), borrow(digit_at), borrow(colon_at)
    run_end, size = 0, len(data) - AHEAD
    colons_end, is_number = 0, False
    last_word, last_capitals, last_digits, last_blanks, last_hyphens, last_ends = (
        _NONE,
        _NONE,
        _NONE,
        _NONE,
        _NONE,
        _NONE,
    )
    for start in range(0, size, STEP):
        capitals_, numbers, colons = 0, 0, 0
        for position in range(start, min(start + STEP, size), 64):
            capitals, digits = bits_between(data, position, 65, 90), bits_between(data, position, 48, 57)
            word = capitals | digits | bits_between(data, position, 97, 122)
            blanks, hyphens, more = (
                _of(data, position, SPACE),
                _of(data, position, HYPHEN),
                bits_between(data, position + 1, 48, 57),
            )
            ends = _of(data, position, 120) | _of(data, position, 116) | _of(data, position, POINT)  # Box, Apt.
            capitals_ = listed(capital_at, capitals_, position, capitals & ~_behind(word, last_word, 1))
            numbers = listed(digit_at, numbers, position, digits & ~more)
            colons = listed(colon_at, colons, position, _of(data, position, COLON) | _of(data, position, HASH))
            lettered = _behind(capitals, last_capitals, 1)
            lettered |= _behind(hyphens, last_hyphens, 1) & _behind(capitals, last_capitals, 2)
            boxed = _behind(blanks, last_blanks, 1) & _behind(ends, last_ends, 2)
            rare = digits & ~_behind(digits, last_digits, 1) & (boxed | (lettered & more))
            rare |= hyphens & (_of(data, position + 5, HYPHEN) | _behind(_of(data, position, A), last_capitals, 1))
            rare |= _of(data, position, AT)
            if rare != _NONE:
                _note_rare(data, position, rare, marks, counts)
            last_word, last_capitals, last_digits, last_blanks = word, capitals, digits, blanks
            last_hyphens, last_ends = hyphens, ends
        found = 0
        for number in range(numbers):
            place = digit_at[number]
            digit_at[found] = place
            found += may_be_numeric(load(data, place + 1))
        for number in range(found):
            note_numeric(data, digit_at[number], marks, counts)
        found = 0
        for number in range(colons):
            place = colon_at[number]
            colon_at[found] = place
            found += may_be_labelled(load(data, place + 1))
        for number in range(found):
            place = colon_at[number]
            if place >= colons_end:  # else what stands behind the colons is known from the first of them
                colons_end = end_of_colons(data, place)
                is_number = is_labelled(data, colons_end)
            if is_number:
                note(marks, counts, LABELLED, place)
        found = 0
        for number in range(capitals_):
            place = capital_at[number]
            capital_at[found] = place
            found += may_matter(load(data, max(place - 8, 0)), load(data, place)) | (place < 8)
        for number in range(found):
            run_end = note_at_capital(data, capital_at[number], marks, counts, run_end)
