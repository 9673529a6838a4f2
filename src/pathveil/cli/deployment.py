"""``pathveil federate hub | site | classes | submit``: the same training, over a network."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pathveil.cli.console import JSON_OPTION, bar, emit, names_from
from pathveil.cli.model import values_of
from pathveil.cli.tables import reads_tables
from pathveil.errors import UsageError
from pathveil.files import check_new, write_json
from pathveil.training.device import choose_device

if TYPE_CHECKING:
    from pathveil.federation.protocol.plan import Plan
    from pathveil.federation.protocol.run_result import RunResult

MODE = typer.Option(
    "adversarial",
    "--mode",
    help="adversarial (the paper), strong (hides the registry), fedavg (averaged) or cyclic (from site to site).",
)
SEED = typer.Option(1, "--seed", min=0, max=2**32 - 1, help="Of the split, the start and the batches.")
REVOKED = typer.Option(
    None, "--revoked", metavar="FILE", help="The authority's list of revoked certificates; kept in the kit."
)
EPOCHS = typer.Option(None, "--epochs", min=1, help="Passes over every site's reports; 15 if not given.")
FILTERS = typer.Option(None, "--filters", min=1, help="Filters a window in each encoder; 100 if not given.")
DIM = typer.Option(None, "--dim", min=1, help="Length of a word vector; 300 if not given.")


def hub(
    kit: Path = typer.Argument(..., metavar="KIT", help="The hub's kit."),
    revoked: Path | None = REVOKED,
) -> None:
    """Run the hub until ctrl-C. Sites and the administrator connect to it; it connects to nobody."""
    from pathveil.federation.flare.processes import check_kit, check_port, run_hub
    from pathveil.federation.flare.revocation import take_list

    check_kit(kit, "fed_server.json", kind="hub")
    if revoked is not None:
        take_list(kit, revoked)
    check_port(kit)
    typer.echo(f"The hub of {kit} serves until ctrl-C; its log is {kit}/log.txt", err=True)
    run_hub(kit)


@reads_tables("corpus")
def site(
    kit: Path = typer.Argument(..., metavar="KIT", help="This site's kit."),
    corpus: list[Path] = typer.Option(
        ..., "--corpus", metavar="FILE", help="This site's reports; may be repeated. They stay here."
    ),
    vocab: Path = typer.Option(..., "--vocab", help="The vocabulary that all sites agreed on."),
    registries: list[str] = typer.Option(
        [],
        "--registry",
        metavar="NAME",
        help="Use only reports of this registry, where the corpus holds several; may be repeated.",
    ),
    device: str = typer.Option("cpu", "--device", help="Where this site trains: auto, cpu or cuda."),
    record: Path | None = typer.Option(
        None, "--record", help="Keep a copy of every byte that this site hands to the network in this folder."
    ),
    smallest_batch: int = typer.Option(
        8, "--smallest-batch", min=1, help="Take part only in runs whose batches hold reports of so many cases here."
    ),
    unmasked: bool = typer.Option(
        False,
        "--allow-unmasked",
        help="Take part in runs, too, in which the hub sees this site's updates one by one.",
    ),
    plans: list[Path] = typer.Option(
        [],
        "--plan",
        metavar="FILE",
        help="Take part only in runs of this plan, as 'submit --plan' writes it; may be repeated.",
    ),
    revoked: Path | None = REVOKED,
) -> None:
    """Run a site until ctrl-C. It connects out to the hub; its reports and its private part stay on this machine."""
    from pathveil.federation.flare.processes import check_kit, check_own, run_site
    from pathveil.federation.flare.revocation import take_list
    from pathveil.federation.protocol.plan import read_plan

    check_kit(kit, "fed_client.json", kind="site")
    if revoked is not None:
        take_list(kit, revoked)
    device = choose_device(device)
    check_own(corpus, vocab, registries)
    for plan in plans:
        read_plan(plan)  # said before it waits for the hub
    typer.echo(f"The site of {kit} works until ctrl-C; its log is {kit}/log.txt", err=True)
    own = {"corpus": corpus, "vocabulary": vocab, "registries": registries, "device": device}
    run_site(kit, **own, record=record, smallest_batch=smallest_batch, unmasked=unmasked, plans=plans)


def status(
    kit: Path = typer.Argument(..., metavar="KIT", help="A kit: the hub's or a site's on its machine, or your own."),
    metrics: bool = typer.Option(False, "--metrics", help="In the form that Prometheus reads."),
    wait: float = typer.Option(10.0, "--wait", min=1, help="Seconds to wait for the hub."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Say how things stand: certificate, connection, runs. An administrator's kit asks the hub about all sites.

    Exit code 3 where the hub cannot be reached or the certificate has ended.
    """
    from pathveil.federation.flare.status import status as look

    found = look(kit, wait=wait)
    if metrics:
        typer.echo(found.metrics())
    else:
        emit(found, as_json=as_json)
    if found.reachable is False or found.certificate_days < 0:
        raise typer.Exit(3)


@reads_tables("corpora")
def classes(
    corpora: list[Path] = typer.Argument(..., metavar="CORPUS", help="Corpora whose labels to list."),
    tasks: str | None = typer.Option(None, "--tasks", help="Tasks, with commas; all that the corpus has by default."),
    out: Path = typer.Option(..., "--out", help="The file to write: {task: [labels]}, or counts with --private."),
    private: bool = typer.Option(
        False, "--private", help="Count cases of labels for 'vocab agree' (.npz), so that no list is shown to anyone."
    ),
    as_json: bool = JSON_OPTION,
) -> None:
    """List the labels that a corpus has, task by task: what sites show each other to agree on classes.

    With --private nothing is shown: the counts stay at the site, 'pathveil vocab agree site --corpus FILE.npz' takes
    part with them, and 'submit --classes' reads what was agreed on.
    """
    from pathveil.federation.protocol.classes import write_class_counts, write_classes

    if private and out.suffix != ".npz":
        raise UsageError(f"--out: {out} should end in .npz, for 'vocab agree' to read it as counts")
    write = write_class_counts if private else write_classes
    found = write(corpora, tasks=names_from(tasks), out=out)
    emit(found, as_json=as_json, text=f"{found}\nWritten: {out}")


def submit(
    kit: Path = typer.Argument(..., metavar="KIT", help="The administrator's kit."),
    vocab: Path = typer.Option(
        ..., "--vocab", help="The agreed vocabulary; its hash and size travel, its words do not."
    ),
    class_files: list[Path] = typer.Option(
        ...,
        "--classes",
        metavar="FILE",
        help="Labels by task, as 'federate classes' writes them; several files are joined.",
    ),
    sites: list[str] = typer.Option(
        ...,
        "--site",
        metavar="NAME[=DOCUMENTS]",
        help="A site that takes part, once for each, and the most documents it may say it has. Without numbers no site "
        "weighs more than three times the median of the others.",
    ),
    out: Path = typer.Option(..., "--out", help="Folder for the released shared part and the run's history."),
    mode: str = MODE,
    seed: int = SEED,
    epochs: int | None = EPOCHS,
    filters: int | None = FILTERS,
    dim: int | None = DIM,
    batch_size: int | None = typer.Option(
        None, "--batch-size", min=1, help="Reports a step, over all sites; 64 if not given."
    ),
    local_steps: int | None = typer.Option(
        None,
        "--local-steps",
        min=1,
        help="Steps of a site between exchanges, 8 if not given; 1 equals central training and sends the most.",
    ),
    changes: list[str] = typer.Option([], "--set", metavar="NAME=VALUE", help="Change any setting of the training."),
    name: str = typer.Option("", "--name", help="Another name makes another run of the same settings."),
    pause: float = typer.Option(30.0, "--save-every", min=0, help="Seconds between two states saved on disk."),
    patience: float = typer.Option(
        600.0, "--patience", min=1, help="Seconds without a sign of a site before the stop."
    ),
    attempts: int = typer.Option(3, "--attempts", min=1, help="Jobs to try when a site or the hub is lost meanwhile."),
    wait: float = typer.Option(600.0, "--wait", min=1, help="Seconds to wait for the hub and the sites."),
    plan_file: Path | None = typer.Option(
        None, "--plan", metavar="FILE", help="Only write the plan, for sites to read and start with --plan FILE."
    ),
    as_json: bool = JSON_OPTION,
) -> None:
    """Train over the network: submit, watch, fetch. Submitting the same again goes on where a run stopped."""
    from pathveil.federation.flare.submit import submit as train
    from pathveil.federation.protocol.classes import read_classes
    from pathveil.federation.protocol.plan import TWO
    from pathveil.studies.store import check_run

    settings = {"epochs": epochs, "filters": filters, "dim": dim, "batch_size": batch_size, "local_steps": local_steps}
    names, documents = sites_from(sites)
    agreed = {"sites": names, "documents": documents, "classes": read_classes(class_files), "seed": seed, "name": name}
    plan = planned(mode, vocab, changes=changes, settings=settings, **agreed)
    if plan.masked and len(plan.sites) == 2:
        typer.echo(f"Note: {TWO}.", err=True)
    if plan_file is not None:
        check_new(plan_file)  # sites may have started with it
        write_json(plan_file, plan.model_dump(mode="json"))
        typer.echo(f"{plan_file}: the plan of run {plan.run}; nothing was submitted", err=True)
        return
    check_run(out, mark="history.json")
    try:
        with bar() as progress:
            result = train(
                kit,
                plan,
                out=out,
                pause=pause,
                patience=patience,
                attempts=attempts,
                wait=wait,
                progress=progress,
                note=lambda line: typer.echo(line, err=True),
            )
    except KeyboardInterrupt:
        typer.echo("The job goes on at the hub; the same command again follows it and fetches its result.", err=True)
        raise typer.Exit(130) from None
    finish(result, plan, vocab, out, as_json=as_json)


@reads_tables("corpus")
def simulate(
    corpus: Path = typer.Argument(
        ..., metavar="CORPUS", help="A corpus of at least two registries; each becomes a site."
    ),
    vocab: Path = typer.Option(..., "--vocab", help="The vocabulary of all sites."),
    out: Path = typer.Option(..., "--out", help="A new folder for the simulated sites and the result."),
    tasks: str | None = typer.Option(None, "--tasks", help="Tasks, with commas; all that the corpus has by default."),
    mode: str = MODE,
    seed: int = SEED,
    epochs: int | None = EPOCHS,
    filters: int | None = FILTERS,
    dim: int | None = DIM,
    local_steps: int | None = typer.Option(
        None, "--local-steps", min=1, help="Steps of a site between exchanges, 8 if not given."
    ),
    changes: list[str] = typer.Option([], "--set", metavar="NAME=VALUE", help="Change any setting of the training."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Run the network's programs in FLARE's simulator, on this machine and without certificates."""
    from pathveil.federation.flare.provision import check_names
    from pathveil.federation.flare.simulate import simulate as run
    from pathveil.vocabulary.encoding import read_labels
    from pathveil.vocabulary.tokens import tokens

    if out.exists():
        raise UsageError(f"{out}: is there already; a simulated run needs a new folder")
    sites = tokens(corpus).registry_names
    if len(sites) < 2:
        raise UsageError(
            f"{corpus}: each registry becomes a site, and there is only one ({sites[0]}); expected two or more"
        )
    check_names(sites)
    _, classes = read_labels(corpus, tasks=names_from(tasks))
    settings = {"epochs": epochs, "filters": filters, "dim": dim, "local_steps": local_steps}
    plan = planned(mode, vocab, changes=changes, settings=settings, sites=sites, classes=classes, seed=seed)
    where = {"corpus": [str(corpus.resolve())], "vocabulary": str(vocab.resolve())}
    result = run(plan, {site: where | {"registries": [site]} for site in sites}, folder=out)
    finish(result, plan, vocab, out, as_json=as_json)


def sites_from(given: list[str]) -> tuple[list[str], dict[str, int]]:
    """Sites as they stand on the command line: their names, and the most documents that each may say it has.

    >>> sites_from(["north=1500", "south"])
    (['north', 'south'], {'north': 1500})
    """
    parts = [site.partition("=") for site in given]
    for name, equals, documents in parts:
        if equals and not (documents.isdigit() and 0 < int(documents) < 10**10):
            raise UsageError(f"--site: '{name}={documents}' does not tell a number of documents, as in north=1500")
    return [name for name, _, _ in parts], {name: int(number) for name, equals, number in parts if equals}


def planned(mode: str, vocab: Path, *, changes: list[str], settings: dict[str, int | None], **agreed) -> "Plan":
    """The plan of a run from the command line's options; settings that were not given keep their defaults."""
    from pathveil.federation.protocol.plan import plan_run
    from pathveil.vocabulary.words import Vocabulary

    given = {option: value for option, value in settings.items() if value is not None} | values_of(changes)
    return plan_run(mode, vocabulary=Vocabulary.load(vocab), changes=given, **agreed)


def finish(result: "RunResult", plan: "Plan", vocab: Path, out: Path, *, as_json: bool) -> None:
    """Leave the shared encoder as a folder that 'federate join' takes, and print the run's account."""
    from pathveil.federation.protocol.plan import write_release
    from pathveil.vocabulary.words import Vocabulary

    write_release(plan, Vocabulary.load(vocab), folder=out)
    left = out / ("parameters.safetensors" if plan.plain else "shared")
    emit(result, as_json=as_json, text=f"{result}\nWritten: {left} and {out / 'history.json'}")
