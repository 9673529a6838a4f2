"""A study file: one TOML that says which corpus, which of the three studies, and how; and the run that follows it.

    name = "…"            what the report is called
    [corpus]              path, or an encoded folder, or a synthetic one: reports, registries, seed
    [vocabulary]          settings of study.vocabulary.VocabularySettings
    [distribution]        settings of study.distribution.DistributionSettings
    [combined]            settings of study.combined.CombinedSettings

Sections that are left out are not run. ``studies/demo.toml`` explains every setting. A run's folder holds a copy of the
file, a folder a study with its finished units, ``result.json`` with all results together, and the report.
"""

import json
import shutil
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from pathveil.errors import UsageError, explained, meant
from pathveil.progress import Progress, silent
from pathveil.study import combined, distribution, vocabulary
from pathveil.study.combined import CombinedSettings
from pathveil.study.distribution import DistributionSettings
from pathveil.study.encoded import ENCODED
from pathveil.study.machine import Energy, versions
from pathveil.study.store import write_json
from pathveil.study.units import conduct
from pathveil.study.vocabulary import VocabularySettings
from pathveil.training.workers import Crew

STUDIES = {"vocabulary": vocabulary.Study, "distribution": distribution.Study, "combined": combined.Study}
STAGES = ("vocabulary study", "distribution study", "combined study")  # as their progress is called
SYNTHETIC = ("sites", "subsites", "histologies", "lateralities", "behaviors")  # kinds of class a synthetic corpus has


class CorpusSettings(BaseModel):
    """Where the reports come from: a corpus on disk, or one made on the spot."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: str | None = None
    encoded: str | None = None  # a folder made by 'pathveil study encode'
    reports: int | None = Field(None, ge=10)
    registries: int = Field(7, ge=2)
    seed: int = 1
    classes: Mapping[str, int] = Field(default_factory=dict)  # at most so many sites, subsites, histologies

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


def read(path: Path) -> StudySettings:
    """The settings of a file; a mistake is one sentence with its place and, for a misspelling, the nearest name."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror}); expected a study file in TOML") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: is not TOML: {error}") from None
    try:
        return StudySettings(**content)
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
    """Run a study file, or go on with it, in ``out``; writes and returns ``out/result.json``.

    ``corpus``, a corpus or an encoded folder, stands in for the one that the file names.
    """
    settings = source_of(read(path), corpus)
    given_corpus(settings.corpus)  # before anything is written
    out.mkdir(parents=True, exist_ok=True)
    if not (out / "study.toml").exists() or (out / "study.toml").read_bytes() != path.read_bytes():
        shutil.copyfile(path, out / "study.toml")
    energy = Energy(device)
    source = corpus_of(settings.corpus, out, progress)
    parts: dict[str, Any] = {}
    for name, study in STUDIES.items():
        section = getattr(settings, name)
        if section is not None:
            made = study(source, section, out=out / name, progress=progress)
            parts[name] = conduct(made, crew=crew, device=device)
    write_json(out / "times.json", times_of(out, list(parts), energy))
    result = {"name": settings.name, "studies": parts, "findings": [f for p in parts.values() for f in p["findings"]]}
    write_json(out / "result.json", result)
    return result


def times_of(out: Path, studies: list[str], energy: Energy) -> dict[str, Any]:
    """What a run took, beside its result: for each study and machine the cells and their seconds; joules if known."""
    path = out / "times.json"
    before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    work: dict[tuple[str, str], dict[str, Any]] = {}
    for study in studies:
        for cell in json.loads((out / study / "times.json").read_text(encoding="utf-8"))["cells"]:
            row = work.setdefault((study, cell["machine"]), {"cells": 0, "seconds": 0.0})
            row["cells"] += 1
            row["seconds"] = round(row["seconds"] + cell["seconds"], 3)
    known = [part for part in (before.get("joules"), energy.joules()) if part is not None]
    return {
        "work": [{"study": study, "machine": machine, **row} for (study, machine), row in work.items()],
        "joules": round(sum(known)) if known else None,
        "versions": versions(),
    }


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


def corpus_of(settings: CorpusSettings, out: Path, progress: Progress) -> Path:
    """The corpus a study reads; a synthetic one is made in the run's folder."""
    given = given_corpus(settings)
    if given is not None:
        return given
    from pathveil.corpus.synth import configure, write

    path = out / "corpus.parquet"
    size = {"reports": settings.reports, "registries": settings.registries, "seed": settings.seed}
    config = configure(**size, **settings.classes)
    write(config, out=path, truth=out / "truth.parquet", progress=progress)
    return path
