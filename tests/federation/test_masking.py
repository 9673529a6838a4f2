"""Masks: what is sent is uniform, the sum is exact, no stream comes twice; cipher and HKDF are written out here."""

import hashlib
import hmac
import struct

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from scipy.stats import chisquare

from pathveil.federation import wire
from pathveil.federation.fixed_point import FixedPoint
from pathveil.federation.masking import Masks, SessionKey, expanded, stream, transcript

ALICE = "77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a"
BOB = "5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb"


def doubled(byte: int) -> int:
    """Times x in the field of AES."""
    return (byte << 1) ^ (0x11B if byte & 0x80 else 0)


def times(one: int, two: int) -> int:
    found = 0
    while two:
        found ^= one if two & 1 else 0
        one, two = doubled(one), two >> 1
    return found


def substituted(byte: int) -> int:
    """The S-box of FIPS 197, worked out: the inverse in the field, then an affine map."""
    inverse = next((other for other in range(256) if times(byte, other) == 1), 0)
    found = 0x63
    for turn in range(5):
        found ^= ((inverse << turn) | (inverse >> (8 - turn))) & 0xFF
    return found


BOX = [substituted(byte) for byte in range(256)]


def aes128(key: bytes, block: bytes) -> bytes:
    """A block of FIPS 197 with a key of 16 bytes."""
    words = [list(key[at : at + 4]) for at in range(0, 16, 4)]
    power = 1
    for number in range(4, 44):
        word = words[-1]
        if number % 4 == 0:
            word = [BOX[byte] for byte in word[1:] + word[:1]]
            word[0] ^= power
            power = doubled(power)
        words.append([one ^ two for one, two in zip(words[-4], word, strict=True)])
    keys = [[byte for word in words[at : at + 4] for byte in word] for at in range(0, 44, 4)]
    state = [one ^ two for one, two in zip(block, keys[0], strict=True)]
    for number in range(1, 11):
        state = [BOX[byte] for byte in state]
        state = [state[(place + 4 * (place % 4)) % 16] for place in range(16)]  # rows of the columns turn
        if number < 10:
            state = [
                doubled(a) ^ doubled(b) ^ b ^ c ^ d
                for column in (state[at : at + 4] for at in range(0, 16, 4))
                for a, b, c, d in (column[turn:] + column[:turn] for turn in range(4))
            ]
        state = [one ^ two for one, two in zip(state, keys[number], strict=True)]
    return bytes(state)


def hkdf(secret: bytes, info: bytes, salt: bytes = bytes(32), length: int = 32) -> bytes:
    """RFC 5869."""
    key, block, found = hmac.digest(salt, secret, "sha256"), b"", b""
    for number in range(-(-length // 32)):
        block = hmac.digest(key, block + info + bytes([number + 1]), "sha256")
        found += block
    return found[:length]


def test_the_oracles_give_the_published_numbers():
    block = aes128(bytes(range(16)), bytes.fromhex("00112233445566778899aabbccddeeff"))  # FIPS 197, C.1
    assert block.hex() == "69c4e0d86a7b0430d8cdb78070b4c55a"
    made = hkdf(b"\x0b" * 22, bytes(range(0xF0, 0xFA)), bytes(range(13)), 42)  # RFC 5869, A.1
    assert made.hex() == ("3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865")


def test_a_stream_is_aes_in_counter_mode_of_a_key_by_hkdf():
    key = expanded(b"secret", "mask", "7", "update")
    assert key == hkdf(b"secret", b"pathveil masks 1\nmask\n7\nupdate")
    blocks = b"".join(aes128(key[:16], number.to_bytes(16, "big")) for number in range(2, 14))  # GCM begins at 2
    assert stream(key, 40, FixedPoint(32, 3)).tolist() == list(struct.unpack("<40I", blocks[:160]))
    assert stream(key, 24, FixedPoint(64, 3)).tolist() == list(struct.unpack("<24Q", blocks[:192]))
    threes = [int.from_bytes(blocks[at : at + 3], "little") for at in range(0, 150, 3)]
    assert stream(key, 50, FixedPoint(24, 3)).tolist() == threes


def test_a_secret_is_that_of_x25519_as_published():
    """RFC 7748, section 6.1."""
    alice = SessionKey(X25519PrivateKey.from_private_bytes(bytes.fromhex(ALICE)))
    bob = SessionKey(X25519PrivateKey.from_private_bytes(bytes.fromhex(BOB)))
    assert alice.public.hex() == "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a"
    assert alice.secret_with(bob.public) == bob.secret_with(alice.public)
    assert alice.secret_with(bob.public).hex() == "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742"


def masks_of(names: str, *, run: str = "ab") -> dict[str, Masks]:
    keys = {name: SessionKey() for name in names}
    public = {name: key.public for name, key in keys.items()}
    return {name: Masks(name, key, public, run=run) for name, key in keys.items()}


@pytest.mark.parametrize("bits", [16, 24, 32, 64])
@pytest.mark.parametrize("names", ["AB", "ABC", "ABCDEFG"])
def test_the_sum_of_masked_words_is_the_sum_of_the_words_exactly(bits, names):
    form, rng = FixedPoint(bits, len(names)), np.random.default_rng(len(names))
    parts = {name: rng.integers(-form.most, form.most, 200, endpoint=True) for name in names}
    masks = masks_of(names)
    sent = [masks[name].masked(form.words(part.copy()), form, number=3, part="u") for name, part in parts.items()]
    assert all(word.dtype == form.word and word.max() < 2**bits for word in sent)
    with np.errstate(over="ignore"):
        total = sum(word.astype(np.uint64) for word in sent)
    assert (form.signed(total) == sum(parts.values())).all()
    # Without any one of them there is nothing to read.
    rest = form.signed(total - sent[0].astype(np.uint64)) - (sum(parts.values()) - parts[names[0]])
    assert np.count_nonzero(rest) > 190


@pytest.mark.parametrize("bits", [16, 24, 32])
def test_what_a_site_sends_is_uniform_whatever_it_holds(bits):
    """Zeros, as the untouched rows of an embedding are, and a single repeated value: bytes of both are even."""
    form, count = FixedPoint(bits, 3), 60_000
    for value in (0, 1, form.most):
        sent = masks_of("ABC")["B"].masked(form.words(np.full(count, value)), form, number=1, part="u")
        counts = np.bincount(form.packed(sent), minlength=256)
        assert chisquare(counts).pvalue > 1e-6 and len(np.unique(sent)) > 0.6 * min(count, 2**bits)


def test_no_stream_comes_twice():
    """Not for another round, part, pair or direction, nor for the same round in a process that was started again."""
    form = FixedPoint(32, 3)
    first, again = masks_of("ABC"), masks_of("ABC")
    seen = set()
    for masks in (first, again):
        for name in "ABC":
            for number in (0, 1):
                for part in ("update", "facts"):
                    words = masks[name].masked(np.zeros(4, np.uint32), form, number=number, part=part)
                    seen.add(words.tobytes())
    assert len(seen) == 2 * 3 * 2 * 2
    with pytest.raises(wire.GateError, match="round 1 was masked before; nothing was sent"):
        first["A"].masked(np.ones(4, np.uint32), form, number=1, part="update")


def test_sites_that_were_shown_different_keys_have_masks_that_do_not_cancel():
    """A hub that shows C another key for B than A gets nothing it could open, and the pair's tags differ."""
    keys = {name: SessionKey() for name in "ABC"}
    public = {name: key.public for name, key in keys.items()}
    fooled = public | {"B": SessionKey().public}
    a = Masks("A", keys["A"], public, run="ab")
    c = Masks("C", keys["C"], fooled, run="ab")
    assert transcript(public) != transcript(fooled) and a.pairs["C"] != c.pairs["A"] and a.tag("C", 0) != c.tag("A", 0)
    with pytest.raises(wire.QuestionError, match="B: was shown another key as its own"):
        Masks("B", keys["B"], fooled, run="ab")
    other = Masks("A", keys["A"], public, run="cd")  # another run, the same keys
    assert other.pairs["B"] != a.pairs["B"]


def test_a_key_of_small_order_is_refused_with_the_name_of_its_site():
    """Zero and one are points with which every secret is zero."""
    key = SessionKey()
    for point in (bytes(32), bytes([1, *bytes(31)])):
        with pytest.raises(wire.QuestionError, match="the key of B is not one to share a secret with"):
            Masks("A", key, {"A": key.public, "B": point}, run="ab")


def test_a_pairs_tag_shows_nothing_of_its_masks():
    masks = masks_of("AB")
    tag, pair = masks["A"].tag("B", 5), masks["A"].pairs["B"]
    assert len(tag) == 8 and tag == masks["B"].tag("A", 5) != masks["A"].tag("B", 6)
    assert tag != expanded(pair, "mask", "5", "update")[:8] and hashlib.sha256(pair).digest()[:8] != tag
