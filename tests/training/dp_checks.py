"""Private steps through the CUDA kernel against the CPU's; run by ``test_dp.py``, through Triton's interpreter or on a
GPU."""

import numpy as np
import torch

from pathveil.model.kernels import cuda
from pathveil.training.dp import PrivateStack, Trainee, clipped_gradients, fit_private, train_many_private
from training.corpora import encoded
from training.test_dp import private

DEVICE = torch.device("cpu" if cuda.INTERPRETED else "cuda")
if cuda.INTERPRETED:  # fewer turns of Python loops; the programs are the same
    cuda.SHARES, cuda.UNROLL = 1, 2

CORPUS = encoded(24, vocabulary=24, missing=0.2, classes=(3, 2), length=14, reports_a_case=2)


def stack(settings, device, *, kernel=None, models=2):
    rows, none = np.arange(CORPUS.documents), np.arange(0)
    trainees = [Trainee(m, rows, CORPUS, settings, seed=m, held_out=none, secret=bytes([m])) for m in range(models)]
    return PrivateStack(CORPUS, settings, trainees, vectors=None, device=device, kernel=kernel)


def test_clipped_gradients_are_the_cpus():
    for embeddings in ("trained", "frozen"):
        settings = private(dropout=0.3, word_dropout=0.2, batch_size=6, dp={"clip": 0.1, "embeddings": embeddings})
        found, expected = stack(settings, DEVICE, kernel="cuda"), stack(settings, torch.device("cpu"))
        sizes, words = expected.sizes, embeddings == "trained"
        ours, norms = clipped_gradients(found.weights, found.batch(), settings, sizes=sizes, words=words, kernel="cuda")
        theirs, known = clipped_gradients(expected.weights, expected.batch(), settings, sizes=sizes, words=words)
        torch.testing.assert_close(norms.cpu(), known, rtol=1e-4, atol=1e-5)
        for name, gradient in theirs.items():
            assert (gradient is None) == (ours[name] is None) == (name == "embedding.weight" and not words)
            if gradient is not None:
                torch.testing.assert_close(ours[name].cpu(), gradient, rtol=1e-4, atol=1e-6)


def test_steps_without_noise_are_the_cpus():
    settings = private(batch_size=6, dp={"clip": 0.1, "noise": 0.0})
    found, expected = stack(settings, DEVICE, kernel="cuda"), stack(settings, torch.device("cpu"))
    for machine in (found, expected):
        for _ in range(2):
            machine.learn()
    for slot in range(2):
        for name, weight in expected.weights_of(slot).items():
            torch.testing.assert_close(found.weights_of(slot)[name], weight, rtol=1e-3, atol=1e-4)


def test_a_run_on_a_gpu_repeats_and_goes_on_bit_for_bit(tmp_path):
    if DEVICE.type != "cuda":
        return
    settings, path = private(epochs=2, batch_size=6), tmp_path / "run.safetensors"

    class Killed(Exception): ...

    def kill(stage, done, total):
        if done == 2:
            raise Killed

    whole = fit_private(CORPUS, settings, seed=1, secret=b"s", device=DEVICE)
    try:
        fit_private(
            CORPUS, settings, seed=1, secret=b"s", device=DEVICE, checkpoint=path, save_seconds=0, progress=kill
        )
    except Killed:
        pass
    resumed = fit_private(CORPUS, settings, seed=1, device=DEVICE, checkpoint=path)
    for name, tensor in whole.model.state_dict().items():
        assert torch.equal(tensor, resumed.model.state_dict()[name])
    members = [np.arange(16), np.arange(8, 24)]
    one, two = (
        {m.number: m for m in train_many_private(CORPUS, members, settings, seeds=[1, 2], device=DEVICE)}
        for _ in range(2)
    )
    assert all(torch.equal(t, two[m].state[name]) for m in one for name, t in one[m].state.items())


def test_noise_has_the_stated_spread():
    settings = private(batch_size=6, dp={"noise": 2.0, "clip": 0.5})
    machine = stack(settings, DEVICE, kernel="cuda")
    for parameter in machine.parameters.values():
        parameter.grad = torch.zeros_like(parameter)
    machine.add_noise()
    everything = torch.cat([parameter.grad.flatten() for parameter in machine.parameters.values()]).cpu().numpy()
    assert abs(everything.std() - 1.0) < 5 / np.sqrt(2 * len(everything))
