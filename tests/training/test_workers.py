"""Crews: jobs come back whoever does them, in which order they are taken, and what happens when a worker dies."""

import os
import signal
import threading
import time

import pytest

from pathveil.errors import UsageError
from pathveil.training import workers
from pathveil.training.workers import Scheduler, _control_c_waits, crew, usual_workers
from training import jobs


def documents(corpus, factor):
    return corpus.documents * factor


def test_one_process_takes_jobs_in_turn_and_those_for_this_machine_first():
    with crew() as alone:
        shared = alone.share(jobs.one_report())
        alone.submit(documents, shared, 1)
        alone.submit(documents, shared, 2)
        alone.submit(documents, shared, 3, local=True)
        seen = []
        for result in alone.results():
            seen.append(result)
            if result == 1:
                alone.submit(documents, shared, 4)  # more may come while results are read
        assert seen == [3, 1, 2, 4]


def test_options_that_do_not_go_together_are_one_sentence():
    for options, sentence in (
        ({"engine": "dask"}, "needs --scheduler ADDRESS"),
        ({"scheduler": "tcp://node1:8786"}, "goes with --engine dask"),
        ({"workers": 1, "devices": "cpu,cpu"}, "--workers 1 leaves devices of 'cpu,cpu' idle; give at least 2"),
    ):
        with pytest.raises(UsageError, match=sentence), crew(**options):
            pass


@pytest.mark.parametrize(
    ("cores", "memory_gb", "device", "expected"),
    [
        (8, 64, "cpu", 8),
        (64, 512, "cpu", 16),
        (8, 7, "cpu", 2),
        (1, 1, "cpu", 1),
        (16, 64, "cuda", 4),
        (2, 64, "cuda", 1),
        (16, 64, "cuda:0,cuda:1", 8),
        (16, 64, "cpu,cpu", 2),
    ],
)
def test_as_many_workers_as_cores_and_memory_bear(monkeypatch, cores, memory_gb, device, expected):
    monkeypatch.setattr(workers.os, "sched_getaffinity", lambda _: set(range(cores)))
    monkeypatch.setattr(workers.os, "sysconf", {"SC_PHYS_PAGES": memory_gb << 18, "SC_PAGE_SIZE": 4096}.__getitem__)
    assert usual_workers(device) == expected


def test_control_c_does_not_reach_a_worker_that_is_only_starting():
    with crew(workers=2, devices="cpu,cpu") as several:
        shared = several.share(jobs.one_report())
        for _ in range(4):
            several.submit(jobs.hears_control_c, shared)
        assert list(several.results()) == [False] * 4
    assert jobs.hears_control_c()  # this process hears it again


def test_control_c_waits_until_a_worker_is_started_whichever_thread_takes_it():
    over, reached = threading.Event(), []
    other = threading.Thread(target=over.wait)
    other.start()
    try:
        with pytest.raises(KeyboardInterrupt), _control_c_waits():
            signal.pthread_kill(other.ident, signal.SIGINT)
            for _ in range(20):  # in which Python would have come to it
                time.sleep(0.01)
            reached.append(True)
    finally:
        over.set()
        other.join()
    assert reached and signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_dead_worker_is_one_sentence():
    with pytest.raises(UsageError, match="a worker process died"), crew(workers=2) as several:
        several.submit(jobs.die, several.share(jobs.one_report()))
        list(several.results())


def test_a_job_for_a_pool_that_died_is_one_sentence():
    with pytest.raises(UsageError, match="a worker process died"), crew(workers=2) as several:
        shared = several.share(jobs.one_report())
        assert several.pool.submit(os._exit, 9).exception() is not None
        several.submit(jobs.hears_control_c, shared)
        list(several.results())


def test_a_cluster_with_certificates_serves_those_who_show_one_and_nobody_else(tmp_path, monkeypatch):
    """The scheduler takes no connection without a certificate of its authority, and none that is not encrypted."""
    distributed = pytest.importorskip("distributed")
    security = distributed.Security.temporary()
    names = {"ca": security.tls_ca_file, "cert": security.tls_client_cert, "key": security.tls_client_key}
    files = {name: tmp_path / f"{name}.pem" for name in names}
    for name, content in names.items():
        files[name].write_text(content)
    options = {"authority": files["ca"], "certificate": files["cert"], "key": files["key"]}
    monkeypatch.setattr(workers, "CONNECT_TIMEOUT", "2s")
    whole = distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, security=security, dashboard_address=None
    )
    with whole as running:
        address = running.scheduler_address
        assert address.startswith("tls://")
        with crew(engine="dask", scheduler=Scheduler.at(address, **options)) as several:
            shared = several.share(jobs.one_report())
            several.submit(documents, shared, 3)
            assert list(several.results()) == [3]
        plain = address.replace("tls://", "tcp://")
        for refused in (Scheduler(plain), plain):
            with pytest.raises(UsageError, match="no Dask scheduler answers"), crew(engine="dask", scheduler=refused):
                pass
    for given, sentence in (
        ({"authority": files["ca"], "certificate": None, "key": None}, "the three of them"),
        ({**options, "key": tmp_path / "none.pem"}, "there is no such file"),
    ):
        with pytest.raises(UsageError, match=sentence):
            Scheduler.at("tls://node1:8786", **given)
    with pytest.raises(UsageError, match="--tls-ca goes with --scheduler tls://"):
        Scheduler.at("tcp://node1:8786", **options)
