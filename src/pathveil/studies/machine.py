"""Where and when a study ran, for its provenance: machine, versions, time.

>>> set(versions()) >= {"pathveil", "python", "numpy", "torch"}
True
"""

import os
import platform
from datetime import UTC, datetime
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import monotonic
from typing import Any

from pydantic import BaseModel, ValidationError

from pathveil import __version__
from pathveil.errors import UsageError
from pathveil.files import read_json, write_json

TIMES = "times.json"
PACKAGES = ("numpy", "scipy", "numba", "torch", "triton", "polars", "pydantic")


def versions() -> dict[str, str]:
    """Of Pathveil, Python and the packages that numbers depend on."""
    found = {"pathveil": __version__, "python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


@lru_cache
def name_of(device: str) -> str:
    """The GPU's name, or the processor's with its cores."""
    if device.startswith("cuda"):
        import torch

        return torch.cuda.get_device_name(torch.device(device)) if torch.cuda.is_available() else device
    name = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        name = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    return f"{name} ({os.cpu_count()} cores)"


class SessionTime(BaseModel):
    """A process that worked on a run."""

    began: str
    file: str
    machine: str
    seconds: float


class WorkTime(BaseModel):
    """The finished cells of a study on one machine."""

    study: str
    machine: str
    cells: int
    seconds: float


class Times(BaseModel):
    """What the page tells of ``times.json``."""

    work: list[WorkTime] = []
    versions: dict[str, str] = {}
    sessions: list[SessionTime] = []


def read_times(folder: Path) -> dict[str, Any]:
    """What a run took; nothing where no file tells, or a damaged one: no number of a result comes from it."""
    if not (folder / TIMES).is_file():
        return {}
    try:
        return Times.model_validate(read_json(folder / TIMES)).model_dump()
    except (UsageError, ValidationError):
        return {}


class Session:
    """What a process that works on a run takes, in ``times.json`` beside the result: when it began and how long it
    has been going. Noted as cells finish, so that a kill loses little of it."""

    def __init__(self, folder: Path, *, file: str, device: str):
        self.path, self.clock = folder / TIMES, monotonic()
        self.before = read_times(folder)
        began = datetime.now(UTC).isoformat(timespec="seconds")
        self.own = {"began": began, "file": file, "machine": name_of(device)}
        self.versions = versions()

    def note(self, *, work: list[dict[str, Any]] | None = None) -> None:
        """Write what it has taken so far; ``work`` is that of all finished cells."""
        own = {**self.own, "seconds": round(monotonic() - self.clock, 1)}
        content = {
            "work": self.before.get("work", []) if work is None else work,
            "versions": self.versions,
            "sessions": [*self.before.get("sessions", []), own],
        }
        write_json(self.path, content)
