"""``pathveil audit``: what an attacker can learn from a model, held against a written risk appetite."""

from pathlib import Path

import typer

from pathveil.cli.console import JSON_OPTION, bar, emit
from pathveil.errors import UsageError


def show_appetite(wanted: bool) -> None:
    if wanted:
        from pathveil.audit.verdict import default_appetite_text

        typer.echo(default_appetite_text(), nl=False)
        raise typer.Exit()


def numbers(text: str) -> tuple[int, ...]:
    """Rising whole numbers from "25,100"."""
    try:
        found = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise UsageError(
            f"--edges {text}: expected whole numbers separated by commas, such as 100,1000,10000"
        ) from None
    if list(found) != sorted(set(found)) or found[0] < 1:
        raise UsageError(f"--edges {text}: expected rising numbers above 0, such as 100,1000,10000")
    return found


def run(
    predictions: Path | None = typer.Option(
        None,
        "--predictions",
        help="A Parquet, CSV or JSONL file with a model's answers on records whose membership is known: record_id, "
        "case_id, member, label, p:<class>… (several tasks: label:<task>, p:<task>:<class>; registry where known).",
    ),
    out: Path = typer.Option(..., "--out", help="Folder for audit.json and audit.html."),
    appetite: Path | None = typer.Option(
        None, "--appetite", help="The risk appetite (TOML) the verdict is held against; a documented default otherwise."
    ),
    edges: str = typer.Option(
        "100,1000,10000",
        "--edges",
        help="Class rarity is shown in buckets with these edges, in training samples a class.",
    ),
    records: Path | None = typer.Option(
        None, "--records", help="Also write each record's scores to this CSV. It tells members apart: never publish it."
    ),
    seed: int = typer.Option(0, "--seed", help="Seed of every random step."),
    as_json: bool = JSON_OPTION,
    _: bool = typer.Option(
        False,
        "--show-appetite",
        callback=show_appetite,
        is_eager=True,
        help="Print the default appetite, to copy and change.",
    ),
) -> None:
    """Attack a model as an outsider would, and say whether it may be released.

    The model's answers on records it was trained on (members) and on records it was not are given to a set of
    membership attacks. The strongest one's success is held against a risk appetite. Exit code: 0 pass, 3 fail, 4 not
    enough evidence.
    """
    from pathveil.audit import run as audits
    from pathveil.audit.verdict import read_appetite

    if predictions is None:
        raise UsageError("give --predictions FILE")
    limits, buckets = read_appetite(appetite), numbers(edges)
    with bar() as progress:
        audit = audits.from_predictions(
            predictions, out=out, appetite=limits, edges=buckets, records_file=records, seed=seed, progress=progress
        )
    if records is not None:
        typer.echo(f"pathveil: {records} holds scores of single records: keep it where the records are", err=True)
    emit(audit, as_json=as_json, text=f"{audit['verdict']['sentence']}\n{out / 'audit.html'}")
    raise typer.Exit(audit["verdict"]["exit_code"])
