"""Audits made up for tests: answers of a model that leaks, over two tasks and three registries."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl

from pathveil.audit.run import from_predictions
from pathveil.audit.verdict import read_appetite


def two_tasks(n: int = 900, *, seed: int = 0) -> pl.DataFrame:
    """Two tasks that each tell a little, three registries of which one has no members, some labels missing."""
    rng = np.random.default_rng(seed)
    member = np.arange(n) % 3 == 0
    columns: dict[str, Any] = {
        "record_id": [f"r{k}" for k in range(n)],
        "case_id": [f"c{k}" for k in range(n)],
        "member": member,
        "registry": np.where(np.arange(n) % 3 == 2, "South", np.where(np.arange(n) % 2 == 0, "North", "West")),
    }
    for task in ("site", "side"):
        p = 1 / (1 + np.exp(-rng.normal(1 + 0.7 * member, 1)))
        first = rng.random(n) < 0.7
        label = np.where(first, "a:1", "b")
        columns[f"label:{task}"] = [None if k % 50 == 7 else str(label[k]) for k in range(n)]
        columns[f"p:{task}:a:1"], columns[f"p:{task}:b"] = np.where(first, p, 1 - p), np.where(first, 1 - p, p)
    return pl.DataFrame(columns)


def audit_of_predictions() -> dict[str, Any]:
    with TemporaryDirectory() as name:
        folder = Path(name)
        two_tasks().write_parquet(folder / "answers.parquet")
        return from_predictions(
            folder / "answers.parquet", out=folder / "audit", appetite=read_appetite(None), edges=(100,)
        )
