"""The GPU programs of ``training/graphed.py``, in Triton: a corpus's documents into a batch, dropout, loss, optimisers.

Shapes in the comments: M models (slots of a stack), B documents a model, V words in the vocabulary, N features, T tasks
with C classes in all, end to end in the order of the tasks.
"""

import triton
import triton.language as tl


@triton.jit
def mixed(bits):
    """32 well-mixed bits from 32, as ``training.batches.forget`` and ``model.mtcnn.drop`` mix them."""
    bits = (bits ^ (bits >> 16)) * 0x7FEB352D
    bits = (bits ^ (bits >> 15)) * 0x846CA68B
    return bits ^ (bits >> 16)


@triton.jit
def own_bits(number):
    """32 bits of a document's own from its 64-bit number."""
    low, high = (number & 0xFFFFFFFF).to(tl.uint32), ((number >> 32) & 0xFFFFFFFF).to(tl.uint32)
    return mixed(mixed(low) ^ high)


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
        own += own_bits(tl.load(numbers + document))
    for at in range(tl.program_id(1) * BLOCK, length, SHARES * BLOCK):
        step = at + tl.arange(0, BLOCK)
        live = step < length
        word = tl.load(corpus + start + step, mask=live, other=0)
        if MASKED:
            row = masks + (document // batch).to(tl.int64) * vocabulary
            word = tl.where(tl.load(row + word, mask=live, other=1) != 0, word, unknown)
        if FORGETFUL:
            bits = mixed(own + step.to(tl.uint32) * 0x9E3779B1)
            word = tl.where(bits.to(tl.int64) < limit, unknown, word)
        tl.store(ids + first + step, word, mask=live)


@triton.jit
def drop(source, numbers, target, width, limit, factor, BLOCK: tl.constexpr):
    """Dropout of features (M · B, N) as ``model.mtcnn.drop`` does it; of their gradient likewise."""
    document = tl.program_id(0)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < width
    bits = mixed(own_bits(tl.load(numbers + document)) + column.to(tl.uint32) * 0x9E3779B1)
    at = document.to(tl.int64) * width + column
    value = tl.load(source + at, mask=inside, other=0.0).to(tl.float32)
    value = tl.where(bits.to(tl.int64) >= limit, value * factor, 0.0)
    tl.store(target + at, value.to(target.dtype.element_ty), mask=inside)


@triton.jit
def weigh(rows, labels, weights, bounds, shares, documents, batch, classes, tasks, BLOCK: tl.constexpr):
    """``shares`` (M, T): what a document's weight counts in the loss, 1 ÷ (labelled weight · labelled tasks)."""
    model = tl.program_id(0).to(tl.int64)
    place = tl.arange(0, BLOCK)
    row = tl.load(rows + model * batch + place, mask=place < batch, other=-1)
    counted = 0.0
    for again in tl.static_range(2):  # how many tasks count is known after the first time
        for task in range(tasks):
            label = tl.load(labels + task * documents + row, mask=row >= 0, other=-1)
            start = tl.load(bounds + task)
            total = tl.sum(tl.load(weights + model * classes + start + label, mask=label >= 0, other=0.0), 0)
            if again:
                share = tl.where(total > 0, 1.0 / tl.maximum(total * counted, 1e-12), 0.0)
                tl.store(shares + model * tasks + task, share)
            else:
                counted += tl.where(total > 0, 1.0, 0.0)


@triton.jit
def loss(
    logits, rows, labels, weights, shares, bounds, losses, gradient, documents, batch, classes, tasks, smoothing,
    robustness, BLOCK: tl.constexpr,
):  # fmt: skip
    """Each document's part of ``training.losses.task_loss`` (M · B,), and its gradient by the logits (M · B, C)."""
    document = tl.program_id(0).to(tl.int64)
    model = document // batch
    row = tl.load(rows + document)
    summed = 0.0
    for task in range(tasks):
        start, stop = tl.load(bounds + task), tl.load(bounds + task + 1)
        number = stop - start
        c = tl.arange(0, BLOCK)
        inside = c < number
        scores = tl.load(logits + document * classes + start + c, mask=inside, other=float("-inf")).to(tl.float32)
        scores -= tl.max(scores, 0)
        powers = tl.exp(scores)
        total = tl.sum(powers, 0)
        logs = tl.where(inside, scores - tl.log(total), 0.0)
        label = tl.load(labels + task * documents + row, mask=row >= 0, other=-1)
        weight = tl.load(weights + model * classes + start + label, mask=label >= 0, other=0.0)
        part = weight * tl.load(shares + model * tasks + task)
        truth = tl.where(c == label, 1.0 - smoothing, 0.0) + smoothing / number
        # Where a document has no label, nothing counts, not even an infinite loss.
        terms = tl.where(truth > 0, truth * logs, 0.0)
        summed -= tl.where(part > 0, part * tl.sum(terms, 0), 0.0)
        heeded = tl.exp(robustness * tl.sum(tl.where(c == label, logs, 0.0), 0))
        slope = tl.where(part > 0, part * heeded * (powers / total - truth), 0.0)
        tl.store(gradient + document * classes + start + c, slope.to(gradient.dtype.element_ty), mask=inside)
    tl.store(losses + document, summed)


@triton.jit
def adam(
    weight, gradient, mean, square, clock, falls_over, active, scale, sizes, floors, steps, numel, beta1, beta2,
    CLIPPED: tl.constexpr, FALLING: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One step of Adam on one parameter (M, numel) for the active models, each at its own step of the clock (M,).

    ``sizes`` and ``floors`` hold, for every step up to ``steps``, the factor of m ÷ √v and what stands beside √v. Where
    the learning rate is ``FALLING``, it does so over each model's number of steps (M,).
    """
    model = tl.program_id(1).to(tl.int64)
    if tl.load(active + model) == 0:
        return
    now = tl.minimum(tl.load(clock + model), steps)
    size, floor = tl.load(sizes + now), tl.load(floors + now)
    if FALLING:
        size *= tl.maximum(0.0, 1 - (tl.load(clock + model) - 1) / tl.load(falls_over + model))
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = place < numel
    at = model * numel + place
    along = tl.load(gradient + at, mask=inside, other=0.0).to(tl.float32)
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
    weight, gradient, square, moved, clock, falls_over, active, scale, numel, rate, rho, epsilon,
    CLIPPED: tl.constexpr, FALLING: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One step of Adadelta on one parameter (M, numel) for the active models, as ``adam`` otherwise."""
    model = tl.program_id(1).to(tl.int64)
    if tl.load(active + model) == 0:
        return
    if FALLING:
        rate *= tl.maximum(0.0, 1 - (tl.load(clock + model) - 1) / tl.load(falls_over + model))
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = place < numel
    at = model * numel + place
    along = tl.load(gradient + at, mask=inside, other=0.0).to(tl.float32)
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
