"""Losses against torch's own, by hand, and stacked against alone."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from pathveil.training.losses import balanced_weights, cross_entropy, task_loss


def random_case(seed=0, documents=40):
    generator = torch.Generator().manual_seed(seed)
    sizes = {"site": 7, "side": 3}
    logits = {t: torch.randn(documents, n, generator=generator, requires_grad=True) for t, n in sizes.items()}
    labels = {t: torch.randint(-1, n, (documents,), generator=generator) for t, n in sizes.items()}
    return sizes, logits, labels


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("weighted", [False, True])
def test_agrees_with_torch(smoothing, weighted):
    sizes, logits, labels = random_case()
    weights = {t: torch.linspace(0.5, 2.0, n) for t, n in sizes.items()} if weighted else None
    expected = 0.0
    for task in sizes:
        if weighted:  # torch's weights act on the classes of the smoothed target, ours on the label: written out
            keep = labels[task] >= 0
            target = F.one_hot(labels[task][keep], sizes[task]) * (1 - smoothing) + smoothing / sizes[task]
            losses = -(target * torch.log_softmax(logits[task][keep], -1)).sum(-1)
            weight = weights[task][labels[task][keep]]
            mean = (weight * losses).sum() / weight.sum()
        else:
            mean = F.cross_entropy(logits[task], labels[task], ignore_index=-1, label_smoothing=smoothing)
        expected = expected + mean / len(sizes)
    ours = task_loss(logits, labels, class_weights=weights, smoothing=smoothing)
    torch.testing.assert_close(ours, expected)
    mine = torch.autograd.grad(ours, list(logits.values()), retain_graph=True)
    theirs = torch.autograd.grad(expected, list(logits.values()))
    for a, b in zip(mine, theirs, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("robustness", [0.3, 0.9])
def test_a_robust_slope_is_that_of_the_generalised_cross_entropy(robustness):
    """(1 − pᵠ) / q, differentiated by torch; the value stays the cross-entropy's."""
    _, logits, labels = random_case()
    probabilities = torch.softmax(logits["site"], -1)[torch.arange(40), labels["site"].clamp_min(0)]
    known = labels["site"] >= 0
    generalised = ((1 - probabilities**robustness) / robustness)[known].mean()
    ours = task_loss({"site": logits["site"]}, {"site": labels["site"]}, robustness=robustness)
    torch.testing.assert_close(ours, task_loss({"site": logits["site"]}, {"site": labels["site"]}))
    (mine,), (theirs,) = (torch.autograd.grad(loss, [logits["site"]]) for loss in (ours, generalised))
    torch.testing.assert_close(mine, theirs)


def test_a_task_without_labels_does_not_thin_the_others():
    _, logits, labels = random_case()
    labels["side"] = torch.full_like(labels["side"], -1)
    alone = F.cross_entropy(logits["site"], labels["site"].long(), ignore_index=-1)
    torch.testing.assert_close(task_loss(logits, labels), alone)


def test_no_labels_at_all_give_zero_and_no_gradient():
    logits = {"site": torch.randn(4, 3, requires_grad=True)}
    loss = task_loss(logits, {"site": torch.full((4,), -1)})
    loss.backward()
    assert loss.item() == 0.0 and not logits["site"].grad.any()


def test_stacked_equals_alone():
    parts = [random_case(seed) for seed in range(3)]
    stacked_logits = {t: torch.stack([logits[t] for _, logits, _ in parts]) for t in parts[0][0]}
    stacked_labels = {t: torch.stack([labels[t] for _, _, labels in parts]) for t in parts[0][0]}
    together = task_loss(stacked_logits, stacked_labels, smoothing=0.05)
    assert together.shape == (3,)
    for number, (_, logits, labels) in enumerate(parts):
        torch.testing.assert_close(together[number], task_loss(logits, labels, smoothing=0.05))


def test_infinite_loss_under_the_mask_stays_out():
    logits = torch.tensor([[0.0, -float("inf")], [0.0, 1.0]], requires_grad=True)
    total, weight = cross_entropy(logits, torch.tensor([-1, 1]))
    total.backward()
    assert weight.item() == 1 and torch.isfinite(logits.grad).all()


def test_balanced_weights_keep_the_scale():
    labels = np.random.default_rng(0).zipf(1.6, 5000) % 40
    for power in (0.0, 0.3, 1.0):
        weights = balanced_weights(labels, 40, power=power)
        assert np.isclose(weights[labels].mean(), 1.0)
    assert np.allclose(balanced_weights(labels, 40, power=0.0)[np.unique(labels)], 1.0)
