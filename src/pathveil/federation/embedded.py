"""Training in one process, no network: the same courses and the same sites as over the wire.

``drive`` puts a course's questions to sites in this process. With one local step a round there is a quicker way to the
same numbers, ``JointCourse``: all sites hold the same shared parameters, so their batches go through the shared encoder
together, where the table of words is made once instead of once a site, and one backward pass adds the sites' gradients
up.
"""

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import cast

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from pathveil.federation import wire
from pathveil.federation.hub import History, Hub
from pathveil.federation.losses import orthogonality_by_site, reverse, scaled, tasks_by_site
from pathveil.federation.plain import PlainSite
from pathveil.federation.protocol.course import Answers, Course, Exchange, Plain, SharedPrivate, weighed, weight_in
from pathveil.federation.protocol.message import Message
from pathveil.federation.protocol.site_work import PlainWork, SharedWork, SiteWork, close_answer, contribution
from pathveil.federation.settings import FederationSettings
from pathveil.federation.site import (
    Documents,
    SharedOptimiser,
    Site,
    Turn,
    added,
    discriminator_turns,
    frozen,
    shapes_of_update,
    shared_features,
    strength_at,
    turns_a_private_step,
)
from pathveil.federation.sums import Sums, Total
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
    # Positions go through the reference kernel; clipping and whole numbers are of each site's own update; and in one
    # pass each document weighs the same, whatever its site's batches were filled up with.
    plain = settings.clip is None and settings.smallest_batch == 1 and settings.largest_weight is None
    if joint and plain and settings.local_steps == 1 and not settings.positions and not settings.bits:
        course = JointCourse(shared, sites, settings=settings)
        works = [SharedWork(site, shared) for site in sites]
        drive(course, works, ask=course.ask, stage="training sites together", progress=progress)
    else:
        course = SharedPrivate(shared, settings=settings, sites=len(sites))
        works = [SharedWork(site, deepcopy(shared)) for site in sites]
        drive(course, works, stage="training sites together", progress=progress)
    course.hub.restore()
    return course.hub, course.history


def train_plain(
    sites: Sequence[PlainSite], *, cyclic: bool = False, stage: str, progress: Progress = silent
) -> History:
    """Federated averaging after every epoch, or one network going round; every site gets that of the best epoch.

    All sites start from the same weights, because they were made from the same seed.
    """
    first = sites[0]
    course = Plain(first.model, settings=first.settings, sites=len(sites), cyclic=cyclic)
    drive(course, [PlainWork(site) for site in sites], stage=stage, progress=progress)
    return course.history


def drive(
    course: Course,
    sites: Sequence[SiteWork],
    *,
    ask: Callable[[Exchange], Answers] | None = None,  # another way to the sites' answers than asking one by one
    stage: str,
    progress: Progress,
) -> None:
    """Put all questions of a course to the sites and take their answers, as ``hub_run`` does over a network."""
    keep = False
    for exchange in course.exchanges([site.documents for site in sites]):
        if keep:
            for site in sites:
                site.keep()
        if exchange.kind == "finish":
            course.history.kept = course.best_epoch.kept_epoch()
        if course.settings.bits and exchange.kind != "finish":
            keep = course.take_sum(exchange, sum_of(course, sites, exchange))
        else:
            keep = course.take(exchange, ask(exchange) if ask else ask_each(course, sites, exchange))
        if exchange.kind == "close":
            progress(stage, exchange.epoch + 1, course.settings.epochs)


def ask_each(course: Course, sites: Sequence[SiteWork], exchange: Exchange) -> Answers:
    """Arrays out and arrays in, site by site, as they travel in a deployment."""
    arrays = course.arrays(exchange, whole=False)
    answers = ((place, Message(*sites[place].answer(exchange, arrays))) for place in exchange.who)
    return [(sites[place].name, weighed(course, exchange, place, message)) for place, message in answers]


def sum_of(course: Course, sites: Sequence[SiteWork], exchange: Exchange) -> Total:
    """The sum over all sites that a hub would read off their masked answers."""
    sums, arrays = Sums.of(course.settings, sites=len(sites)), course.arrays(exchange, whole=False)
    exponents, weights = course.exponents(exchange), [weight_in(exchange, count) for count in course.counts]
    parts = [
        contribution(site, sums, exchange, arrays, documents=documents, exponents=exponents)
        for site, documents in zip(sites, weights, strict=True)
    ]
    return sums.total(exchange.kind, parts, course.moving(exchange), exponents, documents=sum(weights))


class JointCourse(SharedPrivate):
    """The same course where the hub and all sites are in one process and share one network: a round is one pass."""

    def __init__(self, shared: Shared, sites: Sequence[Site], *, settings: FederationSettings):
        super().__init__(shared, settings=settings, sites=len(sites))
        self.members = sites
        self.hub.optimiser = SharedOptimiser(shared, settings, lazy=shared.encoder.sparse)  # gradients stay sparse here
        self.private = [PrivateFeatures(site, every=turns_a_private_step(settings, shared)) for site in sites]

    def ask(self, exchange: Exchange) -> Answers:
        """The sites' answers; in a round there are none, for ``take_round`` does their steps."""
        if exchange.kind == "close":
            self.hub.optimiser.settle()
            held = [site.validation_reports for site in self.members]
            features = shared_features(self.hub.shared, held, device=self.members[0].device)
            told = [close_answer(site, self.hub.shared, own) for site, own in zip(self.members, features, strict=True)]
            return [
                (site.name, weighed(self, exchange, place, Message(facts)))
                for place, (site, facts) in enumerate(zip(self.members, told, strict=True))
            ]
        if exchange.kind == "finish":
            for site in self.members:
                site.restore()
        return []

    def take_round(self, exchange: Exchange, answers: Answers) -> None:
        (turn,) = exchange.turns
        self.hub.begin(turn)
        self.history.sent += wire.weight(self.hub.sent(again=turn.again)) * self.sites
        self.history.received += wire.weight(shapes_of_update(self.hub.shared, self.settings, turn)) * self.sites
        if not turn.discriminator_only:  # such a step is taken with the joint one, which needs the same features
            self.step(turn)

    def step(self, turn: Turn) -> None:
        """A step of all sites and the hub, the discriminator's own steps before it included."""
        shared, settings, optimiser = self.hub.shared, self.settings, self.hub.optimiser
        parts = [private.at(turn) for private in self.private]
        documents = joined([part for part, _ in parts])
        sizes = [part.batch.documents for part, _ in parts]
        owner, registry = owners(sizes, [site.registry for site in self.members], device=documents.noise.device)
        optimiser.touch(documents.batch)
        features = shared.features(documents.batch)  # (documents of all sites, K·F)
        for _ in range(discriminator_turns(settings)):
            # A site's share of the documents weighs its mean: together, the mean over all documents.
            shared.discrimination(features.detach(), registry, flatness=settings.flatness).backward()
            optimiser.step(turn, discriminator_only=True)
        # A site's private part moves along its own loss, of which the common one holds its share.
        shares = [number / sum(sizes) for number in sizes]
        own = torch.cat([scaled(f, 1 / share) for (_, f), share in zip(parts, shares, strict=True)])
        both = drop(torch.cat([features, own], dim=1), settings.dropout, documents.noise)
        logits = site_logits(self.members, both.split(sizes), shares)
        common = shared.logits(both[:, : features.shape[1]])
        loss = tasks_by_site(
            added(logits, common) if settings.added_heads else logits, documents.labels, owner, self.sites
        )
        if settings.common_heads:
            loss = loss + tasks_by_site(common, documents.labels, owner, self.sites)
        strength = strength_at(settings, turn)
        if settings.alternating:
            with frozen(shared.discriminator):
                loss = loss - strength * shared.discrimination(features, registry)
        else:
            loss = loss + shared.discrimination(reverse(features, strength), registry, flatness=settings.flatness)
        if settings.orthogonality:
            loss = loss + settings.orthogonality * orthogonality_by_site(features, own, owner, scale=settings.scale)
        loss.backward()
        optimiser.step(turn)
        for private in self.private:
            private.advance(turn)


class PrivateFeatures:
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
