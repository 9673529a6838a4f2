"""Ed25519 signatures: a key pair in two small files, bytes signed for one purpose, and a signature checked.

What is signed always begins with what it is signed for, so that a signature under an agreement is none under a release.
A private key is a PEM file that only its owner may read; a public key is one line of text that can be read out, mailed
and compared: ``pathveil-ed25519 `` and 64 hexadecimal digits.

>>> import tempfile
>>> folder = Path(tempfile.mkdtemp())
>>> public = write_key_pair(folder / "officer.key", folder / "officer.pub")
>>> signature = sign(b"terms", purpose="agreement", key=folder / "officer.key")
>>> holds(signature, b"terms", purpose="agreement", public_key=read_public_key(folder / "officer.pub"))
True
>>> holds(signature, b"terms", purpose="release", public_key=public), holds(signature, b"", purpose="agreement",
...                                                                         public_key=public)
(False, False)
"""

import re
from pathlib import Path
from typing import TYPE_CHECKING

from pathveil.errors import MissingExtraError, UsageError
from pathveil.files import check_new, new_file, write_text

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

PREFIX = "pathveil-ed25519 "  # before the digits of a public key in its file
MOST_BYTES = 4_096  # of a key file: both kinds are far smaller


def write_key_pair(private: Path, public: Path) -> str:
    """Make a key pair and write its two files, neither of which may be there already; the public key in hex."""
    primitives = _cryptography()
    for path in (private, public):
        check_new(path)
    made = primitives.asymmetric.ed25519.Ed25519PrivateKey.generate()
    serialization = primitives.serialization
    with new_file(private, private=True) as part:
        part.write_bytes(
            made.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
    digits = made.public_key().public_bytes_raw().hex()
    write_text(public, f"{PREFIX}{digits}\n")
    return digits


def read_public_key(path: Path) -> str:
    """The 64 digits of a public key's file; a private key given by mistake is refused."""
    text = _bytes(path, "a public key").decode("ascii", errors="replace").strip()
    if "PRIVATE KEY" in text:
        raise UsageError(
            f"{path}: is a private key; give the public one, and let the private one leave its owner never"
        )
    digits = text.removeprefix(PREFIX)
    if not re.fullmatch("[0-9a-f]{64}", digits):
        raise UsageError(
            f"{path}: is not a public key; expected one line, '{PREFIX.strip()}' and 64 hexadecimal digits"
        )
    return digits


def sign(message: bytes, *, purpose: str, key: Path) -> str:
    """The signature in hex, 128 digits."""
    return _private(key).sign(_said(message, purpose)).hex()


def public_key_of(key: Path) -> str:
    """The public key in hex that belongs to a private key's file."""
    return _private(key).public_key().public_bytes_raw().hex()


def holds(signature: str, message: bytes, *, purpose: str, public_key: str) -> bool:
    """Whether the owner of the public key signed this message for this purpose; False for whatever is no signature."""
    primitives = _cryptography()
    if not re.fullmatch("[0-9a-f]{128}", signature) or not re.fullmatch("[0-9a-f]{64}", public_key):
        return False
    try:
        known = primitives.asymmetric.ed25519.Ed25519PublicKey.from_public_bytes(bytes.fromhex(public_key))
        known.verify(bytes.fromhex(signature), _said(message, purpose))
    except Exception as fault:  # InvalidSignature, or a key that is no point of the curve
        if type(fault).__name__ in ("InvalidSignature", "ValueError", "UnsupportedAlgorithm"):
            return False
        raise
    return True


def _said(message: bytes, purpose: str) -> bytes:
    return b"pathveil " + purpose.encode() + b"\0" + message


def _private(path: Path) -> "Ed25519PrivateKey":
    primitives = _cryptography()
    try:
        key = primitives.serialization.load_pem_private_key(_bytes(path, "a private key"), password=None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, primitives.asymmetric.ed25519.Ed25519PrivateKey):
        raise UsageError(f"{path}: is not an Ed25519 private key (PEM, without a password)")
    return key


def _bytes(path: Path, expected: str) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MOST_BYTES)
    except OSError as fault:
        raise UsageError(
            f"{path}: cannot be read ({fault.strerror or type(fault).__name__}); expected {expected}"
        ) from None


def _cryptography():
    """The package, imported where it is needed; it comes with more than one extra."""
    try:
        from cryptography.hazmat import primitives
        from cryptography.hazmat.primitives import serialization  # noqa: F401
        from cryptography.hazmat.primitives.asymmetric import ed25519  # noqa: F401
    except ModuleNotFoundError:
        raise MissingExtraError(package="cryptography", extra="agreement", purpose="signing") from None
    return primitives
