"""The package does what was recorded; and the comparison sees what it should."""

import pytest
from compare import (
    exact_differences,
    judge,
    read_accepted,
    read_records,
    round_numbers,
    run_items,
    statistical_differences,
    tolerant_differences,
)
from items import GROUPS, KNOWN_WRONG

NAMES = [f"{kind}/{name}" for kind, name, _ in GROUPS]


@pytest.fixture(scope="module")
def verdict(one_thread):
    fresh, _, stale = judge(run_items()[0])
    return fresh, stale


@pytest.mark.parametrize("name", NAMES)
def test_the_package_does_what_was_recorded(verdict, name):
    """``make golden`` says the same; ``accepted.toml`` has what may differ."""
    fresh = [one for one in verdict[0] if one.item.startswith(f"{name}/")]
    assert not fresh, "\n".join(map(str, fresh))


def test_the_records_hold_what_is_looked_at(verdict):
    values, wrong = read_records()
    assert {"/".join(item.split("/")[:2]) for item in values} == set(NAMES)
    assert wrong == KNOWN_WRONG and not verdict[1], f"accepted, and differ no more: {verdict[1]}"
    assert all(read_accepted().values())


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ([1, 2, 3], [1, 2, 3], []),
        ({"a": 1}, {"a": 1}, []),
        ("a", "b", ["a → b"]),
        (1, True, ["1 → true"]),
        (["a", "b"], ["a", "c"], ["1 of 2 rows differ", "row 1: b → c"]),
        (["a", "b"], ["b"], ["2 → 1 rows", 'gone: "a"']),
        ({"n": 1, "m": 2}, {"n": 2, "k": 3}, ["n: 1 → 2", "m: is gone; was 2", "k: is new: 3"]),
    ],
)
def test_an_exact_difference_is_named(before, after, expected):
    assert exact_differences(before, after) == expected


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"a": [1.0, "x", None]}, {"a": [1.00005, "x", None]}, []),
        ([0.0, 1e-7], [5e-7, 0.0], []),
        ({"a": [1.0, 2.0]}, {"a": [1.0, 2.001]}, ["a[1]: 2 → 2.001"]),
        ([1.0], [1.0, 2.0], ["value: 1 → 2 rows", "value: new: 2.0"]),
        (["x"], ["y"], ["[0]: x → y"]),
        ([1.0], [None], ["[0]: 1.0 → null"]),
    ],
)
def test_a_number_may_differ_by_little(before, after, expected):
    assert tolerant_differences(before, after) == expected


def test_many_numbers_are_summed_up():
    *first, last = tolerant_differences([1.0] * 9, [1.5] * 9)
    assert len(first) == 5 and last == "and 4 more; the largest relative difference is 0.33"
    assert round_numbers({"a": [1 / 3, float("nan")]}) == {"a": [0.3333333, "nan"]}


def pairs(*figures: float) -> list[dict]:
    return [{"seed": seed, "split": 0, "figures": {"F1": value}} for seed, value in enumerate(figures)]


def test_figures_are_compared_pair_by_pair():
    """Of figures that vary much from seed to seed, a small and steady loss is seen; what seeds explain is none."""
    before = (0.5, 0.6, 0.7, 0.8, 0.9)
    worse = [value - 0.01 + wobble for value, wobble in zip(before, (0.001, -0.001, 0.002, 0.0, -0.002), strict=True)]
    noise = [value + wobble for value, wobble in zip(before, (0.03, -0.02, 0.01, -0.03, 0.02), strict=True)]
    assert statistical_differences(pairs(*before), pairs(*before)) == []
    (line,) = statistical_differences(pairs(*before), pairs(*worse))
    assert line.startswith("F1: -0.0100 over 5 pairs, standard error 0.0007")
    assert statistical_differences(pairs(*before), pairs(*noise)) == []
    assert "5 are needed" in statistical_differences(pairs(0.5), pairs(0.5))[0]
    other = [row | {"figures": {"AUC": 0.5}} for row in pairs(*before)]
    assert statistical_differences(pairs(*before), other) == ["AUC: is there after only", "F1: is there before only"]
