"""Attacks that need only the attacked model's answers: loss, entropy, modified entropy, privacy risk score, label only.

Each is a pure function on arrays and gives one score a record, higher for members, NaN where the record has no label.
Loss: Yeom et al. (2018). Modified entropy and the privacy risk score: Song and Mittal (2021), "Systematic Evaluation of
Privacy Risks of Machine Learning Models", equations 8 and 9. Scores of several tasks become one by ``joint``, scores of
a case's reports by ``by_case``.

>>> import numpy as np
>>> probabilities = np.array([[0.9, 0.1], [0.6, 0.4]])
>>> loss_score(probabilities, np.array([0, 1])).round(3).tolist()
[-0.105, -0.916]
>>> label_score(probabilities, np.array([0, 1])).tolist()
[1.0, 0.0]
"""

from collections.abc import Sequence

import numpy as np
import scipy.special

SMALLEST = 1e-12  # a probability below this is taken as this: no logarithm of zero
MISSING = -1


def log_softmax(logits: np.ndarray) -> np.ndarray:
    """Of the last axis, in float64."""
    return scipy.special.log_softmax(np.asarray(logits, np.float64), axis=-1)


def of_label(values: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The value of each record's own label, NaN where it has none: (…, records, classes) → (…, records)."""
    where = np.broadcast_to(np.maximum(labels, 0)[:, None], (*values.shape[:-1], 1))
    taken = np.take_along_axis(values, where, axis=-1)[..., 0]
    return np.where(labels == MISSING, np.nan, taken)


def confidence_margin(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """log(p / (1 − p)) of each record's label, straight from the logits: what LiRA takes to be normal."""
    logits = np.asarray(logits, np.float64)
    own = of_label(logits, labels)
    others = np.array(logits, copy=True)
    np.put_along_axis(
        others, np.broadcast_to(np.maximum(labels, 0)[:, None], (*logits.shape[:-1], 1)), -np.inf, axis=-1
    )
    if logits.shape[-1] == 1:
        return np.full(own.shape, np.nan)  # one class only: its probability is 1 whatever the model learned
    top = others.max(-1, keepdims=True)
    return own - (top[..., 0] + np.log(np.exp(others - top).sum(-1)))


def loss_score(probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Minus the cross-entropy of the true label."""
    return np.log(np.maximum(of_label(np.asarray(probabilities, np.float64), labels), SMALLEST))


def entropy_score(probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Minus the entropy of the answer: a model is surer of what it has seen. The label is not looked at."""
    p = np.maximum(np.asarray(probabilities, np.float64), SMALLEST)
    return np.where(labels == MISSING, np.nan, (p * np.log(p)).sum(-1))


def modified_entropy_score(probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Minus Song and Mittal's modified entropy: like entropy, but being sure of a wrong label counts against."""
    p = np.clip(np.asarray(probabilities, np.float64), SMALLEST, 1.0)
    own = of_label(p, labels)
    elsewhere = p * np.log(np.maximum(1 - p, SMALLEST))  # (…, records, classes)
    return (1 - own) * np.log(own) + elsewhere.sum(-1) - of_label(elsewhere, labels)


def label_score(probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """1 where the top label is right: all that a release of labels gives away (the gap attack of Yeom et al.)."""
    right = np.asarray(probabilities).argmax(-1) == labels
    return np.where(labels == MISSING, np.nan, right.astype(np.float64))


def privacy_risk_score(
    scores: np.ndarray,
    labels: np.ndarray,
    *,
    known_scores: np.ndarray,
    known_labels: np.ndarray,
    known_member: np.ndarray,
    bins: int = 15,
    fewest: int = 30,
) -> np.ndarray:
    """The chance that a record is a member, given its score and label, members and non-members being equally likely.

    The distributions of known members' and non-members' scores are histograms over bins of equal mass, one pair a
    class (equation 9), drawn towards those of all classes where a class has few known records: a class with ``fewest``
    of them weighs as much as the whole.
    """

    def densities(inside: np.ndarray, edges: np.ndarray, prior: tuple[np.ndarray, np.ndarray] | None):
        found = []
        for number, side in enumerate((known_member & inside, ~known_member & inside)):
            counts = np.bincount(np.searchsorted(edges, known_scores[side]), minlength=len(edges) + 1).astype(float)
            base = np.full(len(counts), 1 / len(counts)) if prior is None else prior[number]
            strength = 1.0 if prior is None else float(fewest)
            found.append((counts + strength * base) / (counts.sum() + strength))
        return found[0], found[1]

    known = ~np.isnan(known_scores)
    edges = np.unique(np.quantile(known_scores[known], np.linspace(0, 1, bins + 1)[1:-1]))
    whole = densities(known, edges, None)
    risk = np.full(len(scores), np.nan)
    for label in np.unique(labels[labels != MISSING]):
        members, others = densities(known & (known_labels == label), edges, whole)
        rows = (labels == label) & ~np.isnan(scores)
        at = np.searchsorted(edges, scores[rows])
        risk[rows] = members[at] / (members[at] + others[at])
    return risk


def joint(scores: Sequence[np.ndarray]) -> np.ndarray:
    """One score a record from those of several tasks: their sum, a missing label adding nothing, NaN where all miss.

    For log-probabilities and log-likelihood ratios the sum is what independent heads would give together.
    """
    stacked = np.stack(scores)
    return np.where(np.isnan(stacked).all(0), np.nan, np.nansum(stacked, axis=0))


def by_case(scores: np.ndarray, cases: np.ndarray, *, ratio: bool) -> tuple[np.ndarray, np.ndarray]:
    """The cases in order and one score each: log-likelihood ratios add up over a case's reports, others are averaged.

    A sum of losses would grow with the number of reports, which says nothing about membership.
    """
    kept = ~np.isnan(scores)
    names, place = np.unique(cases[kept], return_inverse=True)
    total = np.bincount(place, weights=scores[kept], minlength=len(names))
    return names, total if ratio else total / np.bincount(place, minlength=len(names))
