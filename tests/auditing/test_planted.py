"""Canaries in an audit: what a model learned by heart is told from what it did not, kind by kind."""

import numpy as np
import pytest

from auditing.made import SMALL, audit_of_predictions, encoded
from pathveil.auditing.attacks import confidence_margin, log_softmax, of_label
from pathveil.auditing.metrics import auc
from pathveil.auditing.model_answers import taught_codes
from pathveil.auditing.page import render, strongest_on_canaries
from pathveil.auditing.planted import RARE_CASES, measure_canaries
from pathveil.auditing.settings import AuditSettings
from pathveil.auditing.shadows import ShadowTrainer, train_here
from pathveil.auditing.worlds import (
    CANARIES,
    DUPLICATED,
    MISLABELLED,
    ONE_TASK,
    TaughtCodes,
    attack_world,
    make_worlds,
    world_answers,
)
from pathveil.errors import UsageError


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    trainer = ShadowTrainer(train_here, tmp_path_factory.mktemp("store"))
    return measure_canaries(encoded(300), SMALL.changed(epochs=25), trainer, canaries=30, models=6, seed=0)


def test_planted_labels_are_learned_by_heart_and_found(rows):
    best = {kind: max((row for row in rows if row.kind == kind), key=lambda row: row.auc) for kind in CANARIES}
    assert best[MISLABELLED].auc > 0.8 and best[DUPLICATED].auc > best[MISLABELLED].auc - 0.05
    assert best[ONE_TASK].auc > 0.7
    for row in rows:
        assert 0 <= row.sure <= row.low <= row.auc <= row.high <= 1 and row.models == 6
        assert row.kind == RARE_CASES or row.canaries == 30
    assert {row.attack for row in rows if row.label_only} == {
        "label only, with shadows", "label only, with shadows, taught code",
    }  # fmt: skip


def test_nothing_is_found_where_answers_do_not_depend_on_membership():
    worlds = make_worlds(encoded(300), worlds=8, test_share=0.0, canaries=30, seed=1)
    rng = np.random.default_rng(0)
    shape = worlds.inside.shape
    arrays = {}
    for task in worlds.corpus.tasks:
        logits = rng.normal(size=(*shape, len(worlds.corpus.classes[task])))
        codes = arrays[f"code {task}"] = logits.argmax(axis=2)
        taught = TaughtCodes.of(worlds, {task: codes})
        for name, asked in (("own", worlds.labels), ("taught", taught.first), ("second", taught.second)):
            arrays[f"{name} {task}"] = of_label(log_softmax(logits), asked[task])
            arrays[f"{name} margin {task}"] = confidence_margin(logits, asked[task])
    answers, every = world_answers(worlds, arrays), np.flatnonzero(worlds.canary >= 0)
    areas: dict[str, list[float]] = {}
    for world in range(8):
        for one in attack_world(worlds, answers, world, every):
            known = ~np.isnan(one.values)
            areas.setdefault(one.attack, []).append(float(auc(one.values[known], worlds.inside[world, every][known])))
    assert len(areas) == 12
    for attack, values in areas.items():
        assert abs(np.mean(values) - 0.5) < 0.03, attack  # 0.62 where the attacked model's own vote is counted


def test_a_model_has_no_vote_on_what_it_was_taught():
    worlds = make_worlds(encoded(60), worlds=5, test_share=0.0, seed=0)
    rng = np.random.default_rng(0)
    codes = {"site": rng.integers(0, 3, worlds.inside.shape)}
    found = TaughtCodes.of(worlds, codes)
    for world in range(5):
        others = np.arange(5) != world
        models = [({"site": codes["site"][number]}, worlds.inside[number]) for number in np.flatnonzero(others)]
        alone = taught_codes(models, {"site": worlds.labels["site"]}, worlds.corpus.classes)["site"]
        mixed = np.where(found.swapped["site"][world], found.second["site"], found.first["site"])
        np.testing.assert_array_equal(mixed, alone)


def test_the_page_shows_the_strongest_attack_on_each_kind(rows):
    audit = audit_of_predictions().model_copy(update={"canaries": tuple(rows)})
    shown = strongest_on_canaries(audit)
    assert [row.kind for row in shown][: len(CANARIES)] == list(CANARIES)
    page = render(audit)
    assert "The most exposed reports: canaries" in page and f"{shown[0].auc:.3f}" in page
    assert "The most exposed reports" not in render(audit_of_predictions())


def test_canaries_too_few_or_too_many_are_refused():
    with pytest.raises(UsageError, match="at least 20"):
        AuditSettings().changed(canaries=5)
    with pytest.raises(UsageError, match="need as many cases"):
        make_worlds(encoded(100), worlds=2, test_share=0.0, canaries=50, seed=0)
