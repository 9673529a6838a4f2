"""Noise on what a site sends, and what it is worth: differential privacy of a site's updates.

Before it is sent, an update of the shared part (all arrays together) is scaled down to a norm of at most C, and
Gaussian noise of standard deviation σC is added to every number. However a site's reports change, its update then
moves by at most C against sending nothing, so each update is a Gaussian mechanism, and T of them compose. The loss ε at
a given δ is opacus' accounting of T such steps, with every site taking part in every round (a sampling rate of one).

What is protected is a site's whole part in the training: whoever sees its updates, the hub included, can hardly tell
whether they came from its reports or from none. Bounding one report's part instead would need noise on the private
encoder too, because a report that has moved it speaks through every later update. Nothing is claimed for the numbers
that travel beside updates: counts of documents and the validation loss of an epoch.

The noise must be nobody else's to repeat, so a site draws it from the system's entropy; studies give it a seed.

>>> update = {"w": np.array([3, 4], np.float32)}  # of norm 5
>>> noised(update, clip=2.5, multiplier=0.0, rng=np.random.default_rng(0))["w"].tolist()
[1.5, 2.0]
"""

import numpy as np

from pathveil.federation import wire
from pathveil.training.accounting import spent_epsilon


def noised(arrays: wire.Arrays, *, clip: float, multiplier: float, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """The arrays scaled to a common norm of at most ``clip``, with noise of standard deviation multiplier · clip."""
    scale = min(1.0, clip / max(wire.norm(arrays), 1e-12))
    return {
        name: (array * scale + rng.normal(0, multiplier * clip, array.shape)).astype(np.float32)
        if multiplier
        else (array * np.float32(scale)).astype(np.float32)
        for name, array in arrays.items()
    }


def epsilon(*, multiplier: float, updates: int, delta: float) -> float:
    """The privacy loss ε of so many updates at δ; infinite without noise.

    By Rényi divergences, an upper bound: tests hold it against the exact value for composed Gaussian mechanisms.
    """
    return spent_epsilon(noise=multiplier, sampling_rate=1.0, steps=updates, delta=delta)
