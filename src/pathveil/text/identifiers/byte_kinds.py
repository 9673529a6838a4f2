"""Bytes of a text by name and by kind, and how places are noted, for the loops that mark places.

>>> is_vowel = as_bits(np.isin(np.arange(256), [*b"aeiou"]))
>>> [chr(byte) for byte in b"ct2 of" if njit(lambda byte: is_in(is_vowel, np.uint64(byte)))(byte)]
['o']
"""

import numpy as np
from numba import njit

LETTER = np.zeros(256, np.bool_)
LETTER[65:91] = LETTER[97:123] = True

SPACE, TAB, LINE, RETURN, COMMA, POINT, HYPHEN, SLASH, COLON = (np.uint8(ord(sign)) for sign in " \t\n\r,.-/:")
HASH, AT, STAR, BAR, QUOTE, CLOSE, OPEN = (np.uint8(ord(sign)) for sign in '#@*|")(')
A, B, C, D, F, G, H, M, N, O_, P, R, S = (np.uint8(ord(letter)) for letter in "ABCDFGHMNOPRS")
MIX = 0x9E3779B1  # products with it have mixed bits

compiled = njit(nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
inlined = njit(nogil=True, forceinline=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)


def as_bits(table: np.ndarray) -> np.ndarray:
    """A table of yes and no as bits, for ``is_in``."""
    return np.packbits(table, bitorder="little").view(np.uint64)


@inlined
def is_in(bits, code):
    return (bits[code >> np.uint64(6)] >> (code & np.uint64(63))) & np.uint64(1) != np.uint64(0)


@inlined
def is_digit(byte):
    return np.uint8(byte - np.uint8(48)) < np.uint8(10)


@inlined
def is_capital(byte):
    return np.uint8(byte - np.uint8(65)) < np.uint8(26)


@compiled
def note(marks, counts, kind, place):
    """Add a mark to those of its kind, which lie in order; one can come late, behind a few others."""
    last = counts[kind]
    while last > 0 and marks[kind, last - 1] > place:
        marks[kind, last] = marks[kind, last - 1]
        last -= 1
    marks[kind, last] = place
    counts[kind] += 1


def table_of(words: str) -> np.ndarray:
    """A hash table of words, small letters, of which the last eight count, as ``holds`` asks it."""
    table = np.zeros(256, np.uint64)
    for word in words.split():
        code = int.from_bytes(word.encode()[-8:], "little")
        slot = code * MIX >> 24 & 255
        while table[slot]:
            slot = (slot + 1) % 256
        table[slot] = code
    return table


@inlined
def holds(table, code):
    slot = (code * np.uint64(MIX) >> np.uint64(24)) & np.uint64(255)
    while table[slot] != np.uint64(0):
        if table[slot] == code:
            return True
        slot = (slot + np.uint64(1)) & np.uint64(255)
    return False
