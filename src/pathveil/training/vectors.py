"""Word vectors from the training text: what a small corpus knows about its words before it sees a label.

Words are counted beside the words near them, the counts turned into positive pointwise mutual information, and that
matrix factored (Levy & Goldberg 2014, "Neural word embedding as implicit matrix factorization"; Levy, Goldberg & Dagan
2015 for the smoothed contexts). Words that keep the same company start close together, so what the network learns about
a common word serves its rare neighbours. Only words of the vocabulary take part, only training documents are read, and
the same seed gives the same vectors.

>>> import numpy as np
>>> ids = np.array([2, 4, 2, 4, 3, 4, 3, 4, 5, 6, 5, 6])     # 2 and 3 both stand beside 4; 5 and 6 are apart
>>> vectors = word_vectors(ids, np.array([0, 8, 12]), vocabulary_size=7, dim=3, window=1, seed=0)
>>> cosine = lambda a, b: float(vectors[a] @ vectors[b] / np.linalg.norm(vectors[a]) / np.linalg.norm(vectors[b]))
>>> cosine(2, 3) > 0.9 and abs(cosine(2, 5)) < 0.1
True
"""

import numpy as np
from scipy import sparse

from pathveil.vocabulary.words import FIRST_WORD

SMOOTHING = 0.75  # power of the context counts: rare contexts say less than their counts suggest
EXTRA, PASSES = 20, 3  # columns and passes beyond the minimum of the randomised factorisation


def word_vectors(
    ids: np.ndarray, offsets: np.ndarray, *, vocabulary_size: int, dim: int, window: int = 5, seed: int = 0
) -> np.ndarray:
    """Vectors (vocabulary_size, dim) float32 with entries of variance 1; padding and unknown, and words never seen
    beside another, get random ones, as an embedding that starts at random has."""
    rng = np.random.default_rng(seed)
    vectors = rng.standard_normal((vocabulary_size, dim)).astype(np.float32)
    vectors[0] = 0
    matrix = association(neighbours(ids, offsets, vocabulary_size=vocabulary_size, window=window))
    known = np.flatnonzero(np.diff(matrix.indptr))
    if len(known):
        factors = leading_factors(matrix, dim, rng)
        scale = np.sqrt((factors[known] ** 2).mean())
        vectors[known] = factors[known] / max(scale, 1e-12)
    return vectors


def neighbours(ids: np.ndarray, offsets: np.ndarray, *, vocabulary_size: int, window: int) -> sparse.csr_matrix:
    """How often two words stand within ``window`` of each other in one document, both ways; nearer counts more."""
    document = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    known = ids >= FIRST_WORD
    total = sparse.csr_matrix((vocabulary_size, vocabulary_size), dtype=np.float32)
    for distance in range(1, window + 1):
        near = (document[distance:] == document[:-distance]) & known[distance:] & known[:-distance]
        left, right = ids[:-distance][near], ids[distance:][near]
        weight = np.full(len(left), (window + 1 - distance) / window, np.float32)
        total += sparse.coo_matrix((weight, (left, right)), shape=total.shape).tocsr()
    return (total + total.T).tocsr()


def association(counts: sparse.csr_matrix) -> sparse.csr_matrix:
    """Positive pointwise mutual information of words and smoothed contexts, where it is above zero."""
    entries = counts.tocoo()
    word = np.asarray(counts.sum(axis=1)).ravel()
    context = np.asarray(counts.sum(axis=0)).ravel() ** SMOOTHING
    with np.errstate(divide="ignore"):
        expected = word[entries.row] * context[entries.col] / max(context.sum(), 1e-12)
        value = np.log(entries.data / expected)
    keep = value > 0
    kept = value[keep].astype(np.float32)
    return sparse.coo_matrix((kept, (entries.row[keep], entries.col[keep])), shape=counts.shape).tocsr()


def leading_factors(matrix: sparse.csr_matrix, dim: int, rng: np.random.Generator) -> np.ndarray:
    """U √S of the ``dim`` largest singular values (Halko, Martinsson & Tropp 2011), padded with zeros where the matrix
    has fewer; signs are fixed so that the answer is one."""
    width = min(dim + EXTRA, min(matrix.shape))
    basis = np.linalg.qr(matrix @ rng.standard_normal((matrix.shape[1], width)).astype(np.float32))[0]
    for _ in range(PASSES):
        basis = np.linalg.qr(matrix @ np.linalg.qr(matrix.T @ basis)[0])[0]
    small, values, _ = np.linalg.svd((matrix.T @ basis).T, full_matrices=False)
    left = (basis @ small)[:, :dim]
    left *= np.sign(left[np.abs(left).argmax(axis=0), np.arange(left.shape[1])])
    factors = np.zeros((matrix.shape[0], dim), np.float32)
    factors[:, : left.shape[1]] = left * np.sqrt(values[: left.shape[1]])
    return factors
