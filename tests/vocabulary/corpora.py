"""Small corpora for the vocabulary room's tests."""

from pathlib import Path

import numpy as np
import polars as pl

REGISTRIES = ("R1", "R2", "R3")


def random_corpus(path: Path, *, reports: int = 60, seed: int = 0, words: int = 40) -> Path:
    """Reports of Zipf-drawn words in three registries, several a case, with labels that are partly missing."""
    random = np.random.default_rng(seed)
    names = np.array([f"w{number:02d}x" for number in range(words)])
    shares = 1 / np.arange(1, words + 1)
    cases = random.integers(0, max(2, reports // 2), reports)
    table = {
        "report_id": [f"r{number}" for number in range(reports)],
        "case_id": [f"c{case}" for case in cases],
        "registry": [REGISTRIES[case % 3] for case in cases],
        "text": [
            " ".join(random.choice(names, random.integers(1, 25), p=shares / shares.sum())) for _ in range(reports)
        ],
        "site": random.choice(["C18", "C34", "C50", None], reports).tolist(),
        "laterality": random.choice(["left", "right", None], reports, p=[0.6, 0.3, 0.1]).tolist(),
    }
    pl.DataFrame(table).write_parquet(path)
    return path
