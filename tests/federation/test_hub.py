"""What a hub takes from sites: only what a round moves, and nothing that is far off, from the first round on."""

import numpy as np
import pytest
import torch

from federation.test_embedded import SMALL, together
from pathveil.errors import FederationError
from pathveil.federation import embedded
from pathveil.federation.hub import Hub, load, schedule
from pathveil.federation.settings import FederationSettings
from pathveil.federation.site import Turn, shapes_of_update

KINDS = {
    "reversed": FederationSettings.strong(**SMALL, hidden=5),
    "alternating": FederationSettings.strong(**SMALL, hidden=5, alternating=True),
    "local steps": FederationSettings.strong(**SMALL, hidden=5, local_steps=2),
}


def turn_of(*, judge: bool) -> Turn:
    return Turn(epoch=0, step=0, steps=3, epochs=2, discriminator_only=judge)


def scaled(update, by: float):
    return {name: (array.astype(np.float64) * by).astype(np.float32) for name, array in update.items()}


def poisoned_round(settings: FederationSettings, *, at: int, sites: int = 3, by: float = 1e25):
    """A training in which the last site's update of one round, by its number, is scaled; the hub and what it said."""
    members, shared = together(settings, sites=sites)
    hub = Hub(shared, settings=settings)
    copies = [together(settings, sites=sites)[1] for _ in members]
    for number, turns in enumerate(schedule(settings, 3)):
        hub.begin(turns[0])
        for copy in copies:
            copy.load_state_dict(shared.state_dict())
        updates = [(s.name, 5, s.update(copy, turns)) for s, copy in zip(members, copies, strict=True)]
        if number == at:
            updates[-1] = (members[-1].name, 5, scaled(updates[-1][2], by))
        refused = hub.combine(updates, turns[0])
        if number == at:
            return hub, turns[0], refused
        assert not refused
    raise AssertionError("the training has no such round")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sites", [2, 3])
def test_a_poisoned_round_of_the_discriminator_is_refused_and_it_can_still_move(kind, sites):
    for at in (0, 8):  # the very first of a training too; each fourth is a joint one, or with reversal each third
        hub, turn, refused = poisoned_round(KINDS[kind], at=at, sites=sites)
        assert turn.discriminator_only or (kind, at) == ("reversed", 8)
        (line,) = refused
        assert line.startswith(f"R{sites - 1}: its update has norm") and "refused" in line
        state = hub.optimiser.discriminator.state()
        assert all(torch.isfinite(tensor).all() and tensor.abs().max() < 1e6 for tensor in state.values())


@pytest.mark.parametrize("settings", [FederationSettings(**SMALL), KINDS["local steps"]])
@pytest.mark.parametrize("sites", [2, 3])
def test_a_wildly_scaled_first_update_is_told_from_the_others(settings, sites):
    first = next(number for number, turns in enumerate(schedule(settings, 3)) if not turns[0].discriminator_only)
    _, _, refused = poisoned_round(settings, at=first, sites=sites, by=1e3)
    (line,) = refused
    assert line.startswith(f"R{sites - 1}: its update has norm") and "times the usual" in line


@pytest.mark.parametrize("kind", KINDS)
def test_what_stands_still_in_a_round_is_not_sent(kind):
    settings = KINDS[kind]
    sites, shared = together(settings)
    learnt = {name for name, p in shared.named_parameters() if p.requires_grad}
    judge = {name for name in learnt if name.startswith("discriminator.")}
    assert set(dict(shared.named_parameters())) - learnt == {"discriminator.0.centre", "discriminator.0.spread"}
    wanted = {True: judge, False: learnt if kind == "reversed" else learnt - judge}
    for only, names in wanted.items():
        turn = turn_of(judge=only)
        assert shapes_of_update(shared, settings, turn).keys() == sites[0].update(shared, [turn]).keys() == names


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("judge", [True, False])
def test_no_site_moves_the_yardstick_nor_what_stands_still(kind, judge):
    settings = KINDS[kind]
    sites, shared = together(settings)
    hub, turn = Hub(shared, settings=settings), turn_of(judge=judge)
    hub.begin(turn)
    still = {name: p for name, p in shared.named_parameters() if name not in shapes_of_update(shared, settings, turn)}
    before = {name: p.detach().clone() for name, p in still.items()}
    good = sites[0].update(together(settings)[1], [turn])
    for name, parameter in still.items():
        bad = good | {name: -2 * parameter.detach().numpy()}
        (line,) = hub.combine([("R0", 5, good), ("R1", 5, good), ("R2", 5, bad)], turn)
        assert line.startswith("R2: ") and f"'{name}' is not a shared parameter of this round" in line
    assert all(torch.equal(p, before[name]) for name, p in still.items())


def test_noise_leaves_the_yardstick_alone(monkeypatch):
    settings = FederationSettings.strong(**SMALL, hidden=5, local_steps=3, clip=1.0, noise=1.0)
    sites, shared = together(settings)
    least, combine = [], Hub.combine

    def watched(hub, updates, turn):
        before = {name: p.detach().clone() for name, p in hub.shared.discriminator.named_parameters()}
        said = combine(hub, updates, turn)
        after = dict(hub.shared.discriminator.named_parameters())
        moves = {name for name in before if not torch.equal(before[name], after[name])}
        assert moves == ({"1.weight", "1.bias", "2.weight", "2.bias"} if turn.discriminator_only else set())
        least.append(float(after["0.spread"].min()))
        return said

    monkeypatch.setattr(Hub, "combine", watched)
    embedded.train(sites, shared, settings=settings)
    assert least and min(least) > 0


def test_noise_that_was_asked_for_is_not_taken_for_poison():
    settings = FederationSettings(**SMALL, clip=50.0, noise=50.0)
    sites, shared = together(settings, sites=2)
    embedded.train(sites, shared, settings=settings)
    _, history = embedded.train(sites, shared, settings=settings)
    assert not history.refused


def test_an_epoch_whose_loss_is_no_number_does_not_take_the_place_of_a_good_one():
    _, shared = together(FederationSettings(**SMALL))
    hub = Hub(shared, settings=FederationSettings(**SMALL))
    assert [hub.keep_if_best(loss, epoch=epoch) for epoch, loss in enumerate((0.5, float("nan"), 0.7))] == [
        True,
        False,
        False,
    ]
    assert hub.best_epoch.number == 1 and hub.best_epoch.loss == 0.5


def test_a_round_without_a_usable_update_is_an_error():
    settings = FederationSettings(**SMALL)
    sites, shared = together(settings)
    update = scaled(sites[0].update(shared, [turn_of(judge=False)]), 1e30)
    with pytest.raises(FederationError, match="no site sent a usable update in this round: R0: its update has norm"):
        Hub(shared, settings=settings).combine([("R0", 5, update)], turn_of(judge=False))


def test_no_epoch_is_kept_before_its_time():
    hub = Hub(together(FederationSettings(**SMALL))[1], settings=FederationSettings(epochs=4, keep_from=0.5))
    assert [hub.keep_if_best(loss, epoch=epoch) for epoch, loss in enumerate((1.0, 2.0, 4.0, 3.0))] == [0, 0, 1, 1]
    assert hub.best_epoch.number == 4


def test_a_bad_update_is_named_and_left_out():
    settings = FederationSettings(**SMALL)
    sites, shared = together(settings)
    hub = Hub(shared, settings=settings)
    turn = next(iter(schedule(settings, 3)))[0]
    good = sites[0].gradients(shared, [turn])
    bad = {name: np.full_like(array, np.nan) for name, array in good.items()}
    refused = hub.combine([("R0", 10, good), ("R1", 10, bad)], turn)
    assert refused and refused[0].startswith("R1: ") and "not finite" in refused[0]
    load(shared, hub.arrays())
