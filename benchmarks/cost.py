"""What the papers' full vocabulary study costs on this device, checked by runs at 1/100, 1/30 and 1/10 of its size.

A corpus of the study's size is drawn from a given one (documents with replacement, registries alike, each drawing
a case of its own), with as many words as the paper's baseline has. At each scale one target and some shadows are really
trained for a few epochs and read every document; the time is held against what `study run --plan` foresees from
a calibration on a few batches. The whole study follows from the same arithmetic: folds × vocabularies × (a target and
its shadows). Attacks are left out: they need no training and little time.
"""

import argparse
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pathveil.errors import UsageError
from pathveil.progress import Progress, silent

PAPER_WORDS = 58_332  # of the baseline vocabulary, on average


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("corpus", type=Path, help="a corpus, or a folder made by 'pathveil study encode'")
    parser.add_argument("--study", type=Path, default=Path("studies/vocabulary-paper.toml"), help="a study file")
    parser.add_argument("--scales", default="100,30,10", help="divisors of its size to check at (default 100,30,10)")
    parser.add_argument("--models", type=int, default=16, help="shadows really trained at each (default 16)")
    parser.add_argument("--epochs", type=int, default=2, help="epochs of each (default 2)")
    parser.add_argument("--words", type=int, default=PAPER_WORDS, help=f"of the vocabulary (default {PAPER_WORDS})")
    parser.add_argument("--device", default="cpu", help="cpu or cuda (default cpu)")


def run(options: argparse.Namespace, *, progress: Progress = silent) -> dict[str, Any]:
    from pathveil.studies.study_corpus import read_study_corpus, relabelled, table_of
    from pathveil.studies.study_file import read
    from pathveil.training import speed as speeds
    from pathveil.vocabulary.folds import PAPER_SIZES
    from pathveil.vocabulary.words import FIRST_WORD

    settings = read(options.study)
    study, reports, registries = settings.vocabulary, settings.corpus.reports, settings.corpus.registries
    if study is None or reports is None:
        raise UsageError(f"{options.study}: needs a [vocabulary] section and 'reports' in [corpus]")
    training = study.of_models
    _, corpus = read_study_corpus(options.corpus, tasks=study.tasks)
    often = np.argsort(-np.bincount(np.asarray(corpus.ids), minlength=corpus.vocabulary_size), kind="stable")
    kept = np.sort(often[: options.words])
    corpus = relabelled(corpus, table_of(kept, corpus.vocabulary_size), FIRST_WORD + len(kept))

    stack = speeds.STACK[options.device.split(":")[0]]
    few = drawn(corpus, training.batch_size * speeds.BATCHES[options.device.split(":")[0]], registries)
    progress("calibrating", 0, 2)
    one = speeds.model_speed(few, training, models=1, device=options.device)
    progress("calibrating", 1, 2)
    many = speeds.model_speed(few, training, models=stack, device=options.device) if stack > 1 else one
    progress("calibrating", 2, 2)

    rows = []
    scales = [int(scale) for scale in options.scales.split(",")]
    for done, scale in enumerate(scales):
        progress("scaled runs", done, len(scales))
        size = max(reports // scale, registries * 20)
        part = drawn(corpus, size, registries)
        target, halves = parts_of(part, options.models, test=study.test_share)
        row: dict[str, Any] = {"scale": scale, "reports": size}
        for name, members, speed in (("target", [target], one), ("shadows", halves, many)):
            documents = sum(map(len, members)) * options.epochs
            models, reads = len(members), len(members) * part.documents
            began = time.perf_counter()
            kind = {"epochs": options.epochs, "reads": part.documents, "device": options.device}
            speeds.train_models(part, members, training, **kind)
            seconds = time.perf_counter() - began
            expected = speed.seconds(models=models, documents=documents, reads=reads)
            row[name] = {"seconds": seconds, "expected": expected, "ratio": seconds / expected}
        rows.append(row)
    progress("scaled runs", len(scales), len(scales))

    epochs = training.epochs if training.patience is None else min(training.epochs, speeds.ASSUMED)
    folds = len(study.folds or range(registries))
    vocabularies = len(study.strategies or range(registries - 1 + len(PAPER_SIZES)))
    targets = folds * vocabularies
    work = {
        "target": (one, targets, reports * (1 - 1 / registries) * (1 - study.test_share)),
        "shadows": (many, targets * study.shadows, reports / registries / 2),
    }
    whole_study: dict[str, Any] = {"epochs": epochs}
    for name, (speed, models, documents) in work.items():
        seconds = speed.seconds(models=models, documents=models * documents * epochs, reads=models * float(reports))
        largest = rows[-1][name]["ratio"] if rows else 1.0
        whole_study[name] = {
            "models": models,
            "documents": round(models * documents * epochs),
            "hours": seconds / 3600,
            "hours_as_at_the_largest_scale": seconds / 3600 * largest,
        }
    about = {"study": settings.name, "reports": reports, "words": len(kept), "device": options.device}
    speeds = {"one model": vars(one), "stacked models": vars(many)}
    return about | {"speeds": speeds, "scaled": rows, "whole": whole_study}


def drawn(corpus: Any, documents: int, registries: int) -> Any:
    """So many documents, with replacement, dealt to registries."""
    rng = np.random.default_rng(documents)
    part = corpus.take(rng.integers(0, corpus.documents, documents))
    names = tuple(f"R{number + 1}" for number in range(registries))
    dealt = (np.arange(documents) % registries).astype(np.int32)
    return replace(part, cases=np.arange(documents), registries=dealt, registry_names=names)


def parts_of(corpus: Any, shadows: int, *, test: float) -> tuple[np.ndarray, list[np.ndarray]]:
    """A target's documents (of all registries but the first) and halves of the first's."""
    rng = np.random.default_rng(1)
    others, own = np.flatnonzero(corpus.registries > 0), np.flatnonzero(corpus.registries == 0)
    target = np.sort(rng.permutation(others)[: round(len(others) * (1 - test))])
    return target, [np.sort(rng.permutation(own)[: max(len(own) // 2, 2)]) for _ in range(shadows)]


def describe(result: dict[str, Any]) -> str:
    lines = [f"{'scale':>8}{'reports':>12}   target: run / plan      shadows: run / plan"]
    for row in result["scaled"]:
        cells = []
        for name in ("target", "shadows"):
            one = row[name]
            cells.append(f"{one['seconds']:.1f} / {one['expected']:.1f} s (×{one['ratio']:.2f})")
        lines.append(f"{'1/' + str(row['scale']):>8}{row['reports']:>12,}   {cells[0]:<24}{cells[1]:<24}")
    whole = result["whole"]
    hours = sum(whole[name]["hours"] for name in ("target", "shadows"))
    checked = sum(whole[name]["hours_as_at_the_largest_scale"] for name in ("target", "shadows"))
    lines += [
        "",
        f"The whole study, {result['reports']:,} reports, {result['words']:,} words, {whole['epochs']} epochs a model: "
        f"{whole['target']['models']} targets and {whole['shadows']['models']:,} shadows learn from "
        f"{(whole['target']['documents'] + whole['shadows']['documents']) / 1e9:.1f} billion reports.",
        f"On this device ({result['device']}): {hours:,.0f} hours by the plan, {checked:,.0f} as the last run went.",
    ]
    return "\n".join(lines)
