"""The demo: the main job, small, on a corpus made on the spot.

Makes reports that no patient ever had, divides them by case, trains a small model, scores it on the cases it never saw,
and explains one of its answers in the report's own words (which may be shown: nobody wrote them).
"""

import json
import shutil
from pathlib import Path
from typing import Any

from pathveil.progress import Progress, silent

REPORTS, SEED = 1500, 1
CLASSES = {"sites": 12, "subsites": 40, "histologies": 40}
EPOCHS = 12


def run(out: Path, *, progress: Progress = silent) -> dict[str, Any]:
    """Everything into the folder ``out``; what was found, also in its ``result.json``."""
    out.mkdir(parents=True, exist_ok=True)
    result = {"out": str(out), "corpus": make_corpus(out, progress), "model": train_model(out, progress)}
    part = out / "result.json.part"
    part.write_text(json.dumps(result, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    part.replace(out / "result.json")
    return result


def make_corpus(out: Path, progress: Progress) -> dict[str, Any]:
    """Synthetic reports, divided 80:20 by case."""
    from pathveil.corpus.split import split_corpus
    from pathveil.corpus.synth import configure, write

    made = write(configure(reports=REPORTS, seed=SEED, **CLASSES), out=out / "reports.parquet", progress=progress)
    parts = split_corpus(out / "reports.parquet", out=out / "parts", seed=SEED, test=0.2, validation=0.0)
    return {"made": made, "parts": parts}


def train_model(out: Path, progress: Progress) -> dict[str, Any]:
    """A small network beside the linear view, its scores on unseen cases, and one answer explained."""
    import polars as pl

    from pathveil.bundle.evaluation import evaluate_bundle
    from pathveil.bundle.explanation import explain_text
    from pathveil.bundle.release import train_bundle
    from pathveil.training.settings import PRESETS

    shutil.rmtree(out / "model", ignore_errors=True)
    settings = PRESETS["small"].changed(epochs=EPOCHS, patience=3, linear=True)
    bundle = train_bundle(out / "parts" / "train.parquet", settings, preset="small", seed=SEED, progress=progress)
    bundle = bundle.save(out / "model")
    test = out / "parts" / "test.parquet"
    scores = evaluate_bundle(bundle, test, resamples=300, progress=progress)
    reports = pl.read_parquet(test).drop_nulls(["site", "histology", "laterality"])
    paired = reports.filter(pl.col("laterality").is_in(["left", "right"]))
    report = (paired if paired.height else reports).row(0, named=True)
    reasons = {
        task: {
            "truth": report[task],
            "code": reason.code.code,
            "probability": reason.code.probability,
            "places": [
                {"text": report["text"][start:end], "weight": weight}
                for start, end, weight in reason.places
                if weight > 0
            ],
        }
        for task, reason in explain_text(bundle, report["text"]).items()
    }
    return {"bundle": str(out / "model"), "scores": scores, "explained": reasons}


def describe(result: dict[str, Any]) -> str:
    """What happened, for a person."""
    scores = result["model"]["scores"]
    lines = [
        f"Made {REPORTS:,} synthetic reports from 7 registries and trained a small model on four fifths of the cases.",
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
        f"The model is in {result['model']['bundle']}: read card.md. All figures: {result['out']}/result.json",
    ]
    return "\n".join(lines)
