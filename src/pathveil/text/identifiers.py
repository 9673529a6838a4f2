"""What a report says of people and days, found by its form: dates, times, phones, addresses, numbers, names.

A model needs none of it, and a vocabulary that has it betrays people. Each stretch becomes one token that says only
what stood there. What is found is what its form makes certain: a date with a valid day, a number that a specimen or a
record has, a street with its house, a name behind "Dr." or before "M.D.", and that name again wherever else the report
has it, with the given name before it. Clinical forms stay: Gleason 3+4, 0/12 or 2:14 nodes, 2:00 position, 8500/3,
C50.4, P16-88342, pT2, Paget.

>>> hide("Seen by Dr. Ada Quarbescu on 03/12/2008 at 14:05, S08-12345, (217) 555-0134. Quarbescu agrees.").split()[2:]
['Dr.', '\\ue106', 'on', '\\ue100', 'at', '\\ue101,', '\\ue104,', '\\ue102.', '\\ue106', 'agrees.']
>>> text = "Gleason 3+4, 0/12 nodes, left breast 2:00, 8500/3, 1.2 x 0.5 cm, HER2 3+, Ki-67 20-30%, grade 2-3/3."
>>> hide(text) == text
True
>>> text = "DOB: 1949-02-12 MRN: H699513, 995 Railroad Street Cranemere"
>>> [(kind, text[start:end]) for start, end, kind in find_identifiers(text)]
[('date', '1949-02-12'), ('number', 'H699513'), ('address', '995 Railroad Street Cranemere')]
"""

import re
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain

from pathveil.text import identifier_patterns as form

VERSION = 2  # raised whenever another stretch would be found
FIRST = 0xE100  # the first of the private characters that stand for a stretch while a text is cut into tokens
KINDS = ("date", "time", "phone", "address", "number", "email", "name")
TOKENS = {chr(FIRST + number): f"identifier_{kind}" for number, kind in enumerate(KINDS)}
SIGN = {kind: chr(FIRST + number) for number, kind in enumerate(KINDS)}

Span = tuple[int, int, str]  # start, end, kind


def hide(text: str) -> str:
    """Replace each identifier by a private character that stands for its kind."""
    return replace_spans(text, find_identifiers(text))


def replace_spans(text: str, spans: Iterable[Span]) -> str:
    """Replace spans, which are in order and apart, by the characters that stand for their kinds."""
    pieces, last = [], 0
    for start, end, kind in spans:
        pieces += (text[last:start], SIGN[kind])
        last = end
    return "".join([*pieces, text[last:]]) if pieces else text


def find_identifiers(text: str) -> list[Span]:
    """Find all identifiers, in order, none within another: the earlier wins, of two that begin together the longer."""
    found: dict[str, list[Span]] = {hint: [] for hint in form.BY_HINT}
    places: list[int] = []  # in whose lines names may stand
    reach = dict.fromkeys(form.BY_HINT, 0)  # where the last match of each expression ended
    for place in form.CUE.finditer(text):
        start, hint = place.start(), form.HINTS[place.lastindex or 0]
        if hint == "name" or (text[start] >= "A" and _is_announced(text, start)):
            places.append(start)
        if hint == "staff":
            places.append(max(text.rfind("\n", max(0, start - form.BEFORE), start), 0))
        if hint in ("label", "staff"):
            continue
        if hint == "name":
            hint = "lettered"  # MRN-1234567
        if start < reach[hint] or not (match := form.BY_HINT[hint].match(text, start)):
            continue
        reach[hint] = match.end()
        if span := _READERS[hint](match, text):
            found[hint].append(span)
            if span[2] == "address":
                places.append(start)
    titled = found.pop("titled")
    spans = list(chain.from_iterable(found.values()))
    if titled or places:
        announced = [span for run in _runs(text, places) for span in _announced_names(text, *run)]
        spans += _names(text, titled, announced)
    spans.sort(key=lambda span: (span[0], -span[1]))
    chosen: list[Span] = []
    last = 0
    for span in spans:
        if span[0] >= last:
            chosen.append(span)
            last = span[1]
    return chosen


def _read_numeric(match: re.Match[str], text: str) -> Span | None:
    start, end = match.span()
    before = text[start - 1 : start]
    if before.isalnum() or (before in "./:-" and before and text[start - 2 : start - 1].isalnum()):
        return None
    kind = _kind_of_number(match, text)
    # The bracket before the area code is a phone's too.
    return (start - (kind == "phone" and before == "("), end, kind) if kind else None


def _kind_of_number(match: re.Match[str], text: str) -> str | None:
    """Tell what begins with a digit, or None where its numbers cannot be that."""
    name, written = match.lastgroup, match.group()
    match name:
        case "seconds" | "half" | "time":
            return "time" if _is_time(match, text) else None
        case "iso":
            valid = written[:2] in ("19", "20") and 0 < int(written[5:7]) <= 12 and 0 < int(written[8:10]) <= 31
            return "date" if valid else None
        case "day" | "dots":
            one, other = map(int, re.split(r"[/.-]", written)[:2])
            return "date" if 0 < min(one, other) <= 12 and max(one, other) <= 31 else None
        case "phone":
            return "phone" if written[0] == "0" or written[5:6].isdigit() or not written[4].isdigit() else None
        case "named":
            return "date"
        case "address":
            return "address"
    return "number"


def _is_time(match: re.Match[str], text: str) -> bool:
    """Tell a time of day from places on a breast (2:00, 10:30), nodes (2:14) and dilutions (1:40)."""
    hour, minute = match.group().split(":")[:2]
    if int(hour) > 23 or form.CLOCK.match(text, match.end()):
        return False
    if match["seconds"] or match["half"] or int(hour) > 12 or (hour[0] == "0" and int(hour) > 0):
        return True
    if int(hour) < 2 or minute[:2] in ("00", "30"):
        return False
    return form.TIME_LABEL.search(text, max(0, match.start() - form.BEFORE), match.start()) is not None


def _read_lettered(match: re.Match[str], text: str) -> Span | None:
    return None if form.STAIN.match(match.group()) else _read_word(match, text, "number")


def _read_labelled(match: re.Match[str], text: str) -> Span | None:
    start = match.start()
    if sum(map(str.isdigit, match["number"])) < 4:
        return None
    label = form.NUMBER_LABEL.search(text, max(0, start - form.BEFORE), start)
    return (*match.span("number"), "number") if label else None


def _read_email(match: re.Match[str], text: str) -> Span | None:
    mailbox = form.MAILBOX.search(text, max(0, match.start() - 64), match.start())
    return (mailbox.start(), match.end(), "email") if mailbox else None


def _read_titled(match: re.Match[str], text: str) -> Span | None:
    return (*match.span("name"), "name") if _read_word(match, text, "name") else None


def _read_word(match: re.Match[str], text: str, kind: str) -> Span | None:
    start, end = match.span()
    return None if text[start - 1 : start].isalnum() else (start, end, kind)


_READERS = {
    "numeric": _read_numeric,
    "lettered": _read_lettered,
    "dated": partial(_read_word, kind="date"),
    "box": partial(_read_word, kind="address"),
    "titled": _read_titled,
    "labelled": _read_labelled,
    "email": _read_email,
}


def _is_announced(text: str, start: int) -> bool:
    """Check for a label, "labeled" or a quotation mark right before what can be a name."""
    before = text[max(0, start - form.BEFORE) : start]
    end = before.rstrip(" \t\n:*").lower()
    if not (end[-3:] in form.LABEL_ENDS or end[-2:] in form.LABEL_ENDS or end[-1:] in ('"', "|")):
        return False
    before = before[::-1].lower()
    return bool(form.NAME_LABEL.match(before) or form.MARKED.match(before) or form.QUOTED.match(before))


def _runs(text: str, places: list[int]) -> Iterator[tuple[int, int]]:
    """Give the start and end of the words with capitals around each of the places."""
    reach = 0  # where the last one ended
    for place in sorted(places):
        low = max(reach, place - form.AROUND)
        before = text[low:place].rstrip(form.BETWEEN)
        breaks = [match.end() for match in form.BREAK.finditer(before)]
        start = low + breaks[-1] if breaks else low
        end = form.BREAK.search(text, max(place, reach), place + form.AROUND)
        reach = end.start() if end else min(place + form.AROUND, len(text))
        yield start, reach


def _announced_names(text: str, first: int, last: int) -> Iterator[Span]:
    """Find the names in a run of words that something before or behind them announces."""
    for match in form.CANDIDATE.finditer(text, first, last):
        start, end = match.span()
        if text[start - 1 : start].isalnum():
            continue
        if kin := form.KIN.match(text, start, end):
            yield kin.end(), end, "name"
            continue
        before = text[max(0, start - form.BEFORE) : start][::-1].lower()
        if (
            form.NAME_LABEL.match(before)
            or form.LICENCE.match(text, end)
            or form.RECORDED.match(text, end)
            or ((not before or before[0] == "\n") and form.HEADED.match(text, end))
            or (form.MARKED.match(before) and form.NUMBERED.match(text, end))
            or ("," in match.group() and form.QUOTED.match(before))
        ):
            yield start, end, "name"


def _names(text: str, titled: list[Span], announced: list[Span]) -> list[Span]:
    """Keep the names among what was found, and add their parts wherever else the text has them."""
    titled = [span for span in titled if _is_name(text[span[0] : span[1]])]
    announced = [span for span in announced if _is_name(text[span[0] : span[1]])]
    parts = {
        part: is_titled
        for spans, is_titled in ((announced, False), (titled, True))
        for start, end, _ in spans
        for part in form.PART_OF_NAME.findall(text[start:end])
        if part.lower() not in form.WORDS
    }
    if not parts:
        return titled + announced
    again: list[Span] = []
    for match in form.PART_OF_NAME.finditer(text):
        is_titled = parts.get(match.group())
        if is_titled is not None:
            start = _with_given_name(text, match.start(), is_titled)
            while again and again[-1][1] > start:  # Ada Byron, both parts of which are known
                start = min(start, again.pop()[0])
            again.append((start, match.end(), "name"))
    return titled + announced + again


def _is_name(text: str) -> bool:
    return form.ORDINARY.isdisjoint(form.WORD_OF_NAME.findall(text.lower()))


def _with_given_name(text: str, start: int, is_titled: bool) -> int:
    """Find where a name begins of which a known part begins here: at its initials, behind a title at a given name."""
    if text[start - 1 : start] != " ":
        return start
    near = max(0, start - form.BEFORE), start
    if is_titled and (given := form.GIVEN.search(text, *near)):
        words = given.group().rstrip(" .")
        if _is_name(words) and words.lower() not in form.TERMS:
            return given.start()
    initials = form.INITIALS.search(text, *near)
    return initials.start() if initials else start
