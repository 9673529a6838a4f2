"""train as a user runs it."""

import json
import signal
import subprocess
import sys
import time

import polars as pl
import pytest

from bundle.conftest import people, reports
from pathveil.bundle import Model
from pathveil.training.speed import Speed


@pytest.fixture(scope="module", autouse=True)
def quiet(one_thread):
    """Small models need no threads."""


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli")
    reports(120).write_parquet(folder / "train.parquet")
    reports(40, seed=3).write_parquet(folder / "test.parquet")
    return folder


@pytest.fixture(scope="module")
def trained(files, pathveil):
    done = pathveil(
        *(
            "train",
            files / "train.parquet",
            "--out",
            files / "model",
            "--preset",
            "small",
            "--fixed-epochs",
            2,
            "--json",
        )
    )
    assert done.returncode == 0, done.stderr
    return done


def test_train_writes_a_bundle(files, trained):
    result = json.loads(trained.stdout)
    bundle = Model.load(files / "model")
    assert result["model_sha256"] == bundle.model_sha256 and result["reports"] == 120 and result["cases"] == 60
    assert set(result["held_out"]) == set(bundle.tasks) == {"site", "subsite", "laterality", "histology", "behavior"}
    assert bundle.vocabulary.method == "cases >= 5"
    assert not (files / "model.training").exists()
    assert bundle.provenance["settings"]["patience"] is None


def test_no_name_in_what_is_printed(files, trained, inside):
    evaluated = inside("evaluate", files / "model", files / "test.parquet")
    for text in (trained.stdout, trained.stderr, evaluated.stdout, evaluated.stderr):
        assert not [name for number in range(120) for name in people(number) if name.lower() in text.lower()]


def test_a_killed_training_continues_to_the_same_bytes(files, pathveil, tmp_path):
    """Killed at a random moment, given again: the bundle is the one of a run that was never stopped."""
    options = ("--preset", "small", "--fixed-epochs", "4", "--tasks", "site,histology", "--seed", "2")
    options += ("--set", "filters=20", "--set", "optimiser=adadelta", "--set", "learning_rate=1")
    whole = pathveil("train", files / "train.parquet", "--out", tmp_path / "whole", *options)
    assert whole.returncode == 0, whole.stderr
    command = ["train", str(files / "train.parquet"), "--out", str(tmp_path / "killed"), *options]
    process = subprocess.Popen([sys.executable, "-m", "pathveil", *command], stderr=subprocess.DEVNULL)
    while process.poll() is None and not (tmp_path / "killed.training").exists():
        time.sleep(0.02)
    time.sleep(0.5)
    process.send_signal(signal.SIGKILL)
    process.wait()
    if not (tmp_path / "killed").exists():  # else it was done before the kill, but perhaps for the tidying up
        again = pathveil(*command)
        assert again.returncode == 0, again.stderr
        assert not (tmp_path / "killed.training").exists()
    for path in (tmp_path / "whole").iterdir():
        assert path.read_bytes() == (tmp_path / "killed" / path.name).read_bytes(), path.name


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("--preset", "huge"), "preset huge is not known"),
        (("--epochs", 3, "--fixed-epochs", 3), "not both"),
        (("--tasks", "sight"), "sight"),
        (("--tasks", ","), "names nothing"),
        (("--set", "members"), "--set takes NAME=VALUE"),
        (("--set", "member=3"), "did you mean 'members'"),
        (("--set", "dropout=2"), "'dropout'"),
        (("--device", "abacus"), "--device: 'abacus' is not one of auto, cpu, cuda"),
        (("--vocab", "nowhere.json"), "nowhere.json"),
    ],
)
def test_bad_options_are_one_sentence(files, inside, tmp_path, arguments, message):
    done = inside("train", files / "train.parquet", "--out", tmp_path / "model", *arguments)
    assert done.returncode == 2 and message in done.stderr and "Traceback" not in done.stderr
    assert not (tmp_path / "model").exists()


def test_an_existing_folder_is_left_alone(files, trained, inside):
    done = inside("train", files / "train.parquet", "--out", files / "model")
    assert done.returncode == 2 and "is there already" in done.stderr


def test_a_corpus_without_tasks_can_be_coded_but_not_learnt(files, trained, inside, tmp_path):
    bare = tmp_path / "bare.parquet"
    pl.read_parquet(files / "test.parquet").select("report_id", "case_id", "registry", "text").write_parquet(bare)
    done = inside("train", bare, "--out", tmp_path / "model")
    assert done.returncode == 2 and "no task column" in done.stderr
    done = inside("predict", files / "model", bare, "--out", tmp_path / "codes.csv")
    assert done.returncode == 0, done.stderr


TINY_DP = ("--set", "dim=16", "--set", "filters=8", "--set", "batch_size=20", "--epochs", 2, "--delta", "1e-3")


def test_train_with_differential_privacy(files, inside, tmp_path):
    arguments = ("train", files / "train.parquet", "--out", tmp_path / "model", "--defence", "dp", "--epsilon", 9)
    done = inside(*arguments, *TINY_DP, "--json")
    assert done.returncode == 0, done.stderr
    bundle = Model.load(tmp_path / "model")
    said = bundle.provenance["defence"]
    assert 8.5 < said["epsilon"] <= 9 and said["training"]["steps"] == 6 and bundle.provenance["preset"] == "private"
    assert "not covered by ε" in bundle.card and not (tmp_path / "model.training").exists()


def test_train_with_teachers(files, inside, tmp_path):
    arguments = ("train", files / "train.parquet", "--out", tmp_path / "model", "--defence", "teachers", "--json")
    options = ("--teachers", 3, "--unseen", 1, "--set", "defence.lift=0.1", "--set", "word_dropout=0.4", "--workers", 1)
    done = inside(*arguments, *options, "--tasks", "site", "--epochs", 2, "--set", "dim=16", "--set", "filters=8",
                  "--fewest-cases", 5)  # fmt: skip
    assert done.returncode == 0, done.stderr
    source = Model.load(tmp_path / "model").provenance
    assert source["preset"] == "release" and source["class_floor"]["fewest_cases"] == 5
    said = source["defence"]
    assert said == json.loads(done.stdout)["defence"]
    assert (said["teachers"], said["unseen"], said["lift"], said["word_dropout"]) == (3, 1, 0.1, 0.4)


def test_a_plan_writes_no_bundle(files, inside, monkeypatch):
    monkeypatch.setattr("pathveil.bundle.plan.model_speed", lambda *_, **__: Speed(0.1, 0.001))
    inside("train", files / "train.parquet", "--plan", "--preset", "small")  # the corpus's own cache is there then
    before = sorted(files.iterdir())
    done = inside("train", files / "train.parquet", "--preset", "release", "--plan", "--workers", 2)
    assert done.returncode == 0, done.stderr
    assert "teachers" in done.stdout and "between" in done.stdout and sorted(files.iterdir()) == before
    done = inside("train", files / "train.parquet")
    assert done.returncode == 2 and "give --out BUNDLE, the folder to write, or --plan" in done.stderr


def test_differential_privacy_that_covers_everything(files, inside, tmp_path):
    (tmp_path / "words.txt").write_text("carcinoma breast left right colon prostate")
    (tmp_path / "codes.json").write_text(json.dumps({"site": ["C18", "C50", "C61"]}))
    public = ("--public-words", tmp_path / "words.txt", "--public-classes", tmp_path / "codes.json")
    arguments = ("train", files / "train.parquet", "--out", tmp_path / "model", "--defence", "dp", "--noise", 1.5)
    done = inside(*arguments, *TINY_DP, "--clip", 0.5, "--embeddings", "frozen", *public)
    assert done.returncode == 0, done.stderr
    assert "held out" not in done.stdout and "Differentially private for a case: ε = " in done.stdout
    bundle = Model.load(tmp_path / "model")
    said = bundle.provenance["defence"]
    assert said["not_covered"] == [] and said["training"]["noise"] == 1.5 and said["training"]["clip"] == 0.5
    assert said["training"]["embeddings"] == "frozen" and bundle.labels == {"site": ("C18", "C50", "C61")}
    assert bundle.provenance["settings"]["validation_share"] == 0 and "ε covers all" in bundle.card


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--epsilon", 8], "--epsilon needs --defence dp"),
        (["--epsilon", 8, "--defence", "teachers"], "--epsilon needs --defence dp"),
        (["--teachers", 8], "--teachers needs --defence teachers"),
        (["--set", "defence.lift=0.1"], "--set defence.lift needs --defence"),
        (
            ["--defence", "teachers", "--set", "defence.lifted=0.1"],
            "teachers: 'lifted': there is no such setting; did you mean 'lift'?",
        ),
        (["--defence", "teachers", "--teachers", 3, "--unseen", 3], "every case must teach somebody"),
        (["--defence", "magic"], "defence 'magic' is not known; expected none, teachers, dp or module:function"),
        (["--defence", "nowhere_at_all:defend"], "cannot be imported"),
        (["--public-words", "words.txt"], "--public-words and --public-classes need --defence dp"),
        (["--defence", "dp", "--epsilon", 8, "--noise", 1], "give epsilon or noise, not both"),
        (["--defence", "dp", "--preset", "small"], "needs patience = None: stopping by private cases"),
        (["--defence", "dp", "--set", "members=3"], "needs members = 1"),
        (["--defence", "dp", "--delta", "0.5"], "delta must be below 1 ÷ the number of training cases"),
        (["--defence", "dp", "--epsilon", "-1"], "differential privacy: 'epsilon'"),
        (["--defence", "dp", "--embeddings", "lost"], "differential privacy: 'embeddings'"),
    ],
)
def test_a_defence_that_does_not_go_together_is_one_sentence(files, inside, tmp_path, arguments, message):
    done = inside("train", files / "train.parquet", "--out", tmp_path / "model", *arguments)
    assert done.returncode == 2 and message in done.stderr and "Traceback" not in done.stderr, done.stderr
    assert not (tmp_path / "model").exists()
