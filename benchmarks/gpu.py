"""Training on a GPU: dense convolutions, one model and stacks of models, in documents a second.

All are timed alternately in one process on the same documents, forward, backward and optimiser together; medians. The
dense model is the peers' form (padded batches, cuDNN), eager in float32, in bfloat16, and compiled in bfloat16. Ours is
once the plain training step (PyTorch eager around the kernel), once with the whole step as a CUDA graph for one model,
and once for stacks of several. Documents are Zipf-distributed words, of full length or of log-normal lengths, or the
documents of an encoded corpus (``--encoded FOLDER``).
"""

import argparse
import statistics
from pathlib import Path
from typing import Any

import numpy as np

from pathveil.errors import UsageError
from pathveil.progress import Progress, silent

CLASSES = {"site": 70, "subsite": 326, "laterality": 7, "behavior": 4, "histology": 639}  # as many as in the papers


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--batch", type=int, default=128, help="documents a model in a step (default 128)")
    parser.add_argument("--words", type=int, default=1500, help="words of the longest document (default 1500)")
    parser.add_argument("--ragged", action="store_true", help="log-normal lengths, mean 600, instead of full length")
    parser.add_argument("--vocabulary", type=int, default=20_000, help="words in the vocabulary (default 20,000)")
    parser.add_argument("--filters", type=int, default=300, help="filters a window (default 300)")
    parser.add_argument("--stacks", type=int, nargs="+", default=[1, 8, 16], help="models at once (default 1 8 16)")
    parser.add_argument("--encoded", type=Path, help="a folder with an encoded corpus, instead of random documents")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of one run each (default 5)")
    parser.add_argument("--no-dense", action="store_true", help="leave the dense models out")
    parser.add_argument("--no-compile", action="store_true", help="leave the compiled dense model out")


def corpus_of(options: argparse.Namespace):
    from pathveil.vocabulary import EncodedCorpus

    if options.encoded:
        return EncodedCorpus.load(options.encoded)
    rng = np.random.default_rng(0)
    documents = 16 * options.batch
    lengths = np.full(documents, options.words)
    if options.ragged:
        lengths = np.clip(rng.lognormal(6.2, 0.6, documents).astype(int), 50, options.words)
    frequency = 1 / np.arange(1, options.vocabulary - 1)
    ids = rng.choice(options.vocabulary - 2, size=lengths.sum(), p=frequency / frequency.sum()).astype(np.int32) + 2
    return EncodedCorpus(
        ids=ids.astype(np.int32),
        offsets=np.concatenate([[0], np.cumsum(lengths)]),
        cases=np.arange(documents),
        registries=np.zeros(documents, np.int32),
        registry_names=("R1",),
        labels={task: rng.integers(0, number, documents) for task, number in CLASSES.items()},
        classes={task: tuple(map(str, range(number))) for task, number in CLASSES.items()},
        vocabulary_size=options.vocabulary,
    )


def run(options: argparse.Namespace, *, progress: Progress = silent) -> dict[str, Any]:
    import torch

    if not torch.cuda.is_available():
        raise UsageError("this benchmark needs a CUDA device; 'pathveil bench model' measures the CPU")
    from pathveil.training.settings import TrainingSettings

    corpus = corpus_of(options)
    settings = TrainingSettings(filters=options.filters, batch_size=options.batch, patience=None, validation_share=0)
    rng = np.random.default_rng(1)
    things: dict[str, tuple[int, Any]] = {}  # name: documents a run, and the run
    if not options.no_dense:
        kinds = ["dense, float32", "dense, bfloat16"] + ([] if options.no_compile else ["dense, bfloat16, compiled"])
        for kind in kinds:
            things[kind] = (4 * options.batch, dense_steps(corpus, settings, rng, kind=kind, steps=4))
    things["look-ups, plain steps"] = (8 * options.batch, plain_steps(corpus, settings, rng, steps=8))
    for slots in options.stacks:
        steps = max(4, 64 // slots)
        name = f"look-ups, graph, {slots} model{'s' * (slots > 1)}"
        things[name] = (steps * slots * options.batch, graphed_steps(corpus, settings, rng, slots=slots, steps=steps))
    seconds: dict[str, list[float]] = {name: [] for name in things}
    for number in range(options.rounds + 1):
        for place, (name, (_, thing)) in enumerate(things.items()):
            start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            torch.cuda.synchronize()
            start.record()
            thing()
            stop.record()
            torch.cuda.synchronize()
            if number:  # the first round compiles and captures
                seconds[name].append(start.elapsed_time(stop) / 1000)
            progress("training", number * len(things) + place + 1, (options.rounds + 1) * len(things))
    rates = {name: documents / statistics.median(seconds[name]) for name, (documents, _) in things.items()}
    return {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "batch": options.batch,
        "mean_words": float(corpus.lengths.mean()),
        "vocabulary": corpus.vocabulary_size,
        "filters": options.filters,
        "documents_per_second": rates,
        "memory_gb": torch.cuda.max_memory_allocated() / 1e9,
    }


def describe(result: dict[str, Any]) -> str:
    lines = [
        f"{result['device']}, PyTorch {result['torch']}: batch {result['batch']}, {result['mean_words']:.0f} words a "
        f"document, {result['vocabulary']:,} words, {result['filters']} filters a window",
        "",
        f"{'training, with the optimiser':<34}{'documents/s':>12}{'ratio':>8}",
    ]
    rates = result["documents_per_second"]
    first = next(iter(rates.values()))
    lines += [f"{name:<34}{rate:>12,.0f}{rate / first:>8.1f}" for name, rate in rates.items()]
    return "\n".join(lines)


def batches(corpus: Any, size: int, steps: int, rng: np.random.Generator) -> list[np.ndarray]:
    return [rng.permutation(corpus.documents)[:size] for _ in range(steps)]


def dense_steps(corpus: Any, settings: Any, rng: np.random.Generator, *, kind: str, steps: int) -> Any:
    """The peers' network: padded batches, dense convolutions, PyTorch's fused Adam."""
    import torch
    from torch import nn

    class Dense(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(corpus.vocabulary_size, settings.dim, padding_idx=0)
            self.convolutions = nn.ModuleList(
                nn.Conv1d(settings.dim, settings.filters, window) for window in settings.windows
            )
            self.dropout = nn.Dropout(settings.dropout)
            width = len(settings.windows) * settings.filters
            self.heads = nn.ModuleDict({task: nn.Linear(width, len(names)) for task, names in corpus.classes.items()})

        def forward(self, words):
            vectors = self.embedding(words).transpose(1, 2)
            features = self.dropout(torch.cat([torch.relu(c(vectors)).amax(2) for c in self.convolutions], 1))
            return [head(features) for head in self.heads.values()]

    model = Dense().cuda()
    if "compiled" in kind:
        model = torch.compile(model)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    longest = int(corpus.lengths.max())
    inputs = []
    for rows in batches(corpus, settings.batch_size, steps, rng):
        words = torch.zeros(len(rows), longest, dtype=torch.long)
        for place, row in enumerate(rows):
            document = np.asarray(corpus.ids[corpus.offsets[row] : corpus.offsets[row + 1]])
            words[place, : len(document)] = torch.from_numpy(document.astype(np.int64))
        labels = [torch.from_numpy(np.asarray(label)[rows].astype(np.int64)).cuda() for label in corpus.labels.values()]
        inputs.append((words.cuda(), labels))

    def thing() -> None:
        for words, labels in inputs:
            optimiser.zero_grad(set_to_none=True)
            with torch.autocast("cuda", torch.bfloat16, enabled="bfloat16" in kind):
                logits = model(words)
            losses = [
                nn.functional.cross_entropy(scores.float(), label, ignore_index=-1)
                for scores, label in zip(logits, labels, strict=True)
            ]
            torch.stack(losses).mean().backward()
            optimiser.step()

    return thing


def plain_steps(corpus: Any, settings: Any, rng: np.random.Generator, *, steps: int) -> Any:
    """Our kernel with PyTorch around it, launched step by step."""
    import torch

    from pathveil.model import MTCNN, TokenBatch
    from pathveil.training.losses import task_loss
    from pathveil.training.stacked import shape_of
    from pathveil.vocabulary.encoded import take_documents

    model = MTCNN(**shape_of(corpus, settings), seed=0).cuda()
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    inputs = []
    for rows in batches(corpus, settings.batch_size, steps, rng):
        ids, offsets = take_documents(corpus.ids, corpus.offsets, rows)
        labels = {t: torch.from_numpy(np.asarray(a)[rows].astype(np.int64)).cuda() for t, a in corpus.labels.items()}
        inputs.append((TokenBatch(ids=ids, offsets=offsets).to("cuda"), torch.from_numpy(rows).cuda(), labels))

    def thing() -> None:
        for batch, noise, labels in inputs:
            optimiser.zero_grad(set_to_none=True)
            with torch.autocast("cuda", torch.bfloat16):
                logits = model(batch, noise=noise)
            task_loss(logits, labels).backward()
            optimiser.step()

    return thing


def graphed_steps(corpus: Any, settings: Any, rng: np.random.Generator, *, slots: int, steps: int) -> Any:
    """A stack of models, as ``train_many`` trains it."""
    import torch

    from pathveil.training.graphed import GraphedStack
    from pathveil.training.stacked import Trainee, starting_weights

    stack = GraphedStack(corpus, settings, slots=slots, device=torch.device("cuda"))
    for slot in range(slots):
        trainee = Trainee(slot, np.arange(corpus.documents), corpus, settings, seed=slot)
        stack.reset(slot, trainee, starting_weights(corpus, settings, slot, None), None)
    size = settings.batch_size
    rows = np.stack([np.stack(batches(corpus, size, slots, rng)) for _ in range(steps)])  # (steps, slots, batch)

    def thing() -> None:
        stack.learn(rows, rows, rows)

    return thing
