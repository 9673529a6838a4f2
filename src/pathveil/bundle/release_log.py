"""The release log: who released or overrode what, and when; lines are added and never changed.

Each line is JSON and holds the sha256 of the line before it, so that a line which was altered, taken out or put in
between breaks the chain from there on. Lines cut off at the end leave the chain whole: for that, a release holds the
sha256 of the line that was last when it was made.

>>> import tempfile
>>> log = Path(tempfile.mkdtemp()) / "release-log.jsonl"
>>> first = add_line(log, {"what": "released", "name": "colon-2026"})
>>> second = add_line(log, {"what": "released", "name": "breast-2026"})
>>> [line["name"] for line in read_log(log)], head_of(log) == second
(['colon-2026', 'breast-2026'], True)
"""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pathveil.errors import BundleError, UsageError
from pathveil.files import only_process
from pathveil.foreign import Refused, parse_json, read_text

START = "0" * 64  # what the first line has in the place of the line before it


def add_line(path: Path, content: Mapping[str, Any]) -> str:
    """Add a line to a log, which is checked first; the new line's sha256."""
    with only_process(path.with_name(path.name + ".busy")):
        line = {"line": len(read_log(path)) + 1, **content, "before": head_of(path)}
        text = json.dumps(line, allow_nan=False)
        try:
            with path.open("a", encoding="utf-8") as file:
                file.write(text + "\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as fault:
            raise UsageError(f"{path}: the release log cannot be written ({fault.strerror})") from None
    return _sha256(text)


def read_log(path: Path) -> list[dict[str, Any]]:
    """All lines of a log, in order; a broken chain is refused, and the first line that does not fit is named."""
    found, before = [], START
    for number, text in enumerate(_lines(path), start=1):
        try:
            line = parse_json(text)
        except Refused:
            line = None
        if not isinstance(line, dict) or line.get("before") != before or line.get("line") != number:
            raise BundleError(
                f"{path}: line {number} does not follow from the line before it; the log was altered, or a line was "
                "taken out or put in"
            )
        found.append(line)
        before = _sha256(text)
    return found


def head_of(path: Path) -> str:
    """The sha256 of the last line."""
    lines = _lines(path)
    return _sha256(lines[-1]) if lines else START


def check_in_log(path: Path, *, signature: str, before: str | None) -> None:
    """Refuse a release that the log does not hold, or a log that was cut off before it."""
    lines = read_log(path)
    if not any(line.get("signature") == signature for line in lines):
        raise BundleError(f"{path}: does not hold this release; it is another log, or its end was cut off")
    if before is not None and before != START and before not in map(_sha256, _lines(path)):
        raise BundleError(f"{path}: is not the log that this release was made with")


def _lines(path: Path) -> list[str]:
    if not path.exists():
        return []
    try:
        return read_text(path).splitlines()
    except (OSError, Refused):
        raise BundleError(f"{path}: cannot be read; expected a release log") from None


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
