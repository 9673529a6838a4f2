"""The linear view as part of a model: fitted to the documents that a model learns from, alone or several as one.

Each network of a model holds out cases of its own, so there is a linear view without each of these sets: what it says
about its set is what it would say about new cases, and their mean is the view that is kept.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from pathveil.progress import Progress, silent
from pathveil.training.linear import document_vector, fit_linear, weighted_counts, word_weights
from pathveil.vocabulary.encoded import EncodedCorpus, take_documents

STRENGTH, BALANCE = 100.0, 1.0
ITERATIONS, MORE = 60, 20  # of a fit from nothing, and of one from a start that is nearly there
FEW = 8  # documents that are read one by one; in a model, members and not documents are then shared out among threads


@dataclass(frozen=True)
class LinearView:
    """Word weights and a logistic regression a task."""

    idf: np.ndarray  # (words,)
    weights: Mapping[str, np.ndarray]  # task: (classes, words)
    biases: Mapping[str, np.ndarray]  # task: (classes,)

    def logits(self, ids: np.ndarray, offsets: np.ndarray) -> dict[str, np.ndarray]:
        """Each task's logits (documents, classes)."""
        if len(offsets) - 1 <= FEW:
            found = [self._logits_of(ids[start:end]) for start, end in itertools.pairwise(offsets)]
            return {
                task: np.array([one[task] for one in found]).reshape(-1, len(bias))
                for task, bias in self.biases.items()
            }
        documents = weighted_counts(ids, offsets, self.idf)
        # The product must not go through the weights of words that are not there.
        words, places = np.unique(documents.indices, return_inverse=True)
        there = sparse.csr_matrix((documents.data, places, documents.indptr), shape=(documents.shape[0], len(words)))
        return {
            task: there @ np.ascontiguousarray(weight.T[words]) + self.biases[task]
            for task, weight in self.weights.items()
        }

    def _logits_of(self, ids: np.ndarray) -> dict[str, np.ndarray]:
        """One document's, in the time that making a sparse matrix would take; words are added in the same order."""
        words, values, _, _ = document_vector(ids, self.idf)
        return {
            task: (values[:, None] * weight.T[words]).sum(0) + self.biases[task]
            for task, weight in self.weights.items()
        }


PlainViews = tuple[LinearView, list[dict[str, np.ndarray]]]  # a view, and a task's logits on each set of held-out rows


def linear_views(corpus: EncodedCorpus, held_rows: Sequence[np.ndarray], *, progress: Progress = silent) -> PlainViews:
    """The mean of the linear views that leave out each of some sets of rows, and each one's logits of its own set.

    All weigh words alike, by the documents that at least one of them learns from: only then is the mean of linear views
    the linear view of their mean weights.
    """
    everything = np.arange(corpus.documents)
    train_rows = [np.setdiff1d(everything, held) for held in held_rows]
    ids, offsets = take_documents(corpus.ids, corpus.offsets, np.unique(np.concatenate(train_rows)))
    idf = word_weights(ids, offsets, vocabulary_size=corpus.vocabulary_size)
    start = common_view(corpus, held_rows, idf)
    views, logits = [], []
    for number, (rows, held) in enumerate(zip(train_rows, held_rows, strict=True)):
        views.append(linear_view(corpus, rows, idf, start=start))
        logits.append(views[-1].logits(*take_documents(corpus.ids, corpus.offsets, held)))
        progress("fitting the linear view", number + 1, len(held_rows))
    return mean_view(views), logits


def common_view(corpus: EncodedCorpus, held_rows: Sequence[np.ndarray], idf: np.ndarray) -> LinearView | None:
    """Where the fits of several views begin: a view of the documents that none of them leaves out, so that each one's
    held-out documents stay unseen. None where one view is fitted, or where too few documents are common to all."""
    common = np.setdiff1d(np.arange(corpus.documents), np.concatenate(held_rows))
    if len(held_rows) == 1 or len(common) < corpus.documents / 3:
        return None
    return linear_view(corpus, common, idf)


def linear_view(
    corpus: EncodedCorpus, rows: np.ndarray, idf: np.ndarray, *, start: LinearView | None = None
) -> LinearView:
    """A logistic regression a task on the given documents, perhaps from a start that is nearly there."""
    documents = weighted_counts(*take_documents(corpus.ids, corpus.offsets, rows), idf)
    weights, biases = {}, {}
    for task, names in corpus.classes.items():
        weights[task], biases[task] = fit_linear(
            documents,
            np.asarray(corpus.labels[task])[rows],
            classes=len(names),
            strength=STRENGTH,
            balance=BALANCE,
            iterations=ITERATIONS if start is None else MORE,
            start=None if start is None else (start.weights[task], start.biases[task]),
        )
    return LinearView(idf=idf, weights=weights, biases=biases)


def mean_view(views: Sequence[LinearView]) -> LinearView:
    """The mean of views that weigh words alike."""
    first = views[0]
    if not all(np.array_equal(view.idf, first.idf) for view in views):
        raise ValueError("views that weigh words differently have no linear mean")
    return LinearView(
        idf=first.idf,
        weights={task: np.mean([view.weights[task] for view in views], axis=0) for task in first.weights},
        biases={task: np.mean([view.biases[task] for view in views], axis=0) for task in first.biases},
    )
