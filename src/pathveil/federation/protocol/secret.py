"""A site's secret: 32 random bytes in its kit that never leave it, from which the order of its batches follows.

Each run has a secret of its own, a hash of the site's and the run's name, so that two runs on the same reports have
nothing in common that the hub could use, and a run that was interrupted goes on in the same order.

>>> for_run(bytes(32), "ab12") == for_run(bytes(32), "ab12"), for_run(bytes(32), "ab12") == for_run(bytes(32), "ab13")
(True, False)
"""

import hmac
import secrets
from pathlib import Path

from pathveil.errors import UsageError
from pathveil.files import write_text

FILE = "secret"  # in a site's kit, readable by its owner alone
SIZE = 32


def site_secret(kit: Path) -> bytes:
    """The secret in a site's kit; a kit that has none yet gets one."""
    path = kit / FILE
    if not path.exists():
        write_text(path, secrets.token_hex(SIZE) + "\n", private=True)
    try:
        found = bytes.fromhex(path.read_text("ascii").strip())
    except (OSError, ValueError):
        found = b""
    if len(found) != SIZE:
        raise UsageError(
            f"{path}: is not the secret of a site ({SIZE} bytes in hexadecimal); remove it, and the next run gets a "
            "new one (a run that was interrupted cannot go on without its own)"
        )
    return found


def for_run(secret: bytes, run: str) -> list[int]:
    """The secret of one run, as a seed (``pathveil.rng``)."""
    digest = hmac.digest(secret, b"pathveil batches of run " + run.encode(), "sha256")
    return [int.from_bytes(digest[start : start + 4], "big") for start in range(0, len(digest), 4)]
