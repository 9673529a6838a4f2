"""Coded reports as files: CSV for a spreadsheet, JSONL for a program, NAACCR XML for a registry's abstracting system.

NAACCR XML (naaccr.org/xml-data-exchange-standard) holds one Patient and one Tumor a case, with the items the model is
sure of: primarySite (C509, without the point), histologicTypeIcdO3, behaviorCodeIcdO3 and laterality (a digit). An item
the model abstains from is left out for a person to fill in. What the standard has no item for (our case and report ids,
probabilities) stands in an element of our own namespace, which readers of the standard pass over.

>>> naaccr_items({"subsite": Code("C50.9", 0.99, False), "laterality": Code("left", 0.98, False),
...               "histology": Code("8500", 0.5, True)})
{'primarySite': 'C509', 'laterality': '2'}
"""

import csv
import json
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any
from xml.sax.saxutils import escape, quoteattr

from pathveil.bundle.coder import Code
from pathveil.bundle.explanation import Explanation
from pathveil.errors import UsageError

FORMATS = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".xml": "naaccr-xml"}
NAMESPACE, OURS = "http://naaccr.org/naaccrxml", "urn:pathveil:coded:1"
DICTIONARY, SPECIFICATION = "http://naaccr.org/naaccrxml/naaccr-dictionary-250.xml", "1.8"
LATERALITY = {
    "not_paired": "0",
    "right": "1",
    "left": "2",
    "one_side": "3",
    "bilateral": "4",
    "midline": "5",
    "paired_unknown": "9",
}
LONGEST_NUMBER = 20  # characters of pathReportNumber1


@dataclass(frozen=True)
class Coded:
    """A report's codes, or a case's from all its reports."""

    case_id: str | None
    report_ids: tuple[str, ...]
    codes: Mapping[str, Code]
    report_number: str | None = None  # the laboratory's own, where the input has it
    explanation: Explanation | None = None


Write = Callable[[Coded], None]


def format_of(path: Path, named: str | None = None) -> str:
    """The format asked for, or what the file's name says."""
    form = named or FORMATS.get(path.suffix.lower(), "")
    if form not in FORMATS.values():
        raise UsageError(f"{named or path}: expected csv, jsonl or naaccr-xml (a name ending in .csv, .jsonl or .xml)")
    return form


@contextmanager
def writer(path: Path, form: str, tasks: Sequence[str], *, by_case: bool) -> Generator[Write]:
    """A function that writes one coded report (or case) at a time to ``path``."""
    with path.open("w", encoding="utf-8", newline="") as file:
        if form == "csv":
            yield csv_writer(file, tasks, by_case=by_case)
        elif form == "jsonl":
            yield jsonl_writer(file, by_case=by_case)
        else:
            file.write(
                '<?xml version="1.0" encoding="UTF-8"?>\n'
                f'<NaaccrData baseDictionaryUri="{DICTIONARY}" recordType="M" specificationVersion="{SPECIFICATION}" '
                f'xmlns="{NAMESPACE}" xmlns:pathveil="{OURS}">\n'
            )
            yield lambda coded: (file.write(patient(coded)), None)[1]
            file.write("</NaaccrData>\n")


def csv_writer(file: IO[str], tasks: Sequence[str], *, by_case: bool) -> Write:
    rows = csv.writer(file)
    ids = ["case_id", "reports"] if by_case else ["report_id", "case_id"]
    rows.writerow([*ids, *(f"{task}{end}" for task in tasks for end in ("", "_probability", "_abstained", "_lifted"))])

    def write(coded: Coded) -> None:
        ids = [coded.case_id, len(coded.report_ids)] if by_case else [coded.report_ids[0], coded.case_id]
        values = (
            value
            for code in (coded.codes[task] for task in tasks)
            for value in (
                code.code,
                f"{code.probability:.4f}",
                true_or_false(code.abstained),
                true_or_false(code.lifted),
            )
        )
        rows.writerow([*ids, *values])

    return write


def jsonl_writer(file: IO[str], *, by_case: bool) -> Write:
    def write(coded: Coded) -> None:
        line: dict[str, Any] = {"case_id": coded.case_id}
        line |= {"report_ids": list(coded.report_ids)} if by_case else {"report_id": coded.report_ids[0]}
        line |= {"codes": {task: asdict(code) for task, code in coded.codes.items()}}
        if coded.explanation:
            line["explanation"] = {
                task: {"places": [place.to_dict() | {"weight": round(place.weight, 4)} for place in reasons.places]}
                for task, reasons in coded.explanation.tasks.items()
            }
        file.write(json.dumps(line, ensure_ascii=False) + "\n")

    return write


def naaccr_items(codes: Mapping[str, Code]) -> dict[str, str]:
    """The standard's items, in its order of numbers, for the codes that are sure and have a form it knows."""
    sure = {task: code.code for task, code in codes.items() if not code.abstained}
    found = {
        "primarySite": sure.get("subsite", "").replace(".", "").upper(),
        "laterality": LATERALITY.get(sure.get("laterality", ""), sure.get("laterality", "")),
        "histologicTypeIcdO3": sure.get("histology", ""),
        "behaviorCodeIcdO3": sure.get("behavior", ""),
    }
    shape = {
        "primarySite": r"C\d{3}",
        "laterality": r"[0-9]",
        "histologicTypeIcdO3": r"\d{4}",
        "behaviorCodeIcdO3": r"\d",
    }
    return {name: value for name, value in found.items() if re.fullmatch(shape[name], value)}


def patient(coded: Coded) -> str:
    """One Patient with one Tumor, as XML."""
    lines = ["  <Patient>"]
    if coded.case_id and re.fullmatch(r"\d{1,8}", coded.case_id):  # the item takes eight digits and nothing else
        lines.append(f'    <Item naaccrId="patientIdNumber">{coded.case_id.zfill(8)}</Item>')
    lines.append("    <Tumor>")
    items = naaccr_items(coded.codes)
    if coded.report_number and len(coded.report_number) <= LONGEST_NUMBER:
        items["pathReportNumber1"] = plain(coded.report_number)
    lines += [f'      <Item naaccrId="{name}">{escape(value)}</Item>' for name, value in items.items()]
    case = f" caseId={quoteattr(plain(coded.case_id))}" if coded.case_id else ""
    lines.append(f"      <pathveil:coded{case}>")
    lines += [f"        <pathveil:report id={quoteattr(plain(report))}/>" for report in coded.report_ids]
    lines += [
        f"        <pathveil:task name={quoteattr(task)} code={quoteattr(code.code)} "
        f'probability="{code.probability:.4f}" abstained="{true_or_false(code.abstained)}" '
        f'lifted="{true_or_false(code.lifted)}"/>'
        for task, code in coded.codes.items()
    ]
    lines += ["      </pathveil:coded>", "    </Tumor>", "  </Patient>"]
    return "\n".join(lines) + "\n"


def true_or_false(value: bool) -> str:
    return "true" if value else "false"


def plain(text: str) -> str:
    """Text without the control characters that XML cannot hold."""
    return re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]", "", text)
