"""The ensemble: its parts against a lone model's, and a killed run that goes on."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.special import log_softmax

from pathveil.training.batches import hold_out_cases
from pathveil.training.ensemble import (
    mean_log_probability,
    mean_view,
    start_vectors,
    train,
)
from pathveil.training.loop import fit, logits_of
from pathveil.training.settings import TrainingSettings
from training.corpora import encoded

TINY = TrainingSettings(dim=12, filters=8, batch_size=16, learning_rate=0.01, epochs=5, patience=2)


def test_mean_probability():
    views = [log_softmax(np.random.default_rng(seed).normal(size=(50, 4)), axis=1) for seed in range(2)]
    expected = np.log((np.exp(views[0]) + np.exp(views[1])) / 2)
    np.testing.assert_allclose(mean_log_probability(views), expected, atol=1e-6)


@pytest.fixture(scope="module")
def corpus():
    return encoded(200, reports_a_case=2)


@pytest.fixture(scope="module")
def trained(corpus):
    return train(corpus, TINY.changed(members=3, linear=True), seed=4)


def test_members_hold_out_cases_of_their_own(corpus, trained):
    assert len(trained.held_out) == 60 == len(set(trained.held_out.tolist()))
    assert len(trained.histories) == len(trained.best_epochs) == 3
    first, second = (member.embedding.weight for member in trained.model.members[:2])
    assert not torch.equal(first, second)


def test_the_first_member_is_the_model_alone(corpus, trained):
    alone = fit(corpus, TINY.changed(members=3, linear=True), seed=4)
    for name, tensor in alone.model.state_dict().items():
        assert torch.equal(tensor, trained.model.members[0].state_dict()[name])


def test_probabilities_sum_to_one_and_follow_the_formula(corpus, trained):
    probabilities = trained.model.log_probabilities(corpus.ids, corpus.offsets)
    for task, (a, b) in trained.model.blend.items():
        assert np.exp(probabilities[task]).sum(1) == pytest.approx(1.0, abs=1e-5)
        networks = mean_log_probability([logits_of(member, corpus)[task] for member in trained.model.members])
        linear = log_softmax(trained.model.linear.logits(corpus.ids, corpus.offsets)[task], axis=1)
        np.testing.assert_allclose(probabilities[task], log_softmax(a * networks + b * linear, axis=1), atol=1e-5)


def test_held_out_predictions_come_from_models_that_did_not_see_them(corpus, trained):
    """Change a held-out document's labels: the member that held it out, and what is said about it, stay the same."""
    row = trained.held_out[0]
    labels = {task: label.copy() for task, label in corpus.labels.items()}
    for task, label in labels.items():
        label[row] = (label[row] + 1) % len(corpus.classes[task])
    changed = corpus.__class__(**{**vars(corpus), "labels": labels})
    settings = TINY.changed(members=1, linear=True, patience=None, epochs=2)
    before, after = train(corpus, settings, seed=4), train(changed, settings, seed=4)
    assert before.held_out[0] == row
    assert torch.equal(before.model.members[0].embedding.weight, after.model.members[0].embedding.weight)
    for task in labels:
        np.testing.assert_array_equal(before.model.linear.weights[task], after.model.linear.weights[task])


def test_mean_of_linear_views(corpus, trained):
    view = trained.model.linear
    doubled = view.__class__(
        idf=view.idf,
        weights={task: 3 * weight for task, weight in view.weights.items()},
        biases={task: 3 * bias for task, bias in view.biases.items()},
    )
    mean = mean_view([view, doubled]).logits(corpus.ids, corpus.offsets)
    for task, logits in view.logits(corpus.ids, corpus.offsets).items():
        np.testing.assert_allclose(mean[task], 2 * logits, rtol=1e-4, atol=1e-4)


class Stop(Exception):
    pass


def test_a_stopped_ensemble_continues_bit_for_bit(corpus, trained, tmp_path):
    settings = TINY.changed(members=3, linear=True)

    def stop(stage, done, total):
        if stage.startswith("training network 2") and done == 5:
            raise Stop

    with pytest.raises(Stop):
        train(corpus, settings, seed=4, checkpoint=tmp_path / "run", progress=stop)
    stages = set()
    again = train(corpus, settings, seed=4, checkpoint=tmp_path / "run", progress=lambda s, *_: stages.add(s))
    for one, other in zip(trained.model.members, again.model.members, strict=True):
        for name, tensor in one.state_dict().items():
            assert torch.equal(tensor, other.state_dict()[name])
    assert trained.model.blend == again.model.blend and trained.histories == again.histories


def test_codes_are_chosen_with_the_lift(trained):
    sizes = {task: len(lift) for task, lift in trained.model.lift.items()}
    logs = {task: np.log(np.full((1, size), 1 / size)) for task, size in sizes.items()}
    lift = {task: np.where(np.arange(size) == 1, 0.1, 0.0) for task, size in sizes.items()}
    assert all(chosen == [1] for chosen in replace(trained.model, lift=lift).choose(logs).values())


def test_embeddings_start_at_the_vectors_the_settings_ask_for(corpus):
    assert start_vectors(corpus, TINY) is None
    vectors = start_vectors(corpus, TINY.changed(vectors=0.1), seed=4)
    assert vectors.shape == (60, 12)
    held = hold_out_cases(corpus.cases, share=0.1, seed=[4, 0])[1]
    alone = fit(corpus, TINY.changed(vectors=0.1, epochs=1), seed=4, held_out=held, vectors=vectors)
    run = train(corpus, TINY.changed(vectors=0.1, epochs=1), seed=4)
    assert torch.equal(run.model.members[0].embedding.weight, alone.model.embedding.weight)
