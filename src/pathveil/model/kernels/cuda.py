"""The encoder as sums of table look-ups on a GPU, through Triton.

A convolution over embeddings is a sum of look-ups: ``table[w, slot, f] = embedding[w] · weight[slot, f]`` is one matrix
product over the distinct words of a batch, a feature is the best sum of k entries, and the gradient flows back through
the one window that won. Forward: list each model's words, multiply, look up and keep the best. Backward: the winning
words' vectors summed for each filter, and the gradients of the table, which are few, put in place and multiplied back.

Under ``torch.autocast`` to bfloat16 the products take bfloat16 and add in float32, and the table is kept in bfloat16;
otherwise all is float32. Nothing here waits for the device, no shape depends on what lies there, and no sum depends on
who comes first: a training step can be captured in a CUDA graph, and repeats bit for bit. An id outside the vocabulary
makes its document's features NaN, because a GPU cannot raise without being waited for.

Without a GPU, Triton's interpreter runs the same programs (``TRITON_INTERPRET=1`` before the import); that is how they
are tested everywhere:

    TRITON_INTERPRET=1 python -m pytest tests/model/kernels/test_cuda.py
"""

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from pathveil.errors import MissingExtraError

try:
    import triton
    import triton.knobs
except ImportError:
    raise MissingExtraError(package="triton", extra="triton", purpose="the CUDA kernel") from None

from pathveil.model.kernels import programs

INTERPRETED = triton.knobs.runtime.interpret
SHARES = 4  # programs a document's positions are divided among: enough to fill a GPU with one batch of one model
UNROLL = 8  # documents whose look-ups are under way together in the backward programs


def forward(
    ids: Tensor,
    offsets: Tensor,
    models: Tensor | None,
    embedding: Tensor,
    weight: Tensor,
    bias: Tensor,
    windows: tuple[int, ...],
) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
    """The kernel's forward, as in the package's docstring; ``kept`` is the word list and the product's operands."""
    kind = torch.get_autocast_dtype(ids.device.type) if torch.is_autocast_enabled(ids.device.type) else torch.float32
    documents, filters = len(offsets) - 1, weight.shape[2]
    if models is None:
        models = torch.zeros(documents, dtype=torch.int64, device=ids.device)
    tokens, broken, words, counts, rows = word_lists(ids, offsets, models, embedding, kind)
    packed = pack(weight, rows)
    table = packed.new_empty(*words.shape, packed.shape[1])  # (M, U, S·Fp)
    multiply(rows, packed.transpose(1, 2), table, counts)
    features, chosen = best_windows(table, tokens, broken, offsets, models, bias, windows, filters)
    return features, chosen, (tokens, words, counts, rows, packed)


def word_lists(
    ids: Tensor, offsets: Tensor, models: Tensor, embedding: Tensor, kind: torch.dtype
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Each model's distinct words: the batch in their numbers, which documents hold what is no word, the words (M, U),
    how many there are (M,), and their vectors (M, U, Dp) in the wanted type."""
    stacks, vocabulary, dim = embedding.shape
    documents, device = len(offsets) - 1, ids.device
    capacity, dim_padded = max(min(vocabulary, len(ids)), 1), padded(dim, 64)
    seen = torch.zeros(stacks, vocabulary, dtype=torch.int32, device=device)
    tokens = torch.empty(len(ids), dtype=torch.int32, device=device)
    broken = torch.zeros(documents, dtype=torch.int32, device=device)
    words = torch.empty(stacks, capacity, dtype=torch.int32, device=device)
    counts = torch.empty(stacks, dtype=torch.int32, device=device)
    rows = torch.empty(stacks, capacity, dim_padded, dtype=kind, device=device)
    grid, options = (documents, SHARES), {"SHARES": SHARES, "BLOCK": 256}
    if documents:
        programs.mark[grid](ids, offsets, models, seen, vocabulary, **options)
    ranks = seen.cumsum(1, dtype=torch.int32)  # from 1
    programs.collect[triton.cdiv(vocabulary, 32), stacks](
        seen, ranks, embedding.contiguous(), words, counts, rows, vocabulary, capacity, dim,
        DP=dim_padded, ROWS=32, COLUMNS=64,
    )  # fmt: skip
    if documents:
        programs.renumber[grid](ids, offsets, models, ranks, tokens, broken, vocabulary, **options)
    return tokens, broken, words, counts, rows


def pack(weight: Tensor, rows: Tensor) -> Tensor:
    """The filters as one operand (M, S·Fp, Dp) of the product, padded with zeros, in the type of ``rows``."""
    stacks, slots, filters, dim = weight.shape
    filters_padded, dim_padded = padded(filters, 16), rows.shape[2]
    packed = rows.new_zeros(stacks, padded(slots * filters_padded, 64), dim_padded)
    grid = packed[:, : slots * filters_padded].view(stacks, slots, filters_padded, dim_padded)
    grid[:, :, :filters, :dim] = weight
    return packed


def multiply(a: Tensor, b: Tensor, out: Tensor, counts: Tensor, words: Tensor | None = None) -> None:
    """``out[m, i] = a[m, i] @ b[m]`` for the first ``counts[m]`` rows i, which go to rows ``words[m, i]`` if given."""
    stacks, capacity, inner = a.shape
    columns = b.shape[2]
    # Tiles as measured best on an H200, for few and for many terms a sum. In float32 three products of the tensor
    # cores' 19-bit parts stand for one, with an error like that of float32 itself, at twice the speed and more.
    if a.dtype == torch.float32:
        high, wide, deep, warps, stages = (128, 128, 32, 8, 3) if inner < columns else (128, 64, 32, 4, 3)
    else:
        high, wide, deep, warps, stages = (128, 128, 64, 8, 3) if inner < columns else (128, 128, 64, 8, 4)
    programs.product[triton.cdiv(capacity, high) * triton.cdiv(columns, wide), stacks](
        a, b, out, counts, words, capacity, columns, inner, out.shape[1], out.shape[2], b.stride(0), b.stride(2),
        b.stride(1), SCATTER=words is not None, WIDEN=INTERPRETED, PRECISION="tf32x3", BM=high, BN=wide, BK=deep,
        num_warps=warps, num_stages=stages,
    )  # fmt: skip


def best_windows(
    table: Tensor,
    tokens: Tensor,
    broken: Tensor,
    offsets: Tensor,
    models: Tensor,
    bias: Tensor,
    windows: tuple[int, ...],
    filters: int,
) -> tuple[Tensor, Tensor]:
    """Features and chosen positions (B, K, F) from the table (M, U, S·Fp)."""
    documents, device, count = len(offsets) - 1, tokens.device, len(windows)
    capacity, width = table.shape[1:]
    filters_padded = padded(filters, 16)
    features = torch.empty(documents, count, filters, device=device)
    chosen = torch.empty(documents, count, filters, dtype=torch.int32, device=device)
    if not documents:
        return features, chosen
    values = torch.empty(documents, SHARES, count, filters, device=device)
    places = torch.empty(documents, SHARES, count, filters, dtype=torch.int32, device=device)
    block = min(64, triton.next_power_of_2(filters))
    slot = 0
    for number, window in enumerate(windows):
        programs.look_up[documents * SHARES, triton.cdiv(filters, block)](
            table, tokens, offsets, models, values, places, capacity, width, slot * filters_padded, number, filters,
            filters_padded, count, LENGTH=window, SHARES=SHARES, BT=16, BF=block,
        )  # fmt: skip
        slot += window
    lengths, _ = layout(windows, device)
    programs.settle[documents, count, triton.cdiv(filters, 128)](
        values, places, offsets, models, bias.contiguous(), broken, lengths, features, chosen, filters, count,
        SHARES=SHARES, BF=128,
    )  # fmt: skip
    return features, chosen


def tabulate(embedding: Tensor, weight: Tensor, windows: tuple[int, ...]) -> Tensor:
    """The table over the whole vocabulary, (1, V, S·Fp)."""
    kind = torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else torch.float32
    _, vocabulary, dim = embedding.shape
    rows = embedding.new_zeros(1, vocabulary, padded(dim, 64), dtype=kind)
    rows[:, :, :dim] = embedding
    packed = pack(weight, rows)
    table = packed.new_empty(1, vocabulary, packed.shape[1])
    multiply(rows, packed.transpose(1, 2), table, torch.tensor([vocabulary], dtype=torch.int32, device=rows.device))
    return table


def look_up(
    table: Tensor, ids: Tensor, offsets: Tensor, bias: Tensor, windows: tuple[int, ...]
) -> tuple[Tensor, Tensor]:
    """The kernel's forward from a table made before."""
    documents, vocabulary = len(offsets) - 1, table.shape[1]
    outside = (ids < 0) | (ids >= vocabulary)  # (tokens,)
    before = torch.nn.functional.pad(outside.cumsum(0, dtype=torch.int32), (1, 0))
    broken = before[offsets].diff()  # (B,)
    tokens = ids.clamp(0, vocabulary - 1).int()
    models = torch.zeros(documents, dtype=torch.int64, device=ids.device)
    return best_windows(table, tokens, broken, offsets, models, bias, windows, bias.shape[2])


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
    ordered: tuple[Tensor, Tensor] | None = None,
) -> tuple[Any, Tensor | None, Tensor | None]:
    """The kernel's backward, as in the package's docstring; ``ordered`` is what ``by_model`` gives, where known."""
    tokens, words, counts, rows, packed = kept
    documents, count, filters = chosen.shape
    stacks, slots, _, dim = weight.shape
    capacity, dim_padded = rows.shape[1:]
    device = gradient.device
    gradient = gradient.contiguous()
    _, slots_of = layout(windows, device)
    order, firsts = ordered or by_model(models, documents, stacks, device)
    won = torch.empty(documents, slots, filters, dtype=torch.int32, device=device)
    if documents:
        programs.name_winners[documents, slots, triton.cdiv(filters, 128)](
            chosen, tokens, slots_of, won, filters, count, slots, BF=128
        )
    d_words: Any = None
    d_weight = d_bias = None
    if needs[1] or needs[2]:
        d_weight, d_bias = weight.new_empty(weight.shape), bias.new_empty(bias.shape)
        programs.filter_gradients[triton.cdiv(dim, 64), triton.cdiv(filters, 16), stacks * slots](
            won, gradient, slots_of, order, firsts, rows, d_weight, d_bias, capacity, filters, count, slots, dim,
            DP=dim_padded, UNROLL=UNROLL, BF=16, BD=64,
        )  # fmt: skip
    if needs[0]:
        table = packed.new_empty(*words.shape, packed.shape[1])  # (M, U, S·Fp): the gradient of the forward's table
        programs.clear[triton.cdiv(capacity * table.shape[2], 8192), stacks](
            table, counts, capacity, table.shape[2], BLOCK=8192
        )
        if documents:
            programs.scatter[triton.cdiv(filters, 32), triton.cdiv(documents, 32), stacks * slots](
                won, gradient, slots_of, order, firsts, table, capacity, table.shape[2], filters, padded(filters, 16),
                count, slots, UNROLL=UNROLL, BB=32, BF=32,
            )  # fmt: skip
        if sparse:
            values = embedding.new_empty(stacks, capacity, dim)
            multiply(table, packed, values, counts)
            d_words = touched_rows(words, counts, values, embedding.shape[1])
        else:
            d_words = torch.zeros_like(embedding)
            multiply(table, packed, d_words, counts, words)
    return d_words, d_weight if needs[1] else None, d_bias if needs[2] else None


def shared_squares(
    gradient: Tensor,
    chosen: Tensor,
    kept: tuple[Tensor, ...],
    models: Tensor | None,
    weight: Tensor,
    windows: tuple[int, ...],
    pairs: Tensor,
    *,
    words: bool,
) -> Tensor:
    """What the encoder's gradients of two documents have in common, for each of ``pairs`` (P, 2): the inner product
    (P,), which for a document and itself is its squared norm (``kernels.norms``)."""
    tokens, _, _, rows, _ = kept
    documents, count, filters = chosen.shape
    stacks, slots, _, dim = weight.shape
    gradient, device = gradient.contiguous(), gradient.device
    if not len(pairs):
        return gradient.new_zeros(0)
    if models is None:
        models = torch.zeros(documents, dtype=torch.int64, device=device)
    _, slots_of = layout(windows, device)
    won = torch.empty(documents, slots, filters, dtype=torch.int32, device=device)
    programs.name_winners[documents, slots, triton.cdiv(filters, 128)](
        chosen, tokens, slots_of, won, filters, count, slots, BF=128
    )
    pairs, blocks = pairs.contiguous(), triton.cdiv(filters, 32)
    common = gradient.new_empty(len(pairs), slots * blocks)
    programs.share_filters[len(pairs), slots, blocks](
        pairs, won, gradient, models, slots_of, rows, common, rows.shape[1], filters, count, slots, dim,
        DP=rows.shape[2], BF=32, BD=32,
    )  # fmt: skip
    shared = common.sum(1)
    if words:
        flat = weight.detach().reshape(stacks, slots * filters, dim)
        gram = torch.bmm(flat, flat.transpose(1, 2))  # (M, S·F, S·F)
        blocks = triton.cdiv(slots * filters, 32)
        common = gradient.new_empty(len(pairs), blocks)
        programs.share_words[len(pairs), blocks](
            pairs, won, gradient, models, slots_of, gram, common, filters, count, slots, BA=32, BB=64
        )
        shared = shared + common.sum(1)
    return shared


def touched_rows(words: Tensor, counts: Tensor, values: Tensor, vocabulary: int) -> tuple[Tensor, Tensor]:
    """The listed words as rows numbered model · V + word, and their gradients. Waits for the device."""
    stacks, capacity = words.shape
    listed = torch.arange(capacity, device=words.device) < counts[:, None]  # (M, U)
    numbers = words.long() + torch.arange(stacks, device=words.device)[:, None] * vocabulary
    return numbers[listed], values[listed]


def by_model(models: Tensor | None, documents: int, stacks: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Documents in model order, and where each model's begin: model m has ``order[firsts[m]:firsts[m + 1]]``."""
    if models is None:
        return torch.arange(documents, device=device), torch.arange(2, device=device) * documents
    ordered, order = models.sort(stable=True)
    return order, torch.searchsorted(ordered, torch.arange(stacks + 1, device=device))


@lru_cache
def layout(windows: tuple[int, ...], device: torch.device) -> tuple[Tensor, Tensor]:
    """The windows' lengths (K,), and each slot's window and position within it (2, S); made once, as a graph needs."""
    pairs = [(number, j) for number, window in enumerate(windows) for j in range(window)]
    lengths = torch.tensor(windows, dtype=torch.int32, device=device)
    return lengths, torch.tensor(pairs, dtype=torch.int32, device=device).T.contiguous()


def padded(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple
