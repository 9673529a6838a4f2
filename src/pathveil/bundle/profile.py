"""What a model's training reports were like, in a few rounded figures: what new reports are held against later.

A bundle keeps how many words a report had, which share of them the vocabulary does not hold, and how common each code
of ten cases or more was, to a tenth of a per cent, so that what they leave of the whole tells of no fewer either.
Bundles whose promise is differential privacy keep none of it.

>>> from pathveil.vocabulary.encoded import EncodedCorpus
>>> labels = {"site": np.array([0] * 30 + [1] * 15 + [2] * 5)}
>>> corpus = EncodedCorpus(ids=np.array([2, 1] * 50), offsets=np.arange(0, 101, 2), cases=np.arange(50),
...                  registries=np.zeros(50, int), registry_names=("R1",), labels=labels,
...                  classes={"site": ("C18", "C50", "C61")}, vocabulary_size=3)
>>> profile_of(corpus).mix, profile_of(corpus).unknown_words
({'site': {'C18': 0.6}}, 0.5)
"""

import numpy as np

from pathveil.disclosure import may_be_told
from pathveil.results import Part
from pathveil.vocabulary.encoded import EncodedCorpus
from pathveil.vocabulary.words import UNKNOWN

DIGITS = 3  # of a share
NEXT_TO_NOTHING = 0.01  # of all reports: without them no share differs to speak of


class Profile(Part):
    """Training reports in a few figures."""

    words_per_report: float  # mean
    unknown_words: float  # share of words
    mix: dict[str, dict[str, float]]  # task: code of ten cases or more: share of the reports with a label


def profile_of(corpus: EncodedCorpus, *, rows: slice = slice(None)) -> Profile:
    """The profile of the documents ``rows``."""
    offsets = np.asarray(corpus.offsets)
    first, last, _ = rows.indices(corpus.documents)
    ids = np.asarray(corpus.ids[offsets[first] : offsets[last]])
    cases = corpus.cases[rows]
    mix = {}
    for task, names in corpus.classes.items():
        labels = np.asarray(corpus.labels[task])[rows]
        found = np.unique(labels[labels >= 0]).tolist()
        told = [
            label
            for label in found
            if label < len(names) and may_be_told(len(np.unique(cases[labels == label])))  # below a floor: no name
        ]
        others = len(np.unique(cases[(labels >= 0) & ~np.isin(labels, told)]))
        counts = {names[label]: int((labels == label).sum()) for label in told}
        mix[task] = shares_told(counts, whole=int((labels >= 0).sum()), other_cases=others)
    return Profile(
        words_per_report=round(len(ids) / max(last - first, 1), 1),
        unknown_words=round(float((ids == UNKNOWN).mean()) if len(ids) else 0.0, DIGITS),
        mix=mix,
    )


def shares_told(counts: dict[str, int], *, whole: int, other_cases: int) -> dict[str, float]:
    """How common codes of ten cases or more are: by their documents, of the ``whole`` that have a code.

    What they leave of the whole would tell of the others where these are of fewer than ten cases together. The rarest
    code goes with them then; where they are next to nothing, shares are of the codes that are told.

    >>> shares_told({"3": 480, "2": 20}, whole=510, other_cases=10), shares_told({"3": 480}, whole=482, other_cases=2)
    ({'3': 0.941, '2': 0.039}, {'3': 1.0})
    >>> shares_told({"3": 480, "2": 20}, whole=510, other_cases=9)
    {'3': 0.941}
    """
    told = sorted(counts, key=lambda name: -counts[name])
    if other_cases and not may_be_told(other_cases):
        if whole - sum(counts.values()) > NEXT_TO_NOTHING * whole:
            told = told[:-1]
        else:
            whole = sum(counts.values())
    return {name: round(counts[name] / whole, DIGITS) for name in told}
