"""A trained model that answers from a table: every filter's answer to every word of the vocabulary, made once.

With fixed weights a convolution over words is a sum of look-ups, so a report then costs gathers and additions only, and
no matrix product. The table takes one float a word for each filter and each position of its window: 12 × 300 floats at
the paper's size, 288 MB for 20,000 words, 29 MB for the 2,000 words that a mutual-information vocabulary may have. A
smaller vocabulary is not only safer to release, it is also smaller to serve.

Answers are those of the model itself in evaluation; a later change of its weights does not reach the table.

>>> from pathveil.model import MTCNN, TokenBatch
>>> model = MTCNN(vocabulary_size=50, classes={"site": 4}, dim=8, filters=6, seed=1).eval()
>>> batch = TokenBatch.of([[2, 3, 4, 5, 6, 7], [8]])
>>> bool(torch.allclose(Tabulated(model)(batch)["site"], model(batch)["site"], atol=1e-6))
True
"""

import torch
from torch import Tensor

from pathveil.model.batch import TokenBatch
from pathveil.model.kernels import as_stack, choose
from pathveil.model.mtcnn import MTCNN


class Tabulated:
    """``MTCNN`` for inference, on the device its parameters are on: ``features``, ``chosen`` and a call as there."""

    def __init__(self, model: MTCNN):
        self.windows, self.classes = model.windows, dict(model.classes)
        embedding, weight, bias = as_stack(model.embedding.weight, model.convolution.weight, model.convolution.bias)
        self.kernel = choose(embedding, model.kernel)
        with torch.no_grad():
            self.table = self.kernel.tabulate(embedding.detach(), weight.detach(), self.windows)
            self.bias = bias.detach().clone()
            # All heads in one, so that a document costs one product for all its tasks.
            heads = [head for _, head in model.each_head()]
            self.joint = torch.cat([head.weight for head in heads]), torch.cat([head.bias for head in heads])
        sizes = list(self.classes.values())
        self.heads = dict(zip(self.classes, zip(*(part.split(sizes) for part in self.joint), strict=True), strict=True))

    @property
    def device(self) -> torch.device:
        return self.bias.device

    def head(self, task: str) -> tuple[Tensor, Tensor]:
        """A task's weight and bias."""
        return self.heads[task]

    @torch.no_grad()
    def chosen(self, batch: TokenBatch) -> tuple[Tensor, Tensor]:
        """Features and the windows that won them, both (B, K, F), as ``Encoder.chosen``."""
        return self.kernel.look_up(self.table, batch.ids, batch.offsets, self.bias, self.windows)

    def features(self, batch: TokenBatch) -> Tensor:
        """Pooled features (B, K·F)."""
        return self.chosen(batch)[0].flatten(1)

    def logits(self, features: Tensor) -> dict[str, Tensor]:
        """Each task's logits (B, classes) from features (B, K·F)."""
        answers = torch.nn.functional.linear(features, *self.joint)
        return dict(zip(self.classes, answers.split(list(self.classes.values()), dim=1), strict=True))

    def __call__(self, batch: TokenBatch) -> dict[str, Tensor]:
        """Logits (B, classes) a task."""
        return self.logits(self.features(batch))
