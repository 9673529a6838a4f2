"""A search over ICD-O-3's codes and terms, for a person who types a few letters, or a code as registrars write it.

>>> [hit.code for hit in search("subsite", "c504")], search("subsite", "upper outer breast")[0].code
(['C50.4'], 'C50.4')
>>> search("histology", "8500")[0].term, search("histology", "dcis")[0].synonym, search("histology", "85002")[0].synonym
('infiltrating duct carcinoma', 'DCIS', 'ductal carcinoma in situ')
>>> search("site", "c5", counts={"C56": 3, "C50": 9})[0].code, search("site", "", counts={"C56": 3, "C50": 9})[1].code
('C50', 'C56')
>>> search("histology", "clear cell carcinoma of Zurich", most=1)
[Hit(code='8310', term='clear cell carcinoma', synonym='', is_near=True)]
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from functools import cache, lru_cache
from typing import NamedTuple

from pathveil.icdo.codes import parse_laterality
from pathveil.icdo.combinations import find_term, morphology_terms, topography_terms
from pathveil.icdo.lists import BEHAVIORS, LATERALITIES, code_lists, lines

PLACES = ("site", "subsite")
MORE_DIGITS = {"site": 1, "histology": 2}  # that a code may have behind it: a subsite's; a behavior and a grade
WEAK = frozenset({"nos", "of", "the"})  # words that tell no two codes apart
# How a name fits a query: it has the same words, words that begin so, or the query's letters within its words.
SAME, BEGINS, WITHIN = 0, 1, 2

Words = tuple[str, ...]
Frequency = Callable[[str], tuple[float, float, str]]  # of a code, by which codes are sorted


class Term(NamedTuple):
    """A code, its usual term, every name it goes by, the usual one first, and the terms of its behaviors among them."""

    code: str
    term: str
    names: tuple[str, ...]
    terms: frozenset[str]


class Hit(NamedTuple):
    """A code that was found."""

    code: str
    term: str
    synonym: str = ""  # by which it was found, if not by its term
    is_near: bool = False  # no name of any code has all words of the query


@cache
def terms(task: str) -> dict[str, Term]:
    """The codes of a task by ICD-O-3; none for a task that is not one of it."""
    lists, more = code_lists(), search_names()
    names: dict[str, list[str]] = {}
    if task in PLACES:
        for code, term in topography_terms().items():
            if task == "site" or len(code) > 3:
                synonyms = [*lists.names.get(code, ()), *more.get(code, ())]
                names.setdefault(code[:3] if task == "site" else code, []).extend([term, *synonyms])
    elif task == "histology":
        for code, term in morphology_terms().items():
            names.setdefault(code[:4], []).extend([*lists.terms.get(code, ()), term, *more.get(code, ())])
    elif task == "laterality":
        names = {
            side: [word.replace("_", " ") for word in (one.digit, *one.words)] for side, one in LATERALITIES.items()
        }
    elif task == "behavior":
        names = {code: [] for code in BEHAVIORS}
    by_code = {}
    for code, others in names.items():
        usual_term = find_term(task, code)
        of_behaviors = {find_term(task, code, behavior) for behavior in BEHAVIORS}
        by_code[code] = Term(code, usual_term, tuple(dict.fromkeys((usual_term, *others))), frozenset(of_behaviors))
    return by_code


@cache
def search_names() -> dict[str, list[str]]:
    """More names, by subsite and morphology."""
    pairs = (line.partition(" ") for line in lines("search_names.txt"))
    return {code: names.split("; ") for code, _, names in pairs}


@cache
def usual(task: str) -> Counter[str]:
    """How frequent codes are in a western population."""
    weights: Counter[str] = Counter()
    for site in code_lists().sites.values():
        parts = {"site": {site.code: 1.0}, "subsite": site.subsites, "histology": site.morphologies}.get(task, {})
        for code, share in parts.items():
            weights[code.partition("/")[0]] += site.weight * share / sum(parts.values())
    return weights


def search(task: str, query: str, *, counts: Mapping[str, float] | None = None, most: int = 12) -> list[Hit]:
    """Codes that begin as the query does; then those whose term is the query, or a synonym, or has its words; in each
    the more frequent first. Where no name has all its words, those that have most; without any, the most frequent."""
    counts, query_words = counts or {}, words_of(query)
    if not query.strip():
        frequent = sorted((code for code in terms(task) if counts.get(code)), key=lambda code: -counts[code])
        return [Hit(code, terms(task)[code].term) for code in frequent[:most]]

    def frequency(code: str) -> tuple[float, float, str]:
        return -counts.get(code, 0), -usual(task)[code], code

    ranked = []
    for one in terms(task).values():
        if is_code(task, one.code, query):
            ranked.append(((-1, *frequency(one.code)), Hit(one.code, one.term, term_as_typed(task, one, query))))
        elif fits := [(*fit, name) for name in one.names if (fit := fit_of(name, query_words, terms=one.terms))]:
            *fit, name = min(fits, key=lambda fit: fit[:3])
            is_inside = not any(starts(words_of(name), query_words) for name in one.names)
            hit = Hit(one.code, one.term, name if name != one.term else "")
            ranked.append(((*fit, is_inside, *frequency(one.code)), hit))
    if not ranked and not digits_of(task, query):
        ranked = nearest(task, query_words, frequency)
    return [hit for _, hit in sorted(ranked)[:most]]


def fit_of(name: str, query_words: Words, *, terms: Collection[str]) -> tuple[int, bool, bool] | None:
    """How well a name fits, the less the better: by what it has of the query, as a synonym, and by parts of words."""
    words, is_synonym = words_of(name), name not in terms
    if not query_words:
        return None
    if words == query_words:
        return SAME, is_synonym, False
    if all(has(words, one) for one in query_words):
        return BEGINS, is_synonym, not set(query_words) <= set(words)
    return (WITHIN, is_synonym, True) if all(one in name.lower() for one in query_words) else None


def starts(words: Words, query_words: Words) -> bool:
    return len(words) >= len(query_words) and all(map(str.startswith, words, query_words))


def nearest(task: str, query_words: Words, frequency: Frequency) -> list[tuple[tuple, Hit]]:
    """Codes one of whose names has half of the words or more; rare words weigh more."""
    names = [(one, name, words_of(name)) for one in terms(task).values() for name in one.names]
    number = {word: sum(has(words, word) for _, _, words in names) for word in query_words}
    best: dict[str, tuple[tuple, Hit]] = {}
    for one, name, words in names:
        common = [word for word in query_words if has(words, word)]
        if common and 2 * len(common) >= len(query_words):
            key = (-sum(1 / number[word] for word in common), len(words), *frequency(one.code))
            hit = Hit(one.code, one.term, name if name != one.term else "", is_near=True)
            best[one.code] = min(best.get(one.code, (key, hit)), (key, hit))
    return list(best.values())


def has(words: Words, beginning: str) -> bool:
    return any(word.startswith(beginning) for word in words)


@lru_cache(maxsize=20_000)
def words_of(text: str) -> Words:
    return tuple(word for word in re.findall(r"[^\W_]+", text.lower()) if word not in WEAK)


def digits_of(task: str, text: str) -> str:
    """The digits of a code or of its beginning: 509 of c50.9, 50.9 and C509, 85003 of 8500/3; none of other texts."""
    squeezed = re.sub(r"[\s.,/]", "", text.lower())
    squeezed = squeezed.removeprefix("c") if task in PLACES else squeezed
    return squeezed if re.fullmatch("[0-9]+", squeezed) else ""


def is_code(task: str, code: str, text: str, *, whole: bool = False) -> bool:
    """Whether somebody types this code, or has typed the ``whole`` of it."""
    digits, all_digits = digits_of(task, text), digits_of(task, code)
    if not digits or not all_digits or len(digits) > len(all_digits) + MORE_DIGITS.get(task, 0):
        return False
    return digits.startswith(all_digits) or (all_digits.startswith(digits) and not whole)


def code_of(task: str, text: str) -> str:
    """The code that was typed, in any form that registrars write; empty where it is none.

    >>> code_of("site", "c259"), code_of("subsite", "50.9"), code_of("histology", "8500/2"), code_of("laterality", "2")
    ('C25', 'C50.9', '8500', 'left')
    """
    if task == "laterality":
        return parse_laterality(text) or ""
    return next((code for code in terms(task) if is_code(task, code, text, whole=True)), "")


def term_as_typed(task: str, one: Term, text: str) -> str:
    """The term with the behavior that was typed, if it is another than the usual one."""
    behavior = digits_of(task, text)[4:5] if task == "histology" else ""
    term = find_term(task, one.code, behavior) if behavior else one.term
    return term if term != one.term else ""
