"""The encoder on a CPU, as look-ups: exact, and several times less work than the dense convolution.

A convolution over embeddings is a sum of table look-ups. For slot ``s`` (a position in a window), filter ``f`` and word
``w`` let ``table[w, s, f] = embedding[w] · weight[s, f]``; the answer at position ``t`` of a window that starts at slot
``s`` is then the sum over ``j`` of ``table[ids[t + j], s + j, f]``. The table is one matrix product over the *distinct*
words of a batch, a few thousand, where the dense form multiplies every position of every document. Max pooling passes
gradient to one position a filter, so the backward pass is ``documents × slots × filters`` scaled additions of a vector.

Under ``torch.autocast`` to bfloat16 the products take bfloat16, add in float32 and are rounded to bfloat16, as a GPU's
are; all else stays as it is. That saves a third of a step where the processor multiplies bfloat16 (``has_bfloat16``).

The table is made and read a block of filters at a time, by one thread, so that it stays in that processor's cache and
memory stays flat. The loops are compiled by numba and run without the interpreter's lock on as many Python threads as
PyTorch has (``torch.set_num_threads``); numbers are added up in an order that does not depend on how many those are.

>>> import torch
>>> from pathveil.model.kernels import pooled
>>> words, filters = torch.tensor([[1.0], [5.0]]), torch.tensor([[[1.0]], [[10.0]]])
>>> ids, offsets = torch.tensor([0, 1, 1]), torch.tensor([0, 2, 3])
>>> pooled(ids, offsets, words, filters, torch.zeros(1, 1), windows=(2,), kernel="cpu")
tensor([[51.],
        [ 0.]])
"""

import itertools
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
from numba import njit
from torch import Tensor

from pathveil.model.threads import evenly, evenly_by, spread, threads

# Filters in a block of the table: four vectors of AVX-512, known to the compiler so that their sums stay in registers.
# Over 10,000 words and five slots a block is 13 MB; wider ones fall out of cache and take up to twice the time.
LANES = 64
ROWS = 128  # of words: products are of a multiple of them

compiled = njit(nogil=True, cache=True, fastmath={"contract"})


class Block(NamedTuple):
    """Some filters of one window of one model."""

    model: int
    number: int  # of the window
    window: int
    slot: int  # the window's first
    left: int
    right: int  # filters left to right


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
    count, size, dim = embedding.shape
    tokens, ends, owners = arrays(ids, offsets, models)
    order = np.argsort(owners, kind="stable")
    rows, words, parts = distinct_words(tokens, ends, owners, order, size, count)
    vectors = torch.empty(len(words) + LANES + ROWS, dim, dtype=embedding.dtype)  # (U and some, D)
    vectors[len(words) :] = 0
    source, goal = embedding.detach().reshape(-1, dim).numpy(), vectors.numpy()
    spread(lambda part: copy_rows(source, words, goal, *part), evenly(len(words), threads()))
    features, chosen = empty_features(len(owners), len(windows), weight.shape[2], weight.dtype)
    outputs = bias.detach().numpy(), features.numpy(), chosen.numpy()
    documents = np.split(order, np.searchsorted(owners[order], np.arange(1, count)))  # those of each model
    filters = weight.detach()
    if embedding.dtype == torch.float32 and torch.is_autocast_enabled("cpu"):
        kind = torch.get_autocast_dtype("cpu")
        vectors, filters = vectors.to(kind), filters.to(kind)

    def work(block: Block) -> None:
        start, end = parts[block.model : block.model + 2]
        table = answers(vectors[start : start + rows_for(end - start)], filters, block).to(embedding.dtype)
        search(table.view(-1).numpy(), rows, ends, documents[block.model], *outputs, *block)

    spread(work, blocks(windows, weight.shape[2], models=count))
    return features, chosen, (torch.from_numpy(rows), torch.from_numpy(words), torch.tensor(parts))


def rows_for(words: int) -> int:
    """How many rows to multiply for so many words: at least as many more as the lanes that a partly filled block reads
    past the last word's, and in steps, since a program is compiled for each number of rows, which takes longer than a
    small product."""
    return -(-(words + LANES) // ROWS) * ROWS


def answers(vectors: Tensor, weight: Tensor, block: Block) -> Tensor:
    """The answers of a block's filters to each word (words, window · filters), from ``vectors`` (words, D) and
    ``weight`` (M, S, F, D)."""
    filters = weight[block.model, block.slot : block.slot + block.window, block.left : block.right]  # (k, wide, D)
    filters = filters.reshape(-1, vectors.shape[1])
    if vectors.dtype == torch.float32 and has_wide_product():
        return torch.ops.mkldnn._linear_pointwise(vectors, filters, None, "none", [], "")
    return torch.mm(vectors, filters.T)


@cache
def has_wide_product() -> bool:
    """Whether oneDNN multiplies float32 with AVX-512 here. The product that PyTorch would choose is MKL's, which uses
    vectors of half that width on other makers' processors, and on AMD's Zen 5 takes twice the time."""
    return torch.cpu._is_avx512_supported() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


@cache
def has_bfloat16() -> bool:
    """Whether this processor multiplies bfloat16 itself; elsewhere it would be slower than float32."""
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()


def empty_features(documents: int, windows: int, filters: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    shape = documents, windows, filters
    return torch.empty(shape, dtype=dtype), torch.empty(shape, dtype=torch.int32)


class Table(NamedTuple):
    """All blocks of the table over a whole vocabulary, end to end: a report then costs one call of a compiled loop."""

    size: int  # words
    answers: np.ndarray  # (numbers,) the blocks' own tables
    blocks: np.ndarray  # (blocks, 7) the fields of each ``Block``, and where its own table begins


def tabulate(embedding: Tensor, weight: Tensor, windows: tuple[int, ...]) -> Table:
    """Every filter's answer to every word, for ``look_up``."""
    vectors, filters = embedding.detach()[0], weight.detach()
    parts, size = blocks(windows, weight.shape[2]), len(vectors)
    numbers = [size * block.window * (block.right - block.left) for block in parts]
    begins = np.cumsum([0, *(-(-(number + LANES) // LANES) * LANES for number in numbers)]).tolist()  # in whole lines
    table = torch.empty(begins[-1], dtype=vectors.dtype)

    def work(part: tuple[Block, int, int]) -> None:
        block, begin, number = part
        table[begin : begin + number] = answers(vectors, filters, block).view(-1)

    spread(work, zip(parts, begins, numbers, strict=False))
    kept = np.array([(*block, begin) for block, begin in zip(parts, begins, strict=False)])
    return Table(size, table.numpy(), kept)


def look_up(
    table: Table, ids: Tensor, offsets: Tensor, bias: Tensor, windows: tuple[int, ...]
) -> tuple[Tensor, Tensor]:
    """The kernel's forward from a table made before."""
    tokens, ends, owners = arrays(ids, offsets, None)
    if len(tokens) and not 0 <= tokens.min() <= tokens.max() < table.size:
        raise IndexError(f"word ids must be 0 … {table.size - 1}, the rows of the embedding")
    rows, documents = tokens.view(np.uint32), np.arange(len(owners))
    features, chosen = empty_features(len(owners), len(windows), bias.shape[2], bias.dtype)
    outputs = bias.detach().numpy(), features.numpy(), chosen.numpy()

    def work(task: tuple[np.ndarray, tuple[int, int]]) -> None:
        part, (first, last) = task
        search_blocks(table.answers, part, rows, ends, documents[first:last], *outputs)

    if threads() == 1:
        work((table.blocks, (0, len(owners))))
    else:
        parts = evenly_by(ends, threads()) if len(owners) else []
        spread(work, itertools.product(table.blocks[:, None], parts))
    return features, chosen


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
    """The kernel's backward, as in the package's docstring."""
    tokens, _, owners = arrays(ids, offsets, models)
    flow, where = gradient.contiguous().numpy(), chosen.numpy()  # (B, K, F)
    words = weights = biases = None
    if needs[0]:
        words = embedding_gradient(flow, where, kept, owners, embedding, weight, windows, sparse)
    if needs[1]:
        vectors = embedding.detach().numpy()
        weights = torch.zeros_like(weight)
        filters = weights.numpy()
        spread(
            lambda block: add_word_vectors(flow, where, tokens, owners, vectors, filters, *block[1:]),
            blocks(windows, weight.shape[2], wide=16),
        )
    if needs[2]:
        biases = torch.zeros_like(bias)
        add_gradients(flow, where, owners, biases.numpy())
    return words, weights, biases


def embedding_gradient(
    flow: np.ndarray,
    where: np.ndarray,
    kept: tuple[Tensor, ...],
    owners: np.ndarray,
    embedding: Tensor,
    weight: Tensor,
    windows: tuple[int, ...],
    sparse: bool,
) -> Any:
    """Dense (M, V, D), or ``(rows, values)`` of the words that a filter chose.

    Contributions are put in order of their words by counting, in parallel over documents; then each word's vector is
    summed up in one go, in the order of documents, windows and filters.
    """
    rows, words, starts = (tensor.numpy() for tensor in kept)
    slots, dim = weight.shape[1], weight.shape[3]
    lengths, firsts = np.array(windows), starts[owners]
    documents = evenly(len(flow), threads())
    counts = np.zeros((len(documents), len(words)), np.int64)
    spread(
        lambda part: count_contributions(flow, where, rows, lengths, firsts, *documents[part], counts[part]),
        range(len(documents)),
    )
    # Where each part of the documents puts its contributions to each word: words in order, parts in order within.
    ends = counts.T.ravel().cumsum()
    places = (ends - counts.T.ravel()).reshape(len(words), len(documents))
    total = int(ends[-1]) if len(ends) else 0
    sources, scales = np.empty(total, np.uint32), np.empty(total, flow.dtype)

    def place(part: int) -> None:
        mine = places[:, part].copy()
        place_contributions(flow, where, rows, lengths, firsts, owners * slots, *documents[part], mine, sources, scales)

    spread(place, range(len(documents)))
    bounds = np.concatenate([places[:, 0], [total]])
    touched = np.flatnonzero(np.diff(bounds))
    if sparse:
        values, goals = torch.zeros(len(touched), dim, dtype=embedding.dtype), np.arange(len(touched))
    else:
        values, goals = torch.zeros(len(embedding) * embedding.shape[1], dim, dtype=embedding.dtype), words[touched]
    table, sums = weight.detach().reshape(-1, dim).numpy(), values.numpy()
    spread(
        lambda part: add_filters(table, sources, scales, bounds, touched, goals, sums, *part),
        evenly_by(np.concatenate([bounds[touched], [total]]), 8 * threads()),
    )
    if sparse:
        return torch.from_numpy(words[touched]), values
    return values.view(embedding.shape)


def arrays(ids: Tensor, offsets: Tensor, models: Tensor | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ids (tokens,) int32, offsets (B + 1,) int64, and each document's model (B,) int64."""
    owners = np.zeros(len(offsets) - 1, np.int64) if models is None else models.long().numpy()
    return ids.int().numpy(), offsets.long().numpy(), owners


def blocks(windows: tuple[int, ...], filters: int, *, models: int = 1, wide: int = LANES) -> list[Block]:
    """All filters of all models in blocks, those that take longest first.

    >>> [(block.window, block.slot, block.left, block.right) for block in blocks((2, 3), 100)]
    [(3, 2, 0, 64), (2, 0, 0, 64), (3, 2, 64, 100), (2, 0, 64, 100)]
    """
    slots = np.cumsum([0, *windows]).tolist()
    return sorted(
        (
            Block(model, number, window, slots[number], left, min(left + wide, filters))
            for model in range(models)
            for number, window in enumerate(windows)
            for left in range(0, filters, wide)
        ),
        key=lambda block: -block.window * (block.right - block.left),
    )


def distinct_words(
    ids: np.ndarray, offsets: np.ndarray, owners: np.ndarray, order: np.ndarray, size: int, models: int
) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """Each token's row among the distinct words of its model (tokens,), these words as model · size + word (U,), model
    after model, and where each model's begin and the last one's end."""
    if len(owners) and (owners[order[0]] < 0 or owners[order[-1]] >= models):
        raise IndexError(f"a document's model must be 0 … {models - 1}")
    rows, words = np.empty(len(ids), np.uint32), np.empty(len(ids), np.int64)
    parts = np.zeros(models + 1, np.int64)
    if not number_words(ids, offsets, owners, order, size, rows, words, parts):
        raise IndexError(f"word ids must be 0 … {size - 1}, the rows of the embedding")
    return rows, words[: parts[-1]], parts.tolist()


@compiled
def number_words(ids, offsets, owners, order, size, rows, words, parts):
    """Fill ``rows``, ``words`` and ``parts`` (see ``distinct_words``); False if an id is out of range."""
    last = np.full(size, -1, np.int64)  # where a word was put last: for this model, if not before the model's first
    count, model = 0, 0
    for document in order:
        while model < owners[document]:
            model += 1
            parts[model] = count
        for t in range(offsets[document], offsets[document + 1]):
            word = ids[t]
            if word < 0 or word >= size:
                return False
            if last[word] < parts[model]:
                last[word] = count
                words[count] = model * size + word
                count += 1
            rows[t] = last[word] - parts[model]
    parts[model + 1 :] = count
    return True


@compiled
def copy_rows(source, words, goal, first, last):
    for number in range(first, last):
        goal[number] = source[words[number]]


@compiled
def search(table, rows, offsets, documents, bias, features, chosen, model, number, window, slot, left, right):
    """Maximum over time in the given documents for a block's filters, ``left`` to ``right`` of window ``number``.

    ``table`` holds their answers to each word, (words, window, right − left) end to end, ``rows`` (tokens,) each
    token's word in it. All lanes are computed; those past the block's last filter read what follows, and are dropped.
    """
    # Indices are unsigned, and everything they are made of: a signed one could count from the end, and numba's check
    # for that keeps the loops from being vectorised.
    second = np.uint64(right - left)  # where a word's answers at the second position start; then third, fourth, fifth
    long, third = np.uint64(window) * second, second + second
    fourth, fifth = third + second, third + third
    answers, best, at = np.empty(LANES, table.dtype), np.empty(LANES, table.dtype), np.empty(LANES, np.int32)
    for document in documents:
        start, end = offsets[document], offsets[document + 1] - window + 1
        best[:] = -np.inf
        at[:] = start
        for t in range(start, end):
            # A new maximum is rare after the first words, so see whether there is any before writing anything. The
            # papers' windows are written out to keep sums in registers (and without slices, which numba counts the
            # users of, at several times the cost of the sum); whatever the window, words are added in their order.
            a = rows[t] * long
            risen = np.int32(0)
            if window == 3:
                b, c = rows[t + 1] * long + second, rows[t + 2] * long + third
                for lane in range(LANES):
                    f = np.uint64(lane)
                    risen |= np.int32(not table[a + f] + table[b + f] + table[c + f] <= best[f])
                if risen != 0:
                    for lane in range(LANES):
                        f = np.uint64(lane)
                        answers[f] = table[a + f] + table[b + f] + table[c + f]
            elif window == 4:
                b, c, d = rows[t + 1] * long + second, rows[t + 2] * long + third, rows[t + 3] * long + fourth
                for lane in range(LANES):
                    f = np.uint64(lane)
                    answer = table[a + f] + table[b + f] + table[c + f] + table[d + f]
                    risen |= np.int32(not answer <= best[f])
                if risen != 0:
                    for lane in range(LANES):
                        f = np.uint64(lane)
                        answers[f] = table[a + f] + table[b + f] + table[c + f] + table[d + f]
            elif window == 5:
                b, c, d = rows[t + 1] * long + second, rows[t + 2] * long + third, rows[t + 3] * long + fourth
                e = rows[t + 4] * long + fifth
                for lane in range(LANES):
                    f = np.uint64(lane)
                    answer = table[a + f] + table[b + f] + table[c + f] + table[d + f] + table[e + f]
                    risen |= np.int32(not answer <= best[f])
                if risen != 0:
                    for lane in range(LANES):
                        f = np.uint64(lane)
                        answers[f] = table[a + f] + table[b + f] + table[c + f] + table[d + f] + table[e + f]
            else:
                for f in range(LANES):
                    answers[f] = table[a + np.uint64(f)]
                for j in range(1, window):
                    b = rows[t + j] * long + np.uint64(j) * second
                    for f in range(LANES):
                        answers[f] += table[b + np.uint64(f)]
                for f in range(LANES):
                    risen |= np.int32(not answers[f] <= best[f])
            if risen != 0:
                for f in range(LANES):
                    if best[f] == best[f] and not answers[f] <= best[f]:  # a NaN stays
                        best[f] = answers[f]
                        at[f] = t
        for f in range(right - left):
            feature = best[f] + bias[model, number, left + f]
            active = end > start and not feature <= 0
            features[document, number, left + f] = feature if active else 0
            chosen[document, number, left + f] = at[f] if active else -1


@compiled
def search_blocks(table, blocks, rows, offsets, documents, bias, features, chosen):
    """The same for several blocks of a ``Table``."""
    for block in blocks:
        own = table[block[6] :]
        search(
            own, rows, offsets, documents, bias, features, chosen,
            block[0], block[1], block[2], block[3], block[4], block[5],
        )  # fmt: skip


@compiled
def add_word_vectors(flow, where, ids, owners, vectors, filters, number, window, slot, left, right):
    """Gradient of one window's weights for filters ``left`` to ``right``: word vectors where each filter chose."""
    for f in range(left, right):
        for document in range(len(flow)):
            t, scale, model = where[document, number, f], flow[document, number, f], owners[document]
            if t >= 0 and scale != 0:
                for j in range(window):
                    word = ids[t + j]
                    for i in range(vectors.shape[2]):
                        filters[model, slot + j, f, i] += scale * vectors[model, word, i]


@compiled
def add_gradients(flow, where, owners, biases):
    """Gradient of the biases."""
    for document in range(flow.shape[0]):
        for number in range(flow.shape[1]):
            for f in range(flow.shape[2]):
                if where[document, number, f] >= 0:
                    biases[owners[document], number, f] += flow[document, number, f]


@compiled
def count_contributions(flow, where, rows, windows, firsts, first, last, counts):
    """How many filters' positions fall on each word, in documents ``first`` to ``last``."""
    for document in range(first, last):
        for number in range(len(windows)):
            for f in range(flow.shape[2]):
                t = where[document, number, f]
                if t >= 0 and flow[document, number, f] != 0:
                    for j in range(windows[number]):
                        counts[firsts[document] + rows[t + j]] += 1


@compiled
def place_contributions(flow, where, rows, windows, firsts, slots, first, last, places, sources, scales):
    """Put each contribution's filter (as a row of the weights) and scale where its word's others are."""
    filters = flow.shape[2]
    for document in range(first, last):
        slot = slots[document]
        for number in range(len(windows)):
            for f in range(filters):
                t, scale = where[document, number, f], flow[document, number, f]
                if t >= 0 and scale != 0:
                    for j in range(windows[number]):
                        word = firsts[document] + rows[t + j]
                        sources[places[word]] = (slot + j) * filters + f
                        scales[places[word]] = scale
                        places[word] += 1
            slot += windows[number]


@compiled
def add_filters(table, sources, scales, bounds, touched, goals, sums, first, last):
    """Gradient of the embedding: for each touched word, the filters that chose it, scaled and summed."""
    for number in range(first, last):
        goal = goals[number]
        for place in range(bounds[touched[number]], bounds[touched[number] + 1]):
            source, scale = sources[place], scales[place]
            for i in range(table.shape[1]):
                sums[goal, i] += scale * table[source, i]
