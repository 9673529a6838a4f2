"""Counting a token store: against plain loops, registry by registry."""

from collections import Counter, defaultdict

import polars as pl
import pytest

from pathveil.errors import VocabularyError
from pathveil.text.tokenizer import tokenize
from pathveil.vocabulary.corpus_counts import count_corpus
from vocabulary.corpora import random_corpus, unfolded


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return random_corpus(tmp_path_factory.mktemp("counts") / "reports.parquet")


def plain(frame: pl.DataFrame) -> dict:
    """The same numbers by loops over Python objects: {(what, registry, word[, task, class]): number}."""
    seen: Counter = Counter()
    cases = defaultdict(set)
    for row in frame.iter_rows(named=True):
        registry, tokens = row["registry"], tokenize(row["text"])
        seen.update(("occurrences", registry, token) for token in tokens)
        for token in set(tokens):
            seen["reports", registry, token] += 1
            cases["cases", registry, token].add(row["case_id"])
            for task in ("site", "laterality"):
                if row[task]:
                    seen["joint", registry, token, task, row[task]] += 1
        for task in ("site", "laterality"):
            if row[task]:
                seen["labels", registry, task, row[task]] += 1
    return dict(seen) | {key: len(value) for key, value in cases.items()}


def test_equals_plain_counting(corpus):
    frame = pl.read_parquet(corpus)
    counts = count_corpus(corpus)
    assert unfolded(counts) == plain(frame)
    sizes = frame.group_by("registry").agg(pl.len(), pl.col("case_id").n_unique()).sort("registry")
    assert counts.total_reports.tolist() == sizes["len"].to_list()
    assert counts.total_cases.tolist() == sizes["case_id"].to_list()


def test_nothing_left_to_count(corpus):
    with pytest.raises(VocabularyError, match="no report"):
        count_corpus(corpus, without=corpus)
