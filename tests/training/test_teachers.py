"""Teachers: a report's lesson comes from models that never saw it, and a shadow has the same defence."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pathveil.errors import UsageError
from pathveil.training.defences import TeacherSettings
from pathveil.training.ensemble import train
from pathveil.training.loop import fit, logits_of
from pathveil.training.settings import TrainingSettings
from pathveil.training.stacked import logits_many
from pathveil.training.teachers import choose_codes, deal, lessons_many, teach, teacher_settings
from pathveil.vocabulary.encoded import join_documents
from training.corpora import encoded

SMALL = TrainingSettings(
    dim=8, filters=6, batch_size=16, learning_rate=0.02, epochs=2, defence=TeacherSettings(teachers=3, unseen=2)
)

ALL_CODES = SMALL.changed(defence=SMALL.defence.changed(contradicted="any"))
# A lift reads how often all teachers name a code, those of other cases too: a near tie may fall otherwise with it.
UNLIFTED = ALL_CODES.changed(defence=ALL_CODES.defence.changed(lift=0.0))


@pytest.fixture(scope="module")
def corpus():
    return encoded(50, reports_a_case=2, missing=0.1)


@pytest.fixture(autouse=True)
def quick_teachers(monkeypatch):
    """Teachers of few epochs: what is asserted here is true of bad ones too."""

    def quick(settings):
        return teacher_settings(settings).changed(epochs=2, patience=None)

    monkeypatch.setattr("pathveil.training.teachers.teacher_settings", quick)


@given(st.lists(st.integers(0, 30), min_size=12, max_size=80), st.integers(0, 99))
def test_every_group_is_unseen_by_as_many_teachers_and_dealt_out_as_one(groups, seed):
    groups = np.array(groups)
    if len(np.unique(groups)) < 5:
        with pytest.raises(UsageError, match="5 teachers need at least as many cases"):
            deal(groups, teachers=5, unseen=2, seed=seed)
        return
    unseen_by = deal(groups, teachers=5, unseen=2, seed=seed)
    assert (unseen_by.sum(axis=1) == 2).all()
    for group in np.unique(groups):
        assert (unseen_by[groups == group] == unseen_by[groups == group][0]).all()


def test_what_teachers_say_of_a_report_does_not_depend_on_its_own_labels(corpus):
    """Change a case's labels, and the codes for it stay as they were, bit for bit."""
    case = corpus.cases == corpus.cases[20]
    other = {
        task: np.where(case & (label >= 0), (label + 1) % len(corpus.classes[task]), label)
        for task, label in corpus.labels.items()
    }
    lessons = [teach(one, UNLIFTED, seed=3).labels for one in (corpus, replace(corpus, labels=other))]
    for task in corpus.tasks:
        assert (lessons[0][task][case] == lessons[1][task][case]).all()
    # The others' lessons may change: their teachers have seen the case.
    assert any((corpus.labels[task] != other[task]).any() for task in corpus.tasks)


def test_nor_on_those_of_a_near_duplicate_under_another_case(corpus):
    """A strange report that is there twice must not teach its own label through its copy."""
    copy = replace(corpus.take(np.array([20])), cases=np.array([999]))
    both = join_documents([corpus, copy])
    twins = np.array([20, both.documents - 1])
    other = {task: np.array(label) for task, label in both.labels.items()}
    for task, label in other.items():
        label[twins] = (np.abs(label[twins]) + 1) % len(corpus.classes[task])
    lessons = [teach(one, UNLIFTED, seed=3).labels for one in (both, replace(both, labels=other))]
    for task in corpus.tasks:
        known = both.labels[task][twins] >= 0
        assert (lessons[0][task][twins][known] == lessons[1][task][twins][known]).all()


def test_a_label_can_keep_a_lesson_back_and_never_bring_one(corpus):
    said = teach(corpus, ALL_CODES, seed=3).labels
    taught = teach(corpus, SMALL, seed=3).labels
    against = {task: (said[task] >= 0) & (said[task] != label) for task, label in corpus.labels.items()}
    often = np.sum([*against.values()], axis=0) > 1
    assert often.any() and not often.all()
    for task in corpus.tasks:
        expected = np.where(against[task] | often, -1, said[task])
        np.testing.assert_array_equal(taught[task], expected)


def test_lessons_are_missing_where_labels_are_and_where_nobody_is_sure(corpus):
    lessons = teach(corpus, ALL_CODES, seed=1)
    for task, label in corpus.labels.items():
        assert ((lessons.labels[task] < 0) == (label < 0)).all()
    probabilities = np.array([[0.5, 0.3, 0.2], [0.4, 0.35, 0.25]])
    assert choose_codes(probabilities, np.array([2, 2]), TeacherSettings(sure=0.45)).tolist() == [0, -1]
    seldom = np.concatenate([np.tile([[0.9, 0.1]], (99, 1)), [[0.6, 0.4]]])
    assert choose_codes(seldom, np.zeros(100, int), TeacherSettings(lift=0.0))[-1] == 0
    assert choose_codes(seldom, np.zeros(100, int), TeacherSettings(lift=1.0))[-1] == 1


def test_a_stopped_run_goes_on_and_another_process_gives_the_same(corpus, tmp_path):
    whole = teach(corpus, SMALL, seed=2)

    def stop_at_second(stage, done, total):
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        teach(corpus, SMALL, seed=2, checkpoint=tmp_path, progress=stop_at_second)
    assert len(list(tmp_path.iterdir())) == 2
    again = teach(corpus, SMALL, seed=2, workers=2, checkpoint=tmp_path)  # the third in a process of its own
    for task in corpus.tasks:
        assert (again.labels[task] == whole.labels[task]).all()
    other = teach(corpus, SMALL, seed=4, checkpoint=tmp_path)  # another run's teachers are not taken for its own
    assert other.documents == corpus.documents and len(list(tmp_path.iterdir())) == 6


def test_shadows_have_the_models_own_defence(corpus):
    """A shadow on all documents is the model itself: same teachers, same lessons, same student."""
    settings = SMALL.changed(patience=None, validation_share=0.0)
    model = train(corpus, settings, seed=5).model.members[0]
    ((number, logits),) = logits_many(corpus, [np.arange(corpus.documents)], settings, seeds=[5])
    assert number == 0
    alone = fit(corpus, settings, seed=5).model
    for task, expected in logits_of(model, corpus).items():
        np.testing.assert_allclose(logits[task], expected, atol=0.02)
        np.testing.assert_array_equal(logits_of(alone, corpus)[task], expected)


def test_a_bootstrap_samples_lessons_follow_its_rows(corpus):
    pool = np.array([3, 3, 8, 8, 8, *range(10, 50)])
    asked_for = []

    def answers(rows, asked, seeds):
        for number, own in enumerate(asked):
            asked_for.append(np.intersect1d(rows[number], own))
            yield number, {task: np.eye(len(names))[own % len(names)] * 9 for task, names in corpus.classes.items()}

    (lessons,) = lessons_many(corpus, [pool], ALL_CODES, answers, seeds=[1])
    for task, names in corpus.classes.items():
        known = corpus.labels[task][pool] >= 0
        assert (lessons[task][known] == (pool % len(names))[known]).all()
    assert not any(len(both) for both in asked_for)


def test_settings_that_do_not_go_together_are_one_sentence():
    with pytest.raises(UsageError, match="every case must teach somebody"):
        TeacherSettings().changed(teachers=3, unseen=3)
