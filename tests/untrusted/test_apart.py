"""A process of its own: what it says comes back, what it breaks on ends it alone."""

import os

import pytest

from conftest import ROOT
from pathveil.errors import UsageError
from pathveil.untrusted import Refused
from pathveil.untrusted.apart import run_apart


@pytest.fixture(autouse=True)
def the_other_process_finds_our_module(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")]))


def test_answers_and_errors_come_back():
    assert run_apart("posixpath", "basename", "/a/b") == "b"
    with pytest.raises(UsageError, match=r"none\.json: cannot be read"):
        run_apart("foreign_reader", "read")


@pytest.mark.parametrize("how", ["abort", "memory"])
def test_an_end_by_a_signal_is_a_refusal(how):
    with pytest.raises(Refused, match="made to break its reader"):
        run_apart("foreign_reader", how, memory=2 << 30)


def test_what_takes_too_long_is_stopped():
    with pytest.raises(Refused, match="too long"):
        run_apart("foreign_reader", "wait", seconds=1)
