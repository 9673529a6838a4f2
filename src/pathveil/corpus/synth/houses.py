"""Registries and their laboratories: each with a house style, people, spelling and a mix of cases of its own.

A registry has a region's habits (spelling, how dates, numbers and addresses are written, who the physicians are, which
cancers are common) and a handful of laboratories, each with a layout: which sections in which order under which
headings, how much is said, how often names slip into the text. Some laboratories serve every registry, so a style
points at a registry without proving it. Everything follows from the seed and the registry's number.

>>> first, second = house(0, seed=1), house(1, seed=1)
>>> first.name, first.laboratories[0].name == second.laboratories[0].name, house(0, seed=1) is first
('R1', False, True)
"""

from dataclasses import dataclass, field
from functools import lru_cache
from random import Random
from typing import Any

from pathveil.corpus.synth.codes import Classes, Lot, chapters, looks, shrink
from pathveil.corpus.synth.grammar import Draw, Table, british, compile_rules
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
)
from pathveil.corpus.synth.people import Habits, laboratory, lists, physician, pick, town
from pathveil.corpus.synth.resources import blocks

SHARED = -1  # the number of the house to which laboratories that serve every registry belong
LABORATORIES = 5
ELSEWHERE = 0.12  # of cases, read by a laboratory that serves every registry


@dataclass(frozen=True)
class Laboratory:
    """One laboratory's layout."""

    name: str
    pathologists: tuple[str, ...]
    order: tuple[str, ...]
    headings: dict[str, str]
    part: str
    letters: bool  # parts A, B, C or 1, 2, 3
    shout: bool  # the diagnosis in capitals
    header: float  # chances
    footer: float
    micro: float
    synoptic: float
    narrative: float
    named: float  # a specimen label that carries the patient's name
    typos: float  # slips of the keyboard, on average a report
    rules: dict[str, Any] = field(hash=False)  # headers and dimensions


@dataclass(frozen=True, eq=False)
class House:
    """A registry, or the house of the laboratories that serve them all."""

    name: str
    british: bool
    habits: Habits
    physicians: tuple[str, ...]
    towns: tuple[str, ...]
    laboratories: tuple[Laboratory, ...]
    seed: int
    number: int
    rules: dict[str, Any]
    compiled: dict[Any, Any] = field(default_factory=dict)  # what was compiled so far

    def facts(self, chapter: str, look: str) -> dict[str, Any]:
        """Everything this house says about an organ and a family of tumors, on top of its general rules."""
        key = (chapter, look)
        if key not in self.compiled:
            about = dict(looks()[look])
            for name, said in chapters()[chapter].items():
                owner, _, rule = name.rpartition(".")
                if not owner or owner == look:
                    about[rule] = said
            draw = generator(self.seed, self.number, "facts", chapter, look)
            self.compiled[key] = self.rules | compile_rules(about, spell=self.spell, draw=draw)
        return self.compiled[key]

    def term(self, code: str, said: list[str] | Any) -> tuple:
        """Names of a subsite or terms of a morphology, spelt and preferred as here."""
        if code not in self.compiled:
            draw = generator(self.seed, self.number, "term", code)
            self.compiled[code] = compile_rules({"": said}, spell=self.spell, draw=draw)[""]
        return self.compiled[code]

    def spell(self, text: str) -> str:
        return british(text) if self.british else text


def generator(*key: object) -> Draw:
    """A stream of its own for each purpose: Python promises the sequence of random() for an integer seed."""
    text = "/".join(map(str, key))
    return Random(int.from_bytes(text.encode(), "big")).random


@lru_cache(maxsize=64)
def house(number: int, *, seed: int) -> House:
    """The registry of that number (0 is R1), or the shared house."""
    draw = generator(seed, number, "house")
    names = lists()
    is_british = number >= 0 and (draw() < 0.3 if number not in (2, 5) else True)
    spell = british if is_british else str
    rules = {name: body for name, _, body in blocks("phrases.txt")}
    rules = {name: [line.replace("\\n", "\n") for line in body] for name, body in rules.items()}
    compiled = NUMBERS | compile_rules(rules, spell=spell, draw=draw)
    compiled |= {name: Table(names[name]) for name in ("occupation", "hobby", "mishap", "animal")}
    base = {section: int(draw() * 5) for section in HEADINGS}
    order = int(draw() * len(ORDERS))
    size = int(draw() * len(DIMENSIONS))
    british_dates = ("d/m/y", "long", "dots")
    american_dates = ("m/d/y", "m/d/y", "iso")
    habits = Habits(
        date=pick(draw, british_dates if is_british else american_dates),
        record=pick(draw, RECORDS),
        accession=pick(draw, ACCESSIONS),
        phone="01### 555###" if is_british else pick(draw, PHONES[:3]),
        address=pick(draw, ADDRESSES),
        code=CODES[3] if is_british else pick(draw, CODES[:3]),
    )
    titles = names["national"] if number == SHARED else tuple(laboratory(draw) for _ in range(LABORATORIES))
    laboratories = tuple(make_laboratory(title, base, order, size, draw, compiled) for title in titles)
    return House(
        name=f"R{number + 1}",
        british=is_british,
        habits=habits,
        physicians=tuple(physician(draw) for _ in range(120)),
        towns=tuple(town(draw) for _ in range(60)),
        laboratories=laboratories,
        seed=seed,
        number=number,
        rules=compiled,
    )


def make_laboratory(
    title: str, base: dict[str, int], order: int, size: int, draw: Draw, compiled: dict[str, Any]
) -> Laboratory:
    """A laboratory that mostly does as its region does."""

    def own(regional: int, choices: int) -> int:
        return regional if draw() < 0.7 else int(draw() * choices)

    dimensions = DIMENSIONS[own(size, len(DIMENSIONS))]
    keys = ("dim3", "dim2", "dim1", "dim3big")
    rules = compile_rules({key: [form] for key, form in zip(keys, dimensions, strict=True)})
    rules["dim2nounit"] = rules["dim1"]
    first = int(draw() * 3)  # a laboratory uses a few of the possible headers
    rules["header"] = compiled["header"][first : first + 4]
    rules["footer"] = compiled["footer"][first : first + 3]
    return Laboratory(
        name=title,
        pathologists=tuple(physician(draw) for _ in range(7)),
        order=ORDERS[own(order, len(ORDERS))],
        headings={section: HEADINGS[section][own(base[section], 5)] for section in HEADINGS},
        part=PARTS[int(draw() * len(PARTS))],
        letters=draw() < 0.7,
        shout=draw() < 0.4,
        header=0.35 + 0.6 * draw(),
        footer=0.3 + 0.6 * draw(),
        micro=0.25 + 0.7 * draw(),
        synoptic=0.15 + 0.75 * draw(),
        narrative=0.1 + 0.5 * draw(),
        named=0.05 + 0.5 * draw(),
        typos=3 * draw() * draw(),
        rules=rules,
    )


class Mix:
    """Which cases a registry sees: the general mix, bent by factors of its own."""

    def __init__(self, classes: Classes, number: int, *, seed: int, rarity: float):
        self.classes, self.number, self.seed = classes, number, seed
        draw = generator(seed, number, "mix")
        factors = (0.5, 0.7, 1.0, 1.0, 1.4, 2.0)
        self.sites = Lot(
            {code: shrink(site.weight, rarity) * pick_number(draw, factors) for code, site in classes.site.items()}
        )
        self.subsites: dict[str, Lot] = {}
        self.morphologies: dict[str, Lot] = {}

    def draw(self, draw: Draw) -> tuple[str, str]:
        """A subsite and a morphology."""
        site = self.sites.draw(draw)
        if site not in self.subsites:
            self.subsites[site] = self.bent(self.classes.subsite_weights[site])
        subsite = self.subsites[site].draw(draw)
        if subsite not in self.morphologies:
            self.morphologies[subsite] = self.bent(self.classes.morphology_weights[subsite])
        return subsite, self.morphologies[subsite].draw(draw)

    def bent(self, weights: Any) -> Lot:
        """Coding habits: a registry prefers some codes a little over others."""
        factors = (0.6, 0.8, 1.0, 1.25, 1.6)
        bent = {}
        for code, weight in weights.items():
            bent[code] = weight * pick_number(generator(self.seed, self.number, "bent", code), factors)
        return Lot(bent)


def pick_number(draw: Draw, numbers: tuple[float, ...]) -> float:
    return numbers[int(draw() * len(numbers))]
