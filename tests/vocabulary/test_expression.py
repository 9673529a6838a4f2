"""Sentences that choose words: read, said again, and wrong in ways that are shown."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pathveil.errors import VocabularyError
from pathveil.vocabulary.expression import MEASURES, Compared, InLexicon, Joined, Not, Sentence, Top, parse

COMPARED = st.builds(
    Compared, st.sampled_from(MEASURES), st.sampled_from([">=", "<=", ">", "<", "="]), st.integers(0, 99).map(float)
)
CONDITIONS = st.recursive(
    COMPARED | st.just(InLexicon()),
    lambda inner: (
        st.builds(Not, inner) | st.builds(Joined, st.sampled_from(["and", "or"]), st.tuples(inner, inner, inner))
    ),
    max_leaves=6,
)
SENTENCES = st.lists(CONDITIONS | st.builds(Top, st.integers(1, 9), st.sampled_from(MEASURES)), min_size=1, max_size=3)


@given(SENTENCES.map(lambda steps: Sentence(tuple(steps))))
def test_a_sentence_said_and_read_means_the_same(sentence):
    random = np.random.default_rng(0)
    values = {name: random.integers(0, 99, 30) for name in (*MEASURES, "in lexicon")}

    def kept(meant: Sentence) -> object:
        try:
            return meant.keep(values.__getitem__, words=30).tolist()
        except VocabularyError as error:
            return str(error)

    again = parse(str(sentence))
    assert str(again) == str(sentence) and kept(again) == kept(sentence)


def test_steps_go_on_with_what_is_left():
    values = {"cases": np.array([9, 1, 5, 5]), "mutual-information": np.array([0.1, 0.9, 0.3, 0.3])}
    kept = parse("cases >= 5 then top 2 by mutual-information").keep(values.__getitem__, words=4)
    assert kept.tolist() == [False, False, True, True]
    ties = parse("cases >= 5 then top 1 by mutual-information").keep(values.__getitem__, words=4)
    assert ties.tolist() == [False, False, True, False]


@pytest.mark.parametrize("text", ["Registries>=3 AND cases >= 5", "(registries >= 3) and (cases >= 5)"])
def test_dress_does_not_matter(text):
    assert str(parse(text)) == "registries >= 3 and cases >= 5"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "at character 1, found its end"),
        ("registry >= 3", "at character 1, found 'registry'"),
        ("registries 3", "at character 12"),
        ("registries >= three", "expected a number"),
        ("cases >= 5 cases", "expected 'and', 'or', 'then'"),
        ("top 5", "expected 'by'"),
        ("top 0 by cases", "whole number"),
        ("top 2.5 by cases", "whole number"),
        ("(cases >= 5", "expected ')'"),
        ("cases >= 5 then", "found its end"),
        ("in words", "'lexicon'"),
        ("cases >= 5 & reports", "found '&'"),
    ],
)
def test_what_it_does_not_understand_is_shown(text, expected):
    with pytest.raises(VocabularyError) as caught:
        parse(text)
    assert expected in str(caught.value) and "an example is" in str(caught.value)


def test_too_many_asked_for_and_none_left():
    values = {"cases": np.array([1, 2, 3])}
    with pytest.raises(VocabularyError, match="asks for 4 words but the reports have 3; ask for at most that many"):
        parse("top 4 by cases").keep(values.__getitem__, words=3)
    with pytest.raises(VocabularyError, match="'cases >= 2' leaves 2"):
        parse("cases >= 2 then top 3 by cases").keep(values.__getitem__, words=3)
    with pytest.raises(VocabularyError, match="no word is left after 'cases > 3'"):
        parse("cases > 3").keep(values.__getitem__, words=3)
