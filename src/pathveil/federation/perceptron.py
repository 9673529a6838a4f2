"""A softmax regression, or one with a hidden layer, trained by AdamW with slopes written out.

Heads and probes are small: a hundred features, a batch of a hundred documents. PyTorch's own optimiser and its tape
take several times as long as the sums in such a step. All parameters lie in one vector, their slopes in another, and a
step of AdamW (Loshchilov & Hutter 2019) is a few passes over these two.

>>> rng = torch.Generator().manual_seed(0)
>>> features = torch.randn(200, 3, generator=rng)
>>> labels = (features[:, 0] > 0).long()
>>> model = Perceptron(3, 2, like=features)
>>> for _ in range(300):
...     model.learn(features, labels)
>>> bool((model.logits(features).argmax(1) == labels).float().mean() > 0.95)
True
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

RATE, DECAY, BETAS, EPSILON = 2e-3, 1e-2, (0.9, 0.999), 1e-8


class Perceptron:
    """``width`` inputs, perhaps a ``hidden`` layer with ReLU, softmax over ``classes``.

    It starts at zero, or, with a seed, as PyTorch's layers start.
    """

    def __init__(self, width: int, classes: int, *, like: Tensor, hidden: int = 0, seed: int | None = None):
        layers = [(width, hidden), (hidden, classes)] if hidden else [(width, classes)]
        shapes = [shape for before, after in layers for shape in ((after, before), (after,))]
        sizes = [int(torch.Size(shape).numel()) for shape in shapes]
        self.flat = torch.zeros(sum(sizes), dtype=torch.float32, device=like.device)
        self.slope, self.mean, self.square = (torch.zeros_like(self.flat) for _ in range(3))
        self.parts, self.slopes = (
            [part.view(shape) for part, shape in zip(whole.split(sizes), shapes, strict=True)]
            for whole in (self.flat, self.slope)
        )
        self.steps = 0
        if seed is not None:
            with torch.random.fork_rng():
                torch.manual_seed(seed)
                started = [nn.Linear(*layer) for layer in layers]
            drawn = [tensor.detach() for layer in started for tensor in (layer.weight, layer.bias)]
            for part, start in zip(self.parts, drawn, strict=True):
                part.copy_(start)

    @torch.no_grad()
    def logits(self, inputs: Tensor) -> Tensor:
        """(documents, classes)."""
        for number in range(0, len(self.parts), 2):
            inputs = functional.linear(inputs.relu() if number else inputs, *self.parts[number : number + 2])
        return inputs

    @torch.no_grad()
    def learn(self, inputs: Tensor, labels: Tensor) -> None:
        """One step down the mean cross-entropy of a batch."""
        weight, bias = self.parts[-2:]
        hidden = functional.linear(inputs, *self.parts[:2]).relu_() if len(self.parts) > 2 else inputs
        error = torch.softmax(torch.addmm(bias, hidden, weight.T), dim=1)  # (B, classes)
        error.scatter_add_(1, labels[:, None], error.new_full((), -1.0).expand(len(labels), 1))
        error /= len(labels)
        torch.mm(error.T, hidden, out=self.slopes[-2])
        torch.sum(error, 0, out=self.slopes[-1])
        if len(self.parts) > 2:
            back = error @ weight
            back *= hidden > 0
            torch.mm(back.T, inputs, out=self.slopes[0])
            torch.sum(back, 0, out=self.slopes[1])
        self.step()

    def step(self) -> None:
        self.steps += 1
        first, second = BETAS
        self.flat.mul_(1 - RATE * DECAY)
        self.mean.lerp_(self.slope, 1 - first)
        self.square.mul_(second).addcmul_(self.slope, self.slope, value=1 - second)
        root = self.square.sqrt().div_((1 - second**self.steps) ** 0.5).add_(EPSILON)
        self.flat.addcdiv_(self.mean, root, value=-RATE / (1 - first**self.steps))
