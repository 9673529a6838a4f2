"""Shadow models at scale: who trains on what, and a store in which nothing is trained twice and nothing is stale.

A shadow model has the target's architecture and hyperparameters and trains on a part of a pool of documents, by case:
one half of a random split (shadows 2k and 2k + 1 take the two halves of one split, so every document is in as many
shadows as it is out of), or a bootstrap sample. What is kept of it is its logits on all documents, float16, and which
documents it trained on. Files lie under a hash of everything that determines them (documents, labels, pool, settings,
sampling, seed, device, version), each written under another name and renamed: a process killed at any moment leaves
whole files only, and a changed input finds an empty folder.

>>> import numpy as np
>>> cases = np.array([10, 10, 11, 12, 13])
>>> first, second = (shadow_rows(cases, number=number, seed=1) for number in (0, 1))
>>> sorted([*first.tolist(), *second.tolist()])
[0, 1, 2, 3, 4]
>>> 10 in cases[first] and 10 in cases[second]
False
"""

import hashlib
import json
import os
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel

from pathveil import __version__
from pathveil.progress import Progress, silent
from pathveil.training.loop import split
from pathveil.training.settings import TrainingSettings
from pathveil.vocabulary.encoded import Encoded

Sampling = Literal["split", "bootstrap"]
RESULTS = 1  # raised when the code changes what a shadow's inputs lead to


@dataclass(frozen=True)
class Job:
    """One model to train: documents of the corpus (a bootstrap sample repeats some) and a seed."""

    number: int
    rows: np.ndarray
    seed: int


# Trains jobs on a corpus and hands over each one's logits, {task: (documents, classes) float16}, in any order. Settings
# are of the kind that it trains by: a network's, or those of a whole federation.
Trainer = Callable[[Encoded, Sequence[Job], Any, Progress, str], Iterator[tuple[int, Mapping[str, np.ndarray]]]]
Inside = Callable[[Encoded, Job, Any], np.ndarray]  # (documents,) bool: whose gradient a job's model followed


def shadow_rows(cases: np.ndarray, *, number: int, sampling: Sampling = "split", seed: int) -> np.ndarray:
    """The documents of a pool that one shadow trains on, as places in the pool."""
    names, place = np.unique(cases, return_inverse=True)
    if sampling == "split":
        order = np.random.default_rng([seed, 0, number // 2]).permutation(len(names))
        chosen = np.zeros(len(names), np.int64)
        chosen[order[: len(names) // 2] if number % 2 == 0 else order[len(names) // 2 :]] = 1
    else:
        drawn = np.random.default_rng([seed, 1, number]).integers(0, len(names), len(names))
        chosen = np.bincount(drawn, minlength=len(names))
    return np.repeat(np.arange(len(cases)), chosen[place])


def jobs_of(corpus: Encoded, pool: np.ndarray, *, count: int, sampling: Sampling = "split", seed: int) -> list[Job]:
    """``count`` shadows on a pool of documents; the first so many of a longer list are the same."""
    return [
        Job(
            number=number,
            rows=pool[shadow_rows(corpus.cases[pool], number=number, sampling=sampling, seed=seed)],
            seed=int(np.random.SeedSequence([seed, 2, number]).generate_state(1)[0]),
        )
        for number in range(count)
    ]


def trained_on(corpus: Encoded, job: Job, settings: TrainingSettings) -> np.ndarray:  # (documents,) bool
    """The documents whose gradient a model followed: those of its job but for the ones it held out to stop by."""
    learned, _ = split(corpus.cases[job.rows], settings, seed=job.seed)
    inside = np.zeros(corpus.documents, bool)
    inside[job.rows[learned]] = True
    return inside


class Store:
    """Finished models' answers in a folder of their own inputs' name."""

    def __init__(self, root: Path, corpus: Encoded, settings: BaseModel, inputs: Mapping[str, Any]):
        described = {
            "results": RESULTS,
            "pathveil": __version__,
            "corpus": digest(corpus),
            "settings": settings.model_dump(mode="json"),
            **inputs,
        }
        text = json.dumps(described, sort_keys=True, ensure_ascii=False)
        self.folder = root / hashlib.sha256(text.encode()).hexdigest()[:24]
        self.folder.mkdir(parents=True, exist_ok=True)
        _replace(self.folder / "inputs.json", lambda file: file.write(text.encode()))

    def path(self, job: Job) -> Path:
        # The name holds the job's own inputs, so that a number stands for one set of documents and one seed.
        own = hashlib.sha256(np.ascontiguousarray(job.rows, np.int64).tobytes() + str(job.seed).encode())
        return self.folder / f"{job.number:05d}-{own.hexdigest()[:16]}.npz"

    def has(self, job: Job) -> bool:
        return self.path(job).exists()

    def write(self, job: Job, logits: Mapping[str, np.ndarray], inside: np.ndarray) -> None:
        arrays = {f"logits {task}": np.asarray(values, np.float16) for task, values in logits.items()}
        content: dict[str, Any] = arrays | {"inside": np.packbits(inside)}
        _replace(self.path(job), lambda file: np.savez(file, **content))

    def read(self, job: Job, documents: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Logits a task and the in/out mask of a finished model."""
        with np.load(self.path(job)) as content:
            logits = {
                name.removeprefix("logits "): content[name] for name in content.files if name.startswith("logits ")
            }
            return logits, np.unpackbits(content["inside"], count=documents).astype(bool)

    def intact(self, job: Job) -> bool:
        """A file a disk has damaged is as good as missing."""
        try:
            with zipfile.ZipFile(self.path(job)) as archive:
                return archive.testzip() is None
        except (OSError, zipfile.BadZipFile):
            return False


def _replace(path: Path, write: Callable[[Any], Any]) -> None:
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def digest(corpus: Encoded) -> str:
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


def train(
    corpus: Encoded,
    jobs: Sequence[Job],
    settings: BaseModel,
    *,
    store: Store,
    trainer: Trainer,
    inside: Inside = trained_on,
    progress: Progress = silent,
    stage: str = "training shadows",
) -> int:
    """See that every job's answers are in the store; returns how many had to be trained."""
    for left in store.folder.glob(".*.part"):
        if not _alive(int(left.name.split(".")[-2])):
            left.unlink(missing_ok=True)  # of a process that was killed while it wrote
    missing = [job for job in jobs if not store.intact(job)]
    by_number = {job.number: job for job in missing}
    finished = len(jobs) - len(missing)
    progress(stage, finished, len(jobs))
    if not missing:
        return 0
    for number, logits in trainer(corpus, missing, settings, silent, stage):
        job = by_number[number]
        store.write(job, logits, inside(corpus, job, settings))
        finished += 1
        progress(stage, finished, len(jobs))
    return len(missing)


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
