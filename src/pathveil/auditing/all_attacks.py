"""All attacks on one model: those that need only its answers, those that compare it with shadow models, one's own.

Two families of shadows serve two kinds of adversary. The *attacker's* shadows know none of the attacked records: they
train on halves of a corpus of the attacker's own (the paper's left-out registry), and serve the paper's classifiers and
the offline attacks. The *auditor's* shadows train on halves of the attacked records themselves, so that every record is
in half of them: the online attacks, the strongest known, which a registry can run against itself and an outsider
hardly can. Where one family is missing, the other stands in as far as it can.

A model may be taught something else than the true code (by teachers that answer for it, or because it gives in to the
text), so the online attacks ask twice: about the true code, and about the *taught code*, the one that shadows which saw
the record answer most often.

>>> doubling(20), doubling(3)
((2, 4, 8, 16, 20), (2, 3))
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from pydantic import ConfigDict, Field

from pathveil.auditing import attacks, metrics, shokri
from pathveil.auditing.attack_names import (
    CLASSIFIERS,
    LABEL_ONLY,
    LABEL_WITH_SHADOWS,
    LIRA_OFFLINE,
    LIRA_ONLINE,
    LIRA_OUT_MODELS,
    LOSS,
    RMIA_OFFLINE,
    RMIA_ONLINE,
    TAUGHT,
    TAUGHT_VARIANCES,
    VARIANCES,
)
from pathveil.auditing.evidence import TOGETHER, Records, Score
from pathveil.auditing.lira import Variance, lira, lira_offline
from pathveil.auditing.model_answers import Logits, ModelAnswers, answers_of
from pathveil.auditing.own_attacks import OwnAttack, own_scores
from pathveil.auditing.rmia import log_ratio, softened, tuned
from pathveil.auditing.settings import AuditSettings
from pathveil.results import Part

THRESHOLD = 0.5  # of the paper's classifiers: the chance of membership from which on they say "member"


def doubling(models: int) -> tuple[int, ...]:
    """Numbers of shadows to show a curve over: 2, 4, 8, … and all of them."""
    steps = [2**power for power in range(1, 12) if 2**power < models]
    return (*steps, models)


def shadowless_attacks(
    records: Records, probabilities: Mapping[str, np.ndarray], *, seed: int = 0, known: np.ndarray | None = None
) -> list[Score]:
    """Every attack that needs only the model's answers, on each task and on all together.

    ``known`` stands in for the true membership where an attack learns (the controls permute it).
    """
    member = records.member if known is None else known
    by_task: dict[str, list[Score]] = {}
    for task, answer in probabilities.items():
        labels = records.labels[task]
        modified = attacks.modified_entropy_score(answer, labels)
        risk = _privacy_risk(modified, labels, member, records.cases, seed=seed)
        by_task[task] = [
            Score(LOSS, task, attacks.loss_score(answer, labels)),
            Score("entropy", task, attacks.entropy_score(answer, labels)),
            Score("modified entropy", task, modified),
            Score("privacy risk", task, risk, threshold=0.5, learns=True),
            Score(LABEL_ONLY, task, attacks.label_score(answer, labels), threshold=1.0, label_only=True),
        ]
    scores = [one for found in by_task.values() for one in found]
    if len(by_task) > 1:
        scores += [_together(same) for same in zip(*by_task.values(), strict=True)]
    return scores


def _together(same: Sequence[Score]) -> Score:
    """One attack over all tasks: log-odds of risk scores add up, the other scores as they are."""
    values = [one.values for one in same]
    if same[0].learns:
        odds = attacks.joint([np.log(value / (1 - value)) for value in values])
        return replace(same[0], task=TOGETHER, values=1 / (1 + np.exp(-odds)))
    return replace(same[0], task=TOGETHER, values=attacks.joint(values), threshold=None)


def _privacy_risk(
    scores: np.ndarray, labels: np.ndarray, member: np.ndarray, cases: np.ndarray, *, seed: int
) -> np.ndarray:
    """The privacy risk score, each half of the cases judged by histograms of the other half."""
    found = np.full(len(scores), np.nan)
    for learn, use in metrics.halves(cases, seed=seed):
        if not np.isnan(scores[learn]).all():
            found[use] = attacks.privacy_risk_score(
                scores[use],
                labels[use],
                known_scores=scores[learn],
                known_labels=labels[learn],
                known_member=member[learn],
            )
    return found


def all_scores(
    target: Logits,
    records: Records,
    rows: np.ndarray,
    *,
    labels: Mapping[str, np.ndarray],
    attacker: ModelAnswers | None = None,
    auditor: ModelAnswers | None = None,
    taught: Mapping[str, np.ndarray] | None = None,
    own_attacks: Mapping[str, OwnAttack] | None = None,
    settings: AuditSettings | None = None,
    curve: bool = True,
) -> list[Score]:
    """Every attack on every task and on all together.

    ``target``: the attacked model's logits on all documents; ``rows``: the documents that ``records`` describes;
    ``labels``: of all documents; ``taught``: the codes that ``auditor.taught`` is about. With ``curve`` also with fewer
    shadows, for all tasks together.
    """
    settings = settings or AuditSettings()
    probabilities = {task: np.exp(attacks.log_softmax(target[task][rows])) for task in records.labels}
    found = shadowless_attacks(records, probabilities, seed=settings.seed)
    main = records.main_task
    nobody = np.zeros(len(labels[main]), bool)
    own = answers_of([(target, nobody)], labels, taught=taught)
    if auditor is not None and auditor.models > 1:
        found += online(own, auditor, records, rows, out_models=attacker is not None)
        if curve:
            found += _with_fewer_shadows(own, auditor, records, rows, online)
    outside = attacker or auditor
    if outside is not None:
        found += offline(own, outside, records, rows)
        if curve:
            found += _with_fewer_shadows(own, outside, records, rows, offline)
        seen = shokri.attack_features(probabilities[main], records.labels[main], features=settings.attack_features)
        counts = {count for count in shokri.SHADOW_COUNTS if curve and count < outside.models} | {outside.models}
        found += classifiers(
            seen, outside, records, labels[main], counts=sorted(counts), kind=settings.attack_model, seed=settings.seed
        )
    return found + own_scores(own_attacks or {}, records, probabilities, shadows=auditor or attacker, rows=rows)


def _with_fewer_shadows(
    own: ModelAnswers,
    shadows: ModelAnswers,
    records: Records,
    rows: np.ndarray,
    attack: Callable[[ModelAnswers, ModelAnswers, Records, np.ndarray], list[Score]],
) -> list[Score]:
    """The same attack with fewer shadows, all tasks together, to draw a curve and not to decide."""
    found = []
    for models in doubling(shadows.models)[:-1]:
        scores = overall(attack(replace(own, taught=None), shadows.only(slice(0, models)), records, rows))
        found += [replace(one, decides=False, whole_only=True) for one in scores if not one.label_only]
    return found


def overall(scores: Sequence[Score]) -> list[Score]:
    """The scores of all tasks together; of the only task where there is one."""
    return [one for one in scores if one.task == TOGETHER] or list(scores)


def online(
    own: ModelAnswers, shadows: ModelAnswers, records: Records, rows: np.ndarray, *, out_models: bool = False
) -> list[Score]:
    """LiRA with each kind of variance, RMIA and the label alone, from shadows of which half saw each record; once more
    about the taught codes. With ``out_models`` also LiRA from those that did not, as ``offline`` has it."""
    found = []
    for variance, name in VARIANCES.items():
        found += lira_scores(name, own, shadows, records, rows, variance=variance)
    if out_models:
        found += lira_scores(LIRA_OUT_MODELS, own, shadows, records, rows, variance="shrunk", offline=True)
    found += [*rmia_scores(own, shadows, records, rows), *label_scores(own, shadows, records, rows)]
    if own.taught is not None and shadows.taught is not None:
        asked = own.taught, shadows.taught, records, rows
        again = lira_scores(LIRA_OUT_MODELS, *asked, variance="shrunk", offline=True)
        for variance in TAUGHT_VARIANCES:
            again += lira_scores(VARIANCES[variance], *asked, variance=variance)
        again += [*rmia_scores(*asked), *label_scores(*asked)]
        found += [replace(one, attack=one.attack + TAUGHT) for one in again]
    return found


def offline(own: ModelAnswers, shadows: ModelAnswers, records: Records, rows: np.ndarray) -> list[Score]:
    """LiRA and RMIA from the shadows that did not see a record."""
    lira_found = lira_scores(LIRA_OFFLINE, own, shadows, records, rows, variance="shrunk", offline=True)
    return lira_found + rmia_scores(own, shadows, records, rows, offline=True)


def lira_scores(
    name: str,
    own: ModelAnswers,
    shadows: ModelAnswers,
    records: Records,
    rows: np.ndarray,
    *,
    variance: Variance,
    offline: bool = False,
) -> list[Score]:
    """LiRA on each task and, added up, on all together."""
    attack, inside = (lira_offline if offline else lira), shadows.inside[:, rows]
    values = {
        task: attack(own.margin[task][0, rows], shadows.margin[task][:, rows], inside, variance=variance)
        for task in records.labels
    }
    return _added_up(name, values, shadows.models)


def label_scores(own: ModelAnswers, shadows: ModelAnswers, records: Records, rows: np.ndarray) -> list[Score]:
    """Whether the top label is right, less how often it is by shadows that did not see the record."""
    outside = ~shadows.inside[:, rows]
    values = {}
    for task in records.labels:
        usual = np.where(outside, shadows.right[task][:, rows], np.nan)
        known = ~np.isnan(usual)
        share = np.where(known, usual, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
        values[task] = np.where(known.any(axis=0), own.right[task][0, rows] - share, np.nan).astype(np.float64)
    return [replace(one, label_only=True) for one in _added_up(LABEL_WITH_SHADOWS, values, shadows.models)]


def _added_up(name: str, values: Mapping[str, np.ndarray], models: int) -> list[Score]:
    """Scores whose sum over tasks is that of all tasks together."""
    found = dict(values)
    if len(values) > 1:
        found[TOGETHER] = attacks.joint(list(values.values()))
    return [Score(name, task, score, shadows=models, adds_up=True) for task, score in found.items()]


def rmia_scores(
    own: ModelAnswers,
    shadows: ModelAnswers,
    records: Records,
    rows: np.ndarray,
    *,
    offline: bool = False,
    precision: type[np.floating] = np.float64,
) -> list[Score]:
    """RMIA's log-ratios on each task, and of the probability of all labels together (their product).

    It is tuned on the documents that the shadows were drawn from. ``precision``: in which shadows' probabilities are
    averaged.
    """
    tasks = list(records.labels)
    found = []
    for name, asked in [*((task, [task]) for task in tasks), *([(TOGETHER, tasks)] if len(tasks) > 1 else [])]:
        known = [shadows.log_p[task][:, shadows.pool] for task in asked]
        chosen = tuned(known, shadows.inside[:, shadows.pool], offline=offline)
        target, others = (
            attacks.joint([softened(said.astype(kind), chosen.temperature) for said in told])
            for kind, told in (
                (np.float64, [own.log_p[task][0, rows] for task in asked]),
                (precision, [shadows.log_p[task][:, rows] for task in asked]),
            )
        )
        ratio = log_ratio(target, others, shadows.inside[:, rows], offline=offline, a=chosen.a)
        attack = RMIA_OFFLINE if offline else RMIA_ONLINE
        found.append(Score(attack, name, ratio, shadows=shadows.models, adds_up=True))
    return found


def classifiers(
    target: np.ndarray,  # (records, features) of the attacked model's answers on the main task
    shadows: ModelAnswers,
    records: Records,
    labels: np.ndarray,  # (documents,) of the main task
    *,
    counts: Sequence[int],
    task: str | None = None,
    kind: shokri.Kind = "mlp",
    seed: int = 0,
    device: str = "cpu",
) -> list[Score]:
    """The paper's attack on the main task (or ``task``), for each number of shadows."""
    task = task or records.main_task
    found = []
    for count in counts:
        x, y, member = shokri.pooled(
            shadows.features, labels[shadows.pool], shadows.inside[:, shadows.pool], shadows=count
        )
        models = shokri.fit(x, y, member, classes=len(records.classes[task]), kind=kind, seed=seed, device=device)
        scores = models.predict(target, records.labels[task])
        found.append(Score(CLASSIFIERS, task, scores, shadows=count, threshold=THRESHOLD, decides=False))
    return found


class Spread(Part):
    """Mean and standard deviation over several targets."""

    mean: float
    sd: float


class SpreadRow(Part):
    """How much one attack's figures differ from target to target; beside the AUC the TPR at each FPR, by its name."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Spread] = Field(init=False)  # ty: ignore[incompatible-mutable-override]

    attack: str
    targets: int
    auc: Spread


def spread(shadows: ModelAnswers, records: Records, rows: np.ndarray, fprs: Sequence[float]) -> list[SpreadRow]:
    """Would another training run leak as much? Each of the auditor's shadows attacked by the help of the others."""
    figures: dict[str, list[list[float]]] = {}
    for number in range(shadows.models if shadows.models > 3 else 0):  # fewer have no pairs left to help
        own, others = shadows.only([number]), shadows.only([n for n in range(shadows.models) if n != number])
        own = replace(own, taught=None)  # whose votes have chosen the taught codes
        member = shadows.inside[number, rows]
        turned = replace(records, member=member)
        compared = [one for one in online(own, others, turned, rows) if one.attack in (LIRA_ONLINE, RMIA_ONLINE)]
        loss = attacks.joint([own.log_p[task][0, rows].astype(np.float64) for task in records.labels])
        for one in [*overall(compared), Score(LOSS, TOGETHER, loss)]:
            kept = ~np.isnan(one.values)
            curve = metrics.roc(one.values[kept], member[kept])
            area = float(metrics.auc(one.values[kept], member[kept]))
            figures.setdefault(one.attack, []).append([area, *(metrics.tpr_at(curve, fpr) for fpr in fprs)])
    names = ["auc", *(f"{fpr:g}" for fpr in fprs)]
    return [
        SpreadRow.model_validate(
            {"attack": attack, "targets": len(values)}
            | {
                name: Spread(mean=round(float(column.mean()), 6), sd=round(float(column.std(ddof=1)), 6))
                for name, column in zip(names, np.array(values).T, strict=True)
            }
        )
        for attack, values in figures.items()
    ]
