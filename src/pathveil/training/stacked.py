"""Many models at once: what shadow training needs.

M models of one shape share one encoded corpus. Each has its own documents, its own seed and, if wanted, its own words
(others are read as unknown). They go through the same kernels together: the models are a leading axis on every
parameter, and a batch holds a batch of each. A model in a stack sees the batches, drops the features and stops at the
epoch it would alone: ``train_many(corpus, [rows], …)`` gives what ``fit(corpus.take(rows), …)`` gives, up to rounding.

Models are trained in stacks of fixed size. A model that is finished is handed over at once and its place goes to the
next one, so memory does not grow with their number. On a GPU a step of the whole stack is one CUDA graph
(``training/graphed.py``); a small model alone would leave the device waiting for Python most of the time. Where a GPU's
memory is full all the same, what is left goes on in stacks of half the size.

>>> import numpy as np
>>> from pathveil.training.settings import TrainingSettings
>>> from pathveil.vocabulary import EncodedCorpus
>>> corpus = EncodedCorpus(
...     ids=np.tile(np.array([2, 3, 4, 5, 6, 7], np.int32), 20), offsets=np.arange(0, 121, 3), cases=np.arange(40),
...     registries=np.zeros(40, np.int32), registry_names=("R1",), labels={"site": np.tile([0, 1], 20)},
...     classes={"site": ("C18", "C50")}, vocabulary_size=8)
>>> settings = TrainingSettings(dim=8, filters=4, epochs=20, patience=None, batch_size=8, learning_rate=0.01)
>>> halves = [np.arange(20), np.arange(20, 40)]
>>> for number, logits in logits_many(corpus, halves, settings, seeds=[1, 2]):
...     print(number, logits["site"].dtype, (logits["site"].argmax(1) == corpus.labels["site"]).mean())
0 float16 1.0
1 float16 1.0
"""

import gc
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol, TypedDict, TypeVar, Unpack

import numpy as np
import torch
from torch import Tensor

from pathveil.errors import UsageError
from pathveil.model import MTCNN
from pathveil.progress import Progress, silent
from pathveil.training.batches import noise, plan
from pathveil.training.defences import DPSettings, OwnDefence, TeacherSettings
from pathveil.training.loop import (
    EMBEDDING,
    Reduce,
    answers_of,
    check_loss,
    early_stopping,
    judged,
    split,
    validation_scores,
)
from pathveil.training.losses import balanced_weights
from pathveil.training.settings import TrainingSettings
from pathveil.vocabulary.encoded import EncodedCorpus

DOCUMENTS_AT_ONCE = 1024  # in a step of a stack on a GPU: enough to fill it
READ_AT_ONCE = 1024  # documents a model in one pass without training: a table of their words is made for each pass


@dataclass(frozen=True)
class FinishedModel:
    """A finished model of many."""

    number: int  # its place in ``members``
    state: dict[str, Tensor]  # of an ``MTCNN``, on the CPU
    history: list[dict[str, Any]]  # one entry an epoch
    best_epoch: int  # whose weights these are, from 1
    validation: np.ndarray  # rows of the corpus that were held out

    def model(self, corpus: EncodedCorpus, settings: TrainingSettings) -> MTCNN:
        return model_of(self.state, corpus, settings)


class ManyOptions(TypedDict, total=False):
    """What ``train_many`` and ``logits_many`` have in common."""

    masks: Sequence[np.ndarray] | None  # for each model, which words of the vocabulary (V,) it may know
    vectors: np.ndarray | None  # (V, dim) where every embedding starts, else at random
    device: str | torch.device
    stack: int | None  # models trained at once; None chooses for the device
    progress: Progress
    stage: str  # what progress is told


def train_many(
    corpus: EncodedCorpus,
    members: Sequence[np.ndarray],
    settings: TrainingSettings,
    *,
    seeds: Sequence[int],
    **options: Unpack[ManyOptions],
) -> Iterator[FinishedModel]:
    """Train one model on each of ``members`` (rows of the corpus), and yield each as it is finished, in any order."""
    if isinstance(settings.defence, DPSettings):
        from pathveil.training.dp import train_many_private

        yield from train_many_private(corpus, members, settings, seeds=seeds, **options)
        return

    def hand_over(machine: Machine, finished: Mapping[int, Trainee]) -> Iterator[tuple[int, FinishedModel]]:
        for slot, trainee in finished.items():
            state, held_out = machine.best_state(slot), trainee.rows[trainee.held_out]
            yield trainee.number, FinishedModel(trainee.number, state, trainee.history, trainee.best_epoch, held_out)

    for _, model in _train(corpus, members, settings, seeds, hand_over, **options):
        yield model


def halved(rows: np.ndarray, logits: dict[str, Tensor]) -> dict[str, Tensor]:
    """All logits, in half the bytes."""
    return {task: scores.half() for task, scores in logits.items()}


def logits_many(
    corpus: EncodedCorpus,
    members: Sequence[np.ndarray],
    settings: TrainingSettings,
    *,
    seeds: Sequence[int],
    rows: np.ndarray | None = None,
    note: Callable[[int, int, int], None] | None = None,
    reduce: Reduce = halved,
    **options: Unpack[ManyOptions],
) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
    """Train as ``train_many`` does, and yield each model's number and its logits, float16 (documents, classes) a task,
    on all documents or the given rows. No model is kept; ``note`` is told each one's number, the epoch it was best at,
    and how many it had, before it is yielded. Where that is too much to hold or to carry from a GPU,
    ``reduce(rows, logits)`` takes the logits some documents at a time, where they were made, and what it makes of them
    is yielded, joined, instead; of the row −1, which stands for none, nothing is kept."""
    wanted = np.arange(corpus.documents) if rows is None else np.asarray(rows)
    if isinstance(settings.defence, TeacherSettings):
        from pathveil.training.teachers import with_lessons

        corpus, members = with_lessons(corpus, members, settings, seeds=seeds, options=options)
        settings = settings.changed(defence=None)
    if isinstance(settings.defence, OwnDefence):
        from pathveil.training.own_defence import defended_many

        corpus, members = defended_many(corpus, members, settings, seeds=seeds)
        settings = settings.changed(defence=None)
    if isinstance(settings.defence, DPSettings):
        models, device = train_many(corpus, members, settings, seeds=seeds, **options), options.get("device", "cpu")
        yield from _logits_one_by_one(models, corpus, settings, wanted, device=device, note=note, reduce=reduce)
        return

    def hand_over(machine: Machine, finished: Mapping[int, Trainee]) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
        for slot in finished:
            machine.restore_best(slot)
        answers = machine.read(dict.fromkeys(finished, wanted), reduce)
        for slot, trainee in finished.items():
            if note is not None:
                note(trainee.number, trainee.best_epoch, trainee.epoch)
            yield trainee.number, answers[slot]

    yield from _train(corpus, members, settings, seeds, hand_over, **options)


def _logits_one_by_one(
    models: Iterator[FinishedModel],
    corpus: EncodedCorpus,
    settings: TrainingSettings,
    wanted: np.ndarray,
    *,
    device: str | torch.device,
    note: Callable[[int, int, int], None] | None,
    reduce: Reduce,
) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
    """What ``logits_many`` gives, from finished models."""
    for trained in models:
        model = trained.model(corpus, settings).to(device)
        if note is not None:
            note(trained.number, trained.best_epoch, trained.best_epoch)
        yield trained.number, answers_of(model, corpus, wanted, reduce)


class Trainee:
    """Where one model of many stands; what its batches are."""

    def __init__(
        self,
        number: int,
        rows: np.ndarray,
        corpus: EncodedCorpus,
        settings: TrainingSettings,
        *,
        seed: int,
        held_out: np.ndarray | None = None,
    ):
        self.number, self.seed, self.settings, self.corpus = number, seed, settings, corpus
        self.rows = np.asarray(rows).astype(np.int64)
        if held_out is None:
            self.train, self.held_out = split(corpus.cases[self.rows], settings, seed=seed)  # places in ``rows``
        else:
            self.held_out = np.asarray(held_out)
            self.train = np.setdiff1d(np.arange(len(self.rows)), self.held_out)
        if not len(self.train):
            raise UsageError(f"model {number} has no report left to train on; it needs at least two cases")
        self.history: list[dict[str, Any]] = []
        self.best_epoch, self.finished = 0, False

    @property
    def epoch(self) -> int:
        return len(self.history)

    def batches(self) -> list[np.ndarray]:
        """This epoch's batches, as places in ``rows``."""
        lengths = self.corpus.lengths[self.rows[self.train]]
        batches = plan(
            lengths,
            batch_size=self.settings.batch_size,
            seed=[self.seed, 1],
            epoch=self.epoch,
            order=self.settings.order,
        )
        return [self.train[batch] for batch in batches]

    def numbers(self, stream: int) -> np.ndarray:
        """A number for every document of ``rows`` in this epoch: 2 for dropped words, 3 for dropped features."""
        return noise(np.arange(len(self.rows)), seed=[self.seed, stream], epoch=self.epoch)

    def class_weights(self) -> dict[str, np.ndarray]:
        labels = {task: np.asarray(label)[self.rows[self.train]] for task, label in self.corpus.labels.items()}
        return {
            task: balanced_weights(label, len(self.corpus.classes[task]), power=self.settings.class_balance)
            for task, label in labels.items()
        }

    def close_epoch(self, loss: float, answers: Mapping[str, np.ndarray]) -> bool:
        """Write the epoch down, with the answers to what is held out, ``judged``; whether its weights are the best so
        far."""
        entry: dict[str, Any] = {"epoch": self.epoch + 1, "loss": loss / len(self.train)}
        if len(self.held_out):
            entry |= validation_scores(answers)
        self.history.append(entry)
        self.best_epoch, self.finished = early_stopping(self.history, self.settings)
        return self.best_epoch == self.epoch


class Machine(Protocol):
    """A stack of models on a device, in numbered slots."""

    slots: int

    def reset(self, slot: int, trainee: Trainee, state: Mapping[str, Tensor], mask: np.ndarray | None) -> None:
        """Put a new model, with the weights it starts from, into a slot."""

    def learn(self, rows: np.ndarray, words: np.ndarray, features: np.ndarray) -> None:
        """Steps along batches of rows (steps, slots, batch), −1 where there is none, with the numbers that dropped
        words and dropped features are drawn from; a slot without rows stands still."""

    def losses(self) -> np.ndarray:
        """Each slot's loss summed over documents since this was last asked (slots,)."""

    def read(self, rows: Mapping[int, np.ndarray], reduce: Reduce) -> dict[int, dict[str, np.ndarray]]:
        """What ``reduce`` keeps of the logits of some slots on some rows, without dropout."""

    def keep(self, slot: int) -> None:
        """Note a slot's weights as its best."""

    def best_state(self, slot: int) -> dict[str, Tensor]:
        """A copy of a slot's best weights, on the CPU."""

    def restore_best(self, slot: int) -> None:
        """Give a slot its best weights back."""


Made = TypeVar("Made")
Newcomer = tuple[Trainee, Mapping[str, Tensor], np.ndarray | None]  # with the weights it starts from, and its words
HandOver = Callable[[Machine, Mapping[int, Trainee]], Iterator[tuple[int, Made]]]


def _train(
    corpus: EncodedCorpus,
    members: Sequence[np.ndarray],
    settings: TrainingSettings,
    seeds: Sequence[int],
    hand_over: HandOver[Made],
    *,
    masks: Sequence[np.ndarray] | None = None,
    vectors: np.ndarray | None = None,
    device: str | torch.device = "cpu",
    stack: int | None = None,
    progress: Progress = silent,
    stage: str = "training models",
) -> Iterator[tuple[int, Made]]:
    """Each model's number, and what ``hand_over`` makes of it as soon as it is finished, while its slot holds it."""
    assert settings.defence is None, "a defence is seen to before: a stack would leave it out unnoticed"
    for name, given in (("seeds", seeds), ("masks", masks)):
        if given is not None and len(given) != len(members):
            raise UsageError(f"{name} must be one for each of the {len(members)} models; got {len(given)}")
    if not members:
        return
    settings = settings.for_documents(float(np.mean([len(rows) for rows in members])))
    device, left = torch.device(device), list(range(len(members)))

    def newcomers(numbers: Sequence[int]) -> Iterator[Newcomer]:
        own, ahead = [seeds[number] for number in numbers], 4 if device.type == "cuda" else 0
        for number, (_, state) in zip(numbers, starts(corpus, settings, own, vectors, ahead=ahead), strict=True):
            mask = None if masks is None else np.asarray(masks[number], bool)
            yield Trainee(number, members[number], corpus, settings, seed=seeds[number]), state, mask

    slots = stack or usual_slots(device, corpus, settings)
    progress(stage, 0, len(members))
    while left:
        slots = min(slots, len(left))
        try:
            machine = machine_for(device, corpus, settings, slots=slots, masked=bool(masks))
            for number, made in _through_a_stack(machine, newcomers(tuple(left)), hand_over):
                left.remove(number)
                yield number, made
                progress(stage, len(members) - len(left), len(members))
        except torch.OutOfMemoryError:
            if slots == 1:
                raise
            slots //= 2
        machine = None
        give_memory_back(device)


def _through_a_stack(
    machine: Machine,
    newcomers: Iterator[Newcomer],
    hand_over: HandOver[Made],
) -> Iterator[tuple[int, Made]]:
    """Train all newcomers, each as soon as a slot is free."""
    at: dict[int, Trainee] = {}
    while True:
        for slot in range(machine.slots):
            if slot not in at and (following := next(newcomers, None)) is not None:
                machine.reset(slot, *following)
                at[slot] = following[0]
        if not at:
            return
        train_epoch(machine, at)
        finished = {slot: trainee for slot, trainee in at.items() if trainee.finished}
        if finished:
            yield from hand_over(machine, finished)
        at = {slot: trainee for slot, trainee in at.items() if slot not in finished}


def starts(
    corpus: EncodedCorpus, settings: TrainingSettings, seeds: Sequence[int], vectors: np.ndarray | None, *, ahead: int
) -> Iterator[tuple[int, dict[str, Tensor]]]:
    """Each model's number and the weights it starts from, in order; ``ahead`` of them are drawn while a GPU is busy."""
    if not ahead:
        for number, seed in enumerate(seeds):
            yield number, starting_weights(corpus, settings, seed, vectors)
        return
    with ThreadPoolExecutor(ahead) as pool:
        drawn = deque(pool.submit(starting_weights, corpus, settings, seed, vectors) for seed in seeds[:ahead])
        for number in range(len(seeds)):
            state = drawn.popleft().result()
            if number + ahead < len(seeds):
                drawn.append(pool.submit(starting_weights, corpus, settings, seeds[number + ahead], vectors))
            yield number, state


def train_epoch(machine: Machine, running: Mapping[int, Trainee]) -> None:
    """One epoch of the models in these slots, judged and written down."""
    settings = next(iter(running.values())).settings
    machine.learn(*schedule(running, machine.slots, settings))
    losses = machine.losses()
    for slot, trainee in running.items():
        check_loss(losses[slot], settings, epoch=trainee.epoch + 1)
    judging = {slot: trainee.rows[trainee.held_out] for slot, trainee in running.items() if len(trainee.held_out)}
    labels = next(iter(running.values())).corpus.labels
    answers = machine.read(judging, lambda rows, logits: judged(logits, labels, rows)) if judging else {}
    for slot, trainee in running.items():
        if trainee.close_epoch(float(losses[slot]), answers.get(slot, {})):
            machine.keep(slot)


def schedule(
    running: Mapping[int, Trainee], slots: int, settings: TrainingSettings
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """An epoch of every running model side by side, (steps, slots, batch): rows of the corpus, and the numbers that
    dropped words and dropped features come from. A model with fewer batches than another waits at the end."""
    plans = {slot: trainee.batches() for slot, trainee in running.items()}
    size = max(len(batch) for batches in plans.values() for batch in batches)
    shape = max(map(len, plans.values())), slots, size
    rows = np.full(shape, -1, np.int64)
    words, features = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    for slot, trainee in running.items():
        for_words, for_features = trainee.numbers(2), trainee.numbers(3)
        for step, batch in enumerate(plans[slot]):
            rows[step, slot, : len(batch)] = trainee.rows[batch]
            words[step, slot, : len(batch)] = for_words[batch]
            features[step, slot, : len(batch)] = for_features[batch]
    return rows, words, features


def shape_of(corpus: EncodedCorpus, settings: TrainingSettings) -> dict[str, Any]:
    """The architecture that a corpus and settings ask for."""
    return {
        "vocabulary_size": corpus.vocabulary_size,
        "classes": {task: len(names) for task, names in corpus.classes.items()},
        **settings.shape(),
    }


def model_of(state: Mapping[str, Tensor], corpus: EncodedCorpus, settings: TrainingSettings) -> MTCNN:
    """A model with the given weights, for reading."""
    with torch.device("meta"):
        model = MTCNN(**shape_of(corpus, settings))
    model.load_state_dict(state, assign=True)
    return model.eval()


def starting_weights(
    corpus: EncodedCorpus, settings: TrainingSettings, seed: int, vectors: np.ndarray | None
) -> dict[str, Tensor]:
    """The weights a model of this seed starts with."""
    state = MTCNN(**shape_of(corpus, settings), seed=seed).state_dict()
    if vectors is not None:
        state[EMBEDDING].copy_(torch.from_numpy(vectors))
    return state


def usual_slots(device: torch.device, corpus: EncodedCorpus, settings: TrainingSettings) -> int:
    """How many models a stack has on a device."""
    if device.type != "cuda":
        return 1  # cores are busy with one model already: a stack costs memory there and saves next to nothing
    from pathveil.training.graphed import affordable_models

    return min(max(DOCUMENTS_AT_ONCE // settings.batch_size, 8), affordable_models(corpus, settings, device))


def machine_for(
    device: torch.device, corpus: EncodedCorpus, settings: TrainingSettings, *, slots: int, masked: bool
) -> Machine:
    if device.type == "cuda":
        from pathveil.training.graphed import GraphedStack

        return GraphedStack(corpus, settings, slots=slots, device=device, masked=masked)
    from pathveil.training.plain_stack import PlainStack

    return PlainStack(corpus, settings, slots=slots)


def give_memory_back(device: torch.device) -> None:
    """Let go of what a finished stack held on a GPU: other processes may wait for it."""
    if device.type == "cuda":
        gc.collect()
        torch.cuda.empty_cache()


def read_in_parts(
    rows: Mapping[int, np.ndarray],
    slots: int,
    read: Callable[[np.ndarray], dict[str, Tensor]],
    reduce: Reduce,
) -> dict[int, dict[str, np.ndarray]]:
    """What is kept of the logits of some slots on some rows, by a function that takes rows (slots, n), −1 where there
    is none."""
    found: dict[int, dict[str, list[np.ndarray]]] = {slot: {} for slot in rows}
    longest = max(map(len, rows.values()))
    at_once = READ_AT_ONCE * slots // len(rows)  # where few are asked, each reads as much as all would
    for start in range(0, max(longest, 1), at_once):
        part = np.full((slots, min(at_once, longest - start)), -1, np.int64)
        for slot, wanted in rows.items():
            here = wanted[start : start + at_once]
            part[slot, : len(here)] = here
        for name, kept in reduce(part.reshape(-1), read(part)).items():
            values = kept.cpu().numpy().reshape(*part.shape, *kept.shape[1:])
            for slot, wanted in rows.items():
                here = len(wanted[start : start + at_once])
                found[slot].setdefault(name, []).append(values[slot, :here])
    return {slot: {name: np.concatenate(parts) for name, parts in own.items()} for slot, own in found.items()}
