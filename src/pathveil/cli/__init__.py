"""The command line: parses, calls the library, shows progress; nothing else.

One file a group of commands. Torch, numba and matplotlib are imported inside commands, so that ``--help`` stays quick.
Exit codes: 0 done, 2 bad usage or bad input (one clear sentence), 1 a defect of ours; ``audit`` adds 3 and 4,
``release`` 3 where it refuses.
"""

import errno
import io
import os
import sys
from pathlib import Path

import typer

from pathveil import __version__
from pathveil.cli import audit, bench, cache, coding, corpus, demo, federate, model, release, serve, study, vocab
from pathveil.errors import PathveilError
from pathveil.untrusted import printable

app = typer.Typer(
    name="pathveil",
    help="Train text classifiers for cancer pathology reports across registries that may not pool their data, "
    "choose the words a model may know, measure what it leaks, and ship it with that evidence.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"pathveil {__version__}")
        raise typer.Exit()


@app.callback()
def root(
    version: bool = typer.Option(False, "--version", callback=show_version, is_eager=True, help="Show the version."),
    folder: Path | None = typer.Option(
        None,
        "--cache",
        metavar="FOLDER",
        help="Keep what is derived from corpora here instead of beside them; also the variable PATHVEIL_CACHE.",
    ),
) -> None:
    if folder is not None:
        os.environ["PATHVEIL_CACHE"] = str(folder.expanduser().absolute())  # for this process and those it starts


app.command("demo", short_help="Everything, small: a model, its reasons, four studies, a report.")(demo.run)
app.command(
    "bench",
    short_help="Measure our speed and memory beside a reference.",
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
)(bench.run)
app.add_typer(corpus.app, name="corpus")
app.add_typer(vocab.app, name="vocab")
app.command("cache", short_help="Show or remove what is kept of corpora that were read.")(cache.run)
app.command("train")(model.train)
app.command("evaluate", short_help="Score a model on labelled reports, with 95 % intervals.")(coding.evaluate)
app.command("predict", short_help="Code reports, or leave them to a person.")(coding.predict)
app.command("drift", short_help="Tell whether new reports still look like those a model was trained on.")(coding.drift)
app.command("audit", short_help="Attack a model as an outsider would: may it be released?")(audit.run)
app.add_typer(release.appetite, name="appetite", short_help="Write down what may leak, and who decided so.")
app.command("release", short_help="Let a model leave with its evidence, signed; or refuse.")(release.release)
app.command("verify", short_help="Check a release: files, signatures, verdict.")(release.verify)
app.add_typer(release.keys, name="keys", short_help="Keys that sign releases.")
app.command("serve", short_help="Code reports: an API for programs, a page for registrars.")(serve.run)
app.add_typer(federate.app, name="federate", short_help="Train across registries that share no reports.")
app.add_typer(study.app, name="study")

# What a file system says that is the user's to mend: the place is wrong, forbidden or full.
ENVIRONMENT = {
    errno.ENOENT,
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.ENOSPC,
    errno.EDQUOT,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.EEXIST,
    errno.ENAMETOOLONG,
}


def write_utf8() -> None:
    """What goes to a file or a program is UTF-8 whatever the system writes by itself (Windows, an old locale); a
    terminal shows what it can."""
    if not isinstance(sys.stdout, io.TextIOWrapper):
        return
    if sys.stdout.isatty():
        sys.stdout.reconfigure(errors="replace")
    else:
        sys.stdout.reconfigure(encoding="utf-8", errors=sys.stdout.errors)


def main() -> None:
    """Run a command; turn a user's mistake into one sentence and exit code 2, a defect into a short line and 1."""
    write_utf8()
    try:
        app()
    except PathveilError as error:
        typer.echo(f"pathveil: {printable(str(error))}", err=True)
        sys.exit(2)
    except Exception as error:
        if os.environ.get("PATHVEIL_TRACEBACK"):
            raise
        if isinstance(error, OSError) and error.errno in ENVIRONMENT:
            place = f"{printable(str(error.filename))}: " if error.filename else ""
            typer.echo(f"pathveil: {place}cannot be read or written ({os.strerror(error.errno)})", err=True)
            sys.exit(2)
        if type(error).__name__ == "OutOfMemoryError":  # PyTorch's, which is not imported for its name
            typer.echo("pathveil: the GPU's memory is full; end what else works on it, or take --device cpu", err=True)
            sys.exit(2)
        if isinstance(error, RuntimeError) and "no locator available" in str(error):  # numba's, without a home
            typer.echo(
                "pathveil: compiled code can be kept neither beside the package nor in the user's cache; "
                "set NUMBA_CACHE_DIR to a folder that can be written",
                err=True,
            )
            sys.exit(2)
        # A foreign exception's message may quote data, so only its kind and place are shown.
        trace = error.__traceback__
        while trace and trace.tb_next:
            trace = trace.tb_next
        place = f"{os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno}" if trace else "?"
        typer.echo(
            f"pathveil: a defect of ours: {type(error).__name__} at {place}; "
            "set PATHVEIL_TRACEBACK=1 to see the whole trace (it may show data)",
            err=True,
        )
        sys.exit(1)
