"""Made up for tests: answers of a model that leaks, and documents small enough to train on in a moment."""

from typing import Any

import numpy as np
import polars as pl

from pathveil.audit.prediction_audit import audit_predictions
from pathveil.audit.result import Audit
from pathveil.audit.settings import AuditSettings
from pathveil.training.settings import TrainingSettings
from pathveil.vocabulary.encoded import Encoded


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


def encoded(documents: int = 240, *, registries: int = 2, reports_a_case: int = 1, seed: int = 0) -> Encoded:
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
    return Encoded(
        ids=np.concatenate(words).astype(np.int32),
        offsets=np.concatenate([[0], np.cumsum(lengths)]),
        cases=cases,
        registries=(cases % registries).astype(np.int32),
        registry_names=tuple(f"R{number + 1}" for number in range(registries)),
        labels={"site": np.where(noisy, 2 - site, site).astype(np.int32), "side": side.astype(np.int32)},
        classes={"site": ("C18", "C34", "C50"), "side": ("left", "right")},
        vocabulary_size=200,
    )


SMALL = TrainingSettings(
    dim=8, filters=8, epochs=6, patience=None, validation_share=0.0, batch_size=16, learning_rate=0.02, dropout=0.0
)
