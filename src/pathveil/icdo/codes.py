"""Parse codes as registries write them into this project's labels, and check them against ICD-O-3.

C504, c50.4, C50,4 and "C50.4 upper outer quadrant" are site C50 and subsite C50.4; 8500/3, M-85003 and 8500.0 (a
spreadsheet's 8500) are histology 8500, with behavior 3 where it is there; laterality is one of NAACCR's digits (item
410), letters or words. A code that ICD-O-3 does not have is counted, and its label left out unless unknown codes stay;
its report stays.

>>> parse_topography("C504"), parse_topography("c50.4"), parse_topography("C50"), parse_topography("banana")
(('C50', 'C50.4'), ('C50', 'C50.4'), ('C50', None), None)
>>> parse_morphology("8500/3"), parse_morphology("M-85003"), parse_morphology("8500.0")
(('8500', '3'), ('8500', '3'), ('8500', None))
>>> [parse_laterality(side) for side in ("1", "L", "beidseits", "nicht paarig", "up")]
['right', 'left', 'bilateral', 'not_paired', None]
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

from pathveil.formatting import counted
from pathveil.icdo.lists import BEHAVIORS, LATERALITIES, code_lists, lines
from pathveil.results import Part

# What may surround a code: marks, a term before a code in brackets, a term behind it.
BEFORE = r"""(?:[^\d()\[\]\n]{1,100}[(\[]|['"(\[]*)\s*"""
AFTER = r"(?:(?:[\s\xa0,;:(]|[.](?!\w)|_(?!\d)|[^\w\s.](?!\s?\d)).*)?"
TOPOGRAPHY = re.compile(rf"{BEFORE}C\s?(\d\d)(?:[.,]?(\d)|[.,]?[-X])?{AFTER}", re.IGNORECASE | re.DOTALL | re.ASCII)
# A grade may follow the behavior, but benign tumours have none: 8500/03 may as well be behavior 3.
MORPHOLOGY = re.compile(
    rf"{BEFORE}M?[-\s]?([89]\d{{3}})(?:\s?[/.,-]?\s?(?!0[1-4])(\d)\d?|/)?{AFTER}", re.IGNORECASE | re.DOTALL | re.ASCII
)
TOPOGRAPHIES = re.compile(r"\bC\s?\d\d(?:[.,]?\d)?\b", re.IGNORECASE | re.ASCII)  # all in a value that may have several
MORPHOLOGIES = re.compile(r"\b[89]\d{3}(?:/?\d{1,2})?\b", re.ASCII)
DIGITS = re.compile(r"\b\d\b", re.ASCII)
WHOLE = re.compile(r"(\d+)[.,]0+", re.ASCII)  # a whole number that went through a spreadsheet
LEADING_DIGIT = re.compile(r"/?0?(\d)([\s\xa0,;:(=-].*)?", re.DOTALL | re.ASCII)

BEHAVIOR_OF = {word: code for code, one in BEHAVIORS.items() for word in one.words}
SIDE_OF = {word: side for side, one in LATERALITIES.items() for word in (one.digit, *one.words)}
VAGUE = ("not_paired", "one_side", "paired_unknown")  # sides that a later word may say more exactly, or not contradict

# Unknown values that may be shown: they look like codes. Others in a wrong column may be names.
SHOWABLE = re.compile(r"(?i:C\d{2,3}|C\d\d[.,]\d{1,2}|M?[- ]?\d{4}|M?[- ]?\d{4}[/.,]?\d?|\d|[A-Z])", re.ASCII)
LISTED = 20  # unknown codes that a result names


class UnknownCodes(Part):
    """Labels of a task that ICD-O-3 does not have."""

    task: str
    reports: int
    codes: dict[str, int]  # the commonest that look like codes, with their reports
    no_codes: int  # reports whose label does not look like a code, and is not shown

    def sentence(self) -> str:
        parts = [f"{code} {count:,}" for code, count in self.codes.items()]
        parts += [f"what looks like no code {self.no_codes:,}"] if self.no_codes else []
        more = self.reports - self.no_codes - sum(self.codes.values())
        return f"{self.task}: {counted(self.reports, 'report')} ({', '.join(parts)}{', …' if more else ''})"


class CodeCounts(Part):
    """Counts of codes that were put into this project's form, and of unknown ones."""

    rewritten: dict[str, int]  # task: reports
    unknown: list[UnknownCodes]
    kept_unknown: bool


class ParsedCode(NamedTuple):
    """The labels parsed from one value: 8500/3 is a histology and a behavior."""

    labels: dict[str, str]  # by task
    unknown: bool  # no code, or one that ICD-O-3 does not have


@lru_cache(maxsize=1)
def known_sites() -> frozenset[str]:
    return frozenset(subsite[:3] for subsite in code_lists().names)


@lru_cache(maxsize=1)
def known_histologies() -> frozenset[str]:
    return frozenset(line[:4] for line in (*code_lists().terms, *lines("other_morphology.txt")))


def has_two_codes(value: str, codes: re.Pattern[str]) -> bool:
    """Return true if a value has two different codes, as of two primaries in one cell.

    >>> has_two_codes("C504;C509", TOPOGRAPHIES), has_two_codes("C50.4 breast (C50)", TOPOGRAPHIES)
    (True, False)
    """
    first, *others = [re.sub(r"\W", "", code).upper() for code in codes.findall(value)] or [""]
    return any(not first.startswith(other) for other in others)


def parse_topography(value: str) -> tuple[str, str | None] | None:
    """Parse a site and, where there is one, a subsite; return None if the value is no topography code."""
    match = TOPOGRAPHY.fullmatch(value.strip())
    if not match or has_two_codes(value, TOPOGRAPHIES):
        return None
    site = f"C{match[1]}"
    return site, f"{site}.{match[2]}" if match[2] else None


def parse_morphology(value: str) -> tuple[str, str | None] | None:
    """Parse a histology and, where there is one, a behavior; return None if the value is no morphology code."""
    value = without_decimals(value)
    match = MORPHOLOGY.fullmatch(value)
    return (match[1], match[2]) if match and not has_two_codes(value, MORPHOLOGIES) else None


def parse_behavior(value: str) -> str | None:
    """Parse a behavior from a digit, from words, or from both if they agree."""
    digit, words = split_digit(value)
    by_words = BEHAVIOR_OF.get(joined_words(words))
    if digit is None:
        return by_words
    by_digit = digit if digit in BEHAVIORS else None
    return by_digit if by_words in (None, by_digit) else None  # whose digits these are nobody knows


def parse_laterality(value: str) -> str | None:
    """Parse a laterality from NAACCR's digit, from letters or words, or from both if they agree."""
    digit, words = split_digit(value)
    by_words = parse_side(joined_words(words))
    if digit is None:
        return by_words
    by_digit = SIDE_OF.get(digit)
    return by_digit if by_words in (None, by_digit) else None  # 1=left: whose digits these are nobody knows


def without_decimals(value: str) -> str:
    """Strip blanks, and the decimals that a spreadsheet adds to a whole number."""
    whole = WHOLE.fullmatch(value.strip())
    return whole[1] if whole else value.strip()


def split_digit(value: str) -> tuple[str | None, str]:
    """Split a value into the digit that it begins with (None without one, "" for several) and the words behind it.

    >>> split_digit("1.0"), split_digit("2=left"), split_digit("left"), split_digit("1,2")
    (('1', ''), ('2', '=left'), (None, 'left'), ('', ''))
    """
    value = without_decimals(value)
    if not (match := LEADING_DIGIT.fullmatch(value)):
        return None, value
    return ("", "") if has_two_codes(value, DIGITS) else (match[1], match[2] or "")


def joined_words(value: str) -> str:
    """Join the words of a value, in lower case, by _."""
    return re.sub(r"[\W_]+", "_", value.lower()).strip("_")


def parse_side(words: str) -> str | None:
    """Parse joined words: all of them, NAACCR's text of a code, or a side as the first of them.

    A later word may say more exactly what a vague first one says; one that says another side makes it none.

    >>> parse_side("left_breast"), parse_side("unilateral_left"), parse_side("left_and_right")
    ('left', 'left', None)
    """
    if words in SIDE_OF:
        return SIDE_OF[words]
    for side, one in LATERALITIES.items():
        if one.beginnings and words.startswith(one.beginnings):
            return side
    first, *later = (SIDE_OF.get(word) if len(word) > 1 else None for word in words.split("_"))
    others = {side for side in later if side} - {first, *VAGUE}
    if first in VAGUE and len(others) == 1:
        return others.pop()
    return None if others else first


def topography_labels(value: str) -> ParsedCode:
    parsed = parse_topography(value)
    if not parsed:
        return ParsedCode({}, True)
    site, subsite = parsed
    labels = {"site": site} | ({"subsite": subsite} if subsite else {})
    known = site in known_sites() and (subsite is None or subsite in code_lists().names)
    return ParsedCode(labels, not known)


def morphology_labels(value: str) -> ParsedCode:
    parsed = parse_morphology(value)
    if not parsed:
        return ParsedCode({}, True)
    histology, behavior = parsed
    labels = {"histology": histology} | ({"behavior": behavior} if behavior else {})
    return ParsedCode(labels, histology not in known_histologies() or (behavior or "3") not in BEHAVIORS)


def behavior_labels(value: str) -> ParsedCode:
    behavior = parse_behavior(value)
    return ParsedCode({"behavior": behavior} if behavior else {}, not behavior)


def laterality_labels(value: str) -> ParsedCode:
    side = parse_laterality(value)
    return ParsedCode({"laterality": side} if side else {}, not side)


PARSERS: Mapping[str, Callable[[str], ParsedCode]] = {
    "site": topography_labels,
    "subsite": topography_labels,
    "histology": morphology_labels,
    "behavior": behavior_labels,
    "laterality": laterality_labels,
}


def count_unknown(task: str, counts: Mapping[str, int]) -> UnknownCodes:
    """Count the unknown values of a task, and list those that a result may show."""
    showable = {value: count for value, count in counts.items() if SHOWABLE.fullmatch(value.strip())}
    commonest = sorted(showable, key=lambda value: (-showable[value], value))[:LISTED]
    return UnknownCodes(
        task=task,
        reports=sum(counts.values()),
        codes={value: showable[value] for value in commonest},
        no_codes=sum(counts.values()) - sum(showable.values()),
    )


def check_labels(counts: Mapping[str, Mapping[str, int]]) -> tuple[list[UnknownCodes], dict[str, int]]:
    """Find the labels that are no code, and count those written in another form, from each task's counts of labels.

    >>> unknown, another_form = check_labels({"subsite": {"C50.4": 7, "C504": 2, "C99.9": 1}})
    >>> unknown[0].codes, another_form
    ({'C99.9': 1}, {'subsite': 2})
    """
    unknown, another_form = [], {}
    for task, parse in PARSERS.items():
        parsed = {label: parse(label) for label in counts.get(task, {})}
        no_codes = {
            label: counts[task][label] for label, code in parsed.items() if code.unknown or not code.labels.get(task)
        }
        if no_codes:
            unknown.append(count_unknown(task, no_codes))
        others = {label for label, code in parsed.items() if code.labels.get(task, label) != label} - no_codes.keys()
        if others:
            another_form[task] = sum(counts[task][label] for label in others)
    return unknown, another_form


def showable_label(task: str, label: str) -> str:
    """Return a label as a page may show it: what looks like no code of its task may be anything, such as a name.

    >>> showable_label("site", "Quastenflosser"), showable_label("laterality", "Right")
    ('what looks like no code', 'right')
    """
    code = PARSERS[task](label) if task in PARSERS else None
    if code is None or SHOWABLE.fullmatch(label.strip()):
        return label
    return "what looks like no code" if code.unknown else code.labels.get(task, "what looks like no code")


def tasks_in_another_form(labels: Mapping[str, Iterable[str]]) -> list[str]:
    """List the tasks with codes that are written in another form.

    >>> tasks_in_another_form({"site": ["C50", "breast"], "subsite": ["C504"], "laterality": ["R", "left"]})
    ['subsite', 'laterality']
    """
    tasks = [task for task in labels if task in PARSERS]
    return [task for task in tasks if any(PARSERS[task](one).labels.get(task, one) != one for one in labels[task])]


def is_another_form(task: str, label: str, known: Collection[str]) -> bool:
    """Return true if a label is one of those known, in another form.

    >>> [is_another_form("subsite", label, ("C50.4",)) for label in ("C504", "C50.4", "C509")]
    [True, False, False]
    """
    return label not in known and task in PARSERS and PARSERS[task](label).labels.get(task) in known
