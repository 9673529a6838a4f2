"""The few places of a text where an identifier can begin, found in one compiled pass over its bytes.

The expressions of ``finding.py`` decide what is an identifier. Tried at each digit and capital they take ten times as
long as all else that is done to a text, and nearly always for nothing. So this pass asks of a place what an expression
would need there: as many digits as a date has, a month behind them, a title before a capital. What it marks is more
than what is found, and nothing that would be found is left out; tests hold it against the expressions alone.

Names are marked as runs of text. What can be a name, two words that begin with capitals, is everywhere in a report, so
a run is marked only where a label, a title of kinship, a licence or a quotation mark stands beside one of its words. A
run begins where no name can go on: one found in a run is the one found in the whole text.

>>> text = b"Left breast 2 x 1.5 cm, CD20. Seen 3/12/2008 by Dr. Ada Byron. Patient: Ada Byron" + b"\\n" * 17
>>> marks, counts = np.zeros((10, 99), np.int64), np.zeros(10, np.int64)
>>> find_marks(np.frombuffer(text, np.uint8), marks, counts)
>>> {kind: text[marks[kind, 0] :][:8].decode() for kind in range(9) if counts[kind]} == {
...     NUMERIC: "3/12/200", TITLED: "Dr. Ada ", BESIDE: "Ada Byro", NAMES: " Ada Byr"}
True
"""

import numpy as np
from numba import njit

from pathveil.identifiers.bytes_at_once import between, bits_before, borrow, load, places_of, tally
from pathveil.identifiers.expressions import (
    AHEAD,
    BESIDE,
    BOX,
    DATED,
    EMAIL,
    LABELLED,
    LETTERED,
    NAMES,
    NUMERIC,
    TITLED,
)

_HEX = np.zeros(256, np.bool_)
_HEX[[*b"0123456789ABCDEFabcdef"]] = True
_LETTER = np.zeros(256, np.bool_)
_LETTER[65:91] = _LETTER[97:123] = True
_NAME = _LETTER.copy()  # within a word of a name; beyond ASCII it may be an apostrophe
_NAME[[*b"'-"]] = _NAME[128:] = True
_ROAD = _LETTER.copy()
_ROAD[[*b".'-"]] = True

SPACE, TAB, LINE, COMMA, POINT, HYPHEN, SLASH, COLON = (np.uint8(ord(sign)) for sign in " \t\n,.-/:")
HASH, AT, STAR, BAR, QUOTE, CLOSE = (np.uint8(ord(sign)) for sign in '#@*|")')
A, B, C, D, F, G, M, P, R, S = (np.uint8(ord(letter)) for letter in "ABCDFGMPRS")
O_ = np.uint8(ord("O"))

NAME_ENDS = NAMES + 1  # where runs of names end, beside where they begin

compiled = njit(nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
inlined = njit(nogil=True, forceinline=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)


def _table_of(words: str) -> np.ndarray:
    """A hash table of words, small letters, as ``_holds`` asks it."""
    table = np.zeros(256, np.uint64)
    for word in words.split():
        code = np.uint64(0)
        for letter in word.encode():
            code = np.uint64((int(code) * 31 + letter) & 0xFFFFFFFFFFFF)
        slot = int(code) % 256
        while table[slot]:
            slot = (slot + 1) % 256
        table[slot] = code
    return table


# The last word of what stands before a name: with a colon or asterisks behind it, and with a blank.
_LABELS = _table_of(
    "patient name physician pathologist surgeon consultant provider clinician requesting attending signed out by to"
)
_BESIDE = _table_of(
    "by to son daughter brother sister wife husband mother father kin contact per name label under of spouse cc"
)
_DONE = _table_of(
    "signed out dictated reviewed reported ordered requested submitted authorised authorized transcribed called sent "
    "faxed given telephoned communicated copy copies"
)  # before "by" and "to"
_CHART = _table_of("chart")  # before "of"
_MONTHS = _table_of("jan feb mar apr may jun jul aug sep oct nov dec")
_STREETS = _table_of("st av ro rd la ln dr bo bl co te hi hw pl sq cl cr pa ci wa")  # how they begin
# Whether a byte can end a word of ``_BESIDE``.
_LAST = np.zeros(256, np.bool_)
_LAST[[*b"yonredtlfcYONREDTLFC"]] = _LAST[128:] = True


def _endings() -> np.ndarray:
    """Which three bytes before a blank and a capital let more be asked, as bits: the last of a word in ``_BESIDE`` or
    of a title, or what may stand behind a label. Of each byte six bits are kept, so others are let in."""
    table = np.zeros((64, 64, 64), np.bool_)

    def note(*bytes_: str) -> None:
        table[np.ix_(*([(ord(byte) | 32) & 63 for byte in part] or range(64) for part in bytes_))] = True

    for ending in "son ter her ife and kin act per ame bel der use dr. mr. drs iss ms. rs. rof of.".split():
        note(*ending)
    for ending in "by to cc dr".split():
        note("", *ending)
    for ending in "nt me an st on er ng ed ut by to".split():  # of labels
        note(*ending, ":")
    note("", " \t)*:", ":")
    note("", ":* \t", " \t")
    note("", "", "*|")
    return np.packbits(table, bitorder="little").view(np.uint64)


_ENDINGS = _endings()
# What may follow the digits with which a date, a phone, a number or an address begins; behind a line's end, what may
# stand before it where a name follows.
_AFTER_DIGITS = np.zeros(256, np.bool_)
_AFTER_DIGITS[[*b" -/.:)ABCDEFGHIJKLMNOPQRSTUVWXYZsnrt"]] = True
_BEFORE_LINE = np.zeros(256, np.bool_)
_BEFORE_LINE[[*b': \t*"']] = True
# Months by the codes of their first three letters; what may follow the first letter of a licence.
_MONTH_AT = np.zeros(64, np.uint64)
for _month in "jan feb mar apr may jun jul aug sep oct nov dec".split():
    _code = int.from_bytes(_month.encode(), "little")
    assert _MONTH_AT[_code * 5 >> 15 & 63] == 0
    _MONTH_AT[_code * 5 >> 15 & 63] = _code


@inlined
def _may_matter(before, here):
    """Whether a capital can begin, or end, what is marked, by the eight bytes before it and the eight from it on."""
    month = (here | np.uint64(0x202020)) & np.uint64(0xFFFFFF)
    if _MONTH_AT[(month * np.uint64(5) >> np.uint64(15)) & np.uint64(63)] == month:
        return True
    last = before >> np.uint64(56)
    if last == SPACE:
        first, then = here & np.uint64(255), (here >> np.uint64(8)) & np.uint64(255)
        if first == M and (then == D or then == POINT or then == B):
            return True
        if first == D and (then == O_ or then == POINT):
            return True
        if (first == P and then == 104) or (first == F and (then == C or then == R)):
            return True
        if before & np.uint64(0x80808000000000) != np.uint64(0):  # the second to the fourth byte before the capital
            return True
        if before & np.uint64(0xDFDFDF00000000) == np.uint64(0x464F0000000000):  # a word "of", behind "chart"
            return before & np.uint64(0xDF000000) == np.uint64(0x54000000)
        three = before >> np.uint64(32) | np.uint64(0x202020)
        code = (three & np.uint64(63)) << np.uint64(12)
        code |= (three >> np.uint64(2)) & np.uint64(63 << 6)
        code |= (three >> np.uint64(16)) & np.uint64(63)
        return (_ENDINGS[code >> np.uint64(6)] >> (code & np.uint64(63))) & np.uint64(1) != np.uint64(0)
    if last == LINE:
        return _BEFORE_LINE[(before >> np.uint64(48)) & np.uint64(255)]
    return last == QUOTE or last == TAB or last == COLON or last == STAR


@inlined
def _holds(table, code):
    slot = code & np.uint64(255)
    while table[slot] != np.uint64(0):
        if table[slot] == code:
            return True
        slot = (slot + np.uint64(1)) & np.uint64(255)
    return False


@inlined
def _with(code, byte):
    """The code of a word with one letter more."""
    return (code * np.uint64(31) + np.uint64(byte | np.uint8(32))) & np.uint64(0xFFFFFFFFFFFF)


@inlined
def _is_digit(byte):
    return np.uint8(byte - np.uint8(48)) < np.uint8(10)


@inlined
def _is_capital(byte):
    return np.uint8(byte - np.uint8(65)) < np.uint8(26)


@compiled
def _digits(data, place):
    """How many digits stand here; twelve are as good as more."""
    count = 0
    while count < 12 and _is_digit(data[place + count]):
        count += 1
    return count


@compiled
def _is_month(data, place):
    code = _with(_with(_with(np.uint64(0), data[place]), data[place + 1]), data[place + 2])
    return _is_capital(data[place]) and _holds(_MONTHS, code)


@compiled
def _may_be_numeric(data, place, end):
    """Whether what begins with the digits from ``place`` to ``end`` can be a date, a time, a phone or the like."""
    size, sign, after = end - place, data[end], end + 1
    following = _digits(data, after)
    if following > 0:
        then = data[after + following]
        if sign == HYPHEN or sign == SLASH or sign == POINT:
            if size == 4 and following == 2 and then == sign:
                return True
            if size <= 2 and following <= 2 and then == sign and _digits(data, after + following + 1) >= 2:
                return True
        if sign == COLON and size <= 2 and following >= 2:
            return True
        if size == 3 and following >= 2 and (sign == HYPHEN or sign == POINT or sign == SPACE or sign == CLOSE):
            return following <= 3
        if size == 5 and following >= 6 and sign == SPACE:
            return True
    elif size == 3 and sign == CLOSE and data[after] == SPACE and _is_digit(data[after + 1]):
        return True
    if size == 2:
        letters = end + (sign == HYPHEN or sign == COLON)
        count = 0
        while count < 4 and _is_capital(data[letters + count]):
            count += 1
        if 1 <= count <= 3:
            letters += count + (data[letters + count] == HYPHEN)
            if _digits(data, letters) >= 3:
                return True
    return (size <= 2 and _is_before_month(data, end)) or (size <= 5 and _is_before_street(data, end))


@compiled
def _is_before_month(data, place):
    """Whether a month follows the number of a day: 3rd of March, 3-MAR."""
    if _LETTER[data[place]] and _LETTER[data[place + 1]]:
        place += 2
    if data[place] == SPACE and data[place + 1] == 111 and data[place + 2] == 102:
        place += 3
    first = place
    while place < first + 2 and (data[place] == SPACE or data[place] == POINT or data[place] == HYPHEN):
        place += 1
    return place > first and _is_month(data, place)


@compiled
def _is_before_street(data, place):
    """Whether words with capitals follow the number of a house, and one behind the first begins like a street."""
    for words in range(4):
        if data[place] != SPACE or not _is_capital(data[place + 1]):
            return False
        if words > 0:
            code = _with(_with(np.uint64(0), data[place + 1]), data[place + 2])
            if _holds(_STREETS, code):
                return True
        place += 2
        while _ROAD[data[place]]:
            place += 1
    return False


@compiled
def _capitals_before(data, place):
    """How many capitals, at most four, stand before the digits at ``place`` of what can be a specimen's number."""
    last = place - 1
    if data[last] == HYPHEN:
        last -= 1
    if not _is_capital(data[last]):
        return 0
    size = _digits(data, place)
    if size < 2:
        return 0
    if size < 5:
        sign = data[place + size]
        if (sign != HYPHEN and sign != COLON and sign != SLASH) or _digits(data, place + size + 1) < 3:
            return 0
    count = 1
    while count < 4 and _is_capital(data[last - count]):
        count += 1
    return count


@compiled
def _is_labelled(data, place):
    """Whether a number of four digits or more stands behind the colons that begin here."""
    while data[place] == SPACE or data[place] == TAB or data[place] == HASH or data[place] == COLON:
        place += 1
    letters = 0
    while letters < 3 and _LETTER[data[place]]:
        place += 1
        letters += 1
    place += data[place] == HYPHEN
    if not _is_digit(data[place]):
        return False
    count = 0
    while True:
        while _is_digit(data[place]) or _LETTER[data[place]]:
            count += _is_digit(data[place])
            place += 1
        if count >= 4:
            return True
        sign = data[place]
        if (sign != HYPHEN and sign != SLASH and sign != SPACE) or _digits(data, place + 1) < 2:
            return False
        # Letters behind these digits are not the number's, but a mark too many does no harm.
        place += 1


@compiled
def _title_before(data, place):
    """Where Dr., Mrs., Prof. or the like begins that ends with the blank before ``place``; else -1."""
    last = place - 2
    is_dotted = data[last] == POINT
    last -= is_dotted
    end, one, two = data[last], data[last - 1], data[last - 2]
    if end == 114:  # r
        if one == D or (one == M and is_dotted):
            return last - 1
    elif end == 115:  # s
        if one == M and is_dotted:
            return last - 1
        if one == 114 and (two == D or (two == M and is_dotted)):
            return last - 2
        if one == 115 and two == 105 and data[last - 3] == M and not is_dotted:  # Miss
            return last - 3
    elif end == R:
        if is_dotted and (one == D or one == M):
            return last - 1
    elif end == S:
        if is_dotted and (one == M or (one == R and two == M)):
            return last - 1 - (one == R)
    elif end == 102 and one == 111 and two == 114 and data[last - 3] == P:  # Prof
        return last - 3
    return -1


@compiled
def _box_before(data, place):
    """Where "P.O. Box" or "Apt." begins that ends with the blank before the digit at ``place``; else -1."""
    last = place - 2
    if data[last] == 120 and data[last - 1] == 111 and data[last - 2] == B and data[last - 3] == SPACE:  # Box
        last -= 4
        last -= data[last] == POINT
        if data[last] != O_:
            return -1
        last -= 1
        last -= data[last] == SPACE
        last -= data[last] == POINT
        return last if data[last] == P else -1
    last -= data[last] == POINT
    return last - 2 if data[last] == 116 and data[last - 1] == 112 and data[last - 2] == A else -1  # Apt


@compiled
def _is_date(data, place):
    """Whether a month and a digit behind it stand here."""
    if not _is_month(data, place):
        return False
    while _LETTER[data[place]]:
        place += 1
    place += data[place] == POINT
    return (data[place] == SPACE or data[place] == HYPHEN) and _is_digit(data[place + 1])


@compiled
def _is_licence(data, place):
    """Whether M.D., Ph.D. or the like stands here, as far as three letters tell."""
    first, then, third = data[place], data[place + 1], data[place + 2]
    if first == P:
        return then == 104 and (third == D or third == POINT)  # h
    if first == M or first == D:
        wanted = D if first == M else O_
        if then == wanted:
            return not _LETTER[third]
        if then == POINT:
            return third == wanted and not _LETTER[data[place + 3]]
        return first == M and then == B and third == B
    return first == F and ((then == C and third == A) or (then == R and third == C))


@compiled
def _has_word_before(data, place, table):
    """Whether the word that ends before ``place`` is in a table, and where it begins. One with a letter beyond ASCII
    may be: to an expression that ignores case, some are letters of ASCII."""
    first = place
    while _LETTER[data[first - 1]] and place - first < 16:
        first -= 1
    if data[first - 1] >= 128:
        return True, first
    code = np.uint64(0)
    for letter in range(first, place):
        code = _with(code, data[letter])
    return _holds(table, code), first


@compiled
def _is_beside_name(data, place):
    """Whether what stands before a capital, or before the line it begins, says that a name follows."""
    end = place - (data[place - 1] == LINE)
    at = end - 1
    while data[at] == SPACE or data[at] == TAB:
        at -= 1
    if data[at] == COLON or data[at] == STAR:
        while data[at] == STAR:
            at -= 1
        at -= data[at] == COLON
        while data[at] == SPACE or data[at] == TAB:
            at -= 1
        if data[at] == CLOSE:  # physician(s)
            at -= 3
        return _has_more(data, place) and _has_word_before(data, at + 1, _LABELS)[0]
    if at != end - 2 or data[end - 1] != SPACE or not _LAST[data[at]]:
        return False
    found, first = _has_word_before(data, at + 1, _BESIDE)
    if found and at - first == 1 and data[first - 1] < 128:
        last = data[at] | np.uint8(32)
        if last == 102:  # of
            return _has_more(data, place) and _has_word_before(data, first - 1, _CHART)[0]
        if last != 99:  # by, to
            return _has_more(data, place) and _has_word_before(data, first - 1, _DONE)[0]
    return found


@compiled
def _has_more(data, place):
    """Whether the word at ``place`` is followed by another with a capital, as all names are but those of kin."""
    while _NAME[data[place]]:
        place += 1
    place += data[place] == COMMA or data[place] == POINT
    return data[place] == SPACE and _is_capital(data[place + 1])


@compiled
def _is_quoted(data, place):
    """Whether a quotation mark or a bar with a blank stands before ``place``, or before the line it begins."""
    end = place - (data[place - 1] == LINE)
    return data[end - 1] == QUOTE or (data[end - 1] == SPACE and data[end - 2] == BAR)


@compiled
def _is_surname_first(data, place):
    """Whether a word, a comma and a capital stand here."""
    while _NAME[data[place]]:
        place += 1
    return data[place] == COMMA and data[place + 1] == SPACE and _is_capital(data[place + 2])


@compiled
def _is_uuid(data, place):
    """Whether the hyphen at ``place`` is the first of a UUID."""
    if data[place + 5] != HYPHEN or data[place + 10] != HYPHEN or data[place + 15] != HYPHEN:
        return False
    for other in range(1, 8):
        if not _HEX[data[place - other]]:
            return False
    return True


@compiled
def _parts_names(data, place):
    """Whether no name goes on past this byte, nor from a name to its licence. Beyond ASCII it may be an apostrophe."""
    byte, then = data[place], data[place + 1]
    if byte == SPACE:
        return not _is_capital(then)
    if byte == COMMA:
        return then != SPACE
    if byte == POINT:
        return not (then == SPACE or then == COMMA or _is_capital(then))
    return not _NAME[byte]


@compiled
def _note(marks, counts, kind, place):
    """Add a mark to those of its kind, which lie in order; one can come late, behind a few others."""
    last = counts[kind]
    while last > 0 and marks[kind, last - 1] > place:
        marks[kind, last] = marks[kind, last - 1]
        last -= 1
    marks[kind, last] = place
    counts[kind] += 1


@compiled
def _note_at_capital(data, place, marks, counts, run_end):
    """Note what begins at a capital that begins a word, and the run of names in which it stands; where the run ends."""
    before, is_name = data[place - 1], False
    if before == SPACE:
        title = _title_before(data, place)
        if title >= 0:
            _note(marks, counts, TITLED, title)
        is_name = _is_licence(data, place)
    if before == SPACE or before == LINE or before == TAB or before == COLON or before == STAR:
        if _is_beside_name(data, place):
            _note(marks, counts, BESIDE, place)
            is_name = True
    if _is_date(data, place):
        _note(marks, counts, DATED, place)
    if place >= run_end and (is_name or (_is_quoted(data, place) and _is_surname_first(data, place))):
        first, run_end = place, place
        while not _parts_names(data, first - 1):
            first -= 1
        while not _parts_names(data, run_end):
            run_end += 1
        run_end += 1
        marks[NAME_ENDS, counts[NAMES]] = run_end + 1  # at which an expression looks, and no name begins
        _note(marks, counts, NAMES, first)
    return run_end


@compiled
def _note_at_digits(data, place, marks, counts):
    """Note what begins with the digits that begin here, or with letters before them."""
    end = place + 1
    while _is_digit(data[end]):
        end += 1
    before = data[place - 1]
    if before == SPACE:
        box = _box_before(data, place)
        if box >= 0:
            _note(marks, counts, BOX, box)
    elif _is_capital(before) or before == HYPHEN:
        for first in range(place - (before == HYPHEN) - _capitals_before(data, place), place - (before == HYPHEN)):
            _note(marks, counts, LETTERED, first)
    sign, then = data[end], data[end + 1]
    if not _AFTER_DIGITS[sign]:
        return
    if sign == SPACE and ((97 <= then < 123 and then != 111) or (_is_digit(then) and end < place + 3)):  # "2 cm"
        return
    if sign == POINT and _is_digit(then):  # "1.5 x", which a page is full of
        while _is_digit(then):
            end += 1
            then = data[end + 1]
        if then != POINT and then != HYPHEN:
            return
        end = place + 1
        while _is_digit(data[end]):
            end += 1
    for first in range(max(place, end - 5), end):
        if _may_be_numeric(data, first, end):
            _note(marks, counts, NUMERIC, first)


@compiled
def _note_at_hyphen(data, place, marks, counts):
    """Note a UUID or a barcode whose first hyphen this is."""
    if data[place - 1] == A and data[place - 2] == G and data[place - 3] == C and _is_capital(data[place - 4]):
        _note(marks, counts, LETTERED, place - 4)
    elif data[place + 5] == HYPHEN and _is_uuid(data, place):
        if _is_capital(data[place - 8]):
            _note(marks, counts, LETTERED, place - 8)
        if _is_digit(data[place - 8]):
            _note(marks, counts, NUMERIC, place - 8)


@njit(cache=True, nogil=True)
def find_marks(data, marks, counts):
    """Fill in the marks of texts, by kind and in order, and how many there are of each. Before and behind each text a
    line ends, and ``AHEAD`` bytes more behind the last."""
    data, marks, counts = borrow(data), borrow(marks), borrow(counts)
    run_end, last = 0, np.uint64(LINE)
    for position in range(0, len(data) - AHEAD, 8):
        word = load(data, position)
        previous, last = (word << np.uint64(8)) | last, word >> np.uint64(56)
        digits_before = between(previous, 48, 57)
        letters_before = between(previous | np.uint64(0x2020202020202020), 97, 122)
        found = between(word, 65, 90) & ~(letters_before | digits_before)
        found |= between(word, 48, 57) & ~digits_before
        found |= places_of(word, COLON) | places_of(word, HASH) | places_of(word, AT) | places_of(word, HYPHEN)
        while found != np.uint64(0):
            place = position + np.int64(tally(bits_before(found), np.uint64(0)))
            found &= found - np.uint64(1)
            byte = data[place]
            if _is_capital(byte):
                if place < 8 or _may_matter(load(data, place - 8), load(data, place)):
                    run_end = _note_at_capital(data, place, marks, counts, run_end)
            elif _is_digit(byte):
                _note_at_digits(data, place, marks, counts)
            elif byte == HYPHEN:
                _note_at_hyphen(data, place, marks, counts)
            elif byte == AT:
                _note(marks, counts, EMAIL, place)
            elif _is_labelled(data, place):
                _note(marks, counts, LABELLED, place)
