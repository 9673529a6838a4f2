"""Near-duplicates: found by signatures, judged exactly, dealt out together."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pathveil.training import near_duplicates
from pathveil.training.near_duplicates import group_cases, groups


def laid_end_to_end(documents):
    offsets = np.concatenate([[0], np.cumsum([len(document) for document in documents])])
    return np.concatenate([np.asarray(document, np.int32) for document in documents]), offsets


def index(one, other):
    """The Jaccard index of two documents' shingles, by Python's sets."""
    sets = [{tuple(words[n : n + 3]) for n in range(max(len(words) - 2, 1))} for words in (one, other)]
    return len(sets[0] & sets[1]) / len(sets[0] | sets[1])


def changed(rng, words, share):
    words = words.copy()
    words[rng.random(len(words)) < share] = 1
    return words


def test_a_report_with_a_tenth_of_its_words_changed_is_found_among_many():
    rng = np.random.default_rng(0)
    # Words as common as words are: strangers share many single words and few runs of three.
    reports = [rng.zipf(1.3, rng.integers(100, 600)) % 5000 + 2 for _ in range(400)]
    ids, offsets = laid_end_to_end([*reports, *(changed(rng, report, 0.1) for report in reports[:100])])
    found = groups(ids, offsets)
    assert (found[:100] == found[400:]).mean() > 0.97
    strangers = found[100:400]
    assert len(np.unique(strangers)) == 300 and not np.isin(strangers, found[:100]).any()


@given(st.integers(0, 1000))
def test_pairs_that_are_compared_have_their_exact_index(seed):
    rng = np.random.default_rng(seed)
    reports = [rng.integers(2, 6, rng.integers(1, 12)) for _ in range(6)]
    shingles, starts = near_duplicates._shingles(*laid_end_to_end(reports))
    pairs = np.array([(a, b) for a in range(6) for b in range(a + 1, 6)])
    expected = [index(reports[a].tolist(), reports[b].tolist()) for a, b in pairs]
    assert near_duplicates._index(shingles, starts, pairs) == pytest.approx(expected)


def test_signatures_agree_as_often_as_the_index_says():
    rng = np.random.default_rng(3)
    one = rng.integers(2, 10_000, 2000)
    pair = [one, changed(rng, one, 0.15)]
    shingles, starts = near_duplicates._shingles(*laid_end_to_end(pair))
    multipliers = rng.integers(0, 2**64, 20_000, np.uint64) | np.uint64(1)
    signatures = near_duplicates._signatures(shingles, starts, multipliers)
    assert (signatures[0] == signatures[1]).mean() == pytest.approx(index(*map(np.ndarray.tolist, pair)), abs=0.02)


def test_empty_documents_and_a_crowd_of_copies():
    ids, offsets = laid_end_to_end([[], [], *([[5, 6, 7, 8]] * 500), []])
    found = groups(ids, offsets)
    assert len(np.unique(found[2:502])) == 1
    assert found[[0, 1, 502]].tolist() == [0, 1, 502]


def test_cases_are_joined_through_their_reports():
    first, second, third = np.arange(2, 40), np.arange(50, 90), np.arange(100, 140)
    ids, offsets = laid_end_to_end([first, second, second, third, third, np.arange(200, 240)])
    joined = group_cases(np.array([4, 4, 5, 5, 6, 9]), ids, offsets)  # 4 – 5 by the second text, 5 – 6 by the third
    assert len(set(joined[:5].tolist())) == 1 and joined[5] != joined[0]
    assert group_cases(np.array([3, 1]), np.array([2, 3, 4, 9, 8, 7], np.int32), np.array([0, 3, 6])).tolist() == [1, 0]


def test_the_same_seed_finds_the_same_groups():
    rng = np.random.default_rng(1)
    ids, offsets = laid_end_to_end([rng.integers(2, 50, 40) for _ in range(60)])
    assert (groups(ids, offsets, seed=3) == groups(ids, offsets, seed=3)).all()
