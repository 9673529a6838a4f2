"""A stack of models on a GPU whose whole training step is one CUDA graph.

Corpus, labels and an epoch's plan of batches lie on the device. A step takes its batch from the plan by a counter that
lies there too, so the host only says "again": between two epochs nothing is copied, launched or waited for one by one.
Words go through the kernel in bfloat16 products (float32 sums); weights, optimiser and validation are float32.

The optimisers do the arithmetic of ``training/optimisers.py`` for every row: on a GPU a pass over the whole embedding
costs less than finding the rows to leave alone. Each model has a clock of its own, so models of one stack may be at
different epochs, and a model without a batch stands still.

Without a GPU the same steps run one by one, with Triton's interpreter, for the tests.
"""

import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pathveil.errors import MissingExtraError
from pathveil.model import StackedMTCNN, TokenBatch
from pathveil.model.kernels import in_order
from pathveil.progress import Progress, silent
from pathveil.training import checkpoint as checkpoints
from pathveil.training.device import memory_share
from pathveil.training.loop import SAVE_SECONDS, Fitted, Reduce, early_stopping, fingerprint
from pathveil.training.optimisers import Adadelta, Adam
from pathveil.training.recording import record
from pathveil.training.settings import TrainingSettings
from pathveil.training.stacked import (
    Trainee,
    model_of,
    read_in_parts,
    shape_of,
    starting_weights,
    train_epoch,
)
from pathveil.vocabulary.encoded import EncodedCorpus
from pathveil.vocabulary.words import UNKNOWN

try:
    import triton
except ImportError:
    raise MissingExtraError(package="triton", extra="triton", purpose="training a stack on a GPU") from None

from pathveil.model.kernels import cuda
from pathveil.training import programs

ENCODER = ("embedding.weight", "convolution.weight", "convolution.bias")
STEPS_AT_ONCE = 256  # of a plan on the device
ADAM_STEPS = 4096  # after which Adam's corrections for its start are 1 to the last bit


class GraphedStack:
    """M models in slots; ``training.stacked.Machine`` says what the methods do."""

    def __init__(
        self,
        corpus: EncodedCorpus,
        settings: TrainingSettings,
        *,
        slots: int,
        device: torch.device,
        masked: bool = False,
        autocast: bool = True,
    ):
        self.corpus, self.settings, self.slots, self.device = corpus, settings, slots, device
        self.masked, self.autocast = masked, autocast
        with torch.device("meta"):
            kernel = None if device.type == "cuda" else "cuda"
            self.model = StackedMTCNN(models=slots, **shape_of(corpus, settings), kernel=kernel).eval()
        self.model.to_empty(device=device)
        self.named = {name: parameter.data for name, parameter in self.model.named_parameters()}
        self.whole = self._join_heads()
        self.moments = {name: (torch.zeros_like(w), torch.zeros_like(w)) for name, w in self.whole.items()}
        self.best = {name: torch.empty_like(weight) for name, weight in self.whole.items()}

        classes = [len(names) for names in corpus.classes.values()]
        self.bounds = torch.tensor([0, *np.cumsum(classes)], dtype=torch.int32, device=device)
        self.most = triton.next_power_of_2(max(classes))
        self.weights = torch.ones(slots, sum(classes), device=device)
        self.labels = torch.from_numpy(np.stack([np.array(a, np.int32) for a in corpus.labels.values()])).to(device)
        self.ids = torch.from_numpy(np.array(corpus.ids, np.int32)).to(device)
        self.offsets = torch.from_numpy(np.array(corpus.offsets, np.int64)).to(device)
        self.longest = int(corpus.lengths.max(initial=0))
        self.masks = torch.ones(slots, corpus.vocabulary_size if masked else 1, dtype=torch.uint8, device=device)

        documents = slots * settings.batch_size
        self.models = in_order(documents, slots, device=device)
        self.ordered = cuda.by_model(self.models, documents, slots, device)
        self.rows, self.for_words, self.for_features = (
            torch.full((STEPS_AT_ONCE, documents), -1, dtype=torch.int64, device=device) for _ in range(3)
        )
        self.at = torch.zeros(1, dtype=torch.int64, device=device)
        self.clock = torch.zeros(slots, dtype=torch.int64, device=device)
        self.falls_over = torch.ones(slots, device=device)
        self.summed = torch.zeros(slots, dtype=torch.float64, device=device)
        self.sizes, self.floors = (part.to(device) for part in adam_steps(settings.learning_rate))
        self.graph: torch.cuda.CUDAGraph | None = None

    def _join_heads(self) -> dict[str, Tensor]:
        """The parameters, the heads of all tasks as one tensor (M, C, N) that the model's own become parts of."""
        whole = {name: tensor for name, tensor in self.named.items() if not name.startswith("heads.")}
        for kind in ("weight", "bias"):
            parts = {name: t for name, t in self.named.items() if name.startswith("heads.") and name.endswith(kind)}
            joined = torch.cat(list(parts.values()), dim=1)
            whole[f"heads.{kind}"] = joined
            self.named |= zip(parts, joined.split([part.shape[1] for part in parts.values()], dim=1), strict=True)
        for name, parameter in self.model.named_parameters():
            parameter.data = self.named[name]
        return whole

    def reset(self, slot: int, trainee: Trainee, state: Mapping[str, Tensor], mask: np.ndarray | None) -> None:
        for name, tensor in state.items():
            self.named[name][slot].copy_(tensor)
        for moments in self.moments.values():
            for moment in moments:
                moment[slot].zero_()
        self.clock[slot] = 0
        self.summed[slot] = 0
        self.falls_over[slot] = self.settings.falls_over(len(trainee.train)) or 1
        if self.masked and mask is not None:
            self.masks[slot].copy_(torch.from_numpy(mask.astype(np.uint8)))
        if self.settings.class_balance:
            self.weights[slot].copy_(torch.from_numpy(np.concatenate(list(trainee.class_weights().values()))))

    def learn(self, rows: np.ndarray, words: np.ndarray, features: np.ndarray) -> None:
        missing = ((0, 0), (0, 0), (0, self.settings.batch_size - rows.shape[2]))
        plans = [
            (buffer, torch.from_numpy(np.pad(plan, missing, constant_values=-1).reshape(len(plan), -1)))
            for buffer, plan in ((self.rows, rows), (self.for_words, words), (self.for_features, features))
        ]
        if self.graph is None and self.device.type == "cuda":
            self.rows.fill_(-1)  # on empty batches rehearsals change no weight
            self.graph = record(self._step, self.device)
        for start in range(0, len(rows), STEPS_AT_ONCE):
            stop = min(start + STEPS_AT_ONCE, len(rows))
            for buffer, plan in plans:
                buffer[: stop - start].copy_(plan[start:stop])
            self.at.zero_()
            for _ in range(start, stop):
                if self.graph is None:
                    self._step()
                else:
                    self.graph.replay()

    @torch.no_grad()
    def _step(self) -> None:
        """One step along the batch of the plan that the counter points at; waits for nothing.

        Forward and backward are written out: the encoder is the kernel's, the rest is a handful of programs and
        products, where PyTorch's own would be three hundred small ones.
        """
        batch, kind = self.settings.batch_size, torch.bfloat16 if self.autocast else torch.float32
        rows, for_words, for_features = (
            plan.index_select(0, self.at)[0] for plan in (self.rows, self.for_words, self.for_features)
        )
        documents = self._documents(rows, self.slots * batch * self.longest, for_words)
        encoder = [self.whole[name] for name in ENCODER]
        place = documents.ids, documents.offsets, self.models
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.autocast, cache_enabled=False):
            features, chosen, kept = cuda.forward(*place, *encoder, self.settings.windows)
        read = self._drop(features.flatten(1), for_features, kind).view(self.slots, batch, -1)  # (M, B, N)
        weight, bias = self.whole["heads.weight"].to(kind), self.whole["heads.bias"].to(kind)
        logits = torch.baddbmm(bias[:, None], read, weight.transpose(1, 2))  # (M, B, C)
        losses, slope = self._loss(logits, rows)
        d_features = self._drop(torch.bmm(slope, weight).flatten(0, 1), for_features, torch.float32)
        gradients = {
            **dict(zip(ENCODER, cuda.backward(
                d_features.view(chosen.shape), chosen, kept, *place, *encoder, self.settings.windows,
                (True, True, True), False, self.ordered,
            ), strict=True)),
            "heads.weight": torch.bmm(slope.transpose(1, 2), read),
            "heads.bias": slope.sum(1, dtype=torch.float32),
        }  # fmt: skip
        there = (rows >= 0).view(self.slots, batch).sum(1)
        self._advance(gradients, there)
        self.summed += losses.double() * there
        self.at += 1

    def _documents(self, rows: Tensor, capacity: int, numbers: Tensor | None) -> TokenBatch:
        """A batch of rows (M · n,), empty documents where there is none, in a buffer that holds any such batch."""
        known = rows.clamp_min(0)
        starts = self.offsets[known]
        lengths = torch.where(rows >= 0, self.offsets[known + 1] - starts, 0)
        offsets = torch.zeros(len(rows) + 1, dtype=torch.int64, device=self.device)
        torch.cumsum(lengths, 0, out=offsets[1:])
        ids = torch.empty(max(capacity, 1), dtype=torch.int32, device=self.device)
        forgetful = numbers is not None and self.settings.word_dropout > 0
        programs.documents[len(rows), 4](
            self.ids, starts, offsets, self.masks, numbers, ids, self.masks.shape[1], len(rows) // self.slots, UNKNOWN,
            math.ceil(self.settings.word_dropout * 2**32), MASKED=self.masked, FORGETFUL=forgetful, SHARES=4, BLOCK=256,
        )  # fmt: skip
        # Only a batch on a GPU may lie in a buffer longer than itself.
        return TokenBatch(ids=ids if self.device.type == "cuda" else ids[: int(offsets[-1])], offsets=offsets)

    def _drop(self, values: Tensor, numbers: Tensor, kind: torch.dtype) -> Tensor:
        """Dropout of features (M · B, N), or of their gradient, into another type."""
        share = self.settings.dropout
        if not share:
            return values.to(kind)
        dropped = torch.empty(values.shape, dtype=kind, device=self.device)
        programs.drop[len(values), triton.cdiv(values.shape[1], 1024)](
            values, numbers, dropped, values.shape[1], int(share * 2**32), 1 / (1 - share), BLOCK=1024
        )
        return dropped

    def _loss(self, logits: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Each model's loss (M,), as ``losses.task_loss`` defines it, and its gradient by the logits (M, B, C)."""
        batch, classes, tasks = logits.shape[1], logits.shape[2], len(self.labels)
        shares = torch.empty(self.slots, tasks, device=self.device)
        sizes = self.labels.shape[1], batch, classes, tasks
        programs.weigh[(self.slots,)](
            rows, self.labels, self.weights, self.bounds, shares, *sizes, BLOCK=triton.next_power_of_2(batch)
        )
        losses = torch.empty(self.slots, batch, device=self.device)
        slope = torch.empty_like(logits)
        programs.loss[(len(rows),)](
            logits, rows, self.labels, self.weights, shares, self.bounds, losses, slope, *sizes,
            self.settings.smoothing, self.settings.robustness, BLOCK=self.most,
        )  # fmt: skip
        return losses.sum(1), slope

    def _advance(self, gradients: Mapping[str, Tensor], active: Tensor) -> None:
        """The optimiser's step for the models with any document (M,)."""
        self.clock += active > 0
        scale = None
        if self.settings.clip:
            squares = torch.stack([g.flatten(1).double().square().sum(1) for g in gradients.values()])  # (…, M)
            scale = (self.settings.clip / squares.sum(0).sqrt().clamp_min(1e-12)).clamp_max(1.0).float()
        for name, weight in self.whole.items():
            numel = weight[0].numel()
            common = weight, gradients[name], *self.moments[name], self.clock, self.falls_over, active, scale
            options: dict[str, Any] = {"CLIPPED": scale is not None, "FALLING": self.settings.falling, "BLOCK": 1024}
            grid = triton.cdiv(numel, 1024), self.slots
            if self.settings.optimiser == "adam":
                tables = self.sizes, self.floors, ADAM_STEPS
                programs.adam[grid](*common, *tables, numel, *Adam.BETAS, **options)
            else:
                rates = self.settings.learning_rate, Adadelta.RHO, Adadelta.EPSILON
                programs.adadelta[grid](*common, numel, *rates, **options)

    def losses(self) -> np.ndarray:
        summed = np.array(self.summed.tolist())
        self.summed.zero_()
        return summed

    @torch.no_grad()
    def read(self, rows: Mapping[int, np.ndarray], reduce: Reduce) -> dict[int, dict[str, np.ndarray]]:
        return read_in_parts(rows, self.slots, self._read, reduce)

    def _read(self, rows: np.ndarray) -> dict[str, Tensor]:
        words = int(np.where(rows >= 0, self.corpus.lengths[rows], 0).sum())
        documents = self._documents(torch.from_numpy(rows.reshape(-1)).to(self.device), words, None)
        return self.model(documents)

    def keep(self, slot: int) -> None:
        for name, weight in self.whole.items():
            self.best[name][slot].copy_(weight[slot])

    def best_state(self, slot: int) -> dict[str, Tensor]:
        state = {name: best[slot].to("cpu", copy=True) for name, best in self.best.items()}
        for kind in ("weight", "bias"):
            joined = state.pop(f"heads.{kind}")
            parts = joined.split([len(names) for names in self.corpus.classes.values()])
            state |= {f"heads.{task}.{kind}": part.clone() for task, part in zip(self.corpus.tasks, parts, strict=True)}
        return {name: state[name] for name in self.named}

    def restore_best(self, slot: int) -> None:
        for name, weight in self.whole.items():
            weight[slot].copy_(self.best[name][slot])

    def state(self) -> dict[str, Tensor]:
        """Everything needed to go on bit for bit, between two epochs, by name."""
        tensors = {f"weight.{name}": weight for name, weight in self.whole.items()}
        tensors |= {f"best.{name}": weight for name, weight in self.best.items()}
        for number in (0, 1):
            tensors |= {f"moment{number}.{name}": moments[number] for name, moments in self.moments.items()}
        return tensors | {"clock": self.clock}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        for name, tensor in self.state().items():
            tensor.copy_(state[name])


def fit_graphed(
    corpus: EncodedCorpus,
    settings: TrainingSettings,
    *,
    device: torch.device,
    seed: int = 0,
    held_out: np.ndarray | None = None,
    vectors: np.ndarray | None = None,
    checkpoint: Path | None = None,
    save_seconds: float = SAVE_SECONDS,
    progress: Progress = silent,
    stage: str = "training",
    autocast: bool = True,
) -> Fitted:
    """``training.loop.fit`` on a GPU: a stack of one."""
    trainee = Trainee(0, np.arange(corpus.documents), corpus, settings, seed=seed, held_out=held_out)
    machine = GraphedStack(corpus, settings, slots=1, device=device, autocast=autocast)
    machine.reset(0, trainee, starting_weights(corpus, settings, seed, vectors), None)
    of = fingerprint(corpus, settings, seed=seed, held_out=trainee.held_out, vectors=vectors, on=device)
    found = checkpoints.load(checkpoint, fingerprint=of) if checkpoint else None
    if found:
        machine.restore(found[0])
        trainee.history = found[1]["history"]
        trainee.best_epoch, trainee.finished = early_stopping(trainee.history, settings)
    saved = time.monotonic()
    while not trainee.finished:
        progress(stage, trainee.epoch, settings.epochs)
        train_epoch(machine, {0: trainee})
        if checkpoint and (trainee.finished or time.monotonic() - saved > save_seconds):
            checkpoints.save(checkpoint, machine.state(), fingerprint=of, content={"history": trainee.history})
            saved = time.monotonic()
    progress(stage, settings.epochs, settings.epochs)
    model = model_of(machine.best_state(0), corpus, settings).to(device)
    return Fitted(model=model, history=trainee.history, best_epoch=trainee.best_epoch, validation=trainee.held_out)


def affordable_models(corpus: EncodedCorpus, settings: TrainingSettings, device: torch.device) -> int:
    """How many models fit into the device's free memory at once, with a third of it to spare."""
    filters = sum(settings.windows) * settings.filters
    classes = sum(map(len, corpus.classes.values()))
    weights = (corpus.vocabulary_size + filters) * settings.dim + classes * len(settings.windows) * settings.filters
    # Weights, gradients, two moments and the best weights; the table and its gradient in bfloat16, and in float32 once.
    need = 5 * 4 * weights + (2 + 2 + 4) * corpus.vocabulary_size * filters
    free, whole = torch.cuda.mem_get_info(device)
    if memory_share() < 1:
        # Beyond its share a process gives back what it holds for later before it asks for more: others need it.
        torch.cuda.set_per_process_memory_fraction(memory_share())
    return max(int(min(free, whole * memory_share()) / 1.5 / need), 1)


def adam_steps(learning_rate: float) -> tuple[Tensor, Tensor]:
    """For every step from 0: lr · √(1 − β₂ˢ) ÷ (1 − β₁ˢ), and ε √(1 − β₂ˢ), as ``optimisers.Adam`` has them.

    >>> [round(size, 6) for size in adam_steps(0.001)[0][[0, 1, 2, -1]].tolist()]
    [0.0, 0.001, 0.000742, 0.001]
    """
    first, second = Adam.BETAS
    step = torch.arange(1, ADAM_STEPS + 1, dtype=torch.float64)
    root = (1 - second**step).sqrt()
    zero = torch.zeros(1, dtype=torch.float64)
    sizes, floors = learning_rate * root / (1 - first**step), Adam.EPSILON * root
    return torch.cat([zero, sizes]).float(), torch.cat([zero, floors]).float()
