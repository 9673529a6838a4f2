"""The audit of a model that can be trained again, on documents small enough to train a dozen models in a moment."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from auditing.made import SMALL, encoded
from pathveil.auditing.evidence import ALL, CONTROL, CROSS, MATCHED, TOGETHER, MeasuredRow
from pathveil.auditing.model_audit import AuditedModel, attack_model
from pathveil.auditing.settings import AuditSettings
from pathveil.auditing.shadows import ShadowTrainer, train_here
from pathveil.errors import UsageError
from pathveil.training.loop import fit, logits_of

SETTINGS = SMALL.changed(epochs=12)
FOUR, TWO = (AuditSettings(shadows=shadows, edges=(30,)) for shadows in (4, 2))


@cache
def made(trained: str = "members") -> AuditedModel:
    """Registry 1 holds members and unseen cases, registry 2 is the attacker's; the target trains on ``trained``."""
    corpus = encoded(480)
    home = np.flatnonzero(corpus.registries == 0)
    members, unseen = home[::2], home[1::2]
    foreign = np.flatnonzero(corpus.registries == 1)
    rows = {"members": members, "elsewhere": foreign}[trained]
    model = fit(corpus.take(rows), SETTINGS, seed=1).model
    return AuditedModel(
        corpus=corpus,
        members=members,
        non_members=np.concatenate([unseen, foreign]),
        attacker=foreign,
        logits=logits_of(model, corpus),
        settings=SETTINGS,
        epochs=12,
    )


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return tmp_path_factory.mktemp("store")


@pytest.fixture(scope="module")
def leaking(store):
    return attack_model(made(), ShadowTrainer(train_here, store), FOUR, fprs=(0.1,))


def pick(rows, **wanted):
    [row] = [row for row in rows if all(getattr(row, key) == value for key, value in wanted.items())]
    return row


def test_a_model_that_memorised_is_found_out(leaking):
    row = pick(leaking.rows, protocol=MATCHED, attack="RMIA online", task=TOGETHER, bucket=ALL, shadows=4)
    assert row.auc.low > 0.6
    assert {one.protocol for one in leaking.rows} == {MATCHED, CROSS, CONTROL}
    assert [control.kind for control in leaking.controls] == ["null", "planted"]
    assert all(control.holds for control in leaking.controls), leaking.controls
    assert {row.attack for row in leaking.spread} == {"loss", "LiRA online", "RMIA online"}


def test_a_model_that_never_saw_the_members_is_not_accused(store, leaking):
    blind = attack_model(made("elsewhere"), ShadowTrainer(never, store), FOUR, fprs=(0.1,))
    measured = [row for row in blind.rows if isinstance(row, MeasuredRow)]
    rows = [row for row in measured if row.protocol == MATCHED and row.bucket == ALL and row.decides]
    assert len(rows) >= 30
    inside = sum(row.auc.low <= 0.5 <= row.auc.high for row in rows)
    assert inside >= 0.8 * len(rows)
    assert max(row.tpr_at_fpr["0.1"].sure for row in rows) < 0.2


def never(corpus, jobs, settings, progress, stage):
    """Another target needs no other shadows: they are in the store."""
    raise AssertionError(f"{len(jobs)} models were trained again")


def test_without_an_attackers_corpus_the_null_model_is_made_of_unseen_cases(tmp_path):
    whole = made()
    home = whole.non_members[whole.corpus.registries[whole.non_members] == 0]
    alone = replace(whole, non_members=home, attacker=np.arange(0))
    found = attack_model(alone, ShadowTrainer(train_here, tmp_path), TWO, fprs=(0.1,))
    assert {row.protocol for row in found.rows} == {MATCHED}
    assert found.controls[0].holds and found.controls[0].attacks


def test_without_unseen_cases_of_the_members_registries_there_is_no_null_control(store):
    whole = made()
    foreign = replace(whole, non_members=whole.attacker)
    found = attack_model(foreign, ShadowTrainer(train_here, store), TWO, fprs=(0.1,))
    assert not found.controls[0].holds and "no unseen cases" in found.controls[0].name


def test_overlapping_sides_are_refused():
    whole = made()
    with pytest.raises(UsageError, match="cases are among the members and the non-members"):
        replace(whole, non_members=whole.members).check()
    with pytest.raises(UsageError, match="an attacker does not own those"):
        replace(whole, attacker=whole.members[:3]).check()
    with pytest.raises(UsageError, match="need 1500 cases; there are 480"):
        whole.check(canaries=500)
    with pytest.raises(UsageError, match="this audit cannot have any"):
        replace(whole, settings=FOUR).check(canaries=20)
    with pytest.raises(UsageError, match="at least 20 cases of non-members"):
        replace(whole, non_members=whole.non_members[:5]).check()


def test_a_target_that_stopped_early_has_shadows_of_as_many_epochs():
    whole = replace(made(), settings=SETTINGS.changed(patience=3, validation_share=0.1), epochs=7)
    assert whole.shadow_settings.epochs == 7 and whole.shadow_settings.validation_share == 0
    assert replace(whole, epochs=None).shadow_settings == whole.settings
