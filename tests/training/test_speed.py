"""The calibration behind ``--plan``: known costs are found again, on a slow device and on a fast one."""

import numpy as np
import pytest

from pathveil.training import speed as speeds


@pytest.mark.parametrize("document", [2e-3, 3e-6])
def test_known_costs_are_found_again(monkeypatch, document):
    clock, trials = [0.0], list[tuple[int, int]]()
    rng = np.random.default_rng(1)

    def trial(epochs: int, reads: int) -> None:
        clock[0] += 0.0 if trials else 1.5  # the first compiles
        trials.append((epochs, reads))
        starting = 0.35 + rng.normal(0, 0.01)  # seconds, which vary
        clock[0] += 16 * (starting / 16 + epochs * 400 * document + reads * document / 3)

    monkeypatch.setattr(speeds, "perf_counter", lambda: clock[0])
    speed = speeds.speed_of(trial, models=16, documents=400, reads=400)
    assert speed.document == pytest.approx(document, rel=0.1)
    assert speed.read == pytest.approx(document / 3, rel=0.1)
    assert speed.fixed == pytest.approx(0.35 / 16, rel=0.5)
    assert speed.first == pytest.approx(1.5, abs=0.1)
    slow = document > 1e-3
    assert (len(trials) == 4) == slow  # a slow device has nothing more to do


def test_a_range_allows_for_other_epochs_and_for_a_busy_machine():
    epochs = speeds.ranged(10.0, more=6.0, less=3.0)
    assert epochs["low"] == pytest.approx(7.0 / speeds.VARIES)
    assert epochs["high"] == pytest.approx(16.0 * speeds.VARIES)
