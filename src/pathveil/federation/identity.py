"""Who a site is: the key and certificate of its kit, by which it signs its session's key for the others.

The hub carries the sites' keys to each other. If it could put its own in their place it would hold every pair's secret;
so each key travels with a signature by its site's kit, over the run, the session and the name, and with the certificate
that the federation's authority gave it. A site checks all of that against the authority's certificate in its own kit.

Whoever holds the authority's key can make certificates for any name, and so could sit between sites: it belongs to
someone who is not the hub, as do the certificates' requests.
"""

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.x509.oid import NameOID

from pathveil.errors import FederationError

Key = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey
PADDING = padding.PSS(mgf=padding.MGF1(hashes.SHA256()), salt_length=padding.PSS.DIGEST_LENGTH)


@dataclass(frozen=True)
class Identity:
    """A kit's key and certificate, and the certificate of its authority."""

    key: Key
    certificate: x509.Certificate
    root: x509.Certificate

    @classmethod
    def of_kit(cls, kit: Path) -> "Identity":
        """The identity in a site's kit."""
        own = kit / "startup"
        try:
            key = serialization.load_pem_private_key((own / "client.key").read_bytes(), password=None)
            certificate = x509.load_pem_x509_certificate((own / "client.crt").read_bytes())
            root = x509.load_pem_x509_certificate((own / "rootCA.pem").read_bytes())
        except (OSError, ValueError, TypeError):
            raise FederationError(f"{kit}: has no key and certificate to sign with; is it a site's kit?") from None
        if not isinstance(key, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey):
            raise FederationError(f"{kit}: its key is neither RSA nor of an elliptic curve")
        return cls(key, certificate, root)

    def signed(self, public: bytes, *, run: str, session: str, name: str) -> dict[str, str]:
        """A session's public key with what others need to believe it, in hexadecimal."""
        said = statement(public, run=run, session=session, name=name)
        if isinstance(self.key, rsa.RSAPrivateKey):
            signature = self.key.sign(said, PADDING, hashes.SHA256())
        else:
            signature = self.key.sign(said, ec.ECDSA(hashes.SHA256()))
        shown = self.certificate.public_bytes(serialization.Encoding.DER)
        return {"key": public.hex(), "signature": signature.hex(), "certificate": shown.hex()}


def authority_of(kit: Path) -> x509.Certificate | None:
    """The certificate of the authority in a kit; None where there is no kit, as in a simulation."""
    path = kit / "startup" / "rootCA.pem"
    return x509.load_pem_x509_certificate(path.read_bytes()) if path.is_file() else None


def statement(public: bytes, *, run: str, session: str, name: str) -> bytes:
    """What is signed."""
    return "\n".join(("pathveil session key 1", run, session, name, public.hex())).encode()


def verified(
    offer: Mapping[str, Any],
    *,
    run: str,
    name: str,
    root: x509.Certificate,
    now: datetime.datetime | None = None,
) -> bytes:
    """The public key of a site's offer, if the site of that name signed it for this run; else a sentence."""
    try:
        public, signature = bytes.fromhex(offer["key"]), bytes.fromhex(offer["signature"])
        certificate = x509.load_der_x509_certificate(bytes.fromhex(offer["certificate"]))
        said = statement(public, run=run, session=str(offer["session"]), name=name)
        common = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    except (KeyError, TypeError, ValueError):
        raise FederationError(f"{name}: its key does not come with a signature and a certificate; refused") from None
    if [part.value for part in common] != [name]:
        raise FederationError(f"{name}: its key is signed by another participant; refused")
    now = now or datetime.datetime.now(datetime.UTC)
    if not certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc:
        raise FederationError(f"{name}: its certificate is not valid now; refused")
    try:
        certificate.verify_directly_issued_by(root)
        signer = certificate.public_key()
        if isinstance(signer, rsa.RSAPublicKey):
            signer.verify(signature, said, PADDING, hashes.SHA256())
        elif isinstance(signer, ec.EllipticCurvePublicKey):
            signer.verify(signature, said, ec.ECDSA(hashes.SHA256()))
        else:
            raise ValueError
    except (InvalidSignature, ValueError, TypeError):
        raise FederationError(f"{name}: the signature of its key does not hold; refused") from None
    if len(public) != 32:
        raise FederationError(f"{name}: its key is not one of 32 bytes; refused")
    return public
