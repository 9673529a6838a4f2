"""Key pairs and signatures: what holds, what does not, and files given by mistake."""

import pytest

from pathveil.errors import UsageError
from pathveil.signatures import holds, public_key_of, read_public_key, sign, write_key_pair


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys")
    write_key_pair(folder / "a.key", folder / "a.pub")
    write_key_pair(folder / "b.key", folder / "b.pub")
    return folder


def test_a_signature_is_for_one_message_purpose_and_key(keys):
    public = read_public_key(keys / "a.pub")
    assert public == public_key_of(keys / "a.key") and (keys / "a.key").stat().st_mode & 0o077 == 0
    good = sign(b"terms", purpose="agreement", key=keys / "a.key")
    assert holds(good, b"terms", purpose="agreement", public_key=public)
    assert not holds(good, b"term", purpose="agreement", public_key=public)
    assert not holds(good, b"terms", purpose="release", public_key=public)
    assert not holds(good, b"terms", purpose="agreement", public_key=read_public_key(keys / "b.pub"))
    for wrong in ("", good[:-1], good.upper(), "0" * 128, "x" * 128):
        assert not holds(wrong, b"terms", purpose="agreement", public_key=public)
    for wrong in ("", "f" * 64, "é" * 64):
        assert not holds(good, b"terms", purpose="agreement", public_key=wrong)


def test_the_rfc_s_signature_holds():
    """RFC 8032, 7.1, test 1 signs the empty message, which we never do; so by the library's own sign, from its seed."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.from_private_bytes(
        bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
    )
    public = key.public_key().public_bytes_raw().hex()
    assert public == "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
    assert holds(key.sign(b"pathveil agreement\0terms").hex(), b"terms", purpose="agreement", public_key=public)


def test_files_given_by_mistake(keys, tmp_path):
    with pytest.raises(UsageError, match="is a private key; give the public one"):
        read_public_key(keys / "a.key")
    with pytest.raises(UsageError, match="not an Ed25519 private key"):
        sign(b"", purpose="agreement", key=keys / "a.pub")
    with pytest.raises(UsageError, match="cannot be read"):
        sign(b"", purpose="agreement", key=tmp_path / "none")
    (tmp_path / "text").write_bytes(b"\xff" * 100_000)
    with pytest.raises(UsageError, match="not a public key"):
        read_public_key(tmp_path / "text")
    with pytest.raises(UsageError, match="is there already"):
        write_key_pair(keys / "a.key", tmp_path / "c.pub")
    assert not (tmp_path / "c.pub").exists()
