"""A stack of models on the CPU: what ``stacked.Machine`` asks for, by the kernels and optimisers that train one model.

On a GPU ``graphed.GraphedStack`` does the same.
"""

from collections.abc import Iterator, Mapping

import numpy as np
import torch
from torch import Tensor, nn

from pathveil.model import StackedMTCNN, TokenBatch
from pathveil.training.batches import drop_words
from pathveil.training.loop import EMBEDDING, Reduce, half_products
from pathveil.training.losses import task_loss
from pathveil.training.optimisers import Adadelta, Adam, Optimiser, gradient_norm
from pathveil.training.settings import TrainingSettings
from pathveil.training.stacked import Trainee, read_in_parts, shape_of
from pathveil.vocabulary.encoded import EncodedCorpus, take_documents
from pathveil.vocabulary.words import UNKNOWN


class PlainStack:
    """A stack on the CPU: each model has its optimiser, which leaves untouched words alone."""

    def __init__(self, corpus: EncodedCorpus, settings: TrainingSettings, *, slots: int):
        self.corpus, self.settings, self.slots = corpus, settings, slots
        with torch.device("meta"):
            self.model = StackedMTCNN(models=slots, **shape_of(corpus, settings), sparse=True)
        self.model.to_empty(device="cpu")
        self.singles: list[dict[str, nn.Parameter]] = [
            {name: nn.Parameter(whole.detach()[slot]) for name, whole in self.model.named_parameters()}
            for slot in range(slots)
        ]
        self.optimisers: list[Optimiser | None] = [None] * slots
        self.masks: list[np.ndarray | None] = [None] * slots
        self.best: list[dict[str, Tensor]] = [{} for _ in range(slots)]
        self.weights = {task: torch.ones(slots, len(names)) for task, names in corpus.classes.items()}
        self.summed = np.zeros(slots)
        self.seen = np.zeros(corpus.vocabulary_size, bool)

    def reset(self, slot: int, trainee: Trainee, state: Mapping[str, Tensor], mask: np.ndarray | None) -> None:
        self._load(slot, state)
        kind = Adam if self.settings.optimiser == "adam" else Adadelta
        self.optimisers[slot] = kind(
            self.singles[slot],
            lazy=(EMBEDDING,),
            learning_rate=self.settings.learning_rate,
            falls_over=self.settings.falls_over(len(trainee.train)),
        )
        self.masks[slot] = mask
        if self.settings.class_balance:
            for task, weights in trainee.class_weights().items():
                self.weights[task][slot] = torch.from_numpy(weights)

    @torch.no_grad()
    def _load(self, slot: int, state: Mapping[str, Tensor]) -> None:
        for name, parameter in self.singles[slot].items():
            parameter.copy_(state[name])

    def learn(self, rows: np.ndarray, words: np.ndarray, features: np.ndarray) -> None:
        self.model.train()
        for step in range(len(rows)):
            self._learn(rows[step], words[step], features[step])
            if not np.isfinite(self.summed).all():
                return  # whoever asks for the losses is told

    def _learn(self, rows: np.ndarray, words: np.ndarray, features: np.ndarray) -> None:
        """One step along one batch of every slot, rows (slots, batch)."""
        active = [slot for slot in range(self.slots) if rows[slot, 0] >= 0]
        ids, offsets = self._documents(rows, words if self.settings.word_dropout else None)
        size = rows.shape[1]
        for slot in active:
            self.seen[ids[offsets[slot * size] : offsets[(slot + 1) * size]]] = True
            touched = np.flatnonzero(self.seen)
            self.seen[touched] = False
            self._optimiser(slot).touch(torch.from_numpy(touched))
        with half_products(torch.device("cpu"), self.settings):
            logits = self.model(TokenBatch(ids=ids, offsets=offsets), noise=torch.from_numpy(features.reshape(-1)))
        labels = {
            task: torch.from_numpy(np.where(rows >= 0, np.asarray(label)[rows], -1)).long()
            for task, label in self.corpus.labels.items()
        }
        losses = task_loss(
            {task: scores.view(self.slots, size, -1) for task, scores in logits.items()},
            labels,
            class_weights=self.weights if self.settings.class_balance else None,
            smoothing=self.settings.smoothing,
            robustness=self.settings.robustness,
        )
        losses.sum().backward()
        for name, whole in self.model.named_parameters():
            for slot, part in self._parts(whole.grad):
                self.singles[slot][name].grad = part
            whole.grad = None
        for slot in active:
            scale = 1.0
            if self.settings.clip:
                scale = min(1.0, self.settings.clip / max(gradient_norm(self.singles[slot]), 1e-12))
            self._optimiser(slot).step(scale=scale)
        self.summed += losses.detach().double().numpy() * (rows >= 0).sum(1)

    def _parts(self, gradient: Tensor | None) -> Iterator[tuple[int, Tensor]]:
        """Each slot's part of a stacked gradient, dense or sparse."""
        if gradient is None:
            return
        if not gradient.is_sparse:
            yield from enumerate(gradient)
            return
        models, rows = gradient._indices()
        bounds = torch.searchsorted(models, torch.arange(self.slots + 1)).tolist()  # rows come in model order
        for slot in range(self.slots):
            mine = slice(bounds[slot], bounds[slot + 1])
            part = rows[None, mine], gradient._values()[mine], gradient.shape[1:]
            yield slot, torch.sparse_coo_tensor(*part, check_invariants=False)

    def _documents(self, rows: np.ndarray, words: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """Tokens and offsets of rows (slots, batch), empty documents where there is no row."""
        there = rows >= 0
        ids, short = take_documents(self.corpus.ids, self.corpus.offsets, rows[there])
        lengths = np.zeros(rows.size, np.int64)
        lengths[there.reshape(-1)] = np.diff(short)
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        if words is not None:
            ids = drop_words(ids, short, words[there], share=self.settings.word_dropout)
        for slot, mask in enumerate(self.masks):
            if mask is not None:
                mine = slice(offsets[slot * rows.shape[1]], offsets[(slot + 1) * rows.shape[1]])
                ids[mine] = np.where(mask[ids[mine]], ids[mine], UNKNOWN)
        return ids, offsets

    def _optimiser(self, slot: int) -> Optimiser:
        optimiser = self.optimisers[slot]
        assert optimiser is not None, "a slot is reset before it learns"
        return optimiser

    def losses(self) -> np.ndarray:
        summed, self.summed = self.summed, np.zeros(self.slots)
        for optimiser in self.optimisers:
            if optimiser is not None:
                optimiser.settle()
        return summed

    @torch.no_grad()
    def read(self, rows: Mapping[int, np.ndarray], reduce: Reduce) -> dict[int, dict[str, np.ndarray]]:
        self.model.eval()
        return read_in_parts(rows, self.slots, self._read, reduce)

    def _read(self, rows: np.ndarray) -> dict[str, Tensor]:
        ids, offsets = self._documents(rows, None)
        return self.model(TokenBatch(ids=ids, offsets=offsets))

    def keep(self, slot: int) -> None:
        self.best[slot] = {name: parameter.detach().clone() for name, parameter in self.singles[slot].items()}

    def best_state(self, slot: int) -> dict[str, Tensor]:
        return {name: tensor.clone() for name, tensor in self.best[slot].items()}

    def restore_best(self, slot: int) -> None:
        self._load(slot, self.best[slot])
