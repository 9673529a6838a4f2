"""One audit as a result: ``audit.json`` with every aggregate, and ``audit.html`` for people, written together.

Aggregates only. No text, no label of a single record, no score of a single record; cells with fewer than ten cases hold
no number. Scores of single records are written only on demand, to a file of their own that must not be published.
``audit.schema.json``, beside this module, is the JSON schema of ``audit.json``, made from the type.

>>> sorted(RELEASES)
['label', 'probabilities', 'weights']
>>> schema()["title"]
'Audit'
"""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field, ValidationError

from pathveil import __version__
from pathveil.auditing import metrics
from pathveil.auditing.all_attacks import SpreadRow
from pathveil.auditing.appetite import RELEASES, Appetite, ReleaseForm
from pathveil.auditing.attack_names import descriptions
from pathveil.auditing.audited_model import ModelStatement
from pathveil.auditing.binding import Binding
from pathveil.auditing.changes import what_would_change
from pathveil.auditing.controls import Control
from pathveil.auditing.evidence import PROTOCOLS, CanaryRow, Curve, MeasuredRow, Records, Row, Score
from pathveil.auditing.own_attacks import OwnAttack
from pathveil.auditing.resamples import RESAMPLES
from pathveil.auditing.verdict import Answer, Verdict, judge
from pathveil.errors import UsageError, explained
from pathveil.files import check_file, check_writable, new_file, read_json, write_json, write_text
from pathveil.results import Part, Result, parts_that_fit

FORMAT = "pathveil-audit/1"
TITLE = "<title>Membership audit"  # of the page
SCORED = " shadows"  # how the head of each record's scores goes on: "Loss | site | 8 shadows"
Kind = Literal["bundle", "predictions", "encoder", "estimator"]


class OtherRelease(Part):
    """The answer under the same limits if something else were released."""

    answer: Answer
    sentence: str


class AuditedRecords(Part):
    """Who was attacked."""

    members: int
    non_members: int
    member_cases: int
    non_member_cases: int
    tasks: dict[str, int]  # and how many classes each has


class Audit(Result):
    """Everything an audit found, with its verdict; its JSON is ``audit.json``."""

    format: Literal["pathveil-audit/1"]
    pathveil: str
    kind: Kind
    made: str = ""  # on which day
    model: ModelStatement | None = None  # of a bundle: which model, trained on what
    bound: bool | None = None  # of a bundle: the members are the reports it was trained with
    binding: Binding | None = None  # and how that is known
    verdict: Verdict
    appetite: Appetite
    by_release: dict[ReleaseForm, OtherRelease]
    data: AuditedRecords
    protocols: dict[str, str]
    attacks: dict[str, str] = Field(default_factory=dict)  # a sentence on each
    controls: tuple[Control, ...]
    evidence: tuple[Row, ...] = Field(alias="rows")
    curves: tuple[Curve, ...]
    spread: tuple[SpreadRow, ...]
    canaries: tuple[CanaryRow, ...] = ()
    changes: tuple[str, ...] = ()  # what would change the answer, by the evidence at hand
    notes: tuple[str, ...]
    settings: dict[str, Any]
    provenance: dict[str, str]
    seal: str = ""  # of all the rest, by the key beside the bundle: whether somebody edited the file

    @property
    def measured(self) -> list[MeasuredRow]:
        """The rows of evidence that are large enough to be told."""
        return [row for row in self.evidence if isinstance(row, MeasuredRow)]

    def rows(self) -> list[dict[str, Any]]:
        """Every measured row of evidence, one column a figure."""
        found = []
        for row in self.measured:
            flat = row.to_dict()
            for name in ("accuracy", "report_accuracy", "balanced_accuracy", "auc"):
                flat |= _columns(name, flat[name])
            for fpr, share in flat.pop("tpr_at_fpr").items():
                flat |= _columns(f"tpr_at_{fpr}", share)
            found.append(flat)
        return found

    def summary(self) -> str:
        reasons = [f"- {reason}" for reason in self.verdict.reasons]
        unbound = ["Not bound to the model: the members are not the reports that it was trained with."]
        example = ["Held against an example: nobody's name stands on this risk appetite."]
        return "\n".join(
            [
                *(unbound if self.bound is False else []),
                self.verdict.sentence,
                *reasons,
                *(example if self.appetite.is_example else []),
            ]
        )


def _columns(name: str, figure: Mapping[str, Any]) -> dict[str, Any]:
    return {name: figure["value"], f"{name}_low": figure["low"], f"{name}_high": figure["high"]}


@dataclass(frozen=True)
class Attacked:
    """What attacks and controls found on some records, before it is judged."""

    records: Records
    scores: Sequence[Score]
    rows: Sequence[Row]
    curves: Sequence[Curve]
    controls: Sequence[Control]
    spread: Sequence[SpreadRow] = ()
    canaries: Sequence[CanaryRow] = ()


def assemble(
    found: Attacked,
    *,
    kind: Kind,
    binding: Binding | None = None,
    model: ModelStatement | None = None,
    appetite: Appetite,
    settings: Mapping[str, Any],
    provenance: Mapping[str, str],
    notes: Sequence[str] = (),
    own_attacks: Mapping[str, OwnAttack] | None = None,
) -> Audit:
    """Everything an audit found as one result; the verdict is derived here, for each kind of release."""
    rows, controls = found.rows, found.controls
    by_release = {}
    for release in RELEASES:
        other = judge(rows, controls=controls, appetite=appetite.changed(release=release), canaries=found.canaries)
        by_release[release] = OtherRelease(answer=other.answer, sentence=other.sentence)
    verdict = judge(rows, controls=controls, appetite=appetite, canaries=found.canaries)
    answers = {release: other.answer for release, other in by_release.items()}
    return Audit(
        format=FORMAT,
        pathveil=__version__,
        kind=kind,
        made=datetime.now(UTC).date().isoformat(),
        model=model,
        bound=None if kind != "bundle" else binding is not None,
        binding=binding,
        verdict=verdict,
        changes=tuple(what_would_change(verdict, rows, appetite=appetite, by_release=answers, model=model)),
        appetite=appetite,
        by_release=by_release,
        data=describe(found.records),
        protocols={name: PROTOCOLS[name] for name in dict.fromkeys(row.protocol for row in rows)},
        attacks=descriptions(found.scores, own_attacks),
        controls=tuple(controls),
        rows=tuple(rows),
        curves=tuple(found.curves),
        spread=tuple(found.spread),
        canaries=tuple(found.canaries),
        notes=tuple(notes),
        settings={**settings, "confidence": metrics.CONFIDENCE, "resamples": RESAMPLES},
        provenance=dict(provenance),
    )


def describe(records: Records) -> AuditedRecords:
    member = records.member
    return AuditedRecords(
        members=int(member.sum()),
        non_members=int((~member).sum()),
        member_cases=len(np.unique(records.cases[member])),
        non_member_cases=len(np.unique(records.cases[~member])),
        tasks={task: len(classes) for task, classes in records.classes.items()},
    )


def schema() -> dict[str, Any]:
    """The JSON schema of ``audit.json``."""
    return Audit.model_json_schema()


def read_audit(path: str | Path) -> Audit:
    """The audit in a file ``audit.json``, or in a folder that holds one; anything else is refused in one sentence."""
    path = Path(path)
    path = path / "audit.json" if path.is_dir() else path
    content = read_json(path)
    if content.get("format") != FORMAT:
        raise UsageError(f"{path}: is not an audit of this version of Pathveil; expected the format {FORMAT}")
    try:
        audit = Audit.model_validate(content)
    except ValidationError as error:
        raise UsageError(f"{path}: is not a whole audit: {explained(error, Audit)}") from None
    from pathveil.auditing.page import render

    with parts_that_fit(path, expected="what 'pathveil audit' writes"):
        render(audit)
        str(audit)
    return audit


def check_places(out: str | Path | None, records_file: str | Path | None = None, *, reads: Sequence[Any] = ()) -> None:
    """Refuse, before any work, places where an audit may not be written; an earlier audit gives way. ``reads`` are
    what is audited."""
    if out is not None:
        check_writable(Path(out))
        for name, mark in (("audit.json", FORMAT), ("audit.html", TITLE)):
            check_file(Path(out) / name, renews=[mark.encode()], reads=reads)
    if records_file is not None:
        check_file(Path(records_file), renews=[SCORED.encode()], reads=reads)


def write_audit(audit: Audit, out: Path) -> None:
    """Both files into the folder ``out``, each whole or not at all."""
    from pathveil.auditing.page import render

    html = render(audit)
    check_writable(out)
    write_json(out / "audit.json", audit.to_dict())
    write_text(out / "audit.html", html)


def write_records(scores: Sequence[Score], records: Records, record_ids: Sequence[str], path: Path) -> None:
    """Each record's score by each attack, as CSV: for the auditor's eyes only."""
    head = ["record_id", "member", *(f"{one.attack} | {one.task} | {one.shadows}{SCORED}" for one in scores)]
    values = np.stack([one.values for one in scores], axis=1)  # (records, scores)
    with new_file(path, private=True) as part, part.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(head)
        for number, name in enumerate(record_ids):
            cells = ["" if np.isnan(value) else f"{value:.6g}" for value in values[number]]
            writer.writerow([name, str(bool(records.member[number])).lower(), *cells])
