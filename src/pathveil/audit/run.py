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

from pathveil.audit import controls, document, evidence, predictions, rarity, shokri
from pathveil.audit.intake import read_subject
from pathveil.audit.shadows import Sampling, Trainer
from pathveil.audit.subject import Subject, Workshop, examine
from pathveil.audit.verdict import Appetite
from pathveil.bundle import Model
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
    fprs = appetite.measured_fprs
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


def from_bundle(
    path: Path,
    *,
    members: Path,
    non_members: Path,
    attacker: Path | None = None,
    out: Path,
    appetite: Appetite,
    trainer: Trainer,
    store: Path,
    shadows: int = 20,
    networks: int = 1,
    sampling: Sampling = "split",
    device: str = "cpu",
    edges: Sequence[int] = rarity.EDGES,
    kind: shokri.Kind = "mlp",
    features: shokri.Features = "sorted",
    records_file: Path | None = None,
    seed: int = 0,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Audit a bundle: shadow models, all attacks, both protocols, controls with models trained for them."""
    document.check_out(out)
    bundle = Model.load(path)
    subject, ids, hashes, notes = read_subject(
        bundle,
        members=members,
        non_members=non_members,
        attacker=attacker,
        networks=networks,
        device=device,
        progress=progress,
    )
    fprs = appetite.measured_fprs
    found = examine(
        subject,
        Workshop(trainer, store, device=device, networks=networks, progress=progress),
        shadows=shadows,
        sampling=sampling,
        edges=edges,
        fprs=fprs,
        kind=kind,
        features=features,
        seed=seed,
    )
    audit = document.assemble(
        kind="bundle",
        records=found["records"],
        rows=found["rows"],
        curves=found["curves"],
        controls=found["controls"],
        spread=found["spread"],
        appetite=appetite,
        settings={
            "edges": list(edges),
            "fprs": list(fprs),
            "seed": seed,
            "shadows": shadows,
            "networks a shadow": networks,
            "sampling": sampling,
            "attack model": kind,
            "attack features": features,
            "device": device,
        },
        provenance={"bundle sha256": bundle.sha256, **hashes, "vocabulary sha256": bundle.vocabulary.sha256},
        notes=[_shadow_note(subject, shadows, sampling), *notes],
    )
    document.write(audit, out)
    if records_file is not None:
        names = [ids[row] for row in found["rows_of_records"]]
        document.write_records(found["scores"], found["records"], names, records_file)
    return audit


def _shadow_note(subject: Subject, shadows: int, sampling: Sampling) -> str:
    how = "random halves" if sampling == "split" else "bootstrap samples"
    theirs = (
        f"The attacker's {shadows} shadow models trained on {how} (by case) of {len(subject.attacker)} reports of "
        "their own and know no attacked record; they serve the shadow classifiers and the offline attacks. "
        if len(subject.attacker)
        else ""
    )
    stopped = "" if subject.epochs is None else f", for the {subject.epochs} epochs the model's own weights have seen"
    return theirs + (
        f"The auditor's {shadows} shadow models trained on random halves (by case) of the members and non-members "
        f"together{stopped}, so that half of them saw any one record; they serve the online attacks, the strongest "
        "known, which a registry can run against itself and an outsider hardly can. All have the model's architecture "
        "and settings."
    )


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
