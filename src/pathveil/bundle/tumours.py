"""Reports of one case, divided into the tumours they tell of, by what they say and never by the patient alone.

HL7 names patients, and a patient may have two primaries. Two reports tell of different tumours where codes that the
model is *sure* of say so, by the multiple-primary rules of the cancer registries (SEER's Solid Tumor Rules and general
instructions) as far as codes alone allow:

- blood and lymph (9590–9993) beside a solid tumour; two of these where the first three digits of their histologies
  differ, the place never counting;
- sites that differ in their first three characters, unless one of them is ill-defined (C14, C26, C39, C55, C76, C77,
  C80); urothelial tumours of C65–C68 are one, and so are serous ones of ovary, tube and peritoneum, and Kaposi sarcomas
  wherever they are;
- of colon, anus, bone, skin, peripheral nerves and soft tissue also sites that differ in the fourth character, unless
  one of them is 8 or 9, overlapping or not specified;
- left and right of a paired site, but for epithelial tumours of the ovaries, Wilms tumours and retinoblastomas;
- at one site, histologies whose first three digits differ, unless one is the general word for the other (8140 for a
  glandular tumour, 8010 for a carcinoma, 8000 for anything), or both are known to make one tumour (duct and lobular
  carcinoma of the breast; adenocarcinomas of the colon, with or without their polyp).

What codes do not tell (dates, sizes, polyposis, what the hematopoietic database says of pairs) is not decided here. A
report that is unsure joins the tumour whose codes it finds most probable: doubt leaves one tumour, not two, and such a
report is named (``doubtful_reports``) where its own best guess tells of another tumour.

>>> different_tumours({"site": "C42", "histology": "9732"}, {"site": "C50", "histology": "8500"})
'blood or lymph, and a solid tumour'
>>> different_tumours({"subsite": "C50.4", "laterality": "left"}, {"subsite": "C50.9", "laterality": "right"})
'two sides'
>>> different_tumours({"subsite": "C50.4", "histology": "8500"}, {"site": "C77", "histology": "8010"})
"""

from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np

from pathveil.bundle.coder import Code, decide
from pathveil.bundle.joint import Rules
from pathveil.bundle.model import Model
from pathveil.icdo.combinations import find_subsites
from pathveil.icdo.lists import code_lists
from pathveil.training.blend import log_softmax

ILL_DEFINED = frozenset({"C14", "C26", "C39", "C55", "C76", "C77", "C80"})
URINARY = frozenset({"C65", "C66", "C67", "C68"})
DIVIDED = frozenset({"C18", "C21", "C40", "C41", "C44", "C47", "C49"})  # where the fourth character tells of two
PLACES = "two places of a site"
KAPOSI = 9140
PELVIC = frozenset({"C48", "C56", "C57"})  # where serous carcinoma is one disease
# Histologies that count as one tumour at these sites, whatever their numbers.
ONE_TUMOUR = (
    (frozenset({"C50"}), ((8500, 8508), (8520, 8524), (8541, 8543))),
    (frozenset({"C18", "C19", "C20"}), ((8140, 8144), (8210, 8221), (8255, 8263), (8480, 8481), (8490, 8490))),
)
# The general word, and the histologies that it may stand for.
GENERAL = (
    ((8000, 8005), (8000, 9589)),
    ((8010, 8015), (8010, 8790)),
    ((8140, 8140), (8141, 8576)),
    ((8046, 8046), (8050, 8576)),
    ((8800, 8800), (8801, 9139)),
    ((9590, 9591), (9592, 9738)),
    ((9800, 9801), (9802, 9948)),
)


def different_tumours(one: Mapping[str, str], other: Mapping[str, str]) -> str | None:
    """Why two reports' sure codes, by task, tell of different tumours; none where they need not."""
    histologies = [int(codes["histology"]) if is_histology(codes) else None for codes in (one, other)]
    first, second = histologies
    blood = [None if number is None else is_blood(number) for number in histologies]
    if None not in blood and blood[0] != blood[1]:
        return "blood or lymph, and a solid tumour"
    if True in blood:
        return "two kinds of blood or lymph" if first and second and are_different_types(first, second, None) else None
    sites = [site_of(codes) for codes in (one, other)]
    if None in sites or ILL_DEFINED & set(sites) or first == second == KAPOSI:
        return None
    if sites[0] != sites[1]:
        return None if are_one_disease(sites, histologies) else "two sites"
    sides = {one.get("laterality"), other.get("laterality")}
    if sides == {"left", "right"} and is_paired(one, other) and not may_be_bilateral(sites[0], histologies):
        return "two sides"
    if first and second and are_different_types(first, second, sites[0]):
        return "two histologies"
    places = {codes.get("subsite", "")[3:] for codes in (one, other)}
    parted = sites[0] in DIVIDED and len(places) == 2 and not places & {"", ".8", ".9"}
    return PLACES if parted else None


def is_histology(codes: Mapping[str, str]) -> bool:
    code = codes.get("histology", "")
    return len(code) == 4 and code.isascii() and code.isdigit()


def is_blood(histology: int) -> bool:
    return 9590 <= histology <= 9993


def site_of(codes: Mapping[str, str]) -> str | None:
    """The three-character site; none where no topography code is there."""
    place = codes.get("subsite") or codes.get("site") or ""
    return place[:3] if find_subsites(place) else None


def is_paired(*reports: Mapping[str, str]) -> bool:
    """Whether both reports' places have two sides."""
    return all(
        bool(code_lists().paired & set(find_subsites(codes.get("subsite") or codes["site"]))) for codes in reports
    )


def may_be_bilateral(site: str | None, histologies: Sequence[int | None]) -> bool:
    """Tumours of both sides that count as one."""
    known = [number for number in histologies if number is not None]
    if site == "C56":
        return all(8000 <= number <= 8799 for number in known)
    return bool(known) and all(number == 8960 or 9510 <= number <= 9514 for number in known)


def are_one_disease(sites: Sequence[str | None], histologies: Sequence[int | None]) -> bool:
    """Two sites whose tumours of this type count as one."""
    known = [number for number in histologies if number is not None]
    if URINARY >= set(sites):
        return all(8120 <= number <= 8131 for number in known)
    if PELVIC >= set(sites):
        return all(8441 <= number <= 8463 for number in known)
    return False


def are_different_types(first: int, second: int, site: str | None) -> bool:
    """Whether two histologies at one site are two tumours: their first three digits differ, and nothing joins them."""
    if first // 10 == second // 10:
        return False
    pair = sorted((first, second))
    for general, kinds in GENERAL:
        for word, kind in (pair, pair[::-1]):
            if general[0] <= word <= general[1] and kinds[0] <= kind <= kinds[1]:
                return False
    for sites, spans in ONE_TUMOUR:
        if site in sites and all(any(low <= number <= high for low, high in spans) for number in pair):
            return False
    return True


def group_reports(
    codes: Sequence[Mapping[str, Code]], logs: Mapping[str, np.ndarray], labels: Mapping[str, Sequence[str]]
) -> list[list[int]]:
    """The reports of each tumour of a case, as numbers in ``codes``, in the order in which tumours are first met.

    ``logs`` are each task's log-probabilities (reports, classes). Reports that are sure of most go first, of these the
    surest, so that the order in which they come changes nothing; each joins a tumour with all of whose reports it
    agrees, of several the one whose codes it finds most probable.
    """
    sure = [{task: code.code for task, code in one.items() if not code.abstained} for one in codes]
    kinds = [tuple(one.items()) for one in sure]  # few: so that a case of thousands of reports is soon done
    differ = cache(lambda one, other: bool(different_tumours(dict(one), dict(other))))
    groups: list[list[int]] = []
    said: list[set[tuple[tuple[str, str], ...]]] = []  # of each group, by kinds
    surest = [(-len(sure[number]), -sum(code.probability for code in one.values())) for number, one in enumerate(codes)]
    for number in sorted(range(len(codes)), key=surest.__getitem__):
        own = kinds[number]
        fitting = [place for place, others in enumerate(said) if not any(differ(own, other) for other in others)]
        if not fitting:
            groups.append([])
            said.append(set())
            joined = len(groups) - 1
        elif len(fitting) == 1:
            joined = fitting[0]
        else:
            found = [log_probability(number, sure[groups[place][0]], logs, labels) for place in fitting]
            joined = fitting[int(np.argmax(found))]
        groups[joined].append(number)
        said[joined].add(own)
    return sorted((sorted(group) for group in groups), key=lambda group: group[0])


def answer_tumours(
    model: Model,
    codes: Sequence[Mapping[str, Code]],
    logs: Mapping[str, np.ndarray],
    *,
    empty: np.ndarray,
    one_tumor: bool = False,
    joint: Rules | None = None,
) -> list[tuple[list[int], dict[str, Code], list[int]]]:
    """For each tumour of a case: its reports, its codes from all of them, and which reports are doubtful.

    ``codes`` are those of each report alone; of ``empty`` reports nothing was read, and they count only where
    there is no other. With ``one_tumor`` the case is one, whatever its reports say.
    """
    groups = [list(range(len(codes)))] if one_tumor or len(codes) == 1 else group_reports(codes, logs, model.labels)
    found = []
    for group in groups:
        known = [row for row in group if not empty[row]]
        mean = {task: log_softmax(said[known or group].mean(0, keepdims=True)) for task, said in logs.items()}
        (answer,) = decide(model, mean, empty=np.array([not known]), joint=joint)
        doubtful = [] if one_tumor else doubtful_reports([codes[row] for row in group], answer)
        found.append((group, answer, [group[place] for place in doubtful]))
    return found


def doubtful_reports(reports: Sequence[Mapping[str, Code]], answer: Mapping[str, Code]) -> list[int]:
    """Which of a tumour's reports, by their own best codes, sure or not, tell of another tumour than the answer.

    The fourth character counts only where reports are sure: a guess at it is too often wrong.
    """
    whole = {task: code.code for task, code in answer.items()}
    alone = [{task: code.code for task, code in codes.items()} for codes in reports]
    return [number for number, codes in enumerate(alone) if different_tumours(codes, whole) not in (None, PLACES)]


def log_probability(
    number: int, codes: Mapping[str, str], logs: Mapping[str, np.ndarray], labels: Mapping[str, Sequence[str]]
) -> float:
    """How probable a report finds the codes of a tumour, a mean over its tasks."""
    said = [logs[task][number, labels[task].index(code)] for task, code in codes.items()]
    return float(np.mean(said)) if said else -np.inf
