"""``pathveil study``: the papers' whole evidence on any corpus, from one file."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from pathveil import api
from pathveil.cli.console import (
    JSON_OPTION,
    TLS_CA,
    TLS_CERT,
    TLS_KEY,
    bar,
    emit,
    names_from,
    resumable,
)
from pathveil.cli.tables import reads_tables
from pathveil.errors import UsageError

if TYPE_CHECKING:
    from pathveil.studies.result import StudyResult
    from pathveil.training.workers import EngineName

app = typer.Typer(help="The papers' experiments on your corpus, from one file.", no_args_is_help=True)


@app.command("run", short_help="Run a study, or go on with one, and write its report.")
@reads_tables("corpus")
def run(
    file: Path = typer.Argument(
        ...,
        metavar="FILE",
        help="A study file (TOML; studies/demo.toml explains every setting), or the name of one that comes with "
        "Pathveil, such as standard.",
    ),
    out: Path = typer.Option(..., "--out", help="The run's folder; a run that was stopped goes on where it was."),
    corpus: Path | None = typer.Option(
        None, "--corpus", help="A corpus (or a folder made by 'study encode') instead of the one the file names."
    ),
    device: str = typer.Option(
        "cpu",
        "--device",
        help="Where models are trained: auto, cpu or cuda, or cards that share the work, as cuda:0,cuda:1.",
    ),
    workers: int | None = typer.Option(
        None,
        "--workers",
        min=1,
        help="Processes that share the work, each with its share of the cores (on a GPU each with its own context); "
        "1 works in this process. By default what suits the machine.",
    ),
    engine: str = typer.Option("local", "--engine", help="local, or dask: train on the workers of a Dask cluster."),
    scheduler: str | None = typer.Option(None, "--scheduler", help="Address of the Dask scheduler."),
    tls_ca: Path | None = TLS_CA,
    tls_cert: Path | None = TLS_CERT,
    tls_key: Path | None = TLS_KEY,
    plan_only: bool = typer.Option(
        False, "--plan", help="Only say what is left to do and, after training a few batches, how long it will take."
    ),
    as_json: bool = JSON_OPTION,
) -> None:
    """Run a study, or go on with one that was stopped, and write its report."""
    from pathveil.studies.scheduler import WORK
    from pathveil.studies.study_file import CELLS
    from pathveil.training.workers import Scheduler

    shared: dict[str, Any] = {"out": out, "corpus": corpus, "device": device, "workers": workers}
    if plan_only:
        with bar() as progress:
            plan = api.plan_study(file, progress=progress, **shared)
        emit(plan, as_json=as_json)
        return
    known = Scheduler.at(scheduler, authority=tls_ca, certificate=tls_cert, key=tls_key)
    with resumable(), bar((CELLS, WORK)) as progress:
        result = api.study(file, engine=known_engine(engine), scheduler=known, progress=progress, **shared)
    show(result, out, as_json=as_json)


def show(result: "StudyResult", out: Path, *, as_json: bool) -> None:
    """Print the answer, and where the rest is."""
    emit(result, as_json=as_json, text=f"{result}\nNumbers: {out / 'result.json'}")


def known_engine(engine: str) -> "EngineName":
    if engine == "local" or engine == "dask":
        return engine
    raise UsageError(f"--engine: '{engine}' is not one of local, dask")


def crew_for(engine: str, workers: int | None, scheduler: str | None, device: str):
    """The workers that the options ask for."""
    from pathveil.training.workers import crew, usual_workers

    return crew(engine=known_engine(engine), workers=workers or usual_workers(device), scheduler=scheduler)


@app.command("encode", short_help="Put a corpus into a folder for a machine without reports.")
@reads_tables("corpus")
def encode(
    corpus: Path = typer.Argument(..., metavar="CORPUS", help="A corpus: Parquet, CSV or JSONL, or a folder of them."),
    out: Path = typer.Option(..., "--out", help="The folder to write; 'encoded' in a study file's [corpus] names it."),
    tasks: str | None = typer.Option(
        None, "--tasks", help="Tasks to keep, with commas; the usual ones there are by default."
    ),
    as_json: bool = JSON_OPTION,
) -> None:
    """Put a corpus into a folder from which a machine without the reports can run studies (it holds their words)."""
    from pathveil.studies import study_corpus

    with bar() as progress:
        made = study_corpus.encode_corpus(corpus, out, tasks=names_from(tasks), progress=progress)
    emit(made, as_json=as_json)


@app.command("schema", short_help="Print the JSON schema of result.json.")
def schema() -> None:
    """Print the JSON schema of a run's result.json, made from the types that write it."""
    import json

    from pathveil.studies.result import StudyResult

    typer.echo(json.dumps(StudyResult.model_json_schema(), indent=2, ensure_ascii=False))


@app.command("report", short_help="Write a run's report again.")
def report(
    run: Path = typer.Argument(
        ..., metavar="RUN", help="The folder of a 'study run' or a 'federate run', or any with the result.json of one."
    ),
    as_json: bool = JSON_OPTION,
) -> None:
    """Write a run's report again, from its result.json, and from times.json where it is there."""
    from pathveil.studies.report.page import write_again

    show(write_again(run), run, as_json=as_json)
