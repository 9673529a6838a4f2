"""Choosing words: the papers' ways by hand, nothing seen that was left out, mistakes answered by what to do."""

import json
from collections import Counter

import numpy as np
import polars as pl
import pytest

from pathveil.errors import UsageError, VocabularyError
from pathveil.text import tokenize
from pathveil.vocabulary import Vocabulary
from pathveil.vocabulary.lexicon import read_lexicon
from pathveil.vocabulary.selection import Measures, SelectionSettings, folds, gather_counts, select, select_words
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
        assert vocabulary.words == tuple(sorted(words)), sentence
        assert vocabulary.method == sentence


def test_what_it_was_chosen_from_is_recorded(corpus, tmp_path):
    vocabulary = chosen(corpus, "registries >= 2 then top 5 by mutual-information", leave_out=["R2"], tasks=["site"])
    vocabulary.save(tmp_path / "v.json")
    content = json.loads((tmp_path / "v.json").read_text())
    assert content["parameters"]["tasks"] == ["site"]
    assert content["source"]["registries"] == ["R1", "R3"] and content["source"]["left_out"] == ["R2"]
    assert len(content["source"]["corpus_sha256"]) == 64 and content["source"]["reports"] < 90
    assert Vocabulary.load(tmp_path / "v.json").words == vocabulary.words


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
        assert vocabulary.words == chosen(tmp_path / "others.parquet", vocabulary.method).words, name


def test_count_files_choose_as_the_reports_do(corpus, tmp_path):
    frame = pl.read_parquet(corpus)
    files = []
    for registry in ("R1", "R2", "R3"):
        frame.filter(pl.col("registry") == registry).write_parquet(tmp_path / f"{registry}.parquet")
        gather_counts([tmp_path / f"{registry}.parquet"]).save(tmp_path / f"{registry}.npz")
        files.append(tmp_path / f"{registry}.npz")
    for sentence in ("occurrences >= 9", "registries >= 2 and cases >= 4", "top 11 by mutual-information"):
        pooled = chosen(corpus, sentence)
        assert select(Measures(gather_counts(files)), sentence).sha256 == pooled.sha256
        mixed = gather_counts([files[0], tmp_path / "R2.parquet", tmp_path / "R3.parquet"])
        assert select(Measures(mixed), sentence).sha256 == pooled.sha256
    fewer = select(Measures(gather_counts(files, leave_out=["R3"])), "top 11 by mutual-information")
    assert fewer.words == chosen(corpus, "top 11 by mutual-information", leave_out=["R3"]).words


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
    with pytest.raises(UsageError, match="no registry 'R9' to leave out; there are R1, R2, R3"):
        gather_counts([corpus], leave_out=["R9"])
    with pytest.raises(UsageError, match="every registry is left out"):
        counts.save(tmp_path / "c.npz")
        gather_counts([tmp_path / "c.npz"], leave_out=["R1", "R2", "R3"])
    with pytest.raises(UsageError, match="vocab count"):
        gather_counts([tmp_path / "c.npz"], without=corpus)
    with pytest.raises(VocabularyError, match="at least three"):
        folds(counts.take(["R1", "R2"]))
    unlabelled = tmp_path / "unlabelled.parquet"
    pl.read_parquet(corpus).drop("site", "laterality").write_parquet(unlabelled)
    with pytest.raises(VocabularyError, match="no task column"):
        chosen(unlabelled, "top 5 by mutual-information")


def test_a_lexicon_is_cleaned_as_reports_are(tmp_path):
    plain = tmp_path / "terms.txt"
    plain.write_text("Ductal carcinoma in-situ\nW01X\nKi-67 (antigen)\n")
    assert read_lexicon(plain) == {"ductal", "carcinoma", "in-situ", "w01x", "ki-67", "antigen"}
    corpus = random_corpus(tmp_path / "reports.parquet")
    measures = Measures(gather_counts([corpus]), lexicon=read_lexicon(plain))
    assert select(measures, "in lexicon").words == ("w01x",)
    rows = [
        f"C{number}|{language}|P|L|PF|S|Y|A||||NCI|PT|X|{term}|0|N||"
        for number, (language, term) in enumerate([("ENG", "Mucinous tumour"), ("SPA", "tumor mucinoso")])
    ]
    (tmp_path / "MRCONSO.RRF").write_text("\n".join(rows) + "\n")
    assert read_lexicon(tmp_path / "MRCONSO.RRF") == {"mucinous", "tumour"}
    for content, expected in (("", "no word"), ("C1|ENG|\n", "line 1 has 3 fields")):
        (tmp_path / "bad.txt").write_text(content)
        with pytest.raises(VocabularyError, match=expected):
            read_lexicon(tmp_path / "bad.txt")
    (tmp_path / "bad.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(VocabularyError, match="UTF-8"):
        read_lexicon(tmp_path / "bad.txt")


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


def test_a_vocabulary_shows_no_word_unless_asked(corpus):
    vocabulary = select_words(corpus, "cases >= 4")
    number = len(vocabulary.words)
    assert repr(vocabulary) == f"{number} words, by 'cases >= 4'" and "&gt;=" in vocabulary._repr_html_()
    assert vocabulary.to_frame().rows()[0] == (2, vocabulary.words[0])
    assert json.loads(vocabulary.to_json())["words"] == list(vocabulary.words)
