"""Choosing words: the papers' ways by hand, nothing seen that was left out, mistakes answered by what to do."""

import hashlib
import json
from collections import Counter

import numpy as np
import polars as pl
import pytest

from pathveil.errors import UsageError, VocabularyError
from pathveil.text.tokenizer import tokenize
from pathveil.vocabulary import Vocabulary
from pathveil.vocabulary.corpus_counts import gather_counts
from pathveil.vocabulary.selection import Measures, SelectionSettings, select, select_words
from vocabulary.corpora import random_corpus


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return random_corpus(tmp_path_factory.mktemp("selection") / "reports.parquet", reports=90, seed=5)


def chosen(path, sentence, **options):
    return select(Measures(gather_counts([path], **options)), sentence)


def test_the_papers_ways_by_hand(corpus):
    frame = pl.read_parquet(corpus)
    occurrences = Counter(token for text in frame["text"] for token in tokenize(text))
    reports = Counter(token for text in frame["text"] for token in set(tokenize(text)))
    homes = {
        word: {row["registry"] for row in frame.iter_rows(named=True) if word in tokenize(row["text"])}
        for word in occurrences
    }
    by_hand = {
        "occurrences >= 20": {word for word, number in occurrences.items() if number >= 20},
        "reports >= 15": {word for word, number in reports.items() if number >= 15},
        "registries >= 3": {word for word, names in homes.items() if len(names) == 3},
        "top 7 by reports": {word for _, word in sorted((-number, word) for word, number in reports.items())[:7]},
    }
    for sentence, words in by_hand.items():
        vocabulary = chosen(corpus, sentence)
        in_order = tuple(sorted(words, key=lambda word: hashlib.sha256(word.encode()).hexdigest()))
        assert vocabulary.words == in_order != tuple(sorted(words)), sentence
        assert vocabulary.method == sentence


def test_what_it_was_chosen_from_is_recorded(corpus, tmp_path):
    vocabulary = chosen(corpus, "registries >= 2 then top 5 by mutual-information", leave_out=["R2"], tasks=["site"])
    vocabulary.save(tmp_path / "v.json")
    content = json.loads((tmp_path / "v.json").read_text())
    assert content["parameters"]["tasks"] == ["site"]
    assert content["source"]["registries"] == ["R1", "R3"] and content["source"]["left_out"] == ["R2"]
    assert len(content["source"]["corpus_sha256"]) == 64 and content["source"]["reports"] < 90
    assert Vocabulary.load(tmp_path / "v.json").words == vocabulary.words


def test_mistakes_say_what_to_do(corpus, tmp_path):
    counts = gather_counts([corpus])
    one = Measures(counts.take(["R1"]))
    with pytest.raises(VocabularyError, match=r"asks for words of 4 registries, and there are 3 \(R1, R2, R3\)"):
        select(Measures(counts), "registries >= 4")
    with pytest.raises(VocabularyError, match=r"only one \(R1\); add the corpora or count files of others"):
        select(one, "registries >= 2")
    with pytest.raises(VocabularyError, match="ask for at most that many"):
        select(Measures(counts), "top 9999 by mutual-information")
    with pytest.raises(VocabularyError, match="no word is left after 'cases >= 5000'"):
        select(Measures(counts), "cases >= 5000")
    with pytest.raises(VocabularyError, match="no task 'stage'; the reports have site, laterality"):
        select(Measures(counts, tasks=["stage"]), "top 5 by mutual-information")
    with pytest.raises(UsageError, match="--lexicon"):
        select(Measures(counts), "in lexicon")
    unlabelled = tmp_path / "unlabelled.parquet"
    pl.read_parquet(corpus).drop("site", "laterality").write_parquet(unlabelled)
    with pytest.raises(VocabularyError, match="no task column"):
        chosen(unlabelled, "top 5 by mutual-information")


def test_a_choice_of_ones_own(corpus):
    def common(measures):
        return (measures("cases") >= 5) & np.array([word != "w00x" for word in measures.counts.words])

    vocabulary = select_words(corpus, common)
    by_sentence = select_words(str(corpus), "cases >= 5").words
    assert vocabulary.words == tuple(word for word in by_sentence if word != "w00x")
    assert vocabulary.method == "own choice: common" and vocabulary.source["reports"] == 90
    with pytest.raises(UsageError, match=r"one true or false for each of the 40 words; got int64 of shape \(3,\)"):
        select_words(corpus, lambda _: np.arange(3))
    with pytest.raises(VocabularyError, match="keeps none of the 40 words"):
        select_words(corpus, lambda _: np.zeros(40, bool))


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"method": "baseline"}, "occurrences >= 5"),
        ({"method": "intersection", "threshold": 2, "min_cases": 3}, "registries >= 2 and cases >= 3"),
        ({"method": "mutual-information", "top": 4}, "top 4 by mutual-information"),
        ({"choose": "cases >= 4"}, "cases >= 4"),
    ],
)
def test_methods_are_sentences(corpus, settings, sentence):
    settings = SelectionSettings(**settings)
    assert settings.sentence() == sentence
    assert select_words(corpus, settings).words == select_words(corpus, sentence).words
