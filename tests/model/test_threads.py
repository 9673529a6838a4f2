"""Work divided among threads, and jobs side by side."""

import threading

import pytest
import torch

from pathveil.model.threads import side_by_side, spread


@pytest.fixture
def four_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


def test_jobs_share_pytorchs_threads_and_answer_in_their_order(four_threads):
    together = threading.Barrier(2)

    def job(number):
        together.wait(timeout=10)  # passes only if the two are at work at once
        done = []
        spread(done.append, range(5))
        return number, torch.get_num_threads(), sorted(done)

    found = side_by_side([lambda number=number: job(number) for number in range(2)])
    assert found == [(0, 2, [0, 1, 2, 3, 4]), (1, 2, [0, 1, 2, 3, 4])]
    assert torch.get_num_threads() == 4


def test_a_thread_of_a_pool_starts_no_more_threads(four_threads):
    seen = []
    spread(lambda _: seen.append((torch.get_num_threads(), threading.current_thread().name)), range(8))
    assert {number for number, _ in seen} == {1} and all(name.startswith("pathveil") for _, name in seen)


def test_a_job_that_fails_stops_the_others(four_threads):
    stop, begun = threading.Event(), []

    def patient(number):
        begun.append(number)
        assert stop.wait(timeout=10)

    def fails():
        raise ValueError("diverged")

    jobs = [fails, *(lambda number=number: patient(number) for number in range(9))]
    with pytest.raises(ValueError, match="diverged"):
        side_by_side(jobs, stop=stop)
    assert stop.is_set() and len(begun) < 9, "those that waited never began"
    assert torch.get_num_threads() == 4


def test_with_one_thread_jobs_run_here(monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    here = threading.get_ident()
    assert side_by_side([threading.get_ident] * 3) == [here] * 3
