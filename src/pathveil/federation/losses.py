"""The adversarial and the orthogonality loss of the distribution paper, as pure functions on tensors.

The total (equation 3) is ``L_task + λ L_adv + γ L_orth``. Equation 1 is a game: the discriminator's parameters make its
log-likelihood of the registry large, the shared encoder's make it small. ``reverse`` plays it in one backward pass: it
is the identity forwards and multiplies the gradient by −λ backwards, so that minimising the discriminator's
cross-entropy trains the discriminator and pushes the encoder the other way. Alternating updates (a step of the
discriminator on fixed features, then a step of the encoder on ``−λ`` times the cross-entropy) give the encoder the
same gradient at the same discriminator.

Equation 2, ``‖SᵀH‖²_F``, is read over the pooled features of a batch, S and H (B, features): its entries are inner
products of a shared and a private feature over the batch. Its scale decides what is learnt; see ``orthogonality``.
The paper's wording also allows S and H over a document's positions: ``orthogonality_of_positions``.

>>> shared = torch.tensor([[1.0, 0.0], [0.0, 2.0]])
>>> private = torch.tensor([[3.0], [1.0]])
>>> orthogonality(shared, private, scale="raw").item()  # SᵀH = (3, 2)ᵀ, so 9 + 4
13.0
>>> orthogonality(shared, private, scale="sum").item(), orthogonality(shared, private, scale="mean").item()
(3.25, 1.625)
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from pathveil.federation.settings import Scale


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, factor: float | Tensor) -> Tensor:
        ctx.factor = factor
        return values.view_as(values)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return gradients[0] * ctx.factor, None


def scaled(values: Tensor, factor: float | Tensor) -> Tensor:
    """The values themselves; their gradient times a factor (a number, or a tensor that broadcasts)."""
    return Scaled.apply(values, factor)


def reverse(features: Tensor, strength: float) -> Tensor:
    """The features themselves; their gradient times −strength.

    >>> features = torch.tensor([2.0], requires_grad=True)
    >>> reverse(features, 0.5).square().sum().backward()
    >>> features.grad  # −0.5 · 2 · 2
    tensor([-2.])
    """
    return scaled(features, -strength)


def orthogonality(shared: Tensor, private: Tensor, *, scale: Scale = "mean") -> Tensor:
    """‖SᵀH‖²_F of features (B, P) and (B, Q) over a batch.

    "raw" is equation 2 as printed: it grows with the square of the batch and with the number of features, and at the
    usual weights it crushes both encoders to zero. "sum" divides SᵀH by the number of documents. "mean" also divides by
    the number of its entries, so that neither the batch nor the number of filters changes what a weight γ means.
    """
    inner = shared.T @ private  # (P, B) x (B, Q) -> (P, Q)
    if scale == "raw":
        return inner.square().sum()
    inner = inner / max(len(shared), 1)
    return inner.square().sum() if scale == "sum" else inner.square().mean()


def orthogonality_of_positions(
    shared: Sequence[Tensor], private: Sequence[Tensor], inside: Sequence[Tensor], *, scale: Scale = "mean"
) -> Tensor:
    """‖SᵀH‖²_F read the other way: S and H are a document's features at each of its positions, before pooling.

    One tensor a window: features (B, T, P) and (B, T, Q), and which of the positions (B, T) lie inside their document.
    "raw" adds up documents and windows, "sum" divides SᵀH by the document's positions and takes the mean over
    documents, "mean" also divides by the entries of SᵀH and by the windows.

    >>> one, other = torch.tensor([[[1.0], [2.0], [9.0]]]), torch.tensor([[[3.0], [1.0], [9.0]]])
    >>> inside = torch.tensor([[True, True, False]])  # the third position is none
    >>> orthogonality_of_positions([one], [other], [inside], scale="raw").item()  # (1·3 + 2·1)²
    25.0
    >>> orthogonality_of_positions([one], [other], [inside], scale="sum").item()  # (5 / 2)²
    6.25
    """
    total = torch.zeros((), device=shared[0].device, dtype=shared[0].dtype)
    for ours, own, real in zip(shared, private, inside, strict=True):
        inner = torch.einsum("btp,btq->bpq", ours * real[:, :, None], own)  # (B, P, Q)
        if scale != "raw":
            inner = inner / real.sum(1).clamp_min(1)[:, None, None]
        squares = inner.square().sum()
        if scale != "raw":
            squares = squares / max(len(inner), 1)
        total = total + (squares / (inner.shape[1] * inner.shape[2] * len(shared)) if scale == "mean" else squares)
    return total


def tasks_by_site(logits: Mapping[str, Tensor], labels: Mapping[str, Tensor], owner: Tensor, sites: int) -> Tensor:
    """The sites' task losses, each a mean over its tasks and labelled documents, averaged by the sites' documents.

    ``owner`` (B,) is each document's site. Equal to ``task_loss`` a site at a time, in a handful of operations.

    >>> logits, labels = {"site": torch.tensor([[2.0, 0.0], [0.0, 0.0]])}, {"site": torch.tensor([0, 1])}
    >>> alone = [torch.log1p(torch.tensor(-2.0).exp()), torch.tensor(2.0).log()]  # of a document each
    >>> bool(tasks_by_site(logits, labels, torch.tensor([0, 1]), 2).isclose(sum(alone) / 2))
    True
    """
    wanted = torch.stack([labels[task] for task in logits])  # (T, B)
    losses = torch.stack(
        [
            functional.cross_entropy(scores, labels[task], ignore_index=-1, reduction="none")
            for task, scores in logits.items()
        ]
    )
    present = (wanted >= 0).to(losses.dtype)
    counts = losses.new_zeros(len(wanted), sites).index_add_(1, owner, present)  # (T, sites), documents with a label
    tasks = (counts > 0).sum(0).clamp_min(1)  # (sites,)
    weight = losses.new_zeros(sites).index_add_(0, owner, losses.new_ones(len(owner))) / len(owner) / tasks
    return (losses * present * (weight / counts.clamp_min(1))[:, owner]).sum()


def orthogonality_by_site(shared: Tensor, private: Tensor, owner: Tensor, *, scale: Scale = "mean") -> Tensor:
    """The sites' ``orthogonality``, averaged by their documents, from inner products of documents.

    ‖SᵀH‖²_F is the trace of SᵀHHᵀS, the sum over pairs of documents of their inner products in S times those in H: a
    few documents by a few, where SᵀH is features by features.

    >>> shared, private = torch.tensor([[1.0, 0.0], [0.0, 2.0]]), torch.tensor([[3.0], [1.0]])
    >>> orthogonality_by_site(shared, private, torch.tensor([0, 0]), scale="raw").item()  # as above
    13.0
    >>> orthogonality_by_site(shared, private, torch.tensor([0, 1]), scale="raw").item()  # (9 + 4) / 2
    6.5
    """
    same = (owner[:, None] == owner).to(shared.dtype)  # (B, B)
    pairs = ((shared @ shared.T) * (private @ private.T) * same).sum(1)  # (B,)
    documents = same.sum(1)  # (B,), of the document's site
    if scale == "raw":
        return (pairs * documents).sum() / len(owner)
    total = (pairs / documents).sum() / max(len(owner), 1)
    return total if scale == "sum" else total / (shared.shape[1] * private.shape[1])


def ramp(done: float) -> float:
    """How much of λ applies when a share ``done`` of training is over: 0 at the start, near 1 at the end.

    The schedule of domain-adversarial training (Ganin et al. 2016), 2 / (1 + exp(−10 p)) − 1: an encoder that has
    learnt nothing yet is not pushed.

    >>> [round(ramp(share), 3) for share in (0.0, 0.1, 0.5, 1.0)]
    [0.0, 0.462, 0.987, 1.0]
    """
    return 2 / (1 + math.exp(-10 * done)) - 1


def fall(done: float) -> float:
    """How much of the learning rate is left when a share ``done`` of training is over: half a cosine, from 1 to 0.

    >>> [round(fall(share), 3) for share in (0.0, 0.5, 0.9, 1.0)]
    [1.0, 0.5, 0.024, 0.0]
    """
    return (1 + math.cos(math.pi * done)) / 2
