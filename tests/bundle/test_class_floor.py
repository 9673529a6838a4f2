"""Codes of too few cases are not learnt, not named, and count as wrong."""

from dataclasses import replace

import numpy as np
import pytest

from bundle.conftest import TINY
from pathveil.bundle.class_floor import floor_lines, without_rare_codes
from pathveil.bundle.train import read_training_corpus, train_model
from pathveil.errors import UsageError
from training.corpora import encoded

# Code c1 has 12 cases, c2 three (of two reports each), c0 the rest; every tenth report has no label.
LABELS = np.repeat([2, 1, 0], [6, 24, 70])
LABELS[::10] = -1


@pytest.fixture
def labelled():
    return replace(
        encoded(100, classes=(3,), reports_a_case=2, missing=0),
        labels={"task0": LABELS},
        classes={"task0": tuple("xyz")},
    )


def test_rare_codes_are_numbered_after_the_others_to_judge_by_and_missing_to_learn_from(labelled):
    learnt, judged, floor = without_rare_codes(labelled, 13)
    assert learnt.classes == judged.classes == {"task0": ("x",)}
    assert (judged.labels["task0"] == LABELS).all()  # already in this order
    assert (learnt.labels["task0"] == np.where(LABELS > 0, -1, LABELS)).all()
    found = floor.tasks["task0"]
    assert found.codes == 2 and found.named == ["y"] and found.reports == (LABELS > 0).sum()
    backwards = replace(labelled, labels={"task0": np.where(LABELS < 0, -1, 2 - LABELS)})
    learnt, judged, _ = without_rare_codes(backwards, 4)
    assert learnt.classes == {"task0": ("y", "z")}
    assert (learnt.labels["task0"] == np.select([LABELS == 0, LABELS == 1], [1, 0], -1)).all()
    assert (judged.labels["task0"] == np.select([LABELS == 0, LABELS == 1, LABELS == 2], [1, 0, 2], -1)).all()


def test_what_fewer_than_ten_cases_say_is_not_told(labelled):
    _, _, floor = without_rare_codes(labelled, 4)
    found = floor.tasks["task0"]
    assert found.codes == 1 and found.named == [] and found.reports is None
    card = "\n".join(floor_lines({"class_floor": floor.to_dict()}))
    assert "- task0: 1 code of few reports" in card and "z" not in card
    _, _, all_learnt = without_rare_codes(labelled, 2)
    assert "all are learnt" in floor_lines({"class_floor": all_learnt.to_dict()})[-1] and floor_lines({}) == []


def test_a_task_without_a_frequent_code_and_public_codes_are_refused(labelled):
    with pytest.raises(UsageError, match="task 'task0': no code has 900 cases"):
        without_rare_codes(labelled, 900)
    with pytest.raises(UsageError, match="does not go with --public-classes"):
        read_training_corpus([], public_classes={"site": ["C18"]}, fewest_cases=2)


def test_a_model_does_not_know_rare_codes_and_its_scores_count_them_as_wrong(corpus, made):
    model = train_model(corpus, TINY, seed=3, tasks=["site"], fewest_cases=45)
    assert set(model.labels["site"]) < set(made.labels["site"])
    assert model.provenance["class_floor"]["fewest_cases"] == 45
    assert "Codes of fewer than 45 cases were not learnt" in model.card
    assert model.scores["site"].documents == made.scores["site"].documents  # those of rare codes among them
    assert model.scores["site"].micro.value < made.scores["site"].micro.value
