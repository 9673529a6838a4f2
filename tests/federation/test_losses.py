"""The losses of several sites at once, against each site's own."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as some

from pathveil.federation.losses import orthogonality, orthogonality_by_site, tasks_by_site
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
