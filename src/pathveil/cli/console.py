"""What every command shares: the progress bar on stderr and results on stdout."""

import json
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import typer

from pathveil.progress import Progress

JSON_OPTION = typer.Option(False, "--json", help="Print the result as JSON on stdout.")


@contextmanager
def bar() -> Generator[Progress]:
    """A progress callback that draws one bar a stage on stderr (nothing when stderr is not a terminal)."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Bars(*columns, console=console, disable=not console.is_terminal) as bars:
        stages: dict[str, Any] = {}

        def show(stage: str, done: int, total: int) -> None:
            if stage not in stages:
                stages[stage] = bars.add_task(stage, total=total or None)
            bars.update(stages[stage], completed=done, total=total or None)

        yield show


def emit(result: dict[str, Any], *, as_json: bool, text: str) -> None:
    """Print a result: the JSON for programs, or the text for people."""
    if as_json:
        json.dump(result, sys.stdout, indent=2, ensure_ascii=False)
        sys.stdout.write("\n")
    else:
        typer.echo(text)
