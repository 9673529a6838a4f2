"""The losses of several sites at once, against each site's own."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as some

from pathveil.federation.losses import (
    orthogonality,
    orthogonality_by_site,
    orthogonality_of_positions,
    ramp,
    tasks_by_site,
)
from pathveil.model import TokenBatch
from pathveil.model.shared_private import Private, Shared
from pathveil.training.losses import task_loss


@settings(max_examples=30, deadline=None)
@given(sizes=some.lists(some.integers(1, 5), min_size=1, max_size=4), seed=some.integers(0, 999))
def test_losses_of_sites_together_are_the_mean_of_each_alone(sizes, seed):
    rng = np.random.default_rng(seed)
    documents = sum(sizes)
    owner = torch.from_numpy(np.repeat(np.arange(len(sizes)), sizes))
    logits = {name: torch.from_numpy(rng.normal(size=(documents, number))) for name, number in (("a", 3), ("b", 2))}
    labels = {name: torch.from_numpy(rng.integers(-1, scores.shape[1], documents)) for name, scores in logits.items()}
    shared, private = (torch.from_numpy(rng.normal(size=(documents, number))) for number in (4, 3))
    wanted = {"task": 0, "raw": 0, "sum": 0, "mean": 0}
    for site, size in enumerate(sizes):
        own = owner == site
        share = size / documents
        alone = task_loss({n: s[own] for n, s in logits.items()}, {n: label[own] for n, label in labels.items()})
        wanted["task"] += share * alone
        for scale in ("raw", "sum", "mean"):
            wanted[scale] += share * orthogonality(shared[own], private[own], scale=scale)
    found = {scale: orthogonality_by_site(shared, private, owner, scale=scale) for scale in ("raw", "sum", "mean")}
    found["task"] = tasks_by_site(logits, labels, owner, len(sizes))
    for name, value in wanted.items():
        torch.testing.assert_close(found[name], value, check_dtype=False, rtol=1e-6, atol=1e-7)


def test_orthogonality_over_positions_by_hand():
    """Words 2 and 3 with vectors 1 and 2; filters over one word: shared 3·x + 1, private x − 1 and 1 − x, then ReLU.

    Document "2 3 3": shared (4, 7, 7), private (0, 1, 1) and (0, 0, 0), so SᵀH = (14, 0). Document "2": 4 and (0, 0).
    """
    shape = {"vocabulary_size": 4, "classes": {"site": 2}, "dim": 1, "windows": (1,)}
    shared = Shared(registries=2, filters=1, **shape)
    private = Private(filters=2, shared_width=1, **shape)
    with torch.no_grad():
        for encoder, weights, biases in ((shared.encoder, [3.0], [1.0]), (private.encoder, [1.0, -1.0], [-1.0, 1.0])):
            encoder.embedding.weight.copy_(torch.tensor([[0.0], [0.0], [1.0], [2.0]]))
            encoder.convolution.weight.copy_(torch.tensor(weights).view(1, -1, 1))
            encoder.convolution.bias.copy_(torch.tensor(biases).view(1, -1))
    batch = TokenBatch.of([[2, 3, 3], [2]])
    ours, inside = shared.encoder.positions(batch)
    own, _ = private.encoder.positions(batch)
    wanted = {"raw": 14.0**2, "sum": (14 / 3) ** 2 / 2, "mean": (14 / 3) ** 2 / 2 / 2}
    for scale, value in wanted.items():
        assert orthogonality_of_positions(ours, own, inside, scale=scale).item() == pytest.approx(value)


def test_positions_pool_to_the_features():
    encoder = Shared(registries=2, vocabulary_size=30, classes={}, dim=6, filters=5, seed=1).encoder
    rng = np.random.default_rng(0)
    batch = TokenBatch.of([rng.integers(2, 30, length).tolist() for length in (12, 5, 2, 0)])
    features, inside = encoder.positions(batch)
    best = [(each * real[:, :, None]).amax(1) for each, real in zip(features, inside, strict=True)]
    torch.testing.assert_close(torch.cat(best, 1), encoder.features(batch))


def test_the_ramp_starts_at_nothing():
    assert ramp(0) == 0 and ramp(1) > 0.999
