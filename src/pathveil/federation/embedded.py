"""Shared/private training in one process, no network: the same sites and the same hub as over the wire.

``by_messages`` passes arrays between hub and sites exactly as a deployment does. With one local step a round there is a
quicker way to the same numbers, ``jointly``: all sites hold the same shared parameters, so their batches go through the
shared encoder together, where the table of words is made once instead of once a site, and one backward pass adds the
sites' gradients up.
"""

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import cast

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from pathveil.federation import wire
from pathveil.federation.hub import History, Hub, kept_epoch, load, schedule, steps_of
from pathveil.federation.losses import orthogonality_by_site, reverse, scaled, tasks_by_site
from pathveil.federation.settings import FederationSettings
from pathveil.federation.site import (
    Documents,
    SharedOptimiser,
    Site,
    Turn,
    added,
    discriminator_turns,
    frozen,
    gathering,
    moved,
    shared_features,
    strength_at,
)
from pathveil.model import TokenBatch
from pathveil.model.mtcnn import drop
from pathveil.model.shared_private import Linear, Shared
from pathveil.progress import Progress, silent


def train(
    sites: Sequence[Site],
    shared: Shared,
    *,
    settings: FederationSettings,
    joint: bool = True,
    progress: Progress = silent,
) -> tuple[Hub, History]:
    """Train sites together and leave hub and sites at the best epoch by the sites' validation cases."""
    hub, history = Hub(shared, settings=settings), History()
    steps = steps_of([site.documents for site in sites], settings.batch_size)
    # Positions go through the reference kernel; clipping is of each site's own update.
    joint = joint and settings.local_steps == 1 and not settings.positions and settings.clip is None
    step = jointly(hub, sites, history) if joint else by_messages(hub, sites, history)
    epoch = 0
    for turns in schedule(settings, steps):
        hub.begin(turns[0])
        step(turns)
        last = turns[-1]
        history.rounds += 1
        if last.step == steps - 1 and not last.discriminator_only:
            epoch = last.epoch
            close_epoch(hub, sites, history, epoch=epoch)
            history.account(settings, updates=history.rounds)
            progress("training sites together", epoch + 1, settings.epochs)
    history.kept = kept_epoch(hub.best_epoch + 1)
    hub.restore()
    for site in sites:
        site.restore()
    return hub, history


def close_epoch(hub: Hub, sites: Sequence[Site], history: History, *, epoch: int) -> None:
    hub.optimiser.settle()
    known = shared_features(hub.shared, [site.held for site in sites], device=sites[0].device)
    losses = [
        (site.documents, site.validation_loss(hub.shared, features=own)) for site, own in zip(sites, known, strict=True)
    ]
    history.validation_loss.append(sum(n * loss for n, loss in losses) / sum(n for n, _ in losses))
    history.feature_norm.append(sum(float(own.norm(dim=1).mean()) for own in known) / len(sites))
    if hub.judge(losses, epoch=epoch):
        for site in sites:
            site.keep()


def by_messages(hub: Hub, sites: Sequence[Site], history: History) -> Callable[[list[Turn]], None]:
    """HubRun as a deployment runs them: arrays out, arrays in."""
    copies = [deepcopy(hub.shared) for _ in sites]

    def step(turns: list[Turn]) -> None:
        sent, updates = hub.arrays(again=turns[0].again), []
        for site, copy in zip(sites, copies, strict=True):
            load(copy, sent)
            history.sent += wire.size(sent)
            updates.append((site.name, sum(len(site.rows(turn)) for turn in turns), site.update(copy, turns)))
        history.refused += hub.combine(updates, turns[0])
        history.received = hub.received

    return step


def jointly(hub: Hub, sites: Sequence[Site], history: History) -> Callable[[list[Turn]], None]:
    """The same steps with all sites' documents through the shared encoder at once."""
    shared, settings = hub.shared, hub.settings
    hub.optimiser = SharedOptimiser(shared, settings, lazy=shared.encoder.sparse)  # gradients stay sparse here
    size = wire.weight(hub.manifest)
    judge = wire.weight(wire.of_discriminator(hub.manifest))
    extra = discriminator_turns(settings)
    ahead = [Ahead(site, every=gathering(settings, shared)) for site in sites]

    def step(turns: list[Turn]) -> None:
        (turn,) = turns
        history.sent += (judge if turn.again else size) * len(sites)
        history.received += wire.weight(moved(shared, settings, turn)) * len(sites)
        if turn.discriminator_only:
            return  # taken together with the joint step below, which needs the same features
        parts = [private.at(turn) for private in ahead]
        documents = joined([part for part, _ in parts])
        sizes = [part.batch.documents for part, _ in parts]
        owner, registry = owners(sizes, [site.registry for site in sites], device=documents.noise.device)
        hub.optimiser.touch(documents.batch)
        features = shared.features(documents.batch)  # (documents of all sites, K·F)
        for _ in range(extra):
            # A site's share of the documents weighs its mean: together, the mean over all documents.
            shared.discrimination(features.detach(), registry, flatness=settings.flatness).backward()
            hub.optimiser.step(turn, discriminator_only=True)
        # A site's private part moves along its own loss, of which the common one holds its share.
        shares = [number / sum(sizes) for number in sizes]
        own = torch.cat([scaled(f, 1 / share) for (_, f), share in zip(parts, shares, strict=True)])
        both = drop(torch.cat([features, own], dim=1), settings.dropout, documents.noise)
        logits = site_logits(sites, both.split(sizes), shares)
        common = shared.logits(both[:, : features.shape[1]])
        loss = tasks_by_site(
            added(logits, common) if settings.added_heads else logits, documents.labels, owner, len(sites)
        )
        if settings.common_heads:
            loss = loss + tasks_by_site(common, documents.labels, owner, len(sites))
        strength = strength_at(settings, turn)
        if settings.alternating:
            with frozen(shared.discriminator):
                loss = loss - strength * shared.discrimination(features, registry)
        else:
            loss = loss + shared.discrimination(reverse(features, strength), registry, flatness=settings.flatness)
        if settings.orthogonality:
            loss = loss + settings.orthogonality * orthogonality_by_site(features, own, owner, scale=settings.scale)
        loss.backward()
        hub.optimiser.step(turn)
        for private in ahead:
            private.advance(turn)

    return step


class Ahead:
    """A site's private features for all turns that one step of its private part gathers, made in one pass.

    The private part stands still between its steps, so its features need not wait for their turns: one pass forwards
    when the first turn comes, and one backwards after the last, from the gradients that the turns have left.
    """

    def __init__(self, site: Site, *, every: int):
        self.site, self.every = site, every
        self.documents: list[Documents] = []

    def at(self, turn: Turn) -> tuple[Documents, Tensor]:
        """The documents of a turn and their private features (B, K·F)."""
        place = turn.step % self.every
        if place == 0:
            turns = turn.gathered(self.every)
            self.documents = [self.site.read(self.site.rows(each), each) for each in turns]
            batch = joined(self.documents).batch if len(turns) > 1 else self.documents[0].batch
            self.site.touch(batch)
            self.features = self.site.private.features(batch)
            self.values = self.features.detach().requires_grad_()
            self.parts = self.values.split([own.batch.documents for own in self.documents])
        return self.documents[place], self.parts[place]

    def advance(self, turn: Turn) -> None:
        if turn.completes(self.every):
            self.features.backward(self.values.grad)
        self.site.advance(turn, every=self.every)


def site_logits(sites: Sequence[Site], features: Sequence[Tensor], shares: Sequence[float]) -> dict[str, Tensor]:
    """Each task's logits of all sites' documents, every site's by its own heads; their gradients lose its share."""
    tasks = list(sites[0].private.heads)
    answers = []
    for site, own, share in zip(sites, features, shares, strict=True):
        heads = [cast(Linear, site.private.heads[task]) for task in tasks]
        weight = scaled(torch.cat([head.weight for head in heads]), 1 / share)  # (classes of all tasks, 2·K·F)
        bias = scaled(torch.cat([head.bias for head in heads]), 1 / share)
        answers.append(functional.linear(own, weight, bias))
    classes = [cast(Linear, head).out_features for head in sites[0].private.heads.values()]
    return dict(zip(tasks, torch.cat(answers).split(classes, dim=1), strict=True))


def joined(documents: Sequence[Documents]) -> Documents:
    """One batch of all the documents, in order."""
    lengths = torch.cat([own.batch.offsets.diff() for own in documents])
    return Documents(
        TokenBatch(
            ids=torch.cat([own.batch.ids for own in documents]), offsets=functional.pad(lengths.cumsum(0), (1, 0))
        ),
        {task: torch.cat([own.labels[task] for own in documents]) for task in documents[0].labels},
        torch.cat([own.noise for own in documents]),
    )


def owners(sizes: Sequence[int], registries: Sequence[int], *, device: torch.device) -> tuple[Tensor, Tensor]:
    """Each document's site, by its place among the sites, and that site's registry, both (documents,).

    >>> [numbers.tolist() for numbers in owners([2, 1], [5, 3], device=torch.device("cpu"))]
    [[0, 0, 1], [5, 5, 3]]
    """
    owner = np.repeat(np.arange(len(sizes)), sizes)
    return torch.from_numpy(owner).to(device), torch.from_numpy(np.asarray(registries)[owner]).to(device)
