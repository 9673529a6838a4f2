"""``pathveil federate request | sign | accept | revoke | provision``: keys, certificates and start-up kits."""

from pathlib import Path

import typer

from pathveil.cli.console import JSON_OPTION, emit


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
    emit(kits, as_json=as_json, text=f"{kits}\nKeep offline:\n  {out}/authority")


def request(
    name: str = typer.Argument(..., metavar="NAME", help="A site's name, the hub's host name, or a mail address."),
    out: Path = typer.Option(..., "--out", help="A new folder for the key, or a kit whose certificate to renew."),
    kind: str | None = typer.Option(None, "--kind", help="site, hub or admin, where the name does not tell."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Make a key here and a request for a certificate of it. The request is handed to the authority, the key stays."""
    from pathveil.federation.flare.provision import ask

    asked = ask(name, kind=kind, out=out)
    emit(asked, as_json=as_json)


def sign(
    requests: list[Path] = typer.Argument(..., metavar="REQUEST", help="Requests that participants have made."),
    hub: str = typer.Option(..., "--hub", help="HOST or HOST:PORT by which sites reach the hub; the port is 8002."),
    out: Path = typer.Option(..., "--out", help="Folder of the authority and for the kits; may be there already."),
    renew: list[str] = typer.Option(
        [], "--renew", metavar="NAME", help="A participant that has a certificate and gets another; may be repeated."
    ),
    as_json: bool = JSON_OPTION,
) -> None:
    """Sign requests: a kit for each participant, without its key. The first call makes the authority."""
    from pathveil.federation.flare.provision import sign as make

    kits = make(requests, hub=hub, out=out, renew=renew)
    emit(kits, as_json=as_json, text=f"{kits}\nKeep offline:\n  {out}/authority")


def accept(
    folder: Path = typer.Argument(..., metavar="FOLDER", help="Where the request was made, with the key in it."),
    kit: Path = typer.Argument(..., metavar="SIGNED", help="The kit that the authority signed."),
    fingerprint: str | None = typer.Option(
        None, "--fingerprint", help="Of the authority, as it was read to you: anything else is refused."
    ),
) -> None:
    """Put a signed kit beside the key it was signed for: the folder then is the whole kit."""
    from pathveil.federation.flare.provision import needed

    needed()
    from pathveil.federation.flare.certificates import accept as put

    shown = put(folder, kit, fingerprint=fingerprint)
    typer.echo(f"{folder} is a kit now. Fingerprint of its authority, to be compared with whoever signed:\n  {shown}")


def revoke(
    name: str = typer.Argument(..., metavar="NAME", help="The participant whose certificates count no more."),
    kits: Path = typer.Option(..., "--kits", help="The folder of 'federate sign' or 'provision', with the authority."),
    older: bool = typer.Option(False, "--older", help="Keep the newest certificate, as after a renewal."),
) -> None:
    """Revoke a participant's certificates: writes the authority's signed list, for the hub and all sites."""
    from pathveil.federation.flare.provision import revoke as add

    count = add(name, kits=kits, older=older)
    typer.echo(f"{count}\nHand {kits}/revoked.pem to the hub and all sites; each is started with --revoked revoked.pem")
