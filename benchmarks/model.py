"""The multitask CNN on a CPU: training and inference beside the dense form, in documents a second.

The dense model is the peers' (the shape of FrESCO's MTCNN: every report padded to 1500 words, three convolutions, one
linear head a task, PyTorch's Adam). Ours is timed with the same Adam and dense gradients, and with the lazy Adam that
``pathveil train`` uses; for inference, with its table of look-ups made for every batch and made once. A training step
is forward, backward and optimiser. Documents are Zipf-distributed words of full length and of log-normal lengths (mean
600), and reports of a corpus where one is given. Everything is timed alternately in one process; medians. With
``--threads 1`` CPU seconds are compared, so that a busy machine does no harm.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from _timing import alternate, peak_rss, rss
from pathveil.progress import Progress, silent

CLASSES = {"site": 70, "subsite": 326, "laterality": 7, "behavior": 4, "histology": 639}  # as many as in the papers
FIRST_WORD = 2  # 0 is padding, 1 a word outside the vocabulary
REPEAT = 3  # our steps for one dense step: they are short, and a hiccup weighs more


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--corpus", type=Path, help="a Parquet corpus, to draw a batch of real reports from")
    parser.add_argument("--batch", type=int, default=64, help="documents in a batch (default 64)")
    parser.add_argument("--words", type=int, default=1500, help="words a report is cut and padded to (default 1500)")
    parser.add_argument("--vocabulary", type=int, default=20_000, help="words in the vocabulary (default 20,000)")
    parser.add_argument("--filters", type=int, default=300, help="filters a window (default 300)")
    parser.add_argument("--threads", type=int, default=2, help="threads for either (default 2)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of one run each (default 3)")
    parser.add_argument("--only", choices=["full", "ragged", "real"], help="one kind of document instead of all")
    parser.add_argument("--profile", action="store_true", help="only say where the time of our step goes")


def run(options: argparse.Namespace, *, progress: Progress = silent) -> dict[str, Any]:
    import torch

    torch.set_num_threads(options.threads)
    clock = time.process_time if options.threads == 1 else time.perf_counter
    kinds = {"full": "Zipf, full length", "ragged": "Zipf, log-normal lengths"}
    kinds |= {"real": "reports of the corpus"} if options.corpus else {}
    rows, profiles = [], {}
    for kind, name in kinds.items():
        if options.only not in (None, kind):
            continue
        work = Workload(kind, options)
        if options.profile:
            profiles[name] = work.profile()
            continue
        how = {"rounds": options.rounds, "progress": progress, "clock": clock}
        training = alternate(work.training(), stage=f"{name}: training", **how)
        inference = alternate(work.inference(), stage=f"{name}: inference", **how)
        memory = work.memory()
        rows.append({"documents": name, **work.size(), **figures(training, inference, options.batch), **memory})
    shape = {key: getattr(options, key) for key in ("batch", "words", "vocabulary", "filters", "threads", "rounds")}
    return {"shape": shape, "profiles": profiles} if options.profile else {"shape": shape, "rows": rows}


def figures(training: dict[str, float], inference: dict[str, float], batch: int) -> dict[str, Any]:
    """Documents a second of each, and how many times faster than the dense form."""
    result = {}
    for stage, seconds in (("training", training), ("inference", inference)):
        steps = {name: value / (1 if name == "dense" else REPEAT) for name, value in seconds.items()}
        result[stage] = {
            name: {"documents_per_second": round(batch / value, 1), "ratio": round(steps["dense"] / value, 1)}
            for name, value in steps.items()
        }
    return result


def describe(result: dict[str, Any]) -> str:
    shape = result["shape"]
    lines = [
        f"batch {shape['batch']}, {shape['words']} words, vocabulary {shape['vocabulary']:,}, "
        f"{shape['filters']} filters a window, {shape['threads']} threads; medians of {shape['rounds']} rounds"
    ]
    for name, parts in result.get("profiles", {}).items():
        lines.append(f"\n{name}: milliseconds of a step")
        lines += [f"  {part:<34} {milliseconds:8.1f}" for part, milliseconds in parts.items()]
    for row in result.get("rows", []):
        lines.append(f"\n{row['documents']}: {row['tokens']:,} words, {row['distinct']:,} distinct")
        for stage in ("training", "inference"):
            for name, value in row[stage].items():
                lines.append(
                    f"  {stage:<10} {name:<26} {value['documents_per_second']:>9} documents/s {value['ratio']:>7} ×"
                )
        lines.append(f"  memory of our step beyond the parameters {row['step_megabytes']:,} MB")
    return "\n".join(lines)


class Workload:
    """One batch of documents, and the models that read it."""

    def __init__(self, kind: str, options: argparse.Namespace):
        import torch

        from pathveil.model import MTCNN, Tabulated, TokenBatch
        from pathveil.training.optimisers import Adam

        ids, offsets = documents(kind, options)
        rng = np.random.default_rng(1)
        self.labels = {t: torch.from_numpy(rng.integers(0, n, options.batch)) for t, n in CLASSES.items()}
        self.batch = TokenBatch(ids=ids, offsets=offsets)
        self.words = torch.from_numpy(np.unique(ids).astype(np.int64))
        self.padded = torch.zeros(options.batch, options.words, dtype=torch.long)
        for number, (start, end) in enumerate(pairwise(offsets)):
            self.padded[number, : end - start] = torch.from_numpy(ids[start:end].astype(np.int64))
        shape = {"vocabulary_size": options.vocabulary, "classes": CLASSES, "filters": options.filters, "seed": 0}
        self.dense = dense_model(options.vocabulary, options.filters)
        self.dense_adam = torch.optim.Adam(self.dense.parameters(), 1e-3)
        self.plain = MTCNN(**shape)
        self.plain_adam = torch.optim.Adam(self.plain.parameters(), 1e-3)
        self.lazy = MTCNN(**shape, sparse=True)
        name = "embedding.weight"
        self.lazy_adam = Adam(dict(self.lazy.named_parameters()), lazy=(name,), learning_rate=1e-3)
        self.table = Tabulated(self.plain)

    def size(self) -> dict[str, int]:
        return {"tokens": len(self.batch.ids), "distinct": len(self.words)}

    def loss(self, logits: dict[str, Any]) -> Any:
        import torch

        return sum(torch.nn.functional.cross_entropy(logits[task], self.labels[task]) for task in CLASSES)

    def dense_step(self) -> None:
        self.dense_adam.zero_grad(set_to_none=True)
        self.loss(self.dense(self.padded)).backward()
        self.dense_adam.step()

    def plain_step(self) -> None:
        self.plain_adam.zero_grad(set_to_none=True)
        self.loss(self.plain(self.batch)).backward()
        self.plain_adam.step()

    def lazy_step(self) -> None:
        self.lazy_adam.touch(self.words)
        self.loss(self.lazy(self.batch)).backward()
        self.lazy_adam.step()

    def training(self) -> dict[str, Callable[[], object]]:
        for model in (self.dense, self.plain, self.lazy):
            model.train()
        for step in (self.plain_step, self.lazy_step, self.dense_step):  # compile, and touch all memory once
            step()
        return {
            "dense": self.dense_step,
            "ours, PyTorch's Adam": times(self.plain_step),
            "ours, lazy Adam": times(self.lazy_step),
        }

    def inference(self) -> dict[str, Callable[[], object]]:
        import torch

        for model in (self.dense, self.plain):
            model.eval()
        dense, ours = torch.no_grad()(lambda: self.dense(self.padded)), torch.no_grad()(lambda: self.plain(self.batch))
        looked_up = torch.no_grad()(lambda: self.table(self.batch))
        for warm in (dense, ours, looked_up):
            warm()
        return {"dense": dense, "ours": times(ours), "ours, table made once": times(looked_up)}

    def memory(self) -> dict[str, int]:
        """The most that a training step of ours, its optimiser's running means included, holds beyond the parameters:
        the first step of a process that has compiled everything on another batch (Linux)."""
        code = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import model; model.first_step()"
        arrays = {"ids": self.batch.ids.tolist(), "offsets": self.batch.offsets.tolist()}
        given = json.dumps({**arrays, "vocabulary": self.plain.vocabulary_size, "filters": self.plain.filters})
        done = subprocess.run([sys.executable, "-c", code], input=given, capture_output=True, text=True, check=True)
        return {"step_megabytes": int(done.stdout)}

    def profile(self) -> dict[str, float]:
        """Median milliseconds of the parts of a lazy step, each part's wall time."""
        import torch

        from pathveil.model.kernels import cpu

        self.lazy.train()
        parts: dict[str, list[float]] = {}

        def timed(name: str, function: Callable) -> Callable:
            def call(*arguments: Any, **options: Any) -> Any:
                start = time.perf_counter()
                result = function(*arguments, **options)
                parts.setdefault(name, []).append((time.perf_counter() - start) * 1e3)
                return result

            return call

        whole = timed("whole step", self.lazy_step)
        kept = cpu.forward, cpu.backward
        cpu.forward, cpu.backward = timed("encoder, forward", kept[0]), timed("encoder, backward", kept[1])
        self.lazy_adam.step = timed("optimiser", self.lazy_adam.step)
        vectors = torch.randn(len(self.words), self.lazy.dim)
        filters = self.lazy.convolution.weight.detach().flatten(0, 1)
        product = timed("(the matrix product alone)", lambda: torch.mm(vectors, filters.T))
        try:
            for _ in range(12):
                whole()
                product()
        finally:
            cpu.forward, cpu.backward = kept
        return {name: round(float(np.median(values[2:])), 1) for name, values in parts.items()}


def first_step() -> None:
    """Print the memory, in megabytes, that the first step on the batch given on standard input takes."""
    import torch

    from pathveil.model import MTCNN, TokenBatch

    torch.set_num_threads(2)
    given = json.load(sys.stdin)
    batch = TokenBatch(ids=np.array(given["ids"], np.int32), offsets=given["offsets"])
    model = MTCNN(vocabulary_size=given["vocabulary"], filters=given["filters"], classes=CLASSES)
    adam = torch.optim.Adam(model.parameters())
    sum(logits.sum() for logits in model(TokenBatch.of([[1, 2, 3, 4, 5, 6]])).values()).backward()
    adam.zero_grad(set_to_none=True)
    before = rss()
    Path("/proc/self/clear_refs").write_text("5")  # forget the highest mark
    sum(logits.square().sum() for logits in model(batch).values()).backward()
    adam.step()
    print(round((peak_rss() - before) / 1e6))


def times(step: Callable[[], object]) -> Callable[[], None]:
    def several() -> None:
        for _ in range(REPEAT):
            step()

    return several


def documents(kind: str, options: argparse.Namespace) -> tuple[np.ndarray, np.ndarray]:
    """A batch of word ids and offsets."""
    rng = np.random.default_rng(0)
    if kind == "real":
        return reports(options, rng)
    lengths = np.full(options.batch, options.words)
    if kind == "ragged":
        lengths = np.clip(rng.lognormal(np.log(600) - 0.18, 0.6, options.batch).astype(int), 50, options.words)
    chance = 1 / np.arange(1, options.vocabulary - FIRST_WORD + 1) ** 1.1
    ids = rng.choice(len(chance), size=lengths.sum(), p=chance / chance.sum()) + FIRST_WORD
    return ids.astype(np.int32), np.concatenate([[0], np.cumsum(lengths)])


def reports(options: argparse.Namespace, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Reports drawn from the corpus, in its own most frequent words."""
    import polars

    from pathveil.text.bulk import BulkTokenizer, Numbers
    from pathveil.vocabulary.encoded import take_documents

    texts = polars.read_parquet(options.corpus, columns=["text"])["text"].to_list()
    ids, offsets = BulkTokenizer(Numbers().__getitem__, words=options.words).add(texts)
    ranks = np.empty(ids.max() + 1, np.int64)
    ranks[np.argsort(-np.bincount(ids), kind="stable")] = np.arange(len(ranks)) + FIRST_WORD
    known = np.where(ranks[ids] < options.vocabulary, ranks[ids], 1).astype(np.int32)
    return take_documents(known, offsets, rng.choice(len(texts), options.batch, replace=False))


def dense_model(vocabulary: int, filters: int) -> Any:
    import torch
    from torch import nn

    class Dense(nn.Module):
        """What the peers compute: padding is convolved, and not masked before the maximum."""

        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(vocabulary, 300, padding_idx=0)
            self.convolutions = nn.ModuleList(nn.Conv1d(300, filters, window) for window in (3, 4, 5))
            self.dropout = nn.Dropout(0.5)
            self.heads = nn.ModuleDict({task: nn.Linear(3 * filters, number) for task, number in CLASSES.items()})

        def forward(self, padded: torch.Tensor) -> dict[str, torch.Tensor]:
            words = self.embedding(padded).transpose(1, 2)  # (B, L, D) -> (B, D, L)
            pooled = [torch.relu(convolution(words)).amax(2) for convolution in self.convolutions]  # (B, F) each
            features = self.dropout(torch.cat(pooled, 1))
            return {task: head(features) for task, head in self.heads.items()}

    torch.manual_seed(0)
    return Dense()
