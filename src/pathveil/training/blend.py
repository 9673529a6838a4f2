"""How the views of an ensemble are weighed, and how its codes are chosen: both on cases no view has seen.

With log-probabilities of the networks' mean, n, and of the linear view, l, each first calibrated by a temperature of
its own, a task's probabilities are

    log p = log softmax(c · ((1 − s) · n + s · l))

a pool of opinions with the share s of the linear view. The likeliest class is right most often, but a rare class is
then seldom chosen at all; so the code is the class with the largest log p − τ · log(share of the class) (Menon et al.
2021, "Long-tail learning via logit adjustment"), and the probability that goes with it stays p.

Of a few values each, s and τ are those with the best sum of micro F1 (mean over tasks) and macro F1 (mean over all
classes of all tasks with enough held-out documents to judge by). One s and one τ serve all tasks: the many choices that
a choice for each task would be find luck in small classes. Likelihood decides the temperatures and c, task by task; it
would also decide s, but a network with smoothed labels is likelier than it is right, and the linear view finds rare
classes that likelihood hardly weighs.

>>> import numpy as np
>>> sure, vague = np.log([[0.9, 0.1], [0.2, 0.8]] * 50), np.log([[0.5, 0.5], [0.6, 0.4]] * 50)
>>> labels = {"site": np.array([0, 1] * 50)}
>>> pool = fit_pool({"site": [sure, vague]}, labels, labels)
>>> pool.share, pool.power, np.exp(blended([sure, vague], pool.coefficients["site"])).argmax(1)[:4].tolist()
(0.5, 0.0, [0, 1, 0, 1])
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import log_softmax

from pathveil.training.calibration import fit_temperature

SHARES = (0.5, 0.25, 0.75, 0.0, 1.0)  # of the linear view; of equals the first is taken
POWERS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)  # τ; of equals the first
FEWEST = 5  # held-out documents a class needs to be judged by, and documents that a rare class is taken to have


@dataclass(frozen=True)
class Pool:
    """What was chosen."""

    coefficients: Mapping[str, tuple[float, ...]]  # task: of each view's log-probabilities
    lift: Mapping[str, np.ndarray]  # task: what is added to each class's log-probability (classes,) to choose a code
    share: float  # of the linear view
    power: float  # τ


def blended(views: Sequence[np.ndarray], coefficients: Sequence[float]) -> np.ndarray:
    """log softmax of the weighted sum of views, (documents, classes)."""
    total = sum(coefficient * view for coefficient, view in zip(coefficients, views, strict=True))
    return log_softmax(np.asarray(total), axis=1)


def fit_pool(
    views: Mapping[str, Sequence[np.ndarray]], held_out: Mapping[str, np.ndarray], every: Mapping[str, np.ndarray]
) -> Pool:
    """Weigh one or two views, each log-probabilities (held-out documents, classes) a task.

    ``held_out`` are the labels of those documents, ``every`` all training labels, whose counts say what is rare.
    """
    scales = {task: [1 / fit_temperature(view, held_out[task]) for view in some] for task, some in views.items()}
    rarity = {task: rarity_of(every[task], some[0].shape[1]) for task, some in views.items()}
    shares = SHARES if all(len(some) == 2 for some in views.values()) else (0.0,)

    def weights(task: str, share: float) -> tuple[float, ...]:
        return tuple(part * scale for part, scale in zip((1 - share, share), scales[task], strict=False))

    best, share, power = -1.0, shares[0], POWERS[0]
    for one in shares:
        said = {task: blended(some, weights(task, one)) for task, some in views.items()}
        for other in POWERS:
            gain = judged({task: (said[task] + other * rarity[task]).argmax(1) for task in views}, held_out)
            if gain > best + 1e-9:
                best, share, power = gain, one, other
    coefficients = {}
    for task, some in views.items():
        sharpness = 1 / fit_temperature(blended(some, weights(task, share)), held_out[task])
        coefficients[task] = tuple(sharpness * weight for weight in weights(task, share))
    lift = {task: (power * rarity[task]).astype(np.float32) for task in views}
    return Pool(coefficients=coefficients, lift=lift, share=share, power=power)


def rarity_of(labels: np.ndarray, classes: int) -> np.ndarray:
    """log(commonest ÷ count) of each class; counts below a few are taken as a few, so that they are not told.

    >>> [round(float(number), 2) for number in rarity_of(np.repeat([0, 1, 2], [50, 10, 1]), 3)]
    [0.0, 1.61, 2.3]
    """
    counts = np.maximum(np.bincount(labels[labels >= 0], minlength=classes), FEWEST)
    return np.log(counts.max() / counts)


def judged(chosen: Mapping[str, np.ndarray], labels: Mapping[str, np.ndarray]) -> float:
    """Mean over tasks of micro F1, plus the mean F1 of all classes with enough documents to judge by."""
    micro, per_class = [], []
    for task, truth in labels.items():
        known = truth >= 0
        if not known.any():
            continue
        right = truth[known] == chosen[task][known]
        micro.append(right.mean())
        size = int(max(truth.max(), chosen[task].max())) + 1
        carried = np.bincount(truth[known], minlength=size)
        said = np.bincount(chosen[task][known], minlength=size)
        f1 = 2 * np.bincount(truth[known][right], minlength=size) / np.maximum(carried + said, 1)
        per_class.append(f1[carried >= FEWEST])
    judgeable = np.concatenate(per_class) if per_class else np.zeros(0)
    return float(np.mean(micro) if micro else 0.0) + float(judgeable.mean() if len(judgeable) else 0.0)
