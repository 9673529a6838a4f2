"""Small heads and probes against PyTorch's own layers, tape and optimiser."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from pathveil.federation.perceptron import Perceptron


@pytest.mark.parametrize("hidden", [0, 8])
def test_steps_are_those_of_pytorch(hidden):
    generator = torch.Generator().manual_seed(3)
    inputs = torch.randn(60, 5, generator=generator)
    labels = torch.randint(0, 4, (60,), generator=generator)
    ours = Perceptron(5, 4, like=inputs, hidden=hidden, seed=7)
    torch.manual_seed(7)
    layers = [nn.Linear(5, hidden), nn.ReLU(), nn.Linear(hidden, 4)] if hidden else [nn.Linear(5, 4)]
    theirs = nn.Sequential(*layers)
    torch.testing.assert_close(ours.logits(inputs), theirs(inputs).detach())
    optimiser = torch.optim.AdamW(theirs.parameters(), lr=2e-3, weight_decay=1e-2)
    for step in range(200):
        rows = torch.randperm(60, generator=generator)[: 20 + step % 2]
        ours.learn(inputs[rows], labels[rows])
        optimiser.zero_grad()
        functional.cross_entropy(theirs(inputs[rows]), labels[rows]).backward()
        optimiser.step()
    torch.testing.assert_close(ours.logits(inputs), theirs(inputs).detach(), rtol=1e-4, atol=1e-4)


def test_without_a_seed_it_starts_at_zero():
    assert not Perceptron(3, 2, like=torch.zeros(1)).logits(torch.ones(1, 3)).any()
