"""What a reader under test is: a folder with one file to change, and a function that then reads it.

The word MARIGOLD stands in every seed where a report's text or a patient's name would: no message may hold it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

WORD = "marigold"
TEXT = f"{WORD} smith left breast ductal carcinoma"


@dataclass(frozen=True)
class Reader:
    """What is changed, of which kind it is, and what then reads it."""

    target: str  # a file of the folder
    kind: str  # of lies: bytes, json, jsonl, npz, npy, tensors, gzip, parquet, archive
    make: Callable[[Path], None]  # an honest folder
    read: Callable[[Path], object]
    weight: float = 1.0  # its share of the cases: less for what is slow


def text_file(content: str | bytes) -> Callable[[Path], None]:
    return lambda path: path.write_bytes(content if isinstance(content, bytes) else content.encode()) and None


def one(name: str, write: Callable[[Path], None]) -> Callable[[Path], None]:
    """A folder of one file."""
    return lambda folder: write(folder / name)
