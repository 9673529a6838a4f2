"""Only reports that a gradient followed count as members: of shadows, attacked models and worlds alike.

Held out to stop by, and nothing stops early here: another label there changes no answer; one among the members does.
"""

from dataclasses import replace

import numpy as np
import pytest

from auditing.made import SMALL, encoded
from pathveil.auditing.all_attacks import classifiers
from pathveil.auditing.shadows import ShadowTrainer, jobs_of, train_here
from pathveil.auditing.worlds import logits_of_worlds, make_worlds
from pathveil.progress import silent
from pathveil.studies import membership
from pathveil.studies.membership import Attack, Fold, Words, attack, shadow_job, train_shadows, train_target
from pathveil.studies.store import Cells

CORPUS = encoded(120, registries=3, reports_a_case=2)
ROWS = np.arange(CORPUS.documents)
FOLD = Fold("R3", *(ROWS[CORPUS.registries == number] for number in range(3)))
WORDS = Words("all", np.arange(CORPUS.vocabulary_size, dtype=np.int32), CORPUS.vocabulary_size, "", "")
TARGET = {"unit": "target", "attacked": "site"}
STOPPING = SMALL.changed(validation_share=0.4)


def shadow_of_an_audit(corpus, folder, *, networks=1, **changes):
    jobs, settings = jobs_of(CORPUS, ROWS, count=1, seed=2), STOPPING.changed(**changes)
    store = ShadowTrainer(train_here, folder, networks=networks).train(corpus, jobs, settings, stage="")
    logits, inside = store.read(jobs[0], corpus.documents)
    return jobs[0].rows, inside, logits["site"]


def shadow_of_two_networks(corpus, folder):
    return shadow_of_an_audit(corpus, folder, networks=2)


def shadow_of_one_network_for_an_ensemble(corpus, folder):
    """The settings are the audited model's; the shadow is one network all the same, and has no linear view."""
    return shadow_of_an_audit(corpus, folder, members=2, linear=True)


def world(corpus, folder, **changes):
    settings, drawn = STOPPING.changed(**changes), make_worlds(corpus, worlds=2, seed=3)
    logits = logits_of_worlds(drawn, settings, seed=3)
    return np.flatnonzero(drawn.inside[1]), drawn.learned(settings, seed=3).inside[1], logits[1]["site"]


def world_of_two_networks(corpus, folder):
    return world(corpus, folder, members=2)


def world_with_a_linear_view(corpus, folder):
    return world(corpus, folder, linear=True)


def target_of_a_study(corpus, folder):
    kept = {}
    train_target(corpus, FOLD, WORDS, STOPPING, 5, "cpu", TARGET, lambda _, __, arrays: kept.update(arrays), silent)
    return FOLD.training, np.isin(ROWS, kept["members"]), kept["own-site"]


def shadow_of_a_study(corpus, folder):
    """What the study's attack takes for a shadow's members, read off what it hands to the attack models."""
    cells, seen, sizes = Cells(folder), [], {task: np.zeros(len(names)) for task, names in corpus.classes.items()}
    shadow = {"unit": "shadow", "attacked": "site"}
    train_target(corpus, FOLD, WORDS, STOPPING, 5, "cpu", TARGET, cells.write, silent)
    train_shadows(corpus, FOLD, WORDS, STOPPING, 5, "cpu", {0: shadow}, cells.write, silent)
    told = Attack("site", 1, (1,), (25,), training=sizes, settings=STOPPING, seed=5)

    def noting(features, said, *rest, **options):
        seen.append(said.inside[0])
        return classifiers(features, said, *rest, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(membership, "classifiers", noting)
        attack(corpus, str(folder), FOLD, told, "cpu", TARGET, [shadow], {"unit": "attack"}, cells.write, silent)
    return shadow_job(corpus, FOLD, 0, seed=5).rows, seen[0], cells.read(shadow)[1]["own-site"]


def relabelled(corpus, row):
    side = corpus.labels["side"]
    return replace(corpus, labels=corpus.labels | {"side": np.where(ROWS == row, 1 - side, side)})


@pytest.mark.parametrize(
    "trained",
    [
        shadow_of_an_audit,
        shadow_of_two_networks,
        shadow_of_one_network_for_an_ensemble,
        world,
        world_of_two_networks,
        world_with_a_linear_view,
        target_of_a_study,
        shadow_of_a_study,
    ],
)
def test_members_are_what_a_gradient_followed(trained, tmp_path):
    rows, inside, answers = trained(CORPUS, tmp_path / "a")
    assert set(np.flatnonzero(inside)) <= set(rows)
    without = rows[~inside[rows]]
    assert inside[rows].any() and bool(len(without)) == (trained is not world_with_a_linear_view)
    for number, row in enumerate([*without[:2], rows[inside[rows]][0]]):
        _, again, changed = trained(relabelled(CORPUS, row), tmp_path / f"b{number}")
        assert np.array_equal(again, inside)
        assert np.array_equal(changed, answers) == (not inside[row])
