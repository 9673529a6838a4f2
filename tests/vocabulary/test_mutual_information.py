"""Normalised mutual information against scikit-learn and by hand."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.metrics import mutual_info_score

from pathveil.vocabulary.corpus_counts import count_corpus
from pathveil.vocabulary.encoding import read_labels
from pathveil.vocabulary.mutual_information import mutual_information, scores
from pathveil.vocabulary.tokens import tokens
from vocabulary.corpora import random_corpus


def by_sklearn(present: np.ndarray, labels: list[np.ndarray]) -> np.ndarray:
    """(documents, words) presence and one label array a task (−1 missing): each word's largest MI / entropy."""
    best = np.zeros(present.shape[1])
    for label in labels:
        known = label >= 0
        for kind in np.unique(label[known]):
            y = label[known] == kind
            entropy = mutual_info_score(y, y)
            if entropy > 0:
                for word in range(present.shape[1]):
                    best[word] = max(best[word], mutual_info_score(present[known, word], y) / entropy)
    return best


def test_equals_scikit_learn_on_a_corpus(tmp_path):
    path = random_corpus(tmp_path / "reports.parquet", reports=80, seed=3)
    store = tokens(path)
    labels, _ = read_labels(path)
    present = np.zeros((store.documents, len(store.words)), bool)
    for row in range(store.documents):
        present[row, store.ids[store.offsets[row] : store.offsets[row + 1]]] = True
    counts = count_corpus(path)
    assert counts.words == store.words
    assert np.allclose(mutual_information(counts), by_sklearn(present, list(labels.values())), atol=1e-9)
    assert np.allclose(mutual_information(counts, tasks=("site",)), by_sklearn(present, [labels["site"]]), atol=1e-9)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(2, 60), st.integers(1, 5), st.integers(1, 4))
def test_equals_scikit_learn_on_any_table(seed, documents, words, classes):
    random = np.random.default_rng(seed)
    present = random.random((documents, words)) < random.random(words)
    labels = [random.integers(-1, classes, documents), random.integers(-1, 2, documents)]
    columns = [(task, kind) for task, top in ((0, classes), (1, 2)) for kind in range(top)]
    joint = np.array([[(present[:, w] & (labels[t] == k)).sum() for t, k in columns] for w in range(words)])
    totals = np.array([(labels[task] == kind).sum() for task, kind in columns])
    found = scores(sparse.csr_array(joint), totals, np.array([task for task, _ in columns]))
    assert np.allclose(found, by_sklearn(present, labels), atol=1e-9)
    assert (found >= 0).all() and (found <= 1 + 1e-12).all()


def test_by_hand():
    # 8 reports, a class of 4; the word in 3 of them and in 1 of the others: MI in bits over an entropy of 1 bit.
    expected = 2 * 3 / 8 * math.log2(3 / 2) + 2 * 1 / 8 * math.log2(1 / 2)
    assert scores(sparse.csr_array([[3, 1]]), np.array([4, 4]), np.array([0, 0]))[0] == pytest.approx(expected)


def test_a_word_of_a_lone_report_of_its_class_scores_highest():
    """What the paper's definition implies, and why exposure is measured."""
    # 1,000 reports: one of class A. The first word stands in it alone, the second in half of all reports.
    joint = sparse.csr_array([[1, 0], [1, 499]])
    found = scores(joint, np.array([1, 999]), np.array([0, 0]))
    assert found[0] == 1.0 and found[1] < 0.15


def test_words_alike_score_alike_to_the_bit():
    joint = sparse.csr_array(np.array([[7, 2, 0], [7, 2, 0], [2, 7, 0]]))
    found = scores(joint, np.array([30, 30, 5]), np.array([0, 0, 0]))
    assert found[0] == found[1] == found[2]
