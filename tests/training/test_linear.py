"""The linear view against scikit-learn's TF-IDF and logistic regression."""

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import LogisticRegression

from pathveil.training.linear import fit_linear, weighted_counts, word_weights
from training.corpora import encoded


@pytest.fixture(scope="module")
def documents():
    corpus = encoded(200, missing=0.1)
    idf = word_weights(corpus.ids, corpus.offsets, vocabulary_size=60)
    return corpus, weighted_counts(corpus.ids, corpus.offsets, idf)


def test_weighted_counts_are_scikit_learns(documents):
    corpus, ours = documents
    counts = np.zeros((corpus.documents, 60))
    for row in range(corpus.documents):
        np.add.at(counts[row], corpus.ids[corpus.offsets[row] : corpus.offsets[row + 1]], 1)
    theirs = TfidfTransformer(sublinear_tf=True).fit_transform(counts)
    np.testing.assert_allclose(ours.toarray(), theirs.toarray(), atol=1e-6)


def test_padding_and_unknown_say_nothing():
    ids, offsets = np.array([1, 1, 1, 2]), np.array([0, 3, 4, 4])
    idf = word_weights(ids, offsets, vocabulary_size=4)
    assert weighted_counts(ids, offsets, idf).toarray().tolist() == [[0, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]]


@pytest.mark.parametrize("strength", [1.0, 100.0])
@pytest.mark.parametrize("balance", [0.0, 1.0])
def test_fit_is_scikit_learns(documents, strength, balance):
    corpus, vectors = documents
    labels = corpus.labels["task0"]
    keep = labels >= 0
    weight, bias = fit_linear(vectors, labels, classes=4, strength=strength, balance=balance, iterations=2000)
    theirs = LogisticRegression(C=strength, max_iter=5000, tol=1e-8, class_weight="balanced" if balance else None)
    theirs.fit(vectors[keep], labels[keep])
    ours = softmax(vectors @ weight.T + bias, axis=1)
    np.testing.assert_allclose(ours, theirs.predict_proba(vectors), atol=5e-3)


def test_a_class_nobody_has_is_never_likely():
    corpus = encoded(100)
    idf = word_weights(corpus.ids, corpus.offsets, vocabulary_size=60)
    vectors = weighted_counts(corpus.ids, corpus.offsets, idf)
    weight, bias = fit_linear(vectors, corpus.labels["task0"], classes=6, strength=10.0)
    assert set((vectors @ weight.T + bias).argmax(1)) <= {0, 1, 2, 3}
