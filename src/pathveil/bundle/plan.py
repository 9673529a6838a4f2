"""What training a model will take, before it is done: networks, teachers, reports to learn from, and the time.

A few batches of the corpus are really trained on the device that is meant (``training.speed``); nothing is kept. One
network is calibrated with all cores, so processes that share the teachers share these and make nothing quicker here.
"""

from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import Any

import numpy as np

from pathveil.bundle.train import read_training_corpus
from pathveil.formatting import duration
from pathveil.progress import Progress, silent
from pathveil.results import Part, Result
from pathveil.training.defences import DPSettings, TeacherSettings
from pathveil.training.ensemble import start_vectors
from pathveil.training.linear import fit_linear, weighted_counts, word_weights
from pathveil.training.linear_view import BALANCE, ITERATIONS, MORE, STRENGTH
from pathveil.training.near_duplicates import group_cases
from pathveil.training.settings import TrainingSettings
from pathveil.training.speed import ASSUMED, BATCHES, STACK, Speed, model_speed, ranged
from pathveil.training.teachers import teacher_settings
from pathveil.vocabulary.encoded import EncodedCorpus
from pathveil.vocabulary.words import Vocabulary

LINEAR_TRIED = 4  # steps of a linear view that are timed, after the first


class PlannedTraining(Part):
    """One kind of work of a training run."""

    work: str
    models: int
    epochs: int | None = None  # of each, assumed where it stops early
    documents: int = 0  # to learn from, over all epochs
    seconds: float
    low: float
    high: float


class TrainingPlan(Result):
    """What a training run will take."""

    reports: int
    cases: int
    words: int
    device: str
    workers: int  # processes that share the teachers
    work: list[PlannedTraining]
    seconds: float
    low: float
    high: float
    calibration_seconds: float

    def rows(self) -> list[dict[str, Any]]:
        return [row.model_dump() for row in self.work]

    def summary(self) -> str:
        lines = [
            f"{self.reports:,} reports of {self.cases:,} cases, {self.words:,} words.",
            f"{'':18}{'models':>8}{'epochs':>8}{'reports to train':>18}{'expected':>12}",
        ]
        for row in self.work:
            epochs, trained = row.epochs or "", f"{row.documents:,}" if row.documents else ""
            lines.append(f"{row.work:18}{row.models or '':>8}{epochs:>8}{trained:>18}{duration(row.seconds):>12}")
        lines.append(f"{'together':18}{'':34}{duration(self.seconds):>12}")
        lines.append(f"{'':18}between {duration(self.low)} and {duration(self.high)}")
        where = "one GPU" if self.device.startswith("cuda") else "this machine's cores"
        lines.append(
            f"Expected on {where}, from {self.calibration_seconds:.0f} s of calibration; networks that stop early "
            f"are taken to need {ASSUMED} epochs. No bundle was written."
        )
        return "\n".join(lines)


def plan_training(
    reports: Any,
    settings: TrainingSettings,
    *,
    preset: str | None = None,
    vocabulary: Vocabulary | None = None,
    tasks: Sequence[str] | None = None,
    public_classes: Mapping[str, Sequence[str]] | None = None,
    fewest_cases: int = 1,
    workers: int = 1,
    device: str = "cpu",
    progress: Progress = silent,
) -> TrainingPlan:
    """What ``train_model`` with the same arguments will take here."""
    read = read_training_corpus(
        reports, vocabulary, preset=preset, tasks=tasks, public_classes=public_classes, fewest_cases=fewest_cases,
        progress=progress,
    )  # fmt: skip
    corpus, began = read.corpus, perf_counter()
    where = device.split(":")[0]
    sample = np.random.default_rng(0).permutation(corpus.documents)[: settings.batch_size * BATCHES[where]]
    few = corpus.take(np.sort(sample))
    work = []
    progress("calibrating", 0, 3)
    if isinstance(settings.defence, TeacherSettings):
        own, count = teacher_settings(settings), settings.defence.teachers
        speed = model_speed(few, own, models=min(STACK[where], count), device=device)
        seen = corpus.documents * (1 - settings.defence.unseen / count)
        work.append(planned("teachers", count, seen, own, speed, reads=corpus.documents * count))
    progress("calibrating", 1, 3)
    alone = settings.changed(defence=without_target(settings.defence), members=1, linear=False)
    speed = model_speed(few, alone, models=1, device=device)
    work.append(planned("networks", settings.members, corpus.documents, settings, speed, reads=corpus.documents))
    progress("calibrating", 2, 3)
    work.append(PlannedTraining(work="the rest", models=0, **ranged(rest_seconds(few, corpus, settings))))
    progress("calibrating", 3, 3)
    return TrainingPlan(
        reports=corpus.documents,
        cases=len(np.unique(corpus.cases)),
        words=len(read.vocabulary.words),
        device=device,
        workers=workers,
        work=work,
        **{name: sum(getattr(row, name) for row in work) for name in ("seconds", "low", "high")},
        calibration_seconds=perf_counter() - began,
    )


def without_target(defence: Any) -> DPSettings | None:
    """What of a defence is part of training one network: noise, whose size costs nothing."""
    return defence.changed(epsilon=None, noise=1.0) if isinstance(defence, DPSettings) else None


def planned(
    work: str,
    models: int,
    documents: float,
    settings: TrainingSettings,
    speed: Speed,
    *,
    reads: float,
) -> PlannedTraining:
    """Models that each learn from so many documents, but for those they hold out, and read so many in all."""
    settings = settings.for_documents(documents)
    epochs = settings.epochs if settings.patience is None else min(settings.epochs, ASSUMED)
    learnt = models * documents * (1 - settings.validation_share) * epochs
    validated = models * documents * settings.validation_share * epochs
    seconds = speed.seconds(models=models, documents=learnt, reads=reads + validated) + speed.first
    unsure = speed.document * learnt if settings.patience is not None else 0.0
    expected = ranged(seconds, more=unsure, less=unsure / 2)
    return PlannedTraining(work=work, models=models, epochs=epochs, documents=round(learnt), **expected)


def rest_seconds(few: EncodedCorpus, corpus: EncodedCorpus, settings: TrainingSettings) -> float:
    """Word vectors, near-duplicates and the linear view. Vectors cost by the words, so that a few documents tell what
    all will; near-duplicates by the documents."""
    began = perf_counter()
    start_vectors(few, settings)
    seconds = perf_counter() - began
    if isinstance(settings.defence, TeacherSettings):
        began = perf_counter()
        group_cases(few.cases, np.asarray(few.ids), np.asarray(few.offsets), share=settings.defence.near)
        seconds += (perf_counter() - began) * corpus.documents / few.documents
    return seconds + (linear_seconds(corpus, members=settings.members) if settings.linear else 0.0)


def linear_seconds(corpus: EncodedCorpus, *, members: int) -> float:
    """So many linear views of the whole corpus: a few steps for the task of most classes, and as many times more as
    there are steps and classes in all. Several go on from a common one. A view learns a number for each word and class,
    however few the documents."""
    classes = {task: len(names) for task, names in corpus.classes.items()}
    largest = max(classes, key=lambda task: classes[task])
    ids, offsets = np.asarray(corpus.ids), np.asarray(corpus.offsets)
    documents = weighted_counts(ids, offsets, word_weights(ids, offsets, vocabulary_size=corpus.vocabulary_size))
    about: dict[str, Any] = {"classes": classes[largest], "strength": STRENGTH, "balance": BALANCE}

    def timed(steps: int) -> float:
        began = perf_counter()
        fit_linear(documents, np.asarray(corpus.labels[largest]), iterations=steps, **about)
        return perf_counter() - began

    first = timed(1)  # which also looks for how far to go
    each = max(timed(1 + LINEAR_TRIED) - first, 0.0) / LINEAR_TRIED
    more = (first + each * (MORE - 1)) * members if members > 1 else 0.0
    return (first + each * (ITERATIONS - 1) + more) * sum(classes.values()) / classes[largest]
