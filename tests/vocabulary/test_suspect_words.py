"""Words that look like people: found where people stand, and judged against planted truth."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pathveil.vocabulary.corpus_counts import count_corpus
from pathveil.vocabulary.planted import planted_words
from pathveil.vocabulary.suspect_words import count_places, misspellings, suspects


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ("Read by Dr. Anna M. Kowalski today", "name", {"anna", "kowalski"}),
        ("MRS SMITH was told", "name", {"smith"}),
        ("Seen by Dr. Étienne Girard", "name", {"etienne", "girard"}),
        ("Mr. Çelik and Mrs. Ö. Müller", "name", {"celik", "muller"}),
        ("Dr. Lefèvre", "name", {"lefevre"}),
        ("Prof. A\u0301ngel Sa\u0301nchez-Núñez", "name", {"angel", "sanchez-nunez"}),
        ("Łukasz Øster, M.D.", "name", {"łukasz", "øster"}),
        ("Consultant: O’Brien, Zoë", "name", {"o'brien", "zoe"}),
        ("lives at 12 Élysée Street, Ålesund", "address", {"elysee", "alesund"}),
        ("Maria Lopez, M.D. Pathologist", "name", {"maria", "lopez"}),
        ("PATIENT NAME: Hill, Karen", "name", {"hill", "karen"}),
        ('labeled "Ortiz, Margaret" and', "name", {"ortiz", "margaret"}),
        ("her daughter Alice Fowler was informed", "name", {"alice", "fowler"}),
        ("lives at 4492 Lakeview Avenue, Lockcrest", "address", {"lakeview", "lockcrest"}),
        ("write to j.gibson@mail.example please", "contact", {"gibson", "mail", "example"}),
        ("MRN: H734042", "record number", {"h734042"}),
        ("on 3 July 2017", "date", {"july"}),
    ],
)
def test_places_where_people_stand(text, kind, words):
    assert words <= set(count_places(pl.Series([text]))[kind])


def test_ordinary_reports_are_left_alone():
    found = count_places(
        pl.Series(["Invasive ductal carcinoma, grade 3, 2.5 cm, pT2 N0. Received in formalin labeled left."])
    )
    assert not any(found.values())


def test_a_word_that_mostly_stands_elsewhere_is_no_suspect():
    words = ["brown", "kowalski"]
    found = count_places(pl.Series(["Dr. Brown and Dr. Kowalski"]))
    assert suspects(words, np.array([40, 1]), np.array([30, 1]), found) == {"kowalski": "name"}


@given(st.text("abc", min_size=6, max_size=9), st.integers(0, 8), st.sampled_from(["drop", "add", "change", "swap"]))
def test_one_slip_is_found_and_only_one(word, place, slip):
    place = place % (len(word) - 1)
    wrong = {
        "drop": word[:place] + word[place + 1 :],
        "add": word[:place] + "z" + word[place:],
        "change": word[:place] + "z" + word[place + 1 :],
        "swap": word[:place] + word[place + 1] + word[place] + word[place + 2 :],
    }[slip]
    if wrong == word or len(wrong) < 6:
        return
    assert misspellings([word, wrong], np.array([99, 1])) == {wrong}
    assert misspellings([word, "zz" + word], np.array([99, 1])) == set()
    assert misspellings([word, wrong], np.array([99, 50])) == set()


def test_against_planted_truth(tmp_path):
    """The heuristics are worth something: most planted names are suspected, and few ordinary words."""
    from pathveil.corpus.synth import SynthSettings, write_corpus

    write_corpus(SynthSettings(reports=2000, seed=9), out=tmp_path / "c.parquet", truth=tmp_path / "t.parquet")
    counts = count_corpus(tmp_path / "c.parquet", identifiers=False)
    texts = pl.read_parquet(tmp_path / "c.parquet")["text"]
    found = suspects(counts.words, counts.occurrences.sum(axis=0), counts.cases.sum(axis=0), count_places(texts))
    planted = planted_words(tmp_path / "c.parquet", tmp_path / "t.parquet")
    names = planted.only["patient_name"] | planted.only["physician_name"]
    suspected = {word for word, kind in found.items() if kind == "name"}
    everything = frozenset().union(*planted.only.values())
    assert len(suspected & names) > 0.6 * len(names)
    assert len(suspected & everything) > 0.9 * len(suspected)
