"""A whole audit, from files to a verdict.

>>> import tempfile, numpy as np, polars as pl
>>> from pathlib import Path
>>> from pathveil.audit.verdict import read_appetite
>>> rng, folder = np.random.default_rng(0), Path(tempfile.mkdtemp())
>>> member = np.arange(1200) < 600
>>> p = np.clip(rng.normal(np.where(member, 0.9, 0.6), 0.1), 0.01, 0.99)  # surer of what it has seen
>>> answers = {"label": ["a"] * 1200, "p:a": p, "p:b": 1 - p}
>>> table = pl.DataFrame({"record_id": range(1200), "case_id": range(1200), "member": member, **answers})
>>> table.write_parquet(folder / "answers.parquet")
>>> audit = from_predictions(folder / "answers.parquet", out=folder / "audit", appetite=read_appetite(None))
>>> audit["verdict"]["answer"], sorted(path.name for path in (folder / "audit").iterdir())
('fail', ['audit.html', 'audit.json'])
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pathveil.audit import controls, document, evidence, metrics, predictions, rarity
from pathveil.audit.verdict import Appetite
from pathveil.progress import Progress, silent


def from_predictions(
    path: Path,
    *,
    out: Path,
    appetite: Appetite,
    edges: Sequence[int] = rarity.EDGES,
    records_file: Path | None = None,
    seed: int = 0,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Audit any system's predictions: no shadow models, only attacks that need none."""
    found = predictions.read(path)
    records = found.records
    scores = predictions.score(records, found.probabilities, seed=seed)
    fprs = tuple(sorted({*metrics.FPRS, *appetite.fprs}, reverse=True))
    unlabelled = {task: int((label < 0).sum()) for task, label in records.labels.items()}
    left_out = "; ".join(f"{count} records of {task}" for task, count in unlabelled.items() if count)
    audit = document.assemble(
        kind="predictions",
        records=records,
        rows=evidence.measure(scores, records, edges=edges, fprs=fprs, seed=seed, progress=progress),
        curves=evidence.curves(controls.overall(scores), records),
        controls=controls.from_predictions(records, found.probabilities, seed=seed, progress=progress),
        appetite=appetite,
        settings={"edges": list(edges), "fprs": list(fprs), "seed": seed},
        provenance={"predictions sha256": sha256(path)},
        notes=[
            "Only the model's answers were given, so there are no shadow models here: attacks that train them are "
            "usually stronger, and a pass from predictions alone is weaker evidence than one from an audit of the "
            "model itself.",
            *([f"Left out for want of a label that the model knows: {left_out}."] if left_out else []),
        ],
    )
    document.write(audit, out)
    if records_file is not None:
        document.write_records(scores, records, found.record_ids, records_file)
    return audit


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
