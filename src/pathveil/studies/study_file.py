"""A study file: one TOML that says which corpus, which of the four studies, and how; and the run that follows it.

    name = "…"            what the report is called
    [corpus]              path, or an encoded folder, or a synthetic one: reports, registries, seed
    [vocabulary]          settings of study.vocabulary.VocabularySettings
    [distribution]        settings of study.distribution.DistributionSettings
    [combined]            settings of study.combined.CombinedSettings
    [defences]            settings of study.defences.DefencesSettings

Sections that are left out are not run. ``studies/demo.toml`` explains every setting. A run's folder holds a copy of the
file, a folder a study with its finished units, ``result.json`` with all results together, ``times.json`` with what they
took, and the report. One process holds it from before the first write to the end.
"""

import json
import shutil
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import Field, PositiveInt, ValidationError, model_validator

from pathveil import __version__
from pathveil.errors import UsageError, explained, meant, short
from pathveil.files import move_into, only_process, read_json, read_toml, write_json
from pathveil.progress import Progress, silent
from pathveil.settings import Settings
from pathveil.studies.combined import CombinedSettings, CombinedStudy
from pathveil.studies.defences import DefencesSettings, DefencesStudy
from pathveil.studies.distribution import DistributionSettings, DistributionStudy
from pathveil.studies.machine import Session
from pathveil.studies.result import StudyResult
from pathveil.studies.scheduler import WORK, Study, Unit, run_in_folder
from pathveil.studies.settings import naming_errors
from pathveil.studies.store import Cells
from pathveil.studies.study_corpus import ENCODED
from pathveil.studies.vocabularies import OwnWords
from pathveil.studies.vocabulary import VocabularySettings, VocabularyStudy
from pathveil.training.workers import Crew

STUDIES = ("vocabulary", "distribution", "combined", "defences")
AnyStudy = VocabularyStudy | DistributionStudy | CombinedStudy | DefencesStudy
AnySettings = VocabularySettings | DistributionSettings | CombinedSettings | DefencesSettings
CELLS = "cells"  # of all studies together, as their progress is called
COPY, CORPUS, TRUTH, RECIPE = "study.toml", "corpus.parquet", "truth.parquet", "corpus.json"  # in a run's folder
SHIPPED = (Path(__file__).parent / "shipped", Path(__file__).resolve().parents[3] / "studies")  # installed; a checkout
SYNTHETIC = ("sites", "subsites", "histologies", "lateralities", "behaviors")  # kinds of class a synthetic corpus has


class CorpusSettings(Settings):
    """Where the reports come from: a corpus on disk, or one made on the spot."""

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
                near = meant(name, SYNTHETIC)
                raise ValueError(f"'classes' has no '{short(name)}', only {', '.join(SYNTHETIC)}{near}")
        return self


class StudySettings(Settings):
    """A whole study file."""

    name: str
    corpus: CorpusSettings
    vocabulary: VocabularySettings | None = None
    distribution: DistributionSettings | None = None
    combined: CombinedSettings | None = None
    defences: DefencesSettings | None = None

    @model_validator(mode="after")
    def something_to_do(self) -> "StudySettings":
        if all(getattr(self, name) is None for name in STUDIES):
            raise ValueError(f"it has no study; give at least one of {', '.join(f'[{name}]' for name in STUDIES)}")
        return self


def shipped_studies() -> dict[str, Path]:
    """The study files that come with Pathveil, by name: beside an installed package, or in a checkout."""
    folder = next((folder for folder in SHIPPED if folder.is_dir()), None)
    return {} if folder is None else {path.stem: path for path in sorted(folder.glob("*.toml"))}


def find_study(path: Path) -> Path:
    """A study file, or the one that comes with Pathveil under that name.

    >>> find_study(Path("standard")).name
    'standard.toml'
    >>> find_study(Path("standrad"))
    Traceback (most recent call last):
    pathveil.errors.UsageError: standrad: is no study file, nor one that comes with Pathveil; did you mean 'standard'?
    """
    if path.exists() or path.suffix or path.parent != Path():
        return path
    known = shipped_studies()
    if path.name not in known:
        raise UsageError(f"{path}: is no study file, nor one that comes with Pathveil{meant(path.name, [*known])}")
    return known[path.name]


def read(path: Path) -> StudySettings:
    """The settings of a file; a mistake is one sentence with its place and, for a misspelling, the nearest name."""
    content = read_toml(find_study(path), expected="a study file")
    return settings_of(content, place=str(path))


def settings_of(content: Mapping[str, Any], *, place: str) -> StudySettings:
    """The settings in what a study file holds."""
    try:
        # By way of JSON, in which a list may stand for a tuple while a "3" may not for a 3; TOML has dates besides.
        return StudySettings.model_validate_json(json.dumps(content, default=str), strict=True)
    except ValidationError as error:
        raise UsageError(f"{place}: {explained(error, StudySettings)}") from None


def toml_of(settings: StudySettings) -> str:
    """A study file with these settings.

    >>> print(toml_of(StudySettings(name="x", corpus={"reports": 90}, distribution={"training": {"epochs": 3}})))
    name = "x"
    corpus = { "reports" = 90 }
    distribution = { "training" = { "epochs" = 3 } }
    """
    content = settings.model_dump(mode="json", exclude_unset=True, exclude_none=True)
    return "\n".join(f"{name} = {_toml_value(value)}" for name, value in content.items())


def _toml_value(value: Any) -> str:
    """A value of TOML, a table in one line."""
    if isinstance(value, Mapping):
        inside = ", ".join(f"{json.dumps(name)} = {_toml_value(part)}" for name, part in value.items())
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml_value, value))}]"
    return json.dumps(value, ensure_ascii=False)


def with_corpus(settings: StudySettings, corpus: Path | None) -> StudySettings:
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
    own: Mapping[str, OwnWords] | None = None,
    device: str = "cpu",
    crew: Crew | None = None,
    begin: Callable[[str], None] = lambda study: None,
    finish: Callable[[StudyResult], None] = lambda result: None,
    progress: Progress = silent,
) -> StudyResult:
    """Run a study file, or go on with it, in ``out``, alone there; writes and returns ``out/result.json``.

    ``corpus``, a corpus or an encoded folder, stands in for the one that the file names. ``own`` are vocabularies that
    are compared with those of the file (``studies.vocabularies``). What the file asks of the
    corpus is judged before anything is kept. ``begin`` is called with the name of each study before its models are
    trained, ``finish`` with the result, both while the folder is held.
    """
    path = find_study(path)
    settings = with_corpus(read(path), corpus)
    with only_process(out):
        session = Session(out, file=path.name, device=device)
        run_progress = RunProgress(progress, session)
        with new_corpus(settings.corpus, out, progress) as source:
            studies = studies_of(settings, source, own or {}, out=out, progress=run_progress, file=path)
            for name, study in studies.items():
                run_progress.expect(name, study.units(device=device), study.cells)
            # The first thing kept: by it a folder that was left at any later moment is known as a run.
            if not (out / COPY).exists() or (out / COPY).read_bytes() != path.read_bytes():
                shutil.copyfile(path, out / COPY)
        parts = {}
        for name, study in studies.items():
            begin(name)
            parts[name] = run_in_folder(study, crew=crew, device=device)
        session.note(work=work_of(studies))
        result = StudyResult.of(settings.name, parts, folder=out)
        write_json(out / "result.json", result.to_dict())
        finish(result)
    return result


def studies_of(
    settings: StudySettings,
    source: Path,
    own: Mapping[str, OwnWords],
    *,
    out: Path,
    progress: "RunProgress",
    file: Path,
) -> dict[str, AnyStudy]:
    """The studies that a file asks for, on its corpus; one that the corpus does not allow is named with its file."""
    made: dict[str, AnyStudy] = {}
    for name in STUDIES:
        section = getattr(settings, name)
        if section is not None:
            with naming_errors(f"{file}: [{name}]"):
                made[name] = study_of(section, source, own, out=out / name, progress=progress.of(name))
    return made


def study_of(
    section: AnySettings,
    source: Path,
    own: Mapping[str, OwnWords],
    *,
    out: Path,
    progress: Progress = silent,
) -> AnyStudy:
    """The study that a section of a file describes."""
    if isinstance(section, DistributionSettings):
        return DistributionStudy(source, section, out=out, progress=progress)
    if isinstance(section, VocabularySettings):
        return VocabularyStudy(source, section, out=out, own=own, progress=progress)
    if isinstance(section, CombinedSettings):
        return CombinedStudy(source, section, out=out, own=own, progress=progress)
    return DefencesStudy(source, section, out=out, progress=progress)


class RunProgress:
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


def prepared_corpus(settings: CorpusSettings, folder: Path, progress: Progress) -> Path:
    """The corpus a study reads; a synthetic one is made in the folder, unless it is there."""
    given = given_corpus(settings)
    if given is not None:
        return given
    if not is_made_for(settings, folder):
        from pathveil.corpus.synth import configure, write_corpus

        config = configure(**recipe(settings))
        (folder / RECIPE).unlink(missing_ok=True)
        write_corpus(config, out=folder / CORPUS, truth=folder / TRUTH, progress=progress)
        write_json(folder / RECIPE, {"pathveil": __version__, **recipe(settings)})
    return folder / CORPUS


def recipe(settings: CorpusSettings) -> dict[str, Any]:
    """What a synthetic corpus is made from."""
    size = {"reports": settings.reports, "registries": settings.registries, "seed": settings.seed}
    return {**size, **settings.classes}


def is_made_for(settings: CorpusSettings, folder: Path) -> bool:
    """Whether the synthetic corpus in a folder is the one that these settings describe."""
    if settings.reports is None or not (folder / CORPUS).is_file() or not (folder / RECIPE).is_file():
        return False
    try:
        return read_json(folder / RECIPE) == {"pathveil": __version__, **recipe(settings)}
    except UsageError:  # damaged: the corpus is made again
        return False


@contextmanager
def new_corpus(settings: CorpusSettings, out: Path, progress: Progress) -> Generator[Path]:
    """The corpus to judge a file by. A synthetic one that is not there yet comes into the run's folder, and takes the
    place of another, when the block has passed; until then nothing of the run is touched."""
    if given_corpus(settings) is not None or is_made_for(settings, out):
        yield prepared_corpus(settings, out, progress)
        return
    part = out / ".part-corpus"
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir()
    try:
        yield prepared_corpus(settings, part, progress)
        cache = f"{CORPUS}.pathveil"  # its words, where they were kept beside it
        shutil.rmtree(out / cache, ignore_errors=True)
        move_into(out, part, (TRUTH, CORPUS, cache, RECIPE))
    finally:
        shutil.rmtree(part, ignore_errors=True)
