"""Shared/private training in one process, no network: the same sites and the same hub as over the wire.

``by_messages`` passes arrays between hub and sites exactly as a deployment does. With one local step a round there is a
quicker way to the same numbers, ``jointly``: all sites hold the same shared parameters, so their batches go through the
shared encoder together, where the table of words is made once instead of once a site, and one backward pass adds the
sites' gradients up.
"""

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field

import torch

from pathveil.federation import wire
from pathveil.federation.config import FederationConfig
from pathveil.federation.hub import Hub, load, schedule, steps_of
from pathveil.federation.losses import registry_loss
from pathveil.federation.site import Documents, SharedOptimiser, Site, Turn, discriminator_turns
from pathveil.model import TokenBatch
from pathveil.model.shared_private import Shared
from pathveil.progress import Progress, silent


@dataclass
class History:
    """What happened, epoch by epoch."""

    validation_loss: list[float] = field(default_factory=list)
    feature_norm: list[float] = field(
        default_factory=list
    )  # mean norm of a document's shared features: near 0, collapsed
    refused: list[str] = field(default_factory=list)
    rounds: int = 0
    sent: int = 0  # bytes from the hub to sites
    received: int = 0


def train(
    sites: Sequence[Site], shared: Shared, *, config: FederationConfig, joint: bool = True, progress: Progress = silent
) -> tuple[Hub, History]:
    """Train sites together and leave hub and sites at the best epoch by the sites' validation cases."""
    hub, history = Hub(shared, config=config), History()
    steps = steps_of([site.documents for site in sites], config.batch_size)
    step = jointly(hub, sites, history) if joint and config.local_steps == 1 else by_messages(hub, sites, history)
    epoch = 0
    for turns in schedule(config, steps):
        step(turns)
        last = turns[-1]
        history.rounds += 1
        if last.step == steps - 1 and not last.discriminator_only:
            epoch = last.epoch
            close_epoch(hub, sites, history, epoch=epoch)
            progress("training sites together", epoch + 1, config.epochs)
    hub.restore()
    for site in sites:
        site.restore()
    return hub, history


def close_epoch(hub: Hub, sites: Sequence[Site], history: History, *, epoch: int) -> None:
    hub.optimiser.settle()
    losses = [(site.documents, site.validation_loss(hub.shared)) for site in sites]
    history.validation_loss.append(sum(n * loss for n, loss in losses) / sum(n for n, _ in losses))
    history.feature_norm.append(sum(feature_norm(hub.shared, site) for site in sites) / len(sites))
    if hub.judge(losses, epoch=epoch):
        for site in sites:
            site.keep()


@torch.no_grad()
def feature_norm(shared: Shared, site: Site) -> float:
    """Mean norm of the shared features of a site's validation documents."""
    taken = site.reports.take(site.validate)
    batch = TokenBatch(ids=taken.ids, offsets=taken.offsets)
    return float(shared.features(batch).norm(dim=1).mean())


def by_messages(hub: Hub, sites: Sequence[Site], history: History) -> Callable[[list[Turn]], None]:
    """Rounds as a deployment runs them: arrays out, arrays in."""
    copies = [deepcopy(hub.shared) for _ in sites]
    exact = hub.config.local_steps == 1

    def step(turns: list[Turn]) -> None:
        sent, updates = hub.arrays(), []
        for site, copy in zip(sites, copies, strict=True):
            load(copy, sent)
            history.sent += wire.size(sent)
            update = site.gradients(copy, turns[0]) if exact else site.change(copy, turns)
            updates.append((site.name, sum(len(site.rows(turn)) for turn in turns), update))
        history.refused += hub.combine(updates, turns[0])
        history.received = hub.received

    return step


def jointly(hub: Hub, sites: Sequence[Site], history: History) -> Callable[[list[Turn]], None]:
    """The same steps with all sites' documents through the shared encoder at once."""
    shared, config = hub.shared, hub.config
    hub.optimiser = SharedOptimiser(shared, config, lazy=True)  # gradients stay sparse here
    size = sum(parameter.numel() * 4 for parameter in shared.parameters())
    extra = discriminator_turns(config)

    def step(turns: list[Turn]) -> None:
        (turn,) = turns
        history.sent += size * len(sites)
        history.received += size * len(sites)
        if turn.discriminator_only:
            return  # taken together with the joint step below, which needs the same features
        documents = [site.read(site.rows(turn), turn) for site in sites]
        batch = joined(documents)
        hub.optimiser.touch(batch.ids.unique().long())
        for site, own in zip(sites, documents, strict=True):
            site.touch(own)
        features = shared.features(batch)  # (documents of all sites, K·F)
        sizes = [own.batch.documents for own in documents]
        shares = [size / sum(sizes) for size in sizes]
        for _ in range(extra):
            fixed = features.detach().split(sizes)
            losses = [registry_loss(shared.discriminate(f), s.registry) for f, s in zip(fixed, sites, strict=True)]
            torch.stack([share * loss for share, loss in zip(shares, losses, strict=True)]).sum().backward()
            hub.optimiser.step(discriminator_only=True)
        parts = zip(sites, features.split(sizes), documents, shares, strict=True)
        torch.stack([share * site.loss(shared, part, own, turn) for site, part, own, share in parts]).sum().backward()
        hub.optimiser.step()
        # A site's private part moves along its own loss, of which it got its share of the common one.
        for site, share in zip(sites, shares, strict=True):
            site.optimiser.step(scale=1 / share)

    return step


def joined(documents: Sequence[Documents]) -> TokenBatch:
    """One batch of all sites' documents, in the sites' order."""
    lengths = torch.cat([own.batch.offsets.diff() for own in documents])
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
    return TokenBatch(ids=torch.cat([own.batch.ids for own in documents]), offsets=offsets)
