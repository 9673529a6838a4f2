"""What the expressions find that ``re`` tries at every place of a text: what the compiled code is held against."""

import re
from collections.abc import Container, Iterable, Iterator, Sequence

from pathveil.corpus.messages.patient import TERMS, WORDS
from pathveil.text.identifiers import VERSION, first_version
from pathveil.text.identifiers import expressions as form

FORMS = {1: first_version, 2: form}
# Letters of names beyond ASCII are one letter to the compiled code, but for those that ASCII has where case is ignored.
ONE = str.maketrans(dict.fromkeys(set(form.LATIN_LETTERS) - set("ſıİ"), "é"))


def found_everywhere(text: str, version: int = VERSION) -> list[tuple[int, int, str]]:
    """Begin, end and kind of each stretch."""
    tried = [(kind, place, place) for kind in range(form.NAMES) for place in range(len(text))]
    return _spans(text, [*tried, (int(form.NAMES), 0, len(text))], version)


def _spans(text: str, marks: Iterable[Sequence[int]], version: int) -> list[tuple[int, int, str]]:
    """Stretches in order, none within another: the earlier wins, of two that begin together the longer."""
    found: list[tuple[int, int, str]] = []
    titled: list[tuple[int, int, str]] = []
    named: list[tuple[int, int, str]] = []
    beside: set[int] = set()  # where a name would stand behind a label
    expected, last = -1, 0
    for kind, start, end in marks:
        if kind != expected:
            expected, last = kind, 0
        # As a search through the whole text would: what was matched is not looked at again.
        if kind == form.NAMES:
            named += _candidates(text, start, end, beside, version)
        elif kind == form.BESIDE:
            beside.add(start)
        elif start >= last and (match := FORMS[version].EXPRESSIONS[kind].match(text, start)):
            last = match.end()
            if span := _READERS[kind](match, text, version):
                (titled if kind == form.TITLED else found).append(span)
    found += _names(text, titled, named, version)
    found.sort(key=lambda span: (span[0], -span[1]))
    kept, last = [], 0
    for span in found:
        if span[0] >= last:
            kept.append(span)
            last = span[1]
    return kept


def _numeric(match: re.Match[str], text: str, version: int) -> tuple[int, int, str] | None:
    start, end = match.span()
    before = text[start - 1 : start]
    if before.isalnum() or (before in "./:-" and before and text[start - 2 : start - 1].isalnum()):
        return None
    kind = _kind(match, text, version)
    # The bracket before the area code is a phone's too.
    return (start - (kind == "phone" and before == "("), end, kind) if kind else None


def _lettered(match: re.Match[str], text: str, version: int) -> tuple[int, int, str] | None:
    is_stain = version > 1 and form.STAIN.match(match.group())
    return None if is_stain or _is_within_word(match, text) else (*match.span(), "number")


def _dated(match: re.Match[str], text: str, version: int) -> tuple[int, int, str] | None:
    return None if _is_within_word(match, text) else (*match.span(), "date")


def _labelled(match: re.Match[str], text: str, version: int) -> tuple[int, int, str] | None:
    start = match.start()
    if sum(map(str.isdigit, match["number"])) < 4:
        return None
    label = form.NUMBER_LABEL.search(text, max(0, start - form.BEFORE), start)
    return (*match.span("number"), "number") if label else None


def _email(match: re.Match[str], text: str, version: int) -> tuple[int, int, str] | None:
    box = form.MAILBOX.search(text, max(0, match.start() - 64), match.start())
    return (box.start(), match.end(), "email") if box else None


def _box(match: re.Match[str], text: str, version: int) -> tuple[int, int, str]:
    return *match.span(), "address"


def _titled(match: re.Match[str], text: str, version: int) -> tuple[int, int, str] | None:
    return None if _is_within_word(match, text) else (*match.span("name"), "name")


_READERS = (_numeric, _lettered, _dated, _labelled, _email, _box, _titled)


def _is_within_word(match: re.Match[str], text: str) -> bool:
    return text[match.start() - 1 : match.start()].isalnum()


def _kind(match: re.Match[str], text: str, version: int) -> str | None:
    """What a match that begins with a digit is, or None where its numbers cannot be that."""
    name, found = match.lastgroup, match.group()
    if name in ("seconds", "half", "time"):
        return "time" if _is_time(match, text, version) else None
    if name == "iso":
        valid = found[:2] in ("19", "20") and 0 < int(found[5:7]) <= 12 and 0 < int(found[8:10]) <= 31
        return "date" if valid else None
    if name in ("day", "dots"):
        one, other = map(int, re.split(r"[/.-]", found)[:2])
        return "date" if 0 < min(one, other) <= 12 and max(one, other) <= 31 else None
    if name == "phone":
        return "phone" if found[0] == "0" or found[5:6].isdigit() or not found[4].isdigit() else None
    return {"named": "date", "address": "address"}.get(name or "", "number")


def _is_time(match: re.Match[str], text: str, version: int) -> bool:
    """Whether hours and minutes are a time of day: 2:00 and 10:30 may be places on a breast."""
    hour, minute = match.group().split(":")[:2]
    if int(hour) > 23 or form.CLOCK.match(text, match.end()):
        return False
    sure = match["seconds"] or match["half"] or int(hour) > 12
    if sure or (version > 1 and hour[0] == "0" and int(hour) > 0):
        return True
    if int(hour) < 2 or minute[:2] in ("00", "30"):  # 1:40 dilutes an antibody
        return False
    low = max(0, match.start() - form.BEFORE)
    return version == 1 or form.TIME_LABEL.search(text, low, match.start()) is not None


def _candidates(
    text: str, begin: int, stop: int, beside: Container[int], version: int
) -> Iterator[tuple[int, int, str]]:
    """What can be a name within a run of text, where something beside it says that it is one."""
    forms = FORMS[version]
    for match in forms.CANDIDATE.finditer(text, begin, stop):
        start, end = match.span()
        if text[start - 1 : start].isalnum():
            continue
        if kin := form.KIN.match(text, start, end):
            start = kin.end()
        near = max(0, start - form.BEFORE), start
        if (
            kin
            or (start in beside and forms.BEFORE_NAME.search(text, *near))
            or forms.LICENCE.match(text, end)
            or (version > 1 and _is_told_behind(text, start, end))
            or ("," in match.group() and form.LABEL_BEFORE.search(text, *near))
        ):
            yield start, end, "name"


def _is_told_behind(text: str, start: int, end: int) -> bool:
    """Whether a house, a number of a record or a pathologist stands behind what can be a name."""
    is_head = start == 0 or text[start - 1] == "\n"
    if form.RECORDED.match(text, end) or (is_head and form.HEADED.match(text, end)):
        return True
    is_marked = form.MARKED.search(text, max(0, start - form.BEFORE), start)
    return bool(is_marked and form.NUMBERED.match(text, end))


Spans = list[tuple[int, int, str]]


def _names(text: str, titled: Spans, named: Spans, version: int) -> Spans:
    """The names among what was found, and their parts wherever else the text has them."""
    titled, named = ([span for span in spans if _is_name(text[slice(*span[:2])], version)] for spans in (titled, named))
    parts: dict[str, bool] = {}  # whether a title told it
    for spans, is_titled in ((named, False), (titled, True)):
        for start, end, _ in spans:
            for part in re.findall(rf"[A-Z][{_letters(version)}]{{3,}}", text[start:end]):
                if part.lower() not in WORDS:
                    parts[part.translate(ONE)] = is_titled
    again = sorted(span for part, told in parts.items() for span in _again(text, part, told, version))
    joined: Spans = []
    for start, end, kind in again:
        if joined and joined[-1][1] > start:
            start, _, _ = joined.pop()
        joined.append((start, end, kind))
    return [*titled, *named, *joined]


def _letters(version: int) -> str:
    return form.WITHIN_NAME.replace("-", r"\-") + (form.LATIN_LETTERS if version > 1 else "")


def _is_name(text: str, version: int) -> bool:
    words = {word.lower() for word in re.findall(f"[{_letters(version)}]+", text)}
    return not words & form.ORDINARY and not (version > 1 and words & form.MORE_ORDINARY)


def _again(text: str, part: str, is_titled: bool, version: int) -> Iterator[tuple[int, int, str]]:
    """Where a part of a name is a word, from its first capital on, with what is given before it."""
    within = form.WITHIN_NAME + (form.LATIN_LETTERS if version > 1 else "")
    plain = text.translate(ONE)
    start = plain.find(part)
    while start >= 0:
        end, first = start + len(part), start - 1
        if text[end : end + 1] not in within or end == len(text):
            while first >= 0 and text[first] in within and not "A" <= text[first] <= "Z":
                first -= 1
            if first < 0 or text[first] not in within:
                yield start if version == 1 else _given_before(text, start, is_titled), end, "name"
        start = plain.find(part, start + 1)


def _given_before(text: str, place: int, is_titled: bool) -> int:
    near = max(0, place - form.BEFORE), place
    if text[place - 1 : place] != " ":
        return place
    if is_titled and (given := form.GIVEN.search(text, *near)):
        word = given.group().rstrip(" .\n")
        if _is_name(word, 2) and word.lower() not in TERMS:
            return given.start()
    initials = form.INITIALS.search(text, *near)
    return initials.start() if initials else place
