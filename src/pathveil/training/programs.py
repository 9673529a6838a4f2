"""The GPU programs of ``training/graphed.py``, in Triton: documents of a corpus into a batch, the optimisers' steps.

Shapes in the comments: M models (slots of a stack), B documents a model, V words in the vocabulary.
"""

import triton
import triton.language as tl


@triton.jit
def mixed(bits):
    """32 well-mixed bits from 32, as ``training.batches.forget`` mixes them."""
    bits = (bits ^ (bits >> 16)) * 0x7FEB352D
    bits = (bits ^ (bits >> 15)) * 0x846CA68B
    return bits ^ (bits >> 16)


@triton.jit
def documents(
    corpus, starts, offsets, masks, numbers, ids, vocabulary, batch, unknown, limit,
    MASKED: tl.constexpr, FORGETFUL: tl.constexpr, SHARES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """``ids`` gets the words of M · B documents end to end; those outside a model's mask (M, V), and those that the
    document's number drops (below ``limit`` of 2³²), become unknown."""
    document = tl.program_id(0)
    start, first = tl.load(starts + document), tl.load(offsets + document)
    length = (tl.load(offsets + document + 1) - first).to(tl.int32)
    own = tl.zeros((BLOCK,), tl.uint32)
    if FORGETFUL:
        number = tl.load(numbers + document)
        low, high = (number & 0xFFFFFFFF).to(tl.uint32), ((number >> 32) & 0xFFFFFFFF).to(tl.uint32)
        own += mixed(mixed(low) ^ high)
    for at in range(tl.program_id(1) * BLOCK, length, SHARES * BLOCK):
        step = at + tl.arange(0, BLOCK)
        live = step < length
        word = tl.load(corpus + start + step, mask=live, other=0)
        if MASKED:
            row = masks + (document // batch).to(tl.int64) * vocabulary
            word = tl.where(tl.load(row + word, mask=live, other=1) != 0, word, unknown)
        if FORGETFUL:
            bits = mixed(own + step.to(tl.uint32) * 0x9E3779B1)
            word = tl.where(bits.to(tl.float64) < limit, unknown, word)
        tl.store(ids + first + step, word, mask=live)


@triton.jit
def adam(
    weight, gradient, mean, square, clock, active, scale, sizes, floors, numel, beta1, beta2,
    CLIPPED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One step of Adam on one parameter (M, numel) for the active models, each at its own step of the clock (M,).

    ``sizes`` and ``floors`` hold, for every step, the factor of m ÷ √v and what stands beside √v.
    """
    model = tl.program_id(1).to(tl.int64)
    if tl.load(active + model) == 0:
        return
    now = tl.load(clock + model)
    size, floor = tl.load(sizes + now), tl.load(floors + now)
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = place < numel
    at = model * numel + place
    along = tl.load(gradient + at, mask=inside, other=0.0)
    if CLIPPED:
        along *= tl.load(scale + model)
    first = tl.load(mean + at, mask=inside, other=0.0)
    second = tl.load(square + at, mask=inside, other=0.0)
    first += (1 - beta1) * (along - first)
    second = beta2 * second + (1 - beta2) * along * along
    moved = tl.load(weight + at, mask=inside, other=0.0) - size * first / (tl.sqrt(second) + floor)
    tl.store(mean + at, first, mask=inside)
    tl.store(square + at, second, mask=inside)
    tl.store(weight + at, moved, mask=inside)


@triton.jit
def adadelta(
    weight, gradient, square, moved, active, scale, numel, rate, rho, epsilon,
    CLIPPED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One step of Adadelta on one parameter (M, numel) for the active models."""
    model = tl.program_id(1).to(tl.int64)
    if tl.load(active + model) == 0:
        return
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = place < numel
    at = model * numel + place
    along = tl.load(gradient + at, mask=inside, other=0.0)
    if CLIPPED:
        along *= tl.load(scale + model)
    first = tl.load(square + at, mask=inside, other=0.0)
    second = tl.load(moved + at, mask=inside, other=0.0)
    first = rho * first + (1 - rho) * along * along
    change = tl.sqrt(second + epsilon) / tl.sqrt(first + epsilon) * along
    second = rho * second + (1 - rho) * change * change
    tl.store(square + at, first, mask=inside)
    tl.store(moved + at, second, mask=inside)
    tl.store(weight + at, tl.load(weight + at, mask=inside, other=0.0) - rate * change, mask=inside)
