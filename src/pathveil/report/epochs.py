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

from pathveil.federation.settings import FederationSettings
from pathveil.report.tables import Cell, Row

ROWS = {"vocabulary": "vocabularies", "distribution": "traffic", "combined": "points"}  # where a study tells its epochs
NOTE = "†: the last epoch that training was given; more might have been better."


def cap_of(study: Row, mode: str) -> int | None:
    """The last epoch of a mode's training; none where the epochs are fixed or training does not choose among them."""
    settings = study["settings"]
    training = {**settings.get("training", {}), **settings.get("arms", {}).get(mode, {})}
    # The strong adversary keeps none but the last epochs, while λ has risen: to stand there is no sign of anything.
    if settings.get("fixed_epochs") or training.get("keep_from") or "strong" in (mode, training.get("mode")):
        return None
    return training.get("epochs", FederationSettings().epochs)


def at_cap(study: Row, row: Row) -> list[bool]:
    """Of each model in a row (a mode may have one a registry), was it kept at its last epoch? The row says so, or the
    settings do.

    >>> study = {"settings": {"training": {"epochs": 8}}}
    >>> at_cap(study, {"mode": "single", "epoch": [8, 3]}), at_cap(study, {"epoch": 8, "at_cap": False})
    ([True, False], [False])
    """
    if "at_cap" in row:
        return [*row["at_cap"]] if isinstance(row["at_cap"], list) else [row["at_cap"]]
    return [epoch == cap_of(study, row.get("mode", "")) for epoch in epochs_of(row)]


def epochs_of(row: Row) -> Sequence[int]:
    return row["epoch"] if isinstance(row["epoch"], list) else [row["epoch"]]


def shown(study: Row, row: Row) -> Cell:
    """The epochs of a row, with a mark at each that is the last."""
    epochs = epochs_of(row)
    marked = [f"{epoch}†" if last else str(epoch) for epoch, last in zip(epochs, at_cap(study, row), strict=True)]
    return Cell(", ".join(marked), *(epochs if len(epochs) == 1 else ()))


def note(study: Row, rows: Sequence[Row]) -> str:
    return NOTE if any(any(at_cap(study, row)) for row in rows) else ""


def warnings(result: Mapping[str, Any]) -> list[str]:
    """What a reader must know first, in sentences: how many models were kept at their last epoch, and what else a
    study warns of. Its own words about epochs stand among the reasons (``in_full``)."""
    caps = [c for name, study in result["studies"].items() for row in study[ROWS[name]] for c in at_cap(study, row)]
    last, told = sum(caps), []
    if last:
        was = "was kept at its last epoch" if last == 1 else "were kept at their last epoch"
        told.append(f"{last:,} of {len(caps):,} models {was} (†) and might gain from more.")
    others = [warning for _, warning in _given(result) if not (last and "last epoch" in warning)]
    return told + [f"{other[0].upper()}{other[1:].rstrip('.')}." for other in others]


def in_full(result: Mapping[str, Any]) -> list[str]:
    """The studies' own warnings.

    >>> in_full({"studies": {"vocabulary": {"warnings": ["2 of 3 targets were best at the last epoch allowed"]}}})
    ['Of the vocabulary study: 2 of 3 targets were best at the last epoch allowed.']
    """
    return [f"Of the {study} study: {told.rstrip('.')}." for study, told in _given(result)]


def _given(result: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(name, told) for name, study in result["studies"].items() for told in study.get("warnings", ())]
