"""RMIA, the robust attack of Zarifzadeh, Liu and Shokri (2024), "Low-Cost High-Power Membership Inference Attacks".

A record's ratio is its probability under the attacked model over its probability under the average of reference models,
half of which saw it. Its score is the share of population records ``z`` (known non-members) whose ratio it beats by a
factor γ: ``Pr(x|θ) / Pr(x) ≥ γ · Pr(z|θ) / Pr(z)``. With two or four shadows it already nears what LiRA needs
dozens for. For a fixed population the score grows with the ratio, so the pairs are counted by sorting, not one by one.
An audit ranks records by the ratio itself: it orders them alike without ties, and a non-member that stands in the
population is not counted against itself.

*Online*: ``Pr`` averages the in- and the out-models' means. *Offline*: only out-models exist; the in-models' mean is
taken to be ``a · out + (1 − a)`` (their equation 10), so ``Pr = ((1 + a) out + (1 − a)) / 2``. The nearer ``a`` is to
1, the more a record's own hardness is discounted; at 0 hardly at all. Near certainty a probability says little, so it
is *softened*: its log-odds divided by a temperature. Which temperature and which ``a`` are best an attacker can tell
from their shadows, whose members they know (``tuned``).

>>> import numpy as np
>>> ratio = np.log(np.array([4.0, 1.0]))
>>> rmia(ratio, population=np.log(np.array([0.5, 1.0, 3.0])), gamma=1.0).round(3).tolist()
[1.0, 0.667]
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pathveil.auditing import attacks, metrics

OFFLINE_A = 0.3  # the authors' value for CIFAR-10, where shadows are too few to tell a better one
OFFLINE_AS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
TEMPERATURES = (1.0, 2.0, 4.0)
TUNED_ON = 8, 2_000  # shadows and records, at most: the choice is among few


class Tuning(NamedTuple):
    """How probabilities are softened, and how far a record's hardness is discounted offline."""

    temperature: float = 2.0
    a: float = OFFLINE_A


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
    return target - _online_log_prior(_log_mean(shadows, inside), outside)


def softened(log_p: np.ndarray, temperature: float) -> np.ndarray:
    """Log-probabilities with their log-odds divided by a temperature; NaN stays.

    >>> np.exp(softened(np.log(np.array([0.5, 0.9])), 2.0)).round(3).tolist()
    [0.5, 0.75]
    """
    if temperature == 1:
        return log_p
    below = np.minimum(log_p, -np.finfo(np.float32).tiny)  # a probability of 1 has no odds
    odds = below - np.log(-np.expm1(below))
    with np.errstate(invalid="ignore"):
        return -np.logaddexp(0, -odds / temperature)


def tuned(log_p: Sequence[np.ndarray], inside: np.ndarray, *, offline: bool = False) -> Tuning:
    """The tuning by which RMIA tells best what each shadow trained on, with the others as its references.

    ``log_p``: each task's log-probabilities of the label (shadows, records). Only shadows are looked at, so this costs
    an attacker nothing. Where they are too few to tell, it is the default.
    """
    shadows, records = TUNED_ON
    step = -(-inside.shape[1] // records) if inside.shape[1] else 1
    inside = inside[:, ::step]
    choices = [
        Tuning(temperature, a) for temperature in TEMPERATURES for a in (OFFLINE_AS if offline else (OFFLINE_A,))
    ]
    areas = {choice: [] for choice in choices}
    for temperature in TEMPERATURES:
        said = attacks.joint([softened(one[:, ::step].astype(np.float64), temperature) for one in log_p])
        for number in range(min(len(said), shadows)):
            others = np.arange(len(said)) != number
            outside = _log_mean(said[others], ~inside[others])
            for choice in choices:
                if choice.temperature == temperature:
                    prior = _offline_log_prior(outside, choice.a)
                    if not offline:
                        prior = _online_log_prior(_log_mean(said[others], inside[others]), outside)
                    ratio = said[number] - prior
                    known = ~np.isnan(ratio)
                    member = inside[number][known]
                    if 0 < member.sum() < len(member):
                        areas[choice].append(float(metrics.auc(ratio[known], member)))
    if not all(areas.values()):
        return Tuning()
    return max(choices, key=lambda choice: np.mean(areas[choice]))


def rmia(log_ratios: np.ndarray, *, population: np.ndarray, gamma: float = 1.0) -> np.ndarray:
    """The share of the population each record beats by γ; a record of the population itself is counted against all."""
    ranked = np.sort(population[~np.isnan(population)])
    beaten = np.searchsorted(ranked, log_ratios - np.log(gamma), side="right")
    return np.where(np.isnan(log_ratios), np.nan, beaten / max(len(ranked), 1))


def _online_log_prior(inside: np.ndarray, outside: np.ndarray) -> np.ndarray:
    """log of (in + out) / 2."""
    with np.errstate(invalid="ignore"):  # NaN where a mean is missing
        return np.logaddexp(inside, outside) - np.log(2)


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
