"""The compiled matcher finds what ``re`` finds, from any place to any end, and refuses what it does not know."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pathveil.text.identifiers.deciding import EXPRESSIONS
from pathveil.text.identifiers.expressions import LATIN_LETTERS
from pathveil.text.identifiers.matcher import CLASSES, FLAGGED, FORM, FORMS, PART, START, match, program
from text.identifiers.test_deciding import TEXTS

MACHINES = {version: program(expressions) for version, expressions in EXPRESSIONS.items()}


def as_bytes(text: str) -> np.ndarray:
    known = {character: byte for byte, character in CLASSES.items()}
    known |= dict.fromkeys(set(LATIN_LETTERS) - set("ſıİ"), known["é"])
    other = {True: known["λ"], False: known["–"]}
    codes = [ord(sign) if sign.isascii() else known.get(sign, other[sign.isalnum()]) for sign in text]
    data = np.array([*codes, *[10] * 16], np.uint8)
    data.flags.writeable = False
    return data


@settings(max_examples=150, deadline=None)
@given(TEXTS, st.integers(0, 40), st.integers(0, 60), st.sampled_from(sorted(MACHINES)))
def test_every_expression_matches_as_re_does(text, first, size, version):
    data, machine = as_bytes(text), MACHINES[version]
    for end in (len(text), min(first + size, len(text))):
        for number, expression in enumerate(EXPRESSIONS[version]):
            expected = expression.search(text, first, end)
            found = match(data, machine, np.int64(number), first, end, end) if first < end else -1
            if expected is None or expected.start() == end:  # an empty match is none of theirs
                assert found == -1
                continue
            left = machine[machine[0] :]
            assert (left[START], found) == expected.span()
            names = expected.groupdict()
            if "name" in names or "number" in names:
                assert left[PART] == expected.start("name" if "name" in names else "number")
            if "iso" in names:
                is_time = expected.lastgroup in ("seconds", "half")
                assert FORMS[left[FORM]] == ("time" if is_time else expected.lastgroup)
                assert bool(left[FLAGGED]) == bool(names["seconds"] or names["half"])


@pytest.mark.parametrize("pattern", ["a*?", "(?:ab)*c", "(?<!ab)c", "[^a]", "(?i)[a-z]", ".", r"\d", "^a"])
def test_what_it_does_not_know_is_refused(pattern):
    with pytest.raises(ValueError, match="an expression"):
        program([re.compile(pattern)])
