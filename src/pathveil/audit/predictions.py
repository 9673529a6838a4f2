"""An audit from predictions alone: a table of probabilities, labels and membership, from any system.

Columns: ``record_id``, ``case_id``, ``member`` (true or false), ``label`` and ``p:<class>`` for each class; several
tasks: ``label:<task>`` and ``p:<task>:<class>``; ``registry`` where known, which tells the protocols apart. There are
no shadow models here, so the attacks are those that need none; what they learn (risk scores, thresholds) they learn on
one half of the cases and use on the other.

>>> names = ["record_id", "case_id", "member", "label:site", "label:side", "p:site:C50", "p:site:C34.1", "p:side:left"]
>>> layout(names)
{'site': ('label:site', ['p:site:C50', 'p:site:C34.1']), 'side': ('label:side', ['p:side:left'])}
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pathveil.audit import attacks
from pathveil.audit.evidence import TOGETHER, Records, Score
from pathveil.audit.metrics import halves
from pathveil.corpus.tables import read_table
from pathveil.errors import CorpusError

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


def layout(columns: Sequence[str]) -> dict[str, tuple[str, list[str]]]:
    """For each task its label column and its probability columns."""
    if "label" in columns:
        return {ONE_TASK: ("label", [name for name in columns if name.startswith("p:")])}
    tasks = [name.removeprefix("label:") for name in columns if name.startswith("label:")]
    return {task: (f"label:{task}", [name for name in columns if name.startswith(f"p:{task}:")]) for task in tasks}


def read(path: Path) -> Predictions:
    """Read and check a Parquet, CSV or JSONL file of predictions."""
    table = read_table(path, numbers=lambda name: name.startswith("p:"))
    columns = table.columns
    missing = [name for name in ("record_id", "case_id", "member") if name not in columns]
    tasks = layout(columns)
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
    registries = None
    if "registry" in columns:
        registries = np.unique(np.array(_no_nulls(table, "registry", path)), return_inverse=True)[1]
    records = Records(member=member, cases=cases, labels=labels, classes=classes, registries=registries)
    return Predictions(records, probabilities, ids)


def _no_nulls(table: "pl.DataFrame", column: str, path: Path) -> list[str]:
    import polars as pl

    values = table[column].cast(pl.String)
    if values.null_count():
        raise CorpusError(f"{path}: column '{column}' is empty in {values.null_count()} rows; every row needs it")
    return values.to_list()


def _membership(table: "pl.DataFrame", path: Path) -> np.ndarray:
    known = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    values = [known.get(value.lower()) for value in _no_nulls(table, "member", path)]
    if None in values:
        raise CorpusError(
            f"{path}: column 'member' holds values that are neither true nor false in {values.count(None)} rows"
        )
    return np.array(values, bool)


def _probabilities(table: "pl.DataFrame", columns: list[str], label_column: str, path: Path) -> np.ndarray:
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


def score(
    records: Records, probabilities: dict[str, np.ndarray], *, seed: int = 0, known: np.ndarray | None = None
) -> list[Score]:
    """Every attack that needs no shadows, on each task and on all together.

    ``known`` stands in for the true membership where an attack learns (the controls permute it).
    """
    member = records.member if known is None else known
    by_task: dict[str, list[Score]] = {}
    for task, answer in probabilities.items():
        labels = records.labels[task]
        modified = attacks.modified_entropy_score(answer, labels)
        by_task[task] = [
            Score("loss", task, attacks.loss_score(answer, labels)),
            Score("entropy", task, attacks.entropy_score(answer, labels)),
            Score("modified entropy", task, modified),
            Score("privacy risk", task, risk(modified, labels, member, records.cases, seed=seed), threshold=0.5),
            Score("label only", task, attacks.label_score(answer, labels), threshold=1.0, label_only=True),
        ]
    scores = [one for found in by_task.values() for one in found]
    if len(by_task) > 1:
        scores += [_together(same) for same in zip(*by_task.values(), strict=True)]
    return scores


def _together(same: Sequence[Score]) -> Score:
    """One attack over all tasks: log-odds of risk scores add up, the other scores as they are."""
    values = [one.values for one in same]
    if same[0].attack == "privacy risk":
        odds = attacks.joint([np.log(value / (1 - value)) for value in values])
        return Score("privacy risk", TOGETHER, 1 / (1 + np.exp(-odds)), threshold=0.5)
    return replace(same[0], task=TOGETHER, values=attacks.joint(values), threshold=None)


def risk(scores: np.ndarray, labels: np.ndarray, member: np.ndarray, cases: np.ndarray, *, seed: int) -> np.ndarray:
    """The privacy risk score, each half of the cases judged by histograms of the other half."""
    found = np.full(len(scores), np.nan)
    for learn, use in halves(cases, seed=seed):
        if not np.isnan(scores[learn]).all():
            found[use] = attacks.privacy_risk_score(
                scores[use],
                labels[use],
                known_scores=scores[learn],
                known_labels=labels[learn],
                known_member=member[learn],
            )
    return found
