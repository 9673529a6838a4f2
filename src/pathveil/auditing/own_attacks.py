"""Attacks of one's own: functions from an ``AttackInput`` to one score a record.

They are run like ours, on each task and on all together, and stand beside them in evidence, controls, verdict and page.

>>> records = Records(member=np.array([True, False]), cases=np.arange(2), labels={"site": np.array([0, 1])},
...                   classes={"site": ("C18", "C50")})
>>> probabilities = {"site": np.array([[0.9, 0.1], [0.4, 0.6]])}
>>> (mine,) = own_scores({"mine": lambda about: about.log_probability}, records, probabilities)
>>> mine.attack, mine.task, np.exp(mine.values).round(2).tolist()
('mine', 'site', [0.9, 0.6])
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pathveil.auditing import attacks
from pathveil.auditing.attack_names import ATTACKS
from pathveil.auditing.evidence import TOGETHER, Records, Score
from pathveil.auditing.model_answers import ModelAnswers
from pathveil.errors import UsageError


@dataclass(frozen=True)
class AttackInput:
    """What an attack of one's own is given of one task; records without a label have label −1 and NaN elsewhere.

    An audit from predictions alone has no shadows: the arrays about them are there, with no rows.
    """

    task: str
    labels: np.ndarray  # (records,) int
    probabilities: np.ndarray  # (records, classes) of the attacked model
    log_probability: np.ndarray  # (records,) of the label under the attacked model
    margin: np.ndarray  # (records,) log(p / (1 − p)) of the label
    shadow_log_probability: np.ndarray  # (shadows, records)
    shadow_margin: np.ndarray  # (shadows, records)
    inside: np.ndarray  # (shadows, records) bool: the shadow trained on the record


OwnAttack = Callable[[AttackInput], np.ndarray]  # one score a record, higher for members, NaN for none


def own_scores(
    own_attacks: Mapping[str, OwnAttack],
    records: Records,
    probabilities: Mapping[str, np.ndarray],
    *,
    shadows: ModelAnswers | None = None,
    rows: np.ndarray | None = None,
) -> list[Score]:
    """Attacks of one's own, on each task and on all together; scores of several tasks add up."""
    found = []
    count = len(records.member)
    for name, attack in own_attacks.items():
        if name in ATTACKS:
            raise UsageError(f"attack '{name}': is the name of one of ours; choose another")
        values = {}
        for task, answer in probabilities.items():
            labels, none = records.labels[task], np.zeros((0, count), np.float32)
            told = AttackInput(
                task=task,
                labels=labels,
                probabilities=answer,
                log_probability=attacks.loss_score(answer, labels),
                margin=attacks.confidence_margin(np.log(np.maximum(answer, attacks.SMALLEST)), labels),
                shadow_log_probability=none if shadows is None else shadows.log_p[task][:, rows],
                shadow_margin=none if shadows is None else shadows.margin[task][:, rows],
                inside=none.astype(bool) if shadows is None else shadows.inside[:, rows],
            )
            values[task] = _checked_scores(name, attack(told), count)
        if len(values) > 1:
            values[TOGETHER] = attacks.joint(list(values.values()))
        models = 0 if shadows is None else shadows.models
        found += [Score(name, task, score, shadows=models) for task, score in values.items()]
    return found


def _checked_scores(name: str, values: Any, count: int) -> np.ndarray:
    try:
        scores = np.asarray(values, np.float64)
    except (TypeError, ValueError):
        raise UsageError(f"attack '{name}': expected an array of numbers, got {type(values).__name__}") from None
    if scores.shape != (count,):
        raise UsageError(f"attack '{name}': expected one score for each of {count} records, got shape {scores.shape}")
    return np.where(np.isinf(scores), np.sign(scores) * np.finfo(np.float32).max, scores)
