"""The figures of a card: what they say in words, and that they come back from JSON."""

import pytest
from pydantic import ValidationError

from pathveil.training.scores import NEVER, Interval, Scores, Threshold

HALF = Interval(0.5, 0.41, 0.59)
SCORES = Scores(documents=7, micro=Interval(0.8567, 0.8, 0.9), macro=HALF, accuracy=HALF)
THRESHOLD = Threshold(probability=0.9, wanted=0.97, accuracy=0.981, low=0.963, abstained=0.125, documents=80)


def test_in_words():
    assert str(SCORES) == "micro F1 0.857, macro F1 0.500" and str(SCORES.micro) == "0.857 (0.800–0.900)"
    assert str(THRESHOLD) == "leaves 12% to a person, 98.1% (at least 96.3%) of the rest right"


def test_a_task_that_a_person_always_codes_promises_nothing():
    never = THRESHOLD.model_copy(update={"probability": NEVER, "abstained": 1.0})
    assert str(never) == "leaves all to a person: no threshold keeps 97.0% on held-out cases" and NEVER > 1


def test_they_come_back_from_json_and_a_figure_too_many_is_refused():
    for one in (SCORES, THRESHOLD):
        assert type(one).model_validate_json(one.model_dump_json()) == one
    assert SCORES.to_dict()["macro"] == {"value": 0.5, "low": 0.41, "high": 0.59} == HALF.as_dict()
    with pytest.raises(ValidationError):
        Threshold(**THRESHOLD.to_dict(), lower=0.9)
