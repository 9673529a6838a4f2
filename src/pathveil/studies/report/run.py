"""A study from one call: run, or gone on with, in a folder, with its report."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any

from pathveil.files import write_text
from pathveil.progress import Progress, silent
from pathveil.studies import study_file
from pathveil.studies.report import page
from pathveil.studies.result import StudyResult
from pathveil.studies.store import check_run
from pathveil.studies.study_file import StudySettings, settings_of, toml_of
from pathveil.studies.vocabularies import OwnWords
from pathveil.training.device import kind_of
from pathveil.training.workers import EngineName, crew


def run_study(
    study: str | Path | StudySettings | Mapping[str, Any],
    *,
    corpus: str | Path | None = None,
    out: str | Path | None = None,
    vocabularies: Mapping[str, OwnWords] | None = None,
    device: str = "cpu",
    workers: int = 1,
    engine: EngineName = "local",
    scheduler: str | None = None,
    progress: Progress = silent,
) -> StudyResult:
    """Run a study, or go on with one that was stopped, and write its report.

    ``study`` is a study file, its settings, or a dictionary of the same shape. ``corpus``, a corpus or an encoded
    folder, stands in for the one that the study names. ``out`` is the run's folder; without one the run is in a
    temporary folder, which is left for you to keep or delete. ``vocabularies`` are own ones by name, compared with the
    study's: a ``Vocabulary``, or a function that is given the ``Measures`` of a fold's training documents and returns
    words. ``workers`` are processes on this machine, which share several devices where ``device`` names them
    ("cuda:0,cuda:1"); ``engine`` "dask" trains on the workers of a cluster instead.
    """
    folder = Path(mkdtemp(prefix="pathveil-study-")) if out is None else Path(out)
    check_run(folder, mark=study_file.COPY)
    hired = crew(engine=engine, workers=workers, scheduler=scheduler, devices=device)
    with _file_of(study) as file, hired as hands:
        return study_file.run(
            file,
            out=folder,
            corpus=None if corpus is None else Path(corpus),
            own=vocabularies,
            device=kind_of(device),
            crew=hands,
            finish=lambda result: page.write(result, folder / "report.html"),
            progress=progress,
        )


@contextmanager
def _file_of(study: str | Path | StudySettings | Mapping[str, Any]) -> Generator[Path]:
    """A study file; settings are written to a temporary one."""
    if isinstance(study, str | Path):
        yield Path(study)
        return
    settings = study if isinstance(study, StudySettings) else settings_of(study, place="study")
    with TemporaryDirectory(prefix="pathveil-") as temporary:
        file = Path(temporary) / study_file.COPY
        write_text(file, toml_of(settings) + "\n")
        yield file
