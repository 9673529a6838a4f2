"""Masks that cancel: what a site sends looks random, and the sum of what all sites send does not.

After Bonawitz et al. 2017, for sites that all take part in every round. Each pair of sites has a secret that the hub,
through which their keys travel, does not have; from it both make the same stream of random numbers for a round. One
adds it to what it sends and the other subtracts it, modulo 2ᵇ: what a site sends is uniformly random to anyone who
does not have the secrets of all its pairs, and in the sum over all sites every stream cancels. So the hub and all sites
but two learn the sum of those two sites' numbers, and nothing else; of two sites, each learns the other's.

- **Keys.** A site's process makes an X25519 key when it starts and never writes it down. It signs the public half, with
  the run and its session, by the key of its kit; the others check the signature and that the certificate is their
  federation's and of that name (``identity``). A pair's secret goes through HKDF-SHA256 with the run, both names and a
  hash of all sites' keys, so that sites that were shown different keys get masks that do not cancel.
- **Streams.** A key for each round and part by HKDF again, and from it the key stream of AES-128-GCM.
- **Never twice.** ``Masks`` refuses to mask a round's part a second time. A process that was killed took its keys with
  it; the next one has others, so a round that is repeated has fresh masks.
- **What was asked.** A hub that asked one site and had the others answer with nothing (parameters that make every
  gradient zero, ranges in which every number rounds to zero) would read that site's part off the sum. So each pair
  makes a code of the question (``bind``: AES-GCM's, with a key of the pair and round that the hub does not have), and
  the masks of this and all later rounds depend on it: sites that were not asked the same get masks that do not cancel.
- **Tags.** For each round a pair can show the hub a tag that both must have alike (``tag``): a site with another key or
  another round's is told by it before the sum is taken.

>>> keys = {name: SessionKey() for name in ("A", "B", "C")}
>>> public = {name: key.public for name, key in keys.items()}
>>> masks = {name: Masks(name, key, public, run="ab12") for name, key in keys.items()}
>>> form = FixedPoint(bits=32, sites=3)
>>> sent = [masks[name].masked(form.words(np.array([value, -1])), form, number=7, part="update")
...         for name, value in (("A", 10), ("B", 20), ("C", 30))]
>>> form.signed(sum(words.astype(np.uint64) for words in sent)).tolist()
[60, -3]
>>> masks["A"].tag("B", 7) == masks["B"].tag("A", 7), masks["A"].tag("B", 7) == masks["B"].tag("A", 8)
(True, False)
>>> masks["A"].masked(form.words(np.array([0, 0])), form, number=7, part="update")
Traceback (most recent call last):
pathveil.federation.wire.GateError: A: round 7 was masked before; nothing was sent
"""

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from pathveil.federation import wire
from pathveil.federation.fixed_point import FixedPoint

TAG = 8  # bytes of a pair's tag
CODED = 262_144  # bytes of a question at a time
CHUNK = 32_768  # words of a stream at a time


ZEROS = np.zeros(CHUNK * 8, np.uint8).data


class SessionKey:
    """A process's own key: made when it starts, in memory only."""

    def __init__(self, private: X25519PrivateKey | None = None):
        self.private = private or X25519PrivateKey.generate()

    @property
    def public(self) -> bytes:
        return self.private.public_key().public_bytes_raw()

    def secret_with(self, public: bytes) -> bytes:
        """The secret that this key and another's public half have in common; ValueError where there is none."""
        return self.private.exchange(X25519PublicKey.from_public_bytes(public))


class Masks:
    """A site's masks for one session of a run."""

    def __init__(self, name: str, key: SessionKey, public: Mapping[str, bytes], *, run: str):
        if public.get(name) != key.public:
            raise wire.QuestionError(f"{name}: was shown another key as its own; nothing was sent")
        self.name, self._used = name, set[tuple[int, str]]()
        everyone = transcript(public)
        self.pairs: dict[str, bytes] = {}
        for other, theirs in public.items():
            if other == name:
                continue
            try:
                secret = key.secret_with(theirs)
            except ValueError:  # a point of small order: the secret would be known to everybody
                raise wire.QuestionError(f"{name}: the key of {other} is not one to share a secret with") from None
            first, second = sorted((name, other))
            self.pairs[other] = expanded(secret, "pair", run, first, second, everyone)
        self.asked = dict.fromkeys(self.pairs, "")  # by pair, a hash of all codes of questions until now

    def bind(self, number: int, question: Sequence[bytes | memoryview]) -> None:
        """Make this round's masks and all later ones depend on what was asked, in parts end to end."""
        codes = {
            other: Cipher(algorithms.AES(expanded(pair, "question", str(number))), modes.GCM(bytes(12))).encryptor()
            for other, pair in self.pairs.items()
        }
        for part in map(memoryview, question):
            for start in range(0, len(part), CODED):  # all codes of a piece at once, while it is in the cache
                for code in codes.values():
                    code.authenticate_additional_data(part[start : start + CODED])
        for other, code in codes.items():
            code.finalize()
            self.asked[other] = hashlib.sha256(self.asked[other].encode() + code.tag).hexdigest()

    def masked(self, words: np.ndarray, form: FixedPoint, *, number: int, part: str) -> np.ndarray:
        """Put the masks of all pairs on a round's words, in place, modulo 2ᵇ; each round's part once."""
        if (number, part) in self._used:
            raise wire.GateError(f"{self.name}: round {number} was masked before; nothing was sent")
        self._used.add((number, part))
        streams = [
            (KeyStream(self.key(other, "mask", str(number), part), form), np.add if self.name < other else np.subtract)
            for other in self.pairs
        ]
        for start in range(0, len(words), CHUNK):  # all masks of a part at once, while it is in the processor's cache
            own = words[start : start + CHUNK]
            for stream, put in streams:
                put(own, stream.next(len(own)), out=own)
        return form.reduced(words)

    def tag(self, other: str, number: int) -> bytes:
        """What this site and another can show of a round to prove that they have the same key and were asked alike."""
        return self.key(other, "tag", str(number))[:TAG]

    def key(self, other: str, purpose: str, *about: str) -> bytes:
        """A key of a pair for one purpose, after what both were asked."""
        return expanded(self.pairs[other], purpose, *about, self.asked[other])


def transcript(public: Mapping[str, bytes]) -> str:
    """A hash of all sites' names and keys."""
    digest = hashlib.sha256()
    for name in sorted(public):
        digest.update(f"{name} {public[name].hex()}\n".encode())
    return digest.hexdigest()


def expanded(secret: bytes, purpose: str, *about: str) -> bytes:
    """32 bytes for one purpose, by HKDF-SHA256."""
    info = "\n".join(("pathveil masks 1", purpose, *about)).encode()
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=info).derive(secret)


class KeyStream:
    """The random words of a key that is used for nothing else: AES-128's key stream in GCM, which is counter mode from
    block 2 on, and which OpenSSL makes a quarter faster than counter mode itself.

    Every key makes one stream, so the nonce may be zero. X25519 is as strong as 128 bits, so a longer key would only
    take longer.
    """

    def __init__(self, key: bytes, form: FixedPoint):
        self.cipher, self.form = Cipher(algorithms.AES(key[:16]), modes.GCM(bytes(12))).encryptor(), form
        self.data = np.empty(CHUNK * form.bytes, np.uint8)
        self.whole = ZEROS[: len(self.data)], self.data.data  # what is encrypted, and where it goes
        own = np.dtype(form.word).itemsize == form.bytes
        self.words = form.unpacked(self.data) if own else None  # the same bytes, where words are as wide as numbers

    def next(self, count: int) -> np.ndarray:
        """So many words more, a ``CHUNK`` at most; they last until the next."""
        if count == CHUNK and self.words is not None:
            self.cipher.update_into(*self.whole)
            return self.words
        part = self.data[: count * self.form.bytes]
        self.cipher.update_into(ZEROS[: len(part)], part.data)
        return self.form.unpacked(part)


def stream(key: bytes, count: int, form: FixedPoint) -> np.ndarray:
    """So many random words of a key."""
    made = KeyStream(key, form)
    parts = [made.next(min(CHUNK, count - start)).copy() for start in range(0, count, CHUNK)]
    return np.concatenate([np.empty(0, form.word), *parts])
