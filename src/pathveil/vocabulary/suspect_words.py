r"""Find words that look like people: names, addresses, e-mail, record numbers, dates, misspellings.

No list of names is used. A word is suspected of a kind if most of its occurrences are where that kind occurs in
reports: after "Dr." or before "M.D.", between a house number and "Street", in an e-mail address, after "MRN". The words
that announce such places ("Dr", "Street") do not count. Identifiers are known by their shape as well, misspellings by a
common word one letter away. What this finds of planted information, and what it wrongly suspects, is measured in
docs/vocabulary.md: it is a pointer to what a person should look at, not a guarantee.

>>> import polars as pl
>>> texts = pl.Series(["Read by Dr. Anna Kowalski. Carcinoma.", "Mr. Smith, 12 Mill Lane.\n  Carcinoma of colon."])
>>> places = count_places(texts)
>>> {kind: sorted(words) for kind, words in places.items() if words}
{'address': ['12', 'mill'], 'name': ['anna', 'kowalski', 'smith']}
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from pathveil.text.bulk import BulkTokenizer, Numbers
from pathveil.text.tokenizer import DECIMAL, LARGE_INTEGER

if TYPE_CHECKING:
    import polars as pl

MOST = 0.5  # the share of its occurrences that must be in such places
KINDS = ("contact", "address", "name", "record number", "date", "misspelling")  # the first that fits is taken

_CAPITAL, _WITHIN = r"\p{Lu}\p{M}*", r"\p{L}\p{M}'’\-"  # of any alphabet, accents apart or not
_NAME = rf"{_CAPITAL}[{_WITHIN}]+"
_INITIAL = rf"(?:{_CAPITAL}\.?\s+)?"
_MONTH = r"(?i:jan|feb|mar|apr|may|jun|jul|aug|sept?|oct|nov|dec)[a-z]*\.?"
_STREET = r"(?:Street|St|Avenue|Ave|Road|Rd|Lane|Drive|Boulevard|Blvd|Court|Terrace|Way|Highway|Hwy|Place|Square|Close)"
_ROLE = r"(?i:name|patient|pt|physician|pathologist|surgeon|consultant|attending|resident|provider|doctor|cc|copy to)"
_BY = (
    r"(?i:(?:signed|dictated|reviewed|read|referred|requested|ordered|authori[sz]ed|discussed|reported|performed|called)"
    r"(?: out)? (?:by|with|to)|wife|husband|son|daughter|sister|brother|mother|father|spouse|next of kin)"
)
# Read by Rust's regular expressions: no look-around, one pass, all cores.
PATTERNS = {
    "contact": r"[\w.+\-]+@[\w\-]+(?:\.[\w\-]+)+|\(?\d{3}\)?[ .\-]\d{3}[ .\-]\d{4}|(?:https?://|www\.)\S+",
    "address": rf"\d{{1,6}}\s+(?:{_CAPITAL}[{_WITHIN}.]*\s+){{1,3}}{_STREET}\b\.?(?:,? {_NAME})?",
    "name": rf"\b(?:Dr|DR|Mr|MR|Mrs|MRS|Ms|MS|Miss|Prof|Drs)\.?\s+{_INITIAL}{_NAME}(?:\s+{_INITIAL}{_NAME})?"
    rf"|{_NAME},?\s+{_INITIAL}(?:{_NAME},?\s+)?(?:M\.?D|D\.?O|MBBS|Ph\.?D|FCAP|FRCPath)\b"
    rf"|\b(?:{_ROLE}\s*:|{_BY}:?)\s*{_INITIAL}{_NAME},?\s+{_INITIAL}{_NAME}"
    rf"|\"{_NAME}, {_NAME}\"",
    "record number": r"(?i:\b(?:mrn|accession|acc|record|chart|account|acct|case|specimen|ref|hosp(?:ital)?|unit|lab)"
    r"\.?\s*(?:no|number|num|id)?\.?\s*[:#]?\s*)[A-Za-z]{0,4}\-?\d[\w\-]{3,}",
    "date": rf"\b\d{{1,2}}[/.\-]\d{{1,2}}[/.\-]\d{{2,4}}\b|\b\d{{1,2}}(?:st|nd|rd|th)?[ \-]{_MONTH}[ ,\-]+\d{{2,4}}\b"
    rf"|\b{_MONTH} \d{{1,2}},? \d{{4}}\b",
}
# Words that announce a place rather than fill it.
_CUES = set(
    "dr drs mr mrs ms miss prof md m.d d.o do mbbs phd ph.d fcap frcpath patient name pt physician pathologist surgeon "
    "consultant attending resident provider doctor signed dictated reviewed read referred requested ordered authorised "
    "authorized discussed reported performed called by with out to cc copy wife husband son daughter sister brother "
    "mother father spouse next of kin street st avenue ave road rd lane drive boulevard blvd court "
    "terrace way highway hwy place square close mrn accession acc record chart account acct case specimen ref hosp "
    "hospital unit lab no number num id http https www com org net edu gov s".split()
) | {DECIMAL, LARGE_INTEGER}
# Letters with four digits in a row (no morphology code), or eight characters that change to and fro (no stage).
_IDENTIFIER = re.compile(r"^(?!m[89]\d{3}/)(?:(?=.*[a-z])(?=.*\d{4})|(?=.{8})[a-z-]*\d+[a-z-]+\d+[a-z-]+\d)")


def count_places(texts: "pl.Series") -> dict[str, Counter[str]]:
    """Count how often each word is in a place of each kind."""
    places = {}
    for kind, pattern in PATTERNS.items():
        matches = texts.str.extract_all(pattern).explode().drop_nulls().to_list()
        numbers = Numbers()
        ids, _ = BulkTokenizer(numbers.__getitem__, words=1 << 30).add(matches)
        counted = np.bincount(ids, minlength=len(numbers))
        words = {word: int(counted[number]) for word, number in numbers.items()}
        places[kind] = Counter({word: number for word, number in words.items() if word not in _CUES})
    return places


def suspects(
    words: Sequence[str], occurrences: np.ndarray, cases: np.ndarray, places: Mapping[str, Counter[str]]
) -> dict[str, str]:
    """Find words that look like people, each with its kind."""
    kinds: dict[str, str] = {}
    for word, times in zip(words, occurrences.tolist(), strict=True):
        for kind in PATTERNS:
            if places[kind][word] >= MOST * times and not word.isdecimal():
                kinds.setdefault(word, kind)
        if word not in kinds and _IDENTIFIER.search(word):
            kinds[word] = "record number"
    for word in misspellings(words, cases):
        kinds.setdefault(word, "misspelling")
    return kinds


def misspellings(words: Sequence[str], cases: np.ndarray, *, common: int = 50, rare: int = 10) -> set[str]:
    """Find words of fewer than ``rare`` cases that are one slip away from a word of ``common`` cases or more.

    >>> sorted(misspellings(["carcinoma", "carcinmoa", "carcnoma", "colon", "kowalski"], np.array([90, 1, 2, 80, 1])))
    ['carcinmoa', 'carcnoma']
    """
    plain = [(word, n) for word, n in zip(words, cases.tolist(), strict=True) if word.isalpha() and len(word) > 5]
    # Words are one slip apart (a letter missing, added, changed, or two swapped) only if dropping a letter from each,
    # or from one of them, can make them equal; a shared spelling with a letter dropped is then checked exactly.
    shortened: dict[str, list[str]] = {}
    for word, n in plain:
        if n >= common:
            for spelling in _dropped(word):
                shortened.setdefault(spelling, []).append(word)
    return {
        word
        for word, n in plain
        if n < rare
        and any(_one_slip(word, other) for spelling in _dropped(word) for other in shortened.get(spelling, ()))
    }


def _dropped(word: str) -> set[str]:
    """List a word's spellings with at most one letter missing."""
    return {word, *(word[:place] + word[place + 1 :] for place in range(len(word)))}


def _one_slip(one: str, other: str) -> bool:
    """Return true if a letter is missing, added or changed, or two are swapped."""
    if len(one) > len(other):
        one, other = other, one
    start = next((place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), len(one))
    if len(one) < len(other):
        return len(other) - len(one) == 1 and one[start:] == other[start + 1 :]
    return one[start + 1 :] == other[start + 1 :] or (
        one[start : start + 2] == other[start : start + 2][::-1] and one[start + 2 :] == other[start + 2 :]
    )
