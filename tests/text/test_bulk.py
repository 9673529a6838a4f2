"""Many texts at once have exactly the tokens of `tokenize`, in one process or several."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pathveil.errors import UsageError
from pathveil.text import bulk
from pathveil.text.bulk import BulkTokenizer, Numbers, shared_tokenizer
from pathveil.text.tokenizer import tokenize

PIECES = st.sampled_from(
    "carcinoma|G3|pT2|Ki-67|8500/3|C50.4|a.|1.5|x|12|100|2008|1,250|'s|%|-|/|+|.|,|(|:|_|é|ﬁ|½|µm|cm|\x00|\x85|\u2028| "
    "|Dr. Ada Byron|3/12/2008|İ|\ud800|\x1c|\xa0|cm.|,cm|\ue100".split("|")
)
REPORTS = st.lists(PIECES | st.text(max_size=3), max_size=30).map("".join)


def through(tokenizer: BulkTokenizer, numbers: Numbers, texts: list[str]) -> list[list[str]]:
    ids, offsets = tokenizer.add(texts)
    words = list(numbers)
    assert len(offsets) == len(texts) + 1
    return [[words[i] for i in ids[a:b]] for a, b in pairwise(offsets)]


@settings(max_examples=300)
@given(st.lists(REPORTS, max_size=6), st.booleans())
def test_equals_tokenize(texts, identifiers):
    numbers = Numbers()
    tokenizer = BulkTokenizer(numbers.__getitem__, identifiers=identifiers)
    expected = [tokenize(text, identifiers=identifiers) for text in texts]
    assert through(tokenizer, numbers, texts) == expected
    assert through(tokenizer, numbers, texts) == expected  # and when all chunks are known


def test_clips_each_text():
    numbers = Numbers()
    tokenizer = BulkTokenizer(numbers.__getitem__, words=3)
    texts = ["left breast (left) breast", "a,b,c d", "one"]
    assert through(tokenizer, numbers, texts) == [tokenize(text, words=3, identifiers=False) for text in texts]


def test_forgetting_chunks_changes_nothing():
    numbers = Numbers()
    tokenizer = BulkTokenizer(numbers.__getitem__, limit=50)
    for start in range(0, 2000, 40):
        texts = [f"w{number}-x left, {number} 1.{number}" for number in range(start, start + 40)]
        assert through(tokenizer, numbers, texts) == [tokenize(text, identifiers=False) for text in texts]
        assert len(tokenizer.chunks) <= 50 + 4


def test_real_reports(tcga):
    import polars as pl

    texts = pl.read_parquet(tcga, columns=["text"])["text"].gather_every(13).to_list()
    numbers = Numbers()
    assert through(BulkTokenizer(numbers.__getitem__), numbers, texts) == [
        tokenize(text, identifiers=False) for text in texts
    ]


def test_several_processes_give_the_same_numbers(monkeypatch):
    monkeypatch.setattr(bulk, "SLICE", 7)
    monkeypatch.setattr(bulk.os, "sched_getaffinity", lambda _: {0, 1, 2}, raising=False)
    texts = [f"Dr. Ada Byron{'x' * (number % 5)} saw w{number % 37}, pT2 {number}" for number in range(100)]
    alone, together = Numbers(), Numbers()
    expected = BulkTokenizer(alone.__getitem__, identifiers=True).add(texts)
    with shared_tokenizer(together.__getitem__, texts=bulk.MANY, identifiers=True) as add:
        first, second = add(texts[:60]), add(texts[60:])
        assert list(together) == list(alone)
        assert np.array_equal(np.concatenate([first[0], second[0]]), expected[0])
        assert np.array_equal(np.concatenate([first[1], first[1][-1] + second[1][1:]]), expected[1])


def test_a_process_that_dies_is_a_sentence(monkeypatch):
    monkeypatch.setattr(bulk.os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    monkeypatch.setattr(bulk.sys, "executable", "/bin/false")
    with pytest.raises(UsageError, match="died"), shared_tokenizer(Numbers().__getitem__, texts=bulk.MANY) as add:
        add(["left breast"])
