"""Layouts: every choice can be written, and every slot it names has values."""

import re
from decimal import Decimal

import pytest

from pathveil.corpus.synth.layouts import DIMENSIONS, HEADINGS, NUMBERS, ORDERS, dimensions, tenths, whole


def test_every_order_has_every_section_once_and_no_house_mixes_two_headings_up():
    for order in ORDERS:
        assert sorted(order) == sorted(HEADINGS)
    written = [heading for headings in HEADINGS.values() for heading in headings]
    assert len(set(written)) == len(written)


@pytest.mark.parametrize("style", DIMENSIONS)
def test_sizes_are_written_with_slots_that_have_values(style):
    between, unit, after = style
    for name, rules in dimensions(style).items():
        for rule in rules:
            slots = re.findall(r"{(\w+)}", rule)
            assert len(slots) == int(re.search(r"\d", name)[0]) and rule.endswith(after) and unit in rule
            assert rule.count(between.strip() or between) >= len(slots) - 1
            assert all(NUMBERS[slot] for slot in slots)


def test_numbers_rise_and_have_one_decimal_or_none():
    for step in (1, 3, 5):
        assert list(tenths(2, 40, step)) == [f"{Decimal(n) / 10:.1f}" for n in range(2, 41, step)]
    assert list(whole(5, 20, 5)) == ["5", "10", "15", "20"]
    for name, values in NUMBERS.items():
        assert len(set(values)) == len(values), name
        if all(re.fullmatch(r"[\d.]+", value) for value in values):
            assert list(values) == sorted(values, key=Decimal), name
