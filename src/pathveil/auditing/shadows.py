"""Shadow models at scale: who trains on what, where they are trained, and a store in which nothing is trained twice.

A shadow model has the target's architecture and hyperparameters and trains on a part of a pool of documents, by case:
one half of a random split (shadows 2k and 2k + 1 take the two halves of one split, so every document is in as many
shadows as it is out of), or a bootstrap sample. What is kept of it is its logits on all documents, float16, and which
documents it trained on. Files lie under a hash of everything that determines them (documents, labels, pool, settings,
sampling, seed, device, version), each written under another name and renamed: a process killed at any moment leaves
whole files only, and a changed input finds an empty folder.

An *engine* trains them: in this process, in several on this machine, or on a Dask cluster. Each is a function from jobs
to finished jobs around one pure function, ``train_jobs``; results come back to the caller, who alone writes the store.
So workers need no common disk, and a worker that dies costs only the jobs it had in hand.

>>> import numpy as np
>>> cases = np.array([10, 10, 11, 12, 13])
>>> first, second = (shadow_rows(cases, number=number, seed=1) for number in (0, 1))
>>> sorted([*first.tolist(), *second.tolist()])
[0, 1, 2, 3, 4]
>>> 10 in cases[first] and 10 in cases[second]
False
>>> engine_for("dask")
Traceback (most recent call last):
pathveil.errors.UsageError: --engine dask needs --scheduler ADDRESS, such as tcp://node1:8786
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel

from pathveil import __version__
from pathveil.arguments import check_whole_number
from pathveil.errors import UsageError
from pathveil.files import json_text, new_file, remove_leftovers, sha256_of_json
from pathveil.progress import Progress, silent
from pathveil.rng import child, generator
from pathveil.training.ensemble import learned, mean_log_probability, member_seed, start_vectors
from pathveil.training.settings import TrainingSettings
from pathveil.training.workers import EngineName, crew
from pathveil.untrusted import Refused
from pathveil.untrusted.arrays import read_arrays
from pathveil.vocabulary.encoded import EncodedCorpus

Sampling = Literal["split", "bootstrap"]
RESULTS = 2  # raised when the code changes what a shadow's inputs lead to


@dataclass(frozen=True)
class Job:
    """One model to train: documents of the corpus (a bootstrap sample repeats some) and a seed."""

    number: int
    rows: np.ndarray
    seed: int


# Trains jobs on a corpus and hands over each one's logits, {task: (documents, classes) float16}, in any order. Settings
# are of the kind that it trains by: a network's, or those of a whole federation.
Engine = Callable[[EncodedCorpus, Sequence[Job], Any, Progress, str], Iterator[tuple[int, Mapping[str, np.ndarray]]]]
Inside = Callable[[EncodedCorpus, Job, Any], np.ndarray]  # (documents,) bool: whose gradient a job's model followed


def shadow_rows(cases: np.ndarray, *, number: int, sampling: Sampling = "split", seed: int) -> np.ndarray:
    """The documents of a pool that one shadow trains on, as places in the pool."""
    names, place = np.unique(cases, return_inverse=True)
    if sampling == "split":
        order = generator(seed, 0, number // 2).permutation(len(names))
        chosen = np.zeros(len(names), np.int64)
        chosen[order[: len(names) // 2] if number % 2 == 0 else order[len(names) // 2 :]] = 1
    else:
        drawn = generator(seed, 1, number).integers(0, len(names), len(names))
        chosen = np.bincount(drawn, minlength=len(names))
    return np.repeat(np.arange(len(cases)), chosen[place])


def jobs_of(
    corpus: EncodedCorpus, pool: np.ndarray, *, count: int, sampling: Sampling = "split", seed: int
) -> list[Job]:
    """``count`` shadows on a pool of documents; the first so many of a longer list are the same."""
    return [
        Job(
            number=number,
            rows=pool[shadow_rows(corpus.cases[pool], number=number, sampling=sampling, seed=seed)],
            seed=child(seed, 2, number),
        )
        for number in range(count)
    ]


def trained_on(
    corpus: EncodedCorpus, job: Job, settings: TrainingSettings, *, networks: int = 1
) -> np.ndarray:  # (documents,) bool
    """The documents whose gradient a model followed: those of its job but for the ones it held out to stop by."""
    inside = np.zeros(corpus.documents, bool)
    inside[job.rows[learned(corpus.cases[job.rows], settings, seed=job.seed, networks=networks)]] = True
    return inside


class Store:
    """Finished models' answers in a folder of their own inputs' name."""

    def __init__(self, root: Path, corpus: EncodedCorpus, settings: BaseModel, inputs: Mapping[str, Any]):
        described = {
            "results": RESULTS,
            "pathveil": __version__,
            "corpus": digest(corpus),
            "settings": settings.model_dump(mode="json"),
            **inputs,
        }
        self.folder = root / sha256_of_json(described)[:24]
        with new_file(self.folder / "inputs.json", shared=True) as part:
            part.write_text(json_text(described), encoding="utf-8")

    def path(self, job: Job) -> Path:
        # The name holds the job's own inputs, so that a number stands for one set of documents and one seed.
        own = hashlib.sha256(np.ascontiguousarray(job.rows, np.int64).tobytes() + str(job.seed).encode())
        return self.folder / f"{job.number:05d}-{own.hexdigest()[:16]}.npz"

    def has(self, job: Job) -> bool:
        return self.path(job).exists()

    def write(self, job: Job, logits: Mapping[str, np.ndarray], inside: np.ndarray) -> None:
        arrays = {f"logits {task}": np.asarray(values, np.float16) for task, values in logits.items()}
        content: dict[str, Any] = arrays | {"inside": np.packbits(inside)}
        with new_file(self.path(job), shared=True) as part, part.open("wb") as file:
            np.savez(file, **content)

    def read(self, job: Job, documents: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Logits a task and the in/out mask of a finished model."""
        content = read_arrays(self.path(job))
        logits = {name.removeprefix("logits "): content[name] for name in content if name.startswith("logits ")}
        return logits, np.unpackbits(content["inside"], count=documents).astype(bool)

    def intact(self, job: Job) -> bool:
        """A file a disk has damaged is as good as missing."""
        try:
            return "inside" in read_arrays(self.path(job))
        except (OSError, Refused):
            return False


def digest(corpus: EncodedCorpus) -> str:
    """A hash of everything of a corpus that a model or an attack can see."""
    found = hashlib.sha256()
    arrays = {"ids": corpus.ids, "offsets": corpus.offsets, "cases": corpus.cases}
    arrays |= {f"label {task}": corpus.labels[task] for task in corpus.tasks}
    for name, array in arrays.items():
        found.update(f"{name} {array.dtype} {array.shape}".encode())
        found.update(np.ascontiguousarray(array).data)
    names = {task: list(classes) for task, classes in corpus.classes.items()}
    found.update(json.dumps([names, corpus.vocabulary_size], sort_keys=True).encode())
    return found.hexdigest()


def train_missing(
    corpus: EncodedCorpus,
    jobs: Sequence[Job],
    settings: BaseModel,
    *,
    store: Store,
    engine: Engine,
    inside: Inside = trained_on,
    progress: Progress = silent,
    stage: str = "training shadows",
) -> int:
    """See that every job's answers are in the store; returns how many had to be trained."""
    remove_leftovers(store.folder, "*")
    missing = [job for job in jobs if not store.intact(job)]
    by_number = {job.number: job for job in missing}
    finished = len(jobs) - len(missing)
    progress(stage, finished, len(jobs))
    if not missing:
        return 0
    for number, logits in engine(corpus, missing, settings, silent, stage):
        job = by_number[number]
        store.write(job, logits, inside(corpus, job, settings))
        finished += 1
        progress(stage, finished, len(jobs))
    return len(missing)


def engine_for(
    name: EngineName = "local",
    *,
    processes: int = 1,
    scheduler: str | None = None,
    device: str = "cpu",
    stack: int | None = None,
) -> Engine:
    """The engine asked for, ready for a ``ShadowTrainer``."""
    check_whole_number(processes, "processes", least=1)
    if name == "dask":
        if scheduler is None:
            raise UsageError("--engine dask needs --scheduler ADDRESS, such as tcp://node1:8786")
        return partial(train_by_crew, engine=name, scheduler=scheduler, device=device, stack=stack)
    if scheduler is not None:
        raise UsageError("--scheduler goes with --engine dask")
    if processes > 1:
        if device != "cpu":
            raise UsageError(f"--processes shares the CPU's cores; on {device} one process trains many models at once")
        return partial(train_by_crew, engine="local", workers=processes)
    return partial(train_here, device=device, stack=stack)


def averaged(engine: Engine, networks: int) -> Engine:
    """A shadow of several networks on the same documents, their probabilities averaged: an ensemble's shadow."""
    if networks == 1:
        return engine

    def train(
        corpus: EncodedCorpus, jobs: Sequence[Job], settings: TrainingSettings, progress: Progress, stage: str
    ) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
        single = [
            Job(place * networks + network, job.rows, seed=member_seed(job.seed, network))
            for place, job in enumerate(jobs)
            for network in range(networks)
        ]
        waiting: dict[int, list[Mapping[str, np.ndarray]]] = {}
        for number, logits in engine(corpus, single, settings, progress, stage):
            place = number // networks
            waiting.setdefault(place, []).append(logits)
            if len(waiting[place]) == networks:
                group = waiting.pop(place)
                said = {task: mean_log_probability([one[task] for one in group]) for task in group[0]}
                yield jobs[place].number, {task: values.astype(np.float16) for task, values in said.items()}

    return train


def train_jobs(
    corpus: EncodedCorpus,
    jobs: Sequence[Job],
    settings: TrainingSettings,
    *,
    device: str = "cpu",
    stack: int | None = None,
) -> list[tuple[int, dict[str, np.ndarray]]]:
    """Train models and return their logits on all documents: pure, picklable, the same wherever it runs."""
    return list(train_here(corpus, jobs, settings, silent, "", device=device, stack=stack))


def train_here(
    corpus: EncodedCorpus,
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
    corpus: EncodedCorpus,
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


@dataclass(frozen=True)
class ShadowTrainer:
    """Trains an audit's models, and keeps their answers so that none is trained twice."""

    engine: Engine
    store: Path
    device: str = "cpu"
    networks: int = 1  # that a shadow averages, as the model may do
    inside: Inside = trained_on
    inputs: Mapping[str, Any] = field(default_factory=dict)  # what else determines a trained model's answers
    progress: Progress = silent

    def train(
        self, corpus: EncodedCorpus, jobs: Sequence[Job], settings: BaseModel, *, stage: str, **inputs: Any
    ) -> Store:
        """The store that holds the jobs' answers, trained now where they are not there yet."""
        several = {"networks": self.networks} if self.networks > 1 else {}
        store = Store(self.store, corpus, settings, {"device": self.device[:4], **several, **self.inputs, **inputs})
        train_missing(
            corpus,
            jobs,
            settings,
            store=store,
            engine=averaged(self.engine, self.networks),
            inside=partial(self.inside, **several),
            progress=self.progress,
            stage=stage,
        )
        return store
