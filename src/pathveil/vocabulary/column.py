"""A column of texts to word numbers: the tokens of `pathveil.text.tokenize`, many times faster.

The rules of `pathveil.text` see one chunk at a time, and text is Zipfian: of a hundred chunks some ninety-five were
met before. A compiled loop cuts the UTF-8 bytes into lower-case chunks and looks each up in a hash table; only chunks
that are new go through the rules, all of a batch in one pass. At most ``limit`` chunks are remembered (then the table
starts afresh), so memory depends on the number of distinct words and not on the length of the column.

>>> numbers = Numbers()
>>> column = Column(numbers.__getitem__)
>>> ids, offsets = column.add(["Left breast, pT2.", "", "LEFT (breast)"])
>>> [list(numbers)[i] for i in ids], offsets.tolist()
(['left', 'breast', 'pt2', 'left', 'breast'], [0, 3, 3, 5])
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import compress

import numba
import numpy as np

from pathveil.identifiers import hide
from pathveil.text import SEPARATORS, WORDS, scan_chunks, word_for

BATCH = 1 << 20  # bytes of text handled at a time
LINE = 10  # the byte that parts chunks
_BREAK, _NOTHING = -1, -2  # what `scan_chunks` finds beside tokens: the end of a chunk, no token

# What a byte becomes: capitals small letters, whatever parts chunks a line end.
_FOLD = np.arange(256, dtype=np.uint8)
_FOLD[65:91] += 32
_FOLD[[9, 10, 11, 12, 13, 28, 29, 30, 31, 32, *SEPARATORS.encode()]] = LINE
# The same, with 256 added for what is neither letter nor digit (but not for a line end).
_PLAIN = [byte == LINE or (chr(byte).isalnum() and byte < 128) for byte in _FOLD.tolist()]
_WIDE = np.where(_PLAIN, _FOLD, _FOLD + np.uint64(256)).astype(np.uint64)


class Numbers(dict[str, int]):
    """Words numbered as they are met."""

    def __missing__(self, word: str) -> int:
        self[word] = number = len(self)
        return number


class _Seen(dict[str, int]):
    """What the rules find → its number."""

    def __init__(self, number: Callable[[str], int]):
        super().__init__({"\n": _BREAK, "": _NOTHING})
        self.number = number

    def __missing__(self, token: str) -> int:
        self[token] = number = self.number(word_for(token))
        return number


class Column:
    """Turns texts into word numbers; ``number`` gives a word's number and is asked once for each new chunk.

    ``identifiers``: what names people and days becomes tokens that say only that, as in ``tokenize``.
    """

    def __init__(
        self, number: Callable[[str], int], *, words: int = WORDS, identifiers: bool = False, limit: int = 1 << 19
    ):
        self.number, self.words, self.identifiers, self.limit = number, words, identifiers, limit
        self._clear(capacity=limit + BATCH // 2)

    def add(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Word numbers of all texts end to end, (tokens,) int32, and where each text starts, (texts + 1,) int64."""
        parts, lengths = [np.empty(0, np.int32)], [np.empty(0, np.int64)]
        for batch in _batches(map(hide, texts) if self.identifiers else texts):
            ids, counts = self._add(batch)
            parts.append(ids)
            lengths.append(counts)
        return np.concatenate(parts), np.concatenate([[0], np.cumsum(np.concatenate(lengths))]).astype(np.int64)

    def _add(self, texts: list[bytes]) -> tuple[np.ndarray, np.ndarray]:
        data = np.frombuffer(b"\n".join(texts) + b"\n", np.uint8)
        worst = len(data) // 2 + 1  # distinct chunks this batch could bring
        if self.count > self.limit or self.count + worst > len(self.plain):
            self._clear(capacity=max(self.limit + BATCH // 2, worst))
        if self.used + 2 * len(data) > len(self.store):
            self.store = np.concatenate([self.store, np.empty(self.used + 2 * len(data), np.uint8)])
        ends = np.cumsum(np.fromiter((len(text) + 1 for text in texts), np.int64, len(texts)))
        before, used = self.count, self.used
        chunks, starts, self.count, self.used = _cut(
            data, ends, _FOLD, _WIDE, self.keys, self.slots, self.places, self.plain, self.store, self.count, self.used
        )
        if self.count > before:
            self._learn(self.store[used : self.used - 1].tobytes().decode("utf-8", "surrogatepass").split("\n"), before)
        return _gather(chunks, starts, self.first, self.tokens, self.words)

    def _learn(self, new: list[str], before: int) -> None:
        """Note the words of new chunks: a plain word is itself, the others go through the rules."""
        plain = self.plain[before : self.count]
        scanned = scan_chunks(compress(new, ~plain))
        found = np.fromiter(map(self.seen.__getitem__, scanned), np.int32, len(scanned))
        found = np.append(found[found != _NOTHING], np.int32(_BREAK))
        breaks = np.flatnonzero(found == _BREAK)
        lengths = np.ones(len(new), np.int64)
        if not plain.all():
            lengths[~plain] = np.diff(breaks, prepend=-1) - 1
        first = self.first[before] + np.concatenate([[0], np.cumsum(lengths)])
        self.first[before : before + len(first)] = first
        if first[-1] > len(self.tokens):
            self.tokens = np.concatenate([self.tokens, np.empty(first[-1], np.int32)])
        tokens = self.tokens[first[0] : first[-1]]
        from_rules = np.repeat(~plain, lengths)
        tokens[~from_rules] = list(map(self.number, compress(new, plain)))
        tokens[from_rules] = found[found != _BREAK]

    def _clear(self, *, capacity: int) -> None:
        self.count, self.used = 0, 0
        size = 1 << (capacity + capacity // 2).bit_length()
        self.slots = np.full(size, -1, np.int32)  # → chunk
        self.keys = np.empty((size, 3), np.uint64)  # what the chunk there is known by
        self.places = np.empty(capacity, np.int64)  # chunk → where it starts in the store of bytes
        self.store = np.empty(4 * BATCH, np.uint8)
        self.first = np.zeros(capacity + 1, np.int64)  # chunk → its first token; the next chunk's is the end
        self.tokens = np.empty(capacity, np.int32)
        self.plain = np.empty(capacity, np.bool_)  # chunk → whether it is a word as it stands
        self.seen = _Seen(self.number)


def _batches(texts: Iterable[str]) -> Iterator[list[bytes]]:
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
def _cut(data, ends, fold, wide, keys, slots, places, plain, store, count, used):
    """Numbers of the chunks of all texts, and where each text's begin; new chunks are added to the tables.

    A chunk's key is its first 16 bytes as two numbers (what follows is mixed in) and its length: exact up to 16 bytes,
    which saves a look at the bytes themselves for nearly all chunks.
    """
    chunks = np.empty(len(data) // 2 + 1, np.int32)
    starts = np.empty(len(ends) + 1, np.int64)
    mask, line = np.uint64(len(slots) - 1), np.uint64(LINE)
    made, position = 0, 0
    starts[0] = 0
    for text in range(len(ends)):
        while position < ends[text]:
            begin, others = position, np.uint64(0)
            one, two, shift = np.uint64(0), np.uint64(0), np.uint64(0)
            value = wide[data[position]]  # a text's last byte parts, so no loop runs past it
            while value != line and shift < np.uint64(64):
                one |= (value & np.uint64(255)) << shift
                others += value >> np.uint64(8)
                shift += np.uint64(8)
                position += 1
                value = wide[data[position]]
            while value != line:
                two = _mixed(two, value & np.uint64(255), position - begin)
                others += value >> np.uint64(8)
                position += 1
                value = wide[data[position]]
            end = position
            position += 1
            if begin == end:
                continue
            last = data[end - 1]
            if (
                others == np.uint64(1)
                and (last == 44 or last == 46)
                and 2 < end - begin < 17
                and fold[data[begin]] >= 97
            ):
                # The usual case of the next: one point or comma behind a word, whose byte is taken out of the key.
                end -= 1
                others = np.uint64(0)
                if end - begin < 8:
                    one &= (np.uint64(1) << np.uint64(8 * (end - begin))) - np.uint64(1)
                else:
                    two &= (np.uint64(1) << np.uint64(8 * (end - begin) - 64)) - np.uint64(1)
            elif others > np.uint64(0):
                # A word that begins with a letter is that word between points and commas too.
                left, right = begin, end
                while left < right and (data[left] == 44 or data[left] == 46):
                    left += 1
                while right > left and (data[right - 1] == 44 or data[right - 1] == 46):
                    right -= 1
                trimmed = np.uint64((left - begin) + (end - right))
                if right - left > 1 and others == trimmed and fold[data[left]] >= 97:
                    begin, end, others = left, right, np.uint64(0)
                    one, two = np.uint64(0), np.uint64(0)
                    for i in range(begin, min(begin + 8, end)):
                        one |= np.uint64(fold[data[i]]) << np.uint64(8 * (i - begin))
                    for i in range(begin + 8, end):
                        two = _mixed(two, np.uint64(fold[data[i]]), i - begin)
            length = np.uint64(end - begin)
            code = (one ^ length) * np.uint64(0x9E3779B97F4A7C15)
            code = ((code ^ (code >> np.uint64(29))) + two) * np.uint64(0xBF58476D1CE4E5B9)
            slot = (code ^ (code >> np.uint64(32))) & mask
            while True:
                chunk = slots[slot]
                if chunk < 0:
                    chunk = count
                    slots[slot] = chunk
                    keys[slot, 0], keys[slot, 1], keys[slot, 2] = one, two, length
                    places[chunk] = used
                    # Letters and digits that begin with a letter are a word by any rule; the rest is left to the rules.
                    plain[chunk] = others == np.uint64(0) and fold[data[begin]] >= 97
                    for i in range(begin, end):
                        store[used] = fold[data[i]]
                        used += 1
                    store[used] = LINE
                    used += 1
                    count += 1
                    break
                if keys[slot, 0] == one and keys[slot, 1] == two and keys[slot, 2] == length:
                    same = True
                    for i in range(end - begin if end - begin > 16 else 0):
                        same &= store[places[chunk] + i] == fold[data[begin + i]]
                    if same:
                        break
                slot = (slot + np.uint64(1)) & mask
            chunks[made] = chunk
            made += 1
        starts[text + 1] = made
    return chunks[:made], starts, count, used


@numba.njit(inline="always")
def _mixed(two, byte, place):
    """The second number of a key with one more byte: bytes 8 to 15 as they are, later ones mixed in."""
    if place < 16:
        return two | byte << np.uint64(8 * place - 64)
    return (two ^ byte) * np.uint64(1099511628211)


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
