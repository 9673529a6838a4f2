"""Which documents go into which batch: a plan of row numbers, made from a seed and the epoch alone.

A plan depends on nothing that happened before: a killed run makes the same plan again, and a model trained alone sees
the batches it would see in a stack. Batches are ragged (never padded), so sorting by length saves no arithmetic; it
evens out memory, because a batch of equals has no outlier, at the price of less random batches.

>>> import numpy as np
>>> lengths = np.array([5, 1, 9, 2, 7])
>>> [rows.tolist() for rows in plan(lengths, batch_size=2, seed=1, epoch=0)]
[[4, 0], [1, 2], [3]]
>>> [lengths[rows].tolist() for rows in plan(lengths, batch_size=2, seed=1, epoch=0, order="length")]
[[5, 7], [1, 2], [9]]
>>> [(start, stop) for start, stop in spans(np.array([0, 5, 6, 15, 17, 24]), tokens=10)]
[(0, 2), (2, 3), (3, 5)]
"""

from collections.abc import Iterator
from typing import Literal

import numpy as np

from pathveil.rng import Seed, generator
from pathveil.vocabulary.words import UNKNOWN

Order = Literal["random", "length"]

POOL = 50  # batches sorted together in "length" order: enough to make equals, few enough to stay random


def plan(lengths: np.ndarray, *, batch_size: int, seed: Seed, epoch: int, order: Order = "random") -> list[np.ndarray]:
    """One epoch's batches as arrays of row numbers; every document once. ``seed`` may be several numbers."""
    rng = generator(seed, epoch)
    rows = rng.permutation(len(lengths))
    if order == "random":
        return [rows[start : start + batch_size] for start in range(0, len(rows), batch_size)]
    batches = []
    for start in range(0, len(rows), POOL * batch_size):
        pool = rows[start : start + POOL * batch_size]
        pool = pool[np.argsort(lengths[pool], kind="stable")]
        batches += [pool[at : at + batch_size] for at in range(0, len(pool), batch_size)]
    return [batches[number] for number in rng.permutation(len(batches))]


def noise(rows: np.ndarray, *, seed: Seed, epoch: int) -> np.ndarray:
    """A number for each document's dropout in this epoch, int64: what ``MTCNN.forward(noise=…)`` takes.

    It depends on seed, epoch and row alone, so a run that was stopped and continued, or stacked with others, drops the
    same features.

    >>> noise(np.array([3, 4]), seed=1, epoch=0)[1] == noise(np.array([4]), seed=1, epoch=0)[0]
    np.True_
    """
    start = np.random.SeedSequence([*np.atleast_1d(seed).tolist(), epoch]).generate_state(1, np.uint64)
    return (start + np.asarray(rows).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)).view(np.int64)


def drop_words(ids: np.ndarray, offsets: np.ndarray, numbers: np.ndarray, *, share: float) -> np.ndarray:
    """Words (tokens,) with a share of them unknown; which ones is a hash of the document's number and the position.

    >>> drop_words(np.array([7, 8, 9, 7, 8]), np.array([0, 3, 5]), np.array([1, 2]), share=0.5).tolist()
    [1, 1, 9, 1, 8]
    """
    low = np.uint64(0xFFFFFFFF)

    def mixed(bits: np.ndarray) -> np.ndarray:
        bits = (bits ^ (bits >> np.uint32(16))) * np.uint32(0x7FEB352D)
        bits = (bits ^ (bits >> np.uint32(15))) * np.uint32(0x846CA68B)
        return bits ^ (bits >> np.uint32(16))

    wide = np.asarray(numbers).astype(np.int64).view(np.uint64)
    own = mixed(mixed((wide & low).astype(np.uint32)) ^ (wide >> np.uint64(32)).astype(np.uint32))
    lengths = np.diff(offsets)
    within = (np.arange(len(ids)) - np.repeat(offsets[:-1], lengths)).astype(np.uint32)
    bits = mixed(np.repeat(own, lengths) + within * np.uint32(0x9E3779B1))
    return np.where(bits < share * 2.0**32, ids.dtype.type(UNKNOWN), ids)


def spans(offsets: np.ndarray, *, tokens: int) -> Iterator[tuple[int, int]]:
    """Runs of documents in order, each of at most ``tokens`` words (or one document that is longer): for inference."""
    documents = len(offsets) - 1
    start = 0
    while start < documents:
        stop = int(np.searchsorted(offsets, offsets[start] + tokens, side="right")) - 1
        stop = min(max(stop, start + 1), documents)
        yield start, stop
        start = stop


def hold_out_cases(cases: np.ndarray, *, share: float, seed: Seed, part: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows to train on and rows to validate on; a case is never in both.

    ``share`` is of the cases; at least one is held out, and at least one is left. The next ``part`` holds out the next
    cases in the seed's order, so that parts 0 to 9 of a share of 0.1 hold every case out once.

    >>> train, validate = hold_out_cases(np.array([7, 7, 3, 4, 4, 9]), share=0.25, seed=0)
    >>> train.tolist(), validate.tolist()
    ([2, 3, 4, 5], [0, 1])
    """
    distinct, number = np.unique(cases, return_inverse=True)
    wanted = min(max(round(share * len(distinct)), 1), len(distinct) - 1)
    order = generator(seed).permutation(len(distinct))
    chosen = np.zeros(len(distinct), bool)
    chosen[order[np.arange(part * wanted, (part + 1) * wanted) % len(distinct)]] = True
    held = chosen[number]
    return np.flatnonzero(~held), np.flatnonzero(held)


def hold_out_each_case(cases: np.ndarray, *, share: float, seed: Seed) -> tuple[np.ndarray, np.ndarray]:
    """Rows to train on and rows to validate on, as a case's own number and the seed decide, whatever other cases there
    are: with one case more or less, all others stay where they are, as differential privacy needs it.

    >>> train, validate = hold_out_each_case(np.arange(1000), share=0.1, seed=1)
    >>> len(validate), np.intersect1d(hold_out_each_case(np.arange(500), share=0.1, seed=1)[1], train).size
    (111, 0)
    """
    bits = cases.astype(np.int64).view(np.uint64) ^ generator(seed).integers(2**64, dtype=np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):  # the mixing of SplitMix64
        bits = (bits ^ (bits >> np.uint64(shift))) * np.uint64(factor)
    held = (bits ^ (bits >> np.uint64(31))) < share * 2.0**64
    return np.flatnonzero(~held), np.flatnonzero(held)


def case_folds(cases: np.ndarray, *, folds: int = 5, seed: Seed = 0) -> np.ndarray:
    """A fold, from 0, for every document; a case is in one of them, and there are no more folds than cases.

    >>> case_folds(np.array([7, 7, 3, 4, 4, 9]), folds=2).tolist()
    [0, 0, 0, 1, 1, 1]
    """
    distinct, number = np.unique(cases, return_inverse=True)
    return (generator(seed, len(distinct)).permutation(len(distinct)) % folds)[number]
