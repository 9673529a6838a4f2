"""Where and when a study ran, for its provenance: machine, versions, time, and energy where the machine tells it.

>>> set(versions()) >= {"pathveil", "python", "numpy", "torch"}
True
"""

import json
import os
import platform
from datetime import UTC, datetime
from functools import lru_cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import monotonic
from typing import Any

from pathveil import __version__
from pathveil.files import write_json

PACKAGES = ("numpy", "scipy", "numba", "torch", "triton", "polars", "pydantic")
JOULES = Path("/sys/class/powercap")  # counters of Intel's and AMD's processors, where they may be read


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


class Energy:
    """Joules since it was made, of all the machine's GPUs and processors that tell; None where none does."""

    def __init__(self, device: str):
        self.nvml: Any = None
        if device.startswith("cuda"):
            try:
                self.nvml = import_module("pynvml")
                self.nvml.nvmlInit()
            except Exception:  # no library, no driver, no permission: the energy is not known
                self.nvml = None
        self.before = self._counters()

    def _counters(self) -> dict[str, tuple[float, float]]:
        """Each counter's joules, and where it starts again."""
        found: dict[str, tuple[float, float]] = {}
        for number in range(self.nvml.nvmlDeviceGetCount() if self.nvml else 0):
            try:
                gpu = self.nvml.nvmlDeviceGetHandleByIndex(number)
                found[f"gpu {number}"] = self.nvml.nvmlDeviceGetTotalEnergyConsumption(gpu) / 1e3, 0.0
            except self.nvml.NVMLError:
                continue
        for counter in sorted(JOULES.glob("*-rapl:[0-9]")):
            try:
                read = [float((counter / name).read_text()) / 1e6 for name in ("energy_uj", "max_energy_range_uj")]
            except (OSError, ValueError):
                continue
            found[counter.name] = read[0], read[1]
        return found

    def joules(self) -> float | None:
        used = []
        for name, (joules, top) in self._counters().items():
            if name in self.before:
                before = self.before[name][0]
                used.append(joules - before + (top if joules < before else 0.0))
        return sum(used) if used else None


class Session:
    """What a process that works on a run takes, in ``times.json`` beside the result: when it began, how long it has
    been going, joules where they are known. Noted as cells finish, so that a kill loses little of it."""

    def __init__(self, path: Path, *, file: str, device: str):
        self.path, self.energy, self.clock = path, Energy(device), monotonic()
        self.before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        began = datetime.now(UTC).isoformat(timespec="seconds")
        self.own = {"began": began, "file": file, "machine": name_of(device)}
        self.versions = versions()

    def note(self, *, work: list[dict[str, Any]] | None = None) -> None:
        """Write what it has taken so far; ``work`` is that of all finished cells."""
        joules = self.energy.joules()
        own = {**self.own, "seconds": round(monotonic() - self.clock, 1), "joules": joules}
        known = [part for part in (self.before.get("joules"), joules) if part is not None]
        content = {
            "work": self.before.get("work", []) if work is None else work,
            "joules": round(sum(known)) if known else None,
            "versions": self.versions,
            "sessions": [*self.before.get("sessions", []), own],
        }
        write_json(self.path, content)
