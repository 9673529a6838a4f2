"""Sentences that choose words: their usual form, what they choose, and their faults."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pathveil.errors import VocabularyError
from pathveil.vocabulary.sentence import LEXICON, MEASURES, Sentence

COMPARISONS = st.tuples(st.sampled_from(MEASURES), st.sampled_from([">=", "<=", ">", "<", "="]), st.integers(0, 99))
CONDITIONS = st.recursive(
    COMPARISONS.map(lambda parts: ("compare", *parts)) | st.just(("lexicon",)),
    lambda inner: st.tuples(st.just("not"), inner) | st.tuples(st.sampled_from(["and", "or"]), inner, inner, inner),
    max_leaves=6,
)
VALUES = {name: np.random.default_rng(n).integers(0, 99, 30) for n, name in enumerate((*MEASURES, LEXICON))}


def written(tree) -> str:
    """A condition as text, with all its parentheses."""
    match tree:
        case ("compare", measure, sign, number):
            return f"{measure} {sign} {number}"
        case ("lexicon",):
            return LEXICON
        case ("not", part):
            return f"(not {written(part)})"
        case (join, *parts):
            return "(" + f" {join} ".join(map(written, parts)) + ")"


def holds(tree, row: int) -> bool:
    """Whether a condition holds for a word, by Python's own operators."""
    match tree:
        case ("compare", measure, sign, number):
            value = VALUES[measure][row]
            return {">=": value >= number, "<=": value <= number, ">": value > number, "<": value < number}.get(
                sign, value == number
            )
        case ("lexicon",):
            return VALUES[LEXICON][row] > 0
        case ("not", part):
            return not holds(part, row)
        case (join, *parts):
            return (all if join == "and" else any)(holds(part, row) for part in parts)


@given(CONDITIONS)
def test_a_condition_chooses_what_it_says_and_so_does_its_usual_form(tree):
    sentence = Sentence.parse(written(tree))
    again = Sentence.parse(str(sentence))
    assert str(again) == str(sentence)
    expected = [bool(holds(tree, row)) for row in range(30)]
    for one in (sentence, again):
        if any(expected):
            assert one.apply(VALUES.__getitem__, words=30).tolist() == expected
        else:
            with pytest.raises(VocabularyError, match="no word is left"):
                one.apply(VALUES.__getitem__, words=30)


def test_steps_go_on_with_what_is_left():
    values = {"cases": np.array([9, 1, 5, 5]), "mutual-information": np.array([0.1, 0.9, 0.3, 0.3])}
    chosen = Sentence.parse("cases >= 5 then top 2 by mutual-information").apply(values.__getitem__, words=4)
    assert chosen.tolist() == [False, False, True, True]
    ties = Sentence.parse("cases >= 5 then top 1 by mutual-information").apply(values.__getitem__, words=4)
    assert ties.tolist() == [False, False, True, False]


@pytest.mark.parametrize(
    ("text", "usual"),
    [
        ("Registries>=3 AND cases >= 5", "registries >= 3 and cases >= 5"),
        ("(registries >= 3) and (cases >= 5.0)", "registries >= 3 and cases >= 5"),
        ("not (cases < 3 or In  Lexicon)", "not (cases < 3 or in lexicon)"),
        ("cases=3 or reports>2 and not cases<1", "cases = 3 or (reports > 2 and not cases < 1)"),
        ("(cases > 1 and cases > 2) and cases > 3", "(cases > 1 and cases > 2) and cases > 3"),
        (
            "mutual-information > 1e-05 THEN TOP 100 BY Occurrences",
            "mutual-information > 1e-05 then top 100 by occurrences",
        ),
    ],
)
def test_the_usual_form_is_recorded(text, usual):
    assert str(Sentence.parse(text)) == usual


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "without an end"),
        ("registry >= 3", "no measure 'registry'; the nearest is 'registries'"),
        ("top 5 by case", "no measure 'case'; the nearest is 'cases'"),
        ("zebras >= 3", "there are occurrences, reports, cases, registries, mutual-information"),
        ("cases", "compare 'cases' with a number"),
        ("registries 3", "cannot be read from '3' on"),
        ("registries >= three", "does not compare"),
        ("cases >= reports", "does not compare"),
        ("3 <= cases", "does not compare"),
        ("1 < cases < 3", "does not compare"),
        ("cases + 1 > 3", "'+' has no meaning"),
        ("cases (3) > 3", "does not compare"),
        ("cases != 3", "'!' has no meaning"),
        ("cases in 3", "does not compare"),
        ("cases >= -1", "does not compare"),
        ("cases >= 5 cases", "cannot be read from 'cases' on"),
        ("cases >= 5 # and reports > 3", "'#' has no meaning"),
        ("open(cases) > 3", "does not compare"),
        ("cases.real > 3", "does not compare"),
        ("[cases > 3]", "'[' has no meaning"),
        ("(cases > 3, cases > 4)", "',' has no meaning"),
        ("top 5", "expected 'top N by MEASURE'"),
        ("top 0 by cases", "whole number"),
        ("top 2.5 by cases", "whole number"),
        ("(cases >= 5", "cannot be read from '(cases >= 5' on"),
        ("cases >= 5 then", "without an end"),
        ("in words", "cannot be read from 'in words' on"),
        ("cases >= 5 & reports", "'&' has no meaning"),
        pytest.param("not " * 100_000 + "cases > 3", "nested too deep", id="100,000 times not"),
    ],
)
def test_a_fault_is_shown_with_an_example(text, expected):
    with pytest.raises(VocabularyError) as caught:
        Sentence.parse(text)
    assert expected in str(caught.value) and "an example is" in str(caught.value)


def test_too_many_asked_for_and_none_left():
    values = {"cases": np.array([1, 2, 3])}
    with pytest.raises(VocabularyError, match="asks for 4 words but the reports have 3; ask for at most that many"):
        Sentence.parse("top 4 by cases").apply(values.__getitem__, words=3)
    with pytest.raises(VocabularyError, match="'cases >= 2' leaves 2"):
        Sentence.parse("cases >= 2 then top 3 by cases").apply(values.__getitem__, words=3)
    with pytest.raises(VocabularyError, match="no word is left after 'cases > 3'"):
        Sentence.parse("cases > 3").apply(values.__getitem__, words=3)
