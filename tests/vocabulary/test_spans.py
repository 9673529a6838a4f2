"""Places of tokens by the compiled rules, against those of the rules' own expression."""

import random

import pytest

from pathveil.text.identifiers import SIGN
from pathveil.text.tokenizer import tokenize_spans
from pathveil.vocabulary.spans import _as_bytes, token_spans

SIGNS = "aAbx sS.,-/+'%<>=019 5&():\n\x0c`m•†–²"  # each stays one character
OTHERS = "½é\x01µ\xad" + "".join(SIGN.values())  # some become none or several, or are letters beyond ASCII
NAMED = ["", " Dr. Ada Quarbescu-x", ",10/12/2008-a", "-S08-12345.5 cm", " (217) 555-0134,b"]


@pytest.mark.parametrize("alphabet", [SIGNS, SIGNS + OTHERS])
@pytest.mark.parametrize("identifiers", [True, False])
def test_places_are_those_of_the_expression(alphabet, identifiers):
    rng = random.Random(4)
    for _ in range(1_500):
        text = "".join([*rng.choices(alphabet, k=rng.randrange(40)), rng.choice(NAMED), *rng.choices(alphabet, k=9)])
        expected = [span[1:] for span in tokenize_spans(text, words=20, identifiers=identifiers)]
        found = token_spans(text, words=20, identifiers=identifiers)
        assert list(zip(found.begins.tolist(), found.ends.tolist(), strict=True)) == expected, text


def test_the_usual_text_takes_the_compiled_way():
    assert _as_bytes("Ki-67 – 20 % • „negative“\u00a0†") is not None
    assert _as_bytes("soft\xadhyphen") is None and _as_bytes("5 µm") is None and _as_bytes(SIGN["name"]) is None
