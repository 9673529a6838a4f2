"""A certificate for a server that has none, and what is wrong with one that it has.

Each operator makes it on the server itself, so that no private key travels. It is signed with its own key and by nobody
else: sites believe a server because the agreement holds this very certificate, not because an authority vouches for it.

>>> import tempfile
>>> folder = Path(tempfile.mkdtemp())
>>> sorted(path.name for path in make_certificate(folder, "north", hosts=["north.example", "127.0.0.1"]))
['north.key', 'north.pem']
"""

import ipaddress
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pathveil.agreement.offer import NAME
from pathveil.errors import MissingExtraError, UsageError
from pathveil.files import new_file

try:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
except ModuleNotFoundError:
    raise MissingExtraError(package="cryptography", extra="agreement", purpose="making certificates") from None

UNUSED = dict.fromkeys(
    ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "encipher_only", "decipher_only"),
    False,
)  # of what a certificate's key may be used for


def make_certificate(
    folder: Path, name: str, *, hosts: Sequence[str], days: float = 90, now: datetime | None = None
) -> list[Path]:
    """Write NAME.key and NAME.pem for a server reached under the given host names or addresses."""
    if not NAME.fullmatch(name):
        raise UsageError(f"{name!r} cannot name a certificate: letters, digits, '_', '.' or '-'")
    if not hosts:
        raise UsageError("give at least one host name or address under which sites reach the server")
    paths = [folder / f"{name}.key", folder / f"{name}.pem"]
    for path in paths:
        if path.exists():
            raise UsageError(f"{path}: is already there; remove it, or give another folder")
    if days <= 0:
        raise UsageError(f"--days: expected more than 0; got {days:g}")
    certificate, key = self_signed(name, hosts=hosts, days=days, now=now)
    for path, content in zip(paths, (key, certificate), strict=True):
        with new_file(path, private=content is key) as part:
            part.write_bytes(content)
    return paths


def self_signed(
    name: str, *, hosts: Sequence[str], days: float = 90, now: datetime | None = None
) -> tuple[bytes, bytes]:
    """A new certificate and its private key, both PEM."""
    start = (now or datetime.now(UTC)) - timedelta(minutes=5)  # clocks differ
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(
            x509.KeyUsage(digital_signature=True, key_cert_sign=False, crl_sign=False, **UNUSED), critical=True
        )
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return made.public_bytes(serialization.Encoding.PEM), private


def single_certificate(path: Path) -> str:
    """The server's own certificate of a PEM file, which is its first; those of authorities after it do not count."""
    try:
        with path.open("rb") as file:
            content = file.read(1_000_000)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror}); expected a certificate (PEM)") from None
    try:
        found = x509.load_pem_x509_certificates(content)[0]
    except (ValueError, x509.InvalidVersion):
        raise UsageError(f"{path}: is not a certificate (PEM)") from None
    return found.public_bytes(serialization.Encoding.PEM).decode()


def check_lasts(name: str, certificate: str, until: datetime) -> None:
    """Refuse a certificate that will have run out before the agreement does: it cannot be exchanged under way."""
    try:
        last = x509.load_pem_x509_certificate(certificate.encode()).not_valid_after_utc
    except (ValueError, x509.InvalidVersion):
        raise UsageError(f"the certificate of {name} cannot be read; expected one in PEM") from None
    if last < until:
        raise UsageError(
            f"the certificate of {name} is good until {last:%Y-%m-%d %H:%M} UTC, and the agreement lasts until "
            f"{until:%Y-%m-%d %H:%M}; give the server a new certificate and offer, or fewer days"
        )


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
