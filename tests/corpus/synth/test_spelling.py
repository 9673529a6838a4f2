"""How a house spells: British, with hyphens, or short; always the same way."""

import pytest

from pathveil.corpus.synth.spelling import ABBREVIATIONS, BRITISH, HYPHENS, Spelling, british


def house(**habits):
    return Spelling(**({"british": False, "hyphens": False, "terse": False, "key": "R1"} | habits))


@pytest.mark.parametrize(("american", "own"), BRITISH)
def test_every_american_spelling_has_its_british_one_small_and_large(american, own):
    assert british(f"no {american}x") == f"no {own}x" and british(american.capitalize()) == own.capitalize()
    assert house().term(american) == american and house(british=True).term(american) == own


def test_text_without_such_words_stays_as_it_is():
    text = "Left breast, invasive ductal carcinoma; margins negative."
    assert british(text) == text == house().phrase(text)


def test_hyphens_join_the_words_of_a_grade():
    for plain, joined in HYPHENS:
        assert house(hyphens=True).term(f"a {plain} one") == f"a {joined} one" and " " not in joined


def test_a_terse_house_shortens_about_half_of_its_phrases_and_always_the_same():
    phrases = [f"biopsy of part {number} without carcinoma" for number in range(200)]
    for key in ("R1", "R2"):
        one = [house(terse=True, key=key).phrase(phrase) for phrase in phrases]
        assert one == [house(terse=True, key=key).phrase(phrase) for phrase in phrases]
        short = [text for text in one if text.startswith("bx of part") and text.endswith("w/o ca")]
        assert 70 < len(short) < 130 and len(short) + sum(text in phrases for text in one) == 200
    kept = [house(terse=True, key=str(key)).phrase(phrases[0]) == phrases[0] for key in range(40)]
    assert any(kept) and not all(kept)


def test_an_abbreviation_is_shorter_than_its_words():
    assert all(len(short) < len(word) for word, short in ABBREVIATIONS)
