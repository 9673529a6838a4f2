"""A column of texts to word numbers: the tokens of `pathveil.text.tokenize`, many times faster.

The rules of `pathveil.text` see one chunk at a time, and text is Zipfian: of a hundred chunks some ninety-five were
met before. A compiled loop cuts the UTF-8 bytes into lower-case chunks and looks each up in a hash table; only chunks
that are new go through the rules, all of a batch in one pass. At most ``limit`` chunks are remembered (then the table
starts afresh), so memory depends on the number of distinct words and not on the length of the column.

>>> numbers = Numbers()
>>> column = Column(numbers.__getitem__)
>>> ids, offsets = column.add(["Left breast, pT2.", "", "LEFT (breast)"])
>>> ids.tolist(), offsets.tolist(), list(numbers)
([0, 1, 2, 0, 1], [0, 3, 3, 5], ['left', 'breast', 'pt2'])
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain

import numba
import numpy as np

from pathveil.text import SEPARATORS, WORDS, chunk_tokens

BATCH = 1 << 21  # bytes of text handled at a time
LINE = 10  # the byte that parts chunks

# What a byte becomes: capitals small letters, whatever parts chunks a line end.
_FOLD = np.arange(256, dtype=np.uint8)
_FOLD[65:91] += 32
_FOLD[[9, 10, 11, 12, 13, 28, 29, 30, 31, 32, *SEPARATORS.encode()]] = LINE


class Numbers(dict[str, int]):
    """Words numbered in order of first appearance."""

    def __missing__(self, word: str) -> int:
        self[word] = number = len(self)
        return number


class Column:
    """Word numbers of texts, added a few at a time; ``number`` gives a word's number and is asked once a chunk."""

    def __init__(self, number: Callable[[str], int], *, words: int = WORDS, limit: int = 1 << 20):
        self.number, self.words, self.limit = number, words, limit
        self._clear(capacity=limit + BATCH // 2)

    def add(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Word numbers of all texts end to end, (tokens,) int32, and where each text starts, (texts + 1,) int64."""
        parts, lengths = [np.empty(0, np.int32)], [np.empty(0, np.int64)]
        for batch in _batches(texts):
            ids, counts = self._add(batch)
            parts.append(ids)
            lengths.append(counts)
        return np.concatenate(parts), np.concatenate([[0], np.cumsum(np.concatenate(lengths))]).astype(np.int64)

    def _add(self, texts: list[bytes]) -> tuple[np.ndarray, np.ndarray]:
        data = np.frombuffer(b"\n".join(texts) + b"\n", np.uint8)
        worst = len(data) // 2 + 1  # distinct chunks this batch could bring
        if self.count > self.limit or self.count + worst > len(self.hashes):
            self._clear(capacity=max(self.limit + BATCH // 2, worst))
        if self.used + 2 * len(data) > len(self.store):
            self.store = np.concatenate([self.store, np.empty(self.used + 2 * len(data), np.uint8)])
        ends = np.cumsum(np.fromiter((len(text) + 1 for text in texts), np.int64, len(texts)))
        before, used = self.count, self.used
        chunks, starts, self.count, self.used = _cut(
            data, ends, _FOLD, self.table, self.hashes, self.places, self.store, self.count, self.used
        )
        if self.count > before:
            self._learn(self.store[used : self.used - 1].tobytes().decode("utf-8", "surrogatepass").split("\n"), before)
        return _gather(chunks, starts, self.first, self.tokens, self.words)

    def _learn(self, new: list[str], before: int) -> None:
        """Put new chunks through the rules and note their words' numbers."""
        through_rules = iter(chunk_tokens(chunk for chunk in new if not (chunk.isascii() and chunk.isalpha())))
        found = [(chunk,) if chunk.isascii() and chunk.isalpha() else next(through_rules) for chunk in new]
        ids = list(map(self.number, chain.from_iterable(found)))
        ends = self.first[before] + np.cumsum(np.fromiter(map(len, found), np.int64, len(found)))
        self.first[before + 1 : before + 1 + len(new)] = ends
        if ends[-1] > len(self.tokens):
            self.tokens = np.concatenate([self.tokens, np.empty(ends[-1], np.int32)])
        self.tokens[self.first[before] : ends[-1]] = ids

    def _clear(self, *, capacity: int) -> None:
        self.count, self.used = 0, 0
        self.table = np.full(1 << (2 * capacity - 1).bit_length(), -1, np.int32)  # slot → chunk
        self.hashes = np.empty(capacity, np.uint64)
        self.places = np.empty((capacity, 2), np.int64)  # chunk → its (start, length) in the store of bytes
        self.store = np.empty(4 * BATCH, np.uint8)
        self.first = np.zeros(capacity + 1, np.int64)  # chunk → its first token; the next chunk's is the end
        self.tokens = np.empty(capacity, np.int32)


def _batches(texts: Sequence[str]) -> Iterator[list[bytes]]:
    batch: list[bytes] = []
    size = 0
    for text in texts:
        batch.append(text.encode("utf-8", "surrogatepass"))
        size += len(batch[-1])
        if size >= BATCH:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


@numba.njit(cache=True, nogil=True)
def _cut(data, ends, fold, table, hashes, places, store, count, used):
    """Numbers of the chunks of all texts, and where each text's begin; new chunks are added to the tables."""
    chunks = np.empty(len(data) // 2 + 1, np.int32)
    starts = np.empty(len(ends) + 1, np.int64)
    mask = len(table) - 1
    made, position = 0, 0
    starts[0] = 0
    for text in range(len(ends)):
        while position < ends[text]:
            length = 0
            while fold[data[position]] != LINE:  # the last byte of a text parts
                store[used + length] = fold[data[position]]
                position += 1
                length += 1
            position += 1
            if length == 0:
                continue
            # A word of letters between points and commas is that word; anything else is left to the rules whole.
            left, right = 0, length
            while left < length and (store[used + left] == 44 or store[used + left] == 46):
                left += 1
            while right > left and (store[used + right - 1] == 44 or store[used + right - 1] == 46):
                right -= 1
            letters = right - left > 1
            for i in range(left, right):
                letters &= 97 <= store[used + i] <= 122
            if letters and right - left < length:
                for i in range(right - left):
                    store[used + i] = store[used + left + i]
                length = right - left
            code = np.uint64(14695981039346656037)
            for i in range(length):
                code = (code ^ np.uint64(store[used + i])) * np.uint64(1099511628211)
            slot = np.int64((code ^ (code >> np.uint64(32))) & np.uint64(mask))
            while True:
                chunk = table[slot]
                if chunk < 0:
                    chunk = count
                    table[slot] = chunk
                    hashes[chunk] = code
                    places[chunk, 0], places[chunk, 1] = used, length
                    store[used + length] = LINE
                    used += length + 1
                    count += 1
                    break
                if hashes[chunk] == code and places[chunk, 1] == length:
                    place, same = places[chunk, 0], True
                    for i in range(length):
                        same &= store[place + i] == store[used + i]
                    if same:
                        break
                slot = (slot + 1) & mask
            chunks[made] = chunk
            made += 1
        starts[text + 1] = made
    return chunks[:made], starts, count, used


@numba.njit(cache=True, nogil=True)
def _gather(chunks, starts, first, tokens, clip):
    """Tokens of the chunks, text by text, and how many each text has."""
    counts = np.empty(len(starts) - 1, np.int64)
    for text in range(len(counts)):
        total = 0
        for i in range(starts[text], starts[text + 1]):
            total += first[chunks[i] + 1] - first[chunks[i]]
        counts[text] = min(total, clip)
    ids = np.empty(counts.sum(), np.int32)
    made = 0
    for text in range(len(counts)):
        end = made + counts[text]
        for i in range(starts[text], starts[text + 1]):
            for token in range(first[chunks[i]], first[chunks[i] + 1]):
                if made < end:
                    ids[made] = tokens[token]
                    made += 1
    return ids, counts
