"""What may cross the wire, checked on both ends: named arrays of agreed shapes, finite and of a sane size.

The site is the gate: before anything is sent, ``check`` compares it with the manifest of the shared part, and anything
else (a private parameter, a label, a feature) is refused. The hub checks again what it receives, and ``Norms`` names a
site whose update is far larger than the others' are or have been.

>>> import numpy as np
>>> manifest = {"encoder.embedding.weight": (3, 2)}
>>> check({"encoder.embedding.weight": np.zeros((3, 2), np.float32)}, manifest, sender="A")
>>> check({"heads.site.weight": np.zeros((3, 2), np.float32)}, manifest, sender="A")
Traceback (most recent call last):
pathveil.errors.FederationError: A: 'heads.site.weight' is not a shared parameter of this round; nothing was passed on
"""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from pathveil.errors import FederationError

if TYPE_CHECKING:  # what waits for work, a hub or a site, does not load it
    from torch import nn


class GateError(FederationError):
    """A site's own gate refused what was about to leave."""


class QuestionError(FederationError):
    """A site refused what the hub sent."""


class PlanError(QuestionError):
    """The hub asked a site for something that the plan does not say."""


Arrays = Mapping[str, np.ndarray]
Manifest = Mapping[str, tuple[int, ...]]
LARGEST = float(np.finfo(np.float32).max)
DISCRIMINATOR = "discriminator."  # what its parameters' names begin with


def of_discriminator(manifest: Manifest) -> dict[str, tuple[int, ...]]:
    """The part of a manifest that is the discriminator's."""
    return {name: shape for name, shape in manifest.items() if name.startswith(DISCRIMINATOR)}


def manifest_of(network: "nn.Module") -> dict[str, tuple[int, ...]]:
    """The names and shapes that may travel: the parameters of the network that is shared, and nothing else."""
    return {name: tuple(parameter.shape) for name, parameter in network.named_parameters()}


def arrays_of(network: "nn.Module", manifest: Manifest | None = None) -> dict[str, np.ndarray]:
    """Copies of a network's parameters as arrays: those that a manifest names, or all."""
    return {
        name: parameter.detach().cpu().numpy().copy()
        for name, parameter in network.named_parameters()
        if manifest is None or name in manifest
    }


def check(
    arrays: Arrays,
    manifest: Manifest,
    *,
    sender: str,
    error: type[FederationError] = FederationError,
    dtype: type[np.generic] = np.float32,  # of masked arrays uint8
) -> None:
    """Refuse anything that is not exactly the manifest's arrays: of its shapes and one type, finite."""
    for name, array in arrays.items():
        if name not in manifest:
            raise error(f"{sender}: '{name}' is not a shared parameter of this round; nothing was passed on")
        if array.dtype != dtype:
            raise error(f"{sender}: '{name}' has type {array.dtype}, expected {np.dtype(dtype)}; nothing was passed on")
        if array.shape != tuple(manifest[name]):
            expected = tuple(manifest[name])
            raise error(f"{sender}: '{name}' has shape {array.shape}, expected {expected}; nothing was passed on")
        if not np.isfinite(array).all():
            raise error(f"{sender}: '{name}' holds values that are not finite; nothing was passed on")
    missing = [name for name in manifest if name not in arrays]
    if missing:
        raise error(f"{sender}: {len(missing)} shared parameters are missing, '{missing[0]}' first")


def norm(arrays: Arrays) -> float:
    """The Euclidean norm of all arrays together."""
    return float(np.sqrt(sum(float(np.square(array, dtype=np.float64).sum()) for array in arrays.values())))


def size(arrays: Arrays) -> int:
    """Bytes of the arrays."""
    return sum(array.nbytes for array in arrays.values())


def weight(manifest: Manifest) -> int:
    """Bytes of the arrays that a manifest lists."""
    return 4 * sum(math.prod(shape) for shape in manifest.values())


class Norms:
    """The norms of accepted updates of one kind, by which an update that is far off is told.

    Usual is the median of what was accepted before; in the first rounds that of the other sites' updates of the same
    round. A single other site must not shut this one out by sending next to nothing, so then a thousandth of the
    parameters' norm is usual too; and without any other, an update is far off that is twice what it moves. An update
    more than ``factor`` times the usual is refused, and always one whose square, which optimisers keep, is no float.

    >>> norms = Norms(factor=10)
    >>> norms.judge({"A": 1.0, "B": 1.2, "C": 50.0}, size=30.0)
    {'C': 'C: its update has norm 50, over 10 times the usual 1.1; refused'}
    >>> norms.judge({"A": 0.9, "B": 1e30, "C": 1.1}, size=30.0)
    {'B': 'B: its update has norm 1e+30, over 10 times the usual 1; refused'}
    """

    def __init__(self, *, factor: float = 20.0, least: int = 4):
        self.factor, self.least, self.seen = factor, least, list[float]()

    def judge(self, norms: Mapping[str, float], *, size: float) -> dict[str, str]:
        """A sentence for each sender whose norm is far off; ``size`` is the norm of the shared parameters."""
        refused = {}
        for sender, value in norms.items():
            others = [other for name, other in norms.items() if name != sender and math.isfinite(other)]
            usual = self.usual(others, size)
            if not (value <= self.factor * usual and value**2 <= LARGEST):
                refused[sender] = (
                    f"{sender}: its update has norm {value:.3g}, over {self.factor:g} times the usual {usual:.3g}; "
                    "refused"
                )
        self.seen = [*self.seen, *(value for sender, value in norms.items() if sender not in refused)][-200:]
        return refused

    def usual(self, others: list[float], size: float) -> float:
        if len(self.seen) >= self.least:
            return float(np.median(self.seen))
        if len(others) > 1:
            return float(np.median(others))
        return max(others[0], size / 1000) if others else 2 * size / self.factor
