"""Numbers as whole numbers of so many bits, which sites can mask and a hub can add up exactly.

A sum of floats depends on the order of its parts; masks that cancel need one that does not. So a site turns what it
sends into whole numbers: a value is held against a range of 2ᵉ, what is larger is clipped (and counted), and the rest
is rounded to the nearest of the steps that the bits allow. Sums are taken modulo 2ᵇ, and each site uses so few of the
2ᵇ numbers that the sum of all sites never goes round: the hub reads it as it is, and embedded training, which adds the
same whole numbers without masks, gets the same bits.

Every array has a range of its own, a power of two, so that scaling is exact. The hub tells it with its question, from
the sum of the sites' largest values in the round before (``next_exponent``): twice that, and never less than half of
the last, so that a quiet round does not clip a lively one.

>>> form = FixedPoint(bits=16, sites=3)
>>> parts = [form.encoded(np.array(own), exponent=0)[0] for own in ([0.5, -0.25], [0.25, 0.25], [2.0, 0.0])]
>>> [part.tolist() for part in parts]  # of ± 8,191 steps; the 2.0 does not fit and is clipped
[[4096, -2048], [2048, 2048], [8191, 0]]
>>> packed = [form.packed(part) for part in parts]  # two bytes a number
>>> total = form.signed(sum(form.unpacked(part).astype(np.uint64) for part in packed))
>>> form.decoded(total, exponent=0).round(3).tolist()
[1.75, 0.0]
"""

import math
from dataclasses import dataclass

import numpy as np

BITS = (16, 24, 32)  # that a number of an update may have
WIDE = 64  # bits of the few numbers beside an update
FRACTION = 24  # bits after the point in those
SMALLEST, LARGEST = -40, 60  # exponents of a range


@dataclass(frozen=True)
class FixedPoint:
    """How values become whole numbers: the bits of one, and how many sites' sums have to fit."""

    bits: int
    sites: int

    @property
    def shift(self) -> int:
        """A site's values lie between −2ˢ and 2ˢ: as many of them as there are sites fit into the bits with a sign."""
        return self.bits - 1 - (self.sites - 1).bit_length()

    @property
    def most(self) -> int:
        """The largest whole number that a site sends."""
        return 2**self.shift - 1

    @property
    def word(self) -> type[np.unsignedinteger]:
        """The type that holds a number of these bits while it is masked and added."""
        return {16: np.uint16, 24: np.uint32, 32: np.uint32, 64: np.uint64}[self.bits]

    @property
    def bytes(self) -> int:
        """Of a number on the wire."""
        return self.bits // 8

    def encoded(
        self, values: np.ndarray, *, exponent: int, weight: int = 1, out: np.ndarray | None = None
    ) -> tuple[np.ndarray, int, float]:
        """Values times a weight as whole numbers in a range of 2 to the exponent; how many did not fit and were
        clipped; and the largest size, in ranges.

        Halves are rounded to the even neighbour; a zero stays zero.
        """
        from pathveil.federation.rounding import rounded

        flat = np.ascontiguousarray(values).reshape(-1)
        whole = np.empty(len(flat), np.int32) if out is None else out
        clipped, largest = rounded(flat, weight * 2.0 ** (self.shift - exponent), self.most, whole)
        return whole, clipped, largest * 2.0**-self.shift

    def decoded(self, total: np.ndarray, *, exponent: int) -> np.ndarray:
        """A sum of whole numbers as values (float64)."""
        return total * 2.0 ** (exponent - self.shift)

    def mean(self, total: np.ndarray, *, exponent: int, weight: int) -> tuple[np.ndarray, float]:
        """A sum of whole numbers as values divided by a weight (float32), and the size of its largest number."""
        from pathveil.federation.rounding import averaged

        found = np.empty(len(total), np.float32)
        return found, averaged(total, 2.0 ** (exponent - self.shift), weight, found)

    def words(self, numbers: np.ndarray) -> np.ndarray:
        """Whole numbers modulo 2ᵇ."""
        unsigned = np.uint32 if numbers.dtype == np.int32 else np.uint64
        return self.reduced(numbers.view(unsigned)).astype(self.word, copy=False)

    def reduced(self, words: np.ndarray) -> np.ndarray:
        """Words modulo 2ᵇ, where their type is wider than that or of the same width."""
        width = 8 * words.dtype.itemsize
        return words if self.bits >= width else words & words.dtype.type(2**self.bits - 1)

    def signed(self, words: np.ndarray) -> np.ndarray:
        """Words, or sums of words, as the whole numbers between −2ᵇ⁻¹ and 2ᵇ⁻¹ that they stand for."""
        if words.dtype == self.word and 8 * words.dtype.itemsize == self.bits:
            return words.view(np.dtype(f"i{self.bytes}"))
        wide = np.asarray(words).astype(np.uint64) << np.uint64(64 - self.bits)
        return wide.view(np.int64) >> np.int64(64 - self.bits)

    def packed(self, numbers: np.ndarray) -> np.ndarray:
        """Whole numbers or words as bytes (uint8), the lowest first."""
        words = numbers if numbers.dtype == self.word else self.words(numbers)
        little = np.ascontiguousarray(words, words.dtype.newbyteorder("<"))
        if self.bytes == words.dtype.itemsize:
            return little.view(np.uint8)
        each = little.view(np.uint8).reshape(-1, words.dtype.itemsize)
        return np.ascontiguousarray(each[:, : self.bytes]).reshape(-1)

    def unpacked(self, data: np.ndarray) -> np.ndarray:
        """Words from bytes."""
        if self.bytes == np.dtype(self.word).itemsize:
            return np.ascontiguousarray(data).view(np.dtype(self.word).newbyteorder("<")).astype(self.word, copy=False)
        each = np.ascontiguousarray(data, np.uint8).reshape(-1, self.bytes)
        wide = np.zeros((len(each), np.dtype(self.word).itemsize), np.uint8)
        wide[:, : self.bytes] = each
        return wide.reshape(-1).view(np.dtype(self.word).newbyteorder("<")).astype(self.word, copy=False)


def exponent_of(value: float) -> int:
    """The least exponent whose range holds a value.

    >>> exponent_of(1.0), exponent_of(0.9), exponent_of(3), exponent_of(0.0)
    (1, 0, 2, -40)
    """
    return SMALLEST if not value else min(max(math.frexp(value)[1], SMALLEST), LARGEST)


def next_exponent(last: int, peaks: float, *, fall: int = 1) -> int:
    """The range of the coming round: holds twice the sum of the sites' largest values, and falls by half at most.

    >>> next_exponent(3, 0.4), next_exponent(3, 30.0), next_exponent(3, 0.4, fall=20)
    (2, 6, 0)
    """
    return max(exponent_of(2 * peaks), last - fall)
