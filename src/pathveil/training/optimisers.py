"""Adam and Adadelta whose work does not grow with the words a batch does not touch.

A batch holds a few thousand of a vocabulary's words, so the embedding's gradient is zero in most rows; a dense
optimiser rewrites all of them all the same. Here a row that gets no gradient is left alone, and caught up when it is
next needed (``touch`` before a forward pass, ``settle`` before the weights are read as a whole). What that changes:

- Adadelta (Zeiler 2012): nothing. Without a gradient its step is zero and both running means only shrink by ρ; n missed
  steps are one multiplication by ρⁿ. Equal to the dense form but for rounding.
- Adam (Kingma & Ba 2015): without a gradient the weights still move, by the momentum that is left. With last moments m
  and v at step t, the step s > t moves a weight by

      lr_s · m β₁ˢ⁻ᵗ / (1 − β₁ˢ)  ÷  (√(v β₂ˢ⁻ᵗ / (1 − β₂ˢ)) + ε)

  which, but for ε, is m ÷ √v times c_s rˢ⁻ᵗ with c_s = lr_s √(1 − β₂ˢ) ÷ (1 − β₁ˢ) and r = β₁ ÷ √β₂. The sum of those
  factors over the missed steps depends on t alone: one number a past step serves every row last seen then. So the
  caught-up row is the dense one, except that ε stands beside √v instead of √(v β₂ⁿ): a relative error of ε ÷ √v (about
  1e-4 for gradients of 1e-4). Optimisers that skip the drift (as PyTorch's SparseAdam) move a rare word by up to ten
  times less than Adam does.

>>> import torch
>>> weight = torch.nn.Parameter(torch.zeros(3, 2))
>>> adam = Adam({"embedding.weight": weight}, lazy=("embedding.weight",), learning_rate=0.1)
>>> adam.touch(torch.tensor([1]))
>>> weight.grad = torch.sparse_coo_tensor([[1]], [[1.0, -1.0]], (3, 2), check_invariants=True)
>>> adam.step()
>>> [[round(value, 4) for value in row] for row in weight.tolist()]
[[0.0, 0.0], [-0.1, 0.1], [0.0, 0.0]]
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numba import njit
from torch import Tensor, nn

from pathveil.model.threads import evenly, spread, threads

FORGOTTEN = 1e-12  # a drift factor below this moves nothing


class Optimiser(ABC):
    """Named parameters, two running means for each, and for lazy ones the last step of every row.

    Parameters named in ``lazy`` are matrices of rows and have sparse gradients (coalesced, of the touched rows).
    """

    means: tuple[str, str]  # names of the running means in a checkpoint

    def __init__(
        self,
        parameters: Mapping[str, nn.Parameter],
        *,
        lazy: Collection[str],
        learning_rate: float,
        falls_over: int | None = None,
    ):
        self.parameters = dict(parameters)
        self.lazy = tuple(name for name in self.parameters if name in lazy)
        self.learning_rate = learning_rate
        self.falls_over = falls_over  # steps in which the learning rate goes down to zero, evenly
        self.steps = 0
        # Rows go through compiled loops on the CPU, one pass instead of a dozen, and through PyTorch elsewhere.
        self.compiled = all(self.parameters[name].device.type == "cpu" for name in self.lazy)
        self.moments = {
            name: (torch.zeros_like(parameter, requires_grad=False), torch.zeros_like(parameter, requires_grad=False))
            for name, parameter in self.parameters.items()
        }
        self.last = {
            name: torch.zeros(len(self.parameters[name]), dtype=torch.int64, device=self.parameters[name].device)
            for name in self.lazy
        }

    @torch.no_grad()
    def step(self, *, scale: float = 1.0) -> None:
        """One step along the gradients times ``scale`` (what clipping asks for); the gradients are then dropped."""
        self.steps += 1
        for name, parameter in self.parameters.items():
            gradient = parameter.grad
            if gradient is None:
                continue
            if gradient.is_sparse:
                self.advance_rows(name, gradient._indices()[0], gradient._values(), scale)
            else:
                self.advance(parameter, gradient if scale == 1.0 else gradient * scale, *self.moments[name])
            parameter.grad = None

    def rate(self) -> float:
        """The learning rate of the step that is being made."""
        if self.falls_over is None:
            return self.learning_rate
        return self.learning_rate * max(0.0, 1 - (self.steps - 1) / self.falls_over)

    @abstractmethod
    def advance(self, weight: Tensor, gradient: Tensor, first: Tensor, second: Tensor) -> None:
        """The dense step of one parameter."""

    @abstractmethod
    def advance_rows(self, name: str, rows: Tensor, gradient: Tensor, scale: float) -> None:
        """The step of some rows of a lazy parameter, with their gradients (rows, …)."""

    @abstractmethod
    def touch(self, rows: Tensor) -> None:
        """Bring these distinct rows of the lazy parameters up to date: before a forward pass that reads them."""

    def settle(self) -> None:
        """Bring every row up to date: before the weights are read as a whole."""
        for name in self.lazy:
            self.touch(torch.arange(len(self.last[name]), device=self.last[name].device))

    def state(self) -> dict[str, Tensor]:
        """Everything needed to go on bit for bit, by name."""
        tensors = {"steps": torch.tensor(self.steps)}
        for name, moments in self.moments.items():
            tensors |= {f"{mean}.{name}": moment for mean, moment in zip(self.means, moments, strict=True)}
        return tensors | {f"last.{name}": last for name, last in self.last.items()}

    @torch.no_grad()
    def restore(self, state: Mapping[str, Tensor]) -> None:
        self.steps = int(state["steps"])
        for name, moments in self.moments.items():
            for mean, moment in zip(self.means, moments, strict=True):
                moment.copy_(state[f"{mean}.{name}"])
        for name, last in self.last.items():
            last.copy_(state[f"last.{name}"])


class Adam(Optimiser):
    """Adam; β₂ = 0.99 as the reference implementation of the papers' network sets it."""

    means = ("mean", "square")
    BETAS, EPSILON = (0.9, 0.99), 1e-8

    def __init__(
        self,
        parameters: Mapping[str, nn.Parameter],
        *,
        lazy: Collection[str] = (),
        learning_rate: float = 1e-3,
        falls_over: int | None = None,
        betas: tuple[float, float] = BETAS,
        epsilon: float = EPSILON,
    ):
        super().__init__(parameters, lazy=lazy, learning_rate=learning_rate, falls_over=falls_over)
        self.betas, self.epsilon = betas, epsilon
        self.fade = betas[0] / betas[1] ** 0.5
        if not 0 < self.fade < 1:
            raise ValueError(f"the first beta must be below the root of the second, for momentum to fade; got {betas}")
        self.window = int(np.log(FORGOTTEN) / np.log(self.fade))
        self.drift = np.zeros(1024)  # drift[t]: how many times m ÷ √v a row last seen at step t has moved since

    def step(self, *, scale: float = 1.0) -> None:
        super().step(scale=scale)
        if len(self.drift) <= self.steps:
            self.drift = np.concatenate([self.drift, np.zeros_like(self.drift)])
        past = np.arange(max(0, self.steps - self.window), self.steps)
        self.drift[past] += self.size() * self.fade ** (self.steps - past)

    def size(self) -> float:
        """lr · √(1 − β₂ˢ) ÷ (1 − β₁ˢ): the factor of m ÷ √v in step s."""
        first, second = self.betas
        return self.rate() * (1 - second**self.steps) ** 0.5 / (1 - first**self.steps)

    def floor(self) -> float:
        """ε beside √v instead of the corrected root."""
        return self.epsilon * (1 - self.betas[1] ** self.steps) ** 0.5

    def advance(self, weight: Tensor, gradient: Tensor, first: Tensor, second: Tensor) -> None:
        first.lerp_(gradient, 1 - self.betas[0])
        second.mul_(self.betas[1]).addcmul_(gradient, gradient, value=1 - self.betas[1])
        weight.addcdiv_(first, second.sqrt().add_(self.floor()), value=-self.size())

    def advance_rows(self, name: str, rows: Tensor, gradient: Tensor, scale: float) -> None:
        weight, (first, second), last = self.parameters[name], self.moments[name], self.last[name]
        self._catch_up(name, rows, self.steps - 1)  # does nothing to rows that were touched before the forward pass
        if self.compiled:
            constants = (scale, self.size(), self.floor(), *self.betas)
            _each_row(_adam_rows, rows, (gradient, weight, first, second, last), self.steps, *constants)
            return
        parts = weight[rows], first[rows], second[rows]
        self.advance(parts[0], gradient * scale, parts[1], parts[2])
        for whole, part in zip((weight, first, second), parts, strict=True):
            whole.index_copy_(0, rows, part)
        last[rows] = self.steps

    @torch.no_grad()
    def touch(self, rows: Tensor) -> None:
        for name in self.lazy:
            self._catch_up(name, rows, self.steps)

    def _catch_up(self, name: str, rows: Tensor, now: int) -> None:
        weight, (first, second), last = self.parameters[name], self.moments[name], self.last[name]
        if self.compiled:
            constants = (now, self.drift, self.epsilon, *self.betas)
            _each_row(_adam_catch_up, rows, (weight, first, second, last), *constants)
            return
        moved = torch.from_numpy(self.drift).to(weight.device)[last[rows]]
        gap = (now - last[rows]).double()
        moved = torch.where(gap > 0, moved, 0.0)[:, None].to(weight.dtype)
        parts = weight[rows], first[rows], second[rows]
        weight.index_copy_(0, rows, parts[0] - moved * parts[1] / (parts[2].sqrt() + self.epsilon))
        first.index_copy_(0, rows, parts[1] * (self.betas[0] ** gap)[:, None].to(weight.dtype))
        second.index_copy_(0, rows, parts[2] * (self.betas[1] ** gap)[:, None].to(weight.dtype))
        last[rows] = now

    def state(self) -> dict[str, Tensor]:
        return super().state() | {"drift": torch.from_numpy(self.drift)}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        super().restore(state)
        self.drift = state["drift"].numpy().copy()


class Adadelta(Optimiser):
    """Adadelta, the distribution paper's optimiser; a learning rate of 1 is Zeiler's."""

    means = ("square", "moved")
    RHO, EPSILON = 0.9, 1e-6

    def __init__(
        self,
        parameters: Mapping[str, nn.Parameter],
        *,
        lazy: Collection[str] = (),
        learning_rate: float = 1.0,
        falls_over: int | None = None,
        rho: float = RHO,
        epsilon: float = EPSILON,
    ):
        super().__init__(parameters, lazy=lazy, learning_rate=learning_rate, falls_over=falls_over)
        self.rho, self.epsilon = rho, epsilon

    def advance(self, weight: Tensor, gradient: Tensor, first: Tensor, second: Tensor) -> None:
        first.mul_(self.rho).addcmul_(gradient, gradient, value=1 - self.rho)
        change = (second + self.epsilon).sqrt_().div_((first + self.epsilon).sqrt_()).mul_(gradient)
        second.mul_(self.rho).addcmul_(change, change, value=1 - self.rho)
        weight.add_(change, alpha=-self.rate())

    def advance_rows(self, name: str, rows: Tensor, gradient: Tensor, scale: float) -> None:
        weight, (first, second), last = self.parameters[name], self.moments[name], self.last[name]
        if self.compiled:
            constants = (scale, self.rate(), self.rho, self.epsilon)
            _each_row(_adadelta_rows, rows, (gradient, weight, first, second, last), self.steps, *constants)
            return
        missed = (self.rho ** (self.steps - 1 - last[rows]).double())[:, None].to(weight.dtype)
        parts = weight[rows], first[rows] * missed, second[rows] * missed
        self.advance(parts[0], gradient * scale, parts[1], parts[2])
        for whole, part in zip((weight, first, second), parts, strict=True):
            whole.index_copy_(0, rows, part)
        last[rows] = self.steps

    def touch(self, rows: Tensor) -> None:
        """Nothing to do: without a gradient Adadelta moves no weight, and its means are mended at the next one."""


def gradient_norm(parameters: Mapping[str, nn.Parameter]) -> float:
    """The Euclidean norm of all gradients together, sparse ones included.

    >>> weight = nn.Parameter(torch.zeros(4, 2))
    >>> weight.grad = torch.sparse_coo_tensor([[2]], [[3.0, 4.0]], (4, 2))
    >>> gradient_norm({"embedding.weight": weight})
    5.0
    """
    gradients = [parameter.grad for parameter in parameters.values() if parameter.grad is not None]
    norms = [torch.linalg.vector_norm(g._values() if g.is_sparse else g) for g in gradients]
    return float(torch.linalg.vector_norm(torch.stack(norms))) if norms else 0.0


def _each_row(loop: Callable[..., None], rows: Tensor, tensors: Sequence[Tensor], *constants: Any) -> None:
    """A compiled loop over rows of tensors, given as arrays over the same memory."""
    arrays = rows.numpy(), *(tensor.detach().numpy() for tensor in tensors)
    spread(lambda part: loop(*part, *arrays, *constants), evenly(len(rows), threads()))


@njit(nogil=True, cache=True)
def _adam_catch_up(start, stop, rows, weight, mean, square, last, now, drift, epsilon, beta1, beta2):
    for place in range(start, stop):
        row = rows[place]
        gap = now - last[row]
        if gap > 0:
            if last[row] > 0:
                moved = np.float32(drift[last[row]])
                keep1, keep2 = np.float32(beta1**gap), np.float32(beta2**gap)
                floor = np.float32(epsilon)
                for column in range(weight.shape[1]):
                    weight[row, column] -= moved * mean[row, column] / (np.sqrt(square[row, column]) + floor)
                    mean[row, column] *= keep1
                    square[row, column] *= keep2
            last[row] = now


@njit(nogil=True, cache=True)
def _adam_rows(start, stop, rows, gradient, weight, mean, square, last, now, scale, size, floor, beta1, beta2):
    scale, size, floor = np.float32(scale), np.float32(size), np.float32(floor)
    keep1, keep2 = np.float32(beta1), np.float32(beta2)
    add1, add2 = np.float32(1 - beta1), np.float32(1 - beta2)
    for place in range(start, stop):
        row = rows[place]
        for column in range(weight.shape[1]):
            along = scale * gradient[place, column]
            mean[row, column] = keep1 * mean[row, column] + add1 * along
            square[row, column] = keep2 * square[row, column] + add2 * along * along
            weight[row, column] -= size * mean[row, column] / (np.sqrt(square[row, column]) + floor)
        last[row] = now


@njit(nogil=True, cache=True)
def _adadelta_rows(start, stop, rows, gradient, weight, square, moved, last, now, scale, size, rho, epsilon):
    scale, size, floor = np.float32(scale), np.float32(size), np.float32(epsilon)
    keep, add = np.float32(rho), np.float32(1 - rho)
    for place in range(start, stop):
        row = rows[place]
        missed = np.float32(rho ** (now - 1 - last[row]))
        for column in range(weight.shape[1]):
            along = scale * gradient[place, column]
            square[row, column] = keep * missed * square[row, column] + add * along * along
            before = missed * moved[row, column]
            change = np.sqrt(before + floor) / np.sqrt(square[row, column] + floor) * along
            moved[row, column] = keep * before + add * change * change
            weight[row, column] -= size * change
        last[row] = now
