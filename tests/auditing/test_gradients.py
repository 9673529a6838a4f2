"""Norms of gradients against autograd, and the attacks on weights that use them."""

import numpy as np
import torch

from auditing.made import SMALL, encoded
from pathveil.auditing.gradients import beside_like_losses, gradient_norms, gradient_scores, norm_scores
from pathveil.auditing.metrics import auc
from pathveil.model import TokenBatch
from pathveil.training.loop import fit, logits_of


def test_norms_are_autograds():
    corpus = encoded(12)
    labels = {task: np.array(label) for task, label in corpus.labels.items()}
    labels["site"][3] = labels["side"][3] = labels["side"][4] = -1
    model = fit(corpus, SMALL.changed(epochs=2), seed=1).model.eval()
    ids, offsets = np.asarray(corpus.ids), np.asarray(corpus.offsets)
    found = gradient_norms(model, ids, offsets, labels)
    dense = [parameter for parameter in model.parameters()]
    model.sparse = False
    for row in range(12):
        batch = TokenBatch(ids=ids[offsets[row] : offsets[row + 1]], offsets=offsets[row : row + 2] - offsets[row])
        logits = model(batch)
        truth = {task: torch.tensor(label[row : row + 1]).long() for task, label in labels.items()}
        known = [task for task in truth if truth[task].item() >= 0]
        if not known:
            assert found[row] == 0
            continue
        loss = sum(torch.nn.functional.cross_entropy(logits[task], truth[task]) for task in known) / 2
        gradients = torch.autograd.grad(loss, dense, allow_unused=True)
        squares = sum(float(one.to_dense().square().sum()) for one in gradients if one is not None)
        np.testing.assert_allclose(found[row], np.sqrt(squares), rtol=1e-4)


def test_what_was_learned_by_heart_has_a_small_gradient():
    corpus = encoded(240)
    member = np.arange(240) % 2 == 0
    model = fit(corpus.take(np.flatnonzero(member)), SMALL.changed(epochs=25), seed=1).model.eval()
    labels = {task: np.asarray(label) for task, label in corpus.labels.items()}
    norms = norm_scores([gradient_norms(model, np.asarray(corpus.ids), np.asarray(corpus.offsets), labels)])
    losses = np.nansum([
        -torch.nn.functional.cross_entropy(
            torch.tensor(logits), torch.tensor(labels[task]).long(), reduction="none"
        ).numpy()
        for task, logits in logits_of(model, corpus).items()
    ], axis=0)  # fmt: skip
    plain, beside = gradient_scores(norms, losses)
    assert auc(plain.values, member) > 0.6 and plain.weights_only and beside.weights_only
    assert abs(np.nanmean(beside.values)) < 0.3


def test_a_score_is_held_against_reports_of_a_like_loss():
    scores, losses = np.array([1.0, np.nan, 5.0, 2.0]), np.array([0.3, 0.1, 0.2, 0.25])
    found = beside_like_losses(scores, losses, neighbours=3)
    assert np.isnan(found[1])
    np.testing.assert_allclose(found[[2, 3, 0]], [5 - 3.5, 2 - 8 / 3, 1 - 1.5])
