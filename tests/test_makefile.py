"""The newcomer's first command says what is missing, and leaves nothing behind that the next try would trip over."""

import shutil
import subprocess
import sys

import pytest

from conftest import ROOT

make = shutil.which("make")
pytestmark = pytest.mark.skipif(make is None, reason="make is not on this machine")


def run_make(tmp_path, python: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "python").write_text(f"#!/bin/sh\n{python}\n")
    (tmp_path / "python").chmod(0o755)
    venv = tmp_path / "venv"
    command = ["make", f"VENV={venv}", f"PYTHON={tmp_path / 'python'}", f"{venv}/bin/python"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2 and not (venv / "bin" / "python").exists()
    return done


def test_an_older_python_is_named(tmp_path):
    as_old = "import sys; sys.version_info, sys.version = (3, 10, 1), sys.argv[1]; exec(sys.argv[2])"
    done = run_make(tmp_path, f"exec {sys.executable} -c '{as_old}' '3.10.1 (main)' \"$2\"")
    assert f"Pathveil needs Python 3.11 or newer; {tmp_path / 'python'} is 3.10.1." in done.stderr


def test_an_environment_that_could_not_be_finished_is_begun_again(tmp_path):
    """Debian's Python makes half of one where its package for environments is missing."""
    made = f"mkdir -p {tmp_path}/venv/bin && touch {tmp_path}/venv/bin/python && echo 'ensurepip is not there' >&2"
    done = run_make(tmp_path, f'[ "$1" = -c ] || {{ {made}; exit 1; }}')
    assert "ensurepip is not there" in done.stderr
