"""Differentially private training: clipped gradients against autograd, a case at a time; batches and noise against what
their names promise; runs that go on bit for bit."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pathveil.errors import UsageError
from pathveil.model import MTCNN, TokenBatch
from pathveil.training import ensemble
from pathveil.training.accounting import privacy_of
from pathveil.training.blend import fit_pool
from pathveil.training.defences import DPSettings
from pathveil.training.dp import (
    PrivateFitted,
    PrivateStack,
    Trainee,
    clipped_gradients,
    fit_private,
    secret_of_seed,
    train_many_private,
)
from pathveil.training.loop import fit, logits_of, split
from pathveil.training.losses import cross_entropy
from pathveil.training.settings import TrainingSettings
from pathveil.training.stacked import logits_many, train_many
from training.corpora import encoded

SHAPE = {"dim": 6, "filters": 5, "windows": (2, 3), "patience": None, "epochs": 2, "batch_size": 20}


def private(**changes) -> TrainingSettings:
    defence = {"noise": 0.5, "delta": 1e-3} | changes.pop("dp", {})
    return TrainingSettings(**({**SHAPE, "dropout": 0.0} | changes), defence=DPSettings(**defence))


def stack(corpus, told, *, models=1, secret=b"s") -> PrivateStack:
    none = np.arange(0)
    rows = np.arange(corpus.documents)
    trainees = [
        Trainee(m, rows, corpus, told, seed=m, held_out=none, secret=secret + bytes([m])) for m in range(models)
    ]
    return PrivateStack(corpus, told, trainees, vectors=None, device=torch.device("cpu"))


def autograd(weights, batch, told, corpus):
    """Each case's gradient by PyTorch's own backward pass of the dense reference, clipped and summed; the norms."""
    sums = {name: torch.zeros_like(tensor) for name, tensor in weights.items()}
    norms = []
    models = len(weights["heads.bias"])
    for case in batch.cases:
        mine = case[case >= 0]
        slot = int(mine[0]) // ((len(batch.offsets) - 1) // models)
        model = MTCNN(
            vocabulary_size=corpus.vocabulary_size, classes={t: len(n) for t, n in corpus.classes.items()},
            **told.shape(), kernel="reference",
        ).double()  # fmt: skip
        state = {name: tensor[slot] for name, tensor in weights.items() if not name.startswith("heads")}
        bounds = np.cumsum([0, *map(len, corpus.classes.values())])
        for kind in ("weight", "bias"):
            for task, start, stop in zip(corpus.tasks, bounds[:-1], bounds[1:], strict=True):
                state[f"heads.{task}.{kind}"] = weights[f"heads.{kind}"][slot, start:stop]
        model.load_state_dict(state)
        documents = [batch.ids[batch.offsets[i] : batch.offsets[i + 1]].tolist() for i in mine]
        logits = model.train()(TokenBatch.of(documents), noise=batch.drops[mine])
        loss = sum(
            cross_entropy(logits[task].double(), labels[mine], smoothing=told.smoothing)[0]
            for task, labels in zip(corpus.tasks, batch.labels, strict=True)
        ) / len(corpus.tasks)
        loss.backward()
        found = {name: p.grad for name, p in model.named_parameters()}
        found |= {
            f"heads.{k}": torch.cat([found.pop(f"heads.{t}.{k}") for t in corpus.tasks]) for k in ("weight", "bias")
        }
        norm = torch.sqrt(sum(g.square().sum() for g in found.values()))
        norms.append(norm)
        for name, gradient in found.items():
            sums[name][slot] += gradient * min(1.0, told.defence.clip / norm)
    return sums, torch.stack(norms)


@given(
    seed=st.integers(0, 99),
    models=st.integers(1, 3),
    reports=st.integers(1, 4),
    clip=st.sampled_from([0.05, 0.5, 50.0]),
    dropout=st.sampled_from([0.0, 0.5]),
    smoothing=st.sampled_from([0.0, 0.1]),
)
@settings(max_examples=12, deadline=None, derandomize=True)
def test_clipped_gradients_are_those_of_autograd_a_case_at_a_time(seed, models, reports, clip, dropout, smoothing):
    corpus = encoded(40, seed=seed, reports_a_case=reports, length=9, missing=0.3)
    told = private(dp={"clip": clip}, dropout=dropout, smoothing=smoothing, batch_size=5)
    machine = stack(corpus, told, models=models, secret=seed.to_bytes(2))
    weights = {name: tensor.double() for name, tensor in machine.weights.items()}
    batch = machine.batch()
    if not len(batch.cases):
        return
    found, norms = clipped_gradients(weights, batch, told, sizes=machine.sizes)
    expected, expected_norms = autograd(weights, batch, told, corpus)
    torch.testing.assert_close(norms, expected_norms.double(), rtol=1e-5, atol=1e-6)
    for name in expected:
        torch.testing.assert_close(found[name], expected[name], rtol=1e-4, atol=2e-5 * clip, msg=name)


@pytest.mark.parametrize("embeddings", ["trained", "frozen"])
def test_no_case_adds_more_than_the_bound(embeddings):
    corpus = encoded(60, reports_a_case=3)
    told = private(dp={"clip": 0.01, "embeddings": embeddings}, batch_size=5)
    machine = stack(corpus, told)
    whole = machine.batch()
    for case in whole.cases:
        alone = type(whole)(**(whole.__dict__ | {"cases": case[None]}))
        gradients, norms = clipped_gradients(
            machine.weights, alone, told, sizes=machine.sizes, words=embeddings == "trained"
        )
        made = [gradient.double().square().sum() for gradient in gradients.values() if gradient is not None]
        assert norms[0] > 0.01 and 0.0099 < float(sum(made)) ** 0.5 <= 0.01


def test_a_batch_holds_each_case_with_the_stated_chance_and_whole():
    corpus = encoded(300, reports_a_case=3)
    told = private(batch_size=20)
    trainee = Trainee(0, np.arange(300), corpus, told, seed=1, held_out=np.arange(0), secret=b"s")
    assert trainee.privacy.sampling_rate == 0.2
    drawn = [trainee.draw(step) for step in range(2000)]
    counts = np.array([len(sizes) for _, sizes in drawn])
    assert all((sizes == 3).all() and len(rows) == sizes.sum() for rows, sizes in drawn)
    assert all((np.unique(corpus.cases[rows], return_counts=True)[1] == 3).all() for rows, _ in drawn)
    # Binomial(100, 0.2): mean 20, variance 16; five standard errors of 2,000 draws.
    assert abs(counts.mean() - 20) < 5 * 4 / np.sqrt(2000) and abs(counts.var() - 16) < 5 * 16 * np.sqrt(2 / 2000)
    often = np.bincount(np.concatenate([corpus.cases[rows[::3]] for rows, _ in drawn]), minlength=100)
    assert abs(often - 400).max() < 5 * np.sqrt(2000 * 0.16)
    again = trainee.draw(7)[0]
    assert np.array_equal(again, drawn[7][0]) and not np.array_equal(again, drawn[8][0])


def test_noise_is_on_every_parameter_with_the_stated_spread_and_divided_by_the_expected_size():
    corpus = encoded(200, vocabulary=3000)
    told = private(dp={"noise": 2.0, "clip": 0.3}, optimiser="adam", batch_size=20)
    machine = stack(corpus, told)
    machine.parameters = {name: machine.parameters[name] for name in machine.parameters}
    gradients, _ = clipped_gradients(machine.weights, machine.batch(), told, sizes=machine.sizes)
    for name, parameter in machine.parameters.items():
        parameter.grad = gradients[name].clone()
    machine.add_noise()
    added = {name: (p.grad - gradients[name]).flatten().numpy() for name, p in machine.parameters.items()}
    assert all((noise != 0).all() for noise in added.values())
    everything = np.concatenate(list(added.values()))
    error = 0.6 / np.sqrt(2 * len(everything))
    assert len(everything) > 18_000 and abs(everything.std() - 0.6) < 5 * error and abs(everything.mean()) < 7 * error
    steps = []
    machine.optimiser.step = lambda *, scale: steps.append(scale)
    machine.learn()
    assert steps == [1 / 20]
    drawn = {machine.parameters["heads.bias"].grad[0, 0].item()}
    machine.learn()  # another step, other noise
    assert machine.parameters["heads.bias"].grad[0, 0].item() not in drawn


def test_without_noise_and_bound_it_is_ordinary_training_on_all_cases():
    corpus = encoded(40, missing=0.0)
    told = private(dp={"noise": 0.0, "clip": 1e6}, batch_size=40, epochs=3)
    machine = stack(corpus, told)
    model = MTCNN(
        vocabulary_size=60, classes={t: len(n) for t, n in corpus.classes.items()}, **told.shape(), seed=0
    ).train()
    adam = torch.optim.Adam(model.parameters(), 1e-3, betas=(0.9, 0.99))
    for _ in range(3):
        machine.learn()
        adam.zero_grad()
        logits = model(TokenBatch(ids=corpus.ids, offsets=corpus.offsets))
        sum(
            torch.nn.functional.cross_entropy(logits[t], torch.from_numpy(corpus.labels[t])) / 2 for t in logits
        ).backward()
        adam.step()
    for name, tensor in model.state_dict().items():
        torch.testing.assert_close(machine.weights_of(0)[name], tensor, rtol=1e-4, atol=1e-5)
    assert privacy_of(told, cases=40).epsilon is None


def test_a_killed_run_goes_on_bit_for_bit(tmp_path):
    corpus, told = encoded(80), private(epochs=3)

    class Killed(Exception): ...

    def kill(stage, done, total):
        if done == 7:
            raise Killed

    whole = fit_private(corpus, told, seed=3, secret=b"known")
    path = tmp_path / "run.safetensors"
    with pytest.raises(Killed):
        fit_private(corpus, told, seed=3, secret=b"known", checkpoint=path, save_seconds=0, progress=kill)
    resumed = fit_private(corpus, told, seed=3, checkpoint=path)  # the secret comes from the checkpoint
    assert resumed.history == whole.history and len(whole.history) == 3
    for name, tensor in whole.model.state_dict().items():
        assert torch.equal(tensor, resumed.model.state_dict()[name])
    with pytest.raises(UsageError, match="belongs to a run with other data, settings or seed"):
        fit_private(corpus, told, seed=4, checkpoint=path)


def test_nobody_can_repeat_the_noise_from_the_seed():
    corpus, told = encoded(60), private(epochs=1)
    one, two = (fit_private(corpus, told, seed=3).model.state_dict() for _ in range(2))
    assert not torch.equal(one["convolution.weight"], two["convolution.weight"])


def test_the_training_cases_leave_no_number_in_the_history():
    fitted = fit_private(encoded(60), private(), seed=1)
    assert [set(entry) for entry in fitted.history] == [
        {"epoch", "validation_loss", "validation_losses", "validation_accuracy"}
    ] * 2
    alone = fit_private(encoded(60), private(validation_share=0), seed=1)
    assert alone.history == [{"epoch": 1}, {"epoch": 2}] and alone.best_epoch == 2


def test_frozen_word_vectors_stay_and_trained_ones_all_move():
    corpus = encoded(60)
    start = MTCNN(vocabulary_size=60, classes={"a": 2}, dim=6, filters=5, windows=(2, 3), seed=1).embedding.weight
    for embeddings, moved in (("frozen", False), ("trained", True)):
        fitted = fit_private(corpus, private(dp={"embeddings": embeddings}, epochs=1), seed=1)
        assert (
            (fitted.model.embedding.weight != start).all()
            if moved
            else torch.equal(fitted.model.embedding.weight, start)
        )


def test_models_of_a_stack_are_those_trained_alone():
    corpus, told = encoded(90), private(dropout=0.5, word_dropout=0.1)
    members = [np.arange(90), np.arange(0, 90, 2), np.arange(30, 90)]  # of different sizes, and so numbers of steps
    seeds = [5, 6, 7]
    found = {one.number: one for one in train_many_private(corpus, members, told, seeds=seeds, stack=3)}
    assert sorted(found) == [0, 1, 2]
    for number, rows in enumerate(members):
        alone = fit_private(corpus.take(rows), told, seed=seeds[number], secret=secret_of_seed(seeds[number]))
        assert np.array_equal(found[number].validation, rows[alone.validation])
        for name, tensor in alone.model.state_dict().items():
            torch.testing.assert_close(found[number].state[name], tensor, rtol=1e-4, atol=1e-5)


def test_words_outside_a_mask_are_read_as_unknown():
    corpus, told = encoded(60), private(epochs=1)
    mask = np.arange(60) < 30
    (found,) = train_many_private(corpus, [np.arange(60)], told, seeds=[1], masks=[mask])
    masked = encoded(60)
    masked.ids[~mask[masked.ids]] = 1
    (expected,) = train_many_private(masked, [np.arange(60)], told, seeds=[1])
    model, other = found.model(corpus, told), expected.model(corpus, told)
    one = model(TokenBatch(ids=corpus.ids, offsets=corpus.offsets))
    two = other(TokenBatch(ids=masked.ids, offsets=masked.offsets))
    for task in one:
        torch.testing.assert_close(one[task], two[task], rtol=1e-5, atol=1e-6)


def test_every_way_of_training_follows_the_defence():
    """fit, train_many, logits_many and ensembles: an undefended model in place of a defended one would be a leak."""
    corpus, told = encoded(90), private(epochs=1)
    assert isinstance(fit(corpus, told, seed=1), PrivateFitted)
    members, seeds = [np.arange(60), np.arange(30, 90)], [1, 2]
    known = {one.number: one for one in train_many_private(corpus, members, told, seeds=seeds)}
    for one in train_many(corpus, members, told, seeds=seeds):
        assert all(torch.equal(tensor, known[one.number].state[name]) for name, tensor in one.state.items())
    notes = []
    found = dict(logits_many(corpus, members, told, seeds=seeds, rows=np.arange(7), note=lambda *n: notes.append(n)))
    assert notes == [(0, 1, 1), (1, 1, 1)]
    sums = dict(
        logits_many(corpus, members, told, seeds=seeds, rows=np.arange(7),
                    reduce=lambda rows, logits: {"sum": logits["task0"].sum(1)})
    )  # fmt: skip
    for number, one in known.items():
        expected = logits_of(one.model(corpus, told), corpus, np.arange(7))
        assert all(np.array_equal(expected[task].astype(np.float16), found[number][task]) for task in expected)
        np.testing.assert_array_equal(sums[number]["sum"], expected["task0"].sum(1))


def test_the_labels_of_training_cases_reach_nothing_but_the_noised_gradient():
    """The pool of an ensemble counts labels to lift rare classes: here it sees the held-out cases' only."""
    corpus, told = encoded(120, missing=0.0), private(epochs=1, validation_share=0.3)
    seen = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            ensemble, "fit_pool", lambda v, labels, every: seen.append((labels, every)) or fit_pool(v, labels, every)
        )
        trained = ensemble.train(corpus, told, seed=1)
    assert trained.privacy is not None and 20 < len(trained.held_out.rows) < 50
    ((labels, every),) = seen
    for task in corpus.tasks:
        assert np.array_equal(labels[task], corpus.labels[task][trained.held_out.rows])
        assert np.array_equal(every[task], labels[task])


def test_one_case_more_changes_nothing_for_the_others():
    """Which cases are held out depends on each case alone; what is dropped and drawn, on nothing but the secret."""
    corpus, told = encoded(400, reports_a_case=2), private(validation_share=0.2)
    fewer = corpus.take(np.arange(2, 400))
    _, held = split(corpus.cases, told, seed=3)
    _, held_fewer = split(fewer.cases, told, seed=3)
    assert set(np.unique(fewer.cases[held_fewer])) == set(np.unique(corpus.cases[held])) - {0}
    assert 20 < len(np.unique(corpus.cases[held])) < 60 and len(held) == 2 * len(np.unique(corpus.cases[held]))
    assert not np.array_equal(held, split(corpus.cases, told, seed=4)[1])
    trainee = Trainee(0, np.arange(400), corpus, told, seed=3, secret=b"s")
    assert np.array_equal(trainee.held_out, held)
    dropping = private(dropout=0.5, word_dropout=0.5)
    one, two = (stack(corpus, dropping, secret=secret) for secret in (b"a", b"b"))
    for machine in (one, two):
        machine.trainees[0].draw = lambda step: (np.arange(20), np.full(10, 2))
    assert not torch.equal(one.batch().ids, two.batch().ids) and not torch.equal(one.batch().drops, two.batch().drops)


def test_a_promise_is_known_before_training():
    promise = privacy_of(
        private(dp={"noise": None, "epsilon": 4.0, "delta": 1e-4}, batch_size=50, epochs=10), cases=1000
    )
    assert 3.9 < promise.epsilon <= 4.0 and promise.steps == 200 and promise.sampling_rate == 0.05
    assert promise.unit == "case" and promise.noise > 0.5
    with pytest.raises(UsageError, match="delta must be below 1 ÷ the number of training cases"):
        privacy_of(private(dp={"delta": 0.01}), cases=100)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"patience": 5}, "needs patience = None: stopping by private cases"),
        ({"members": 3}, "needs members = 1"),
        ({"linear": True}, "needs linear = False"),
        ({"vectors": 0.1}, "needs vectors = 0"),
        ({"class_balance": 0.5}, "needs class_balance = 0"),
        ({"clip": 1.0}, "needs clip = None"),
    ],
)
def test_settings_that_undo_the_promise_are_refused_in_one_sentence(change, sentence):
    with pytest.raises(UsageError, match=sentence) as caught:
        private().changed(**change)
    assert "\n" not in str(caught.value)


def test_a_step_without_any_case_is_noise_alone():
    corpus, told = encoded(40), private(batch_size=1)
    machine = stack(corpus, told)
    machine.trainees[0].draw = lambda step: (np.arange(0), np.arange(0))
    batch = machine.batch()
    gradients, norms = clipped_gradients(machine.weights, batch, told, sizes=machine.sizes)
    assert len(norms) == 0 and not any(gradient.any() for gradient in gradients.values())
    before = machine.weights_of(0)
    machine.learn()
    assert all((before[name] != weight).all() for name, weight in machine.weights_of(0).items())


@pytest.mark.parametrize("where", ["interpreter", pytest.param("gpu", marks=pytest.mark.gpu)])
def test_the_gpus_steps_are_the_cpus(where):
    """``dp_checks.py`` in a process of its own: the interpreter must be asked for before Triton is imported."""
    pytest.importorskip("triton", reason="needs Triton: pip install 'pathveil[triton]'")
    if where == "gpu" and not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    environment = os.environ | {"TRITON_INTERPRET": "1" if where == "interpreter" else "0"}
    checks = Path(__file__).with_name("dp_checks.py")
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", str(checks)]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=1800)
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-2000:]
    assert " passed" in run.stdout and "skipped" not in run.stdout
