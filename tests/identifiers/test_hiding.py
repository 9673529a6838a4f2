"""Texts hidden together are as each alone, and places are counted in its own characters."""

import polars as pl

from pathveil.identifiers import encoded, hide, hide_all
from pathveil.identifiers.hiding import hide_bytes


def test_stretches_of_several_texts_are_counted_in_characters_of_each():
    texts = ["é 3/12/2008", "", "no", "’’, Patient: Ada O’Byron", "\U0001d4d0 3/12/2008, 𝟏3/12/2008"]
    _, _, found = hide_bytes(*encoded(texts))
    assert [texts[text][first:last] for text, first, last, _ in found.tolist()] == [
        *("3/12/2008", "Ada O’Byron", "3/12/2008"),
    ]
    assert found[:, 0].tolist() == [0, 3, 4]


def test_many_texts_at_once_are_as_each_alone(tcga):
    texts = pl.read_parquet(tcga, columns=["text"])["text"].gather_every(97).to_list()
    data, ends = hide_all(texts)
    assert data[: ends[-1]].tobytes().decode() == "".join(f"{hide(text)}\n" for text in texts)
