"""Made up for tests: answers of a model that leaks, and documents small enough to train on in a moment."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from pathveil import api
from pathveil.auditing.appetite import Appetite, AppetiteAnswers, read_appetite, write_appetite
from pathveil.auditing.audited_model import describe_model
from pathveil.auditing.binding import Binding, seal_of
from pathveil.auditing.controls import Control
from pathveil.auditing.evidence import Records, Score, curves, measure
from pathveil.auditing.prediction_audit import audit_predictions
from pathveil.auditing.release import NEEDED_ATTACKS
from pathveil.auditing.result import Attacked, Audit, assemble, write_audit
from pathveil.auditing.settings import AuditSettings
from pathveil.bundle import Model
from pathveil.bundle.train import train_model
from pathveil.signatures import new_key
from pathveil.training.settings import TrainingSettings
from pathveil.vocabulary.encoded import EncodedCorpus


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


def audit_of_predictions() -> Audit:
    return audit_predictions(two_tasks(), settings=AuditSettings(edges=(100,)))


def encoded(documents: int = 240, *, registries: int = 2, reports_a_case: int = 1, seed: int = 0) -> EncodedCorpus:
    """Documents of a few telling words and many that are not; a tenth of the labels are wrong, to be memorised."""
    rng = np.random.default_rng(seed)
    cases = np.arange(documents) // reports_a_case
    site = rng.choice(3, documents, p=[0.6, 0.3, 0.1])
    side = rng.integers(0, 2, documents)
    lengths = rng.integers(8, 16, documents)
    words = [
        np.concatenate([[2 + site[row], 5 + side[row]], rng.integers(7, 200, lengths[row] - 2)])
        for row in range(documents)
    ]
    noisy = rng.random(documents) < 0.1
    return EncodedCorpus(
        ids=np.concatenate(words).astype(np.int32),
        offsets=np.concatenate([[0], np.cumsum(lengths)]),
        cases=cases,
        registries=(cases % registries).astype(np.int32),
        registry_names=tuple(f"R{number + 1}" for number in range(registries)),
        labels={"site": np.where(noisy, 2 - site, site).astype(np.int32), "side": side.astype(np.int32)},
        classes={"site": ("C18", "C34", "C50"), "side": ("left", "right")},
        vocabulary_size=200,
    )


DECIDED = "2025-01-02"  # the day of an appetite, before any day on which tests run
SMALL = TrainingSettings(
    dim=8, filters=8, epochs=6, patience=None, validation_share=0.0, batch_size=16, learning_rate=0.02, dropout=0.0
)


def audit_without_leak(model: Model, appetite: Appetite, *, leak: float = 0.0, cases: int = 4000) -> Audit:
    """The audit of a bundle whose attacks tell members by ``leak`` standard deviations, from random scores."""
    rng = np.random.default_rng(0)
    member = np.arange(cases) % 2 == 0
    records = Records(member, np.arange(cases), {"site": np.zeros(cases, int)}, {"site": ("C50",)})
    scores = [Score(name, "site", rng.normal(size=cases) + leak * member, label_only=True) for name in NEEDED_ATTACKS]
    rows = measure(scores, records, fprs=appetite.measured_fprs)
    kinds: tuple[Any, ...] = ("null", "planted")
    held = [Control(name=f"a {kind} control", kind=kind, holds=True, attacks=()) for kind in kinds]
    audit = assemble(
        Attacked(records, scores, rows, curves(scores, records), held),
        kind="bundle",
        binding=Binding(by="corpus", cases=cases // 2, of=cases // 2),
        model=describe_model(model),
        appetite=appetite,
        settings={"fprs": list(appetite.measured_fprs), "seed": 0, "shadows": 20, "edges": [100, 1000]},
        provenance={"model sha256": model.model_sha256, "members sha256": "ab" * 32},
    )
    return audit.model_copy(update={"seal": seal_of(audit, model)})


def ready_to_release(folder: Path) -> Path:
    """The folder with reports (a.parquet, truth.parquet), a bundle (m), a passing audit, an appetite and a key."""
    api.synth(120, registries=2, seed=1, out=folder / "a.parquet", truth=folder / "truth.parquet")
    model = train_model(folder / "a.parquet", SMALL.changed(epochs=1), preset="small", out=folder / "m")
    answers = AppetiteAnswers(name="A. Officer", organisation="North", date=DECIDED)
    write_appetite(answers, folder / "mine.toml")
    write_audit(audit_without_leak(model, read_appetite(folder / "mine.toml")), folder / "audit")
    new_key(folder / "k.pem")
    return folder
