"""A bundle at work: texts in, codes with their probabilities out, and who should look at them.

A code is taken where its calibrated probability reaches the task's threshold; below it the model abstains and a person
decides. It always abstains from a report in which it knows no word, and where a bundle has no threshold (no cases were
held out).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pathveil.bundle.folder import Bundle
from pathveil.errors import BundleError
from pathveil.text import settings as text_settings
from pathveil.training.calibration import NEVER
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
    probability: float
    abstained: bool


class Coder:
    """Codes texts with a bundle; keeps what it learns about words from one batch to the next."""

    def __init__(self, bundle: Bundle, *, device: str = "cpu"):
        self.bundle, self.device = bundle, device
        self.words = clip_of(bundle)
        self._stream = None
        self._model: Ensemble | None = None

    def read(self, texts: Sequence[str]) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Each task's calibrated log-probabilities (texts, classes), and which texts hold no word the model knows."""
        if self._stream is None and len(texts) > FEW:
            self._stream = text_encoder(self.bundle.vocabulary, words=self.words)
            if table_bytes(self.bundle) <= LARGEST_TABLES and self.device == "cpu":
                self._model = self.bundle.model.tabulated()
        if self._stream is None:
            ids, offsets = encode_texts(texts, self.bundle.vocabulary, words=self.words)
        else:
            ids, offsets = self._stream.add(texts)
        known = np.concatenate([[0], np.cumsum(ids >= FIRST_WORD)])
        empty = known[offsets[1:]] == known[offsets[:-1]]
        model = self._model or self.bundle.model
        return model.log_probabilities(ids, offsets, device=self.device), empty

    def code(self, texts: Sequence[str]) -> list[dict[str, Code]]:
        """Each text's codes, by task."""
        said, empty = self.read(texts)
        return decide(self.bundle, said, empty=empty)


def decide(bundle: Bundle, log_probabilities: Mapping[str, np.ndarray], *, empty: np.ndarray) -> list[dict[str, Code]]:
    """The chosen code a task, and whether it is sure enough, for each document."""
    chosen = bundle.model.choose(log_probabilities)
    documents = len(next(iter(log_probabilities.values())))
    coded: list[dict[str, Code]] = [{} for _ in range(documents)]
    for task, logs in log_probabilities.items():
        threshold = bundle.thresholds.get(task, {}).get("probability", NEVER)
        best = chosen[task]
        sure = np.exp(logs[np.arange(documents), best].astype(np.float64))
        names = bundle.labels[task]
        for row, (label, probability) in enumerate(zip(best.tolist(), sure.tolist(), strict=True)):
            coded[row][task] = Code(names[label], probability, bool(probability < threshold or empty[row]))
    return coded


def table_bytes(bundle: Bundle) -> int:
    """Size of the look-up tables of all members, filters rounded up as the kernel does."""
    shape = bundle.architecture
    filters = -(-shape["filters"] // 64) * 64
    return 4 * shape["vocabulary_size"] * sum(shape["windows"]) * filters * shape["members"]


def clip_of(bundle: Bundle) -> int:
    """Words a report is clipped at; a bundle whose text was cut by other rules than ours cannot be used."""
    words = bundle.text.rpartition("words=")[2]
    if not words.isdigit() or text_settings(words=int(words)) != bundle.text:
        raise BundleError(
            f"the bundle's text settings are '{bundle.text}', this version cuts text by '{text_settings()}'; "
            "its answers would not be the model's"
        )
    return int(words)
