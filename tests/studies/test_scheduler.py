"""The same study by one process or several, killed or not: the same result."""

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time

import psutil
import pytest
import torch

from conftest import ROOT
from pathveil.errors import UsageError
from pathveil.studies import study_file, vocabulary
from pathveil.studies.plan import Speed, plan
from pathveil.studies.scheduler import _do, run_in_folder
from pathveil.studies.store import Cells, check_run
from pathveil.studies.vocabulary import VocabularySettings
from pathveil.training.workers import crew
from studies.test_study_file import STUDY, TRAINING, contents

SMALL = (
    STUDY.replace('["B", "I2", "MI5"]', '["B", "registries >= 2 and cases >= 3"]\nfolds = ["R1", "R3"]')
    .replace('["single", "centralized", "adversarial"]', '["single", "adversarial"]')
    .replace("counts = [1, 2]", "counts = [1]")
)


@pytest.fixture(scope="module")
def whole(small_corpus, tmp_path_factory, one_thread):
    """The study's file, and its result by one process."""
    folder = tmp_path_factory.mktemp("units")
    (folder / "study.toml").write_text(SMALL.format(corpus=small_corpus, training=TRAINING))
    study_file.run(folder / "study.toml", out=folder / "run")
    return folder / "study.toml", (folder / "run" / "result.json").read_text()


def test_several_processes_give_the_same_result(whole, tmp_path):
    with crew(workers=2, devices="cpu,cpu") as several:
        study_file.run(whole[0], out=tmp_path / "run", crew=several)
    assert (tmp_path / "run" / "result.json").read_text() == whole[1]


def test_a_cluster_gives_the_same_result_though_it_loses_a_worker(whole, cluster, tmp_path):
    address, workers = cluster
    done = []

    def watch(stage: str, count: int, total: int) -> None:
        done.append(count)
        if len(done) == 4:
            workers[0].send_signal(signal.SIGKILL)

    with crew(engine="dask", scheduler=address) as several:
        study_file.run(whole[0], out=tmp_path / "run", crew=several, progress=watch)
    assert workers[0].wait(300) == -signal.SIGKILL
    assert (tmp_path / "run" / "result.json").read_text() == whole[1]


def start(whole, out, workers):
    command = [sys.executable, "-m", "pathveil", "study", "run", whole[0], "--out", out, "--workers", workers]
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "start_new_session": True}
    return subprocess.Popen([*map(str, command)], **options)


def stopped(whole, out, workers, *, cells, pause=0.0, group=None):
    """What a run said that was killed, or whose group was sent a signal, with so many cells finished or a little later;
    and the run. One that is over before a busy machine comes to do so is begun anew."""
    while True:
        process = start(whole, out, workers)
        while process.poll() is None and len(list(out.glob("*/cells/[!.]*"))) < cells:
            time.sleep(0.01)
        time.sleep(pause)
        if process.poll() is None:
            process.kill() if group is None else os.killpg(process.pid, group)
        said = process.communicate(timeout=900)
        if process.returncode != 0:
            return said, process
        shutil.rmtree(out)


def test_killed_at_random_moments_it_ends_with_the_same_result(whole, tmp_path):
    out, moments = tmp_path / "run", random.Random()
    for cells, workers in ((1, 1), (14, 2)):
        said, process = stopped(whole, out, workers, cells=cells, pause=moments.uniform(0, 0.5))
        assert process.returncode == -signal.SIGKILL, said
    process = start(whole, out, 1)
    said = process.communicate(timeout=1800)
    assert process.returncode == 0, said[1]
    assert (out / "result.json").read_text() == whole[1]


def test_control_c_leaves_a_run_to_go_on_with(whole, tmp_path):
    # As a terminal does: to the workers as well.
    said, process = stopped(whole, tmp_path / "run", 2, cells=3, group=signal.SIGINT)
    assert process.returncode == 130, said
    *before, last = said[1].splitlines()
    assert last == "Stopped; what is finished is kept: the same command goes on from there."
    assert all("cells" in line for line in before), said[1]  # at most progress
    end = time.monotonic() + 300
    while left := members(process.pid):  # the workers have gone with it
        assert time.monotonic() < end, left
        time.sleep(0.1)


def members(group):
    """The processes of a group, without those that only nobody has asked after."""
    found = []
    for process in psutil.process_iter(["pid", "status", "cmdline"]):
        with contextlib.suppress(ProcessLookupError, psutil.NoSuchProcess):
            if os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.info)
    return found


OTHER = """
name = "other"
[corpus]
reports = 90
registries = 3
[combined]
modes = ["centralized"]
strategies = ["B"]
"""


def test_a_second_process_with_another_file_is_refused_and_changes_nothing(tmp_path, one_thread):
    """While the first makes its corpus, and whichever study it is at."""
    text = SMALL.format(corpus="", training=TRAINING).replace(
        'path = ""', "reports = 240\nregistries = 3\nclasses = { sites = 4 }"
    )
    (tmp_path / "study.toml").write_text(text.replace('["R1", "R3"]', '["R1"]'))
    (tmp_path / "other.toml").write_text(OTHER)
    command = [sys.executable, "-m", "pathveil", "study", "run", tmp_path / "other.toml", "--out", tmp_path / "run"]
    stages, tried = ("writing reports", "vocabulary study", "distribution study"), {}

    def watch(now: str, done: int, total: int) -> None:
        if now not in stages or now in tried:
            return
        before = contents(tmp_path / "run")
        tried[now] = subprocess.run([*map(str, command)], capture_output=True, text=True)
        assert contents(tmp_path / "run") == before
        if now == stages[-1]:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        study_file.run(tmp_path / "study.toml", out=tmp_path / "run", progress=watch)
    assert tuple(tried) == stages
    for ended in tried.values():
        assert ended.returncode == 2, ended.stderr
        assert "another process is working in this folder" in ended.stderr


def test_stopped_while_its_corpus_comes_in_a_run_is_a_run_to_go_on_with(tmp_path, one_thread, monkeypatch):
    text = OTHER.replace("reports = 90", "reports = 400") + "[combined.training]\n" + TRAINING + 'optimiser = "adam"\n'
    (tmp_path / "study.toml").write_text(text)
    replace = os.replace
    for last in (2, 4):
        moved = []

        def stop(source, target, moved=moved, last=last):
            if target.parent == tmp_path / "run":
                moved.append(target)
                if len(moved) == last:
                    raise KeyboardInterrupt
            replace(source, target)

        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(os, "replace", stop)
            study_file.run(tmp_path / "study.toml", out=tmp_path / "run")
        assert len(moved) == last
        check_run(tmp_path / "run", mark=study_file.COPY)
    study_file.run(tmp_path / "study.toml", out=tmp_path / "run")
    assert (tmp_path / "run" / "result.json").exists()


def test_a_plan_of_a_changed_corpus_counts_anew(tmp_path, one_thread, monkeypatch, rough_calibration):
    text = OTHER + "[combined.training]\n" + TRAINING + 'optimiser = "adam"\n'
    text = text.replace("reports = 90", "reports = 400")
    (tmp_path / "study.toml").write_text(text)
    study_file.run(tmp_path / "study.toml", out=tmp_path / "run")
    monkeypatch.setattr("pathveil.studies.plan._speed", lambda *_: Speed(0.1, 0.001))
    assert plan(tmp_path / "study.toml", out=tmp_path / "run").left == 0
    (tmp_path / "changed.toml").write_text(text.replace("reports = 400", "reports = 300"))
    before = contents(tmp_path / "run")
    made = plan(tmp_path / "changed.toml", out=tmp_path / "run")
    assert made.left == 1 and made.finished == 0 and not made.scaled_from_sample
    assert made.documents == pytest.approx(300 * 0.8 * 2, rel=0.1)
    assert contents(tmp_path / "run") == before


def test_a_plan_counts_what_is_left_and_makes_nothing(whole, tmp_path, monkeypatch, rough_calibration):
    made = plan(whole[0], out=tmp_path / "none", workers=2)
    assert not (tmp_path / "none").exists()
    counts = {(row.study, row.kind): (row.cells, row.finished) for row in made.work}
    assert counts["vocabulary", "targets"] == (4, 0) and counts["vocabulary", "shadows"] == (12, 0)
    assert counts["vocabulary", "attacks"] == (4, 0) and counts["distribution", "single"] == (1, 0)
    assert made.cells == made.left == 24 and made.seconds > 0
    targets = made.work[0]
    # 360 reports: two of three registries, four fifths of their cases, two epochs, two folds and two vocabularies
    assert targets.documents == pytest.approx(240 * 0.8 * 2 * 4, rel=0.1) and targets.epochs == 2
    assert "together" in str(made)
    monkeypatch.setattr("pathveil.studies.plan._speed", None)  # nothing is left to measure
    finished = plan(whole[0], out=whole[0].parent / "run")
    assert finished.left == 0 and finished.seconds == 0 and finished.finished == 24


def test_a_corpus_that_is_not_made_yet_is_planned_from_a_small_one(tmp_path, monkeypatch, rough_calibration):
    monkeypatch.setattr("pathveil.studies.plan.SAMPLE", 100)
    text = STUDY.split("[distribution]")[0].format(corpus="", training=TRAINING)
    text = text.replace('path = ""', "reports = 5000\nregistries = 3").replace('"I2", "MI5"', '"I2"')
    (tmp_path / "study.toml").write_text(text)
    made = plan(tmp_path / "study.toml", out=tmp_path / "run")
    assert made.scaled_from_sample and list(tmp_path.iterdir()) == [tmp_path / "study.toml"]
    assert made.work[0].documents == pytest.approx(2 / 3 * 5000 * 0.8 * 2 * 3 * 2, rel=0.15)


def test_the_distribution_papers_file_is_planned_with_its_test_years(tmp_path, monkeypatch):
    monkeypatch.setattr("pathveil.studies.plan.SAMPLE", 500)
    monkeypatch.setattr("pathveil.studies.plan._speed", lambda *_: Speed(0.1, 0.001))
    file = ROOT / "studies" / "distribution-paper.toml"
    settings = study_file.read(file).distribution
    assert settings is not None and settings.test_from == "2016"
    made = plan(file, out=tmp_path / "run")
    assert made.cells == 3 and 0.4 < made.documents / (3 * 15 * 410_064) < 0.8


def test_a_sentence_is_a_vocabulary(whole):
    result = json.loads(whole[1])["studies"]["vocabulary"]
    assert {row["strategy"] for row in result["table2"]} == {"B", "registries >= 2 and cases >= 3"}
    assert all(row["epoch"] >= 1 and len(row["shadow_epochs"]) == 3 for row in result["vocabularies"])


def test_epochs_can_be_fixed(small_corpus, tmp_path):
    settings = VocabularySettings(strategies=("B",), folds=("R1",), shadows=2, fixed_epochs=3, training={"dim": 8})
    result = run_in_folder(vocabulary.VocabularyStudy(small_corpus, settings, out=tmp_path))
    assert [(row.epoch, row.shadow_epochs) for row in result.vocabularies] == [(3, [3, 3])]


def test_times_are_beside_the_result(whole):
    times = json.loads((whole[0].parent / "run" / "vocabulary" / "times.json").read_text())["cells"]
    assert len(times) == 2 * 2 * (1 + 3 + 1) and all(cell["seconds"] >= 0 and cell["unit"] for cell in times)
    assert "seconds" not in whole[1]


def test_a_full_gpu_is_one_sentence(tmp_path):
    def full(corpus, keep, progress):
        keep({"unit": "first"}, {})
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")

    with pytest.raises(UsageError, match=r"memory is full \(shadows R1 B\).*fewer --workers"):
        _do(None, full, (), "shadows R1 B", "cpu", str(tmp_path))
    assert Cells(tmp_path).has({"unit": "first"})
