"""What a site adds to a sum over all sites, in whole numbers, and what the sum says.

With ``bits`` in the settings a hub never takes a site's update by itself. A site turns its answer into a
``Contribution``: its update times the documents it rests on (the hub wants the mean over documents) as fixed-point
numbers, and beside it a few numbers that the hub needs of all sites together. Embedded training adds contributions as
they are; over a network they are masked first (``masking``), and the sum, a ``Total``, is the same to the bit.

With ``noise`` the numbers are not weighted and not measured, for a count or a largest value would tell what the noise
hides. Each site clips its update to a norm of ``clip``, rounds towards zero, so that rounding makes nothing longer, and
adds a share of discrete Gaussian noise; all shares together have a standard deviation of noise · clip. So the sum is as
private as each site's own update with noise of that size would be, with a part of the noise: in the mean over n sites
1/√n of it. It needs every site's share: k sites that tell the hub theirs leave √(1 − k/n) of the noise for the others.

>>> sums = Sums(bits=32, sites=2)
>>> exponents = {"w": 3}
>>> parts = [sums.of_update({"w": np.array(own, np.float32)}, documents=documents, exponents=exponents)
...          for own, documents in (([0.5, 0.0], 3), ([-0.5, 1.0], 1))]
>>> total = sums.total("round", parts, {"w": (2,)}, exponents, documents=4)
>>> total.documents, total.means["w"].tolist(), total.peaks
(4, [0.25, 0.25], {'w': 2.5})
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from pathveil.errors import FederationError, UsageError
from pathveil.federation import wire
from pathveil.federation.discrete_gaussian import LEAST, MOST, sampled
from pathveil.federation.fixed_point import FRACTION, WIDE, FixedPoint, exponent_of
from pathveil.federation.settings import FederationSettings

EMPTY = np.zeros(0, np.int32)
FARTHEST = 2.0**20  # how far over its range a site's largest value is told
TAIL = 12  # standard deviations of noise that there is room for: no draw is farther away
START = 4.0  # the largest number of an update that there is room for in the first round
CHECK, CLIPPED, PEAKS = 0, 1, 2  # the places of an update's facts; the check is always zero
LOSS, NORM, DIVERGED = 1, 2, 3  # of the facts that close an epoch; how many sites' loss is no number
WORST = 4096.0  # a loss or a norm that is larger counts as none


@dataclass(frozen=True)
class Contribution:
    """Whole numbers: those of an update, one array after the other, and a few facts."""

    update: np.ndarray  # (numbers,) int32 of a site, int64 of a sum
    facts: np.ndarray  # (facts,) int64


@dataclass(frozen=True)
class Total:
    """What a sum over all sites says."""

    documents: int = 0  # that updates were weighted by; with noise, the sites
    means: Mapping[str, np.ndarray] = field(default_factory=dict)  # of the updates, float32
    clipped: int = 0  # numbers of updates that did not fit
    peaks: Mapping[str, float] = field(default_factory=dict)  # the sum of the sites' largest values, an array each
    loss: float = 0.0  # mean over documents
    feature_norm: float = 0.0  # mean over sites


class Sums:
    """How the sites of a run add up."""

    def __init__(
        self,
        *,
        bits: int,
        sites: int,
        clip: float | None = None,
        noise: float = 0.0,
        reuse: bool = False,  # one site's alone: its next update may overwrite the last, which has left
    ):
        self.sites, self.clip, self.noise, self.reuse, self.last = sites, clip, noise, reuse, EMPTY
        self.numbers, self.facts = FixedPoint(bits, sites), FixedPoint(WIDE, sites)
        self.sigma, self.exponent = share_of_noise(self.numbers, clip=clip or 0.0, noise=noise) if noise else (0, 0)

    @classmethod
    def of(cls, settings: FederationSettings, *, sites: int, reuse: bool = False) -> "Sums":
        return cls(bits=settings.bits, sites=sites, clip=settings.clip, noise=settings.noise, reuse=reuse)

    def first_exponents(self, manifest: wire.Manifest, *, documents: int) -> dict[str, int]:
        """The ranges of arrays that no round has moved yet, where a round rests on so many documents of all sites."""
        return dict.fromkeys(manifest, self.exponent if self.noise else exponent_of(START * documents))

    def shape(self, kind: str, manifest: wire.Manifest) -> tuple[int, int]:
        """How many numbers and facts a contribution of a kind has."""
        if kind == "close":
            return 0, DIVERGED + 1
        return sum(math.prod(shape) for shape in manifest.values()), 1 if self.noise else PEAKS + len(manifest)

    def weight(self, manifest: wire.Manifest) -> int:
        """Bytes of an update on the wire."""
        return self.shape("round", manifest)[0] * self.numbers.bytes

    def of_update(
        self,
        arrays: wire.Arrays,
        *,
        documents: int,
        exponents: Mapping[str, int],
        rng: np.random.Generator | None = None,  # of noise, where it is to repeat
    ) -> Contribution:
        """A site's update as it goes into the sum."""
        if self.noise:
            return self.of_noised(arrays, rng=rng)
        whole = self.room(sum(array.size for array in arrays.values()))
        start, clipped, peaks = 0, 0, list[int]()
        for name, array in arrays.items():
            own, start = whole[start : start + array.size], start + array.size
            _, over, peak = self.numbers.encoded(array, exponent=exponents[name], weight=documents, out=own)
            clipped += over
            peaks.append(round(min(peak, FARTHEST) * 2**FRACTION))
        return Contribution(whole, np.array([0, clipped, *peaks], np.int64))

    def room(self, size: int) -> np.ndarray:
        """An array for so many whole numbers: a new one, or where it is reused, that of the last update."""
        if not self.reuse:
            return np.empty(size, np.int32)
        if len(self.last) < size:
            self.last = np.empty(size, np.int32)
        return self.last[:size]

    def of_noised(self, arrays: wire.Arrays, *, rng: np.random.Generator | None) -> Contribution:
        """A clipped update with this site's share of the noise."""
        whole = np.concatenate([EMPTY, *(np.trunc(self.scaled(array)).astype(np.int64) for array in arrays.values())])
        whole += sampled(len(whole), sigma=self.sigma, rng=rng)
        most = self.numbers.most
        return Contribution(np.clip(whole, -most, most).astype(np.int32), np.zeros(1, np.int64))

    def scaled(self, array: np.ndarray) -> np.ndarray:
        return array.reshape(-1).astype(np.float64) * 2.0 ** (self.numbers.shift - self.exponent)

    def of_close(self, *, documents: int, loss: float, feature_norm: float) -> Contribution:
        """What a site says at the end of an epoch: its validation loss, which its documents weigh, and the norm."""
        diverged = not (loss <= WORST and feature_norm <= WORST)  # not a number is neither
        told = [0, 0] if diverged else [round(loss * 2**FRACTION) * documents, round(feature_norm * 2**FRACTION)]
        return Contribution(EMPTY, np.array([0, *told, diverged], np.int64))

    def total(
        self,
        kind: str,
        parts: Sequence[Contribution],
        manifest: wire.Manifest,
        exponents: Mapping[str, int],
        *,
        documents: int,  # that they count for together
    ) -> Total:
        """What the sum of contributions to a kind of question says."""
        update = np.zeros(len(parts[0].update), np.int64)
        for part in parts:
            update += part.update
        facts = np.sum([part.facts for part in parts], axis=0)
        return self.read(kind, Contribution(update, facts), manifest, exponents, documents=documents)

    def read(
        self,
        kind: str,
        added: Contribution,
        manifest: wire.Manifest,
        exponents: Mapping[str, int],
        *,
        documents: int,
    ) -> Total:
        """What added contributions say; an error where they cannot be the sums of what sites may send."""
        update, facts = added.update, added.facts
        if facts[CHECK]:
            raise self.unreadable("the sites' masks do not cancel")
        if facts.min() < 0:
            raise self.unreadable("a count or a loss is below zero")
        if kind == "close":
            loss = math.nan if facts[DIVERGED] else float(facts[LOSS]) / documents * 2.0**-FRACTION
            return Total(documents, loss=loss, feature_norm=float(facts[NORM]) / self.sites * 2.0**-FRACTION)
        means, start, weight = {}, 0, self.sites if self.noise else documents
        for name, shape in manifest.items():
            whole, start = update[start : start + math.prod(shape)], start + math.prod(shape)
            mean, largest = self.numbers.mean(whole, exponent=exponents[name], weight=weight)
            if largest > self.sites * self.numbers.most:
                raise self.unreadable("it has numbers that are larger than all sites' ranges together")
            means[name] = mean.reshape(shape)
        if self.noise:
            return Total(self.sites, means)
        peaks = {
            name: float(told) * 2.0 ** (exponents[name] - FRACTION)
            for name, told in zip(manifest, facts[PEAKS:], strict=True)
        }
        return Total(documents, means, clipped=int(facts[CLIPPED]), peaks=peaks)

    def unreadable(self, why: str) -> FederationError:
        return FederationError(
            f"the sum over all sites cannot be read: {why}; a site sent something else than it should, and masks hide "
            "which one"
        )


def share_of_noise(form: FixedPoint, *, clip: float, noise: float) -> tuple[int, int]:
    """The standard deviation of a site's share of the noise in steps, and the exponent of the range.

    As many steps as can be drawn exactly and leave room for the largest number with its noise.

    >>> share_of_noise(FixedPoint(32, 4), clip=1.0, noise=1.0)
    (4096, 16)
    """
    share = noise * clip / math.sqrt(form.sites)
    power = math.floor(math.log2(MOST / share))
    while math.ceil(share * 2.0**power) > MOST or clip * 2.0**power + TAIL * math.ceil(share * 2.0**power) > form.most:
        power -= 1
    sigma = math.ceil(share * 2.0**power)
    if sigma < LEAST:
        raise UsageError(
            f"bits: {form.bits} bits have no room for noise of {noise:g} times clip at {form.sites} sites; take more"
        )
    return sigma, form.shift - power
