"""Resamples against scikit-learn on the drawn records, and against NumPy's plain bincount."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from auditing.test_metrics import scored
from pathveil.auditing import resamples
from pathveil.auditing.resamples import resample


@given(scored(), st.integers(0, 3))
def test_the_auc_is_that_of_the_drawn_records(case, seed):
    scores, member = case
    drawn = resample(member, np.arange(len(member)) // 2 + 1000 * member, resamples=5, seed=seed)
    for found, times in zip(drawn.auc(scores, member), drawn.counts[drawn.rows].T, strict=True):
        rows = np.repeat(np.arange(len(member)), times)
        assert found == pytest.approx(roc_auc_score(member[rows], scores[rows]), abs=1e-12)


def test_a_resample_without_members_has_no_auc():
    member = np.array([True, True, False])
    drawn = resample(member, np.arange(3), resamples=40)
    part = np.array([True, False, True])
    found = drawn.of(part).auc(np.array([2.0, 1.0]), member[part])
    assert (np.isnan(found) == (drawn.of(np.array([True, False, False])).times() == 0)).all() and np.isnan(found).any()


def test_cases_are_drawn_whole_and_sides_apart(monkeypatch):
    rng = np.random.default_rng(3)
    member, cases = rng.random(700) < 0.4, rng.integers(0, 90, 700)  # some cases on both sides
    others = ~member & (rng.random(700) < 0.8)
    monkeypatch.setattr(resamples, "AT_ONCE", 1000)  # several blocks draw what one does
    drawn = resample(member, cases, others=others, resamples=50, seed=4)
    plain = np.random.default_rng(4)
    for side in (member, others):
        names, place = np.unique(cases[side], return_inverse=True)
        times = [np.bincount(row, minlength=len(names)) for row in plain.integers(0, len(names), (50, len(names)))]
        assert (drawn.counts[drawn.rows[side]] == np.array(times).T[place]).all()
        assert (drawn.of(side).times() == np.array(times).T[place].sum(0)).all()
    assert (resample(member, cases, resamples=9).counts != resample(member, cases, resamples=9, seed=1).counts).any()
