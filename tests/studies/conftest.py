"""A corpus small enough to train a study on in seconds."""

import numpy as np
import polars as pl
import pytest

PLANTED = "zwertowskaja"  # a name that one report holds: no artefact may


@pytest.fixture(scope="session")
def small_corpus(tmp_path_factory):
    """Reports whose words give the site away, two a case, with a name that one report holds."""
    rng = np.random.default_rng(0)
    words = ["margin", "tumor", "node", "specimen", "gross", "seen"]
    signs = {"C50": "breast", "C61": "prostate", "C34": "lung"}
    rows = []
    for number in range(360):
        site = list(signs)[number // 6 % 3]  # every registry has every site
        text = " ".join([*rng.choice(words, 8), signs[site], *rng.choice(words, 4), signs[site]])
        rows.append((f"r{number}", f"c{number // 2}", f"R{number % 6 // 2 + 1}", text, site))
    rows[7] = (*rows[7][:3], rows[7][3] + f" {PLANTED}", rows[7][4])
    path = tmp_path_factory.mktemp("corpus") / "corpus.parquet"
    pl.DataFrame(rows, schema=["report_id", "case_id", "registry", "text", "site"], orient="row").write_parquet(path)
    return path


@pytest.fixture
def corpus(small_corpus):
    return small_corpus


@pytest.fixture
def rough_calibration(monkeypatch):
    """A plan whose times need not be right: its models are trained, but not until that shows on the clock."""
    monkeypatch.setattr("pathveil.training.speed.SHOWS", 0.0)
