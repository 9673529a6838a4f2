"""Controls: what flatters itself is caught, what was planted is found, on answers made up for it."""

import numpy as np
import pytest

from pathveil.auditing import controls, metrics
from pathveil.auditing.all_attacks import shadowless_attacks
from pathveil.auditing.evidence import Records, Score

CLASSES = {"the label": tuple(map(str, range(20)))}


@pytest.fixture(scope="module")
def answers():
    """Of a model that knows nothing, on 400 records of 20 classes."""
    rng = np.random.default_rng(0)
    data = Records(np.arange(400) < 200, np.arange(400), {"the label": rng.integers(0, 20, 400)}, CLASSES)
    return data, {"the label": rng.dirichlet(np.ones(20), 400)}


def test_an_attack_that_learns_on_what_it_judges_is_caught_by_the_null_control(answers, monkeypatch):
    """The permutation control is there to catch flattery: without the halves, the risk score flatters itself."""
    assert controls.permuted_membership(*answers, seed=0).holds

    def everything(cases, *, seed):
        yield np.ones(len(cases), bool), np.ones(len(cases), bool)

    monkeypatch.setattr(metrics, "halves", everything)
    assert not controls.permuted_membership(*answers, seed=0).holds


def test_a_planted_leak_is_found_unless_there_is_hardly_anyone_to_plant_it_on(answers):
    data, probabilities = answers
    assert controls.planted_leak(data, probabilities, seed=0).holds
    few = np.arange(400) < 206
    assert not controls.planted_leak(data.take(few), {"the label": probabilities["the label"][few]}, seed=0).holds


def test_attacks_that_see_nothing_do_not_find_the_planted_leak(answers):
    asked = []

    def blind(planted, moved, places):
        asked.append(places)
        noise = np.random.default_rng(1).normal(size=len(places))
        return [Score("noise", "the label", noise)]

    assert not controls.planted_leak(*answers, seed=0, attack=blind).holds
    assert (asked[0] == np.arange(200, 400)).all()  # it is planted on non-members only


def test_a_null_control_fails_where_the_two_sides_differ(answers):
    """A model that saw neither side, and members who are easier: what is found there is not membership."""
    data, probabilities = answers
    same = shadowless_attacks(data, probabilities)
    assert controls.judge_null("null", data, same, seed=0).holds
    easier = [Score("loss", "the label", np.random.default_rng(2).normal(size=400) + data.member)]
    assert not controls.judge_null("null", data, [*same, *easier], seed=0).holds
    assert not controls.judge_null("null", data, [], seed=0).holds  # nothing measured is nothing shown
