"""``pathveil study``: the papers' whole evidence on any corpus, from one file."""

from pathlib import Path

import typer

from pathveil.cli.console import JSON_OPTION, bar, emit
from pathveil.errors import UsageError

app = typer.Typer(help="The papers' experiments on your corpus, from one file.", no_args_is_help=True)


@app.command("run")
def run(
    file: Path = typer.Argument(..., help="A study file (TOML); studies/demo.toml explains every setting."),
    out: Path = typer.Option(..., "--out", help="The run's folder; a run that was stopped goes on where it was."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Run a study, or go on with one that was stopped, and write its report."""
    from pathveil.report import page
    from pathveil.study import file as study

    with bar() as progress:
        result = study.run(file, out=out, progress=progress)
    page.write(result, out / "report.html")
    text = f"{page.answer(result)}\n\nReport: {out / 'report.html'}\nNumbers: {out / 'result.json'}"
    emit(result, as_json=as_json, text=text)


@app.command("report")
def report(run: Path = typer.Argument(..., help="A run's folder.")) -> None:
    """Write a run's report again."""
    import json

    from pathveil.report import page

    path = run / "result.json"
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise UsageError(f"{path}: there is no finished result; run 'pathveil study run' first") from None
    if "studies" not in result:
        raise UsageError(f"{path}: is not the result of a study; expected one written by 'pathveil study run'")
    page.write(result, run / "report.html")
    typer.echo(f"Report: {run / 'report.html'}")
