"""Random numbers: a branch of a seed for every step."""

import numpy as np
import pytest

from pathveil.errors import UsageError
from pathveil.rng import child, generator


def test_a_branch_is_numpys_own_sequence_of_the_same_numbers():
    assert generator(3, 1, 4).random() == np.random.default_rng([3, 1, 4]).random()
    assert generator([3, 1], 4).random() == np.random.default_rng([3, 1, 4]).random()
    assert child(3, 1) == np.random.SeedSequence([3, 1]).generate_state(1)[0]


def test_branches_differ_and_ignore_the_global_state():
    np.random.seed(0)
    first = generator(0, 1).random(4)
    np.random.seed(1)
    assert (generator(0, 1).random(4) == first).all()
    assert len({child(seed, branch) for seed in range(30) for branch in range(30)}) == 900


def test_a_seed_that_gives_no_numbers_is_one_sentence():
    for seed in (-1, [3, -1], 0.5, "7", True):
        with pytest.raises(UsageError, match="seed: expected a whole number, 0 or more"):
            generator(seed, 1)
    assert child(np.int64(3), 1) == child(3, 1)
