"""Reports to word ids: the corpus path and the text path agree with looking words up by hand."""

from itertools import pairwise

import numpy as np
import polars as pl
import pytest

from pathveil.errors import CorpusError
from pathveil.text.tokenizer import tokenize
from pathveil.vocabulary import MISSING, Vocabulary
from pathveil.vocabulary.encoding import encode, encode_texts, text_encoder

VOCABULARY = Vocabulary(words=("breast", "left", "pt2", "decimal"), method="by hand")
TEXTS = ["Left breast", "breast pT2 1.5 cm", "zebra", "...", "left LEFT"]


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "reports.parquet"
    table = {
        "report_id": list("abcde"),
        "case_id": ["1", "1", "2", "3", "4"],
        "registry": ["R2", "R1", "R1", "R2", "R2"],
        "text": TEXTS,
        "site": ["C50", None, "C18", "C18", ""],
        "grade": ["high", "low", None, "low", "low"],
    }
    pl.DataFrame(table).write_parquet(path)
    return path


def by_hand(texts, words=1500):
    return [[VOCABULARY.id_of(token) for token in tokenize(text, words=words)] for text in texts]


def documents(ids, offsets):
    return [ids[a:b].tolist() for a, b in pairwise(offsets)]


def test_a_corpus(corpus):
    encoded = encode(corpus, VOCABULARY)
    assert documents(encoded.ids, encoded.offsets) == by_hand(TEXTS)
    assert encoded.ids.dtype == np.int32 and encoded.offsets.dtype == np.int64
    assert encoded.vocabulary_size == VOCABULARY.size
    assert encoded.cases[0] == encoded.cases[1] and len(set(encoded.cases.tolist())) == 4
    assert encoded.classes == {"site": ("C18", "C50")}
    assert encoded.labels["site"].tolist() == [1, MISSING, 0, 0, MISSING]
    assert encoded.provenance["vocabulary_sha256"] == VOCABULARY.sha256


def test_tasks_are_chosen_and_a_missing_one_is_named(corpus):
    assert encode(corpus, VOCABULARY, tasks=["grade"]).labels["grade"].tolist() == [0, 1, MISSING, 1, 1]
    with pytest.raises(CorpusError, match="stage"):
        encode(corpus, VOCABULARY, tasks=["stage"])


def test_labels_are_numbered_as_a_model_does_and_new_ones_come_after(corpus):
    encoded = encode(corpus, VOCABULARY, classes={"site": ("C61", "C18")})
    assert encoded.classes["site"] == ("C61", "C18", "C50")
    assert encoded.labels["site"].tolist() == [2, MISSING, 1, 1, MISSING]


@pytest.mark.parametrize("times", [1, 40])
def test_texts_few_or_many(times):
    ids, offsets = encode_texts(TEXTS * times, VOCABULARY, words=3)
    assert documents(ids, offsets) == by_hand(TEXTS * times, words=3)
    assert ids.dtype == np.int32 and offsets.dtype == np.int64


def test_no_text_at_all():
    ids, offsets = encode_texts([], VOCABULARY)
    assert ids.tolist() == [] and offsets.tolist() == [0]


def test_a_stream_remembers_nothing_but_chunks():
    encoder = text_encoder(VOCABULARY)
    for start in range(3):
        ids, offsets = encoder.add(TEXTS[start:])
        assert documents(ids, offsets) == by_hand(TEXTS[start:])


def test_ids_are_made_once_a_vocabulary_and_mapped(corpus, monkeypatch):
    from pathveil.vocabulary import encoding

    first = encode(corpus, VOCABULARY)
    assert isinstance(first.ids, np.memmap)
    (path,) = corpus.with_name("reports.parquet.pathveil").glob("ids-*.npy")

    monkeypatch.setattr(encoding, "translate", None)  # whoever translates again fails
    assert np.array_equal(encode(corpus, VOCABULARY).ids, first.ids)
    monkeypatch.undo()

    other = Vocabulary(words=("left", "breast"), method="by hand")
    assert encode(corpus, other).ids[:2].tolist() == [2, 3]  # another vocabulary, another file
    assert encode(corpus, VOCABULARY).ids[:2].tolist() == [3, 2]

    path.write_bytes(path.read_bytes()[:-4])  # cut short: made again
    assert documents(encode(corpus, VOCABULARY).ids, first.offsets) == by_hand(TEXTS)
