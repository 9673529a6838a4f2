"""What an audit will train is counted as it will be trained."""

import numpy as np
import pytest

from auditing.made import encoded
from pathveil.auditing.model_audit import AuditedModel
from pathveil.auditing.plan import AuditPlan, PlannedFamily, planned_families
from pathveil.auditing.settings import AuditSettings
from pathveil.training.defences import TeacherSettings
from pathveil.training.settings import TrainingSettings

CORPUS = encoded(240, registries=3)
ROWS = np.arange(240)


def model(attacker, **settings):
    rows = {"members": ROWS[:80], "non_members": ROWS[80:160], "attacker": attacker}
    return AuditedModel(corpus=CORPUS, **rows, logits={}, settings=TrainingSettings(**settings), epochs=4)


def counted(families):
    return {family.name: (family.models, family.networks, family.teachers, family.reports) for family in families}


def test_families_with_an_attackers_corpus():
    families = planned_families(model(ROWS[160:]), AuditSettings(shadows=6, networks=2, canaries=20))
    assert counted(families) == {
        "the attacker's shadows": (6, 2, 0, 40),  # halves of 80
        "the auditor's shadows": (6, 2, 0, 80),  # halves of members and non-members together
        "the planted leak": (1, 2, 0, 80),
        "models with canaries": (6, 2, 0, 80),
    }


def test_without_one_a_null_control_is_trained_and_teachers_are_each_networks_own():
    defended = model(ROWS[:0], defence=TeacherSettings(teachers=5))
    families = planned_families(defended, AuditSettings(shadows=3, sampling="bootstrap"))
    assert counted(families) == {
        "the auditor's shadows": (3, 1, 5, 80),
        "the null control": (1, 1, 5, 40),
        "the planted leak": (1, 1, 0, 80),
    }
    assert [family.trained for family in families] == [18, 6, 1]


def test_the_plan_in_words():
    family = PlannedFamily(name="the auditor's shadows", models=3, networks=2, teachers=5, reports=1200)
    plan = AuditPlan(bundle="m", device="cpu", families=(family,), epochs=4, epoch_seconds=0.25, seconds=90)
    assert "3 models of 2 networks on 1,200 reports, each network with 5 teachers of its own" in str(plan)
    assert "36 networks in all" in str(plan) and "No audit was written." in str(plan)
    assert plan.rows()[0]["trained"] == 36 and plan.to_frame().height == 1
    with pytest.raises(ValueError):
        AuditPlan.model_validate(plan.to_dict() | {"families": [{"name": "x"}]})
