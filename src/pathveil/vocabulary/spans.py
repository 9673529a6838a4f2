"""Where each token of a text stood: the places of ``pathveil.text.tokenizer.tokenize_spans``, many times faster.

Where each character stays one, and is ASCII or a sign that no rule knows, as in nearly all texts, the compiled rules
(``scanning``) cut it; any other goes through the rules' own expression. What names people and days is found once, and
the text without it handed on, to be encoded.

>>> found = token_spans("Stage: pT2, Dr. Ada Quarbescu")
>>> found.begins.tolist(), found.ends.tolist()
([0, 7, 12, 16], [5, 10, 14, 29])
"""

import re
from typing import NamedTuple

import numpy as np

from pathveil.text import identifiers as hidden
from pathveil.text.tokenizer import IDENTIFIERS, PARTED, WORDS, tokenize_spans
from pathveil.vocabulary.scanning import FOLDED, HIDDEN, SIGN, places_in

_ODD = re.compile(r"[^\t-\r\x1c-_a-~]")  # characters that do not stand for themselves


class TokenSpans(NamedTuple):
    """A text with its identifiers hidden, and the characters of the text itself that each of its tokens stands for."""

    text: str
    begins: np.ndarray  # (tokens,) int64
    ends: np.ndarray


def token_spans(text: str, *, words: int = WORDS, identifiers: hidden.Hiding = IDENTIFIERS) -> TokenSpans:
    """The tokens' places in a text, at most ``words``; ``identifiers``: those of the text with them hidden."""
    found = list(hidden.stretches(text, identifiers))
    without = hidden.hide_stretches(text, found) if found else text
    data = _as_bytes(text)
    if data is None:
        spans = tokenize_spans(without, words=words, identifiers=False)
        begins, ends = np.array([span[1:] for span in spans], np.int64).reshape(-1, 2).T
    else:
        edges = [0, *(edge for start, end, _, _ in found for edge in (start, end)), len(data)]
        parts = [data[start:end] for start, end in zip(edges[::2], edges[1::2], strict=True)]
        folded = bytes([HIDDEN]).join(parts).translate(FOLDED)
        begins, ends = places_in(np.frombuffer(folded, np.uint8), words)
    if found:
        begins, ends = _in_the_text(begins, found), _in_the_text(ends, found)
    return TokenSpans(without, begins, ends)


def _as_bytes(text: str) -> bytes | None:
    """A byte for each character, as the compiled rules take them; None where that cannot be."""
    for odd in set(_ODD.findall(text)):
        plain = odd.translate(PARTED)
        if len(plain) != 1 or odd in hidden.TOKENS or (plain > "~" and plain.isalnum()):
            return None
        text = text.replace(odd, plain if plain <= "~" else chr(SIGN))
    return text.encode("latin-1")


def _in_the_text(places: np.ndarray, found: list[tuple[int, int, str, str]]) -> np.ndarray:
    """Places of a text whose stretches are one character each, as places of the text itself."""
    starts, stops = np.array([stretch[:2] for stretch in found]).T
    lost = np.concatenate([[0], np.cumsum(stops - starts - 1)])  # characters, up to each stretch
    signs = starts - lost[:-1]  # where each one's character stands
    return places + lost[np.searchsorted(signs, places)]  # whose characters lie before a place
