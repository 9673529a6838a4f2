"""Start-up kits: a folder a participant with its key, its certificate and where the hub is.

FLARE's provisioning makes a certificate authority for one project and signs a certificate for the hub, each site and
the administrator; every connection is checked on both ends against it (mutual TLS). The authority's own key stays in
the ``authority`` folder with whoever provisions, so that a site can be added later.

    OUT/project.yml      what was asked for, in FLARE's form
    OUT/authority/       the certificate authority: keep it offline
    OUT/hub/  OUT/<site>/  OUT/<admin>/   one kit each, to be handed over by a channel you trust

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

from pathveil.errors import MissingExtraError, UsageError
from pathveil.federation.flare import policy
from pathveil.files import new_folder
from pathveil.results import Result

PORT = 8002
DAYS = 360  # that FLARE makes certificates valid for
PROJECT = "pathveil"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")
HOST = re.compile(r"([A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?\.)*[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?")
MAIL = re.compile(r"[A-Za-z0-9._+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,}")
RESERVED = ("hub", "server", "admin", "authority", "all")


class Kits(Result):
    """The start-up kits of a federation: a folder for the hub, each site and the administrator, by name."""

    kits: dict[str, Path]

    def rows(self) -> list[dict[str, Any]]:
        return [{"name": name, "folder": str(kit)} for name, kit in self.kits.items()]

    def summary(self) -> str:
        return "\n".join(
            ["Kits, each with a README for the person who gets it:", *(f"  {kit}" for kit in self.kits.values())]
        )


def provision(*, sites: Sequence[str], hub: str, admin: str, out: Path) -> Kits:
    """Write the kits; with an ``out`` of an earlier call, add the sites that are new."""
    host, port = address(hub)
    check_names(sites)
    if not MAIL.fullmatch(admin):
        raise UsageError(f"--admin: '{admin}' is not a mail address; it names who submits jobs")
    project = described(sites, host=host, port=port, admin=admin)
    check_hub(out, host=host, port=port)
    new = build(project, out)
    kits = {}
    for name, made in new.items():
        kit = out / ("hub" if name == host else name)
        kits["hub" if name == host else name] = kit
        if kit.exists():
            continue  # keys that were handed over stay as they are
        with new_folder(kit) as part:
            shutil.copytree(made, part, dirs_exist_ok=True)
            finish(part, kit, host=host, port=port, admin=admin)
    for made in new.values():  # keys lie in their kits, and in the authority's own state
        shutil.rmtree(made)
    return Kits(kits=kits)


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
        if not NAME.fullmatch(name):
            raise UsageError(f"--site: '{name}' is not a name of at most 40 letters, digits, '-' and '_'")
        if name.lower() in RESERVED:
            raise UsageError(f"--site: '{name}' is a word of the system's own; choose another name")
    folded = [name.lower() for name in sites]
    twice = {name for name in sites if folded.count(name.lower()) > 1}
    if twice:
        raise UsageError(f"--site: {', '.join(sorted(twice))} given twice (upper and lower case count as one)")


def check_hub(out: Path, *, host: str, port: int) -> None:
    """Kits that were made before lead to their hub: those added later have to lead to the same."""
    needed()
    import yaml

    try:
        known = yaml.safe_load((out / "project.yml").read_text("utf-8"))["participants"]
        (old,) = [(one["name"], one["fed_learn_port"]) for one in known if one["type"] == "server"]
    except FileNotFoundError:
        return
    except (OSError, yaml.YAMLError, KeyError, TypeError, ValueError):
        raise UsageError(f"{out / 'project.yml'}: is not as 'federate provision' left it; use a new folder") from None
    if old != (host, port):
        raise UsageError(
            f"--hub: the kits in {out} are for the hub at {old[0]}:{old[1]}, not {host}:{port}; "
            "give the same again to add sites, or another --out for new kits"
        )


def described(sites: Sequence[str], *, host: str, port: int, admin: str) -> dict[str, Any]:
    """FLARE's project file."""
    everyone: list[dict[str, Any]] = [
        {"name": host, "type": "server", "org": "hub", "fed_learn_port": port, "admin_port": port},
        *({"name": name, "type": "client", "org": name.replace("-", "_")} for name in sites),
        {"name": admin, "type": "admin", "org": "hub", "role": "project_admin"},
    ]
    impl = "nvflare.lighter.impl"
    builders = [
        {"path": f"{impl}.workspace.WorkspaceBuilder", "args": {"template_file": ["master_template.yml"]}},
        {"path": f"{impl}.static_file.StaticFileBuilder", "args": {"config_folder": "config", "scheme": "grpc"}},
        {"path": f"{impl}.cert.CertBuilder", "args": {"root_valid_days": DAYS}},
        {"path": f"{impl}.signature.SignatureBuilder", "args": {}},
    ]
    return {
        "api_version": 3,
        "name": PROJECT,
        "description": "One model from registries that share no reports",
        "participants": everyone,
        "builders": builders,
    }


def build(project: dict[str, Any], out: Path) -> dict[str, Path]:
    """Run FLARE's builders; returns each participant's folder as FLARE made it."""
    needed()
    import yaml
    from nvflare.lighter.constants import CtxKey
    from nvflare.lighter.prov_utils import prepare_builders
    from nvflare.lighter.provision import prepare_project
    from nvflare.lighter.provisioner import Provisioner

    out.mkdir(parents=True, exist_ok=True)
    authority = out / "authority"
    authority.mkdir(mode=0o700, exist_ok=True)
    (out / "project.yml").write_text(yaml.safe_dump(project, sort_keys=False), encoding="utf-8")
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        made = Provisioner(str(authority), prepare_builders(project)).provision(prepare_project(project))
    if made.get(CtxKey.BUILD_ERROR):
        raise UsageError(f"{out}: FLARE could not make the kits; was the folder made for another hub or validity?")
    folder = Path(made[CtxKey.CURRENT_PROD_DIR])
    return {kit.name: kit for kit in sorted(folder.iterdir()) if kit.is_dir()}


def finish(part: Path, kit: Path, *, host: str, port: int, admin: str) -> None:
    """Our policy instead of FLARE's defaults, and a page for the person who gets the kit."""
    text = README
    if kit.name == "hub":
        policy.write(part / "local", policy.hub(kit.resolve()))
        text += HUB_README
    elif kit.name == admin:
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
