"""The command line as a whole: light, and clear when something is wrong."""

import subprocess
import sys

HEAVY = ("torch", "numba", "sklearn", "matplotlib", "polars", "scipy", "pydantic")


def test_help_imports_nothing_heavy():
    code = f"import sys, pathveil.cli; print([m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


def test_help_lists_the_commands(pathveil):
    done = pathveil("--help")
    assert done.returncode == 0
    assert "demo" in done.stdout


def test_an_unknown_command_is_bad_usage(pathveil):
    done = pathveil("nonsense")
    assert done.returncode == 2
    assert "nonsense" in done.stderr and "Traceback" not in done.stderr


def test_version(pathveil):
    assert pathveil("--version").stdout.startswith("pathveil 0.")
