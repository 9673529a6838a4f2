"""Shadows: who is in, what the store keeps, and what survives a kill."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax

from auditing.made import SMALL, encoded
from pathveil.auditing.shadows import (
    Job,
    Store,
    averaged,
    digest,
    engine_for,
    jobs_of,
    shadow_rows,
    train_here,
    train_missing,
    trained_on,
)
from pathveil.errors import UsageError
from pathveil.progress import silent
from pathveil.training.ensemble import member_seed


@given(st.integers(2, 60), st.integers(1, 4), st.integers(0, 9), st.integers(0, 3))
def test_two_shadows_share_out_one_split_by_case(cases, reports, pair, seed):
    case = np.repeat(np.arange(cases), reports)
    first, second = (shadow_rows(case, number=2 * pair + side, seed=seed) for side in (0, 1))
    assert sorted([*first, *second]) == list(range(len(case)))
    assert not set(case[first]) & set(case[second])
    assert abs(len(set(case[first])) - len(set(case[second]))) <= 1


@given(st.integers(2, 60), st.integers(1, 4), st.integers(0, 9))
def test_a_bootstrap_draws_whole_cases_with_replacement(cases, reports, number):
    case = np.repeat(np.arange(cases), reports)
    rows = shadow_rows(case, number=number, sampling="bootstrap", seed=0)
    counts = np.bincount(rows, minlength=len(case)).reshape(cases, reports)
    assert len(rows) == len(case) and (counts == counts[:, :1]).all()
    assert len(set(rows)) < len(case) or cases < 12


def test_the_first_shadows_of_many_are_those_of_few_and_seeds_differ():
    corpus = encoded(60)
    few, many = (jobs_of(corpus, np.arange(10, 50), count=count, seed=3) for count in (4, 12))
    for one, other in zip(few, many, strict=False):
        assert one.number == other.number and one.seed == other.seed and (one.rows == other.rows).all()
    assert len({job.seed for job in many}) == 12
    assert set(np.concatenate([job.rows for job in many])) == set(range(10, 50))
    other = jobs_of(corpus, np.arange(10, 50), count=4, seed=4)
    assert (other[0].rows != few[0].rows[: len(other[0].rows)]).any()


def test_what_a_model_held_out_to_stop_by_is_not_inside():
    corpus = encoded(80)
    [job] = jobs_of(corpus, np.arange(80), count=1, seed=0)
    assert trained_on(corpus, job, SMALL).sum() == len(job.rows)
    stopping = SMALL.changed(patience=2, validation_share=0.2)
    inside = trained_on(corpus, job, stopping)
    assert inside.sum() == len(job.rows) * 0.8 and not set(np.flatnonzero(inside)) - set(job.rows)


class Counting:
    """An engine that counts what it is asked to train."""

    def __init__(self):
        self.trained = []

    def __call__(self, corpus, jobs, settings, progress, stage):
        for number, logits in train_here(corpus, jobs, settings, progress, stage):
            self.trained.append(number)
            yield number, logits


def test_nothing_finished_is_trained_twice_and_nothing_stale_is_reused(tmp_path):
    corpus, engine = encoded(60), Counting()
    quick = SMALL.changed(epochs=1)

    def run(corpus=corpus, settings=quick, count=4, **inputs):
        engine.trained = []
        store = Store(tmp_path, corpus, settings, {"family": "auditor", "seed": 0, **inputs})
        jobs = jobs_of(corpus, np.arange(corpus.documents), count=count, seed=0)
        assert train_missing(corpus, jobs, settings, store=store, engine=engine) == len(engine.trained)
        return store, jobs, list(engine.trained)

    store, jobs, trained = run()
    assert trained == [0, 1, 2, 3]
    assert run()[2] == []
    assert run(count=6)[2] == [4, 5]
    assert run(settings=quick.changed(learning_rate=0.01))[2] == [0, 1, 2, 3]
    assert run(seed=1)[2] == [0, 1, 2, 3]
    labels = dict(corpus.labels) | {"side": 1 - corpus.labels["side"]}
    assert run(corpus=replace(corpus, labels=labels))[2] == [0, 1, 2, 3]
    # A damaged file and one of another job under the same number are trained again; a half-written one is no file.
    store.path(jobs[1]).write_bytes(store.path(jobs[1]).read_bytes()[:-200] + b"x" * 200)
    store.path(jobs[2]).rename(store.folder / ("00002-" + "0" * 16 + ".npz"))
    (store.folder / "00003.npz.999999999.part").write_bytes(b"half")
    os.utime(store.folder / "00003.npz.999999999.part", (0, 0))
    assert run()[2] == [1, 2]
    assert not list(store.folder.glob("*.part"))


def test_what_is_read_back_is_what_was_trained(tmp_path):
    corpus = encoded(50)
    quick = SMALL.changed(epochs=2)
    jobs = jobs_of(corpus, np.arange(50), count=2, seed=0)
    store = Store(tmp_path, corpus, quick, {})
    train_missing(corpus, jobs, quick, store=store, engine=train_here)
    for number, logits in train_here(corpus, jobs, quick, silent, ""):
        kept, inside = store.read(jobs[number], 50)
        assert sorted(kept) == ["side", "site"]
        for task, values in kept.items():
            assert values.dtype == np.float16
            np.testing.assert_array_equal(values, logits[task])
        np.testing.assert_array_equal(np.flatnonzero(inside), np.sort(jobs[number].rows))


def test_the_digest_sees_every_array():
    corpus = encoded(20)
    seen = {digest(corpus)}
    for change in (
        {"ids": corpus.ids[::-1].copy()},
        {"cases": corpus.cases + 1},
        {"labels": {**corpus.labels, "site": np.zeros(20, np.int32)}},
        {"classes": {**corpus.classes, "side": ("left", "neither")}},
        {"vocabulary_size": 201},
    ):
        seen.add(digest(replace(corpus, **change)))
    assert len(seen) == 6


KILLED = """
import os, sys, time
import numpy as np
from audit.made import SMALL, encoded
from pathveil.auditing.shadows import Store, jobs_of, train_here, train_missing
from pathlib import Path

def noting(corpus, jobs, settings, progress, stage):
    for place, (number, logits) in enumerate(train_here(corpus, jobs, settings, progress, stage)):
        if place == int(sys.argv[2]):
            sys.stdin.read()  # until the test kills this process
        print(number, flush=True)
        yield number, logits

corpus, quick = encoded(60), SMALL.changed(epochs=1)
jobs = jobs_of(corpus, np.arange(60), count=20, seed=0)
train_missing(corpus, jobs, quick, store=Store(Path(sys.argv[1]), corpus, quick, {}), engine=noting)
print("finished", flush=True)
"""


def kill_after(lines: int, folder: Path) -> list[str]:
    """Start training in a process of its own, kill -9 once it has said so many lines, a few models later at most."""
    path = os.pathsep.join([str(Path(__file__).parent.parent), *sys.path])
    worker = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(folder), str(lines + 3)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"},
    )
    assert worker.stdout is not None
    said = []
    for line in worker.stdout:
        said.append(line.strip())
        if len(said) == lines:
            time.sleep(0.002 * lines)  # not always at the same point of the writing
            worker.send_signal(signal.SIGKILL)
            break
    worker.wait()
    said += [line.strip() for line in worker.stdout]
    return said


def test_killed_at_any_moment_it_goes_on_where_it_was(tmp_path):
    done: set[str] = set()
    for lines in (1, 5):
        said = kill_after(lines, tmp_path / "killed")
        assert "finished" not in said
        kept = {path.name.split("-")[0] for path in (tmp_path / "killed").glob("*/*.npz")}
        assert done <= kept
        assert not done & {f"{int(number):05d}" for number in said}  # nothing finished was trained again
        done = kept
    corpus, quick = encoded(60), SMALL.changed(epochs=1)
    jobs = jobs_of(corpus, np.arange(60), count=20, seed=0)
    trained = {
        name: train_missing(corpus, jobs, quick, store=Store(tmp_path / name, corpus, quick, {}), engine=train_here)
        for name in ("killed", "whole")
    }
    assert trained == {"killed": 20 - len(done), "whole": 20}
    files = [sorted((tmp_path / name).glob("*/*.npz")) for name in ("killed", "whole")]
    assert len(files[0]) == 20
    for one, other in zip(*files, strict=True):
        assert one.name == other.name
        with np.load(one) as a, np.load(other) as b:
            assert all((a[name] == b[name]).all() for name in a.files)


def test_processes_give_the_same_answers_as_one(tmp_path):
    corpus = encoded(60)
    quick = SMALL.changed(epochs=1)
    jobs = jobs_of(corpus, np.arange(60), count=3, seed=0)
    alone = dict(train_here(corpus, jobs, quick, silent, ""))
    pool = engine_for("local", processes=2)
    together = dict(pool(corpus, jobs, quick, silent, ""))
    assert sorted(together) == [0, 1, 2]
    for number, logits in together.items():
        for task in corpus.tasks:
            np.testing.assert_allclose(logits[task], alone[number][task], atol=2e-3)


def test_a_shadow_of_several_networks_says_their_mean():
    corpus = encoded(40)
    quick = SMALL.changed(epochs=1)
    jobs = jobs_of(corpus, np.arange(40), count=2, seed=0)
    found = dict(averaged(train_here, 3)(corpus, jobs, quick, silent, ""))
    assert sorted(found) == [0, 1]
    seeds = [member_seed(jobs[1].seed, network) for network in range(3)]
    alone = [dict(train_here(corpus, [Job(0, jobs[1].rows, seed)], quick, silent, ""))[0] for seed in seeds]
    for task in corpus.tasks:
        mean = np.mean([softmax(one[task].astype(np.float64), axis=1) for one in alone], axis=0)
        np.testing.assert_allclose(np.exp(found[1][task].astype(np.float64)), mean, atol=3e-3)


def test_engines_that_do_not_go_together_are_refused():
    with pytest.raises(UsageError, match="--scheduler ADDRESS"):
        engine_for("dask")
    with pytest.raises(UsageError, match="goes with"):
        engine_for("local", scheduler="tcp://x:1")
    with pytest.raises(UsageError, match="one process trains many"):
        engine_for("local", processes=2, device="cuda")


def test_a_job_is_picklable():
    import pickle

    job = pickle.loads(pickle.dumps(Job(1, np.arange(3), seed=5)))
    assert job.rows.tolist() == [0, 1, 2]


def test_the_stores_inputs_can_be_read_by_a_person(tmp_path):
    store = Store(tmp_path, encoded(20), SMALL, {"family": "auditor"})
    assert json.loads((store.folder / "inputs.json").read_text())["family"] == "auditor"
