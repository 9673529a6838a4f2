"""The hub: holds the shared parameters, tells sites where training stands, and combines what they send.

With one local step a round an update is a gradient: the mean over sites, weighted by documents, is the gradient of the
mean loss over all of them, and the hub's optimiser steps along it. With more local steps an update is a change, and the
weighted mean of the changes is added (federated averaging of the shared part).

>>> import numpy as np
>>> average([(1, {"w": np.array([0.0, 4.0])}), (3, {"w": np.array([4.0, 0.0])})])
{'w': array([3., 1.], dtype=float32)}
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from pathveil.errors import FederationError, UsageError
from pathveil.federation import wire
from pathveil.federation.noise import epsilon
from pathveil.federation.settings import FederationSettings
from pathveil.federation.site import SharedOptimiser, Turn, discriminator_turns, shapes_of_update
from pathveil.model.shared_private import Shared

Update = tuple[str, int, wire.Arrays]  # a site's name, the documents its arrays rest on, the arrays
ALL = "all sites together"  # who a sum comes from
DISCRIMINATOR_FACTOR = 100.0  # more than others': where it knows a registry, that has all but no gradient for it


@dataclass
class History:
    """What happened, epoch by epoch."""

    validation_loss: list[float] = field(default_factory=list)
    feature_norm: list[float] = field(
        default_factory=list
    )  # mean norm of a document's shared features: near 0, collapsed
    refused: list[str] = field(default_factory=list)
    epsilon: list[float] = field(default_factory=list)  # privacy loss of a site's updates so far, where they have noise
    kept: int = 0  # the epoch whose parameters were kept, from 1
    rounds: int = 0
    updates: int = 0  # that have left a site, the most of any, as the sites count: more than rounds after a restart
    sent: int = 0  # bytes from the hub to sites
    received: int = 0
    clipped: int = 0  # numbers of updates that did not fit their range

    def account(self, settings: FederationSettings, *, updates: int) -> None:
        """At the end of an epoch: the privacy loss of so many updates a site, or as many as a site has counted."""
        if settings.noise:
            updates = max(updates, self.updates)
            self.epsilon.append(epsilon(multiplier=settings.noise, updates=updates, delta=settings.delta))


@dataclass
class BestEpoch:
    """The epoch of the least validation loss so far, among those that may be kept.

    >>> best, settings = BestEpoch(), FederationSettings(epochs=3)
    >>> [best.improves(loss, epoch, settings=settings) for epoch, loss in enumerate((0.5, float("nan"), 0.7))]
    [True, False, False]
    >>> best.kept_epoch()
    1
    """

    number: int = 0  # from 1; 0: there is none yet
    loss: float = float("inf")

    def improves(self, loss: float, epoch: int, *, settings: FederationSettings) -> bool:
        """Whether an epoch, from 0, is the best so far; a loss that is not a number never is."""
        if not loss < self.loss or not settings.may_keep(epoch):
            return False
        self.number, self.loss = epoch + 1, loss
        return True

    def kept_epoch(self) -> int:
        """The number of the epoch that was kept. Where there is none, nothing that was trained can be used."""
        if not self.number:
            raise UsageError(
                "training diverged: after no epoch that may be kept was the validation loss a finite number; lower "
                "learning_rate, or the weights adversary and orthogonality"
            )
        return self.number


class Hub:
    """The shared part between rounds."""

    def __init__(self, shared: Shared, *, settings: FederationSettings):
        self.shared, self.settings = shared, settings
        self.manifest = wire.manifest_of(shared)
        # The discriminator's own steps are another kind of update, whose norms say nothing about the others'.
        self.norms, self.discriminator_norms = wire.Norms(), wire.Norms(factor=DISCRIMINATOR_FACTOR)
        # Sites send every row of the embedding, so the hub's optimiser has no rows to be lazy about.
        self.optimiser = SharedOptimiser(shared, settings, lazy=False)
        self.best, self.best_epoch = self.arrays(), BestEpoch()
        self.measured = -1  # the epoch whose yardstick the discriminator has
        if settings.noise:
            epsilon(multiplier=settings.noise, updates=1, delta=settings.delta)  # says before training what is missing

    def arrays(self, *, again: bool = False) -> dict[str, np.ndarray]:
        """The shared parameters as they travel; ``again`` to sites that have the encoder, the discriminator's alone."""
        return wire.arrays_of(self.shared, self.sent(again=again))

    def sent(self, *, again: bool) -> wire.Manifest:
        """The names and shapes of what goes out to sites; ``again``: to those that have the encoder."""
        return wire.of_discriminator(self.manifest) if again else self.manifest

    def begin(self, turn: Turn) -> None:
        """Before a round, or each site's question in it: every epoch the discriminator gets a new yardstick, once. A
        restarted hub sets it again, to the same, for the encoder has not moved in the first step."""
        if turn.step == 0 and turn.epoch != self.measured:
            self.measured = turn.epoch
            self.optimiser.settle()
            self.shared.calibrate(seed=turn.epoch)

    def combine(self, updates: Sequence[Update], turn: Turn) -> list[str]:
        """Take (site, documents, arrays) of a round; returns the sentences about sites that were left out.

        An update that fails its check is left out and named; a round without any usable update is an error.
        """
        moving = shapes_of_update(self.shared, self.settings, turn)
        usable, refused = accepted(updates, moving, self.norms_of(turn), size=self.largest())
        self.step(average([(documents, arrays) for _, documents, arrays in usable]), turn)
        return refused

    def combine_sum(self, mean: wire.Arrays, turn: Turn) -> list[str]:
        """Take the mean of all sites' updates, of which the hub has seen none; the sentence where it is left out.

        A mean that is far larger than those before moves nothing. Whose part made it so nobody can tell here.
        """
        refused = self.norms_of(turn).judge({ALL: wire.norm(mean)}, size=self.largest())
        if not refused:
            self.step(mean, turn)
        return [f"{line} (which site's part is far off cannot be seen in a sum)" for line in refused.values()]

    def norms_of(self, turn: Turn) -> wire.Norms:
        return self.discriminator_norms if turn.discriminator_only else self.norms

    def largest(self) -> float:
        """The norm that no update exceeds by far."""
        values = list(self.shared.parameters())
        size = math.sqrt(sum(float(value.detach().square().sum()) for value in values))
        return with_noise(size, self.settings, numbers=sum(value.numel() for value in values))

    def step(self, mean: wire.Arrays, turn: Turn) -> None:
        """Move the shared part by the mean of the sites' updates: a change, or a gradient to step along."""
        moving = shapes_of_update(self.shared, self.settings, turn)
        parameters = {name: p for name, p in self.shared.named_parameters() if name in moving}
        changes = self.settings.local_steps > 1 and not turn.discriminator_only
        for name, values in mean.items():
            array = torch.from_numpy(values).to(parameters[name].device)
            if changes:
                parameters[name].data.add_(array)
            else:
                parameters[name].grad = array
        if not changes:
            self.optimiser.step(turn, discriminator_only=turn.discriminator_only)
            self.shared.zero_grad(set_to_none=True)

    def keep_if_best(self, loss: float, *, epoch: int) -> bool:
        """Keep the shared part as it is after an epoch, from 0, if that is the best so far by the sites' mean loss."""
        if not self.best_epoch.improves(loss, epoch, settings=self.settings):
            return False
        self.best = self.arrays()
        return True

    def restore(self) -> None:
        load(self.shared, self.best)


def accepted(
    updates: Sequence[Update],
    manifest: wire.Manifest,
    norms: wire.Norms,
    *,
    size: float,
    start: wire.Arrays | None = None,  # where arrays are whole networks: what they were made from
) -> tuple[list[Update], list[str]]:
    """The updates that are what was asked for and not far off, and a sentence for each of the others."""
    sound, refused = list[Update](), list[str]()
    for update in updates:
        try:
            wire.check(update[2], manifest, sender=update[0])
        except FederationError as error:
            refused.append(str(error))
        else:
            sound.append(update)
    far = norms.judge({name: wire.norm(since(arrays, start)) for name, _, arrays in sound}, size=size)
    usable, refused = [update for update in sound if update[0] not in far], [*refused, *far.values()]
    if not usable:
        raise FederationError(f"no site sent a usable update in this round: {'; '.join(refused)}")
    return usable, refused


def with_noise(size: float, settings: FederationSettings, *, numbers: int) -> float:
    """The norm that an update must not exceed by far: that of the parameters, or of the noise on it where it is larger.

    ``size`` is the parameters' norm and ``numbers`` how many numbers an update has.
    """
    return max(size, settings.noise * (settings.clip or 0.0) * math.sqrt(numbers))


def since(arrays: wire.Arrays, start: wire.Arrays | None) -> wire.Arrays:
    """What changed from the start, in double precision: two numbers of a float's largest size may be far apart."""
    return arrays if start is None else {name: array.astype(float) - start[name] for name, array in arrays.items()}


def average(updates: Sequence[tuple[int, wire.Arrays]]) -> dict[str, np.ndarray]:
    """The mean of the sites' arrays, weighted by their documents."""
    total = sum(documents for documents, _ in updates)
    names = updates[0][1]
    means = {name: sum(arrays[name] * (documents / total) for documents, arrays in updates) for name in names}
    return {name: np.asarray(mean, dtype=np.float32) for name, mean in means.items()}


def load(shared: Shared, arrays: wire.Arrays) -> None:
    """Set the shared parameters that the arrays name."""
    parameters = dict(shared.named_parameters())
    with torch.no_grad():
        for name, array in arrays.items():
            parameters[name].copy_(torch.from_numpy(np.asarray(array)))


def schedule(settings: FederationSettings, steps: int) -> Iterator[list[Turn]]:
    """The rounds of a training: each a list of turns.

    A round is the turns that a site takes before it answers, one or ``local_steps`` of them; it never spans two epochs.
    Before it come the discriminator's own steps, each a round on the same documents.
    """
    for epoch in range(settings.epochs):
        epoch_turns = [Turn(epoch, step, steps, settings.epochs) for step in range(steps)]
        for start in range(0, steps, settings.local_steps):
            together = epoch_turns[start : start + settings.local_steps]
            extra = [replace(turn, discriminator_only=True) for turn in together]
            rounds = [*(extra for _ in range(discriminator_turns(settings))), together]
            yield from ([replace(turn, again=place > 0) for turn in turns] for place, turns in enumerate(rounds))
