"""The paper's folds: nothing seen that was left out, and the same words as choosing by hand."""

import json

import polars as pl
import pytest

from pathveil.errors import VocabularyError
from pathveil.vocabulary.corpus_counts import gather_counts
from pathveil.vocabulary.folds import folds, save_folds
from pathveil.vocabulary.selection import select_words


@pytest.fixture
def planted(tmp_path):
    """Three registries; each case of R1 and each test case holds a word of its own."""
    rows = []
    for number in range(60):
        registry = f"R{number % 3 + 1}"
        test = number % 5 == 0
        own = f" secret{number}" * 6 if registry == "R1" or test else ""
        text = f"left breast carcinoma grade number{number % 7}{own}"
        rows.append((f"r{number}", f"c{number}", registry, text, ["C50", "C18"][number % 2], test))
    names = ["report_id", "case_id", "registry", "text", "site", "test"]
    frame = pl.DataFrame(rows, schema=names, orient="row")
    frame.drop("test").write_parquet(tmp_path / "all.parquet")
    frame.filter(pl.col("test")).drop("test").write_parquet(tmp_path / "test.parquet")
    return tmp_path


def test_a_fold_never_sees_the_registry_or_the_cases_left_out(planted):
    counts = gather_counts([planted / "all.parquet"], without=planted / "test.parquet")
    made = folds(counts, sizes=[3, 5])
    assert list(made) == ["R1", "R2", "R3"]
    assert list(made["R1"]) == ["B", "I2", "MI3", "MI5"]
    for left_out, vocabularies in made.items():
        for name, vocabulary in vocabularies.items():
            secrets = [int(word.removeprefix("secret")) for word in vocabulary.words if word.startswith("secret")]
            assert all(number % 5 and left_out != "R1" for number in secrets), (left_out, name)
            assert vocabulary.source["left_out"] == [left_out]
            assert left_out not in vocabulary.source["registries"]
    assert any(
        word.startswith("secret") for word in made["R2"]["B"].words
    )  # they would be seen, were they not left out


def test_a_fold_equals_choosing_from_a_corpus_without_the_registry(planted, tmp_path):
    frame = pl.read_parquet(planted / "all.parquet")
    frame.filter(pl.col("registry") != "R2").write_parquet(tmp_path / "others.parquet")
    for name, vocabulary in folds(gather_counts([planted / "all.parquet"]), sizes=[9])["R2"].items():
        assert vocabulary.words == select_words(tmp_path / "others.parquet", vocabulary.method).words, name


def test_folds_are_saved_a_folder_each(planted, tmp_path):
    counts = gather_counts([planted / "all.parquet"])
    result = save_folds(folds(counts, sizes=[3]), tmp_path / "folds")
    for registry, sizes in result.folds.items():
        for name, size in sizes.items():
            content = json.loads((tmp_path / "folds" / registry / f"{name}.json").read_text())
            assert len(content["words"]) == size and content["source"]["left_out"] == [registry]
    assert result.to_frame()["left_out"].to_list() == ["R1", "R2", "R3"]
    assert "left out" in repr(result) and "MI3" in repr(result)
    with pytest.raises(VocabularyError, match="at least three"):
        folds(counts.take(["R1", "R2"]))
