"""Small corpora for the vocabulary room's tests."""

from pathlib import Path

import numpy as np
import polars as pl

from pathveil.vocabulary.counts import WordCounts

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


def unfolded(counts: WordCounts) -> dict:
    """Counts as a dictionary, without zeros: {(what, registry, word[, task, class]): number}."""
    found = {}
    kinds = [(task, name) for task in counts.classes for name in counts.classes[task]]
    for r, registry in enumerate(counts.registry_names):
        for w, word in enumerate(counts.words):
            for what in ("occurrences", "reports", "cases"):
                found[what, registry, word] = int(getattr(counts, what)[r, w])
            for (task, name), number in zip(kinds, counts.joint[r].toarray()[w], strict=True):
                found["joint", registry, word, task, name] = int(number)
        for (task, name), number in zip(kinds, counts.labels[r], strict=True):
            found["labels", registry, task, name] = int(number)
    return {key: number for key, number in found.items() if number}
