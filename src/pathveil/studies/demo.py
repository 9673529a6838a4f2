"""The demo: everything, small, on a corpus made on the spot; minutes on two cores.

Makes reports that no patient ever had, divides them by case, trains a small model, scores it on the cases it never saw,
explains one of its answers in the report's own words (which may be shown: nobody wrote them), runs the four studies of
``demo.toml``, and ends by releasing the model or saying why it may not leave. Started again in the same folder, it goes
on with what is there.
"""

import shutil
import sys
from collections.abc import Callable
from concurrent.futures import Future
from importlib.resources import as_file, files
from pathlib import Path
from threading import Thread
from typing import Any

import polars as pl

from pathveil.bundle.evaluation import Evaluation
from pathveil.bundle.train import train_model
from pathveil.corpus.split import SplitResult, split_corpus
from pathveil.errors import UsageError
from pathveil.files import read_toml, write_json
from pathveil.model.threads import use_threads
from pathveil.progress import Progress, silent
from pathveil.results import Part, Result
from pathveil.studies import study_file
from pathveil.studies.demo_release import DemoRelease, audit_and_release
from pathveil.studies.explained import REASONS, ExplainedCode, ExplainedReport, ExplainedWords
from pathveil.studies.result import StudyResult
from pathveil.studies.store import check_run
from pathveil.training.settings import PRESETS
from pathveil.training.workers import Crew, ThisProcess

STUDY = files("pathveil.studies") / "demo.toml"
SEED = 1
EPOCHS = 12
UNSEEN = 0.5  # of the cases: so many that the audit can measure one false accusation in a hundred


class DemoModel(Part):
    """The demo's model: where it is, how it does on unseen cases, and one of its answers explained."""

    bundle: str
    parts: SplitResult
    scores: Evaluation
    explained: dict[str, ExplainedCode]
    release: DemoRelease


class DemoResult(Result):
    """What the demo made."""

    out: str
    model: DemoModel
    study: StudyResult

    def to_dict(self) -> dict[str, Any]:
        return {"out": self.out, "model": self.model.to_dict(), "study": self.study.to_dict()}

    def rows(self) -> list[dict[str, Any]]:
        return self.model.scores.rows()

    def summary(self) -> str:
        lines = [
            "Made up reports of several registries and trained a small model on half of the cases.",
            f"On the {self.model.scores.documents:,} reports it never saw:",
            "",
        ]
        for task, score in self.model.scores.tasks.items():
            micro, macro = score.micro, score.macro
            lines.append(
                f"  {task:<11} micro F1 {micro.value:.2f} ({micro.low:.2f}–{micro.high:.2f})   "
                f"macro F1 {macro.value:.2f} ({macro.low:.2f}–{macro.high:.2f})   "
                f"codes {score.coded.share:.0%} without a person"
            )
        lines += ["", "One of them, explained (the model's words for each code, strongest first):", ""]
        for task, reason in self.model.explained.items():
            places = ", ".join(f"'{' '.join(place.text.split())}'" for place in reason.places[:4])
            mark = "as labelled" if reason.code == reason.truth else f"labelled {reason.truth}"
            lines.append(f"  {task:<11} {reason.code} ({reason.probability:.0%}, {mark}): {places}")
        lines += ["", f"The model is in {self.model.bundle}: read card.md. The studies, small:", str(self.study)]
        lines += self.model.release.lines()
        out = self.out
        lines += ["", "To code these reports in a browser, as a registrar would (it writes a link to log in):"]
        lines += [f"  {command()} serve {self.model.bundle} --store {out}/serve --queue {out}/parts/test.parquet"]
        return "\n".join(lines)


def command() -> str:
    """How this very program is called from here: it need not lie on the path, as after 'make demo'."""
    called = Path(sys.argv[0])
    on_path = shutil.which("pathveil")
    if called.name != "pathveil" or (on_path and Path(on_path).resolve() == called.resolve()):
        return "pathveil"
    return str(called.relative_to(Path.cwd()) if called.is_relative_to(Path.cwd()) else called)


def run(
    out: Path,
    *,
    crew: Crew | None = None,
    finish: Callable[[StudyResult], None] = lambda result: None,
    progress: Progress = silent,
) -> DemoResult:
    """Everything into the folder ``out``; the studies' figures also in its ``result.json``."""
    check_demo(out)
    alone = crew is None or isinstance(crew, ThisProcess)
    model: Future[DemoModel] = Future()

    def train(told: Progress) -> None:
        try:
            model.set_result(train_and_explain(out / study_file.CORPUS, out, told))
        except BaseException as error:
            model.set_exception(error)  # for who waits

    def train_beside() -> None:
        use_threads(1)  # the other cores have their work
        train(silent)

    beside = Thread(target=train_beside, daemon=True)

    def begin(study: str) -> None:
        """While others do the studies, this process trains and audits the model, from the first one on: so no core is
        left with nothing to do, at the end of a study or of the demo."""
        if not alone and beside.ident is None:
            beside.start()

    def end(study: StudyResult) -> None:
        if alone:
            train(progress)
        model.result()
        finish(study)

    with as_file(STUDY) as settings:
        study = study_file.run(settings, out=out, crew=crew, begin=begin, finish=end, progress=progress)
    return DemoResult.model_construct(out=str(out), model=model.result(), study=study)


def check_demo(out: Path) -> None:
    """Refuse a folder with anything but a demo in it: models, parts and results there would be replaced."""
    check_run(out, mark=study_file.COPY)
    copy = out / study_file.COPY
    with as_file(STUDY) as own:
        if copy.exists() and name_of(copy) != name_of(own):
            raise UsageError(f"{out}: is the run of another study, and no demo to go on with; choose a new folder")


def name_of(path: Path) -> Any:
    """What a study file, perhaps of another version, calls itself."""
    return read_toml(path, expected="a study file").get("name")


def train_and_explain(corpus: Path, out: Path, progress: Progress) -> DemoModel:
    """A small network beside the linear view, its scores on unseen cases, and one answer explained."""
    shutil.rmtree(out / "parts", ignore_errors=True)
    parts = split_corpus(corpus, out=out / "parts", seed=SEED, test=UNSEEN, validation=0.0, progress=progress)
    for name in ("model", "model.training"):
        shutil.rmtree(out / name, ignore_errors=True)
    settings = PRESETS["small"].changed(epochs=EPOCHS, patience=3, linear=True)
    train, test = out / "parts" / "train.parquet", out / "parts" / "test.parquet"
    model = train_model(train, settings, preset="small", seed=SEED, out=out / "model", progress=progress)
    scores = model.evaluate(test, resamples=300, progress=progress)
    reports = pl.read_parquet(test).drop_nulls(["site", "histology", "laterality"])
    paired = reports.filter(pl.col("laterality").is_in(["left", "right"]))
    report = (paired if paired.height else reports).row(0, named=True)
    explained = {}
    for task, reasons in model.explain(report["text"]).tasks.items():
        places = [
            ExplainedWords(
                start=place.start,
                end=place.end,
                text=report["text"][place.start : place.end],
                weight=place.weight,
            )
            for place in reasons.places
            if place.weight > 0
        ]
        code = {"code": reasons.code.code, "probability": reasons.code.probability}
        explained[task] = ExplainedCode(truth=report[task], **code, places=places)
    write_json(out / REASONS, ExplainedReport(report_id=report["report_id"], tasks=explained).without_text())
    release = audit_and_release(out, members=train, non_members=test, seed=SEED, progress=progress)
    return DemoModel(bundle=str(out / "model"), parts=parts, scores=scores, explained=explained, release=release)
