"""Shadow models on half a registry: seconds for a hundred, beside the dense reference trained one by one.

Ours is what an audit does: shadows on halves of the corpus, stacked as the device likes it, their logits on all its
documents kept in a store. On a GPU all of them are trained and timed. On a CPU a few are, and scaled to a hundred; an
epoch of one and a step of the dense reference (padded convolutions, PyTorch's Adam) on the same documents are timed
alternately and compared by documents a second: trained to the end, the dense reference would take a day.
"""

import argparse
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from _corpus import add_corpus, read_corpus
from _timing import alternate, peak_rss, rss
from pathveil.errors import UsageError
from pathveil.progress import Progress, silent


def add_options(parser: argparse.ArgumentParser) -> None:
    add_corpus(parser)
    parser.add_argument("--registry", help="take this registry of the corpus (default: all of it)")
    parser.add_argument("--models", type=int, default=100, help="shadow models (default 100)")
    parser.add_argument("--timed", type=int, default=2, help="how many of them are trained on a CPU (default 2)")
    parser.add_argument("--filters", type=int, default=300, help="filters a window (default 300)")
    parser.add_argument("--device", default="cpu", help="cpu or cuda (default cpu)")
    parser.add_argument("--stack", type=int, help="models at once (default: as the device likes it)")
    parser.add_argument("--threads", type=int, default=2, help="on a CPU (default 2); with 1, CPU seconds are compared")
    parser.add_argument("--rounds", type=int, default=3, help="rounds beside the dense reference (default 3)")


def corpus_of(options: argparse.Namespace):
    corpus = read_corpus(options)
    if options.registry:
        if options.registry not in corpus.registry_names:
            raise UsageError(f"--registry {options.registry}: there are {', '.join(corpus.registry_names)}")
        corpus = corpus.take(np.flatnonzero(corpus.registries == corpus.registry_names.index(options.registry)))
    return corpus


def run(options: argparse.Namespace, *, progress: Progress = silent) -> dict[str, Any]:
    from functools import partial

    import torch

    from pathveil.auditing.shadows import Store, jobs_of, train_here, train_missing
    from pathveil.training.settings import PRESETS
    from pathveil.training.stacked import train_many

    if options.device == "cpu":
        torch.set_num_threads(options.threads)
    clock = time.process_time if options.threads == 1 and options.device == "cpu" else time.perf_counter
    corpus = corpus_of(options)
    settings = PRESETS["paper"].changed(filters=options.filters)
    on_cpu = options.device == "cpu"
    count = options.timed if on_cpu else options.models
    jobs = jobs_of(corpus, np.arange(corpus.documents), count=count, seed=0)
    ours: list[float] = []
    memory: list[int] = []
    with TemporaryDirectory() as folder:
        # Short models first: kernels are compiled and memory is reserved outside the clock.
        train_all = partial(train_here, device=options.device, stack=options.stack)
        list(train_all(corpus, jobs[: min(count, 16)], settings.changed(epochs=1, patience=None), silent, ""))
        store = Store(Path(folder), corpus, settings, {"device": options.device})
        for part in [[job] for job in jobs] if on_cpu else [jobs]:
            start = clock()
            train_missing(corpus, part, settings, store=store, engine=train_all, progress=progress)
            ours.append(clock() - start)
            memory.append(rss())
        stored = sum(path.stat().st_size for path in Path(folder).rglob("*.npz"))
    result: dict[str, Any] = {
        "device": options.device,
        "threads": options.threads,
        "documents": corpus.documents,
        "reports_a_model": round(float(np.mean([len(job.rows) for job in jobs]))),
        "filters": options.filters,
        "models_trained": count,
        "seconds": sum(ours),
        "seconds_for_all": sum(ours) / count * options.models,
        "models": options.models,
        "store_bytes_a_model": stored // count,
        "peak_rss_bytes": peak_rss(),
        "rss_bytes": memory,
    }
    if on_cpu:
        short = settings.changed(epochs=1, patience=None, validation_share=0.0)
        dense = Dense(corpus, settings)
        things = {
            "ours": lambda: list(train_many(corpus, [jobs[0].rows], short, seeds=[0])),
            "dense": lambda: dense.step(jobs[0].rows),
        }
        dense.step(jobs[0].rows)
        how = {"rounds": options.rounds, "progress": progress, "clock": clock}
        seconds = alternate(things, stage="beside the dense reference", **how)
        result["documents_a_second"] = len(jobs[0].rows) / seconds["ours"]
        result["reference_documents_a_second"] = settings.batch_size / seconds["dense"]
        result["ratio"] = result["documents_a_second"] / result["reference_documents_a_second"]
    return result


class Dense:
    """A model of the same shape by dense convolutions, with PyTorch's Adam."""

    def __init__(self, corpus, settings):
        import torch

        from pathveil.model import MTCNN

        self.corpus, self.size, self.steps = corpus, settings.batch_size, 0
        self.model = MTCNN(
            vocabulary_size=corpus.vocabulary_size,
            classes={task: len(names) for task, names in corpus.classes.items()},
            dim=settings.dim,
            windows=settings.windows,
            filters=settings.filters,
            dropout=settings.dropout,
            kernel="reference",
        )
        self.optimiser = torch.optim.Adam(self.model.parameters(), lr=settings.learning_rate)

    def step(self, rows: np.ndarray) -> None:
        import torch

        from pathveil.model import TokenBatch
        from pathveil.training.losses import task_loss
        from pathveil.vocabulary.encoded import take_documents

        self.steps += 1
        chosen = np.random.default_rng(self.steps).choice(rows, self.size, replace=False)
        ids, offsets = take_documents(self.corpus.ids, self.corpus.offsets, chosen)
        labels = {
            task: torch.from_numpy(np.asarray(label)[chosen].astype(np.int64))
            for task, label in self.corpus.labels.items()
        }
        self.optimiser.zero_grad()
        task_loss(self.model(TokenBatch(ids=ids, offsets=offsets)), labels).backward()
        self.optimiser.step()


def describe(result: dict[str, Any]) -> str:
    lines = [
        f"{result['models']} shadow models of {result['reports_a_model']} reports, {result['filters']} filters, "
        f"on {result['device']}: {result['seconds_for_all']:.0f} s"
        + ("" if result["models_trained"] == result["models"] else f" (scaled from {result['models_trained']})"),
        f"kept: {result['store_bytes_a_model'] / 1e6:.2f} MB a model; memory at most "
        f"{result['peak_rss_bytes'] / 1e9:.2f} GB, after each part "
        + ", ".join(f"{size / 1e9:.2f}" for size in result["rss_bytes"])
        + " GB",
    ]
    if "ratio" in result:
        lines.append(
            f"documents a second in training: {result['documents_a_second']:.0f}, dense reference "
            f"{result['reference_documents_a_second']:.1f}: {result['ratio']:.1f}×"
        )
    return "\n".join(lines)
