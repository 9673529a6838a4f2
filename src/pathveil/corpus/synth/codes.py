"""The labels of an invented corpus: as many of ICD-O-3's codes as are asked for, and how common they are.

What the usual mix (``icdo.lists``) does not name shares a long tail, so that rare classes exist and are rare.

>>> classes = select_classes()
>>> len(classes.sites), len(classes.subsites), len(classes.histologies), len(classes.behaviors)
(70, 326, 639, 4)
>>> classes.terms["8500/2"][0]
'ductal carcinoma in situ'
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache, lru_cache
from itertools import accumulate
from zlib import crc32

from pathveil.corpus.synth.grammar import Draw
from pathveil.errors import UsageError
from pathveil.formatting import counted
from pathveil.icdo.lists import LATERALITIES, Site, code_lists
from pathveil.resources import blocks, options

BEHAVIORS = ("3", "2", "0", "1")  # that reports are made with, by how common they are
MOST_SUBSITES = 326  # the papers'; the rarest four of ICD-O-3 are left out unless asked for
TAIL = 8.0  # the share of a site's cases left to morphologies that the mix does not name, where it names 92


@dataclass(frozen=True)
class Classes:
    """The labels in use, with everything a case needs to know about them."""

    sites: tuple[str, ...]
    subsites: tuple[str, ...]
    histologies: tuple[str, ...]
    behaviors: tuple[str, ...]
    lateralities: tuple[str, ...]
    site: Mapping[str, Site]
    subsite_weights: Mapping[str, Mapping[str, float]]  # site: {subsite: weight}
    morphology_weights: Mapping[str, Mapping[str, float]]  # subsite: {morphology: weight}
    names: Mapping[str, Sequence[str]]  # of subsites
    terms: Mapping[str, Sequence[str]]  # of morphologies
    paired: frozenset[str]  # subsites


class WeightedDraw:
    """Draws from weighted things, the same on every machine: whole-number weights, one draw, one bisection."""

    def __init__(self, weights: Mapping[str, float]):
        self.things = tuple(weights)
        self.bounds = list(accumulate(max(1, round(weight * 1_000_000)) for weight in weights.values()))

    def draw(self, draw: Draw) -> str:
        return self.things[bisect_right(self.bounds, int(draw() * self.bounds[-1]))]


def scale_weight(weight: float, rarity: float) -> float:
    """A weight made rarer or commoner: weight to the power of rarity, in decimal so that no libm has a say."""
    return weight if rarity == 1 else float(Decimal(weight) ** Decimal(str(rarity)))


def morphology_weights(site: Site, plausible: Sequence[str]) -> dict[str, float]:
    """The mix of a site where plausible, and a tail over the rest in an order that has no meaning but is fixed."""
    weights = {code: site.morphologies[code] for code in plausible if code in site.morphologies}
    rest = sorted((code for code in plausible if code not in weights), key=lambda code: crc32(code.encode()))
    shares = [1 / (rank + 4) for rank in range(len(rest))]
    total = sum(shares)
    named = sum(weights.values()) or 92.0
    weights |= {code: TAIL * named / 92 * share / total for code, share in zip(rest, shares, strict=True)}
    return weights


def select_classes(
    *,
    sites: int = 70,
    subsites: int | None = None,
    histologies: int | None = None,
    lateralities: int = 7,
    behaviors: int = 4,
    rarity: float = 1.0,
) -> Classes:
    """The most common labels, as many as asked for, such that each one has a plausible partner in every other task."""
    lists = code_lists()
    check_range("sites", sites, 1, len(lists.sites))
    check_range("behaviors", behaviors, 1, len(BEHAVIORS))
    check_range("lateralities", lateralities, 1, len(LATERALITIES))
    kept_sites = sorted(lists.sites, key=lambda code: -lists.sites[code].weight)[:sites]
    weights = {
        subsite: lists.sites[code].weight * share / sum(lists.sites[code].subsites.values())
        for code in kept_sites
        for subsite, share in lists.sites[code].subsites.items()
    }
    subsites = min(MOST_SUBSITES, len(weights)) if subsites is None else subsites
    check_range("subsites", subsites, sites, len(weights))
    kept_subsites = select_subsites(weights, subsites)
    mixes = {}
    for subsite in kept_subsites:
        mix = morphology_weights(lists.sites[subsite[:3]], lists.plausible[subsite])
        mixes[subsite] = {code: weight for code, weight in mix.items() if code[-1] in BEHAVIORS[:behaviors]}
    kept_histologies = select_histologies(mixes, weights, histologies)
    return Classes(
        sites=tuple(sorted(kept_sites)),
        subsites=tuple(sorted(kept_subsites)),
        histologies=tuple(sorted(kept_histologies)),
        behaviors=tuple(sorted(BEHAVIORS[:behaviors])),
        lateralities=tuple(LATERALITIES)[:lateralities],
        site={code: lists.sites[code] for code in sorted(kept_sites)},
        subsite_weights={
            code: {
                subsite: scale_weight(share, rarity)
                for subsite, share in sorted(lists.sites[code].subsites.items())
                if subsite in mixes
            }
            for code in sorted(kept_sites)
        },
        morphology_weights={
            subsite: {
                code: scale_weight(weight, rarity)
                for code, weight in sorted(mix.items())
                if code[:4] in kept_histologies
            }
            for subsite, mix in sorted(mixes.items())
        },
        names=lists.names,
        terms=lists.terms,
        paired=lists.paired,
    )


def select_subsites(weights: Mapping[str, float], number: int) -> list[str]:
    """The most common subsite of each site, then the most common of all."""
    ranked = sorted(weights, key=lambda subsite: (-weights[subsite], subsite))
    first = {subsite[:3]: subsite for subsite in reversed(ranked)}
    return (list(first.values()) + [subsite for subsite in ranked if subsite not in first.values()])[:number]


def select_histologies(
    mixes: Mapping[str, Mapping[str, float]], weights: Mapping[str, float], number: int | None
) -> set[str]:
    """One histology at least for every subsite, then the most common; all of them where no number is given."""
    overall: dict[str, float] = {}
    for subsite, mix in mixes.items():
        total = sum(mix.values())
        for code, weight in mix.items():
            overall[code[:4]] = overall.get(code[:4], 0.0) + weights[subsite] * weight / total
    kept: set[str] = set()
    for mix in mixes.values():
        if not any(code[:4] in kept for code in mix):
            kept.add(max(mix, key=lambda code: mix[code])[:4])
    number = len(overall) if number is None else number
    if not len(kept) <= number <= len(overall):
        sites = {subsite[:3] for subsite in mixes}
        raise UsageError(
            f"'histologies' must be from {len(kept)} to {len(overall)} for {counted(len(sites), 'site')}, "
            f"{counted(len(mixes), 'subsite')} and their behaviors; got {number}"
        )
    by_weight = sorted(overall, key=lambda code: (-overall[code], code))
    return kept | set([code for code in by_weight if code not in kept][: number - len(kept)])


def check_range(name: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise UsageError(f"'{name}' must be from {low} to {high}; got {value}")


@lru_cache(maxsize=1)
def families() -> dict[str, str]:
    """The family of each morphology: the first whose ranges hold it."""
    ranges = []
    for name, spans, _ in blocks("corpus.synth", "families.txt"):
        for span in spans:
            first, _, last = span.partition("-")
            ranges.append((name, first, last or first))
    found = {}
    for code in code_lists().terms:
        for name, first, last in ranges:
            if code == first or ("/" not in first and first <= code[:4] <= last):
                found[code] = name
                break
    return found


# A family looks like itself in its own organ; elsewhere a gland-forming tumor is an adenocarcinoma of that organ.
HOMES = {
    "breast-ductal": ("breast",),
    "renal": ("kidney",),
    "thyroid-type": ("thyroid",),
    "hepatic": ("liver", "biliary"),
    "gynecologic": ("uterus", "ovary", "cervix", "peritoneum", "vulva"),
    "salivary-type": ("salivary", "oral", "tongue", "pharynx", "nasal", "larynx", "lung", "breast", "skin", "eye"),
}
GLANDS = {
    "thyroid": "thyroid-type",
    "kidney": "renal",
    "uterus": "gynecologic",
    "ovary": "gynecologic",
    "salivary": "salivary-type",
    "peritoneum": "gynecologic",
    "breast": "breast-ductal",
    "liver": "hepatic",
}


def family(morphology: str, chapter: str) -> str:
    """How a morphology looks in an organ.

    >>> family("8260/3", "thyroid"), family("8260/3", "lung"), family("8500/3", "pancreas")
    ('thyroid-type', 'adenocarcinoma', 'adenocarcinoma')
    """
    name = families()[morphology]
    if name in HOMES and chapter not in HOMES[name]:
        name = "adenocarcinoma"
    return GLANDS.get(chapter, name) if name == "adenocarcinoma" else name


@lru_cache(maxsize=1)
def chapters() -> dict[str, dict[str, list[str]]]:
    """What each chapter of organs.txt talks about."""
    return {name: dict(options(line) for line in body) for name, _, body in blocks("corpus.synth", "organs.txt")}


@lru_cache(maxsize=1)
def looks() -> dict[str, dict[str, list[str]]]:
    """What each family of families.txt looks like."""
    return {name: dict(options(line) for line in body) for name, _, body in blocks("corpus.synth", "families.txt")}


def relevant_options(said: Sequence[str], morphology: str) -> list[str]:
    """What is said of this morphology: options without a tag, and those whose tag names it.

    >>> relevant_options(["fascicles", "8850-8858>lipoblasts", "/2>no invasion"], "8851/3")
    ['fascicles', 'lipoblasts']
    """

    def named(tag: str) -> bool:
        span, _, behavior = tag.partition("/")
        first, _, last = span.partition("-")
        return behavior in ("", morphology[5:]) and (not first or first <= morphology[:4] <= (last or first))

    pairs = [option.partition(">") for option in said]
    return [text or tag for tag, _, text in pairs if not text or any(map(named, tag.split(",")))]


# Said where a family has too little to say of one of its rarer members.
GENERIC = {
    "arch": ("a cellular proliferation replacing the normal architecture", "a diffuse atypical proliferation"),
    "cyto": ("irregular nuclear outlines", "coarse chromatin", "a moderate amount of cytoplasm"),
    "pos": ("vimentin", "p53, patchy", "Ki-67, {pct}%"),
    "grade": ("not graded", "see comment"),
}


@cache
def descriptions_of(chapter: str, look: str, morphology: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """What is said of a morphology of this family in this organ, rule by rule; the organ has the last word."""
    about = dict(looks()[look])
    for name, said in chapters()[chapter].items():
        owner, _, rule = name.rpartition(".")
        if not owner or owner == look:
            about[rule] = said
    found = []
    for rule, said in about.items():
        fit = relevant_options(said, morphology)
        if len(fit) < 3:
            fit += GENERIC.get(rule, ())
        # What is said of none of these is better said of all than not at all.
        found.append((rule, tuple(fit or [option.rpartition(">")[2] for option in said])))
    return tuple(found)
