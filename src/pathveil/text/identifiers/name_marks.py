"""Where a name can begin, or what says that one stands here: a title, a label, a word of kinship, a licence.

What can be a name, two words that begin with capitals, is everywhere in a report. A filter looks at the eight bytes
before a capital and from it on; what it lets through is looked at closely. What is noted is more than what is found,
and nothing that would be found is left out.

>>> from numba import njit
>>> ask = njit(lambda text: may_matter(load(text, 0), load(text, 8)))
>>> texts = [b" by Dr. Ada Byro", b"y final Diagnosi", b"atient: Ada Byro", b"he left Breast i"]
>>> [text[8:] for text in texts if ask(np.frombuffer(text, np.uint8))]
[b'Ada Byro', b'Ada Byro']
"""

import numpy as np

from pathveil.text.identifiers.byte_kinds import (
    BAR,
    CLOSE,
    COLON,
    COMMA,
    LETTER,
    LINE,
    O_,
    OPEN,
    POINT,
    QUOTE,
    RETURN,
    SPACE,
    STAR,
    TAB,
    A,
    B,
    C,
    D,
    F,
    H,
    M,
    N,
    P,
    R,
    S,
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
from pathveil.text.identifiers.bytes_at_once import between, bits_above, load
from pathveil.text.identifiers.expressions import BESIDE, DATED, NAMES, TITLED
from pathveil.text.identifiers.number_marks import is_before_street, is_date, is_month_code

_BYTE = np.uint64(255)
_MIX_4 = 0xD6E8FEB86659FD93  # of which the highest bits of products are mixed
NAME_ENDS = NAMES + 1  # where runs of names end, beside where they begin

_NAME = LETTER.copy()  # within a word of a name; beyond ASCII it may be an apostrophe
_NAME[[*b"'-"]] = _NAME[128:] = True
_BETWEEN = np.zeros(256, np.bool_)  # a name and the number of a record
_BETWEEN[[*b" ,;|("]] = True
# The last word of what stands before a name: with a colon or asterisks behind it, and with a blank.
_LABELS = table_of(
    "patient name physician pathologist surgeon consultant provider clinician requesting attending signed out by to "
    "pt resident fellow cc signature"
)
_BESIDE = table_of(
    "by to son daughter brother sister wife husband mother father kin contact per name label under of spouse cc "
    "with informed notified"
)
_DONE = table_of(
    "signed out dictated reviewed reported ordered requested submitted authorised authorized transcribed called sent "
    "faxed given telephoned communicated copy copies finalized finalised verified interpreted approved seen"
)  # before "by" and "to"
_PARTICLES = table_of("van von de del den der la ter")
_CHART = table_of("chart request")  # before "of"
_SPOKEN = table_of("spoke spoken discussed consulted")  # before "with"
_MARKED = table_of("labeled labelled marked")
_ATHOLOGI = int.from_bytes(b"athologi", "little")
_PARTICLE_ENDS = np.zeros(256, np.bool_)
_PARTICLE_ENDS[[*b"nelar"]] = _PARTICLE_ENDS[128:] = True
# Whether a byte can end a word of ``_BESIDE``.
_LAST = np.zeros(256, np.bool_)
_LAST[[*b"yonredtlfchYONREDTLFCH"]] = _LAST[128:] = True


def _endings() -> np.ndarray:
    """Which four bytes before a blank and a capital let more be asked, as bits by their code: the last ones of a word
    in ``_BESIDE`` (before "by" and "to" of one in ``_DONE``), of a title (``?`` is any byte) or of a label and its
    colon; ``*`` is any byte but a letter. Others may have the same code."""
    table = np.zeros(1 << 16, np.bool_)
    others = {byte | 32 for byte in range(128) if not chr(byte).isalpha()}
    for ending in (
        "hter ther ster wife band tact name abel nder ouse *son *kin *per d_by t_by n_by y_by s_by d_to t_to n_to y_to "
        "s_to ?dr. ?mr. ?ms. ?drs drs. mrs. miss prof rof. ent: ame: ian: ist: eon: ant: der: ing: ned: out: *by: *to: "
        "*pt: *cc: dent: low: ure: rmed fied herr frau "
        "_van _von _den _der _del _ter e_la ._de r_de s_de with *mrs eled lled rked"
    ).split():
        first, *rest = ending.replace("_", " ").encode()
        for byte in range(256) if ending[0] == "?" else others if ending[0] == "*" else [first]:
            code = int.from_bytes(bytes([byte | 32, *rest]), "little")
            table[code * _MIX_4 >> 48 & 0xFFFF] = True
    return as_bits(table)


_ENDINGS = _endings()
# What may stand before a capital whatever else does: by the last byte and the one before it, a row of what a third may
# be. A sign, or a line's end behind one, or a blank behind signs and blanks.
_ROW = np.zeros((256, 256), np.uint8)
_ROW[[*b':\t*"']] = 1
_ROW[ord("\n"), [*b'\t*" ']] = _ROW[ord(" "), [*b"*|"]] = 1
_ROW[[*b" \n"], ord(":")] = 2
_ROW[ord(" "), [*b" \t"]] = 3
_THIRD = np.zeros((4, 256), np.bool_)
_THIRD[1] = _THIRD[2, [*b" \t)"]] = _THIRD[3, [*b":* \t"]] = True
# The first two letters of licences, and of MRN, DOB and SSN.
_LICENCE = np.zeros((256, 256), np.bool_)
for _first, _second in ("MD", "M.", "MB", "DO", "D.", "Ph", "FC", "FR", "DD", "DM", "RN", "MR", "SS"):
    _LICENCE[ord(_second), ord(_first)] = True
_LICENCES = as_bits(_LICENCE)


@inlined
def may_matter(before, here):
    """Whether a capital can begin, or end, what is marked, by the eight bytes before it and from it on. All is asked,
    so that a processor has no answer to guess."""
    last, second, third = before >> np.uint64(56), (before >> np.uint64(48)) & _BYTE, (before >> np.uint64(40)) & _BYTE
    is_near = _THIRD[_ROW[last, second], third]
    is_licence = is_in(_LICENCES, here & np.uint64(0xFFFF))
    is_odd = before & np.uint64(0x80808080000000) != np.uint64(0)  # one of the four bytes before the blank
    is_chart = before & np.uint64(0xDFDFDFDF000000) == np.uint64(0x464F0054000000)  # "chart of", "request of"
    four = (before >> np.uint64(24)) & np.uint64(0xFFFFFFFF) | np.uint64(0x20202020)
    two = four >> np.uint64(16)
    is_short = (two == np.uint64(0x7264)) | (two == np.uint64(0x6363))  # "dr", "cc", and "mr", "ms"
    is_short |= (two == np.uint64(0x726D)) | (two == np.uint64(0x736D))
    is_house = (last == SPACE) & (second - np.uint64(48) < np.uint64(10))
    is_house &= ((here >> np.uint64(8)) & _BYTE) - np.uint64(97) < np.uint64(26)
    staff = (here >> np.uint64(16)) & np.uint64(0xFFFF)
    is_staff = (staff == np.uint64(0x6874)) | (staff == np.uint64(0x6574))  # Pathologist, Attending
    is_staff |= (staff == np.uint64(0x6661)) | (staff == np.uint64(0x736E))  # Staff, Consultant
    is_behind = is_house | ((last == LINE) & is_staff)
    is_ending = is_in(_ENDINGS, (four * np.uint64(_MIX_4) >> np.uint64(48)) & np.uint64(0xFFFF))
    is_parted = (last == SPACE) | (last == LINE) | (last == OPEN)
    return (
        is_near
        | (is_parted & (is_licence | is_odd | is_chart | is_short | is_ending))
        | is_behind
        | is_month_code(here)
    )


@compiled
def _title_before(data, place):
    """Where Dr., Mrs., Prof. or the like begins that ends with the blank before ``place``; else -1."""
    last = place - 2
    is_dotted = data[last] == POINT
    last -= is_dotted
    end, one, two = data[last], data[last - 1], data[last - 2]
    if end == 114:  # r
        if one == D or one == M:
            return last - 1
        if one == 114 and two == 101 and data[last - 3] == H:  # Herr
            return last - 3
    elif end == 115:  # s
        if one == M:
            return last - 1
        if one == 114 and (two == D or two == M):
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
    elif end == 117 and one == 97 and two == 114 and data[last - 3] == F:  # Frau
        return last - 3
    return -1


@compiled
def _behind_particles(data, place):
    """Where "van der", "de la" or the like begins that ends with the blank before ``place``; else ``place``."""
    for _ in range(2):
        if data[place - 1] != SPACE or not _PARTICLE_ENDS[data[place - 2]]:
            break
        found, first = _has_word_before(data, place - 1, _PARTICLES)
        if not found or first == place - 1:
            break
        place = first
    return place


@compiled
def _is_licence(data, place):
    """Whether M.D., Ph.D. or the like stands here, as far as three letters tell."""
    first, then, third = data[place], data[place + 1], data[place + 2]
    if first == P:
        return then == 104 and (third == D or third == POINT)  # h
    if first == M or first == D:
        if first == D and (then == D or then == M):  # DDS, DMD
            return third == S or third == D
        wanted = D if first == M else O_
        if then == wanted:
            return not LETTER[third]
        if then == POINT:
            return third == wanted and not LETTER[data[place + 3]]
        return first == M and then == B and (third == B or third == C)
    if first == R:
        return then == N and not LETTER[third]
    return first == F and ((then == C and third == A) or (then == R and third == C))


@compiled
def _is_record(data, place):
    """Whether MRN, DOB or SSN stands here."""
    first, then, third = data[place], data[place + 1], data[place + 2]
    if LETTER[data[place + 3]]:
        return False
    return (
        (then == R and first == M and third == N)
        or (first == S and then == S and third == N)
        or (first == D and then == O_ and third == B)
    )


@compiled
def _is_staff(data, place):
    """Whether Pathologist, or Attending pathologist or the like, begins here."""
    if data[place] != P:
        while LETTER[data[place]]:
            place += 1
        place += 1
    return load(data, place + 1) == np.uint64(_ATHOLOGI) and data[place + 9] == 115


@compiled
def _is_numbered(data, place):
    """Whether "labeled" stands before this, and behind these words with capitals what can lead to a number."""
    if data[place - 2] | np.uint8(32) != 100 and data[place - 2] < 128:
        return False
    if not _has_more(data, place) or not _has_word_before(data, place - 1, _MARKED)[0]:
        return False
    while not _parts_names(data, place):
        place += 1
    return data[place - 1] == COMMA or (data[place] == COMMA) or (data[place] == SPACE and data[place + 1] == 97)  # and


@compiled
def _end_of_name(data, place, before):
    """Where a name would end which is told by what stands here: a record's number, a house, a pathologist; else -1."""
    last = place - 1
    if before == LINE:
        if not _is_staff(data, place):
            return -1
        while data[last] == LINE or data[last] == RETURN or data[last] == SPACE or data[last] == TAB:
            last -= 1
    elif before == SPACE and is_digit(data[place - 2]):
        if not is_before_street(data, last):
            return -1
        last -= 1
        while is_digit(data[last]):
            last -= 1
        if data[last] != SPACE:
            return -1
        last -= 1
        last -= data[last] == COMMA
    elif _is_record(data, place):
        while _BETWEEN[data[last]]:
            last -= 1
    return last + 1 if last < place - 1 and (_NAME[data[last]] or data[last] == POINT) else -1


@compiled
def _has_word_before(data, place, table):
    """Whether the word that ends before ``place`` is in a table, by its last eight letters, and where they begin. One
    with a letter beyond ASCII may be: to an expression that ignores case, some are letters of ASCII."""
    if place < 1:
        return False, place
    word = load(data, place - 8) if place >= 8 else load(data, 0) << np.uint64(64 - 8 * place)
    word |= np.uint64(0x2020202020202020)
    size = bits_above(~between(word, 97, 122) & np.uint64(0x8080808080808080)) >> 3
    if size == 0:
        return data[place - 1] >= 128, place
    found = holds(table, word >> np.uint64(64 - 8 * size)) or data[place - size - 1] >= 128
    return found, place - size


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
    if found and data[at] | np.uint8(32) == 104:  # with
        return _has_more(data, place) and _has_word_before(data, first - 1, _SPOKEN)[0]
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
    return data[place] == SPACE and is_capital(data[place + 1])


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
    return data[place] == COMMA and data[place + 1] == SPACE and is_capital(data[place + 2])


@compiled
def _parts_names(data, place):
    """Whether no name goes on past this byte, nor from a name to its licence. Beyond ASCII it may be an apostrophe."""
    byte, then = data[place], data[place + 1]
    if byte == SPACE:
        return not is_capital(then)
    if byte == COMMA:
        return then != SPACE
    if byte == POINT:
        return not (then == SPACE or then == COMMA or is_capital(then))
    return not _NAME[byte]


@compiled
def note_at_capital(data, place, marks, counts, run_end):
    """Note what begins at a capital that begins a word, and the run of names in which it stands; where the run ends."""
    before, is_name = data[place - 1], False
    if before == SPACE:
        title = _title_before(data, _behind_particles(data, place))
        if title >= 0:
            note(marks, counts, TITLED, title)
        is_name = _is_licence(data, place)
    if before == SPACE or before == LINE or before == TAB or before == COLON or before == STAR:
        if _is_beside_name(data, place):
            note(marks, counts, BESIDE, place)
            is_name = True
    if before == SPACE and _is_numbered(data, place):
        is_name = True
    if is_date(data, place):
        note(marks, counts, DATED, place)
    first, third = place, data[place + 2]
    if before == LINE or third == N or third == B or is_digit(data[place - 2]):
        end_of_name = _end_of_name(data, place, before)
        if end_of_name > run_end:
            first, is_name = end_of_name, True
    if place >= run_end and (is_name or (_is_quoted(data, place) and _is_surname_first(data, place))):
        run_end = place
        while not _parts_names(data, first - 1):
            first -= 1
        while not _parts_names(data, run_end):
            run_end += 1
        run_end += 1
        marks[NAME_ENDS, counts[NAMES]] = run_end + 1  # at which an expression looks, and no name begins
        note(marks, counts, NAMES, first)
    return run_end
