"""How much each site counts: its documents as it tells them once, bounded so that no site can take the average over.

A site tells how many documents it trains on when a run begins, and nobody can check that. What it tells decides two
things: how many steps an epoch has, and how much its updates weigh. So claims are bounded (``bounded``): by what the
plan says of each site, or where it says nothing, by a multiple of what the other sites have (``largest_weight``). From
the bounded counts everything else follows: hub and sites work out the same steps and the same weights from them, and a
site never tells a weight again.

One of seven sites that claims any number then weighs at most 3 / (3 + 6) of the average, and cannot make the others'
batches smaller than their own floor (``own_batches``).

>>> bounded([400, 500, 10**9], largest_weight=3)
[400, 500, 1200]
>>> steps_of([400, 500, 1200], 64)
33
>>> [weight_of(100, steps=33, step=step) for step in (0, 1, 2)]
[4, 3, 3]
"""

from collections.abc import Sequence


def bounded(documents: Sequence[int], *, largest_weight: float | None) -> list[int]:
    """The counts that steps and weights follow from: none above ``largest_weight`` times the median of the others'.

    The median is the lower one, so that of two others the larger cannot raise it.
    """
    if largest_weight is None or len(documents) < 2:
        return list(documents)
    most = []
    for place in range(len(documents)):
        others = sorted([*documents[:place], *documents[place + 1 :]])
        most.append(max(1, int(largest_weight * others[(len(others) - 1) // 2])))
    return [min(own, bound) for own, bound in zip(documents, most, strict=True)]


def steps_of(documents: Sequence[int], batch_size: int) -> int:
    """Steps of an epoch, so that a step takes about ``batch_size`` documents over all sites and one of each at least.

    >>> steps_of([900, 300], 64), steps_of([10, 1], 2)
    (19, 1)
    """
    return max(1, min(-(-sum(documents) // batch_size), min(documents)))


def weight_of(count: int, *, steps: int, step: int) -> int:
    """The documents that a site with so many has in a step of an epoch, as ``np.array_split`` deals them out."""
    return count // steps + (step < count % steps)
