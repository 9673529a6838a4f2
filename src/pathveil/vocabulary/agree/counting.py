"""In how many cases of each registry every word occurs: what a site goes by when it decides which words to submit.

>>> import numpy as np
>>> store = Tokens(words=("left", "lobe"), ids=np.array([0, 0, 1, 0], np.int32), offsets=np.array([0, 2, 3, 4]),
...     cases=np.array([7, 7, 8]), registries=np.array([0, 0, 0]), registry_names=("R1",), provenance={})
>>> case_counts(store)   # two reports of case 7, one of case 8
{'R1': {'left': 2, 'lobe': 1}}
"""

from dataclasses import replace

import numpy as np

from pathveil.corpus.schema import Paths
from pathveil.progress import Progress, silent
from pathveil.vocabulary.encoded import take_documents
from pathveil.vocabulary.tokens import Tokens, tokens


def case_counts(store: Tokens) -> dict[str, dict[str, int]]:
    """Registry: word: number of its cases whose reports hold the word."""
    counts = {}
    for number, registry in enumerate(store.registry_names):
        rows = np.flatnonzero(store.registries == number)
        ids, offsets = take_documents(store.ids, store.offsets, rows)
        case = np.unique(store.cases[rows], return_inverse=True)[1]
        # A number for each pair of case and word; each pair counts once, however many reports and places hold it.
        pairs = np.unique(np.repeat(case, np.diff(offsets)).astype(np.int64) * len(store.words) + ids)
        words, cases = np.unique(pairs % len(store.words), return_counts=True)
        counts[registry] = {store.words[word]: int(held) for word, held in zip(words, cases, strict=True)}
    return counts


def site_counts(corpus: Paths, *, progress: Progress = silent) -> dict[str, int]:
    """Word: number of cases that hold it, over a whole corpus: a site's, whatever its registry column says."""
    store = tokens(corpus, progress=progress)
    one = np.zeros(store.documents, np.int32)
    return case_counts(replace(store, registries=one, registry_names=("site",)))["site"]
