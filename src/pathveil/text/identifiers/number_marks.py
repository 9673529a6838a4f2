"""Where a date, a time, a phone, an address, or the number of a specimen or a record can begin.

A filter looks at the eight bytes behind a run of digits, or behind a colon; what it lets through is looked at closely.
What is noted is more than what is found, and nothing that would be found is left out.

>>> from numba import njit
>>> ask = njit(lambda rest: may_be_numeric(load(rest, 0)))
>>> rests = [b"/12/2008", b".5 x 2 c", b"-30% of ", b"/12 node", b" March 2"]
>>> [rest for rest in rests if ask(np.frombuffer(rest, np.uint8))]
[b'/12/2008', b' March 2']
"""

import numpy as np

from pathveil.text.identifiers.byte_kinds import (
    CLOSE,
    COLON,
    HASH,
    HYPHEN,
    LETTER,
    LINE,
    O_,
    POINT,
    SLASH,
    SPACE,
    TAB,
    A,
    B,
    C,
    G,
    P,
    as_bits,
    compiled,
    holds,
    inlined,
    is_capital,
    is_digit,
    is_in,
    note,
    table_of,
)
from pathveil.text.identifiers.bytes_at_once import between, first_bit, load
from pathveil.text.identifiers.expressions import LETTERED, NUMERIC

_HEX = np.zeros(256, np.bool_)
_HEX[[*b"0123456789ABCDEFabcdef"]] = True
_ROAD = LETTER.copy()
_ROAD[[*b".'-"]] = True
_STREETS = table_of("st av ro rd la ln dr bo bl co te hi hw pl sq cl cr pa ci wa")  # how they begin
# What a byte is in and behind numbers, as bits: parts of a date or a phone; parts of a day and its month; the first
# letter of a month; a digit; the last letter of "of".
_PARTS, _BEFORE_MONTH, _MONTH, _DIGIT, _F = map(np.uint8, (1, 2, 4, 8, 16))
_SIGN = np.zeros(256, np.uint8)
_SIGN[[*b"-./"]] |= _PARTS
_SIGN[[*b" .-"]] |= _BEFORE_MONTH
_SIGN[[*b"ADFJMNOS"]] |= _MONTH
_SIGN[48:58] |= _DIGIT
_SIGN[ord("f")] |= _F
# Months by the codes of their first three letters.
_MONTH_AT = np.zeros(64, np.uint64)
for _month in "jan feb mar apr may jun jul aug sep oct nov dec".split():
    _code = int.from_bytes(_month.encode(), "little")
    assert _MONTH_AT[_code * 5 >> 15 & 63] == 0
    _MONTH_AT[_code * 5 >> 15 & 63] = _code


def _pairs() -> np.ndarray:
    """Which two bytes, the second no digit, may follow a number of which more is asked, as bits."""
    table = np.zeros((256, 256), np.bool_)  # the second, the first
    table[np.ix_([*b" .-"], [*b" .-"])] = True  # a month may follow
    table[np.ix_([*b"ADFJMNOS"], [*b" .-"])] = True
    table[np.ix_([*range(65, 91)], [*b" -:"])] = True  # a street, or the letters of a specimen's number
    table[ord("o"), ord(" ")] = table[ord(" "), ord(")")] = True
    for letters in ("st", "nd", "rd", "th"):
        table[ord(letters[1]), ord(letters[0])] = True
    return as_bits(table)


_PAIRS = _pairs()


@inlined
def is_month_code(here):
    """Whether the first three of eight bytes are those of a month, in letters of any size."""
    month = (here | np.uint64(0x202020)) & np.uint64(0xFFFFFF)
    return _MONTH_AT[(month * np.uint64(5) >> np.uint64(15)) & np.uint64(63)] == month


@compiled
def digits(data, place):
    """How many digits stand here; twelve are as good as more."""
    count = 0
    while count < 12 and is_digit(data[place + count]):
        count += 1
    return count


@inlined
def may_be_numeric(here):
    """Whether eight bytes behind a digit can go on with a date, a phone, an address or the like. A page is full of
    "1.5 x", "2 cm", "20-30%", "0/12" and "1. Breast", which cannot."""
    sign, then = here & np.uint64(255), (here >> np.uint64(8)) & np.uint64(255)
    if is_capital(sign):
        return True
    if is_digit(then):
        following = first_bit(~between(here >> np.uint64(8), 48, 57) & np.uint64(0x8080808080808080)) >> 3
        again = _SIGN[(here >> np.uint64(8 * min(following, 4) + 8)) & np.uint64(255)] & _PARTS
        if _SIGN[sign] & _PARTS != 0:
            return following <= 3 and again != 0
        if sign == COLON:
            return following >= 2
        return (sign == SPACE and (following > 3 or (following == 3 and again != 0))) or sign == CLOSE
    pair = here & np.uint64(0xFFFF)
    if not is_in(_PAIRS, pair):
        return False
    third = _SIGN[(here >> np.uint64(16)) & np.uint64(255)]
    if _SIGN[then] & _BEFORE_MONTH != 0:
        return third & (_MONTH | _DIGIT if sign == CLOSE else _MONTH) != 0
    return then != 111 or third & _F != 0


@compiled
def note_numeric(data, last, marks, counts):
    """Note where, in the run of digits that ends with ``last``, a date, a time, a phone or the like can begin."""
    end, most = last + 1, 1
    while most < 5 and is_digit(data[last - most]):
        most += 1
    sign, after = data[end], end + 1
    following = digits(data, after)
    is_again = following > 0 and sign == data[after + following] and sign != SPACE and sign != CLOSE
    is_street = sign == SPACE and is_before_street(data, end)
    is_day = is_street or (is_again and following <= 2 and digits(data, after + following + 1) >= 2)
    is_day = is_day or (sign == COLON and following >= 2) or _is_before_month(data, end)
    for size in range(most, 0, -1):
        fits = is_street
        if size <= 2:
            fits = is_day or (size == 2 and _is_accession(data, end))
        elif size == 3:
            if sign == CLOSE or sign == HYPHEN or sign == POINT or sign == SPACE:
                fits |= 2 <= following <= 3
            fits |= sign == CLOSE and data[after] == SPACE and is_digit(data[after + 1])
        else:
            fits |= (size == 4 and is_again and following == 2) or (size == 5 and sign == SPACE and following >= 6)
        if fits:
            note(marks, counts, NUMERIC, end - size)


@compiled
def _is_accession(data, place):
    """Whether one to three capitals, and three digits or more, follow the two of a specimen's year."""
    letters, count = place + (data[place] == HYPHEN or data[place] == COLON), 0
    while count < 4 and is_capital(data[letters + count]):
        count += 1
    letters += count + (data[letters + count] == HYPHEN)
    return 1 <= count <= 3 and digits(data, letters) >= 3


@compiled
def _is_before_month(data, place):
    """Whether a month follows the number of a day: 3rd of March, 3-MAR."""
    if LETTER[data[place]] and LETTER[data[place + 1]]:
        place += 2
    if data[place] == SPACE and data[place + 1] == 111 and data[place + 2] == 102:
        place += 3
    first = place
    while place < first + 2 and (data[place] == SPACE or data[place] == POINT or data[place] == HYPHEN):
        place += 1
    return place > first and is_capital(data[place]) and is_month_code(load(data, place))


@compiled
def is_before_street(data, place):
    """Whether words with capitals follow the number of a house, and one behind the first begins like a street."""
    for words in range(4):
        if data[place] != SPACE or not is_capital(data[place + 1]):
            return False
        if words > 0:
            if holds(_STREETS, (load(data, place + 1) | np.uint64(0x2020)) & np.uint64(0xFFFF)):
                return True
        place += 2
        while _ROAD[data[place]]:
            place += 1
    return False


@compiled
def capitals_before(data, place):
    """How many capitals, at most four, stand before the digits at ``place`` of what can be a specimen's number."""
    last = place - 1
    if data[last] == HYPHEN:
        last -= 1
    if not is_capital(data[last]):
        return 0
    size = digits(data, place)
    if size < 2:
        return 0
    if size < 5:
        sign = data[place + size]
        if (sign != HYPHEN and sign != COLON and sign != SLASH) or digits(data, place + size + 1) < 3:
            return 0
    count = 1
    while count < 4 and is_capital(data[last - count]):
        count += 1
    return count


@inlined
def may_be_labelled(here):
    """Whether a number can stand behind a colon by the eight bytes behind it: there is a digit, or there are blanks."""
    one, two = here & np.uint64(255), (here >> np.uint64(8)) & np.uint64(255)
    is_far = (one == SPACE or one == TAB or one == HASH or one == COLON) and not (two > 64 or two == LINE)
    return is_far or between(here, 48, 57) != np.uint64(0)


@compiled
def end_of_colons(data, place):
    """Where the colons, and the blanks among them, end that begin here."""
    while data[place] == SPACE or data[place] == TAB or data[place] == HASH or data[place] == COLON:
        place += 1
    return place


@compiled
def is_labelled(data, place):
    """Whether a number of four digits or more stands here, behind colons."""
    letters = 0
    while letters < 3 and LETTER[data[place]]:
        place += 1
        letters += 1
    place += data[place] == HYPHEN
    if not is_digit(data[place]):
        return False
    count = 0
    while True:
        while is_digit(data[place]) or LETTER[data[place]]:
            count += is_digit(data[place])
            place += 1
        if count >= 4:
            return True
        sign = data[place]
        if (sign != HYPHEN and sign != SLASH and sign != SPACE) or digits(data, place + 1) < 2:
            return False
        # Letters behind these digits are not the number's, but a mark too many does no harm.
        place += 1


@compiled
def box_before(data, place):
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
def is_date(data, place):
    """Whether a month and a digit behind it stand here."""
    if not is_month_code(load(data, place)):
        return False
    while LETTER[data[place]]:
        place += 1
    place += data[place] == POINT
    return (data[place] == SPACE or data[place] == HYPHEN) and is_digit(data[place + 1])


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
def note_at_hyphen(data, place, marks, counts):
    """Note a UUID or a barcode whose first hyphen this is."""
    if data[place - 1] == A and data[place - 2] == G and data[place - 3] == C and is_capital(data[place - 4]):
        note(marks, counts, LETTERED, place - 4)
    elif data[place + 5] == HYPHEN and _is_uuid(data, place):
        if is_capital(data[place - 8]):
            note(marks, counts, LETTERED, place - 8)
        if is_digit(data[place - 8]):
            note(marks, counts, NUMERIC, place - 8)
