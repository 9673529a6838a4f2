"""Signed statements: what one half of a key signs the other accepts, and nothing else."""

import base64
import json
import stat

import pytest

from pathveil.bundle.statements import opened, sign, signature_bundle, signed_files, statement
from pathveil.errors import BundleError
from pathveil.signatures import PrivateKey, new_key, read_private_key, read_public_key

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
