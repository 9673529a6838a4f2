"""A study file: one TOML that says which corpus, which of the three studies, and how; and the run that follows it.

    name = "…"            what the report is called
    [corpus]              path, or an encoded folder, or a synthetic one: reports, registries, seed
    [vocabulary]          settings of study.vocabulary.VocabularySettings
    [distribution]        settings of study.distribution.DistributionSettings
    [combined]            settings of study.combined.CombinedSettings

Sections that are left out are not run. ``studies/demo.toml`` explains every setting. A run's folder holds a copy of the
file, a folder a study with its finished units, ``result.json`` with all results together, ``times.json`` with what they
took, and the report. One process holds it from before the first write to the end.
"""

import json
import os
import shutil
import tomllib
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, ValidationError, model_validator

from pathveil import __version__
from pathveil.errors import UsageError, explained, meant
from pathveil.progress import Progress, silent
from pathveil.study import combined, distribution, vocabulary
from pathveil.study.combined import CombinedSettings
from pathveil.study.distribution import DistributionSettings
from pathveil.study.encoded import ENCODED
from pathveil.study.machine import Session
from pathveil.study.result import write
from pathveil.study.settings import naming
from pathveil.study.store import Cells, only_one, write_json
from pathveil.study.units import WORK, Study, Unit, conduct
from pathveil.study.vocabulary import VocabularySettings
from pathveil.training.workers import Crew

STUDIES = {"vocabulary": vocabulary.Study, "distribution": distribution.Study, "combined": combined.Study}
CELLS = "cells"  # of all studies together, as their progress is called
COPY, CORPUS, TRUTH, RECIPE = "study.toml", "corpus.parquet", "truth.parquet", "corpus.json"  # in a run's folder
SYNTHETIC = ("sites", "subsites", "histologies", "lateralities", "behaviors")  # kinds of class a synthetic corpus has


class CorpusSettings(BaseModel):
    """Where the reports come from: a corpus on disk, or one made on the spot."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: str | None = None
    encoded: str | None = None  # a folder made by 'pathveil study encode'
    reports: int | None = Field(None, ge=10)
    registries: int = Field(7, ge=2)
    seed: int = Field(1, ge=0)
    classes: Mapping[str, PositiveInt] = Field(default_factory=dict)  # at most so many sites, subsites, histologies

    @model_validator(mode="after")
    def one_source(self) -> "CorpusSettings":
        if sum(source is not None for source in (self.path, self.encoded, self.reports)) != 1:
            raise ValueError(
                "give either 'path' (a corpus on disk), 'encoded' (a folder made by 'pathveil study encode') or "
                "'reports' (how many to make up)"
            )
        for name in self.classes:
            if name not in SYNTHETIC:
                raise ValueError(f"'classes' has no '{name}', only {', '.join(SYNTHETIC)}{meant(name, SYNTHETIC)}")
        return self


class StudySettings(BaseModel):
    """A whole study file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    corpus: CorpusSettings
    vocabulary: VocabularySettings | None = None
    distribution: DistributionSettings | None = None
    combined: CombinedSettings | None = None

    @model_validator(mode="after")
    def something_to_do(self) -> "StudySettings":
        if all(getattr(self, name) is None for name in STUDIES):
            raise ValueError(f"it has no study; give at least one of {', '.join(f'[{name}]' for name in STUDIES)}")
        return self


def read(path: Path) -> StudySettings:
    """The settings of a file; a mistake is one sentence with its place and, for a misspelling, the nearest name."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror}); expected a study file in TOML") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: is not TOML: {error}") from None
    try:
        # By way of JSON, in which a list may stand for a tuple while a "3" may not for a 3; TOML has dates besides.
        return StudySettings.model_validate_json(json.dumps(content, default=str), strict=True)
    except ValidationError as error:
        raise UsageError(f"{path}: {explained(error, StudySettings)}") from None


def source_of(settings: StudySettings, corpus: Path | None) -> StudySettings:
    """The settings with another corpus, where one is given."""
    if corpus is None:
        return settings
    named = {"encoded" if (corpus / ENCODED).is_file() else "path": str(corpus)}
    return settings.model_copy(update={"corpus": CorpusSettings.model_validate(named)})


def run(
    path: Path,
    *,
    out: Path,
    corpus: Path | None = None,
    device: str = "cpu",
    crew: Crew | None = None,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Run a study file, or go on with it, in ``out``, alone there; writes and returns ``out/result.json``.

    ``corpus``, a corpus or an encoded folder, stands in for the one that the file names.
    """
    with only_one(out):
        return go_on(path, out=out, corpus=corpus, device=device, crew=crew, progress=progress)


def go_on(
    path: Path,
    *,
    out: Path,
    corpus: Path | None = None,
    device: str = "cpu",
    crew: Crew | None = None,
    progress: Progress = silent,
) -> dict[str, Any]:
    """``run`` for who holds the folder already. What the file asks of the corpus is judged before anything is kept."""
    settings = source_of(read(path), corpus)
    session = Session(out / "times.json", file=path.name, device=device)
    watch = Watch(progress, session)
    with new_corpus(settings.corpus, out, progress) as source:
        studies = studies_of(settings, source, out=out, watch=watch, file=path)
        for name, study in studies.items():
            watch.expect(name, study.units(device=device), study.cells)
        # The first thing kept: by it a folder that was left at any later moment is known as a run.
        if not (out / COPY).exists() or (out / COPY).read_bytes() != path.read_bytes():
            shutil.copyfile(path, out / COPY)
    parts = {name: conduct(study, crew=crew, device=device) for name, study in studies.items()}
    session.note(work=work_of(studies))
    result = {"name": settings.name, "studies": parts, "findings": [f for p in parts.values() for f in p["findings"]]}
    write(out / "result.json", result)
    return result


def studies_of(
    settings: StudySettings, source: Path, *, out: Path, watch: "Watch", file: Path
) -> dict[str, "vocabulary.Study | distribution.Study | combined.Study"]:
    """The studies that a file asks for, on its corpus; one that the corpus does not allow is named with its file."""
    made = {}
    for name, study in STUDIES.items():
        section = getattr(settings, name)
        if section is not None:
            with naming(f"{file}: [{name}]"):
                made[name] = study(source, section, out=out / name, progress=watch.of(name))
    return made


class Watch:
    """One figure for a whole run: the cells of all its studies together, and their work, by which time goes."""

    def __init__(self, progress: Progress, session: Session):
        self.progress, self.session = progress, session
        self.done: dict[tuple[str, str], int] = {}
        self.total: dict[tuple[str, str], int] = {}

    def expect(self, study: str, units: Sequence[Unit], cells: Cells) -> None:
        """What a study has to do, and what of it is done."""
        there = [[cells.has(parts) for parts in unit.cells] for unit in units]
        self.total[study, CELLS], self.done[study, CELLS] = sum(map(len, there)), sum(map(sum, there))
        self.total[study, WORK] = sum(unit.work for unit in units)
        self.done[study, WORK] = sum(unit.work for unit, of in zip(units, there, strict=True) if all(of))

    def of(self, study: str) -> Progress:
        """A study's own progress, turned into that of the whole."""

        def show(stage: str, done: int, total: int) -> None:
            ours = {f"{study} study": CELLS, WORK: WORK}.get(stage)
            if ours is not None:
                self.done[study, ours], self.total[study, ours] = done, total
                self.progress(ours, self._of(self.done, ours), self._of(self.total, ours))
                self.session.note()
            if ours != WORK:
                self.progress(stage, done, total)

        return show

    def _of(self, counts: Mapping[tuple[str, str], int], what: str) -> int:
        return sum(count for (_, counted), count in counts.items() if counted == what)


def work_of(studies: Mapping[str, Study]) -> list[dict[str, Any]]:
    """For each study and machine the finished cells and their seconds."""
    work: dict[tuple[str, str], dict[str, Any]] = {}
    for name, study in studies.items():
        for cell in study.seconds():
            row = work.setdefault((name, cell["machine"]), {"cells": 0, "seconds": 0.0})
            row["cells"] += 1
            row["seconds"] = round(row["seconds"] + cell["seconds"], 3)
    return [{"study": study, "machine": machine, **row} for (study, machine), row in work.items()]


def given_corpus(settings: CorpusSettings) -> Path | None:
    """The corpus or the encoded folder that a file names, if it names one."""
    for name in ("path", "encoded"):
        given = getattr(settings, name)
        if given is not None:
            path = Path(given)
            if not path.exists():
                raise UsageError(f"corpus.{name}: {path} is not there")
            if name == "encoded" and not (path / ENCODED).is_file():
                raise UsageError(f"corpus.encoded: {path} is no encoded corpus; make one with 'pathveil study encode'")
            return path
    return None


def corpus_of(settings: CorpusSettings, folder: Path, progress: Progress) -> Path:
    """The corpus a study reads; a synthetic one is made in the folder, unless it is there."""
    given = given_corpus(settings)
    if given is not None:
        return given
    if not made_for(settings, folder):
        from pathveil.corpus.synth import configure
        from pathveil.corpus.synth import write as write_corpus

        config = configure(**recipe(settings))
        (folder / RECIPE).unlink(missing_ok=True)
        write_corpus(config, out=folder / CORPUS, truth=folder / TRUTH, progress=progress)
        write_json(folder / RECIPE, {"pathveil": __version__, **recipe(settings)})
    return folder / CORPUS


def recipe(settings: CorpusSettings) -> dict[str, Any]:
    """What a synthetic corpus is made from."""
    size = {"reports": settings.reports, "registries": settings.registries, "seed": settings.seed}
    return {**size, **settings.classes}


def made_for(settings: CorpusSettings, folder: Path) -> bool:
    """Whether the synthetic corpus in a folder is the one that these settings describe."""
    if settings.reports is None or not (folder / CORPUS).is_file() or not (folder / RECIPE).is_file():
        return False
    return json.loads((folder / RECIPE).read_text(encoding="utf-8")) == {"pathveil": __version__, **recipe(settings)}


@contextmanager
def new_corpus(settings: CorpusSettings, out: Path, progress: Progress) -> Generator[Path]:
    """The corpus to judge a file by. A synthetic one that is not there yet comes into the run's folder, and takes the
    place of another, when the block has passed; until then nothing of the run is touched."""
    if given_corpus(settings) is not None or made_for(settings, out):
        yield corpus_of(settings, out, progress)
        return
    part = out / ".part-corpus"
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir()
    try:
        yield corpus_of(settings, part, progress)
        (out / RECIPE).unlink(missing_ok=True)
        cache = f"{CORPUS}.pathveil"  # its words, where they were kept beside it
        shutil.rmtree(out / cache, ignore_errors=True)
        for name in (TRUTH, CORPUS, cache, RECIPE):
            if (part / name).exists():
                os.replace(part / name, out / name)
    finally:
        shutil.rmtree(part, ignore_errors=True)
