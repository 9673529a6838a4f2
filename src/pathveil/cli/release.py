"""``pathveil release``, ``verify``, ``appetite`` and ``keys``: a model leaves with its evidence, signed, or stays."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from pathveil.cli.console import JSON_OPTION, bar, emit
from pathveil.cli.tables import reads_tables
from pathveil.errors import UsageError

if TYPE_CHECKING:
    from pathveil.signatures import PrivateKey

REFUSED = 3
LOG = "release-log.jsonl"
keys = typer.Typer(no_args_is_help=True, help="Keys that sign releases.")
appetite = typer.Typer(no_args_is_help=True, help="The risk appetite: what may leak, and who decided so.")
PASSWORD = typer.Option(None, "--password-file", help="A file with the password of the private key, where it has one.")


@reads_tables("reports")
def release(
    bundle: Path = typer.Argument(..., metavar="BUNDLE", help="A model folder written by 'pathveil train'."),
    audit: Path = typer.Option(..., "--audit", help="The folder that 'pathveil audit --out' wrote for this model."),
    appetite_file: Path | None = typer.Option(
        None, "--appetite", help="The risk appetite the audit was held against, with name, organisation and date."
    ),
    key: Path = typer.Option(..., "--key", help="The private key that signs (PEM, EC P-256 or Ed25519)."),
    out: Path = typer.Option(..., "--out", help="The folder to write."),
    form: Literal["weights", "encoder", "labels"] = typer.Option(
        "weights",
        "--form",
        help="What leaves: the whole model; the encoder without heads and labels; or the model for its owner to serve, "
        "answering with codes and never with a probability.",
    ),
    reports: Path | None = typer.Option(
        None,
        "--reports",
        help="The training corpus: its ids and text are searched for in every file of the release.",
    ),
    names: Path | None = typer.Option(None, "--names", help="Names to search for as well, one a line."),
    hash_words: Path | None = typer.Option(
        None,
        "--hash-words",
        metavar="KEY",
        help="Replace the words by hashes made with the secret in this file; whoever codes needs it too "
        "(docs/release.md says which attack that does not stop).",
    ),
    signer: str = typer.Option("", "--signer", help="Who signs, as it is to stand in the release."),
    name: str = typer.Option("", "--name", help="The model's name; else that of the folder."),
    valid_days: int | None = typer.Option(
        None, "--valid-days", min=1, max=3650, help="How long the verdict is good for, where the appetite says longer."
    ),
    override: str | None = typer.Option(
        None, "--override", metavar="REASON", help="Release although it is refused; the reason stands in everything."
    ),
    log: Path | None = typer.Option(None, "--log", help=f"The release log; else {LOG} beside the release."),
    password_file: Path | None = PASSWORD,
    as_json: bool = JSON_OPTION,
) -> None:
    """Let a model leave with its evidence, signed; or refuse.

    Refused (exit code 3) without a passing audit of exactly this model under exactly this appetite. The release holds
    what may leave and nothing else, is searched for ids, names and pieces of reports, and is signed so that 'pathveil
    verify' and OpenSSF's 'model_signing verify key' can check it without a network.
    """
    from pathveil.auditing.release import ReleaseRefused, read_given, release_bundle
    from pathveil.bundle.release_folder import Signing
    from pathveil.bundle.release_scan import read_names
    from pathveil.corpus.messages.patient import read_key

    given = read_given(audit, appetite_file)
    longest = given.appetite.valid_days if given.appetite is not None else 365
    if valid_days is not None and valid_days > longest:
        raise UsageError(f"--valid-days {valid_days}: the risk appetite lets a verdict be good for {longest} days")
    chain = log or out.absolute().with_name(LOG)
    signing = Signing(key=private_key(key, password_file), signer=signer.strip(), days=valid_days or longest, log=chain)
    options: dict[str, Any] = {"form": form, "override": override, "reports": reports, "name": name}
    options["words_key"] = read_key(hash_words) if hash_words else None
    options["names"] = tuple(read_names(names)) if names else ()
    try:
        with bar() as progress:
            made = release_bundle(
                bundle, out, audit=audit, appetite=appetite_file, signing=signing, progress=progress, **options
            )
    except ReleaseRefused as refused:
        typer.echo(f"pathveil: {refused}", err=True)
        raise typer.Exit(REFUSED) from None
    if reports is None:
        typer.echo("pathveil: no reports were searched for in the release; give --reports CORPUS to do so", err=True)
    elif not made.release.scan.of_training:
        typer.echo(
            f"pathveil: {reports} is not the corpus that the model was trained on; the release says so", err=True
        )
    emit(made, as_json=as_json)


def verify(
    folder: Path = typer.Argument(..., metavar="RELEASE", help="A folder written by 'pathveil release'."),
    key: Path = typer.Option(..., "--key", help="The public key of who should have signed it."),
    log: Path | None = typer.Option(
        None, "--log", help="Also check the chain of this release log, and that it holds it."
    ),
    as_json: bool = JSON_OPTION,
) -> None:
    """Check a release: every file, both signatures, that the verdict is about this model, passes and is still good.

    Exit code 0 where all of it holds, 2 with what is wrong. Needs no network.
    """
    from pathveil.bundle.verification import verify_release
    from pathveil.signatures import read_public_key

    emit(verify_release(folder, read_public_key(key), log=log), as_json=as_json)


@keys.command("new")
def new_keys(
    out: Path = typer.Option(
        ..., "--out", help="The private key to write; the public one lies beside it, NAME.pub.pem."
    ),
    kind: Literal["p256", "ed25519"] = typer.Option(
        "p256", "--kind", help="EC P-256, which OpenSSF's model_signing reads as well, or Ed25519."
    ),
    password_file: Path | None = typer.Option(
        None, "--password-file", help="Lock the private key with the password in this file."
    ),
    as_json: bool = JSON_OPTION,
) -> None:
    """Make a key pair for signing releases."""
    from pathveil.signatures import new_key

    emit(new_key(out, kind=kind, password=password_in(password_file)), as_json=as_json)


@appetite.command("new", short_help="Write a risk appetite of your own.")
def new_appetite(
    out: Path = typer.Option(..., "--out", help="The TOML file to write."),
    name: str | None = typer.Option(None, "--name", help="Who decides."),
    organisation: str | None = typer.Option(None, "--organisation", help="For which organisation."),
    date: str | None = typer.Option(None, "--date", help="When, as 2026-11-16; else today."),
    release_form: Literal["weights", "probabilities", "label"] | None = typer.Option(
        None, "--release", help="What will be released: the model, a service of probabilities, or of codes only."
    ),
    at_ten: float | None = typer.Option(
        None, "--at-10", help="Share of training people that may be found at one false accusation in ten (0.2)."
    ),
    rare_at_ten: float | None = typer.Option(
        None, "--rare-at-10", help="The same in the worst group of rare or common classes (0.3)."
    ),
    at_hundred: float | None = typer.Option(None, "--at-100", help="At one false accusation in a hundred (0.05)."),
    canary: float | None = typer.Option(
        None, "--canary", help="Largest chance (AUC) of telling a planted strange report apart; none by default."
    ),
    valid_days: int | None = typer.Option(None, "--valid-days", help="How long a verdict is good for (365)."),
    shadows: int | None = typer.Option(
        None, "--shadows", help="Shadow models that the audit behind a release must have had, at least (8)."
    ),
    as_json: bool = JSON_OPTION,
) -> None:
    """Write a risk appetite of your own; on a terminal, what is not given as an option is asked for."""
    from datetime import UTC, datetime

    from pydantic import ValidationError

    from pathveil.auditing.appetite import AppetiteAnswers, write_appetite
    from pathveil.errors import explained
    from pathveil.files import check_new

    check_new(out)
    today = datetime.now(UTC).date().isoformat()
    asked: dict[str, tuple[Any, str, Any]] = {
        "name": (name, "Who decides (name and role)", None),
        "organisation": (organisation, "For which organisation", None),
        "date": (date, "On which day", today),
        "release": (release_form, "What will be released (weights, probabilities, label)", "weights"),
        "at_ten": (at_ten, "Share that may be found at 1 false accusation in 10 (guessing: 0.10)", 0.20),
        "rare_at_ten": (rare_at_ten, "The same in the worst group of rare classes", 0.30),
        "at_hundred": (at_hundred, "Share that may be found at 1 false accusation in 100 (guessing: 0.01)", 0.05),
        "valid_days": (valid_days, "Days that a verdict is good for", 365),
        "shadows": (shadows, "Shadow models that an audit must have had, at least", 8),
    }
    answers: dict[str, Any] = {"canary": canary}
    for field, (given, question, usual) in asked.items():
        if given is None and sys.stdin.isatty():
            given = typer.prompt(question, default=usual, err=True)
        if given is None and usual is None:
            raise UsageError(f"give --{field}: an appetite that names nobody is an example, not a decision")
        answers[field] = usual if given is None else given
    try:
        checked = AppetiteAnswers.model_validate(answers)
    except ValidationError as error:
        wrong = explained(error, AppetiteAnswers)
        for field in AppetiteAnswers.model_fields:  # told by the option's name, as whoever typed it knows it
            option = field.replace("_", "-").replace("ten", "10").replace("hundred", "100")
            wrong = wrong.replace(f"'{field}'", f"--{option}")
        raise UsageError(f"the appetite cannot be written: {wrong}") from None
    emit(write_appetite(checked, out), as_json=as_json)


def private_key(path: Path, password_file: Path | None) -> "PrivateKey":
    from pathveil.signatures import read_private_key

    return read_private_key(path, password=password_in(password_file))


def password_in(path: Path | None) -> str | None:
    """The first line of a password file."""
    if path is None:
        return None
    try:
        found = path.read_text(encoding="utf-8").splitlines()[0].strip()
    except (OSError, UnicodeDecodeError, IndexError):
        found = ""
    if not found:
        raise UsageError(f"{path}: holds no password; expected one in its first line")
    return found
