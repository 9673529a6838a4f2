"""What a curious hub can read off the updates it receives: attacks, as functions on arrays, and how well they do.

A hub that follows the protocol sees what sites send in every round. These are the ways known to us to get at the
reports behind it; ``pathveil bench leaks`` lets them loose on trainings with and without sums over sites.

- **Words of an update** (``touched``, ``turned``). A word that no window of the batch holds has a gradient of exactly
  zero, so the rows of the embedding's update that are not zero are words of the batch. With Adam and local steps every
  word that was ever touched drifts on; it then goes on as before, unless it was touched again.
- **Labels** (``labels_told``). The gradient of a head's bias is the mean of what the head says less the share of the
  label: negative for labels of the batch.
- **Words of one report** by intersecting batches (``assigned``), where the hub knows which reports each batch has; and
  where it does not, by their company (``together``): words of one report come and go together.
- **Phrases** (``phrases_told``). The gradient of a filter is a sum of the windows at which the filter's answer was
  largest, one a report: few word vectors, which matching pursuit (Mallat and Zhang 1993) takes apart again.

>>> update = np.zeros((5, 2)); update[3] = [0.1, -0.2]
>>> touched(update).tolist(), labels_told(np.array([0.2, -0.3, 0.1])).tolist()
([False, False, False, True, False], [False, True, False])
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata

Phrase = tuple[int, ...]


@dataclass(frozen=True)
class Recovered:
    """How much of what was there an attack names, and how much of what it names was there."""

    recall: float
    precision: float
    named: int
    there: int


def recovered(named: np.ndarray, there: np.ndarray) -> Recovered:
    """Of two sets of the same things, as truth values.

    >>> recovered(np.array([True, True, False, False]), np.array([True, False, True, False]))
    Recovered(recall=0.5, precision=0.5, named=2, there=2)
    """
    both = int((named & there).sum())
    return Recovered(share(both, int(there.sum())), share(both, int(named.sum())), int(named.sum()), int(there.sum()))


def share(part: int, whole: int) -> float:
    """A part of a whole; of nothing it is nothing."""
    return part / whole if whole else 0.0


def ranking(scores: np.ndarray, there: np.ndarray) -> float:
    """How often a thing that was there has a higher score than one that was not (AUC); .5 is chance.

    >>> ranking(np.array([0.1, 0.9, 0.5]), np.array([False, True, False])), ranking(np.ones(3), np.array([1, 0, 0]))
    (1.0, 0.5)
    """
    there = np.asarray(there, bool)
    many, few = int(there.sum()), int((~there).sum())
    if not many or not few:
        return 0.5
    return float((rankdata(scores)[there].sum() - many * (many + 1) / 2) / (many * few))


def touched(update: np.ndarray) -> np.ndarray:
    """The words (words,) whose rows of an embedding's update (words, dim) are not zero."""
    return np.count_nonzero(update, axis=1) > 0


def turned(change: np.ndarray, before: np.ndarray, *, cosine: float = 0.99) -> np.ndarray:
    """The words (words,) that moved in another direction than in the round before, or moved for the first time.

    A word that Adam carries on without a new gradient goes on in nearly the same direction.

    >>> turned(np.array([[1.0, 0], [1, 1], [0, 0], [0, 2]]), np.array([[2.0, 0], [1, 0], [0, 0], [0, 0]])).tolist()
    [False, True, False, True]
    """
    lengths = np.linalg.norm(change, axis=1) * np.linalg.norm(before, axis=1)
    along = np.divide((change * before).sum(1), lengths, out=np.zeros(len(change)), where=lengths > 0)
    return touched(change) & (along < cosine)


def labels_told(bias: np.ndarray, *, change: bool = False) -> np.ndarray:
    """The labels (classes,) of a batch by a head's bias: those whose gradient is negative, or whose change positive."""
    return np.asarray(bias) > 0 if change else np.asarray(bias) < 0


def assigned(seen: Sequence[np.ndarray], batches: Sequence[Sequence[np.ndarray]], *, documents: int) -> np.ndarray:
    """The words (documents, words) that were seen in every batch that a document was in.

    ``seen`` has an array (rounds, words) for every epoch and ``batches`` the rows of the documents of each round: what
    a hub knows that knows the order of a site's batches.

    >>> epochs = [np.array([[1, 1, 0], [1, 0, 1]], bool), np.array([[0, 1, 1], [1, 0, 0]], bool)]
    >>> batches = [[np.array([0, 1]), np.array([2])], [np.array([0, 2]), np.array([1])]]
    >>> assigned(epochs, batches, documents=3).astype(int)
    array([[0, 1, 0],
           [1, 0, 0],
           [0, 0, 1]])
    """
    found = np.ones((documents, seen[0].shape[1]), bool)
    trained = np.zeros(documents, bool)
    for words, rounds in zip(seen, batches, strict=True):
        for known, rows in zip(words, rounds, strict=True):
            found[rows] &= known
            trained[rows] = True
    return found & trained[:, None]


def together(seen: np.ndarray) -> np.ndarray:
    """Words in groups (words,) that came and went together in all rounds (rounds, words): a hub that does not know the
    order of a site's batches takes each group for one report's. −1: never seen, or always.

    >>> together(np.array([[1, 1, 0, 1, 0], [0, 0, 1, 1, 0]], bool)).tolist()
    [1, 1, 0, -1, -1]
    """
    _, groups = np.unique(np.packbits(seen, axis=0), axis=1, return_inverse=True)
    groups = np.where(seen.any(0) & ~seen.all(0), groups, -1)
    known = np.unique(groups[groups >= 0])
    return np.where(groups >= 0, np.searchsorted(known, groups), -1)


def pairs_recovered(groups: np.ndarray, owner: np.ndarray) -> Recovered:
    """How many pairs of words of one report an attack puts together; ``owner`` (words,) is the report that alone has a
    word, −1 for words of several or none, which do not count.

    >>> pairs_recovered(np.array([0, 0, 0, 1]), np.array([5, 5, 6, 6]))
    Recovered(recall=0.5, precision=0.3333333333333333, named=3, there=2)
    """
    own = owner >= 0
    groups, owner = groups[own], owner[own]

    def pairs(*keys: np.ndarray) -> int:
        counts = np.unique(np.stack(keys), axis=1, return_counts=True)[1]
        return int((counts * (counts - 1) // 2).sum())

    grouped = groups >= 0
    both = pairs(groups[grouped], owner[grouped])
    named, there = pairs(groups[grouped]), pairs(owner)
    return Recovered(share(both, there), share(both, named), named, there)


def phrases_told(
    gradient: np.ndarray, embedding: np.ndarray, candidates: np.ndarray, *, most: int, least: float = 0.05
) -> list[Phrase]:
    """The phrases whose word vectors make up one filter's gradient (window, dim), by orthogonal matching pursuit.

    ``embedding`` (words, dim) is what the hub has sent, ``candidates`` the words that the update touched. A phrase is
    taken while it explains ``least`` of what is left, at most ``most`` of them; the hub believes what leaves next to
    nothing unexplained, so phrases are returned only where that is so.
    """
    vectors = embedding[candidates]  # (candidates, dim)
    lengths = np.maximum(np.linalg.norm(vectors, axis=1), 1e-12)
    wanted = np.asarray(gradient, np.float64)
    start = left = float(np.square(wanted).sum())
    found, atoms, rest = list[Phrase](), list[np.ndarray](), wanted
    while len(found) < most and left > 1e-6 * start and start > 0:
        fit = vectors @ rest.T / lengths[:, None]  # (candidates, window)
        first, slot = np.unravel_index(np.abs(fit).argmax(), fit.shape)
        weight = fit[first, slot] / lengths[first]
        others = (
            weight * (vectors @ rest.T) - (weight * lengths[:, None]) ** 2 / 2
        )  # what a word explains at this weight
        words = others.argmax(0)
        words[slot] = first
        found.append(tuple(int(candidates[word]) for word in words))
        atoms.append(vectors[words].ravel())
        weights = np.linalg.lstsq(np.stack(atoms, 1), wanted.ravel(), rcond=None)[0]
        rest = wanted - (np.stack(atoms, 1) @ weights).reshape(wanted.shape)
        before, left = left, float(np.square(rest).sum())
        if before - left < least * before:
            return []
    return found if left <= 1e-3 * start else []
