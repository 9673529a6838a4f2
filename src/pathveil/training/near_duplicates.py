"""Reports that are nearly the same text, found without comparing every pair.

An addendum repeats its report, a second registry files a copy, a template is filled in twice. Whoever deals cases out
to models that must not have seen one (``training.teachers``) has to deal such reports out together: a model that has
seen the copy has seen the report.

Two documents are compared by their shingles, runs of three words: near-duplicates share at least ``share`` of the
shingles that either has (the Jaccard index). MinHash (Broder 1997) makes a signature of each document's shingles, in
which two documents agree at a place with a chance equal to their index; those that agree in all places of some band are
candidates, and a candidate pair is then compared exactly. Groups are the connected ones: what is near to a member is in
the group.

>>> import numpy as np
>>> words = np.array([2, 3, 4, 5, 6, 7, 8, 9] + [2, 3, 4, 5, 6, 7, 8, 10] + [9, 8, 7, 6, 5, 4, 3, 2], np.int32)
>>> groups(words, np.array([0, 8, 16, 24])).tolist()
[0, 0, 2]
"""

from collections.abc import Iterator

import numpy as np
from numba import njit
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from pathveil.rng import generator

SHINGLE = 3  # words: with one word in ten changed, three quarters of the shingles stay
SHARE = 0.4  # of the shingles of both documents that they must have in common
BANDS, ROWS = 64, 3  # a pair with an index of 0.4 is a candidate with chance .985, one of 0.5 with .9998
CROWD = 200  # documents of one band with one signature: beyond, each is compared with the next few instead of all
NEXT = 20


def groups(ids: np.ndarray, offsets: np.ndarray, *, share: float = SHARE, seed: int = 0) -> np.ndarray:
    """Each document's group (documents,), named by its first document; a document without a near-duplicate is alone."""
    documents = len(offsets) - 1
    shingles, starts = _shingles(np.ascontiguousarray(ids), np.asarray(offsets, np.int64))
    multipliers = generator(seed).integers(0, 2**64, BANDS * ROWS, np.uint64) | np.uint64(1)
    signatures = _signatures(shingles, starts, multipliers)  # (documents, BANDS · ROWS)
    pairs = np.unique(np.concatenate([np.zeros((0, 2), np.int64), *_candidates(signatures, starts)]), axis=0)
    near = pairs[_index(shingles, starts, pairs) >= share] if len(pairs) else pairs
    graph = coo_array((np.ones(len(near), bool), (near[:, 0], near[:, 1])), shape=(documents, documents))
    _, component = connected_components(graph, directed=False)
    first = np.full(documents, documents)
    np.minimum.at(first, component, np.arange(documents))
    return first[component]


def group_cases(cases: np.ndarray, ids: np.ndarray, offsets: np.ndarray, *, share: float = SHARE) -> np.ndarray:
    """Cases joined where one has a near-duplicate of another's report: a number a document, equal within a group.

    >>> words = np.array([2, 3, 4, 5, 2, 3, 4, 5, 9, 9, 9, 9], np.int32)
    >>> group_cases(np.array([7, 8, 8]), words, np.array([0, 4, 8, 12])).tolist()
    [0, 0, 0]
    """
    documents = len(cases)
    _, case = np.unique(cases, return_inverse=True)
    near = groups(ids, offsets, share=share)
    number = int(case.max(initial=-1)) + 1
    graph = coo_array((np.ones(documents, bool), (case, case[near])), shape=(number, number))
    return connected_components(graph, directed=False)[1][case].astype(np.int64)


@njit(cache=True)
def _shingles(ids: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct shingles of each document, as sorted 64-bit hashes end to end, and where each document's begin."""
    documents = len(offsets) - 1
    found = np.empty(len(ids) + documents, np.uint64)
    starts = np.zeros(documents + 1, np.int64)
    place = 0
    for document in range(documents):
        first, end = offsets[document], offsets[document + 1]
        count = max(end - first - SHINGLE + 1, min(end - first, 1))  # a shorter document is one shingle
        own = np.empty(count, np.uint64)
        for number in range(count):
            value = np.uint64(0xCBF29CE484222325)
            for word in range(first + number, min(first + number + SHINGLE, end)):
                value = (value ^ np.uint64(ids[word])) * np.uint64(0x9E3779B97F4A7C15)
                value ^= value >> np.uint64(29)
            own[number] = value
        own.sort()
        for number in range(count):
            if number == 0 or own[number] != own[number - 1]:
                found[place] = own[number]
                place += 1
        starts[document + 1] = place
    return found[:place].copy(), starts


@njit(cache=True)
def _signatures(shingles: np.ndarray, starts: np.ndarray, multipliers: np.ndarray) -> np.ndarray:
    """The least of each document's shingles under each of several hashes (documents, hashes)."""
    signatures = np.full((len(starts) - 1, len(multipliers)), np.uint64(0xFFFFFFFFFFFFFFFF))
    for document in range(len(starts) - 1):
        for shingle in shingles[starts[document] : starts[document + 1]]:
            for number in range(len(multipliers)):
                value = shingle * multipliers[number]
                value ^= value >> np.uint64(32)
                if value < signatures[document, number]:
                    signatures[document, number] = value
    return signatures


def _candidates(signatures: np.ndarray, starts: np.ndarray) -> Iterator[np.ndarray]:
    """Pairs of documents (pairs, 2), the lower one first, that agree in a whole band; empty documents are in none."""
    filled = np.flatnonzero(np.diff(starts) > 0)
    for band in range(BANDS):
        key = signatures[filled, band * ROWS : (band + 1) * ROWS]
        _, bucket = np.unique(key, axis=0, return_inverse=True)
        order = np.argsort(bucket, kind="stable")
        ends = np.flatnonzero(np.diff(bucket[order], append=-1)) + 1
        for first, end in zip(np.concatenate([[0], ends[:-1]]).tolist(), ends.tolist(), strict=True):
            if end - first > 1:
                yield _pairs(filled[order[first:end]])


def _pairs(documents: np.ndarray) -> np.ndarray:
    """All pairs of a few documents; of a crowd each with the next few, which connects them all the same."""
    reach = len(documents) if len(documents) <= CROWD else NEXT + 1
    return np.concatenate([np.stack([documents[:-step], documents[step:]], axis=1) for step in range(1, reach)])


@njit(cache=True)
def _index(shingles: np.ndarray, starts: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """The Jaccard index of each pair's shingles (pairs,)."""
    found = np.zeros(len(pairs))
    for pair in range(len(pairs)):
        one, other = starts[pairs[pair, 0]], starts[pairs[pair, 1]]
        one_end, other_end = starts[pairs[pair, 0] + 1], starts[pairs[pair, 1] + 1]
        union = one_end - one + other_end - other
        common = 0
        while one < one_end and other < other_end:
            if shingles[one] == shingles[other]:
                common += 1
                one += 1
                other += 1
            elif shingles[one] < shingles[other]:
                one += 1
            else:
                other += 1
        found[pair] = common / (union - common)
    return found
