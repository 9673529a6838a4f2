"""What a study will take, before it runs: its cells, the documents its models will learn from, and the time.

The time comes from a short calibration: models of the study's own shape are really trained on a few batches of its own
reports, on the device it is meant for (on a CPU with the threads of one worker, whose time the workers share), once for
one epoch and once for more. The difference is what a document costs in training; a third run that also reads documents
gives the cost of reading one; the rest is what a model costs however few documents it has. Early stopping cannot be
foreseen: what finished cells needed is taken for the others, and ``ASSUMED`` epochs where none is finished. Beside the
cells stands what a run takes however few they are, measured as well: processes that start and compile, reports that are
read, words that are chosen; and ``REPORT`` seconds to draw the report. The range allows for twice or half as many
epochs where they are assumed, and for ``VARIES`` of everything.

A synthetic corpus that is not made yet is not made for this: a small one stands for it, and counts are scaled.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np

from pathveil.errors import VocabularyError
from pathveil.federation.run import TEST_SHARE
from pathveil.federation.settings import FederationSettings
from pathveil.formatting import duration
from pathveil.progress import Progress, silent
from pathveil.results import Part, Result
from pathveil.studies.combined import CombinedStudy
from pathveil.studies.defences import ATTACKS, DefencesStudy
from pathveil.studies.distribution import DistributionStudy
from pathveil.studies.scheduler import Unit
from pathveil.studies.settings import naming_errors
from pathveil.studies.study_corpus import relabelled, table_of
from pathveil.studies.study_file import (
    STUDIES,
    AnyStudy,
    CorpusSettings,
    find_study,
    is_made_for,
    prepared_corpus,
    read,
    study_of,
    with_corpus,
)
from pathveil.studies.vocabulary import VocabularyStudy
from pathveil.training.defences import DPSettings, TeacherSettings
from pathveil.training.settings import TrainingSettings
from pathveil.training.speed import ASSUMED, BATCHES, STACK, Speed, model_speed, ranged, speed_of
from pathveil.training.workers import threads_of
from pathveil.vocabulary.counting import count
from pathveil.vocabulary.encoded import EncodedCorpus
from pathveil.vocabulary.selection import Measures, select
from pathveil.vocabulary.words import FIRST_WORD

SAMPLE = 3_000  # reports that stand for a synthetic corpus which is not made yet
REPORT, STARTING = 6.0, 3.0  # seconds to draw a report, and for a process to load what it computes with
FEW, MANY = 500, 3_000  # answers that the paper's attack is fitted to in calibration
STEPS, PROBE_EPOCHS = 10, 15  # steps that heads and probes are timed by, and epochs that a probe is taken to need
JUDGED = 500  # documents that attacks and the choice of words are timed on; these grow with them
# What of a network's training settings its cost depends on.
SHAPE = {"dim", "windows", "filters", "batch_size", "order", "optimiser", "members", "linear"}
# Ways of training that cost alike are measured once; registries alone have no features to probe.
LIKE = {"fedavg": "centralized", "cyclic": "centralized"}
LIKE |= {"no-adversary": "adversarial", "no-orthogonality": "adversarial"}


class PlannedWork(Part):
    """One kind of a study's work: how much of it, and how long what is left will take."""

    study: str
    kind: str
    cells: int = 0
    finished: int = 0
    left: int = 0
    documents: int = 0  # to learn from, over all epochs
    epochs: float | None = None
    seconds: float
    low: float
    high: float
    documents_a_second: float | None = None


class StudyPlan(Result):
    """What is left of a study's run, and what it will take."""

    name: str
    device: str
    workers: int
    scaled_from_sample: bool  # the corpus is not made yet, and counts are scaled
    work: list[PlannedWork]
    cells: int
    finished: int
    left: int
    documents: int
    seconds: float
    low: float
    high: float
    calibration_seconds: float

    def rows(self) -> list[dict[str, Any]]:
        return [row.model_dump() for row in self.work]

    def summary(self) -> str:
        lines = [f"{'':14}{'':18}{'cells':>8}{'finished':>10}{'epochs':>8}{'reports to train':>18}{'expected':>12}"]
        before = ""
        for row in self.work:
            study, before = row.study if row.study != before else "", row.study
            epochs = "" if row.epochs is None else f"{row.epochs:.0f}"
            trained = f"{row.documents:,}" if row.documents else ""
            counts = f"{row.cells:>8,}{row.finished:>10,}" if row.cells else ""
            lines.append(f"{study:14}{row.kind:18}{counts:18}{epochs:>8}{trained:>18}{duration(row.seconds):>12}")
        total = f"{'together':32}{self.cells:>8,}{self.finished:>10,}{'':8}{self.documents:>18,}"
        lines.append(f"{total}{duration(self.seconds):>12}")
        if self.left:
            lines.append(f"{'':32}between {duration(self.low)} and {duration(self.high)}")
        device = "one GPU" if self.device.startswith("cuda") else "this machine's cores"
        note = f"Expected on {device}, from {self.calibration_seconds:.0f} s of calibration"
        note += f"; models that stop early are taken to need {ASSUMED} epochs until some are finished."
        if self.scaled_from_sample:
            note += f" The corpus is not made yet: counts are scaled from {SAMPLE:,} reports like its."
        return "\n".join([*lines, "", note])


def plan(
    path: Path,
    *,
    out: Path,
    corpus: Path | None = None,
    device: str = "cpu",
    workers: int = 1,
    progress: Progress = silent,
) -> StudyPlan:
    """What is left of a study file's run in ``out`` and what it will take here; trains a few batches, keeps nothing."""
    path = find_study(path)
    settings = with_corpus(read(path), corpus)
    began = perf_counter()
    with ExitStack() as stack:
        source, scale = _source(settings.corpus, out, stack, progress)
        rows: list[PlannedWork] = []
        known: dict[str, Speed] = {}
        reading = 0.0
        for name in STUDIES:
            section = getattr(settings, name)
            if section is None:
                continue
            began_reading = perf_counter()
            with naming_errors(f"{path}: [{name}]"):
                study = study_of(section, source, {}, out=out / name)
            reading += (perf_counter() - began_reading) * scale
            units = study.units(device=device)
            kinds = dict.fromkeys(unit.kind for unit in units)
            for done, kind in enumerate(kinds):
                progress(f"calibrating the {name} study", done, len(kinds))
                own = [unit for unit in units if unit.kind == kind]
                rows.append(_row(study, name, kind, own, scale=scale, device=device, workers=workers, known=known))
            progress(f"calibrating the {name} study", len(kinds), len(kinds))
            if any(row.left for row in rows if row.study == name):
                reading += _choosing(study) * scale
    if any(row.left for row in rows):
        seconds = reading + starting(workers) + sum(speed.first for speed in known.values()) + REPORT
        rows.append(PlannedWork(study="the run", kind="start and report", **ranged(seconds)))
    names = ("cells", "finished", "left", "documents", "seconds", "low", "high")
    return StudyPlan(
        name=settings.name,
        device=device,
        workers=workers,
        scaled_from_sample=scale != 1,
        work=rows,
        **{name: sum(getattr(row, name) for row in rows) for name in names},
        calibration_seconds=perf_counter() - began,
    )


def _source(settings: CorpusSettings, out: Path, stack: ExitStack, progress: Progress) -> tuple[Path, float]:
    """The corpus to plan with, and how many times larger the study's is."""
    if settings.reports is None or is_made_for(settings, out):
        return prepared_corpus(settings, out, progress), 1.0
    folder = Path(stack.enter_context(TemporaryDirectory(prefix="pathveil-")))
    reports = min(settings.reports, SAMPLE)
    small = settings.model_copy(update={"reports": reports})
    return prepared_corpus(small, folder, progress), settings.reports / reports


def _row(
    study: AnyStudy,
    name: str,
    kind: str,
    units: Sequence[Unit],
    *,
    scale: float,
    device: str,
    workers: int,
    known: dict[str, Speed],
) -> PlannedWork:
    """One kind of work: how much of it, and how long it will take."""
    cells = [parts for unit in units for parts in unit.cells]
    there = [study.cells.has(parts) for parts in cells]
    left = [unit for unit in units if not all(map(study.cells.has, unit.cells))]
    about: dict[str, Any] = {"study": name, "kind": kind, "cells": len(cells), "finished": sum(there)}
    about["left"] = len(cells) - sum(there)
    if not left:
        return PlannedWork(**about, **ranged(0.0))
    models = sum(unit.models or sum(not study.cells.has(parts) for parts in unit.cells) for unit in left)
    if kind == ATTACKS and isinstance(study, DefencesStudy):
        return PlannedWork(**about, **ranged(_judging(study) * scale * len(left) / workers))
    if kind == ATTACKS and isinstance(study, VocabularyStudy):
        answers = sum(unit.documents for unit in left) * scale
        speed = _attack_speed(study, device, scale=scale)
        return PlannedWork(**about, **ranged(speed.seconds(models=models, documents=answers) / workers))
    epochs, assumed = _epochs(study, cells, there, units[0])
    documents = sum(unit.documents for unit in left) * epochs * scale
    reads = sum(unit.reads for unit in left) * scale
    alike = _cost_of(study, kind, device)
    if alike not in known:
        with _threads_of_a_worker(workers) if device == "cpu" else nullcontext():
            known[alike] = _speed(study, kind, device, known)
    speed = known[alike]
    side_by_side = min(workers, len(left)) if device == "cpu" else 1  # workers share one GPU
    seconds = speed.seconds(models=models, documents=documents, reads=reads) / side_by_side
    rate = 1 / speed.document if speed.document else None
    more, less = (speed.document * documents * part / side_by_side if assumed else 0.0 for part in (1.0, 0.5))
    about |= {"documents": round(documents), "epochs": epochs, "documents_a_second": rate}
    return PlannedWork(**about, **ranged(seconds, more=more, less=less))


@contextmanager
def _threads_of_a_worker(workers: int) -> Generator[None]:
    """A block in which models are trained with as many threads as each of so many workers has."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(threads_of(workers))
    try:
        yield
    finally:
        torch.set_num_threads(before)


def starting(workers: int) -> float:
    """Seconds until a process can begin: this command's, and then its workers', which start together."""
    return STARTING * (1 + (workers > 1))


def _choosing(study: AnyStudy) -> float:
    """Seconds to choose a study's words: those of some documents of one fold are counted and ranked, and nothing is
    kept. They may have fewer words than are asked of all."""
    choices = study.choices()
    if choices is None:
        return 0.0
    rows = choices.rows[:: max(1, len(choices.rows) // JUDGED)]
    began = perf_counter()
    measures = Measures(count(study.store, study.corpus.labels, study.corpus.classes, rows=rows))
    for sentence in choices.sentences:
        with suppress(VocabularyError):
            select(measures, sentence)
    return (perf_counter() - began) * choices.times * len(choices.rows) / len(rows)


def _training_of(study: AnyStudy, kind: str) -> TrainingSettings | FederationSettings:
    """The settings by which a kind of model is trained; teachers are trained as their students are."""
    if isinstance(study, DefencesStudy):
        way = study.ways[kind]
        return way.changed(defence=None) if isinstance(way.defence, TeacherSettings) else way
    return study.training if isinstance(study, VocabularyStudy) else study.configs[kind]


def _epochs(
    study: AnyStudy, cells: Sequence[Mapping[str, Any]], there: Sequence[bool], unit: Unit
) -> tuple[float, bool]:
    """Epochs a model is expected to have, and whether that is only assumed."""
    stops = isinstance(study, VocabularyStudy | DefencesStudy)
    if not stops or getattr(_training_of(study, unit.kind), "patience", None) is None:
        return unit.epochs, False
    told = not isinstance(study, DefencesStudy)  # the epochs of a world's model are not kept
    done = [parts for parts, done in zip(cells, there, strict=True) if done and told]
    had = [study.cells.read(parts)[0]["epochs"] for parts in done]
    return (float(np.mean(had)), False) if had else (min(unit.epochs, ASSUMED), unit.epochs > ASSUMED)


def _cost_of(study: AnyStudy, kind: str, device: str) -> str:
    """What the cost of a kind of work depends on: kinds that agree in it are measured once."""
    training = _training_of(study, kind)
    if isinstance(training, FederationSettings):
        return f"{LIKE.get(kind, kind)} {training} {study.corpus.tasks}"
    shape = training.model_dump(include=SHAPE)
    apart = training.vectors > 0, isinstance(training.defence, DPSettings), _stack(study, kind, device)
    return f"{shape} {apart} {study.corpus.tasks}"


def _stack(study: AnyStudy, kind: str, device: str) -> int:
    """How many models of a kind are trained at once."""
    alone = isinstance(study, VocabularyStudy) and kind != "shadows"
    return 1 if alone else STACK[device.split(":")[0]]


def _speed(study: AnyStudy, kind: str, device: str, known: dict[str, Speed]) -> Speed:
    """Measure one kind of training on a few reports of every registry."""
    training = _training_of(study, kind)
    small = _few(study, training.batch_size * BATCHES[device.split(":")[0]])
    if isinstance(training, TrainingSettings):
        return model_speed(small, training, models=_stack(study, kind, device), device=device)
    from pathveil.federation.run import train

    assert isinstance(study, DistributionStudy | CombinedStudy)
    mode = study.settings.mode(kind)

    def trial(epochs: int, reads: int) -> None:
        train(small, mode=mode, settings=training.model_copy(update={"epochs": epochs}), seed=1, device=device)

    found = speed_of(trial, models=1, documents=small.documents, reads=0)
    if mode == "single":  # registries alone have no features to probe
        return found
    judging = f"judging {study.corpus.tasks}"
    if judging not in known:
        known[judging] = _judge_speed(study, training, device)
    # Probes and scores are of all reports once, however many epochs there are.
    return replace(found, document=found.document + known[judging].document / training.epochs)


def _judge_speed(study: AnyStudy, training: FederationSettings, device: str) -> Speed:
    """What is done with a model after its training, beside which scores cost little: heads and probes are fitted to its
    features. A few steps of each are timed on made-up features: the work is the same whatever they say."""
    import torch

    from pathveil.federation.heads import HEAD_BATCH, HEAD_EPOCHS, HEAD_STEPS, new_heads
    from pathveil.federation.probe import BATCH, hits

    documents, some = study.corpus.documents, study.corpus.take(np.arange(min(study.corpus.documents, HEAD_BATCH)))
    rng = np.random.default_rng(0)
    features = rng.random((some.documents, training.filters * len(training.windows)), np.float32)
    registries = torch.from_numpy(np.asarray(some.registries).astype(np.int64)).to(device)

    def timed(fit: Callable[[int], object]) -> float:
        """Seconds of a step: so many epochs of one step each."""
        fit(1)
        began = perf_counter()
        fit(STEPS)
        return (perf_counter() - began) / STEPS

    head = timed(lambda epochs: new_heads(features, some, [features], seed=1, epochs=epochs, device=device))
    rows, inputs = np.arange(some.documents), torch.from_numpy(features).to(device)
    about = {"classes": len(study.corpus.registry_names), "hidden": 64, "seed": 1}
    probe = timed(lambda epochs: hits(inputs, registries, rows[:BATCH], rows, epochs=epochs, **about))
    heads = 2 * HEAD_STEPS + HEAD_EPOCHS * documents / HEAD_BATCH  # two outsiders', and a fresh one
    # Two halves, two kinds of probe, with training cases and without.
    probes = 4 * PROBE_EPOCHS * (2 * documents * TEST_SHARE / 2 + documents * (1 - TEST_SHARE)) / BATCH
    return Speed(fixed=0.0, document=(head * heads + probe * probes) / documents)


def _few(study: AnyStudy, documents: int) -> EncodedCorpus:
    """So many reports, alike from every registry, with the words that are frequent in the whole corpus."""
    corpus: EncodedCorpus = study.corpus
    numbers = np.unique(corpus.registries)
    each = max(documents // len(numbers), 20)
    rows = np.concatenate([np.flatnonzero(corpus.registries == number)[:each] for number in numbers])
    often = np.bincount(np.asarray(corpus.ids), minlength=corpus.vocabulary_size) >= 5
    kept = np.flatnonzero(often)
    return relabelled(corpus.take(rows), table_of(kept, corpus.vocabulary_size), FIRST_WORD + len(kept))


def _judging(study: DefencesStudy) -> float:
    """Seconds of every attack on made-up answers of some documents, and as many times more as there are: the work is
    the same whatever they say."""
    from pathveil.auditing.worlds import ASKED, judge_worlds, make_worlds

    settings, rng = study.settings, np.random.default_rng(0)
    some = study.corpus.take(np.sort(rng.permutation(study.corpus.documents)[:JUDGED]))
    worlds = make_worlds(some, worlds=settings.worlds, test_share=settings.test_share, seed=settings.seeds[0])
    arrays = {}
    for task in study.corpus.tasks:
        for name in [f"{asked}{margin}" for asked in ASKED for margin in ("", " margin")]:
            arrays[f"{name} {task}"] = rng.random(worlds.inside.shape, np.float32).astype(np.float16)
        arrays[f"code {task}"] = np.zeros(worlds.inside.shape, np.int16)
    began = perf_counter()
    judge_worlds(worlds, arrays, name="made up")
    return (perf_counter() - began) * study.corpus.documents / some.documents


def _attack_speed(study: VocabularyStudy, device: str, *, scale: float) -> Speed:
    """The paper's attack fitted to made-up answers, and one score measured: the work is the same whatever they say."""
    from pathveil.auditing import evidence, shokri

    classes = len(study.corpus.classes[study.attacked])
    rng = np.random.default_rng(0)
    features, labels = rng.random((MANY, shokri.LARGEST + 1)), rng.integers(0, classes, MANY)
    member = rng.random(MANY) < 0.5
    where = device if device.startswith("cuda") else "cpu"

    def fitted(answers: int) -> float:
        began = perf_counter()
        shokri.fit(features[:answers], labels[:answers], member[:answers], classes=classes, device=where)
        return perf_counter() - began

    fitted(FEW)  # loads
    few, many = fitted(FEW), fitted(MANY)
    answer = max(many - few, 0.0) / (MANY - FEW)
    corpus = study.corpus.take(np.arange(min(study.corpus.documents, JUDGED)))
    records = evidence.Records(
        member=rng.random(corpus.documents) < 0.5,
        cases=corpus.cases,
        labels={study.attacked: np.asarray(corpus.labels[study.attacked])},
        classes={study.attacked: corpus.classes[study.attacked]},
        registries=corpus.registries,
    )
    score = evidence.Score("made up", study.attacked, rng.random(corpus.documents), shadows=1)
    began = perf_counter()
    evidence.measure([score], records, edges=study.settings.edges)
    measured = (perf_counter() - began) * study.corpus.documents / corpus.documents
    numbers = len(study.settings.numbers)
    fits = max(few - answer * FEW, 0.0) * numbers  # however few answers: one for each number of shadows
    return Speed(fixed=measured * (numbers + 4) * scale + fits, document=answer)
