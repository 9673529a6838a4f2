"""Models that were kept at the last epoch they were given: they might have gone on improving, and the epoch at which
training stops confounds privacy.

>>> study = {"study": "combined", "settings": {"training": {"epochs": 8}}, "points": [{"mode": "fedavg", "epoch": [8]}]}
>>> shown(study, study["points"][0])
'8†'
>>> warnings({"studies": {"combined": study}})
['1 of 1 models was kept at its last epoch (†) and might gain from more.']
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pathveil.federation.config import FederationConfig
from pathveil.report.rows import Cell, Row

ROWS = {"vocabulary": "vocabularies", "distribution": "traffic", "combined": "points"}  # where a study tells its epochs
NOTE = "†: the last epoch that training was given, or the last one of a registry of several."


def cap_of(study: Row, mode: str) -> int | None:
    """The last epoch of a mode's training; none where the epochs are fixed or training does not choose among them."""
    settings = study["settings"]
    training = {**settings.get("training", {}), **settings.get("arms", {}).get(mode, {})}
    # The strong adversary keeps none but the last epochs, while λ has risen: to stand there is no sign of anything.
    if settings.get("fixed_epochs") or training.get("keep_from") or "strong" in (mode, training.get("mode")):
        return None
    return training.get("epochs", FederationConfig().epochs)


def at_cap(study: Row, row: Row) -> bool:
    """Was a model, or one of several, kept at its last epoch? Its row says so, or the settings do."""
    if "at_cap" in row:
        return bool(row["at_cap"])
    return cap_of(study, row.get("mode", "")) in epochs_of(row)


def epochs_of(row: Row) -> Sequence[int]:
    return row["epoch"] if isinstance(row["epoch"], list) else [row["epoch"]]


def shown(study: Row, row: Row) -> Cell:
    """The epochs of a row, with a mark where one is the last."""
    epochs = epochs_of(row)
    mark = "†" if at_cap(study, row) else ""
    return Cell(", ".join(map(str, epochs)) + mark, *(epochs if len(epochs) == 1 else ()))


def note(study: Row, rows: Sequence[Row]) -> str:
    return NOTE if any(at_cap(study, row) for row in rows) else ""


def warnings(result: Mapping[str, Any]) -> list[str]:
    """What a reader must know before relying on a result: its own warnings, and models kept at their last epoch."""
    told = list(result.get("warnings", ()))
    last = every = 0
    for name, study in result["studies"].items():
        if "warnings" in study or "warnings" in result:
            told += [warning for warning in study.get("warnings", ()) if warning not in told]
            continue
        rows = study[ROWS[name]]
        every, last = every + len(rows), last + sum(at_cap(study, row) for row in rows)
    if last:
        was = "was kept at its last epoch" if last == 1 else "were kept at their last epoch"
        told.append(f"{last} of {every} models {was} (†) and might gain from more.")
    return told
