"""An encoded folder stands for the corpus, and a machine without polars can run every study from it."""

import json
import shutil
import subprocess
import sys

import numpy as np
import polars as pl
import pytest

from pathveil.errors import CorpusError, UsageError
from pathveil.studies.study_corpus import encode_corpus, load_encoded, read_study_corpus
from studies.test_study_file import STUDY, TRAINING

# What a GPU node does not have: importing any of it is a failure of the command, not of a later step.
BLOCKED = """
import sys
for name in ("polars", "dask", "distributed", "starlette", "sklearn", "pandas", "pyarrow"):
    sys.modules[name] = None
from pathveil.cli import app
app()
"""


@pytest.fixture(scope="module")
def folder(small_corpus, tmp_path_factory):
    out = tmp_path_factory.mktemp("encoded") / "small.encoded"
    encode_corpus(small_corpus, out)
    return out


def test_it_is_what_the_corpus_is(small_corpus, folder):
    for tasks in (None, ("site",)):
        (store, corpus), (other_store, other) = (
            read_study_corpus(small_corpus, tasks=tasks),
            read_study_corpus(folder, tasks=tasks),
        )
        assert store.words == other_store.words and store.provenance == other_store.provenance
        for name in ("ids", "offsets", "cases", "registries"):
            np.testing.assert_array_equal(getattr(corpus, name), getattr(other, name))
            np.testing.assert_array_equal(getattr(store, name), getattr(other_store, name))
        assert corpus.classes == other.classes and corpus.registry_names == other.registry_names
        for task in corpus.tasks:
            np.testing.assert_array_equal(corpus.labels[task], other.labels[task])


def test_it_is_for_its_owner_alone_and_written_whole(small_corpus, folder, tmp_path):
    assert folder.stat().st_mode & 0o077 == 0
    encode_corpus(small_corpus, folder)  # again, over itself
    assert len(list(folder.parent.iterdir())) == 1
    (tmp_path / "mine").mkdir()
    with pytest.raises(UsageError, match="is there already, and is no encoded corpus"):
        encode_corpus(small_corpus, tmp_path / "mine")
    mixed = shutil.copytree(folder, tmp_path / "mixed")
    (mixed / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match=r"holds more than an encoded corpus \(notes.txt\)"):
        encode_corpus(small_corpus, mixed)
    assert (mixed / "notes.txt").read_text() == "mine"


def test_a_damaged_or_foreign_folder_is_one_sentence(folder, tmp_path):
    with pytest.raises(CorpusError, match="no task 'grade'"):
        load_encoded(folder, tasks=["grade"])
    broken = tmp_path / "broken"
    shutil.copytree(folder, broken)
    (broken / "words.txt").write_text("left\n")
    with pytest.raises(CorpusError, match="do not belong together"):
        load_encoded(broken)
    (broken / "ids.npy").unlink()
    with pytest.raises(CorpusError, match="is not a whole encoded corpus"):
        load_encoded(broken)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("ids", lambda ids: ids + 2_000_000_000),
        ("ids", lambda ids: -ids - 1),
        ("ids", lambda ids: ids[:-1]),
        ("ids", lambda ids: ids.astype(np.float64)),
        ("offsets", lambda offsets: offsets[::-1].copy()),
        ("offsets", lambda offsets: np.where(np.arange(len(offsets)) == 5, 2_000_000_000, offsets)),
        ("offsets", lambda offsets: offsets[:0]),
        ("registries", lambda registries: registries + 100),
        ("label-0", lambda labels: labels + 1_000_000),
        ("label-0", lambda labels: labels - 2),
        ("cases", lambda cases: cases[:-1]),
    ],
)
def test_numbers_that_lead_elsewhere_are_refused_before_anything_follows_them(folder, tmp_path, name, change):
    """Of such folders 42 of 400 ended the process by a signal."""
    broken = shutil.copytree(folder, tmp_path / "broken")
    np.save(broken / f"{name}.npy", change(np.load(folder / f"{name}.npy")))
    with pytest.raises(CorpusError, match="is not a whole encoded corpus"):
        load_encoded(broken)


@pytest.mark.parametrize(
    "change",
    [
        {"vocabulary_size": 10**12},
        {"vocabulary_size": True},
        {"registry_names": "R1"},
        {"classes": {"site": ["C50", "C50"]}},
        {"provenance": None},
        {"format": "other"},
    ],
)
def test_a_description_of_something_else_is_refused(folder, tmp_path, change):
    broken = shutil.copytree(folder, tmp_path / "broken")
    content = json.loads((broken / "encoded.json").read_text()) | change
    (broken / "encoded.json").write_text(json.dumps(content))
    with pytest.raises(CorpusError, match="is not a whole encoded corpus"):
        load_encoded(broken)


def test_every_study_runs_without_polars(folder, tmp_path, one_thread):
    text = STUDY.format(corpus=folder, training=TRAINING).replace("path =", "encoded =")
    (tmp_path / "study.toml").write_text(text.replace('["B", "I2", "MI5"]', '["B", "MI5"]\nfolds = ["R1"]'))
    command = [sys.executable, "-c", BLOCKED, "study", "run", tmp_path / "study.toml", "--out", tmp_path / "run"]
    done = subprocess.run([*map(str, command), "--workers", "1"], capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stderr
    assert set(json.loads((tmp_path / "run" / "result.json").read_text())["studies"]) == {
        "vocabulary",
        "distribution",
        "combined",
    }


def test_encode_says_what_it_made(pathveil, small_corpus, tmp_path):
    done = pathveil("study", "encode", small_corpus, "--out", tmp_path / "e", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["reports"] == 360 and json.loads(done.stdout)["classes"] == {"site": 3}
    done = pathveil("study", "encode", tmp_path / "none.parquet", "--out", tmp_path / "f")
    assert done.returncode == 2 and not (tmp_path / "f").exists()


def test_a_task_of_one_class_is_not_learnt(small_corpus, tmp_path):
    """It would always be right, and raise every mean."""
    frame = pl.read_parquet(small_corpus)
    frame.with_columns(behavior=pl.lit("3")).write_parquet(tmp_path / "two.parquet")
    assert [*read_study_corpus(tmp_path / "two.parquet")[1].classes] == ["site"]
    with pytest.raises(CorpusError, match="all labels of task 'behavior' are the same; there is nothing to learn"):
        read_study_corpus(tmp_path / "two.parquet", tasks=["site", "behavior"])
    frame.with_columns(site=pl.lit("C50")).write_parquet(tmp_path / "one.parquet")
    with pytest.raises(CorpusError, match="no task has two different labels"):
        read_study_corpus(tmp_path / "one.parquet")
