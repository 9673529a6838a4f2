"""``pathveil demo``: everything, small, on the embedded corpus."""

from pathlib import Path

import typer

from pathveil.cli.console import JSON_OPTION, bar, emit, resumable
from pathveil.cli.study import crew_for


def run(
    out: Path = typer.Option(Path("demo"), "--out", help="Folder to write to; a stopped demo goes on where it was."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Everything, small, on the embedded corpus: a model, its reasons, the three studies and their report."""
    from pathveil.report import page
    from pathveil.study import demo
    from pathveil.study.file import CELLS
    from pathveil.study.units import WORK

    with resumable(), bar((CELLS, WORK)) as progress, crew_for("local", None, None, "cpu") as crew:
        result = demo.run(out, crew=crew, progress=progress)
    report = out / "report.html"
    page.write(result["study"], report)
    emit(result, as_json=as_json, text=demo.describe(result, answer=page.answer(result["study"]), report=report))
