"""``pathveil bench``: our figures beside a reference, as ratios in one run.

The benchmarks are files of a checkout (``benchmarks/<name>.py``), no part of the installed package: they need peers
and large inputs that a user never does. Each has ``add_options(parser)``, ``run(options, progress=…) -> dict`` and
``describe(result) -> str``; its docstring's first line is what the list shows.
"""

import argparse
import ast
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import typer

from pathveil.cli.console import bar, emit
from pathveil.errors import UsageError

FOLDER = Path(__file__).resolve().parents[3] / "benchmarks"  # src/pathveil/cli/ → the checkout's root


def run(
    context: typer.Context,
    name: str = typer.Argument(
        "", metavar="NAME", help="Which benchmark; without it, the list of them.", show_default=False
    ),
) -> None:
    """Measure our speed and memory beside a reference: ratios of two things timed alternately, medians.

    Needs a checkout of the project. `pathveil bench NAME --help` shows what a benchmark can be told.
    """
    arguments = list(context.args)
    if not name or name == "--help":
        typer.echo(context.get_help() + "\n\nBenchmarks:\n" + listing())
        return
    module = load(name)
    parser = argparse.ArgumentParser(prog=f"pathveil bench {name}", description=module.__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--json", action="store_true", help="print the result as JSON on stdout")
    module.add_options(parser)
    options = parser.parse_args(arguments)
    check_counts(options, parser)
    from pathveil.results import Figures

    with bar() as progress:
        found = module.run(options, progress=progress)
    emit(Figures(figures=found, text=module.describe(found)), as_json=options.json)


def check_counts(options: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    """How many of something, where the usual number is one at least, is never none: there would be nothing to time.
    A seed is no such number, and canaries may be left out."""
    for name, value in vars(options).items():
        usual = parser.get_default(name)
        if name not in ("seed", "canaries") and type(usual) is int and type(value) is int and value < 1 <= usual:
            raise UsageError(f"--{name.replace('_', '-')}: expected at least 1, not {value}")


def benchmarks() -> dict[str, Path]:
    if not FOLDER.is_dir():
        raise UsageError(
            "benchmarks are part of a checkout, not of the installed package; clone the project, install it with "
            "pip install -e . and run this there"
        )
    return {path.stem: path for path in sorted(FOLDER.glob("[a-z]*.py"))}


def listing() -> str:
    lines = []
    for name, path in benchmarks().items():
        docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        lines.append(f"  {name:<12} {docstring.partition(chr(10))[0]}")
    return "\n".join(lines)


def load(name: str) -> ModuleType:
    files = benchmarks()
    if name not in files:
        raise UsageError(f"there is no benchmark '{name}'; there are {', '.join(files)}")
    spec = importlib.util.spec_from_file_location(f"benchmarks.{name}", files[name])
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(FOLDER))  # benchmarks share _timing.py
    spec.loader.exec_module(module)
    return module
