"""Start-up kits: a folder a participant with its key, its certificate and where the hub is.

FLARE's provisioning makes a certificate authority for one project and signs a certificate for the hub, each site and
the administrator; every connection is checked on both ends against it (mutual TLS). The authority's own key stays in
the ``authority`` folder with whoever provisions, so that a site can be added later.

``sign`` makes kits for participants that made their keys themselves and asked (``certificates``): no key is in them.
``provision`` makes the keys too, for a trial or where one person sets everything up; whoever runs it has had them all.

    OUT/project.yml      what was asked for, in FLARE's form
    OUT/authority/       the certificate authority: keep it offline
    OUT/hub/  OUT/<site>/  OUT/<admin>/   one kit each, to be handed over; those with a key by a channel you trust

>>> address("registries.example.org:8443")
('registries.example.org', 8443)
>>> address("10.0.0.7")
('10.0.0.7', 8002)
"""

import contextlib
import io
import re
import shutil
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pydantic import Field

from pathveil.errors import MissingExtraError, UsageError
from pathveil.federation.flare import policy
from pathveil.files import new_folder
from pathveil.formatting import counted
from pathveil.results import Result

PORT = 8002
DAYS = 360  # that FLARE makes certificates valid for
ROOT_DAYS = 3650  # that the authority's own is valid for, so that the others can be renewed
PROJECT = "pathveil"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")
HOST = re.compile(r"([A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?\.)*[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?")
MAIL = re.compile(r"[A-Za-z0-9._+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,}")
RESERVED = ("hub", "server", "admin", "authority", "all")


class Kits(Result):
    """The start-up kits of a federation: a folder for the hub, each site and the administrator, by name."""

    kits: dict[str, Path]
    fingerprints: dict[str, str] = Field(default_factory=dict)  # of the keys that participants asked with

    def rows(self) -> list[dict[str, Any]]:
        return [{"name": name, "folder": str(kit)} for name, kit in self.kits.items()]

    def summary(self) -> str:
        lines = ["Kits, each with a README for the person who gets it:", *(f"  {kit}" for kit in self.kits.values())]
        if self.fingerprints:
            lines += ["Fingerprints of their keys, to be compared with what each participant was shown:"]
            lines += [f"  {name}: {fingerprint}" for name, fingerprint in self.fingerprints.items()]
        return "\n".join(lines)


def provision(*, sites: Sequence[str], hub: str, admin: str, out: Path) -> Kits:
    """Write the kits; with an ``out`` of an earlier call, add the sites that are new."""
    host, port = address(hub)
    check_names(sites)
    if not MAIL.fullmatch(admin):
        raise UsageError(f"--admin: '{admin}' is not a mail address; it names who submits jobs")
    known = check_hub(out, host=host, port=port)
    both = described([*known, *sites], host=host, port=port, admins=[*known, admin])
    return made_kits(both, out, wanted=[host, *sites, admin])


def sign(requests: Sequence[Path], *, hub: str, out: Path, renew: Sequence[str] = ()) -> Kits:
    """Write a kit without a key for each participant that asked; ``renew`` names those that may have one already."""
    needed()
    from pathveil.federation.flare.certificates import read_request

    host, port = address(hub)
    asked = {request.name: (path, request) for path in requests if (request := read_request(path))}
    if len(asked) < len(requests):
        raise UsageError("two requests are for the same name; give each participant's newest")
    for name in asked:
        if name != host and "@" not in name:
            check_name(name)
        elif "@" in name and not MAIL.fullmatch(name):
            raise UsageError(f"{asked[name][0]}: asks for '{name[:64]}', which is neither a name nor a mail address")
    known = check_hub(out, host=host, port=port)
    folder = out / "authority"
    issued = issued_names(folder) if folder.exists() else set()
    for name in issued & set(asked) - set(renew):
        raise UsageError(
            f"{asked[name][0]}: {name} has a certificate already; if it is {name} who asks again (compare the "
            f"fingerprints), give --renew {name}"
        )
    everyone = [*known, *asked]
    project = described(everyone, host=host, port=port, admins=everyone)
    paths = {name: str(path.resolve()) for name, (path, _) in asked.items()}
    kits = made_kits(project, out, wanted=list(asked), requests=paths)
    return kits.model_copy(update={"fingerprints": {name: one.fingerprint for name, (_, one) in asked.items()}})


def made_kits(
    project: dict[str, Any], out: Path, *, wanted: Sequence[str], requests: dict[str, str] | None = None
) -> Kits:
    """Run FLARE's builders and put the wanted participants' kits in their places."""
    from pathveil.federation.flare.certificates import Authority

    host, port = next(
        (one["name"], one["fed_learn_port"]) for one in project["participants"] if one["type"] == "server"
    )
    made = build(project, out, requests=requests)
    kits = {}
    for name in wanted:
        kit = out / ("hub" if name == host else name)
        if not kit.exists() or requests:  # keys that were handed over stay as they are
            if not any((made / name / "startup").glob("*.crt")):
                continue  # has its kit already, elsewhere
            with new_folder(kit, replace=bool(requests)) as part:
                shutil.copytree(made / name, part, dirs_exist_ok=True)
                finish(part, kit, host=host, port=port)
        kits["hub" if name == host else name] = kit
    shutil.rmtree(made)  # a key lies in its kit and nowhere else
    Authority(out / "authority").note()
    return Kits(kits=kits)


class Asked(Result):
    """A request for a certificate, and where it is."""

    name: str
    kind: str
    request: Path
    fingerprint: str

    def rows(self) -> list[dict[str, Any]]:
        return [self.to_dict()]

    def summary(self) -> str:
        return (
            f"{self.request}: a request of {self.name}, to be handed to the authority; the key stays in "
            f"{self.request.parent}\nFingerprint of the key, to be compared with what the authority sees:\n"
            f"  {self.fingerprint}"
        )


def ask(name: str, *, kind: str | None, out: Path) -> Asked:
    """Make a key and a request for a certificate in a folder of the participant's."""
    needed()
    from pathveil.federation.flare.certificates import REQUEST, make_request

    found = kind or ("admin" if "@" in name else "hub" if "." in name else "site")
    if found == "site":
        check_name(name)
    elif found == "hub":
        if address(name) != (name, PORT):
            raise UsageError(f"'{name}' is not a host name alone; the port is given when the request is signed")
    elif found == "admin":
        if not MAIL.fullmatch(name):
            raise UsageError(f"'{name}' is not a mail address; it names who submits jobs")
    else:
        raise UsageError(f"--kind: '{found}' is not one of site, hub, admin")
    made = make_request(name, "hub" if found == "hub" else "site", out)
    return Asked(name=name, kind=found, request=out / REQUEST, fingerprint=made.fingerprint)


def revoke(name: str, *, kits: Path, older: bool = False) -> str:
    """Add a participant's certificates to the authority's list (``revoked.pem``); what was done, in a sentence."""
    needed()
    from pathveil.federation.flare.certificates import Authority
    from pathveil.federation.identity import REVOKED

    authority = Authority(kits / "authority")
    serials = [one["serial"] for one in authority.issued() if one["name"] == name]
    added = authority.revoke(name, keep=serials[-1] if older and serials else "", out=kits / REVOKED)
    return f"{name}: {counted(len(added), 'certificate')} revoked"


def issued_names(authority: Path) -> set[str]:
    """The participants that an authority has signed for."""
    from pathveil.federation.flare.certificates import Authority

    return {one["name"] for one in Authority(authority).issued()}


def needed() -> None:
    """Say what to install where FLARE is not there."""
    if find_spec("nvflare") is None:
        raise MissingExtraError(package="nvflare", extra="federation", purpose="a federation over a network")


def address(text: str) -> tuple[str, int]:
    """``HOST`` or ``HOST:PORT``."""
    host, colon, port = text.partition(":")
    if not HOST.fullmatch(host) or len(host) > 64:
        raise UsageError(f"--hub: '{host}' is not a host name or an IPv4 address that sites could reach")
    if colon and not (port.isdigit() and 0 < int(port) < 65536):
        raise UsageError(f"--hub: '{port}' is not a port; expected a number from 1 to 65535")
    return host, int(port) if colon else PORT


def check_names(sites: Sequence[str]) -> None:
    if len(sites) < 2:
        raise UsageError(f"--site: a federation has at least 2 sites; {len(sites)} given")
    for name in sites:
        check_name(name)
    folded = [name.lower() for name in sites]
    twice = {name for name in sites if folded.count(name.lower()) > 1}
    if twice:
        raise UsageError(f"--site: {', '.join(sorted(twice))} given twice (upper and lower case count as one)")


def check_name(name: str) -> None:
    if not NAME.fullmatch(name):
        raise UsageError(f"--site: '{name[:64]}' is not a name of at most 40 letters, digits, '-' and '_'")
    if name.lower() in RESERVED:
        raise UsageError(f"--site: '{name}' is a word of the system's own; choose another name")


def check_hub(out: Path, *, host: str, port: int) -> list[str]:
    """Kits that were made before lead to their hub: those added later have to lead to the same. The names of the sites
    and administrators that there are."""
    needed()
    import yaml

    try:
        known = yaml.safe_load((out / "project.yml").read_text("utf-8"))["participants"]
        (old,) = [(one["name"], one["fed_learn_port"]) for one in known if one["type"] == "server"]
    except FileNotFoundError:
        return []
    except (OSError, yaml.YAMLError, KeyError, TypeError, ValueError):
        raise UsageError(f"{out / 'project.yml'}: is not as 'federate provision' left it; use a new folder") from None
    if old != (host, port):
        raise UsageError(
            f"--hub: the kits in {out} are for the hub at {old[0]}:{old[1]}, not {host}:{port}; "
            "give the same again to add sites, or another --out for new kits"
        )
    return [str(one["name"]) for one in known if one["type"] != "server"]


def described(names: Sequence[str], *, host: str, port: int, admins: Sequence[str]) -> dict[str, Any]:
    """FLARE's project file: sites, and administrators, whose names are mail addresses."""
    sites = dict.fromkeys(name for name in names if "@" not in name and name != host)
    people = dict.fromkeys(name for name in admins if "@" in name)
    everyone: list[dict[str, Any]] = [
        {"name": host, "type": "server", "org": "hub", "fed_learn_port": port, "admin_port": port},
        *({"name": name, "type": "client", "org": name.replace("-", "_")} for name in sites),
        *({"name": name, "type": "admin", "org": "hub", "role": "project_admin"} for name in people),
    ]
    impl = "nvflare.lighter.impl"
    builders = [
        {"path": f"{impl}.workspace.WorkspaceBuilder", "args": {"template_file": ["master_template.yml"]}},
        {"path": f"{impl}.static_file.StaticFileBuilder", "args": {"config_folder": "config", "scheme": "grpc"}},
    ]
    return {
        "api_version": 3,
        "name": PROJECT,
        "description": "One model from registries that share no reports",
        "participants": everyone,
        "builders": builders,
    }


def build(project: dict[str, Any], out: Path, *, requests: dict[str, str] | None = None) -> Path:
    """Run FLARE's builders, with our own for certificates; returns the folder with each participant's, as made."""
    needed()
    import yaml
    from nvflare.lighter.constants import CtxKey
    from nvflare.lighter.prov_utils import prepare_builders
    from nvflare.lighter.provision import prepare_project
    from nvflare.lighter.provisioner import Provisioner

    from pathveil.federation.flare.certificates import KeyCertBuilder

    out.mkdir(parents=True, exist_ok=True)
    authority = out / "authority"
    authority.mkdir(mode=0o700, exist_ok=True)
    (out / "project.yml").write_text(yaml.safe_dump(project, sort_keys=False), encoding="utf-8")
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        builders = [*prepare_builders(project), KeyCertBuilder(ROOT_DAYS, requests)]
        made = Provisioner(str(authority), builders).provision(prepare_project(project))
    if made.get(CtxKey.BUILD_ERROR):
        raise UsageError(f"{out}: FLARE could not make the kits; was the folder made for another hub or validity?")
    return Path(made[CtxKey.CURRENT_PROD_DIR])


def finish(part: Path, kit: Path, *, host: str, port: int) -> None:
    """Our policy instead of FLARE's defaults, and a page for the person who gets the kit."""
    text = README if any((part / "startup").glob("*.key")) else ASKED_README
    if kit.name == "hub":
        policy.write(part / "local", policy.hub(kit.resolve()))
        text += HUB_README
    elif "@" in kit.name:
        text += ADMIN_README
    else:
        policy.write(part / "local", policy.site())
        text += SITE_README
    text = text.format(name=kit.name, host=host, port=port, days=DAYS)
    (part / "README.md").write_text(text, encoding="utf-8")
    # FLARE's own scripts and samples would start it without our policy.
    for pattern in (
        "readme.txt",
        "startup/*.sh",
        "startup/*.txt",
        "startup/*.ipynb",
        "local/*.default",
        "local/*.sample",
    ):
        for old in part.glob(pattern):
            old.unlink()
    part.chmod(0o700)


README = """# Kit of {name}

This folder is the identity of **{name}** in a federation whose hub is {host}, port {port}. Whoever holds it can act as
{name}: keep it readable by the account that runs Pathveil only, and do not send it by mail. The certificate inside is
valid for {days} days.
"""
ASKED_README = """# Kit of {name}, without its key

The certificate of **{name}** in a federation whose hub is {host}, port {port}, for the key that {name} made and asked
with; valid for {days} days. Nothing in this folder is secret. Put it beside the key, where the request was made:

    pathveil federate accept FOLDER-OF-THE-REQUEST {name}

It shows the fingerprint of the authority: compare it with whoever signed, by telephone. The folder of the request then
is the kit, and whoever holds it can act as {name}.
"""
HUB_README = """
Start the hub, and leave it running:

    pathveil federate hub {name}

Sites and the administrator connect to it on TCP port {port}; it connects to nobody. Open that one port to the sites'
addresses. What it keeps: the shared parameters of each run (`runs`), jobs (`jobs`) and its log.
"""
SITE_README = """
Start the site, and leave it running:

    pathveil federate site {name} --corpus REPORTS --vocab VOCAB

It opens one connection, out to {host}, TCP port {port}; nothing connects to it, so no port has to be opened for it.
Reports, the private part of the model and the site's log stay on this machine. `local` says what the hub's
administrator may do here: submit and stop jobs that run Pathveil's own code. Sending other code, shell commands and
reading logs are refused.
"""
ADMIN_README = """
Submit a training and fetch its result:

    pathveil federate submit {name} --site SITE --site SITE --vocab VOCAB --classes CLASSES --out RUN

It connects to {host}, TCP port {port}.
"""
