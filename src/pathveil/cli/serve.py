"""``pathveil serve``: a model as a service, for programs and for the people who code."""

from pathlib import Path

import typer

from pathveil.cli.model import values_of
from pathveil.errors import MissingExtraError


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
    """Serve a model: codes for programs over HTTP.

    Programs send reports to /v1/code with a token (JSON, plain text, HL7 v2 or FHIR) and get codes with their terms;
    /openapi.json describes it. Report text is never logged.
    """
    import logging

    try:
        from pathveil.serve.app import make_app
        from pathveil.serve.server import check_place, run_server
        from pathveil.serve.start import make_service, read_key
    except ModuleNotFoundError as missing:
        raise MissingExtraError(package=str(missing.name), extra="serve", purpose="serving a model") from None
    from pathveil.serve.settings import ServeSettings

    check_place(host, certificate=certificate, key=certificate_key, behind_proxy=behind_proxy)
    settings = ServeSettings().changed(**values_of(changes))
    key = read_key(key_file) if key_file else None
    service = make_service(release, settings=settings, token_file=token_file, detail=detail, key=key)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    if token_file is None:
        typer.echo("No --token-file: the API refuses every program.", err=True)
    scheme = "https" if certificate else "http"
    typer.echo(f"Serving on {scheme}://{host}:{port}; ctrl-C stops.", err=True)
    run_server(
        make_app(service),
        settings,
        host=host,
        port=port,
        certificate=certificate,
        key=certificate_key,
        behind_proxy=behind_proxy,
    )
