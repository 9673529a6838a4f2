"""A report's text to tokens: the words clinicians need survive, nothing crashes, spans point at the right place."""

import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pathveil.text import tokenize
from pathveil.text.tokenizer import settings, tokenize_spans

# Reports as OCR and keyboards make them: clinical pieces, numbers, punctuation and any unicode, glued at random.
PIECES = st.sampled_from(
    "carcinoma|G3|pT2|Ki-67|8500/3|C50.4|a.|1.5|x|12|100|2008|1,250|'s|'|%|-|/|+|.|,|(|é|ﬁ|½|µm|cm|_|²".split("|")
) | st.sampled_from("\x00\xad\u00a0\u2028\n ")
REPORTS = st.lists(PIECES | st.text(max_size=4), max_size=40).map("".join)


@pytest.mark.parametrize(
    "text",
    "g3 pt2 n0 her2 ki-67 cd20 er pr 8500/3 c50.4 a. t2 c5 m0 pt1c pn1mi t2n0m0 ck7 p53 ttf-1 mib-1 s-100 ca-125 19-9 "
    "3+ 1+ 3+4 0/12 50% 100% 20-30% 1p 19q cam5.2 8140/3 9732/3 c18.7 well-differentiated salpingo-oophorectomy "
    "her-2 h&e n/a in-situ b. 7th brca1 pd-l1 non-small x-ray o'clock".split(),
)
def test_clinical_words_survive_in_any_dress(text):
    for dress in ("{}", "({})", "{},", "{};", '"{}"', "grade: {} seen", "[{}]", "\x00{}\x00", "\u00a0{}\u2003", "- {}"):
        assert text in tokenize(dress.format(text.upper())), dress


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", []),
        (" \n\t\u00a0", []),
        ("--- *** ... ___", []),
        ("100 101 0100 007 99999999999999999999999", ["100", *["large_integer"] * 4]),
        ("2.5X1.0x.8cm", ["decimal", "x", "decimal", "x", "decimal", "cm"]),
        ("tumor.The margin,clear", ["tumor", "the", "margin", "clear"]),
        ("pT2,N0;M0", ["pt2", "n0", "m0"]),
        ("HER2/neu(3+)", ["her2", "neu", "3+"]),
        ("MIB-1:15%", ["mib-1", "15%"]),
        ("uuid:12345678-1234", ["uuid", "large_integer", "large_integer"]),
        ("DOB:01/02/1950", ["dob", "01", "02", "large_integer"]),
        ("(555)123-4567", ["large_integer", "large_integer", "large_integer"]),
        ("S08-12345", ["s08", "large_integer"]),
        ("8 × 6 ≥ 5", ["8", "x", "6", "5"]),
        ("½ of the ﬂap, naïve façade", ["1/2", "of", "the", "flap", "naive", "facade"]),
        ("soft\xadhyphen zero\u200bwidth", ["softhyphen", "zerowidth"]),
        ("en–dash em—dash", ["en-dash", "em-dash"]),
        ("STRAßE ΣΟΦΟΣ", ["straße", "σοφοσ"]),
        ("-left 'right' node\".", ["left", "right", "node"]),
        ("unknown_word", ["unknown", "word"]),
    ],
)
def test_by_hand(text, tokens):
    assert tokenize(text, identifiers=False) == tokens


def test_clipped_at_words():
    text = "left breast " * 1000
    assert len(tokenize(text)) == 1500
    assert tokenize(text, words=3) == ["left", "breast", "left"]
    assert len(tokenize_spans(text, words=7)) == 7
    assert settings(words=7) != settings()


@given(REPORTS)
def test_spans_give_the_same_tokens_in_order_inside_the_text(text):
    spans = tokenize_spans(text)
    assert [token for token, _, _ in spans] == tokenize(text)
    last = 0
    for token, start, stop in spans:
        assert last <= start < stop <= len(text)
        last = stop - 1  # one character such as a fraction may give two tokens
        if text.isascii() and text.isprintable() and token not in ("decimal", "large_integer"):
            assert text[start:stop].lower() == token


@given(REPORTS, REPORTS)
def test_tokens_depend_on_their_chunk_alone(one, other):
    assert tokenize(one + " " + other, words=10**6) == tokenize(one, words=10**6) + tokenize(other, words=10**6)


@given(REPORTS)
def test_no_token_holds_white_space_or_capitals_or_is_empty(text):
    for token in tokenize(text):
        assert token and not any(character.isspace() for character in token)
        assert token == token.lower()


def test_every_character_there_is():
    for code in range(sys.maxunicode + 1):
        character = chr(code)
        if unicodedata.category(character) != "Cn":
            tokens = tokenize(f"left{character}breast")
            assert "".join(tokens).startswith("left") and tokens[-1].endswith("breast"), hex(code)


def test_a_long_line_of_noise_is_read_as_a_short_one():
    """And it is read at all: rules that go back and forth would not come to an end on such lines."""
    for noise, tokens in {
        "1" * 200_000 + "a": ["1" * 200_000 + "a"],
        "a-" * 100_000: ["a-" * 99_999 + "a"],
        "1," * 100_000: ["1"] * 10,
        "1.1" * 60_000: ["decimal"] * 10,
        "'s" * 100_000: [],
        "x1" * 100_000: ["x1" * 100_000],
    }.items():
        assert tokenize(noise, words=10) == tokens, noise[:4]
