"""From reports to a model: from files and frames alike, stopped and continued, judged on cases of its own."""

import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import pathveil
from bundle.conftest import TINY
from pathveil.bundle import Model
from pathveil.bundle.train import make_model, train_model, training_summary, usual_words
from pathveil.errors import CorpusError, UsageError
from pathveil.training.calibration import NEVER
from pathveil.training.defences import TeacherSettings
from pathveil.training.ensemble import train
from pathveil.vocabulary.encoding import encode


def test_a_frame_teaches_what_its_file_teaches(corpus, made):
    other = train_model(pl.read_parquet(corpus), TINY, preset="tiny", seed=3)
    assert other.words == made.words and other.scores == made.scores and other.thresholds == made.thresholds
    for name, array in made.tensors.items():
        np.testing.assert_array_equal(other.tensors[name], array)


def test_a_model_written_where_it_is_trained_is_the_model(corpus, made, folder, tmp_path):
    model = train_model(corpus, TINY, preset="tiny", seed=3, out=str(tmp_path / "model"))
    assert model.folder_sha256 == Model.load(folder).folder_sha256 and sorted(p.name for p in tmp_path.iterdir()) == [
        "model",
        "model.private",
    ]
    summary = training_summary(model, tmp_path / "model")
    assert summary.reports == 160 and summary.words == len(made.words) and "card.md" in repr(summary)
    assert summary.to_frame()["task"].to_list() == list(made.tasks)
    with pytest.raises(UsageError, match="is there already"):
        train_model(corpus, TINY, preset="tiny", seed=3, out=tmp_path / "model")


def test_scores_and_thresholds_are_of_answers_that_other_cases_weighed(corpus, made):
    """The bundle's figures follow from the cross-fitted answers alone: other ones change them."""
    encoded = encode(corpus, made.vocabulary)
    trained = train(encoded, TINY, seed=3)
    wrong = {task: np.zeros_like(chosen) for task, chosen in trained.held_out.chosen.items()}
    worse = replace(trained, held_out=replace(trained.held_out, chosen=wrong))
    options = {"settings": TINY, "preset": "tiny", "seed": 3}
    model, other = (make_model(one, encoded, made.vocabulary, **options) for one in (trained, worse))
    assert model.scores == made.scores and model.thresholds == made.thresholds
    assert other.scores["site"].micro.value < model.scores["site"].micro.value
    assert other.thresholds["site"].probability == NEVER and other.thresholds["site"].abstained == 1.0


TAUGHT = TINY.changed(members=1, linear=False, epochs=2, defence=TeacherSettings(teachers=3, unseen=1))
SCRIPT = """
import sys
from bundle.test_train import TAUGHT
from pathveil.bundle.train import train_model
def tell(stage, done, total):
    if stage == "training teachers" and done == 2:
        print("two teachers", flush=True)
        sys.stdin.read()  # until the test kills this process
train_model(sys.argv[1], TAUGHT, preset="release", seed=4, tasks=["site"], out=sys.argv[2], progress=tell)
"""


def test_a_killed_run_with_teachers_goes_on_to_the_same_bytes(corpus, tmp_path):
    tests = Path(__file__).resolve().parents[1]
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tests)!r})\n{SCRIPT}", corpus]
    with subprocess.Popen(
        [*command, tmp_path / "killed"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "two teachers\n"
        process.send_signal(signal.SIGKILL)
    kept = sorted(path.name for path in (tmp_path / "killed.training").iterdir())
    assert process.returncode == -signal.SIGKILL and len(kept) == 2
    stages = []
    options = {"preset": "release", "seed": 4, "tasks": ["site"]}
    train_model(corpus, TAUGHT, out=tmp_path / "killed", progress=lambda *told: stages.append(told), **options)
    train_model(corpus, TAUGHT, out=tmp_path / "whole", **options)
    assert ("training teachers", 3, 3) in stages and not (tmp_path / "killed.training").exists()
    for path in (tmp_path / "whole").iterdir():
        assert path.read_bytes() == (tmp_path / "killed" / path.name).read_bytes(), path.name


@pytest.fixture(scope="module")
def halves(corpus, tmp_path_factory):
    """The corpus as its training and its validation part, with a code and a registry that only the latter has."""
    folder = tmp_path_factory.mktemp("halves")
    frame = pl.read_parquet(corpus)
    late = pl.col("case_id").is_in(frame["case_id"].unique().sort().tail(40).implode())
    frame.filter(~late).write_parquet(folder / "train.parquet")
    more = frame.filter(late).with_columns(
        site=pl.when(pl.int_range(pl.len()) == 0).then(pl.lit("C69")).otherwise("site"),
        registry=pl.when(pl.int_range(pl.len()) < 5).then(pl.lit("R9")).otherwise("registry"),
    )
    more.write_parquet(folder / "validation.parquet")
    return folder / "train.parquet", folder / "validation.parquet"


def test_validation_reports_are_held_out_and_nothing_else(halves):
    train_file, validation = halves
    brief = TINY.changed(epochs=1)
    model = train_model(train_file, brief, preset="tiny", seed=3, validation=validation)
    learnt, held = pl.read_parquet(train_file), pl.read_parquet(validation)
    assert model.provenance["reports"] == learnt.height
    assert model.provenance["validation"]["reports"] == held.height
    assert model.scores["site"].documents == held["site"].count()  # each once, though every member held it out
    assert "C69" not in model.labels["site"] and model.scores["site"].micro.value < 1
    assert model.vocabulary == usual_words(train_file)  # words come from the training part alone
    taught = train_model(train_file, TAUGHT.changed(epochs=1), preset="tiny", seed=3, validation=validation)
    assert taught.scores["site"].documents == held["site"].count()


def test_a_name_in_six_page_headers_of_one_report_is_no_word_of_a_model(corpus, tmp_path):
    headed = pl.when(pl.col("report_id") == "r7").then(pl.lit("Zorblatt, page. " * 6) + pl.col("text"))
    pl.read_parquet(corpus).with_columns(headed.otherwise("text").alias("text")).write_parquet(tmp_path / "c.parquet")
    brief = TINY.changed(epochs=1, members=1, linear=False)
    words = {name: train_model(tmp_path / "c.parquet", brief, preset=name).words for name in ("default", "paper")}
    words["api"] = pathveil.select_words(tmp_path / "c.parquet").words
    assert {name: "zorblatt" in chosen for name, chosen in words.items()} == {
        "default": False,
        "paper": True,  # occurrences are counted, as in the papers
        "api": False,
    }


def test_validation_of_the_training_cases_is_refused(halves):
    train_file, _ = halves
    cases = pl.read_parquet(train_file)["case_id"].n_unique()
    with pytest.raises(UsageError, match=f"{cases} cases of the validation reports are among the training reports"):
        train_model(train_file, TINY, preset="tiny", validation=train_file)


def test_validation_reports_without_a_task_are_named(halves, tmp_path):
    train_file, validation = halves
    pl.read_parquet(validation).drop("site", "subsite").write_parquet(tmp_path / "other.parquet")
    with pytest.raises(CorpusError, match="the validation reports: there is no task column 'site'"):
        train_model(train_file, TINY, preset="tiny", validation=tmp_path / "other.parquet")


def test_codes_that_are_written_otherwise_than_here_are_told(bundle, tmp_path):
    assert training_summary(bundle, tmp_path).warnings == ()
    otherwise = {**bundle.labels, "subsite": ("C504", "C187"), "laterality": ("L", "R")}
    (warning,) = training_summary(replace(bundle, labels=otherwise), tmp_path).warnings
    assert warning.startswith("labels of subsite and laterality are codes written otherwise")
