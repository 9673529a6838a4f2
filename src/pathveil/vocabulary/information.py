"""How much a word says about a class: normalised mutual information (vocabulary paper, section 3.4.2).

Word and class are present/absent variables over the reports that have a label of the task. For a word in n of N
reports, a class of m reports and k reports that are both, with D = kN − nm (a whole number, so nothing is lost before
the logarithm), the four cells of the table give

    N · MI = k ln(1 + D/nm) + (n−k) ln(1 − D/n(N−m)) + (m−k) ln(1 − D/(N−n)m) + (N−n−m+k) ln(1 + D/(N−n)(N−m))

which is divided by N times the class's entropy. A word's score is its largest value over all classes of all tasks.

>>> joint = sparse.csr_array([[2, 0], [1, 1], [0, 2]])  # three words, two classes of two reports each
>>> scores(joint, np.array([2, 2]), np.array([0, 0])).tolist()
[1.0, 0.0, 1.0]
"""

import math

import numba
import numpy as np
from scipy import sparse

from pathveil.vocabulary.counts import Counts

DIGITS = 12  # scores are rounded here, so that equal words tie whatever a machine's logarithm does in the last place


def information(counts: Counts, *, tasks: tuple[str, ...] | None = None) -> np.ndarray:
    """Each word's score over the given tasks (all by default), all registries together: (words,)."""
    chosen = counts.tasks if tasks is None else tasks
    task_of = np.repeat(np.arange(len(counts.tasks)), [len(counts.classes[task]) for task in counts.tasks])
    kept = np.isin(task_of, [counts.tasks.index(task) for task in chosen])
    joint = counts.joint[0]
    for table in counts.joint[1:]:
        joint = joint + table
    return scores(sparse.csr_array(joint[:, kept]), counts.labels.sum(axis=0)[kept], task_of[kept])


def scores(joint: sparse.csr_array, labels: np.ndarray, task_of: np.ndarray) -> np.ndarray:
    """Scores of words from (words, classes) joint counts, reports of each class (classes,) and each class's task."""
    _, task_of = np.unique(task_of, return_inverse=True)
    totals = np.bincount(task_of, weights=labels).astype(np.int64)  # (tasks,) labelled reports
    indptr, indices = joint.indptr.astype(np.int64), joint.indices.astype(np.int64)
    found = _scores(indptr, indices, joint.data.astype(np.int64), labels.astype(np.int64), task_of, totals)
    return np.round(found, DIGITS)


@numba.njit(cache=True, nogil=True, parallel=True)
def _scores(indptr, indices, data, labels, task_of, totals):
    words, classes, tasks = len(indptr) - 1, len(labels), len(totals)
    entropy = np.zeros(classes)  # times the task's reports; 0 where every report or none is of the class
    for c in range(classes):
        m, total = labels[c], totals[task_of[c]]
        if 0 < m < total:
            entropy[c] = -m * math.log(m / total) - (total - m) * math.log1p(-m / total)
    best = np.zeros(words)
    blocks = min(words, 256)
    for block in numba.prange(blocks):
        row = np.zeros(classes, np.int64)
        held = np.zeros(tasks, np.int64)  # labelled reports that hold the word, a task
        for word in range(words * block // blocks, words * (block + 1) // blocks):
            held[:] = 0
            for at in range(indptr[word], indptr[word + 1]):
                row[indices[at]] = data[at]
                held[task_of[indices[at]]] += data[at]
            for c in range(classes):
                total, m, k, n = totals[task_of[c]], labels[c], row[c], held[task_of[c]]
                if entropy[c] > 0 and 0 < n < total:
                    best[word] = max(best[word], _shared(total, n, m, k) / entropy[c])
            for at in range(indptr[word], indptr[word + 1]):
                row[indices[at]] = 0
    return best


@numba.njit(cache=True, nogil=True)
def _shared(total, n, m, k):
    """N · MI of the table in the module's docstring."""
    d = float(k * total - n * m)
    value = 0.0
    if k:
        value += k * math.log1p(d / (n * m))
    if n - k:
        value += (n - k) * math.log1p(-d / (n * (total - m)))
    if m - k:
        value += (m - k) * math.log1p(-d / ((total - n) * m))
    if total - n - m + k:
        value += (total - n - m + k) * math.log1p(d / ((total - n) * (total - m)))
    return value
