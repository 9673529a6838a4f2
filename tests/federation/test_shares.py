"""What sites claim is bounded, and steps and weights follow from it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pathveil.federation.shares import bounded, steps_of, weight_of

counts = st.lists(st.integers(1, 5000), min_size=2, max_size=8)


@given(counts, st.integers(0, 7), st.integers(1, 10**9), st.sampled_from([1.0, 3.0]))
def test_no_claim_takes_the_average_over_or_changes_what_others_weigh_by_much(honest, place, claim, most):
    place %= len(honest) + 1
    told = [*honest[:place], claim, *honest[place:]]
    weights = bounded(told, largest_weight=most)
    assert all(0 < weight <= told for weight, told in zip(weights, told, strict=True))
    # However large the claim is, it counts for no more than a multiple of an honest site's documents.
    assert weights[place] <= max(1, most * max(honest))
    if len(set(honest)) == 1 and most * honest[0] >= 1:
        assert weights[place] / sum(weights) <= most / (most + len(honest)) + 1e-9 or claim <= honest[0]
        if len(honest) > 1:  # nor does it push down what an honest one of several counts for
            assert [weight for at, weight in enumerate(weights) if at != place] == honest or claim < honest[0]


def test_without_a_bound_counts_are_as_told():
    assert bounded([5, 10**9], largest_weight=None) == [5, 10**9]
    assert bounded([5, 10**9], largest_weight=3) == [5, 15] and bounded([7], largest_weight=3) == [7]


@given(st.integers(1, 400), st.integers(1, 60))
def test_weights_are_the_documents_that_numpy_deals_out(count, steps):
    sizes = [len(part) for part in np.array_split(np.arange(count), steps)]
    assert [weight_of(count, steps=steps, step=step) for step in range(steps)] == sizes


@pytest.mark.parametrize(("documents", "steps"), [([900, 300], 19), ([10, 1], 1), ([640], 10)])
def test_steps_of_an_epoch(documents, steps):
    assert steps_of(documents, 64) == steps
