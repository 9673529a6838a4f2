"""Epochs on the page, with a mark at models that were kept at the last one they were given: they might have gone on
improving, and the epoch at which training stops confounds privacy.

>>> epoch_cell([8, 3], [True, False])
'8†, 3'
"""

from collections.abc import Sequence

from pathveil.studies.report.tables import Cell

NOTE = "†: the last epoch that training was given; more might have been better."


def epoch_cell(epochs: Sequence[int], at_cap: Sequence[bool]) -> Cell:
    """Epochs, with a mark at each that is the last."""
    marked = [f"{epoch}†" if last else str(epoch) for epoch, last in zip(epochs, at_cap, strict=True)]
    return Cell(", ".join(marked), *(epochs if len(epochs) == 1 else ()))


def epoch_note(at_cap: Sequence[bool]) -> str:
    return NOTE if any(at_cap) else ""
