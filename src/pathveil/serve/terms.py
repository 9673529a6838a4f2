"""A search over ICD-O-3's codes and terms, for a person who types a few letters.

>>> [found.code for found in search("subsite", "c504")], search("subsite", "upper outer breast")[0].code
(['C50.4'], 'C50.4')
>>> search("histology", "8500")[0].term
'infiltrating duct carcinoma'
>>> search("site", "c5", counts={"C56": 3, "C50": 9})[0].code, search("site", "", counts={"C56": 3, "C50": 9})[1].code
('C50', 'C56')
"""

from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from pathveil.corpus.combinations import BEHAVIORS, LATERALITIES, morphology_terms, term_of, topography_terms
from pathveil.corpus.synth.codes import code_lists


class Term(NamedTuple):
    """A code, its usual term, and every name it goes by."""

    code: str
    term: str
    names: str


@cache
def terms(task: str) -> dict[str, Term]:
    """The codes of a task by ICD-O-3; none for a task that is not one of it."""
    lists = code_lists()
    names: dict[str, list[str]] = {}
    if task in ("site", "subsite"):
        for code in topography_terms():
            if (len(code) == 3) == (task == "site"):
                names[code] = list(lists.names.get(code, ()))
    elif task == "histology":
        for morphology in morphology_terms():
            own = [*lists.terms.get(morphology, ()), morphology_terms()[morphology]]
            names.setdefault(morphology[:4], []).extend(own)
    else:
        names = {code: [] for code in {"behavior": BEHAVIORS, "laterality": LATERALITIES}.get(task, {})}
    return {
        code: Term(code, term_of(task, code), "; ".join([term_of(task, code), *own])) for code, own in names.items()
    }


def search(task: str, query: str, *, counts: Mapping[str, float] | None = None, most: int = 12) -> list[Term]:
    """Codes that begin as the query does, then those whose names hold all its words, each by how frequent they are;
    without a query, the most frequent ones."""
    wanted, counts = query.strip().lower(), counts or {}
    if not wanted:
        frequent = sorted((code for code in terms(task) if counts.get(code)), key=lambda code: -counts[code])
        return [terms(task)[code] for code in frequent[:most]]
    squeezed, words = wanted.replace(".", "").replace("/", ""), wanted.split()
    found = []
    for one in terms(task).values():
        by_code = one.code.lower().replace(".", "").startswith(squeezed)
        if by_code or all(word in one.names.lower() for word in words):
            in_term = all(word in one.term.lower() for word in words)
            found.append(((not by_code, -counts.get(one.code, 0), not in_term, len(one.term), one.code), one))
    return [one for _, one in sorted(found)[:most]]
