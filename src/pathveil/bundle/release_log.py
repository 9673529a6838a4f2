"""The release log: who released or overrode what, and when; lines are added and never changed.

Each line is JSON, holds the sha256 of the line before it, and is signed with the key of its release. A line that was
altered, taken out or put in no longer fits the lines beside it, its signature, or its release. Lines cut off at the end
leave the rest whole: for that, a release holds the sha256 of the line that was last when it was made.

>>> import tempfile
>>> from pathveil.signatures import new_key, read_private_key
>>> folder = Path(tempfile.mkdtemp())
>>> made = new_key(folder / "officer.pem")
>>> log, key = folder / "release-log.jsonl", read_private_key(folder / "officer.pem")
>>> first = add_line(log, {"what": "released", "name": "colon-2026"}, key=key)
>>> second = add_line(log, {"what": "released", "name": "breast-2026"}, key=key)
>>> [line["name"] for line in read_log(log, key=key.public)], head_of(log) == second
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
from pathveil.signatures import PrivateKey, PublicKey, holds, sign_for
from pathveil.untrusted import Refused, parse_json, read_text

START = "0" * 64  # what the first line has in the place of the line before it
PURPOSE = "release log"  # of a line's signature


def add_line(path: Path, content: Mapping[str, Any], *, key: PrivateKey) -> str:
    """Sign a line and add it to a log, which is checked first; the new line's sha256."""
    with only_process(path.with_name(path.name + ".busy")):
        number = len(read_log(path, key=key.public)) + 1
        line = {"line": number, **content, "key": key.public.sha256, "before": head_of(path)}
        text = json.dumps(line | {"line_signature": sign_for(_bytes_of(line), purpose=PURPOSE, key=key)})
        try:
            with path.open("a", encoding="utf-8") as file:
                file.write(text + "\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as fault:
            raise UsageError(f"{path}: the release log cannot be written ({fault.strerror})") from None
    return _sha256(text)


def read_log(path: Path, *, key: PublicKey) -> list[dict[str, Any]]:
    """All lines of a log, in order. The first line that breaks the chain, or that names ``key`` and is not signed by
    it, is refused by its number; a line of another key takes that key to check."""
    lines, before = [], START
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
        if line.get("key") == key.sha256 and not _is_signed(line, text, key):
            raise BundleError(f"{path}: line {number} is not as it was signed; it was altered")
        lines.append(line)
        before = _sha256(text)
    return lines


def head_of(path: Path) -> str:
    """The sha256 of the last line."""
    lines = _lines(path)
    return _sha256(lines[-1]) if lines else START


def check_in_log(path: Path, content: Mapping[str, Any], *, key: PublicKey, before: str | None) -> int:
    """Refuse a log that does not hold a release, says something else of it than ``content``, or was cut off before it;
    how many lines are of other keys, and so not checked but for the chain."""
    lines = read_log(path, key=key)
    line = next((line for line in lines if line.get("signature") == content["signature"]), None)
    if line is None:
        raise BundleError(f"{path}: does not hold this release; it is another log, or its end was cut off or altered")
    wrong = [name for name, value in content.items() if line.get(name) != value]
    if wrong:
        raise BundleError(
            f"{path}: line {line['line']} has another '{wrong[0]}' than the release that it is about; it was altered"
        )
    if before is not None and before != START and before not in map(_sha256, _lines(path)):
        raise BundleError(f"{path}: is not the log that this release was made with")
    return sum(line.get("key") != key.sha256 for line in lines)


def _lines(path: Path) -> list[str]:
    if not path.exists():
        return []
    try:
        return read_text(path).splitlines()
    except (OSError, Refused):
        raise BundleError(f"{path}: cannot be read; expected a release log") from None


def _is_signed(line: Mapping[str, Any], text: str, key: PublicKey) -> bool:
    """Whether a key signed a line that stands in the log as it was written."""
    content = {name: value for name, value in line.items() if name != "line_signature"}
    signature = str(line.get("line_signature"))
    message = _bytes_of(content)
    return text == json.dumps(line) and holds(signature, message, purpose=PURPOSE, public_key=key.digits)


def _bytes_of(line: Mapping[str, Any]) -> bytes:
    return json.dumps(line, allow_nan=False).encode()


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
