"""Small encoded corpora that can be learnt: each class has words of its own among words that say nothing."""

import numpy as np

from pathveil.vocabulary import EncodedCorpus


def encoded(
    documents=120, *, vocabulary=60, seed=0, missing=0.1, classes=(4, 3), reports_a_case=1, length=25
) -> EncodedCorpus:
    rng = np.random.default_rng(seed)
    names = {f"task{number}": tuple(f"c{label}" for label in range(size)) for number, size in enumerate(classes)}
    labels = {task: rng.integers(0, len(names[task]), documents) for task in names}
    lengths = rng.integers(0, length, documents)
    ids = rng.integers(2 + sum(classes), vocabulary, lengths.sum()).astype(np.int32)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    first = 2
    for number, (task, label) in enumerate(labels.items()):
        for row in np.flatnonzero(lengths >= 3 * len(classes)):
            place = offsets[row] + 3 * number  # a place of its own, so that no task writes over another
            ids[place : place + 3] = first + label[row]
        first += len(names[task])
    for label in labels.values():
        label[rng.random(documents) < missing] = -1
    return EncodedCorpus(
        ids=ids,
        offsets=offsets,
        cases=np.arange(documents) // reports_a_case,
        registries=np.zeros(documents, np.int32),
        registry_names=("R1",),
        labels=labels,
        classes=names,
        vocabulary_size=vocabulary,
    )
