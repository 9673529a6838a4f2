"""Numbers met before, in little memory."""

import numpy as np

from pathveil.corpus.seen import Seen


def test_numbers_met_before_are_known_however_many_came_since(monkeypatch):
    monkeypatch.setattr(Seen, "RECENT", 3)
    seen, met = Seen(), set()
    for number in [5, 2**64 - 1, 5, 7, 0, 1, 5, 2**64 - 1, 8, 0, 9, 7]:
        assert seen.add(number) == (number not in met)
        met.add(number)


def test_numbers_of_many_batches_are_known(monkeypatch):
    monkeypatch.setattr(Seen, "RECENT", 7)
    generator, seen, met = np.random.default_rng(3), Seen(), set()
    for size in [0, 1, *generator.integers(1, 90, 60)]:
        numbers = generator.integers(0, 2_000, size, dtype=np.uint64) * np.uint64(2**53 + 5)
        new = []
        for number in numbers.tolist():
            new.append(number not in met)
            met.add(number)
        assert seen.add_all(numbers).tolist() == new
        assert not met or not seen.add(min(met))
    assert sum(map(len, seen.sorted)) == len(met) and len(seen.sorted) < 10
