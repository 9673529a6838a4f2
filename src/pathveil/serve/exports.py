"""What people decided, for other systems: corrections as CSV, codes as NAACCR XML, labels for the next training.

The last decision of a case counts: a reviewer's that settled it, else the first. Labels have a line a report, with the
ids it came with, as 'pathveil corpus label REPORTS LABELS --on report_id' takes them. No text is in any of them.
"""

import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

from pathveil.bundle.coder import Code
from pathveil.bundle.incoming import Origin
from pathveil.bundle.naaccr_xml import xml_writer
from pathveil.bundle.outputs import Coded, csv_text
from pathveil.serve.accounts import User
from pathveil.serve.casework import DONE, Casework


def final_decisions(work: Casework, user: User) -> list[dict]:
    """The decision that counts of each closed case that a person may see, with the case's reports."""
    last = {row["case_key"]: row for row in work.decisions() if row["status"] == DONE and user.sees(row["registry"])}
    reports: dict[str, list[dict]] = {}
    for row in work.base.rows("SELECT case_key, place, report_id, number FROM reports ORDER BY place"):
        reports.setdefault(row["case_key"], []).append(row)
    return [row | {"texts": reports.get(key, [])} for key, row in last.items()]


def reports_of(row: Mapping[str, Any], tumour: int) -> list[dict]:
    """The reports that tell of one of a case's tumours: all, where there is but one."""
    if len(row["codes"]) == 1:
        return row["texts"]
    places = row["reports"][tumour] if tumour < len(row["reports"]) else ()
    return [one for one in row["texts"] if one["place"] in places]


def corrections(rows: Sequence[dict], tasks: Sequence[str]) -> str:
    """A line a tumour: what was decided, what the model had proposed, and whether they differ; what only one of the two
    has is empty on the other's side."""
    names = [f"{task}{end}" for task in tasks for end in ("", "_proposed", "_changed", "_abstained")]
    lines = [["case_id", "tumor", "registry", "date", "decided", "who", "model", *names]]
    for row in rows:
        both = zip_longest(row["codes"], row["proposed"], row["abstained"], fillvalue={})
        for tumour, (codes, proposals, abstained) in enumerate(both, start=1):
            values = []
            for task in tasks:
                code, proposed = codes.get(task, ""), proposals.get(task, "")
                values += [code, proposed, said(code != proposed), said(task in abstained)]
            ids = [row["case_id"] or row["texts"][0]["report_id"], str(tumour), row["registry"], row["day"]]
            lines.append([*ids, row["made"], row["who"], row["model"], *values])
    return csv_text(lines)


def labels(rows: Sequence[dict], tasks: Sequence[str]) -> str:
    """A line a report: its ids and the codes of the tumour it tells of. One that tells of several, or of none, would
    teach a wrong code and is left out."""
    lines = [["report_id", "case_id", "report_number", *tasks]]
    for row in rows:
        told = Counter(one["place"] for tumour in range(len(row["codes"])) for one in reports_of(row, tumour))
        for tumour, codes in enumerate(row["codes"]):
            for one in reports_of(row, tumour):
                if told[one["place"]] == 1:
                    ids = [one["report_id"], row["case_id"] or "", one["number"] or ""]
                    lines.append(ids + [codes.get(task, "") for task in tasks])
    return csv_text(lines)


def naaccr_xml(rows: Sequence[dict], tasks: Sequence[str]) -> str:
    """A Patient a case with its Tumors, as 'pathveil predict' writes them, but for codes that contradict each other: a
    person has decided so."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "codes.xml"
        with xml_writer(path, Path(folder) / "beside.jsonl", decided=True) as write:
            for row in rows:
                for tumour, decided in enumerate(row["codes"]):
                    codes = {task: Code(code, 1.0, False) for task, code in decided.items()}
                    reports = tuple(Origin(one["report_id"], one["number"]) for one in reports_of(row, tumour))
                    write(Coded(row["case_id"], reports, codes, tumor=tumour + 1, tumors=len(row["codes"])))
        return path.read_text(encoding="utf-8")


def said(value: bool) -> str:
    return "true" if value else "false"
