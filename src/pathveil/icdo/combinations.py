"""What codes mean, and which of them go together: ICD-O-3's terms, and contradictions between the tasks of one report.

Three things can contradict each other: a subsite lies in its site, a histology (with its behavior) is one that SEER's
site/type list has for the place, and a side belongs to one of a pair. Of codes that ICD-O-3 does not have, and of tasks
that it does not know, nothing is said.

>>> term_of("site", "C50"), term_of("subsite", "C50.4"), term_of("histology", "8500"), term_of("laterality", "left")
('breast', 'upper-outer quadrant of breast', 'infiltrating duct carcinoma', 'left')
>>> term_of("histology", "8500", behavior="2")
'ductal carcinoma in situ'
>>> codes = {"site": "C61", "subsite": "C61.9", "laterality": "left", "histology": "9440", "behavior": "3"}
>>> for one in contradictions(codes):
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
    """The usual term of every morphology, 8500/3."""
    found = {code: terms[0] for code, terms in code_lists().terms.items()}
    return found | {code: term for code, _, term in (line.partition(" ") for line in lines("other_morphology.txt"))}


@lru_cache(maxsize=1)
def topography_terms() -> dict[str, str]:
    """The usual term of every site and subsite."""
    return {code: term for code, _, term in (line.partition(" ") for line in lines("topography_terms.txt"))}


@cache
def term_of(task: str, code: str, behavior: str | None = None) -> str:
    """ICD-O-3's term for a task's code, of a histology with the behavior where it is known; empty where there is none.

    A histology that has no term with this behavior gets the one of its usual behavior.
    """
    if task in ("site", "subsite"):
        return topography_terms().get(code, "") if (len(code) == 3) == (task == "site") else ""
    if task == "histology":
        terms, wanted = morphology_terms(), [behavior] if behavior else []
        return next((terms[one] for one in (f"{code}/{b}" for b in (*wanted, *USUAL_BEHAVIORS)) if one in terms), "")
    labels = {"behavior": BEHAVIORS, "laterality": LATERALITIES}.get(task, {})
    return labels[code].term if code in labels else ""


def contradictions(codes: Mapping[str, str]) -> tuple[Contradiction, ...]:
    """What the codes of one report, by task, say against each other."""
    site, subsite = codes.get("site"), codes.get("subsite")
    histology, behavior, laterality = codes.get("histology"), codes.get("behavior"), codes.get("laterality")
    place_task = "subsite" if subsite else "site"
    place = subsite or site
    found = []
    if site and subsite and is_outside(site, subsite):
        told = f"subsite {named('subsite', subsite)} does not lie in site {named('site', site)}"
        found.append(Contradiction(tasks=("site", "subsite"), codes=(site, subsite), sentence=told))
    if place and histology and is_implausible_at(place, histology, behavior):
        told = f"histology {named('histology', histology, behavior)} is not one that SEER lists for "
        told += named(place_task, place)
        tasks, what = (place_task, "histology"), (place, histology)
        if behavior:
            tasks, what = (*tasks, "behavior"), (*what, behavior)
        found.append(Contradiction(tasks=tasks, codes=what, sentence=told))
    if place and laterality and contradicts_pair_at(place, laterality):
        told = (
            f"laterality not_paired, and {named(place_task, place)} is one of a pair"
            if laterality == "not_paired"
            else f"laterality {laterality} is a side, and {named(place_task, place)} is not one of a pair"
        )
        found.append(Contradiction(tasks=(place_task, "laterality"), codes=(place, laterality), sentence=told))
    return tuple(found)


def named(task: str, code: str, behavior: str | None = None) -> str:
    """A code with its term: C50.4 (upper-outer quadrant of breast)."""
    term = term_of(task, code, behavior)
    whole = f"{code}/{behavior}" if behavior else code
    return f"{whole} ({term})" if term else whole


def is_outside(site: str, subsite: str) -> bool:
    """Whether a subsite lies in another site; of labels that are no topography, nothing is said.

    >>> is_outside("C50", "C50.4"), is_outside("C50", "C61.9"), is_outside("left", "C61.9")
    (False, True, False)
    """
    return bool(subsites_of(site)) and bool(subsites_of(subsite)) and subsite[:3] != site


@cache
def subsites_of(place: str) -> tuple[str, ...]:
    """A subsite itself, or those of a site; none where it is neither."""
    names = code_lists().names
    return (place,) if place in names else tuple(one for one in names if len(place) == 3 and one.startswith(place))


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


@cache
def is_implausible_at(place: str, histology: str, behavior: str | None = None) -> bool:
    """Whether SEER lists a morphology neither for the subsite, nor, of a site, for any of its subsites.

    SEER lists what registries collect, in situ and invasive; of other behaviors the histology alone is looked at.
    """
    where, listed = subsites_of(place), behavior if behavior in ("2", "3") else None
    return bool(where) and all(is_implausible(subsite, histology, listed) for subsite in where)


@cache
def contradicts_pair_at(place: str, laterality: str) -> bool:
    """Whether a side contradicts the subsite or, of a site, every one of its subsites."""
    where = subsites_of(place)
    return bool(where) and all(contradicts_pair(subsite, laterality) for subsite in where)
