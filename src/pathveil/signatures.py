"""Keys that sign agreements and releases, in one format: PEM files, EC P-256 or Ed25519, which ``openssl`` makes too.

A private key's file may be read by its owner alone, and a password may lock it. What is signed for one purpose begins
with it, so that a signature under an agreement is none under anything else (a release's begins as DSSE says,
``pathveil.bundle.statements``). In a file of terms a public key stands as the hexadecimal digits of its DER form.

>>> import tempfile
>>> folder = Path(tempfile.mkdtemp())
>>> made = new_key(folder / "officer.pem")
>>> key = read_private_key(folder / "officer.pem")
>>> signature = sign_for(b"terms", purpose="agreement", key=key)
>>> public = read_public_key(folder / "officer.pub.pem").digits
>>> holds(signature, b"terms", purpose="agreement", public_key=public)
True
>>> holds(signature, b"terms", purpose="release", public_key=public), holds(signature, b"", purpose="agreement",
...                                                                         public_key=public)
(False, False)
"""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pathveil.errors import UsageError
from pathveil.files import check_new, new_file, write_text
from pathveil.results import Result

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey, EllipticCurvePublicKey
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

Kind = Literal["p256", "ed25519"]
LARGEST_KEY = 1 << 16  # bytes of a key file; any real one is far smaller
MOST_DIGITS = 1_000  # of a public key or a signature in a file of terms


class KeyPair(Result):
    """A new key: the private half for its owner alone, the public half for everyone."""

    private: str
    public: str
    kind: Kind
    sha256: str  # of the public half; what a signature names the key by

    def rows(self) -> list[dict[str, Any]]:
        return [self.to_dict()]

    def summary(self) -> str:
        return (
            f"{self.private}: the private key ({self.kind}); whoever has it signs in your name: keep it to yourself.\n"
            f"{self.public}: the public key; give it to everyone who is to verify.\n"
            f"Its sha256, to compare by telephone: {self.sha256}"
        )


@dataclass(frozen=True)
class PublicKey:
    """What verifies signatures."""

    key: "EllipticCurvePublicKey | Ed25519PublicKey"

    @property
    def pem(self) -> bytes:
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        return self.key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

    @property
    def digits(self) -> str:
        """The key as it stands in a file of terms: the hexadecimal digits of its DER form."""
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        return self.key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo).hex()

    @property
    def sha256(self) -> str:
        """Of the PEM, which is how model_signing names a key."""
        return hashlib.sha256(self.pem).hexdigest()

    def accepts(self, signature: bytes, content: bytes) -> bool:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.hazmat.primitives.hashes import SHA256

        try:
            if isinstance(self.key, ec.EllipticCurvePublicKey):
                self.key.verify(signature, content, ec.ECDSA(SHA256()))
            else:
                self.key.verify(signature, content)
        except InvalidSignature:
            return False
        return True


@dataclass(frozen=True)
class PrivateKey:
    """What signs."""

    key: "EllipticCurvePrivateKey | Ed25519PrivateKey"

    @property
    def public(self) -> PublicKey:
        return PublicKey(self.key.public_key())

    def sign(self, content: bytes) -> bytes:
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.hazmat.primitives.hashes import SHA256

        if isinstance(self.key, ec.EllipticCurvePrivateKey):
            return self.key.sign(content, ec.ECDSA(SHA256()))
        return self.key.sign(content)


def new_key(path: Path, *, public: Path | None = None, kind: Kind = "p256", password: str | None = None) -> KeyPair:
    """Write a private key to ``path`` and its public half beside it, as NAME.pub.pem or to ``public``; neither may be
    there already."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519

    beside = public or path.with_name(path.name.removesuffix(".pem") + ".pub.pem")
    check_new(path)
    check_new(beside)
    key = ec.generate_private_key(ec.SECP256R1()) if kind == "p256" else ed25519.Ed25519PrivateKey.generate()
    locked = serialization.BestAvailableEncryption(password.encode()) if password else serialization.NoEncryption()
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, locked)
    with new_file(path, private=True) as part:
        part.write_bytes(pem)
    made = PrivateKey(key).public
    write_text(beside, made.pem.decode())
    return KeyPair(private=str(path), public=str(beside), kind=kind, sha256=made.sha256)


def read_private_key(path: Path, *, password: str | None = None) -> PrivateKey:
    """The private key in a PEM file."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    content = _key_bytes(path)
    if b"PUBLIC KEY" in content:
        raise UsageError(f"{path}: is a public key; give the private one, which signs")
    try:
        key = load_pem_private_key(content, password.encode() if password else None)
    except TypeError:
        what = "is locked with a password; give --password-file" if password is None else "is not locked: no password"
        raise UsageError(f"{path}: {what}") from None
    except (ValueError, UnsupportedAlgorithm):
        wrong = " (or the password is wrong)" if password else ""
        raise UsageError(
            f"{path}: is not a private key{wrong}; expected PEM, as 'pathveil keys new' writes it"
        ) from None
    return PrivateKey(_known_kind(key, path))


def read_public_key(path: Path) -> PublicKey:
    """The public key in a PEM file; a private key given by mistake is refused."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    content = _key_bytes(path)
    if b"PRIVATE KEY" in content:
        raise UsageError(f"{path}: is a private key; give the public one, and keep this one to yourself")
    try:
        key = load_pem_public_key(content)
    except (ValueError, UnsupportedAlgorithm):
        raise UsageError(f"{path}: is not a public key; expected PEM, as 'pathveil keys new' writes it") from None
    return PublicKey(_known_kind(key, path))


def sign_for(message: bytes, *, purpose: str, key: PrivateKey) -> str:
    """The signature in hexadecimal digits."""
    return key.sign(_said(message, purpose)).hex()


def holds(signature: str, message: bytes, *, purpose: str, public_key: str) -> bool:
    """Whether the owner of a public key (``PublicKey.digits``) signed this message for this purpose; False for whatever
    is no signature or no key."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_der_public_key

    if not all(re.fullmatch("([0-9a-f]{2})+", one) and len(one) <= MOST_DIGITS for one in (signature, public_key)):
        return False
    try:
        known = PublicKey(_known_kind(load_der_public_key(bytes.fromhex(public_key)), "the key"))
    except (ValueError, UnsupportedAlgorithm, UsageError):
        return False
    return known.accepts(bytes.fromhex(signature), _said(message, purpose))


def _said(message: bytes, purpose: str) -> bytes:
    return b"pathveil " + purpose.encode() + b"\0" + message


def _key_bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_KEY + 1)
    except OSError as fault:
        raise UsageError(f"{path}: cannot be read ({fault.strerror or type(fault).__name__}); expected a key") from None
    if len(content) > LARGEST_KEY:
        raise UsageError(f"{path}: is too large for a key; expected PEM, as 'pathveil keys new' writes it")
    return content


def _known_kind(key: Any, where: Path | str) -> Any:
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519

    p256 = (ec.EllipticCurvePrivateKey, ec.EllipticCurvePublicKey)
    if isinstance(key, (ed25519.Ed25519PrivateKey, ed25519.Ed25519PublicKey)):
        return key
    if isinstance(key, p256) and isinstance(key.curve, ec.SECP256R1):
        return key
    raise UsageError(f"{where}: is a key of another kind; expected EC P-256 or Ed25519")
