"""A stack of models on a GPU whose whole training step is one CUDA graph.

Corpus, labels and an epoch's plan of batches lie on the device. A step takes its batch from the plan by a counter that
lies there too, so the host only says "again": between two epochs nothing is copied, launched or waited for one by one.
Words go through the kernel in bfloat16 products (float32 sums); weights, optimiser and validation are float32.

The optimisers do the arithmetic of ``training/optimisers.py`` for every row: on a GPU a pass over the whole embedding
costs less than finding the rows to leave alone. Each model has a clock of its own, so models of one stack may be at
different epochs, and a model without a batch stands still.

Without a GPU the same steps run one by one, with Triton's interpreter, for the tests.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pathveil.errors import MissingExtraError
from pathveil.model import StackedMTCNN, TokenBatch
from pathveil.training.losses import task_loss
from pathveil.training.optimisers import Adadelta, Adam
from pathveil.training.settings import TrainingSettings
from pathveil.training.stacked import Trainee, fresh, read_in_parts, shape_of
from pathveil.vocabulary.encoded import Encoded
from pathveil.vocabulary.words import UNKNOWN

try:
    import triton
except ImportError:
    raise MissingExtraError(package="triton", extra="triton", purpose="training a stack on a GPU") from None

from pathveil.training import programs

STEPS_AT_ONCE = 256  # of a plan on the device


class GraphedStack:
    """M models in slots; ``training.stacked.Machine`` says what the methods do."""

    def __init__(
        self,
        corpus: Encoded,
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
            self.model = StackedMTCNN(models=slots, **shape_of(corpus, settings), kernel=kernel)
        self.model.to_empty(device=device)
        self.parameters = dict(self.model.named_parameters())
        self.moments = {n: (torch.zeros_like(p.data), torch.zeros_like(p.data)) for n, p in self.parameters.items()}
        self.best = {name: torch.empty_like(parameter.data) for name, parameter in self.parameters.items()}

        self.ids = torch.from_numpy(np.array(corpus.ids, np.int32)).to(device)
        self.offsets = torch.from_numpy(np.array(corpus.offsets, np.int64)).to(device)
        self.labels = {t: torch.from_numpy(np.array(a, np.int64)).to(device) for t, a in corpus.labels.items()}
        self.longest = int(corpus.lengths.max(initial=0))
        self.masks = torch.ones(slots, corpus.vocabulary_size if masked else 1, dtype=torch.uint8, device=device)
        self.weights = {t: torch.ones(slots, len(names), device=device) for t, names in corpus.classes.items()}

        documents = slots * settings.batch_size
        self.rows, self.for_words, self.for_features = (
            torch.full((STEPS_AT_ONCE, documents), -1, dtype=torch.int64, device=device) for _ in range(3)
        )
        self.at = torch.zeros(1, dtype=torch.int64, device=device)
        self.clock = torch.zeros(slots, dtype=torch.int64, device=device)
        self.summed = torch.zeros(slots, dtype=torch.float64, device=device)
        self.sizes = self.floors = torch.zeros(0, device=device)
        self.graph: torch.cuda.CUDAGraph | None = None

    @torch.no_grad()
    def reset(self, slot: int, trainee: Trainee, mask: np.ndarray | None, vectors: np.ndarray | None) -> None:
        state = fresh(self.corpus, self.settings, trainee.seed, vectors)
        for name, parameter in self.parameters.items():
            parameter[slot].copy_(state[name])
            for moment in self.moments[name]:
                moment[slot].zero_()
        self.clock[slot] = 0
        self.summed[slot] = 0
        if self.masked and mask is not None:
            self.masks[slot].copy_(torch.from_numpy(mask.astype(np.uint8)))
        if self.settings.class_balance:
            for task, weights in trainee.class_weights().items():
                self.weights[task][slot].copy_(torch.from_numpy(weights))
        if not len(self.sizes):
            steps = self.settings.epochs * -(-self.corpus.documents // self.settings.batch_size)
            self.sizes, self.floors = (part.to(self.device) for part in adam_steps(steps, self.settings.learning_rate))

    def learn(self, rows: np.ndarray, words: np.ndarray, features: np.ndarray) -> None:
        self.model.train()
        missing = ((0, 0), (0, 0), (0, self.settings.batch_size - rows.shape[2]))
        plans = [
            (buffer, torch.from_numpy(np.pad(plan, missing, constant_values=-1).reshape(len(plan), -1)))
            for buffer, plan in ((self.rows, rows), (self.for_words, words), (self.for_features, features))
        ]
        if self.graph is None and self.device.type == "cuda":
            self._capture()
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

    def _capture(self) -> None:
        """Record a step, after a few on empty batches that compile the programs and change no weight."""
        self.rows.fill_(-1)
        side = torch.cuda.Stream(self.device)
        side.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(side):
            for _ in range(3):
                self.at.zero_()
                self._step()
        torch.cuda.current_stream(self.device).wait_stream(side)
        self.at.zero_()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self._step()

    def _step(self) -> None:
        """One step along the batch of the plan that the counter points at; waits for nothing."""
        batch = self.settings.batch_size
        rows = self.rows.index_select(0, self.at)[0]  # (M · B,)
        there = (rows >= 0).view(self.slots, batch)
        documents = self._documents(rows, self.slots * batch * self.longest, self.for_words.index_select(0, self.at)[0])
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.autocast, cache_enabled=False):
            logits = self.model(documents, noise=self.for_features.index_select(0, self.at)[0])
        known = rows.clamp_min(0)
        labels = {
            task: torch.where(there, label[known].view(self.slots, batch), -1) for task, label in self.labels.items()
        }
        losses = task_loss(
            {task: scores.view(self.slots, batch, -1) for task, scores in logits.items()},
            labels,
            class_weights=self.weights if self.settings.class_balance else None,
            smoothing=self.settings.smoothing,
        )
        gradients = torch.autograd.grad(losses.sum(), list(self.parameters.values()))
        with torch.no_grad():
            self._advance(dict(zip(self.parameters, gradients, strict=True)), there.any(1).int())
            self.summed += losses.double() * there.sum(1)
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
            self.settings.word_dropout * 2.0**32, MASKED=self.masked, FORGETFUL=forgetful, SHARES=4, BLOCK=256,
        )  # fmt: skip
        # Only a batch on a GPU may lie in a buffer longer than itself.
        return TokenBatch(ids=ids if self.device.type == "cuda" else ids[: int(offsets[-1])], offsets=offsets)

    def _advance(self, gradients: Mapping[str, Tensor], active: Tensor) -> None:
        """The optimiser's step for the active models (M,)."""
        self.clock += active
        scale = None
        if self.settings.clip:
            squares = torch.stack([g.flatten(1).double().square().sum(1) for g in gradients.values()])  # (…, M)
            scale = (self.settings.clip / squares.sum(0).sqrt().clamp_min(1e-12)).clamp_max(1.0).float()
        for name, parameter in self.parameters.items():
            numel = parameter[0].numel()
            common = parameter.data, gradients[name].contiguous(), *self.moments[name]
            options: dict[str, Any] = {"CLIPPED": scale is not None, "BLOCK": 1024}
            grid = triton.cdiv(numel, 1024), self.slots
            if self.settings.optimiser == "adam":
                tables = self.sizes, self.floors
                programs.adam[grid](*common, self.clock, active, scale, *tables, numel, *Adam.BETAS, **options)
            else:
                rates = self.settings.learning_rate, Adadelta.RHO, Adadelta.EPSILON
                programs.adadelta[grid](*common, active, scale, numel, *rates, **options)

    def losses(self) -> np.ndarray:
        summed = np.array(self.summed.tolist())
        self.summed.zero_()
        return summed

    @torch.no_grad()
    def read(self, rows: Mapping[int, np.ndarray]) -> dict[int, dict[str, np.ndarray]]:
        self.model.eval()
        return read_in_parts(rows, self.slots, self._read)

    def _read(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        words = int(np.where(rows >= 0, self.corpus.lengths[rows], 0).sum())
        documents = self._documents(torch.from_numpy(rows.reshape(-1)).to(self.device), words, None)
        return {task: scores.cpu().numpy() for task, scores in self.model(documents).items()}

    @torch.no_grad()
    def keep(self, slot: int) -> None:
        for name, parameter in self.parameters.items():
            self.best[name][slot].copy_(parameter[slot])

    def best_state(self, slot: int) -> dict[str, Tensor]:
        return {name: best[slot].cpu().clone() for name, best in self.best.items()}

    @torch.no_grad()
    def restore_best(self, slot: int) -> None:
        for name, parameter in self.parameters.items():
            parameter[slot].copy_(self.best[name][slot])


def adam_steps(steps: int, learning_rate: float) -> tuple[Tensor, Tensor]:
    """For every step from 0: lr · √(1 − β₂ˢ) ÷ (1 − β₁ˢ), and ε √(1 − β₂ˢ), as ``optimisers.Adam`` has them.

    >>> [round(size, 6) for size in adam_steps(2, 0.001)[0].tolist()]
    [0.0, 0.001, 0.000742]
    """
    first, second = Adam.BETAS
    step = torch.arange(1, steps + 1, dtype=torch.float64)
    root = (1 - second**step).sqrt()
    zero = torch.zeros(1, dtype=torch.float64)
    sizes, floors = learning_rate * root / (1 - first**step), Adam.EPSILON * root
    return torch.cat([zero, sizes]).float(), torch.cat([zero, floors]).float()
