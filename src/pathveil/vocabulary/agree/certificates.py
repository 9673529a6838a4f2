"""A certificate for a server that has none: signed by an authority made for it, whose key is thrown away.

Each operator runs this on the server itself, so that no private key travels; only the authority's certificate is given
to the sites. As the authority's key is never written, nothing else can be signed in its name.

>>> import tempfile
>>> folder = Path(tempfile.mkdtemp())
>>> sorted(path.name for path in make_certificate(folder, "north", hosts=["north.example", "127.0.0.1"]))
['north-authority.pem', 'north.key', 'north.pem']
"""

import ipaddress
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pathveil.errors import MissingExtraError, UsageError
from pathveil.files import new_file
from pathveil.vocabulary.agree.agreement import NAME

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
    """Write NAME.key, NAME.pem and NAME-authority.pem for a server reached under the given host names or addresses."""
    if not NAME.fullmatch(name):
        raise UsageError(f"{name!r} cannot name a certificate: letters, digits, '_', '.' or '-'")
    if not hosts:
        raise UsageError("give at least one host name or address under which sites reach the server")
    paths = [folder / f"{name}.key", folder / f"{name}.pem", folder / f"{name}-authority.pem"]
    for path in paths:
        if path.exists():
            raise UsageError(f"{path}: is already there; remove it, or give another folder")
    start = (now or datetime.now(UTC)) - timedelta(minutes=5)  # clocks differ
    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"pathveil authority of {name}")])

    def certificate(
        subject: x509.Name, public_key: ec.EllipticCurvePublicKey, authority: bool
    ) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(public_key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(start)
            .not_valid_after(start + timedelta(days=days))
            .add_extension(x509.BasicConstraints(ca=authority, path_length=0 if authority else None), critical=True)
            .add_extension(
                x509.KeyUsage(digital_signature=not authority, key_cert_sign=authority, crl_sign=authority, **UNUSED),
                critical=True,
            )
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False
            )
        )

    authority = certificate(issuer, authority_key.public_key(), True).sign(authority_key, hashes.SHA256())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    leaf = (
        certificate(subject, key.public_key(), False)
        .add_extension(x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = (made.public_bytes(serialization.Encoding.PEM) for made in (leaf, authority))
    for path, content in zip(paths, (private, *public), strict=True):
        with new_file(path, private=content is private) as part:
            part.write_bytes(content)
    return paths


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
