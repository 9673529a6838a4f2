"""A run's folder: finished units of work under names made from everything that determines them.

    RUN/study.toml            the settings, as given
    RUN/cells/<key>/          a finished unit: cell.json and any arrays, written under a temporary name and renamed
    RUN/result.json           all units combined
    RUN/lock                  held while a process works here

A key is a hash of the unit's inputs (settings it reads, corpus and vocabulary hashes, seed, code version). So stopping
at any moment loses at most the unit in progress, starting again finds what is finished, and a changed setting makes new
keys for what it touches and for nothing else.

>>> key_of({"seed": 1, "mode": "single"}) == key_of({"mode": "single", "seed": 1})
True
"""

import hashlib
import json
import shutil
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from pathveil.errors import UsageError
from pathveil.files import check_outside, new_folder
from pathveil.untrusted import Refused, parse_json, read_bytes
from pathveil.untrusted.arrays import read_array

VERSION = 3  # of what cells hold; raised when code changes what a cell's inputs lead to


def key_of(parts: Mapping[str, Any]) -> str:
    """A short hash of a unit's inputs, the same whatever their order."""
    text = json.dumps({"version": VERSION, **parts}, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:20]


class Cells:
    """Finished units in a folder."""

    def __init__(self, folder: Path):
        self.folder = folder

    def clean(self) -> None:
        """Make the folder, and remove what a process that was killed had half written; for who holds the run."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for left in self.folder.glob(".*"):
            shutil.rmtree(left, ignore_errors=True)

    def has(self, parts: Mapping[str, Any]) -> bool:
        return (self.folder / key_of(parts)).is_dir()

    def read(self, parts: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """A finished unit's values and arrays."""
        folder = self.folder / key_of(parts)
        with _whole(folder):
            values = _content(folder)["values"]
            return values, {path.stem: read_array(path) for path in sorted(folder.glob("*.npy"))}

    def remove(self, parts: Mapping[str, Any]) -> None:
        """Let go of a finished unit that another was made of."""
        shutil.rmtree(self.folder / key_of(parts))

    def about(self, parts: Mapping[str, Any]) -> dict[str, Any]:
        """What is known of the making of a finished unit: seconds, device."""
        folder = self.folder / key_of(parts)
        with _whole(folder):
            return _content(folder)["about"]

    def write(
        self,
        parts: Mapping[str, Any],
        values: Mapping[str, Any],
        arrays: Mapping[str, np.ndarray] | None = None,
        *,
        about: Mapping[str, Any] | None = None,
    ) -> None:
        """Keep a finished unit; readers see all of it or nothing. ``about`` tells of its making, not of its content."""
        content = {"inputs": dict(parts), "values": dict(values), "about": dict(about or {})}
        text = json.dumps(content, indent=1, ensure_ascii=False, default=str)
        with new_folder(self.folder / key_of(parts), shared=True) as part:  # workers may finish the same unit at once
            for name, array in (arrays or {}).items():
                np.save(part / f"{name}.npy", array)
            (part / "cell.json").write_text(text + "\n", encoding="utf-8")


@contextmanager
def _whole(folder: Path) -> Generator[None]:
    """A unit that a disk has damaged is named, with what to do: it can be made again, but the study needs it."""
    try:
        yield
    except (OSError, Refused, KeyError, TypeError):
        raise UsageError(f"{folder}: is damaged; remove this folder, and the same command makes it again") from None


def _content(folder: Path) -> dict[str, Any]:
    return parse_json(read_bytes(folder / "cell.json"), finite=False)


def check_run(out: Path, *, mark: str) -> None:
    """Refuse to work in a folder that is something else than a run, which has this file or folder; one that was stopped
    before it came to that has a lock, and what was half made."""
    check_outside(out)
    if not out.exists():
        return
    there = [path.name for path in out.iterdir()] if out.is_dir() else [out.name]
    if mark not in there and any(name != "lock" and not name.startswith(".part-") for name in there):
        raise UsageError(f"{out}: is there already, and is no run to go on with; choose a new folder")
