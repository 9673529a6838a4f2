"""API tokens: who a program is, from a file that need not hold the secret.

    # name  token, or the sha256 of it
    emarc   a-token-of-a-client-0123456789
    lab     sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08

A line with a token alone is a client named by the first digits of its sha256. In memory there are hashes only.

>>> clients = Clients({"lab": digest_of("a-token-of-a-client-0123456789")})
>>> clients.name_of("Bearer a-token-of-a-client-0123456789"), clients.name_of("Bearer other"), clients.name_of("")
('lab', None, None)
"""

import hashlib
import hmac
import re
import stat
from collections.abc import Mapping
from pathlib import Path

from pathveil.errors import UsageError

SHORTEST = 20  # characters of a token


class Clients:
    """The programs that may use the API, by the sha256 of their tokens."""

    def __init__(self, digests: Mapping[str, str]):
        self.digests = dict(digests)

    def name_of(self, authorization: str) -> str | None:
        """The client that an Authorization header names; compared in constant time, all of them every time."""
        scheme, _, token = authorization.partition(" ")
        own, found = digest_of(token.strip()), None
        for name, digest in self.digests.items():
            if hmac.compare_digest(own, digest):
                found = name
        return found if scheme.lower() == "bearer" else None


def digest_of(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def read_tokens(path: Path) -> Clients:
    """The clients of a token file; a file that others can read is refused, for a token is a key."""
    try:
        mode, content = path.stat().st_mode, path.read_text(encoding="utf-8")
    except OSError as fault:
        raise UsageError(f"{path}: cannot be read ({fault.strerror}); expected a file of tokens, one a line") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path}: is not text; expected a file of tokens, one a line") from None
    if stat.S_IMODE(mode) & 0o077:
        raise UsageError(f"{path}: can be read by others; a token is a key: chmod 600 {path}")
    digests: dict[str, str] = {}
    for number, line in enumerate(content.splitlines(), start=1):
        parts = line.split()
        if not parts or parts[0].startswith("#"):
            continue
        *names, token = parts
        if len(names) > 1:
            raise UsageError(f"{path}: line {number}: expected a token, or a name and a token")
        hashed = re.fullmatch("sha256:([0-9a-f]{64})", token)
        if not hashed and len(token) < SHORTEST:
            raise UsageError(
                f"{path}: line {number}: the token has fewer than {SHORTEST} characters; make a longer one"
            )
        digest = hashed[1] if hashed else digest_of(token)
        name = names[0] if names else f"client-{digest[:6]}"
        if name in digests:
            raise UsageError(f"{path}: line {number}: there are two tokens of one name")
        digests[name] = digest
    if not digests:
        raise UsageError(f"{path}: holds no token; expected one a line")
    return Clients(digests)
