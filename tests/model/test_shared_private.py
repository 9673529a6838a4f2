"""The discriminator of the shared part: what it reads, how steep it is, and what it learns from."""

import pytest
import torch
from torch.nn import functional

from pathveil.model.shared_private import Shared


def shared(hidden: int = 7, seed: int = 3) -> Shared:
    return Shared(
        vocabulary_size=60, registries=3, classes={}, dim=6, windows=(2, 3), filters=4, hidden=hidden, seed=seed
    )


def drawn(documents: int = 20) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    features = torch.randn(documents, 8, generator=generator).abs()
    return features, torch.randint(0, 3, (documents,), generator=generator)


@pytest.mark.parametrize("hidden", [0, 7])
def test_slopes_are_the_gradient_of_the_own_registrys_score(hidden):
    network, (features, registry) = shared(hidden), drawn()
    network.calibrate(seed=0)
    features.requires_grad_()
    scores = network.discriminate(features)
    scores.gather(1, registry[:, None]).sum().backward()
    assert features.grad is not None
    spread = network.discriminator[0].spread if hidden else torch.ones(8)
    torch.testing.assert_close(network.slopes(features, registry), features.grad * spread)


@pytest.mark.parametrize("hidden", [0, 7])
def test_flatness_moves_the_discriminator_and_not_the_encoder(hidden):
    network, (features, registry) = shared(hidden), drawn()
    gradients = []
    for flatness in (0.0, 2.0):
        features = features.detach().requires_grad_()
        network.zero_grad(set_to_none=True)
        loss = network.discrimination(features, registry, flatness=flatness)
        plain = functional.cross_entropy(network.discriminate(features), registry)
        expected = plain + flatness * network.slopes(features, registry).square().sum(1).mean()
        torch.testing.assert_close(loss, expected)
        loss.backward()
        gradients.append((features.grad, network.discriminator[-1].weight.grad.clone()))
    torch.testing.assert_close(gradients[0][0], gradients[1][0])
    assert (gradients[0][1] - gradients[1][1]).abs().max() > 1e-4


def test_the_yardstick_is_that_of_random_text_and_follows_from_the_encoder_alone(monkeypatch):
    network, other = shared(), shared()
    seen: list[torch.Tensor] = []
    features = network.features

    def watched(batch):
        seen.append(features(batch))
        return seen[-1]

    monkeypatch.setattr(network, "features", watched)
    network.calibrate(seed=4)
    other.calibrate(seed=4)
    (random,) = seen
    by_yardstick = network.discriminator[0](random)
    torch.testing.assert_close(by_yardstick.mean(0), torch.zeros(8), atol=1e-5, rtol=0)
    torch.testing.assert_close(by_yardstick.std(0), torch.ones(8))
    for name, parameter in network.named_parameters():
        torch.testing.assert_close(parameter, dict(other.named_parameters())[name], rtol=0, atol=0)
    with torch.no_grad():
        other.encoder.embedding.weight.mul_(3)
    other.calibrate(seed=4)
    assert (other.discriminator[0].spread > 2 * network.discriminator[0].spread).all()


def test_a_feature_that_random_text_never_moves_is_not_blown_up():
    network = shared()
    features = torch.randn(50, 8, generator=torch.Generator().manual_seed(2))
    features[:, 3] = 0.0
    with torch.no_grad():
        network.discriminator[0].set(features)
    spread = network.discriminator[0].spread
    assert spread[3] == pytest.approx(0.1 * features.std(0).mean().item())


def test_the_papers_discriminator_has_no_yardstick():
    network = shared(hidden=0)
    before = {name: parameter.clone() for name, parameter in network.named_parameters()}
    network.calibrate(seed=1)
    assert not any("spread" in name for name in before)
    assert all((parameter == before[name]).all() for name, parameter in network.named_parameters())
