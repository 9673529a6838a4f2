"""The encoder as a dense convolution: plain, obviously right, and the oracle of every other kernel.

It pads a batch to its longest document, convolves, masks what reaches past a document's end, and takes the maximum;
gradients are PyTorch's own. It runs on any device and type, also gives the features of every position before pooling
(``positions``), and is slow: Kim 2014 (arXiv:1408.5882) as everybody computes it, less the padding's influence.

>>> import torch
>>> ids, offsets = torch.tensor([0, 1, 1, 1]), torch.tensor([0, 4])
>>> words = torch.tensor([[1.0], [5.0]])
>>> output, inside = positions(ids, offsets, words, torch.tensor([[[1.0]], [[10.0]]]), window=2)
>>> output[0, 0].tolist(), inside[0].tolist()
([51.0, 55.0, 55.0], [True, True, True])
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional


def forward(
    ids: Tensor,
    offsets: Tensor,
    models: Tensor | None,
    embedding: Tensor,
    weight: Tensor,
    bias: Tensor,
    windows: tuple[int, ...],
) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
    """The kernel's forward, as in the package's docstring."""
    with torch.no_grad():
        features, chosen = pooled(ids, offsets, models, embedding, weight, bias, windows)
    return features, chosen, ()


def backward(
    gradient: Tensor,
    chosen: Tensor,
    kept: tuple[Tensor, ...],
    ids: Tensor,
    offsets: Tensor,
    models: Tensor | None,
    embedding: Tensor,
    weight: Tensor,
    bias: Tensor,
    windows: tuple[int, ...],
    needs: tuple[bool, bool, bool],
    sparse: bool,
) -> tuple[Any, Tensor | None, Tensor | None]:
    """The kernel's backward: the forward again, and PyTorch's own gradients of it."""
    parameters = [p.detach().requires_grad_(need) for p, need in zip((embedding, weight, bias), needs, strict=True)]
    with torch.enable_grad():
        features, _ = pooled(ids, offsets, models, *parameters, windows)
    wanted = [parameter for parameter, need in zip(parameters, needs, strict=True) if need]
    found = iter(torch.autograd.grad(features, wanted, gradient))
    words, weights, biases = (next(found) if need else None for need in needs)
    if words is None or not sparse:
        return words, weights, biases
    touched = ids.long() if models is None else ids + models.repeat_interleave(offsets.diff()) * embedding.shape[1]
    rows = touched.unique()
    return (rows, words.flatten(0, 1)[rows]), weights, biases


def tabulate(embedding: Tensor, weight: Tensor, windows: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Nothing is made ahead: the table is the parameters."""
    return embedding, weight


def look_up(
    table: tuple[Tensor, Tensor], ids: Tensor, offsets: Tensor, bias: Tensor, windows: tuple[int, ...]
) -> tuple[Tensor, Tensor]:
    with torch.no_grad():
        return pooled_single(ids, offsets, table[0][0], table[1][0], bias[0], windows)


def positions(ids: Tensor, offsets: Tensor, embedding: Tensor, weight: Tensor, *, window: int) -> tuple[Tensor, Tensor]:
    """What every filter of one window answers at every position, before bias and ReLU: (B, F, T), and which of the
    positions (B, T) lie wholly inside their document. ``embedding`` (V, D), ``weight`` (window, F, D)."""
    lengths = offsets.diff()  # (B,)
    longest = int(lengths.max()) if len(lengths) else 0
    # Wide enough for one window at least, so that the convolution is defined for the shortest documents.
    within = torch.arange(max(longest, window), device=ids.device)  # (L,)
    real = within < lengths[:, None]  # (B, L)
    padded = torch.zeros(real.shape, dtype=torch.long, device=ids.device)
    padded[real] = ids.long()
    words = functional.embedding(padded, embedding) * real[:, :, None]  # (B, L, D)
    output = functional.conv1d(words.transpose(1, 2), weight.permute(1, 2, 0))  # (B, D, L) * (F, D, k) -> (B, F, T)
    inside = within[: output.shape[2]] + window <= lengths[:, None]  # (B, T)
    return output, inside


def pooled(
    ids: Tensor,
    offsets: Tensor,
    models: Tensor | None,
    embedding: Tensor,
    weight: Tensor,
    bias: Tensor,
    windows: tuple[int, ...],
) -> tuple[Tensor, Tensor]:
    """Features and chosen positions (B, K, F), parameters in stacked form, differentiable by PyTorch itself."""
    if models is None:
        return pooled_single(ids, offsets, embedding[0], weight[0], bias[0], windows)
    lengths = offsets.diff()
    owner = models.repeat_interleave(lengths)  # (tokens,), each token's model
    features, chosen, rows = [], [], []
    for number in range(len(embedding)):
        mine, tokens = (models == number).nonzero()[:, 0], (owner == number).nonzero()[:, 0]
        starts = functional.pad(lengths[mine].cumsum(0), (1, 0))
        parameters = embedding[number], weight[number], bias[number]
        answers, where = pooled_single(ids[tokens], starts, *parameters, windows)
        features.append(answers)
        # From positions among this model's tokens to positions among all; the added −1 is what −1 picks.
        chosen.append(functional.pad(tokens, (0, 1), value=-1)[where.long()].int())
        rows.append(mine)
    back = torch.cat(rows).argsort()
    return torch.cat(features)[back], torch.cat(chosen)[back]


def pooled_single(
    ids: Tensor, offsets: Tensor, embedding: Tensor, weight: Tensor, bias: Tensor, windows: tuple[int, ...]
) -> tuple[Tensor, Tensor]:
    """The same for one model: ``embedding`` (V, D), ``weight`` (S, F, D), ``bias`` (K, F)."""
    features, chosen = [], []
    for part, shift in zip(weight.split(windows), bias, strict=True):  # (k, F, D), (F,)
        output, inside = positions(ids, offsets, embedding, part, window=len(part))
        output = output.masked_fill(~inside[:, None], -torch.inf)  # (B, F, T)
        # The first of equal maxima (or the first NaN), said outright: torch.max promises no order among them.
        steps = torch.arange(output.shape[2], device=output.device)
        largest = (output == output.amax(2, keepdim=True)) | output.isnan()  # (B, F, T)
        first = torch.where(largest, steps, len(steps)).amin(2)  # (B, F)
        best = output.gather(2, first[:, :, None])[:, :, 0] + shift
        long_enough = inside[:, :1]  # (B, 1)
        features.append(torch.where(long_enough, torch.relu(best), 0))
        chosen.append(torch.where(long_enough & (best > 0), first + offsets[:-1, None], -1).int())
    return torch.stack(features, 1), torch.stack(chosen, 1)
