"""Draws of the discrete Gaussian against its formula, and their sum against that of the summed variance."""

import numpy as np
import pytest
from scipy.stats import chisquare

from pathveil.federation.discrete_gaussian import MOST, random_words, sampled


def expected(sigma: float, numbers: np.ndarray) -> np.ndarray:
    """The chance of each whole number."""
    every = np.arange(-int(20 * sigma) - 1, int(20 * sigma) + 2)
    return np.exp(-(numbers**2) / (2 * sigma**2)) / np.exp(-(every**2) / (2 * sigma**2)).sum()


def chance(draws: np.ndarray, sigma: float, *, reach: float = 3.0) -> float:
    """The p-value of the draws: counts of each number within some standard deviations, and of all beyond."""
    numbers = np.arange(-int(reach * sigma) - 1, int(reach * sigma) + 2)
    counts = np.bincount(np.clip(draws - numbers[0] + 1, 0, len(numbers) + 1), minlength=len(numbers) + 2)
    wanted = expected(sigma, numbers)
    beyond = (1 - wanted.sum()) / 2
    return chisquare(counts, len(draws) * np.concatenate([[beyond], wanted, [beyond]])).pvalue


@pytest.mark.parametrize("sigma", [1, 3, 40])
def test_draws_have_the_chances_of_the_formula(sigma):
    assert chance(sampled(200_000, sigma=sigma, rng=np.random.default_rng(sigma)), sigma) > 1e-4


def test_a_wrong_spread_would_be_seen():
    draws = sampled(200_000, sigma=40, rng=np.random.default_rng(0))
    assert chance(draws, 41) < 1e-4 and chance(np.rint(draws * 1.01).astype(int), 40) < 1e-4


def test_shares_add_up_to_the_noise_of_their_summed_variance():
    shares = [sampled(100_000, sigma=12, rng=np.random.default_rng(number)) for number in range(4)]
    assert chance(sum(shares), 24) > 1e-4


def test_the_system_s_entropy_is_drawn_from_where_no_generator_is_given():
    first, second = sampled(50_000, sigma=9), sampled(50_000, sigma=9)
    assert (first != second).any() and chance(first, 9) > 1e-6
    assert len(np.unique(random_words(1000, None))) == 1000
    repeat = [sampled(30, sigma=9, rng=np.random.default_rng(2)) for _ in range(2)]
    assert (repeat[0] == repeat[1]).all()


def test_where_random_words_run_out_a_draw_goes_on_as_it_began(monkeypatch):
    """In chunks of a few words the draws are those of one long chunk."""
    whole = np.random.default_rng(4).integers(0, 2**64, 100_000, np.uint64)
    found = []
    for step in (100_000, 7, 1):
        chunks = iter(np.array_split(whole, range(step, len(whole), step)))
        monkeypatch.setattr(
            "pathveil.federation.discrete_gaussian.random_words", lambda count, rng, chunks=chunks: next(chunks)
        )
        found.append(sampled(40, sigma=30).tolist())
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("sigma", [0, MOST + 1])
def test_a_spread_that_cannot_be_drawn_exactly_is_refused(sigma):
    with pytest.raises(ValueError, match="must be a whole number from 1 to 4096"):
        sampled(1, sigma=sigma)
    assert abs(sampled(3000, sigma=MOST, rng=np.random.default_rng(1)).std() / MOST - 1) < 0.1
