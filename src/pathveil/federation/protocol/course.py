"""The hub's part of a run as a course of exchanges, each of which a restarted hub can go on from.

An exchange is one question to sites and their answers: a round of steps, an epoch of a plain network, the closing of an
epoch (each site's validation loss decides which epoch is the best), or the end. ``SharedPrivate`` is the distribution
paper's training around ``Hub``; ``Plain`` is federated averaging or one network going from site to site.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
import torch
from torch import Tensor

from pathveil.federation import wire
from pathveil.federation.hub import History, Hub, accepted, average, load, schedule, steps_of, with_noise
from pathveil.federation.noise import epsilon
from pathveil.federation.protocol.message import Message
from pathveil.federation.protocol.plan import Plan
from pathveil.federation.site import Turn, gathering

Answers = Sequence[tuple[str, Message]]  # in the plan's order of sites


@dataclass(frozen=True)
class Exchange:
    """One question; ``who`` are the places of the sites that answer it."""

    kind: Literal["round", "epoch", "close", "finish"]
    who: tuple[int, ...]
    epoch: int
    turns: tuple[Turn, ...] = field(default=())

    def facts(self) -> dict[str, Any]:
        """As it is put to a site."""
        return {"do": self.kind, "epoch": self.epoch, "turns": [asdict(turn) for turn in self.turns]}


class Course(Protocol):
    history: History

    @property
    def best_epoch(self) -> int: ...

    def exchanges(self, documents: Sequence[int]) -> list[Exchange]: ...

    def arrays(self, exchange: Exchange, *, whole: bool = True) -> wire.Arrays:
        """What goes out with a question; not ``whole``: to a site that has what did not move since the last one."""
        ...

    def settled(self, exchange: Exchange) -> bool:
        """Whether all parts can be saved before this exchange: no private part has gathered half of a step."""
        ...

    def take(self, exchange: Exchange, answers: Answers) -> bool:
        """Take answers whose numbers were checked; True where they close an epoch that is the best so far."""
        ...

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]: ...

    def restore(self, tensors: dict[str, Tensor], content: dict[str, Any]) -> None: ...


def course_of(plan: Plan) -> Course:
    return Plain(plan) if plan.plain else SharedPrivate(plan)


class SharedPrivate:
    """A shared encoder at the hub, private ones at the sites."""

    def __init__(self, plan: Plan):
        self.plan, self.history = plan, History()
        self.hub = Hub(plan.shared(), settings=plan.settings)

    @property
    def best_epoch(self) -> int:
        return self.hub.best_epoch

    def exchanges(self, documents: Sequence[int]) -> list[Exchange]:
        everyone = tuple(range(len(self.plan.sites)))
        steps, course = steps_of(documents, self.plan.settings.batch_size), []
        for turns in schedule(self.plan.settings, steps):
            last = turns[-1]
            course.append(Exchange("round", everyone, last.epoch, tuple(turns)))
            if last.step == steps - 1 and not last.discriminator_only:
                course.append(Exchange("close", everyone, last.epoch))
        return [*course, Exchange("finish", everyone, self.plan.settings.epochs - 1)]

    def arrays(self, exchange: Exchange, *, whole: bool = True) -> wire.Arrays:
        if exchange.kind == "round":
            self.hub.begin(exchange.turns[0])
            return self.hub.arrays(again=exchange.turns[0].again and not whole)
        if exchange.kind == "close":
            self.hub.optimiser.settle()
        return self.hub.best if exchange.kind == "finish" else self.hub.arrays()

    def settled(self, exchange: Exchange) -> bool:
        every = gathering(self.plan.settings, self.hub.shared)
        return exchange.kind != "round" or exchange.turns[0].step % every == 0

    def take(self, exchange: Exchange, answers: Answers) -> bool:
        if exchange.kind == "round":
            history = self.history
            updates = [(name, message.facts["documents"], message.arrays) for name, message in answers]
            history.rounds += 1
            history.updates = most_sent(history, answers)
            history.sent += wire.size(self.hub.arrays(again=exchange.turns[0].again)) * len(answers)
            history.refused += self.hub.combine(updates, exchange.turns[0])
            history.received = self.hub.received
            return False
        if exchange.kind == "close":
            losses, loss = close(self.history, answers)
            self.history.account(self.plan.settings, updates=self.history.rounds)
            self.history.validation_loss.append(loss)
            return self.hub.judge(losses, epoch=exchange.epoch)
        return False

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        hub = self.hub
        tensors = {f"now.{name}": torch.from_numpy(array) for name, array in hub.arrays().items()}
        tensors |= {f"best.{name}": torch.from_numpy(array) for name, array in hub.best.items()}
        for part, optimiser in (("encoder", hub.optimiser.encoder), ("discriminator", hub.optimiser.discriminator)):
            tensors |= {f"{part}.{name}": tensor for name, tensor in optimiser.state().items()}
        norms = {"norms": hub.norms.seen, "discriminator_norms": hub.discriminator_norms.seen}
        content = {"history": asdict(self.history), "received": hub.received} | norms
        return tensors, content | {"best_loss": hub.best_loss, "best_epoch": hub.best_epoch}

    def restore(self, tensors: dict[str, Tensor], content: dict[str, Any]) -> None:
        hub = self.hub
        load(hub.shared, {name: tensor.numpy() for name, tensor in under(tensors, "now.").items()})
        hub.best = {name: tensor.numpy() for name, tensor in under(tensors, "best.").items()}
        hub.optimiser.encoder.restore(under(tensors, "encoder."))
        hub.optimiser.discriminator.restore(under(tensors, "discriminator."))
        self.history = History(**content["history"])
        hub.norms.seen, hub.discriminator_norms.seen = content["norms"], content["discriminator_norms"]
        hub.received = content["received"]
        hub.best_loss, hub.best_epoch = content["best_loss"], content["best_epoch"]


class Plain:
    """One network for everybody: averaged after every epoch, or going from site to site."""

    def __init__(self, plan: Plan):
        self.plan, self.history = plan, History()
        model = plan.whole()
        self.manifest = wire.manifest_of(model)
        self.now = {name: parameter.detach().numpy().copy() for name, parameter in model.named_parameters()}
        self.best, self.least, self.best_epoch = self.now, float("inf"), -1
        self.norms = wire.Norms()
        if plan.settings.noise:
            epsilon(multiplier=plan.settings.noise, updates=1, delta=plan.settings.delta)  # says now what is missing

    def exchanges(self, documents: Sequence[int]) -> list[Exchange]:
        everyone = tuple(range(len(self.plan.sites)))
        visits = [(place,) for place in everyone] if self.plan.mode == "cyclic" else [everyone]
        course = []
        for epoch in range(self.plan.settings.epochs):
            course += [Exchange("epoch", who, epoch) for who in visits]
            course.append(Exchange("close", everyone, epoch))
        return [*course, Exchange("finish", everyone, self.plan.settings.epochs - 1)]

    def arrays(self, exchange: Exchange, *, whole: bool = True) -> wire.Arrays:
        return self.best if exchange.kind == "finish" else self.now

    def settled(self, exchange: Exchange) -> bool:
        return len(exchange.who) == len(self.plan.sites)

    def take(self, exchange: Exchange, answers: Answers) -> bool:
        if exchange.kind == "epoch":
            self.history.rounds += 1
            self.history.sent += wire.size(self.now) * len(answers)
            self.history.received += sum(wire.size(message.arrays) for _, message in answers)
            sent = [(name, message.facts["documents"], message.arrays) for name, message in answers]
            self.history.updates = most_sent(self.history, answers)
            numbers = sum(array.size for array in self.now.values())
            size = with_noise(wire.norm(self.now), self.plan.settings, numbers=numbers)
            usable, refused = accepted(sent, self.manifest, self.norms, size=size, start=self.now)
            self.history.refused += refused
            networks = [(documents, arrays) for _, documents, arrays in usable]
            self.now = dict(networks[0][1]) if len(networks) == 1 else average(networks)  # one as it is, to the bit
        elif exchange.kind == "close":
            _, loss = close(self.history, answers)
            self.history.account(self.plan.settings, updates=exchange.epoch + 1)  # a site sends once an epoch
            self.history.validation_loss.append(loss)
            if loss < self.least and self.plan.settings.may_keep(exchange.epoch):
                self.best, self.least, self.best_epoch = self.now, loss, exchange.epoch
                return True
        return False

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        tensors = {f"now.{name}": torch.from_numpy(array.copy()) for name, array in self.now.items()}
        tensors |= {f"best.{name}": torch.from_numpy(array) for name, array in self.best.items()}
        content = {"history": asdict(self.history), "norms": self.norms.seen}
        return tensors, content | {"least": self.least, "best_epoch": self.best_epoch}

    def restore(self, tensors: dict[str, Tensor], content: dict[str, Any]) -> None:
        self.now = {name: tensor.numpy() for name, tensor in under(tensors, "now.").items()}
        self.best = {name: tensor.numpy() for name, tensor in under(tensors, "best.").items()}
        self.history, self.norms.seen = History(**content["history"]), content["norms"]
        self.least, self.best_epoch = content["least"], content["best_epoch"]


def most_sent(history: History, answers: Answers) -> int:
    """The most updates that any site has sent, as far as the sites have told."""
    return max(history.updates, *(message.facts["updates"] for _, message in answers))


def close(history: History, answers: Answers) -> tuple[list[tuple[int, float]], float]:
    """The sites' (documents, validation loss), and their mean by documents."""
    losses = [(message.facts["documents"], message.facts["loss"]) for _, message in answers]
    norms = [message.facts["feature_norm"] for _, message in answers if "feature_norm" in message.facts]
    if norms:
        history.feature_norm.append(sum(norms) / len(norms))
    return losses, float(np.average([loss for _, loss in losses], weights=[count for count, _ in losses]))


def under(tensors: dict[str, Tensor], start: str) -> dict[str, Tensor]:
    """The tensors whose name starts so, without that start."""
    return {name.removeprefix(start): tensor for name, tensor in tensors.items() if name.startswith(start)}
