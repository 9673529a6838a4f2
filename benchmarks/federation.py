"""Adversarial training over sites in one process, beside centralized training on the same documents.

The shared/private network has two encoders, the centralized one has one: it is timed with as many filters as one
encoder has, and with as many as both have. A part of the corpus is dealt to its registries (or to as many sites as
wanted); every model sees the same documents as often, in steps of as many, validation included. With one thread, CPU
seconds are compared.
"""

import argparse
import time
from typing import Any

import numpy as np

from _corpus import add_corpus, read_corpus
from _timing import alternate
from pathveil.progress import Progress, silent


def add_options(parser: argparse.ArgumentParser) -> None:
    add_corpus(parser)
    parser.add_argument("--documents", type=int, default=3000, help="reports to take from it (default 3000)")
    parser.add_argument(
        "--sites", type=int, help="deal the reports to so many sites (default: the registries there are)"
    )
    parser.add_argument("--filters", type=int, default=100, help="filters a window in each encoder (default 100)")
    parser.add_argument("--epochs", type=int, default=1, help="passes over the reports in one measurement (default 1)")
    parser.add_argument("--device", default="cpu", help="cpu or cuda (default cpu)")
    parser.add_argument("--threads", type=int, default=1, help="on a CPU (default 1)")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each (default 3)")


def corpus_of(options: argparse.Namespace):
    corpus = read_corpus(options)
    rng = np.random.default_rng(0)
    corpus = corpus.take(rng.permutation(corpus.documents)[: options.documents])
    if options.sites:
        from dataclasses import replace

        names = tuple(f"S{number + 1}" for number in range(options.sites))
        corpus = replace(corpus, registries=np.arange(corpus.documents) % options.sites, registry_names=names)
    return corpus


def run(options: argparse.Namespace, *, progress: Progress = silent) -> dict[str, Any]:
    import torch

    from pathveil.federation.run import train_plain, train_shared_private
    from pathveil.federation.settings import FederationSettings

    device = torch.device(options.device)
    if device.type == "cpu":
        torch.set_num_threads(options.threads)
    corpus = corpus_of(options)
    registries = [int(number) for number in np.unique(corpus.registries)]
    given = {"epochs": options.epochs, "filters": options.filters}

    def finish() -> None:
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    def centralized(filters: int):
        config = FederationSettings(**given | {"filters": filters})
        train_plain(corpus, registries, mode="centralized", settings=config, seed=1, device=device, progress=silent)
        finish()

    def adversarial(every: int):
        config = FederationSettings(**given, private_every=every)
        train_shared_private(corpus, registries, settings=config, seed=1, device=device, progress=silent)
        finish()

    things = {
        "centralized": lambda: centralized(options.filters),
        "centralized_both": lambda: centralized(2 * options.filters),
        "adversarial": lambda: adversarial(1),
        "adversarial_gathered": lambda: adversarial(len(registries)),
    }
    for thing in things.values() if device.type == "cuda" else [things["centralized"]]:
        thing()  # kernels are compiled outside the clock
    clock = time.process_time if options.threads == 1 and device.type == "cpu" else time.perf_counter
    seconds = alternate(things, rounds=options.rounds, stage="training", progress=progress, clock=clock)
    return {
        "device": options.device,
        "threads": options.threads,
        "documents": corpus.documents,
        "sites": len(registries),
        "filters": options.filters,
        "epochs": options.epochs,
        "seconds": seconds,
        "ratios": {
            name: {
                "one_encoder": seconds[name] / seconds["centralized"],
                "both": seconds[name] / seconds["centralized_both"],
            }
            for name in ("adversarial", "adversarial_gathered")
        },
    }


def describe(result: dict[str, Any]) -> str:
    seconds, ratios = result["seconds"], result["ratios"]
    lines = [
        f"{result['documents']} reports at {result['sites']} sites, {result['filters']} filters a window, "
        f"{result['epochs']} epochs, {result['device']}, {result['threads']} threads: median seconds",
        f"centralized {seconds['centralized']:.2f}; with both encoders' filters {seconds['centralized_both']:.2f}",
    ]
    for name, text in (
        ("adversarial", "adversarial, private parts stepping with every batch"),
        ("adversarial_gathered", "adversarial, private parts gathering as many reports for a step"),
    ):
        lines.append(
            f"{text}: {seconds[name]:.2f}, {ratios[name]['both']:.2f}× the centralized model of as many filters, "
            f"{ratios[name]['one_encoder']:.2f}× the one of half as many"
        )
    return "\n".join(lines)
