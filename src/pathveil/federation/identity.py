"""Who a site is: the key and certificate of its kit, by which it signs its session's key for the others.

The hub carries the sites' keys to each other. If it could put its own in their place it would hold every pair's secret;
so each key travels with a signature by its site's kit, over the run, the session and the name, and with the certificate
that the federation's authority gave it. A site checks all of that against the authority's certificate in its own kit,
and against the authority's list of revoked certificates where it was given one: a hub that still lets in a site whose
key was stolen gets no masks out of the others.

Whoever holds the authority's key can make certificates for any name, and so could sit between sites: it belongs to
someone who is not the hub, as do the certificates' requests.
"""

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.x509.oid import NameOID

from pathveil.errors import FederationError, UsageError
from pathveil.federation.wire import PlanError
from pathveil.files import read_json
from pathveil.untrusted import Refused, read_bytes

Key = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey
# What bytes of others may raise; of a certificate's or request's version, an exception that is no ValueError.
UNREADABLE = (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm, x509.InvalidVersion)
PADDING = padding.PSS(mgf=padding.MGF1(hashes.SHA256()), salt_length=padding.PSS.DIGEST_LENGTH)


REVOKED = "revoked.pem"  # in a kit: the certificates that count no more, signed by the authority
LONGEST_LIST = 10_000_000  # bytes of such a list


@dataclass(frozen=True)
class Trust:
    """Whom a participant believes: who has a certificate of the federation's authority that was not revoked."""

    root: x509.Certificate
    revoked: frozenset[int] = frozenset()  # serial numbers

    @classmethod
    def of_kit(cls, kit: Path) -> "Trust | None":
        """What a kit says; none where there is no kit, as in a simulation. A list that cannot be read is an error."""
        path, listed = kit / "startup" / "rootCA.pem", kit / "startup" / REVOKED
        if not path.is_file():
            return None
        try:
            root = x509.load_pem_x509_certificate(path.read_bytes())
        except UNREADABLE:
            raise FederationError(f"{path}: is not the certificate of an authority") from None
        return cls(root, revoked_serials(listed, root) if listed.exists() else frozenset())


@dataclass(frozen=True)
class Identity:
    """A kit's key and certificate, and whom it believes."""

    key: Key
    certificate: x509.Certificate
    trust: Trust

    @classmethod
    def of_kit(cls, kit: Path) -> "Identity":
        """The identity in a site's kit."""
        own = kit / "startup"
        try:
            key = serialization.load_pem_private_key((own / "client.key").read_bytes(), password=None)
            certificate = x509.load_pem_x509_certificate((own / "client.crt").read_bytes())
            trust = Trust.of_kit(kit)
        except (OSError, *UNREADABLE):
            raise FederationError(f"{kit}: has no key and certificate to sign with; is it a site's kit?") from None
        if trust is None or not isinstance(key, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey):
            raise FederationError(f"{kit}: has no certificate of an authority, or its key is not one to sign with")
        return cls(key, certificate, trust)

    def signed(self, public: bytes, *, run: str, session: str, name: str) -> dict[str, str]:
        """A session's public key with what others need to believe it, in hexadecimal."""
        said = statement(public, run=run, session=session, name=name)
        if isinstance(self.key, rsa.RSAPrivateKey):
            signature = self.key.sign(said, PADDING, hashes.SHA256())
        else:
            signature = self.key.sign(said, ec.ECDSA(hashes.SHA256()))
        shown = self.certificate.public_bytes(serialization.Encoding.DER)
        return {"key": public.hex(), "signature": signature.hex(), "certificate": shown.hex()}


def revoked_serials(path: Path, root: x509.Certificate) -> frozenset[int]:
    """The serial numbers on a list of revoked certificates, if the authority signed it."""
    key = root.public_key()
    try:
        found = x509.load_pem_x509_crl(read_bytes(path, most=LONGEST_LIST))
        known = isinstance(key, rsa.RSAPublicKey | ec.EllipticCurvePublicKey)
        if not (known and found.issuer == root.subject and found.is_signature_valid(key)):
            raise ValueError
        return frozenset(one.serial_number for one in found)
    except OSError as fault:
        raise UsageError(
            f"{path}: cannot be read ({fault.strerror}); expected a list of revoked certificates"
        ) from None
    except (Refused, *UNREADABLE):
        raise UsageError(
            f"{path}: is not a list of revoked certificates that this federation's authority signed"
        ) from None


def check_roster(sites: Sequence[str], *, kit: Path) -> None:
    """Refuse a plan that counts the hub or an administrator among its sites: they have certificates too, and would read
    the update of a site that is alone with them off the sum. A kit names its hub; an administrator's name is a mail
    address, which no site's is."""
    path = kit / "startup" / "fed_client.json"
    try:
        hub = str(read_json(path, error=FederationError)["servers"][0]["identity"])
    except (KeyError, IndexError, TypeError):
        raise FederationError(f"{path}: does not name the hub; get the kit again") from None
    for name in sites:
        role = "the hub" if name == hub else "an administrator" if "@" in name else ""
        if role:
            raise PlanError(f"the plan counts {role}, '{name[:64]}', among its sites; refused")


def statement(public: bytes, *, run: str, session: str, name: str) -> bytes:
    """What is signed."""
    return "\n".join(("pathveil session key 1", run, session, name, public.hex())).encode()


def verified(
    offer: Mapping[str, Any],
    *,
    run: str,
    name: str,
    trust: Trust,
    now: datetime.datetime | None = None,
) -> bytes:
    """The public key of a site's offer, if the site of that name signed it for this run; else a sentence."""
    try:
        public, signature = bytes.fromhex(offer["key"]), bytes.fromhex(offer["signature"])
        certificate = x509.load_der_x509_certificate(bytes.fromhex(offer["certificate"]))
        said = statement(public, run=run, session=str(offer["session"]), name=name)
        common = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    except (KeyError, *UNREADABLE):
        raise FederationError(f"{name}: its key does not come with a signature and a certificate; refused") from None
    if [part.value for part in common] != [name]:
        raise FederationError(f"{name}: its key is signed by another participant; refused")
    now = now or datetime.datetime.now(datetime.UTC)
    if not certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc:
        raise FederationError(f"{name}: its certificate is not valid now; refused")
    try:
        certificate.verify_directly_issued_by(trust.root)
        signer = certificate.public_key()
        if isinstance(signer, rsa.RSAPublicKey):
            signer.verify(signature, said, PADDING, hashes.SHA256())
        elif isinstance(signer, ec.EllipticCurvePublicKey):
            signer.verify(signature, said, ec.ECDSA(hashes.SHA256()))
        else:
            raise ValueError
    except UNREADABLE:
        raise FederationError(f"{name}: the signature of its key does not hold; refused") from None
    if certificate.serial_number in trust.revoked:
        raise FederationError(f"{name}: its certificate was revoked; refused")
    if len(public) != 32:
        raise FederationError(f"{name}: its key is not one of 32 bytes; refused")
    return public
