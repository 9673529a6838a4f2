"""What a report says of people and days, found by its form: dates, times, phones, addresses, numbers, names.

A model needs none of it, and a vocabulary that holds it betrays people. Each stretch becomes one token that says only
what stood there. What is found is what its form makes certain: a date with a valid day, a number that a specimen or a
record has, a street with its house, a name behind "Dr." or before "M.D.", and that name again wherever else the report
has it, with what is given before it. Clinical forms stay: Gleason 3+4, 0/12 or 2:14 nodes, 2:00 position, 8500/3,
C50.4, P16-88342, pT2, Paget.

>>> hide("Seen by Dr. Ada Quarbescu on 03/12/2008 at 14:05, S08-12345, (217) 555-0134. Quarbescu agrees.").split()[2:]
['Dr.', '\\ue106', 'on', '\\ue100', 'at', '\\ue101,', '\\ue104,', '\\ue102.', '\\ue106', 'agrees.']
>>> text = "Gleason 3+4, 0/12 nodes, left breast 2:00, 8500/3, 1.2 x 0.5 cm, HER2 3+, Ki-67 20-30%, grade 2-3/3."
>>> hide(text) == text
True
>>> [(kind, text) for _, _, kind, text in stretches("DOB: 1949-02-12 MRN: H699513, 995 Railroad Street Cranemere")]
[('date', '1949-02-12'), ('number', 'H699513'), ('address', '995 Railroad Street Cranemere')]
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, TypeAlias

import numpy as np

from pathveil.text.identifiers.expressions import AHEAD

VERSION = 2  # raised whenever another stretch would be found
# Whether stretches are hidden; by the rules of an earlier version, for what was made with it.
Hiding: TypeAlias = bool | Literal["1"]
FIRST = 0xE100  # the first of the private characters that stand for a stretch while a text is cut into tokens
KINDS = ("date", "time", "phone", "address", "number", "email", "name")
TOKENS = {chr(FIRST + number): f"identifier_{kind}" for number, kind in enumerate(KINDS)}
SIGN = {kind: chr(FIRST + number) for number, kind in enumerate(KINDS)}


def version_of(hiding: Hiding) -> int:
    """The version of the rules by which stretches are hidden; 0 where they stay."""
    return VERSION if hiding is True else int(hiding)


def hide(text: str, hiding: Hiding = True) -> str:
    """The text with each stretch replaced by a private character that stands for its kind."""
    return hide_stretches(text, stretches(text, hiding))


def hide_stretches(text: str, found: Iterable[tuple[int, int, str, str]]) -> str:
    """The text with the given stretches replaced, which lie in order and apart."""
    pieces, last = [], 0
    for start, end, kind, _ in found:
        pieces += [text[last:start], SIGN[kind]]
        last = end
    return "".join([*pieces, text[last:]])


def stretches(text: str, hiding: Hiding = True) -> Iterator[tuple[int, int, str, str]]:
    """Where each stretch begins and ends, its kind, and its text; none where none is hidden."""
    if not hiding:
        return iter(())
    _, _, found = _hidden(*encoded([text]), version_of(hiding))
    return ((start, end, KINDS[kind], text[start:end]) for _, start, end, kind in found.tolist())


def hide_all(texts: Sequence[str], hiding: Hiding = True) -> tuple[np.ndarray, np.ndarray]:
    """The texts as ``encoded`` gives them, each with its stretches replaced as ``hide`` replaces them."""
    data, ends = encoded(texts)
    return _hidden(data, ends, version_of(hiding))[:2] if hiding else (data, ends)


def encoded(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Texts in UTF-8 with a line end behind each, and as much behind the last as loops look at; and where each ends."""
    if all(map(str.isascii, texts)):
        whole, lengths = "\n".join([*texts, "\n" * AHEAD]).encode("ascii"), map(len, texts)
    else:
        parts = [text.encode("utf-8", "surrogatepass") for text in texts]
        whole, lengths = b"\n".join([*parts, b"\n" * AHEAD]), map(len, parts)
    return np.frombuffer(whole, np.uint8), np.cumsum(np.fromiter(lengths, np.int64, len(texts)) + 1)


def _hidden(data: np.ndarray, ends: np.ndarray, version: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    from pathveil.text.identifiers.hiding import hide_bytes

    return hide_bytes(data, ends, version)
