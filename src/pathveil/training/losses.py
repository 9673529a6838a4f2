"""The loss of a multitask model: the mean over tasks of a masked mean cross-entropy.

A document without a label for a task (−1) says nothing about that task; a task without any label in the batch is left
out of the mean, so it neither adds to the loss nor thins the other tasks. Every function takes any leading axes, so
that M stacked models (logits: models × documents × classes) get M losses, each equal to the loss of its model alone.

>>> import torch
>>> logits = {"site": torch.tensor([[2.0, 0.0], [0.0, 0.0]]), "side": torch.zeros(2, 3)}
>>> labels = {"site": torch.tensor([0, -1]), "side": torch.tensor([-1, -1])}
>>> round(task_loss(logits, labels).item(), 4)  # log(1 + exp(-2)): one labelled document, one labelled task
0.1269
"""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor


def cross_entropy(
    logits: Tensor,
    labels: Tensor,
    *,
    class_weights: Tensor | None = None,
    smoothing: float = 0.0,
    robustness: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """Sum of weighted cross-entropies over documents and the sum of their weights, each of the leading shape.

    ``class_weights`` are (classes,), or (…, classes) where every model of a stack has its own. ``smoothing`` mixes the
    label with the uniform distribution over the classes: (1 − s) · label + s / classes. ``robustness`` q scales the
    slope of a document by pᵠ, with p the probability of its label: the slope of the generalised cross-entropy
    (1 − pᵠ) / q (Zhang & Sabuncu 2018), which heeds less what is probably mislabelled. The sum itself stays what it is.
    """
    log_probabilities = torch.log_softmax(logits.float(), dim=-1)  # (…, documents, classes)
    present = labels >= 0
    index = labels.clamp_min(0)
    losses = -log_probabilities.gather(-1, index.unsqueeze(-1)).squeeze(-1)  # (…, documents)
    if smoothing:
        losses = (1 - smoothing) * losses - smoothing * log_probabilities.mean(dim=-1)
    if robustness:
        # The value of the loss, with the slope of another: what is added is nought, and its slope is not.
        heeded = torch.exp(log_probabilities.gather(-1, index.unsqueeze(-1)).squeeze(-1).detach()) ** robustness
        losses = losses.detach() + heeded * (losses - losses.detach())
    weights = present.to(losses.dtype)
    if class_weights is not None:
        weights = weights * class_weights.expand(*index.shape[:-1], -1).gather(-1, index)
    # A loss under the mask may be infinite where the arg-max label is certain; zero times it must be zero.
    return torch.where(present, losses * weights, 0.0).sum(-1), weights.sum(-1)


def task_loss(
    logits: Mapping[str, Tensor],
    labels: Mapping[str, Tensor],
    *,
    class_weights: Mapping[str, Tensor] | None = None,
    smoothing: float = 0.0,
    robustness: float = 0.0,
) -> Tensor:
    """Mean over tasks with labels of the mean cross-entropy over documents with labels; shape: the leading axes."""
    means, counted = [], []
    for task, scores in logits.items():
        weights = class_weights[task] if class_weights else None
        total, weight = cross_entropy(
            scores, labels[task], class_weights=weights, smoothing=smoothing, robustness=robustness
        )
        means.append(torch.where(weight > 0, total / weight.clamp_min(1e-12), 0.0))
        counted.append(weight > 0)
    return torch.stack(means).sum(0) / torch.stack(counted).sum(0).clamp_min(1)


def balanced_weights(labels: np.ndarray, classes: int, *, power: float = 0.5) -> np.ndarray:
    """A weight a class, (labelled documents ÷ documents of the class) to a power, scaled to a mean of 1 a document.

    Power 0 weighs documents alike, 1 weighs classes alike; the root between them lifts rare classes without letting a
    single report shout. A class without documents gets weight 0: it never is a label.

    >>> balanced_weights(np.array([0, 0, 0, 0, 1, -1]), 3, power=1).tolist()
    [0.625, 2.5, 0.0]
    """
    counts = np.bincount(labels[labels >= 0], minlength=classes)
    seen = counts > 0
    weights = np.zeros(classes)
    weights[seen] = (counts.sum() / counts[seen]) ** power
    return weights * counts.sum() / max((weights * counts).sum(), 1e-12)
