"""The GPU's stack against the CPU's; run by ``test_stacked.py``, through Triton's interpreter or on a GPU."""

import numpy as np
import pytest
import torch

from pathveil.model.kernels import cuda
from pathveil.training import stacked
from pathveil.training.graphed import GraphedStack, fit_graphed
from pathveil.training.loop import fit
from pathveil.training.settings import TrainingSettings
from training.corpora import encoded

DEVICE = torch.device("cpu" if cuda.INTERPRETED else "cuda")
if cuda.INTERPRETED:  # fewer turns of Python loops; the programs are the same
    cuda.SHARES, cuda.UNROLL = 1, 2

CORPUS = encoded(18, vocabulary=24, missing=0.2, classes=(3, 2), length=14)
SETTINGS = TrainingSettings(
    dim=5, filters=4, windows=(1, 3), batch_size=8, learning_rate=0.01, epochs=2, patience=None, validation_share=0.2
)
MEMBERS, SEEDS = [np.arange(0, 9), np.arange(4, 18), np.arange(1, 18, 2)], [3, 1, 4]


def run(monkeypatch, settings, masks=None, *, machine=None, slots=2):
    if machine is not None:
        monkeypatch.setattr(stacked, "machine_for", lambda *_, **__: machine)
    found = stacked.train_many(CORPUS, MEMBERS, settings, seeds=SEEDS, masks=masks, stack=slots)
    return {trained.number: trained for trained in found}


@pytest.mark.parametrize(
    "changes",
    [
        {"optimiser": "adadelta", "learning_rate": 1.0, "clip": 0.05, "falling": True},
        {"class_balance": 0.5, "robustness": 0.6, "falling": True},
        {"class_balance": 0.5, "smoothing": 0.1, "word_dropout": 0.3, "clip": 0.05},
    ],
)
def test_in_float32_it_trains_what_the_cpu_trains(monkeypatch, changes):
    settings = SETTINGS.changed(**changes)
    masks = [np.arange(CORPUS.vocabulary_size) % 5 != number + 2 for number in range(3)]
    expected = run(monkeypatch, settings, masks)
    machine = GraphedStack(CORPUS, settings, slots=2, device=DEVICE, masked=True, autocast=False)
    found = run(monkeypatch, settings, masks, machine=machine)
    assert sorted(found) == sorted(expected) == [0, 1, 2]
    for number, trained in found.items():
        for ours, theirs in zip(trained.history, expected[number].history, strict=True):
            assert ours["loss"] == pytest.approx(theirs["loss"], rel=1e-4)
            assert ours["validation_losses"] == pytest.approx(theirs["validation_losses"], rel=1e-4)
        for name, tensor in trained.state.items():
            # As a whole: Adam makes whole steps of gradients that are only rounding.
            other = expected[number].state[name]
            assert (tensor - other).norm() < 2e-4 * other.norm(), name


def test_in_bfloat16_it_is_near_and_repeats_to_the_bit(monkeypatch):
    monkeypatch.setitem(globals(), "MEMBERS", MEMBERS[:2])
    monkeypatch.setitem(globals(), "SEEDS", SEEDS[:2])
    settings = SETTINGS.changed(epochs=1)
    expected = run(monkeypatch, settings)
    runs = [
        run(monkeypatch, settings, machine=GraphedStack(CORPUS, settings, slots=2, device=DEVICE)) for _ in range(2)
    ]
    for number, trained in runs[0].items():
        for ours, theirs in zip(trained.history, expected[number].history, strict=True):
            assert ours["loss"] == pytest.approx(theirs["loss"], rel=0.02)
        assert all(torch.equal(tensor, runs[1][number].state[name]) for name, tensor in trained.state.items())


def test_one_model_alone_goes_on_after_a_stop_as_if_nothing_had_happened(tmp_path):
    def train(progress=lambda *_: None, checkpoint=None):
        options = {"held_out": None, "vectors": None, "device": DEVICE, "save_seconds": 0, "stage": "training"}
        return fit_graphed(
            CORPUS, SETTINGS, seed=3, progress=progress, checkpoint=checkpoint, autocast=False, **options
        )

    def stop(stage, done, total):
        if done == 1:
            raise KeyboardInterrupt

    path = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        train(stop, path)
    halves, whole, expected = train(checkpoint=path), train(), fit(CORPUS, SETTINGS, seed=3)
    assert halves.history == whole.history and halves.best_epoch == expected.best_epoch
    np.testing.assert_array_equal(whole.validation, expected.validation)
    for name, tensor in whole.model.state_dict().items():
        assert torch.equal(tensor, halves.model.state_dict()[name])
        other = expected.model.state_dict()[name]
        assert (tensor.cpu() - other).norm() < 2e-4 * other.norm(), name


def test_a_stack_that_is_gone_leaves_no_more_on_the_gpu_than_the_one_before():
    if DEVICE.type != "cuda":
        return
    held = []
    for _ in range(3):
        list(stacked.logits_many(CORPUS, MEMBERS, SETTINGS, seeds=SEEDS, device=DEVICE))
        held.append(torch.cuda.memory_reserved())
    assert held[2] == held[0]
