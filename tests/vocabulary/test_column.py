"""The fast path over a column gives exactly the tokens of `tokenize`."""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from pathveil.text.tokenizer import tokenize
from pathveil.vocabulary.column import Column, Numbers

PIECES = st.sampled_from(
    "carcinoma|G3|pT2|Ki-67|8500/3|C50.4|a.|1.5|x|12|100|2008|1,250|'s|%|-|/|+|.|,|(|:|_|é|ﬁ|½|µm|cm|\x00|\x85| ".split(
        "|"
    )
)
REPORTS = st.lists(PIECES | st.text(max_size=3), max_size=30).map("".join)


def through(column: Column, numbers: Numbers, texts: list[str]) -> list[list[str]]:
    ids, offsets = column.add(texts)
    words = list(numbers)
    assert len(offsets) == len(texts) + 1
    return [[words[i] for i in ids[a:b]] for a, b in pairwise(offsets)]


@settings(deadline=None, max_examples=300)  # the loop is compiled the first time
@given(st.lists(REPORTS, max_size=6))
def test_equals_tokenize(texts):
    numbers = Numbers()
    column = Column(numbers.__getitem__, limit=1000)
    assert through(column, numbers, texts) == [tokenize(text, identifiers=False) for text in texts]
    assert through(column, numbers, texts) == [
        tokenize(text, identifiers=False) for text in texts
    ]  # and when all is known


def test_clips_each_text():
    numbers = Numbers()
    column = Column(numbers.__getitem__, words=3)
    texts = ["left breast (left) breast", "a,b,c d", "one"]
    assert through(column, numbers, texts) == [tokenize(text, words=3, identifiers=False) for text in texts]


def test_starting_the_table_afresh_changes_nothing():
    numbers = Numbers()
    column = Column(numbers.__getitem__, limit=50)
    for start in range(0, 2000, 40):
        texts = [f"w{number}-x left, {number} 1.{number}" for number in range(start, start + 40)]
        assert through(column, numbers, texts) == [tokenize(text, identifiers=False) for text in texts]
        assert column.chunks.count <= 50 + 40 * 4


def test_tables_grow_in_the_middle_of_a_batch(monkeypatch):
    monkeypatch.setattr("pathveil.vocabulary.column.SLOTS", 8)
    numbers = Numbers()
    column = Column(numbers.__getitem__)
    texts = [f"a{number} b{number}/{number} {'long' * 5}{number} é{number}" for number in range(300)] * 2
    assert through(column, numbers, texts) == [tokenize(text, identifiers=False) for text in texts]
    assert len(column.chunks.table) > 1024 and len(column.met.table) > 1024


def test_a_text_larger_than_a_batch(monkeypatch):
    monkeypatch.setattr("pathveil.vocabulary.column.BATCH", 64)
    numbers = Numbers()
    column = Column(numbers.__getitem__, limit=10, words=10**6)
    text = " ".join(f"word{number}" for number in range(5000))
    assert through(column, numbers, ["left", text, "left " * 30]) == [["left"], text.split(), ["left"] * 30]


def test_real_reports(tcga):
    import polars as pl

    texts = pl.read_parquet(tcga, columns=["text"])["text"].gather_every(13).to_list()
    numbers = Numbers()
    assert through(Column(numbers.__getitem__), numbers, texts) == [tokenize(text, identifiers=False) for text in texts]
