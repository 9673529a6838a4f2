"""Batches of a site: every document once, and never fewer cases than agreed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pathveil.errors import CorpusError
from pathveil.federation.own_batches import check_enough, cut


@given(st.lists(st.integers(0, 12), min_size=8, max_size=60), st.integers(1, 70), st.integers(1, 5), st.integers(0, 9))
def test_every_document_comes_up_and_every_batch_has_enough_cases(cases, steps, least, seed):
    cases, rng = np.array(cases), np.random.default_rng(seed)
    least = min(least, len(np.unique(cases)))
    order = rng.permutation(len(cases))
    batches = cut(order, cases, steps=steps, least=least, rng=rng)
    plain = np.array_split(order, steps)
    assert len(batches) == steps
    for rows, share in zip(batches, plain, strict=True):
        assert rows[: len(share)].tolist() == share.tolist()  # its own share first, as it would be without a floor
        assert len(np.unique(rows)) == len(rows)
        if least > 1:
            assert len(np.unique(cases[rows])) >= least
        assert len(np.unique(cases[rows])) <= max(least, len(np.unique(cases[share])))


def test_a_site_that_is_smaller_than_a_batch_is_told_so():
    check_enough(np.array([1, 1, 2]), least=2, name="north")
    with pytest.raises(CorpusError, match=r"north: has 2 cases to train on, and a batch must have at least 3"):
        check_enough(np.array([1, 1, 2]), least=3, name="north")
