"""``pathveil train``: a corpus to a bundle."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from pathveil import api
from pathveil.cli.console import DEVICE, JSON_OPTION, bar, emit, names_from, resumable
from pathveil.cli.tables import reads_tables
from pathveil.errors import UsageError

if TYPE_CHECKING:
    from pathveil.training.defences import AnyDefence


@reads_tables("corpus", "validation")
def train(
    corpus: Path = typer.Argument(..., metavar="CORPUS", help="The training reports: a corpus file or folder."),
    out: Path | None = typer.Option(None, "--out", help="The bundle to write, a new folder."),
    vocab: Path | None = typer.Option(
        None,
        "--vocab",
        help="The words the model may know (from 'pathveil vocab select'). Without it: every word that at least 5 "
        "cases of CORPUS hold; with --preset paper every word that occurs 5 times, as in the papers.",
    ),
    validation: Path | None = typer.Option(
        None,
        "--validation",
        metavar="FILE",
        help="Reports of other cases, such as the validation part of 'corpus split', to stop by and to set thresholds "
        "with; all of CORPUS is then learnt from. Without it, a tenth of its cases is held out.",
    ),
    preset: str | None = typer.Option(
        None,
        "--preset",
        help="release: one network that leaks least for its accuracy, for a model that leaves the registry (membership "
        "attack's AUC on TCGA .62; .50 is a coin); default: several networks and a linear view, averaged, the most "
        "accurate and the most leaking (.99); small: one network (.84); paper: the papers' network, for their "
        "figures (.87); private: one network, differentially private.",
        show_default="default; release with --defence teachers, private with dp",
    ),
    defence: str | None = typer.Option(
        None,
        "--defence",
        metavar="NAME",
        help="How the model is kept from remembering its cases. teachers: it learns what other models say that never "
        "saw the case; dp: differentially private training, whose model hardly depends on any one case; none; or "
        "MODULE:FUNCTION, one of your own (docs/training.md). Without it, the preset's.",
        show_default=False,
    ),
    teachers: int | None = typer.Option(None, "--teachers", help="teachers: how many (default 20)."),
    unseen: int | None = typer.Option(
        None, "--unseen", help="teachers: how many of them do not see a case and answer for it (default 2)."
    ),
    epsilon: float | None = typer.Option(
        None,
        "--epsilon",
        help="dp: the privacy loss that noise is chosen for (8 unless --noise is given).",
    ),
    delta: float | None = typer.Option(
        None, "--delta", help="dp: the chance with which the promise may fail; below 1 ÷ cases (default 1e-5)."
    ),
    noise: float | None = typer.Option(
        None, "--noise", help="dp: instead of --epsilon, the noise's standard deviation in units of --clip."
    ),
    clip: float | None = typer.Option(
        None, "--clip", help="dp: the largest norm of what a case adds to the gradient (default 1)."
    ),
    embeddings: str | None = typer.Option(
        None, "--embeddings", help="dp: trained (with noise, the default) or frozen word vectors."
    ),
    accountant: str | None = typer.Option(
        None, "--accountant", help="dp: rdp (the default), or prv: a little less noise for the same epsilon, slower."
    ),
    public_words: Path | None = typer.Option(
        None,
        "--public-words",
        help="dp: words from a public source, one a line (or MRCONSO.RRF), so that epsilon covers the list of words.",
    ),
    public_classes: Path | None = typer.Option(
        None,
        "--public-classes",
        help='dp: the codes of each task from a public source, as JSON {"site": ["C18", …]}, so that epsilon covers '
        "the list of codes. With public words, or words chosen by 'vocab select --epsilon', no cases are held out "
        "either: epsilon then covers the whole bundle.",
    ),
    fewest_cases: int = typer.Option(
        1,
        "--fewest-cases",
        min=1,
        help="Learn no code of fewer cases than this: rare codes are what a model remembers most. Their reports are "
        "for a person; the card says how many.",
    ),
    tasks: str | None = typer.Option(
        None, "--tasks", help="Columns to learn, with commas; else those of the usual five that CORPUS has."
    ),
    epochs: int | None = typer.Option(None, "--epochs", min=1, help="Train at most this many epochs."),
    fixed_epochs: int | None = typer.Option(
        None, "--fixed-epochs", min=1, help="Train exactly this many epochs, without stopping early."
    ),
    changes: list[str] = typer.Option(
        None,
        "--set",
        metavar="NAME=VALUE",
        help="Change one of the preset's settings, for example optimiser=adadelta, learning_rate=1 or members=3; "
        "defence.NAME=VALUE one of its defence's, for example defence.lift=0.1 (docs/training.md lists them).",
    ),
    accuracy: float = typer.Option(
        0.97, "--accuracy", help="How often a code must be right for no person to look at it: 0.5 to 1."
    ),
    seed: int = typer.Option(
        0, "--seed", min=0, help="The same seed gives the same bundle, to the byte, on one device."
    ),
    workers: int | None = typer.Option(
        None, "--workers", min=1, help="Processes that share teachers on a CPU. By default what suits the machine."
    ),
    plan_only: bool = typer.Option(
        False, "--plan", help="Only say what will be trained and, after a few batches, how long it will take."
    ),
    device: str = DEVICE,
    as_json: bool = JSON_OPTION,
) -> None:
    """Train a model on a corpus and write it as a bundle.

    A tenth of the cases (or --validation) is held out to stop by; on held-out cases the probabilities are
    calibrated and the thresholds set below which a report is left to a person. A run that was interrupted continues
    where it stopped when the same command is given again.
    """
    from pathveil.bundle.train import training_summary
    from pathveil.training.defences import defence_named
    from pathveil.training.settings import preset_settings, settings_for

    if epochs and fixed_epochs:
        raise UsageError("give --epochs or --fixed-epochs, not both")
    if out is None and not plan_only:
        raise UsageError("give --out BUNDLE, the folder to write, or --plan")
    if vocab and public_words:
        raise UsageError("give --vocab or --public-words, not both")
    asked: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "noise": noise, "clip": clip}
    asked |= {"embeddings": embeddings, "accountant": accountant}
    values: dict[str, Any] = values_of(changes)
    own = {name.removeprefix("defence."): values.pop(name) for name in list(values) if name.startswith("defence.")}
    values |= {"epochs": epochs} if epochs else {}
    values |= {"epochs": fixed_epochs, "patience": None} if fixed_epochs else {}
    base = defence_named(defence) if defence is not None else preset_settings(preset or "default").defence
    chosen = defence_with(base, dp=asked, teachers={"teachers": teachers, "unseen": unseen}, own=own) or "none"
    settings_for(
        preset, chosen, **values
    )  # refuses what is no setting, such as --set seed=1, before it is taken for one
    options: dict[str, Any] = {
        "vocabulary": vocab,
        "preset": preset,
        "defence": chosen,
        "tasks": names_from(tasks),
        "public_words": public_words,
        "public_classes": public_classes,
        "fewest_cases": fewest_cases,
        "device": device,
        "workers": workers,
        **values,
    }
    if out is None or plan_only:
        with bar() as progress:
            plan = api.plan_training(corpus, progress=progress, **options)
        emit(plan, as_json=as_json)
        return
    with resumable(), bar() as progress:
        model = api.train(
            corpus, validation=validation, out=out, accuracy=accuracy, seed=seed, progress=progress, **options
        )
    emit(training_summary(model, out), as_json=as_json)


def defence_with(
    defence: "AnyDefence | None", *, dp: dict[str, Any], teachers: dict[str, Any], own: dict[str, str]
) -> "AnyDefence | None":
    """A defence with what options and ``--set defence.NAME`` say of it."""
    for kind, options in (("dp", dp), ("teachers", teachers)):
        given = [name for name, value in options.items() if value is not None]
        if given and (defence is None or defence.kind != kind):
            raise UsageError(f"--{given[0]} needs --defence {kind}")
    if defence is None:
        if own:
            raise UsageError(f"--set defence.{next(iter(own))} needs --defence teachers or dp")
        return None
    asked = {name: value for name, value in {**dp, **teachers, **own}.items() if value is not None}
    if "noise" in asked:
        asked = {"epsilon": None} | asked
    return defence.changed(**asked)


def values_of(changes: list[str] | None) -> dict[str, str]:
    """Settings from NAME=VALUE; what they may be is for the settings to say."""
    pairs = dict(change.partition("=")[::2] for change in changes or [])
    if not all(pairs) or not all(pairs.values()):
        raise UsageError("--set takes NAME=VALUE, for example dropout=0.3")
    return pairs
