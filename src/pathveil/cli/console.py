"""What every command shares: the progress bar on stderr and results on stdout."""

import json
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

import typer

from pathveil.progress import Progress

JSON_OPTION = typer.Option(False, "--json", help="Print the result as JSON on stdout.")


@contextmanager
def bar(main: Sequence[str] = ()) -> Generator[Progress]:
    """A progress callback that draws one bar a stage on stderr (nothing when stderr is not a terminal).

    Where ``main`` names the stages of a long run, only they keep bars; whatever else goes on shares one line.
    """
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
    # Units of a study differ: the time left comes from the pace of the last ten minutes.
    with Bars(*columns, console=console, disable=not console.is_terminal, speed_estimate_period=600) as bars:
        stages: dict[str, Any] = {}
        current = bars.add_task("", total=None, visible=False) if main else None

        def show(stage: str, done: int, total: int) -> None:
            if main and stage not in main and current is not None:
                bars.update(current, description=f"  {stage}", completed=done, total=total or None, visible=True)
                return
            if stage not in stages:
                stages[stage] = bars.add_task(stage, total=total or None)
            bars.update(stages[stage], completed=done, total=total or None)

        yield show


@contextmanager
def resumable() -> Generator[None]:
    """Around work that the same command goes on with: ctrl-C says so, with exit code 130."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo("Stopped; what is finished is kept: the same command goes on from there.", err=True)
        raise typer.Exit(130) from None


def emit(result: dict[str, Any], *, as_json: bool, text: str) -> None:
    """Print a result: the JSON for programs, or the text for people."""
    if as_json:
        json.dump(result, sys.stdout, indent=2, ensure_ascii=False)
        sys.stdout.write("\n")
    else:
        typer.echo(text)
