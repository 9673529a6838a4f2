"""A model at work: texts in, codes with their probabilities out, and who should look at them.

A code is taken where its calibrated probability reaches the task's threshold; below it the model abstains and a person
decides. It always abstains from a report in which it knows no word, and where it has no threshold (no cases were held
out).

Where held-out cases gained by it, rare codes are lifted: chosen before a more probable common one
(``pathveil.training.blend``). The probability is then still the chance that this code is right, so a lifted code of two
may have one below a half; ``Code.lifted`` says so.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pathveil.bundle.model import Model
from pathveil.training.blend import choose
from pathveil.training.scores import NEVER
from pathveil.vocabulary.encoding import encode_texts, text_encoder
from pathveil.vocabulary.words import FIRST_WORD

if TYPE_CHECKING:
    from pathveil.training.ensemble import Ensemble

FEW = 100  # texts up to which setting up tables would cost more than it saves
LARGEST_TABLES = 1 << 30  # bytes of look-up tables a coder may make


@dataclass(frozen=True)
class Code:
    """What a model says about one task of one report."""

    code: str
    probability: float  # that this code is right
    abstained: bool
    lifted: bool = False  # another code is more probable; this one is rarer


class Coder:
    """Codes texts with a model; keeps what it learns about words from one batch to the next."""

    def __init__(self, model: Model, *, device: str = "cpu"):
        self.model, self.device = model, device
        self.words = model.clip
        self._stream = None
        self._tabulated: Ensemble | None = None

    def read(self, texts: Sequence[str]) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Each task's calibrated log-probabilities (texts, classes), and which texts hold no word the model knows."""
        if self._stream is None and len(texts) > FEW:
            self._stream = text_encoder(self.model.vocabulary, words=self.words)
            if table_bytes(self.model) <= LARGEST_TABLES and self.device == "cpu":
                self._tabulated = self.model.ensemble().tabulated()
        if self._stream is None:
            ids, offsets = encode_texts(texts, self.model.vocabulary, words=self.words)
        else:
            ids, offsets = self._stream.add(texts)
        known = np.concatenate([[0], np.cumsum(ids >= FIRST_WORD)])
        empty = known[offsets[1:]] == known[offsets[:-1]]
        ensemble = self._tabulated or self.model.ensemble(self.device)
        return ensemble.log_probabilities(ids, offsets), empty

    def code(self, texts: Sequence[str]) -> list[dict[str, Code]]:
        """Each text's codes, by task."""
        log_probabilities, empty = self.read(texts)
        return decide(self.model, log_probabilities, empty=empty)


def decide(model: Model, log_probabilities: Mapping[str, np.ndarray], *, empty: np.ndarray) -> list[dict[str, Code]]:
    """The chosen code a task, and whether it is sure enough, for each document; ``empty`` ones hold no known word."""
    chosen = choose(log_probabilities, model.lift)
    rows = np.arange(len(empty))
    coded: list[dict[str, Code]] = [{} for _ in rows]
    for task, logs in log_probabilities.items():
        threshold = model.thresholds[task].probability if task in model.thresholds else NEVER
        probability = np.exp(logs[rows, chosen[task]].astype(np.float64))
        columns = chosen[task], probability, (probability < threshold) | empty, logs[rows, chosen[task]] < logs.max(1)
        for codes, label, *rest in zip(coded, *(column.tolist() for column in columns), strict=True):
            codes[task] = Code(model.labels[task][label], *rest)
    return coded


def table_bytes(model: Model) -> int:
    """Size of the look-up tables of all members, filters rounded up as the kernel does."""
    shape = model.architecture
    filters = -(-shape["filters"] // 64) * 64
    return 4 * shape["vocabulary_size"] * sum(shape["windows"]) * filters * shape["members"]
