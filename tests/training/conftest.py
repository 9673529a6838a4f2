"""Tiny models: threads would cost more than they give, and much more on a busy machine."""

import os

import numba
import pytest
import torch


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    before = torch.get_num_threads(), numba.get_num_threads()
    variables = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    kept = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)  # for processes that a test starts
    torch.set_num_threads(1)
    numba.set_num_threads(1)
    yield
    torch.set_num_threads(before[0])
    numba.set_num_threads(before[1])
    for name, value in kept.items():
        os.environ.pop(name) if value is None else os.environ.update({name: value})
