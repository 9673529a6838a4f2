"""A server's own account of itself: where it is, which certificate it shows and, of a key holder, its public key.

Whoever runs a server makes its offer there, so that no private key travels; the offer goes to the person who proposes
an agreement, which pins all servers to what they offered. A key holder's key is made with its offer and serves the
one agreement that is made from it.

>>> import tempfile
>>> folder = Path(tempfile.mkdtemp()) / "north"
>>> paths = make_offer(folder, "north", address="https://north.example:8441")
>>> sorted(path.name for path in paths)
['key', 'north.key', 'north.offer.json', 'north.pem']
>>> Offer.load(folder / "north.offer.json").address
'https://north.example:8441'
"""

import hashlib
import re
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, ValidationError

from pathveil.agreement import oprf
from pathveil.errors import UsageError, explained, short
from pathveil.files import check_new, new_file, write_json
from pathveil.untrusted import Refused, parse_json, read_bytes

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,39}")
HUB = "hub"  # the hub's name among the servers
KEY_FILE = "key"  # a key holder's secret key, in its folder
MOST_BYTES = 1_000_000  # of an agreement or an offer
PEM = re.compile(r"\s*-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]{1,20000}-----END CERTIFICATE-----\s*")


def check_address(address: str) -> str:
    """The host of an address of the form https://host:port; anything else is refused.

    >>> check_address("https://north.example:8441")
    'north.example'
    """
    try:
        parts = urlsplit(address)
        right = parts.scheme == "https" and parts.path in ("", "/") and not parts.query and parts.port != 0
        host = parts.hostname
    except ValueError:  # a port that is no number, brackets around what is no address
        right, host = False, None
    if not right or not host:
        raise UsageError(f"{address[:80]!r} is not an address of the form https://host:port")
    return host


class Pinned(BaseModel):
    """A server as the parties know it: where it is, and what it must show."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    address: str
    certificate: str  # PEM: the one certificate that it shows
    public_key: str | None = None  # a key holder's, 64 hexadecimal digits; the hub has none

    @property
    def fingerprint(self) -> str:
        """sha256 of the certificate."""
        return hashlib.sha256(self.der).hexdigest()

    @property
    def der(self) -> bytes:
        return ssl.PEM_cert_to_DER_cert(self.certificate.strip())

    def check(self, name: str) -> None:
        check_address(self.address)
        try:
            if not PEM.fullmatch(self.certificate):
                raise ValueError
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=self.certificate)
        except (ValueError, ssl.SSLError):
            raise UsageError(f"what {short(name)} shows as its certificate is not one certificate (PEM)") from None
        if name == HUB:
            if self.public_key is not None:
                raise UsageError("the hub has no public key; only key holders have")
        elif not re.fullmatch("[0-9a-f]{64}", self.public_key or "") or not oprf.is_element(
            bytes.fromhex(self.public_key or "")
        ):
            raise UsageError(f"the public key of key holder {short(name)} is no element of the group")


class Offer(Pinned):
    """A server's own account of itself, from which an agreement is made."""

    format: Literal["pathveil-offer/1"] = "pathveil-offer/1"
    name: str

    def pinned(self) -> Pinned:
        return Pinned(address=self.address, certificate=self.certificate, public_key=self.public_key)

    @classmethod
    def load(cls, path: Path) -> "Offer":
        offer = validated(cls, path, "an offer of a server ('pathveil vocab agree offer' makes one)")
        offer.check(offer.name)
        return offer


def make_offer(
    folder: Path, name: str, *, address: str, certificate: Path | None = None, days: float = 90
) -> Sequence[Path]:
    """Make what a server needs for an agreement, in a folder of its own; what was written.

    NAME.key and NAME.pem unless the server has a certificate, ``key`` where it is a key holder (not named 'hub'), and
    NAME.offer.json, which is all that leaves the folder.
    """
    from pathveil.agreement.certificates import make_certificate, single_certificate

    check_new(folder)
    if not NAME.fullmatch(name):
        raise UsageError(f"{name[:40]!r} cannot name a server: letters, digits, '_', '.' or '-'")
    host = check_address(address)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    written = []
    if certificate is None:
        written += make_certificate(folder, name, hosts=[host], days=days)
        certificate = folder / f"{name}.pem"
    public = None
    if name != HUB:
        public = make_key(folder)
        written.append(folder / KEY_FILE)
    offer = Offer(name=name, address=address, certificate=single_certificate(certificate), public_key=public)
    offer.check(name)
    write_json(folder / f"{name}.offer.json", offer.model_dump(mode="json"))
    return [*written, folder / f"{name}.offer.json"]


def make_key(folder: Path) -> str:
    """Make a key holder's secret key in its folder, readable by its owner alone; its public key in hex."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    secret, public = oprf.generate_key()
    check_new(folder / KEY_FILE)
    with new_file(folder / KEY_FILE, private=True) as part:
        part.write_bytes(secret)
    return public.hex()


def made_up_offers(*names: str, seed: bytes | None = None) -> tuple[list[Offer], dict[str, bytes]]:
    """Offers of servers that nobody runs, and the key holders' secret keys: for simulations and tests.

    A seed fixes the keys; certificates are made anew.
    """
    from pathveil.agreement.certificates import self_signed

    offers, secrets = [], {}
    for name in names:
        public = None
        if name != HUB:
            secret, made = oprf.generate_key() if seed is None else oprf.derive_key(seed, name.encode())
            secrets[name], public = secret, made.hex()
        certificate, _ = self_signed(name, hosts=[f"{name}.invalid"])
        offers.append(
            Offer(name=name, address=f"https://{name}.invalid", certificate=certificate.decode(), public_key=public)
        )
    return offers, secrets


def validated(model, path: Path, what: str):
    """A file that others made as the model it should be, or one sentence that says why not."""
    try:
        content = read_bytes(path, most=MOST_BYTES)
    except Refused as fault:
        raise UsageError(f"{path}: is not {what}: it {fault}") from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror}); expected {what}") from None
    if re.search(rb'"format"\s*:\s*"pathveil-agreement/1"', content[:200]):
        raise UsageError(
            f"{path}: is an agreement of an older version, which pins no server to its certificate and no key holder "
            "to its key; let it be proposed anew from the servers' offers ('pathveil vocab agree offer')"
        )
    try:
        return model.model_validate(parse_json(content))
    except Refused as fault:
        raise UsageError(f"{path}: is not {what}: it {fault}") from None
    except ValidationError as error:
        raise UsageError(f"{path}: is not {what}: {explained(error, model)}") from None
