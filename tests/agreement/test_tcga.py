"""On the TCGA corpus: an agreement between a fold's registries gives what 'vocab select' gives on their pooled text."""

from collections import Counter, defaultdict

import numpy as np
import pytest

from pathveil.agreement.simulate import by_registry, simulate
from pathveil.agreement.site import cases_of
from pathveil.vocabulary.corpus_counts import count_corpus
from pathveil.vocabulary.counts import WordCounts, without_rare
from pathveil.vocabulary.selection import Measures, select
from pathveil.vocabulary.tokens import tokens

MIN_CASES = 250  # some 200 words a site, so that seven folds of real cryptography take seconds


@pytest.fixture(scope="module")
def counts(tcga) -> WordCounts:
    return count_corpus(tcga, tasks=())


def test_cases_are_counted_right(counts, tcga):
    """By sets in plain Python."""
    store = tokens(tcga)
    words_of_case = defaultdict(set)
    for row in range(store.documents):
        registry = store.registry_names[store.registries[row]]
        words = np.unique(store.ids[store.offsets[row] : store.offsets[row + 1]]).tolist()
        words_of_case[registry, int(store.cases[row])].update(words)
    plain: dict[str, Counter] = defaultdict(Counter)
    for (registry, _), words in words_of_case.items():
        plain[registry].update(store.words[word] for word in words)
    assert by_registry(counts) == plain
    assert cases_of(counts) == sum(plain.values(), Counter())


@pytest.mark.parametrize("fold", range(7))
def test_every_fold_agrees_on_the_plain_intersection(counts, fold):
    left_out = counts.registry_names[fold]
    pooled = counts.take(name for name in counts.registry_names if name != left_out)
    threshold = 3 + fold % 4  # 3 to 6 of the six
    agreed = simulate(by_registry(pooled), threshold=threshold, min_cases=MIN_CASES, batch=64, seed=b"tcga").vocabulary
    chosen = select(Measures(without_rare(pooled, MIN_CASES)), f"registries >= {threshold}")
    assert sorted(agreed.words) == sorted(chosen.words) and len(agreed.words) > 50
