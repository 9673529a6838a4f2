"""Ids met before, eight bytes each: a set of a million of Python's own numbers is a hundred megabytes.

>>> seen = Seen()
>>> [seen.add(number) for number in (5, 7, 5)]
[True, True, False]
>>> seen.add_all(np.array([9, 7, 9, 1], np.uint64)).tolist()
[True, False, False, True]
"""

import numpy as np


class Seen:
    """Numbers below 2**64, in a few sorted arrays, each of which is longer than all behind it together.

    A map of their last bits tells of nearly all new numbers that they are in none of the arrays.
    """

    RECENT, BITS = 5_000, (1 << 22) - 1

    def __init__(self) -> None:
        self.recent: set[int] = set()
        self.map = np.zeros(self.BITS + 1, bool)
        self.sorted: list[np.ndarray] = []

    def __len__(self) -> int:
        return len(self.recent) + sum(map(len, self.sorted))

    def add(self, number: int) -> bool:
        """Note a number; whether it was new."""
        if self.holds(number):
            return False
        self.recent.add(number)
        if len(self.recent) == self.RECENT:
            self._keep_recent()
        return True

    def holds(self, number: int) -> bool:
        """Whether a number was noted."""
        return number in self.recent or bool(
            self.map[number & self.BITS] and self._holds(np.array([number], np.uint64))[0]
        )

    def add_all(self, numbers: np.ndarray) -> np.ndarray:
        """Note several; for each whether it was new."""
        self._keep_recent()
        ordered = np.sort(numbers)
        if not (ordered[1:] == ordered[:-1]).any() and not self._holds(ordered).any():  # as ids of reports mostly are
            self._keep(ordered)
            return np.ones(len(numbers), bool)
        ordered, first = np.unique(numbers, return_index=True)
        unknown = ~self._holds(ordered)
        self._keep(ordered[unknown])
        new = np.zeros(len(numbers), bool)
        new[first[unknown]] = True
        return new

    def note_all(self, numbers: np.ndarray) -> None:
        """Note several, of which many may be the same."""
        self._keep_recent()
        ordered = np.sort(numbers)
        ordered = np.concatenate([ordered[:1], ordered[1:][ordered[1:] != ordered[:-1]]])
        self._keep(ordered[~self._holds(ordered)])

    def _holds(self, ordered: np.ndarray) -> np.ndarray:
        held = self.map[ordered & np.uint64(self.BITS)]
        places = np.flatnonzero(held)
        numbers, found = ordered[places], np.zeros(len(places), bool)
        for earlier in self.sorted:
            found |= earlier[np.minimum(np.searchsorted(earlier, numbers), len(earlier) - 1)] == numbers
        held[places] = found
        return held

    def _keep_recent(self) -> None:
        if self.recent:
            self._keep(np.sort(np.fromiter(self.recent, np.uint64, len(self.recent))))
            self.recent.clear()

    def _keep(self, ordered: np.ndarray) -> None:
        if not len(ordered):
            return
        self.map[ordered & np.uint64(self.BITS)] = True
        self.sorted.append(ordered)
        while len(self.sorted) > 1 and len(self.sorted[-2]) <= 2 * len(self.sorted[-1]):
            last = self.sorted.pop()
            self.sorted[-1] = np.concatenate([self.sorted[-1], last])
            self.sorted[-1].sort(kind="stable")  # which merges what is sorted already
