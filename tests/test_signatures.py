"""Keys and signatures: what holds, what does not, files given by mistake; OpenSSL makes and reads the same keys."""

import shutil
import subprocess

import pytest

from pathveil.errors import UsageError
from pathveil.signatures import holds, new_key, read_private_key, read_public_key, sign_for


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys")
    new_key(folder / "officer.pem")
    new_key(folder / "other.pem", public=folder / "other.pub", kind="ed25519")
    return folder


@pytest.mark.parametrize(("signer", "public"), [("officer.pem", "officer.pub.pem"), ("other.pem", "other.pub")])
def test_a_signature_is_for_one_message_purpose_and_key(keys, signer, public):
    key, digits = read_private_key(keys / signer), read_public_key(keys / public).digits
    assert digits == key.public.digits and (keys / signer).stat().st_mode & 0o077 == 0
    good = sign_for(b"terms", purpose="agreement", key=key)
    assert holds(good, b"terms", purpose="agreement", public_key=digits)
    assert not holds(good, b"term", purpose="agreement", public_key=digits)
    assert not holds(good, b"terms", purpose="release", public_key=digits)
    stranger = read_public_key(keys / ("other.pub" if signer == "officer.pem" else "officer.pub.pem")).digits
    assert not holds(good, b"terms", purpose="agreement", public_key=stranger)
    for wrong in ("", good[:-1], good.upper(), "0" * 128, "x" * 128, "é" * 64, "00" * 1_000_000):
        assert not holds(wrong, b"terms", purpose="agreement", public_key=digits)
        assert not holds(good, b"terms", purpose="agreement", public_key=wrong)


def test_the_rfc_s_key_is_the_same_here():
    """RFC 8032, 7.1, test 1: its seed gives its public key; DER puts twelve bytes before it that say Ed25519."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    seed = bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
    key = Ed25519PrivateKey.from_private_bytes(seed)
    raw = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
    signed = key.sign(b"pathveil agreement\0terms").hex()
    assert holds(signed, b"terms", purpose="agreement", public_key="302a300506032b6570032100" + raw)
    assert not holds(signed, b"terms", purpose="agreement", public_key=raw)


def test_openssl_makes_and_reads_the_same_keys(tmp_path):
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl")
    subprocess.run(
        ["openssl", "ecparam", "-genkey", "-name", "prime256v1", "-noout", "-out", tmp_path / "theirs.pem"],
        check=True, capture_output=True,
    )  # fmt: skip
    theirs = read_private_key(tmp_path / "theirs.pem")
    (tmp_path / "theirs.pub.pem").write_bytes(theirs.public.pem)
    signed = sign_for(b"terms", purpose="agreement", key=theirs)
    public = read_public_key(tmp_path / "theirs.pub.pem").digits
    assert holds(signed, b"terms", purpose="agreement", public_key=public)
    new_key(tmp_path / "ours.pem", password="a long secret")
    read = ["openssl", "pkey", "-in", tmp_path / "ours.pem", "-passin", "pass:a long secret", "-pubout"]
    public = subprocess.run(read, check=True, capture_output=True).stdout
    assert public == (tmp_path / "ours.pub.pem").read_bytes()
    assert read_private_key(tmp_path / "ours.pem", password="a long secret").public.pem == public


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
