"""A small corpus with people's names in it, and a bundle trained on it."""

import numpy as np
import polars as pl
import pytest

from pathveil.bundle import Model
from pathveil.bundle.train import train_model
from pathveil.training.settings import TrainingSettings

TINY = TrainingSettings(
    dim=16,
    filters=8,
    batch_size=16,
    learning_rate=0.01,
    epochs=8,
    patience=None,
    members=2,
    linear=True,
    validation_share=0.3,  # of few cases, so that thresholds have something to go by
)
KINDS = [
    ("C50", "C50.9", "8500", "left", "invasive ductal carcinoma of the left breast, nottingham grade 2"),
    ("C50", "C50.4", "8520", "right", "lobular carcinoma of the right breast, upper outer quadrant"),
    ("C18", "C18.7", "8140", "not_paired", "adenocarcinoma of the sigmoid colon, moderately differentiated"),
    ("C61", "C61.9", "8140", "not_paired", "prostate, adenocarcinoma, gleason 3+4=7"),
]


@pytest.fixture(scope="module", autouse=True)
def quiet(one_thread):
    """Tiny models need no threads."""


def people(number: int) -> list[str]:
    """Names that occur in one report each."""
    return [f"Quillfeather{number}x", f"Zebedee{number}q"]


def reports(count: int, *, seed: int = 0) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    rows = []
    for number in range(count):
        site, subsite, histology, side, words = KINDS[rng.integers(len(KINDS))]
        filler = " ".join(rng.choice(["specimen", "received", "formalin", "margins", "negative", "sections"], 12))
        first, last = people(number)
        rows.append(
            {
                "report_id": f"r{number}",
                "case_id": f"case-{number // 2}",
                "registry": f"R{number % 2 + 1}",
                "text": f"Patient: {first} {last}. {filler}. Final diagnosis: {words}. {filler}",
                "site": None if number % 17 == 3 else site,
                "subsite": subsite,
                "laterality": side,
                "histology": histology,
                "behavior": "3",
            }
        )
    return pl.DataFrame(rows)


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    path = tmp_path_factory.mktemp("corpus") / "train.parquet"
    reports(160).write_parquet(path)
    return path


@pytest.fixture(scope="session")
def fresh(tmp_path_factory):
    """Reports of the same kinds that no model saw."""
    path = tmp_path_factory.mktemp("fresh") / "test.parquet"
    names = {name: pl.format("fresh-{}", name) for name in ("report_id", "case_id")}
    reports(60, seed=5).with_columns(**names).write_parquet(path)
    return path


@pytest.fixture(scope="session")
def made(corpus):
    return train_model(corpus, TINY, preset="tiny", seed=3)


@pytest.fixture(scope="session")
def folder(made, tmp_path_factory):
    path = tmp_path_factory.mktemp("bundle") / "model"
    made.save(path)
    return path


@pytest.fixture(scope="session")
def bundle(folder):
    return Model.load(folder)
