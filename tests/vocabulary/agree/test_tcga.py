"""On the TCGA corpus: an agreement between the registries of every fold gives the plain intersection's words."""

from collections import Counter, defaultdict

import numpy as np
import pytest

from pathveil.vocabulary.agree.counting import case_counts, site_counts
from pathveil.vocabulary.agree.simulate import simulate
from pathveil.vocabulary.tokens import Tokens, tokens

MIN_CASES = 250  # some 200 words a site, so that seven folds of real cryptography take seconds


@pytest.fixture(scope="module")
def store(tcga) -> Tokens:
    return tokens(tcga)


@pytest.fixture(scope="module")
def plain(store) -> dict[str, Counter]:
    """Cases that hold each word, counted by sets in plain Python."""
    words_of_case = defaultdict(set)
    for row in range(store.documents):
        registry = store.registry_names[store.registries[row]]
        words = np.unique(store.ids[store.offsets[row] : store.offsets[row + 1]]).tolist()
        words_of_case[registry, int(store.cases[row])].update(words)
    counts: dict[str, Counter] = defaultdict(Counter)
    for (registry, _), words in words_of_case.items():
        counts[registry].update(store.words[word] for word in words)
    return counts


@pytest.fixture(scope="module")
def counted(store) -> dict[str, dict[str, int]]:
    return case_counts(store)


def test_cases_are_counted_right(counted, plain, tcga):
    assert counted == plain
    whole = site_counts(tcga)
    assert sum(whole.values()) == sum(sum(counts.values()) for counts in plain.values())  # no case is in two registries


@pytest.mark.parametrize("fold", range(7))
def test_every_fold_agrees_on_the_plain_intersection(store, counted, plain, fold):
    left_out = store.registry_names[fold]
    counts = {registry: words for registry, words in counted.items() if registry != left_out}
    threshold = 3 + fold % 4  # 3 to 6 of the six
    outcome = simulate(counts, threshold=threshold, min_cases=MIN_CASES, batch=64, seed=b"tcga")
    held = Counter(word for registry in counts for word, cases in plain[registry].items() if cases >= MIN_CASES)
    assert set(outcome.vocabulary.words) == {word for word, sites in held.items() if sites >= threshold}
    assert len(outcome.vocabulary.words) > 50
