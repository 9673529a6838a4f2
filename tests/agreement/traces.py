"""Look for words, in any form that would give them away, in bytes that others get to see."""

import base64
import hashlib
from collections.abc import Iterable

from pathveil.agreement import oprf


def forms(word: str) -> dict[str, bytes]:
    """A word as it is, encoded, hashed, and as its unblinded point: each can be found from a dictionary."""
    data = word.encode()
    plain = {"as it is": data, "upper case": word.upper().encode(), "base64": base64.b64encode(data).rstrip(b"=")}
    plain["hex"] = data.hex().encode()
    for name in ("md5", "sha1", "sha256", "sha512"):
        digest = hashlib.new(name, data).digest()
        plain |= {name: digest[:16], f"{name} in hex": digest.hex().encode()[:32]}
    point = oprf.hash_to_group(data)
    return plain | {"point": point, "point in hex": point.hex().encode()}


def traces(words: Iterable[str], seen: Iterable[bytes]) -> list[str]:
    """What was found, said without the word. Short words are looked for only in forms that chance does not make."""
    everything = b"\n".join(seen)
    return [
        f"{name} of a word of {len(word)} letters"
        for word in words
        for name, form in forms(word).items()
        if len(form) >= 6 and form in everything
    ]
