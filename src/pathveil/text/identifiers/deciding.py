"""Which of the marked places of a text are identifiers, decided by the expressions and by what stands around.

Compiled, text by text, over one byte for each character (``matcher.CLASSES``). What is found here is what the
expressions find that ``re`` tries at every place; tests hold the two against each other.
"""

import numpy as np
from numba import njit

from pathveil.text.identifiers import expressions as form
from pathveil.text.identifiers import first_version
from pathveil.text.identifiers.byte_kinds import COMMA, LINE
from pathveil.text.identifiers.bytes_at_once import (
    STEP,
    bits_between,
    borrow,
    first_bits,
    kept,
    listed,
    load,
    load_16,
    lowest,
)
from pathveil.text.identifiers.matcher import CLASSES, FLAGGED, FORM, FORMS, PART, START, match
from pathveil.text.identifiers.name_marks import NAME_ENDS
from pathveil.text.identifiers.word_lists import TERMS, WORDS

DATE, TIME, PHONE, ADDRESS, NUMBER, EMAIL, NAME = range(7)  # as ``finding.KINDS`` has them

# The first ones as their marks are, and those that are tried beside them.
EXPRESSIONS = {1: first_version.EXPRESSIONS, 2: form.EXPRESSIONS}  # by version
(
    NUMBER_LABEL,
    CANDIDATE,
    KIN,
    BEFORE_NAME,
    LICENCE,
    CLOCK,
    MARKED,
    NUMBERED,
    RECORDED,
    HEADED,
    GIVEN,
    INITIALS,
    TIME_LABEL,
    STAIN,
) = map(np.int64, range(form.TITLED + 1, len(form.EXPRESSIONS)))
ISO, DAY, DOTS, NAMED, TIMED, PHONED = (FORMS.index(name) for name in "iso day dots named time phone".split())
ADDRESSED = FORMS.index("address")
AGAIN = form.NAMES  # of the lists of spans the last, names found again; that of names is where marks beside them are

_ALNUM = np.array([CLASSES.get(byte, chr(byte)).isalnum() and byte in {*range(128), *CLASSES} for byte in range(256)])
# The version since which a character can be within a name.
_WITHIN = np.full(256, 255, np.uint8)
for _byte in (*range(128), *CLASSES):
    if CLASSES.get(_byte, chr(_byte)) in form.WITHIN_NAME:
        _WITHIN[_byte] = 1
    elif CLASSES.get(_byte, chr(_byte)) in form.LATIN_LETTERS:
        _WITHIN[_byte] = 2
_MAILBOX = _ALNUM.copy()
_MAILBOX[[*b"_.+-"]] = True
BUCKETS = 256  # of names' parts, by how they begin
_MIX, _SMALL = 0x9E3779B97F4A7C15, np.uint64(0x2020202020202020)


def _codes_of(words: frozenset[str]) -> np.ndarray:
    """A hash table of words for ``_holds``."""
    table = np.zeros(2048, np.uint64)
    for word in words:
        one, two = (int.from_bytes(word.encode()[part : part + 8], "little") for part in (0, 8))
        code = (one * _MIX + two + len(word)) * _MIX & 0xFFFFFFFFFFFFFFFF
        for letter in word.encode()[16:]:
            code = (code ^ letter) * _MIX & 0xFFFFFFFFFFFFFFFF
        slot = code >> 48 & len(table) - 1
        while table[slot]:
            slot = (slot + 1) % len(table)
        table[slot] = code
    return table


_ORDINARY, _MORE_ORDINARY = _codes_of(form.ORDINARY), _codes_of(form.MORE_ORDINARY)
_WORDS, _TERMS = _codes_of(WORDS), _codes_of(TERMS)

compiled = njit(nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)


@compiled
def _holds(table, data, begin, end):
    """Whether a table of words, small letters, has the one from ``begin`` to ``end``."""
    size = end - begin
    one, two = load_16(data, begin, min(size, 16))
    one |= _SMALL & first_bits(size)  # letters are made small, an apostrophe and a hyphen stay
    two |= _SMALL & first_bits(size - 8)
    code = (one * np.uint64(_MIX) + two + np.uint64(size)) * np.uint64(_MIX)
    for place in range(begin + 16, end):
        code = (code ^ np.uint64(data[place] | np.uint8(32))) * np.uint64(_MIX)
    slot = (code >> np.uint64(48)) & np.uint64(len(table) - 1)
    while table[slot] != np.uint64(0):
        if table[slot] == code:
            return True
        slot = (slot + np.uint64(1)) & np.uint64(len(table) - 1)
    return False


@compiled
def _value(data, place):
    """The number that one or two digits write, and where they end."""
    value = 0
    first = place
    while place < first + 2 and 48 <= data[place] < 58:
        value = 10 * value + data[place] - 48
        place += 1
    return value, place


@compiled
def _kind_of_numeric(data, machine, start, begin, version):
    """What a match that begins with a digit is; -1 where its numbers say that it is nothing."""
    found, is_sure = machine[machine[0] + FORM], machine[machine[0] + FLAGGED] != 0
    if found == ISO:
        century, month, day = _value(data, start)[0], _value(data, start + 5)[0], _value(data, start + 8)[0]
        return DATE if 19 <= century <= 20 and 0 < month <= 12 and 0 < day <= 31 else -1
    one, place = _value(data, start)
    other = _value(data, place + 1)[0]
    if found == DAY or found == DOTS:
        return DATE if 0 < min(one, other) <= 12 and max(one, other) <= 31 else -1
    if found == TIMED:  # 2:00 and 10:30 may be places on a breast, and 1:40 dilutes an antibody
        is_sure |= one > 12 or (version > 1 and data[start] == 48 and one > 0)  # 09:28
        if is_sure or one < 2 or other == 0 or other == 30:
            return TIME if is_sure and one < 24 else -1
        low = max(begin, start - form.BEFORE)
        is_told = version == 1 or match(data, machine, TIME_LABEL, low, start, start) >= 0
        return TIME if is_told else -1
    if found == PHONED:
        is_phone = data[start] == 48 or 48 <= data[start + 5] < 58 or not 48 <= data[start + 4] < 58
        return PHONE if is_phone else -1
    return DATE if found == NAMED else ADDRESS if found == ADDRESSED else NUMBER


@compiled
def _read(data, machine, kind, start, stop, begin, version):
    """What the match of a marked expression from ``start`` to ``stop`` tells: where it begins and what it is, or -1."""
    before, part = data[start - 1], np.int64(machine[machine[0] + PART])
    if kind == form.NUMERIC:
        is_sign = before == 46 or before == 47 or before == 58 or before == 45  # . / : -
        if _ALNUM[before] or (is_sign and _ALNUM[data[start - 2]]):
            return start, -1
        found = _kind_of_numeric(data, machine, start, begin, version)
        return start - (found == PHONE and before == 40), found  # the bracket before the area code is a phone's too
    if kind == form.BOX:
        return start, ADDRESS
    if kind == form.LABELLED:
        digits = 0
        for place in range(part, stop):
            digits += 48 <= data[place] < 58
        return part, NUMBER if digits >= 4 else -1
    if kind == form.EMAIL:
        low = max(begin, start - 64)
        last = start - (start > low and before == LINE)
        first = last
        while first > low and _MAILBOX[data[first - 1]]:
            first -= 1
        return first, EMAIL if first < last else -1
    if _ALNUM[before]:
        return start, -1
    if kind == form.TITLED:
        return part, NAME
    if kind == form.LETTERED:
        is_stain = version > 1 and match(data, machine, STAIN, start, start + 1, stop) >= 0
        return start, -1 if is_stain else NUMBER
    return start, DATE


@kept
def find_spans(data, ends, machine, marks, counts, spans, lists, version):
    """Fill in what is found where expressions are marked: begin, end and kind, one list an expression, in order; and
    where each list begins and ends."""
    data, machine = borrow(data), borrow(machine)
    made = np.int64(0)
    for kind in range(form.TITLED + 1):
        text, begin, last = 0, np.int64(0), np.int64(0)
        lists[kind, 0] = made
        for number in range(counts[kind]):
            start = marks[kind, number]
            if start < last:  # as a search through the whole text: what was matched is not looked at again
                continue
            while ends[text] <= start:
                begin, text = ends[text], text + 1
            end = ends[text] - 1
            stop = match(data, machine, kind, start, start + 1, end)
            if stop < 0:
                continue
            last = stop
            first, found = _read(data, machine, kind, start, stop, begin, version)
            if found < 0:
                continue
            if kind == form.LABELLED:
                if match(data, machine, NUMBER_LABEL, max(begin, start - form.BEFORE), start, start) < 0:
                    continue
            elif found == TIME and match(data, machine, CLOCK, stop, stop + 1, end) >= 0:
                continue
            spans[made, 0], spans[made, 1], spans[made, 2] = first, stop, found
            made += 1
        lists[kind, 1] = made


@compiled
def _is_told_behind(data, machine, begin, start, stop, end):
    """Whether what stands behind what can be a name says that it is one: a house, a record, a pathologist."""
    if match(data, machine, RECORDED, stop, stop + 1, end) >= 0:
        return True
    if data[start - 1] == LINE and match(data, machine, HEADED, stop, stop + 1, end) >= 0:
        return True
    if match(data, machine, NUMBERED, stop, stop + 1, end) < 0:
        return False
    return match(data, machine, MARKED, max(begin, start - form.BEFORE), start, start) >= 0


@kept
def find_names(data, ends, machine, marks, counts, spans, lists, version):
    """Add, as a list of its own, what can be a name in the marked runs and is one by what stands beside it."""
    data, machine = borrow(data), borrow(machine)
    made, text, begin, beside = lists[form.TITLED, 1], 0, np.int64(0), 0
    lists[form.BESIDE, 0] = made
    for run in range(counts[form.NAMES]):
        place = marks[form.NAMES, run]
        while ends[text] <= place:
            begin, text = ends[text], text + 1
        end = ends[text] - 1
        stop = min(marks[NAME_ENDS, run], end)
        while place < stop:
            place = match(data, machine, CANDIDATE, place, stop, stop)
            if place < 0:
                break
            start = np.int64(machine[machine[0] + START])
            if _ALNUM[data[start - 1]]:
                continue
            kin = match(data, machine, KIN, start, start + 1, place)
            is_name = kin >= 0
            if not is_name:
                while beside < counts[form.BESIDE] and marks[form.BESIDE, beside] < start:
                    beside += 1
                if beside < counts[form.BESIDE] and marks[form.BESIDE, beside] == start:
                    low = max(begin, start - form.BEFORE)
                    is_name = match(data, machine, BEFORE_NAME, low, start, start) >= 0
            if not is_name:
                is_name = match(data, machine, LICENCE, place, place + 1, end) >= 0
            if not is_name and version > 1:
                is_name = _is_told_behind(data, machine, begin, start, place, end)
            if not is_name:  # "Smith, Ada" in quotation marks, or behind a bar
                last = start - 1 - (start > begin and data[start - 1] == LINE)
                is_label = last >= begin and (data[last] == 34 or (data[last] == 32 and data[last - 1] == 124))
                if is_label:
                    for other in range(start, place):
                        is_name |= data[other] == COMMA
            if is_name:
                spans[made, 0], spans[made, 1], spans[made, 2] = max(start, kin), place, NAME
                made += 1
    lists[form.BESIDE, 1] = made


@compiled
def _is_name(data, begin, end, version):
    """Whether what can be a name has no ordinary word."""
    place = begin
    while place < end:
        first = place
        while place < end and _WITHIN[data[place]] <= version:
            place += 1
        if place > first and (
            _holds(_ORDINARY, data, first, place) or (version > 1 and _holds(_MORE_ORDINARY, data, first, place))
        ):
            return False
        place += 1
    return True


@compiled
def _add_parts(data, begin, end, parts, made, heads, is_titled, version):
    """Add the parts of a name by which it is known elsewhere: words of four letters or more from their capital on."""
    place = begin
    while place < end:
        if not 65 <= data[place] < 91:
            place += 1
            continue
        stop = place + 1
        while stop < end and _WITHIN[data[stop]] <= version:
            stop += 1
        if stop - place < 4:
            place += 1
            continue
        if not _holds(_WORDS, data, place, stop):
            bucket = _bucket(load(data, place))
            number = _known(data, place, stop - place, parts, heads[bucket])
            if number < 0:
                parts[made, 0], parts[made, 1], parts[made, 2] = place, stop - place, heads[bucket]
                parts[made, 3] = 0
                heads[bucket] = number = made
                made += 1
            parts[number, 3] |= is_titled
        place = stop
    return made


@njit(nogil=True, forceinline=True)
def _bucket(word):
    return ((word & np.uint64(0xFFFFFFFF)) * np.uint64(0x9E3779B1) >> np.uint64(20)) & np.uint64(BUCKETS - 1)


@compiled
def _known(data, place, size, parts, number):
    """Which of the parts of names from ``number`` on is the word of so many characters at ``place``; -1: none."""
    while number >= 0:
        if parts[number, 1] == size:
            first, same = parts[number, 0], 0
            while same < size and data[first + same] == data[place + same]:
                same += 1
            if same == size:
                return number
        number = parts[number, 2]
    return np.int64(-1)


@compiled
def _given_before(data, machine, begin, place, is_titled):
    """Where the name begins of which a part stands here: at initials; if a title told it, at a word that is none of
    reports."""
    if data[place - 1] != 32 or place - 1 <= begin:
        return place
    last = place - 2 - (data[place - 2] == 46)
    first = last
    while first > begin and _WITHIN[data[first - 1]] <= 2:
        first -= 1
    is_initial = first == last
    if not 65 <= data[first] < 91 or not (is_initial or (is_titled and last == place - 2)):
        return place
    low, blanks = place - 1, 0  # two words may be given
    while low > max(begin, place - form.BEFORE) and blanks < 2:
        low -= 1
        blanks += data[low] == 32
        if not (_WITHIN[data[low]] <= 2 or data[low] == 46 or data[low] == 32):
            break
    if is_titled and match(data, machine, GIVEN, low, place, place) >= 0:
        start, stop = np.int64(machine[machine[0] + START]), place
        while data[stop - 1] < 65:
            stop -= 1
        if _is_name(data, start, stop, 2) and not _holds(_TERMS, data, start, stop):
            return start
    if is_initial and match(data, machine, INITIALS, low, place, place) >= 0:
        return np.int64(machine[machine[0] + START])
    return place


@compiled
def _look_again(data, machine, begin, end, parts, heads, spans, made, places, version):
    """Add where parts of names are words elsewhere, and what is given of the name before them."""
    last, is_capital = made, np.uint64(0)  # of the 64 bytes before the last one
    for step in range(begin, end, STEP):
        count, found = 0, 0
        for position in range(step, min(step + STEP, end), 64):
            capitals = bits_between(data, position, 65, 90)
            first = capitals & ~((capitals << np.uint64(1)) | is_capital) & lowest(end - position)
            is_capital = capitals >> np.uint64(63)
            count = listed(places, count, position, first)
        for number in range(count):
            place = places[number]
            places[found] = place
            found += heads[_bucket(load(data, place))] >= 0
        for row in range(found):
            place = places[row]
            number = heads[_bucket(load(data, place))]
            stop, before = place + 1, place - 1
            while _WITHIN[data[stop]] <= version:
                stop += 1
            while _WITHIN[data[before]] <= version and not 65 <= data[before] < 91:
                before -= 1
            if _WITHIN[data[before]] <= version:
                continue
            number = _known(data, place, stop - place, parts, number)
            if number >= 0:
                if version > 1:
                    place = _given_before(data, machine, begin, place, parts[number, 3] != 0)
                    if made > last and spans[made - 1, 1] > place:  # Ada Byron, of which both are known
                        made, place = made - 1, min(spans[made - 1, 0], place)
                spans[made, 0], spans[made, 1], spans[made, 2] = place, stop, NAME
                made += 1
    return made


@kept
def find_again(data, ends, machine, spans, lists, parts, heads, places, version):
    """Drop from the two lists of names what has an ordinary word, and add, as a last list, where parts of names are
    words elsewhere in their text, from their first capital on."""
    data, spans, parts, heads, places = borrow(data), borrow(spans), borrow(parts), borrow(heads), borrow(places)
    machine = borrow(machine)
    for kind in range(form.TITLED, form.BESIDE + 1):
        kept = lists[kind, 0]
        for row in range(lists[kind, 0], lists[kind, 1]):
            if _is_name(data, spans[row, 0], spans[row, 1], version):
                for column in range(3):
                    spans[kept, column] = spans[row, column]
                kept += 1
        lists[kind, 1] = kept
    made, begin = lists[form.BESIDE, 1], np.int64(0)
    lists[AGAIN, 0] = made
    titled, named = lists[form.TITLED, 0], lists[form.BESIDE, 0]
    first_named = named
    for text in range(len(ends)):
        end, known = ends[text], np.int64(0)
        while True:
            if titled < lists[form.TITLED, 1] and spans[titled, 0] < end:
                row = titled
                titled += 1
            elif named < lists[form.BESIDE, 1] and spans[named, 0] < end:
                row = named
                named += 1
            else:
                break
            if known == 0:
                for bucket in range(len(heads)):
                    heads[bucket] = -1
            known = _add_parts(data, spans[row, 0], spans[row, 1], parts, known, heads, row < first_named, version)
        if known > 0:
            made = _look_again(data, machine, begin, end, parts, heads, spans, made, places, version)
        begin = end
    lists[AGAIN, 1] = made
