"""The first paragraph: right about appetite, about what travels, and about what it rests on."""

import pytest

from pathveil.studies.answer import answer_on_training, reasons
from pathveil.studies.result import StudyResult
from pathveil.studies.tables import DistributionResult, MembershipRow, ProbeRow, RegistryScore
from pathveil.studies.training_choice import WHOLE, recommend_training


def score(mode: str, macro: float) -> RegistryScore:
    f1 = {"value": macro, "low": macro, "high": macro}
    place = {"registry": "R1", "mode": mode, "seed": 1, "task": "site", "documents": 20, "cases": 20}
    return RegistryScore(**place, micro=f1, macro=f1)


def attack(mode: str, model: str, auc: float, high: float) -> MembershipRow:
    leak = {"value": auc, "low": auc - 0.02, "high": high}
    counts = dict.fromkeys(("n_members", "n_non_members", "member_cases", "non_member_cases"), 20)
    figures = {"report_accuracy": leak, "balanced_accuracy": leak, "auc": leak}
    return MembershipRow(mode=mode, seed=1, model=model, attack="loss", **counts, **figures)


def study_of(modes: dict, *, tolerated: float = 0.6, arms=(), probes=()) -> DistributionResult:
    """A distribution study of modes: macro F1, and the AUC of what is given away with its upper end."""
    arms, attacks = dict(arms), []
    for mode, (_, auc, high) in modes.items():
        for model in ("as trained", "encoder, public head"):
            right = (model == "as trained") is (arms.get(mode, mode) in WHOLE)
            attacks.append(attack(mode, model, *((auc, high) if right else (0.9, 0.95))))
    scores = [score(mode, macro) for mode, (macro, _, _) in modes.items()]
    found = recommend_training(scores, attacks, probes, arms=arms, words=900, tolerated=tolerated)
    settings = {"tolerated": tolerated, "arms": {arm: {"mode": mode} for arm, mode in arms.items()}}
    rows = {"scores": scores, "membership": attacks, "probe": [*probes], "per_class": [], "classes": [], "traffic": []}
    about = {"corpus_sha256": "0" * 64, "reports": 1, "registries": {}, "text": ""}
    judged = {"findings": [], "findings_of_strong": [], "warnings": []}
    return DistributionResult(
        study="distribution", settings=settings, provenance=about, recommendation=found, **rows, **judged
    )


MODES = {
    "single": (0.3, 0.5, 0.5),
    "centralized": (0.7, 0.6, 0.6),
    "strong": (0.5, 0.55, 0.58),
    "fedavg": (0.6, 0.62, 0.65),
}


def test_training_is_chosen_by_appetite():
    told = answer_on_training(study_of(MODES), first=True)
    assert told.startswith("Where an attacker's AUC up to 0.6 is tolerated (0.5 is guessing), train strong")
    assert "(macro F1 0.500 beside 0.700 centrally and 0.300 each alone; AUC of its encoder at most 0.580)" in told
    assert told.endswith("; tolerating 0.650 allows fedavg (0.600).")
    wide = answer_on_training(study_of(MODES, tolerated=0.7), first=False)
    assert wide.startswith("Where 0.7 is tolerated, train fedavg") and "AUC of its model at most 0.650" in wide
    none = answer_on_training(study_of(MODES, tolerated=0.51), first=False)
    assert none.startswith("No training without shared reports surely keeps to 0.51; strong leaks least (")
    steps = study_of(MODES).recommendation.steps
    assert [(step.tolerated, step.use) for step in steps] == [(0.58, "strong"), (0.65, "fedavg")]


def test_the_reasons_compare_the_best_training_that_shares_no_reports():
    probe = ProbeRow(
        mode="strong", seed=1, linear=0.7, mlp=0.72, chance=0.5, label=0.65, norm=1.0, documents=50, head={}
    )
    modes = {"single": 0.3, "centralized": 0.5, "strong": 0.48, "cyclic": 0.4}
    scores = [score(mode, macro) for mode, macro in modes.items()]

    def sentence(scores) -> str:
        return recommend_training(scores, [], [probe], arms={}, words=900, tolerated=0.6).sentence

    told = sentence(scores)
    assert told.startswith("Of the ways that share no reports, strong codes best: macro F1 0.480 (0.500 centrally and")
    assert "72% of reports" in told and "65%" in told
    assert sentence([*scores, score("no-adversary", 0.6)]) == told  # an ablation is not on offer
    assert sentence([score("single", 0.3)]) == ""


@pytest.mark.parametrize(
    ("mode", "thing", "auc"),
    [
        ("strong", "encoder", "0.530"),
        ("adversarial", "encoder", "0.530"),
        ("fedavg", "model", "0.610"),
        ("cyclic", "model", "0.610"),
        ("own", "model", "0.610"),  # an arm of fedavg's
    ],
)
def test_the_leak_that_is_told_is_that_of_what_travels(mode, thing, auc):
    """Of shared/private training the encoder leaves the sites; of fedavg and cyclic the whole model does."""
    attacks = [attack(mode, "as trained", 0.61, 0.62), attack(mode, "encoder, public head", 0.53, 0.54)]
    arms = {"own": "fedavg"}
    found = recommend_training([score(mode, 0.5)], attacks, [], arms=arms, words=900, tolerated=0.6)
    assert f"who has its {thing} tells members with an AUC of {auc}" in found.sentence


def test_what_a_study_warns_of_is_in_the_answer_by_its_kind():
    warnings = [
        {"kind": "words not agreed", "text": "mind these words"},
        {"kind": "last epoch", "text": "raise epochs"},
    ]
    study = study_of(MODES)
    result = StudyResult.of_one(DistributionResult(**study.to_dict() | {"warnings": warnings}))
    assert str(result).endswith("Mind these words.")  # epochs are counted from the rows, and here are none
    assert reasons(result)[-1] == (
        "Of the distribution study: mind these words. Of the distribution study: raise epochs."
    )
