"""Codes as registries write them, made into the names this project uses, and checked against ICD-O-3.

C504, c50.4, C50,4 and "C50.4 upper outer quadrant" are site C50 and subsite C50.4; 8500/3, M-85003 and 8500.0 (a
spreadsheet's 8500) are histology 8500, with behavior 3 where it is said; laterality comes as NAACCR's numbers (item
410), letters or words. A code that ICD-O-3 does not have is counted, and its label left out unless it is to be kept;
its report stays.

>>> read_topography("C504"), read_topography("c50.4"), read_topography("C50"), read_topography("banana")
(('C50', 'C50.4'), ('C50', 'C50.4'), ('C50', None), None)
>>> read_morphology("8500/3"), read_morphology("M-85003"), read_morphology("8500.0")
(('8500', '3'), ('8500', '3'), ('8500', None))
>>> [read_laterality(side) for side in ("1", "L", "beidseits", "Not a paired site", "up")]
['right', 'left', 'bilateral', 'not_paired', None]
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from typing import NamedTuple

from pathveil.formatting import counted
from pathveil.icdo.lists import code_lists, lines
from pathveil.results import Part

# What a code may stand in, and the term that lists of choices write before one in brackets; or behind it.
BEFORE = r"""(?:[^\d()\[\]\n]{1,100}[(\[]|['"(\[]*)\s*"""
AFTER = r"(?:(?:[\s\xa0,;:(]|[.](?!\w)|_(?!\d)|[^\w\s.](?!\s?\d)).*)?"
TOPOGRAPHY = re.compile(rf"{BEFORE}C\s?(\d\d)(?:[.,]?(\d)|[.,]?[-X])?{AFTER}", re.IGNORECASE | re.DOTALL | re.ASCII)
# Behind the behavior may stand a grade, which benign tumours do not have: 8500/03 may as well be behavior 3.
MORPHOLOGY = re.compile(
    rf"{BEFORE}M?[-\s]?([89]\d{{3}})(?:\s?[/.,-]?\s?(?!0[1-4])(\d)\d?|/)?{AFTER}", re.IGNORECASE | re.DOTALL | re.ASCII
)
TOPOGRAPHIES = re.compile(r"\bC\s?\d\d(?:[.,]?\d)?\b", re.IGNORECASE | re.ASCII)  # all in a value that may hold several
MORPHOLOGIES = re.compile(r"\b[89]\d{3}(?:/?\d{1,2})?\b", re.ASCII)
NUMBERS = re.compile(r"\b\d\b", re.ASCII)
WHOLE = re.compile(r"(\d+)[.,]0+", re.ASCII)  # a whole number that went through a spreadsheet
LEADING_DIGIT = re.compile(r"/?0?(\d)([\s\xa0,;:(=-].*)?", re.DOTALL | re.ASCII)

BEHAVIORS = {"0", "1", "2", "3", "6", "9"}
BEHAVIOR_WORDS = {"benign": "0", "borderline": "1", "uncertain": "1", "in_situ": "2", "insitu": "2", "malignant": "3"}
BEHAVIOR_WORDS |= {
    "invasive": "3",
    "metastatic": "6",
    "carcinoma_in_situ": "2",
    "non_invasive": "2",
    "noninvasive": "2",
}
BEHAVIOR_WORDS |= {"uncertain_whether_benign_or_malignant": "1", "borderline_malignancy": "1"}
BEHAVIOR_WORDS |= {"malignant_primary_site": "3", "malignant_metastatic_site": "6"}
LATERALITIES = {
    "not_paired": "0 t not_paired not_a_paired_site not_applicable",
    "right": "1 r re rt right rechts rechte rechter rechtes rechtsseitig droite droit derecha derecho",
    "left": "2 l li lt left links linke linker linkes linksseitig gauche izquierda izquierdo",
    "one_side": "3 one_side only_one_side unilateral",
    "bilateral": "4 b bds bilat bilateral both beids beidseits beidseitig beide",
    "midline": "5 m midline mittellinie mittig",
    "paired_unknown": "9 u paired_unknown unknown unbekannt",
}
SIDES = {word: side for side, words in LATERALITIES.items() for word in words.split()}
# How NAACCR's texts of the codes begin, where their first word does not say it.
SIDE_TEXTS = {"only_one_side": "one_side", "paired_site_midline": "midline", "bilateral_involvement": "bilateral"}
SIDE_TEXTS |= {"paired_site_but_no_information": "paired_unknown", "paired_site_no_information": "paired_unknown"}

# What may be shown of a value that is no known code: nothing else that stands in a wrong column, such as a name.
SHOWABLE = re.compile(r"(?i:C\d{2,3}|C\d\d[.,]\d{1,2}|M?[- ]?\d{4}|M?[- ]?\d{4}[/.,]?\d?|\d|[A-Z])", re.ASCII)
LISTED = 20  # unknown codes that a result names


class UnknownCodes(Part):
    """Labels of a task that ICD-O-3 does not have."""

    task: str
    reports: int
    codes: dict[str, int]  # the commonest that look like codes, with their reports
    no_codes: int  # reports whose label does not look like a code, and is not shown

    def sentence(self) -> str:
        named = [f"{code} {count:,}" for code, count in self.codes.items()]
        named += [f"what looks like no code {self.no_codes:,}"] if self.no_codes else []
        more = self.reports - self.no_codes - sum(self.codes.values())
        return f"{self.task}: {counted(self.reports, 'report')} ({', '.join(named)}{', …' if more else ''})"


class CodeCounts(Part):
    """What became of codes that were written otherwise."""

    rewritten: dict[str, int]  # task: reports
    unknown: list[UnknownCodes]
    kept_unknown: bool


class Codes(NamedTuple):
    """What one value says of one or two tasks; a part that is missing was not said."""

    labels: dict[str, str]
    unknown: bool


@lru_cache(maxsize=1)
def known_sites() -> frozenset[str]:
    return frozenset(subsite[:3] for subsite in code_lists().names)


@lru_cache(maxsize=1)
def known_histologies() -> frozenset[str]:
    return frozenset(line[:4] for line in (*code_lists().terms, *lines("other_morphology.txt")))


def holds_several(value: str, codes: re.Pattern[str]) -> bool:
    """Whether a value names two codes, as of two primaries in one cell: which of them it were nobody knows.

    >>> holds_several("C504;C509", TOPOGRAPHIES), holds_several("C50.4 breast (C50)", TOPOGRAPHIES)
    (True, False)
    """
    first, *others = [re.sub(r"\W", "", code).upper() for code in codes.findall(value)] or [""]
    return any(not first.startswith(other) for other in others)


def read_topography(value: str) -> tuple[str, str | None] | None:
    """The site and, where it is said, the subsite; none where the value is no topography code."""
    found = TOPOGRAPHY.fullmatch(value.strip())
    if not found or holds_several(value, TOPOGRAPHIES):
        return None
    site = f"C{found[1]}"
    return site, f"{site}.{found[2]}" if found[2] else None


def read_morphology(value: str) -> tuple[str, str | None] | None:
    """The histology and, where it is said, the behavior; none where the value is no morphology code."""
    value = value.strip()
    if whole := WHOLE.fullmatch(value):
        value = whole[1]
    found = MORPHOLOGY.fullmatch(value)
    return (found[1], found[2]) if found and not holds_several(value, MORPHOLOGIES) else None


def read_behavior(value: str) -> str | None:
    number, words = number_and_words(value)
    said = BEHAVIOR_WORDS.get(words_of(words))
    return said if number is None else agreed(number if number in BEHAVIORS else None, said)


def read_laterality(value: str) -> str | None:
    number, words = number_and_words(value)
    said = side_of_words(words_of(words))
    return said if number is None else agreed(SIDES.get(number), said)


def number_and_words(value: str) -> tuple[str | None, str]:
    """The number with which a value begins, "" where it names several, none where it has none; and the words.

    >>> number_and_words("1.0"), number_and_words("2=left"), number_and_words("left"), number_and_words("1,2")
    (('1', ''), ('2', '=left'), (None, 'left'), ('', ''))
    """
    value = value.strip()
    if whole := WHOLE.fullmatch(value):
        value = whole[1]
    if not (found := LEADING_DIGIT.fullmatch(value)):
        return None, value
    return ("", "") if holds_several(value, NUMBERS) else (found[1], found[2] or "")


def agreed(meant: str | None, said: str | None) -> str | None:
    """What a number means, unless the words behind it say another: whose numbers these are nobody knows (1=left)."""
    return meant if said in (None, meant) else None


def side_of_words(words: str) -> str | None:
    told = SIDES.get(words) or next((side for text, side in SIDE_TEXTS.items() if words.startswith(text)), None)
    return told or side_in(words.split("_"))


def side_in(words: Sequence[str]) -> str | None:
    """The side that the first word says, unless later ones say another; none where it says nothing.

    >>> side_in(["left", "breast"]), side_in(["unilateral", "left"]), side_in(["left", "and", "right"])
    ('left', 'left', None)
    """
    first = SIDES.get(words[0]) if len(words[0]) > 1 else None
    others = {SIDES[word] for word in words[1:] if len(word) > 1 and word in SIDES} - {first, *VAGUE}
    if first in VAGUE and len(others) == 1:
        return others.pop()
    return None if others else first


VAGUE = ("not_paired", "one_side", "paired_unknown")  # sides that a later word may say more exactly, or not contradict


def words_of(value: str) -> str:
    return re.sub(r"[\W_]+", "_", value.lower()).strip("_")


def topography_codes(value: str) -> Codes:
    found = read_topography(value)
    if not found:
        return Codes({}, True)
    site, subsite = found
    labels = {"site": site} | ({"subsite": subsite} if subsite else {})
    known = site in known_sites() and (subsite is None or subsite in code_lists().names)
    return Codes(labels, not known)


def morphology_codes(value: str) -> Codes:
    found = read_morphology(value)
    if not found:
        return Codes({}, True)
    histology, behavior = found
    labels = {"histology": histology} | ({"behavior": behavior} if behavior else {})
    return Codes(labels, histology not in known_histologies() or (behavior or "3") not in BEHAVIORS)


def behavior_codes(value: str) -> Codes:
    behavior = read_behavior(value)
    return Codes({"behavior": behavior} if behavior else {}, not behavior)


def laterality_codes(value: str) -> Codes:
    side = read_laterality(value)
    return Codes({"laterality": side} if side else {}, not side)


READERS: Mapping[str, Callable[[str], Codes]] = {
    "site": topography_codes,
    "subsite": topography_codes,
    "histology": morphology_codes,
    "behavior": behavior_codes,
    "laterality": laterality_codes,
}


def unknown_codes(task: str, counts: Mapping[str, int]) -> UnknownCodes:
    """The unknown values of a task as a result may show them."""
    shown = {value: count for value, count in counts.items() if SHOWABLE.fullmatch(value.strip())}
    first = sorted(shown, key=lambda value: (-shown[value], value))[:LISTED]
    return UnknownCodes(
        task=task,
        reports=sum(counts.values()),
        codes={value: shown[value] for value in first},
        no_codes=sum(counts.values()) - sum(shown.values()),
    )


def check_labels(counts: Mapping[str, Mapping[str, int]]) -> tuple[list[UnknownCodes], dict[str, int]]:
    """Of the labels of each task, from each label's count, those that are no code, and how many are written otherwise
    than here.

    >>> unknown, otherwise = check_labels({"subsite": {"C50.4": 7, "C504": 2, "C99.9": 1}})
    >>> unknown[0].codes, otherwise
    ({'C99.9': 1}, {'subsite': 2})
    """
    unknown, otherwise = [], {}
    for task, reader in READERS.items():
        read = {label: reader(label) for label in counts.get(task, {})}
        strange = {
            label: counts[task][label] for label, codes in read.items() if codes.unknown or not codes.labels.get(task)
        }
        if strange:
            unknown.append(unknown_codes(task, strange))
        other = {label for label, codes in read.items() if codes.labels.get(task, label) != label} - strange.keys()
        if other:
            otherwise[task] = sum(counts[task][label] for label in other)
    return unknown, otherwise


def shown_label(task: str, label: str) -> str:
    """A label as a page may show it: one of a task with codes that looks like none may be anything, such as a name.

    >>> shown_label("site", "Quastenflosser"), shown_label("laterality", "Right"), shown_label("stage", "early")
    ('what looks like no code', 'right', 'early')
    """
    codes = READERS[task](label) if task in READERS else None
    if codes is None or SHOWABLE.fullmatch(label.strip()):
        return label
    return "what looks like no code" if codes.unknown else codes.labels.get(task, "what looks like no code")


def tasks_of_another_form(labels: Mapping[str, Iterable[str]]) -> list[str]:
    """The tasks with labels that are codes and written otherwise than here.

    >>> tasks_of_another_form({"site": ["C50", "breast"], "subsite": ["C504"], "laterality": ["R", "left"]})
    ['subsite', 'laterality']
    """

    def is_otherwise(task: str, label: str) -> bool:
        return READERS[task](label).labels.get(task, label) != label

    return [task for task, some in labels.items() if task in READERS and any(is_otherwise(task, one) for one in some)]


def is_another_form(task: str, label: str, known: Collection[str]) -> bool:
    """Whether a label is one of those known, written otherwise.

    >>> [is_another_form("subsite", label, ("C50.4",)) for label in ("C504", "C50.4", "C509")]
    [True, False, False]
    """
    return label not in known and task in READERS and READERS[task](label).labels.get(task) in known


def is_implausible(subsite: str, histology: str, behavior: str | None = None) -> bool:
    """Whether SEER's list has other morphologies for a subsite; of what it does not know, nothing is said.

    >>> is_implausible("C50.4", "8500", "3"), is_implausible("C61.9", "8500", "3"), is_implausible("C61.9", "9440", "3")
    (False, False, True)
    """
    plausible = plausible_at(subsite)
    if not plausible or histology not in known_histologies():
        return False
    return (f"{histology}/{behavior}" if behavior else histology) not in plausible


@cache
def plausible_at(subsite: str) -> frozenset[str]:
    """The morphologies that SEER lists at a subsite, with their behavior and without."""
    morphologies = code_lists().plausible.get(subsite, [])
    return frozenset(morphologies) | {morphology[:4] for morphology in morphologies}


def contradicts_pair(subsite: str, laterality: str) -> bool:
    """Whether a side is said of what is not one of a pair, or none of what is.

    >>> contradicts_pair("C50.4", "left"), contradicts_pair("C61.9", "left"), contradicts_pair("C50.4", "not_paired")
    (False, True, True)
    """
    if subsite not in code_lists().names:
        return False
    if subsite in code_lists().paired:
        return laterality == "not_paired"
    return laterality in ("left", "right", "bilateral", "one_side", "paired_unknown")
