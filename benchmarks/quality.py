"""F1 on unseen cases: our presets beside TF-IDF with logistic regression.

The corpus is divided by case, 80:20, by a hash of the case id. The linear baseline is what a user would reach for
instead: scikit-learn's TF-IDF on the raw text and a logistic regression a task, with C and class weights chosen for
each task on a tenth of the training cases by the sum of micro and macro F1, then fitted on all training cases. Ours are
``pathveil train`` with each preset. Every score comes with its 95 % interval by case, every difference is paired.
``--development`` leaves the test cases alone and judges on a fifth of the training cases: for trying things out.
"""

import argparse
import hashlib
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from pathveil.bundle import Model
from pathveil.bundle.train import train_model
from pathveil.progress import Progress
from pathveil.training.batches import hold_out_cases
from pathveil.training.metrics import evaluate, macro_f1, paired_difference

TASKS = ("site", "subsite", "laterality", "histology", "behavior")
GRID = [(strength, weights) for strength in (1.0, 10.0, 100.0) for weights in (None, "balanced")]


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--corpus", type=Path, required=True, help="reports with labels, for example the TCGA corpus")
    parser.add_argument("--presets", default="default,paper", help="presets to train, with commas")
    parser.add_argument("--seed", type=int, default=0, help="of training (the division by case is fixed)")
    parser.add_argument(
        "--out", type=Path, required=True, help="folder for the parts and the bundles; run again to go on"
    )
    parser.add_argument("--development", action="store_true", help="judge on training cases; leave test cases alone")


def run(options: argparse.Namespace, *, progress: Progress) -> dict[str, Any]:
    options.out.mkdir(parents=True, exist_ok=True)
    frame = pl.read_parquet(options.corpus)
    test = by_case(frame, "test")
    if options.development:
        frame = frame.filter(~pl.Series(test))
        test = by_case(frame, "development")
    training, unseen = frame.filter(~pl.Series(test)), frame.filter(pl.Series(test))
    path = options.out / "train.parquet"
    training.write_parquet(path)
    answers, seconds = {"linear": linear(training, unseen, progress=progress)}, {}
    for preset in options.presets.split(","):
        folder, start = options.out / preset, time.perf_counter()
        if not folder.exists():
            train_model(path, preset=preset, seed=options.seed, out=folder, progress=progress)
            seconds[preset] = time.perf_counter() - start
        answers[preset] = ours(Model.load(folder), unseen)
    tasks = {task: judge(unseen, task, answers) for task in TASKS}
    return {"training": training.height, "unseen": unseen.height, "seconds": seconds, "tasks": tasks}


def by_case(frame: pl.DataFrame, name: str) -> np.ndarray:
    """Which reports belong to the fifth of the cases that a hash picks."""
    salt = {"test": "pathveil", "development": "pathveil-development"}[name]

    def picked(case: str) -> bool:
        return int(hashlib.sha256(f"{salt}:{case}".encode()).hexdigest()[:8], 16) % 5 == 0

    return np.array([picked(case) for case in frame["case_id"]])


def linear(training: pl.DataFrame, unseen: pl.DataFrame, *, progress: Progress) -> dict[str, list[str]]:
    """What TF-IDF and logistic regression say about the unseen reports."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    vectoriser = TfidfVectorizer(sublinear_tf=True, min_df=2)
    texts = vectoriser.fit_transform(training["text"].to_list())
    fresh = vectoriser.transform(unseen["text"].to_list())
    said = {}
    for number, task in enumerate(TASKS):
        labels = training[task].to_numpy()
        known = np.flatnonzero(training[task].is_not_null().to_numpy())
        train, held = hold_out_cases(training["case_id"].to_numpy()[known], share=0.1, seed=[0, 0])
        train, held = known[train], known[held]
        code = {name: number for number, name in enumerate(sorted(set(labels[known])))}
        best: tuple[float, Any] = (-1.0, None)
        for strength, weights in GRID:
            model = LogisticRegression(C=strength, class_weight=weights, max_iter=300)
            model.fit(texts[train], labels[train])
            predicted = np.array([code[name] for name in model.predict(texts[held])])
            truth = np.array([code[name] for name in labels[held]])
            gain = float((predicted == truth).mean()) + macro_f1(truth, predicted)
            best = max(best, (gain, (strength, weights)), key=lambda pair: pair[0])
        strength, weights = best[1]
        model = LogisticRegression(C=strength, class_weight=weights, max_iter=300).fit(texts[known], labels[known])
        said[task] = list(model.predict(fresh))
        progress("linear baseline", number + 1, len(TASKS))
    return said


def ours(model: Model, unseen: pl.DataFrame) -> dict[str, list[str]]:
    """What a model says about the unseen reports."""
    coded = model.predict(unseen["text"].to_list()).results
    return {task: [result.codes[task].code for result in coded] for task in model.tasks}


def judge(unseen: pl.DataFrame, task: str, answers: Mapping[str, Mapping[str, list[str]]]) -> dict[str, Any]:
    """Scores of everyone, and differences to the linear baseline, on one task."""
    truth = unseen[task].to_list()
    names = sorted({name for said in answers.values() for name in said[task]} | {name for name in truth if name})
    code = {name: number for number, name in enumerate(names)} | {None: -1}
    labels = np.array([code[name] for name in truth])
    cases = np.unique(unseen["case_id"].to_numpy(), return_inverse=True)[1]
    said = {who: np.array([code[name] for name in answer[task]]) for who, answer in answers.items()}
    result: dict[str, Any] = {"reports": int((labels >= 0).sum())}
    for who, predicted in said.items():
        result[who] = evaluate(labels, predicted, cases=cases).as_dict()
        if who != "linear":
            difference = paired_difference(labels, predicted, said["linear"], cases=cases)
            result[who]["over_linear"] = {kind: found.as_dict() for kind, found in difference.items()}
    return result


def describe(result: Mapping[str, Any]) -> str:
    lines = [f"{result['training']:,} reports to train on, {result['unseen']:,} unseen", ""]
    for task, found in result["tasks"].items():
        lines.append(f"{task} ({found['reports']:,} reports)")
        for who in (name for name in found if name != "reports"):
            score = found[who]
            line = f"  {who:<10} micro {shown(score['micro'])}  macro {shown(score['macro'])}"
            if "over_linear" in score:
                micro, macro = score["over_linear"]["micro"], score["over_linear"]["macro"]
                line += f"  over linear: micro {signed(micro)}, macro {signed(macro)}"
            lines.append(line)
    for kind in ("micro", "macro"):
        means = {
            who: np.mean([found[who][kind]["value"] for found in result["tasks"].values()])
            for who in next(iter(result["tasks"].values()))
            if who != "reports"
        }
        lines.append(f"mean {kind} F1: " + ", ".join(f"{who} {value:.3f}" for who, value in means.items()))
    lines += [f"{preset}: trained in {seconds:.0f} s" for preset, seconds in result["seconds"].items()]
    return "\n".join(lines)


def shown(score: Mapping[str, float]) -> str:
    return f"{score['value']:.3f} ({score['low']:.3f}–{score['high']:.3f})"


def signed(score: Mapping[str, float]) -> str:
    return f"{score['value']:+.3f} ({score['low']:+.3f} to {score['high']:+.3f})"
