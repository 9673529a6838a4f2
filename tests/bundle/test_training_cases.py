"""The private side of a bundle: training reports are known again in parts and other formats, and nothing else is."""

import json
import stat

import numpy as np
import polars as pl
import pytest

from bundle.conftest import TINY
from pathveil.bundle import Model
from pathveil.bundle.train import train_model
from pathveil.bundle.training_cases import TrainingCases, read_training_cases
from pathveil.errors import BundleError
from pathveil.vocabulary.encoding import encode

LONE = TINY.changed(members=1, linear=False, epochs=1)


@pytest.fixture(scope="module")
def lone(corpus, tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained") / "model"
    train_model(corpus, LONE, preset="tiny", seed=3, out=folder)
    return Model.load(folder)


@pytest.fixture(scope="module")
def training(lone):
    return read_training_cases(lone, lone.folder)


def encoded(model, path):
    return encode(path, model.vocabulary, tasks=model.tasks, classes=model.labels, words=model.clip)


def test_it_is_private_and_names_nobody(lone, corpus):
    path = TrainingCases.path_of(lone.folder)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    text = path.read_text()
    assert "case-1" not in text and "Quillfeather" not in text and "never publish" in text
    assert {one.name for one in lone.folder.iterdir()}.isdisjoint({path.name})


def test_training_reports_are_known_in_another_file(lone, training, corpus, fresh, tmp_path):
    table = pl.read_parquet(corpus)
    spaced = table.with_columns(text=pl.col("text").str.replace_all(" ", "  ", literal=True)).sample(60, seed=1)
    spaced.write_csv(tmp_path / "part.csv")
    part = encoded(lone, tmp_path / "part.csv")
    there, learned = training.trained_with(part, lone.labels)
    assert there.all() and training.has_cases_of(part).all() and training.has_texts_of(part).all()
    assert training.cases_covered(part) == (spaced["case_id"].n_unique(), 80)
    whole, kept = training.trained_with(encoded(lone, corpus), lone.labels)
    held = 1 - kept.mean()
    assert whole.all() and held == pytest.approx(0.3, abs=0.05)  # what stopped the network was not learned
    by_id = dict(zip(table["report_id"], kept, strict=True))
    np.testing.assert_array_equal(learned, [by_id[name] for name in spaced["report_id"]])
    strangers = encoded(lone, fresh)
    assert not training.trained_with(strangers, lone.labels)[0].any() and not training.has_cases_of(strangers).any()


def test_a_changed_code_or_word_is_another_report(lone, training, corpus, tmp_path):
    table = pl.read_parquet(corpus).head(20)
    table.with_columns(histology=pl.lit("8520")).write_parquet(tmp_path / "coded.parquet")
    coded = encoded(lone, tmp_path / "coded.parquet")
    there, _ = training.trained_with(coded, lone.labels)
    np.testing.assert_array_equal(there, (table["histology"] == "8520").to_numpy())
    assert training.has_texts_of(coded).all()
    table.with_columns(text="breast " + pl.col("text")).write_parquet(tmp_path / "said.parquet")
    assert not training.has_texts_of(encoded(lone, tmp_path / "said.parquet")).any()


def test_the_fingerprints_of_another_model_are_not_used(lone, bundle, tmp_path):
    assert read_training_cases(bundle, lone.folder) is None and read_training_cases(lone, None) is None
    assert read_training_cases(lone, tmp_path / "elsewhere") is None
    path = TrainingCases.path_of(tmp_path / "m")
    path.parent.mkdir()
    content = json.loads(TrainingCases.path_of(lone.folder).read_text())
    for change, said in (({"format": "x"}, "of another format"), ({"texts": None}, "is incomplete")):
        path.write_text(json.dumps(content | change))
        with pytest.raises(BundleError, match=said):
            read_training_cases(lone, tmp_path / "m")


def test_evaluate_warns_of_training_cases(lone, corpus, fresh, tmp_path):
    assert lone.evaluate(corpus, resamples=10).training_reports == 160
    mixed = pl.concat([pl.read_parquet(corpus).head(30), pl.read_parquet(fresh)])
    mixed.write_parquet(tmp_path / "mixed.parquet")
    found = lone.evaluate(tmp_path / "mixed.parquet", resamples=10)
    assert found.training_reports == 30 and "30 of 90 reports belong to cases" in str(found)
    assert (found.training_cases, found.training_texts) == (15, 0)
    copied = pl.read_parquet(corpus).head(1).with_columns(case_id=pl.lit("another"), report_id=pl.lit("another"))
    alike = lone.evaluate(pl.concat([copied, pl.read_parquet(fresh)]), resamples=10)
    assert (alike.training_reports, alike.training_texts, alike.training_text_cases) == (0, 1, 1)
    assert alike.warning.startswith("1 of 61 reports reads word for word like one that it was trained with, of another")
    assert "belong" not in alike.warning
    clean = lone.evaluate(fresh, resamples=10)
    assert clean.training_reports == 0 and not clean.warning and "Warning" not in str(clean)
