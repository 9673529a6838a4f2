"""Documents for a model: word ids end to end, and where each document starts. Never padded.

>>> batch = TokenBatch.of([[5, 6, 7], [], [5]])
>>> batch.documents, batch.ids.tolist(), batch.offsets.tolist()
(3, [5, 6, 7, 5], [0, 3, 3, 4])
>>> TokenBatch(ids=[5, 6], offsets=[0, 3])
Traceback (most recent call last):
ValueError: offsets must rise from 0 to the number of ids, 2; got 0 … 3
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class TokenBatch:
    """Document ``i`` is ``ids[offsets[i]:offsets[i + 1]]``. Tensors, NumPy arrays and lists are taken."""

    ids: Tensor  # (tokens,) int32 or int64
    offsets: Tensor  # (documents + 1,) int64

    def __init__(self, ids: Any, offsets: Any):
        object.__setattr__(self, "ids", whole(ids))
        object.__setattr__(self, "offsets", whole(offsets).long())
        # A batch on a GPU is trusted: looking at it would wait for the device. Kernels check the ids themselves.
        if self.offsets.device.type == "cpu":
            ends = self.offsets.numpy()
            if len(ends) < 1 or ends[0] != 0 or ends[-1] != len(self.ids) or (ends[1:] < ends[:-1]).any():
                shown = f"{ends[0]} … {ends[-1]}" if len(ends) else "none"
                raise ValueError(f"offsets must rise from 0 to the number of ids, {len(self.ids)}; got {shown}")

    @classmethod
    def of(cls, documents: Sequence[Sequence[int]]) -> "TokenBatch":
        """A batch from one sequence of word ids a document."""
        offsets = np.cumsum([0, *map(len, documents)])
        parts = [np.asarray(document, dtype=np.int32) for document in documents]
        return cls(ids=np.concatenate([np.empty(0, np.int32), *parts]), offsets=offsets)

    @property
    def documents(self) -> int:
        return len(self.offsets) - 1

    def to(self, device: torch.device | str, *, non_blocking: bool = False) -> "TokenBatch":
        return TokenBatch(
            ids=self.ids.to(device, non_blocking=non_blocking),
            offsets=self.offsets.to(device, non_blocking=non_blocking),
        )


def whole(numbers: Any) -> Tensor:
    """Whole numbers as an int32 or int64 tensor of one axis."""
    if not isinstance(numbers, Tensor):
        numbers = np.asarray(numbers)
        if not numbers.flags.writeable:  # a memory-mapped corpus: torch warns of tensors over read-only arrays
            numbers = numbers.copy()
        numbers = torch.from_numpy(numbers.astype(np.int64) if not numbers.size else numbers)
    if numbers.dim() != 1 or numbers.is_floating_point():
        raise ValueError(f"expected whole numbers along one axis; got {numbers.dtype} of shape {tuple(numbers.shape)}")
    return numbers if numbers.dtype in (torch.int32, torch.int64) else numbers.long()
