"""What the expressions find that ``re`` tries at every place of a text: what the compiled code is held against."""

import re
from collections.abc import Container, Iterable, Iterator, Sequence

from pathveil.corpus.patient import WORDS
from pathveil.identifiers import expressions as form


def found_everywhere(text: str) -> list[tuple[int, int, str]]:
    """Begin, end and kind of each stretch."""
    tried = [(kind, place, place) for kind in range(form.NAMES) for place in range(len(text))]
    return _spans(text, [*tried, (int(form.NAMES), 0, len(text))])


def _spans(text: str, marks: Iterable[Sequence[int]]) -> list[tuple[int, int, str]]:
    """Stretches in order, none within another: the earlier wins, of two that begin together the longer."""
    found: list[tuple[int, int, str]] = []
    named: list[tuple[int, int, str]] = []
    beside: set[int] = set()  # where a name would stand behind a label
    expected, last = -1, 0
    for kind, start, end in marks:
        if kind != expected:
            expected, last = kind, 0
        # As a search through the whole text would: what was matched is not looked at again.
        if kind == form.NAMES:
            named += _candidates(text, start, end, beside)
        elif kind == form.BESIDE:
            beside.add(start)
        elif start >= last and (match := _READERS[kind][0].match(text, start)):
            last = match.end()
            if span := _READERS[kind][1](match, text):
                (named if kind == form.TITLED else found).append(span)
    found += _names(text, named)
    found.sort(key=lambda span: (span[0], -span[1]))
    kept, last = [], 0
    for span in found:
        if span[0] >= last:
            kept.append(span)
            last = span[1]
    return kept


def _numeric(match: re.Match[str], text: str) -> tuple[int, int, str] | None:
    start, end = match.span()
    before = text[start - 1 : start]
    if before.isalnum() or (before in "./:-" and before and text[start - 2 : start - 1].isalnum()):
        return None
    kind = _kind(match, text)
    # The bracket before the area code is a phone's too.
    return (start - (kind == "phone" and before == "("), end, kind) if kind else None


def _lettered(match: re.Match[str], text: str) -> tuple[int, int, str] | None:
    return None if _is_within_word(match, text) else (*match.span(), "number")


def _dated(match: re.Match[str], text: str) -> tuple[int, int, str] | None:
    return None if _is_within_word(match, text) else (*match.span(), "date")


def _labelled(match: re.Match[str], text: str) -> tuple[int, int, str] | None:
    start = match.start()
    if sum(map(str.isdigit, match["number"])) < 4:
        return None
    label = form.NUMBER_LABEL.search(text, max(0, start - form.BEFORE), start)
    return (*match.span("number"), "number") if label else None


def _email(match: re.Match[str], text: str) -> tuple[int, int, str] | None:
    box = form.MAILBOX.search(text, max(0, match.start() - 64), match.start())
    return (box.start(), match.end(), "email") if box else None


def _box(match: re.Match[str], text: str) -> tuple[int, int, str]:
    return *match.span(), "address"


def _titled(match: re.Match[str], text: str) -> tuple[int, int, str] | None:
    return None if _is_within_word(match, text) else (*match.span("name"), "name")


_READERS = (
    (form.NUMERIC_FORM, _numeric),
    (form.LETTERED_FORM, _lettered),
    (form.DATED_FORM, _dated),
    (form.LABELLED_FORM, _labelled),
    (form.DOMAIN, _email),
    (form.BOX_FORM, _box),
    (form.TITLED_FORM, _titled),
)


def _is_within_word(match: re.Match[str], text: str) -> bool:
    return text[match.start() - 1 : match.start()].isalnum()


def _kind(match: re.Match[str], text: str) -> str | None:
    """What a match that begins with a digit is, or None where its numbers cannot be that."""
    name, found = match.lastgroup, match.group()
    if name in ("seconds", "half", "time"):
        return "time" if _is_time(match, text) else None
    if name == "iso":
        valid = found[:2] in ("19", "20") and 0 < int(found[5:7]) <= 12 and 0 < int(found[8:10]) <= 31
        return "date" if valid else None
    if name in ("day", "dots"):
        one, other = map(int, re.split(r"[/.-]", found)[:2])
        return "date" if 0 < min(one, other) <= 12 and max(one, other) <= 31 else None
    if name == "phone":
        return "phone" if found[0] == "0" or found[5:6].isdigit() or not found[4].isdigit() else None
    return {"named": "date", "address": "address"}.get(name or "", "number")


def _is_time(match: re.Match[str], text: str) -> bool:
    """Whether hours and minutes are a time of day: 2:00 and 10:30 may be places on a breast."""
    hour, minute = match.group().split(":")[:2]
    if int(hour) > 23 or form.CLOCK.match(text, match.end()):
        return False
    sure = match["seconds"] or match["half"] or int(hour) > 12
    return bool(sure) or (int(hour) > 1 and minute[:2] not in ("00", "30"))  # 1:40 dilutes an antibody


def _candidates(text: str, begin: int, stop: int, beside: Container[int]) -> Iterator[tuple[int, int, str]]:
    """What can be a name within a run of text, where something beside it says that it is one."""
    for match in form.CANDIDATE.finditer(text, begin, stop):
        start, end = match.span()
        if text[start - 1 : start].isalnum():
            continue
        if kin := form.KIN.match(text, start, end):
            start = kin.end()
        near = max(0, start - form.BEFORE), start
        if (
            kin
            or (start in beside and form.BEFORE_NAME.search(text, *near))
            or form.LICENCE.match(text, end)
            or ("," in match.group() and form.LABEL_BEFORE.search(text, *near))
        ):
            yield start, end, "name"


def _names(text: str, found: list[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    """The names among what was found, and their parts wherever else the text has them."""
    names = [
        span for span in found if not form.ORDINARY.intersection(map(str.lower, form.WORD.findall(text, *span[:2])))
    ]
    parts = {
        part
        for start, end, _ in names
        for part in form.CAPITALISED.findall(text, start, end)
        if part.lower() not in WORDS
    }
    return [*names, *(span for part in parts for span in _again(text, part))]


def _again(text: str, part: str) -> Iterator[tuple[int, int, str]]:
    """Where a part of a name is a word, from its first capital on."""
    start = text.find(part)
    while start >= 0:
        end, first = start + len(part), start - 1
        if text[end : end + 1] not in form.WITHIN_NAME or end == len(text):
            while first >= 0 and text[first] in form.WITHIN_NAME and not "A" <= text[first] <= "Z":
                first -= 1
            if first < 0 or text[first] not in form.WITHIN_NAME:
                yield start, end, "name"
        start = text.find(part, start + 1)
