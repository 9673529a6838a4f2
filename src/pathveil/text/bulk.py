"""Many texts to word numbers: the tokens of `pathveil.text.tokenizer.tokenize`, several times faster.

The rules see one chunk at a time, and text is Zipfian: of a hundred chunks some ninety-five were met before. A text is
cut at bytes, and a dictionary knows the word numbers of each chunk; only new chunks go through the rules. At most
``limit`` chunks are remembered, so memory depends on the number of distinct words and not on the number of texts.

>>> numbers = Numbers()
>>> tokenizer = BulkTokenizer(numbers.__getitem__)
>>> ids, offsets = tokenizer.add(["Left breast, pT2.", "", "LEFT (breast)"])
>>> [list(numbers)[i] for i in ids], offsets.tolist()
(['left', 'breast', 'pt2', 'left', 'breast'], [0, 3, 3, 5])
"""

import os
import pickle
import signal
import subprocess
import sys
from array import array
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain, count, islice
from queue import SimpleQueue
from typing import IO

import numpy as np

from pathveil.errors import UsageError
from pathveil.text.identifiers import hide
from pathveil.text.tokenizer import CHUNK, SEPARATORS, WORDS, scan_chunks, word_for

LIMIT = 1 << 19  # chunks that are remembered
SLICE = 200  # texts that are read at a time
_BLANKS = SEPARATORS + "\x1c\x1d\x1e\x1f"  # what parts chunks beside the white space of ``bytes.split``
_CUT = bytes.maketrans(
    f"{_BLANKS}ABCDEFGHIJKLMNOPQRSTUVWXYZ".encode(), b" " * len(_BLANKS) + b"abcdefghijklmnopqrstuvwxyz"
)


class Numbers(defaultdict[str, int]):
    """Words numbered as they are met."""

    def __init__(self) -> None:
        super().__init__(count().__next__)


class _Chunks(dict[bytes, tuple[int, ...]]):
    """The word numbers of each chunk; the rules are asked the first time a chunk is met."""

    def __init__(self, number: Callable[[str], int]):
        super().__init__()
        self.number = number

    def __missing__(self, chunk: bytes) -> tuple[int, ...]:
        bare = chunk.strip(b".,")
        if len(bare) > 1 and bare.isalpha():  # most are a word and perhaps a point or a comma
            self[chunk] = ids = (self.number(bare.decode()),)
            return ids
        # White space beyond ASCII is still in it.
        tokens = scan_chunks(CHUNK.findall(chunk.decode("utf-8", "surrogatepass")))
        self[chunk] = ids = tuple(self.number(word_for(token)) for token in tokens if token and token != "\n")
        return ids


class BulkTokenizer:
    """Turns texts into word numbers; ``number`` gives a word's number and is asked at least once for each word.

    ``identifiers``: what names people and days becomes tokens that say only that, as in ``tokenize``.
    """

    def __init__(
        self, number: Callable[[str], int], *, words: int = WORDS, identifiers: bool = False, limit: int = LIMIT
    ):
        self.words, self.identifiers, self.limit = words, identifiers, limit
        self.chunks = _Chunks(number)

    def add(self, texts: Iterable[str]) -> tuple[np.ndarray, np.ndarray]:
        """Word numbers of all texts end to end, (tokens,) int32, and where each text starts, (texts + 1,) int64."""
        ids, offsets, rest = array("i"), array("q", [0]), iter(texts)
        while some := list(islice(rest, SLICE)):  # one kind of work at a time, for the processor's cache
            if self.identifiers:
                some = list(map(hide, some))
            for text in some:
                if len(self.chunks) > self.limit:
                    self.chunks.clear()
                chunks = text.encode("utf-8", "surrogatepass").translate(_CUT).replace(b", ", b" ").split()
                ids.extend(islice(chain.from_iterable(map(self.chunks.__getitem__, chunks)), self.words))
                offsets.append(len(ids))
        return np.array(ids, np.int32), np.array(offsets, np.int64)


MANY = 4_000  # texts from which on it is worth to start processes, which takes half a second
Add = Callable[[Sequence[str]], tuple[np.ndarray, np.ndarray]]


@contextmanager
def shared_tokenizer(
    number: Callable[[str], int], *, texts: int, words: int = WORDS, identifiers: bool = False
) -> Generator[Add]:
    """Give ``BulkTokenizer.add`` for about so many texts; where they are many, processes share them, one a core."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if texts < MANY or cores == 1:
        yield BulkTokenizer(number, words=words, identifiers=identifiers).add
        return
    command = [sys.executable, "-c", "from pathveil.text.bulk import work; work()", str(words), str(int(identifiers))]
    children = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(cores)]
    tables = [array("i") for _ in children]  # a child's number of a word → ours
    free: SimpleQueue[int] = SimpleQueue()
    for child in range(cores):
        free.put(child)

    def ask(texts: Sequence[str]) -> tuple[int, tuple[list[str], np.ndarray, np.ndarray]]:
        child = free.get()
        asked, answered = children[child].stdin, children[child].stdout
        assert asked is not None and answered is not None
        try:
            _send(asked, texts)
            return child, pickle.load(answered)
        except (OSError, EOFError, pickle.UnpicklingError):
            raise UsageError("a process that cut texts into words died (out of memory?)") from None
        finally:
            free.put(child)

    def add(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        ids, lengths = [np.empty(0, np.int32)], [np.zeros(1, np.int64)]
        slices = (texts[start : start + SLICE] for start in range(0, len(texts), SLICE))
        for child, (new, some, sizes) in threads.map(ask, slices):  # in the order of the texts
            tables[child].extend(map(number, new))
            ids.append(np.array(tables[child], np.int32)[some])
            lengths.append(sizes)
        return np.concatenate(ids), np.cumsum(np.concatenate(lengths))

    with ThreadPoolExecutor(cores) as threads:
        try:
            yield add
        finally:
            for process in children:
                process.kill()
                process.communicate()


def _send(file: IO[bytes], content: object) -> None:
    pickle.dump(content, file, pickle.HIGHEST_PROTOCOL)
    file.flush()


def work() -> None:
    """Be a process of ``shared_tokenizer``: cut texts until the other end closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ctrl-C is for the process that asks
    words, identifiers = map(int, sys.argv[1:])
    numbers = Numbers()
    tokenizer = BulkTokenizer(numbers.__getitem__, words=words, identifiers=bool(identifiers))
    while True:
        try:
            texts = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        known = len(numbers)
        ids, offsets = tokenizer.add(texts)
        _send(sys.stdout.buffer, (list(islice(numbers, known, None)), ids, np.diff(offsets)))
