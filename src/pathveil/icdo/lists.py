"""ICD-O-3's codes with their terms, which of them go together, and how common they usually are.

Topography and morphology are ICD-O-3's codes with their terms; which morphology is plausible at which site follows
SEER's site/histology validation list (2015); how common each is follows, roughly, the incidence in a western
population (``data/mix.txt``).

>>> lists = code_lists()
>>> lists.terms["8500/2"][0], "C50.4" in lists.paired, "8500/3" in lists.plausible["C50.4"]
('ductal carcinoma in situ', True, True)
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from pathveil import resources


def lines(name: str) -> list[str]:
    """The lines of a code list."""
    return resources.lines("icdo", name)


@dataclass(frozen=True)
class Site:
    """One line of the mix."""

    code: str
    chapter: str  # of organs.txt
    weight: float
    female: int  # per cent
    age: int
    subsites: Mapping[str, float]
    morphologies: Mapping[str, float]


class CodeLists(NamedTuple):
    """Everything the word lists say about codes."""

    sites: dict[str, Site]
    names: dict[str, list[str]]  # of subsites
    terms: dict[str, list[str]]  # of morphologies
    paired: frozenset[str]  # subsites
    plausible: dict[str, list[str]]  # subsite: its morphologies


@lru_cache(maxsize=1)
def code_lists() -> CodeLists:
    terms = {}
    for line in lines("morphology.txt"):
        code, _, rest = line.partition(" ")
        terms[code] = rest.split("; ")
    names, paired = {}, set()
    for line in lines("topography.txt"):
        code, _, rest = line.partition(" ")
        if rest.startswith("= "):
            paired.add(code)
        names[code] = rest.removeprefix("= ").split("; ")
    plausible = read_plausible(names, list(terms))
    sites = {}
    for line in lines("mix.txt"):
        head, subsites, morphologies = (part.split() for part in line.split(" | "))
        code, chapter, weight, female, age = head
        own = {subsite: 1.0 for subsite in names if subsite.startswith(code)}
        own |= {f"{code}.{pair[0]}": float(pair[2:]) for pair in subsites}
        mix = {pair.partition(":")[0]: float(pair.partition(":")[2]) for pair in morphologies}
        sites[code] = Site(code, chapter, float(weight), int(female), int(age), own, mix)
        # SEER's list is silent on a few that do occur (serous carcinoma of the fallopian tube): the mix may add them.
        known = {found for subsite in own for found in plausible[subsite]}
        for subsite in own:
            plausible[subsite] = sorted({*plausible[subsite], *(found for found in mix if found not in known)})
    return CodeLists(sites, names, terms, frozenset(paired), plausible)


def read_plausible(subsites: Container[str], morphologies: list[str]) -> dict[str, list[str]]:
    """The plausible morphologies of each subsite; both stand in the file as ranges of codes."""
    at = {code: number for number, code in enumerate(morphologies)}
    plausible: dict[str, list[str]] = {}
    for line in lines("plausible.txt"):
        group, _, rest = line.partition(": ")
        codes: list[str] = []
        for run in rest.split():
            first, _, last = run.partition("-")
            codes += morphologies[at[first] : at[last or first] + 1]
        for span in group.split(","):
            first, _, last = span.partition("-")
            for number in range(int(first), int(last or first) + 1):
                subsite = f"C{number // 10:02d}.{number % 10}"
                if subsite in subsites:
                    plausible[subsite] = codes
    return plausible
