"""One front for every way of computing the encoder: convolutions over words, max over time, ReLU.

For a document of words ``w``, a window of ``k`` words and a filter ``f`` the feature is

    relu(bias[f] + max over t of  sum over j < k of  embedding[w[t + j]] · weight[slot(k, j), f])

taken over the document's own windows only: nothing is padded, so a document's features never depend on its batch mates.
A window longer than the document gives zero (the bias is not applied), and so does an empty document. Where several
positions reach the maximum, the first one gets the gradient.

The weights of all windows lie in one array ``(slots, filters, dim)``, a slot for each position of each window in order
(for windows 3, 4, 5: three slots, then four, then five), so that ``embedding @ weight.view(-1, dim).T`` is one product
that holds every filter's answer to every word. The stacked form has a leading axis of M models on every parameter, and
``models`` says which model reads which document.

A kernel is a module with two functions on plain tensors, always in stacked form (M is 1 for a single model):

``forward(ids, offsets, models, embedding, weight, bias, windows) -> features, chosen, kept``
    ``ids`` (tokens,) int32 or int64, ``offsets`` (B + 1,), ``models`` (B,) or None when M is 1, ``embedding``
    (M, V, D), ``weight`` (M, S, F, D), ``bias`` (M, K, F) give ``features`` (B, K, F) and ``chosen`` (B, K, F) int32:
    where in ``ids`` the winning window starts, −1 where the feature is zero and passes no gradient. ``kept`` is a tuple
    of whatever tensors its backward wants again.
``backward(gradient, chosen, kept, ids, offsets, models, embedding, weight, bias, windows, needs, sparse) -> gradients``
    of the three parameters for ``gradient`` (B, K, F), None where ``needs`` (three booleans) says so. With ``sparse``
    the embedding's is ``(rows, values)``: the touched rows, each once, as numbers model · V + word, and (rows, D).

For inference with fixed weights, a single model's, there are two more:

``tabulate(embedding, weight, windows) -> table``
    the answers of all filters to all words of the vocabulary, in whatever form the kernel reads best.
``look_up(table, ids, offsets, bias, windows) -> features, chosen``
    what ``forward`` gives, from the table.

>>> import torch
>>> ids, offsets = torch.tensor([0, 1, 1]), torch.tensor([0, 2, 3])     # two documents: words 0 1, and word 1
>>> embedding = torch.tensor([[1.0], [5.0]])                            # (V, D)
>>> weight = torch.tensor([[[1.0]], [[10.0]]])                          # (S, F, D): one window of two words
>>> pooled(ids, offsets, embedding, weight, torch.zeros(1, 1), windows=(2,)).tolist()
[[51.0], [0.0]]
"""

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

KERNELS = ("reference", "cpu", "cuda")


def choose(embedding: Tensor, kernel: str | None = None) -> ModuleType:
    """The named kernel's module, or the one for the device and type of the parameters."""
    if kernel is not None and kernel not in KERNELS:
        raise ValueError(f"kernel must be one of {', '.join(KERNELS)} or None; got {kernel!r}")
    if kernel is None:
        if embedding.is_cuda and embedding.dtype == torch.float32 and find_spec("triton"):
            kernel = "cuda"
        elif embedding.device.type == "cpu" and embedding.dtype in (torch.float32, torch.float64):
            kernel = "cpu"
        else:
            kernel = "reference"
    return import_module(f"{__name__}.{kernel}")


def pooled(
    ids: Tensor,
    offsets: Tensor,
    embedding: Tensor,
    weight: Tensor,
    bias: Tensor,
    *,
    windows: tuple[int, ...],
    models: Tensor | None = None,
    kernel: str | None = None,
    sparse: bool = False,
) -> Tensor:
    """Features (B, K·F) of a batch of documents, differentiable in the three parameters.

    Single: ``embedding`` (V, D), ``weight`` (S, F, D), ``bias`` (K, F). Stacked: each with a leading axis M; ``models``
    (B,) names each document's model, and None says that the documents stand in model order, equally many for each.
    With ``sparse`` the embedding's gradient holds the touched rows only.
    """
    if embedding.dim() == 3 and models is None:
        models = in_order(len(offsets) - 1, len(embedding), device=ids.device)
    return Pooled.apply(choose(embedding, kernel), windows, sparse, ids, offsets, models, embedding, weight, bias)


def in_order(documents: int, models: int, *, device: torch.device) -> Tensor:
    """Each document's model (B,) when documents stand in model order, equally many for each.

    >>> in_order(4, 2, device=torch.device("cpu")).tolist()
    [0, 0, 1, 1]
    """
    if documents % models:
        raise ValueError(f"{documents} documents cannot be shared equally among {models} models; name each one's model")
    return torch.arange(models, device=device).repeat_interleave(documents // models)


class Pooled(torch.autograd.Function):
    """A kernel's forward and backward as one differentiable step."""

    @staticmethod
    def forward(
        ctx: Any,
        module: ModuleType,
        windows: tuple[int, ...],
        sparse: bool,
        ids: Tensor,
        offsets: Tensor,
        models: Tensor | None,
        embedding: Tensor,
        weight: Tensor,
        bias: Tensor,
    ) -> Tensor:
        # Stacked or not is settled inside, because a sparse gradient cannot pass through PyTorch's own unsqueeze.
        stacked = as_stack(embedding, weight, bias)
        features, chosen, kept = module.forward(ids, offsets, models, *stacked, windows)
        ctx.save_for_backward(ids, offsets, models, embedding, weight, bias, chosen, *kept)
        ctx.module, ctx.windows, ctx.sparse = module, windows, sparse
        return features.flatten(1)  # (B, K, F) -> (B, K·F)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple:
        ids, offsets, models, embedding, weight, bias, chosen, *kept = ctx.saved_tensors
        needs, stacked = ctx.needs_input_grad[-3:], as_stack(embedding, weight, bias)
        words, *others = ctx.module.backward(
            gradient.reshape(chosen.shape),
            chosen,
            tuple(kept),
            ids,
            offsets,
            models,
            *stacked,
            ctx.windows,
            needs,
            ctx.sparse,
        )
        if ctx.sparse and needs[0]:
            words = sparse_rows(*words, embedding.shape)
        gradients = (None if g is None else g.view(p.shape) for g, p in zip(others, (weight, bias), strict=True))
        words = words.view(embedding.shape) if needs[0] and not ctx.sparse else words
        return None, None, None, None, None, None, words, *gradients


def as_stack(embedding: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Parameters with a leading axis of models, of one model if there is none."""
    if embedding.dim() == 3:
        return embedding, weight, bias
    return embedding.unsqueeze(0), weight.unsqueeze(0), bias.unsqueeze(0)


def sparse_rows(rows: Tensor, values: Tensor, shape: torch.Size) -> Tensor:
    """A sparse tensor of an embedding's shape, (V, D) or (M, V, D), from rows numbered model · V + word."""
    vocabulary_size = shape[-2]
    indices = rows[None] if len(shape) == 2 else torch.stack([rows // vocabulary_size, rows % vocabulary_size])
    return torch.sparse_coo_tensor(indices, values, shape, check_invariants=False)
