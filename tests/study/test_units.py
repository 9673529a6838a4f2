"""The same study by one process or several, killed or not: the same result."""

import json
import signal

import pytest

from pathveil.errors import UsageError
from pathveil.study import file as study_file
from pathveil.training.workers import crew
from study.test_file import STUDY, TRAINING

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
    with crew(workers=2) as several:
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
    assert workers[0].wait(30) == -signal.SIGKILL
    assert (tmp_path / "run" / "result.json").read_text() == whole[1]


def test_a_sentence_is_a_vocabulary(whole):
    result = json.loads(whole[1])["studies"]["vocabulary"]
    assert {row["strategy"] for row in result["table2"]} == {"B", "registries >= 2 and cases >= 3"}
    assert all(row["epoch"] >= 1 and len(row["shadow_epochs"]) == 3 for row in result["vocabularies"])


def test_times_are_beside_the_result(whole):
    times = json.loads((whole[0].parent / "run" / "vocabulary" / "times.json").read_text())["cells"]
    assert len(times) == 2 * 2 * (1 + 3 + 1) and all(cell["seconds"] >= 0 and cell["unit"] for cell in times)
    assert "seconds" not in whole[1]


def test_a_dead_worker_is_one_sentence():
    with pytest.raises(UsageError, match="a worker process died"), crew(workers=2) as several:
        several.submit(die, several.share(made()))
        list(several.results())


def die(corpus):
    import os

    os._exit(9)


def made():
    import numpy as np

    from pathveil.vocabulary.encoded import Encoded

    return Encoded(
        ids=np.array([2], np.int32),
        offsets=np.array([0, 1]),
        cases=np.array([0]),
        registries=np.array([0]),
        registry_names=("R1",),
        labels={},
        classes={},
        vocabulary_size=3,
    )
