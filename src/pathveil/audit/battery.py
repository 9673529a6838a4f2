"""All attacks on one model: those that need only its answers, and those that compare it with shadow models.

Two families of shadows serve two kinds of adversary. The *attacker's* shadows know none of the attacked records: they
train on halves of a corpus of the attacker's own (the paper's left-out registry), and serve the paper's classifiers and
the offline attacks. The *auditor's* shadows train on halves of the attacked records themselves, so that every record is
in half of them: the online attacks, the strongest known, which a registry can run against itself and an outsider
hardly can. Where one family is missing, the other stands in as far as it can.

>>> powers(20), powers(3)
((2, 4, 8, 16, 20), (2, 3))
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pathveil.audit import attacks, metrics, predictions, shokri
from pathveil.audit.answers import Answers, Logits, answers_of
from pathveil.audit.evidence import TOGETHER, Records, Score
from pathveil.audit.lira import lira, lira_offline
from pathveil.audit.rmia import log_ratio, rmia

VARIANCES = {
    "shrunk": "LiRA online",
    "global": "LiRA online, global variance",
    "record": "LiRA online, record variance",
}


def powers(models: int) -> tuple[int, ...]:
    """Numbers of shadows to show a curve over: 2, 4, 8, … and all of them."""
    steps = [2**power for power in range(1, 12) if 2**power < models]
    return (*steps, models)


def all_scores(
    target: Logits,
    records: Records,
    rows: np.ndarray,
    *,
    attacker: Answers | None = None,
    auditor: Answers | None = None,
    labels: dict[str, np.ndarray],
    kind: shokri.Kind = "mlp",
    features: shokri.Features = "sorted",
    curve: bool = True,
    seed: int = 0,
) -> list[Score]:
    """Every attack on every task and on all together.

    ``target``: the attacked model's logits on all documents; ``rows``: the documents that ``records`` describes;
    ``labels``: of all documents. With ``curve`` also with fewer shadows, for all tasks together.
    """
    probabilities = {task: np.exp(attacks.log_softmax(target[task][rows])) for task in records.labels}
    found = predictions.score(records, probabilities, seed=seed)
    main = records.main_task
    whole = np.arange(0)
    own = answers_of([(target, np.zeros(len(labels[main]), bool))], labels, main_task=main, pool=whole)
    if auditor is not None and auditor.models > 1:
        found += online(own, auditor, records, rows)
        if curve:
            found += _fewer(own, auditor, records, rows, online)
    outside = attacker or auditor
    if outside is not None:
        found += offline(own, outside, records, rows)
        if curve:
            found += _fewer(own, outside, records, rows, offline)
        found += classifiers(
            probabilities[main], outside, records, labels[main], kind=kind, features=features, curve=curve, seed=seed
        )
    return found


def _fewer(own: Answers, shadows: Answers, records: Records, rows: np.ndarray, attack: Any) -> list[Score]:
    """The same attack with fewer shadows, all tasks together, to draw a curve and not to decide."""
    found = []
    for models in powers(shadows.models)[:-1]:
        scores = attack(own, shadows.first(models), records, rows)
        wide = [one for one in scores if one.task == TOGETHER] or scores
        found += [replace(one, decides=False, whole_only=True) for one in wide]
    return found


def online(own: Answers, shadows: Answers, records: Records, rows: np.ndarray) -> list[Score]:
    """LiRA with each kind of variance, and RMIA, from shadows of which half saw each record."""
    inside, models = shadows.inside[:, rows], shadows.models
    found = []
    for variance, name in VARIANCES.items():
        ratios = {
            task: lira(own.margin[task][0, rows], shadows.margin[task][:, rows], inside, variance=variance)  # ty: ignore[invalid-argument-type]
            for task in records.labels
        }
        found += [Score(name, task, ratio, shadows=models, adds_up=True) for task, ratio in ratios.items()]
        found += _joint(name, list(ratios.values()), models)
    found += _rmia("RMIA online", own, shadows, records, rows, offline=False)
    return found


def offline(own: Answers, shadows: Answers, records: Records, rows: np.ndarray) -> list[Score]:
    """LiRA and RMIA from the shadows that did not see a record."""
    inside, models = shadows.inside[:, rows], shadows.models
    tails = {
        task: lira_offline(own.margin[task][0, rows], shadows.margin[task][:, rows], inside) for task in records.labels
    }
    found = [Score("LiRA offline", task, tail, shadows=models, adds_up=True) for task, tail in tails.items()]
    found += _joint("LiRA offline", list(tails.values()), models)
    found += _rmia("RMIA offline", own, shadows, records, rows, offline=True)
    return found


def _joint(name: str, values: Sequence[np.ndarray], models: int) -> list[Score]:
    if len(values) < 2:
        return []
    return [Score(name, TOGETHER, attacks.joint(values), shadows=models, adds_up=True)]


def _rmia(
    name: str, own: Answers, shadows: Answers, records: Records, rows: np.ndarray, *, offline: bool
) -> list[Score]:
    """On each task, and on the probability of all labels together (their product)."""
    inside = shadows.inside[:, rows]
    tasks = list(records.labels)
    targets = {task: own.log_p[task][0, rows] for task in tasks}
    others = {task: shadows.log_p[task][:, rows] for task in tasks}
    if len(tasks) > 1:
        missing = np.isnan(np.stack(list(targets.values()))).all(0)
        targets[TOGETHER] = np.where(missing, np.nan, sum(np.nan_to_num(targets[task]) for task in tasks))
        others[TOGETHER] = sum((np.nan_to_num(others[task]) for task in tasks), np.zeros_like(others[tasks[0]]))
    found = []
    for task, target in targets.items():
        ratio = log_ratio(target.astype(np.float64), others[task].astype(np.float64), inside, offline=offline)
        score = rmia(ratio, population=ratio[~records.member])
        found.append(Score(name, task, score, shadows=shadows.models))
    return found


def classifiers(
    probabilities: np.ndarray,
    shadows: Answers,
    records: Records,
    labels: np.ndarray,
    *,
    kind: shokri.Kind = "mlp",
    features: shokri.Features = "sorted",
    curve: bool = True,
    seed: int = 0,
) -> list[Score]:
    """The paper's attack on the main task, for each of its numbers of shadows."""
    task = records.main_task
    mine = shokri.attack_features(probabilities, records.labels[task], features=features)
    counts = sorted({count for count in shokri.SHADOW_COUNTS if curve and count < shadows.models} | {shadows.models})
    found = []
    for count in counts:
        x, y, member = shokri.pooled(
            shadows.features, labels[shadows.pool], shadows.inside[:, shadows.pool], shadows=count
        )
        models = shokri.fit(x, y, member, classes=len(records.classes[task]), kind=kind, seed=seed)
        scores = models.predict(mine, records.labels[task])
        found.append(Score("shadow classifiers", task, scores, shadows=count, threshold=0.5, decides=False))
    return found


def spread(shadows: Answers, records: Records, rows: np.ndarray, fprs: Sequence[float]) -> list[dict[str, Any]]:
    """Would another training run leak as much? Each of the auditor's shadows attacked by the help of the others."""
    figures: dict[str, list[list[float]]] = {}
    for number in range(shadows.models if shadows.models > 3 else 0):  # fewer have no pairs left to help
        own, others = shadows.only([number]), shadows.only([n for n in range(shadows.models) if n != number])
        member = shadows.inside[number, rows]
        turned = replace(records, member=member)
        scores = [one for one in online(own, others, turned, rows) if one.attack in ("LiRA online", "RMIA online")]
        loss = attacks.joint([own.log_p[task][0, rows].astype(np.float64) for task in records.labels])
        scores = [one for one in scores if one.task == TOGETHER or len(records.labels) == 1]
        for one in [*scores, Score("loss", TOGETHER, loss)]:
            kept = ~np.isnan(one.values)
            curve = metrics.roc(one.values[kept], member[kept])
            area = float(metrics.auc(one.values[kept], member[kept]))
            figures.setdefault(one.attack, []).append([area, *(metrics.tpr_at(curve, fpr) for fpr in fprs)])
    names = ["auc", *(f"{fpr:g}" for fpr in fprs)]
    return [
        {
            "attack": attack,
            "targets": len(values),
            **{
                name: {"mean": round(float(column.mean()), 6), "sd": round(float(column.std(ddof=1)), 6)}
                for name, column in zip(names, np.array(values).T, strict=True)
            },
        }
        for attack, values in figures.items()
    ]
