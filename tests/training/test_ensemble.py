"""The ensemble: its parts against a lone model's, and a killed run that goes on."""

import numpy as np
import pytest
import torch
from scipy.special import log_softmax, softmax

from pathveil.errors import UsageError
from pathveil.training.batches import hold_out_cases
from pathveil.training.blend import choose
from pathveil.training.ensemble import (
    ensemble_logits_many,
    mean_log_probability,
    member_seed,
    start_vectors,
    train,
)
from pathveil.training.linear import word_weights
from pathveil.training.linear_view import common_view, linear_view, linear_views, mean_view
from pathveil.training.loop import fit, logits_of
from pathveil.training.settings import TrainingSettings
from pathveil.vocabulary.encoded import take_documents
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
    rows = trained.held_out.rows
    assert len(rows) == 60 == len(set(rows.tolist()))
    assert len(trained.histories) == len(trained.best_epochs) == 3
    first, second = (member.embedding.weight for member in trained.model.members[:2])
    assert not torch.equal(first, second)


@pytest.mark.parametrize("members", [1, 3])
def test_one_case_is_too_few_to_stop_by(members):
    one = encoded(2, reports_a_case=2)
    with pytest.raises(UsageError, match="the corpus has one case; training needs at least two"):
        train(one, TINY.changed(members=members), seed=4)


def test_the_first_member_is_the_model_alone(corpus, trained):
    alone = fit(corpus, TINY.changed(members=3, linear=True), seed=4)
    for name, tensor in alone.model.state_dict().items():
        assert torch.equal(tensor, trained.model.members[0].state_dict()[name])


def test_what_is_judged_was_weighed_by_other_cases(corpus, trained):
    held = trained.held_out
    assert set(held.log_probabilities) == set(held.chosen) == set(corpus.classes)
    for task, logs in held.log_probabilities.items():
        assert np.exp(logs).sum(1) == pytest.approx(1.0, abs=1e-5) and len(held.chosen[task]) == len(held.rows)


def test_probabilities_sum_to_one_and_follow_the_formula(corpus, trained):
    probabilities = trained.model.log_probabilities(corpus.ids, corpus.offsets)
    for task, (a, b) in trained.model.blend.items():
        assert np.exp(probabilities[task]).sum(1) == pytest.approx(1.0, abs=1e-5)
        networks = mean_log_probability([logits_of(member, corpus)[task] for member in trained.model.members])
        linear = log_softmax(trained.model.linear.logits(corpus.ids, corpus.offsets)[task], axis=1)
        np.testing.assert_allclose(probabilities[task], log_softmax(a * networks + b * linear, axis=1), atol=1e-5)


def test_held_out_predictions_come_from_models_that_did_not_see_them(corpus, trained):
    """Change a held-out document's labels: the member that held it out, and what is said about it, stay the same."""
    row = trained.held_out.rows[0]
    labels = {task: label.copy() for task, label in corpus.labels.items()}
    for task, label in labels.items():
        label[row] = (label[row] + 1) % len(corpus.classes[task])
    changed = corpus.__class__(**{**vars(corpus), "labels": labels})
    settings = TINY.changed(members=1, linear=True, patience=None, epochs=2)
    before, after = train(corpus, settings, seed=4), train(changed, settings, seed=4)
    assert before.held_out.rows[0] == row
    assert torch.equal(before.model.members[0].embedding.weight, after.model.members[0].embedding.weight)
    for task in labels:
        np.testing.assert_array_equal(before.model.linear.weights[task], after.model.linear.weights[task])


def test_the_mean_of_linear_views_says_the_mean_of_what_they_say(corpus, trained):
    """On every document, also those in words that the views' own documents hold at different rates."""
    held_rows = [np.arange(0, 60), np.arange(60, 120), np.arange(120, 180)]
    mean, logits = linear_views(corpus, held_rows)
    train_rows = [np.setdiff1d(np.arange(corpus.documents), held) for held in held_rows]
    start = common_view(corpus, held_rows, mean.idf)
    views = [linear_view(corpus, rows, mean.idf, start=start) for rows in train_rows]
    said = [view.logits(corpus.ids, corpus.offsets) for view in views]
    for task, scores in mean.logits(corpus.ids, corpus.offsets).items():
        np.testing.assert_allclose(scores, np.mean([one[task] for one in said], axis=0), rtol=1e-4, atol=1e-4)
        for one, held, own in zip(said, held_rows, logits, strict=True):
            np.testing.assert_array_equal(one[task][held], own[task])
    other = linear_view(
        corpus, train_rows[0], word_weights(corpus.ids[:500], np.arange(0, 501, 25), vocabulary_size=60)
    )
    with pytest.raises(ValueError, match="weigh words differently"):
        mean_view([views[0], other])


def test_the_trained_models_linear_view_is_the_mean_of_its_views(corpus, trained):
    """As an ensemble's networks are averaged, so are its linear views: exactly, not by averaging word weights."""
    held = [hold_out_cases(corpus.cases, share=0.1, seed=[4, 0], part=number)[1] for number in range(3)]
    idf = trained.model.linear.idf
    start = common_view(corpus, held, idf)
    views = [linear_view(corpus, np.setdiff1d(np.arange(corpus.documents), rows), idf, start=start) for rows in held]
    for task, scores in trained.model.linear.logits(corpus.ids, corpus.offsets).items():
        expected = np.mean([view.logits(corpus.ids, corpus.offsets)[task] for view in views], axis=0)
        np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-4)


def test_where_views_begin_nobodys_held_out_labels_are_known(corpus):
    held = [np.arange(0, 20), np.arange(20, 40)]
    idf = word_weights(corpus.ids, corpus.offsets, vocabulary_size=60)
    labels = {task: np.where(np.arange(len(label)) < 40, 0, label) for task, label in corpus.labels.items()}
    changed = corpus.__class__(**{**vars(corpus), "labels": labels})
    one, other = common_view(corpus, held, idf), common_view(changed, held, idf)
    assert one is not None and other is not None
    for task in labels:
        np.testing.assert_array_equal(one.weights[task], other.weights[task])
    assert common_view(corpus, held[:1], idf) is None, "one view begins with nothing"
    assert common_view(corpus, [np.arange(0, 100), np.arange(100, 150)], idf) is None, "too few are common to all"


@pytest.mark.parametrize("threads", [1, 2])
def test_networks_fitted_at_once_are_those_fitted_one_by_one(corpus, trained, threads):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        again = train(corpus, TINY.changed(members=3, linear=True), seed=4)
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    for one, other in zip(trained.model.members, again.model.members, strict=True):
        for name, tensor in one.state_dict().items():
            assert torch.equal(tensor, other.state_dict()[name])
    for task, weight in trained.model.linear.weights.items():
        np.testing.assert_array_equal(weight, again.model.linear.weights[task])
    assert trained.histories == again.histories


def test_words_are_weighed_by_the_documents_that_are_learned_from(corpus):
    held = np.arange(20)
    mean, _ = linear_views(corpus, [held])
    rest = corpus.take(np.arange(20, corpus.documents))
    np.testing.assert_array_equal(mean.idf, word_weights(rest.ids, rest.offsets, vocabulary_size=60))


class Stop(Exception):
    pass


def test_a_stopped_ensemble_continues_bit_for_bit(corpus, trained, tmp_path):
    settings = TINY.changed(members=3, linear=True)

    def stop(stage, done, total):
        if stage == "training networks" and done > 65:  # the first is finished, or two are under way
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
    assert all(chosen == [1] for chosen in choose(logs, lift).values())


def test_embeddings_start_at_the_vectors_the_settings_ask_for(corpus):
    assert start_vectors(corpus, TINY) is None
    vectors = start_vectors(corpus, TINY.changed(vectors=0.1), seed=4)
    assert vectors.shape == (60, 12)
    held = hold_out_cases(corpus.cases, share=0.1, seed=[4, 0])[1]
    alone = fit(corpus, TINY.changed(vectors=0.1, epochs=1), seed=4, held_out=held, vectors=vectors)
    run = train(corpus, TINY.changed(vectors=0.1, epochs=1), seed=4)
    assert torch.equal(run.model.members[0].embedding.weight, alone.model.embedding.weight)


def test_many_ensembles_answer_as_their_parts(corpus):
    halves, settings = [np.arange(0, 200, 2), np.arange(1, 200, 2)], TINY.changed(epochs=1, members=2, linear=True)
    whole = ensemble_logits_many(corpus, halves, settings, seeds=[1, 2])
    alone = settings.changed(members=1, linear=False)
    for place, (rows, seed) in enumerate(zip(halves, [1, 2], strict=True)):
        networks = [
            ensemble_logits_many(corpus, [rows], alone, seeds=[member_seed(seed, number)])[0] for number in range(2)
        ]
        idf = word_weights(*take_documents(corpus.ids, corpus.offsets, rows), vocabulary_size=corpus.vocabulary_size)
        linear = linear_view(corpus, rows, idf).logits(corpus.ids, corpus.offsets)
        for task, said in whole[place].items():
            mean = np.log(np.mean([softmax(one[task].astype(float), axis=1) for one in networks], axis=0))
            expected = log_softmax((mean + log_softmax(linear[task], axis=1)) / 2, axis=1)
            np.testing.assert_allclose(said, expected, atol=0.02)
