"""Where shadows are trained: in this process, in several on this machine, or on a Dask cluster.

Each engine is a function from jobs to finished jobs (see ``shadows.Trainer``) around one pure function,
``train_jobs``; results come back to the caller, who alone writes the store. So workers need no common disk, and a
worker that dies costs only the jobs it had in hand.

>>> trainer(engine="dask")
Traceback (most recent call last):
pathveil.errors.UsageError: --engine dask needs --scheduler ADDRESS, such as tcp://node1:8786
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from pathveil.audit.shadows import Job, Trainer
from pathveil.errors import UsageError
from pathveil.progress import Progress, silent
from pathveil.training.ensemble import mean_log_probability, member_seed, start_vectors
from pathveil.training.settings import TrainingSettings
from pathveil.training.workers import EngineName, crew
from pathveil.vocabulary.encoded import Encoded


def trainer(
    *,
    engine: EngineName = "local",
    processes: int = 1,
    scheduler: str | None = None,
    device: str = "cpu",
    stack: int | None = None,
) -> Trainer:
    """The engine asked for, ready for ``shadows.train``."""
    if engine == "dask":
        if scheduler is None:
            raise UsageError("--engine dask needs --scheduler ADDRESS, such as tcp://node1:8786")
        return partial(train_by_crew, engine=engine, scheduler=scheduler, device=device, stack=stack)
    if scheduler is not None:
        raise UsageError("--scheduler goes with --engine dask")
    if processes > 1:
        if device != "cpu":
            raise UsageError(f"--processes shares the CPU's cores; on {device} one process trains many models at once")
        return partial(train_by_crew, engine="local", workers=processes)
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


def train_by_crew(
    corpus: Encoded,
    jobs: Sequence[Job],
    settings: TrainingSettings,
    progress: Progress,
    stage: str,
    *,
    engine: EngineName,
    workers: int = 1,
    scheduler: str | None = None,
    device: str = "cpu",
    stack: int | None = None,
) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
    """In several processes or on a cluster (see ``training.workers``)."""
    # A GPU trains a stack at a time, so it is given one; a CPU one model, so that a lost worker loses little.
    size = 1 if device == "cpu" else (stack or 16)
    train = partial(train_jobs, device=device, stack=stack)
    with crew(engine=engine, workers=workers, scheduler=scheduler) as several:
        shared = several.share(corpus)
        for at in range(0, len(jobs), size):
            several.submit(train, shared, jobs[at : at + size], settings)
        for finished in several.results():
            yield from finished
