"""An audit from predictions alone: a table of probabilities, labels and membership, from any system.

Columns: ``record_id``, ``case_id``, ``member`` (true or false), ``label`` and ``p:<class>`` for each class; several
tasks: ``label:<task>`` and ``p:<task>:<class>``; ``registry`` where known, which tells the protocols apart. There are
no shadow models here, so the attacks are those that need none; what they learn (risk scores, thresholds) they learn on
one half of the cases and use on the other.

>>> names = ["record_id", "case_id", "member", "label:site", "label:side", "p:site:C50", "p:site:C34.1", "p:side:left"]
>>> columns_of_tasks(names)
{'site': ('label:site', ['p:site:C50', 'p:site:C34.1']), 'side': ('label:side', ['p:side:left'])}
>>> import polars as pl
>>> rng = np.random.default_rng(0)
>>> member = np.arange(1200) < 600
>>> p = np.clip(rng.normal(np.where(member, 0.9, 0.6), 0.1), 0.01, 0.99)  # surer of what it has seen
>>> answers = {"label": ["a"] * 1200, "p:a": p, "p:b": 1 - p}
>>> table = pl.DataFrame({"record_id": range(1200), "case_id": range(1200), "member": member, **answers})
>>> audit_predictions(table).verdict.answer
'fail'
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pathveil.auditing import controls, evidence, result
from pathveil.auditing.all_attacks import overall, shadowless_attacks
from pathveil.auditing.appetite import Appetite, read_appetite
from pathveil.auditing.evidence import Records
from pathveil.auditing.own_attacks import OwnAttack, own_scores
from pathveil.auditing.result import Attacked, Audit
from pathveil.auditing.settings import AuditSettings
from pathveil.corpus.tables.files import read_table
from pathveil.errors import CorpusError, UsageError
from pathveil.files import sha256_of_file
from pathveil.formatting import counted
from pathveil.progress import Progress, silent

if TYPE_CHECKING:
    import polars as pl

ONE_TASK = "the label"
SUM_TOLERANCE = 0.01  # a row's probabilities may be rounded to three digits


@dataclass(frozen=True)
class Predictions:
    """A model's answers on records whose membership is known."""

    records: Records
    probabilities: dict[str, np.ndarray]  # task: (records, classes)
    record_ids: list[str]
    path: Path | None = None  # of the file they were read from


def columns_of_tasks(columns: Sequence[str]) -> dict[str, tuple[str, list[str]]]:
    """For each task its label column and its probability columns."""
    if "label" in columns:
        return {ONE_TASK: ("label", [name for name in columns if name.startswith("p:")])}
    tasks = [name.removeprefix("label:") for name in columns if name.startswith("label:")]
    return {task: (f"label:{task}", [name for name in columns if name.startswith(f"p:{task}:")]) for task in tasks}


def audit_predictions(
    predictions: Any,
    *,
    appetite: Appetite | None = None,
    settings: AuditSettings | None = None,
    attacks: Mapping[str, OwnAttack] | None = None,
    out: str | Path | None = None,
    records_file: str | Path | None = None,
    progress: Progress = silent,
) -> Audit:
    """Audit any system's predictions: no shadow models, only attacks that need none.

    ``predictions``: a Parquet, CSV or JSONL file, or a polars or pandas frame. ``attacks``: one's own, by name (see
    ``own_attacks.AttackInput``). ``out``: a folder for audit.json and audit.html; ``records_file``: where each record's
    scores go, if anywhere.
    """
    result.check_places(out, records_file, reads=[predictions])
    appetite, settings = appetite or read_appetite(None), settings or AuditSettings()
    found = read_predictions(predictions)
    records, seed, fprs = found.records, settings.seed, appetite.measured_fprs
    scores = shadowless_attacks(records, found.probabilities, seed=seed)
    scores += own_scores(attacks or {}, records, found.probabilities)
    attacked = Attacked(
        records=records,
        scores=scores,
        rows=evidence.measure(scores, records, edges=settings.edges, fprs=fprs, seed=seed, progress=progress),
        curves=evidence.curves(overall(scores), records),
        controls=[
            controls.permuted_membership(records, found.probabilities, seed=seed, progress=progress),
            controls.planted_leak(records, found.probabilities, seed=seed),
        ],
    )
    audit = result.assemble(
        attacked,
        kind="predictions",
        appetite=appetite,
        own_attacks=attacks,
        settings={"edges": list(settings.edges), "fprs": list(fprs), "seed": seed},
        provenance={"predictions sha256": sha256_of_file(found.path)} if found.path else {},
        notes=_notes(records),
    )
    if out is not None:
        result.write_audit(audit, Path(out))
    if records_file is not None:
        result.write_records(scores, records, found.record_ids, Path(records_file))
    return audit


def _notes(records: Records) -> list[str]:
    unlabelled = {task: int((label < 0).sum()) for task, label in records.labels.items()}
    left_out = "; ".join(f"{counted(count, 'record')} of {task}" for task, count in unlabelled.items() if count)
    return [
        "Only the model's answers were given, so there are no shadow models here: attacks that train them are usually "
        "stronger, and a pass from predictions alone is weaker evidence than one from an audit of the model itself. "
        "Nor can it be told whether members and non-members differ by more than membership: no model was at hand that "
        "saw neither side.",
        *([f"Left out for want of a label that the model knows: {left_out}."] if left_out else []),
    ]


def read_predictions(predictions: Any) -> Predictions:
    """Read and check a file of predictions, or a frame."""
    if isinstance(predictions, str | Path):
        path: Path | None = Path(predictions)
        table = read_table(Path(predictions), numbers=lambda name: name.startswith("p:"))
    else:
        import polars as pl

        if not hasattr(predictions, "columns"):
            raise UsageError(
                f"predictions are read from a file, or a polars or pandas frame; got {type(predictions).__name__}"
            )
        path, table = None, predictions if isinstance(predictions, pl.DataFrame) else pl.from_pandas(predictions)
    return _checked(table, path)


def _checked(table: "pl.DataFrame", file: Path | None) -> Predictions:
    path = file or "the predictions"
    columns = table.columns
    missing = [name for name in ("record_id", "case_id", "member") if name not in columns]
    tasks = columns_of_tasks(columns)
    if missing or not tasks:
        lacking = ", ".join(missing) or "label"
        raise CorpusError(
            f"{path}: column(s) {lacking} missing; predictions need record_id, case_id, member, label and p:<class> "
            "(several tasks: label:<task> and p:<task>:<class>)"
        )
    member = _membership(table, path)
    ids = _no_nulls(table, "record_id", path)
    repeated = len(ids) - len(set(ids))
    if repeated:
        raise CorpusError(f"{path}: {repeated} rows repeat a record_id; each record is expected once")
    cases = np.unique(np.array(_no_nulls(table, "case_id", path)), return_inverse=True)[1]
    both = np.intersect1d(cases[member], cases[~member])
    if len(both):
        raise CorpusError(
            f"{path}: {len(both)} cases hold both members and non-members; membership goes by case (if the model was "
            "trained by record, give each record a case_id of its own)"
        )
    if member.all() or not member.any():
        side = "non-members" if member.all() else "members"
        raise CorpusError(f"{path}: holds no {side}; an audit compares members with non-members")
    labels, classes, probabilities = {}, {}, {}
    for task, (label_column, columns_of_task) in tasks.items():
        prefix = "p:" if task == ONE_TASK else f"p:{task}:"
        if len(columns_of_task) < 2:
            raise CorpusError(f"{path}: {label_column} has fewer than two columns named {prefix}<class>")
        names = tuple(name.removeprefix(prefix) for name in columns_of_task)
        probabilities[task] = _probabilities(table, columns_of_task, label_column, path)
        labels[task], classes[task] = _labels(table, label_column, names), names
    known = np.any([label >= 0 for label in labels.values()], axis=0)
    for side, rows in (("member", member), ("non-member", ~member)):
        if not known[rows].any():
            raise CorpusError(
                f"{path}: no {side} has a label that is among the classes; labels are expected to be spelt as in the "
                "names of the probability columns"
            )
    registries = None
    if "registry" in columns:
        registries = np.unique(np.array(_no_nulls(table, "registry", path)), return_inverse=True)[1]
    records = Records(member=member, cases=cases, labels=labels, classes=classes, registries=registries)
    return Predictions(records, probabilities, ids, file)


def _no_nulls(table: "pl.DataFrame", column: str, path: Path | str) -> list[str]:
    import polars as pl

    values = table[column].cast(pl.String)
    if values.null_count():
        raise CorpusError(f"{path}: column '{column}' is empty in {values.null_count()} rows; every row needs it")
    return values.to_list()


def _membership(table: "pl.DataFrame", path: Path | str) -> np.ndarray:
    known = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    values = [known.get(value.lower()) for value in _no_nulls(table, "member", path)]
    if None in values:
        raise CorpusError(
            f"{path}: column 'member' holds values that are neither true nor false in {values.count(None)} rows"
        )
    return np.array(values, bool)


def _probabilities(table: "pl.DataFrame", columns: list[str], label_column: str, path: Path | str) -> np.ndarray:
    import polars as pl

    chosen = table.select(columns)
    if not all(dtype.is_numeric() for dtype in chosen.dtypes):
        raise CorpusError(f"{path}: the probability columns of {label_column} must be numbers")
    values = chosen.select(pl.all().cast(pl.Float64)).to_numpy()
    # A record without a label is left out of the task anyway, so its probabilities need not be there.
    wanted = table[label_column].is_not_null().to_numpy()
    bad = wanted & ~(np.isfinite(values).all(1) & (values >= 0).all(1) & (np.abs(values.sum(1) - 1) <= SUM_TOLERANCE))
    if bad.any():
        raise CorpusError(
            f"{path}: {int(bad.sum())} rows have probabilities of {label_column} that are not between 0 and 1 with sum "
            f"1, the first in row {int(np.flatnonzero(bad)[0]) + 1}"
        )
    return np.nan_to_num(values)


def _labels(table: "pl.DataFrame", column: str, names: tuple[str, ...]) -> np.ndarray:
    import polars as pl

    number = {name: index for index, name in enumerate(names)}
    # A label the model has no probability for says nothing about its training: such a record is left out of the task.
    return np.array([number.get(value, -1) for value in table[column].cast(pl.String).to_list()], np.int64)
