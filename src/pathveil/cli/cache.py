"""``pathveil cache``: what is kept of corpora that were read, and its removal."""

from pathlib import Path

import typer

from pathveil.cli.console import JSON_OPTION, emit


def run(
    corpora: list[Path] = typer.Argument(
        None, metavar="CORPUS", help="Corpora beside which words are kept; else the user's cache.", show_default=False
    ),
    clear: bool = typer.Option(False, "--clear", help="Remove it. It is made again when it is next needed."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Show what is kept of corpora that were read, or remove it.

    A corpus is cut into words once, and these are kept beside it (CORPUS.pathveil), or, where that folder cannot be
    written to, in the user's cache; 'pathveil --cache FOLDER …' or the variable PATHVEIL_CACHE names another place. The
    cache holds every word of the reports and is as private as they are.
    """
    from pathveil.vocabulary.cache import clear_cache, show_cache

    emit((clear_cache if clear else show_cache)(corpora or []), as_json=as_json)
