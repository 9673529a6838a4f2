"""Many models at once: each is the model it would be alone, whatever the stack, and nothing of it is kept too long."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from pathveil.errors import UsageError
from pathveil.training import stacked
from pathveil.training.loop import fit, logits_of
from pathveil.training.settings import TrainingSettings
from pathveil.training.stacked import logits_many, starts, train_many
from training.corpora import encoded

SMALL = TrainingSettings(dim=10, filters=6, windows=(2, 3), batch_size=16, learning_rate=0.01, epochs=3, patience=None)
CORPUS = encoded(150, missing=0.2, reports_a_case=2)
MEMBERS = [np.arange(0, 70), np.arange(40, 150), np.arange(10, 100, 2), np.arange(149, 99, -1)]
SEEDS = [3, 1, 4, 1]


def assert_alike(trained, fitted, members):
    assert len(trained.history) == len(fitted.history) and trained.best_epoch == fitted.best_epoch
    np.testing.assert_array_equal(trained.validation, members[fitted.validation])
    for ours, theirs in zip(trained.history, fitted.history, strict=True):
        assert ours["loss"] == pytest.approx(theirs["loss"], rel=1e-4)
        assert ours["validation_losses"] == pytest.approx(theirs["validation_losses"], rel=1e-4)
    for name, tensor in fitted.model.state_dict().items():
        torch.testing.assert_close(trained.state[name], tensor, atol=2e-4, rtol=1e-4, msg=lambda m, n=name: f"{n}: {m}")


@pytest.mark.parametrize("stack", [1, 3])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"optimiser": "adadelta", "learning_rate": 1.0, "clip": 0.5, "order": "length"},
        {"class_balance": 0.5, "robustness": 0.6},
        {"class_balance": 0.5, "smoothing": 0.1, "word_dropout": 0.2, "clip": 0.5},
    ],
)
def test_a_model_in_a_stack_is_the_model_alone(stack, changes):
    settings = SMALL.changed(**changes)
    found = {t.number: t for t in train_many(CORPUS, MEMBERS, settings, seeds=SEEDS, stack=stack)}
    assert sorted(found) == [0, 1, 2, 3]
    for number, (members, seed) in enumerate(zip(MEMBERS, SEEDS, strict=True)):
        assert_alike(found[number], fit(CORPUS.take(members), settings, seed=seed), members)


def test_each_model_stops_at_its_own_epoch_and_hands_its_place_on():
    settings = SMALL.changed(epochs=12, patience=1, learning_rate=0.05)
    order = [t.number for t in train_many(CORPUS, MEMBERS, settings, seeds=SEEDS, stack=2)]
    found = {t.number: t for t in train_many(CORPUS, MEMBERS, settings, seeds=SEEDS, stack=2)}
    assert sorted(order) == [0, 1, 2, 3]
    epochs = {number: len(trained.history) for number, trained in found.items()}
    assert len(set(epochs.values())) > 1, "a test of different epochs needs different epochs"
    for number, (members, seed) in enumerate(zip(MEMBERS, SEEDS, strict=True)):
        assert_alike(found[number], fit(CORPUS.take(members), settings, seed=seed), members)


def test_a_word_outside_a_models_mask_is_unknown_to_it():
    rng = np.random.default_rng(0)
    masks = [rng.random(CORPUS.vocabulary_size) < share for share in (0.3, 0.9)]
    for mask in masks:
        mask[:2] = True
    found = {t.number: t for t in train_many(CORPUS, MEMBERS[:2], SMALL, seeds=SEEDS[:2], masks=masks, stack=2)}
    logits = dict(logits_many(CORPUS, MEMBERS[:2], SMALL, seeds=SEEDS[:2], masks=masks, stack=2))
    for number in (0, 1):
        narrow = replace(CORPUS, ids=np.where(masks[number][CORPUS.ids], CORPUS.ids, 1).astype(np.int32))
        fitted = fit(narrow.take(MEMBERS[number]), SMALL, seed=SEEDS[number])
        assert_alike(found[number], fitted, MEMBERS[number])
        expected = logits_of(fitted.model, narrow)
        for task in CORPUS.tasks:
            np.testing.assert_allclose(logits[number][task], expected[task], atol=5e-3)


class Full:
    """A device on which only a stack of one finds room: larger ones run out of memory when they are made, in their
    second epoch, or when a finished model is asked for answers."""

    def __init__(self, monkeypatch, *, at: str):
        self.made, self.learnt, self.at, make = [], 0, at, stacked.machine_for

        def machine_for(*given, slots, **more):
            self.made.append(slots)
            self._check("made", slots)
            machine = make(*given, slots=slots, **more)
            self.learn, self.read = machine.learn, machine.read
            machine.learn = lambda *plan: (self._check("learn", machine.slots), self.learn(*plan))[1]
            machine.read = lambda *asked: (self._check("read", machine.slots), self.read(*asked))[1]
            return machine

        monkeypatch.setattr(stacked, "machine_for", machine_for)

    def _check(self, at, slots):
        self.learnt += at == "learn"
        if at == self.at and slots > 1 and (at != "learn" or self.learnt == 2):
            raise torch.OutOfMemoryError("CUDA out of memory")


@pytest.mark.parametrize("at", ["made", "learn", "read"])
def test_where_memory_is_full_what_is_left_goes_on_in_smaller_stacks(monkeypatch, at):
    settings = SMALL.changed(epochs=2, patience=None, validation_share=0)
    expected = dict(logits_many(CORPUS, MEMBERS, settings, seeds=SEEDS, stack=1))
    full = Full(monkeypatch, at=at)
    seen = []
    found = list(
        logits_many(CORPUS, MEMBERS, settings, seeds=SEEDS, stack=4, progress=lambda *call: seen.append(call[1:]))
    )
    assert full.made == ([4, 2] if at == "learn" else [4, 2, 1])
    assert sorted(number for number, _ in found) == [0, 1, 2, 3]
    assert seen == [(done, 4) for done in range(5)]
    for number, logits in found:
        for task, values in logits.items():
            np.testing.assert_allclose(values, expected[number][task], atol=5e-3)


def test_a_device_without_room_for_one_model_says_so(monkeypatch):
    def no_room(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(stacked, "machine_for", no_room)
    with pytest.raises(torch.OutOfMemoryError):
        list(train_many(CORPUS, MEMBERS, SMALL, seeds=SEEDS, stack=4))


def test_logits_are_the_trained_models_in_half_precision():
    rows = np.array([5, 0, 149, 77])
    settings = SMALL.changed(epochs=6, patience=1)
    trained = {t.number: t for t in train_many(CORPUS, MEMBERS, settings, seeds=SEEDS)}
    for number, logits in logits_many(CORPUS, MEMBERS, settings, seeds=SEEDS, rows=rows, stack=3):
        expected = logits_of(trained[number].model(CORPUS, settings), CORPUS, rows)
        for task in CORPUS.tasks:
            assert logits[task].dtype == np.float16 and logits[task].shape == expected[task].shape
            np.testing.assert_allclose(logits[task], expected[task], atol=5e-3)


def test_logits_can_be_reduced_some_documents_at_a_time(monkeypatch):
    monkeypatch.setattr("pathveil.training.stacked.READ_AT_ONCE", 7)
    settings = SMALL.changed(epochs=2, patience=None)
    seen: list[int] = []

    def largest(rows, logits):
        seen.append(len(rows))
        return {task: scores.amax(1) for task, scores in logits.items()}

    options = {"seeds": SEEDS[:2], "stack": 2}
    whole = dict(logits_many(CORPUS, MEMBERS[:2], settings, **options))
    for number, arrays in logits_many(CORPUS, MEMBERS[:2], settings, reduce=largest, **options):
        for task, values in arrays.items():
            np.testing.assert_allclose(values, whole[number][task].max(1), atol=2e-3)
    assert max(seen) == 2 * 7  # of two models


def test_vectors_are_where_every_embedding_starts():
    vectors = np.full((CORPUS.vocabulary_size, SMALL.dim), 0.5, np.float32)
    settings = SMALL.changed(epochs=1, learning_rate=1e-9)
    for trained in train_many(CORPUS, MEMBERS[:2], settings, seeds=SEEDS[:2], vectors=vectors, stack=2):
        torch.testing.assert_close(trained.state["embedding.weight"], torch.from_numpy(vectors))


def test_weights_drawn_ahead_are_the_same_weights():
    one, two = (list(starts(CORPUS, SMALL, [5, 6, 7], None, ahead=ahead)) for ahead in (0, 2))
    assert [number for number, _ in two] == [0, 1, 2]
    for (_, ours), (_, theirs) in zip(one, two, strict=True):
        assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_progress_counts_models():
    seen = []
    list(train_many(CORPUS, MEMBERS[:3], SMALL, seeds=SEEDS[:3], stack=2, progress=lambda *call: seen.append(call)))
    assert seen[0] == ("training models", 0, 3) and seen[-1] == ("training models", 3, 3)


def test_what_does_not_fit_is_one_sentence():
    with pytest.raises(UsageError, match="seeds must be one for each of the 4 models; got 1"):
        list(train_many(CORPUS, MEMBERS, SMALL, seeds=[1]))
    with pytest.raises(UsageError, match="masks must be one for each of the 4 models; got 0"):
        list(train_many(CORPUS, MEMBERS, SMALL, seeds=SEEDS, masks=[]))
    with pytest.raises(UsageError, match="one case"):
        list(train_many(CORPUS, [np.array([0])], SMALL, seeds=[1]))
    with pytest.raises(UsageError, match="training diverged in epoch 1"):
        list(train_many(CORPUS, MEMBERS, SMALL.changed(learning_rate=1e30), seeds=SEEDS))
    assert list(train_many(CORPUS, [], SMALL, seeds=[])) == []


@pytest.mark.parametrize("where", ["interpreter", pytest.param("gpu", marks=pytest.mark.gpu)])
def test_a_stack_on_a_gpu(where):
    """``graphed_checks.py`` in a process of its own: the interpreter must be asked for before Triton is imported."""
    pytest.importorskip("triton", reason="needs Triton: pip install 'pathveil[triton]'")
    if where == "gpu" and not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    checks = Path(__file__).with_name("graphed_checks.py")
    environment = os.environ | {"TRITON_INTERPRET": "1" if where == "interpreter" else "0"}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", str(checks)]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=1800)
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-2000:]
    assert " passed" in run.stdout and "skipped" not in run.stdout
