"""A native reader of many formats in a process of its own, with a bound on its memory and time.

Spreadsheets come in five formats, old and new, and are read by a native library that no bound of ours reaches: a sheet
with one cell in its last corner is seventeen thousand million cells. Where such a reader aborts, only its process ends.
``run_apart`` calls a function of a module there, with texts, and gives back its text or its error.

>>> run_apart("posixpath", "basename", "/tmp/reports.xlsx")
'reports.xlsx'
"""

import json
import subprocess
import sys
from importlib import import_module

from pathveil import errors
from pathveil.untrusted.bounds import Refused
from pathveil.untrusted.text import parse_json

MEMORY = 6 << 30  # bytes of addresses; a native library reserves more than it uses
SECONDS = 900


def run_apart(module: str, function: str, *arguments: str, memory: int = MEMORY, seconds: int = SECONDS) -> str:
    """What a function of texts returns, from another process; ``Refused`` where that process does not survive it."""
    asked = json.dumps({"module": module, "function": function, "arguments": arguments, "memory": memory})
    command = [sys.executable, "-c", "from pathveil.untrusted.apart import answer; answer()"]
    try:
        done = subprocess.run(command, input=asked.encode(), capture_output=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        raise Refused("takes too long to read") from None
    try:
        said = parse_json(done.stdout)
    except Refused:
        raise Refused("needs more memory than such a file may, or is made to break its reader") from None
    if "error" in said:
        raise getattr(errors, said["error"], errors.CorpusError)(said["message"])
    return said["answer"]


def answer() -> None:
    """The other process: read what is asked, bound oneself, answer. What went wrong is told by kind, never quoted."""
    asked = json.loads(sys.stdin.read())  # from our own process
    _bound(asked["memory"])
    try:
        found = getattr(import_module(asked["module"]), asked["function"])(*asked["arguments"])
        said = {"answer": found}
    except errors.MissingExtraError as error:
        said = {"error": "PathveilError", "message": str(error)}
    except errors.PathveilError as error:
        said = {"error": type(error).__name__, "message": str(error)}
    sys.stdout.write(json.dumps(said))


def _bound(memory: int) -> None:
    try:
        import resource
    except ImportError:  # Windows
        return
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
