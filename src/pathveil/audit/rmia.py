"""RMIA, the robust attack of Zarifzadeh, Liu and Shokri (2024), "Low-Cost High-Power Membership Inference Attacks".

A record's ratio is its probability under the attacked model over its probability under the average of reference models,
half of which saw it. Its score is the share of population records ``z`` (known non-members) whose ratio it beats by a
factor γ: ``Pr(x|θ) / Pr(x) ≥ γ · Pr(z|θ) / Pr(z)``. With two or four shadows it already nears what LiRA needs
dozens for. For a fixed population the score grows with the ratio, so the pairs are counted by sorting, not one by one.
An audit ranks records by the ratio itself: it orders them alike without ties, and a non-member that stands in the
population is not counted against itself.

*Online*: ``Pr`` averages the in- and the out-models' means. *Offline*: only out-models exist; the in-models' mean is
taken to be ``a · out + (1 − a)`` (their equation 10), so ``Pr = ((1 + a) out + (1 − a)) / 2``. The nearer ``a`` is to 1,
the more a record's own hardness is discounted; at 0 hardly at all. Which ``a`` is best an attacker can tell from their
shadows, whose members they know (``tuned_a``).

>>> import numpy as np
>>> ratio = np.log(np.array([4.0, 1.0]))
>>> rmia(ratio, population=np.log(np.array([0.5, 1.0, 3.0])), gamma=1.0).round(3).tolist()
[1.0, 0.667]
"""

import numpy as np

from pathveil.audit import metrics

OFFLINE_A = 0.3  # the authors' value for CIFAR-10, where shadows are too few to tell a better one
OFFLINE_AS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


def log_ratio(
    target: np.ndarray,  # (records,) log-probability of the label (or of all labels together) under the attacked model
    shadows: np.ndarray,  # (shadows, records) the same under the reference models
    inside: np.ndarray,  # (shadows, records) bool: the model trained on the record
    *,
    offline: bool = False,
    a: float = OFFLINE_A,
) -> np.ndarray:
    """log Pr(x|θ) − log Pr(x); NaN where the models needed for Pr(x) are missing."""
    outside = _log_mean(shadows, ~inside)
    if offline:
        return target - _offline_log_prior(outside, a)
    with np.errstate(invalid="ignore"):  # NaN where a mean is missing
        return target - np.logaddexp(_log_mean(shadows, inside), outside) + np.log(2)


def tuned_a(shadows: np.ndarray, inside: np.ndarray) -> float:
    """The ``a`` by which the offline attack tells best what each shadow trained on, with the others as its references.

    Nothing is looked at but shadows (shadows, records), log-probabilities of the label, so it costs an attacker nothing.
    """
    areas = np.full((len(shadows), len(OFFLINE_AS)), np.nan)
    for number, target in enumerate(shadows):
        others = np.arange(len(shadows)) != number
        outside = _log_mean(shadows[others], ~inside[others])
        known = ~np.isnan(target) & ~np.isnan(outside)
        member = inside[number][known]
        if 0 < member.sum() < len(member):
            for place, a in enumerate(OFFLINE_AS):
                areas[number, place] = metrics.auc(target[known] - _offline_log_prior(outside[known], a), member)
    usable = areas[~np.isnan(areas).any(axis=1)]
    return OFFLINE_AS[int(usable.mean(axis=0).argmax())] if len(usable) else OFFLINE_A


def rmia(log_ratios: np.ndarray, *, population: np.ndarray, gamma: float = 1.0) -> np.ndarray:
    """The share of the population each record beats by γ; a record of the population itself is counted against all."""
    ranked = np.sort(population[~np.isnan(population)])
    beaten = np.searchsorted(ranked, log_ratios - np.log(gamma), side="right")
    return np.where(np.isnan(log_ratios), np.nan, beaten / max(len(ranked), 1))


def _offline_log_prior(outside: np.ndarray, a: float) -> np.ndarray:
    """log of ((1 + a) out + (1 − a)) / 2."""
    unseen = np.log1p(a) + outside
    with np.errstate(invalid="ignore"):  # NaN where the mean is missing
        return (unseen if a == 1 else np.logaddexp(unseen, np.log1p(-a))) - np.log(2)


def _log_mean(log_probabilities: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """log of the chosen models' mean probability: (shadows, records) → (records,)."""
    usable = chosen & ~np.isnan(log_probabilities)
    kept = np.where(usable, log_probabilities, -np.inf)
    top = kept.max(0, initial=-np.inf)
    with np.errstate(invalid="ignore", divide="ignore"):
        return top + np.log(np.exp(kept - top).sum(0) / usable.sum(0))
