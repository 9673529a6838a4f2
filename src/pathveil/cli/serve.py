"""``pathveil serve``: a model as a service, for programs and for the people who code."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import typer

from pathveil.cli.console import SIGNATURE_OPTION, WORDS_KEY_OPTION
from pathveil.cli.model import values_of
from pathveil.errors import MissingExtraError, UsageError
from pathveil.files import only_process


def run(
    release: Path = typer.Argument(
        ..., metavar="RELEASE|BUNDLE", help="A release, or a model folder written by 'pathveil train'."
    ),
    host: str = typer.Option("127.0.0.1", "--host", help="The address to listen on."),
    port: int = typer.Option(8080, "--port", min=1, max=65535, help="The port to listen on."),
    token_file: Path | None = typer.Option(
        None,
        "--token-file",
        help="Who may use the API: a token a line, or a name and a token, or a name and sha256:… of one; readable by "
        "its owner alone. Without it every program is refused.",
    ),
    detail: str | None = typer.Option(
        None,
        "--detail",
        help="How much answers tell: probabilities, rounded (to one digit), bands (their names) or labels (codes "
        "alone). Never more than the release's form allows, which is what holds without it.",
    ),
    key_file: Path | None = typer.Option(
        None, "--key-file", help="The secret from which case ids of HL7 patients are made, as in 'corpus import'."
    ),
    require_signature: Path | None = SIGNATURE_OPTION,
    words_key: Path | None = WORDS_KEY_OPTION,
    store: str | None = typer.Option(
        None,
        "--store",
        metavar="FOLDER",
        help="Where the queue, decisions, users and the log are kept: a folder (SQLite), or postgresql://… . With it "
        "there is a page for registrars.",
    ),
    store_key: Path | None = typer.Option(
        None, "--store-key", help="The secret with which report text is sealed in the store; kept elsewhere than it."
    ),
    queue: list[Path] = typer.Option(
        None, "--queue", help="Put the reports of this file (a table, HL7 or FHIR) into the queue before serving."
    ),
    watch: list[Path] = typer.Option(None, "--watch", help="Take files that are put into this folder into the queue."),
    mllp: str | None = typer.Option(
        None, "--mllp", metavar="[HOST:]PORT", help="Take HL7 messages over MLLP into the queue."
    ),
    models: Path | None = typer.Option(
        None, "--models", help="A folder of releases or bundles that an administrator may switch to."
    ),
    setup: bool = typer.Option(
        False, "--setup", help="Show a link to make another administrator, for when no one can log in any more."
    ),
    certificate: Path | None = typer.Option(None, "--certificate", help="The server's certificate (PEM), for TLS."),
    certificate_key: Path | None = typer.Option(None, "--certificate-key", help="The certificate's key (PEM)."),
    behind_proxy: bool = typer.Option(
        False, "--behind-proxy", help="A reverse proxy on this machine does TLS and says who asks (X-Forwarded-For)."
    ),
    changes: list[str] = typer.Option(
        None,
        "--set",
        metavar="NAME=VALUE",
        help="Change a limit, for example largest_body=1000000 or requests_a_minute=600 (docs/serve.md lists them).",
    ),
) -> None:
    """Serve a model: codes for programs over HTTP and, with a store, a page on which registrars decide.

    Programs send reports to /v1/code with a token (JSON, plain text, HL7 v2 or FHIR) and get codes with their terms;
    /openapi.json describes it. People log in with a browser; the first time, a link to make the first user is shown.
    Report text is never logged.
    """
    import logging

    try:
        from pathveil.serve.app import make_app
        from pathveil.serve.folder_feed import FolderFeed
        from pathveil.serve.mllp_feed import MLLPFeed
        from pathveil.serve.server import check_place, make_server, run_server
        from pathveil.serve.start import address_of, make_service, queue_file, read_key
    except ModuleNotFoundError as missing:
        raise MissingExtraError(package=str(missing.name), extra="serve", purpose="serving a model") from None
    from pathveil.serve.settings import ServeSettings

    check_place(host, certificate=certificate, key=certificate_key, behind_proxy=behind_proxy)
    settings = ServeSettings().changed(**values_of(changes))
    feeds: list[Any] = [FolderFeed(existing_folder(folder, "--watch")) for folder in watch or []]
    feeds += [MLLPFeed(*address_of(mllp))] if mllp else []
    if queue and store is None:
        raise UsageError("--queue needs --store, where reports wait for a person")
    for path in queue or []:
        if not path.is_file():
            raise UsageError(f"--queue {path}: there is no such file; expected a table of reports, or HL7 messages")
    with ExitStack() as stack:
        if store is not None and "://" not in store:
            if Path(store).is_file():
                raise UsageError(f"--store {store}: is a file; expected a folder, or one to be made")
            Path(store).mkdir(parents=True, exist_ok=True, mode=0o700)
            stack.enter_context(only_process(Path(store)))
        service = make_service(
            release,
            settings=settings,
            token_file=token_file,
            detail=detail,
            key=read_key(key_file) if key_file else None,
            store=store,
            store_key=read_key(store_key) if store_key else None,
            models=existing_folder(models, "--models") if models else None,
            feeds=feeds,
            require_signature=require_signature,
            words_key=words_key,
        )
        if setup and service.desk:
            service.desk.allow_setup()
        for path in queue or []:
            queue_file(service, path)
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
        server, gate = make_server(
            make_app(service),
            settings,
            host=host,
            port=port,
            certificate=certificate,
            key=certificate_key,
            behind_proxy=behind_proxy,
        )
        # Said only now that the port is ours.
        if token_file is None and service.desk is None:
            typer.echo("No --token-file: the API refuses every program.", err=True)
        scheme = "https" if certificate else "http"
        typer.echo(f"Serving on {scheme}://{host}:{port}; ctrl-C stops.", err=True)
        if service.desk and service.desk.setup_token:
            link = f"{scheme}://{host}:{port}/setup?token={service.desk.setup_token}"
            typer.echo(f"Make an administrator here, once: {link}", err=True)
        run_server(server, gate)


def existing_folder(path: Path, option: str) -> Path:
    if not path.is_dir():
        raise UsageError(f"{option} {path}: there is no such folder")
    return path
