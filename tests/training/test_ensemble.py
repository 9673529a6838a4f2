"""The ensemble: blends against a grid, its parts against a lone model's, and a killed run that goes on."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.special import log_softmax
from sklearn.metrics import f1_score

from pathveil.training.batches import hold_out_cases
from pathveil.training.calibration import fit_temperature
from pathveil.training.ensemble import (
    blended,
    fit_blend,
    fit_lift,
    mean_log_probability,
    mean_view,
    start_vectors,
    train,
)
from pathveil.training.loop import fit, logits_of
from pathveil.training.settings import TrainingSettings
from training.corpora import encoded

TINY = TrainingSettings(dim=12, filters=8, batch_size=16, learning_rate=0.01, epochs=5, patience=2)


def said(documents=400, classes=5, seed=0, noise=1.5):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, documents)
    truth = 2.0 * np.eye(classes)[labels]
    views = [log_softmax(truth + rng.normal(0, noise, truth.shape), axis=1) for _ in range(2)]
    return views, labels


def test_blend_is_the_best_of_a_grid():
    views, labels = said()
    found = fit_blend(views, labels)

    def unlikely(coefficients):
        return -blended(views, coefficients)[np.arange(len(labels)), labels].mean()

    best = min(unlikely((a, b)) for a in np.linspace(0, 2, 41) for b in np.linspace(0, 2, 41))
    assert unlikely(found) <= best + 1e-6
    assert unlikely(found) < min(unlikely((1, 0)), unlikely((0, 1)))


def test_a_useless_view_is_left_out():
    views, labels = said()
    rng = np.random.default_rng(1)
    noise = log_softmax(rng.normal(0, 3, views[0].shape), axis=1)
    good, useless = fit_blend([views[0], noise], labels)
    assert useless < 0.1 * good


def test_a_lone_view_is_temperature_scaling():
    views, labels = said()
    (inverse,) = fit_blend(views[:1], labels)
    assert 1 / inverse == pytest.approx(fit_temperature(views[0], labels), rel=1e-3)


def test_no_labels_weigh_alike():
    views, labels = said()
    assert fit_blend(views, np.full_like(labels, -1)) == (0.5, 0.5)


def test_mean_probability():
    views, _ = said()
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


def test_lift_is_the_best_of_its_grid_and_none_without_evidence():
    rng = np.random.default_rng(0)
    everyone = np.minimum(rng.zipf(1.5, 4000) - 1, 9)
    labels = everyone[:800]
    logs = log_softmax(1.5 * np.eye(10)[labels] + rng.normal(0, 1, (800, 10)) + np.log(np.bincount(everyone) / 4000), 1)
    found = fit_lift(logs, labels, everyone)
    counts = np.maximum(np.bincount(everyone, minlength=10), 5)
    rarity = np.log(counts.max() / counts)

    def gain(lift):
        chosen = (logs + lift).argmax(1)
        return (chosen == labels).mean() + f1_score(labels, chosen, average="macro")

    assert gain(found) == pytest.approx(max(gain(power * rarity) for power in (0, 0.1, 0.2, 0.3, 0.4, 0.5)), abs=1e-6)
    assert gain(found) > gain(0)
    assert not fit_lift(logs, np.full(800, -1), everyone).any()
    perfect = log_softmax(50 * np.eye(10)[labels], axis=1)
    assert not fit_lift(perfect, labels, everyone).any()


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
