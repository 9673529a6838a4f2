"""A column of texts to word numbers: the tokens of `pathveil.text.tokenizer.tokenize`, many times faster.

The rules of `text.tokenizer` see one chunk at a time, and text is Zipfian: of a hundred chunks some ninety-five were
met before. A compiled loop cuts the UTF-8 bytes into lower-case chunks, eight bytes at a time, and looks each up in a
hash table. Chunks that are new go through the rules, compiled as well (`pathveil.vocabulary.scanning`) but for those
with characters beyond ASCII, and only words that are new are met by Python. At most ``limit`` chunks are remembered
(then the tables start afresh), so memory depends on the number of distinct words and not on the length of the column.

>>> numbers = Numbers()
>>> column = Column(numbers.__getitem__)
>>> ids, offsets = column.add(["Left breast, pT2.", "", "LEFT (breast)"])
>>> [list(numbers)[i] for i in ids], offsets.tolist()
(['left', 'breast', 'pt2', 'left', 'breast'], [0, 3, 3, 5])
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import count

import numpy as np

from pathveil.text.identifiers import Hiding, hide_all
from pathveil.text.identifiers.bytes_at_once import (
    alphanumeric,
    bits_between,
    borrow,
    compiled,
    first_bit,
    first_bits,
    kept,
    load_16,
    lowest,
)
from pathveil.text.identifiers.expressions import AHEAD
from pathveil.text.tokenizer import DECIMAL as DECIMAL_WORD
from pathveil.text.tokenizer import LARGE_INTEGER, WORDS, scan_chunks, word_for
from pathveil.vocabulary.scanning import DECIMAL, ITSELF, LINE, NOTHING, fold, is_ascii, token_at

BATCH = 1 << 20  # bytes of text handled at a time
SLOTS = 1 << 16  # of a hash table at first; it grows when three quarters of them are taken
ODD = -1  # tokens of a chunk that is left to the rules' own expression
NONE, SEVERAL = -1, -2  # in the place of a chunk's token, where it has none or more than one

# The words for numbers, one behind the other, as what was met.
_FOR_NUMBERS = np.frombuffer(f"{DECIMAL_WORD}{LARGE_INTEGER}".encode() + b" " * AHEAD, np.uint8)
_PARTED = len(DECIMAL_WORD)
_UNTIL = _PARTED + len(LARGE_INTEGER)
_ONE = np.uint64(1)


class Numbers(defaultdict[str, int]):
    """Words numbered as they are met."""

    def __init__(self) -> None:
        super().__init__(count().__next__)


class _Met:
    """Distinct byte strings numbered as they are met, in a hash table."""

    def __init__(self, capacity: int):
        self.count, self.used = 0, 0
        self.table = np.zeros((SLOTS, 4), np.uint64)  # what a string is known by, and its number + 1
        self.places = np.empty(capacity, np.int64)  # number → where it starts in the store; a line end parts two
        self.store = np.empty(4 * BATCH, np.uint8)

    def make_room(self, size: int) -> None:
        """Room for strings of so many bytes more."""
        if self.used + size > len(self.store):
            self.store = np.concatenate([self.store, np.empty(self.used + size, np.uint8)])
        if self.count + size // 2 > len(self.places):
            self.places = np.concatenate([self.places, np.empty(self.count + size // 2, np.int64)])

    def since(self, number: int) -> list[str]:
        """The strings from this number on."""
        if number == self.count:
            return []
        data = self.store[self.places[number] : self.used - 1].tobytes()
        return data.decode("utf-8", "surrogatepass").split("\n")


class Column:
    """Turns texts into word numbers; ``number`` gives a word's number and is asked once for each new word.

    ``identifiers``: what names people and days becomes tokens that say only that, as in ``tokenize``.
    """

    def __init__(
        self, number: Callable[[str], int], *, words: int = WORDS, identifiers: Hiding = False, limit: int = 1 << 19
    ):
        self.number, self.words, self.identifiers, self.limit = number, words, identifiers, limit
        # A batch's bytes, its chunks and its tokens, used again: new memory takes longer than what is done in it.
        self.folded, self.cut, self.ids = np.empty(0, np.uint8), np.empty(0, np.int32), np.empty(1, np.int32)
        self._clear(capacity=limit + BATCH // 2)

    def add(self, texts: Sequence[str], *, hidden: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Word numbers of all texts end to end, (tokens,) int32, and where each text starts, (texts + 1,) int64;
        ``hidden`` where the texts' identifiers are hidden already."""
        ids, made, lengths = np.empty(0, np.int32), 0, [np.empty(0, np.int64)]
        hiding = False if hidden else self.identifiers
        for batch, share in _batches(texts):
            some, counts = self._add(*hide_all(batch, hiding))
            if made + len(some) > len(ids):  # as many as there will be, if those to come are like those before
                more = np.empty(int((made + len(some)) / share * 1.02), np.int32)
                more[:made] = ids[:made]
                ids = more
            ids[made : made + len(some)] = some
            made += len(some)
            lengths.append(counts)
        return ids[:made], np.concatenate([[0], np.cumsum(np.concatenate(lengths))]).astype(np.int64)

    def _add(self, text: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        worst = len(text) // 2 + 1  # distinct chunks this batch could bring
        if self.chunks.count > self.limit or self.chunks.count + worst > len(self.first):
            self._clear(capacity=max(self.limit + BATCH // 2, worst))
        if len(text) > len(self.folded):
            self.folded, self.cut = np.empty(len(text), np.uint8), np.empty(worst, np.int32)
        data, chunks = self.folded[: len(text)], self.cut
        fold(text, data)
        met = self.chunks
        met.make_room(len(data))
        before = met.count
        starts, done = np.zeros(len(ends) + 1, np.int64), 0
        while done < len(ends):
            done, met.count, met.used = _cut(
                data, ends, done, chunks, starts, met.table, met.places, met.store, met.count, met.used
            )
            if done < len(ends):
                met.table = _grown(met.table)
        if met.count > before:
            self._learn(before)
        counts, done, made, room = np.empty(len(ends), np.int64), 0, 0, int(starts[-1]) // 4 * 5 + 4
        while done < len(ends):
            if room > len(self.ids):
                self.ids = np.concatenate([self.ids[:made], np.empty(room - made, np.int32)])
            done, made = _gather(
                chunks, starts, self.only, self.first, self.size, self.tokens, self.words, self.ids, counts, done, made
            )
            room = 2 * len(self.ids)
        return self.ids[:made], counts

    def _learn(self, before: int) -> None:
        """Note the words of the chunks from ``before`` on."""
        met, words = self.chunks, self.met
        longest = int(met.used - met.places[before])  # bytes, and so tokens, of the new chunks
        words.make_room(2 * longest + AHEAD + _UNTIL)
        if self.used + longest > len(self.tokens):
            self.tokens = np.concatenate([self.tokens, np.empty(self.used + longest, np.int32)])
        known, start, done = words.count, self.used, before
        while done < met.count:
            done, self.used, words.count, words.used = _read(
                met.store, met.places, done, met.count, met.used, self.first, self.size, self.tokens, self.used,
                words.table, words.places, words.store, words.count, words.used,
            )  # fmt: skip
            if done < met.count:
                words.table = _grown(words.table)
        new = words.since(known)
        if words.count > len(self.numbers):
            self.numbers = np.concatenate([self.numbers, np.empty(words.count, np.int32)])
        self.numbers[known : words.count] = np.fromiter(map(self.number, new), np.int32, len(new))
        self.tokens[start : self.used] = self.numbers[self.tokens[start : self.used]]
        self._read_odd(before + np.flatnonzero(self.size[before : met.count] == ODD))
        size = self.size[before : met.count]
        one = self.tokens[self.first[before : met.count] * (size == 1)]
        self.only[before : met.count] = np.where(size == 1, one, np.where(size == 0, NONE, SEVERAL))

    def _read_odd(self, odd: np.ndarray) -> None:
        """Note the words of chunks with characters beyond ASCII."""
        begins, ends = self.chunks.places[odd], np.append(self.chunks.places[: self.chunks.count], self.chunks.used)
        store = self.chunks.store
        texts = [
            store[begin : end - 1].tobytes().decode("utf-8", "surrogatepass")
            for begin, end in zip(begins.tolist(), ends[odd + 1].tolist(), strict=True)
        ]
        words, sizes = [], [0]
        for token in scan_chunks(texts):
            if token == "\n":
                sizes.append(0)
            elif token:
                words.append(self.number(word_for(token)))
                sizes[-1] += 1
        if self.used + len(words) > len(self.tokens):
            self.tokens = np.concatenate([self.tokens, np.empty(self.used + len(words), np.int32)])
        self.tokens[self.used : self.used + len(words)] = words
        self.first[odd], self.size[odd] = self.used + np.cumsum([0, *sizes[:-1]])[: len(odd)], sizes[: len(odd)]
        self.used += len(words)

    def _clear(self, *, capacity: int) -> None:
        self.chunks, self.met = _Met(capacity), _Met(capacity)  # chunks of text, and words
        self.numbers = np.empty(capacity, np.int32)  # word, as it was met → what ``number`` said
        self.first = np.empty(capacity, np.int64)  # chunk → its first token …
        self.size = np.empty(capacity, np.int32)  # … and how many it has
        self.only = np.empty(capacity, np.int32)  # chunk → its token, where it has one alone
        self.tokens, self.used = np.empty(capacity, np.int32), 0


def _batches(texts: Sequence[str]) -> Iterator[tuple[Sequence[str], float]]:
    """Runs of texts of about ``BATCH`` characters, and which share of all characters that makes with those before."""
    sizes = np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)) + 1)
    start = 0
    while start < len(texts):
        before = sizes[start - 1] if start else 0
        stop = min(int(np.searchsorted(sizes, before + BATCH)) + 1, len(texts))
        yield texts[start:stop], sizes[stop - 1] / sizes[-1]
        start = stop


@compiled
def _carried(runs, begins, before):
    """Where runs of bits end that begin at ``begins`` or go on from ``before``, and whether one goes on behind."""
    some = runs + begins
    all_ = some + before
    return all_ & ~runs, np.uint64(some < runs) | np.uint64(all_ < some)


@kept
def _bare(data, begin, end):
    """A chunk without the points and commas around it, if it is a word that begins with a letter then."""
    left, right = begin, end
    while left < right and (data[left] == 44 or data[left] == 46):
        left += 1
    while right > left and (data[right - 1] == 44 or data[right - 1] == 46):
        right -= 1
    if 1 < right - left <= 16 and right - left < end - begin and 97 <= data[left] < 123:
        one, two = load_16(data, left, right - left)
        inside, further = first_bits(right - left), first_bits(right - left - 8)
        if (~alphanumeric(one) & inside) | (~alphanumeric(two) & further) == np.uint64(0):
            return left, right
    return begin, end


@kept
def _cut(data, ends, done, chunks, starts, table, places, store, count, used):
    """Fill in numbers of the chunks of texts from ``done`` on, and where each text's end; new chunks are added to those
    met. Returns the text at which the hash table must grow, or how many texts there are, and the counts.

    What every chunk goes through is written out here: numba counts the users of an array that is handed to a function,
    which takes longer than all the rest.
    """
    data, table, places, store = borrow(data), borrow(table), borrow(places), borrow(store)
    room, last = len(table) // 4 * 3, np.uint64(len(table) - 1)
    position, made = np.int64(0) if done == 0 else ends[done - 1], starts[done]
    for text in range(done, len(ends)):
        stop = ends[text]
        if count + (stop - position) // 2 + 1 > room:
            return text, count, used
        begin, is_parted, is_dotted, is_begun = position, _ONE, np.uint64(0), np.uint64(0)
        is_word, is_lettered = np.uint64(0), np.uint64(0)  # whether one goes on from the block before
        for block in range(position, stop, 64):
            parts = bits_between(data, block, LINE, LINE)
            letters = bits_between(data, block, 97, 122)
            plain = letters | bits_between(data, block, 48, 57)
            behind = (parts << _ONE) | is_parted  # a byte that parts
            begins, stops, inside = behind & ~parts, parts & ~behind, lowest(stop - block)
            # Adding 1 where runs of letters and digits begin carries it behind their ends.
            words, is_word = _carried(plain, begins & plain, is_word)
            lettered, is_lettered = _carried(plain, begins & letters, is_lettered)
            # A word that begins with a letter is that word before a point or a comma too.
            points = bits_between(data, block, 46, 46) | bits_between(data, block, 44, 44)
            dotted = lettered & points & bits_between(data, block + 1, LINE, LINE) & ~((begins << _ONE) | is_begun)
            odd = stops & inside & ~words & ~((dotted << _ONE) | is_dotted)
            stops = (((stops & words) | dotted) & inside) | odd
            is_begun = begins >> np.uint64(63)
            if is_parted | is_dotted != np.uint64(0):
                begin = block + first_bit(begins)
                begins &= begins - _ONE
            is_parted, is_dotted = parts >> np.uint64(63), dotted >> np.uint64(63)
            while stops != np.uint64(0):
                end = block + first_bit(stops)
                one, two = load_16(data, begin, end - begin)
                if stops & (~stops + _ONE) & odd != np.uint64(0):
                    begin, end = _bare(data, begin, end)
                    one, two = _key(data, begin, end)
                elif end - begin > 16:
                    one, two = _key(data, begin, end)
                length = np.uint64(end - begin)
                slot = _hash(one, two, length) & last
                while True:
                    if (table[slot, 0] ^ one) | (table[slot, 1] ^ two) | (table[slot, 2] ^ length) == np.uint64(0):
                        chunk = np.int64(table[slot, 3]) - 1
                        if end - begin <= 16 or _is_same(data, begin, end, store, places[chunk]):
                            break
                    elif table[slot, 3] == np.uint64(0):
                        chunk = count
                        count, used = _add_string(data, begin, end, one, two, slot, table, places, store, count, used)
                        break
                    slot = (slot + _ONE) & last
                chunks[made] = chunk
                made += 1
                stops &= stops - _ONE
                begin = block + first_bit(begins)
                begins &= begins - _ONE
        starts[text + 1] = made
        position = stop
    return len(ends), count, used


@kept
def _read(
    data, begins, chunk, chunks, end, first, size, tokens, made, table, places, store, count, used
):  # fmt: skip
    """Fill in the tokens of chunks from ``chunk`` on, as numbers of words met; new words are added to those. Returns
    the chunk at which the hash table must grow, or how many chunks there are, and the counts."""
    data, first, size, tokens = borrow(data), borrow(first), borrow(size), borrow(tokens)
    table, places, store, numbers = borrow(table), borrow(places), borrow(store), borrow(_FOR_NUMBERS)
    room = len(table) // 4 * 3
    while chunk < chunks:
        begin, stop = begins[chunk], (begins[chunk + 1] if chunk + 1 < chunks else end) - 1
        if count + (stop - begin) + 1 > room:
            return chunk, made, count, used
        first[chunk], size[chunk] = made, ODD
        if is_ascii(data, begin, stop):
            place = begin
            while place < stop:
                start = place
                place, kind = token_at(data, begin, stop, start)
                if kind == NOTHING:
                    continue
                source, last = data, place
                if kind != ITSELF:
                    source, start = numbers, 0 if kind == DECIMAL else _PARTED
                    last = _PARTED if kind == DECIMAL else _UNTIL
                word, count, used = _meet(source, start, last, table, places, store, count, used)
                tokens[made] = word
                made += 1
            size[chunk] = made - first[chunk]
        chunk += 1
    return chunks, made, count, used


@kept
def _meet(data, begin, end, table, places, store, count, used):
    """The number of a byte string, which is added to those met if it is new; and their counts."""
    one, two = _key(data, begin, end)
    length, last = np.uint64(end - begin), np.uint64(len(table) - 1)
    slot = _hash(one, two, length) & last
    while True:
        number = np.int64(table[slot, 3]) - 1
        if number < 0:
            number = count
            count, used = _add_string(data, begin, end, one, two, slot, table, places, store, count, used)
            return number, count, used
        if table[slot, 0] == one and table[slot, 1] == two and table[slot, 2] == length:
            if end - begin <= 16 or _is_same(data, begin, end, store, places[number]):
                return number, count, used
        slot = (slot + np.uint64(1)) & last


@kept
def _key(data, begin, end):
    """The first 16 bytes as two numbers, of longer strings with later bytes mixed into the second. With the length it
    is all there is to know of up to 16 bytes, which saves a look at the bytes themselves for nearly all strings."""
    one, two = load_16(data, begin, min(end - begin, 16))
    for place in range(begin + 16, end):
        two = (two ^ np.uint64(data[place])) * np.uint64(1099511628211)
    return one, two


@compiled
def _hash(one, two, length):
    code = (one ^ length) * np.uint64(0x9E3779B97F4A7C15) + two * np.uint64(0xBF58476D1CE4E5B9)
    return code ^ (code >> np.uint64(32))


@kept
def _is_same(data, begin, end, store, place):
    for i in range(end - begin):
        if store[place + i] != data[begin + i]:
            return False
    return True


@kept
def _add_string(data, begin, end, one, two, slot, table, places, store, count, used):
    """Put a new string into its slot and its bytes into the store; the counts with it."""
    table[slot, 0], table[slot, 1], table[slot, 2] = one, two, np.uint64(end - begin)
    table[slot, 3] = np.uint64(count + 1)
    places[count] = used
    for place in range(begin, end):
        store[used] = data[place]
        used += 1
    store[used] = LINE
    return count + 1, used + 1


@kept
def _grown(table):
    """The same hash table with four times the slots."""
    grown = np.zeros((4 * len(table), 4), np.uint64)
    last = np.uint64(len(grown) - 1)
    for row in range(len(table)):
        if table[row, 3] != np.uint64(0):
            slot = _hash(table[row, 0], table[row, 1], table[row, 2]) & last
            while grown[slot, 3] != np.uint64(0):
                slot = (slot + np.uint64(1)) & last
            for column in range(4):
                grown[slot, column] = table[row, column]
    return grown


@kept
def _gather(chunks, starts, only, first, size, tokens, clip, ids, counts, done, made):
    """Fill in the tokens of the chunks of texts from ``done`` on, and how many each text has. Returns the text for
    which there is no room, or how many texts there are, and the number of tokens."""
    chunks, only, tokens, ids = borrow(chunks), borrow(only), borrow(tokens), borrow(ids)
    for text in range(done, len(counts)):
        begin = made
        for place in range(starts[text], starts[text + 1]):
            token = only[chunks[place]]
            ids[made] = token
            made += token > NONE
            if token == SEVERAL:
                chunk = chunks[place]
                many = min(size[chunk], begin + clip - made)
                if made + many + starts[-1] - place > len(ids):
                    return text, begin
                for number in range(many):
                    ids[made + number] = tokens[first[chunk] + number]
                made += many
            if made - begin >= clip:
                break
        counts[text] = made - begin
    return len(counts), made
