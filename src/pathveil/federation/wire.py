"""What may cross the wire, checked on both ends: named arrays of agreed shapes, finite and of a sane size.

The site is the gate: before anything is sent, ``check`` compares it with the manifest of the shared part, and anything
else (a private parameter, a label, a feature) is refused. The hub checks again what it receives, and ``Norms`` names a
site whose update is far larger than the others' have been.

>>> import numpy as np
>>> manifest = {"encoder.embedding.weight": (3, 2)}
>>> check({"encoder.embedding.weight": np.zeros((3, 2), np.float32)}, manifest, sender="site A")
>>> check({"heads.site.weight": np.zeros((3, 2), np.float32)}, manifest, sender="site A")
Traceback (most recent call last):
pathveil.errors.FederationError: site A: 'heads.site.weight' is not a shared parameter; nothing was passed on
"""

from collections.abc import Mapping

import numpy as np
from torch import nn

from pathveil.errors import FederationError

Arrays = Mapping[str, np.ndarray]
Manifest = Mapping[str, tuple[int, ...]]
DISCRIMINATOR = "discriminator."  # what its parameters' names begin with


def of_discriminator(manifest: Manifest) -> dict[str, tuple[int, ...]]:
    """The part of a manifest that an extra step of the discriminator sends."""
    return {name: shape for name, shape in manifest.items() if name.startswith(DISCRIMINATOR)}


def manifest_of(shared: nn.Module) -> dict[str, tuple[int, ...]]:
    """The names and shapes that may travel: the shared part's parameters, all of them and nothing else."""
    return {name: tuple(parameter.shape) for name, parameter in shared.named_parameters()}


def check(arrays: Arrays, manifest: Manifest, *, sender: str) -> None:
    """Refuse anything that is not exactly the manifest's arrays, or all of its discriminator's: float32, of its shapes,
    finite."""
    for name, array in arrays.items():
        if name not in manifest:
            raise FederationError(f"{sender}: '{name}' is not a shared parameter; nothing was passed on")
        if array.dtype != np.float32:
            raise FederationError(f"{sender}: '{name}' has type {array.dtype}, expected float32; nothing was passed on")
        if array.shape != tuple(manifest[name]):
            raise FederationError(
                f"{sender}: '{name}' has shape {array.shape}, expected {tuple(manifest[name])}; nothing was passed on"
            )
        if not np.isfinite(array).all():
            raise FederationError(f"{sender}: '{name}' holds values that are not finite; nothing was passed on")
    alone = bool(arrays) and all(name.startswith(DISCRIMINATOR) for name in arrays)
    missing = [name for name in (of_discriminator(manifest) if alone else manifest) if name not in arrays]
    if missing:
        raise FederationError(f"{sender}: {len(missing)} shared parameters are missing, '{missing[0]}' first")


def norm(arrays: Arrays) -> float:
    """The Euclidean norm of all arrays together."""
    return float(np.sqrt(sum(float(np.square(array, dtype=np.float64).sum()) for array in arrays.values())))


def size(arrays: Arrays) -> int:
    """Bytes of the arrays."""
    return sum(array.nbytes for array in arrays.values())


class Norms:
    """The norms of accepted updates; an update more than ``factor`` times their median is refused.

    >>> norms = Norms(factor=10)
    >>> for size in (1.0, 1.2, 0.9, 1.1):
    ...     norms.admit(size, sender="site A")
    >>> norms.admit(50.0, sender="site B")
    Traceback (most recent call last):
    pathveil.errors.FederationError: site B: its update has norm 50, over 10 times the usual 1.05; refused
    """

    def __init__(self, *, factor: float = 20.0, least: int = 4):
        self.factor, self.least, self.seen = factor, least, list[float]()

    def admit(self, value: float, *, sender: str) -> None:
        if len(self.seen) >= self.least:
            usual = float(np.median(self.seen))
            if value > self.factor * usual:
                raise FederationError(
                    f"{sender}: its update has norm {value:.3g}, over {self.factor:g} times the usual {usual:.3g}; "
                    "refused"
                )
        self.seen = [*self.seen[-199:], value]
