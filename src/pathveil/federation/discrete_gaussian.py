"""Gaussian noise on whole numbers, drawn exactly: after Canonne, Kamath and Steinke (2020).

Noise that hides a site must be added before masking, where numbers are whole, and a rounded normal draw has none of the
promises of a Gaussian one. The discrete Gaussian gives a whole number x with chance proportional to exp(−x² / 2σ²) and
has the same Rényi divergences, so it is accounted for like the usual one. It is drawn by throwing away: a discrete
Laplace number, made of coin flips of chance exp(−a/b), which are made of fair draws below whole numbers; no float takes
part. A Laplace draw beyond 100 of its scales, of chance below e⁻¹⁰⁰, is thrown away too.

Shares of several sites are added up by their sum. It is not exactly a discrete Gaussian of their summed variance, but
for σ of 8 and more each the two cannot be told apart (Kairouz, Liu and Steinke 2021: the gap is below 10·n·e^(−π²σ²)).

>>> draws = sampled(100_000, sigma=20, rng=np.random.default_rng(1))
>>> draws.dtype, bool(abs(draws.std() - 20) < 0.2), bool(abs(draws.mean()) < 0.3)
(dtype('int64'), True, True)
"""

import secrets

import numpy as np
from numba import njit

MOST = 4096  # σ: with more, the whole numbers of a draw would not fit 64 bits
LEAST = 8  # σ: with less, a sum of shares is not the noise that it should be
WORDS = 24  # random words that a draw takes at most, nearly always


def sampled(count: int, *, sigma: int, rng: np.random.Generator | None = None) -> np.ndarray:
    """So many draws (int64), from a generator that repeats or, without one, from the system's entropy."""
    if not 1 <= sigma <= MOST:
        raise ValueError(f"sigma must be a whole number from 1 to {MOST}; got {sigma}")
    found, words, done = np.empty(count, np.int64), np.empty(0, np.uint64), 0
    while done < count:
        # What a draw had begun with stays in front, so that where a chunk ends changes nothing.
        words = np.concatenate([words, random_words(WORDS * min(count - done, 100_000) + 1000, rng)])
        made, used = fill(found[done:], np.uint64(sigma), words)
        done, words = done + made, words[used:]
    return found


def random_words(count: int, rng: np.random.Generator | None) -> np.ndarray:
    """So many random numbers of 64 bits."""
    if rng is not None:
        return rng.integers(0, 2**64, count, np.uint64)
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

    words = np.zeros(count, np.uint64)
    cipher = Cipher(algorithms.ChaCha20(secrets.token_bytes(32), bytes(16)), mode=None)
    cipher.encryptor().update_into(words.view(np.uint8).data, words.view(np.uint8).data)
    return words


@njit(cache=True, nogil=True)
def fill(out, sigma, words):
    """Fill with draws until the words run out: how many were made, and how many words they used."""
    used = np.zeros(1, np.int64)  # where the next word is
    scale = sigma + np.uint64(1)
    for place in range(len(out)):
        start = used[0]
        value = gaussian(sigma, scale, words, used)
        if used[0] > len(words):
            return place, start
        out[place] = value
    return len(out), used[0]


@njit(cache=True, nogil=True)
def gaussian(sigma, scale, words, used):
    """One draw; where the words run out it means nothing."""
    square = sigma * sigma
    while True:
        size, negative = laplace(scale, words, used)
        if used[0] > len(words):
            return np.int64(0)
        away = size * scale
        away = away - square if away > square else square - away
        # exp(−(|x| − σ²/t)² / 2σ²), as a fraction of whole numbers
        if coin(away * away, np.uint64(2) * square * scale * scale, words, used):
            return -np.int64(size) if negative else np.int64(size)


@njit(cache=True, nogil=True)
def laplace(scale, words, used):
    """The size and sign of a whole number with chance proportional to exp(−|x| / scale)."""
    one = np.uint64(1)
    while used[0] <= len(words):
        rest = below(scale, words, used)
        if not coin(rest, scale, words, used):
            continue
        times = np.uint64(0)
        while times < np.uint64(100) and coin(one, one, words, used):
            times += one
        size = rest + scale * times
        negative = below(np.uint64(2), words, used) == one
        if times < np.uint64(100) and not (negative and size == np.uint64(0)):
            return size, negative
    return np.uint64(0), False


@njit(cache=True, nogil=True)
def coin(over, under, words, used):
    """True with chance exp(−over / under)."""
    one = np.uint64(1)
    while over > under:
        if not fraction(one, one, words, used):
            return False
        over -= under
    return fraction(over, under, words, used)


@njit(cache=True, nogil=True)
def fraction(over, under, words, used):
    """True with chance exp(−over / under) for a fraction of at most 1: whether a run of ever rarer wins is odd."""
    number = np.uint64(1)
    while below(under * number, words, used) < over:
        number += np.uint64(1)
    return number % np.uint64(2) == np.uint64(1)


@njit(cache=True, nogil=True)
def below(most, words, used):
    """A fair whole number below another; after the last word, that other, which ends every run."""
    whole = np.uint64(0xFFFFFFFFFFFFFFFF)
    limit = whole - whole % most  # words from here on would favour small numbers
    while True:
        at = used[0]
        used[0] = at + 1
        if at >= len(words):
            return most
        if words[at] < limit:
            return words[at] % most
