"""Sums over sites in whole numbers: the weighted mean of updates, what is told beside it, and noise in shares."""

import numpy as np
import pytest
from scipy.stats import kstest

from federation.protocol.test_hub_run import plan_of, reports
from federation.test_embedded import SMALL, together
from pathveil.errors import FederationError, UsageError
from pathveil.federation import embedded, wire
from pathveil.federation.fixed_point import BITS
from pathveil.federation.hub import Hub, average
from pathveil.federation.settings import FederationSettings
from pathveil.federation.site import Turn
from pathveil.federation.sums import Contribution, Sums

MANIFEST = {"a": (30, 4), "b": (7,)}


def updates(sites: int, *, size: float = 0.01) -> list[tuple[int, dict[str, np.ndarray]]]:
    rng = np.random.default_rng(sites)
    return [
        (
            int(rng.integers(1, 90)),
            {name: rng.normal(0, size, shape).astype(np.float32) for name, shape in MANIFEST.items()},
        )
        for _ in range(sites)
    ]


@pytest.mark.parametrize("bits", BITS)
def test_the_sum_gives_the_mean_weighted_by_documents(bits):
    sent, sums = updates(5), Sums(bits=bits, sites=5)
    exponents = {"a": 3, "b": 4}
    parts = [sums.of_update(arrays, documents=documents, exponents=exponents) for documents, arrays in sent]
    weights = sum(documents for documents, _ in sent)
    total = sums.total("round", parts, MANIFEST, exponents, documents=weights)
    assert total.documents == weights and total.clipped == 0
    step = 2.0 ** (4 - sums.numbers.shift)  # of the wider range; each site is off by half of it at most
    for name, mean in average(sent).items():
        np.testing.assert_allclose(total.means[name], mean, atol=5 * step / 2 / total.documents + 1e-8)
        peaks = sum(documents * float(np.abs(arrays[name]).max()) for documents, arrays in sent)
        assert total.peaks[name] == pytest.approx(peaks, abs=1e-5)
    assert sums.shape("round", MANIFEST) == (127, 4) and sums.weight(MANIFEST) == 127 * bits // 8
    assert all(part.update.shape == (127,) and part.facts.shape == (4,) for part in parts)


def test_what_does_not_fit_is_clipped_counted_and_told():
    sums, exponents = Sums(bits=16, sites=3), {"w": 0}
    parts = [
        sums.of_update({"w": np.array([value, 0.5], np.float32)}, documents=1, exponents=exponents)
        for value in (3.0, -70.0, 0.25)
    ]
    total = sums.total("round", parts, {"w": (2,)}, exponents, documents=3)
    assert total.clipped == 2 and total.peaks["w"] == 3.0 + 70.0 + 0.5
    np.testing.assert_allclose(3 * total.means["w"], [0.25, 1.5], atol=1e-3)


def test_an_epoch_is_closed_by_sums_alone():
    sums = Sums(bits=32, sites=3)
    told = [(10, 0.5, 3.0), (30, 1.5, 4.0), (20, 0.25, 8.0)]
    parts = [sums.of_close(documents=n, loss=loss, feature_norm=norm) for n, loss, norm in told]
    total = sums.total("close", parts, {}, {}, documents=60)
    assert total.loss == pytest.approx((5 + 45 + 5) / 60) and total.feature_norm == pytest.approx(5.0)
    for lost in (float("nan"), float("inf"), 1e9):
        parts[1] = sums.of_close(documents=30, loss=lost, feature_norm=4.0)
        assert np.isnan(sums.total("close", parts, {}, {}, documents=60).loss)


def test_a_sum_that_no_sites_could_have_made_is_not_read():
    sums, exponents = Sums(bits=32, sites=2), {"a": 0, "b": 0}
    (documents, arrays), other = updates(2)
    good = sums.of_update(arrays, documents=documents, exponents=exponents)
    for place, value, sentence in (
        (0, 1, "masks do not cancel"),
        (1, -9999, "below zero"),
        (2, -(2**40), "below zero"),
    ):
        facts = good.facts.copy()
        facts[place] += value
        parts = [Contribution(good.update, facts), sums.of_update(other[1], documents=1, exponents=exponents)]
        with pytest.raises(FederationError, match=f"cannot be read: .*{sentence}.*masks hide which one"):
            sums.total("round", parts, MANIFEST, exponents, documents=9)


def test_shares_of_noise_add_up_to_what_was_asked_for_and_nothing_is_told_beside():
    clip, noise, sites = 2.0, 1.5, 4
    sums = Sums(bits=32, sites=sites, clip=clip, noise=noise)
    exponents = sums.first_exponents({"w": (20_000,)}, documents=99)
    zero = {"w": np.zeros(20_000, np.float32)}
    rngs = [np.random.default_rng(number) for number in range(sites)]
    parts = [sums.of_update(zero, documents=7 + n, exponents=exponents, rng=rng) for n, rng in enumerate(rngs)]
    assert all(part.facts.tolist() == [0] for part in parts)
    total = sums.total("round", parts, {"w": (20_000,)}, exponents, documents=40)
    assert total.documents == sites  # every site weighs the same
    assert kstest(sites * total.means["w"] / (noise * clip), "norm").pvalue > 1e-4
    own = sums.numbers.decoded(parts[0].update, exponent=exponents["w"])
    assert kstest(own / (noise * clip / 2), "norm").pvalue > 1e-4  # a share: half of it at four sites


def test_rounding_makes_no_clipped_update_longer():
    rng = np.random.default_rng(3)
    for bits in BITS:
        sums = Sums(bits=bits, sites=7, clip=1.0, noise=1.0)
        update = rng.normal(0, 1, 5000)
        update /= np.linalg.norm(update)  # of norm 1, the clip
        steps = np.trunc(sums.scaled(update.astype(np.float32)))
        assert np.linalg.norm(steps) <= np.linalg.norm(sums.scaled(update)) <= sums.numbers.most
        # And the noise is at least what was asked for, however it was rounded.
        assert sums.sigma * 2.0 ** (sums.exponent - sums.numbers.shift) >= 1 / np.sqrt(7)


def test_noise_that_the_bits_have_no_room_for_is_refused():
    with pytest.raises(UsageError, match=r"16 bits have no room for noise of 0\.001 times clip at 3 sites; take more"):
        Sums(bits=16, sites=3, clip=1.0, noise=0.001)
    assert Sums(bits=32, sites=3, clip=1.0, noise=0.001).sigma >= 8


@pytest.mark.parametrize(("mode", "local"), [("paper", 1), ("strong", 2)])
def test_training_by_sums_of_many_bits_is_training_by_floats(mode, local):
    """32 bits hold all but the last digits; and the steps of 16 bits are seen, so that this can fail."""
    found = {}
    for bits in (0, 16, 32):
        kind = FederationSettings if mode == "paper" else FederationSettings.strong
        settings = kind(**SMALL, local_steps=local, bits=bits, **({"hidden": 5} if mode == "strong" else {}))
        sites, shared = together(settings)
        hub, history = embedded.train(sites, shared, settings=settings, joint=False)
        found[bits] = hub.arrays(), history
    floats, exact = found[0], found[32]
    np.testing.assert_allclose(exact[1].validation_loss, floats[1].validation_loss, rtol=1e-4)
    for name, array in floats[0].items():
        np.testing.assert_allclose(exact[0][name], array, atol=3e-4, err_msg=name)
    assert any(np.abs(found[16][0][name] - array).max() > 3e-4 for name, array in floats[0].items())
    assert exact[1].received == floats[1].received == 2 * found[16][1].received and exact[1].clipped == 0


def test_averaged_networks_are_the_same_by_sums():
    found = []
    for bits in (0, 32):
        plan = plan_of("fedavg", bits=bits)
        sites = [plan.plain_site(reports(plan, name), name) for name in plan.sites]
        history = embedded.train_plain(sites, stage="")
        found.append((wire.arrays_of(sites[0].model), history.validation_loss))
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-5)
    for name, array in found[0][0].items():
        np.testing.assert_allclose(found[1][0][name], array, atol=1e-5, err_msg=name)
    with pytest.raises(UsageError, match="goes from site to site is no sum"):
        embedded.train_plain([plan.plain_site(reports(plan, "A"), "A")], cyclic=True, stage="")


def test_a_sum_that_is_far_off_moves_nothing_and_names_nobody():
    settings = FederationSettings(**SMALL, bits=32)
    sites, shared = together(settings)
    hub, turn = Hub(shared, settings=settings), Turn(epoch=0, step=0, steps=3, epochs=1)
    before = hub.arrays()
    update = {name: array * np.float32(1e9) for name, array in sites[0].update(together(settings)[1], [turn]).items()}
    (line,) = hub.combine_sum(update, turn)
    assert line.startswith("all sites together: its update has norm") and "cannot be seen in a sum" in line
    assert all((hub.arrays()[name] == array).all() for name, array in before.items())
