"""What may cross the wire: exactly the arrays that were agreed on, of a usual size."""

import numpy as np
import pytest
import torch

from pathveil.errors import FederationError
from pathveil.federation import wire
from pathveil.federation.wire import GateError, Norms

MANIFEST = {"encoder.weight": (2, 3), "discriminator.0.bias": (4,)}


def arrays() -> dict[str, np.ndarray]:
    return {name: np.ones(shape, np.float32) for name, shape in MANIFEST.items()}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"heads.site.weight": np.ones(2, np.float32)}, "'heads.site.weight' is not a shared parameter"),
        ({"encoder.weight": np.ones((2, 3))}, "has type float64, expected float32"),
        ({"encoder.weight": np.ones((3, 2), np.float32)}, r"has shape \(3, 2\), expected \(2, 3\)"),
        ({"encoder.weight": np.full((2, 3), np.inf, np.float32)}, "not finite"),
        ({"discriminator.0.bias": np.full(4, np.nan, np.float32)}, "not finite"),
    ],
)
def test_anything_but_the_agreed_arrays_is_refused(change, words):
    wire.check(arrays(), MANIFEST, sender="A")
    with pytest.raises(FederationError, match=f"^A: .*{words}"):
        wire.check(arrays() | change, MANIFEST, sender="A")


def test_missing_arrays_are_refused_with_the_error_that_was_asked_for():
    with pytest.raises(GateError, match=r"1 shared parameters are missing, 'discriminator\.0\.bias' first"):
        wire.check({"encoder.weight": arrays()["encoder.weight"]}, MANIFEST, sender="A", error=GateError)


def test_a_manifest_is_a_networks_parameters_and_their_bytes():
    network = torch.nn.Linear(3, 2)
    assert wire.manifest_of(network) == {"weight": (2, 3), "bias": (2,)}
    copied = wire.arrays_of(network)
    assert wire.size(copied) == wire.weight(wire.manifest_of(network)) == 4 * 8
    copied["bias"][:] = 7.0  # a copy: what was sent does not move with the network, nor the other way round
    assert not (network.bias == 7).any()
    assert list(wire.arrays_of(network, {"bias": (2,)})) == ["bias"]
    assert list(wire.of_discriminator(MANIFEST)) == ["discriminator.0.bias"]


def test_the_norm_is_of_all_arrays_together_and_does_not_overflow():
    assert wire.norm({"a": np.array([3.0], np.float32), "b": np.array([4.0], np.float32)}) == 5.0
    assert np.isfinite(wire.norm({"a": np.full(4, 1e30, np.float32)}))


def test_an_update_is_compared_with_the_other_sites_and_then_with_what_was_usual():
    norms = Norms(factor=20)
    assert not norms.judge({"A": 1.0, "B": 19.0}, size=10.0)
    assert list(norms.judge({"A": 1.0, "B": 21.0}, size=10.0)) == ["B"]
    assert norms.seen == [1.0, 19.0, 1.0]
    assert not Norms().judge({"A": 1.0, "B": 1e-9}, size=100.0)  # who says nothing does not shut the other out
    assert not Norms().judge({"A": 199.0}, size=100.0) and list(Norms().judge({"A": 201.0}, size=100.0)) == ["A"]
    norms = Norms(factor=20)
    assert list(norms.judge({"A": 1.0, "B": 2.0, "C": 31.0}, size=1.0)) == ["C"]
    assert not norms.judge({"A": 1.0, "B": 1.0, "C": 1e-9}, size=1.0)
    assert list(norms.judge({"C": 40.0}, size=1e9)) == ["C"]  # alone, against what was usual
    for value in (1e20, float("inf"), float("nan")):  # its square is no float
        assert list(Norms().judge({"A": value, "B": 1.0}, size=1e30)) == ["A"]
    assert max(norms.seen) < 3
