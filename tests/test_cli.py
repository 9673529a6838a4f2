"""The command line as a whole: light, and clear when something is wrong."""

import os
import re
import signal
import subprocess
import sys
import time

import pytest
import typer
from typer.testing import CliRunner

from conftest import ROOT
from pathveil.cli import app, main

HEAVY = ("torch", "numba", "sklearn", "matplotlib", "polars", "scipy", "pydantic")


@pytest.fixture(scope="module")
def small(tmp_path_factory, pathveil):
    """A small corpus of three registries."""
    path = tmp_path_factory.mktemp("corpus") / "reports.parquet"
    assert pathveil("corpus", "synth", "--reports", 200, "--registries", 3, "--out", path).returncode == 0
    return path


def test_help_imports_nothing_heavy():
    code = f"import sys, pathveil.cli; print([m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


def test_help_lists_every_command_with_what_it_does(pathveil):
    done = pathveil("--help")
    assert done.returncode == 0
    listed = dict(re.findall(r"^  (\S+) {2,}(\S.*)$", done.stdout.partition("Commands:")[2], re.M))
    assert set(listed) == set(typer.main.get_command(app).commands) and all(listed.values())
    assert {"demo", "corpus", "vocab", "train", "evaluate", "predict", "audit", "federate", "study"} <= set(listed)


def groups(command, path=()):
    """Every group of commands, as its names."""
    if inside := getattr(command, "commands", None):
        yield path
        for name, other in inside.items():
            yield from groups(other, (*path, name))


def test_no_command_is_introduced_by_half_a_sentence():
    command = typer.main.get_command(app)
    found = list(groups(command))
    assert ("vocab", "agree") in found
    for path in found:
        shown = CliRunner(env={"COLUMNS": "80"}).invoke(app, [*path, "--help"])
        assert shown.exit_code == 0
        assert not [line for line in shown.stdout.splitlines() if line.endswith("...") and "Usage" not in line], path


@pytest.mark.parametrize(
    "command",
    [
        ["vocab", "select", "{corpus}", "--method", "baseline", "--out", "{file}/words.json"],
        ["train", "{corpus}", "--preset", "small", "--epochs", "1", "--out", "{file}/model"],
        ["study", "encode", "{corpus}", "--out", "{file}/encoded"],
        ["federate", "run", "{corpus}", "--mode", "centralized", "--epochs", "1", "--out", "{file}/run"],
    ],
    ids=lambda command: " ".join(command[:2]),
)
def test_a_place_that_cannot_be_written_is_one_sentence(command, small, tmp_path, pathveil):
    (tmp_path / "file").write_text("not a folder")
    places = {"corpus": small, "file": tmp_path / "file"}
    done = pathveil(*[part.format(**places) for part in command])
    assert done.returncode == 2 and not done.stdout, done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("pathveil: ") and str(tmp_path / "file") in line
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("command", [["study", "run", "{study}"], ["federate", "run", "{corpus}"]])
def test_a_folder_that_is_no_run_is_left_alone(command, small, tmp_path, pathveil):
    (tmp_path / "letter.txt").write_text("dear")
    places = {"corpus": small, "study": ROOT / "studies" / "demo.toml"}
    done = pathveil(*[part.format(**places) for part in command], "--out", tmp_path)
    assert done.returncode == 2 and "is no run to go on with" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


@pytest.mark.parametrize("command", [["train", "{corpus}"], ["federate", "run", "{corpus}", "--mode", "single"]])
def test_ctrl_c_says_that_the_same_command_goes_on(command, small, tmp_path):
    call = [sys.executable, "-m", "pathveil", *[part.format(corpus=small) for part in command]]
    process = subprocess.Popen([*call, "--out", tmp_path / "run"], stderr=subprocess.PIPE, text=True)
    while not list(tmp_path.iterdir()):  # until it has begun
        assert process.poll() is None
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    assert "the same command goes on" in process.communicate(timeout=900)[1]
    assert process.returncode == 130


def test_ctrl_c_while_modules_load_is_no_traceback():
    code = """
import runpy, sys

class Interrupted:
    def find_spec(self, name, path=None, target=None):
        if name == "pathveil.cli":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupted())
runpy.run_module("pathveil", run_name="__main__")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "Aborted!\n")


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_what_goes_to_a_file_or_a_program_is_utf8_wherever_we_run(small, encoding):
    command = [sys.executable, "-m", "pathveil", "corpus", "check", small]
    done = subprocess.run(command, capture_output=True, env=os.environ | {"PYTHONIOENCODING": encoding})
    assert done.returncode == 0 and "200 reports ·" in done.stdout.decode() and "█" in done.stdout.decode(), done.stderr


def test_an_unknown_command_is_bad_usage(pathveil):
    done = pathveil("nonsense")
    assert done.returncode == 2
    assert "nonsense" in done.stderr and "Traceback" not in done.stderr


def test_version(pathveil):
    assert pathveil("--version").stdout.startswith("pathveil 0.")


def refusal(capsys) -> str:
    """What a command says that ends as bad usage does."""
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    return capsys.readouterr().err


def test_a_full_gpu_is_one_sentence(monkeypatch, capsys):
    class OutOfMemoryError(RuntimeError):
        """As PyTorch's is called."""

    def full():
        raise OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")

    monkeypatch.setattr("pathveil.cli.app", full)
    assert refusal(capsys) == ("pathveil: the GPU's memory is full; end what else works on it, or take --device cpu\n")


def test_no_place_for_compiled_code_is_one_sentence(monkeypatch, capsys):
    def homeless():
        raise RuntimeError("cannot cache function '_postings': no locator available for file 'counting.py'")  # numba's

    monkeypatch.setattr("pathveil.cli.app", homeless)
    assert refusal(capsys) == (
        "pathveil: compiled code can be kept neither beside the package nor in the user's cache; "
        "set NUMBA_CACHE_DIR to a folder that can be written\n"
    )
