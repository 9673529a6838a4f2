"""A defence against membership inference: a student that learns what models say which never saw the case.

A model is surer of its training cases because it was told their labels. So it is not told: several teachers are
trained, each on all cases but some, such that every case is unseen by a few of them. A report's *lesson*, in the place
of its labels, is the code that those few find most probable. The student learns lessons only: what models could say of
a report that never saw it.

A lesson that contradicts the report's label is not given, and a report whose lessons contradict several of its labels
is left out. A wrong lesson teaches nothing true, and the student would remember the report for it; a mislabelled report
would be remembered for its text. So a label can keep a lesson back, but can never bring one: where it says what the
teachers did not, nobody learns it.

The idea is SELENA's (Tang et al. 2022, "Mitigating membership inference attacks by self-distillation through a novel
ensemble architecture"). There a lesson is the teachers' soft probabilities, in which small differences carry
membership; the most probable code alone leaks less (docs/defences.md has the figures). Near-duplicate reports are dealt
out as one case (``training.near_duplicates``): otherwise the teachers that label a strange report have learnt it from
its copy. What remains is that the student has read the report's text; dropping words while it learns blurs that.

>>> unseen_by = deal(np.array([0, 0, 1, 2, 3, 4]), teachers=5, unseen=2, seed=0)
>>> unseen_by.sum(1).tolist(), (unseen_by[0] == unseen_by[1]).all().item()
([2, 2, 2, 2, 2, 2], True)
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.special import softmax

from pathveil.errors import UsageError
from pathveil.files import new_file
from pathveil.progress import Progress, silent
from pathveil.rng import child, generator
from pathveil.training import checkpoint as checkpoints
from pathveil.training.blend import rarity_of
from pathveil.training.defences import TeacherSettings
from pathveil.training.near_duplicates import group_cases
from pathveil.training.own_defence import append_documents
from pathveil.training.settings import TrainingSettings
from pathveil.training.stacked import ManyOptions, logits_many
from pathveil.training.workers import crew
from pathveil.untrusted import Refused
from pathveil.untrusted.arrays import read_arrays
from pathveil.vocabulary.encoded import MISSING, EncodedCorpus

DEALING, TEACHING = 6, 7  # branches of a run's seed

Answers = Mapping[str, np.ndarray]  # task: logits (documents, classes)
# Trains models, each on rows of its own of a corpus, and yields each one's number with its answers on rows it is asked.
TrainMany = Callable[[Sequence[np.ndarray], Sequence[np.ndarray], Sequence[int]], Iterator[tuple[int, Answers]]]


def teach(
    corpus: EncodedCorpus,
    settings: TrainingSettings,
    *,
    seed: int = 0,
    vectors: np.ndarray | None = None,
    device: str = "cpu",
    workers: int = 1,
    checkpoint: Path | None = None,
    progress: Progress = silent,
) -> EncodedCorpus:
    """The corpus with lessons in the place of its labels.

    ``workers`` processes share the teachers on a CPU; a GPU trains them as a stack. ``checkpoint`` is a folder that
    keeps finished teachers' answers, so that a run killed at any moment goes on there.
    """
    own = teacher_settings(settings)

    def train(
        rows: Sequence[np.ndarray], asked: Sequence[np.ndarray], seeds: Sequence[int]
    ) -> Iterator[tuple[int, Answers]]:
        if workers > 1 and device == "cpu":
            return train_by_crew(corpus, rows, asked, own, seeds=seeds, vectors=vectors, workers=workers)
        return train_here(corpus, rows, asked, own, seeds=seeds, vectors=vectors, device=device)

    kept = remembered(
        train,
        checkpoint,
        fingerprint=checkpoints.fingerprint_of(
            {"settings": settings.model_dump(mode="json"), "seed": seed, "device": str(device)[:4]},
            {"ids": corpus.ids, "offsets": corpus.offsets, "cases": corpus.cases}
            | {f"label {task}": label for task, label in corpus.labels.items()},
        ),
    )
    (lessons,) = lessons_many(corpus, [np.arange(corpus.documents)], settings, kept, seeds=[seed], progress=progress)
    return replace(corpus, labels=lessons)


def teacher_settings(settings: TrainingSettings) -> TrainingSettings:
    """How teachers are trained: as well as can be, for nobody outside ever asks one."""
    return settings.changed(
        defence=None,
        members=1,
        linear=False,
        robustness=0.0,
        class_balance=0.0,
        smoothing=0.1,  # a student never shows how sure a teacher was, so what smoothing leaks does not matter here
        word_dropout=0.1,
        # A falling learning rate in place of early stopping, so that no case is held out: better answers in less time.
        optimiser="adam",
        learning_rate=3e-3,
        falling=True,
        epochs=20,
        patience=None,
        validation_share=0.0,
    )


def deal(groups: np.ndarray, *, teachers: int, unseen: int, seed: int) -> np.ndarray:
    """Which teachers do not see a document (documents, teachers); documents of one group are dealt out together."""
    names, place = np.unique(groups, return_inverse=True)
    if len(names) < teachers:
        raise UsageError(f"{teachers} teachers need at least as many cases; there are {len(names)}")
    drawn = generator(seed, DEALING).permuted(np.tile(np.arange(teachers), (len(names), 1)), axis=1)[:, :unseen]
    unseen_by = np.zeros((len(names), teachers), bool)
    np.put_along_axis(unseen_by, drawn, True, axis=1)
    return unseen_by[place]


def lessons_many(
    corpus: EncodedCorpus,
    pools: Sequence[np.ndarray],
    settings: TrainingSettings,
    train: TrainMany,
    *,
    seeds: Sequence[int],
    progress: Progress = silent,
    stage: str = "training teachers",
) -> list[dict[str, np.ndarray]]:
    """The lessons of several students, each with a pool of documents (rows of the corpus) and teachers of its own.

    All teachers of all students go to ``train`` together, because a GPU trains many at once.
    """
    defence = settings.defence
    assert isinstance(defence, TeacherSettings), "only for a model with teachers"
    groups = group_cases(corpus.cases, np.asarray(corpus.ids), np.asarray(corpus.offsets), share=defence.near)
    rows, asked, own_seeds = [], [], []
    distinct = [np.unique(pool, return_inverse=True) for pool in pools]  # a bootstrap sample repeats some
    for (pool, _), seed in zip(distinct, seeds, strict=True):
        unseen_by = deal(groups[pool], teachers=defence.teachers, unseen=defence.unseen, seed=seed)
        for teacher in range(defence.teachers):
            rows.append(pool[~unseen_by[:, teacher]])
            asked.append(pool[unseen_by[:, teacher]])
            own_seeds.append(child(seed, TEACHING, teacher))
    summed = [
        {task: np.zeros((len(pool), len(names))) for task, names in corpus.classes.items()} for pool, _ in distinct
    ]
    progress(stage, 0, len(rows))
    for done, (number, answers) in enumerate(train(rows, asked, own_seeds)):
        student = number // defence.teachers
        place = np.searchsorted(distinct[student][0], asked[number])
        for task, logits in answers.items():
            summed[student][task][place] += softmax(logits.astype(np.float64), axis=1)
        progress(stage, done + 1, len(rows))
    lessons = []
    for (pool, back), totals in zip(distinct, summed, strict=True):
        labels = {task: np.asarray(corpus.labels[task])[pool] for task in totals}
        codes = {task: choose_codes(total / defence.unseen, labels[task], defence) for task, total in totals.items()}
        lessons.append({task: code[back] for task, code in agreed_codes(codes, labels, defence.contradicted).items()})
    return lessons


def choose_codes(probabilities: np.ndarray, labels: np.ndarray, settings: TeacherSettings) -> np.ndarray:
    """Lessons (documents,) from the mean probabilities of the teachers (documents, classes).

    The most probable code, with those that teachers seldom name lifted as far as the settings say; none where they are
    not sure enough, nor for a report without a label of the task. What teachers seldom name is counted over all
    documents: only through these counts can a case's labels, which teachers of other cases know, move its own lesson,
    where two codes are nearly as probable.

    >>> said = np.array([[0.9, 0.1], [0.5, 0.5], [0.2, 0.8]])
    >>> choose_codes(said, np.array([1, 0, -1]), TeacherSettings(sure=0.6)).tolist()
    [0, -1, -1]
    """
    known = (labels >= 0) & (probabilities.max(axis=1) >= settings.sure)
    rarity = rarity_of(probabilities.argmax(axis=1)[known], probabilities.shape[1])
    lifted = np.log(probabilities + 1e-12) + settings.lift * rarity
    return np.where(known, lifted.argmax(axis=1), MISSING).astype(np.int32)


def agreed_codes(codes: Answers, labels: Answers, contradicted: int | str) -> dict[str, np.ndarray]:
    """The codes (documents,) a task that agree with the labels, and none of a document that is contradicted in more
    tasks than ``contradicted``; all codes where that is "any".

    >>> codes = {"site": np.array([0, 1, 2]), "histology": np.array([5, 5, 6])}
    >>> labels = {"site": np.array([0, 2, 1]), "histology": np.array([5, 5, 5])}
    >>> {task: code.tolist() for task, code in agreed_codes(codes, labels, 1).items()}
    {'site': [0, -1, -1], 'histology': [5, 5, -1]}
    """
    if contradicted == "any":
        return dict(codes)
    against = {task: (code != MISSING) & (code != labels[task]) for task, code in codes.items()}
    left_out = np.sum([*against.values()], axis=0) > contradicted
    return {task: np.where(against[task] | left_out, MISSING, code).astype(np.int32) for task, code in codes.items()}


def train_here(
    corpus: EncodedCorpus,
    rows: Sequence[np.ndarray],
    asked: Sequence[np.ndarray],
    settings: TrainingSettings,
    *,
    seeds: Sequence[int],
    vectors: np.ndarray | None,
    device: str | torch.device,
) -> Iterator[tuple[int, Answers]]:
    """Models trained in this process, stacked as the device likes it."""
    for number, logits in logits_many(corpus, rows, settings, seeds=seeds, vectors=vectors, device=device):
        yield number, {task: values[asked[number]] for task, values in logits.items()}


def train_by_crew(
    corpus: EncodedCorpus,
    rows: Sequence[np.ndarray],
    asked: Sequence[np.ndarray],
    settings: TrainingSettings,
    *,
    seeds: Sequence[int],
    vectors: np.ndarray | None,
    workers: int,
) -> Iterator[tuple[int, Answers]]:
    """Models trained in several processes, one after another in each."""
    with crew(workers=workers) as several:
        shared = several.share(corpus)
        for number, seed in enumerate(seeds):
            several.submit(train_one, shared, number, rows[number], asked[number], settings, seed, vectors)
        yield from several.results()


def train_one(
    corpus: EncodedCorpus,
    number: int,
    rows: np.ndarray,
    asked: np.ndarray,
    settings: TrainingSettings,
    seed: int,
    vectors: np.ndarray | None,
) -> tuple[int, Answers]:
    """One of ``train_by_crew``'s models; the same answers as ``train_here`` gives."""
    ((_, answers),) = train_here(corpus, [rows], [asked], settings, seeds=[seed], vectors=vectors, device="cpu")
    return number, answers


def remembered(train: TrainMany, folder: Path | None, *, fingerprint: str) -> TrainMany:
    """``train`` with a folder of finished models' answers, in which nothing is trained twice."""
    if folder is None:
        return train

    def path(number: int) -> Path:
        return folder / f"teacher-{number}-{fingerprint[:16]}.npz"

    def resumed(
        rows: Sequence[np.ndarray], asked: Sequence[np.ndarray], seeds: Sequence[int]
    ) -> Iterator[tuple[int, Answers]]:
        missing = []
        for number in range(len(rows)):
            try:
                yield number, read_arrays(path(number))
            except (OSError, Refused):  # not there yet, or damaged
                missing.append(number)
        left = ([part[number] for number in missing] for part in (rows, asked))
        for place, answers in train(*left, [seeds[number] for number in missing]) if missing else ():
            arrays: dict[str, Any] = dict(answers)
            with new_file(path(missing[place])) as part, part.open("wb") as file:
                np.savez(file, **arrays)
            yield missing[place], answers

    return resumed


def with_lessons(
    corpus: EncodedCorpus,
    members: Sequence[np.ndarray],
    settings: TrainingSettings,
    *,
    seeds: Sequence[int],
    options: ManyOptions,
) -> tuple[EncodedCorpus, list[np.ndarray]]:
    """What several students learn from, each with teachers of its own: a corpus that begins with the given one and goes
    on with every student's documents under lessons in the place of labels, and each student's rows of it."""
    own, vectors, device = teacher_settings(settings), options.get("vectors"), options.get("device", "cpu")

    def train(
        rows: Sequence[np.ndarray], asked: Sequence[np.ndarray], own_seeds: Sequence[int]
    ) -> Iterator[tuple[int, Answers]]:
        return train_here(corpus, rows, asked, own, seeds=own_seeds, vectors=vectors, device=device)

    stage = f"{options.get('stage', 'training models')}: teachers"
    progress = options.get("progress", silent)
    lessons = lessons_many(corpus, members, settings, train, seeds=seeds, progress=progress, stage=stage)
    taught = [replace(corpus.take(rows), labels=labels) for rows, labels in zip(members, lessons, strict=True)]
    return append_documents(corpus, taught)
