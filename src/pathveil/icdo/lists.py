"""ICD-O-3's codes with their terms, which of them go together, and how common they usually are; NAACCR's lateralities.

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
    """Read the lines of a code list."""
    return resources.lines("icdo", name)


class Label(NamedTuple):
    """A laterality or behavior: its digit in NAACCR's files, its term, and what registries write for it."""

    digit: str  # of NAACCR's items 410 and 523
    term: str
    words: tuple[str, ...]  # letters and words, _ between them
    beginnings: tuple[str, ...] = ()  # of NAACCR's texts of the code


def label(digit: str, term: str, words: str = "", beginnings: str = "") -> Label:
    return Label(digit, term, tuple(words.split()), tuple(beginnings.split()))


# By how common they are. T, U, M and B are the letters of German cancer registries (oBDS).
LATERALITIES = {
    "not_paired": label(
        "0",
        "not a paired site",
        "t not_paired not_a_paired_site not_applicable nicht_paarig entfällt trifft_nicht_zu",
    ),
    "right": label(
        "1", "right", "r re rt right rechts rechte rechter rechtes rechtsseitig droite droit derecha derecho"
    ),
    "left": label("2", "left", "l li lt left links linke linker linkes linksseitig gauche izquierda izquierdo"),
    "paired_unknown": label(
        "9",
        "paired site, side unknown",
        "u paired_unknown unknown unbekannt keine_angabe",
        "paired_site_but_no_information paired_site_no_information",
    ),
    "bilateral": label(
        "4", "both sides", "b bds bilat bilateral both beids beidseits beidseitig beide", "bilateral_involvement"
    ),
    "one_side": label("3", "one side, unknown which", "one_side only_one_side unilateral", "only_one_side"),
    "midline": label("5", "midline", "m midline mittellinie mittig", "paired_site_midline"),
}
BEHAVIORS = {
    one.digit: one
    for one in (
        label("0", "benign", "benign"),
        label(
            "1",
            "uncertain whether benign or malignant",
            "borderline uncertain uncertain_whether_benign_or_malignant borderline_malignancy",
        ),
        label("2", "in situ", "in_situ insitu carcinoma_in_situ non_invasive noninvasive"),
        label("3", "malignant", "malignant invasive malignant_primary_site"),
        label("6", "metastatic", "metastatic malignant_metastatic_site"),
        label("9", "malignant, uncertain whether primary or metastatic"),
    )
}


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
    """Topography and morphology of ICD-O-3."""

    sites: dict[str, Site]
    names: dict[str, list[str]]  # of subsites
    terms: dict[str, list[str]]  # of morphologies
    paired: frozenset[str]  # subsites
    plausible: dict[str, list[str]]  # subsite: its morphologies


@lru_cache(maxsize=1)
def code_lists() -> CodeLists:
    """Read the lists of codes and terms."""
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
        shares = {subsite: 1.0 for subsite in names if subsite.startswith(code)}
        shares |= {f"{code}.{pair[0]}": float(pair[2:]) for pair in subsites}
        mix = {pair.partition(":")[0]: float(pair.partition(":")[2]) for pair in morphologies}
        sites[code] = Site(code, chapter, float(weight), int(female), int(age), shares, mix)
        # SEER's list is silent on a few that do occur (serous carcinoma of the fallopian tube): the mix may add them.
        known = {code for subsite in shares for code in plausible[subsite]}
        for subsite in shares:
            plausible[subsite] = sorted({*plausible[subsite], *(code for code in mix if code not in known)})
    return CodeLists(sites, names, terms, frozenset(paired), plausible)


def read_plausible(subsites: Container[str], morphologies: list[str]) -> dict[str, list[str]]:
    """Read the plausible morphologies of each subsite; the file has both as ranges of codes."""
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
