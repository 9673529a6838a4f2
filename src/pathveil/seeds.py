"""Where random numbers come from: one seed a run, and a branch of it for every random step.

A branch is a few whole numbers that say which step draws. Steps with different branches draw independently, and none
depends on how much another one drew, so that a run repeats whatever the order of its steps.

>>> generator(7, 1).random() == generator(7, 1).random(), child(7, 1) == child(7, 2)
(True, False)
"""

from collections.abc import Sequence

import numpy as np

Seed = int | Sequence[int]


def generator(seed: Seed, *branch: int) -> np.random.Generator:
    """A generator of a branch's own."""
    return np.random.default_rng(_path(seed, branch))


def child(seed: Seed, *branch: int) -> int:
    """A seed of a branch's own, of 32 bits, for what takes a seed itself (a network, a corpus)."""
    return int(np.random.SeedSequence(_path(seed, branch)).generate_state(1)[0])


def _path(seed: Seed, branch: tuple[int, ...]) -> list[int]:
    return [*np.atleast_1d(seed).tolist(), *branch]
