"""RFC 9497's oblivious pseudo-random function, ristretto255 with SHA-512, composed from libsodium's calls (``rbcl``).

A word w becomes a point P = H(w). Whoever asks blinds it with a random scalar r, B = r·P; the holder of key k answers
E = k·B; the asker takes the blind off, N = r⁻¹·E = k·P, and hashes to F(k, w) = SHA-512(w, N, "Finalize"). The holder
sees a uniformly random point, the asker learns F of its own word and nothing of k. In the verifiable mode the holder
proves that log_G(K) = log_B(E) for its public key K = k·G, one proof for a whole batch (section 2.2 of the RFC).

Two holders in a row give F(k₁k₂, w): the second is handed what the first answered. Nothing here is cryptography of our
own: hashing to the group and to a scalar, the transcript of the proof and its equations are the RFC's, and its test
vectors are tests.

>>> secret, public = derive_key(b"\\xa3" * 32, b"test key")
>>> secret.hex()[:16], public.hex()[:16]   # RFC 9497, A.1.2
('e6f73f344b79b379', 'c803e2cc6b05fc15')
>>> scalar, blinded = blind(b"carcinoma")
>>> answer = multiply(secret, blinded)
>>> verify(public, [blinded], [answer], prove(secret, public, [blinded], [answer]))
True
>>> finalize(b"carcinoma", unblind(scalar, answer)) == evaluate(secret, b"carcinoma")
True
"""

import hashlib
import hmac
import os
import sys
from collections.abc import Sequence

from pathveil.errors import MissingExtraError

try:
    import rbcl
except ModuleNotFoundError:
    raise MissingExtraError(package="rbcl", extra="agreement", purpose="agreeing on words privately") from None

# rbcl unpacks libsodium into a temporary file on every import and leaves it there; once loaded it is not needed.
if os.name == "posix":
    try:
        os.unlink(sys.modules["rbcl._sodium"].lib_path)
    except (OSError, KeyError, AttributeError):
        pass

POINT = SCALAR = 32  # bytes of an encoded point, of a scalar
PROOF = 2 * SCALAR
BASE, VERIFIABLE = 0, 1  # the RFC's modes
MAX_BATCH = 65_535  # the proof numbers its points in two bytes

FIELD = 2**255 - 19  # a point is encoded as a number below this, and an even one

IDENTITY = bytes(POINT)

# SHA-512 after the 128 zero bytes with which expand_message_xmd (RFC 9380, 5.3.1) begins.
_PADDED = hashlib.sha512(bytes(128))


def _context(mode: int) -> bytes:
    return b"OPRFV1-" + bytes([mode]) + b"-ristretto255-SHA512"


def _prefixed(data: bytes) -> bytes:
    return len(data).to_bytes(2, "big") + data


def _expand(message: bytes, tag: bytes) -> bytes:
    """expand_message_xmd with SHA-512 to 64 bytes, which is one block."""
    tail = tag + bytes([len(tag)])
    first = _PADDED.copy()
    first.update(message + b"\x00\x40\x00" + tail)
    return hashlib.sha512(first.digest() + b"\x01" + tail).digest()


def hash_to_group(data: bytes, *, mode: int = VERIFIABLE) -> bytes:
    return rbcl.crypto_core_ristretto255_from_hash(_expand(data, b"HashToGroup-" + _context(mode)))


def hash_to_scalar(data: bytes, *, mode: int = VERIFIABLE, tag: bytes = b"HashToScalar-") -> bytes:
    return rbcl.crypto_core_ristretto255_scalar_reduce(_expand(data, tag + _context(mode)))


def random_scalar() -> bytes:
    return rbcl.crypto_core_ristretto255_scalar_random()


def random_point() -> bytes:
    """A uniformly random point: what a blinded word looks like to everyone else."""
    return rbcl.crypto_core_ristretto255_random()


def generate_key() -> tuple[bytes, bytes]:
    """A random secret scalar and its public point."""
    secret = random_scalar()
    return secret, public_of(secret)


def derive_key(seed: bytes, info: bytes, *, mode: int = VERIFIABLE) -> tuple[bytes, bytes]:
    """DeriveKeyPair of section 3.2.1: a key that a seed determines (for tests and repeatable studies)."""
    for counter in range(256):
        secret = hash_to_scalar(seed + _prefixed(info) + bytes([counter]), mode=mode, tag=b"DeriveKeyPair")
        if any(secret):
            return secret, public_of(secret)
    raise ArithmeticError("no key can be derived from this seed")


def is_element(point: bytes) -> bool:
    """Whether these are the canonical bytes of a group element other than the identity."""
    return _is_canonical(point) and point != IDENTITY and bool(rbcl.crypto_core_ristretto255_is_valid_point(point))


def _is_canonical(point: bytes) -> bool:
    """Whether bytes are the one encoding of a number below the field's size, and an even one (RFC 9496, 4.3.1).

    libsodium passes over the highest bit, so that each point would have two encodings, and what was counted, compared
    or refused under one of them would come again under the other.
    """
    return len(point) == POINT and int.from_bytes(point, "little") < FIELD and not point[0] & 1


def public_of(secret: bytes) -> bytes:
    """The public point of a secret scalar."""
    return rbcl.crypto_scalarmult_ristretto255_base(secret)


def multiply(scalar: bytes, point: bytes) -> bytes:
    """scalar·point; ValueError for bytes that are no element or not canonical, for the identity and a zero scalar."""
    if not _is_canonical(point):
        raise ValueError("not the canonical bytes of an element of the group")
    try:
        return rbcl.crypto_scalarmult_ristretto255(scalar, point)
    except (RuntimeError, TypeError):
        raise ValueError("not an element of the group, or the identity") from None


def blind(data: bytes, *, mode: int = VERIFIABLE, scalar: bytes | None = None) -> tuple[bytes, bytes]:
    """The blind r (random unless given) and the blinded element r·H(data)."""
    scalar = random_scalar() if scalar is None else scalar
    return scalar, multiply(scalar, hash_to_group(data, mode=mode))


def unblind(scalar: bytes, point: bytes) -> bytes:
    return multiply(rbcl.crypto_core_ristretto255_scalar_invert(scalar), point)


def finalize(data: bytes, unblinded: bytes) -> bytes:
    """F: the 64 bytes a word is known by."""
    return hashlib.sha512(_prefixed(data) + _prefixed(unblinded) + b"Finalize").digest()


def evaluate(secret: bytes, data: bytes, *, mode: int = VERIFIABLE) -> bytes:
    """F(secret, data) by someone who has both: the check on all the rest."""
    return finalize(data, multiply(secret, hash_to_group(data, mode=mode)))


def _weights(public: bytes, inputs: Sequence[bytes], outputs: Sequence[bytes], mode: int) -> list[bytes]:
    """d₁, d₂, … of ComputeComposites: one scalar a pair of points, fixed by all that is proved about."""
    seed = hashlib.sha512(_prefixed(public) + _prefixed(b"Seed-" + _context(mode))).digest()
    return [
        hash_to_scalar(
            _prefixed(seed) + number.to_bytes(2, "big") + _prefixed(before) + _prefixed(after) + b"Composite", mode=mode
        )
        for number, (before, after) in enumerate(zip(inputs, outputs, strict=True))
    ]


def _weighted_sum(weights: Sequence[bytes], points: Sequence[bytes]) -> bytes:
    total = multiply(weights[0], points[0])
    for weight, point in zip(weights[1:], points[1:], strict=True):
        total = rbcl.crypto_core_ristretto255_add(total, multiply(weight, point))
    return total


def _challenge(public: bytes, points: Sequence[bytes], mode: int) -> bytes:
    return hash_to_scalar(b"".join(map(_prefixed, (public, *points))) + b"Challenge", mode=mode)


def prove(
    secret: bytes,
    public: bytes,
    inputs: Sequence[bytes],
    outputs: Sequence[bytes],
    *,
    mode: int = VERIFIABLE,
    nonce: bytes | None = None,
) -> bytes:
    """GenerateProof: that every output is ``secret`` times its input, in 64 bytes for any number of pairs."""
    nonce = random_scalar() if nonce is None else nonce
    m = _weighted_sum(_weights(public, inputs, outputs, mode), inputs)
    z = multiply(secret, m)
    challenge = _challenge(public, (m, z, rbcl.crypto_scalarmult_ristretto255_base(nonce), multiply(nonce, m)), mode)
    response = rbcl.crypto_core_ristretto255_scalar_sub(
        nonce, rbcl.crypto_core_ristretto255_scalar_mul(challenge, secret)
    )
    return challenge + response


def verify(
    public: bytes, inputs: Sequence[bytes], outputs: Sequence[bytes], proof: bytes, *, mode: int = VERIFIABLE
) -> bool:
    """VerifyProof: False for a wrong answer, a wrong key, or anything that is not a proof at all."""
    if len(proof) != PROOF or len(inputs) != len(outputs) or not 0 < len(inputs) <= MAX_BATCH:
        return False
    challenge, response = proof[:SCALAR], proof[SCALAR:]
    if rbcl.crypto_core_ristretto255_scalar_reduce(response + bytes(SCALAR)) != response:
        return False  # two encodings of one scalar would be two proofs
    try:  # multiplying refuses whatever is no element, or is the identity
        weights = _weights(public, inputs, outputs, mode)
        m, z = _weighted_sum(weights, inputs), _weighted_sum(weights, outputs)
        t2 = rbcl.crypto_core_ristretto255_add(
            rbcl.crypto_scalarmult_ristretto255_base(response), multiply(challenge, public)
        )
        t3 = rbcl.crypto_core_ristretto255_add(multiply(response, m), multiply(challenge, z))
    except (ValueError, RuntimeError):
        return False
    return hmac.compare_digest(_challenge(public, (m, z, t2, t3), mode), challenge)
