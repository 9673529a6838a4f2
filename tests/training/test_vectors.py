"""Word vectors against counting and factoring written out plainly."""

from itertools import pairwise

import numpy as np
from scipy import sparse

from pathveil.training.vectors import association, leading_factors, neighbours, word_vectors
from training.corpora import encoded


def test_neighbours_are_counted_within_documents():
    rng = np.random.default_rng(0)
    ids, offsets = rng.integers(0, 9, 60), np.array([0, 10, 10, 11, 40, 60])
    expected = np.zeros((9, 9))
    for start, stop in pairwise(offsets):
        for one in range(start, stop):
            for other in range(start, stop):
                apart = abs(one - other)
                if 1 <= apart <= 3 and ids[one] >= 2 and ids[other] >= 2:
                    expected[ids[one], ids[other]] += (4 - apart) / 3
    found = neighbours(ids, offsets, vocabulary_size=9, window=3).toarray()
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_association_is_positive_pointwise_mutual_information():
    counts = np.array([[0, 4, 1], [4, 0, 2], [1, 2, 0]], float)
    word = counts.sum(1)
    context = counts.sum(0) ** 0.75 / (counts.sum(0) ** 0.75).sum()
    expected = np.zeros((3, 3))
    for row in range(3):
        for column in range(3):
            if counts[row, column]:
                expected[row, column] = max(0.0, np.log(counts[row, column] / (word[row] * context[column])))
    np.testing.assert_allclose(association(sparse.csr_matrix(counts)).toarray(), expected, rtol=1e-5)


def test_factors_are_the_exact_ones():
    rng = np.random.default_rng(1)
    low = rng.normal(size=(50, 6)) @ np.diag([9, 7, 5, 4, 3, 2]) @ rng.normal(size=(6, 50))
    left, values, _ = np.linalg.svd(low)
    expected = left[:, :6] * np.sqrt(values[:6])
    found = leading_factors(sparse.csr_matrix(low.astype(np.float32)), 6, np.random.default_rng(0))
    np.testing.assert_allclose(np.abs(found), np.abs(expected), atol=1e-3)


def test_same_seed_same_vectors_and_every_word_has_one():
    corpus = encoded(80)
    first = word_vectors(corpus.ids, corpus.offsets, vocabulary_size=70, dim=20, seed=3)
    again = word_vectors(corpus.ids, corpus.offsets, vocabulary_size=70, dim=20, seed=3)
    np.testing.assert_array_equal(first, again)
    assert first.shape == (70, 20) and np.isfinite(first).all()
    assert not first[0].any() and (np.abs(first[1:]).sum(1) > 0).all()  # words 60 to 69 are never seen
    seen = np.unique(corpus.ids)
    assert np.isclose((first[seen] ** 2).mean(), 1.0, atol=1e-3)


def test_a_corpus_of_single_words_is_no_trouble():
    vectors = word_vectors(np.array([2, 3]), np.array([0, 1, 2]), vocabulary_size=4, dim=5)
    assert vectors.shape == (4, 5) and np.isfinite(vectors).all()
