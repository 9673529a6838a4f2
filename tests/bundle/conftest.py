"""A small corpus with people's names in it, and a bundle trained on it."""

import hashlib

import numpy as np
import polars as pl
import pytest

from pathveil.bundle import Model
from pathveil.bundle.release import JudgedBy, Judgement
from pathveil.bundle.release_folder import Evidence, Signing, write_release
from pathveil.bundle.train import train_model
from pathveil.signatures import new_key, read_private_key
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


APPETITE_TEXT = 'name = "A. Officer"\n'
SENTENCE = "Pass: an attacker finds 9.0 % (7.0 % to 11 %); the appetite tolerates 20 %."


@pytest.fixture(scope="session")
def keys(tmp_path_factory):
    """A folder with officer.pem, officer.pub.pem and those of a stranger."""
    path = tmp_path_factory.mktemp("keys")
    new_key(path / "officer.pem")
    new_key(path / "stranger.pem")
    return path


@pytest.fixture(scope="session")
def signing(keys):
    return Signing(key=read_private_key(keys / "officer.pem"), signer="A. Officer", days=30)


def evidence_for(model: Model, **changes) -> Evidence:
    """A passing audit of a model, as short as a release takes it."""
    audit = {"provenance": {"model sha256": model.model_sha256}, "verdict": {"answer": "pass", "sentence": SENTENCE}}
    whose = {"release": "weights", "name": "A. Officer", "organisation": "North", "date": "2026-11-16"}
    content = {
        "judgement": Judgement(answer="pass", sentence=SENTENCE, audit_sha256="", audited="2026-11-16"),
        "appetite": JudgedBy(sha256=hashlib.sha256(APPETITE_TEXT.encode()).hexdigest(), **whose),
        "appetite_text": APPETITE_TEXT,
        "audit": audit,
        "page": "<!doctype html><p>the page</p>",
        "tests": {"overall": "kept", "canaries": "open"},
    }
    return Evidence(**(content | changes))


@pytest.fixture(scope="session")
def released(bundle, signing, tmp_path_factory):
    """A release of the bundle, for tests that change nothing in it."""
    path = tmp_path_factory.mktemp("released") / "colon-2026"
    write_release(bundle, path, evidence=evidence_for(bundle), signing=signing)
    return path
