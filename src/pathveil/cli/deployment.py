"""``pathveil federate provision | hub | site | classes | submit``: the same training, over a network."""

from pathlib import Path

import typer

from pathveil.cli.console import JSON_OPTION, bar, chosen, emit, names_from
from pathveil.cli.model import values_of
from pathveil.errors import UsageError, meant

MODE = typer.Option(
    "adversarial",
    "--mode",
    help="adversarial (the paper), strong (hides the registry), fedavg (averaged) or cyclic (from site to site).",
)
SEED = typer.Option(1, "--seed", min=0, max=2**32 - 1, help="Of the split, the start and the batches.")
EPOCHS = typer.Option(None, "--epochs", min=1, help="Passes over every site's reports; 15 if not given.")
FILTERS = typer.Option(None, "--filters", min=1, help="Filters a window in each encoder; 100 if not given.")
DIM = typer.Option(None, "--dim", min=1, help="Length of a word vector; 300 if not given.")
LOCAL_STEPS = 8  # over a network, where none are given: an exchange costs about as much as several steps


def provision(
    sites: list[str] = typer.Option(..., "--site", metavar="NAME", help="A site's name; once for each site."),
    hub: str = typer.Option(..., "--hub", help="HOST or HOST:PORT by which sites reach the hub; the port is 8002."),
    admin: str = typer.Option(..., "--admin", help="Mail address that names the person who submits trainings."),
    out: Path = typer.Option(..., "--out", help="Folder for the kits; given again with more sites, those are added."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Make the start-up kits: a folder each for the hub, every site and the administrator, with their certificates."""
    from pathveil.federation.flare.provision import provision as make

    kits = make(sites=sites, hub=hub, admin=admin, out=out)
    lines = [f"  {kit}" for kit in kits.values()]
    text = "\n".join(
        ["Kits, each with a README for the person who gets it:", *lines, "Keep offline:", f"  {out}/authority"]
    )
    emit({"kits": {name: str(kit) for name, kit in kits.items()}}, as_json=as_json, text=text)


def hub(kit: Path = typer.Argument(..., metavar="KIT", help="The hub's kit.")) -> None:
    """Run the hub until ctrl-C. Sites and the administrator connect to it; it connects to nobody."""
    from pathveil.federation.flare.processes import check_kit, check_port, run_hub

    check_kit(kit, "fed_server.json", kind="hub")
    check_port(kit)
    typer.echo(f"The hub of {kit} serves until ctrl-C; its log is {kit}/log.txt", err=True)
    run_hub(kit)


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
) -> None:
    """Run a site until ctrl-C. It connects out to the hub; its reports and its private part stay on this machine."""
    from pathveil.federation.flare.processes import check_kit, check_own, run_site

    check_kit(kit, "fed_client.json", kind="site")
    device = chosen(device)
    check_own(corpus, vocab, registries)
    typer.echo(f"The site of {kit} works until ctrl-C; its log is {kit}/log.txt", err=True)
    run_site(kit, corpus=corpus, vocabulary=vocab, registries=registries, device=device, record=record)


def classes(
    corpora: list[Path] = typer.Argument(..., metavar="CORPUS", help="Corpora whose labels to list."),
    tasks: str | None = typer.Option(None, "--tasks", help="Tasks, with commas; all that the corpus has by default."),
    out: Path = typer.Option(..., "--out", help="The file to write: {task: [labels]}."),
    as_json: bool = JSON_OPTION,
) -> None:
    """List the labels that a corpus has, task by task: what sites show each other to agree on classes."""
    import json

    from pathveil.federation.protocol.classes import write_classes

    found = write_classes(corpora, tasks=names_from(tasks), out=out)
    lines = [f"{task}: {len(names)} classes" for task, names in found.items()]
    emit(json.loads(json.dumps(found)), as_json=as_json, text="\n".join([*lines, f"Written: {out}"]))


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
    sites: list[str] = typer.Option(..., "--site", metavar="NAME", help="A site that takes part; once for each."),
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
    as_json: bool = JSON_OPTION,
) -> None:
    """Train over the network: submit, watch, fetch. Submitting the same again goes on where a run stopped."""
    from pathveil.federation.flare.submit import submit as train
    from pathveil.federation.protocol.classes import read_classes

    plan = planned(
        mode,
        sites=sites,
        vocab=vocab,
        classes=read_classes(class_files),
        seed=seed,
        name=name,
        epochs=epochs,
        filters=filters,
        dim=dim,
        batch_size=batch_size,
        local_steps=local_steps,
        changes=changes,
    )
    from pathveil.study.store import check_run

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
    given(plan, vocab, out)
    emit(result, as_json=as_json, text=summary(result, out))


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
    plan = planned(
        mode,
        sites=list(sites),
        vocab=vocab,
        classes=classes,
        seed=seed,
        epochs=epochs,
        filters=filters,
        dim=dim,
        local_steps=local_steps,
        changes=changes,
    )
    where = {"corpus": [str(corpus.resolve())], "vocabulary": str(vocab.resolve())}
    result = run(plan, {site: where | {"registries": [site]} for site in sites}, folder=out)
    given(plan, vocab, out)
    emit(result, as_json=as_json, text=summary(result, out))


def planned(
    mode: str,
    *,
    sites: list[str],
    vocab: Path,
    classes: dict,
    seed: int,
    changes: list[str],
    name: str = "",
    **settings: int | None,
):
    """The plan of a run from the command line's options; settings that were not given keep their defaults."""
    from pathveil.federation.protocol.plan import MODES, PLAIN, Plan
    from pathveil.study.distribution import config_of
    from pathveil.vocabulary.words import Vocabulary

    if mode not in MODES:
        raise UsageError(f"--mode: '{mode}' is not one of {', '.join(MODES)}{meant(mode, MODES)}")
    if len(set(sites)) < 2 or len(set(sites)) != len(sites):
        raise UsageError("--site: name at least two sites, each once")
    wanted = {option: value for option, value in settings.items() if value is not None} | values_of(changes)
    if mode in PLAIN and "local_steps" in wanted:
        raise UsageError(f"--local-steps: {mode} exchanges once an epoch; leave it out, or choose another --mode")
    if mode not in PLAIN:
        wanted = {"local_steps": LOCAL_STEPS} | wanted
    try:
        config = config_of(mode, wanted)
    except ValueError as error:
        raise UsageError(f"--set: {error}") from None
    words = Vocabulary.load(vocab)
    return Plan(
        name=name,
        mode=mode,
        sites=tuple(sorted(sites)),
        classes=classes,
        vocabulary=words.id_space,
        vocabulary_size=words.size,
        settings=config,
        seed=seed,
    )


def given(plan, vocab: Path, out: Path) -> None:
    """Leave the shared encoder as a folder that 'federate join' takes; a plain network has none."""
    from safetensors.numpy import load_file

    from pathveil.federation.protocol.plan import give
    from pathveil.vocabulary.words import Vocabulary

    if not plan.plain:
        give(plan, Vocabulary.load(vocab), load_file(out / "parameters.safetensors"), folder=out / "shared")


def summary(result: dict, out: Path) -> str:
    from pathveil.federation.protocol.plan import PLAIN

    plain = result["mode"] in PLAIN
    rounds, best = max(result["rounds"], 1), result["best_epoch"]
    privacy = (
        f"privacy loss of a site's updates: ε = {result['epsilon'][-1]:.3g} at δ = {result['delta']:g}, "
        f"of {result['updates']} updates\n"
        if result["epsilon"]
        else ""
    )
    return (
        f"{result['mode']}: {result['rounds']} rounds with {', '.join(result['documents'])}, "
        f"best epoch {best} (validation loss {result['validation_loss'][best - 1]:.4f})\n"
        f"{result['bytes_to_hub'] / rounds / 1e6:.2f} MB a round to the hub, "
        f"{result['bytes_to_sites'] / rounds / 1e6:.2f} MB from it, all sites together\n"
        f"{privacy}Written: {out / ('parameters.safetensors' if plain else 'shared')} and {out / 'history.json'}"
    )
