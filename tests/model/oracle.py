"""Every kernel against the reference: made-up documents and shapes, outputs and all gradients."""

from dataclasses import dataclass

import numpy as np
import torch
from hypothesis import strategies as st
from torch import Tensor

from pathveil.model.kernels import pooled


@dataclass
class Case:
    """A batch, parameters and a gradient that flows back from the features."""

    ids: Tensor
    offsets: Tensor
    models: Tensor | None
    parameters: list[Tensor]
    windows: tuple[int, ...]
    flow: Tensor

    def features_and_gradients(self, kernel: str, *, sparse: bool = False, device: str = "cpu") -> list[Tensor]:
        """Features, then the gradients of embedding, weight and bias, on the CPU."""
        parameters = [tensor.detach().clone().to(device).requires_grad_() for tensor in self.parameters]
        models = None if self.models is None else self.models.to(device)
        batch = self.ids.to(device), self.offsets.to(device)
        features = pooled(*batch, *parameters, windows=self.windows, models=models, kernel=kernel, sparse=sparse)
        features.backward(self.flow.to(device))
        results = [features.detach(), *(p.grad if p.grad is not None else torch.zeros_like(p) for p in parameters)]
        assert results[1].is_sparse == sparse
        return [result.to_dense().cpu() for result in results]


@st.composite
def cases(draw, *, stacked: bool = False, exact: bool = False, widest: int = 90) -> Case:
    """Documents of few distinct words (so that words and whole windows repeat), some empty, some shorter than a window.

    ``exact`` draws small whole numbers for all parameters: sums have no rounding, and ties between different windows
    are common. Otherwise the numbers are normal, float32.
    """
    windows = draw(st.sampled_from([(3, 4, 5), (2, 3), (1,), (5, 2, 7), (3,)]))
    filters = draw(st.one_of(st.integers(1, 7), st.integers(60, widest)))
    dim, vocabulary = draw(st.integers(1, 20)), draw(st.integers(1, 30))
    lengths = draw(st.lists(st.one_of(st.integers(0, 8), st.integers(0, 60)), min_size=0, max_size=7))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    stack = (draw(st.integers(1, 3)),) if stacked else ()
    shapes = (*stack, vocabulary, dim), (*stack, sum(windows), filters, dim), (*stack, len(windows), filters)

    def numbers(shape):
        return rng.integers(-2, 3, shape) if exact else rng.normal(size=shape)

    return Case(
        ids=torch.from_numpy(rng.integers(0, vocabulary, sum(lengths)).astype(np.int32)),
        offsets=torch.from_numpy(np.cumsum([0, *lengths])),
        models=torch.from_numpy(rng.integers(0, stack[0], len(lengths))) if stacked else None,
        parameters=[torch.from_numpy(numbers(shape).astype(np.float32)) for shape in shapes],
        windows=windows,
        flow=torch.from_numpy(numbers((len(lengths), len(windows) * filters)).astype(np.float32)),
    )


def assert_equal(found: list[Tensor], expected: list[Tensor], *, exact: bool = False) -> None:
    """Equal within 1e-5 of the largest number, or without any tolerance."""
    names = "features", "embedding gradient", "weight gradient", "bias gradient"
    for name, one, two in zip(names, found, expected, strict=True):
        scale = two.abs().max().item() if two.numel() else 0.0
        tolerance = 0.0 if exact else 1e-5 * max(scale, 1.0)
        torch.testing.assert_close(one, two, atol=tolerance, rtol=0, msg=lambda text, name=name: f"{name}: {text}")
