"""Exact norms of gradients, a case at a time, without ever making a case's gradient.

Differentially private training (Abadi et al. 2016, "Deep learning with differential privacy") clips what each case adds
to the gradient, so it needs the norm of every case's own gradient. Through max pooling a filter's gradient comes from
one window of a document, so that norm is a sum over few numbers. For a document with features h, slopes δ of the loss
by the logits, slopes g by the features, and words w in the window that won each filter:

    ‖gradient‖² = Σ over tasks of ‖δ‖² (‖h‖² + 1)                          heads
                + Σ over k, f of g² (1 + Σ over j of ‖embedding[w]‖²)      filters and their biases
                + Σ over words of ‖Σ of g · weight where the word won‖²    word vectors

A case may have several reports; its gradient is their sum, and the norm of a sum holds what each pair of reports
shares. With i and i' over all pairs of a case's reports, a document with itself included:

    δ·δ' (h·h' + 1)  +  Σ g g' (1 + Σ embedding[w]·embedding[w'])  +  Σ where w = w' of g g' weight·weight'

``cases`` (C, R) names each case's documents in the batch, −1 where there are fewer than R. A document of no case has no
part in anything. Documents of one case have one model.

>>> import torch
>>> cases = torch.tensor([[0, 1], [2, -1]])
>>> slopes, features = torch.tensor([[1.0], [2.0], [3.0]]), torch.tensor([[1.0], [1.0], [2.0]])
>>> head_squares(slopes, features, cases).tolist()  # (1 · 1 + 2 · 1)² + (1 + 2)², and (3 · 2)² + 3²
[18.0, 45.0]
"""

import numpy as np
import torch
from torch import Tensor

from pathveil.model.kernels import choose
from pathveil.model.kernels.cpu import arrays, compiled
from pathveil.model.threads import evenly, spread, threads

PAIRS_AT_ONCE = 2**26  # numbers in flight where pairs are compared by PyTorch itself
PARTS = 4  # of the cases, for each thread: some have longer reports than others


def pairs_of(cases: Tensor) -> tuple[Tensor, Tensor]:
    """All pairs of documents of one case, each with itself too, (P, 2); and each pair's place (P,) in (C, R, R), whose
    sum over the last two axes is then the case's.

    >>> pairs_of(torch.tensor([[4, 7], [5, -1]]))
    (tensor([[4, 4],
            [4, 7],
            [7, 4],
            [7, 7],
            [5, 5]]), tensor([0, 1, 2, 3, 4]))
    """
    reports = cases.shape[1]
    left = cases[:, :, None].expand(-1, reports, reports).reshape(-1)
    right = cases[:, None, :].expand(-1, reports, reports).reshape(-1)
    places = ((left >= 0) & (right >= 0)).nonzero()[:, 0]
    return torch.stack([left[places], right[places]], 1), places


def sum_pairs(values: Tensor, places: Tensor, cases: Tensor) -> Tensor:
    """The pairs' values (P,) summed for each case (C,), in a fixed order."""
    table = values.new_zeros(cases.shape[0] * cases.shape[1] ** 2)
    table[places] = values
    return table.view(len(cases), -1).sum(1)


def head_squares(slopes: Tensor, features: Tensor, cases: Tensor) -> Tensor:
    """Squared norms (C,) of the heads' gradients, weights and biases together, from what flows back to the logits of
    all tasks (B, classes) and what the heads read (B, N)."""
    if cases.shape[1] == 1:
        mine = cases[:, 0]
        return slopes[mine].square().sum(1) * (features[mine].square().sum(1) + 1)
    pairs, places = pairs_of(cases)
    left, right = pairs.T
    shared = (slopes[left] * slopes[right]).sum(1) * ((features[left] * features[right]).sum(1) + 1)
    return sum_pairs(shared, places, cases)


def encoder_squares(
    gradient: Tensor,
    chosen: Tensor,
    kept: tuple[Tensor, ...],
    ids: Tensor,
    offsets: Tensor,
    models: Tensor | None,
    embedding: Tensor,
    weight: Tensor,
    windows: tuple[int, ...],
    cases: Tensor,
    *,
    words: bool = True,
    kernel: str | None = None,
) -> Tensor:
    """Squared norms (C,) of the encoder's gradients for ``gradient`` (B, K, F), arguments as a kernel's backward has
    them; without the word vectors' part where ``words`` is False (they are not trained)."""
    if not cases.numel():
        return gradient.new_zeros(len(cases))
    name = choose(embedding, kernel).__name__.rpartition(".")[2]
    if name == "cpu":
        return on_cpu(gradient, chosen, ids, offsets, models, embedding, weight, windows, cases, words=words)
    if name == "cuda":
        from pathveil.model.kernels import cuda

        pairs, places = pairs_of(cases)
        shared = cuda.shared_squares(gradient, chosen, kept, models, weight, windows, pairs, words=words)
        return sum_pairs(shared, places, cases)
    return plain(gradient, chosen, ids, models, embedding, weight, windows, cases, words=words)


def plain(
    gradient: Tensor,
    chosen: Tensor,
    ids: Tensor,
    models: Tensor | None,
    embedding: Tensor,
    weight: Tensor,
    windows: tuple[int, ...],
    cases: Tensor,
    *,
    words: bool,
) -> Tensor:
    """The sums over pairs by PyTorch's own operations, on any device and type."""
    pairs, places = pairs_of(cases)
    owners = torch.zeros(len(chosen), dtype=torch.int64, device=chosen.device) if models is None else models.long()
    lengths = torch.tensor(windows, device=chosen.device)
    within = torch.cat([torch.arange(window, device=chosen.device) for window in windows])[:, None]  # (S, 1)
    starts = chosen.repeat_interleave(lengths, dim=1)  # (B, S, F)
    won = starts >= 0
    reached = torch.where(won, ids[(starts + within).clamp_min(0) * won].long(), -1).flatten(1)  # (B, S·F)
    flow = (gradient.repeat_interleave(lengths, dim=1) * won).flatten(1)
    biases = torch.where(within == 0, 1.0, 0.0).to(flow.dtype).expand(-1, chosen.shape[2]).flatten()  # (S·F,)
    width = flow.shape[1]
    shared = flow.new_zeros(len(pairs))
    step = max(1, PAIRS_AT_ONCE // (width * max(width, embedding.shape[2])))
    for start in range(0, len(pairs), step):
        left, right = pairs[start : start + step].T
        model = owners[left]
        vectors = (embedding[model[:, None], reached[side].clamp_min(0)] for side in (left, right))
        alike = torch.stack(list(vectors)).prod(0).sum(2) + biases  # (pairs, S·F)
        part = (flow[left] * flow[right] * alike).sum(1)
        if words:
            gram = torch.einsum("psd,ptd->pst", *(weight.flatten(1, 2)[model],) * 2)  # (pairs, S·F, S·F)
            same = reached[left][:, :, None] == reached[right][:, None, :]
            part = part + torch.einsum("ps,pt,pst->p", flow[left], flow[right], gram * same)
        shared[start : start + step] = part
    return sum_pairs(shared, places, cases)


def on_cpu(
    gradient: Tensor,
    chosen: Tensor,
    ids: Tensor,
    offsets: Tensor,
    models: Tensor | None,
    embedding: Tensor,
    weight: Tensor,
    windows: tuple[int, ...],
    cases: Tensor,
    *,
    words: bool,
) -> Tensor:
    """The same in compiled loops: a case's word vectors are summed up in a small table, then squared."""
    tokens, ends, owners = arrays(ids, offsets, models)
    flow, where = gradient.contiguous().numpy(), chosen.numpy()
    vectors, filters = embedding.detach().numpy(), weight.detach().contiguous().numpy()
    members, lengths = cases.numpy(), np.diff(ends)
    longest = int(np.where(members >= 0, lengths[members], 0).sum(1).max())
    squares = np.empty(len(members))
    shape = min(longest, vectors.shape[1]), vectors.shape[2]

    def work(part: tuple[int, int]) -> None:
        places, table = np.full(vectors.shape[1], -1, np.int32), np.empty(shape, flow.dtype)
        add_cases(
            flow,
            where,
            tokens,
            owners,
            members,
            vectors,
            filters,
            np.array(windows),
            words,
            places,
            table,
            squares,
            *part,
        )

    spread(work, [part for part in evenly(len(members), PARTS * threads()) if part[0] < part[1]])
    return torch.from_numpy(squares).to(gradient.dtype)


@compiled
def add_cases(flow, where, ids, owners, cases, vectors, filters, windows, words, places, table, squares, first, last):
    """Squared norms of cases ``first`` to ``last``. ``places`` (V,) is −1 throughout, before and after; ``table`` holds
    a vector for each of a case's words."""
    dim = vectors.shape[2]
    total, seen, lengths = np.empty(dim, flow.dtype), np.empty(len(table), np.int64), np.empty(len(table), np.float64)
    for number in range(first, last):
        case = cases[number]
        square, known, model, reports = 0.0, 0, 0, 0
        for document in case:
            if document >= 0:
                model = owners[document]
                reports += 1
        slot = 0
        for k in range(len(windows)):
            for f in range(flow.shape[2]):
                reached = 0.0
                for document in case:
                    if document >= 0 and where[document, k, f] >= 0:
                        reached += flow[document, k, f]
                square += reached * reached
                for j in range(windows[k]):
                    total[:] = 0
                    for document in case:
                        if document < 0:
                            continue
                        t, scale = where[document, k, f], flow[document, k, f]
                        if t < 0 or scale == 0:
                            continue
                        word = ids[t + j]
                        row = places[word]
                        if row < 0:
                            row, places[word], seen[known] = known, known, word
                            lengths[row] = 0
                            for i in range(dim):
                                lengths[row] += vectors[model, word, i] * vectors[model, word, i]
                                table[row, i] = 0
                            known += 1
                        if words:
                            for i in range(dim):
                                table[row, i] += scale * filters[model, slot + j, f, i]
                        if reports == 1:  # what a lone report gives a filter is one word's vector, scaled
                            square += scale * scale * lengths[row]
                        else:
                            for i in range(dim):
                                total[i] += scale * vectors[model, word, i]
                    if reports > 1:
                        for i in range(dim):
                            square += total[i] * total[i]
            slot += windows[k]
        for row in range(known):
            if words:
                for i in range(dim):
                    square += table[row, i] * table[row, i]
            places[seen[row]] = -1
        squares[number] = square
