"""The progress display: bars for the stages of a long run, one line for whatever is in hand."""

import os
import subprocess
import sys

CODE = """
from pathveil.cli.console import bar
with bar({main}) as progress:
    progress("a study", 0, 10)
    for number in range(3):
        progress(f"unit {{number}}", 1, 1)
        progress("a study", number + 1, 10)
"""


def drawn(main: str) -> str:
    """What is on the screen at the end."""
    environment = os.environ | {"FORCE_COLOR": "1", "COLUMNS": "120", "TERM": "xterm"}
    command = [sys.executable, "-c", CODE.format(main=main)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stderr.split("\x1b[2K")[-1] + done.stderr


def test_a_long_run_has_one_bar_and_the_unit_in_hand():
    screen = drawn('("a study",)')
    last = screen.rsplit("a study", 1)[1]
    assert "3/10" in last and "unit 2" in screen and "unit 0" not in screen.rsplit("unit 2", 1)[1]


def test_without_main_stages_each_has_a_bar():
    last = drawn("()").rsplit("a study", 1)[1]
    assert all(f"unit {number}" in last for number in range(3))
