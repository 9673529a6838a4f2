"""Statements on files, signed, in the forms that other tools read; nothing goes online.

A *statement* (in-toto, version 1) names files by their sha256 and says something of them. It is signed inside an
*envelope* (DSSE: the signature covers the payload and its type). The statement on all files of a release is put into a
Sigstore bundle, so that the OpenSSF tool accepts it:

    model_signing verify key RELEASE --signature RELEASE/model.sig --public_key PUBLIC

Keys are those of ``pathveil.signatures``; that tool takes EC P-256.

>>> import tempfile
>>> from pathlib import Path
>>> from pathveil.signatures import new_key, read_private_key, read_public_key
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
from typing import Any

from pathveil.errors import BundleError
from pathveil.signatures import PrivateKey, PublicKey
from pathveil.untrusted import Refused, parse_json

PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
SIGNATURE_TYPE = "https://model_signing/signature/v1.0"
TEST_RESULT_TYPE = "https://in-toto.io/attestation/test-result/v0.1"
BUNDLE_TYPE = "application/vnd.dev.sigstore.bundle.v0.3+json"
LONGEST_NAME = 255  # characters of a file's name


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
