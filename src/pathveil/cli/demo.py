"""``pathveil demo``: everything, small, on the embedded corpus."""

from pathlib import Path

import typer

from pathveil.cli.console import JSON_OPTION, bar, emit


def run(
    out: Path = typer.Option(Path("demo"), "--out", help="Folder to write to."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Everything, small, on the embedded corpus."""
    from pathveil.study import demo

    with bar() as progress:
        result = demo.run(out, progress=progress)
    emit(result, as_json=as_json, text=demo.describe(result))
