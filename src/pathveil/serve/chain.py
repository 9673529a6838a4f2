"""The log of what was done: each line holds the hash of the one before, so none can be changed or taken out unseen.

A line says when, who, what and a few facts: ids, codes, hashes of models and thresholds; never text. Whoever can write
the database can cut off the end; so its last hash is shown to administrators, to be noted down elsewhere.

>>> import tempfile
>>> from pathlib import Path
>>> base = Database.open(Path(tempfile.mkdtemp()))
>>> with base.transaction() as do:
...     first = note(do, "anna", "accepted", {"case": "c1"})
...     second = note(do, "anna", "undone", {"case": "c1"})
>>> check(base).lines, check(base).broken_at, check(base).last == second
(2, None, True)
"""

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from pathveil.results import Part
from pathveil.serve.database import Database, Do

FIRST = "0" * 64
PAGE = 5_000  # lines read at a time


class LogCheck(Part):
    """Whether the log is as it was written."""

    lines: int
    last: str  # the last line's hash
    broken_at: int | None  # the first line that does not follow from the one before


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def note(do: Do, who: str, what: str, detail: Mapping[str, Any]) -> str:
    """Add a line within a transaction; its hash."""
    last = do("SELECT number, hash FROM log ORDER BY number DESC LIMIT 1")
    number, before = (last[0]["number"] + 1, last[0]["hash"]) if last else (1, FIRST)
    line = (number, now(), who, what, json.dumps(detail, sort_keys=True, ensure_ascii=False))
    own = hash_of(before, *line)
    do(
        "INSERT INTO log (number, made, who, what, detail, before, hash) VALUES (?, ?, ?, ?, ?, ?, ?)",
        *line,
        before,
        own,
    )
    return own


def hash_of(before: str, number: int, made: str, who: str, what: str, detail: str) -> str:
    return hashlib.sha256(json.dumps([before, number, made, who, what, detail]).encode()).hexdigest()


def check(base: Database) -> LogCheck:
    """Follow the chain from its first line."""
    before, expected = FIRST, 1
    while True:
        found = base.rows("SELECT * FROM log WHERE number >= ? ORDER BY number LIMIT ?", expected, PAGE)
        for line in found:
            own = hash_of(before, line["number"], line["made"], line["who"], line["what"], line["detail"])
            if line["number"] != expected or line["before"] != before or line["hash"] != own:
                return LogCheck(lines=expected - 1, last=before, broken_at=expected)
            before, expected = own, expected + 1
        if len(found) < PAGE:
            return LogCheck(lines=expected - 1, last=before, broken_at=None)
