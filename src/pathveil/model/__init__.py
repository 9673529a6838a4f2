"""Token batches to logits: the multitask CNN, one model or many at once, its kernels, and why it answered so."""

from pathveil.model.batch import TokenBatch
from pathveil.model.inference import Tabulated
from pathveil.model.mtcnn import MTCNN, StackedMTCNN

__all__ = ["MTCNN", "StackedMTCNN", "Tabulated", "TokenBatch"]
