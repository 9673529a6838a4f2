"""One report: the facts of a case, said in the sections and the manner of a laboratory.

Beside what the labels are about, a report says much that is in the way, as real ones do: parts taken from elsewhere
that are benign, lymph nodes, negated differentials, earlier cancers of other organs, standing paragraphs, slips of the
keyboard.
"""

from dataclasses import dataclass
from typing import Any

from pathveil.corpus.synth.cases import Case
from pathveil.corpus.synth.facts import NODELESS, Terms, report_facts
from pathveil.corpus.synth.grammar import Draw, articles, expand
from pathveil.corpus.synth.houses import other_subsites
from pathveil.corpus.synth.people import pick_common, reveal

LIQUID = frozenset({"marrow"})  # no margins, nodes or sizes
FLUID = ("spirat", "FNA", "brush", "wash", "centesis", "cytolog", "smear")  # procedures that yield no piece of tissue
SEXTANTS = ("right base", "right mid", "right apex", "left base", "left mid", "left apex", "right lateral mid",
            "left lateral mid", "right lateral base", "left lateral apex")  # fmt: skip
MAIN, NODES, BENIGN, SAME = "main", "nodes", "benign", "same"


@dataclass(frozen=True)
class Part:
    """One specimen of a report."""

    sign: str  # A or 1
    name: str
    role: str
    finding: str = ""  # of a benign part


class Writer:
    """Says things about one report."""

    def __init__(self, facts: dict[str, Any], draw: Draw):
        self.facts, self.draw = facts, draw

    def say(self, rule: str) -> str:
        """One way of saying it, as a sentence."""
        return self.sentence(self.facts[rule])

    def sentence(self, piece: Any) -> str:
        said: list[str] = []
        expand(piece, self.facts, self.draw, said.append)
        text = "".join(said)
        return text[:1].upper() + text[1:]

    def raw(self, rule: str) -> str:
        """One way of saying it, as it stands."""
        said: list[str] = []
        expand(self.facts[rule], self.facts, self.draw, said.append)
        return "".join(said)

    def several(self, rule: str, low: int, high: int, between: str = " ") -> str:
        """Some of the ways of saying it, each once, beginning with one of the house's favourites."""
        ways = self.facts[rule]
        lean = self.draw()
        at = int(lean * lean * len(ways))
        step = 2 if len(ways) % 2 and self.draw() < 0.5 else 1
        many = min(low + int(self.draw() * (high - low + 1)), len(ways))
        return between.join([self.sentence(ways[(at + number * step) % len(ways)]) for number in range(many)])

    def chance(self, probability: float) -> bool:
        return self.draw() < probability


def write_report(
    case: Case, visit: int, draw: Draw, *, names: Terms, terms: Terms
) -> tuple[str, list[tuple[str, int, int]]]:
    """The text of a report and the spans in it that are personal."""
    kind, day = case.visits[visit]
    writer = Writer(report_facts(case, kind, day, draw, names=names, terms=terms), draw)
    laboratory = case.laboratory
    sections = compose(case, kind, writer, names)
    lines = [writer.raw("header")] if writer.chance(laboratory.header) else []
    for section in laboratory.order:
        if sections.get(section):
            lines.append(f"{laboratory.headings[section]}\n{sections[section]}")
    if writer.chance(laboratory.codes):
        lines.append(writer.say("codes"))
    if writer.chance(laboratory.footer):
        lines.append(writer.raw("footer"))
    return reveal(add_typos("\n".join(lines), laboratory.typos, draw))


def draw_parts(case: Case, kind: str, w: Writer, names: Terms) -> list[Part]:
    """The parts of a report: the tumor's, and what else was sent."""
    facts = w.facts
    signs = "ABCDEFGHIJKL" if case.laboratory.letters else [str(number) for number in range(1, 13)]
    facts["proc"] = w.say("proc")
    procedure = facts["proc"][0].lower() + facts["proc"][1:] if facts["proc"][1:2].islower() else facts["proc"]
    facts["proc"] = procedure
    if kind == "metastasis":
        facts["proc"] = "core biopsy" if w.chance(0.6) else "excision"
        return [Part(signs[0], f"{w.say('target')}, {facts['proc']}", MAIN)]
    found = [(f"{w.say('place')}, {procedure}", MAIN, "")]
    if kind == "biopsy" and case.chapter == "prostate" and w.chance(0.6):
        place = w.say("where")
        for at in range(int(w.draw() * 8)):
            tumor = w.chance(0.35)
            finding = "" if tumor else w.say("dx.benign")
            found.append((f"{place}, {SEXTANTS[at]}, {procedure}", SAME if tumor else BENIGN, finding))
    if kind == "resection" and case.chapter not in NODELESS and case.behavior in "23" and w.chance(0.65):
        for _ in range(1 + int(3 * w.draw() * w.draw())):
            found.append((w.say("nodes"), NODES, ""))
    if kind == "resection" and case.chapter not in NODELESS:
        for _ in range(int(3 * w.draw() * w.draw())):
            found.append((w.say("margin.part"), BENIGN, w.say("dx.benign")))
    if kind in ("biopsy", "resection") and case.chapter not in LIQUID and w.chance(0.22):
        others = other_subsites(case.subsite)
        if others:  # another place in the same organ, free of tumor
            other = others[int(w.draw() * len(others))]
            place = w.sentence(pick_common(w.draw, case.voice.term(other, names[other])))
            found.append((f"{place}, {procedure}", BENIGN, w.say("dx.benign")))
    if kind == "resection" and w.chance(0.15):  # something else removed in the same operation
        name, _, finding = w.say("extra").partition(" / ")
        found.append((name, BENIGN, f"{finding[0].upper()}{finding[1:]}."))
    return [Part(sign, *part) for sign, part in zip(signs, found, strict=False)]


def compose(case: Case, kind: str, w: Writer, names: Terms) -> dict[str, str]:
    """The sections of a report, those that are there."""
    laboratory = case.laboratory
    solid = case.chapter not in LIQUID
    parts = draw_parts(case, kind, w, names)
    w.facts["letter"] = parts[0].sign
    sections: dict[str, str] = {}
    if w.chance(0.9):
        sections["specimen"] = "\n".join(laboratory.part.format(part.sign) + part.name for part in parts)
    if w.chance(0.88):
        history = [w.say("history.met" if kind == "metastasis" else "history")]
        if w.chance(0.65):
            history.append(w.several("history.more", 1, 6))
        if case.detail_told and w.chance(0.45):
            history.append(w.say("narrative.detail"))
        sections["history"] = " ".join(history)
    if kind not in ("consult", "addendum") or w.chance(0.25):
        sections["gross"] = gross(case, kind, w, parts)
    if w.chance(laboratory.micro) or kind in ("consult", "cytology"):
        sections["micro"] = microscopy(case, kind, w)
    if kind != "addendum" or w.chance(0.7):
        sections["diagnosis"] = diagnosis(case, kind, w, parts)
        if laboratory.shout:
            sections["diagnosis"] = sections["diagnosis"].upper()
    remarks = []
    if kind == "metastasis" and w.chance(0.7):
        remarks.append(w.several("met.comment", 1, 2))
    if kind == "consult":
        remarks.append(w.several("consult", 3, 6))
    if w.chance(0.75):
        remarks.append(w.several("comment", 2, 7))
    if w.chance(laboratory.narrative):
        remarks.append(w.several("narrative", 1, 3))
    if w.chance(0.4):
        remarks.append(w.say("boiler"))
    if w.chance(laboratory.lengthy):
        remarks.append(w.several("boiler.long", 1, 3))
    sections["comment"] = " ".join(remarks)
    if kind == "resection" and solid and case.behavior in "23" and w.chance(laboratory.synoptic):
        sections["synoptic"] = w.several("syn.line", 9, 17, "\n")
    if kind == "addendum" or w.chance(0.08):
        sections["addendum"] = w.several("addendum", 4, 9)
    if kind == "resection" and w.chance(0.3):
        sections["frozen"] = w.several("frozen", 1, 2)
    return {name: articles(text) for name, text in sections.items()}


def gross(case: Case, kind: str, w: Writer, parts: list[Part]) -> str:
    """What was received and what it looked like, part by part."""
    facts = w.facts
    if case.chapter in LIQUID:
        return w.several("gross.marrow", 3, 5)
    if kind == "cytology" or (kind == "biopsy" and any(word in facts["proc"] for word in FLUID)):
        return w.several("gross.fluid", 2, 4)
    said = []
    named = w.chance(case.laboratory.named)
    for part in parts:
        quoted = f'"{part.name.lower()}"'
        label = f'"{facts["patientlast"][0]}" and {quoted}' if named else f"with the patient's name and {quoted}"
        facts["letter"], facts["partname"], facts["label"] = part.sign, part.name.lower(), (label, quoted)
        large = kind == "resection" and part.role == MAIN
        facts["what"] = facts["what.nodes" if part.role == NODES else "what.large" if large else "what.small"]
        text = w.say("received")
        if part.role == MAIN and kind == "resection":
            text += f" {w.say('gross.cut')} {w.several('gross.rest', 4, 10)} {w.several('gross.more', 1, 7)}"
        if part.role == MAIN and kind == "resection" and w.chance(0.6):
            key = [f"{part.sign}{number} {w.say('key').lower()}" for number in range(1, 4 + int(16 * w.draw()))]
            text += " " + ("; ".join(key) if w.chance(0.5) else "\n" + "\n".join(key))
        else:
            text += f" {w.say('gross.cassettes' if large else 'gross.cassettes.small')}"
        said.append(case.laboratory.part.format(part.sign) + text)
    facts["letter"] = parts[0].sign
    return "\n".join(said)


def microscopy(case: Case, kind: str, w: Writer) -> str:
    """What the slides show."""
    said = [w.several("micro.liquid" if case.chapter in LIQUID else "micro", 5, 11)]
    if case.behavior == "2":
        said.append(w.several("micro.insitu", 1, 3))
    elif case.behavior != "3":
        said.append(w.several("micro.low", 1, 2))
    elif case.chapter not in NODELESS and kind in ("resection", "biopsy", "consult"):
        said.append(w.several("micro.invasive", 2, 5))
    if w.chance(0.6):
        said.append(w.several("ihc", 1, 4))
    return " ".join(said)


def diagnosis(case: Case, kind: str, w: Writer, parts: list[Part]) -> str:
    """The lines of the diagnosis, part by part."""
    bullet = "- " if w.chance(0.6) else ""
    solid = case.chapter not in LIQUID
    said = []
    nodal = False
    for part in parts:
        if part.role == NODES:
            lines = [w.say("dx.node" if case.nodes[0] and not nodal else "dx.node.negative")]
            nodal = True  # the first part holds the positive ones
        elif part.role == BENIGN:
            lines = [part.finding]
        else:
            lines = [w.say("met" if kind == "metastasis" else "dx.line")]
        if part.role == MAIN:
            if kind == "resection" and solid:
                lines.append(w.say("dx.margin"))
            if case.behavior in "23" and w.chance(0.7):
                extra = "dx.extra.other" if case.chapter in NODELESS else "dx.extra"
                lines.append(w.several(extra, 1, 4, f"\n{bullet}"))
            if kind == "resection" and solid and w.chance(0.6):
                lines.append(w.say("dx.stage"))
            if w.chance(0.25):
                lines.append(w.say("ihc"))
        heading = case.laboratory.part.format(part.sign) + part.name
        said.append(f"{heading}:\n" + "\n".join(bullet + line for line in lines))
    return "\n".join(said)


def add_typos(text: str, rate: float, draw: Draw) -> str:
    """Slips of the keyboard: two letters change places, or one is lost."""
    for _ in range(int(rate * 2 * draw() + 0.5)):
        at = int(draw() * (len(text) - 2))
        pair = text[at : at + 2]
        if pair.isalpha() and pair.islower() and pair.isascii():
            text = text[:at] + (pair[::-1] if draw() < 0.6 else pair[0]) + text[at + 2 :]
    return text
