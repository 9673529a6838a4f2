"""Figures of agreement against scikit-learn, SciPy and pandas-like counting by hand."""

import numpy as np
import polars as pl
import pytest
from scipy.stats import binom
from sklearn.metrics import cohen_kappa_score

from pathveil.serve.agreement import check_promises, kappa, model_agreement, two_people

MONTHS = ("2026-09-30T10:00", "2026-10-01T10:00", "2026-11-16T09:00")
CODES = {"site": ["C50", "C61", "C18"], "behavior": ["2", "3"]}


@pytest.fixture(scope="module")
def decisions():
    """Cases of one to two tumours, decided by one or two people; sometimes somebody sees a tumour more."""
    rng = np.random.default_rng(5)

    def draw(number):
        return [{task: str(rng.choice(names)) for task, names in CODES.items()} for _ in range(number)]

    found = []
    for case in range(400):
        proposed = draw(1 + case % 2)
        abstained = [[task for task in CODES if rng.random() < 0.3] for _ in proposed]
        for round_ in range(1, 2 + case % 3 // 2 + (case % 7 == 0)):
            codes = [one if rng.random() < 0.8 else draw(1)[0] for one in proposed] + draw(case % 5 == 0)
            found.append(
                {"case_key": str(case), "round": round_, "codes": codes, "proposed": proposed, "abstained": abstained}
                | {"made": MONTHS[case % 3]}
            )
    return found


def long(decisions):
    """A row for each code that both a person and the model have, in a table."""
    return pl.DataFrame(
        [
            {
                "case": row["case_key"], "round": row["round"], "month": row["made"][:7], "tumour": number,
                "task": task, "code": codes[task], "proposed": row["proposed"][number][task],
                "sure": task not in row["abstained"][number],
            }
            for row in decisions
            for number, codes in enumerate(row["codes"][: len(row["proposed"])])
            for task in CODES
        ]
    ).with_columns(kept=pl.col("code") == pl.col("proposed"))  # fmt: skip


def test_kappa_is_scikit_learns(decisions):
    rng = np.random.default_rng(0)
    for _ in range(20):
        pairs = [(str(a), str(b)) for a, b in rng.integers(0, 4, (50, 2))]
        assert kappa(pairs) == pytest.approx(cohen_kappa_score(*zip(*pairs, strict=True)), abs=1e-12)
    assert kappa([]) is None and kappa([("a", "a")] * 3) is None
    everything = {
        (row["case_key"], row["round"], number): codes for row in decisions for number, codes in enumerate(row["codes"])
    }
    for found in two_people(decisions):
        twice = [(everything[key], everything[key[0], 2, key[2]]) for key in everything
                 if key[1] == 1 and (key[0], 2, key[2]) in everything]  # fmt: skip
        one, other = ([pair[side][found.task] for pair in twice] for side in (0, 1))
        assert (found.cases, found.same) == (len(one), sum(map(str.__eq__, one, other)))
        assert found.kappa == pytest.approx(cohen_kappa_score(one, other), abs=1e-12)


def test_agreement_over_time_is_a_tables(decisions):
    table = long(decisions).filter(pl.col("round") == 1).group_by("task", "month")
    expected = table.agg(cases=pl.len(), kept=pl.col("kept").sum()).rows()
    found = [(one.task, one.period, one.cases, one.kept) for one in model_agreement(decisions)]
    assert sorted(found) == sorted(expected) and len(found) == 6


def test_promises_are_checked_on_what_the_model_was_sure_of(decisions):
    table = long(decisions).filter((pl.col("round") == 1) & pl.col("sure")).group_by("task")
    expected = {task: (n, kept) for task, n, kept in table.agg(n=pl.len(), kept=pl.col("kept").sum()).rows()}
    for promised in (0.5, 0.85, 0.87, 0.9, 0.99):
        for one in check_promises(decisions, {"site": promised}):
            assert (one.sure, one.kept) == expected[one.task]
            if one.task != "site":
                assert one.holds is None and one.promised is None
                continue
            chance = binom.cdf(one.kept, one.sure, promised)  # of so few or fewer, if the promise holds
            if chance < 0.01 or chance > 0.05:
                assert one.holds == (chance > 0.03)
    few = check_promises(decisions[:9], {"site": 0.99})
    assert all(one.holds is None for one in few)
