"""The GPU programs of ``kernels/cuda.py``, in Triton: word lists, one tiled product, look-ups, and their gradients.

Shapes in the comments: M models, B documents, V words in the vocabulary, U of them in the batch (a capacity; how many
there really are lies in ``counts``), S slots, K windows, F filters and D dimensions, Fp and Dp those padded so that
every row starts on a 16-byte boundary. Programs beyond ``counts`` return at once, so a grid of fixed size serves every
batch and a whole training step can be replayed as one CUDA graph.

No program adds floats atomically: each sum has one owner who takes its terms in document order, so a step gives the
same bits every time.
"""

import triton
import triton.language as tl

NOWHERE = tl.constexpr(2147483647)  # a position after every other, so that the first of equals wins


@triton.jit
def mark(ids, offsets, models, seen, vocabulary, SHARES: tl.constexpr, BLOCK: tl.constexpr):
    """``seen`` (M, V), zeros before, becomes 1 for every word of every document."""
    document = tl.program_id(0)
    model = tl.load(models + document).to(tl.int64)
    start = tl.load(offsets + document)
    length = (tl.load(offsets + document + 1) - start).to(tl.int32)
    for at in range(tl.program_id(1) * BLOCK, length, SHARES * BLOCK):
        step = at + tl.arange(0, BLOCK)
        word = tl.load(ids + start + step, mask=step < length, other=-1)
        tl.store(seen + model * vocabulary + word, 1, mask=(word >= 0) & (word < vocabulary))


@triton.jit
def renumber(ids, offsets, models, ranks, tokens, broken, vocabulary, SHARES: tl.constexpr, BLOCK: tl.constexpr):
    """``tokens``: each word of the batch as a row of its model's word list; ``broken`` where an id is no word."""
    document = tl.program_id(0)
    model = tl.load(models + document).to(tl.int64)
    start = tl.load(offsets + document)
    length = (tl.load(offsets + document + 1) - start).to(tl.int32)
    for at in range(tl.program_id(1) * BLOCK, length, SHARES * BLOCK):
        step = at + tl.arange(0, BLOCK)
        live = step < length
        word = tl.load(ids + start + step, mask=live, other=0)
        known = live & (word >= 0) & (word < vocabulary)
        tl.store(broken + document, 1, mask=tl.sum((live & (known == 0)).to(tl.int32), 0) > 0)
        row = tl.load(ranks + model * vocabulary + word, mask=known, other=1) - 1
        tl.store(tokens + start + step, row, mask=live)


@triton.jit
def collect(
    seen, ranks, embedding, words, counts, rows, vocabulary, capacity, D,
    DP: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """``words`` (M, U) lists the seen words in order, ``rows`` (M, U, Dp) their vectors in the product's type."""
    model = tl.program_id(1).to(tl.int64)
    word = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = word < vocabulary
    there = tl.load(seen + model * vocabulary + word, mask=inside, other=0) != 0
    rank = tl.load(ranks + model * vocabulary + word, mask=inside, other=0)
    place = (rank - 1).to(tl.int64)
    tl.store(words + model * capacity + place, word, mask=there)
    tl.store(counts + model + tl.zeros_like(word), rank, mask=word == vocabulary - 1)
    for column in range(0, DP, COLUMNS):
        d = column + tl.arange(0, COLUMNS)
        source = embedding + (model * vocabulary + word)[:, None] * D + d[None, :]
        values = tl.load(source, mask=there[:, None] & (d < D)[None, :], other=0.0)
        target = rows + (model * capacity + place)[:, None] * DP + d[None, :]
        tl.store(target, values.to(rows.dtype.element_ty), mask=there[:, None] & (d < DP)[None, :])


@triton.jit
def product(
    a, b, c, counts, words, capacity, columns, inner, out_rows, out_columns, b_model, b_column, b_inner,
    SCATTER: tl.constexpr, WIDEN: tl.constexpr, PRECISION: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """``c[m, i] = a[m, i] @ b[m]`` for the first ``counts[m]`` rows; with SCATTER, row i goes to row ``words[m, i]``.

    ``a`` (M, U, inner) holds its last axis contiguous and padded to a multiple of BK; ``b`` may lie either way round.
    """
    model = tl.program_id(1).to(tl.int64)
    blocks = tl.cdiv(columns, BN)
    top = (tl.program_id(0) // blocks) * BM
    left = (tl.program_id(0) % blocks) * BN
    count = tl.load(counts + model)
    if top >= count:
        return
    row = top + tl.arange(0, BM)
    column = left + tl.arange(0, BN)
    k = tl.arange(0, BK)
    # Rows past the count read the last one and are not written.
    a_at = a + model * capacity * inner + tl.minimum(row, count - 1).to(tl.int64)[:, None] * inner + k[None, :]
    b_at = b + model * b_model + k[:, None] * b_inner + column[None, :] * b_column
    real = (column < columns)[None, :]
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for _ in range(0, inner, BK):
        one, other = tl.load(a_at), tl.load(b_at, mask=real, other=0.0)
        if WIDEN:  # Triton's interpreter cannot multiply bfloat16; float32 gives the same products
            one, other = one.to(tl.float32), other.to(tl.float32)
        total = tl.dot(one, other, total, input_precision=PRECISION)
        a_at += BK
        b_at += BK * b_inner
    live = row < count
    target = row
    if SCATTER:
        target = tl.load(words + model * capacity + row, mask=live, other=0)
    c_at = c + (model * out_rows + target)[:, None] * out_columns + column[None, :]
    tl.store(c_at, total.to(c.dtype.element_ty), mask=live[:, None] & (column < out_columns)[None, :])


@triton.jit
def look_up(
    table, tokens, offsets, models, values, places, capacity, width, left, window, filters, padded, windows,
    LENGTH: tl.constexpr, SHARES: tl.constexpr, BT: tl.constexpr, BF: tl.constexpr,
):  # fmt: skip
    """Best sum of LENGTH look-ups and where it starts: one document, a block of filters, a share of the positions.

    ``table`` (M, U, S·Fp). Every lane keeps its own best over the positions it walks, so that the loop holds loads,
    adds and one comparison; lanes are compared once at the end. Filter blocks are the slow axis of the grid: what one
    block reads of the table then stays in the caches while all documents pass.
    """
    document = tl.program_id(0) // SHARES
    share = tl.program_id(0) % SHARES
    f = tl.program_id(1) * BF + tl.arange(0, BF)
    model = tl.load(models + document).to(tl.int64)
    start = tl.load(offsets + document).to(tl.int32)
    end = tl.load(offsets + document + 1).to(tl.int32) - (LENGTH - 1)
    base = table + model * capacity * width + left
    best = tl.full((BT, BF), float("-inf"), tl.float32)
    place = tl.full((BT, BF), NOWHERE, tl.int32)
    for at in range(start + share * BT, end, SHARES * BT):
        t = at + tl.arange(0, BT)
        live = t < end
        total = tl.zeros((BT, BF), tl.float32)
        for j in tl.static_range(LENGTH):
            row = tl.load(tokens + t + j, mask=live, other=0)
            entry = base + row[:, None] * width + (j * padded + f)[None, :]
            total += tl.load(entry, mask=(f < padded)[None, :], other=0.0).to(tl.float32)
        better = (total > best) & live[:, None]
        best = tl.where(better, total, best)
        place = tl.where(better, t[:, None], place)
    top = tl.max(best, 0)
    first = tl.min(tl.where(best == top[None, :], place, NOWHERE), 0)
    out = ((document * SHARES + share) * windows + window).to(tl.int64) * filters + f
    tl.store(values + out, top, mask=f < filters)
    tl.store(places + out, first, mask=f < filters)


@triton.jit
def settle(
    values, places, offsets, models, bias, broken, lengths, features, chosen, filters, windows,
    SHARES: tl.constexpr, BF: tl.constexpr,
):  # fmt: skip
    """The best of all shares, bias and ReLU; NaN where the sums or the ids were no good."""
    document = tl.program_id(0)
    window = tl.program_id(1)
    f = tl.program_id(2) * BF + tl.arange(0, BF)
    inside = f < filters
    model = tl.load(models + document).to(tl.int64)
    long_enough = tl.load(offsets + document + 1) - tl.load(offsets + document) >= tl.load(lengths + window)
    best = tl.full((BF,), float("-inf"), tl.float32)
    place = tl.full((BF,), NOWHERE, tl.int32)
    for share in range(SHARES):
        at = ((document * SHARES + share) * windows + window).to(tl.int64) * filters + f
        value = tl.load(values + at, mask=inside, other=float("-inf"))
        where = tl.load(places + at, mask=inside, other=NOWHERE)
        better = (value > best) | ((value == best) & (where < place))
        best = tl.where(better, value, best)
        place = tl.where(better, where, place)
    result = best + tl.load(bias + (model * windows + window) * filters + f, mask=inside, other=0.0)
    passes = long_enough & (result > 0)
    feature = tl.where(passes, result, 0.0)
    # No position beat minus infinity although there were some: the sums were not numbers.
    bad = (long_enough & (best == float("-inf"))) | (tl.load(broken + document) != 0)
    out = (document * windows + window).to(tl.int64) * filters + f
    tl.store(features + out, tl.where(bad, float("nan"), feature), mask=inside)
    tl.store(chosen + out, tl.where(passes & (bad == 0), place, -1), mask=inside)


@triton.jit
def name_winners(chosen, tokens, slots_of, won, filters, windows, slots, BF: tl.constexpr):
    """``won`` (B, S, F): which row of its model's word list each word of each winning window is, −1 where none won."""
    document = tl.program_id(0).to(tl.int64)
    slot = tl.program_id(1)
    f = tl.program_id(2) * BF + tl.arange(0, BF)
    window, j = tl.load(slots_of + slot), tl.load(slots_of + slots + slot)
    start = tl.load(chosen + (document * windows + window) * filters + f, mask=f < filters, other=-1)
    row = tl.load(tokens + start + j, mask=start >= 0, other=-1)
    tl.store(won + (document * slots + slot) * filters + f, row, mask=f < filters)


@triton.jit
def clear(table, counts, capacity, width, BLOCK: tl.constexpr):
    """Zeros into the rows of ``table`` (M, U, width) that the counted words have."""
    model = tl.program_id(1).to(tl.int64)
    end = tl.load(counts + model).to(tl.int64) * width
    start = tl.program_id(0).to(tl.int64) * BLOCK
    if start >= end:
        return
    place = start + tl.arange(0, BLOCK)
    zeros = tl.zeros((BLOCK,), table.dtype.element_ty)
    tl.store(table + model * capacity * width + place, zeros, mask=place < end)


@triton.jit
def scatter(
    won, gradient, slots_of, order, firsts, table, capacity, width, filters, padded, windows, slots,
    UNROLL: tl.constexpr, BB: tl.constexpr, BF: tl.constexpr,
):  # fmt: skip
    """``table`` (M, U, S·Fp), cleared before, gets the sum of the gradients that reach each (word, slot, filter).

    Documents that share a word in a slot are found by comparing all with all; each then writes the same whole sum, so
    the order of the writes does not matter.
    """
    model = (tl.program_id(2) // slots).to(tl.int64)
    slot = tl.program_id(2) % slots
    window = tl.load(slots_of + slot)
    f = tl.program_id(0) * BF + tl.arange(0, BF)
    inside = f < filters
    first, last = tl.load(firsts + model), tl.load(firsts + model + 1)
    top = first + tl.program_id(1) * BB
    if top >= last:
        return
    place = top + tl.arange(0, BB)
    document = tl.load(order + place, mask=place < last, other=0).to(tl.int64)
    live = (place < last)[:, None] & inside[None, :]
    mine = tl.load(won + (document * slots + slot)[:, None] * filters + f[None, :], mask=live, other=-1)
    total = tl.zeros((BB, BF), tl.float32)
    for start in range(first, last, UNROLL):
        for step in tl.static_range(UNROLL):
            one = start + step + tl.zeros((1,), tl.int32)
            other = tl.load(order + one, mask=one < last, other=0).to(tl.int64)
            there = inside & (one < last)
            theirs = tl.load(won + (other * slots + slot) * filters + f, mask=there, other=-1)
            value = tl.load(gradient + (other * windows + window) * filters + f, mask=there, other=0.0)
            total += tl.where(mine == theirs[None, :], value[None, :], 0.0)
    target = table + (model * capacity + mine) * width + (slot * padded + f)[None, :]
    tl.store(target, total.to(table.dtype.element_ty), mask=live & (mine >= 0))


@triton.jit
def filter_gradients(
    won, gradient, slots_of, order, firsts, rows, weight, bias, capacity, filters, windows, slots, D,
    DP: tl.constexpr, UNROLL: tl.constexpr, BF: tl.constexpr, BD: tl.constexpr,
):  # fmt: skip
    """``weight`` (M, S, F, D) and ``bias`` (M, K, F): the winning words' vectors times what reaches their filter."""
    model = (tl.program_id(2) // slots).to(tl.int64)
    slot = tl.program_id(2) % slots
    window, j = tl.load(slots_of + slot), tl.load(slots_of + slots + slot)
    f = tl.program_id(1) * BF + tl.arange(0, BF)
    d = tl.program_id(0) * BD + tl.arange(0, BD)
    inside = f < filters
    first, last = tl.load(firsts + model), tl.load(firsts + model + 1)
    total = tl.zeros((BF, BD), tl.float32)
    reached = tl.zeros((BF,), tl.float32)
    for start in range(first, last, UNROLL):
        # Several documents at a time, so that their look-ups are under way together.
        for step in tl.static_range(UNROLL):
            one = start + step + tl.zeros((1,), tl.int32)
            document = tl.load(order + one, mask=one < last, other=0).to(tl.int64)
            row = tl.load(won + (document * slots + slot) * filters + f, mask=inside & (one < last), other=-1)
            wins = row >= 0
            value = tl.load(gradient + (document * windows + window) * filters + f, mask=wins, other=0.0)
            vector = tl.load(rows + (model * capacity + row)[:, None] * DP + d[None, :], mask=wins[:, None], other=0.0)
            total += value[:, None] * vector.to(tl.float32)
            reached += value
    out = weight + ((model * slots + slot) * filters + f)[:, None] * D + d[None, :]
    tl.store(out, total, mask=inside[:, None] & (d < D)[None, :])
    if (j == 0) & (tl.program_id(0) == 0):
        tl.store(bias + (model * windows + window) * filters + f, reached, mask=inside)


@triton.jit
def share_filters(
    pairs, won, gradient, models, slots_of, rows, shares, capacity, filters, windows, slots, D,
    DP: tl.constexpr, BF: tl.constexpr, BD: tl.constexpr,
):  # fmt: skip
    """``shares`` (P, S, F / BF): what the filters' gradients of two documents have in common, summed over a block of
    filters; the biases' at each window's first slot."""
    pair = tl.program_id(0).to(tl.int64)
    slot = tl.program_id(1)
    f = tl.program_id(2) * BF + tl.arange(0, BF)
    inside = f < filters
    left, right = tl.load(pairs + 2 * pair), tl.load(pairs + 2 * pair + 1)
    model = tl.load(models + left).to(tl.int64)
    window, j = tl.load(slots_of + slot), tl.load(slots_of + slots + slot)
    mine = tl.load(won + (left * slots + slot) * filters + f, mask=inside, other=-1)
    theirs = tl.load(won + (right * slots + slot) * filters + f, mask=inside, other=-1)
    both = (mine >= 0) & (theirs >= 0)
    alike = tl.where(j == 0, 1.0, 0.0) + tl.zeros((BF,), tl.float32)
    for start in range(0, D, BD):
        d = start + tl.arange(0, BD)
        live = both[:, None] & (d < D)[None, :]
        one = tl.load(rows + (model * capacity + mine)[:, None] * DP + d[None, :], mask=live, other=0.0)
        other = tl.load(rows + (model * capacity + theirs)[:, None] * DP + d[None, :], mask=live, other=0.0)
        alike += tl.sum(one.to(tl.float32) * other.to(tl.float32), 1)
    slope = tl.load(gradient + (left * windows + window) * filters + f, mask=both, other=0.0)
    slope *= tl.load(gradient + (right * windows + window) * filters + f, mask=both, other=0.0)
    total = tl.sum(tl.where(both, slope * alike, 0.0), 0)
    tl.store(shares + (pair * slots + slot) * tl.num_programs(2) + tl.program_id(2), total)


@triton.jit
def share_words(
    pairs, won, gradient, models, slots_of, gram, shares, filters, windows, slots,
    BA: tl.constexpr, BB: tl.constexpr,
):  # fmt: skip
    """``shares`` (P, S·F / BA): what the word vectors' gradients of two documents have in common. Wherever the same
    word won entry a (a slot and a filter) of one document and entry b of the other, both get their filter's weights:
    ``gram`` (M, S·F, S·F) holds the products of those. Summed over a block of a and all b."""
    pair = tl.program_id(0).to(tl.int64)
    left, right = tl.load(pairs + 2 * pair), tl.load(pairs + 2 * pair + 1)
    width = slots * filters
    model = tl.load(models + left).to(tl.int64)
    a = tl.program_id(1) * BA + tl.arange(0, BA)
    here = a < width
    mine = tl.load(won + left * width + a, mask=here, other=-1)
    window = tl.load(slots_of + a // filters, mask=here, other=0)
    slope = tl.load(gradient + (left * windows + window) * filters + a % filters, mask=mine >= 0, other=0.0)
    total = tl.zeros((BA,), tl.float32)
    for start in range(0, width, BB):
        b = start + tl.arange(0, BB)
        there = b < width
        theirs = tl.load(won + right * width + b, mask=there, other=-2)
        other = tl.load(slots_of + b // filters, mask=there, other=0)
        flow = tl.load(gradient + (right * windows + other) * filters + b % filters, mask=theirs >= 0, other=0.0)
        same = (mine[:, None] == theirs[None, :]) & (mine >= 0)[:, None]
        product = tl.load(gram + (model * width + a)[:, None] * width + b[None, :], mask=same, other=0.0)
        total += tl.sum(product * flow[None, :], 1)
    tl.store(shares + pair * tl.num_programs(1) + tl.program_id(1), tl.sum(total * slope, 0))
