"""A case: one tumor of one person, its labels, and the reports that were written about it.

A case is drawn from a stream that its number alone determines, so it comes out the same whatever is made before,
after or beside it. Its labels are what a registrar would settle on with all reports at hand; a single report may say
less (a biopsy that only says "carcinoma", an addendum with receptor results), which is why labels cannot simply be
read off.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date as Day

from pathveil.corpus.synth.codes import Classes, family
from pathveil.corpus.synth.grammar import Draw, expand
from pathveil.corpus.synth.houses import ELSEWHERE, SHARED, House, Laboratory, Mix, draw_stream, house
from pathveil.corpus.synth.people import Patient, address, digits, given_name, mark, surname, town

# Cases are diagnosed from 2004-01-01 to 2022-12-31 and followed to 2024-12-31, in days as date.toordinal counts.
FIRST_DAY, LAST_DAY, FOLLOWED = 731_581, 738_520, 739_251

# Chance of one, two, three … reports a case; what the first is, and what follows what.
REPORTS = (0.46, 0.29, 0.14, 0.07, 0.03, 0.01)
FIRST = (("biopsy", 0.62), ("resection", 0.24), ("cytology", 0.09), ("consult", 0.05))
NEXT = {
    "biopsy": (("resection", 0.55), ("addendum", 0.17), ("consult", 0.09), ("metastasis", 0.11), ("biopsy", 0.08)),
    "cytology": (("biopsy", 0.35), ("resection", 0.45), ("addendum", 0.10), ("metastasis", 0.10)),
    "resection": (("addendum", 0.36), ("metastasis", 0.28), ("consult", 0.13), ("resection", 0.15), ("biopsy", 0.08)),
    "addendum": (("resection", 0.38), ("metastasis", 0.32), ("consult", 0.12), ("biopsy", 0.18)),
    "consult": (("resection", 0.50), ("metastasis", 0.25), ("addendum", 0.25)),
    "metastasis": (("metastasis", 0.45), ("addendum", 0.40), ("biopsy", 0.15)),
}
WAIT = {  # days after the report before
    "biopsy": (20, 400),
    "cytology": (5, 90),
    "resection": (9, 75),
    "addendum": (2, 16),
    "consult": (4, 30),
    "metastasis": (90, 1500),
}
# Chances of right, left, bilateral, one side but not said which, midline, unknown, for organs that come in pairs.
SIDES = ("right", "left", "bilateral", "one_side", "midline", "paired_unknown")
USUAL_SIDES = (0.468, 0.468, 0.012, 0.010, 0.0, 0.042)
MORE_SIDES = {
    "C56": (0.37, 0.37, 0.19, 0.01, 0.0, 0.06),
    "C57": (0.40, 0.40, 0.10, 0.02, 0.0, 0.08),
    "C44": (0.44, 0.44, 0.003, 0.007, 0.05, 0.06),
    "C70": (0.42, 0.42, 0.01, 0.01, 0.06, 0.08),
    "C71": (0.43, 0.43, 0.02, 0.01, 0.05, 0.06),
    "C30": (0.40, 0.40, 0.04, 0.02, 0.06, 0.08),
    "C41": (0.40, 0.40, 0.0, 0.02, 0.08, 0.10),
    "C34": (0.56, 0.40, 0.008, 0.007, 0.0, 0.025),
}
MISSING = {"site": 0.004, "subsite": 0.02, "laterality": 0.015, "histology": 0.01, "behavior": 0.01}


@dataclass(frozen=True)
class Case:
    """Everything that the reports of one case share."""

    number: int
    region: House  # the registry: where the patient lives
    voice: House  # whose laboratory writes the reports
    laboratory: Laboratory
    chapter: str
    look: str
    subsite: str
    morphology: str
    laterality: str
    labels: dict[str, str | None]
    patient: Patient
    diagnosed: int  # day
    visits: tuple[tuple[str, int], ...]  # kind of report, day
    size: int  # of the tumor in millimeters
    nodes: tuple[int, int]  # positive, examined
    phenotype: int  # bits that decide which markers are positive
    detail_told: bool

    @property
    def behavior(self) -> str:
        return self.morphology[-1]


def choose(draw: Draw, chances: Sequence[tuple[str, float]]) -> str:
    """One of weighted names."""
    left = draw()
    for name, chance in chances:
        left -= chance
        if left < 0:
            return name
    return chances[0][0]


def side_of(subsite: str, classes: Classes, draw: Draw) -> str:
    """A laterality: of a pair only where the organ comes in pairs."""
    if subsite not in classes.paired:
        return "not_paired"
    chances = MORE_SIDES.get(subsite[:3], USUAL_SIDES)
    side = choose(draw, list(zip(SIDES, chances, strict=True)))
    if subsite == "C34.2":  # only the right lung has a middle lobe
        side = "right"
    if side not in classes.lateralities:
        side = "right" if draw() < 0.5 else "left"
    return side if side in classes.lateralities else classes.lateralities[-1]


def draw_case(number: int, *, classes: Classes, mixes: Sequence[Mix], shares: Sequence[float], seed: int) -> Case:
    """The case of that number."""
    draw = draw_stream(seed, "case", number)
    registry = draw_place(draw, shares)
    region = house(registry, seed=seed)
    subsite, morphology = mixes[registry].draw(draw)
    laterality = side_of(subsite, classes, draw)
    site = classes.site[subsite[:3]]
    look = family(morphology, site.chapter)
    labels = draw_labels(draw, subsite, morphology, laterality)
    diagnosed = FIRST_DAY + int(draw() * (LAST_DAY - FIRST_DAY))
    sex = "F" if draw() * 100 < site.female else "M"
    age = site.age + int((draw() + draw() + draw() - 1.5) * 30)
    if look == "pediatric":
        age = 1 + int(draw() * 16)
    birth = diagnosed - max(1, min(98, age)) * 365 - int(draw() * 365)
    patient = draw_patient(draw, region, sex, birth=birth, diagnosed=diagnosed)
    spreads = morphology[-1] == "3" and site.chapter != "marrow"
    visits = draw_visits(draw, diagnosed, spreads=spreads)
    examined = 2 + int(draw() * draw() * 28)
    positive = int(draw() * draw() * examined) + 1 if draw() < 0.38 and spreads else 0
    voice = house(SHARED, seed=seed) if draw() < ELSEWHERE else region
    lean = draw()
    return Case(
        number=number,
        region=region,
        voice=voice,
        laboratory=voice.laboratories[int(lean * lean * len(voice.laboratories))],
        chapter=site.chapter,
        look=look,
        subsite=subsite,
        morphology=morphology,
        laterality=laterality,
        labels=labels,
        patient=patient,
        diagnosed=diagnosed,
        visits=visits,
        size=3 + int(draw() * draw() * 110),
        nodes=(min(positive, examined), examined),
        phenotype=int(draw() * 2**30),
        detail_told=draw() < 0.25,
    )


def draw_place(draw: Draw, shares: Sequence[float]) -> int:
    """A place in a list of chances; the last where they leave something."""
    left = draw()
    for place, share in enumerate(shares):
        if left < share:
            return place
        left -= share
    return len(shares) - 1


def draw_labels(draw: Draw, subsite: str, morphology: str, laterality: str) -> dict[str, str | None]:
    """A label a task; some are missing, as at registries."""
    labels: dict[str, str | None] = {
        "site": subsite[:3],
        "subsite": subsite,
        "laterality": laterality,
        "histology": morphology[:4],
        "behavior": morphology[5:],
    }
    for task, chance in MISSING.items():
        if draw() < chance:
            labels[task] = None
    return labels


def draw_visits(draw: Draw, diagnosed: int, *, spreads: bool) -> tuple[tuple[str, int], ...]:
    """The reports of a case: their kinds and days."""
    wanted = 1 + draw_place(draw, REPORTS)
    kind, day = choose(draw, FIRST), diagnosed + int(draw() * 4)
    visits = [(kind, day)]
    while len(visits) < wanted:
        kind = choose(draw, NEXT[kind])
        if kind == "metastasis" and not spreads:
            kind = "biopsy"
        low, high = WAIT[kind]
        day += low + int(draw() * draw() * (high - low))
        if day > FOLLOWED:
            break
        visits.append((kind, day))
    return tuple(visits)


def draw_patient(draw: Draw, region: House, sex: str, *, birth: int, diagnosed: int) -> Patient:
    """A person of that region."""
    said: list[str] = []
    past = Day.fromordinal(birth + int(draw() * (diagnosed - birth))).year
    facts = region.rules | {"town": town(draw), "pastyear": str(past)}
    facts["poss"] = "her" if sex == "F" else "his"
    expand(region.rules["detail.text"], facts, draw, said.append)
    kin = "F" if draw() < 0.5 else "M"
    return Patient(
        sex=sex,
        given=given_name(draw, sex),
        surname=surname(draw),
        relative=(kin, f"{given_name(draw, kin)} {surname(draw)}"),
        birth=birth,
        record=digits(draw, region.habits.record),
        address=address(draw, region.habits, region.towns),
        phone=digits(draw, region.habits.phone),
        detail=mark("detail", "".join(said)),
    )
