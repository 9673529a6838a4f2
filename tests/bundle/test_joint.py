"""The joint decision against a search through all combinations."""

from itertools import product

import numpy as np
import pytest

from pathveil.bundle.joint import RULES, Rules, choose_together
from pathveil.errors import UsageError
from pathveil.icdo.combinations import find_contradictions

LABELS = {
    "site": ("C50", "C61", "C18", "left over"),
    "subsite": ("C50.4", "C50.9", "C61.9", "C18.7"),
    "laterality": ("left", "not_paired", "midline"),
    "histology": ("8500", "8140", "9440"),
    "behavior": ("3", "2"),
    "grade": ("1", "2"),
}
KINDS = {"subsite": ("site", "subsite"), "histology": ("subsite", "histology", "behavior")}
KINDS["laterality"] = ("subsite", "laterality")


def best_of_all(logs, row, rules, labels):
    """Every combination of the tasks, those that break a rule left out."""
    tasks, best = list(labels), (-np.inf, None)
    for classes in product(*(range(len(labels[task])) for task in tasks)):
        codes = {task: labels[task][label] for task, label in zip(tasks, classes, strict=True)}
        broken = {one.tasks for one in find_contradictions(codes)}
        if not broken & {KINDS[rule] for rule in rules}:
            total = sum(logs[task][row, label] for task, label in zip(tasks, classes, strict=True))
            best = max(best, (total, classes))
    return dict(zip(tasks, best[1], strict=True))


@pytest.mark.parametrize("rules", [RULES, ("subsite",), ("histology", "laterality")])
def test_the_best_valid_combination_is_found(rules):
    rng = np.random.default_rng(1)
    logs = {task: np.log(rng.dirichlet(np.full(len(names), 0.4), 12)) for task, names in LABELS.items()}
    alone = {task: one.argmax(1) for task, one in logs.items()}
    tables = Rules.of(LABELS, rules)
    together = choose_together(alone, logs, tables)
    assert tables.allow(together).all() and not tables.allow(alone).all()
    for row, fits in enumerate(tables.allow(alone)):
        expected = {task: classes[row] for task, classes in alone.items()}
        if not fits:
            expected = best_of_all(logs, row, rules, LABELS)
        assert {task: classes[row] for task, classes in together.items()} == expected


def test_models_with_fewer_tasks():
    for tasks in (("grade",), ("site",), ("site", "histology"), ("histology", "laterality"), ("subsite", "laterality")):
        labels = {task: LABELS[task] for task in tasks}
        logs = {task: np.log(np.full((2, len(names)), 1 / len(names))) for task, names in labels.items()}
        tables = Rules.of(labels, RULES)
        assert tables.allow(choose_together({task: one.argmax(1) for task, one in logs.items()}, logs, tables)).all()


def test_where_nothing_is_allowed_each_task_keeps_its_own():
    labels = {"site": ("C50",), "subsite": ("C61.9",)}
    logs = {task: np.zeros((1, 1)) for task in labels}
    alone = {task: np.zeros(1, int) for task in labels}
    assert choose_together(alone, logs, Rules.of(labels)) == alone
    with pytest.raises(UsageError, match="'side' is not known; expected of subsite, histology"):
        Rules.of(labels, ["side"])
