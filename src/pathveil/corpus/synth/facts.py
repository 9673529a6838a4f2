"""What one report knows: the house's phrases, with the case's own facts on top.

How much a report says depends on its kind: a resection names the place and the tumor most of the time, a biopsy often
leaves one of them open, an addendum or a metastasis mostly does. Where the place is not named, the organ is; where the
tumor is not named, its family is hinted at.
"""

from collections.abc import Mapping, Sequence
from datetime import date as Day
from typing import Any

from pathveil.corpus.synth.cases import Case
from pathveil.corpus.synth.grammar import Deck, Draw
from pathveil.corpus.synth.houses import SHARED, house
from pathveil.corpus.synth.people import date, digits, mark, pick_common

Terms = Mapping[str, Sequence[str]]  # what may be said of a code

# Chances that a report names the subsite, the tumor's type and the side.
EXPLICIT = {
    "biopsy": (0.72, 0.66, 0.80),
    "cytology": (0.62, 0.42, 0.75),
    "resection": (0.82, 0.86, 0.93),
    "addendum": (0.22, 0.34, 0.35),
    "consult": (0.55, 0.84, 0.60),
    "metastasis": (0.10, 0.58, 0.22),
}
NODELESS = frozenset({"marrow", "brain", "meninges", "nerve", "endocrine", "nodes", "unknown"})
LYMPHOID = frozenset({"bcell", "tcell", "hodgkin", "plasma", "chronic-lymphoid", "myeloid", "histiocytic"})
CLOCK = {  # where a quadrant of the left breast lies; the right one is its mirror
    "C50.2": ("10", "11"),
    "C50.3": ("7", "8"),
    "C50.4": ("1", "2"),
    "C50.5": ("4", "5"),
}
MIRROR = {"10": "2", "11": "1", "7": "5", "8": "4", "1": "11", "2": "10", "4": "8", "5": "7"}
SIDES = {  # in full, and as the hurried write it
    "right": ("right", "rt."),
    "left": ("left", "lt."),
    "bilateral": ("bilateral", "bilat."),
    "midline": ("midline", "midline"),
    "one_side": ("unilateral", "unilateral"),
}
DEALT = ("arch", "cyto", "ddx", "normal", "benign", "margins", "extent", "complaint", "imaging", "nodes")
# What is said of grade and kind where the usual words would contradict the behavior.
IN_SITU = {
    "grade": ("high grade", "low grade", "intermediate grade", "extensive", "focal", "nuclear grade 2"),
    "vague": ("in situ neoplasm", "intraepithelial proliferation", "dysplasia, at least severe"),
}
NOT_MALIGNANT = {
    "grade": ("low grade", "typical features", "no atypical features", "mitoses sparse", "completely excised"),
    "vague": ("neoplasm", "low grade neoplasm", "neoplasm, favor indolent", "tumor, see comment"),
}
AWAY = (
    "fibrous stroma",
    "blood and fibrin",
    "necrotic debris",
    "inflamed connective tissue",
    "unremarkable host tissue",
)
CNS = frozenset({"brain", "meninges", "nerve", "endocrine"})  # where WHO grades serve every behavior


def report_facts(
    case: Case,
    kind: str,
    day: int,
    draw: Draw,
    *,
    names: Mapping[str, Sequence[str]],
    terms: Mapping[str, Sequence[str]],
) -> dict[str, Any]:
    """The facts of one report; ``names`` of subsites, ``terms`` of morphologies."""
    voice, laboratory = case.voice, case.laboratory
    facts = voice.facts(case.chapter, case.look, case.morphology).copy()
    facts.update(laboratory.rules)
    if case.behavior != "3":
        if case.behavior == "2":
            facts.update(IN_SITU)
        elif case.chapter not in CNS:
            facts.update(NOT_MALIGNANT)
    if kind == "metastasis":
        facts.update(normal=AWAY, benign=AWAY)
    add_markers(case, facts)
    for key in DEALT:
        options = facts[key]
        lean = draw()
        facts[key] = Deck(options, int(lean * lean * len(options)))
    place_told, type_told, side_told = EXPLICIT[kind]
    facts["dxtext"] = voice.term(case.morphology, terms[case.morphology]) if draw() < type_told else facts["vague"]
    add_place(case, kind, facts, draw, place_told=place_told, side_told=side_told, names=names)
    positive, examined = case.nodes
    millimeters = case.size if kind == "resection" else max(2, case.size // 2)
    facts.update(
        proc=facts["resection" if kind == "resection" else "biopsy"],
        size=f"{millimeters / 10:.1f}",
        nodespos=str(positive),
        nodestotal=str(examined),
        stage=stage(case),
        snomed=f"M-{case.morphology.replace('/', '')} T-{case.subsite[1:3]}",
        icdo=f"{case.subsite} M{case.morphology}",
    )
    add_people(case, kind, day, facts, draw)
    return facts


def add_markers(case: Case, facts: dict[str, Any]) -> None:
    """A marker that can be either is positive or negative in a case, in all its reports."""
    pos, neg = facts["pos"], facts["neg"]
    if facts["clash"]:
        wrong_pos, wrong_neg = set(), set()
        for bit, (i, j) in enumerate(facts["clash"]):
            if case.phenotype >> bit & 1:
                wrong_pos.add(i)
            else:
                wrong_neg.add(j)
        pos = [piece for i, piece in enumerate(pos) if i not in wrong_pos] or pos
        neg = [piece for j, piece in enumerate(neg) if j not in wrong_neg] or neg
    facts["pos"], facts["neg"] = Deck(pos, case.phenotype % len(pos)), Deck(neg, case.phenotype % len(neg))


def add_place(
    case: Case,
    kind: str,
    facts: dict[str, Any],
    draw: Draw,
    *,
    place_told: float,
    side_told: float,
    names: Terms,
) -> None:
    """The place and the side, as far as this report tells them."""
    side = ""
    if case.laterality in SIDES and draw() < side_told:
        side = SIDES[case.laterality][draw() < 0.15]
    organs = facts["organ"]
    organ = organs[int(draw() * len(organs))]
    place: Any = organ
    if draw() < place_told:
        if case.subsite in CLOCK and case.laterality in ("left", "right") and draw() < 0.4:
            hour = CLOCK[case.subsite][int(draw() * 2)]
            place = f"breast, {hour if case.laterality == 'left' else MIRROR[hour]} o'clock"
        else:
            place = pick_common(draw, case.voice.term(case.subsite, names[case.subsite]))
    facts["where"] = place
    facts["place"] = ([side, " ", place], [place, ", ", side]) if side else place
    facts["organ"] = [side, " ", organ] if side and draw() < 0.5 else organ
    facts["sidetext"] = side or "not specified"
    targets = facts["spread"]
    facts["target"] = targets[int(draw() * len(targets))]


def stage(case: Case) -> str:
    """A TNM stage in keeping with size, nodes and behavior."""
    if case.behavior == "2":
        return "pTis N0"
    if case.look in LYMPHOID:
        return f"Ann Arbor stage {('I', 'II', 'III', 'IV')[case.phenotype % 4]}"
    if case.behavior in "01" or case.chapter in NODELESS:
        return "not applicable"
    depth = 1 + (case.size > 20) + (case.size > 45) + (case.size > 75)
    positive = case.nodes[0]
    return f"pT{depth} pN{0 if not positive else 1 + (positive > 3) + (positive > 9)} pMX"


def add_people(case: Case, kind: str, day: int, facts: dict[str, Any], draw: Draw) -> None:
    """Who and when: everything personal, marked."""
    region, laboratory, patient = case.region, case.laboratory, case.patient
    habits = case.voice.habits
    when, born = Day.fromordinal(day), Day.fromordinal(patient.birth)
    number = habits.accession.format(yy=f"{when.year % 100:02d}", yyyy=when.year)
    older = habits.accession.format(yy=f"{(when.year - 1) % 100:02d}", yyyy=when.year - 1)
    one, two = (mark("physician_name", pick_common(draw, region.physicians)) for _ in range(2))
    signer = laboratory.pathologists[int(draw() * len(laboratory.pathologists))]
    title = "Mrs. " if patient.sex == "F" else "Mr. "
    full = mark("patient_name", f"{patient.given} {patient.surname}")
    loud = mark("patient_name", f"{patient.surname.upper()}, {patient.given.upper()}")
    outside = house(SHARED, seed=region.seed).laboratories
    sender = outside[int(draw() * len(outside))] if kind in ("consult", "addendum") else laboratory
    facts.update(
        age=str((day - patient.birth) // 365),
        sexword=("woman", "female", "lady") if patient.sex == "F" else ("man", "male", "gentleman"),
        sexletter=patient.sex,
        othercancer=facts["othercancer.f" if patient.sex == "F" else "othercancer.m"],
        patientname=(title + mark("patient_name", patient.surname), full) if draw() < 0.7 else "the patient",
        patientfull=full,
        patientlast=(mark("patient_name", f"{patient.surname}, {patient.given}"), loud),
        relation=("daughter", "sister", "next of kin") if patient.relative[0] == "F" else ("son", "brother", "contact"),
        relative=mark("relative_name", patient.relative[1]),
        mrn=mark("record_number", patient.record),
        accession=mark("record_number", digits(draw, number)),
        accession_old=mark("record_number", digits(draw, older)),
        dob=mark("birth_date", date(born.year, born.month, born.day, habits.date)),
        today=mark("service_date", date(when.year, when.month, when.day, habits.date)),
        address=mark("address", patient.address),
        phone=mark("phone", patient.phone),
        email=mark("email", f"{patient.given[0]}{patient.surname}@mail.example".lower()),
        doctor=(f"Dr. {one}", f"Dr. {two}", one),
        pathologist=mark("physician_name", signer),
        initials=(signer[0] + signer.rpartition(" ")[2][0]).lower(),
        lab=mark("laboratory", sender.name),
        detail=patient.detail,
        pastyear=str(when.year - 2 - int(draw() * 25)),
    )
