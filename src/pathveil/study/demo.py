"""The demo: the main job, small, on a corpus made on the spot."""

from pathlib import Path
from typing import Any

from pathveil.progress import Progress, silent


def run(out: Path, *, progress: Progress = silent) -> dict[str, Any]:
    out.mkdir(parents=True, exist_ok=True)
    return {"out": str(out)}


def describe(result: dict[str, Any]) -> str:
    return f"Nothing yet; see {result['out']}"
