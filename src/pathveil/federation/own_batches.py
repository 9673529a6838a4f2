"""Which of its documents a site takes in each step of an epoch: an order of its own, and never a batch of a few.

The order follows from a secret of the site (``protocol/secret.py``), not from what the hub knows: whoever knew it could
intersect the batches of several epochs and tell which words stand together in one report. In one process, where there
is nobody to hide from, the secret follows from the run's seed.

Every batch has reports of at least ``least`` cases, whatever the number of steps. Where a site's share of a step is
smaller it is filled up with other reports of the site's, drawn anew. Its update then is a better estimate of the same
mean, and weighs as its share does (``shares``), so that filling up moves no weight between sites.

>>> rng = np.random.default_rng(0)
>>> order, cases = np.arange(6), np.array([0, 0, 1, 1, 2, 2])
>>> [rows.tolist() for rows in cut(order, cases, steps=3, least=1, rng=rng)]
[[0, 1], [2, 3], [4, 5]]
>>> [len(np.unique(cases[rows])) for rows in cut(order, cases, steps=3, least=2, rng=rng)]
[2, 2, 2]
"""

import numpy as np

from pathveil.errors import CorpusError
from pathveil.formatting import counted


def cut(order: np.ndarray, cases: np.ndarray, *, steps: int, least: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Rows in an epoch's order as a batch for each step; ``cases`` has every row's case. One of fewer than ``least``
    cases is filled up with rows of other cases, one each."""
    batches = np.array_split(order, steps)
    return batches if least == 1 else [filled_up(rows, order, cases, least=least, rng=rng) for rows in batches]


def filled_up(
    rows: np.ndarray, order: np.ndarray, cases: np.ndarray, *, least: int, rng: np.random.Generator
) -> np.ndarray:
    """A batch with rows of further cases, drawn from all, until there are ``least`` cases."""
    here = np.unique(cases[rows])
    if len(here) >= least:
        return rows
    drawn = rng.permutation(order)
    drawn = drawn[~np.isin(cases[drawn], here)]
    _, first = np.unique(cases[drawn], return_index=True)  # one row a case, the first that was drawn
    return np.concatenate([rows, drawn[np.sort(first)][: least - len(here)]])


def check_enough(cases: np.ndarray, *, least: int, name: str) -> None:
    """Refuse to train where even all of a site's cases together are fewer than a batch must have."""
    have = len(np.unique(cases))
    if have < least:
        raise CorpusError(
            f"{name}: has {counted(have, 'case')} to train on, and a batch must have at least {least} "
            "(smallest_batch); a site this small would show its reports one by one"
        )
