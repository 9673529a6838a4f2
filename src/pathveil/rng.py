"""Where random numbers come from: one seed a run, and a branch of it for every random step.

A branch is a few whole numbers that say which step draws. Steps with different branches draw independently, and none
depends on how much another one drew, so that a run repeats whatever the order of its steps.

>>> generator(7, 1).random() == generator(7, 1).random(), child(7, 1) == child(7, 2)
(True, False)
"""

from collections.abc import Sequence

import numpy as np

from pathveil.arguments import check_whole_number

Seed = int | Sequence[int]


def check_seed(seed: int) -> None:
    """Refuse a seed that no random number can come from, before hours of work that draws its first one late.

    >>> check_seed(-1)
    Traceback (most recent call last):
    pathveil.errors.UsageError: seed: expected a whole number, 0 or more; got -1
    """
    check_whole_number(seed, "seed", least=0)


def generator(seed: Seed, *branch: int) -> np.random.Generator:
    """A generator of a branch's own."""
    return np.random.default_rng(_path(seed, branch))


def child(seed: Seed, *branch: int) -> int:
    """A seed of a branch's own, of 32 bits, for what takes a seed itself (a network, a corpus)."""
    return int(np.random.SeedSequence(_path(seed, branch)).generate_state(1)[0])


def _path(seed: Seed, branch: tuple[int, ...]) -> list[int]:
    numbers = [seed] if isinstance(seed, int) else np.atleast_1d(seed).tolist()
    for number in numbers:
        check_seed(number)
    return [*numbers, *branch]
