"""Networks at their start: equal wherever they are made, and of the kind that the settings need."""

import pytest
import torch

from federation.protocol.test_hub_run import plan_of, reports
from pathveil.federation import wire
from pathveil.federation.networks import Networks
from pathveil.federation.settings import FederationSettings


def test_equal_wherever_they_are_made_and_private_parts_are_a_registrys_own():
    settings = FederationSettings.strong(dim=6, filters=4, hidden=5)
    one, other = (Networks(settings, 40, {"site": 3}, seed) for seed in (5, 6))
    for make in (lambda n: n.shared(registries=3), lambda n: n.private(1), lambda n: n.plain()):
        first, again, changed = (wire.arrays_of(make(networks)) for networks in (one, one, other))
        assert all((first[name] == again[name]).all() for name in first)
        assert any((first[name] != changed[name]).any() for name in first)
    assert not torch.equal(one.private(0).encoder.embedding.weight, one.private(1).encoder.embedding.weight)


@pytest.mark.parametrize("positions", [False, True])
def test_a_planned_site_can_compare_positions_which_needs_dense_gradients(positions):
    """A plan with positions made sparse encoders, which a site refuses."""
    plan = plan_of("adversarial", positions=positions)
    assert plan.site(reports(plan, "A"), "A").private.encoder.sparse == plan.shared().encoder.sparse == (not positions)
