"""What an authority hands over, as a participant takes it: a certificate, the authority's own, and where the hub is.

The folder of ``federate sign`` holds no secret and travels in any way, so whoever carries it could put something in: a
key that they know, the secret that orders a site's batches, a policy that lets an administrator run programs here, a
description that turns TLS off. So nothing is taken that is not needed: two certificates, the page to read, and a
description that must say, to the letter, what ``federate sign`` writes, but for the hub's place. What a participant
lets others do on its machine (``local``) is made here and not taken.

>>> described("site", "north", host="hub.example.org", port=8002)["client"]["connection_security"]
'mtls'
"""

from pathlib import Path
from typing import Any, Literal

from pathveil.errors import UsageError
from pathveil.files import read_json

Role = Literal["hub", "site", "admin"]
DESCRIPTION: dict[Role, str] = {"hub": "fed_server.json", "site": "fed_client.json", "admin": "fed_admin.json"}
KEYS = {"ssl_private_key": "client.key", "ssl_cert": "client.crt", "ssl_root_cert": "rootCA.pem"}
SERVER_KEYS = {"ssl_private_key": "server.key", "ssl_cert": "server.crt", "ssl_root_cert": "rootCA.pem"}
SECURE = {"connection_security": "mtls"}  # TLS with certificates on both ends


def role_of(signed: Path) -> Role:
    """Whose kit a signed folder is to become; it has one description."""
    found: list[Role] = [role for role, file in DESCRIPTION.items() if (signed / "startup" / file).is_file()]
    if len(found) != 1:
        raise UsageError(f"{signed}: is not what 'pathveil federate sign' makes for one participant")
    return found[0]


def files_of(signed: Path, role: Role) -> dict[str, Path]:
    """The files that are taken over, by their place in the kit; a link is none of them."""
    certificate = SERVER_KEYS["ssl_cert"] if role == "hub" else KEYS["ssl_cert"]
    names = (f"startup/{certificate}", "startup/rootCA.pem", f"startup/{DESCRIPTION[role]}", "README.md")
    files = {name: signed / name for name in names}
    for name, path in files.items():
        if path.is_symlink() or not path.is_file():
            raise UsageError(f"{signed}: {name} is missing, or is a link; let the authority hand it over again")
    return files


def check_description(signed: Path, role: Role, name: str) -> None:
    """Refuse a description that says anything else than where the hub is."""
    path = signed / "startup" / DESCRIPTION[role]
    content = read_json(path)
    try:
        if role == "admin":
            host, port = content["admin"]["host"], content["admin"]["port"]
        else:
            host, _, port = content["servers"][0]["service"]["target"].rpartition(":")
            port = int(port)
        right = content == described(role, name, host=host, port=port) and type(port) is int and 0 < port < 65536
    except (KeyError, IndexError, TypeError, ValueError, AttributeError):
        right = False
    if not right:
        raise UsageError(
            f"{path}: is not the description of {name} that 'pathveil federate sign' of this version writes; it was "
            "changed on its way, or the authority has another version"
        )


def described(role: Role, name: str, *, host: str, port: int) -> dict[str, Any]:
    """What a description says."""
    service = {"target": f"{host}:{port}", "scheme": "grpc"}
    if role == "site":
        server = {"name": "pathveil", "service": service, "identity": host}
        return {"format_version": 2, "servers": [server], "client": KEYS | SECURE | {"fqsn": name, "is_leaf": True}}
    if role == "hub":
        admin = {"admin_server": host, "admin_port": port}
        return {
            "format_version": 2,
            "servers": [{"name": "pathveil", "service": service} | admin | SERVER_KEYS | SECURE],
        }
    place = {"server_identity": host, "scheme": "grpc", "host": host, "port": port}
    transfer = {"with_file_transfer": True, "upload_dir": "transfer", "download_dir": "transfer"}
    files = {"client_key": KEYS["ssl_private_key"], "client_cert": KEYS["ssl_cert"], "ca_cert": KEYS["ssl_root_cert"]}
    who = {"project_name": "pathveil", "username": name, "uid_source": "user_input"}
    return {"format_version": 1, "admin": who | place | transfer | files | SECURE}
