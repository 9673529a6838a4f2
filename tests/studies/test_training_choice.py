"""Which way of training is recommended, and by what it is judged."""

import pytest

from pathveil.studies.training_choice import (
    beside_known,
    given_away,
    macro_by_mode,
    recommend_training,
    training_on_offer,
)
from studies.test_answer import attack, score


def test_what_leaves_a_registry_is_judged_and_nothing_else():
    assert given_away("fedavg", {}) == "model" and given_away("adversarial", {}) == "encoder"
    assert given_away("mine", {"mine": "cyclic"}) == "model" and given_away("mine", {"mine": "strong"}) == "encoder"
    scores = [score("fedavg", 0.7), score("adversarial", 0.8)]
    attacks = [
        attack("fedavg", "as trained", 0.55, 0.58),
        attack("fedavg", "encoder, public head", 0.9, 0.95),  # of an encoder that nobody gives away
        attack("adversarial", "as trained", 0.52, 0.55),  # of a model that stays at home
        attack("adversarial", "encoder, public head", 0.8, 0.85),
    ]
    found = recommend_training(scores, attacks, [], arms={}, words=900, tolerated=0.6)
    leaks = {step.name: step.auc.value for step in found.candidates}
    assert leaks == {"fedavg": 0.55, "adversarial": 0.8}
    assert "adversarial codes best: macro F1 0.800" in found.sentence and "AUC of 0.800" in found.sentence


def test_pooled_reports_single_registries_and_ablations_are_not_on_offer():
    scores = [score(mode, 0.5) for mode in ("centralized", "single", "no-adversary", "strong", "mine")]
    assert training_on_offer(scores, {"mine": "strong"}) == ["strong", "mine"]
    assert training_on_offer(scores, {}) == ["strong"]
    assert beside_known(scores) == ["0.500 centrally", "0.500 each alone"]
    none = recommend_training(scores[:2], [], [], arms={}, words=900, tolerated=0.6)
    assert none.sentence == "" and none.steps == []


def test_a_modes_f1_is_the_mean_over_registries_tasks_and_seeds():
    scores = [score("strong", 0.4), score("strong", 0.8), score("single", 0.1)]
    assert macro_by_mode(scores) == pytest.approx({"strong": 0.6, "single": 0.1})
