"""Many models on a CPU: trained in a stack, beside one after another.

Every model has its own half of the documents, Zipf-distributed words of log-normal lengths (mean 600). ``fit`` trains
them one by one; ``train_many`` in stacks of one (its default on a CPU) and of all at once. Timed alternately in one
process; medians. For a GPU see ``pathveil bench gpu``.
"""

import argparse
import time
from typing import Any

import numpy as np

from _timing import alternate
from pathveil.progress import Progress, silent


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--models", type=int, default=4, help="how many models (default 4)")
    parser.add_argument("--documents", type=int, default=256, help="documents in all (default 256)")
    parser.add_argument("--vocabulary", type=int, default=10_000, help="words in the vocabulary (default 10,000)")
    parser.add_argument("--filters", type=int, default=100, help="filters a window (default 100)")
    parser.add_argument("--epochs", type=int, default=2, help="epochs of each model (default 2)")
    parser.add_argument("--cpu-time", action="store_true", help="time of the cores, not of the clock (busy machines)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of one run each (default 5)")


def run(options: argparse.Namespace, *, progress: Progress = silent) -> dict[str, Any]:
    from pathveil.training.loop import fit
    from pathveil.training.settings import TrainingSettings
    from pathveil.training.stacked import train_many
    from pathveil.vocabulary import EncodedCorpus

    rng = np.random.default_rng(0)
    lengths = np.clip(rng.lognormal(6.2, 0.6, options.documents).astype(int), 50, 1500)
    frequency = 1 / np.arange(1, options.vocabulary - 1)
    ids = rng.choice(options.vocabulary - 2, size=lengths.sum(), p=frequency / frequency.sum()).astype(np.int32) + 2
    classes = {"site": 45, "subsite": 120, "laterality": 6, "behavior": 3, "histology": 110}
    corpus = EncodedCorpus(
        ids=ids.astype(np.int32),
        offsets=np.concatenate([[0], np.cumsum(lengths)]),
        cases=np.arange(options.documents),
        registries=np.zeros(options.documents, np.int32),
        registry_names=("R1",),
        labels={task: rng.integers(0, number, options.documents) for task, number in classes.items()},
        classes={task: tuple(map(str, range(number))) for task, number in classes.items()},
        vocabulary_size=options.vocabulary,
    )
    settings = TrainingSettings(filters=options.filters, epochs=options.epochs, patience=None, validation_share=0.1)
    seeds = list(range(options.models))
    members = [np.sort(rng.permutation(options.documents)[: options.documents // 2]) for _ in seeds]

    def one_by_one() -> None:
        for rows, seed in zip(members, seeds, strict=True):
            fit(corpus.take(rows), settings, seed=seed)

    things = {"fit, one after another": one_by_one}
    for stack in (1, options.models):
        things[f"train_many, {stack} at once"] = lambda stack=stack: list(
            train_many(corpus, members, settings, seeds=seeds, stack=stack)
        )
    one_by_one()  # compiles what is compiled at first use
    clock = time.process_time if options.cpu_time else time.perf_counter
    seconds = alternate(things, rounds=options.rounds, stage="training", progress=progress, clock=clock)
    return {"models": options.models, "documents": options.documents // 2, "seconds": seconds}


def describe(result: dict[str, Any]) -> str:
    first = next(iter(result["seconds"].values()))
    lines = [f"{result['models']} models of {result['documents']} documents each", ""]
    lines += [f"{name:<28}{value:>8.2f} s   ratio {first / value:.2f}" for name, value in result["seconds"].items()]
    return "\n".join(lines)
