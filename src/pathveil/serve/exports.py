"""What people decided, for other systems: corrections as CSV, codes as NAACCR XML, labels for the next training.

The last decision of a case counts: a reviewer's that settled it, else the first. Labels have a line a report, with the
ids it came with, as 'pathveil corpus label REPORTS LABELS --on report_id' takes them. No text is in any of them.
"""

import csv
import io
import tempfile
from collections.abc import Sequence
from pathlib import Path

from pathveil.bundle.coder import Code
from pathveil.bundle.incoming import Origin
from pathveil.bundle.naaccr_xml import xml_writer
from pathveil.bundle.outputs import Coded
from pathveil.serve.accounts import User
from pathveil.serve.casework import DONE, Casework

FORMULA = ("=", "+", "-", "@", "\t", "\r")  # what a spreadsheet would take for a formula


def final_decisions(work: Casework, user: User) -> list[dict]:
    """The decision that counts of each closed case that a person may see, with the case's reports."""
    last = {row["case_key"]: row for row in work.decisions() if row["status"] == DONE and user.sees(row["registry"])}
    reports: dict[str, list[dict]] = {}
    for row in work.base.rows("SELECT case_key, report_id, number FROM reports ORDER BY place"):
        reports.setdefault(row["case_key"], []).append(row)
    return [row | {"reports": reports.get(key, [])} for key, row in last.items()]


def corrections(rows: Sequence[dict], tasks: Sequence[str]) -> str:
    """A line a case: what was decided, what the model had proposed, and whether they differ."""
    names = [f"{task}{end}" for task in tasks for end in ("", "_proposed", "_changed", "_abstained")]
    lines = [["case_id", "registry", "date", "decided", "who", "model", *names]]
    for row in rows:
        values = []
        for task in tasks:
            code, proposed = row["codes"].get(task, ""), row["proposed"].get(task, "")
            values += [code, proposed, said(code != proposed), said(task in row["abstained"])]
        ids = [row["case_id"] or row["reports"][0]["report_id"], row["registry"], row["day"]]
        lines.append([*ids, row["made"], row["who"], row["model"], *values])
    return table(lines)


def labels(rows: Sequence[dict], tasks: Sequence[str]) -> str:
    """A line a report: its ids and the codes of its case."""
    lines = [["report_id", "case_id", "report_number", *tasks]]
    for row in rows:
        codes = [row["codes"].get(task, "") for task in tasks]
        lines += [[one["report_id"], row["case_id"] or "", one["number"] or "", *codes] for one in row["reports"]]
    return table(lines)


def naaccr_xml(rows: Sequence[dict], tasks: Sequence[str]) -> str:
    """A Patient and a Tumor a case, as 'pathveil predict' writes them."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "codes.xml"
        with xml_writer(path, Path(folder) / "beside.jsonl") as write:
            for row in rows:
                codes = {task: Code(code, 1.0, False) for task, code in row["codes"].items()}
                reports = tuple(Origin(one["report_id"], one["number"]) for one in row["reports"])
                write(Coded(row["case_id"], reports, codes))
        return path.read_text(encoding="utf-8")


def said(value: bool) -> str:
    return "true" if value else "false"


def table(lines: Sequence[Sequence[str]]) -> str:
    """CSV that a spreadsheet opens as text, whatever somebody has called a case."""
    file = io.StringIO()
    csv.writer(file).writerows([["'" + cell if cell.startswith(FORMULA) else cell for cell in line] for line in lines])
    return file.getvalue()
