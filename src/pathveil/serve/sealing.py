"""Report text at rest: sealed with a key where one is given.

AES-256 in GCM, a fresh nonce for each text, bound to the report it belongs to, so that texts cannot be exchanged
unseen. The key is made from the operator's secret, which lies elsewhere than the store and its backups.

>>> seal = Sealer(b"a secret of the operator")
>>> sealed = seal.close("breast", "r1")
>>> b"breast" in sealed, seal.open(sealed, "r1")
(False, 'breast')
>>> Sealer(None).open(Sealer(None).close("breast", "r1"), "r1")
'breast'
"""

import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from pathveil.errors import UsageError

PLAIN, SEALED = b"\x00", b"\x01"  # a text's first byte
NONCE = 12


class Sealer:
    """Closes and opens texts; without a secret they are kept as they are."""

    def __init__(self, secret: bytes | None):
        self.cipher = None
        if secret is not None:
            self.cipher = AESGCM(derived(secret))

    def close(self, text: str, name: str) -> bytes:
        data = text.encode("utf-8", "surrogatepass")
        if self.cipher is None:
            return PLAIN + data
        nonce = os.urandom(NONCE)
        return SEALED + nonce + self.cipher.encrypt(nonce, data, name.encode())

    def open(self, kept: bytes, name: str) -> str:
        kind, rest = kept[:1], kept[1:]
        if kind == PLAIN:
            return rest.decode("utf-8", "surrogatepass")
        if self.cipher is None:
            raise UsageError("the store's texts are sealed; give their key with --store-key")
        try:
            data = self.cipher.decrypt(rest[:NONCE], rest[NONCE:], name.encode())
        except InvalidTag:
            raise UsageError("the store's texts are sealed with another key than --store-key") from None
        return data.decode("utf-8", "surrogatepass")


def derived(secret: bytes) -> bytes:
    """A key of 32 bytes from a secret of any length (HKDF, RFC 5869)."""
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(SHA256(), 32, salt=None, info=b"pathveil store 1").derive(secret)
