"""The compiled rules find what the expression finds that says them."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from pathveil.text.tokenizer import SEPARATORS, scan_chunks, word_for
from pathveil.vocabulary.scanning import DECIMAL, FOLDED, LARGE, NOTHING, fold, is_ascii, token_at

PLAIN = "".join(
    chr(code) for code in range(33, 127) if not chr(code).isupper() and chr(code) not in SEPARATORS and chr(code) != "`"
)
OFTEN = "aaexmsgcuklphf0012389...,,--//++%'<>=&"  # what the rules look at
RULED = st.text(st.sampled_from(OFTEN), min_size=1, max_size=14)
CHUNKS = RULED | st.text(st.sampled_from(PLAIN), min_size=1, max_size=9)


@njit
def all_tokens(data, found):
    count, place = 0, 0
    while place < len(data):
        start = place
        place, kind = token_at(data, 0, len(data), start)
        if kind != NOTHING:
            found[count, 0], found[count, 1], found[count, 2] = start, place, kind
            count += 1
    return count


def scanned(chunk: str) -> list[str]:
    data, found = np.frombuffer(chunk.encode(), np.uint8), np.zeros((len(chunk), 3), np.int64)
    tokens = found[: all_tokens(data, found)].tolist()
    words = {DECIMAL: "decimal", LARGE: "large_integer"}
    return [words.get(kind, chunk[start:stop]) for start, stop, kind in tokens]


@settings(deadline=None, max_examples=2000)
@given(st.lists(CHUNKS, min_size=1, max_size=8))
def test_compiled_rules_are_the_expression(chunks):
    for chunk in chunks:
        assert scanned(chunk) == [word_for(token) for token in scan_chunks([chunk]) if token and token != "\n"], chunk


def test_what_may_become_other_characters_is_left_to_the_expression():
    for chunk, plain in (("pt2", True), ("3+4=7", True), ("caf\u00e9", False), ("a\x00b", False), ("o`clock", False)):
        data = np.frombuffer(chunk.encode(), np.uint8)
        assert is_ascii(data, 0, len(data)) is plain


def test_bytes_are_folded_as_the_table_says():
    every = np.arange(256, dtype=np.uint8)
    folded = np.empty_like(every)
    fold(every, folded)
    assert folded.tobytes() == FOLDED
