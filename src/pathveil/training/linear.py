"""The plain view of a report: weighted word counts and one logistic regression a task.

A small corpus teaches a CNN little about rare classes; a linear model on TF-IDF is as good there and errs elsewhere, so
that the two together beat either (``pathveil.training.ensemble``). It knows the network's words and no others.

A document is a vector of (1 + log count) · idf over the vocabulary's words, of length 1, with
idf = 1 + log((1 + documents) ÷ (1 + documents with the word)), as scikit-learn's. Weights W and biases b minimise

    Σ_i w_{y_i} · −log softmax(W x_i + b)_{y_i}  +  ‖W‖² ÷ 2C

by L-BFGS, where w is a weight a class (``losses.balanced_weights``).

>>> import numpy as np
>>> ids, offsets = np.array([2, 2, 3, 4, 3, 3, 2, 4]), np.array([0, 2, 4, 6, 8])
>>> idf = word_weights(ids, offsets, vocabulary_size=5)
>>> documents = weighted_counts(ids, offsets, idf)
>>> weight, bias = fit_linear(documents, np.array([0, 1, 1, 0]), classes=2, strength=10.0)
>>> (documents @ weight.T + bias).argmax(1).tolist()
[0, 1, 1, 0]
"""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.linalg import get_blas_funcs

from pathveil.training.losses import balanced_weights
from pathveil.vocabulary.words import FIRST_WORD

saxpy, sdot = get_blas_funcs(("axpy", "dot"), dtype=np.float32)

CORRECTIONS = 5  # that L-BFGS remembers; each is two vectors as long as the weights
SMALLEST_GAIN, FLAT = 1e-7, 1e-4  # relative gain of a step, and largest slope, at which a fit is done


def word_weights(ids: np.ndarray, offsets: np.ndarray, *, vocabulary_size: int) -> np.ndarray:
    """Each word's idf (vocabulary_size,), 0 for padding and unknown."""
    counts = _counts(ids, offsets, vocabulary_size)
    held_by = np.bincount(counts.indices, minlength=vocabulary_size)
    weights = 1 + np.log((1 + counts.shape[0]) / (1 + held_by))
    weights[:FIRST_WORD] = 0
    return weights.astype(np.float32)


def weighted_counts(ids: np.ndarray, offsets: np.ndarray, idf: np.ndarray) -> sparse.csr_matrix:
    """Documents as unit vectors of weighted counts, (documents, vocabulary_size) float32; an empty one is zero."""
    counts = _counts(ids, offsets, len(idf))
    counts.data = (1 + np.log(counts.data)) * idf[counts.indices]
    rows = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
    length = np.sqrt(np.bincount(rows, weights=counts.data**2, minlength=counts.shape[0]))
    counts.data = (counts.data / np.maximum(length, 1e-12)[rows]).astype(np.float32)
    return counts


class DocumentVector(NamedTuple):
    """What ``weighted_counts`` gives for one document, without the matrix around it."""

    words: np.ndarray  # (distinct words,) in order
    values: np.ndarray  # (distinct words,) float32
    which: np.ndarray  # (words of the document,) each one's place among the distinct ones
    times: np.ndarray  # (distinct words,) how often each is there


def document_vector(ids: np.ndarray, idf: np.ndarray) -> DocumentVector:
    """One document as a unit vector of weighted counts.

    >>> document_vector(np.array([3, 2, 3]), np.array([0, 0, 1, 2], np.float32)).words.tolist()
    [2, 3]
    """
    words, which, times = np.unique(ids, return_inverse=True, return_counts=True)
    values = (1 + np.log(times.astype(np.float32))) * idf[words]
    length = np.sqrt((values.astype(np.float64) ** 2).sum())
    return DocumentVector(words, (values / max(length, 1e-12)).astype(np.float32), which, times)


def _counts(ids: np.ndarray, offsets: np.ndarray, vocabulary_size: int) -> sparse.csr_matrix:
    documents = len(offsets) - 1
    rows = np.repeat(np.arange(documents), np.diff(offsets))
    ones = np.ones(len(ids), np.float32)
    return sparse.coo_matrix((ones, (rows, ids)), shape=(documents, vocabulary_size)).tocsr()


def fit_linear(
    documents: sparse.csr_matrix,
    labels: np.ndarray,
    *,
    classes: int,
    strength: float,
    balance: float = 0.0,
    iterations: int = 200,
    start: tuple[np.ndarray, np.ndarray] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Weights (classes, words) and biases (classes,) float32; documents without a label (−1) are left out.

    ``strength`` is C: the larger, the closer the fit. ``balance`` is the power of the class weights. ``start`` are the
    weights and biases to begin with, else zeros.
    """
    keep = labels >= 0
    seen, labels = documents[np.flatnonzero(keep)], labels[keep]
    words = documents.shape[1]
    weight_of = balanced_weights(labels, classes, power=balance)[labels].astype(np.float32)
    transposed = seen.T.tocsr()
    rows = np.arange(len(labels))

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        weight, bias = flat[: classes * words].reshape(words, classes), flat[classes * words :]
        scores = seen @ weight + bias
        scores -= scores.max(axis=1, keepdims=True)
        right = scores[rows, labels].astype(np.float64)
        error = np.exp(scores, out=scores)  # (documents, classes)
        total = error.sum(axis=1, dtype=np.float64)
        value = float((weight_of * (np.log(total) - right)).sum()) + float(sdot(flat, flat) - sdot(bias, bias)) / (
            2 * strength
        )
        error /= total.astype(np.float32)[:, None]
        error[rows, labels] -= 1
        error *= weight_of[:, None]
        slope = np.empty_like(flat)
        slope[: classes * words] = (transposed @ error).ravel()
        slope[classes * words :] = error.sum(0)
        saxpy(flat[: classes * words], slope[: classes * words], a=1 / strength)
        return value, slope

    flat = np.zeros(classes * words + classes, np.float32)
    if start is not None:
        flat[: classes * words], flat[classes * words :] = start[0].T.ravel(), start[1]
    found = descend(loss, flat, iterations=iterations)
    return np.ascontiguousarray(found[: classes * words].reshape(words, classes).T), found[classes * words :].copy()


def descend(
    loss: Callable[[np.ndarray], tuple[float, np.ndarray]], point: np.ndarray, *, iterations: int
) -> np.ndarray:
    """Where a convex ``loss``, given with its slope (n,) float32, is about smallest, by L-BFGS (Nocedal & Wright 2006,
    algorithms 7.4 and 3.1): in float32, for what takes its time is to read and write vectors as long as all weights.

    >>> found = descend(lambda x: (float(((x - 3) ** 2).sum()), 2 * (x - 3)), np.zeros(4, np.float32), iterations=20)
    >>> found.round(3).tolist()
    [3.0, 3.0, 3.0, 3.0]
    """
    value, slope = loss(point)
    # Moves, the changes of slope they brought, and the product of the two.
    past: deque[tuple[np.ndarray, np.ndarray, float]] = deque(maxlen=CORRECTIONS)
    for _ in range(iterations):
        direction = -slope
        factors = []
        for move, change, product in reversed(past):
            factors.append(sdot(move, direction) / product)
            saxpy(change, direction, a=-factors[-1])
        if past:
            move, change, product = past[-1]
            direction *= product / sdot(change, change)
        else:
            direction /= max(float(np.sqrt(sdot(slope, slope))), 1.0)
        for (move, change, product), factor in zip(past, reversed(factors), strict=True):
            saxpy(move, direction, a=factor - sdot(change, direction) / product)
        downhill, length = sdot(slope, direction), 1.0
        if not downhill < 0:
            break
        while True:
            new = saxpy(direction, point.copy(), a=length)
            new_value, new_slope = loss(new)
            if new_value <= value + 1e-4 * length * downhill or length < 1e-6:
                break
            length /= 2
        gained = value - new_value
        if not gained > 0:  # what is left to gain is lost in rounding
            break
        move, change = new - point, new_slope - slope
        product = sdot(move, change)
        if product > 1e-10:
            past.append((move, change, product))
        point, value, slope = new, new_value, new_slope
        if gained <= SMALLEST_GAIN * max(abs(value), 1.0) or np.abs(slope).max() < FLAT:
            break
    return point
