"""Every refusal of the table: its outcome, what it names, and that nothing is left or shown."""

import contextlib
import os
from functools import cache

import adapter
import pytest
import typer.main
from refusals import Refusals, read_rows


@pytest.fixture(scope="module")
def refusals(tmp_path_factory, one_thread):
    with contextlib.ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        patch.delenv("PATHVEIL_CACHE", raising=False)
        patch.setattr(typer.main, "get_command", cache(typer.main.get_command))  # else it is built for each row
        stack.callback(os.umask, os.umask(0o022))
        for cached in (adapter.model, adapter.counts):
            cached.cache_clear()
            stack.callback(cached.cache_clear)
        yield Refusals(tmp_path_factory.mktemp("refusals"), stack)


@pytest.mark.parametrize("row", list(read_rows()), ids=str)
def test_a_refusal(refusals, row):
    faults = refusals.faults(row)
    assert not faults, "\n".join(faults)
