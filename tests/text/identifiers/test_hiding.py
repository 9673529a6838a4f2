"""Texts hidden together are as each alone, and places are counted in its own characters."""

import time

import polars as pl
import pytest

from pathveil.text.identifiers import encoded, hide, hide_all
from pathveil.text.identifiers.finding import SIGN
from pathveil.text.identifiers.hiding import hide_bytes


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


@pytest.mark.parametrize("sign", [":", "#", ": ", "#:"])
def test_a_row_of_colons_takes_time_as_its_length_does(sign):
    def best(size: int) -> float:
        """The least processor time of several tries."""
        times = []
        for _ in range(5):
            began = time.process_time()
            assert hide("MRN" + sign * (size // len(sign))).startswith("MRN")
            times.append(time.process_time() - began)
        return min(times)

    hide("compiled")
    assert best(200_000) < 3 * best(100_000)
    assert hide("MRN" + sign * 20_000 + "12345") == "MRN" + sign * 20_000 + SIGN["number"]
