"""The hub's part of a run as a course of exchanges, each of which a restarted hub can go on from.

An exchange is one question to sites and their answers: a round of steps, an epoch of a plain network, the closing of an
epoch (each site's validation loss decides which epoch is the best), or the end. ``SharedPrivate`` is the distribution
paper's training around ``Hub``; ``Plain`` is federated averaging or one network going from site to site.

``hub_run`` drives a course over messages, ``embedded`` in one process. With ``bits`` in the settings a course takes no
answers but their sum over all sites (``sums``), in ranges that it tells with its question.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
import torch
from torch import Tensor

from pathveil.errors import FederationError, UsageError
from pathveil.federation import wire
from pathveil.federation.fixed_point import next_exponent
from pathveil.federation.hub import (
    ALL,
    BestEpoch,
    History,
    Hub,
    accepted,
    average,
    load,
    schedule,
    with_noise,
)
from pathveil.federation.noise import epsilon
from pathveil.federation.protocol.message import Message
from pathveil.federation.protocol.plan import Plan
from pathveil.federation.settings import FederationSettings
from pathveil.federation.shares import bounded, steps_of, weight_of
from pathveil.federation.site import Turn, shapes_of_update, turns_a_private_step
from pathveil.federation.sums import Sums, Total
from pathveil.model import MTCNN
from pathveil.model.shared_private import Shared

MOST_STEPS = 2_000_000  # of a run: all of them are worked out, by sites too, before the first

Answers = Sequence[tuple[str, Message]]  # each site's name and answer, in the plan's order of sites


@dataclass(frozen=True)
class Exchange:
    """One question; ``who`` are the places of the sites that answer it."""

    kind: Literal["round", "epoch", "close", "finish"]
    who: tuple[int, ...]
    epoch: int
    turns: tuple[Turn, ...] = field(default=())

    def facts(self) -> dict[str, Any]:
        """The question as a site gets it."""
        return {"do": self.kind, "epoch": self.epoch, "turns": [asdict(turn) for turn in self.turns]}


class Course(Protocol):
    settings: FederationSettings
    history: History
    counts: list[int]  # the sites' documents, bounded, once the exchanges are known

    @property
    def best_epoch(self) -> BestEpoch: ...

    def exchanges(self, documents: Sequence[int]) -> list[Exchange]:
        """All exchanges of the run, for sites that train on so many documents each."""
        ...

    def arrays(self, exchange: Exchange, *, whole: bool = True) -> wire.Arrays:
        """What goes out with a question; not ``whole``: to a site that has what did not move since the last one."""
        ...

    def settled(self, exchange: Exchange) -> bool:
        """Whether all parts can be saved before this exchange: no private part has gathered half of a step."""
        ...

    def take(self, exchange: Exchange, answers: Answers) -> bool:
        """Take answers whose numbers were checked; True where they close an epoch that is the best so far."""
        ...

    def moving(self, exchange: Exchange) -> wire.Manifest:
        """The names and shapes of what sites answer a question with."""
        ...

    def exponents(self, exchange: Exchange) -> dict[str, int]:
        """The ranges of those arrays in a sum, as powers of two."""
        ...

    def take_sum(self, exchange: Exchange, total: Total) -> bool:
        """Take what the sum over all sites says, in place of their answers."""
        ...

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]: ...

    def restore(self, tensors: dict[str, Tensor], content: dict[str, Any]) -> None: ...


def exchanges_of(plan: Plan, documents: Sequence[int]) -> list[Exchange]:
    """All exchanges of a planned run: what a site holds the hub's questions against."""
    if plan.plain:
        return plain_exchanges(plan.settings, sites=len(plan.sites), cyclic=plan.mode == "cyclic")
    return shared_exchanges(plan.settings, bounded(documents, largest_weight=plan.settings.largest_weight))


def shared_exchanges(settings: FederationSettings, counts: Sequence[int]) -> list[Exchange]:
    """Rounds of steps that all sites take, and the closing of every epoch."""
    everyone = tuple(range(len(counts)))
    steps, course = steps_of(counts, settings.batch_size), []
    if settings.epochs * steps * (1 + settings.discriminator_steps) > MOST_STEPS:
        raise FederationError(f"the run would have more than {MOST_STEPS:,} steps; take larger batches or fewer epochs")
    for turns in schedule(settings, steps):
        last = turns[-1]
        course.append(Exchange("round", everyone, last.epoch, tuple(turns)))
        if last.step == steps - 1 and not last.discriminator_only:
            course.append(Exchange("close", everyone, last.epoch))
    return [*course, Exchange("finish", everyone, settings.epochs - 1)]


def plain_exchanges(settings: FederationSettings, *, sites: int, cyclic: bool) -> list[Exchange]:
    """Epochs of all sites, or of one after the other, and the closing of each."""
    everyone = tuple(range(sites))
    visits = [(place,) for place in everyone] if cyclic else [everyone]
    course = []
    for epoch in range(settings.epochs):
        course += [Exchange("epoch", who, epoch) for who in visits]
        course.append(Exchange("close", everyone, epoch))
    return [*course, Exchange("finish", everyone, settings.epochs - 1)]


def weighed(course: Course, exchange: Exchange, place: int, message: Message) -> Message:
    """A site's answer with the documents that it counts for. They follow from what the sites told when the run began:
    no site says with an update how much it weighs."""
    return Message({**message.facts, "documents": weight_in(exchange, course.counts[place])}, message.arrays)


def documents_in(course: Course, exchange: Exchange) -> int:
    """The documents that all sites together count for in an exchange."""
    return sum(weight_in(exchange, count) for count in course.counts)


def weight_in(exchange: Exchange, count: int) -> int:
    """The documents that a site with so many, bounded, counts for in an exchange."""
    steps = exchange.turns[0].steps if exchange.turns else 1
    return sum(weight_of(count, steps=steps, step=turn.step) for turn in exchange.turns) or count


def course_of(plan: Plan) -> Course:
    """The course of a planned run."""
    if plan.plain:
        return Plain(
            plan.networks().plain(), settings=plan.settings, sites=len(plan.sites), cyclic=plan.mode == "cyclic"
        )
    return SharedPrivate(plan.shared(), settings=plan.settings, sites=len(plan.sites))


class Ranges:
    """The range of every array in sums over sites: wide at first, then as the sites' largest values are."""

    def __init__(self, settings: FederationSettings, *, sites: int):
        self.sums = Sums.of(settings, sites=sites) if settings.bits else None
        self.known: dict[str, int] = {}

    def of(self, manifest: wire.Manifest, *, documents: int) -> dict[str, int]:
        assert self.sums is not None, "without bits there are no sums"
        first = self.sums.first_exponents(manifest, documents=documents)
        return {name: self.known.get(name, first[name]) for name in manifest}

    def learn(self, total: Total, exponents: Mapping[str, int]) -> None:
        """After a round: what the coming one of the same arrays needs."""
        for name, peaks in total.peaks.items():
            fall = 1 if name in self.known else 20  # the first range is a guess
            self.known[name] = next_exponent(exponents[name], peaks, fall=fall)


class SharedPrivate:
    """A shared encoder at the hub, private ones at the sites."""

    def __init__(self, shared: Shared, *, settings: FederationSettings, sites: int):
        self.settings, self.sites, self.history, self.counts = settings, sites, History(), list[int]()
        self.hub = Hub(shared, settings=settings)
        self.ranges = Ranges(settings, sites=sites)

    @property
    def best_epoch(self) -> BestEpoch:
        return self.hub.best_epoch

    def exchanges(self, documents: Sequence[int]) -> list[Exchange]:
        self.counts = bounded(documents, largest_weight=self.settings.largest_weight)
        return shared_exchanges(self.settings, self.counts)

    def arrays(self, exchange: Exchange, *, whole: bool = True) -> wire.Arrays:
        if exchange.kind == "round":
            self.hub.begin(exchange.turns[0])
            return self.hub.arrays(again=exchange.turns[0].again and not whole)
        if exchange.kind == "close":
            self.hub.optimiser.settle()
        return self.hub.best if exchange.kind == "finish" else self.hub.arrays()

    def settled(self, exchange: Exchange) -> bool:
        every = turns_a_private_step(self.settings, self.hub.shared)
        return exchange.kind != "round" or exchange.turns[0].step % every == 0

    def take(self, exchange: Exchange, answers: Answers) -> bool:
        if exchange.kind == "round":
            self.history.rounds += 1
            self.take_round(exchange, answers)
        if exchange.kind == "close":
            loss = close_epoch(self.history, answers)
            self.history.account(self.settings, updates=self.history.rounds)
            return self.hub.keep_if_best(loss, epoch=exchange.epoch)
        return False

    def take_round(self, exchange: Exchange, answers: Answers) -> None:
        """Combine the sites' updates and count what travelled."""
        updates = [(name, message.facts["documents"], message.arrays) for name, message in answers]
        self.history.updates = most_sent(self.history, answers)
        self.history.sent += wire.weight(self.hub.sent(again=exchange.turns[0].again)) * len(answers)
        self.history.received += sum(wire.size(arrays) for _, _, arrays in updates)
        self.history.refused += self.hub.combine(updates, exchange.turns[0])

    def moving(self, exchange: Exchange) -> wire.Manifest:
        return shapes_of_update(self.hub.shared, self.settings, exchange.turns[0]) if exchange.kind == "round" else {}

    def exponents(self, exchange: Exchange) -> dict[str, int]:
        return self.ranges.of(self.moving(exchange), documents=documents_in(self, exchange))

    def take_sum(self, exchange: Exchange, total: Total) -> bool:
        history = self.history
        if exchange.kind == "round":
            history.rounds += 1
            history.sent += wire.weight(self.hub.sent(again=exchange.turns[0].again)) * self.sites
            count_sum(history, total, self.ranges, self.moving(exchange), self.exponents(exchange))
            history.refused += self.hub.combine_sum(total.means, exchange.turns[0])
        if exchange.kind == "close":
            history.validation_loss.append(total.loss)
            history.feature_norm.append(total.feature_norm)
            history.account(self.settings, updates=history.rounds)
            return self.hub.keep_if_best(total.loss, epoch=exchange.epoch)
        return False

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        hub = self.hub
        tensors = {f"now.{name}": torch.from_numpy(array) for name, array in hub.arrays().items()}
        tensors |= {f"best.{name}": torch.from_numpy(array) for name, array in hub.best.items()}
        for part, optimiser in (("encoder", hub.optimiser.encoder), ("discriminator", hub.optimiser.discriminator)):
            tensors |= {f"{part}.{name}": tensor for name, tensor in optimiser.state().items()}
        norms = {"norms": hub.norms.seen, "discriminator_norms": hub.discriminator_norms.seen}
        ranges = {"ranges": self.ranges.known}
        return tensors, {"history": asdict(self.history), "best": asdict(self.best_epoch), **norms, **ranges}

    def restore(self, tensors: dict[str, Tensor], content: dict[str, Any]) -> None:
        hub = self.hub
        load(hub.shared, {name: tensor.numpy() for name, tensor in under(tensors, "now.").items()})
        hub.best = {name: tensor.numpy() for name, tensor in under(tensors, "best.").items()}
        hub.optimiser.encoder.restore(under(tensors, "encoder."))
        hub.optimiser.discriminator.restore(under(tensors, "discriminator."))
        self.history = History(**content["history"])
        hub.norms.seen, hub.discriminator_norms.seen = content["norms"], content["discriminator_norms"]
        hub.best_epoch = BestEpoch(**content["best"])
        self.ranges.known = content["ranges"]


class Plain:
    """One network for everybody: averaged after every epoch, or going from site to site."""

    def __init__(self, model: MTCNN, *, settings: FederationSettings, sites: int, cyclic: bool):
        if cyclic and settings.bits:
            raise UsageError("bits: a network that goes from site to site is no sum; set bits=0 for cyclic")
        self.settings, self.sites, self.cyclic, self.history = settings, sites, cyclic, History()
        self.counts = list[int]()
        self.manifest = wire.manifest_of(model)
        self.now = wire.arrays_of(model)
        self.best, self.best_epoch = self.now, BestEpoch()
        self.norms, self.ranges = wire.Norms(), Ranges(settings, sites=sites)
        if settings.noise:
            epsilon(multiplier=settings.noise, updates=1, delta=settings.delta)  # says now what is missing

    def exchanges(self, documents: Sequence[int]) -> list[Exchange]:
        self.counts = bounded(documents, largest_weight=self.settings.largest_weight)
        return plain_exchanges(self.settings, sites=self.sites, cyclic=self.cyclic)

    def arrays(self, exchange: Exchange, *, whole: bool = True) -> wire.Arrays:
        return self.best if exchange.kind == "finish" else self.now

    def settled(self, exchange: Exchange) -> bool:
        return len(exchange.who) == self.sites

    def take(self, exchange: Exchange, answers: Answers) -> bool:
        if exchange.kind == "epoch":
            self.take_networks(answers)
        if exchange.kind == "close":
            loss = close_epoch(self.history, answers)
            self.history.account(self.settings, updates=exchange.epoch + 1)  # a site sends once an epoch
            if self.best_epoch.improves(loss, exchange.epoch, settings=self.settings):
                self.best = self.now
                return True
        return False

    def take_networks(self, answers: Answers) -> None:
        """Average the sites' networks and count what travelled."""
        history = self.history
        history.rounds += 1
        history.sent += wire.size(self.now) * len(answers)
        history.received += sum(wire.size(message.arrays) for _, message in answers)
        history.updates = most_sent(history, answers)
        sent = [(name, message.facts["documents"], message.arrays) for name, message in answers]
        usable, refused = accepted(sent, self.manifest, self.norms, size=self.largest(), start=self.now)
        history.refused += refused
        networks = [(documents, arrays) for _, documents, arrays in usable]
        self.now = dict(networks[0][1]) if len(networks) == 1 else average(networks)  # one as it is, to the bit

    def largest(self) -> float:
        """The norm that no change exceeds by far."""
        return with_noise(wire.norm(self.now), self.settings, numbers=sum(array.size for array in self.now.values()))

    def moving(self, exchange: Exchange) -> wire.Manifest:
        return self.manifest if exchange.kind == "epoch" else {}

    def exponents(self, exchange: Exchange) -> dict[str, int]:
        return self.ranges.of(self.moving(exchange), documents=documents_in(self, exchange))

    def take_sum(self, exchange: Exchange, total: Total) -> bool:
        history = self.history
        if exchange.kind == "epoch":
            history.rounds += 1
            history.sent += wire.size(self.now) * self.sites
            count_sum(history, total, self.ranges, self.manifest, self.exponents(exchange))
            mean = total.means
            refused = self.norms.judge({ALL: wire.norm(mean)}, size=self.largest())
            history.refused += refused.values()
            if not refused:
                self.now = {name: array + mean[name] for name, array in self.now.items()}
        if exchange.kind == "close":
            history.validation_loss.append(total.loss)
            history.account(self.settings, updates=exchange.epoch + 1)
            if self.best_epoch.improves(total.loss, exchange.epoch, settings=self.settings):
                self.best = self.now
                return True
        return False

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        tensors = {f"now.{name}": torch.from_numpy(array.copy()) for name, array in self.now.items()}
        tensors |= {f"best.{name}": torch.from_numpy(array) for name, array in self.best.items()}
        known = {"norms": self.norms.seen, "ranges": self.ranges.known}
        return tensors, {"history": asdict(self.history), "best": asdict(self.best_epoch), **known}

    def restore(self, tensors: dict[str, Tensor], content: dict[str, Any]) -> None:
        self.now = {name: tensor.numpy() for name, tensor in under(tensors, "now.").items()}
        self.best = {name: tensor.numpy() for name, tensor in under(tensors, "best.").items()}
        self.history, self.norms.seen = History(**content["history"]), content["norms"]
        self.best_epoch = BestEpoch(**content["best"])
        self.ranges.known = content["ranges"]


def count_sum(
    history: History, total: Total, ranges: Ranges, manifest: wire.Manifest, exponents: Mapping[str, int]
) -> None:
    """Write down what a sum of updates took, and what it says about the next."""
    assert ranges.sums is not None
    history.received += ranges.sums.weight(manifest) * ranges.sums.sites
    history.clipped += total.clipped
    ranges.learn(total, exponents)


def most_sent(history: History, answers: Answers) -> int:
    """The most updates that any site has sent, as far as the sites have told; in one process they need not."""
    return max(history.updates, *(message.facts.get("updates", 0) for _, message in answers))


def close_epoch(history: History, answers: Answers) -> float:
    """The sites' mean validation loss, weighted by their documents; it and the features' mean norm are written down."""
    norms = [message.facts["feature_norm"] for _, message in answers if "feature_norm" in message.facts]
    if norms:
        history.feature_norm.append(sum(norms) / len(norms))
    weights = [message.facts["documents"] for _, message in answers]
    loss = float(np.average([message.facts["loss"] for _, message in answers], weights=weights))
    history.validation_loss.append(loss)
    return loss


def under(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors whose names begin with a prefix, by the rest of their names."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
