"""Clipping, noise and its accounting, against closed forms."""

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from federation.test_embedded import SMALL, together
from pathveil.federation import embedded, wire
from pathveil.federation.noise import epsilon, noised
from pathveil.federation.settings import FederationSettings
from pathveil.federation.site import Turn


def exact(multiplier: float, updates: int, delta: float) -> float:
    """ε of T Gaussian mechanisms: together they are one with σ / √T, whose δ(ε) Balle and Wang (2018) give exactly."""
    mean = np.sqrt(updates) / multiplier
    return brentq(lambda e: norm.cdf(mean / 2 - e / mean) - np.exp(e) * norm.cdf(-mean / 2 - e / mean) - delta, 0, 300)


@pytest.mark.parametrize(("multiplier", "updates"), [(5.0, 1), (2.0, 15), (20.0, 1200), (1.0, 15), (0.5, 20)])
def test_the_accountant_bounds_the_exact_loss_closely(multiplier, updates):
    found = epsilon(multiplier=multiplier, updates=updates, delta=1e-5)
    assert exact(multiplier, updates, 1e-5) <= found <= 1.1 * exact(multiplier, updates, 1e-5)


def test_no_noise_is_no_privacy():
    assert epsilon(multiplier=0.0, updates=1, delta=1e-5) == float("inf")


def test_updates_are_clipped_together_and_the_noise_has_the_stated_spread():
    arrays = {"a": np.full((3, 4), 2.0, np.float32), "b": np.full(4, 2.0, np.float32)}  # norm 8
    rng = np.random.default_rng(0)
    clipped = noised(arrays, clip=2.0, multiplier=0.0, rng=rng)
    assert wire.norm(clipped) == pytest.approx(2.0) and np.allclose(clipped["a"], 0.5)
    assert all((noised(arrays, clip=9.0, multiplier=0.0, rng=rng)[name] == arrays[name]).all() for name in arrays)
    large = {"a": np.zeros((500, 400), np.float32)}
    noise = noised(large, clip=2.0, multiplier=1.5, rng=rng)["a"]
    # The standard error of a spread from 200,000 draws is 3 / √400,000; five of them.
    assert abs(noise.std() - 3.0) < 5 * 3 / np.sqrt(400_000) and abs(noise.mean()) < 5 * 3 / np.sqrt(200_000)
    assert noise.dtype == np.float32


def test_a_site_sends_nothing_without_its_noise():
    turn = Turn(epoch=0, step=0, steps=3, epochs=1)
    sites, shared = together(FederationSettings(**SMALL))
    plain = sites[0].gradients(shared, [turn])
    clip = wire.norm(plain) / 2
    sites, shared = together(FederationSettings(**SMALL, clip=clip, noise=3.0))
    sent = sites[0].gradients(shared, [turn])
    noise = np.concatenate([(sent[name] - plain[name] / 2).ravel() for name in plain])
    # The noise cannot be repeated: seven standard errors of a spread, which chance does not bring.
    assert len(noise) > 300 and abs(noise.std() / (3 * clip) - 1) < 7 / np.sqrt(2 * len(noise))
    other = together(FederationSettings(**SMALL, clip=clip, noise=3.0))[0][0].gradients(shared, [turn])
    name = "encoder.embedding.weight"
    assert not np.array_equal(sent[name], other[name])  # nobody can repeat it
    sites, shared = together(FederationSettings(**SMALL, clip=clip, noise=3.0, local_steps=2))
    assert wire.norm(sites[0].change(shared, [turn])) == pytest.approx(3 * clip * np.sqrt(len(noise)), rel=0.2)


def test_a_run_tells_its_privacy_loss_epoch_by_epoch():
    settings = FederationSettings(**SMALL, clip=1.0, noise=4.0, local_steps=3)
    sites, shared = together(settings)
    _, history = embedded.train(sites, shared, settings=settings)
    half = history.rounds // 2
    wanted = [epsilon(multiplier=4.0, updates=rounds, delta=1e-5) for rounds in (half, history.rounds)]
    assert history.epsilon == wanted and wanted[0] < wanted[1]
    assert embedded.train(*together(FederationSettings(**SMALL)), settings=FederationSettings(**SMALL))[1].epsilon == []
    with pytest.raises(ValueError, match="set clip as well"):
        FederationSettings(noise=1.0)
