"""Privacy accounting against the exact value where there is one, and against itself turned round."""

import sys

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from pathveil.errors import MissingExtraError, UsageError
from pathveil.training.accounting import needed_noise, spent_epsilon


def exact(noise: float, steps: int, delta: float) -> float:
    """ε of T Gaussian mechanisms: together they are one with σ / √T, whose δ(ε) Balle and Wang (2018) give exactly."""
    mean = np.sqrt(steps) / noise
    return brentq(lambda e: norm.cdf(mean / 2 - e / mean) - np.exp(e) * norm.cdf(-mean / 2 - e / mean) - delta, 0, 300)


@pytest.mark.parametrize(("accountant", "slack"), [("rdp", 1.1), ("prv", 1.02)])
@pytest.mark.parametrize(("noise", "steps"), [(5.0, 1), (2.0, 15)])
def test_epsilon_bounds_the_exact_loss_closely_where_every_case_is_in_every_step(accountant, slack, noise, steps):
    found = spent_epsilon(noise=noise, sampling_rate=1.0, steps=steps, delta=1e-5, accountant=accountant)
    assert exact(noise, steps, 1e-5) <= found <= slack * exact(noise, steps, 1e-5)


def test_a_rarer_drawn_case_loses_less():
    spent = [spent_epsilon(noise=1.0, sampling_rate=rate, steps=100, delta=1e-5) for rate in (0.01, 0.1, 1.0)]
    assert spent[0] < spent[1] < spent[2]


@pytest.mark.parametrize("epsilon", [0.5, 8.0, 50.0])
def test_needed_noise_is_the_least_that_keeps_within_epsilon(epsilon):
    run = {"sampling_rate": 0.05, "steps": 200, "delta": 1e-5}
    noise = needed_noise(epsilon=epsilon, **run)
    assert 0.98 * epsilon <= spent_epsilon(noise=noise, **run) <= epsilon


def test_an_epsilon_that_no_noise_reaches_is_one_sentence():
    with pytest.raises(UsageError, match="ask for a larger epsilon"):
        needed_noise(epsilon=1e-9, sampling_rate=1.0, steps=1000, delta=1e-300)


def test_without_opacus_one_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "opacus", None)
    for ask in (lambda **run: spent_epsilon(noise=1.0, **run), lambda **run: needed_noise(epsilon=1.23, **run)):
        with pytest.raises(MissingExtraError, match=r"pip install 'pathveil\[dp\]'"):
            ask(sampling_rate=0.1, steps=7, delta=1e-5)
