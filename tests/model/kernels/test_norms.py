"""Norms of a case's gradient against gradients made one case at a time by autograd, and against opacus."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from model.oracle import cases as problems
from pathveil.model import MTCNN, TokenBatch
from pathveil.model.kernels import as_stack, choose, pooled
from pathveil.model.kernels.norms import encoder_squares, head_squares, pairs_of, sum_pairs


def grouped(rng: np.random.Generator, models: np.ndarray, most: int = 4) -> torch.Tensor:
    """Documents dealt at random to cases of one model each; some documents belong to no case."""
    made = []
    for model in np.unique(models):
        mine = rng.permutation(np.flatnonzero(models == model))
        mine = mine[: len(mine) - rng.integers(0, 2)]
        while len(mine):
            size = rng.integers(1, most + 1)
            made.append(mine[:size])
            mine = mine[size:]
    table = np.full((len(made), max(map(len, made), default=1)), -1)
    for row, documents in zip(table, made, strict=True):
        row[: len(documents)] = documents
    return torch.from_numpy(table)


def autograd_squares(problem, cases: torch.Tensor, *, words: bool) -> torch.Tensor:
    """The dense reference in float64, one backward pass a case."""
    squares = []
    for case in cases:
        parameters = [tensor.double().requires_grad_() for tensor in problem.parameters]
        features = pooled(
            problem.ids, problem.offsets, *parameters,
            windows=problem.windows, models=problem.models, kernel="reference",
        )  # fmt: skip
        mine = case[case >= 0]
        features[mine].backward(problem.flow[mine].double())
        squares.append(sum(p.grad.square().sum() for p in (parameters if words else parameters[1:])))
    return torch.stack(squares) if squares else torch.zeros(0, dtype=torch.float64)


@given(
    problem=st.one_of(problems(widest=64), problems(stacked=True, widest=64)),
    seed=st.integers(0, 999),
    words=st.booleans(),
)
@settings(max_examples=60, deadline=None, derandomize=True)
@pytest.mark.parametrize("kernel", ["cpu", "reference"])
def test_a_case_of_several_reports_has_the_norm_of_its_summed_gradient(kernel, problem, seed, words):
    models = np.zeros(len(problem.offsets) - 1, int) if problem.models is None else problem.models.numpy()
    cases = grouped(np.random.default_rng(seed), models)
    parameters = as_stack(*problem.parameters)
    batch = problem.ids, problem.offsets, problem.models
    features, chosen, kept = choose(parameters[0], kernel).forward(*batch, *parameters, problem.windows)
    found = encoder_squares(
        problem.flow.view(features.shape), chosen, kept, *batch, *parameters[:2], problem.windows, cases,
        words=words, kernel=kernel,
    )  # fmt: skip
    expected = autograd_squares(problem, cases, words=words)
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5 * max([1.0, *expected.tolist()]))


def test_pairs_of_a_case_are_summed_to_it_alone():
    cases = torch.tensor([[3, 1], [0, -1], [-1, -1]])
    pairs, places = pairs_of(cases)
    assert pairs.tolist() == [[3, 3], [3, 1], [1, 3], [1, 1], [0, 0]]
    assert sum_pairs(torch.arange(5.0), places, cases).tolist() == [6.0, 4.0, 0.0]


class Dense(torch.nn.Module):
    """The network as PyTorch's own layers, which opacus knows."""

    def __init__(self, model: MTCNN):
        super().__init__()
        self.windows = model.windows
        self.embedding = torch.nn.Embedding.from_pretrained(model.embedding.weight.detach().clone(), freeze=False)
        self.convolutions = torch.nn.ModuleList()
        for part, bias in zip(model.convolution.weight.split(model.windows), model.convolution.bias, strict=True):
            layer = torch.nn.Conv1d(model.dim, model.filters, len(part), dtype=part.dtype)
            layer.weight.data, layer.bias.data = part.detach().permute(1, 2, 0).clone(), bias.detach().clone()
            self.convolutions.append(layer)
        self.heads = torch.nn.ModuleDict()
        for task, head in model.each_head():
            layer = torch.nn.Linear(model.width, len(head.bias), dtype=head.weight.dtype)
            layer.weight.data, layer.bias.data = head.weight.detach().clone(), head.bias.detach().clone()
            self.heads[task] = layer

    def forward(self, words: torch.Tensor, lengths: torch.Tensor) -> dict[str, torch.Tensor]:
        vectors = self.embedding(words).transpose(1, 2)  # (B, D, L)
        features = []
        for window, layer in zip(self.windows, self.convolutions, strict=True):
            answers = layer(vectors)
            inside = torch.arange(answers.shape[2]) + window <= lengths[:, None]
            best = answers.masked_fill(~inside[:, None], -torch.inf).amax(2)
            features.append(torch.where(inside[:, :1], torch.relu(best), 0))
        return {task: head(torch.cat(features, 1)) for task, head in self.heads.items()}


@given(seed=st.integers(0, 999), tasks=st.integers(1, 3), most=st.integers(1, 3))
@settings(max_examples=15, deadline=None, derandomize=True)
def test_heads_and_encoder_together_equal_opacus(seed, tasks, most):
    grad_sample = pytest.importorskip("opacus.grad_sample", reason="needs opacus: pip install 'pathveil[dp]'")
    rng = np.random.default_rng(seed)
    classes = {f"task{number}": int(rng.integers(1, 6)) for number in range(tasks)}
    model = MTCNN(vocabulary_size=12, classes=classes, dim=5, filters=7, windows=(2, 3), dropout=0, seed=seed).double()
    lengths = rng.integers(0, 9, 6)
    documents = [rng.integers(1, 12, length).tolist() for length in lengths]
    labels = {task: torch.from_numpy(rng.integers(-1, number, 6)) for task, number in classes.items()}
    cases = grouped(rng, np.zeros(6, int), most)

    dense = grad_sample.GradSampleModule(Dense(model), loss_reduction="sum")
    padded = torch.zeros(6, 9, dtype=torch.long)
    for row, words in zip(padded, documents, strict=True):
        row[: len(words)] = torch.tensor(words, dtype=torch.long)
    logits = dense(padded, torch.from_numpy(lengths))
    loss = sum(functional.cross_entropy(logits[t], labels[t], ignore_index=-1, reduction="sum") for t in classes)
    (loss + 0 * sum(scores.sum() for scores in logits.values())).backward()
    expected = torch.stack(
        [sum(p.grad_sample[case[case >= 0]].sum(0).square().sum() for p in dense.parameters()) for case in cases]
    )

    batch = TokenBatch.of(documents)
    parameters = as_stack(model.embedding.weight, model.convolution.weight, model.convolution.bias)
    with torch.no_grad():
        features, chosen, kept = choose(parameters[0]).forward(batch.ids, batch.offsets, None, *parameters, (2, 3))
        read = features.flatten(1)
        slopes = []
        for task, scores in model.logits(read).items():
            slope = torch.softmax(scores, 1)
            known = labels[task] >= 0
            slope[known, labels[task][known]] -= 1
            slopes.append(slope * known[:, None])
        weights = torch.cat([head.weight for _, head in model.each_head()])
        gradient = (torch.cat(slopes, 1) @ weights).view(features.shape)
        found = head_squares(torch.cat(slopes, 1), read, cases) + encoder_squares(
            gradient, chosen, kept, batch.ids, batch.offsets, None, *parameters[:2], (2, 3), cases
        )
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)
