"""Probabilities that mean what they say, and when to leave a report to a person.

A temperature a task divides the logits so that held-out labels become as likely as they can be (Guo et al. 2017, "On
calibration of modern neural networks"); the order of the classes does not change. A threshold a task then says from
which probability on a code is taken without a person, so that those taken reach the wanted accuracy (registries ask for
97 to 97.5 %). The share below it is the price, and is reported with it.

Both are fitted on held-out documents, never on training ones: a model is surer of those than of any other. The lowest
probability above which held-out documents happen to be right often enough promises too much, for it was chosen by the
same documents. So one document more is counted, as wrong (conformal risk control; Angelopoulos et al. 2022), and the
accuracy that is stated comes from folds of cases, each judged by the threshold that the other folds choose.

>>> import numpy as np
>>> sure, right = np.repeat([0.99, 0.6], 50), np.arange(100) % 50 < np.repeat([50, 30], 50)
>>> lowest_threshold(sure, right, accuracy=0.75), lowest_threshold(sure, right, accuracy=0.95)
(0.6, 0.99)
>>> found = threshold_for(sure, right, cases=np.arange(100), accuracy=0.95)
>>> found.probability, found.accuracy, round(found.low, 2), found.abstained, found.left
(0.99, 1.0, 0.93, 0.5, 0.5)
"""

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from pathveil.training.batches import case_folds
from pathveil.training.scores import NEVER, Threshold


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


def threshold_for(confidence: np.ndarray, right: np.ndarray, *, cases: np.ndarray, accuracy: float) -> Threshold:
    """A threshold that keeps what it promises on new cases, from held-out documents and whether they are right.

    ``NEVER`` where too few are held out to promise anything, and where the folds show that the promise would be broken:
    the accuracy that they reach is surely below what was asked. Its interval is Wilson's with as many trials as there
    are cases above the threshold: the reports of a case are right or wrong together.
    """
    probability, folds = lowest_threshold(confidence, right, accuracy=accuracy), case_folds(cases)
    taken = np.zeros(len(confidence), bool)
    for fold in np.unique(folds):
        own = folds == fold
        taken[own] = confidence[own] >= lowest_threshold(confidence[~own], right[~own], accuracy=accuracy)
    reached = float(right[taken].mean()) if taken.any() else 0.0
    low, high = _wilson(reached, len(np.unique(cases[taken]))) if taken.any() else (0.0, 0.0)
    promised = probability < NEVER and high >= accuracy
    return Threshold(
        probability=probability if promised else NEVER,
        wanted=accuracy,
        accuracy=reached if promised else 0.0,
        low=low if promised else 0.0,
        abstained=float(1 - taken.mean()) if promised else 1.0,
        documents=len(confidence),
        left=float((confidence < probability).mean()) if promised else 1.0,
    )


def lowest_threshold(confidence: np.ndarray, right: np.ndarray, *, accuracy: float) -> float:
    """The lowest probability from which on these documents and a wrong one are right as often as asked; ``NEVER`` where
    there is none."""
    order = np.argsort(-confidence, kind="stable")
    ordered = confidence[order]
    taken = np.arange(1, len(order) + 1)
    # Documents of equal probability are taken together or not at all.
    last_of_equals = np.append(ordered[:-1] > ordered[1:], True)[: len(order)]
    good = np.flatnonzero(last_of_equals & (np.cumsum(right[order]) >= accuracy * (taken + 1)))
    return float(ordered[good[-1]]) if len(good) else NEVER


def _wilson(share: float, trials: int, z: float = 1.959964) -> tuple[float, float]:
    centre = share + z**2 / (2 * trials)
    spread = z * np.sqrt(share * (1 - share) / trials + z**2 / (4 * trials**2))
    return float((centre - spread) / (1 + z**2 / trials)), float((centre + spread) / (1 + z**2 / trials))
