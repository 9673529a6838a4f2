"""Bootstrap resamples of cases, and what a thousand of them say of a score, in one pass over its records.

Reports of one case are drawn together, members and non-members apart. What is kept is how often each *case* is drawn,
a byte each, and the case of each record: a part of the records is then an index, not a copy of gigabytes. The sums are
of whole numbers and therefore exact, whatever their order.

>>> member = np.array([True, True, False, False])
>>> drawn = resample(member, np.array(["a", "b", "c", "c"]), resamples=3, seed=1)
>>> drawn.of(member).times()  # how many members each resample has, and how many non-members
array([2, 2, 2])
>>> drawn.of(~member).times()
array([2, 2, 2])
>>> drawn.auc(np.array([3.0, 1.0, 2.0, 2.0]), member)
array([0.5, 0. , 1. ])
"""

from dataclasses import dataclass, replace

import numpy as np
from numba import njit

RESAMPLES = 1000
AT_ONCE = 1 << 22  # draws in memory at a time

compiled = njit(nogil=True, cache=True)


@dataclass(frozen=True)
class Resamples:
    """How often each case is drawn in each resample, and which is the case of each record."""

    counts: np.ndarray  # (cases, resamples) uint8: a case is drawn once on average, and never 256 times
    rows: np.ndarray  # (records,) of ``counts``

    def of(self, records: np.ndarray) -> "Resamples":
        """Those of some records: a mask, or their places."""
        return replace(self, rows=self.rows[records])

    def times(self) -> np.ndarray:  # (resamples,)
        """How often these records are drawn, all together."""
        return total(self.counts, self.rows)

    def auc(self, scores: np.ndarray, member: np.ndarray) -> np.ndarray:  # (resamples,)
        """The AUC of every resample, NaN where it drew no member or no non-member."""
        order = np.argsort(scores, kind="stable")
        ranked = scores[order]
        ends = np.append(np.flatnonzero(ranked[1:] != ranked[:-1]) + 1, len(ranked))  # of each run of equal scores
        won = twice_won(self.counts, self.rows[order], member[order], ends)
        with np.errstate(invalid="ignore", divide="ignore"):
            return won / 2 / (self.of(member).times().astype(np.float64) * self.of(~member).times())


def resample(
    member: np.ndarray,
    cases: np.ndarray,
    *,
    others: np.ndarray | None = None,  # who are not members; else all the rest
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Resamples:
    """Draw as many cases as there are, with replacement, members' and non-members' apart."""
    rng = np.random.default_rng(seed)
    rows, sides = np.zeros(len(member), np.int64), []
    for side in (member, ~member if others is None else others):
        names, place = np.unique(cases[side], return_inverse=True)
        rows[side] = place + sum(map(len, sides))
        sides.append(np.zeros((len(names), resamples), np.uint8))
        some = max(AT_ONCE // max(len(names), 1), 1)
        for start in range(0, resamples if len(names) else 0, some):
            drawn = rng.integers(0, len(names), (min(some, resamples - start), len(names)))
            count_draws(drawn, sides[-1], start)
    return Resamples(np.concatenate(sides), rows)


@compiled
def count_draws(drawn, counts, start):
    for number in range(drawn.shape[0]):
        for case in drawn[number]:
            counts[case, start + number] += 1


@compiled
def total(counts, rows):
    found = np.zeros(counts.shape[1], np.int64)
    for row in rows:
        found += counts[row]
    return found


@compiled
def twice_won(counts, rows, member, ends):
    """Twice the pairs of a member and a non-member that the member wins, a tie counting one half, in each resample.

    Records are in order of their scores, runs of equal ones end at ``ends``. ``below`` is twice what non-members weigh
    that score less, and within a run once those of the run besides.
    """
    below = np.zeros(counts.shape[1], np.int64)
    won = np.zeros(counts.shape[1], np.int64)
    start = 0
    for end in ends:
        for place in range(start, end):
            if not member[place]:
                below += counts[rows[place]]
        for place in range(start, end):
            if member[place]:
                won += counts[rows[place]] * below
        for place in range(start, end):
            if not member[place]:
                below += counts[rows[place]]
        start = end
    return won
