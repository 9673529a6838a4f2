"""LiRA, the likelihood-ratio attack of Carlini et al. (2022): is this answer one of a model that saw the record?

For each record, shadow models that trained on it and shadow models that did not give two samples of the margin
log(p / (1 − p)) of its label, taken as normal. *Online*: the log-likelihood ratio of the two normals at the attacked
model's margin. *Offline* (no shadow saw the record): how far above the out-normal the margin lies.

The variance decides how much few shadows are worth: ``record`` (one a record, noisy with few shadows), ``global``
(one for all records), or ``shrunk``: each record's own variance drawn towards the global one by as much as the spread
of variances over records says it should be (the empirical Bayes of Smyth, 2004, as in limma).

>>> import numpy as np
>>> shadows = np.array([[2.0], [4.0], [-1.0], [1.0]])
>>> inside = np.array([[True], [True], [False], [False]])
>>> lira(np.array([3.0]), shadows, inside, variance="record").round(4).tolist()
[2.25]
"""

from typing import Literal

import numpy as np
from scipy.special import digamma, polygamma
from scipy.stats import norm

Variance = Literal["record", "global", "shrunk"]
SMALLEST_VARIANCE = 1e-6


def lira(
    target: np.ndarray,  # (records,) margins of the attacked model
    shadows: np.ndarray,  # (shadows, records) margins
    inside: np.ndarray,  # (shadows, records) bool: the shadow trained on the record
    *,
    variance: Variance = "shrunk",
) -> np.ndarray:
    """The log-likelihood ratio of each record, NaN where it was in no shadow, in all of them, or has no label."""
    mean_in, variance_in = _normals(shadows, inside, variance)
    mean_out, variance_out = _normals(shadows, ~inside, variance)
    return _log_density(target, mean_in, variance_in) - _log_density(target, mean_out, variance_out)


def lira_offline(
    target: np.ndarray, shadows: np.ndarray, inside: np.ndarray, *, variance: Variance = "shrunk"
) -> np.ndarray:
    """How surprisingly high the margin is for a model that never saw the record: −log of the out-normal's tail."""
    mean, spread = _normals(shadows, ~inside, variance)
    return -norm.logsf((target - mean) / np.sqrt(spread))


def _log_density(x: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    return -0.5 * (np.log(variance) + (x - mean) ** 2 / variance)  # without the constant, which cancels


def _normals(values: np.ndarray, chosen: np.ndarray, variance: Variance) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of the chosen models' margins, a record: (records,) each."""
    usable = chosen & ~np.isnan(values)
    n = usable.sum(0)
    kept = np.where(usable, values, 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = kept.sum(0) / n
        squares = (np.where(usable, values - mean, 0.0) ** 2).sum(0)
        own = squares / (n - 1)  # NaN or infinite where a record has fewer than two models
    pooled = max(float(squares.sum()) / max(int(np.maximum(n - 1, 0).sum()), 1), SMALLEST_VARIANCE)
    enough = n > 1
    if variance == "global":
        spread = np.full(len(n), pooled)
    elif variance == "record":
        # One model has no variance of its own; the global one is the only honest stand-in.
        spread = np.where(enough, own, pooled)
    else:
        prior_freedom, prior_variance = variance_prior(own[enough], n[enough] - 1)
        freedom = np.maximum(n - 1, 0)
        own = np.where(enough, own, 0.0)
        if np.isinf(prior_freedom):
            spread = np.full(len(n), prior_variance)
        else:
            spread = (prior_freedom * prior_variance + freedom * own) / (prior_freedom + freedom)
    return mean, np.maximum(spread, SMALLEST_VARIANCE)


def variance_prior(variances: np.ndarray, freedom: np.ndarray) -> tuple[float, float]:
    """Degrees of freedom and scale of the scaled inverse χ² that sample variances look drawn from (Smyth, section 6.2).

    Infinite degrees of freedom mean that the sample variances differ no more than sampling alone would make them.
    """
    usable = variances > 0
    if usable.sum() < 2:
        return np.inf, float(variances.mean()) if len(variances) else 1.0
    variances, freedom = variances[usable], freedom[usable].astype(np.float64)
    excess = np.log(variances) - digamma(freedom / 2) + np.log(freedom / 2)
    centre = float(excess.mean())
    beyond = float(excess.var(ddof=1) - polygamma(1, freedom / 2).mean())
    if beyond <= 0:
        return np.inf, float(np.exp(centre))
    prior_freedom = 2 * trigamma_inverse(beyond)
    return prior_freedom, float(np.exp(centre + digamma(prior_freedom / 2) - np.log(prior_freedom / 2)))


def trigamma_inverse(y: float) -> float:
    """x with trigamma(x) = y, by Newton's method on 1 / trigamma, which is nearly linear."""
    x = 0.5 + 1 / y
    for _ in range(50):
        value = float(polygamma(1, x))
        step = value * (1 - value / y) / float(polygamma(2, x))
        x += step
        if abs(step) < 1e-10 * x:
            break
    return x
