"""Registries and their laboratories: each with a house style, people, spelling and a mix of cases of its own.

A registry has a region's habits (spelling, how dates, numbers and addresses are written, who the physicians are, which
cancers are common) and a handful of laboratories, each with a layout: which sections in which order under which
headings, how much is said, how often names slip into the text. Some laboratories serve every registry, so a style
points at a registry without proving it. Everything follows from the seed and the registry's number.

>>> first, second = house(0, seed=1), house(1, seed=1)
>>> first.name, first.laboratories[0].name == second.laboratories[0].name, house(0, seed=1) is first
('R1', False, True)
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from random import Random
from typing import Any
from zlib import crc32

from pathveil.corpus.synth.codes import Classes, WeightedDraw, descriptions_of, scale_weight
from pathveil.corpus.synth.grammar import Draw, Table, compile_rules
from pathveil.corpus.synth.layouts import (
    ACCESSIONS,
    ADDRESSES,
    CODES,
    DIMENSIONS,
    HEADINGS,
    NUMBERS,
    ORDERS,
    PARTS,
    PHONES,
    RECORDS,
    dimensions,
)
from pathveil.corpus.synth.people import Habits, laboratory, lists, physician, pick, town
from pathveil.corpus.synth.spelling import Spelling
from pathveil.icdo.lists import code_lists
from pathveil.resources import blocks

SHARED = -1  # the number of the house to which laboratories that serve every registry belong
LABORATORIES, PHYSICIANS, PATHOLOGISTS, TOWNS = 5, 120, 7, 60
ELSEWHERE = 0.2  # of cases, read by a laboratory that serves every registry


def draw_stream(*key: object) -> Draw:
    """A stream of its own for each purpose: Python promises the sequence of random() for an integer seed."""
    text = "/".join(map(str, key))
    return Random(int.from_bytes(text.encode(), "big")).random


@dataclass(frozen=True)
class Laboratory:
    """One laboratory's layout."""

    name: str
    pathologists: tuple[str, ...]
    order: tuple[str, ...]
    headings: Mapping[str, str]
    part: str
    letters: bool  # parts A, B, C or 1, 2, 3
    shout: bool  # the diagnosis in capitals
    header: float  # chances, from here on
    footer: float
    micro: float
    synoptic: float
    narrative: float
    named: float  # a specimen label that carries the patient's name
    codes: float  # codes printed at the end
    lengthy: float  # standing paragraphs
    typos: float  # slips of the keyboard, on average a report
    rules: Mapping[str, Any]  # headers, footers and dimensions


@dataclass(frozen=True, eq=False)
class House:
    """A registry, or the house of the laboratories that serve them all."""

    name: str
    seed: int
    number: int
    spelling: Spelling
    habits: Habits
    physicians: tuple[str, ...]
    towns: tuple[str, ...]
    laboratories: tuple[Laboratory, ...]
    rules: dict[str, Any]
    compiled: dict[Any, Any] = field(default_factory=dict)  # so far: what is said of organs, families and codes

    def facts(self, chapter: str, look: str, morphology: str) -> dict[str, Any]:
        """Everything this house says about an organ and a tumor, on top of its general rules."""
        about = descriptions_of(chapter, look, morphology)
        if about not in self.compiled:
            draw = draw_stream(self.seed, self.number, "facts", chapter, look)
            facts = self.rules | compile_rules(dict(about), spell=self.spelling.phrase, draw=draw)
            facts["clash"] = clashes(facts["pos"], facts["neg"])
            self.compiled[about] = facts
        return self.compiled[about]

    def term(self, code: str, said: Sequence[str]) -> tuple:
        """Names of a subsite or terms of a morphology, spelt and preferred as here."""
        if code not in self.compiled:
            draw = draw_stream(self.seed, self.number, "term", code)
            self.compiled[code] = compile_rules({code: said}, spell=self.spelling.term, draw=draw)[code]
        return self.compiled[code]


@lru_cache(maxsize=512)
def other_subsites(subsite: str) -> tuple[str, ...]:
    """The other subsites of the same site."""
    return tuple(code for code in code_lists().names if code[:3] == subsite[:3] and code != subsite)


def clashes(pos: tuple, neg: tuple) -> list[tuple[int, int]]:
    """Markers that a family lists as positive and as negative: a case must be one or the other.

    >>> clashes(("CD5", ["ER, ", "5%"]), ("ER", "HER2 (0)"))
    [(1, 0)]
    """

    def stem(piece: Any) -> str:
        return re.split(r"[,(]", piece if isinstance(piece, str) else piece[0])[0].strip()

    return [(i, j) for i, one in enumerate(pos) for j, other in enumerate(neg) if stem(one) == stem(other)]


@lru_cache(maxsize=64)
def house(number: int, *, seed: int) -> House:
    """The registry of that number (0 is R1), or the shared house."""
    draw = draw_stream(seed, number, "house")
    names = lists()
    # Two of the usual seven spell the British way, whatever the seed, so that a small corpus shows both.
    british = number in (2, 5) or (number > 6 and draw() < 0.3)
    spelling = Spelling(british=british, hyphens=draw() < 0.5, terse=draw() < 0.4, key=f"{seed}/{number}")
    phrases = {
        name: [line.replace("\\n", "\n") for line in body] for name, _, body in blocks("corpus.synth", "phrases.txt")
    }
    rules: dict[str, Any] = {**NUMBERS, **compile_rules(phrases, spell=spelling.phrase, draw=draw)}
    rules |= {name: Table(names[name]) for name in ("occupation", "hobby", "mishap", "animal")}
    base = {section: int(draw() * len(HEADINGS[section])) for section in HEADINGS}
    order, size = int(draw() * len(ORDERS)), int(draw() * len(DIMENSIONS))
    titles = names["national"] if number == SHARED else tuple(laboratory(draw) for _ in range(LABORATORIES))
    return House(
        name=f"R{number + 1}",
        seed=seed,
        number=number,
        spelling=spelling,
        habits=Habits(
            date=pick(draw, ("d/m/y", "long", "dots") if british else ("m/d/y", "m/d/y", "iso")),
            record=pick(draw, RECORDS),
            accession=pick(draw, ACCESSIONS),
            phone=pick(draw, PHONES[-1:] if british else PHONES[:-1]),
            address=pick(draw, ADDRESSES),
            code=pick(draw, CODES[-1:] if british else CODES[:-1]),
        ),
        physicians=tuple(physician(draw) for _ in range(PHYSICIANS)),
        towns=tuple(town(draw) for _ in range(TOWNS)),
        laboratories=tuple(make_laboratory(title, base, order, size, draw, rules) for title in titles),
        rules=rules,
    )


def make_laboratory(
    title: str, base: Mapping[str, int], order: int, size: int, draw: Draw, rules: Mapping[str, Any]
) -> Laboratory:
    """A laboratory that mostly does as its region does."""

    def own(regional: int, choices: Sequence[Any]) -> Any:
        return choices[regional if draw() < 0.7 else int(draw() * len(choices))]

    first = int(draw() * 3)  # a laboratory uses a few of the headers, footers and standing paragraphs there are
    return Laboratory(
        name=title,
        pathologists=tuple(physician(draw) for _ in range(PATHOLOGISTS)),
        order=own(order, ORDERS),
        headings={section: own(base[section], HEADINGS[section]) for section in HEADINGS},
        part=pick(draw, PARTS),
        letters=draw() < 0.7,
        shout=draw() < 0.4,
        header=0.35 + 0.6 * draw(),
        footer=0.3 + 0.6 * draw(),
        micro=0.35 + 0.6 * draw(),
        synoptic=0.15 + 0.75 * draw(),
        narrative=0.1 + 0.5 * draw(),
        named=0.05 + 0.5 * draw(),
        codes=0.12 * draw() * draw(),
        lengthy=0.2 + 0.7 * draw(),
        typos=3 * draw() * draw(),
        rules={
            **compile_rules(dimensions(own(size, DIMENSIONS))),
            "header": rules["header"][first : first + 4],
            "footer": rules["footer"][first : first + 3],
            "boiler.long": rules["boiler.long"][first : first + 4],
        },
    )


class Mix:
    """Which cases a registry sees: the general mix, bent by factors of its own."""

    def __init__(self, classes: Classes, number: int, *, seed: int, rarity: float):
        self.classes, self.key = classes, f"{seed}/{number}"
        sites = {code: scale_weight(site.weight, rarity) for code, site in classes.site.items()}
        self.sites = self.bend(sites, (0.5, 0.7, 1.0, 1.0, 1.4, 2.0))
        self.subsites: dict[str, WeightedDraw] = {}
        self.morphologies: dict[str, WeightedDraw] = {}

    def draw(self, draw: Draw) -> tuple[str, str]:
        """A subsite and a morphology."""
        site = self.sites.draw(draw)
        if site not in self.subsites:
            self.subsites[site] = self.bend(self.classes.subsite_weights[site])
        subsite = self.subsites[site].draw(draw)
        if subsite not in self.morphologies:
            self.morphologies[subsite] = self.bend(self.classes.morphology_weights[subsite])
        return subsite, self.morphologies[subsite].draw(draw)

    def bend(self, weights: Mapping[str, float], factors: Sequence[float] = (0.6, 0.8, 1.0, 1.25, 1.6)) -> WeightedDraw:
        """A region has more of some cancers, and its registrars prefer some codes to others."""
        return WeightedDraw(
            {
                code: weight * factors[crc32(f"{self.key}/{code}".encode()) % len(factors)]
                for code, weight in weights.items()
            }
        )
