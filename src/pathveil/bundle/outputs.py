"""Coded reports as files: CSV for a spreadsheet, JSONL for a program, NAACCR XML for a registry's abstracting system.

Every answer keeps what links it to its report: ids, the laboratory's number, the message's id, file and position. An
answer for a case lists its reports. NAACCR XML has its own module (``pathveil.bundle.naaccr_xml``).

Ids and numbers come from whoever wrote the reports, and a spreadsheet would run a cell such as ``=HYPERLINK(…)``: in
CSV, a text that begins like a formula gets an apostrophe before it, and so does what follows on a semicolon or a line
end, at which spreadsheets of some countries begin a cell. JSONL has every id as it came.

>>> [safe_cell(cell) for cell in ("=1+1", "@case", "-17", "S-97", "S;=1", 0.25, None)]
["'=1+1", "'@case", '-17', 'S-97', "S;'=1", 0.25, None]

>>> from io import StringIO
>>> file, code = StringIO(), Code("C61", 0.98, False, term="prostate gland")
>>> answer = Coded(None, (Origin("r1", "S-97-1", file="lab.hl7", position=3),), {"site": code})
>>> jsonl_writer(file, by_case=False)(answer)
>>> print(file.getvalue()[:99])
{"report_id": "r1", "case_id": null, "report_number": "S-97-1", "message_id": null, "file": "lab.hl
"""

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from pathveil.bundle.coder import Code
from pathveil.bundle.explanation import Explanation
from pathveil.bundle.incoming import Origin
from pathveil.corpus.tables.opening import check_output
from pathveil.errors import UsageError
from pathveil.icdo.combinations import Contradiction

FORMATS = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".xml": "naaccr-xml"}
NAACCR_HEAD = (
    '<NaaccrData baseDictionaryUri="http://naaccr.org/naaccrxml/naaccr-dictionary-250.xml" recordType="A" '
    'specificationVersion="1.8" xmlns="http://naaccr.org/naaccrxml">'
)
STRING = r'"(?:[^"\\]|\\.)*"'  # of JSON
KNOWN = rf"(?:null|{STRING})"
# How each file of ours begins, to its first byte: another, such as somebody's corpus with our columns, never gives way.
# By report and by case as CSV and as JSONL, what lies beside NAACCR XML, and the XML: its patients have no other item.
BY_CASE = rf'"case_id": {KNOWN}, "tumor": \d+, "tumors": \d+, "report_ids": \['
BEGINNINGS = tuple(
    re.compile(beginning.encode())
    for beginning in (
        "report_id,case_id,report_number,message_id,file,position,contradictions,",
        "case_id,tumor,tumors,reports,report_ids,report_numbers,message_ids,files,positions,doubtful,contradictions,",
        rf'\{{"report_id": {STRING}, "case_id": {KNOWN}, "report_number": {KNOWN}, "message_id": {KNOWN}, '
        rf'"file": {KNOWN}, "position": (?:null|\d+), "codes": \{{{STRING}: \{{"code": ',
        rf"\{{{BY_CASE}",
        rf'\{{"patient": \d+, "items": \{{(?:{STRING}: {STRING}(?:, )?)*\}}, {BY_CASE}',
        rf'<\?xml version="1\.0" encoding="UTF-8"\?>\n{re.escape(NAACCR_HEAD)}\n'
        r'  <Patient>\n(?:    <Item naaccrId="patientIdNumber">\d{8}</Item>\n)?    <Tumor>\n',
    )
)
PAGE_MARK = b'<meta name="generator" content="Pathveil">'
LINE_ENDS = {ord(sign): f"\\u{ord(sign):04x}" for sign in "\x85\u2028\u2029"}  # that JSON does not escape
BETWEEN = "; "  # between the several values of one cell
BESIDE = ("second", "third")  # what CSV calls the alternatives
FORMULA = tuple("=+-@\t\r\n＝＋－＠")  # what a spreadsheet takes for the beginning of a formula, in some languages
NUMBER = re.compile(r"[+-]?\d+(\.\d+)?")  # which a number may begin with as well
# The same where a cell may begin in another country: behind a semicolon, or on another line.
WITHIN = re.compile(rf"([;\r\n]\s*)(?=[=+\-@＝＋－＠])(?!{NUMBER.pattern}\s*(?:[;\r\n]|$))")


@dataclass(frozen=True)
class Coded:
    """A report's codes, or those of a case's tumour from all its reports."""

    case_id: str | None
    reports: tuple[Origin, ...]
    codes: Mapping[str, Code]
    contradictions: tuple[Contradiction, ...] = ()
    explanation: Explanation | None = None
    text: str | None = None  # that the explanation's places lie in, where it is to be given along
    unread: int = 0  # reports of which the model reads nothing
    tumor: int = 1  # of the case's
    tumors: int = 1
    doubtful: tuple[Origin, ...] = ()  # of the reports, those that may tell of another tumour; ids may repeat


Write = Callable[[Coded], None]


def format_of(path: Path | None, named: str | None = None) -> str:
    """The format asked for, or what the file's name says; JSONL where there is no file."""
    form = named or ("jsonl" if path is None else FORMATS.get(path.suffix.lower(), ""))
    if form not in FORMATS.values():
        raise UsageError(f"{named or path}: expected csv, jsonl or naaccr-xml (a name ending in .csv, .jsonl or .xml)")
    return form


def check_written(written: Sequence[Path], *, sources: Sequence[Path]) -> None:
    """Refuse places where answers may not be written; earlier answers give way."""
    for path in written:
        check_output(path, sources=sources, renews=BEGINNINGS)


def line_writer(file: IO[str], form: str, tasks: Sequence[str], *, by_case: bool, joint: bool) -> Write:
    """A function that writes one coded report (or tumour of a case) at a time, as CSV or JSONL."""
    if form == "csv":
        return csv_writer(file, tasks, by_case=by_case, joint=joint)
    return jsonl_writer(file, by_case=by_case)


def csv_writer(file: IO[str], tasks: Sequence[str], *, by_case: bool, joint: bool = False) -> Write:
    rows = csv.writer(file)
    links = ("report_ids", "report_numbers", "message_ids", "files", "positions")
    ids = ["case_id", "tumor", "tumors", "reports", *links, "doubtful"]
    if not by_case:
        ids = ["report_id", "case_id", "report_number", "message_id", "file", "position"]
    ends = ["", "_term", "_probability", "_abstained", "_lifted", *(["_adjusted"] if joint else [])]
    ends += [f"_{rank}{end}" for rank in BESIDE for end in ("", "_probability")]
    rows.writerow([*ids, "contradictions", *(f"{task}{end}" for task in tasks for end in ends)])

    def cells(code: Code) -> list[str]:
        found = [code.code, code.term, f"{code.probability:.4f}"]
        found += [true_or_false(flag) for flag in (code.abstained, code.lifted, *([code.adjusted] if joint else []))]
        beside = [cell for one in code.alternatives for cell in (one.code, f"{one.probability:.4f}")]
        return found + beside + [""] * (2 * len(BESIDE) - len(beside))

    def write(coded: Coded) -> None:
        first = coded.reports[0]
        if by_case:
            lists = zip(*(vars(one).values() for one in coded.reports), strict=True)
            ids = [coded.case_id, coded.tumor, coded.tumors, len(coded.reports), *map(in_one_cell, lists)]
            ids.append(in_one_cell([one.report_id for one in coded.doubtful]))
        else:
            ids = [first.report_id, coded.case_id, first.report_number, first.message_id, first.file, first.position]
        against = BETWEEN.join(one.sentence for one in coded.contradictions)
        codes = (cell for task in tasks for cell in cells(coded.codes[task]))
        rows.writerow(map(safe_cell, (*ids, against, *codes)))

    return write


def in_one_cell(values: Sequence[Any]) -> str:
    """Several values as one cell: one place for each, so that cells of a row can be read side by side; empty where all
    are. What parts them is replaced within one.

    >>> in_one_cell((None, "S-97-1", 3)), in_one_cell((None, None)), in_one_cell(("S-1; S-2", "S-3"))
    ('; S-97-1; 3', '', 'S-1, S-2; S-3')
    """
    known = ["" if value is None else str(value).replace(BETWEEN, ", ") for value in values]
    return BETWEEN.join(known) if any(known) else ""


def safe_cell(cell: Any) -> Any:
    """A cell that no spreadsheet takes for a formula; numbers stay as they are."""
    if not isinstance(cell, str) or NUMBER.fullmatch(cell):
        return cell
    cell = WITHIN.sub(r"\1'", cell) if WITHIN.search(cell) else cell
    return "'" + cell if cell.startswith(FORMULA) else cell


def csv_text(lines: Iterable[Iterable[Any]]) -> str:
    """A small table as CSV, its cells safe."""
    file = io.StringIO()
    csv.writer(file).writerows(map(safe_cell, line) for line in lines)
    return file.getvalue()


def jsonl_writer(file: IO[str], *, by_case: bool) -> Write:
    def write(coded: Coded) -> None:
        file.write(one_line(json_line(coded, by_case=by_case)))

    return write


def one_line(content: Mapping[str, Any]) -> str:
    """An object as one line, whatever a reader takes for the end of one."""
    return json.dumps(content, ensure_ascii=False).translate(LINE_ENDS) + "\n"


def json_line(coded: Coded, *, by_case: bool) -> dict[str, Any]:
    """An answer as one object."""
    if by_case:
        doubtful = set(coded.doubtful)
        line: dict[str, Any] = {"case_id": coded.case_id, "tumor": coded.tumor, "tumors": coded.tumors}
        line |= {
            "report_ids": [one.report_id for one in coded.reports],
            "reports": [vars(one) | {"doubtful": one in doubtful} for one in coded.reports],
            "doubtful": [one.report_id for one in coded.doubtful],
        }
    else:
        line = {"report_id": coded.reports[0].report_id, "case_id": coded.case_id} | vars(coded.reports[0])
    line["codes"] = {task: json_code(code) for task, code in coded.codes.items()}
    line["contradictions"] = [one.to_dict() for one in coded.contradictions]
    if coded.explanation:
        line["explanation"] = {
            task: {"places": [place.to_dict() | {"weight": round(place.weight, 4)} for place in reasons.places]}
            for task, reasons in coded.explanation.tasks.items()
        }
    if coded.text is not None:
        line["text"] = coded.text
    return line


def json_code(code: Code) -> dict[str, Any]:
    """A code as an object; ``dataclasses.asdict`` would take longer than the network."""
    return vars(code) | {"alternatives": [vars(one) for one in code.alternatives]}


def true_or_false(value: bool) -> str:
    return "true" if value else "false"
