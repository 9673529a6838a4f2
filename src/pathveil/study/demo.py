"""The demo: everything, small, on a corpus made on the spot; minutes on two cores.

Makes reports that no patient ever had, divides them by case, trains a small model, scores it on the cases it never saw,
explains one of its answers in the report's own words (which may be shown: nobody wrote them), and runs the three
studies of ``demo.toml``. Started again in the same folder, it goes on with what is there.
"""

import shutil
from collections.abc import Callable
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pathveil.progress import Progress, silent

if TYPE_CHECKING:
    from pathveil.study.result import StudyResult
    from pathveil.training.workers import Crew

STUDY = files("pathveil.study") / "demo.toml"
SEED = 1
EPOCHS = 12


def run(
    out: Path,
    *,
    crew: "Crew | None" = None,
    finish: "Callable[[StudyResult], None]" = lambda result: None,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Everything into the folder ``out``; the studies' figures also in its ``result.json``."""
    from pathveil.study import study_file
    from pathveil.study.result import StudyResult

    model = {}

    def then(study: StudyResult) -> None:
        finish(study)
        model.update(train_model(out / study_file.CORPUS, out, progress))

    with as_file(STUDY) as settings:
        study = study_file.run(settings, out=out, crew=crew, finish=then, progress=progress)
    return {"out": str(out), "model": model, "study": study}


def train_model(corpus: Path, out: Path, progress: Progress) -> dict[str, Any]:
    """A small network beside the linear view, its scores on unseen cases, and one answer explained."""
    import polars as pl

    from pathveil.bundle.train import train_model as train
    from pathveil.corpus.split import split_corpus
    from pathveil.training.settings import PRESETS

    parts = split_corpus(corpus, out=out / "parts", seed=SEED, test=0.2, validation=0.0, progress=progress)
    shutil.rmtree(out / "model", ignore_errors=True)
    settings = PRESETS["small"].changed(epochs=EPOCHS, patience=3, linear=True)
    model = train(out / "parts" / "train.parquet", settings, preset="small", seed=SEED, progress=progress)
    model = model.save(out / "model")
    test = out / "parts" / "test.parquet"
    scores = model.evaluate(test, resamples=300, progress=progress).to_dict()
    reports = pl.read_parquet(test).drop_nulls(["site", "histology", "laterality"])
    paired = reports.filter(pl.col("laterality").is_in(["left", "right"]))
    report = (paired if paired.height else reports).row(0, named=True)
    explained = {
        task: {
            "truth": report[task],
            "code": reasons.code.code,
            "probability": reasons.code.probability,
            "places": [
                {"text": report["text"][place.start : place.end], "weight": place.weight}
                for place in reasons.places
                if place.weight > 0
            ],
        }
        for task, reasons in model.explain(report["text"]).tasks.items()
    }
    return {"bundle": str(out / "model"), "parts": parts.to_dict(), "scores": scores, "explained": explained}


def describe(result: dict[str, Any]) -> str:
    """What happened, for a person."""
    scores = result["model"]["scores"]
    lines = [
        "Made up reports of several registries and trained a small model on four fifths of the cases.",
        f"On the {scores['documents']:,} reports it never saw:",
        "",
    ]
    for task, score in scores["tasks"].items():
        micro, macro, coded = score["micro"], score["macro"], score["coded"]
        lines.append(
            f"  {task:<11} micro F1 {micro['value']:.2f} ({micro['low']:.2f}–{micro['high']:.2f})   "
            f"macro F1 {macro['value']:.2f} ({macro['low']:.2f}–{macro['high']:.2f})   "
            f"codes {coded['share']:.0%} without a person"
        )
    lines += ["", "One of them, explained (the model's words for each code, strongest first):", ""]
    for task, reason in result["model"]["explained"].items():
        places = ", ".join(f"'{' '.join(place['text'].split())}'" for place in reason["places"][:4])
        mark = "as labelled" if reason["code"] == reason["truth"] else f"labelled {reason['truth']}"
        lines.append(f"  {task:<11} {reason['code']} ({reason['probability']:.0%}, {mark}): {places}")
    lines += [
        "",
        f"The model is in {result['model']['bundle']}: read card.md. The three studies, small:",
        str(result["study"]),
    ]
    return "\n".join(lines)
