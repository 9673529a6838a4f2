"""Token batches to logits: the multitask CNN, one model or many at once, and its kernels."""

from pathveil.model.batch import TokenBatch
from pathveil.model.mtcnn import MTCNN, StackedMTCNN

__all__ = ["MTCNN", "StackedMTCNN", "TokenBatch"]
