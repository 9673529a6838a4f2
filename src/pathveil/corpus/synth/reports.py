"""One report: the facts of a case, said in the sections and the manner of a laboratory.

How much a report says depends on its kind: a resection names the place and the tumor most of the time, a biopsy often
leaves one of them open, an addendum or a metastasis mostly does. What it says beside that (other parts, nodes, negated
differentials, earlier cancers elsewhere) is there to be in the way, as in real reports.
"""

from datetime import date as Day
from typing import Any

from pathveil.corpus.synth.cases import Case, physicians
from pathveil.corpus.synth.codes import chapters
from pathveil.corpus.synth.grammar import Draw, expand, tidy
from pathveil.corpus.synth.houses import SHARED, house
from pathveil.corpus.synth.people import date, digits, mark, reveal

# Chances that a report names the subsite, the tumor's type and the side.
EXPLICIT = {
    "biopsy": (0.72, 0.66, 0.80),
    "cytology": (0.62, 0.42, 0.75),
    "resection": (0.82, 0.86, 0.93),
    "addendum": (0.22, 0.34, 0.35),
    "consult": (0.55, 0.84, 0.60),
    "metastasis": (0.10, 0.58, 0.22),
}
SMALL = frozenset({"biopsy", "cytology", "addendum", "consult", "metastasis"})
LIQUID = frozenset({"marrow"})  # no margins, nodes or sizes
NODELESS = frozenset({"marrow", "brain", "meninges", "nerve", "endocrine", "nodes", "unknown"})
CLOCK = {  # where a quadrant of the left breast lies; the right one is its mirror
    "C50.2": ("10", "11"),
    "C50.3": ("7", "8"),
    "C50.4": ("1", "2"),
    "C50.5": ("4", "5"),
}
MIRROR = {"10": "2", "11": "1", "7": "5", "8": "4", "1": "11", "2": "10", "4": "8", "5": "7"}
SIDE_WORDS = {
    "right": "right",
    "left": "left",
    "bilateral": "bilateral",
    "midline": "midline",
    "one_side": "unilateral",
}
SIDE_SHORT = {"right": "rt.", "left": "lt.", "bilateral": "bilat.", "midline": "midline", "one_side": "unilateral"}


class Writer:
    """Says things about one report."""

    def __init__(self, facts: dict[str, Any], draw: Draw):
        self.facts, self.draw = facts, draw

    def say(self, rule: str) -> str:
        """One way of saying it, as a sentence."""
        said: list[str] = []
        expand(self.facts[rule], self.facts, self.draw, said.append)
        text = "".join(said)
        return text[:1].upper() + text[1:]

    def several(self, rule: str, how_many: int) -> str:
        """Some of the ways, each once."""
        ways = self.facts[rule]
        lean = self.draw()
        at = int(lean * lean * len(ways))
        step = 2 if len(ways) % 2 and self.draw() < 0.5 else 1
        out = []
        for number in range(min(how_many, len(ways))):
            said: list[str] = []
            expand(ways[(at + number * step) % len(ways)], self.facts, self.draw, said.append)
            text = "".join(said)
            out.append(text[:1].upper() + text[1:])
        return " ".join(out)

    def chance(self, probability: float) -> bool:
        return self.draw() < probability

    def number(self, low: int, high: int) -> int:
        return low + int(self.draw() * (high - low + 1))


def write(case: Case, visit: int, draw: Draw, *, names: Any, terms: Any) -> tuple[str, list[tuple[str, int, int]]]:
    """The text of a report and the spans in it that are personal."""
    kind, day = case.visits[visit]
    w = Writer(gather(case, kind, day, draw, names=names, terms=terms), draw)
    laboratory = case.laboratory
    sections = compose(case, kind, w)
    lines = []
    if w.chance(laboratory.header):
        lines.append(w.say("header"))
    for section in laboratory.order:
        if sections.get(section):
            lines.append(f"{laboratory.headings[section]}\n{sections[section]}")
    if w.chance(laboratory.footer):
        lines.append(w.say("footer"))
    text = slip("\n".join(lines), laboratory.typos, draw)
    return reveal(text)


def gather(case: Case, kind: str, day: int, draw: Draw, *, names: Any, terms: Any) -> dict[str, Any]:
    """The facts of one report: what the house says in general, with the case's own on top."""
    region, patient = case.house, case.patient
    facts = region.facts(case.chapter, case.look).copy()
    facts.update(case.laboratory.rules)
    place_told, type_told, side_told = EXPLICIT[kind]
    side = SIDE_WORDS.get(case.laterality, "") if draw() < side_told else ""
    if side and draw() < 0.15:
        side = SIDE_SHORT[case.laterality]
    organs = facts["organ"]
    organ = organs[int(draw() * len(organs))]
    clock = case.subsite in CLOCK and case.laterality in ("left", "right") and draw() < 0.4
    if draw() >= place_told:
        where: Any = organ
    elif clock:
        hour = CLOCK[case.subsite][int(draw() * 2)]
        where = f"breast, {hour if case.laterality == 'left' else MIRROR[hour]} o'clock"
    else:
        ways = region.term(case.subsite, names[case.subsite])
        lean = draw()
        where = ways[int(lean * lean * len(ways))]
    spread = facts["spread"]
    target = spread[int(draw() * len(spread))] if kind == "metastasis" else None
    when = Day.fromordinal(min(day, Day.max.toordinal()))
    born = Day.fromordinal(patient.birth)
    style = region.habits.date
    doctors = physicians(draw, region, 3)
    number = region.habits.accession.format(yy=f"{when.year % 100:02d}", yyyy=when.year)
    older = region.habits.accession.format(yy=f"{(when.year - 1) % 100:02d}", yyyy=when.year - 1)
    age = max(0, (day - patient.birth) // 365)
    positive, examined = case.nodes
    millimeters = case.size if kind == "resection" else max(2, case.size // 2)
    woman = patient.sex == "F"
    signer = case.laboratory.pathologists[int(draw() * len(case.laboratory.pathologists))]
    full = mark("patient_name", f"{patient.given} {patient.surname}")
    last = mark("patient_name", f"{patient.surname}, {patient.given}")
    loud = mark("patient_name", f"{patient.surname.upper()}, {patient.given.upper()}")
    titled = ("Mrs. " if woman else "Mr. ") + mark("patient_name", patient.surname)
    outside = house(SHARED, seed=region.seed).laboratories
    elsewhere = outside[int(draw() * len(outside))].name if kind in ("consult", "addendum") else case.laboratory.name
    facts.update(
        dxtext=region.term(case.morphology, terms[case.morphology]) if draw() < type_told else facts["vague"],
        where=where,
        organ=[f"{side} ", organ] if side and draw() < 0.5 else organ,
        place=([side, " ", where], [where, ", ", side]) if side else where,
        sidetext=side or "not specified",
        target=target or organ,
        proc=facts["resection" if kind == "resection" else "biopsy"],
        size=f"{millimeters / 10:.1f}",
        nodespos=str(positive),
        nodestotal=str(examined),
        stage=stage(case),
        age=str(age),
        sexword=("woman", "female") if woman else ("man", "male"),
        sexletter=patient.sex,
        patientname=(titled, full) if draw() < 0.7 else "the patient",
        patientfull=full,
        patientlast=(last, loud),
        relative=mark("relative_name", patient.relative),
        mrn=mark("record_number", patient.record),
        accession=mark("record_number", digits(draw, number)),
        accession_old=mark("record_number", digits(draw, older)),
        dob=mark("birth_date", date(born.year, born.month, born.day, style)),
        today=mark("service_date", date(when.year, when.month, when.day, style)),
        address=mark("address", patient.address),
        phone=mark("phone", patient.phone),
        email=mark("email", f"{patient.given[0]}{patient.surname}@mail.example".lower()),
        doctor=(f"Dr. {doctors[0]}", f"Dr. {doctors[1]}", doctors[2]),
        pathologist=mark("physician_name", signer),
        initials=signer[0].lower() + signer.split()[-1][0].lower(),
        lab=mark("laboratory", elsewhere),
        detail=patient.detail,
        pastyear=str(when.year - 2 - int(draw() * 25)),
    )
    return facts


def stage(case: Case) -> str:
    """A TNM stage in keeping with size, nodes and behavior."""
    if case.behavior == "2":
        return "pTis N0"
    if case.behavior in "01" or case.chapter in NODELESS:
        return "not applicable"
    depth = 1 + (case.size > 20) + (case.size > 45) + (case.size > 75)
    positive = case.nodes[0]
    return f"pT{depth} pN{0 if not positive else 1 + (positive > 3) + (positive > 9)} pMX"


def compose(case: Case, kind: str, w: Writer) -> dict[str, str]:
    """The sections of a report, those that are there."""
    laboratory, facts = case.laboratory, w.facts
    solid = case.chapter not in LIQUID
    signs = "ABCDEFGH" if laboratory.letters else "12345678"
    facts["letter"] = signs[0]
    procedure = w.say("proc").lower()
    place = w.say("place")
    facts["proc"] = procedure
    if kind == "metastasis":
        procedure = "core biopsy" if w.chance(0.6) else "excision"
        place = w.say("target")
    parts = [f"{place}, {procedure}"]
    nodal = kind == "resection" and solid and case.chapter not in NODELESS and case.behavior in "23" and w.chance(0.65)
    if nodal:
        parts.append(w.say("nodes"))
    other = None
    if kind == "resection" and w.chance(0.2):
        around = list(chapters())
        other = case.house.facts(around[w.number(0, len(around) - 1)], case.look)
        extra = Writer(facts | {key: other[key] for key in ("organ", "resection", "benign", "normal")}, w.draw)
        parts.append(f"{extra.say('organ')}, {extra.say('resection').lower()}")
        other = extra.say("dx.benign")

    sections: dict[str, str] = {}
    if w.chance(0.9):
        sections["specimen"] = "\n".join(
            laboratory.part.format(sign) + part for sign, part in zip(signs, parts, strict=False)
        )
    if w.chance(0.85):
        history = [w.say("history")] + ([w.several("history.more", w.number(1, 3))] if w.chance(0.6) else [])
        if case.detail_told and w.chance(0.45):
            history.append(w.say("narrative.detail"))
        sections["history"] = " ".join(history)
    sections["gross"] = gross(case, kind, w, parts, nodal, signs)
    if kind in ("consult", "addendum") and w.chance(0.75):
        sections["gross"] = ""
    if w.chance(laboratory.micro) or kind in ("consult", "cytology"):
        sections["micro"] = microscopy(case, kind, w)
    sections["diagnosis"] = diagnosis(case, kind, w, parts, nodal, other, signs)
    remarks = [w.several("comment", w.number(1, 4))] if w.chance(0.7) else []
    if kind == "metastasis" and w.chance(0.7):
        remarks.insert(0, w.say("met.comment"))
    if kind == "consult":
        remarks.insert(0, w.several("consult", w.number(2, 4)))
    if w.chance(laboratory.narrative):
        remarks.append(w.several("narrative", w.number(1, 2)))
    if w.chance(0.4):
        remarks.append(w.say("boiler"))
    sections["comment"] = " ".join(remarks)
    if kind == "resection" and solid and case.behavior in "23" and w.chance(laboratory.synoptic):
        sections["synoptic"] = w.several("syn.line", w.number(7, 14)).replace("  ", " ")
    if kind == "addendum" or w.chance(0.08):
        sections["addendum"] = w.several("addendum", w.number(2, 6))
    if kind == "resection" and w.chance(0.3):
        sections["frozen"] = w.several("frozen", w.number(1, 2))
    sections = {name: tidy(text) for name, text in sections.items()}
    if laboratory.shout:
        sections["diagnosis"] = sections["diagnosis"].upper()
    return sections


def gross(case: Case, kind: str, w: Writer, parts: list[str], nodal: bool, signs: str) -> str:
    """What was received and what it looked like."""
    facts = w.facts
    said = []
    named = w.chance(case.laboratory.named)
    for number, (sign, part) in enumerate(zip(signs, parts, strict=False)):
        facts["letter"], facts["partname"] = sign, part.lower()
        quoted = f'"{part.lower()}"'
        facts["label"] = (
            f'"{facts["patientlast"][0]}" and {quoted}' if named else f"with the patient's name and {quoted}",
            quoted,
        )
        facts["what"] = facts["what.small" if kind in SMALL or number else "what.large"]
        if case.chapter in LIQUID and number == 0:
            said.append(w.several("gross.marrow", w.number(2, 3)))
            continue
        if kind == "cytology":
            said.append(w.several("gross.fluid", w.number(1, 2)))
            continue
        text = w.say("received")
        if number == 0 and kind == "resection":
            text += f" {w.say('gross.cut')} {w.several('gross.rest', w.number(2, 6))}"
        elif number == 1 and nodal:
            text += f" {w.say('gross.nodes')}"
        text += f" {w.say('gross.cassettes')}"
        said.append(case.laboratory.part.format(sign) + text)
    return "\n".join(said)


def microscopy(case: Case, kind: str, w: Writer) -> str:
    """What the slides show."""
    said = [w.several("micro", w.number(3, 6))]
    if case.behavior == "2":
        said.append(w.several("micro.insitu", w.number(1, 2)))
    elif case.behavior == "3":
        if case.chapter not in LIQUID and kind in ("resection", "biopsy", "consult"):
            said.append(w.several("micro.invasive", w.number(1, 3)))
    else:
        said.append(w.several("micro.low", w.number(1, 2)))
    if w.chance(0.55):
        said.append(w.several("ihc", w.number(1, 3)))
    return " ".join(said)


def diagnosis(case: Case, kind: str, w: Writer, parts: list[str], nodal: bool, other: str | None, signs: str) -> str:
    """The lines of the diagnosis, part by part."""
    bullet = "- " if w.chance(0.6) else ""
    said = []
    for number, (sign, part) in enumerate(zip(signs, parts, strict=False)):
        lines = []
        if number == 0:
            lines.append(w.say("met" if kind == "metastasis" else "dx.line"))
            solid = case.chapter not in LIQUID
            if kind == "resection" and solid:
                lines.append(w.say("dx.margin"))
            if case.behavior in "23" and solid and w.chance(0.7):
                lines.append(w.say("dx.extra"))
            if w.chance(0.25):
                lines.append(w.say("ihc"))
        elif number == 1 and nodal:
            lines.append(w.say("dx.node" if case.nodes[0] else "dx.node.negative"))
        else:
            lines.append(other or w.say("dx.benign"))
        said.append(f"{case.laboratory.part.format(sign)}{part}:\n" + "\n".join(bullet + line for line in lines))
    return "\n".join(said)


def slip(text: str, rate: float, draw: Draw) -> str:
    """Slips of the keyboard: two letters change places, or one is lost."""
    for _ in range(int(rate * 2 * draw() + 0.5)):
        at = int(draw() * (len(text) - 2))
        pair = text[at : at + 2]
        if pair.isalpha() and pair.islower() and pair.isascii():
            text = text[:at] + (pair[::-1] if draw() < 0.6 else pair[0]) + text[at + 2 :]
    return text
