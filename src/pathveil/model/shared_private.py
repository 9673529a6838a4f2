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
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from pathveil.model.batch import TokenBatch
from pathveil.model.mtcnn import MTCNN, Encoder, seeded
from pathveil.vocabulary.words import FIRST_WORD

RANDOM_DOCUMENTS, RANDOM_WORDS = 256, 200  # that set a discriminator's yardstick, and the words of each


class Linear(nn.Linear):
    """A linear layer that starts from a given generator, uniform ±1/√(inputs)."""

    def __init__(self, inputs: int, outputs: int, generator: torch.Generator | None):
        super().__init__(inputs, outputs)
        bound = inputs**-0.5
        with torch.no_grad():
            self.weight.uniform_(-bound, bound, generator=generator)
            self.bias.uniform_(-bound, bound, generator=generator)


class Yardstick(nn.Module):
    """Features by the mean and the spread that they have on random text.

    A fresh probe looks at every feature by its own yardstick; a discriminator that reads them raw, or each document's
    by their common size, overlooks the small ones, and the registry hides there. The yardstick of real reports would
    have to be sent by the sites; that of random sequences of agreed words follows from the encoder alone.
    """

    def __init__(self, width: int):
        super().__init__()
        # Parameters, so that they travel to the sites with the others; not learnt, and never sent back.
        self.centre = nn.Parameter(torch.zeros(width), requires_grad=False)
        self.spread = nn.Parameter(torch.ones(width), requires_grad=False)

    def forward(self, features: Tensor) -> Tensor:
        return (features - self.centre) / self.spread

    def set(self, features: Tensor) -> None:
        """To the mean and the spread of these features (documents, width)."""
        spread = features.std(0)
        self.centre.copy_(features.mean(0))
        self.spread.copy_(torch.maximum(spread, 0.1 * spread.mean()).clamp_min(1e-6))  # a dead feature stays small


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
        self.discriminator = nn.ModuleList(
            [Yardstick(width), Linear(width, hidden, generator), Linear(hidden, registries, generator)]
            if hidden
            else [Linear(width, registries, generator)]
        )
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
        if len(self.discriminator) == 1:
            return self.discriminator[0](features)
        yardstick, first, last = self.discriminator
        return last(functional.relu(first(yardstick(features))))

    def slopes(self, features: Tensor, registry: Tensor) -> Tensor:
        """How the score of each document's own registry changes with its features by the yardstick, (B, K·F)."""
        if len(self.discriminator) == 1:
            return cast(Linear, self.discriminator[0]).weight[registry]
        yardstick, first, last = self.discriminator
        active = first(yardstick(features)) > 0  # (B, hidden)
        return (active * cast(Linear, last).weight[registry]) @ cast(Linear, first).weight

    def discrimination(self, features: Tensor, registry: Tensor, *, flatness: float = 0.0) -> Tensor:
        """The discriminator's loss on features (B, K·F) of documents from registries (B,): cross-entropy, and its mean
        squared slope times ``flatness`` (Mescheder et al. 2018: without it two that learn against each other circle
        instead of coming to rest). Features get a gradient from the first alone.

        >>> shared = Shared(vocabulary_size=9, registries=4, classes={}, dim=2, windows=(1,), filters=3, seed=1)
        >>> _ = torch.nn.init.zeros_(shared.discriminator[0].weight), torch.nn.init.zeros_(shared.discriminator[0].bias)
        >>> round(shared.discrimination(torch.ones(5, 3), torch.tensor([0, 1, 2, 3, 3])).item(), 4)  # log 4
        1.3863
        """
        loss = functional.cross_entropy(self.discriminate(features), registry)
        if flatness:
            loss = loss + flatness * self.slopes(features.detach(), registry).square().sum(1).mean()
        return loss

    @torch.no_grad()
    def calibrate(self, *, seed: int) -> None:
        """Set the discriminator's yardstick, where it has one, from random text: the same from the same parameters."""
        if len(self.discriminator) > 1:
            words = np.random.default_rng(seed).integers(
                FIRST_WORD, self.encoder.vocabulary_size, RANDOM_DOCUMENTS * RANDOM_WORDS, dtype=np.int32
            )
            batch = TokenBatch(ids=words, offsets=np.arange(RANDOM_DOCUMENTS + 1) * RANDOM_WORDS)
            device = self.encoder.embedding.weight.device
            cast(Yardstick, self.discriminator[0]).set(self.features(batch.to(device)))

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


def merged(shared: Shared, private: Private, *, dropout: float = 0.5, added_heads: bool = False) -> MTCNN:
    """Both encoders and a site's heads as one plain network, which answers as they do together.

    Word vectors stand side by side; a shared filter reads the first half of them and has zeros for the rest, a private
    one the other way round. A head's weights are put in the order of the joined filters, window by window; with
    ``added_heads`` the common heads' are added to those on the shared features.

    >>> from pathveil.model import TokenBatch
    >>> shape = dict(vocabulary_size=30, classes={"site": 4}, dim=6, filters=5)
    >>> shared, private = Shared(registries=3, seed=1, **shape), Private(seed=2, **shape)
    >>> batch = TokenBatch.of([[2, 3, 4, 5, 6], [7, 8, 9]])
    >>> apart = private.logits(shared.features(batch), private.features(batch))["site"]
    >>> bool(torch.allclose(merged(shared, private).eval()(batch)["site"], apart, atol=1e-5))
    True
    """
    first, second = shared.encoder, private.encoder
    if first.windows != second.windows:
        raise ValueError(f"encoders of different windows cannot be one; got {first.windows} and {second.windows}")
    heads = {task: cast(Linear, head) for task, head in private.heads.items()}
    model = MTCNN(
        vocabulary_size=first.vocabulary_size,
        classes={task: head.out_features for task, head in heads.items()},
        dim=first.dim + second.dim,
        windows=first.windows,
        filters=first.filters + second.filters,
        dropout=dropout,
    ).to(first.embedding.weight.device)
    windows = len(first.windows)
    with torch.no_grad():
        model.embedding.weight.copy_(torch.cat([first.embedding.weight, second.embedding.weight], dim=1))
        model.convolution.weight.zero_()
        model.convolution.weight[:, : first.filters, : first.dim] = first.convolution.weight
        model.convolution.weight[:, first.filters :, first.dim :] = second.convolution.weight
        model.convolution.bias.copy_(torch.cat([first.convolution.bias, second.convolution.bias], dim=1))
        for task, head in heads.items():
            weight, bias = model.head(task)
            parts = head.weight.split([first.width, second.width], dim=1)  # (C, K·F) each
            if added_heads:
                common = cast(Linear, shared.heads[task])
                parts = parts[0] + common.weight, parts[1]
                bias.copy_(head.bias + common.bias)
            else:
                bias.copy_(head.bias)
            by_window = [part.unflatten(1, (windows, -1)) for part in parts]  # (C, K, F)
            weight.copy_(torch.cat(by_window, dim=2).flatten(1))
    return model
