"""A corpus as arrays: chosen documents, corpora end to end, and a folder that comes back as it was."""

import json
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pathveil.vocabulary.encoded import MISSING, EncodedCorpus, join_documents, take_documents


def made(documents):
    """A corpus of the given lists of words."""
    count = len(documents)
    return EncodedCorpus(
        ids=np.array([word for words in documents for word in words], np.int32),
        offsets=np.cumsum([0, *map(len, documents)]),
        cases=np.arange(count) // 2,
        registries=np.arange(count, dtype=np.int32) % 2,
        registry_names=("R1", "R2"),
        labels={"site": np.array([number % 3 - 1 for number in range(count)], np.int32)},
        classes={"site": ("C18", "C50")},
        vocabulary_size=30,
        provenance={"corpus_sha256": "abc"},
        days=np.array([f"2015-01-{number % 28 + 1:02}" for number in range(count)], "datetime64[D]"),
    )


def words_of(corpus):
    return [corpus.ids[start:end].tolist() for start, end in zip(corpus.offsets, corpus.offsets[1:], strict=False)]


DOCUMENTS = st.lists(st.lists(st.integers(0, 29), max_size=6), min_size=1, max_size=8)


@given(DOCUMENTS, st.data())
def test_taken_documents_are_those_documents(documents, data):
    rows = np.array(data.draw(st.lists(st.integers(0, len(documents) - 1), max_size=12)), np.int64)
    whole = made(documents)
    taken = whole.take(rows)
    assert words_of(taken) == [documents[row] for row in rows]
    assert taken.cases.tolist() == (rows // 2).tolist() and taken.labels["site"].tolist() == (rows % 3 - 1).tolist()
    ids, offsets = take_documents(whole.ids, whole.offsets, rows)
    assert np.array_equal(ids, taken.ids) and offsets.dtype == np.int64


@given(DOCUMENTS, st.integers(0, 8))
def test_parts_end_to_end_are_the_whole(documents, at):
    whole = made(documents)
    parts = [whole.take(np.arange(len(documents))[part]) for part in (slice(at), slice(at, None))]
    again = join_documents(parts)
    assert words_of(again) == documents and again.labels["site"].tolist() == whole.labels["site"].tolist()
    assert again.cases.tolist() == whole.cases.tolist() and again.registries.tolist() == whole.registries.tolist()


def test_a_folder_comes_back_as_it_was_and_is_mapped_not_read(tmp_path):
    whole = made([[2, 3], [], [4]])
    whole.save(tmp_path)
    again = EncodedCorpus.load(tmp_path)
    for field in fields(EncodedCorpus):
        before, after = getattr(whole, field.name), getattr(again, field.name)
        if isinstance(before, np.ndarray):
            assert isinstance(after, np.memmap) and after.dtype == before.dtype and np.array_equal(after, before)
        elif field.name == "labels":
            assert after["site"].tolist() == [MISSING, 0, 1] and set(after) == {"site"}
        else:
            assert after == before, field.name
    content = json.loads((tmp_path / "encoded.json").read_text())
    (tmp_path / "encoded.json").write_text(json.dumps(content | {"format": "pathveil-encoded/0"}))
    with pytest.raises(ValueError, match="is not of format pathveil-encoded/1"):
        EncodedCorpus.load(tmp_path)
