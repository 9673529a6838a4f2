"""The distribution paper's two-part network: a shared encoder that travels and a private one that never leaves.

A document passes through both encoders, each an embedding with convolutions and max over time as in ``mtcnn``; the two
feature vectors are joined and read by the site's own softmax heads (figure 2 of the paper). ``Shared`` also carries the
registry discriminator, whose parameters travel because each site holds only its own registry's label, and optional
common heads on the shared features alone, which keep the shared encoder useful by itself.

Names of the parameters, which decide what may travel:

    Shared    encoder.*  discriminator.<layer>.*  heads.<task>.*  (the common heads, where there are any)
    Private   encoder.*  heads.<task>.*                           (over shared and private features)

>>> from pathveil.model import TokenBatch
>>> shape = dict(vocabulary_size=30, classes={"site": 4}, dim=6, filters=5)
>>> shared = Shared(registries=3, seed=1, **shape)
>>> private = Private(seed=2, **shape)
>>> batch = TokenBatch.of([[2, 3, 4, 5, 6], [7, 8, 9]])
>>> features = shared.features(batch)
>>> private.logits(features, private.features(batch))["site"].shape, shared.discriminate(features).shape
(torch.Size([2, 4]), torch.Size([2, 3]))
"""

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from pathveil.model.batch import TokenBatch
from pathveil.model.mtcnn import Encoder, seeded


class Linear(nn.Linear):
    """A linear layer that starts from a given generator, uniform ±1/√(inputs)."""

    def __init__(self, inputs: int, outputs: int, generator: torch.Generator | None):
        super().__init__(inputs, outputs)
        bound = inputs**-0.5
        with torch.no_grad():
            self.weight.uniform_(-bound, bound, generator=generator)
            self.bias.uniform_(-bound, bound, generator=generator)


class Shared(nn.Module):
    """What travels: the shared encoder, the discriminator and, if wanted, common heads on the shared features."""

    def __init__(
        self,
        *,
        vocabulary_size: int,
        registries: int,
        classes: Mapping[str, int],
        dim: int = 300,
        windows: Iterable[int] = (3, 4, 5),
        filters: int = 300,
        hidden: int = 0,  # units of the discriminator's hidden layer; 0 is the paper's plain softmax
        common_heads: bool = False,
        seed: int | None = None,
        kernel: str | None = None,
        sparse: bool = False,
    ):
        super().__init__()
        generator = seeded(seed)
        self.encoder = Encoder(
            vocabulary_size=vocabulary_size,
            dim=dim,
            windows=windows,
            filters=filters,
            generators=[generator],
            kernel=kernel,
            sparse=sparse,
        )
        width = self.encoder.width
        layers = [width, hidden, registries] if hidden else [width, registries]
        pairs = pairwise(layers)
        self.discriminator = nn.ModuleList(Linear(inputs, outputs, generator) for inputs, outputs in pairs)
        heads = {task: Linear(width, number, generator) for task, number in classes.items()} if common_heads else {}
        self.heads = nn.ModuleDict(heads)

    @property
    def registries(self) -> int:
        """How many the discriminator tells apart."""
        return cast(Linear, self.discriminator[-1]).out_features

    def features(self, batch: TokenBatch) -> Tensor:
        """Shared features (B, K·F)."""
        return self.encoder.features(batch)

    def discriminate(self, features: Tensor) -> Tensor:
        """Registry logits (B, registries) from shared features (B, K·F)."""
        first, *rest = self.discriminator
        scores = first(features)
        for layer in rest:
            scores = layer(functional.relu(scores))
        return scores

    def logits(self, features: Tensor) -> dict[str, Tensor]:
        """Each task's logits (B, classes) of the common heads; empty where there are none."""
        return {task: head(features) for task, head in self.heads.items()}


class Private(nn.Module):
    """What stays: a site's own encoder, and its heads over shared and private features."""

    def __init__(
        self,
        *,
        vocabulary_size: int,
        classes: Mapping[str, int],
        dim: int = 300,
        windows: Iterable[int] = (3, 4, 5),
        filters: int = 300,
        shared_width: int | None = None,  # features of the shared encoder, if not as many as this one's
        seed: int | None = None,
        kernel: str | None = None,
        sparse: bool = False,
    ):
        super().__init__()
        generator = seeded(seed)
        self.encoder = Encoder(
            vocabulary_size=vocabulary_size,
            dim=dim,
            windows=windows,
            filters=filters,
            generators=[generator],
            kernel=kernel,
            sparse=sparse,
        )
        width = self.encoder.width + (shared_width or self.encoder.width)
        self.heads = nn.ModuleDict({task: Linear(width, number, generator) for task, number in classes.items()})

    def features(self, batch: TokenBatch) -> Tensor:
        """Private features (B, K·F)."""
        return self.encoder.features(batch)

    def logits(self, shared: Tensor, private: Tensor) -> dict[str, Tensor]:
        """Each task's logits (B, classes) from both feature vectors, shared first."""
        joined = torch.cat([shared, private], dim=1)
        return {task: head(joined) for task, head in self.heads.items()}
