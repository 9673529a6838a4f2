"""Counts: saved, thinned, and combined to the bit."""

import json

import numpy as np
import polars as pl
import pytest

from pathveil.errors import VocabularyError
from pathveil.vocabulary.corpus_counts import count_corpus
from pathveil.vocabulary.counts import WordCounts, merge, without_rare
from vocabulary.corpora import random_corpus, unfolded


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return random_corpus(tmp_path_factory.mktemp("counts") / "reports.parquet")


def same(one: WordCounts, other: WordCounts) -> bool:
    return (
        unfolded(one) == unfolded(other)
        and one.words == other.words
        and one.registry_names == other.registry_names
        and one.total_reports.tolist() == other.total_reports.tolist()
        and one.total_cases.tolist() == other.total_cases.tolist()
    )


def test_sites_counting_at_home_equal_pooled_text(corpus, tmp_path):
    frame = pl.read_parquet(corpus)
    parts = []
    for registry in ("R3", "R1", "R2"):
        home = tmp_path / f"{registry}.parquet"
        frame.filter(pl.col("registry") == registry).write_parquet(home)
        count_corpus(home).save(tmp_path / f"{registry}.npz")
        parts.append(WordCounts.load(tmp_path / f"{registry}.npz"))
    assert same(merge(parts), count_corpus(corpus))


def test_saved_and_loaded(corpus, tmp_path):
    counts = count_corpus(corpus)
    counts.save(tmp_path / "counts.npz")
    loaded = WordCounts.load(tmp_path / "counts.npz")
    assert same(loaded, counts) and loaded.source == counts.source and loaded.classes == counts.classes
    assert [path.name for path in tmp_path.iterdir()] == ["counts.npz"]


def test_taking_registries_forgets_the_others_words(tmp_path):
    path = tmp_path / "reports.parquet"
    table = {"report_id": ["a", "b"], "case_id": ["1", "2"], "registry": ["R1", "R2"], "text": ["left", "kowalski"]}
    pl.DataFrame(table).write_parquet(path)
    taken = count_corpus(path).take(["R1"])
    assert taken.words == ("left",) and taken.registry_names == ("R1",) and taken.occurrences.tolist() == [[1]]


def test_rare_words_stay_at_home(corpus, tmp_path):
    counts = count_corpus(corpus)
    thinned = without_rare(counts, 3)
    rows = {key[1:3] for key, number in unfolded(counts).items() if key[0] == "cases" and number >= 3}
    expected = {key: n for key, n in unfolded(counts).items() if key[0] == "labels" or key[1:3] in rows}
    assert unfolded(thinned) == expected
    with pytest.raises(VocabularyError, match="different settings"):
        merge([counts.take(["R1"]), thinned.take(["R2"])])


def test_a_registry_counted_twice_is_refused(corpus):
    counts = count_corpus(corpus)
    with pytest.raises(VocabularyError, match="'R1' is counted twice"):
        merge([counts, counts.take(["R1"])])


def changed(place: int, value: int):
    def change(array: np.ndarray) -> np.ndarray:
        array.flat[place] = value
        return array

    return change


LIES = {  # an array of the file, and what another party may have made of it
    "a negative count": ("cases", changed(0, -1)),
    "more cases than reports": ("cases", changed(0, 1_000)),
    "more reports than there are": ("total_reports", changed(0, 0)),
    "a sum that overflows": ("occurrences", changed(0, 1 << 62)),
    "fractions": ("reports", lambda array: array.astype(np.float64)),
    "another shape": ("labels", lambda array: array[:, :-1]),
    "more words in a class than reports": ("joint-0-data", changed(0, 1_000)),
    "words out of order": (
        "words",
        lambda array: np.frombuffer(b"\n".join(array.tobytes().split(b"\n")[::-1]), np.uint8),
    ),
    "no JSON": ("about", lambda array: np.frombuffer(b"[" * 100_000, np.uint8)),
    "NaN": ("about", lambda array: np.frombuffer(b'{"format": NaN}', np.uint8)),
}


@pytest.mark.parametrize("harm", ["text", "cut", "foreign", "words", "pointer", "index", "absent", *LIES])
def test_a_file_that_is_no_count_file(corpus, tmp_path, harm):
    path = tmp_path / "counts.npz"
    count_corpus(corpus).save(path)
    if harm == "text":
        path.write_text("kowalski")
    elif harm == "cut":
        path.write_bytes(path.read_bytes()[:-100])
    elif harm == "foreign":
        np.savez(path, about=np.frombuffer(json.dumps({"format": "other"}).encode(), np.uint8))
    elif harm == "words":
        arrays = dict(np.load(path))
        np.savez(path, **{**arrays, "words": np.frombuffer(b"one", np.uint8)})
    elif harm in LIES:
        arrays = dict(np.load(path))
        name, change = LIES[harm]
        np.savez(path, **{**arrays, name: change(arrays[name].copy())})
    elif harm in ("pointer", "index"):
        arrays = dict(np.load(path))
        arrays["joint-0-indptr" if harm == "pointer" else "joint-0-indices"][2] = 2_000_000_000
        np.savez(path, **arrays)
    else:
        path.unlink()
    with pytest.raises(VocabularyError, match=r"counts\.npz") as caught:
        WordCounts.load(path)
    assert "kowalski" not in str(caught.value)
