"""``pathveil federate``: one model from registries that share no reports."""

from pathlib import Path

import typer

from pathveil.cli import deployment, kits
from pathveil.cli.audit import APPETITE_OPTION, STORE_OPTION
from pathveil.cli.console import CPU_UNLESS_ASKED, JSON_OPTION, bar, emit, names_from, resumable
from pathveil.cli.model import values_of
from pathveil.cli.study import crew_for
from pathveil.cli.tables import reads_tables
from pathveil.errors import UsageError, meant
from pathveil.training.device import choose_device

app = typer.Typer(
    help="Train across registries that share no reports, and compare with training alone and centrally.",
    no_args_is_help=True,
)
TEST_FROM = typer.Option(
    None,
    "--test-from",
    metavar="DATE",
    help="Test on every registry's cases with a report on or after a day (or year), not on a fifth of them.",
)
app.command("request", short_help="Make a key here and a request for its certificate.")(kits.request)
app.command("sign", short_help="Sign requests: kits without keys.")(kits.sign)
app.command("accept", short_help="Put a signed kit beside its key.")(kits.accept)
app.command("revoke", short_help="Revoke a participant's certificates.")(kits.revoke)
app.command("provision", short_help="Make the start-up kits, keys included: for a trial.")(kits.provision)
app.command("hub")(deployment.hub)
app.command("site")(deployment.site)
app.command("status", short_help="Say how a hub, a site or a federation is doing.")(deployment.status)
app.command("classes", short_help="List a corpus's labels, for sites to agree on classes.")(deployment.classes)
app.command("submit")(deployment.submit)
app.command("simulate", short_help="Run the network's programs in FLARE's simulator.")(deployment.simulate)


@app.command("run", short_help="Train sites and hub in one process, without a network.")
@reads_tables("corpus")
def run(
    corpus: Path = typer.Argument(..., metavar="CORPUS", help="A corpus of at least two registries."),
    mode: str = typer.Option(
        "adversarial",
        "--mode",
        help="single (each registry alone), centralized (all reports in one place), adversarial (the paper), strong "
        "(hides the registry), fedavg (averaged), cyclic (from site to site), no-adversary or no-orthogonality "
        "(adversarial without that part); several with commas, or 'all'.",
    ),
    out: Path = typer.Option(..., "--out", help="The run's folder; a run that was stopped goes on where it was."),
    vocab: Path | None = typer.Option(
        None, "--vocab", help="Words agreed on beforehand; else those that at least 5 training cases hold."
    ),
    tasks: str | None = typer.Option(
        None, "--tasks", help="Tasks to train, with commas; all that the corpus has by default."
    ),
    groups: list[str] = typer.Option(
        [], "--group", metavar="NAME=REGISTRIES", help="Pool registries into one site, as A=R1,R2; may be repeated."
    ),
    seeds: str = typer.Option("1", "--seeds", help="Seeds, with commas: each has its own split, start and batches."),
    test_from: str | None = TEST_FROM,
    epochs: int | None = deployment.EPOCHS,
    filters: int | None = deployment.FILTERS,
    local_steps: int = typer.Option(
        1, "--local-steps", min=1, help="Steps of a site between exchanges: 1 is exact, more is an approximation."
    ),
    changes: list[str] = typer.Option(
        [],
        "--set",
        metavar="NAME=VALUE",
        help="Change any setting of the training, for example adversary=1 or discriminator_steps=10 "
        "(docs/distribution.md lists them).",
    ),
    rehearse: bool = typer.Option(
        False,
        "--rehearse",
        help="Leave the test cases out altogether and score on a share of the others: for choosing settings.",
    ),
    device: str = CPU_UNLESS_ASKED,
    workers: int = typer.Option(1, "--workers", min=1, help="Processes that share modes and seeds."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Train in one process: the same sites and hub as over a network, without the network."""
    from pathveil.corpus.split import first_day
    from pathveil.studies import distribution
    from pathveil.studies.report.page import write_again
    from pathveil.studies.scheduler import run_in_folder
    from pathveil.studies.settings import validated
    from pathveil.studies.store import check_run

    given = {"epochs": epochs, "filters": filters, "local_steps": local_steps}
    training = {name: value for name, value in given.items() if value is not None} | values_of(changes)
    modes = tuple(distribution.ARMS) if mode == "all" else named(mode, distribution.ARMS, option="--mode")
    try:
        for arm in modes:
            distribution.config_of(arm, training)
    except ValueError as error:
        raise UsageError(f"--set: {error}") from None
    if local_steps > 1 and not {distribution.mode_of(arm) for arm in modes} & {"adversarial", "strong"}:
        raise UsageError("--local-steps goes with shared/private modes; fedavg and cyclic exchange after each epoch")
    if test_from is not None:
        first_day(test_from)  # says what is wrong with it
    asked = {
        "modes": modes,
        "test_from": test_from,
        "rehearsal": rehearse,
        "release": not rehearse,
        "seeds": tuple(number(part, option="--seeds") for part in seeds.split(",")),
        "tasks": names_from(tasks),
        "groups": pooled(groups),
        "vocabulary": str(vocab) if vocab else None,
        "training": training,
    }
    try:
        settings = validated(distribution.DistributionSettings, asked)
    except ValueError as error:
        raise UsageError(str(error)) from None
    device = choose_device(device)
    check_run(out, mark="cells")
    with resumable(), crew_for("local", workers, None, device) as crew, bar() as progress:
        study = distribution.DistributionStudy(corpus, settings, out=out, progress=progress)
        result = run_in_folder(study, crew=crew, device=device)
    written = f"Written: {out / 'result.json'}; 'pathveil study report {out}' makes a page of it"
    if (out / "report.html").is_file():  # of the result before: it would contradict this one
        write_again(out)
        written = f"Written: {out / 'result.json'}, {out / 'report.html'}"
    emit(result, as_json=as_json, text=f"{result}\n{written}")


@app.command("join", short_help="Join later: a private part beside the released encoder.")
@reads_tables("corpus")
def join(
    release: Path = typer.Argument(
        ..., metavar="RELEASE", help="A folder that 'federate run' wrote: a run, or one of the folders in its shared/."
    ),
    corpus: Path = typer.Argument(..., metavar="CORPUS", help="The reports of the registry that joins."),
    out: Path = typer.Option(..., "--out", help="A new folder for the scores and the registry's own bundle."),
    registry: str | None = typer.Option(None, "--registry", help="Which registry joins, where the corpus has several."),
    vocab: Path | None = typer.Option(
        None, "--vocab", help="The registry's own list of the agreed words, where they were agreed on privately."
    ),
    tasks: str | None = typer.Option(
        None, "--tasks", help="Tasks to train, with commas; all that the corpus has by default."
    ),
    seed: int = typer.Option(0, "--seed", min=0, max=2**32 - 1, help="Of the split, the start and the batches."),
    test_from: str | None = TEST_FROM,
    epochs: int | None = typer.Option(
        None, "--epochs", min=1, help="Passes over the registry's reports; 15 if not given."
    ),
    changes: list[str] = typer.Option(
        [],
        "--set",
        metavar="NAME=VALUE",
        help="Change a setting of the private part's training, for example optimiser=adam or orthogonality=0.1.",
    ),
    device: str = typer.Option("cpu", "--device", help="Where the model is trained: auto, cpu or cuda."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Join later: train a private part beside the released shared encoder, and compare with training alone.

    The shared encoder stays as it is. OUT/result.json has the scores of both on unseen cases, a fifth or the newest,
    with 95 % intervals (tasks with fewer than ten unseen cases are left out); OUT/bundle is the
    registry's own model for predict, evaluate and audit. It holds the private part, so it is not for others.
    """
    from pathveil.federation.join import join as join_release

    device = choose_device(device)
    with bar() as progress:
        result = join_release(
            release,
            corpus,
            out=out,
            registry=registry,
            vocabulary=vocab,
            tasks=names_from(tasks),
            seed=seed,
            test_from=test_from,
            changes=({"epochs": epochs} if epochs else {}) | values_of(changes),
            device=device,
            progress=progress,
        )
    left = f"{out / 'result.json'}, {out / 'bundle'} (the registry's own: it holds its private part)"
    emit(result, as_json=as_json, text=f"{result}\n\nWritten: {left}")


@app.command("audit", short_help="Audit a run's encoder with shadow federations.")
@reads_tables("corpus")
def audit(
    run: Path = typer.Argument(..., metavar="RUN", help="A folder that 'federate run' wrote."),
    corpus: Path = typer.Argument(..., metavar="CORPUS", help="The corpus that it was trained on."),
    out: Path = typer.Option(..., "--out", help="Folder for audit.json and audit.html."),
    mode: str | None = typer.Option(None, "--mode", help="Whose encoder, where the run has several modes."),
    seed: int | None = typer.Option(None, "--seed", help="Of which seed, where the run has several."),
    appetite: Path | None = APPETITE_OPTION,
    models: int = typer.Option(20, "--models", help="Shadow federations, each a whole training; four at least."),
    workers: int = typer.Option(1, "--workers", min=1, help="Processes that share the shadows."),
    store: Path | None = STORE_OPTION,
    device: str = CPU_UNLESS_ASKED,
    as_json: bool = JSON_OPTION,
) -> None:
    """Attack the encoder that a federation gives away, as 'pathveil audit' attacks a model.

    The encoder is read under a head that is trained on half of the run's unseen cases, as anyone could train one; the
    other half are the non-members. Shadows are whole federations, so this takes as long as so many runs. Exit code:
    0 pass, 3 fail, 4 not enough evidence. A run that was interrupted goes on where it stopped when the same command is
    given again.
    """
    from pathveil.auditing.appetite import read_appetite
    from pathveil.auditing.settings import AuditSettings
    from pathveil.studies.encoder_audit import audit_encoder

    held_against = read_appetite(appetite)
    device = choose_device(device)
    with resumable(), crew_for("local", workers, None, device) as crew, bar() as progress:
        found = audit_encoder(
            run,
            corpus,
            out=out,
            appetite=held_against,
            crew=crew,
            arm=mode,
            seed=seed,
            settings=AuditSettings(shadows=models),
            store=store or out.with_name(out.name + ".shadows"),
            device=device,
            progress=progress,
        )
    emit(found, as_json=as_json, text=f"{found.verdict.sentence}\n{out / 'audit.html'}")
    raise typer.Exit(found.verdict.exit_code)


def named(text: str, known, *, option: str) -> tuple[str, ...]:
    """Names with commas, each one of the known ones."""
    parts = tuple(part.strip() for part in text.split(","))
    for part in parts:
        if part not in known:
            raise UsageError(f"{option}: '{part}' is not one of {', '.join(known)}{meant(part, known)}")
    return parts


def number(text: str, *, option: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"{option}: '{text}' is not a whole number") from None


def pooled(groups: list[str]) -> dict[str, tuple[str, ...]]:
    """``A=R1,R2`` as a name and its registries, for each."""
    found: dict[str, tuple[str, ...]] = {}
    for text in groups:
        name, equals, members = text.partition("=")
        if not (name and equals and members):
            raise UsageError(f"--group: '{text}' is not of the form NAME=REGISTRY,REGISTRY")
        if name in found:
            raise UsageError(f"--group: '{name}' is there twice; name all its registries in one, as {name}=R1,R2")
        found[name] = tuple(members.split(","))
    return found
