"""Shadows on a real Dask cluster: a scheduler and two workers as processes of their own, one of them killed."""

import signal

import numpy as np
import pytest

from auditing.made import SMALL, encoded
from pathveil.auditing import shadows
from pathveil.auditing.shadows import Store, jobs_of, train_missing
from pathveil.errors import UsageError
from pathveil.progress import silent


def test_a_killed_worker_costs_nothing_that_was_finished(cluster, tmp_path):
    address, workers = cluster
    corpus = encoded(60)
    slow = SMALL.changed(epochs=3)
    jobs = jobs_of(corpus, np.arange(60), count=12, seed=0)
    engine = shadows.engine_for("dask", scheduler=address)
    store = Store(tmp_path / "store", corpus, slow, {})
    seen: list[int] = []

    def killing(corpus, jobs, settings, progress, stage):
        for number, logits in engine(corpus, jobs, settings, progress, stage):
            seen.append(number)
            if len(seen) == 3:
                workers[0].send_signal(signal.SIGKILL)
            yield number, logits

    train_missing(corpus, jobs, slow, store=store, engine=killing)
    assert workers[0].wait(300) == -signal.SIGKILL
    assert sorted(seen) == list(range(12))  # each came back exactly once
    for number, logits in shadows.train_here(corpus, jobs[:3], slow, silent, ""):
        kept, _ = store.read(jobs[number], 60)
        for task in corpus.tasks:
            np.testing.assert_allclose(kept[task], logits[task], atol=2e-3)
    assert train_missing(corpus, jobs, slow, store=store, engine=engine) == 0


def test_no_scheduler_is_one_sentence(monkeypatch):
    pytest.importorskip("distributed", reason="needs Dask: pip install 'pathveil[cluster]'")
    monkeypatch.setattr("pathveil.training.workers.CONNECT_TIMEOUT", "1s")
    engine = shadows.engine_for("dask", scheduler="tcp://127.0.0.1:9")
    corpus = encoded(20)
    with pytest.raises(UsageError, match="no Dask scheduler answers at tcp://127"):
        list(engine(corpus, jobs_of(corpus, np.arange(20), count=1, seed=0), SMALL, silent, ""))
