"""What is recommended, from numbers whose right answer is known."""

from dataclasses import replace

import pytest

from pathveil.studies.combined import candidate, recommend_combination
from pathveil.studies.recommendation import Candidate, recommend, steps, vocabulary_candidates
from pathveil.studies.rows import Estimate
from pathveil.studies.tables import AttackRow, CombinedPoint, TaskScore

FOLDS = ("R1", "R2", "R3", "R4")


def made(name, words, macro, auc, *, half=0.02, tasks=("site",), folds=FOLDS, wobble=0.0, **lost):
    """A vocabulary with the same F1 in every task and fold, but for what is lost in a task or wobbles over folds."""
    wobbles = {fold: wobble * (-1) ** place for place, fold in enumerate(folds)}
    scores = {task: {fold: macro - lost.get(task, 0.0) + wobbles[fold] for fold in folds} for task in tasks}
    leaks = {fold: (auc + wobbles[fold], auc + wobbles[fold] - half, auc + wobbles[fold] + half) for fold in folds}
    return Candidate(name, words, scores, leaks)


def used(candidates, tolerated):
    found = recommend(candidates, tolerated=tolerated, kind="vocabulary")
    return found.use, found.sentence


def test_the_best_f1_among_those_that_pass_and_its_price():
    candidates = [made("B", 900, 0.70, 0.75), made("I3", 300, 0.60, 0.58), made("MI100", 100, 0.30, 0.52)]
    name, sentence = used(candidates, 0.6)
    assert name == "I3"
    assert sentence.startswith(
        "Where an attacker's AUC up to 0.6 is tolerated (0.5 is guessing), use I3 (300 words): macro F1 0.600"
    )
    assert "2 of 3 vocabularies pass, and it codes best of them" in sentence
    assert "The price is 0.100 of macro F1 beside B." in sentence
    assert sentence.endswith("Tolerating 0.770 allows B (macro F1 0.700).")
    assert used(candidates, 0.55)[0] == "MI100" and used(candidates, 0.8)[0] == "B"
    assert "price" not in used(candidates, 0.8)[1]


def test_where_none_passes_that_is_said_with_the_least_leaking_one():
    candidates = [made("B", 900, 0.70, 0.75), made("MI100", 100, 0.30, 0.54)]
    found = recommend(candidates, tolerated=0.55, kind="vocabulary")
    assert found.verdicts == {"B": "fail", "MI100": "not enough evidence"} and not found.within
    assert found.sentence.startswith(
        "No vocabulary passes where an attacker's AUC up to 0.55 is tolerated (0.5 is guessing): 1 fails and for 1 "
        "there is not enough evidence. The least leaking is MI100 (100 words): macro F1 0.300, AUC 0.540 (at most "
        "0.560)."
    )


def test_one_fold_above_is_enough_to_fail_and_one_upper_end_to_leave_it_open():
    leaks = {"R1": (0.52, 0.50, 0.54), "R2": (0.63, 0.61, 0.65)}
    assert Candidate("B", 9, {}, leaks).verdict(0.6) == "fail"
    assert Candidate("B", 9, {}, leaks | {"R2": (0.59, 0.57, 0.61)}).verdict(0.6) == "not enough evidence"
    assert Candidate("B", 9, {}, leaks).verdict(0.65) == "pass"


def test_of_vocabularies_that_cannot_be_told_apart_the_fewest_words_win():
    candidates = [made("B", 900, 0.70, 0.550), made("I2", 700, 0.71, 0.551), made("I3", 300, 0.695, 0.552)]
    name, sentence = used(candidates, 0.6)
    assert name == "I3"
    assert "B and I2 cannot be told from it and have no fewer words" in sentence and "price" not in sentence


def test_of_equals_in_f1_the_least_leak_comes_before_the_fewest_words():
    candidates = [made("B", 900, 0.70, 0.70), made("I3", 300, 0.70, 0.75)]
    name, sentence = used(candidates, 0.8)
    assert name == "B" and "I3 codes as well, but leaks more" in sentence


def test_a_difference_that_varies_over_folds_more_than_it_amounts_to_is_none():
    steady, shaky = made("B", 900, 0.70, 0.55), made("I3", 300, 0.66, 0.55, wobble=0.05, half=0.0)
    assert used([steady, shaky], 0.7)[0] == "I3"
    assert used([steady, made("I3", 300, 0.66, 0.55)], 0.7)[0] == "B"
    two = [made(*of, folds=FOLDS[:2]) for of in (("B", 900, 0.70, 0.55), ("I3", 300, 0.66, 0.55))]
    assert used(two, 0.7)[0] == "B"  # two folds have no interval to speak of: the margin decides


def test_a_task_that_is_lost_is_not_made_up_for_by_the_others():
    tasks = ("site", "behavior", "laterality")
    whole = made("I3", 900, 0.70, 0.60, tasks=tasks)
    without_sides = made("MI500", 300, 0.70, 0.55, tasks=tasks, laterality=0.12, behavior=-0.12)
    assert used([whole, without_sides], 0.65)[0] == "I3"
    name, sentence = used([whole, without_sides], 0.58)
    assert name == "MI500" and "0.120 in laterality" in sentence


def test_steps_are_all_that_appetites_can_lead_to():
    candidates = [made("B", 900, 0.70, 0.75), made("I3", 300, 0.60, 0.58), made("MI100", 100, 0.30, 0.52)]
    ladder = steps(candidates)
    assert [(round(step.tolerated, 3), step.use) for step in ladder] == [(0.54, "MI100"), (0.6, "I3"), (0.77, "B")]
    for step in ladder:
        assert used(candidates, step.tolerated)[0] == step.use


def test_a_vocabulary_leaks_what_any_attack_finds_on_all_classes_under_the_matched_protocol():
    def row(auc, **place):
        return AttackRow.model_construct(
            **{"strategy": "B", "fold": "R1", "protocol": "matched", "bucket": "all"} | place | auc
        )

    def measured(value):
        return {"auc": value, "ci": {"auc": [value - 0.02, value + 0.02]}}

    rows = [row(measured(0.6)), row(measured(0.65)), row(measured(0.9), protocol="cross-registry")]
    rows += [row(measured(0.8), bucket="< 25"), row({"suppressed": "too few cases"}), row(measured(0.5), fold="R2")]
    about = {"strategy": "B", "task": "site", "macro": 0.5, "size": 9}
    scores = [TaskScore.model_construct(attack_registry=fold, **about) for fold in FOLDS[:2]]
    (found,) = vocabulary_candidates(rows, scores)
    assert found.leaks == {"R1": pytest.approx((0.65, 0.63, 0.67)), "R2": pytest.approx((0.5, 0.48, 0.52))}
    assert found.scores == {"site": {"R1": 0.5, "R2": 0.5}} and found.words == 9
    scores.append(TaskScore.model_construct(attack_registry="R1", repeat=2, **about | {"macro": 0.7}))
    assert vocabulary_candidates(rows, scores)[0].scores == {"site": {"R1": pytest.approx(0.6), "R2": 0.5}}
    nothing = recommend([], tolerated=0.6, kind="vocabulary")
    assert nothing.to_dict() == {
        "sentence": "No vocabulary can be recommended: there are too few cases to attack one.",
        "steps": [],
    }


def test_combinations_are_chosen_the_same_way():
    def point(strategy, mode, size, macro, auc):
        leak = Estimate(value=auc, low=auc - 0.02, high=auc + 0.02)
        return CombinedPoint.model_construct(strategy=strategy, mode=mode, size=size, macro=macro, auc=leak)

    points = [point("B", "centralized", 900, 0.70, 0.57), point("B", "strong", 900, 0.75, 0.65)]
    points += [point("I3", "strong", 300, 0.69, 0.57)]
    found = recommend([*map(candidate, points)], tolerated=0.6, kind="combination")
    assert found.use == "I3 with strong training"
    assert "2 of 3 combinations pass" in found.sentence
    assert recommend_combination(points, tolerated=0.6) == found  # it pools nothing, and nothing more is to be said
    pooled = recommend_combination([*points[:2], point("I3", "strong", 300, 0.64, 0.57)], tolerated=0.6)
    assert pooled.use == "B with centralized training"
    assert pooled.sentence.endswith(
        " Where reports may not be pooled: I3 with strong training (300 words): "
        "macro F1 0.640, AUC 0.570 (at most 0.590)."
    )
    assert pooled.without_pooling is not None and pooled.without_pooling.use == "I3 with strong training"


def test_what_codes_no_better_than_the_commonest_code_is_never_recommended():
    """A model that has learnt nothing leaks nothing: it would pass every appetite."""
    empty = replace(made("MI5", 5, 0.10, 0.50), floor=0.10)
    useful = [replace(made("B", 900, 0.70, 0.75), floor=0.10), replace(made("I3", 300, 0.60, 0.58), floor=0.10)]
    found = recommend([*useful, empty], tolerated=0.6, kind="vocabulary")
    assert (found.use, found.within) == ("I3", True) and "MI5" not in [step.use for step in found.steps]
    assert "1 of 2 vocabularies pass" in found.sentence
    assert found.sentence.endswith("Not counted: MI5, which codes no better than always answering the commonest code.")
    assert [(one.name, one.floor) for one in found.candidates][-1] == ("MI5", 0.10)
    strict = recommend([*useful, empty], tolerated=0.55, kind="vocabulary")
    assert (strict.use, strict.within) == ("I3", False)  # and not the empty one, which leaks least
    none = recommend([empty], tolerated=0.6, kind="vocabulary")
    assert none.use is None and none.steps == [] and none.candidates[0].verdict == "pass"
    assert none.sentence.startswith(
        "No vocabulary can be recommended: the only one does not code better than always answering the commonest code, "
        "which has a macro F1 of 0.100 (the best here: 0.100)."
    )
    assert recommend([made("B", 900, 0.0, 0.5)], tolerated=0.6, kind="vocabulary").use is None  # nothing rightly


def test_a_page_of_a_run_in_which_nothing_codes_says_so():
    point = CombinedPoint(
        strategy="B", mode="adversarial", size=9, epoch=[1], micro=0.3, macro=0.2, floor=0.2,
        auc={"value": 0.5, "low": 0.45, "high": 0.55}, tpr_at_fpr={}, probe=None, at_cap=[False], front=True,
    )  # fmt: skip
    pooled = point.model_copy(update={"mode": "centralized"})
    for points in ([point], [pooled, point]):
        found = recommend_combination(points, tolerated=0.6)
        assert found.use is None and "No combination can be recommended" in found.sentence
    found = recommend_combination([pooled.model_copy(update={"macro": 0.4}), point], tolerated=0.6)
    told = "Where reports may not be pooled: none codes better than always answering the commonest code."
    assert found.use == "B with centralized training" and found.sentence.endswith(told)
    assert found.without_pooling.use is None
