"""Where shadows are trained: in this process, in several on this machine, or on a Dask cluster.

Each engine is a function from jobs to finished jobs (see ``shadows.Trainer``) around one pure function,
``train_jobs``; results come back to the caller, who alone writes the store. So workers need no common disk, and a
worker that dies costs only the jobs it had in hand.

>>> trainer(engine="dask")
Traceback (most recent call last):
pathveil.errors.UsageError: --engine dask needs --scheduler ADDRESS, such as tcp://node1:8786
"""

import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from functools import partial
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import numpy as np

from pathveil.audit.shadows import Job, Trainer
from pathveil.errors import MissingExtraError, UsageError
from pathveil.progress import Progress, silent
from pathveil.training.ensemble import mean_log_probability, member_seed, start_vectors
from pathveil.training.settings import TrainingSettings
from pathveil.vocabulary.encoded import Encoded

CONNECT = "10s"  # to a scheduler
ATTEMPTS = 3  # at jobs whose workers died


def trainer(
    *,
    engine: Literal["local", "dask"] = "local",
    processes: int = 1,
    scheduler: str | None = None,
    device: str = "cpu",
    stack: int | None = None,
) -> Trainer:
    """The engine asked for, ready for ``shadows.train``."""
    if engine == "dask":
        if scheduler is None:
            raise UsageError("--engine dask needs --scheduler ADDRESS, such as tcp://node1:8786")
        return partial(train_on_dask, scheduler=scheduler, device=device, stack=stack)
    if scheduler is not None:
        raise UsageError("--scheduler goes with --engine dask")
    if processes > 1:
        if device != "cpu":
            raise UsageError(f"--processes shares the CPU's cores; on {device} one process trains many models at once")
        return partial(train_in_processes, processes=processes)
    return partial(train_here, device=device, stack=stack)


def averaged(trainer: Trainer, networks: int) -> Trainer:
    """A shadow of several networks on the same documents, their probabilities averaged: an ensemble's shadow."""
    if networks == 1:
        return trainer

    def train(
        corpus: Encoded, jobs: Sequence[Job], settings: TrainingSettings, progress: Progress, stage: str
    ) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
        single = [
            Job(place * networks + network, job.rows, seed=member_seed(job.seed, network))
            for place, job in enumerate(jobs)
            for network in range(networks)
        ]
        waiting: dict[int, list[Mapping[str, np.ndarray]]] = {}
        for number, logits in trainer(corpus, single, settings, progress, stage):
            place = number // networks
            waiting.setdefault(place, []).append(logits)
            if len(waiting[place]) == networks:
                group = waiting.pop(place)
                said = {task: mean_log_probability([one[task] for one in group]) for task in group[0]}
                yield jobs[place].number, {task: values.astype(np.float16) for task, values in said.items()}

    return train


def train_jobs(
    corpus: Encoded, jobs: Sequence[Job], settings: TrainingSettings, *, device: str = "cpu", stack: int | None = None
) -> list[tuple[int, dict[str, np.ndarray]]]:
    """Train models and return their logits on all documents: pure, picklable, the same wherever it runs."""
    return list(train_here(corpus, jobs, settings, silent, "", device=device, stack=stack))


def train_here(
    corpus: Encoded,
    jobs: Sequence[Job],
    settings: TrainingSettings,
    progress: Progress,
    stage: str,
    *,
    device: str = "cpu",
    stack: int | None = None,
) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
    """In this process, stacked as the device likes it."""
    from pathveil.training.stacked import logits_many

    members, seeds = [job.rows for job in jobs], [job.seed for job in jobs]
    # A shadow starts where the model started: at vectors of the text at hand, where its settings say so.
    start = start_vectors(corpus, settings)
    for place, logits in logits_many(
        corpus,
        members,
        settings,
        seeds=seeds,
        vectors=start,
        device=device,
        stack=stack,
        progress=progress,
        stage=stage,
    ):
        yield jobs[place].number, logits


def train_in_processes(
    corpus: Encoded, jobs: Sequence[Job], settings: TrainingSettings, progress: Progress, stage: str, *, processes: int
) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
    """In a pool of processes that share one mapped copy of the corpus and the cores."""
    with TemporaryDirectory(prefix="pathveil-") as folder:
        corpus.save(Path(folder))
        threads = max((os.cpu_count() or 1) // processes, 1)
        start = get_context("spawn")
        with ProcessPoolExecutor(processes, start, _begin, (folder, threads, os.getpid())) as pool:
            waiting = [pool.submit(_work, job, settings) for job in jobs]
            yield from _as_finished(waiting)


_corpus: Encoded | None = None  # a worker process's own copy


def _begin(folder: str, threads: int, parent: int) -> None:
    global _corpus
    os.environ["NUMBA_NUM_THREADS"] = str(threads)
    import torch

    torch.set_num_threads(threads)
    _corpus = Encoded.load(Path(folder))

    def follow() -> None:  # a parent that was killed cannot tell its workers to stop
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


def _work(job: Job, settings: TrainingSettings) -> tuple[int, dict[str, np.ndarray]]:
    assert _corpus is not None
    [finished] = train_jobs(_corpus, [job], settings)
    return finished


def _as_finished(waiting: Sequence[Future[Any]]) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
    left = set(waiting)
    while left:
        done, left = wait(left, return_when=FIRST_COMPLETED)
        for future in done:
            yield future.result()


def train_on_dask(
    corpus: Encoded,
    jobs: Sequence[Job],
    settings: TrainingSettings,
    progress: Progress,
    stage: str,
    *,
    scheduler: str,
    device: str = "cpu",
    stack: int | None = None,
) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
    """On the workers of a Dask cluster; what a lost worker had in hand is sent again."""
    try:
        dask = import_module("distributed")
    except ImportError:
        raise MissingExtraError(package="dask", extra="cluster", purpose="--engine dask") from None
    try:
        client = dask.Client(scheduler, timeout=CONNECT)
    except OSError:
        raise UsageError(f"no Dask scheduler answers at {scheduler}; start one, or mend the address") from None
    # A GPU trains a stack at a time, so it is given one; a CPU one model, so that a lost worker loses little.
    size = 1 if device == "cpu" else (stack or 16)
    left = {job.number: job for job in jobs}
    with client:
        for attempt in range(ATTEMPTS):
            for finished in _one_round(client, corpus, list(left.values()), settings, device, stack, size):
                for number, logits in finished:
                    del left[number]
                    yield number, logits
            if not left:
                return
            time.sleep(2**attempt)
    raise UsageError(
        f"{len(left)} shadows were not finished: their workers died {ATTEMPTS} times (out of memory?); "
        "what is finished is kept, start again to go on"
    )


def _one_round(
    client: Any,
    corpus: Encoded,
    jobs: list[Job],
    settings: TrainingSettings,
    device: str,
    stack: int | None,
    size: int,
) -> Iterator[list[tuple[int, dict[str, np.ndarray]]]]:
    """Send jobs out and hand over what comes back; jobs of lost workers are passed over."""
    dask = import_module("distributed")
    lost = dask.scheduler.KilledWorker, dask.client.FutureCancelledError
    whole = Encoded(**{name: _in_memory(value) for name, value in vars(corpus).items()})
    shared = client.scatter(whole, broadcast=True, hash=False)
    waiting = [
        client.submit(train_jobs, shared, jobs[at : at + size], settings, device=device, stack=stack, pure=False)
        for at in range(0, len(jobs), size)
    ]
    for future in dask.as_completed(waiting):
        try:
            yield future.result()
        except lost:
            continue
        finally:
            future.release()


def _in_memory(value: Any) -> Any:
    """A mapped array's contents: another machine cannot open this one's files."""
    if isinstance(value, np.ndarray):
        return np.array(value)
    if isinstance(value, Mapping):
        return {name: _in_memory(part) for name, part in value.items()}
    return value
