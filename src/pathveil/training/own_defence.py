"""A defence of one's own: a function that changes what networks learn from, as teachers do with lessons.

    def my_defence(corpus: EncodedCorpus, settings: TrainingSettings, seed: int) -> EncodedCorpus: ...

It is given the documents that a model would learn from and gives back as many, of the same cases and classes, with
other labels (``MISSING`` for none) or other words. The same arguments must give the same corpus. It stands at the top
level of a module, because it is imported by its name wherever a model or a shadow of it is trained.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import import_module
from itertools import pairwise
from operator import attrgetter

import numpy as np

from pathveil.errors import UsageError
from pathveil.training.defences import OwnDefence
from pathveil.training.settings import TrainingSettings
from pathveil.vocabulary.encoded import MISSING, EncodedCorpus, join_documents

Defend = Callable[[EncodedCorpus, TrainingSettings, int], EncodedCorpus]


def defended(corpus: EncodedCorpus, settings: TrainingSettings, *, seed: int) -> EncodedCorpus:
    """What a model learns from in the place of a corpus, as the settings' own defence makes it."""
    defence = settings.defence
    assert isinstance(defence, OwnDefence), "only for a model with a defence of one's own"
    found = imported(defence.function)(corpus, settings.changed(defence=None), seed)
    if not isinstance(found, EncodedCorpus) or found.documents != corpus.documents or found.classes != corpus.classes:
        raise UsageError(
            f"defence {defence.function}: must give back an encoded corpus with the same documents and classes"
        )
    labels = {task: np.asarray(label).astype(np.int32) for task, label in found.labels.items()}
    for task, names in corpus.classes.items():
        if len(labels[task]) != corpus.documents or not ((labels[task] >= MISSING) & (labels[task] < len(names))).all():
            raise UsageError(f"defence {defence.function}: task '{task}' needs a class's number, or -1, a document")
    return replace(found, labels=labels, cases=corpus.cases, vocabulary_size=corpus.vocabulary_size)


def imported(function: str) -> Defend:
    module, _, name = function.partition(":")
    try:
        return attrgetter(name)(import_module(module))
    except (ImportError, AttributeError):
        raise UsageError(f"defence {function}: cannot be imported; is its module on Python's path?") from None


def defended_many(
    corpus: EncodedCorpus, members: Sequence[np.ndarray], settings: TrainingSettings, *, seeds: Sequence[int]
) -> tuple[EncodedCorpus, list[np.ndarray]]:
    """What several models learn from, each defended by itself; as ``append_documents`` has it."""
    taught = [defended(corpus.take(rows), settings, seed=seed) for rows, seed in zip(members, seeds, strict=True)]
    return append_documents(corpus, taught)


def append_documents(corpus: EncodedCorpus, taught: Sequence[EncodedCorpus]) -> tuple[EncodedCorpus, list[np.ndarray]]:
    """A corpus that begins with the given one and goes on with what each model is taught, and each one's rows of it."""
    parts = [corpus, *taught]
    ends = np.cumsum([part.documents for part in parts])
    return join_documents(parts), [np.arange(start, end) for start, end in pairwise(ends)]
