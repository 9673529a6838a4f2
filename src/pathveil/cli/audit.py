"""``pathveil audit``: what an attacker can learn from a model, held against a written risk appetite."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import typer

from pathveil import api
from pathveil.cli.console import DEVICE, JSON_OPTION, SIGNATURE_OPTION, TLS_CA, TLS_CERT, TLS_KEY, bar, emit, resumable
from pathveil.cli.tables import reads_tables
from pathveil.errors import UsageError

if TYPE_CHECKING:
    from pathveil.auditing.result import Audit

APPETITE_OPTION = typer.Option(
    None, "--appetite", help="The risk appetite (TOML) the verdict is held against; otherwise an example, of nobody."
)
STORE_OPTION = typer.Option(
    None,
    "--store",
    help="Folder that keeps shadows' answers, so that nothing is trained twice; else OUT.shadows. It holds numbers "
    "for single records: do not publish it.",
)


def show_appetite(wanted: bool) -> None:
    if wanted:
        from pathveil.auditing.appetite import default_appetite_text

        typer.echo(default_appetite_text(), nl=False)
        raise typer.Exit()


def show_schema(wanted: bool) -> None:
    if wanted:
        from pathveil.auditing.result import schema
        from pathveil.files import json_text

        typer.echo(json_text(schema()), nl=False)
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


@reads_tables("members", "non_members", "shadows")
def run(
    bundle: Path | None = typer.Argument(
        None, metavar="BUNDLE", help="The model to audit, a folder written by 'pathveil train'.", show_default=False
    ),
    members: Path | None = typer.Option(None, "--members", help="Reports the model was trained on: a corpus."),
    non_members: Path | None = typer.Option(
        None,
        "--non-members",
        help="Reports it was not trained on: unseen cases of the same registries (matched protocol), reports of other "
        "registries (cross-registry protocol), best both in one corpus.",
    ),
    shadows: Path | None = typer.Option(
        None,
        "--shadows",
        help="Reports an attacker owns, to train shadow models on; without it, the non-members of other registries.",
    ),
    predictions: Path | None = typer.Option(
        None,
        "--predictions",
        help="Instead of a bundle: a Parquet, CSV or JSONL file with any model's answers on records whose membership "
        "is known: record_id, case_id, member, label, p:<class>… (several tasks: label:<task>, p:<task>:<class>; "
        "registry where known).",
    ),
    defence: str | None = typer.Option(
        None,
        "--defence",
        metavar="MODULE:FUNCTION",
        help="The function of a model that was trained with a defence of one's own; shadows are trained with it. "
        "Other defences are known from the bundle.",
    ),
    out: Path | None = typer.Option(None, "--out", help="Folder for audit.json and audit.html."),
    plan: bool = typer.Option(
        False, "--plan", help="Say what would be trained and about how long it takes, and write nothing."
    ),
    appetite: Path | None = APPETITE_OPTION,
    release: Literal["weights", "probabilities", "label"] | None = typer.Option(
        None,
        "--release",
        help="What will be released: the model itself, a service that answers with probabilities, or one that answers "
        "with codes. It must be what the appetite is about; without either a bundle's weights are meant.",
    ),
    models: int = typer.Option(20, "--models", min=2, help="Shadow models in each family, the attacker's and ours."),
    networks: int = typer.Option(
        1,
        "--networks",
        min=1,
        help="Networks that a shadow averages; give as many as the bundle has (see its card) for shadows of its kind, "
        "at so many times the cost.",
    ),
    teachers: int | None = typer.Option(
        None,
        "--teachers",
        min=2,
        help="Teachers that a shadow of a taught model has, fewer than the model's to save time; docs/audit.md says "
        "what that does to the answer.",
    ),
    sampling: Literal["split", "bootstrap"] = typer.Option(
        "split", "--sampling", help="What the attacker's shadows train on, by case: random halves, or samples."
    ),
    attack_model: Literal["mlp", "logistic"] = typer.Option("mlp", "--attack-model", help="The paper's classifiers."),
    attack_features: Literal["sorted", "raw"] = typer.Option(
        "sorted", "--attack-features", help="What they see: the label's own and the sorted probabilities, or raw."
    ),
    edges: str = typer.Option(
        "100,1000,10000",
        "--edges",
        help="Class rarity is shown in buckets with these edges, in training samples a class.",
    ),
    canaries: int = typer.Option(
        0,
        "--canaries",
        min=0,
        help="Strange reports of each of three kinds, planted once each in as many models more, to see what the most "
        "exposed give away; at least 20, or none.",
    ),
    engine: Literal["local", "dask"] = typer.Option("local", "--engine", help="Where shadows are trained."),
    scheduler: str | None = typer.Option(None, "--scheduler", help="With --engine dask: its scheduler's address."),
    tls_ca: Path | None = TLS_CA,
    tls_cert: Path | None = TLS_CERT,
    tls_key: Path | None = TLS_KEY,
    processes: int = typer.Option(1, "--processes", min=1, help="With --engine local on a CPU: processes to share it."),
    store: Path | None = STORE_OPTION,
    device: str = DEVICE,
    records: Path | None = typer.Option(
        None, "--records", help="Also write each record's scores to this CSV. It tells members apart: never publish it."
    ),
    require_signature: Path | None = SIGNATURE_OPTION,
    attach: bool = typer.Option(False, "--attach", help="Put audit.json into the bundle and its verdict on the card."),
    unbound: bool = typer.Option(
        False,
        "--unbound",
        help="Let the members be other reports than the corpus the bundle names; such an audit is never attached.",
    ),
    seed: int = typer.Option(0, "--seed", min=0, help="Seed of every random step."),
    as_json: bool = JSON_OPTION,
    _: bool = typer.Option(
        False,
        "--show-appetite",
        callback=show_appetite,
        is_eager=True,
        help="Print the default appetite, to copy and change.",
    ),
    __: bool = typer.Option(
        False, "--show-schema", callback=show_schema, is_eager=True, help="Print the JSON schema of audit.json."
    ),
) -> None:
    """Attack a model as an outsider would, and say whether it may be released.

    The model's answers on records it was trained on (members) and on records it was not are given to a set of
    membership attacks. The strongest one's success is held against a risk appetite. Exit code: 0 pass, 3 fail, 4 not
    enough evidence. A run that was interrupted goes on where it stopped when the same command is given again.
    """
    if (bundle is None) == (predictions is None):
        raise UsageError("give a BUNDLE with --members and --non-members, or --predictions FILE")
    if out is None and not plan:
        raise UsageError("give --out FOLDER for audit.json and audit.html")
    from pathveil.auditing.appetite import asked_appetite

    settings: dict[str, Any] = {
        "shadows": models,
        "networks": networks,
        "teachers": teachers,
        "sampling": sampling,
        "attack_model": attack_model,
        "attack_features": attack_features,
        "edges": numbers(edges),
        "canaries": canaries,
        "seed": seed,
    }
    from pathveil.training.workers import Scheduler

    held_against = asked_appetite(appetite, release)
    written: dict[str, Any] = {"appetite": held_against, "out": out, "records_file": records}
    if predictions is not None:
        if attach or unbound or members or non_members or shadows or defence:
            raise UsageError(
                "--members, --non-members, --shadows, --defence, --unbound and --attach go with a BUNDLE, not "
                "--predictions"
            )
        if canaries:
            raise UsageError("--canaries goes with a BUNDLE: they are planted in models that are trained")
        if plan:
            raise UsageError("--plan goes with a BUNDLE; an audit of predictions trains nothing")
        with bar() as progress:
            audit = api.audit_predictions(predictions, progress=progress, **written, **settings)
        show(audit, out, records, as_json=as_json)
    assert bundle is not None
    if members is None or non_members is None:
        raise UsageError("an audit of a bundle needs --members and --non-members")
    if attach and unbound:
        raise UsageError("--unbound: an audit that is not bound to its model cannot be attached; leave out --attach")
    if require_signature is not None:
        api.load(bundle, require_signature=require_signature)
    sides: dict[str, Any] = {"members": members, "non_members": non_members, "attacker": shadows, "defence": defence}
    sides |= {"unbound": unbound, "processes": processes, "device": device}
    if out is None or plan:
        with bar() as progress:
            planned = api.plan_audit(bundle, progress=progress, **sides, **settings)
        emit(planned, as_json=as_json)
        return
    with resumable(), bar() as progress:
        audit = api.audit(
            bundle,
            engine=engine,
            scheduler=Scheduler.at(scheduler, authority=tls_ca, certificate=tls_cert, key=tls_key),
            store=store or out.with_name(out.name + ".shadows"),
            attach=attach,
            progress=progress,
            **sides,
            **written,
            **settings,
        )
    show(audit, out, records, as_json=as_json)


def show(audit: "Audit", out: Path | None, records: Path | None, *, as_json: bool) -> NoReturn:
    """Print the verdict, where the page is, and what a careful person must know; end with the verdict's exit code."""
    assert out is not None
    if records is not None:
        typer.echo(f"pathveil: {records} holds scores of single records: keep it where the records are", err=True)
    if audit.bound is False:
        typer.echo("pathveil: the members are not the reports of the model's training: this is no evidence", err=True)
    if audit.appetite.is_example:
        typer.echo("pathveil: held against an example; 'pathveil appetite new' writes one of your own", err=True)
    emit(audit, as_json=as_json, text=f"{audit.verdict.sentence}\n{out / 'audit.html'}")
    raise typer.Exit(audit.verdict.exit_code)
