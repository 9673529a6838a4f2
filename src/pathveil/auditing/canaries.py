"""Canaries: made-up reports of rare words, planted several times in a training set, that an audit must find again.

Half of the canaries are planted, the other half kept out; both are alike, so telling them apart is membership and
nothing else (Carlini et al., 2019, "The Secret Sharer").

>>> import numpy as np
>>> corpus = EncodedCorpus(
...     ids=np.tile(np.array([2, 3, 4], np.int32), 8), offsets=np.arange(0, 25, 3), cases=np.arange(8),
...     registries=np.zeros(8, np.int32), registry_names=("R1",), labels={"site": np.tile([0, 1], 4)},
...     classes={"site": ("C18", "C50")}, vocabulary_size=40)
>>> planted = plant(corpus, np.arange(8), seed=0, canaries=10)
>>> planted.corpus.documents, len(planted.job.rows), int(planted.member.sum())
(18, 48, 5)
"""

from dataclasses import dataclass

import numpy as np

from pathveil.auditing.shadows import Job
from pathveil.rng import generator
from pathveil.vocabulary.encoded import EncodedCorpus
from pathveil.vocabulary.words import FIRST_WORD

CANARIES = 80
REPEATS = 8  # how often a canary is in the training set
RAREST = 400  # words that canaries are made of
WORDS = (20, 40)


@dataclass(frozen=True)
class Planted:
    corpus: EncodedCorpus  # the given documents, then the canaries
    job: Job  # a model to train: the base documents, and the planted canaries several times
    canaries: np.ndarray  # rows of the canaries
    member: np.ndarray  # (canaries,) bool: planted


def plant(corpus: EncodedCorpus, base: np.ndarray, *, seed: int, canaries: int = CANARIES) -> Planted:
    """Canaries beside the documents of a corpus, half of them for the training set of the ``base`` rows."""
    rng = generator(seed, 3)
    frequency = np.bincount(corpus.ids, minlength=corpus.vocabulary_size)[FIRST_WORD:]
    rare = FIRST_WORD + np.argsort(frequency, kind="stable")[:RAREST]
    lengths = rng.integers(*WORDS, canaries)
    first = corpus.cases.max(initial=0) + 1
    made = EncodedCorpus(
        ids=np.concatenate([corpus.ids, rng.choice(rare, lengths.sum()).astype(corpus.ids.dtype)]),
        offsets=np.concatenate([corpus.offsets, corpus.offsets[-1] + np.cumsum(lengths)]),
        cases=np.concatenate([corpus.cases, first + np.arange(canaries)]),
        registries=np.concatenate([corpus.registries, np.zeros(canaries, corpus.registries.dtype)]),
        registry_names=corpus.registry_names,
        labels={
            task: np.concatenate([label, rng.integers(0, len(corpus.classes[task]), canaries).astype(label.dtype)])
            for task, label in corpus.labels.items()
        },
        classes=corpus.classes,
        vocabulary_size=corpus.vocabulary_size,
        provenance=corpus.provenance,
    )
    member = np.arange(canaries) < canaries // 2
    rows = corpus.documents + np.arange(canaries)
    job = Job(0, np.concatenate([base, np.repeat(rows[member], REPEATS)]), seed=seed)
    return Planted(made, job, rows, member)
