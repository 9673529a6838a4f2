"""One plain network: alone, averaged, or going from site to site."""

import numpy as np
import pytest
import torch

from federation.test_run import QUICK, corpus
from pathveil.federation import embedded, plain, wire
from pathveil.federation.hub import average
from pathveil.federation.noise import epsilon
from pathveil.federation.run import run
from pathveil.federation.settings import FederationSettings


def sites(number: int, **changes) -> list[plain.PlainSite]:
    everything, settings = corpus(), FederationSettings(**QUICK | changes)
    parts = [everything.take(np.flatnonzero(everything.registries == registry)) for registry in range(number)]
    return [plain.PlainSite(part, settings=settings, seed=1, registry=n) for n, part in enumerate(parts)]


def test_averaging_is_the_mean_of_what_the_sites_made_of_the_same_start():
    """One epoch of three sites beside the same steps without a hub."""
    together, apart = sites(3, epochs=1), sites(3, epochs=1)
    history = embedded.train_plain(together, stage="")
    for site in apart:
        site.epoch(0, steps=-(-len(site.train) // site.settings.batch_size))
    wanted = average([(len(site.train), wire.arrays_of(site.model)) for site in apart])
    for site in together:
        for name, array in wire.arrays_of(site.model).items():
            np.testing.assert_array_equal(array, wanted[name], err_msg=name)
    size = 3 * wire.size(wanted)
    assert (history.rounds, history.sent, history.received) == (1, size, size)


def test_a_network_that_goes_round_is_trained_at_every_site_in_turn():
    together, apart = sites(2, epochs=1), sites(2, epochs=1)
    embedded.train_plain(together, cyclic=True, stage="")
    for before, site in zip((None, apart[0]), apart, strict=True):
        if before is not None:
            site.load(wire.arrays_of(before.model))
        site.epoch(0, steps=-(-len(site.train) // site.settings.batch_size))
    for name, array in wire.arrays_of(together[0].model).items():
        np.testing.assert_array_equal(array, wire.arrays_of(apart[1].model)[name], err_msg=name)


def test_alone_nothing_travels_and_the_best_epoch_is_kept():
    (site,) = sites(1, epochs=4)
    history = plain.train_alone(site, stage="")
    assert (history.rounds, history.sent, history.received, history.epsilon) == (0, 0, 0, [])
    assert history.kept == 1 + int(np.argmin(history.validation_loss))
    assert site.validation_loss() == pytest.approx(min(history.validation_loss), rel=1e-6)


def test_sites_drop_different_features(monkeypatch):
    """Documents at the same place at two sites had the same masks."""
    seen: list[torch.Tensor] = []
    forward = type(sites(1)[0].model).forward

    def watched(self, batch, *, noise=None):
        seen.append(noise)
        return forward(self, batch, noise=noise)

    monkeypatch.setattr(type(sites(1)[0].model), "forward", watched)
    for site in sites(2, epochs=1):
        site.epoch(0, steps=2)
    numbers = torch.cat(seen).tolist()
    assert len(set(numbers)) == len(numbers)


@pytest.mark.parametrize("cyclic", [False, True])
def test_a_plain_network_leaves_a_site_clipped_and_noised_too(cyclic):
    """In averaged and cyclic training the whole network travels: what a site has changed in it is bounded the same."""
    told = QUICK | {"epochs": 1, "clip": 0.01}
    sites = [plain.PlainSite(corpus(), settings=FederationSettings(**told), seed=1, registry=n) for n in range(2)]
    before = wire.arrays_of(sites[0].model)
    embedded.train_plain(sites, cyclic=cyclic, stage="")
    moved = wire.norm({name: array - before[name] for name, array in wire.arrays_of(sites[0].model).items()})
    assert moved == pytest.approx(0.02 if cyclic else 0.01, rel=0.2) and moved <= (0.0201 if cyclic else 0.0101)
    site = plain.PlainSite(corpus(), settings=FederationSettings(**told, noise=5.0), seed=1, registry=0)
    sent = site.update(wire.arrays_of(site.model))  # nothing has changed: what is sent is noise
    noise = np.concatenate([(sent[name] - array).ravel() for name, array in wire.arrays_of(site.model).items()])
    # The noise cannot be repeated: seven standard errors of a spread, which chance does not bring.
    assert len(noise) > 1000 and abs(noise.std() / 0.05 - 1) < 7 / np.sqrt(2 * len(noise))


@pytest.mark.parametrize("mode", ["fedavg", "cyclic"])
def test_a_plain_run_tells_its_privacy_loss(mode):
    settings = FederationSettings(**(QUICK | {"epochs": 3, "clip": 1.0, "noise": 4.0}))
    (history,) = run(corpus(), mode=mode, settings=settings, seed=1).histories
    assert history.epsilon == [epsilon(multiplier=4.0, updates=n, delta=1e-5) for n in (1, 2, 3)]
