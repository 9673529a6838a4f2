"""Probabilities that mean what they say, and when to leave a report to a person.

A temperature a task divides the logits so that held-out labels become as likely as they can be (Guo et al. 2017, "On
calibration of modern neural networks"); the order of the classes does not change. A threshold a task then says from
which probability on a code is taken without a person: the lowest one at which the held-out documents above it reach the
wanted accuracy (registries ask for 97 to 97.5 %). The share below it is the price, and is reported with it.

Both are fitted on held-out documents, never on training ones: a model is surer of those than of any other.

>>> import numpy as np
>>> confidence = np.array([0.99, 0.95, 0.9, 0.6, 0.5])
>>> found = threshold_for(confidence, np.array([True, True, True, True, False]), accuracy=0.95)
>>> found.probability, found.accuracy, round(found.low, 2), round(found.abstained, 2)
(0.6, 1.0, 0.51, 0.2)
"""

from dataclasses import asdict, dataclass

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

NEVER = 2.0  # a threshold no probability reaches: every report goes to a person


@dataclass(frozen=True)
class Threshold:
    """From which probability on a task's code is taken, and what held-out documents say about that."""

    probability: float
    wanted: float  # accuracy asked for
    accuracy: float  # of the held-out documents at or above the threshold
    low: float  # lower end of that accuracy's 95 % interval (Wilson): few documents promise little
    abstained: float  # share of the held-out documents below the threshold
    documents: int  # held-out documents with a label

    def as_dict(self) -> dict[str, float | int]:
        return asdict(self)


def fit_temperature(logits: np.ndarray, labels: np.ndarray) -> float:
    """The temperature that makes held-out labels likeliest; 1 where there is no label to go by.

    The log-likelihood is concave in 1 ÷ temperature, so a bounded search finds the one optimum. Labels the model cannot
    predict (−1, or past its classes) are left out: no temperature makes them likelier.
    """
    keep = (labels >= 0) & (labels < logits.shape[1])
    if not keep.any():
        return 1.0
    kept, wanted = logits[keep].astype(np.float64), labels[keep][:, None]

    def unlikely(inverse: float) -> float:
        return -np.take_along_axis(log_softmax(kept * inverse, axis=1), wanted, axis=1).mean()

    # Where every held-out document is right the likelihood grows without end; the bound keeps probabilities honest.
    return float(1 / minimize_scalar(unlikely, bounds=(0.05, 5.0), method="bounded", options={"xatol": 1e-5}).x)


def threshold_for(confidence: np.ndarray, right: np.ndarray, *, accuracy: float) -> Threshold:
    """The lowest probability from which on held-out documents are right as often as wanted."""
    documents = len(confidence)
    if not documents:
        return Threshold(NEVER, accuracy, 0.0, 0.0, 1.0, 0)
    order = np.argsort(-confidence, kind="stable")
    sorted_confidence = confidence[order]
    taken = np.arange(1, documents + 1)
    hits = np.cumsum(right[order])
    # Documents of equal probability are taken together or not at all.
    last_of_equals = np.append(sorted_confidence[:-1] > sorted_confidence[1:], True)
    good = np.flatnonzero(last_of_equals & (hits >= accuracy * taken))
    if not len(good):
        return Threshold(NEVER, accuracy, 0.0, 0.0, 1.0, documents)
    at = good[-1]
    return Threshold(
        probability=float(sorted_confidence[at]),
        wanted=accuracy,
        accuracy=float(hits[at] / taken[at]),
        low=_wilson_low(int(hits[at]), int(taken[at])),
        abstained=float(1 - taken[at] / documents),
        documents=documents,
    )


def expected_calibration_error(confidence: np.ndarray, right: np.ndarray, *, bins: int = 15) -> float:
    """Mean distance of confidence and accuracy over equal-width bins, weighted by documents: 0 is calibrated."""
    place = np.minimum((confidence * bins).astype(int), bins - 1)
    gap = np.bincount(place, weights=confidence - right, minlength=bins)
    return float(np.abs(gap).sum() / len(confidence))


def _wilson_low(hits: int, taken: int, z: float = 1.959964) -> float:
    share = hits / taken
    centre = share + z**2 / (2 * taken)
    spread = z * np.sqrt(share * (1 - share) / taken + z**2 / (4 * taken**2))
    return float((centre - spread) / (1 + z**2 / taken))
