"""What each defence leaves to the strongest attack, and what it costs in F1: many worlds of one corpus.

One model a world and a way of training, each attacked with the other worlds' models, which were trained with the same
defence (``auditing.worlds``). On one H200 a row takes seconds to a minute; on a CPU take few worlds and filters.
"""

import argparse
import re
import time
from pathlib import Path
from typing import Any

import numpy as np

from _corpus import add_corpus, read_corpus
from pathveil.errors import UsageError
from pathveil.progress import Progress, silent

CANARY_COLUMNS = ("canary_mislabelled_auc", "canary_duplicate_auc", "canary_one_task_auc")


def ways_to_train(names: list[str]) -> dict[str, Any]:
    """The settings of each row by name."""
    from pathveil.training.settings import PRESETS, TrainingSettings

    plain, release = TrainingSettings(), PRESETS["release"]
    known = {
        "none": plain,
        "default preset": PRESETS["default"],
        "default preset's network": PRESETS["default"].changed(members=1, linear=False),
        "paper preset": PRESETS["paper"],
        "word dropout .3": plain.changed(word_dropout=0.3),
        "word dropout .3, vectors": PRESETS["small"],
        "word dropout .5": plain.changed(word_dropout=0.5),
        "release": release,
        "release, 10 teachers": release.changed(defence={"kind": "teachers", "teachers": 10, "unseen": 1}),
        "release, all codes": release.changed(defence={"kind": "teachers", "contradicted": "any"}),
        "release, near-duplicates apart": release.changed(defence={"kind": "teachers", "near": 1.0}),
        "release, true labels": release.changed(defence=None),
    }
    for name in names:
        if name not in known:
            raise UsageError(f"there is no row '{name}'; there are {', '.join(known)}")
    return {name: known[name] for name in names or known}


def add_options(parser: argparse.ArgumentParser) -> None:
    add_corpus(parser)
    parser.add_argument("--worlds", type=int, default=20, help="models a row (default 20)")
    parser.add_argument("--canaries", type=int, default=75, help="of each kind, planted once each (default 75)")
    parser.add_argument("--rows", nargs="*", default=[], help="ways of training, by name (default all)")
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE", help="changes to every row's settings")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0], help="each draws other worlds (default 0)")
    parser.add_argument("--device", default="cpu", help="cpu or cuda (default cpu)")
    parser.add_argument("--answers", type=Path, help="keep each row's answers in this folder, and judge those there")
    parser.add_argument(
        "--train-only", action="store_true", help="keep answers, judge nothing: for a GPU by the minute"
    )


def run(options: argparse.Namespace, *, progress: Progress = silent) -> dict[str, Any]:
    from pathveil.auditing.worlds import CANARIES, answer_worlds, judge_worlds, make_worlds

    corpus = read_corpus(options)
    changes = dict(change.partition("=")[::2] for change in options.set)
    rows: list[dict[str, Any]] = []
    for seed in options.seeds:
        worlds = make_worlds(corpus, worlds=options.worlds, canaries=options.canaries, seed=seed)
        for name, preset in ways_to_train(options.rows).items():
            settings = preset.changed(**changes)
            began = time.perf_counter()
            path = options.answers and options.answers / f"{re.sub(r'[^a-z0-9.]+', '-', name.lower())}-{seed}.npz"
            if path and path.exists():
                with np.load(path) as content:
                    arrays = dict(content)
            else:
                arrays = answer_worlds(
                    worlds, settings, device=options.device, seed=seed, progress=progress, stage=name
                )
                if path:
                    path.parent.mkdir(parents=True, exist_ok=True)
                    np.savez_compressed(path, **arrays)
            trained = time.perf_counter() - began
            if options.train_only:
                rows.append({"name": name, "seed": seed, "seconds": round(trained, 1)})
                continue
            found = judge_worlds(worlds.learned(settings, seed=seed), arrays, name=name)
            kinds = dict(
                zip(("canary_mislabelled_auc", "canary_duplicate_auc", "canary_one_task_auc"), CANARIES, strict=True)
            )
            rmia = next(one for one in found.attacks if one.attack == "RMIA online")
            rows.append(
                {
                    "name": name,
                    "seed": seed,
                    "auc": found.auc.value,
                    "rmia_auc": rmia.auc.value,
                    "rare_auc": found.rare_auc.value,
                    "tpr_at_1": found.tpr_at_1.value,
                    **{column: found.canaries[kind].value for column, kind in kinds.items() if kind in found.canaries},
                    "micro": found.micro.value,
                    "macro": found.macro.value,
                    "seconds": round(trained, 1),
                    "row": found.to_dict(),
                }
            )
    return {"reports": corpus.documents, "worlds": options.worlds, "device": options.device, "rows": rows}


def describe(result: dict[str, Any]) -> str:
    lines = [f"{'':<32}{'AUC':>7}{'rare':>7}{'TPR 1 %':>9}{'mislab.':>9}{'twin':>7}{'micro':>8}{'macro':>7}"]
    for row in result["rows"]:
        if "auc" not in row:
            lines.append(f"{row['name']:<32}{row['seconds']:>9.1f} s")
            continue
        canaries = "".join(
            f"{row[name]:>{width}.3f}" if name in row else " " * width
            for name, width in (("canary_mislabelled_auc", 9), ("canary_duplicate_auc", 7))
        )
        lines.append(
            f"{row['name']:<32}{row['auc']:>7.3f}{row['rare_auc']:>7.3f}{row['tpr_at_1']:>9.3f}{canaries}"
            f"{row['micro']:>8.4f}{row['macro']:>7.4f}"
        )
    return "\n".join([*lines, "", "The strongest attack, figure by figure; F1 on unseen cases, mean of the tasks."])
