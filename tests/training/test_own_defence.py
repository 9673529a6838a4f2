"""A function of one's own changes what models and their shadows learn from."""

from dataclasses import replace

import numpy as np
import pytest

from pathveil.errors import UsageError
from pathveil.training.defences import OwnDefence, defence_named
from pathveil.training.ensemble import train
from pathveil.training.loop import fit, logits_of
from pathveil.training.own_defence import defended, defended_many
from pathveil.training.settings import TrainingSettings
from pathveil.training.stacked import logits_many
from training.corpora import encoded

TINY = TrainingSettings(dim=8, filters=6, batch_size=16, epochs=2, patience=None, validation_share=0.0)


def one_class(corpus, settings, seed):
    """Every report is of the class that the seed names."""
    return replace(corpus, labels={task: np.full_like(label, seed) for task, label in corpus.labels.items()})


def fewer(corpus, settings, seed):
    return corpus.take(np.arange(3))


def no_such_class(corpus, settings, seed):
    return one_class(corpus, settings, 9)


def with_defence(function):
    return TINY.changed(defence=defence_named(function))


@pytest.fixture(scope="module")
def corpus():
    return encoded(60)


def test_model_shadow_and_lone_network_learn_what_it_makes(corpus):
    settings = with_defence(one_class)
    expected = logits_of(fit(one_class(corpus, TINY, 1), TINY, seed=1).model, corpus)
    model = train(corpus, settings, seed=1).model.members[0]
    alone = fit(corpus, settings, seed=1).model
    ((_, shadow),) = logits_many(corpus, [np.arange(60)], settings, seeds=[1])
    for task, wanted in expected.items():
        np.testing.assert_array_equal(logits_of(model, corpus)[task], wanted)
        np.testing.assert_array_equal(logits_of(alone, corpus)[task], wanted)
        np.testing.assert_allclose(shadow[task], wanted, atol=0.02)


def test_each_shadow_is_defended_by_itself(corpus):
    joined, rows = defended_many(corpus, [np.arange(9), np.arange(20, 30)], with_defence(one_class), seeds=[2, 1])
    assert [len(own) for own in rows] == [9, 10] and joined.documents == 79
    for own, seed in zip(rows, (2, 1), strict=True):
        assert (joined.labels["task0"][own] == seed).all()
    np.testing.assert_array_equal(joined.labels["task0"][:60], corpus.labels["task0"])


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (fewer, "must give back an encoded corpus with the same documents"),
        (no_such_class, "task 'task0' needs a class's number"),
        ("no_such_module:defend", "cannot be imported"),
    ],
)
def test_what_cannot_be_learnt_from_is_refused_in_a_sentence(corpus, function, said):
    with pytest.raises(UsageError, match=said):
        defended(corpus, with_defence(function), seed=1)


def test_a_function_nobody_can_import_is_refused():
    with pytest.raises(UsageError, match="at the top level of a module"):
        defence_named(lambda corpus, settings, seed: corpus)
    assert defence_named(one_class) == OwnDefence(function=f"{__name__}:one_class")
