"""How long training takes on a device, measured on a few batches before it is done.

Models are really trained, once for one epoch and once for more. The difference is what a document costs in training; a
third run that also reads documents gives the cost of reading one; the rest is what a model costs however few documents
it has. Early stopping cannot be foreseen: ``ASSUMED`` epochs stand for it.

>>> Speed(fixed=0.5, document=0.001, read=0.0001).seconds(models=2, documents=1000, reads=5000)
2.5
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from pathveil.training.defences import DPSettings
from pathveil.training.settings import TrainingSettings
from pathveil.vocabulary.encoded import EncodedCorpus

ASSUMED = 12  # epochs of a model that stops early, where none is finished
BATCHES = {"cpu": 3, "cuda": 32}  # of a model in calibration
STACK = {"cpu": 1, "cuda": 16}  # models that are calibrated together where many are trained
SHOWS, MOST_TIMES = 0.2, 64  # seconds that a calibration's work should take, and how much more of it there may be
VARIES = 1.3  # what the same work took more or less on the same machine at another time


@dataclass(frozen=True)
class Speed:
    """Seconds of one kind of work."""

    fixed: float  # a model
    document: float  # learnt from, an epoch
    read: float = 0.0  # document that is read
    first: float = 0.0  # more for the first of all: it compiles and loads

    def seconds(self, *, models: int, documents: float, reads: float = 0.0) -> float:
        return self.fixed * models + self.document * documents + self.read * reads


def ranged(seconds: float, *, more: float = 0.0, less: float = 0.0) -> dict[str, float]:
    """Seconds with what they may come to where so many more or fewer are possible.

    >>> ranged(13.0, more=7.0)
    {'seconds': 13.0, 'low': 10.0, 'high': 26.0}
    """
    return {"seconds": seconds, "low": (seconds - less) / VARIES, "high": (seconds + more) * VARIES}


def model_speed(corpus: EncodedCorpus, training: TrainingSettings, *, models: int, device: str) -> Speed:
    """Measure the training and reading of so many models at once, each on all of these documents."""

    def trial(epochs: int, reads: int) -> None:
        train_models(
            corpus, [np.arange(corpus.documents)] * models, training, epochs=epochs, reads=reads, device=device
        )

    return speed_of(trial, models=models, documents=corpus.documents, reads=corpus.documents)


def speed_of(trial: Callable[[int, int], None], *, models: int, documents: int, reads: int) -> Speed:
    """Time ``trial(epochs, reads)``; the first run, which compiles and loads, is counted apart.

    What a fast device does in three epochs is lost in how starting varies: it gets as much more to do as shows on the
    clock.
    """

    def timed(epochs: int, reads: int) -> float:
        began = perf_counter()
        trial(epochs, reads)
        return perf_counter() - began

    def each(run: Callable[[int], float], number: int) -> float:
        """What one more of so many costs beyond a single epoch."""
        times = 1
        while (more := run(number * times) - once) < SHOWS and times < MOST_TIMES:
            times = min(MOST_TIMES, max(4 * times, 1 + int(times * SHOWS / more)) if more > 0 else MOST_TIMES)
        return max(more, 0.0) / (number * times)

    first = timed(1, min(reads, 1))
    once = timed(1, min(reads, 1))
    document = each(lambda epochs: timed(1 + epochs, min(reads, 1)), 2) / (documents * models)
    read = each(lambda number: timed(1, number), reads) / models if reads else 0.0
    fixed = max(once - document * documents * models, 0.0) / models
    return Speed(fixed=fixed, document=document, read=read, first=max(first - once, 0.0))


def train_models(
    corpus: EncodedCorpus,
    members: Sequence[np.ndarray],
    training: TrainingSettings,
    *,
    epochs: int,
    reads: int,
    device: str,
) -> None:
    """A model on each of ``members`` for so many epochs, which then reads so many documents, the same ones again where
    there are not enough."""
    from pathveil.training.loop import fit, logits_of
    from pathveil.training.stacked import logits_many

    # Teachers are counted as models of their own: here is timed what one model takes.
    undefended = {} if isinstance(training.defence, DPSettings) else {"defence": None}
    settings = training.changed(epochs=epochs, patience=None, **undefended)
    rows = np.arange(reads) % corpus.documents
    if len(members) == 1:
        logits_of(fit(corpus.take(members[0]), settings, seed=1, device=device).model, corpus, rows)
        return
    for _ in logits_many(corpus, members, settings, seeds=list(range(len(members))), rows=rows, device=device):
        pass
