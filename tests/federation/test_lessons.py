"""Teachers at home: a site's lessons come from its own reports alone, in studies and over a network."""

from dataclasses import replace

import numpy as np
import pytest

from federation.protocol.test_hub_run import plan_of, reports, site_run
from pathveil.federation.lessons import each_taught_at_home, taught_at_home
from pathveil.federation.run import run, unseen_rows
from pathveil.federation.settings import FederationSettings
from training.corpora import encoded

pytestmark = pytest.mark.usefixtures("one_thread")
SETTINGS = FederationSettings(dim=6, filters=4, epochs=1, batch_size=12, teachers=3)
CORPUS = replace(encoded(60), registries=np.arange(60, dtype=np.int32) % 2, registry_names=("R1", "R2"))
SITES = [(number, np.flatnonzero(CORPUS.registries == number)) for number in (0, 1)]


def test_a_sites_lessons_know_nothing_of_another_site():
    lessons = each_taught_at_home(CORPUS, SITES, SETTINGS, seed=4)
    other = CORPUS.registries == 1
    shifted = {
        task: np.where(other & (label >= 0), (label + 1) % len(CORPUS.classes[task]), label)
        for task, label in CORPUS.labels.items()
    }
    again = each_taught_at_home(replace(CORPUS, labels=shifted), SITES, SETTINGS, seed=4)
    for task, label in CORPUS.labels.items():
        np.testing.assert_array_equal(lessons.labels[task][~other], again.labels[task][~other])
        assert (lessons.labels[task][other] != again.labels[task][other]).any()
        given = lessons.labels[task] >= 0
        assert given.any() and (lessons.labels[task] != label).any()
        assert (lessons.labels[task][given] == label[given]).all()  # a contradicted label is kept back


def test_without_teachers_labels_stay_and_a_run_with_them_is_another():
    plain = SETTINGS.changed(teachers=0)
    assert each_taught_at_home(CORPUS, SITES, plain, seed=4) is CORPUS
    unseen = unseen_rows(CORPUS, share=0.3, seed=1)
    kept = [run(CORPUS, mode="adversarial", settings=one, seed=1, unseen=unseen) for one in (plain, SETTINGS)]
    assert any((kept[0].shared[name] != kept[1].shared[name]).any() for name in kept[0].shared)
    assert [len(one.confidence.member) for one in kept] == [len(kept[0].confidence.member)] * 2


def test_a_site_over_a_network_learns_its_lessons_and_keeps_its_teachers(tmp_path):
    plan = plan_of("adversarial", teachers=3)
    site = site_run(plan, "B", tmp_path)
    own = reports(plan, "B")
    expected = taught_at_home(own, plan.settings, seed=plan.seed, registry=1)
    for task, label in expected.labels.items():
        np.testing.assert_array_equal(site.work.site.reports.labels[task], label)
        np.testing.assert_array_equal(site.reports.labels[task], own.labels[task])  # scores are held against labels
    assert len(list(site.folder.glob("teacher-*.npz"))) == 3  # a restart does not train them again


def test_two_teachers_are_too_few():
    with pytest.raises(ValueError, match="teachers is 0, or at least 3"):
        FederationSettings(teachers=2)
