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

import numpy as np
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import log_softmax

from pathveil.training.losses import balanced_weights
from pathveil.vocabulary.words import FIRST_WORD


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
) -> tuple[np.ndarray, np.ndarray]:
    """Weights (classes, words) and biases (classes,) float32; documents without a label (−1) are left out.

    ``strength`` is C: the larger, the closer the fit. ``balance`` is the power of the class weights.
    """
    keep = labels >= 0
    seen, labels = documents[np.flatnonzero(keep)], labels[keep]
    words = documents.shape[1]
    weight_of = balanced_weights(labels, classes, power=balance)[labels]
    transposed = seen.T.tocsr()
    rows = np.arange(len(labels))

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        weight, bias = flat[: classes * words].reshape(words, classes), flat[classes * words :]
        log_probability = log_softmax(seen @ weight.astype(np.float32) + bias, axis=1)  # (documents, classes)
        value = -(weight_of * log_probability[rows, labels]).sum() + (weight**2).sum() / (2 * strength)
        error = np.exp(log_probability)
        error[rows, labels] -= 1
        error *= weight_of[:, None]
        slope = transposed @ error + weight / strength  # (words, classes)
        return value, np.concatenate([slope.ravel(), error.sum(0)])

    start = np.zeros(classes * words + classes)
    # Few corrections: each holds two vectors as long as the weights.
    options = {"maxiter": iterations, "maxcor": 5, "ftol": 1e-7, "gtol": 1e-4}
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options=options).x
    weight = found[: classes * words].reshape(words, classes).T
    return np.ascontiguousarray(weight, np.float32), found[classes * words :].astype(np.float32)
