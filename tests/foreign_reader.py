"""Functions that ``tests/untrusted/test_apart.py`` calls in another process."""

import os
import time
from pathlib import Path


def read() -> str:
    from pathveil.files import read_json

    return str(read_json(Path("none.json")))


def abort() -> None:
    os.abort()


def memory() -> int:
    return len(bytearray(8 << 30))


def wait() -> None:
    time.sleep(60)
