"""Risk by how rare a class is: the buckets of the paper's Table 1, by the training samples a class has on average.

The paper's edges are 100, 1,000 and 10,000 training samples; a small corpus sets smaller ones.

>>> import numpy as np
>>> training = class_counts([np.array([0, 0, 0, 1]), np.array([0, 1, 1, 2])], classes=4)
>>> training.tolist()
[2.0, 1.5, 0.5, 0.0]
>>> bucket_names((1, 2)), bucket_of(np.array([0, 1, 2, -1]), training, edges=(1, 2)).tolist()
(('< 1', '1 to 1', '≥ 2'), [2, 1, 0, -1])
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from pathveil.audit.attacks import MISSING

EDGES = (100, 1_000, 10_000)


def class_counts(labels: Sequence[np.ndarray], *, classes: int) -> np.ndarray:
    """Training samples of each class, averaged over the models' training sets."""
    return np.mean([np.bincount(one[one != MISSING], minlength=classes) for one in labels], axis=0)


def bucket_names(edges: Sequence[int] = EDGES) -> tuple[str, ...]:
    """Names in order, rarest first."""
    inner = (f"{low:,} to {high - 1:,}" for low, high in pairwise(edges))
    return (f"< {edges[0]:,}", *inner, f"≥ {edges[-1]:,}")


def bucket_of(labels: np.ndarray, training: np.ndarray, *, edges: Sequence[int] = EDGES) -> np.ndarray:
    """The bucket of each record's class, −1 without a label."""
    where = np.searchsorted(np.asarray(edges), training, side="right")  # (classes,)
    return np.where(labels == MISSING, -1, where[np.maximum(labels, 0)])
