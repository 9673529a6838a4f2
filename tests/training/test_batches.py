"""Batches: every document once, decided by seed and epoch alone."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pathveil.training.batches import hold_out_cases, plan, spans

LENGTHS = st.lists(st.integers(0, 50), min_size=1, max_size=300).map(np.array)


@given(LENGTHS, st.integers(1, 20), st.sampled_from(["random", "length"]))
def test_every_document_comes_once(lengths, batch_size, order):
    batches = plan(lengths, batch_size=batch_size, seed=3, epoch=1, order=order)
    assert sorted(np.concatenate(batches)) == list(range(len(lengths)))
    assert max(map(len, batches)) <= batch_size
    assert len(batches) == -(-len(lengths) // batch_size)


@pytest.mark.parametrize("order", ["random", "length"])
def test_seed_and_epoch_decide(order):
    lengths = np.random.default_rng(0).integers(1, 900, 500)

    def flat(seed, epoch):
        return np.concatenate(plan(lengths, batch_size=32, seed=seed, epoch=epoch, order=order)).tolist()

    assert flat(1, 0) == flat(1, 0)
    assert flat(1, 0) != flat(1, 1)
    assert flat(1, 0) != flat(2, 0)
    assert flat([1, 5], 0) != flat([1, 6], 0)


def test_a_plan_leaves_the_global_generator_alone():
    np.random.seed(5)
    before = np.random.get_state()[1].copy()  # ty: ignore[not-subscriptable]
    plan(np.ones(20, int), batch_size=4, seed=1, epoch=0)
    assert (np.random.get_state()[1] == before).all()


def test_length_order_makes_batches_of_equals():
    lengths = np.random.default_rng(0).integers(1, 1500, 3000)
    spread = {
        order: np.mean([np.ptp(lengths[rows]) for rows in plan(lengths, batch_size=32, seed=0, epoch=0, order=order)])
        for order in ("random", "length")
    }
    assert spread["length"] < 0.1 * spread["random"]


@given(LENGTHS, st.integers(1, 200))
def test_spans_cover_in_order_and_stay_small(lengths, tokens):
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    found = list(spans(offsets, tokens=tokens))
    assert found[0][0] == 0 and found[-1][1] == len(lengths)
    for (_, stop), (start, _) in pairwise(found):
        assert stop == start
    for start, stop in found:
        assert stop == start + 1 or offsets[stop] - offsets[start] <= tokens


@given(st.lists(st.integers(0, 30), min_size=2, max_size=200).filter(lambda c: len(set(c)) > 1), st.floats(0, 1))
def test_no_case_is_on_both_sides(cases, share):
    cases = np.array(cases)
    train, held = hold_out_cases(cases, share=share, seed=1)
    assert not set(cases[train]) & set(cases[held])
    assert sorted([*train, *held]) == list(range(len(cases)))
    assert len(train) and len(held)


def test_parts_hold_every_case_out_once():
    cases = np.arange(100).repeat(2)
    held = [hold_out_cases(cases, share=0.1, seed=1, part=part)[1] for part in range(10)]
    assert sorted(np.concatenate(held)) == list(range(200))
