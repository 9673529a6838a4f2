"""A step of differentially private training beside opacus on the dense model, in documents a second.

Both train the same network (windows of 3, 4 and 5 words, 300 dimensions, five tasks) on the same batch, one report a
case: forward, the norm of each case's gradient, clipping, backward, noise on every parameter, Adam. opacus runs the
dense form, every report padded to the longest, in the two ways it has: a gradient for every report (``per-sample``),
and two backward passes with norms worked out on the way where it can, for embedding and heads (``ghost``). Ours is what
``pathveil train --defence dp`` runs. Before anything is timed, the clipped gradients of all three are compared. Reports
are Zipf-distributed words of log-normal lengths (mean 600, at most ``--words``). Timed alternately in one process;
medians; with one thread CPU seconds, so that a busy machine does no harm.
"""

import argparse
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from _timing import alternate
from pathveil.errors import MissingExtraError
from pathveil.progress import Progress, silent

CLASSES = {"site": 70, "subsite": 326, "laterality": 7, "behavior": 4, "histology": 639}  # as many as in the papers
FIRST_WORD, DIM, WINDOWS = 2, 300, (3, 4, 5)
CLIP, NOISE = 1.0, 1.0
OURS, PEERS = "ours", ("opacus, per-sample", "opacus, ghost")


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--batch", type=int, default=32, help="reports in a batch (default 32)")
    parser.add_argument("--words", type=int, default=1500, help="words a report has at most (default 1500)")
    parser.add_argument("--vocabulary", type=int, default=10_000, help="words in the vocabulary (default 10,000)")
    parser.add_argument("--filters", type=int, default=100, help="filters a window (default 100)")
    parser.add_argument("--threads", type=int, default=1, help="threads for either (default 1)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of one step each (default 5)")
    parser.add_argument("--device", default="cpu", help="cpu or cuda (default cpu)")


def run(options: argparse.Namespace, *, progress: Progress = silent) -> dict[str, Any]:
    import torch

    try:
        import opacus
    except ImportError:
        raise MissingExtraError(package="opacus", extra="dp", purpose="pathveil bench dp") from None
    torch.set_num_threads(options.threads)
    work = Workload(options)
    agreement = work.agreement()
    steps = {OURS: work.ours, **{name: work.peer(name, noise=NOISE) for name in PEERS}}
    for step in steps.values():
        step()
    clock = time.process_time if options.threads == 1 and options.device == "cpu" else time.perf_counter
    seconds = alternate(
        {name: work.waited_for(step) for name, step in steps.items()},
        rounds=options.rounds, stage="steps", progress=progress, clock=clock,
    )  # fmt: skip
    return {
        "setting": {name: getattr(options, name) for name in ("batch", "words", "vocabulary", "filters", "threads")}
        | {"device": options.device, "rounds": options.rounds, "tokens": work.tokens, "opacus": opacus.__version__},
        "largest_difference": agreement,
        "rows": [
            {
                "step": name,
                "milliseconds": round(1e3 * value, 1),
                "documents_per_second": round(options.batch / value, 1),
                "ours_is_faster": round(value / seconds[OURS], 1),
            }
            for name, value in seconds.items()
        ],
    }


def describe(result: dict[str, Any]) -> str:
    setting = result["setting"]
    lines = [
        f"batch {setting['batch']}, at most {setting['words']} words ({setting['tokens']:,} in all), vocabulary "
        f"{setting['vocabulary']:,}, {setting['filters']} filters a window, {setting['device']}, "
        f"threads {setting['threads']}, opacus {setting['opacus']}; medians of {setting['rounds']} rounds",
        "largest difference of the clipped gradients from ours, as a share of their norm: "
        + ", ".join(f"{name} {value:.1e}" for name, value in result["largest_difference"].items()),
    ]
    for row in result["rows"]:
        lines.append(
            f"  {row['step']:<20} {row['milliseconds']:>10} ms {row['documents_per_second']:>9} documents/s"
            f"   ours is {row['ours_is_faster']} × as fast"
        )
    return "\n".join(lines)


class Workload:
    """One batch, our machine and opacus's models, all with the same weights."""

    def __init__(self, options: argparse.Namespace):
        import torch

        from pathveil.training.defences import DPSettings
        from pathveil.training.dp import PrivateStack, Trainee
        from pathveil.training.settings import TrainingSettings
        from pathveil.vocabulary.encoded import EncodedCorpus

        rng = np.random.default_rng(0)
        lengths = np.clip(rng.lognormal(np.log(600) - 0.18, 0.6, options.batch).astype(int), 50, options.words)
        chance = 1 / np.arange(1, options.vocabulary - FIRST_WORD + 1) ** 1.1
        ids = rng.choice(len(chance), size=lengths.sum(), p=chance / chance.sum()) + FIRST_WORD
        self.options, self.tokens, self.device = options, len(ids), torch.device(options.device)
        corpus = EncodedCorpus(
            ids=ids.astype(np.int32),
            offsets=np.concatenate([[0], np.cumsum(lengths)]),
            cases=np.arange(options.batch),
            registries=np.zeros(options.batch, np.int32),
            registry_names=("R1",),
            labels={task: rng.integers(0, number, options.batch) for task, number in CLASSES.items()},
            classes={task: tuple(map(str, range(number))) for task, number in CLASSES.items()},
            vocabulary_size=options.vocabulary,
        )
        self.settings = TrainingSettings(
            dim=DIM, windows=WINDOWS, filters=options.filters, dropout=0, patience=None, batch_size=options.batch,
            defence=DPSettings(noise=NOISE, clip=CLIP, delta=1e-5),
        )  # fmt: skip
        self.trainee = Trainee(0, np.arange(options.batch), corpus, self.settings, seed=0, held_out=np.arange(0))
        self.machine = PrivateStack(corpus, self.settings, [self.trainee], vectors=None, device=self.device)
        self.start = self.machine.weights_of(0)
        longest = int(lengths.max())
        padded = torch.zeros(options.batch, longest, dtype=torch.long)
        for number, (first, last) in enumerate(pairwise(corpus.offsets)):
            padded[number, : last - first] = torch.from_numpy(ids[first:last])
        self.padded, self.lengths = padded.to(self.device), torch.from_numpy(lengths).to(self.device)
        self.labels = {task: torch.from_numpy(label).to(self.device) for task, label in corpus.labels.items()}

    def ours(self) -> None:
        self.machine.learn()

    def waited_for(self, step: Callable[[], object]) -> Callable[[], None]:
        """The step, and on a GPU all that it set going."""
        import torch

        def whole() -> None:
            step()
            if self.device.type == "cuda":
                torch.cuda.synchronize()

        return whole

    def peer(self, name: str, *, noise: float) -> Callable[[], Any]:
        """A step of opacus; it returns the noised sum of clipped gradients, by parameter."""
        import torch
        from opacus.grad_sample import GradSampleModule, GradSampleModuleFastGradientClipping
        from opacus.optimizers import DPOptimizer, DPOptimizerFastGradientClipping
        from opacus.utils.fast_gradient_clipping_utils import DPTensorFastGradientClipping

        dense = dense_model(self.start, self.options.filters).to(self.device)
        adam = torch.optim.Adam(dense.parameters(), 1e-3, betas=(0.9, 0.99))
        private = {"noise_multiplier": noise, "max_grad_norm": CLIP, "expected_batch_size": self.options.batch}
        ghost = name.endswith("ghost")
        if ghost:
            module: Any = GradSampleModuleFastGradientClipping(
                dense, max_grad_norm=CLIP, use_ghost_clipping=True, loss_reduction="sum"
            )
            optimiser: Any = DPOptimizerFastGradientClipping(adam, loss_reduction="sum", **private)
        else:
            module = GradSampleModule(dense, loss_reduction="sum")
            optimiser = DPOptimizer(adam, loss_reduction="sum", **private)

        def step() -> dict[str, torch.Tensor]:
            optimiser.zero_grad()
            logits = module(self.padded, self.lengths)
            losses = sum(
                torch.nn.functional.cross_entropy(logits[task], self.labels[task], reduction="none") for task in CLASSES
            ) / len(CLASSES)
            if ghost:
                DPTensorFastGradientClipping(module, optimiser, losses, loss_reduction="sum").backward()
            else:
                losses.sum().backward()
            optimiser.step()
            return {name: parameter.grad for name, parameter in dense.named_parameters()}

        return step

    def agreement(self) -> dict[str, float]:
        """How far the peers' clipped gradients, without noise, are from ours, as shares of the norm of ours."""
        import torch

        from pathveil.training.dp import clipped_gradients

        sizes = list(CLASSES.values())
        found, _ = clipped_gradients(self.machine.weights, self.machine.batch(), self.settings, sizes=sizes)
        heads = found["heads.weight"][0].split(sizes), found["heads.bias"][0].split(sizes)
        ours = {"embedding.weight": found["embedding.weight"][0]}
        for number, (part, bias) in enumerate(
            zip(found["convolution.weight"][0].split(WINDOWS), found["convolution.bias"][0], strict=True)
        ):
            ours |= {f"convolutions.{number}.weight": part.permute(1, 2, 0), f"convolutions.{number}.bias": bias}
        for task, weight, bias in zip(CLASSES, *heads, strict=True):
            ours |= {f"heads.{task}.weight": weight, f"heads.{task}.bias": bias}
        size = torch.sqrt(sum(gradient.square().sum() for gradient in ours.values()))
        worst = {}
        for name in PEERS:
            theirs = self.peer(name, noise=0.0)()
            apart = sum((theirs[part] - gradient).square().sum() for part, gradient in ours.items())
            worst[name] = float(torch.sqrt(apart) / size)
        return worst


def dense_model(start: dict[str, Any], filters: int) -> Any:
    """The network of PyTorch's own layers, with given weights; what lies past a report's end is masked."""
    import torch
    from torch import nn

    class Dense(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding.from_pretrained(start["embedding.weight"].clone(), freeze=False)
            self.convolutions = nn.ModuleList(nn.Conv1d(DIM, filters, window) for window in WINDOWS)
            self.heads = nn.ModuleDict({task: nn.Linear(3 * filters, number) for task, number in CLASSES.items()})
            parts = start["convolution.weight"].split(WINDOWS), start["convolution.bias"]
            for layer, weight, bias in zip(self.convolutions, *parts, strict=True):
                layer.weight.data, layer.bias.data = weight.permute(1, 2, 0).contiguous(), bias.clone()
            for task, layer in self.heads.items():
                layer.weight.data, layer.bias.data = (start[f"heads.{task}.{k}"].clone() for k in ("weight", "bias"))

        def forward(self, padded: torch.Tensor, lengths: torch.Tensor) -> dict[str, torch.Tensor]:
            words = self.embedding(padded).transpose(1, 2)  # (B, L, D) -> (B, D, L)
            features = []
            for window, layer in zip(WINDOWS, self.convolutions, strict=True):
                answers = layer(words)  # (B, F, T)
                inside = torch.arange(answers.shape[2], device=words.device) + window <= lengths[:, None]
                features.append(torch.relu(answers.masked_fill(~inside[:, None], -torch.inf).amax(2)))
            read = torch.cat(features, 1)
            return {task: head(read) for task, head in self.heads.items()}

    return Dense()
