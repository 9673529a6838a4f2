"""Units of a study's work, and getting them done by a crew: nothing finished is done again.

A unit is a function at the top level of a module with what it needs, and the cells it will fill. It hands each cell
over through ``keep(parts, values, arrays)`` as soon as it has it. On this machine that writes to the run's folder at
once; from a Dask cluster cells come back with the unit and are written here, so its workers need no common disk.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol, TypeVar

import numpy as np

from pathveil.errors import UsageError
from pathveil.files import only_process, write_json
from pathveil.progress import Progress, silent
from pathveil.studies.machine import TIMES, name_of
from pathveil.studies.rows import OneStudy, StudyWarning
from pathveil.studies.store import Cells, key_of
from pathveil.training.workers import Crew, OnDask, ThisProcess
from pathveil.vocabulary.encoded import EncodedCorpus

WORK = "reports to train"  # the stage that tells how much of a study's work is done, where cells differ in size
Parts = Mapping[str, Any]
Keep = Callable[
    ..., None
]  # keep(parts, values, arrays, …); what else is named is noted beside the cell, as its time is


@dataclass(frozen=True)
class Unit:
    """A piece of work: ``function(corpus, *arguments, keep, progress)`` fills the cells of these parts."""

    name: str  # what the display shows
    cells: tuple[Parts, ...]
    function: Callable[..., None]
    arguments: tuple[Any, ...]
    kind: str  # which of the measured speeds it goes at
    documents: int = 0  # that its models learn from, an epoch
    epochs: int = 0  # at most
    models: int = 0  # that it trains, where that is not one a cell
    reads: int = 0  # documents that its models read when they are trained
    needs: tuple[Parts, ...] = ()  # cells that must be there before
    here: bool = False  # it reads cells, so it needs this machine's disk

    @property
    def work(self) -> int:
        """How much there is to do, in reports learnt from: reading one takes about a third of that."""
        return self.documents * max(self.epochs, 1) + self.reads // 3


Found = TypeVar("Found", bound=OneStudy, covariant=True)


class Study(Protocol[Found]):
    """What all studies have in common."""

    cells: Cells
    out: Path

    def units(self, *, device: str) -> list[Unit]:
        """Everything the study needs done."""

    def choices(self) -> "WordChoices | None":
        """What choosing its words takes; nothing where words are not chosen by sentences."""

    def run(self, *, crew: Crew, device: str) -> Found:
        """Do what is left, and put everything together."""

    def seconds(self) -> list[dict[str, Any]]:
        """What each finished cell took."""


@dataclass(frozen=True)
class WordChoices:
    """The sentences that choose a study's words, the documents that they choose from, and how many times."""

    sentences: list[str]
    rows: np.ndarray
    times: int


def run_in_folder(study: Study[Found], *, crew: Crew | None = None, device: str = "cpu") -> Found:
    """Run a study in its folder, alone there, and write its result."""
    with only_process(study.out):
        study.cells.clean()
        result = study.run(crew=crew or ThisProcess(), device=device)
        write_json(study.out / "result.json", result.to_dict())
        write_json(study.out / TIMES, {"cells": study.seconds()})
    return result


def finish(
    units: Sequence[Unit],
    *,
    cells: Cells,
    crew: Crew,
    corpus: EncodedCorpus,
    device: str,
    progress: Progress,
    stage: str,
) -> None:
    """See that every unit's cells are there."""
    missing = [unit for unit in units if not all(map(cells.has, unit.cells))]
    total, work = sum(len(unit.cells) for unit in units), sum(unit.work for unit in units)
    work_left = sum(unit.work for unit in missing)
    progress(WORK, work - work_left, work)
    progress(stage, total - _open(missing, cells), total)
    if not missing:
        return
    shared = crew.share(corpus)
    folder = None if isinstance(crew, OnDask) else str(cells.folder)
    watching = progress if isinstance(crew, ThisProcess) else silent

    def start(unit: Unit) -> None:
        own = str(cells.folder) if unit.here else folder
        shown = (watching,) if isinstance(crew, ThisProcess) else ()
        crew.submit(_do, shared, unit.function, unit.arguments, unit.name, device, own, *shown, local=unit.here)

    waiting = {unit.name: {key_of(parts) for parts in unit.needs if not cells.has(parts)} for unit in missing}
    for unit in missing:
        if not waiting[unit.name]:
            start(unit)
    by_name = {unit.name: unit for unit in missing}
    open_cells = _open(missing, cells)
    for name, kept in crew.results():
        for parts, values, arrays, about in kept:
            cells.write(parts, values, arrays, about=about)
        unit = by_name.pop(name)
        open_cells -= len(unit.cells)
        work_left -= unit.work
        progress(name, len(unit.cells), len(unit.cells))
        progress(WORK, work - work_left, work)
        progress(stage, total - max(open_cells, 0), total)
        done = {key_of(parts) for parts in unit.cells}
        for other in by_name.values():
            if waiting[other.name] & done:
                waiting[other.name] -= done
                if not waiting[other.name]:
                    start(other)


def _open(units: Sequence[Unit], cells: Cells) -> int:
    return sum(not cells.has(parts) for unit in units for parts in unit.cells)


def _do(
    corpus: EncodedCorpus,
    function: Callable[..., None],
    arguments: tuple[Any, ...],
    name: str,
    device: str,
    folder: str | None,
    progress: Progress = silent,
) -> tuple[str, list[tuple[Any, ...]]]:
    """Run a unit where a worker is; its cells go to the folder, or back with the answer where there is none."""
    kept: list[tuple[Any, ...]] = []
    cells = None if folder is None else Cells(Path(folder))
    began = perf_counter()

    def keep(parts: Parts, values: Mapping[str, Any], arrays: Mapping[str, Any] | None = None, **more: Any) -> None:
        nonlocal began
        about = {"unit": name, "machine": name_of(device), "seconds": round(perf_counter() - began, 3), **more}
        if cells is None:
            kept.append((parts, values, arrays, about))
        else:
            cells.write(parts, values, arrays, about=about)
        began = perf_counter()

    try:
        function(corpus, *arguments, keep, progress)
    except Exception as error:
        if type(error).__name__ != "OutOfMemoryError":  # PyTorch's, which only a process that has it can name
            raise
        raise UsageError(
            f"the GPU's memory is full ({name}); what is finished is kept: start again with fewer --workers"
        ) from None
    return name, kept


def last_epoch_warnings(kind: str, at_cap: Sequence[bool]) -> list[StudyWarning]:
    """A warning where models of a kind were best at the last epoch they were allowed.

    >>> [warning.text for warning in last_epoch_warnings("targets", [True, False, True])]
    ['2 of 3 targets were best at the last epoch allowed, and might have learnt more: raise epochs']
    >>> last_epoch_warnings("targets", [False])
    []
    """
    text = f"{sum(at_cap):,} of {len(at_cap):,} {kind} were best at the last epoch allowed, and might have learnt more"
    return [StudyWarning(kind="last epoch", text=f"{text}: raise epochs")] if any(at_cap) else []


def seconds_of(cells: Cells, parts: Sequence[Parts]) -> list[dict[str, Any]]:
    """What the making of finished cells took; kept apart from results, which are the same whenever they are made."""
    return [{"cell": key_of(part), **cells.about(part)} for part in parts if cells.has(part)]
