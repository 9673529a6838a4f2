"""An attack on released weights: how far a report would still move them.

Training follows a report's gradient until little of it is left, so a small gradient under the released weights speaks
for membership. Its exact norm is known without making the gradient (``model.kernels.norms``, which private training
uses). Near the end of training the norm is mostly a function of the loss, which answers give away as well; what weights
add is how it differs from that of other reports with a like loss. Shadows' weights are not kept, so a report's own
hardness is not discounted: a bound on what weights alone give away, not the strongest thinkable attack on them.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from pathveil.auditing.evidence import TOGETHER, Score
from pathveil.model import MTCNN
from pathveil.model.kernels import as_stack, choose
from pathveil.model.kernels.norms import encoder_squares, head_squares
from pathveil.training.batches import spans
from pathveil.training.dp import loss_slopes

TOKENS_AT_ONCE = 100_000
NORM, NORM_BESIDE = "gradient norm", "gradient norm beside like losses"
NEIGHBOURS = 101  # reports of a like loss that a norm is compared with


@torch.no_grad()
def gradient_norms(model: MTCNN, ids: np.ndarray, offsets: np.ndarray, labels: Mapping[str, np.ndarray]) -> np.ndarray:
    """The norm of each document's gradient by all weights (documents,), for the mean of its tasks' cross-entropies, a
    missing label adding nothing; 0 where it has none."""
    encoder = as_stack(model.embedding.weight, model.convolution.weight, model.convolution.bias)
    heads, device = [model.head(task) for task in labels], model.device
    module, windows = choose(model.embedding.weight, model.kernel), model.windows
    found = []
    for start, stop in spans(offsets, tokens=TOKENS_AT_ONCE):
        part = torch.from_numpy(np.array(ids[offsets[start] : offsets[stop]])).to(device)
        ends = torch.from_numpy(np.asarray(offsets[start : stop + 1] - offsets[start])).to(device)
        features, chosen, kept = module.forward(part, ends, None, *encoder, windows)
        read = features.flatten(1)
        slopes = [
            loss_slopes(
                torch.nn.functional.linear(read, weight, bias),
                torch.from_numpy(np.asarray(label[start:stop]).astype(np.int64)).to(device),
                smoothing=0.0,
            )
            / len(labels)
            for (weight, bias), label in zip(heads, labels.values(), strict=True)
        ]
        flow = (torch.cat(slopes, 1) @ torch.cat([weight for weight, _ in heads])).view(features.shape)
        alone = torch.arange(stop - start, device=device)[:, None]
        squares = head_squares(torch.cat(slopes, 1), read, alone) + encoder_squares(
            flow.contiguous(), chosen, kept, part, ends, None, *encoder[:2], windows, alone, kernel=model.kernel
        )
        found.append(squares.clamp_min(0).sqrt().cpu().numpy())
    return np.concatenate(found) if found else np.zeros(0)


def norm_scores(norms: Sequence[np.ndarray]) -> np.ndarray:
    """Minus the logarithm of the norm, mean over networks (documents,); NaN where there is no label."""
    stacked = np.stack(norms).astype(np.float64)
    with np.errstate(divide="ignore"):
        logs = -np.log(stacked).mean(axis=0)
    return np.where((stacked == 0).all(axis=0), np.nan, np.minimum(logs, 50.0))


def beside_like_losses(scores: np.ndarray, losses: np.ndarray, *, neighbours: int = NEIGHBOURS) -> np.ndarray:
    """Scores less the mean of the scores of documents with the nearest losses, members or not.

    >>> beside_like_losses(np.array([1.0, 3.0, 8.0]), np.array([0.1, 0.2, 0.3]), neighbours=3).tolist()
    [-1.0, -1.0, 2.5]
    """
    known = np.flatnonzero(~np.isnan(scores) & ~np.isnan(losses))
    order = known[np.argsort(losses[known], kind="stable")]
    sums = np.concatenate([[0.0], np.cumsum(scores[order])])
    place = np.arange(len(order))
    low = np.maximum(place - neighbours // 2, 0)
    high = np.minimum(place + neighbours // 2 + 1, len(order))
    found = np.full(len(scores), np.nan)
    found[order] = scores[order] - (sums[high] - sums[low]) / np.maximum(high - low, 1)
    return found


def gradient_scores(norms: np.ndarray, losses: np.ndarray, *, task: str = TOGETHER) -> list[Score]:
    """Attacks on released weights, from ``norm_scores`` and the log-probabilities of all labels together (records,)."""
    return [
        Score(NORM, task, norms, weights_only=True),
        Score(NORM_BESIDE, task, beside_like_losses(norms, losses), weights_only=True),
    ]
