"""A registry's side of shared/private training: its reports, its private encoder, and what it answers to the hub.

A site gets the shared parameters, works on its own batch, keeps its private part, and sends back an update of the
shared parameters alone: with one local step a round the gradient, which the hub averages and steps along (equal to
central training step for step); with more local steps the change its own steps made, which the hub averages.

A site sees an epoch as a fixed number of batches, the same for every site, so that all finish an epoch together,
whatever their sizes. Batches and dropout depend on the site's secret, the epoch and the step alone: a restarted site
goes on as it was. The device is the parameters': make ``Private`` where the site shall work.

A step of the shared part learns from a batch over all sites, of which each has but a few reports. The private part
gathers the gradients of several steps (``private_every``) and moves along their mean, so that it learns from as many
reports a step; in one process its table of words is then made once for all of them.
"""

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from pathveil.federation import own_batches, wire
from pathveil.federation.losses import fall, orthogonality, orthogonality_of_positions, ramp, reverse
from pathveil.federation.noise import noised
from pathveil.federation.own_batches import check_enough
from pathveil.federation.settings import FederationSettings
from pathveil.model import TokenBatch
from pathveil.model.mtcnn import drop
from pathveil.model.shared_private import Private, Shared
from pathveil.rng import Seed, generator
from pathveil.training.batches import hold_out_cases, noise, spans
from pathveil.training.losses import task_loss
from pathveil.training.optimisers import Adadelta, Adam, Optimiser
from pathveil.vocabulary.encoded import EncodedCorpus, take_documents

EMBEDDING = "encoder.embedding.weight"
TOKENS_AT_ONCE = 200_000  # of a pass without gradients


@dataclass(frozen=True)
class Turn:
    """Where training stands: what a hub tells its sites."""

    epoch: int
    step: int  # within the epoch
    steps: int  # of an epoch
    epochs: int
    discriminator_only: bool = False  # an extra step of the discriminator on the same documents
    again: bool = False  # the encoder has not moved since the last round, and need not be sent again

    @property
    def done(self) -> float:
        """Share of training that is over."""
        return (self.epoch * self.steps + self.step) / (self.epochs * self.steps)

    def gathered(self, every: int) -> list["Turn"]:
        """All turns whose gradients a private part gathers for the same step as this turn's, ``every`` turns a step.

        >>> [turn.step for turn in Turn(epoch=0, step=4, steps=5, epochs=1).gathered(3)]
        [3, 4]
        """
        first = self.step - self.step % every
        return [replace(self, step=step) for step in range(first, min(first + every, self.steps))]

    def completes(self, every: int) -> bool:
        """Whether this is the last turn of those that are gathered for one step."""
        return (self.step + 1) % every == 0 or self.step + 1 == self.steps


START = Turn(epoch=0, step=0, steps=1, epochs=1)


@dataclass(frozen=True)
class Documents:
    """A batch of a site's reports: its words, its labels, and a number a document that seeds its dropout."""

    batch: TokenBatch
    labels: Mapping[str, Tensor]
    noise: Tensor


class Site:
    """One registry: never shows anything but updates of shared parameters and counts."""

    def __init__(
        self,
        reports: EncodedCorpus,
        *,
        name: str,
        registry: int,
        private: Private,
        settings: FederationSettings,
        seed: int,
        entropy: np.random.Generator | None = None,  # of the noise on updates; None: the system's
        secret: Seed | None = None,  # of batches and dropout; None: follows from seed and registry
    ):
        self.name, self.registry, self.private, self.settings, self.seed = name, registry, private, settings, seed
        self.reports, self.device = reports, private.encoder.embedding.weight.device
        self.secret = [seed, registry] if secret is None else secret
        # The split follows from the seed and the registry's number, which are in the plan and no secret: it is the same
        # in every mode. The number keeps two sites with the same reports apart.
        self.train, self.validate = hold_out_cases(
            reports.cases, share=settings.validation_share, seed=[seed, registry]
        )
        check_enough(reports.cases[self.train], least=settings.smallest_batch, name=name)
        if settings.positions and private.encoder.sparse:
            raise ValueError("orthogonality over positions has dense gradients: make the encoders with sparse=False")
        lazy = (EMBEDDING,) if private.encoder.sparse else ()
        self.optimiser = optimiser_for(private.named_parameters(), settings, lazy=lazy)
        self.local: SharedOptimiser | None = None
        # Features of the documents that the discriminator's rounds read, for as long as the encoder stands still.
        self.known: Tensor | None = None
        self.best = snapshot(private)
        self.entropy = entropy or np.random.default_rng()
        self.repeated = entropy  # what noise in whole numbers is drawn from; None: the system's entropy
        self._targets = targets_of(reports, self.device)
        self._plan: tuple[tuple[int, int], list[np.ndarray]] = (-1, -1), []

    @property
    def documents(self) -> int:
        return len(self.train)

    def rows(self, turn: Turn) -> np.ndarray:
        """The documents of a step: the epoch's order, which is the site's secret, cut into as many parts as it has
        steps, none of fewer cases than ``smallest_batch``."""
        if self._plan[0] != (turn.epoch, turn.steps):
            rng = generator(self.secret, turn.epoch)
            order, least = rng.permutation(self.train), self.settings.smallest_batch
            batches = own_batches.cut(order, self.reports.cases, steps=turn.steps, least=least, rng=rng)
            self._plan = (turn.epoch, turn.steps), batches
        return self._plan[1][turn.step]

    def read(self, rows: np.ndarray, turn: Turn) -> Documents:
        ids, offsets = take_documents(self.reports.ids, self.reports.offsets, rows)
        here = torch.from_numpy(rows.astype(np.int64)).to(self.device)
        noise = dropout_numbers(rows, secret=self.secret, epoch=turn.epoch).to(self.device)
        labels = {task: label[here] for task, label in self._targets.items()}
        return Documents(TokenBatch(ids=ids, offsets=offsets).to(self.device), labels, noise)

    def loss(self, shared: Shared, features: Tensor, documents: Documents, turn: Turn) -> Tensor:
        """L_task + λ L_adv + γ L_orth of a batch whose shared features (B, K·F) are given."""
        settings = self.settings
        own = self.private.features(documents.batch)
        joined = drop(torch.cat([features, own], dim=1), settings.dropout, documents.noise)
        width = features.shape[1]
        loss = task_loss(self.task_logits(shared, joined[:, :width], joined[:, width:]), documents.labels)
        if settings.common_heads:
            loss = loss + task_loss(shared.logits(joined[:, :width]), documents.labels)
        loss = loss + self.adversarial(shared, features, strength_at(settings, turn))
        if settings.orthogonality:
            loss = loss + settings.orthogonality * self.overlap(shared, features, own, documents.batch)
        return loss

    def overlap(self, shared: Shared, features: Tensor, own: Tensor, batch: TokenBatch) -> Tensor:
        """L_orth, over pooled features or over positions."""
        if not self.settings.positions:
            return orthogonality(features, own, scale=self.settings.scale)
        ours, inside = shared.encoder.positions(batch)
        return orthogonality_of_positions(
            ours, self.private.encoder.positions(batch)[0], inside, scale=self.settings.scale
        )

    def task_logits(self, shared: Shared, features: Tensor, own: Tensor) -> dict[str, Tensor]:
        """Each task's logits (B, classes) from shared and private features."""
        scores = self.private.logits(features, own)
        return added(scores, shared.logits(features)) if self.settings.added_heads else scores

    def adversarial(self, shared: Shared, features: Tensor, strength: float) -> Tensor:
        """The discriminator's loss, turned against the encoder; where they take turns, it is held still."""
        if not takes_turns(self.settings):
            return self.discrimination(shared, reverse(features, strength))
        with frozen(shared.discriminator):
            return -strength * shared.discrimination(features, self.registry_numbers(features))

    def discrimination(self, shared: Shared, features: Tensor) -> Tensor:
        """The discriminator's loss on a batch of this site's documents."""
        return shared.discrimination(features, self.registry_numbers(features), flatness=self.settings.flatness)

    def registry_numbers(self, features: Tensor) -> Tensor:
        """This registry's number, once for each document: what the discriminator is to name."""
        return torch.full((len(features),), self.registry, device=features.device)

    def touch(self, batch: TokenBatch) -> None:
        """Bring the words of a batch up to date in the private embedding, before it is read."""
        if self.optimiser.lazy:
            self.optimiser.touch(batch.ids.unique().long())

    def advance(self, turn: Turn, *, every: int) -> None:
        """A step of the private part along the mean of the gradients it has gathered, when it has them all."""
        if not turn.completes(every):
            return
        embedding = self.private.encoder.embedding.weight
        if embedding.grad is not None and embedding.grad.is_sparse and every > 1:
            embedding.grad = embedding.grad.coalesce()  # a word may stand in several turns' gradients
        self.optimiser.learning_rate = rate_at(self.settings, turn)
        self.optimiser.step(scale=1 / (turn.step % every + 1))

    def update(self, shared: Shared, turns: Sequence[Turn]) -> wire.Arrays:
        """What the site answers to a round, checked by the gate."""
        if self.settings.local_steps > 1 and not turns[0].discriminator_only:
            return self.change(shared, turns)
        return self.gradients(shared, turns)

    def gradients(self, shared: Shared, turns: Sequence[Turn]) -> wire.Arrays:
        """One step: the private part moves, and the gradient of the shared part is returned; that of the discriminator
        alone is over the documents of all the turns."""
        shared.zero_grad(set_to_none=True)
        turn = turns[0]
        if turn.discriminator_only:
            if self.known is None or not turn.again:
                documents = self.read(np.concatenate([self.rows(each) for each in turns]), turn)
                with torch.no_grad():
                    self.known = shared.features(documents.batch)
            self.discrimination(shared, self.known).backward()
        else:
            documents = self.read(self.rows(turn), turn)
            self.touch(documents.batch)
            self.loss(shared, shared.features(documents.batch), documents, turn).backward()
            self.advance(turn, every=turns_a_private_step(self.settings, shared))
        moving = shapes_of_update(shared, self.settings, turn)
        named = ((name, parameter) for name, parameter in shared.named_parameters() if name in moving)
        return self.through_gate({name: dense(p.grad, p.shape) for name, p in named}, moving)

    def through_gate(self, update: wire.Arrays, manifest: wire.Manifest) -> wire.Arrays:
        """An update on its way out: clipped and noised if the settings say so, and checked by the gate."""
        if self.settings.clip is not None:
            multiplier = 0.0 if self.settings.bits else self.settings.noise  # whole numbers get theirs as such
            update = noised(update, clip=self.settings.clip, multiplier=multiplier, rng=self.entropy)
        wire.check(update, manifest, sender=self.name, error=wire.GateError)
        return update

    def change(self, shared: Shared, turns: Sequence[Turn]) -> wire.Arrays:
        """Several local steps on a copy of the shared part: what they changed.

        The discriminator stands still: a site knows its own registry alone, and a discriminator that takes steps there
        soon names it whatever it reads. It moves in rounds of its own.
        """
        moving = shapes_of_update(shared, self.settings, turns[0])
        parameters = {name: parameter for name, parameter in shared.named_parameters() if name in moving}
        before = {name: parameter.detach().clone() for name, parameter in parameters.items()}
        optimiser = self.local_optimiser(shared)
        shared.zero_grad(set_to_none=True)  # what a round of the discriminator has left
        for turn in turns:
            documents = self.read(self.rows(turn), turn)
            self.touch(documents.batch)
            optimiser.touch(documents.batch)
            self.loss(shared, shared.features(documents.batch), documents, turn).backward()
            optimiser.step(turn)
            self.advance(turn, every=turns_a_private_step(self.settings, shared))
        optimiser.settle()
        return self.through_gate(
            {name: (p.detach() - before[name]).cpu().numpy() for name, p in parameters.items()}, moving
        )

    def local_optimiser(self, shared: Shared) -> "SharedOptimiser":
        """The site's own optimiser of its copy of the shared part, for local steps: its running means outlast a round,
        without which every round would begin with the largest steps that Adam takes."""
        if self.local is None:
            self.local = SharedOptimiser(shared, self.settings, lazy=shared.encoder.sparse)
        return self.local

    @torch.no_grad()
    def scores(self, shared: Shared, reports: EncodedCorpus, *, features: Tensor | None = None) -> dict[str, Tensor]:
        """Each task's logits (documents, classes) without dropout, where the site works; ``features`` are the shared
        ones (documents, K·F), where they are known."""
        self.optimiser.settle()
        parts, done = [], 0
        for batch in batches_of(reports, device=self.device):
            common = shared.features(batch) if features is None else features[done : done + batch.documents]
            parts.append(self.task_logits(shared, common, self.private.features(batch)))
            done += batch.documents
        return {task: torch.cat([part[task] for part in parts]) for task in reports.tasks}

    def logits(self, shared: Shared, reports: EncodedCorpus) -> dict[str, np.ndarray]:
        """Each task's logits (documents, classes) of any reports."""
        return {task: scores.cpu().numpy() for task, scores in self.scores(shared, reports).items()}

    @cached_property
    def validation_reports(self) -> EncodedCorpus:
        """The reports of the site's validation cases."""
        return self.reports.take(self.validate)

    def validation_loss(self, shared: Shared, *, features: Tensor | None = None) -> float:
        """The task loss on the site's held-out cases: one number, which the hub averages to choose the best epoch."""
        scores = self.scores(shared, self.validation_reports, features=features)
        return float(task_loss(scores, targets_of(self.validation_reports, self.device)))

    def keep(self) -> None:
        """This epoch was the best so far."""
        self.optimiser.settle()
        self.best = snapshot(self.private)

    def restore(self) -> None:
        self.private.load_state_dict(self.best)


def dropout_numbers(rows: np.ndarray, *, secret: Seed, epoch: int) -> Tensor:
    """A number for each of a site's documents, (documents,): it seeds the document's dropout in this epoch."""
    return torch.from_numpy(noise(rows, seed=[*np.atleast_1d(secret).tolist(), 3], epoch=epoch))


def added(scores: Mapping[str, Tensor], others: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Two heads' logits, added."""
    return {task: values + others[task] for task, values in scores.items()}


def turns_a_private_step(settings: FederationSettings, shared: Shared) -> int:
    """Turns that a step of a private part takes together."""
    return settings.private_every or shared.registries


def strength_at(settings: FederationSettings, turn: Turn) -> float:
    """λ at a turn."""
    return settings.adversary * (ramp(turn.done) if settings.rising else 1.0)


def rate_at(settings: FederationSettings, turn: Turn) -> float:
    """The learning rate at a turn."""
    usual = 1e-3 if settings.optimiser == "adam" else 1.0
    return (settings.learning_rate or usual) * (fall(turn.done) if settings.falling else 1.0)


def takes_turns(settings: FederationSettings) -> bool:
    """Whether the discriminator steps by itself alone, and stands still while the encoders answer it."""
    return settings.alternating or settings.local_steps > 1


def shapes_of_update(shared: Shared, settings: FederationSettings, turn: Turn) -> dict[str, tuple[int, ...]]:
    """The names and shapes of what a round moves: all that a site may answer to it with.

    What stands still is not sent, so that nobody's noise or malice moves it: the encoder in a round of the
    discriminator's own, the discriminator where it has such rounds alone, and its yardstick, which the hub sets, ever.
    """
    judge = turn.discriminator_only or not takes_turns(settings)
    return {
        name: tuple(parameter.shape)
        for name, parameter in shared.named_parameters()
        if parameter.requires_grad and (judge if name.startswith(wire.DISCRIMINATOR) else not turn.discriminator_only)
    }


def discriminator_turns(settings: FederationSettings) -> int:
    """Steps of the discriminator on its own before a joint step; a joint step with reversal is one of them."""
    return settings.discriminator_steps - (0 if takes_turns(settings) else 1)


def optimiser_for(
    parameters: Iterable[tuple[str, torch.nn.Parameter]], settings: FederationSettings, *, lazy: tuple[str, ...] = ()
) -> Optimiser:
    """The configured optimiser; ``lazy`` names parameters with sparse gradients."""
    kind = Adam if settings.optimiser == "adam" else Adadelta
    return kind(dict(parameters), lazy=lazy, learning_rate=rate_at(settings, START))


class SharedOptimiser:
    """Steps of the shared part: the discriminator has an optimiser of its own, because it may step more often."""

    def __init__(self, shared: Shared, settings: FederationSettings, *, lazy: bool):
        named = [(name, parameter) for name, parameter in shared.named_parameters() if parameter.requires_grad]
        against = [(name, parameter) for name, parameter in named if name.startswith(wire.DISCRIMINATOR)]
        others = [(name, parameter) for name, parameter in named if not name.startswith(wire.DISCRIMINATOR)]
        self.settings = settings
        self.discriminator = optimiser_for(against, settings)
        self.encoder = optimiser_for(others, settings, lazy=(EMBEDDING,) if lazy else ())

    def step(self, turn: Turn, *, discriminator_only: bool = False) -> None:
        self.discriminator.step()
        if not discriminator_only:
            self.encoder.learning_rate = rate_at(self.settings, turn)
            self.encoder.step()

    def touch(self, batch: TokenBatch) -> None:
        if self.encoder.lazy:
            self.encoder.touch(batch.ids.unique().long())

    def settle(self) -> None:
        self.encoder.settle()


def snapshot(module: torch.nn.Module) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}


def batches_of(reports: EncodedCorpus, *, device: torch.device | str = "cpu") -> Iterator[TokenBatch]:
    """All documents in order, in batches of bounded size."""
    return batches_between(reports.ids, reports.offsets, device=device)


def batches_between(ids: np.ndarray, offsets: np.ndarray, *, device: torch.device | str) -> Iterator[TokenBatch]:
    for start, stop in spans(offsets, tokens=TOKENS_AT_ONCE):
        part = np.asarray(ids[offsets[start] : offsets[stop]])
        yield TokenBatch(ids=part, offsets=offsets[start : stop + 1] - offsets[start]).to(device)


@torch.no_grad()
def shared_features(shared: Shared, reports: Sequence[EncodedCorpus], *, device: torch.device) -> list[Tensor]:
    """The shared features of several sites' documents, each (documents, K·F), all through the encoder together."""
    starts = np.concatenate([[0], np.cumsum([len(own.ids) for own in reports])])
    ends = [own.offsets[1:] + start for own, start in zip(reports, starts, strict=False)]
    ids, offsets = np.concatenate([own.ids for own in reports]), np.concatenate([[0], *ends])
    features = torch.cat([shared.features(batch) for batch in batches_between(ids, offsets, device=device)])
    return list(features.split([own.documents for own in reports]))


def targets_of(reports: EncodedCorpus, device: torch.device) -> dict[str, Tensor]:
    """Each task's labels (documents,) where they are used."""
    return {
        task: torch.from_numpy(np.asarray(label).astype(np.int64)).to(device) for task, label in reports.labels.items()
    }


def dense(gradient: Tensor | None, shape: torch.Size) -> np.ndarray:
    """A gradient as an array; zeros where there is none."""
    if gradient is None:
        return np.zeros(tuple(shape), np.float32)
    return (gradient.to_dense() if gradient.is_sparse else gradient).cpu().numpy()


@contextmanager
def frozen(module: torch.nn.Module) -> Generator[None]:
    """The module's parameters get no gradient inside."""
    learnt = [parameter for parameter in module.parameters() if parameter.requires_grad]
    for parameter in learnt:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in learnt:
            parameter.requires_grad_(True)
