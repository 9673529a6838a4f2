"""Why a model answered as it did: the windows of words its filters chose, and what each adds to a logit.

A logit is the head's bias plus, for each filter, the head's weight times the filter's feature; and a feature comes from
one window of the document, the one that max pooling chose. So the logit divides exactly among windows of words, with
nothing estimated: ``bias + sum of the windows' weights == logit``. Filters that chose the same window are added up.

>>> from pathveil.model import MTCNN
>>> model = MTCNN(vocabulary_size=50, classes={"site": 4}, dim=8, filters=6, seed=1).eval()
>>> words = [5, 6, 7, 8, 9, 10]
>>> why = explain(model, words, task="site")
>>> abs(why.bias + sum(window.weight for window in why.windows) - why.logit) < 1e-6
True
>>> tokens = [(3 * number, 3 * number + 2) for number in range(6)]    # where each word stood in the text
>>> start, end, weight = spans(why, tokens)[0]
>>> (start, end) == (tokens[why.windows[0].start][0], tokens[why.windows[0].end - 1][1])
True
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from pathveil.model.batch import TokenBatch
from pathveil.model.inference import Tabulated
from pathveil.model.mtcnn import MTCNN


@dataclass(frozen=True)
class Window:
    """Words ``start`` to ``end`` of a document, and what they add to the logit."""

    start: int
    end: int
    weight: float


@dataclass(frozen=True)
class LogitParts:
    """One logit of one document, divided among windows of words, those that add or take most first."""

    task: str
    label: int  # the class explained
    logit: float
    bias: float  # the part that no word has
    windows: tuple[Window, ...]


def explain(model: MTCNN | Tabulated, ids: Sequence[int], *, task: str, label: int | None = None) -> LogitParts:
    """What speaks for and against a class of a task in one document; the class that wins, if none is named."""
    weight, bias = (tensor.detach() for tensor in model.head(task))
    features, starts = model.chosen(TokenBatch.of([ids]).to(weight.device))  # (1, K, F)
    logits = torch.nn.functional.linear(features.flatten(1), weight, bias)[0]  # (classes,)
    label = int(logits.argmax()) if label is None else label
    added = (features[0] * weight[label].view(features[0].shape)).double()  # (K, F)
    windows = []
    for number, window in enumerate(model.windows):
        won = starts[0, number] >= 0
        places, which = starts[0, number][won].unique(return_inverse=True)
        sums = added.new_zeros(len(places)).index_add_(0, which, added[number][won])
        windows += [Window(t, t + window, w) for t, w in zip(places.tolist(), sums.tolist(), strict=True)]
    windows.sort(key=lambda window: (-abs(window.weight), window.start, window.end))
    return LogitParts(task, label, float(logits[label]), float(bias[label]), tuple(windows))


def head_rows(model: MTCNN | Tabulated, labels: Mapping[str, int]) -> np.ndarray:
    """What a class of each task weighs each feature with, (tasks, K·F)."""
    return torch.stack([model.head(task)[0][label] for task, label in labels.items()]).detach().cpu().numpy()


def spans(parts: LogitParts, tokens: Sequence[tuple[int, int]]) -> list[tuple[int, int, float]]:
    """The windows as (start, end, weight) in the original text, given where each token of the document stood in it
    (``pathveil.text.tokenizer.tokenize_spans`` tells). They overlap; their weights and the bias add up to the logit."""
    return [(tokens[w.start][0], tokens[w.end - 1][1], w.weight) for w in parts.windows]
