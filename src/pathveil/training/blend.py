"""How the views of an ensemble are weighed, and how its codes are chosen: both on cases no view has seen.

With log-probabilities of the networks' mean, n, and of the linear view, l, each first calibrated by a temperature of
its own, a task's probabilities are

    log p = log softmax(c · ((1 − s) · n + s · l))

a pool of opinions with the share s of the linear view. The likeliest class is right most often, but a rare class is
then seldom chosen at all; so the code is the class with the largest log p − τ · log(share of the class) (Menon et al.
2021, "Long-tail learning via logit adjustment"), and the probability that goes with it stays p. A task whose held-out
cases are right less often with τ than without is not lifted.

Of a few values each, s and τ are those with the best sum of micro F1 (mean over tasks) and macro F1 (mean over all
classes of all tasks with enough held-out documents to judge by). One s and one τ serve all tasks: the many choices that
a choice for each task would be find luck in small classes. Likelihood decides the temperatures and c, task by task; it
would also decide s, but a network with smoothed labels is likelier than it is right, and the linear view finds rare
classes that likelihood hardly weighs.

What was chosen on some cases looks better on them than on others. ``cross_fit`` therefore divides the held-out cases
into folds and answers each with a pool that was fitted on the other folds: by these answers a model is judged.

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

from pathveil.training.batches import case_folds
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


@dataclass(frozen=True)
class HeldOut:
    """What a model says about held-out documents, each with a pool that was fitted on other cases."""

    rows: np.ndarray  # of the corpus
    log_probabilities: Mapping[str, np.ndarray]  # task: (rows, classes)
    chosen: Mapping[str, np.ndarray]  # task: (rows,) classes


def blended(views: Sequence[np.ndarray], coefficients: Sequence[float]) -> np.ndarray:
    """log softmax of the weighted sum of views, (documents, classes)."""
    total = sum(coefficient * view for coefficient, view in zip(coefficients, views, strict=True))
    return log_softmax(np.asarray(total))


def log_softmax(logits: np.ndarray) -> np.ndarray:
    """Along the last axis, of finite numbers: SciPy's formula without the tenth of a millisecond around it, of which a
    report takes dozens.

    >>> np.exp(log_softmax(np.log([[1.0, 3.0]]))).round(2).tolist()
    [[0.25, 0.75]]
    """
    below = logits - logits.max(-1, keepdims=True)
    return below - np.log(np.exp(below).sum(-1, keepdims=True))


def choose(log_probabilities: Mapping[str, np.ndarray], lift: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Each task's chosen class (documents,)."""
    return {task: (logs + lift[task]).argmax(1) for task, logs in log_probabilities.items()}


def fit_pool(
    views: Mapping[str, Sequence[np.ndarray]], labels: Mapping[str, np.ndarray], all_labels: Mapping[str, np.ndarray]
) -> Pool:
    """Weigh one or two views, each log-probabilities (held-out documents, classes) a task.

    ``labels`` are those of the held-out documents, ``all_labels`` those of all training documents, whose counts say
    what is rare.
    """
    scales = {task: [1 / fit_temperature(view, labels[task]) for view in both] for task, both in views.items()}
    rarity = {task: rarity_of(all_labels[task], both[0].shape[1]) for task, both in views.items()}
    shares = SHARES if all(len(both) == 2 for both in views.values()) else (0.0,)

    def weights(task: str, share: float) -> tuple[float, ...]:
        return tuple(part * scale for part, scale in zip((1 - share, share), scales[task], strict=False))

    best, best_share, best_power = -1.0, shares[0], POWERS[0]
    lifted: dict[str, bool] = {}
    for share in shares:
        logs = {task: blended(both, weights(task, share)) for task, both in views.items()}
        plain = {task: scores.argmax(1) for task, scores in logs.items()}
        for power in POWERS:
            chosen = {task: (logs[task] + power * rarity[task]).argmax(1) for task in views}
            helps = {task: _hits(chosen[task], labels[task]) >= _hits(plain[task], labels[task]) for task in views}
            gain = micro_plus_macro({task: (chosen if helps[task] else plain)[task] for task in views}, labels)
            if gain > best + 1e-9:
                best, best_share, best_power, lifted = gain, share, power, helps
    coefficients = {}
    for task, both in views.items():
        sharpness = 1 / fit_temperature(blended(both, weights(task, best_share)), labels[task])
        coefficients[task] = tuple(sharpness * weight for weight in weights(task, best_share))
    lift = {task: (best_power * lifted[task] * rarity[task]).astype(np.float32) for task in views}
    return Pool(coefficients=coefficients, lift=lift, share=best_share, power=best_power)


def cross_fit(
    views: Mapping[str, Sequence[np.ndarray]],
    labels: Mapping[str, np.ndarray],
    all_labels: Mapping[str, np.ndarray],
    *,
    rows: np.ndarray,
    cases: np.ndarray,
) -> HeldOut:
    """Answers for the held-out documents ``rows``, of these ``cases``, by pools that were fitted on other cases."""
    folds = case_folds(cases)
    logs = {task: np.empty(both[0].shape, both[0].dtype) for task, both in views.items()}
    chosen = {task: np.zeros(len(rows), np.int64) for task in views}
    for fold in np.unique(folds):
        own = folds == fold
        others = {task: [view[~own] for view in both] for task, both in views.items()}
        pool = fit_pool(others, {task: label[~own] for task, label in labels.items()}, all_labels)
        for task, both in views.items():
            logs[task][own] = blended([view[own] for view in both], pool.coefficients[task])
            chosen[task][own] = (logs[task][own] + pool.lift[task]).argmax(1)
    return HeldOut(rows=rows, log_probabilities=logs, chosen=chosen)


def rarity_of(labels: np.ndarray, classes: int) -> np.ndarray:
    """log(commonest ÷ count) of each class. A count below ``FEWEST`` is raised to it, so that what goes into the bundle
    does not reveal how few there are.

    >>> [round(float(number), 2) for number in rarity_of(np.repeat([0, 1, 2], [50, 10, 1]), 3)]
    [0.0, 1.61, 2.3]
    """
    counts = np.maximum(np.bincount(labels[labels >= 0], minlength=classes), FEWEST)
    return np.log(counts.max() / counts)


def micro_plus_macro(chosen: Mapping[str, np.ndarray], labels: Mapping[str, np.ndarray]) -> float:
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


def _hits(chosen: np.ndarray, labels: np.ndarray) -> int:
    return int(((chosen == labels) & (labels >= 0)).sum())
