"""Find ICD-O-3's term of a code, and contradictions between the codes of one report.

Three rules: a subsite lies in its site, a histology (with its behavior) is one that SEER's site/type list has for the
place, and a side belongs to one of a pair. Codes and tasks that ICD-O-3 does not have break none.

>>> find_term("site", "C50"), find_term("subsite", "C50.4"), find_term("histology", "8500")
('breast', 'upper-outer quadrant of breast', 'infiltrating duct carcinoma')
>>> find_term("histology", "8500", behavior="2")
'ductal carcinoma in situ'
>>> codes = {"site": "C61", "subsite": "C61.9", "laterality": "left", "histology": "9440", "behavior": "3"}
>>> for one in find_contradictions(codes):
...     print(one.sentence)
histology 9440/3 (glioblastoma) is not one that SEER lists for C61.9 (prostate gland)
laterality left is a side, and C61.9 (prostate gland) is not one of a pair
"""

from collections.abc import Mapping
from functools import cache, lru_cache

from pathveil.icdo.codes import known_histologies
from pathveil.icdo.lists import BEHAVIORS, LATERALITIES, code_lists, lines
from pathveil.results import Part

USUAL_BEHAVIORS = ("3", "2", "1", "0")  # of a histology alone, the term of the first of these that there is


class Contradiction(Part):
    """Codes of one report that cannot all be right."""

    tasks: tuple[str, ...]  # site and subsite; place and histology, with behavior; place and laterality
    codes: tuple[str, ...]  # of these tasks
    sentence: str


@lru_cache(maxsize=1)
def morphology_terms() -> dict[str, str]:
    """Read the usual term of every morphology, 8500/3."""
    usual = {code: terms[0] for code, terms in code_lists().terms.items()}
    return usual | {code: term for code, _, term in (line.partition(" ") for line in lines("other_morphology.txt"))}


@lru_cache(maxsize=1)
def topography_terms() -> dict[str, str]:
    """Read the usual term of every site and subsite."""
    return {code: term for code, _, term in (line.partition(" ") for line in lines("topography_terms.txt"))}


@cache
def find_term(task: str, code: str, behavior: str | None = None) -> str:
    """Find ICD-O-3's term for a code of a task; return "" without one.

    A histology that has no term with this behavior gets the one of its usual behavior.
    """
    if task in ("site", "subsite"):
        return topography_terms().get(code, "") if (len(code) == 3) == (task == "site") else ""
    if task == "histology":
        terms, wanted = morphology_terms(), [behavior] if behavior else []
        return next((terms[one] for one in (f"{code}/{b}" for b in (*wanted, *USUAL_BEHAVIORS)) if one in terms), "")
    labels = {"behavior": BEHAVIORS, "laterality": LATERALITIES}.get(task, {})
    return labels[code].term if code in labels else ""


def find_contradictions(codes: Mapping[str, str]) -> tuple[Contradiction, ...]:
    """Find the contradictions between the codes of one report, given by task."""
    site, subsite = codes.get("site"), codes.get("subsite")
    histology, behavior, laterality = codes.get("histology"), codes.get("behavior"), codes.get("laterality")
    place_task, place = ("subsite", subsite) if subsite else ("site", site)
    contradictions = []
    if site and subsite and is_outside(site, subsite):
        sentence = f"subsite {with_term('subsite', subsite)} does not lie in site {with_term('site', site)}"
        contradictions.append(Contradiction(tasks=("site", "subsite"), codes=(site, subsite), sentence=sentence))
    if place and histology and is_implausible_at(place, histology, behavior):
        pairs = [(place_task, place), ("histology", histology), *([("behavior", behavior)] if behavior else [])]
        tasks, values = zip(*pairs, strict=True)
        sentence = f"histology {with_term('histology', histology, behavior)} is not one that SEER lists for "
        sentence += with_term(place_task, place)
        contradictions.append(Contradiction(tasks=tasks, codes=values, sentence=sentence))
    if place and laterality and contradicts_pair_at(place, laterality):
        sentence = (
            f"laterality not_paired, and {with_term(place_task, place)} is one of a pair"
            if laterality == "not_paired"
            else f"laterality {laterality} is a side, and {with_term(place_task, place)} is not one of a pair"
        )
        tasks, values = (place_task, "laterality"), (place, laterality)
        contradictions.append(Contradiction(tasks=tasks, codes=values, sentence=sentence))
    return tuple(contradictions)


def with_term(task: str, code: str, behavior: str | None = None) -> str:
    """Write a code with its term: C50.4 (upper-outer quadrant of breast)."""
    term = find_term(task, code, behavior)
    whole = f"{code}/{behavior}" if behavior else code
    return f"{whole} ({term})" if term else whole


def is_outside(site: str, subsite: str) -> bool:
    """Return true if a subsite lies in another site; labels that are no topography lie anywhere.

    >>> is_outside("C50", "C50.4"), is_outside("C50", "C61.9"), is_outside("left", "C61.9")
    (False, True, False)
    """
    return bool(find_subsites(site)) and bool(find_subsites(subsite)) and subsite[:3] != site


@cache
def find_subsites(place: str) -> tuple[str, ...]:
    """List the subsites of a site, or a subsite itself; none for another label."""
    names = code_lists().names
    return (place,) if place in names else tuple(one for one in names if len(place) == 3 and one.startswith(place))


def is_implausible(subsite: str, histology: str, behavior: str | None = None) -> bool:
    """Return true if SEER's list has other morphologies for a subsite; what it does not know is plausible.

    >>> is_implausible("C50.4", "8500", "3"), is_implausible("C61.9", "8500", "3"), is_implausible("C61.9", "9440", "3")
    (False, False, True)
    """
    plausible = plausible_at(subsite)
    if not plausible or histology not in known_histologies():
        return False
    return (f"{histology}/{behavior}" if behavior else histology) not in plausible


@cache
def plausible_at(subsite: str) -> frozenset[str]:
    """List SEER's morphologies at a subsite, with their behavior and without."""
    morphologies = code_lists().plausible.get(subsite, [])
    return frozenset(morphologies) | {morphology[:4] for morphology in morphologies}


def contradicts_pair(subsite: str, laterality: str) -> bool:
    """Return true if a side belongs to a subsite that is not one of a pair, or none to one that is.

    >>> contradicts_pair("C50.4", "left"), contradicts_pair("C61.9", "left"), contradicts_pair("C50.4", "not_paired")
    (False, True, True)
    """
    if subsite not in code_lists().names:
        return False
    if subsite in code_lists().paired:
        return laterality == "not_paired"
    return laterality in ("left", "right", "bilateral", "one_side", "paired_unknown")


@cache
def is_implausible_at(place: str, histology: str, behavior: str | None = None) -> bool:
    """Return true if SEER lists a morphology neither for the subsite nor, of a site, for any of its subsites.

    SEER lists what registries collect, in situ and invasive; of other behaviors the histology alone is looked at.
    """
    where, listed = find_subsites(place), behavior if behavior in ("2", "3") else None
    return bool(where) and all(is_implausible(subsite, histology, listed) for subsite in where)


@cache
def contradicts_pair_at(place: str, laterality: str) -> bool:
    """Return true if a side contradicts the subsite or, of a site, every one of its subsites."""
    where = find_subsites(place)
    return bool(where) and all(contradicts_pair(subsite, laterality) for subsite in where)
