"""Keys and signed statements: what one half signs the other accepts, and nothing else; OpenSSL reads the keys."""

import base64
import json
import shutil
import stat
import subprocess

import pytest

from pathveil import signatures
from pathveil.bundle.statements import (
    PrivateKey,
    new_key,
    opened,
    read_private_key,
    read_public_key,
    sign,
    signature_bundle,
    signed_files,
    statement,
)
from pathveil.errors import BundleError, UsageError

NOTE = statement({"card.md": "00" * 32}, kind="a note", predicate={"n": 1})


@pytest.mark.parametrize("kind", ["p256", "ed25519"])
def test_a_signed_statement_opens_with_its_key_alone(tmp_path, kind):
    made = new_key(tmp_path / "a.pem", kind=kind)
    assert stat.S_IMODE((tmp_path / "a.pem").stat().st_mode) == 0o600 and made.public == str(tmp_path / "a.pub.pem")
    key, other = read_private_key(tmp_path / "a.pem"), PrivateKey(read_private_key(tmp_path / "a.pem").key)
    assert key.public.sha256 == made.sha256 == other.public.sha256 and made.sha256 in str(made)
    envelope = json.loads(json.dumps(sign(NOTE, key)))
    assert opened(envelope, read_public_key(tmp_path / "a.pub.pem"), "x") == NOTE
    new_key(tmp_path / "b.pem", kind=kind)
    with pytest.raises(BundleError, match="is not signed by this key"):
        opened(envelope, read_public_key(tmp_path / "b.pub.pem"), "x")


def test_openssl_makes_and_reads_the_same_keys(tmp_path):
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl")
    subprocess.run(
        ["openssl", "ecparam", "-genkey", "-name", "prime256v1", "-noout", "-out", tmp_path / "theirs.pem"],
        check=True, capture_output=True,
    )  # fmt: skip
    theirs = read_private_key(tmp_path / "theirs.pem")
    (tmp_path / "theirs.pub.pem").write_bytes(theirs.public.pem)
    assert opened(sign(NOTE, theirs), read_public_key(tmp_path / "theirs.pub.pem"), "x") == NOTE
    new_key(tmp_path / "ours.pem", password="a long secret")
    read = ["openssl", "pkey", "-in", tmp_path / "ours.pem", "-passin", "pass:a long secret", "-pubout"]
    public = subprocess.run(read, check=True, capture_output=True).stdout
    assert public == (tmp_path / "ours.pub.pem").read_bytes()
    assert read_private_key(tmp_path / "ours.pem", password="a long secret").public.pem == public


def test_the_keys_of_agreements_are_taken_as_well(tmp_path):
    signatures.write_key_pair(tmp_path / "a.key", tmp_path / "a.pub")
    envelope = sign(NOTE, read_private_key(tmp_path / "a.key"))
    assert opened(envelope, read_public_key(tmp_path / "a.pub"), "x") == NOTE


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda e: None, "is not a signed statement"),
        (lambda e: e | {"payload": "not base64!"}, "is not a signed statement"),
        (lambda e: e | {"signatures": []}, "is not signed by this key"),
        (lambda e: e | {"signatures": [*e["signatures"], *e["signatures"]]}, "is not signed by this key"),
        (lambda e: e | {"payloadType": "text/plain"}, "signs something else"),
        (lambda e: e | {"payload": base64.b64encode(b"{}").decode()}, "is not signed by this key"),
    ],
)
def test_a_forged_envelope_is_refused(keys, change, said):
    key = read_private_key(keys / "officer.pem")
    with pytest.raises(BundleError, match=said):
        opened(change(sign(NOTE, key)), key.public, "x")


def test_something_signed_that_is_no_statement_is_refused(keys):
    key = read_private_key(keys / "officer.pem")
    with pytest.raises(BundleError, match="not an in-toto statement"):
        opened(sign({"_type": "another"}, key), key.public, "x")


def test_a_signature_lists_files_and_agrees_with_itself(keys):
    key = read_private_key(keys / "officer.pem")
    digests = {"b": "11" * 32, "a": "22" * 32}
    bundle = signature_bundle(digests, name="m", ignored="model.sig", key=key)
    assert signed_files(bundle, key.public, "x") == digests
    for spoil in (
        {"predicate": {"resources": [{"name": "a", "algorithm": "sha256", "digest": "22" * 32}]}},
        {"predicate": {}},
        {"subject": []},
    ):
        content = opened(bundle["dsseEnvelope"], key.public, "x") | spoil
        with pytest.raises(BundleError, match="does not agree with itself"):
            signed_files(bundle | {"dsseEnvelope": sign(content, key)}, key.public, "x")
    with pytest.raises(BundleError, match="statement of another kind"):
        signed_files(bundle | {"dsseEnvelope": sign(NOTE, key)}, key.public, "x")
    with pytest.raises(BundleError, match="is not a Sigstore bundle"):
        signed_files({}, key.public, "x")


def test_wrong_key_files_are_told_apart(keys, tmp_path):
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    with pytest.raises(UsageError, match="is a public key; give the private one"):
        read_private_key(keys / "officer.pub.pem")
    with pytest.raises(UsageError, match="is a private key; give the public one"):
        read_public_key(keys / "officer.pem")
    with pytest.raises(UsageError, match="cannot be read"):
        read_public_key(tmp_path / "none.pem")
    (tmp_path / "noise.pem").write_text("hello")
    for read in (read_private_key, read_public_key):
        with pytest.raises(UsageError, match="is not a p"):
            read(tmp_path / "noise.pem")
    (tmp_path / "large.pem").write_bytes(b"x" * 100_000)
    with pytest.raises(UsageError, match="too large"):
        read_public_key(tmp_path / "large.pem")
    curve = ec.generate_private_key(ec.SECP384R1())
    pem = curve.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (tmp_path / "other.pem").write_bytes(pem)
    with pytest.raises(UsageError, match="another kind; expected EC P-256 or Ed25519"):
        read_private_key(tmp_path / "other.pem")
    new_key(tmp_path / "locked.pem", password="secret words")
    with pytest.raises(UsageError, match="is locked with a password"):
        read_private_key(tmp_path / "locked.pem")
    with pytest.raises(UsageError, match="the password is wrong"):
        read_private_key(tmp_path / "locked.pem", password="other words")
    with pytest.raises(UsageError, match="is there already"):
        new_key(tmp_path / "locked.pem")
