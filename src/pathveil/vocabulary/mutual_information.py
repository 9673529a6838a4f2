"""Score words by how much they say about a class: normalised mutual information (vocabulary paper, section 3.4.2).

Word and class are present/absent variables over the reports that have a label of the task. For a word in n of N
reports, a class of m reports and k reports that are both, with D = kN − nm (a whole number, so nothing is lost before
the logarithm), the four cells of the table give

    N · MI = k ln(1 + D/nm) + (n−k) ln(1 − D/n(N−m)) + (m−k) ln(1 − D/(N−n)m) + (N−n−m+k) ln(1 + D/(N−n)(N−m))

which is divided by N times the class's entropy. A word's score is its largest value over all classes of all tasks.

>>> joint = sparse.csr_array([[2, 0], [1, 1], [0, 2]])  # three words, two classes of two reports each
>>> scores(joint, np.array([2, 2]), np.array([0, 0])).tolist()
[1.0, 0.0, 1.0]
"""

import numpy as np
from scipy import sparse
from scipy.special import xlog1py, xlogy

from pathveil.vocabulary.counts import WordCounts

DIGITS = 12  # of scores: equal words must tie, and the last place of a logarithm depends on the machine
BLOCK = 1 << 19  # cells of a dense table in memory at a time


def mutual_information(counts: WordCounts, *, tasks: tuple[str, ...] | None = None) -> np.ndarray:
    """Score each word over the given tasks (all by default), all registries together: (words,)."""
    chosen = counts.tasks if tasks is None else tasks
    task_of = np.repeat(np.arange(len(counts.tasks)), [len(counts.classes[task]) for task in counts.tasks])
    columns = np.isin(task_of, [counts.tasks.index(task) for task in chosen])
    joint = counts.joint[0]
    for table in counts.joint[1:]:
        joint = joint + table
    return scores(sparse.csr_array(joint[:, columns]), counts.labels.sum(axis=0)[columns], task_of[columns])


def scores(joint: sparse.csr_array, labels: np.ndarray, task_of: np.ndarray) -> np.ndarray:
    """Score words from (words, classes) joint counts, reports of each class (classes,) and each class's task."""
    best = np.zeros(joint.shape[0])
    for task in np.unique(task_of):
        total = int(labels[task_of == task].sum())
        # A class of all reports or of none has no entropy, and nothing says anything about it.
        columns = np.flatnonzero((task_of == task) & (labels > 0) & (labels < total))
        if not len(columns):
            continue
        m = labels[columns].astype(np.int64)
        entropy = -xlogy(m, m / total) - xlog1py(total - m, -m / total)
        table = joint[:, columns]
        height = max(BLOCK // len(columns), 1)
        for start in range(0, len(best), height):
            k = table[start : start + height].toarray().astype(np.int64)
            n = k.sum(axis=1, keepdims=True)
            informative = ((n > 0) & (n < total))[:, 0]
            k, n = k[informative], n[informative]
            d = (k * total - n * m).astype(float)
            shared = xlog1py(k, d / (n * m)) + xlog1py(n - k, -d / (n * (total - m)))
            shared += xlog1py(m - k, -d / ((total - n) * m))
            shared += xlog1py(total - n - m + k, d / ((total - n) * (total - m)))
            rows = start + np.flatnonzero(informative)
            best[rows] = np.maximum(best[rows], (shared / entropy).max(axis=1))
    return np.round(best, DIGITS)
