"""Norms of gradients by the CUDA kernel against the plain sums over pairs; run by ``test_cuda.py``, through the
interpreter or on a GPU. ``test_norms.py`` holds the plain sums against autograd."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from model.kernels.cuda_checks import DEVICE, EXAMPLES, problem, problems
from model.kernels.test_norms import grouped
from pathveil.model.kernels import cuda
from pathveil.model.kernels.norms import encoder_squares


def both(case, cases, *, words):
    ids, offsets, models, parameters, windows, gradient = case
    _, chosen, kept = cuda.forward(ids, offsets, models, *parameters, windows)
    batch = ids, offsets, models
    exact = [parameter.double() for parameter in parameters[:2]]
    expected = encoder_squares(
        gradient.double(), chosen, (), *batch, *exact, windows, cases, words=words, kernel="reference"
    )
    found = encoder_squares(gradient, chosen, kept, *batch, *parameters[:2], windows, cases, words=words, kernel="cuda")
    return found, expected.float()


@given(case=problems(), seed=st.integers(0, 999), words=st.booleans())
@settings(max_examples=EXAMPLES, deadline=None, derandomize=True)
def test_norms_of_cases(case, seed, words):
    models = np.zeros(len(case[1]) - 1, int) if case[2] is None else case[2].cpu().numpy()
    cases = grouped(np.random.default_rng(seed), models).to(DEVICE)
    found, expected = both(case, cases, words=words)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5 * max([1.0, *expected.tolist()]))


def test_norms_repeat_to_the_bit():
    case = problem(np.random.default_rng(8), (2, 3), 1, 12, 9, 20, [30, 9, 14], whole=False)
    cases = torch.tensor([[0, 2], [1, -1]], device=DEVICE)
    assert torch.equal(both(case, cases, words=True)[0], both(case, cases, words=True)[0])
