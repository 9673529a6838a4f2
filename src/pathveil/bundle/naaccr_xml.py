"""Codes as NAACCR XML (naaccr.org/xml-data-exchange-standard), as the standard's own reader accepts it.

One Patient a case and one Tumor for each tumour that its reports tell of (``pathveil.bundle.tumours``), with the items
that nobody need look at: primarySite (C509, without the point), laterality (a digit), histologicTypeIcdO3 and
behaviorCodeIcdO3. An item the model abstains from, or that contradicts another, is left out for a person to fill in.
The numbers of a tumour's reports stand in pathReportNumber1 to 5, but for those that may tell of another tumour. The
record type is A, a full case abstract: M would say that a record was sent before and modified, and the others have no
place for report numbers.

The reader (imsweb's ``naaccr-xml``) refuses a file with anything that the standard has no item for, so case ids,
probabilities and everything else stand in a file beside it, one line a Tumor in the order of the XML, each with the
items as the XML has them: once a system has taken the file in, patient and report numbers alone lead from one to the
other.

>>> naaccr_items({"subsite": Code("C50.9", 0.99, False), "laterality": Code("left", 0.98, False),
...               "histology": Code("8500", 0.5, True)})
{'primarySite': 'C509', 'laterality': '2'}
>>> sidecar_of(Path("out/codes.xml")).as_posix()
'out/codes.probabilities.jsonl'
"""

import re
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO
from xml.sax.saxutils import escape

from pathveil.bundle.coder import Code
from pathveil.bundle.incoming import Origin
from pathveil.bundle.outputs import NAACCR_HEAD, Coded, Write, json_line, one_line
from pathveil.corpus.seen import Seen
from pathveil.icdo.combinations import find_contradictions
from pathveil.icdo.lists import LATERALITIES

TASKS = ("subsite", "laterality", "histology", "behavior")  # that it has items for
SHAPES = {
    "primarySite": r"C\d{3}",
    "laterality": r"[0-59]",
    "histologicTypeIcdO3": r"\d{4}",
    "behaviorCodeIcdO3": r"[0-3]",  # what is metastatic (6) or may be (9) is a laboratory's code, not a registry's
}
LONGEST_NUMBER, NUMBERS = 20, 5  # characters of pathReportNumber1, in UTF-16, and how many such items there are


def sidecar_of(path: Path) -> Path:
    """Where what XML has no item for is written."""
    return path.with_name(f"{path.stem}.probabilities.jsonl")


@contextmanager
def xml_writer(path: Path, sidecar: Path, *, decided: bool = False) -> Generator[Write]:
    """A function that writes one tumour at a time; the tumours of a case must follow on each other. Codes that a person
    has ``decided`` on are written even where they contradict each other."""
    with path.open("w", encoding="utf-8", newline="") as file, sidecar.open("w", encoding="utf-8") as beside:
        file.write(f'<?xml version="1.0" encoding="UTF-8"?>\n{NAACCR_HEAD}\n')
        yield tumour_writer(file, beside, decided=decided)
        file.write("</NaaccrData>\n")


def tumour_writer(file: IO[str], beside: IO[str], *, decided: bool) -> Write:
    patients, of_patient, taken = 0, {}, Seen()

    def write(coded: Coded) -> None:
        nonlocal patients, of_patient
        if coded.tumor == 1:
            patients += 1
            of_patient = patient_number(coded.case_id, taken)
            file.write("\n".join(["  <Patient>", *item_lines(of_patient, indent=4)]) + "\n")
        of_tumour = naaccr_items(coded.codes, decided=decided) | report_numbers(certain_reports(coded))
        file.write("\n".join(["    <Tumor>", *item_lines(of_tumour, indent=6), "    </Tumor>"]) + "\n")
        if coded.tumor == coded.tumors:
            file.write("  </Patient>\n")
        items = of_patient | of_tumour
        beside.write(one_line({"patient": patients, "items": items, **json_line(coded, by_case=True)}))

    return write


def patient_number(case_id: str | None, taken: Seen) -> dict[str, str]:
    """The patient's number where the case's id is one: the item takes eight digits, nothing else. Where 12 and 012 are
    two cases, only the first has the number: the same one would make one patient of them."""
    if case_id is None or not is_number(case_id) or not taken.add(int(case_id)):
        return {}
    return {"patientIdNumber": case_id.zfill(8)}


def is_number(case_id: str) -> bool:
    return re.fullmatch(r"[0-9]{1,8}", case_id) is not None


def certain_reports(coded: Coded) -> list[Origin]:
    """A tumour's reports but for those that may tell of another one."""
    doubtful = set(coded.doubtful)
    return [one for one in coded.reports if one not in doubtful]


def naaccr_items(codes: Mapping[str, Code], *, decided: bool = False) -> dict[str, str]:
    """The standard's items, in its order of numbers, for codes that are sure, go together (unless a person has
    ``decided`` on them) and have a form it knows."""
    sure = {task: code.code for task, code in codes.items() if not code.abstained}
    doubtful = set() if decided else {task for one in find_contradictions(sure) for task in one.tasks}
    sure = {task: code for task, code in sure.items() if task not in doubtful}
    side = sure.get("laterality", "")
    found = {
        "primarySite": sure.get("subsite", "").replace(".", "").upper(),
        "laterality": LATERALITIES[side].digit if side in LATERALITIES else side,
        "histologicTypeIcdO3": sure.get("histology", ""),
        "behaviorCodeIcdO3": sure.get("behavior", ""),
    }
    return {name: value for name, value in found.items() if re.fullmatch(SHAPES[name], value, re.ASCII)}


def report_numbers(reports: Sequence[Origin]) -> dict[str, str]:
    """The laboratories' numbers of a tumour's reports that the items can hold, each once."""
    numbers = dict.fromkeys(plain(report.report_number).strip() for report in reports if report.report_number)
    fitting = [number for number in numbers if 0 < len(number.encode("utf-16-le")) <= 2 * LONGEST_NUMBER][:NUMBERS]
    return {f"pathReportNumber{place}": number for place, number in enumerate(fitting, start=1)}


def item_lines(items: Mapping[str, str], *, indent: int) -> list[str]:
    return [f'{" " * indent}<Item naaccrId="{name}">{escape(value)}</Item>' for name, value in items.items()]


def plain(text: str) -> str:
    """Text without the control characters that XML cannot hold, on one line."""
    text = re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufffe\uffff\ud800-\udfff]", "", text)
    return re.sub(r"\s+", " ", text)
