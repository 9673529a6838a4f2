"""One audit as a document: ``audit.json`` with every aggregate, and ``audit.html`` for people, written together.

Aggregates only. No text, no label of a single record, no score of a single record; cells with fewer than ten cases hold
no number. Scores of single records are written only on demand, to a file of their own that must not be published.

>>> sorted(RELEASES)
['label', 'probabilities', 'weights']
"""

import json
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pathveil import __version__
from pathveil.audit import metrics
from pathveil.audit.evidence import PROTOCOLS, Records, Score
from pathveil.audit.verdict import Appetite, judge
from pathveil.errors import UsageError

FORMAT = "pathveil-audit/1"
RELEASES = {
    "weights": "the model itself",
    "probabilities": "a probability for every code",
    "label": "the most likely code only",
}


def assemble(
    *,
    kind: str,
    records: Records,
    rows: Sequence[dict[str, Any]],
    curves: Sequence[dict[str, Any]],
    controls: Sequence[dict[str, Any]],
    appetite: Appetite,
    settings: dict[str, Any],
    provenance: dict[str, Any],
    spread: Sequence[dict[str, Any]] = (),
    notes: Sequence[str] = (),
) -> dict[str, Any]:
    """Everything an audit found, ready for JSON; the verdict is derived here, for each kind of release."""
    verdict = judge(rows, controls=controls, appetite=appetite)
    by_release = {}
    for release in RELEASES:
        other = judge(rows, controls=controls, appetite=appetite.model_copy(update={"release": release}))
        by_release[release] = {"answer": other.answer, "sentence": other.sentence}
    found = list(dict.fromkeys(row["protocol"] for row in rows))
    return {
        "format": FORMAT,
        "pathveil": __version__,
        "kind": kind,
        "verdict": verdict.as_json(),
        "appetite": appetite.model_dump(mode="json"),
        "by_release": by_release,
        "data": describe(records),
        "protocols": {name: PROTOCOLS[name] for name in found},
        "controls": list(controls),
        "rows": list(rows),
        "curves": list(curves),
        "spread": list(spread),
        "notes": list(notes),
        "settings": settings | {"confidence": metrics.CONFIDENCE, "resamples": metrics.RESAMPLES},
        "provenance": provenance,
    }


def describe(records: Records) -> dict[str, Any]:
    member = records.member
    return {
        "members": int(member.sum()),
        "non_members": int((~member).sum()),
        "member_cases": len(np.unique(records.cases[member])),
        "non_member_cases": len(np.unique(records.cases[~member])),
        "tasks": {task: len(classes) for task, classes in records.classes.items()},
    }


def check_out(out: Path) -> None:
    """Refuse a folder that cannot be written: said before shadows are trained, which may take a night."""
    if out.exists() and not out.is_dir():
        raise UsageError(f"{out}: is a file; --out expects a folder")
    place = next(path for path in (out.absolute(), *out.absolute().parents) if path.exists())
    if not place.is_dir() or not os.access(place, os.W_OK):
        raise UsageError(f"{out}: cannot be written to; give --out another folder")


def write(audit: dict[str, Any], out: Path) -> None:
    """Both files into the folder ``out``, each whole or not at all."""
    from pathveil.audit.page import render

    content = {
        "audit.json": json.dumps(audit, indent=1, ensure_ascii=False, allow_nan=False) + "\n",
        "audit.html": render(audit),
    }
    check_out(out)
    out.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=".audit-", dir=out))
    try:
        for name, text in content.items():
            (work / name).write_text(text, encoding="utf-8")
        for name in content:
            os.replace(work / name, out / name)
    finally:
        shutil.rmtree(work)


def write_records(scores: Sequence[Score], records: Records, record_ids: Sequence[str], path: Path) -> None:
    """Each record's score by each attack, as CSV: for the auditor's eyes only."""
    import csv

    part = path.with_name(path.name + ".part")
    with part.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(
            ["record_id", "member", *(f"{one.attack} | {one.task} | {one.shadows} shadows" for one in scores)]
        )
        values = np.stack([one.values for one in scores], axis=1)  # (records, scores)
        for number, name in enumerate(record_ids):
            cells = ["" if np.isnan(value) else f"{value:.6g}" for value in values[number]]
            writer.writerow([name, str(bool(records.member[number])).lower(), *cells])
    os.replace(part, path)
