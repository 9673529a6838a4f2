"""The multitask text CNN of both papers: embeddings, convolutions over 3, 4 and 5 words, max over time, a head a task.

The arithmetic is a kernel's work (``pathveil.model.kernels``); here are the parameters, dropout and the heads.
A model's ``state_dict`` is what is written to disk, and its names stay:

    embedding.weight       (V, D)        row i is word id i
    convolution.weight     (S, F, D)     a slot for each position of each window, windows in order; S = 3 + 4 + 5
    convolution.bias       (K, F)        K windows
    heads.<task>.weight    (classes, K·F)
    heads.<task>.bias      (classes,)

``StackedMTCNN`` holds M such models with a leading axis M on every parameter, under the same names.
To load without a random start, build under ``torch.device("meta")`` and call ``load_state_dict(…, assign=True)``.

>>> import torch
>>> from pathveil.model import TokenBatch
>>> model = MTCNN(vocabulary_size=50, classes={"site": 4, "behavior": 2}, dim=8, filters=6, seed=1).eval()
>>> logits = model(TokenBatch.of([[2, 3, 4, 5, 6, 7], [8]]))
>>> {task: tuple(scores.shape) for task, scores in logits.items()}
{'site': (2, 4), 'behavior': (2, 2)}
>>> bool((logits["site"][1] == model.heads["site"].bias).all())  # one word: shorter than every window
True
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from pathveil.model.batch import TokenBatch
from pathveil.model.kernels import as_stack, choose, pooled
from pathveil.model.kernels.reference import positions


class Weights(nn.Module):
    """A weight and a bias (or no bias) of given shapes, not yet filled."""

    weight: Tensor
    bias: Tensor

    def __init__(self, *, weight: tuple[int, ...], bias: tuple[int, ...] | None = None):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(weight))
        if bias is not None:
            self.bias = nn.Parameter(torch.empty(bias))


class Encoder(nn.Module):
    """Embedding, convolutions, max over time, ReLU: documents to features (B, K·F).

    ``generators`` draw the random start: one for a single encoder, or one a model for a stack (a leading axis on every
    parameter), None for PyTorch's global generator.
    """

    def __init__(
        self,
        *,
        vocabulary_size: int,
        dim: int = 300,
        windows: Iterable[int] = (3, 4, 5),
        filters: int = 300,  # for each window
        models: int | None = None,  # of a stack
        generators: Sequence[torch.Generator | None] = (None,),
        kernel: str | None = None,  # "reference", "cpu" or "cuda"; None chooses by the parameters' device
        sparse: bool = False,  # give the embedding a gradient of the touched rows only, for a lazy optimiser
    ):
        super().__init__()
        self.windows = tuple(windows)
        self.vocabulary_size, self.dim, self.filters = vocabulary_size, dim, filters
        self.kernel, self.sparse = kernel, sparse
        for name in ("vocabulary_size", "dim", "filters"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1; got {getattr(self, name)}")
        if not self.windows or min(self.windows) < 1:
            raise ValueError(f"windows must be lengths of at least one word; got {self.windows}")
        if len(generators) != (models or 1):
            raise ValueError(f"a random start needs one seed for each of the {models} models; got {len(generators)}")
        stack = () if models is None else (models,)
        self.embedding = Weights(weight=(*stack, vocabulary_size, dim))
        slots = sum(self.windows)
        self.convolution = Weights(weight=(*stack, slots, filters, dim), bias=(*stack, len(self.windows), filters))
        self._start(generators)

    @torch.no_grad()
    def _start(self, generators: Sequence[torch.Generator | None]) -> None:
        """N(0, 1) embeddings and uniform ±1/√(inputs) convolutions, as PyTorch's own layers start."""
        if self.embedding.weight.is_meta:
            return
        embeddings = self.embedding.weight.view(-1, self.vocabulary_size, self.dim)
        weights = self.convolution.weight.view(-1, sum(self.windows), self.filters, self.dim)
        biases = self.convolution.bias.view(-1, len(self.windows), self.filters)
        for embedding, weight, bias, generator in zip(embeddings, weights, biases, generators, strict=True):
            embedding.normal_(generator=generator)
            embedding[0] = 0  # padding, which no document holds
            for number, part in enumerate(weight.split(self.windows)):
                bound = (len(part) * self.dim) ** -0.5
                part.uniform_(-bound, bound, generator=generator)
                bias[number].uniform_(-bound, bound, generator=generator)

    @property
    def device(self) -> torch.device:
        return self.embedding.weight.device

    @property
    def width(self) -> int:
        """Features a document has, K·F."""
        return len(self.windows) * self.filters

    def features(self, batch: TokenBatch, models: Tensor | None = None) -> Tensor:
        """Pooled features (B, K·F), windows in order, before dropout; ``models`` as in ``kernels.pooled``."""
        return pooled(
            batch.ids,
            batch.offsets,
            self.embedding.weight,
            self.convolution.weight,
            self.convolution.bias,
            windows=self.windows,
            models=models,
            kernel=self.kernel,
            sparse=self.sparse,
        )

    def positions(self, batch: TokenBatch) -> tuple[list[Tensor], list[Tensor]]:
        """Features of a single encoder at every position before pooling, a tensor (B, T, F) a window, and which of the
        positions (B, T) lie inside their document. By the reference kernel, whose gradients are dense."""
        features, inside = [], []
        weights = self.convolution.weight.split(self.windows)
        for window, weight, bias in zip(self.windows, weights, self.convolution.bias, strict=True):
            answers, real = positions(batch.ids, batch.offsets, self.embedding.weight, weight, window=window)
            features.append(torch.relu(answers.transpose(1, 2) + bias))  # (B, F, T) -> (B, T, F)
            inside.append(real)
        return features, inside

    def chosen(self, batch: TokenBatch) -> tuple[Tensor, Tensor]:
        """Features (B, K, F) of a single encoder, and where in ``batch.ids`` the window that won each one starts
        (−1 for a feature of zero). Not differentiable."""
        parameters = as_stack(self.embedding.weight, self.convolution.weight, self.convolution.bias)
        with torch.no_grad():
            kernel = choose(self.embedding.weight, self.kernel)
            return kernel.forward(batch.ids, batch.offsets, None, *parameters, self.windows)[:2]


class MultitaskEncoder(Encoder):
    """An encoder with a softmax head a task; single and stacked models differ in how the heads are applied."""

    def __init__(
        self,
        *,
        classes: Mapping[str, int],
        dropout: float,
        generators: Sequence[torch.Generator | None],
        models: int | None = None,
        **shape: Any,
    ):
        super().__init__(generators=generators, models=models, **shape)
        self.classes, self.dropout = dict(classes), dropout
        if not 0 <= dropout < 1:
            raise ValueError(f"dropout must be at least 0 and below 1; got {dropout}")
        if not self.classes:
            raise ValueError("classes must name at least one task; got none")
        for task, number in self.classes.items():
            if "." in task or number < 1:
                raise ValueError(f"a task needs a name without dots and at least one class; got {task!r}: {number}")
        stack = () if models is None else (models,)
        heads = {t: Weights(weight=(*stack, n, self.width), bias=(*stack, n)) for t, n in self.classes.items()}
        self.heads = nn.ModuleDict(heads)
        if self.embedding.weight.is_meta:
            return
        bound = self.width**-0.5
        with torch.no_grad():
            for head, number in zip(heads.values(), self.classes.values(), strict=True):
                weights, biases = head.weight.view(-1, number, self.width), head.bias.view(-1, number)
                for weight, bias, generator in zip(weights, biases, generators, strict=True):
                    weight.uniform_(-bound, bound, generator=generator)
                    bias.uniform_(-bound, bound, generator=generator)

    @property
    def architecture(self) -> dict[str, Any]:
        """What ``MTCNN(**architecture)`` needs to build this shape again."""
        return {
            "vocabulary_size": self.vocabulary_size,
            "classes": dict(self.classes),
            "dim": self.dim,
            "windows": self.windows,
            "filters": self.filters,
            "dropout": self.dropout,
        }

    def head(self, task: str) -> tuple[Tensor, Tensor]:
        """A task's weight and bias."""
        head = cast(Weights, self.heads[task])
        return head.weight, head.bias

    def each_head(self) -> Iterable[tuple[str, Weights]]:
        return cast(Iterable[tuple[str, Weights]], self.heads.items())


class MTCNN(MultitaskEncoder):
    """One model: ``forward(batch)`` gives logits (B, classes) a task, ``features(batch)`` what the heads read."""

    def __init__(
        self,
        *,
        vocabulary_size: int,
        classes: Mapping[str, int],
        dim: int = 300,
        windows: Iterable[int] = (3, 4, 5),
        filters: int = 300,  # for each window
        dropout: float = 0.5,  # after pooling
        seed: int | None = None,  # of the random start; None draws from PyTorch's global generator
        kernel: str | None = None,
        sparse: bool = False,
    ):
        super().__init__(
            vocabulary_size=vocabulary_size,
            classes=classes,
            dim=dim,
            windows=windows,
            filters=filters,
            dropout=dropout,
            generators=[seeded(seed)],
            kernel=kernel,
            sparse=sparse,
        )

    def logits(self, features: Tensor) -> dict[str, Tensor]:
        """Each task's logits (B, classes) from features (B, K·F)."""
        return {task: functional.linear(features, head.weight, head.bias) for task, head in self.each_head()}

    def forward(self, batch: TokenBatch, *, noise: Tensor | None = None) -> dict[str, Tensor]:
        """Logits a task. While training, ``noise`` (B,) seeds each document's dropout; None draws it from PyTorch."""
        features = self.features(batch)
        if self.training and self.dropout:
            features = drop(features, self.dropout, noise)
        return self.logits(features)


class StackedMTCNN(MultitaskEncoder):
    """M models of one shape through the same kernels at once: what shadow training needs.

    Documents of all models lie in one batch. ``models`` (B,) names each document's model; None says that they stand in
    model order, equally many for each (fill up with empty documents: they cost nothing), which is the fast way.
    """

    def __init__(
        self,
        *,
        models: int,
        vocabulary_size: int,
        classes: Mapping[str, int],
        dim: int = 300,
        windows: Iterable[int] = (3, 4, 5),
        filters: int = 300,
        dropout: float = 0.5,
        seeds: Iterable[int] | None = None,  # one a model: model m starts as MTCNN(seed=seeds[m]) does
        kernel: str | None = None,
        sparse: bool = False,
    ):
        super().__init__(
            vocabulary_size=vocabulary_size,
            classes=classes,
            dim=dim,
            windows=windows,
            filters=filters,
            dropout=dropout,
            models=models,
            generators=[None] * models if seeds is None else [seeded(seed) for seed in seeds],
            kernel=kernel,
            sparse=sparse,
        )
        self.models = models

    def logits(self, features: Tensor, models: Tensor | None = None) -> dict[str, Tensor]:
        """Each task's logits (B, classes) from features (B, K·F)."""
        if models is None:
            shared = features.view(self.models, -1, self.width)  # (M, B / M, K·F)
            return {
                task: torch.baddbmm(head.bias[:, None], shared, head.weight.transpose(1, 2)).flatten(0, 1)
                for task, head in self.each_head()
            }
        rows = [(models == number).nonzero()[:, 0] for number in range(self.models)]
        back = torch.cat(rows).argsort()
        logits = {}
        for task, head in self.each_head():
            parts = [functional.linear(features[mine], head.weight[m], head.bias[m]) for m, mine in enumerate(rows)]
            logits[task] = torch.cat(parts)[back]
        return logits

    def forward(
        self, batch: TokenBatch, models: Tensor | None = None, *, noise: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Logits a task (B, classes); ``noise`` as in ``MTCNN.forward``."""
        features = self.features(batch, models)
        if self.training and self.dropout:
            features = drop(features, self.dropout, noise)
        return self.logits(features, models)

    def model(self, number: int) -> MTCNN:
        """One of the models, copied out."""
        with torch.device("meta"):
            single = MTCNN(**self.architecture, kernel=self.kernel, sparse=self.sparse)
        state = {name: tensor[number].clone() for name, tensor in self.state_dict().items()}
        single.load_state_dict(state, assign=True)
        return single.train(self.training)


def seeded(seed: int | None) -> torch.Generator | None:
    return None if seed is None else torch.Generator().manual_seed(seed)


def drop(features: Tensor, probability: float, noise: Tensor | None) -> Tensor:
    """Dropout of features (B, N). With ``noise`` (B,), whole numbers, a document's mask is a hash of its own number and
    nothing else: the same alone, in any batch, in a stack, on any device, and after a run was stopped and continued.

    >>> a = drop(torch.ones(2, 8), 0.5, torch.tensor([7, 8]))
    >>> b = drop(torch.ones(1, 8), 0.5, torch.tensor([8]))
    >>> torch.equal(a[1], b[0]), sorted(set(a.flatten().tolist()))
    (True, [0.0, 2.0])
    """
    if noise is None:
        return functional.dropout(features, probability)
    low = 0xFFFFFFFF

    def mixed(bits: Tensor) -> Tensor:
        """32 well-mixed bits from 32, by multiplying and shifting; int64 arithmetic, masked to stay positive."""
        bits = ((bits ^ (bits >> 16)) * 0x7FEB352D) & low
        bits = ((bits ^ (bits >> 15)) * 0x846CA68B) & low
        return bits ^ (bits >> 16)

    own = mixed(mixed(noise & low) ^ ((noise >> 32) & low))[:, None]  # (B, 1)
    columns = torch.arange(features.shape[1], device=features.device)
    keep = mixed((own + columns * 0x9E3779B1) & low) >= int(probability * 2**32)  # (B, N)
    return features * keep / (1 - probability)
