"""Progress in a log and on a terminal: a line a minute, one figure for a whole run, and never on stdout."""

import ctypes
import io
import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time

import pytest
import typer

from pathveil.cli.console import Lines, Pace, bar, emit, progress_bars, resumable
from pathveil.results import Result
from pathveil.untrusted.text import UNPRINTABLE

WHOLE = ("cells", "reports to train")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_log_gets_a_line_a_minute_and_one_at_the_end_of_a_study():
    clock, lines = Clock(), list[str]()
    log = Lines(WHOLE, Pace(clock), lines.append)
    for step in range(301):  # 300 s, a report of progress a second; half the work is that of the first 100 cells
        clock.now = float(step)
        log.show(WHOLE[1], step * 10, 3000)
        log.show(WHOLE[0], step, 400)
        log.show("target R1 B", step % 8, 8)
        if step in (100, 300):
            log.show("vocabulary study" if step == 100 else "combined study", step, step)
    assert len(lines) == 6  # at 60, 100, then every 60 s, and 300
    assert lines[0] == "60 of 400 cells; target R1 B 3 of 8; 0:01:00 gone, about 0:04:00 left"
    assert "100 of 400 cells; vocabulary study 100 of 100; 0:01:40 gone, about 0:03:20 left" in lines
    assert lines[-1] == "300 of 400 cells; combined study 300 of 300; 0:05:00 gone, about 0:00:00 left"


def test_what_was_finished_before_is_not_this_runs_pace():
    clock = Clock()
    pace = Pace(clock)
    clock.now = 5.0
    pace.note(900, 1000)
    assert pace.left is None  # nothing is done yet
    clock.now = 15.0
    pace.note(910, 1000)
    assert pace.left == pytest.approx(15 * 90 / 10)
    clock.now = 2000.0  # only the last ten minutes count
    pace.note(920, 1000)
    clock.now = 2010.0
    pace.note(930, 1000)
    assert pace.left == pytest.approx((2010 - 15) * 70 / 20)


def test_a_short_command_leaves_the_log_alone(capsys):
    with bar() as show:
        for done in range(100):
            show("reading reports", done, 100)
    assert capsys.readouterr() == ("", "")


def test_other_commands_write_a_line_a_minute_too():
    clock, lines = Clock(), list[str]()
    log = Lines(None, Pace(clock), lines.append)
    for step in range(0, 150, 10):
        clock.now = float(step)
        log.show("reading reports", step, 0)
    assert lines == ["reading reports 60; 0:01:00", "reading reports 120; 0:02:00"]


def test_on_a_terminal_one_line_has_the_clock():
    from rich.console import Console

    text, clock = io.StringIO(), Clock()
    console = Console(file=text, force_terminal=True, width=120)
    with progress_bars(console, WHOLE, Pace(clock)) as show:
        show(WHOLE[1], 0, 1000)
        clock.now = 60.0
        show(WHOLE[1], 250, 1000)
        show(WHOLE[0], 5, 138)
        show("target R1 B", 3, 8)
    final = [line for line in text.getvalue().splitlines() if "cells" in line or "target" in line][-2:]
    assert sum("0:01:00 gone, about 0:03:00 left" in line for line in final) == 1
    (current,) = [line for line in final if "target R1 B" in line]
    assert "3/8" in current and "0:0" not in current


CODE = """
from pathveil.cli.console import bar
with bar({whole}) as progress:
    progress("a study", 0, 10)
    for number in range(3):
        progress(f"unit {{number}}", 1, 1)
        progress("a study", number + 1, 10)
"""


def screen_of(whole: str) -> str:
    """What is on the screen at the end."""
    environment = os.environ | {"FORCE_COLOR": "1", "COLUMNS": "120", "TERM": "xterm"}
    command = [sys.executable, "-c", CODE.format(whole=whole)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stderr.split("\x1b[2K")[-1] + done.stderr


def test_a_long_run_has_one_bar_and_the_unit_in_hand():
    screen = screen_of('("a study", "work")')
    last = screen.rsplit("a study", 1)[1]
    assert "3/10" in last and "unit 2" in screen and "unit 0" not in screen.rsplit("unit 2", 1)[1]


def test_otherwise_each_stage_has_a_bar():
    last = screen_of("").rsplit("a study", 1)[1]
    assert all(f"unit {number}" in last for number in range(3))


def test_ctrl_c_where_python_cannot_raise_it_is_not_lost(capsys):
    """As in the compiler's callbacks: what is raised in a function that C calls is told and forgotten."""
    callback = ctypes.CFUNCTYPE(None)(lambda: signal.raise_signal(signal.SIGINT))
    went_on, before = [], sys.unraisablehook
    with pytest.raises(typer.Exit) as end, resumable():
        callback()
        went_on.append(True)
        threading.Event().wait(300)
    assert went_on and end.value.exit_code == 130
    assert capsys.readouterr().err == "Stopped; what is finished is kept: the same command goes on from there.\n"
    assert sys.unraisablehook is before


INSIDE = """
import signal, typer
from pathveil.cli.console import resumable
app = typer.Typer()
@app.command()
def run():
    with resumable():
        exec("signal.raise_signal(signal.SIGINT)")
app()
"""


def test_ctrl_c_in_code_made_from_text_has_its_exit_code(tmp_path):
    (tmp_path / "inside.py").write_text(INSIDE)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    done = subprocess.run([sys.executable, "-m", "inside"], capture_output=True, text=True, env=environment)
    assert done.returncode == 130 and done.stderr.startswith("Stopped; "), done


class Named(Result):
    name: str

    def summary(self) -> str:
        return f"registry {self.name}"


def test_a_name_does_not_rewrite_the_screen(capsys):
    """Escapes in names from files reach no terminal; a program reads the same JSON as before."""
    name = "R1\x1b[2J\x9b1m\u202e\x7f"
    emit(Named(name=name), as_json=False)
    assert capsys.readouterr().out == "registry R1�[2J�1m��\n"
    emit(Named(name=name), as_json=True)
    written = capsys.readouterr().out
    assert not UNPRINTABLE.search(written) and json.loads(written) == {"name": name}


def test_an_error_does_not_rewrite_the_screen(tmp_path):
    done = run_command("vocab", "exposure", str(tmp_path / "a\x1b[2J.json"), "none.parquet")
    assert done.returncode == 2 and "\x1b" not in done.stderr and "a�[2J.json" in done.stderr


def run_command(*arguments):
    command = [sys.executable, "-m", "pathveil", *arguments]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.parametrize("command", ["import", "check"])
def test_an_ended_program_leaves_no_texts(tmp_path, command):
    """SIGTERM, as schedulers and containers give it, in the middle of a table that never seems to end."""
    with sqlite3.connect(tmp_path / "lab.db") as database:
        database.execute(
            "create view reports as with recursive n(x) as (select 1 union all select x + 1 from n limit 900000) "
            "select 'r' || x as report_id, x as case_id, 'R' as registry, 'colon, biopsy ' || x as text from n"
        )
    (tmp_path / "map.toml").write_text('dates = "dd/mm/yyyy"\n')
    (tmp_path / "tmp").mkdir()
    told = ["--out", tmp_path / "c.parquet"] if command == "import" else ["--map", tmp_path / "map.toml"]
    program = subprocess.Popen(
        [sys.executable, "-m", "pathveil", "corpus", command, tmp_path / "lab.db", *told],
        env=os.environ | {"TMPDIR": str(tmp_path / "tmp")},
        stderr=subprocess.PIPE,
    )
    while not list(tmp_path.rglob("*.part")):
        assert program.poll() is None, program.stderr.read()
        time.sleep(0.01)
    program.terminate()
    assert program.wait() == 130
    assert not list(tmp_path.rglob("*.part")) and not list((tmp_path / "tmp").iterdir())
    program.stderr.close()


def test_what_runs_in_the_background_can_be_ended(tmp_path):
    """A script's background jobs hear no ctrl-C; SIGTERM ends them all the same."""
    work = "print('at work', flush=True)\n    while True: time.sleep(0.01)"
    code = f"import time\nfrom pathveil.cli.console import ended_like_ctrl_c\nwith ended_like_ctrl_c():\n    {work}"
    deaf = ["sh", "-c", "trap '' INT; exec \"$@\"", "sh", sys.executable, "-c", code]
    with subprocess.Popen(deaf, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as program:
        assert program.stdout.readline() == b"at work\n"
        program.terminate()
        try:
            assert program.wait(timeout=60) == 130
        finally:
            program.kill()
