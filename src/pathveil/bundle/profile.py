"""What a model's training reports were like, in a few rounded figures: what new reports are held against later.

A bundle keeps how many words a report had, which share of them the vocabulary does not hold, and how common each code
of ten cases or more was, to a tenth of a per cent. Bundles whose promise is differential privacy keep none of it.

>>> from pathveil.vocabulary.encoded import Encoded
>>> labels = {"site": np.array([0] * 30 + [1] * 15 + [2] * 5)}
>>> corpus = Encoded(ids=np.array([2, 1] * 50), offsets=np.arange(0, 101, 2), cases=np.arange(50),
...                  registries=np.zeros(50, int), registry_names=("R1",), labels=labels,
...                  classes={"site": ("C18", "C50", "C61")}, vocabulary_size=3)
>>> profile_of(corpus).mix, profile_of(corpus).unknown_words
({'site': {'C18': 0.6, 'C50': 0.3}}, 0.5)
"""

import numpy as np

from pathveil.disclosure import may_be_told
from pathveil.results import Part
from pathveil.vocabulary.encoded import Encoded
from pathveil.vocabulary.words import UNKNOWN

DIGITS = 3  # of a share


class Profile(Part):
    """Training reports in a few figures."""

    words_per_report: float  # mean
    unknown_words: float  # share of words
    mix: dict[str, dict[str, float]]  # task: code of ten cases or more: share of the reports with a label


def profile_of(corpus: Encoded, *, rows: slice = slice(None)) -> Profile:
    """The profile of the documents ``rows``."""
    offsets = np.asarray(corpus.offsets)
    first, last, _ = rows.indices(corpus.documents)
    ids = np.asarray(corpus.ids[offsets[first] : offsets[last]])
    cases = corpus.cases[rows]
    mix = {}
    for task, names in corpus.classes.items():
        labels = np.asarray(corpus.labels[task])[rows]
        number = max(int((labels >= 0).sum()), 1)
        mix[task] = {
            names[label]: round(float((labels == label).sum() / number), DIGITS)
            for label in np.unique(labels[(labels >= 0) & (labels < len(names))])  # codes below a floor have no name
            if may_be_told(len(np.unique(cases[labels == label])))
        }
    return Profile(
        words_per_report=round(len(ids) / max(last - first, 1), 1),
        unknown_words=round(float((ids == UNKNOWN).mean()) if len(ids) else 0.0, DIGITS),
        mix=mix,
    )
