"""Counting corpora and count files, together and apart."""

import polars as pl
import pytest

from pathveil.errors import UsageError
from pathveil.vocabulary.corpus_counts import gather_counts, write_counts
from pathveil.vocabulary.selection import Measures, select, select_words
from vocabulary.corpora import random_corpus


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return random_corpus(tmp_path_factory.mktemp("reports") / "reports.parquet", reports=90, seed=5)


def test_count_files_choose_as_the_reports_do(corpus, tmp_path):
    frame = pl.read_parquet(corpus)
    files = []
    for registry in ("R1", "R2", "R3"):
        frame.filter(pl.col("registry") == registry).write_parquet(tmp_path / f"{registry}.parquet")
        gather_counts([tmp_path / f"{registry}.parquet"]).save(tmp_path / f"{registry}.npz")
        files.append(tmp_path / f"{registry}.npz")
    for sentence in ("occurrences >= 9", "registries >= 2 and cases >= 4", "top 11 by mutual-information"):
        pooled = select_words(corpus, sentence)
        assert select(Measures(gather_counts(files)), sentence).sha256 == pooled.sha256
        mixed = gather_counts([files[0], tmp_path / "R2.parquet", tmp_path / "R3.parquet"])
        assert select(Measures(mixed), sentence).sha256 == pooled.sha256
    fewer = select(Measures(gather_counts(files, leave_out=["R3"])), "top 11 by mutual-information")
    assert fewer.words == select_words(corpus, "top 11 by mutual-information", leave_out=["R3"]).words


def test_mistakes_say_what_to_do(corpus, tmp_path):
    with pytest.raises(UsageError, match="no registry 'R9' to leave out; there are R1, R2, R3"):
        gather_counts([corpus], leave_out=["R9"])
    gather_counts([corpus]).save(tmp_path / "c.npz")
    with pytest.raises(UsageError, match="every registry is left out"):
        gather_counts([tmp_path / "c.npz"], leave_out=["R1", "R2", "R3"])
    with pytest.raises(UsageError, match="vocab count"):
        gather_counts([tmp_path / "c.npz"], without=corpus)


def test_rare_words_are_not_given_away(corpus, tmp_path):
    every = write_counts(corpus, tmp_path / "all.npz")
    fewer = write_counts(corpus, tmp_path / "few.npz", min_cases=8)
    assert every.words_left_out == 0 and fewer.words_left_out == every.words - fewer.words > 0
    counts = gather_counts(tmp_path / "few.npz")
    assert len(counts.words) == fewer.words and counts.cases[counts.cases > 0].min() >= 8
    assert "rarer left out" in repr(fewer) and "left out" not in repr(every)
    with pytest.raises(UsageError, match=r"ends in \.npz"):
        write_counts(corpus, tmp_path / "all.json")
