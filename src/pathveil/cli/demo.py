"""``pathveil demo``: everything, small, on the embedded corpus."""

from pathlib import Path

import typer

from pathveil.cli.console import JSON_OPTION, bar, emit, resumable
from pathveil.cli.study import crew_for


def run(
    out: Path = typer.Option(Path("demo"), "--out", help="Folder to write to; a stopped demo goes on where it was."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Everything, small, on the embedded corpus: a model, its reasons, four studies and their report, and whether the
    model may be released."""
    from pathveil.studies import demo
    from pathveil.studies.report import page
    from pathveil.studies.scheduler import WORK
    from pathveil.studies.study_file import CELLS

    with resumable(), bar((CELLS, WORK)) as progress, crew_for("local", None, None, "cpu") as crew:
        report = out / "report.html"
        result = demo.run(out, crew=crew, finish=lambda study: page.write(study, report), progress=progress)
    emit(result, as_json=as_json)
