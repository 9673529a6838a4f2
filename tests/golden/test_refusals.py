"""Every refusal of the table: its outcome, what it names, and that nothing is left or shown."""

import contextlib
import os
from functools import cache

import adapter
import pytest
import typer.main
from refusals import Refusals, Row, message_faults, read_rows


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


def test_what_is_no_refusal_is_seen(refusals):
    fields = {"id": "", "files": {"lab.csv": "x"}, "names": ["nowhere"], "absent": [], "leaves": ["old.json"]}
    row = Row(fields, run="vocab select reports.parquet --choose 'cases >= 5' --out new.json")
    *faults, _ = refusals.faults(row)
    expected = ["ends with 0, not 2", "does not name nowhere", "is not one sentence", "leaves new.json"]
    assert faults == [*expected, "leaves no old.json any more"]
    assert not [name for name in ("lab.csv", "new.json") if (refusals.folder / name).exists()]


@pytest.mark.parametrize(
    ("message", "log", "faults"),
    [
        ("pathveil: lab.csv: line 12 is too long", "", []),
        ("pathveil: lab.csv: line 120 is too long", "", ["does not name 12"]),
        ("pathveil: my-lab.csv.gz: line 12", "Zwertowskaja", ["does not name lab.csv", "shows zwertowskaja"]),
        ("lab.csv: line 12\nTraceback (most recent call last)", "", ["is not one sentence", "has a traceback"]),
        ("pathveil: lab.csv: 12, Secret of Zebrowska", "", ["shows secret", "shows zebrowska"]),
    ],
)
def test_a_message_is_read_word_by_word(message, log, faults):
    row = Row(run="", names=["lab.csv", 12], absent=["secret"])
    assert message_faults(row, message, log) == faults
