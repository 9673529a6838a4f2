"""A registry's side of shared/private training: its reports, its private encoder, and what it answers to the hub.

A site gets the shared parameters, works on its own batch, keeps its private part, and sends back an update of the
shared parameters alone: with one local step a round the gradient, which the hub averages and steps along (equal to
central training step for step); with more local steps the change its own steps made, which the hub averages.

A site sees an epoch as a fixed number of batches, the same for every site, so that all finish an epoch together,
whatever their sizes. Batches and dropout depend on the seed, the epoch and the step alone: a restarted site goes on as
it was.
"""

from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from pathveil.federation import wire
from pathveil.federation.config import FederationConfig
from pathveil.federation.losses import orthogonality, ramp, registry_loss, reverse
from pathveil.model import TokenBatch
from pathveil.model.mtcnn import drop
from pathveil.model.shared_private import Private, Shared
from pathveil.training.batches import hold_out_cases, spans
from pathveil.training.losses import task_loss
from pathveil.training.optimisers import Adadelta, Adam, Optimiser
from pathveil.vocabulary.encoded import Encoded

EMBEDDING = "encoder.embedding.weight"
DISCRIMINATOR = "discriminator."
TOKENS_AT_ONCE = 200_000  # of a pass without gradients


@dataclass(frozen=True)
class Turn:
    """Where training stands: what a hub tells its sites."""

    epoch: int
    step: int  # within the epoch
    steps: int  # of an epoch
    epochs: int
    discriminator_only: bool = False  # an extra step of the discriminator on the same documents

    @property
    def done(self) -> float:
        """Share of training that is over."""
        return (self.epoch * self.steps + self.step) / (self.epochs * self.steps)


@dataclass(frozen=True)
class Documents:
    """A batch of a site's reports: its words, its labels, and a number a document that seeds its dropout."""

    batch: TokenBatch
    labels: Mapping[str, Tensor]
    noise: Tensor


class Site:
    """One registry: never shows anything but updates of shared parameters and counts."""

    def __init__(
        self, reports: Encoded, *, name: str, registry: int, private: Private, config: FederationConfig, seed: int
    ):
        self.name, self.registry, self.private, self.config, self.seed = name, registry, private, config, seed
        self.reports = reports
        # Numbers a site alone knows make its split and batches; the registry's number keeps two sites apart.
        self.train, self.validate = hold_out_cases(reports.cases, share=config.validation, seed=[seed, registry])
        self.optimiser = optimiser_for(private.named_parameters(), config, lazy=(EMBEDDING,))
        self.best = snapshot(private)

    @property
    def documents(self) -> int:
        return len(self.train)

    def rows(self, turn: Turn) -> np.ndarray:
        """The documents of a step: an epoch's permutation cut into as many parts as the epoch has steps."""
        order = np.random.default_rng([self.seed, self.registry, turn.epoch]).permutation(self.train)
        return np.array_split(order, turn.steps)[turn.step]

    def read(self, rows: np.ndarray, turn: Turn) -> Documents:
        taken = self.reports.take(rows)
        number = turn.epoch * turn.steps + turn.step
        noise = torch.from_numpy(rows.astype(np.int64)) + (number << 32) + self.seed * 7919 + self.registry
        labels = {task: torch.from_numpy(label.astype(np.int64)) for task, label in taken.labels.items()}
        return Documents(TokenBatch(ids=taken.ids, offsets=taken.offsets), labels, noise)

    def loss(self, shared: Shared, features: Tensor, documents: Documents, turn: Turn) -> Tensor:
        """L_task + λ L_adv + γ L_orth of a batch whose shared features (B, K·F) are given."""
        config = self.config
        own = self.private.features(documents.batch)
        joined = drop(torch.cat([features, own], dim=1), config.dropout, documents.noise)
        width = features.shape[1]
        loss = task_loss(self.private.logits(joined[:, :width], joined[:, width:]), documents.labels)
        if config.common_heads:
            loss = loss + task_loss(shared.logits(joined[:, :width]), documents.labels)
        strength = config.adversary * (ramp(turn.done) if config.rising else 1.0)
        loss = loss + self.adversarial(shared, features, strength)
        if config.orthogonality:
            loss = loss + config.orthogonality * orthogonality(features, own, scale=config.scale)
        return loss

    def adversarial(self, shared: Shared, features: Tensor, strength: float) -> Tensor:
        """The discriminator's loss, turned against the encoder; alternating, the discriminator is held still."""
        if not self.config.alternating:
            return registry_loss(shared.discriminate(reverse(features, strength)), self.registry)
        with frozen(shared.discriminator):
            return -strength * registry_loss(shared.discriminate(features), self.registry)

    def touch(self, documents: Documents) -> None:
        """Bring the words of a batch up to date in the private embedding, before it is read."""
        self.optimiser.touch(documents.batch.ids.unique().long())

    def gradients(self, shared: Shared, turn: Turn) -> dict[str, np.ndarray]:
        """One step: the private part moves, and the gradient of the shared part is returned, checked by the gate."""
        documents = self.read(self.rows(turn), turn)
        shared.zero_grad(set_to_none=True)
        if turn.discriminator_only:
            with torch.no_grad():
                features = shared.features(documents.batch)
            registry_loss(shared.discriminate(features), self.registry).backward()
        else:
            self.touch(documents)
            self.loss(shared, shared.features(documents.batch), documents, turn).backward()
            self.optimiser.step()
        sent = {name: dense(p.grad, p.shape) for name, p in shared.named_parameters()}
        wire.check(sent, wire.manifest_of(shared), sender=self.name)
        return sent

    def change(self, shared: Shared, turns: list[Turn]) -> dict[str, np.ndarray]:
        """Several local steps on a copy of the shared part: what they changed, checked by the gate."""
        before = {name: parameter.detach().clone() for name, parameter in shared.named_parameters()}
        optimiser = SharedOptimiser(shared, self.config, lazy=True)
        for turn in turns:
            documents = self.read(self.rows(turn), turn)
            words = documents.batch.ids.unique().long()
            self.optimiser.touch(words)
            optimiser.touch(words)
            features = shared.features(documents.batch)
            for _ in range(discriminator_turns(self.config)):
                # The discriminator's extra steps see fixed features; here they know this site's label alone.
                registry_loss(shared.discriminate(features.detach()), self.registry).backward()
                optimiser.step(discriminator_only=True)
            self.loss(shared, features, documents, turn).backward()
            optimiser.step()
            self.optimiser.step()
        optimiser.settle()
        sent = {name: (p.detach() - before[name]).numpy() for name, p in shared.named_parameters()}
        wire.check(sent, wire.manifest_of(shared), sender=self.name)
        return sent

    @torch.no_grad()
    def logits(self, shared: Shared, rows: np.ndarray, *, reports: Encoded | None = None) -> dict[str, np.ndarray]:
        """Each task's logits (rows, classes) without dropout."""
        taken = (reports or self.reports).take(rows)
        self.optimiser.settle()
        parts: dict[str, list[np.ndarray]] = {task: [] for task in taken.tasks}
        for batch in batches_of(taken):
            scores = self.private.logits(shared.features(batch), self.private.features(batch))
            for task, values in scores.items():
                parts[task].append(values.numpy())
        return {task: np.concatenate(values) for task, values in parts.items()}

    def validation_loss(self, shared: Shared) -> float:
        """The task loss on the site's held-out cases: one number, which the hub averages to choose the best epoch."""
        scores = self.logits(shared, self.validate)
        labels = {task: torch.from_numpy(label[self.validate].astype(np.int64)) for task, label in self.labels.items()}
        return float(task_loss({task: torch.from_numpy(values) for task, values in scores.items()}, labels))

    @property
    def labels(self) -> Mapping[str, np.ndarray]:
        return self.reports.labels

    def keep(self) -> None:
        """This epoch was the best so far."""
        self.optimiser.settle()
        self.best = snapshot(self.private)

    def restore(self) -> None:
        self.private.load_state_dict(self.best)


def discriminator_turns(config: FederationConfig) -> int:
    """Steps of the discriminator on its own before a joint step; a joint step with reversal is one of them."""
    return config.discriminator_steps - (0 if config.alternating else 1)


def optimiser_for(
    parameters: Iterable[tuple[str, torch.nn.Parameter]], config: FederationConfig, *, lazy: tuple[str, ...] = ()
) -> Optimiser:
    """The configured optimiser; ``lazy`` names parameters with sparse gradients."""
    kind, usual = (Adam, 1e-3) if config.optimiser == "adam" else (Adadelta, 1.0)
    return kind(dict(parameters), lazy=lazy, learning_rate=config.learning_rate or usual)


class SharedOptimiser:
    """Steps of the shared part: the discriminator has an optimiser of its own, because it may step more often."""

    def __init__(self, shared: Shared, config: FederationConfig, *, lazy: bool):
        named = list(shared.named_parameters())
        against = [(name, parameter) for name, parameter in named if name.startswith(DISCRIMINATOR)]
        others = [(name, parameter) for name, parameter in named if not name.startswith(DISCRIMINATOR)]
        self.discriminator = optimiser_for(against, config)
        self.encoder = optimiser_for(others, config, lazy=(EMBEDDING,) if lazy else ())

    def step(self, *, discriminator_only: bool = False) -> None:
        self.discriminator.step()
        if not discriminator_only:
            self.encoder.step()

    def touch(self, words: Tensor) -> None:
        self.encoder.touch(words)

    def settle(self) -> None:
        self.encoder.settle()


def snapshot(module: torch.nn.Module) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}


def batches_of(reports: Encoded) -> Iterator[TokenBatch]:
    """All documents in order, in batches of bounded size."""
    for start, stop in spans(reports.offsets, tokens=TOKENS_AT_ONCE):
        first, last = reports.offsets[start], reports.offsets[stop]
        yield TokenBatch(ids=np.asarray(reports.ids[first:last]), offsets=reports.offsets[start : stop + 1] - first)


def dense(gradient: Tensor | None, shape: torch.Size) -> np.ndarray:
    """A gradient as an array; zeros where there is none."""
    if gradient is None:
        return np.zeros(tuple(shape), np.float32)
    return (gradient.to_dense() if gradient.is_sparse else gradient).numpy()


@contextmanager
def frozen(module: torch.nn.Module) -> Generator[None]:
    """The module's parameters get no gradient inside."""
    for parameter in module.parameters():
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in module.parameters():
            parameter.requires_grad_(True)
