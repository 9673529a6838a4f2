"""What hiding people and days in the text leaves of them, and what it costs: planted stretches, exposure, F1.

Of an invented corpus whose truth file says where names, numbers, dates and addresses were planted: the share of
stretches, by kind, that leave a word of their own in the tokens, with the text as it stands and hidden; and how many
personal words a vocabulary then has. With ``--corpus`` (for example TCGA's), models are trained on the same cases with
either text and judged on the same unseen fifth: the plain view (logistic regression on word counts), and a network by
``pathveil train --preset``. Differences are paired, with 95 % intervals by case.
"""

import argparse
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from pathveil.corpus.synth import SynthSettings, write_corpus
from pathveil.progress import Progress
from pathveil.text.tokenizer import tokenize_spans
from pathveil.training.linear import fit_linear, weighted_counts, word_weights
from pathveil.training.metrics import evaluate, paired_difference
from pathveil.vocabulary.corpus_counts import count_corpus
from pathveil.vocabulary.encoding import encode
from pathveil.vocabulary.exposure import measure_exposure
from pathveil.vocabulary.planted import EVERY, read_truth
from pathveil.vocabulary.selection import Measures, select
from pathveil.vocabulary.words import Vocabulary

WAYS = {"as it stands": False, "hidden": True}
CHOICES = ("occurrences >= 5", "registries >= 3 and cases >= 5")
SAYS_NOTHING = ("large_integer", "decimal")  # what numbers become anyway


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--reports", type=int, default=5_000, help="invented reports (default 5,000)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--corpus", type=Path, help="reports with labels, to measure F1 on")
    parser.add_argument("--tasks", default="site,laterality,histology", help="tasks to measure F1 on, with commas")
    parser.add_argument("--preset", default="small", help="of the network, or none (default small)")


def run(options: argparse.Namespace, *, progress: Progress) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        corpus, truth = Path(folder) / "reports.parquet", Path(folder) / "truth.parquet"
        settings = SynthSettings(reports=options.reports, seed=options.seed)
        write_corpus(settings, out=corpus, truth=truth, progress=progress)
        result: dict[str, Any] = {
            "reports": options.reports,
            "planted": planted_left(corpus, truth, progress=progress),
            "exposure": exposures(corpus, truth, progress=progress),
        }
        if options.corpus:
            result["f1"] = scores(options, Path(folder), progress=progress)
    return result


def planted_left(corpus: Path, truth: Path, *, progress: Progress) -> dict[str, Any]:
    """By kind: how many stretches were planted, and which share leaves a word of its own in the tokens."""
    spans = read_truth(truth)
    planted: Counter[str] = Counter()
    left = {way: Counter[str]() for way in WAYS}
    reports = pl.read_parquet(corpus, columns=["report_id", "text"])
    for number, (report, text) in enumerate(reports.iter_rows(), start=1):
        here = spans.get(report, [])
        planted.update(kind for _, _, kind in here)
        for way, hiding in WAYS.items():
            tokens = [
                (start, end)
                for word, start, end in tokenize_spans(text, words=EVERY, identifiers=hiding)
                if not word.startswith("identifier_") and word not in SAYS_NOTHING
            ]
            starts = np.array([start for start, _ in tokens], np.int64)
            ends = np.array([end for _, end in tokens], np.int64)
            for begin, stop, kind in here:
                left[way][kind] += bool(((starts < stop) & (ends > begin)).any())
        if number % 500 == 0:
            progress("looking for what was planted", number, reports.height)
    rows = {
        kind: {"stretches": count} | {way: left[way][kind] / count for way in WAYS}
        for kind, count in sorted(planted.items())
    }
    total = {"stretches": planted.total()} | {way: left[way].total() / planted.total() for way in WAYS}
    return rows | {"all": total}


def exposures(corpus: Path, truth: Path, *, progress: Progress) -> list[dict[str, Any]]:
    """Personal words in vocabularies of either text, and cases that hold a word of their own in them."""
    vocabularies = {}
    for way, hiding in WAYS.items():
        measures = Measures(count_corpus(corpus, identifiers=hiding, progress=progress))
        vocabularies |= {f"{choice}, {way}": select(measures, choice) for choice in CHOICES}
    found = measure_exposure(vocabularies, corpus, truth=truth, progress=progress)
    return [
        {
            "vocabulary": one.name,
            "words": one.words,
            "personal": sum(kind.kept for kind in (one.planted or {}).values()),
            "cases_with_own_word": one.cases_with_own_word,
        }
        for one in found.vocabularies
    ]


def scores(options: argparse.Namespace, folder: Path, *, progress: Progress) -> dict[str, Any]:
    """F1 on unseen cases with either text, and the differences: hidden minus as it stands."""
    from pathveil.bundle.train import train_model
    from quality import by_case, ours

    tasks = options.tasks.split(",")
    frame = pl.read_parquet(options.corpus)
    test = by_case(frame, "test")
    unseen, path = frame.filter(pl.Series(test)), folder / "train.parquet"
    frame.filter(~pl.Series(test)).write_parquet(path)
    whole = folder / "whole.parquet"
    frame.write_parquet(whole)
    said: dict[str, dict[str, Mapping[str, np.ndarray]]] = {"plain view": {}, options.preset: {}}
    classes = {
        task: {label: place for place, label in enumerate(sorted(frame[task].drop_nulls().unique()))} for task in tasks
    }
    for way, hiding in WAYS.items():
        words = select(Measures(count_corpus(path, identifiers=hiding, progress=progress)), "occurrences >= 5")
        progress(f"plain view, {way}", 0, 0)
        said["plain view"][way] = plain_view(whole, words, test, tasks, classes)
        if options.preset != "none":
            model = train_model(path, preset=options.preset, vocabulary=words, tasks=tasks, progress=progress)
            answers = ours(model, unseen)
            said[options.preset][way] = {
                task: np.array([classes[task].get(label, -1) for label in answers[task]]) for task in tasks
            }
    cases = np.unique(unseen["case_id"].to_numpy(), return_inverse=True)[1]
    found: dict[str, Any] = {"unseen": unseen.height}
    for model, answers in said.items():
        for task in tasks if answers else ():
            labels = np.array([classes[task].get(label, -1) for label in unseen[task]])
            difference = paired_difference(labels, answers["hidden"][task], answers["as it stands"][task], cases=cases)
            found.setdefault(model, {})[task] = {
                way: {
                    kind: evaluate(labels, answers[way][task], cases=cases).as_dict()[kind]
                    for kind in ("micro", "macro")
                }
                for way in WAYS
            } | {"difference": {kind: one.as_dict() for kind, one in difference.items()}}
    return found


def plain_view(
    whole: Path, words: Vocabulary, test: np.ndarray, tasks: list[str], classes: Mapping[str, Mapping[str, int]]
) -> dict[str, np.ndarray]:
    """What logistic regression on weighted word counts says of the unseen reports."""
    encoded = encode(whole, words, tasks=tasks, classes={task: list(classes[task]) for task in tasks})
    idf = word_weights(encoded.ids, encoded.offsets, vocabulary_size=encoded.vocabulary_size)
    documents = weighted_counts(encoded.ids, encoded.offsets, idf)
    said = {}
    for task in tasks:
        labels = np.where(test, -1, encoded.labels[task])
        weight, bias = fit_linear(documents, labels, classes=len(classes[task]), strength=10.0, iterations=100)
        said[task] = np.asarray(documents[np.flatnonzero(test)] @ weight.T + bias).argmax(1)
    return said


def describe(result: Mapping[str, Any]) -> str:
    lines = [f"{result['reports']:,} invented reports: planted stretches that leave a word of their own"]
    for kind, row in result["planted"].items():
        shares = "  ".join(f"{way} {row[way]:6.1%}" for way in WAYS)
        lines.append(f"  {kind:<16} {row['stretches']:>7,}  {shares}")
    for row in result["exposure"]:
        lines.append(
            f"  {row['vocabulary']}: {row['words']:,} words, {row['personal']:,} personal, "
            f"{row['cases_with_own_word']:,} cases with a word of their own"
        )
    for model, tasks in result.get("f1", {}).items():
        if model == "unseen":
            lines.append(f"F1 on {tasks:,} unseen reports")
            continue
        for task, row in tasks.items():
            for kind in ("micro", "macro"):
                before, after = (row[way][kind]["value"] for way in WAYS)
                change = row["difference"][kind]
                lines.append(
                    f"  {model:<11} {task:<11} {kind} {before:.3f} → {after:.3f}  "
                    f"({change['value']:+.4f}, {change['low']:+.4f} to {change['high']:+.4f})"
                )
    return "\n".join(lines)
