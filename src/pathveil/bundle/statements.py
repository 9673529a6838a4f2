"""Keys, and statements signed with them, in the forms that other tools read; nothing goes online.

A *statement* (in-toto, version 1) names files by their sha256 and says something of them. It is signed inside an
*envelope* (DSSE: the signature covers the payload and its type). The statement on all files of a release is put into a
Sigstore bundle, so that the OpenSSF tool accepts it:

    model_signing verify key RELEASE --signature RELEASE/model.sig --public_key PUBLIC

A key is EC P-256 (what that tool takes) or Ed25519, as PEM; ``openssl`` makes and reads both. The Ed25519 keys of
``pathveil.signatures``, which sign agreements, are taken as well.

>>> import tempfile
>>> folder = Path(tempfile.mkdtemp())
>>> made = new_key(folder / "officer.pem")
>>> key = read_private_key(folder / "officer.pem")
>>> envelope = sign(statement({"card.md": "00"}, kind="a note", predicate={"read": True}), key)
>>> opened(envelope, read_public_key(folder / "officer.pub.pem"), "the note")["predicate"]
{'read': True}
"""

import base64
import binascii
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pathveil.errors import BundleError, UsageError
from pathveil.files import check_new, new_file, write_text
from pathveil.foreign import Refused, parse_json
from pathveil.results import Result
from pathveil.signatures import PREFIX
from pathveil.signatures import read_public_key as read_digits

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey, EllipticCurvePublicKey
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
SIGNATURE_TYPE = "https://model_signing/signature/v1.0"
TEST_RESULT_TYPE = "https://in-toto.io/attestation/test-result/v0.1"
BUNDLE_TYPE = "application/vnd.dev.sigstore.bundle.v0.3+json"
Kind = Literal["p256", "ed25519"]
LONGEST_NAME = 255  # characters of a file's name
LARGEST_KEY = 1 << 16  # bytes of a key file; any real one is far smaller


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


def new_key(path: Path, *, kind: Kind = "p256", password: str | None = None) -> KeyPair:
    """Write a private key to ``path`` and its public half beside it, as NAME.pub.pem; neither may be there already."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519

    beside = path.with_name(path.name.removesuffix(".pem") + ".pub.pem")
    check_new(path)
    check_new(beside)
    key = ec.generate_private_key(ec.SECP256R1()) if kind == "p256" else ed25519.Ed25519PrivateKey.generate()
    locked = serialization.BestAvailableEncryption(password.encode()) if password else serialization.NoEncryption()
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, locked)
    with new_file(path, private=True) as part:
        part.write_bytes(pem)
    public = PrivateKey(key).public
    write_text(beside, public.pem.decode())
    return KeyPair(private=str(path), public=str(beside), kind=kind, sha256=public.sha256)


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
    """The public key in a PEM file."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    content = _key_bytes(path)
    if b"PRIVATE KEY" in content:
        raise UsageError(f"{path}: is a private key; give the public one, and keep this one to yourself")
    try:
        if content.startswith(PREFIX.encode()):
            key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(read_digits(path)))
        else:
            key = load_pem_public_key(content)
    except (ValueError, UnsupportedAlgorithm):
        raise UsageError(f"{path}: is not a public key; expected PEM, as 'pathveil keys new' writes it") from None
    return PublicKey(_known_kind(key, path))


def _key_bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_KEY + 1)
    except OSError as fault:
        raise UsageError(f"{path}: cannot be read ({fault.strerror or type(fault).__name__}); expected a key") from None
    if len(content) > LARGEST_KEY:
        raise UsageError(f"{path}: is too large for a key; expected PEM, as 'pathveil keys new' writes it")
    return content


def _known_kind(key: Any, path: Path) -> Any:
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519

    p256 = (ec.EllipticCurvePrivateKey, ec.EllipticCurvePublicKey)
    if isinstance(key, (ed25519.Ed25519PrivateKey, ed25519.Ed25519PublicKey)):
        return key
    if isinstance(key, p256) and isinstance(key.curve, ec.SECP256R1):
        return key
    raise UsageError(f"{path}: is a key of another kind; expected EC P-256 or Ed25519")


def statement(subjects: Mapping[str, str], *, kind: str, predicate: Mapping[str, Any]) -> dict[str, Any]:
    """An in-toto statement on files, each with its sha256."""
    return {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": name, "digest": {"sha256": digest}} for name, digest in subjects.items()],
        "predicateType": kind,
        "predicate": dict(predicate),
    }


def sign(content: Mapping[str, Any], key: PrivateKey) -> dict[str, Any]:
    """A statement in a signed envelope."""
    payload = json.dumps(content, sort_keys=True, ensure_ascii=False, allow_nan=False).encode()
    signature = {"sig": base64.b64encode(key.sign(covered(payload))).decode(), "keyid": key.public.sha256}
    return {
        "payload": base64.b64encode(payload).decode(),
        "payloadType": PAYLOAD_TYPE,
        "signatures": [signature],
    }


def covered(payload: bytes, payload_type: str = PAYLOAD_TYPE) -> bytes:
    """The bytes that a signature is made over: DSSE's encoding of a payload with its type before it.

    >>> covered(b"hello world", "http://example.com/HelloWorld")
    b'DSSEv1 29 http://example.com/HelloWorld 11 hello world'
    """
    return f"DSSEv1 {len(payload_type)} {payload_type} {len(payload)} ".encode() + payload


def opened(envelope: Any, key: PublicKey, where: str) -> dict[str, Any]:
    """The statement in an envelope that ``key`` has signed; anything else is refused."""
    try:
        payload = base64.b64decode(envelope["payload"], validate=True)
        payload_type, signatures = envelope["payloadType"], envelope["signatures"]
        signed = [base64.b64decode(one["sig"], validate=True) for one in signatures]
    except (KeyError, TypeError, ValueError, binascii.Error):
        raise BundleError(f"{where}: is not a signed statement (DSSE); get the release again") from None
    if payload_type != PAYLOAD_TYPE or not isinstance(payload_type, str):
        raise BundleError(f"{where}: signs something else than an in-toto statement")
    # Exactly one: others may be for other readers, but this reader then cannot say who stands behind it.
    if len(signed) != 1 or not key.accepts(signed[0], covered(payload)):
        raise BundleError(
            f"{where}: is not signed by this key; the signature is foreign, or what it signs was altered "
            f"(the key's sha256 is {key.sha256[:16]}…)"
        )
    try:
        content = parse_json(payload)
    except Refused:
        content = None
    if not isinstance(content, dict) or content.get("_type") != STATEMENT_TYPE:
        raise BundleError(f"{where}: its content is not an in-toto statement of version 1")
    return content


def signature_bundle(digests: Mapping[str, str], *, name: str, ignored: str, key: PrivateKey) -> dict[str, Any]:
    """The statement on all files of a folder, signed, as ``model_signing`` reads it.

    ``digests`` are the files' sha256 by name; ``ignored`` is the file that the signature itself goes to.
    """
    ordered = {file: digests[file] for file in sorted(digests)}
    predicate = {
        "serialization": {
            "method": "files",
            "hash_type": "sha256",
            "allow_symlinks": False,
            "ignore_paths": [ignored],
        },
        "resources": [{"name": file, "algorithm": "sha256", "digest": digest} for file, digest in ordered.items()],
    }
    content = statement({name: root_of(ordered)}, kind=SIGNATURE_TYPE, predicate=predicate)
    return {
        "mediaType": BUNDLE_TYPE,
        "verificationMaterial": {"publicKey": {"hint": key.public.sha256}, "tlogEntries": []},
        "dsseEnvelope": sign(content, key),
    }


def root_of(digests: Mapping[str, str]) -> str:
    """One sha256 for several files: that of their digests end to end, in the given order."""
    return hashlib.sha256(b"".join(bytes.fromhex(digest) for digest in digests.values())).hexdigest()


def signed_files(bundle: Any, key: PublicKey, where: str) -> dict[str, str]:
    """The sha256 of each file that a signature bundle names, its signature checked."""
    if not isinstance(bundle, dict) or bundle.get("mediaType") != BUNDLE_TYPE:
        raise BundleError(f"{where}: is not a Sigstore bundle; expected a signature made by 'pathveil release'")
    content = opened(bundle.get("dsseEnvelope"), key, where)
    try:
        if content["predicateType"] != SIGNATURE_TYPE:
            raise BundleError(f"{where}: is a statement of another kind, not a model's signature")
        resources = content["predicate"]["resources"]
        files = {one["name"]: one["digest"] for one in resources if one["algorithm"] == "sha256"}
        if len(files) != len(resources) or root_of(files) != content["subject"][0]["digest"]["sha256"]:
            raise ValueError
        if not all(isinstance(name, str) and len(name) <= LONGEST_NAME for name in files):
            raise ValueError
    except (KeyError, TypeError, ValueError, IndexError):
        raise BundleError(f"{where}: its list of files does not agree with itself; get the release again") from None
    return files
