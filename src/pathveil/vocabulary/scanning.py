"""The rules of ``text.tokenizer``, compiled, for chunks of plain ASCII: nearly all of those that are no plain word.

``token_at`` tries the rules in their order at one place of a chunk, as the expression in ``text.tokenizer`` does; that
expression is the reference, and tests hold the two against each other. Chunks with other characters, which may become
several, are left to it (``is_ascii``).

>>> import numpy as np
>>> def scan(chunk):
...     data, place, found = np.frombuffer(chunk, np.uint8), 0, []
...     while place < len(data):
...         start, place, kind = place, *token_at(data, 0, len(data), place)
...         found += [(chunk[start:place].decode(), kind)] if kind >= 0 else []
...     return found
>>> scan(b"1.5x20cm,er/pr-(3+4),101")
[('1.5', 1), ('x', 0), ('20', 0), ('cm', 0), ('er', 0), ('pr', 0), ('3+4', 0), ('101', 2)]
"""

import numpy as np

from pathveil.text.identifiers.bytes_at_once import kept
from pathveil.text.tokenizer import SEPARATORS

NOTHING, ITSELF, DECIMAL, LARGE = -1, 0, 1, 2  # what a token is: none, the word it spells, or a word for numbers

# Kinds of bytes, each a bit. (As NumPy's: numba compiles a function anew for each plain integer it is called with.)
_DIGIT, _LETTER, _DASH, _QUOTE, _SKIPPED = map(np.uint8, (1, 2, 4, 8, 16))
_KIND = np.zeros(256, np.uint8)
_KIND[48:58] = _DIGIT
_KIND[97:123] = _LETTER
_KIND[[ord("-"), ord("/"), ord("+")]] = _DASH
_KIND[[ord("'"), ord("-")]] |= _QUOTE
_KIND[[byte for byte in range(33, 127) if not chr(byte).isalnum() and chr(byte) not in "_.<>+%'"]] |= _SKIPPED
_WORD = _DIGIT | _LETTER

_DOT, _COMMA, _SLASH, _PERCENT, _PLUS, _EQUALS = (ord(sign) for sign in ".,/%+=")
_AND, _APOSTROPHE, _BACKQUOTE, _BELOW, _ABOVE = (ord(sign) for sign in "&'`<>")
_A, _C, _F, _G, _H, _K, _L, _M, _P, _S, _U, _X, _Z = (ord(letter) for letter in "acfghklmpsuxz")
_ZERO, _ONE, _EIGHT, _NINE = (ord(digit) for digit in "0189")
LINE = 10  # the byte that parts chunks
HIDDEN = 127  # what stands for a hidden identifier; no character of a plain text
SIGN = 128  # what stands for a sign beyond ASCII
_KIND[[HIDDEN, SIGN]] = _SKIPPED
# What a byte becomes: capitals small letters, whatever parts chunks a line end.
_FOLD = np.arange(256, dtype=np.uint8)
_FOLD[65:91] += 32
_FOLD[[9, 10, 11, 12, 13, 28, 29, 30, 31, 32, *SEPARATORS.encode()]] = LINE
FOLDED = _FOLD.tobytes()


@kept
def fold(text, folded):
    """The bytes as ``FOLDED`` has them, by comparisons, of which a processor makes many at once."""
    for place in range(len(text)):
        byte = text[place]
        if (
            np.uint8(byte - np.uint8(9)) < 5
            or np.uint8(byte - np.uint8(28)) < 9
            or np.uint8(byte - np.uint8(40)) < 3
            or np.uint8(byte - np.uint8(58)) < 2
            or np.uint8(byte - np.uint8(63)) < 2
            or np.uint8(byte - np.uint8(91)) < 5
            or np.uint8(byte - np.uint8(123)) < 4
        ):
            folded[place] = LINE
        elif np.uint8(byte - np.uint8(65)) < 26:
            folded[place] = byte | np.uint8(32)
        else:
            folded[place] = byte


@kept
def is_ascii(data, begin, end):
    """Whether every character stands for itself: no accent, no control character, no quote to be made plain."""
    for place in range(begin, end):
        byte = data[place]
        if byte < 33 or byte > 126 or byte == _BACKQUOTE:
            return False
    return True


@kept
def _at(data, begin, end, place):
    return data[place] if begin <= place < end else np.uint8(LINE)


@kept
def _is(data, begin, end, place, kind):
    return begin <= place < end and _KIND[data[place]] & kind != 0


@kept
def _run(data, end, place, kind):
    """Where the run of bytes of a kind that begins here ends."""
    while place < end and _KIND[data[place]] & kind != 0:
        place += 1
    return place


@kept
def _is_small(data, begin, end):
    """Whether digits are an integer up to 100, written as one."""
    if end - begin == 3:
        return data[begin] == _ONE and data[begin + 1] == _ZERO and data[begin + 2] == _ZERO
    return 1 <= end - begin <= 2


@kept
def _ends_integer(data, begin, end, place):
    """Whether an integer may end here: no word goes on, or a unit or the x of a measurement follows."""
    if not _is(data, begin, end, place, _WORD):
        return True
    one, two = data[place], _at(data, begin, end, place + 1)
    if one == _X:
        after = place + 2 if two == _DOT else place + 1
        return _is(data, begin, end, after, _DIGIT)
    length = 0
    if two == _M and (one == _C or one == _M or one == _U or one == _G):
        length = 2
    elif (one == _M and two == _L) or (one == _C and two == _C) or (two == _G and (one == _M or one == _K)):
        length = 2
    elif one == _G:
        length = 1
    elif one == _H and two == _P and _at(data, begin, end, place + 2) == _F:
        length = 3
    return length > 0 and not _is(data, begin, end, place + length, _WORD)


@kept
def _number(data, begin, end, place):
    """What begins with a digit here: where it ends and what it is; an end of 0 where no rule for numbers fits."""
    digits = _run(data, end, place, _DIGIT)
    next_, size = _at(data, begin, end, digits), digits - place
    if size == 4 and next_ == _SLASH and (data[place] == _EIGHT or data[place] == _NINE):  # morphology
        stop = _run(data, end, digits + 1, _DIGIT)
        fits = 1 <= stop - digits - 1 <= 2 and _at(data, begin, end, stop) != _SLASH
        if fits and not _is(data, begin, end, stop, _WORD):
            return stop, ITSELF
    if size <= 3 and next_ == _COMMA:  # thousands
        stop = digits
        while (
            _at(data, begin, end, stop) == _COMMA
            and _is(data, begin, end, stop + 1, _DIGIT)
            and _is(data, begin, end, stop + 2, _DIGIT)
            and _is(data, begin, end, stop + 3, _DIGIT)
        ):
            stop += 4
        if stop > digits and not _is(data, begin, end, stop, _DIGIT):
            return stop, LARGE
    if next_ == _DOT and _is(data, begin, end, digits + 1, _DIGIT):  # decimal
        return _run(data, end, digits + 1, _DIGIT), DECIMAL
    small = _is_small(data, place, digits)
    if small and _is(data, begin, end, digits, _DASH):  # pair
        before = _at(data, begin, end, place - 1)
        glued = (before == _DOT or _KIND[before] & _DASH != 0) and _is(data, begin, end, place - 2, _DIGIT)
        stop = _run(data, end, digits + 1, _DIGIT)
        after = _at(data, begin, end, stop)
        goes_on = (after == _DOT or _KIND[after] & _DASH != 0) and _is(data, begin, end, stop + 1, _DIGIT)
        if not glued and _is_small(data, digits + 1, stop) and not goes_on:
            if after == _PERCENT:
                return stop + 1, ITSELF
            if _KIND[after] & _WORD == 0:
                return stop, ITSELF
    if small and (next_ == _PERCENT or next_ == _PLUS):
        return digits + 1, ITSELF
    if _ends_integer(data, begin, end, digits):
        return digits, ITSELF if small else LARGE
    return 0, NOTHING


@kept
def _lettered(data, begin, end, place):
    """What begins with a letter here and is no word, in the same way."""
    letters = _run(data, end, place, _LETTER)
    size, byte = letters - place, data[place]
    following = _at(data, begin, end, letters)
    if size >= 2 and _KIND[following] & (_WORD | _QUOTE) == 0:  # a word that no other rule wants
        return letters, ITSELF
    if byte == _X:  # times
        one, two = _at(data, begin, end, place + 1), _at(data, begin, end, place + 2)
        if _is(data, begin, end, place - 1, _DIGIT) and (
            _KIND[one] & _DIGIT != 0 or (one == _DOT and _KIND[two] & _DIGIT != 0)
        ):
            return place + 1, ITSELF
        if not _is(data, begin, end, place - 1, _WORD):
            digits = _run(data, end, place + 1, _DIGIT)
            if _at(data, begin, end, digits) == _DOT and _is(data, begin, end, digits + 1, _DIGIT):
                return place + 1, ITSELF
    if size <= 3 and _KIND[following] & _DIGIT != 0:  # code
        digits = _run(data, end, letters, _DIGIT)
        if digits - letters <= 2 and _at(data, begin, end, digits) == _DOT:
            stop = _run(data, end, digits + 1, _DIGIT)
            goes_on = _at(data, begin, end, stop) == _DOT and _is(data, begin, end, stop + 1, _DIGIT)
            if 1 <= stop - digits - 1 <= 2 and not goes_on and not _is(data, begin, end, stop, _WORD):
                return stop, ITSELF
    if byte == _M and size == 1 and _KIND[following] & _DIGIT != 0:  # morphology
        stop, _ = _number(data, begin, end, letters)
        first = data[letters] == _EIGHT or data[letters] == _NINE
        if first and stop > letters + 5 and data[letters + 4] == _SLASH:
            return stop, ITSELF
    if _is(data, begin, end, place - 1, _WORD) or size != 1:
        return 0, NOTHING
    after = _at(data, begin, end, place + 2)
    if (following == _SLASH or following == _AND) and _KIND[after] & _LETTER != 0:  # letters
        if not _is(data, begin, end, place + 3, _WORD):
            return place + 3, ITSELF
    if following == _DOT:
        stop = place + 1
        while _at(data, begin, end, stop) == _DOT and _is(data, begin, end, stop + 1, _LETTER):  # initials
            stop += 2
        if stop > place + 1 and not _is(data, begin, end, stop, _WORD):
            return stop, ITSELF
        if after != _DOT:  # specimen
            return place + 2, ITSELF
    return 0, NOTHING


@kept
def _word(data, begin, end, place):
    """Where the word of letters and digits that begins here ends, hyphens and apostrophes inside it included."""
    stop = _run(data, end, place, _WORD)
    while _is(data, begin, end, stop, _QUOTE) and _is(data, begin, end, stop + 1, _WORD):
        if data[stop + 1] == _S and not _is(data, begin, end, stop + 2, _WORD):
            break
        if _run(data, min(end, stop + 5), stop + 1, _DIGIT) == stop + 5:
            break
        stop = _run(data, end, stop + 1, _WORD)
    return stop


@kept
def token_at(data, begin, end, place):
    """What the rules find at a place of the chunk from ``begin`` to ``end``: where it ends, and what it is."""
    byte = data[place]
    kind = _KIND[byte]
    if kind & _WORD != 0:
        if kind & _DIGIT != 0:
            stop, found = _number(data, begin, end, place)
        else:
            stop, found = _lettered(data, begin, end, place)
        if stop > 0:
            return stop, found
        return _word(data, begin, end, place), ITSELF
    one = _at(data, begin, end, place + 1)
    if byte == _DOT and _KIND[one] & _DIGIT != 0:  # decimal without a digit before the point
        before = _at(data, begin, end, place - 1)
        if before == _X or _KIND[before] & _WORD == 0:
            return _run(data, end, place + 1, _DIGIT), DECIMAL
    if byte == _BELOW or byte == _ABOVE:
        after = place + 2 if one == _EQUALS else place + 1
        after = after + 1 if _at(data, begin, end, after) == _DOT else after
        if _is(data, begin, end, after, _DIGIT):
            return place + 1, ITSELF
    if byte == _PLUS:
        before = _at(data, begin, end, place - 1)
        if _KIND[before] & _DASH == 0 and before != _EQUALS and _KIND[one] & _DASH == 0 and one != _EQUALS:
            return place + 1, ITSELF
    if byte == _PERCENT:
        return place + 1, ITSELF
    if kind & _SKIPPED != 0:
        return _run(data, end, place, _SKIPPED), NOTHING
    if byte == _APOSTROPHE and one == _S and not _is(data, begin, end, place + 2, _WORD):
        return place + 2, NOTHING
    return place + 1, NOTHING


@kept
def places_in(data, most):
    """Where the first ``most`` tokens of a folded text begin and end, (tokens,) int64 each; a hidden identifier is a
    token of its own, unless punctuation runs into it, as for the expression."""
    begins, ends = np.empty(min(most, len(data)), np.int64), np.empty(min(most, len(data)), np.int64)
    found, place = 0, 0
    while place < len(data) and found < most:
        begin = place
        while place < len(data) and data[place] != LINE:
            place += 1
        stop, at = place, begin
        while at < stop and found < most:
            start = at
            if data[at] == HIDDEN:
                at, kind = at + 1, ITSELF
            else:
                at, kind = token_at(data, begin, stop, at)
            if kind != NOTHING:
                begins[found], ends[found] = start, at
                found += 1
        place += 1
    return begins[:found], ends[:found]
