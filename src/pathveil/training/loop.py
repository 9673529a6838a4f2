"""The one training loop: an encoded corpus to a model, stopped early, resumable, the same for a seed.

Everything random is made from the seed and a counter (the batch plan from the epoch, a document's dropout from epoch
and row), nothing from what was drawn before. So a checkpoint needs no generator's state, and a killed run that goes on
ends with the weights, bit for bit, of a run that was never stopped (on the same device).

>>> import numpy as np
>>> from pathveil.training.settings import TrainingSettings
>>> from pathveil.vocabulary import EncodedCorpus
>>> corpus = EncodedCorpus(
...     ids=np.tile(np.array([2, 3, 4, 5, 6, 7], np.int32), 20), offsets=np.arange(0, 121, 3), cases=np.arange(40),
...     registries=np.zeros(40, np.int32), registry_names=("R1",), labels={"site": np.tile([0, 1], 20)},
...     classes={"site": ("C18", "C50")}, vocabulary_size=8)
>>> fitted = fit(corpus, TrainingSettings(dim=8, filters=4, epochs=30, batch_size=8, learning_rate=0.01), seed=1)
>>> fitted.history[-1]["validation_accuracy"]
{'site': 1.0}
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypedDict, Unpack

import numpy as np
import torch
from torch import Tensor, nn

from pathveil.errors import UsageError
from pathveil.model import MTCNN, TokenBatch
from pathveil.model.inference import Tabulated
from pathveil.model.kernels.cpu import has_bfloat16
from pathveil.progress import Progress, silent
from pathveil.training import checkpoint as checkpoints
from pathveil.training.batches import drop_words, hold_out_cases, hold_out_each_case, noise, plan, spans
from pathveil.training.defences import DPSettings, OwnDefence, TeacherSettings
from pathveil.training.losses import balanced_weights, task_loss
from pathveil.training.optimisers import Adadelta, Adam, Optimiser, gradient_norm
from pathveil.training.settings import TrainingSettings
from pathveil.vocabulary.encoded import EncodedCorpus, take_documents

EMBEDDING = "embedding.weight"
INFERENCE_TOKENS = 150_000  # words in flight when a corpus is read without training
SAVE_SECONDS = 30.0  # between checkpoints; what a kill loses at most, and an epoch

# Rows and their logits a task, still on the device that made them, to what is kept of them: a row a document.
Reduce = Callable[[np.ndarray, dict[str, Tensor]], dict[str, Tensor]]


@dataclass(frozen=True)
class Fitted:
    """A trained model with what happened on the way."""

    model: MTCNN
    history: list[dict[str, Any]]  # one entry an epoch
    best_epoch: int  # whose weights the model has, from 1
    validation: np.ndarray  # rows of the corpus that were held out


class FitOptions(TypedDict, total=False):
    """What training one model can be told beside its corpus, its settings and the device."""

    seed: int
    held_out: np.ndarray | None  # the validation rows; else a share of the cases is drawn from the seed
    vectors: np.ndarray | None  # (words, dim) where the embedding starts, else at random
    checkpoint: Path | None  # a file to continue from
    save_seconds: float
    progress: Progress
    stage: str  # what progress is told


def fit(
    corpus: EncodedCorpus,
    settings: TrainingSettings,
    *,
    device: str | torch.device = "cpu",
    **options: Unpack[FitOptions],
) -> Fitted:
    """Train one model. On a GPU a step is one CUDA graph, and checkpoints are written between epochs."""
    device = torch.device(device)
    if isinstance(settings.defence, TeacherSettings):
        from pathveil.training.teachers import teach

        seed, vectors, progress = options.get("seed", 0), options.get("vectors"), options.get("progress", silent)
        corpus = teach(corpus, settings, seed=seed, vectors=vectors, device=str(device), progress=progress)
        settings = settings.changed(defence=None)
    if isinstance(settings.defence, OwnDefence):
        from pathveil.training.own_defence import defended

        corpus = defended(corpus, settings, seed=options.get("seed", 0))
        settings = settings.changed(defence=None)
    if isinstance(settings.defence, DPSettings):
        from pathveil.training.dp import fit_private

        return fit_private(corpus, settings, device=device, **options)
    held_out = options.get("held_out")
    settings = settings.for_documents(corpus.documents, held_out=None if held_out is None else len(held_out))
    if device.type == "cuda" and find_spec("triton"):
        from pathveil.training.graphed import fit_graphed

        return fit_graphed(corpus, settings, device=device, **options)
    return _fit_step_by_step(corpus, settings, device=device, **options)


def _fit_step_by_step(
    corpus: EncodedCorpus,
    settings: TrainingSettings,
    *,
    device: torch.device,
    seed: int = 0,
    held_out: np.ndarray | None = None,
    vectors: np.ndarray | None = None,
    checkpoint: Path | None = None,
    save_seconds: float = SAVE_SECONDS,
    progress: Progress = silent,
    stage: str = "training",
) -> Fitted:
    """``fit`` on a CPU, or on any device that PyTorch has."""
    run = _Run(corpus, settings, seed=seed, held_out=held_out, vectors=vectors, device=device)
    run.resume(checkpoint)
    total = settings.epochs * run.batches
    saved = time.monotonic()
    while not run.finished:
        batches = plan(
            run.lengths, batch_size=settings.batch_size, seed=[seed, 1], epoch=run.epoch, order=settings.order
        )
        for rows in batches[run.batch :]:
            run.learn(run.train[rows])
            progress(stage, run.epoch * run.batches + run.batch, total)
            if checkpoint and time.monotonic() - saved > save_seconds:
                run.save(checkpoint)
                saved = time.monotonic()
        run.close_epoch()
        if checkpoint and (run.finished or time.monotonic() - saved > save_seconds):
            run.save(checkpoint)
            saved = time.monotonic()
    progress(stage, total, total)
    return run.result()


class _Run:
    """The state of a run: what a checkpoint holds, and what is made again from corpus and settings."""

    def __init__(
        self,
        corpus: EncodedCorpus,
        settings: TrainingSettings,
        *,
        seed: int,
        held_out: np.ndarray | None,
        vectors: np.ndarray | None,
        device: torch.device,
    ):
        self.corpus, self.settings, self.seed, self.device = corpus, settings, seed, device
        if held_out is None:
            self.train, self.held_out = split(corpus.cases, settings, seed=seed)
        else:
            self.held_out = np.asarray(held_out)
            self.train = np.setdiff1d(np.arange(corpus.documents), self.held_out)
        if not len(self.train):
            raise UsageError("no report is left to train on; a corpus needs at least two cases")
        self.lengths = corpus.lengths[self.train]
        self.batches = -(-len(self.train) // settings.batch_size)
        self.classes = {task: len(names) for task, names in corpus.classes.items()}
        # On a GPU a pass over the whole embedding costs less than finding the touched rows.
        self.lazy = device.type == "cpu"
        self.model = MTCNN(
            vocabulary_size=corpus.vocabulary_size,
            classes=self.classes,
            **settings.shape(),
            seed=seed,
            sparse=self.lazy,
        )
        if vectors is not None:
            with torch.no_grad():
                self.model.embedding.weight.copy_(torch.from_numpy(vectors))
        self.model.to(device)
        self.parameters: dict[str, nn.Parameter] = dict(self.model.named_parameters())
        kind = Adam if settings.optimiser == "adam" else Adadelta
        lazy = (EMBEDDING,) if self.lazy else ()
        self.optimiser: Optimiser = kind(
            self.parameters,
            lazy=lazy,
            learning_rate=settings.learning_rate,
            falls_over=settings.falls_over(len(self.train)),
        )
        self.labels = {
            task: torch.from_numpy(np.asarray(label).astype(np.int64)).to(device)
            for task, label in corpus.labels.items()
        }
        self.weights: dict[str, Tensor] | None = None
        if settings.class_balance:
            self.weights = {
                task: torch.from_numpy(
                    balanced_weights(np.asarray(label)[self.train], self.classes[task], power=settings.class_balance)
                ).to(device, torch.float32)
                for task, label in corpus.labels.items()
            }
        self.fingerprint = fingerprint(corpus, settings, seed=seed, held_out=self.held_out, vectors=vectors, on=device)
        self._mark = np.zeros(corpus.vocabulary_size, bool)

        self.epoch, self.batch = 0, 0  # where the run is: counters of finished epochs, and of batches in this one
        self.loss = torch.zeros((), dtype=torch.float64, device=device)  # summed over this epoch's documents
        self.history: list[dict[str, Any]] = []
        self.best: dict[str, Tensor] = {}
        self.best_epoch, self.finished = 0, False

    def learn(self, rows: np.ndarray) -> None:
        """One step along one batch."""
        self.model.train()
        ids, offsets = take_documents(self.corpus.ids, self.corpus.offsets, rows)
        if self.settings.word_dropout:
            numbers = noise(rows, seed=[self.seed, 2], epoch=self.epoch)
            ids = drop_words(ids, offsets, numbers, share=self.settings.word_dropout)
        if self.lazy:
            self._mark[ids] = True
            touched = np.flatnonzero(self._mark)
            self._mark[touched] = False
            self.optimiser.touch(torch.from_numpy(touched))
        batch = TokenBatch(ids=ids, offsets=offsets).to(self.device)
        drops = torch.from_numpy(noise(rows, seed=[self.seed, 3], epoch=self.epoch)).to(self.device)
        here = torch.from_numpy(rows).to(self.device)
        with half_products(self.device, self.settings):
            logits = self.model(batch, noise=drops)
        labels = {task: label[here] for task, label in self.labels.items()}
        loss = task_loss(
            logits,
            labels,
            class_weights=self.weights,
            smoothing=self.settings.smoothing,
            robustness=self.settings.robustness,
        )
        # Looking at every loss would hold a GPU up; there the end of the epoch tells.
        if self.device.type == "cpu":
            self.check(loss.item())
        loss.backward()
        scale = 1.0
        if self.settings.clip:
            scale = min(1.0, self.settings.clip / max(gradient_norm(self.parameters), 1e-12))
        self.optimiser.step(scale=scale)
        self.loss += loss.detach().double() * len(rows)
        self.batch += 1

    def close_epoch(self) -> None:
        """Judge the epoch on the validation cases, and keep its weights where they are the best so far."""
        self.optimiser.settle()
        entry: dict[str, Any] = {"epoch": self.epoch + 1, "loss": float(self.loss) / len(self.train)}
        self.check(entry["loss"])
        if len(self.held_out):
            entry |= validate(self.model, self.corpus, self.held_out)
        self.history.append(entry)
        self.epoch, self.batch = self.epoch + 1, 0
        self.loss.zero_()
        self.best_epoch, self.finished = early_stopping(self.history, self.settings)
        if self.best_epoch == self.epoch:
            self.best = {name: tensor.detach().clone() for name, tensor in self.model.state_dict().items()}

    def check(self, loss: float) -> None:
        check_loss(loss, self.settings, epoch=self.epoch + 1)

    def save(self, path: Path) -> None:
        tensors = {f"model.{name}": tensor for name, tensor in self.model.state_dict().items()}
        tensors |= {f"best.{name}": tensor for name, tensor in self.best.items()}
        tensors |= {f"optimiser.{name}": tensor for name, tensor in self.optimiser.state().items()}
        tensors["loss"] = self.loss
        content = {name: getattr(self, name) for name in ("epoch", "batch", "history", "best_epoch", "finished")}
        checkpoints.save(path, tensors, fingerprint=self.fingerprint, content=content)

    def resume(self, path: Path | None) -> None:
        found = checkpoints.load(path, fingerprint=self.fingerprint) if path else None
        if found is None:
            return
        tensors, content = found

        def part(prefix: str) -> dict[str, Tensor]:
            return {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}

        self.model.load_state_dict(part("model."))
        self.best = {name: tensor.to(self.device) for name, tensor in part("best.").items()}
        self.optimiser.restore(part("optimiser."))
        self.loss.copy_(tensors["loss"])
        for name, value in content.items():
            setattr(self, name, value)

    def result(self) -> Fitted:
        self.model.load_state_dict(self.best)
        return Fitted(
            model=self.model.eval(), history=self.history, best_epoch=self.best_epoch, validation=self.held_out
        )


def half_products(device: torch.device, settings: TrainingSettings) -> torch.autocast:
    """A block in which products are in bfloat16: always on a GPU, on a CPU where the settings ask and it can."""
    enabled = device.type == "cuda" or (settings.bfloat16 and has_bfloat16())
    return torch.autocast(device.type, torch.bfloat16, enabled=enabled)


def split(cases: np.ndarray, settings: TrainingSettings, *, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows to train on, and rows to stop by (none where the settings hold none out)."""
    if settings.validation_share == 0:
        return np.arange(len(cases)), np.arange(0)
    check_cases(cases)
    if isinstance(settings.defence, DPSettings):
        return hold_out_each_case(cases, share=settings.validation_share, seed=[seed, 0])
    return hold_out_cases(cases, share=settings.validation_share, seed=[seed, 0])


def fingerprint(
    corpus: EncodedCorpus,
    settings: TrainingSettings,
    *,
    seed: int,
    held_out: np.ndarray,
    vectors: np.ndarray | None,
    on: torch.device,
) -> str:
    """Of everything that determines a run, so that its checkpoint is not continued by another."""
    content = {
        "settings": settings.model_dump(mode="json"),
        "seed": seed,
        "classes": {task: list(names) for task, names in corpus.classes.items()},
        "device": on.type,
    }
    arrays = {"ids": corpus.ids, "offsets": corpus.offsets, "held_out": held_out}
    arrays |= {f"label {task}": label for task, label in corpus.labels.items()}
    return checkpoints.fingerprint_of(content, arrays | ({} if vectors is None else {"vectors": vectors}))


def check_cases(cases: np.ndarray) -> None:
    if len(np.unique(cases)) < 2:
        raise UsageError("the corpus has one case; training needs at least two, one of them to stop by")


def early_stopping(history: Sequence[Mapping[str, Any]], settings: TrainingSettings) -> tuple[int, bool]:
    """The epoch, from 1, whose weights count so far, and whether training is over.

    >>> early_stopping([{"validation_loss": loss} for loss in (3.0, 2.0, 2.5, 2.0)], TrainingSettings(patience=2))
    (2, True)
    """
    best = len(history)
    if settings.patience is not None:
        best = 1 + min(range(len(history)), key=lambda number: history[number]["validation_loss"])
    patience = settings.epochs if settings.patience is None else settings.patience
    return best, len(history) == settings.epochs or len(history) - best >= patience


def check_loss(loss: float, settings: TrainingSettings, *, epoch: int) -> None:
    if not np.isfinite(loss):
        raise UsageError(
            f"training diverged in epoch {epoch} (the loss is no number); "
            f"try a learning rate below {settings.learning_rate:g}, or clip the gradient"
        )


def validate(model: MTCNN, corpus: EncodedCorpus, rows: np.ndarray) -> dict[str, Any]:
    """The loss summed over tasks, and each task's loss and accuracy, on the given documents."""
    return validation_scores(answers_of(model, corpus, rows, lambda rows, logits: judged(logits, corpus.labels, rows)))


def judged(
    logits: Mapping[str, Tensor], labels: Mapping[str, np.ndarray], rows: np.ndarray | None = None
) -> dict[str, Tensor]:
    """Each task's answers (documents, 2) held against the labels of these rows: the logarithm of the label's
    probability, and whether it is the likeliest, NaN where there is no label."""
    found = {}
    for task, scores in logits.items():
        known = np.asarray(labels[task]) if rows is None else np.asarray(labels[task])[rows]
        label = torch.from_numpy(known.astype(np.int64)).to(scores.device)
        own = scores.float().log_softmax(-1).gather(-1, label.clamp(min=0)[:, None])[:, 0]
        found[task] = torch.stack([own, torch.where(label >= 0, (scores.argmax(-1) == label).float(), torch.nan)], -1)
    return found


def validation_scores(answers: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """The loss summed over tasks, and each task's loss and accuracy, of answers that were ``judged``."""
    losses, accuracy = {}, {}
    for task, pairs in answers.items():
        known = pairs[~np.isnan(pairs[:, 1])].astype(np.float64)
        if len(known):
            losses[task], accuracy[task] = float(-known[:, 0].mean()), float(known[:, 1].mean())
    return {"validation_loss": sum(losses.values()), "validation_losses": losses, "validation_accuracy": accuracy}


def logits_of(
    model: MTCNN,
    corpus: EncodedCorpus,
    rows: np.ndarray | None = None,
    *,
    progress: Progress = silent,
    stage: str = "reading reports",
) -> dict[str, np.ndarray]:
    """Each task's logits (documents, classes) of all documents or of the given rows, without dropout."""
    return document_logits(model.eval(), *_documents(corpus, rows), progress=progress, stage=stage)


def answers_of(model: MTCNN, corpus: EncodedCorpus, rows: np.ndarray, reduce: Reduce) -> dict[str, np.ndarray]:
    """What ``reduce`` keeps of a model's answers on the given rows, without dropout; logits stay on the device."""
    parts = [
        {name: kept.cpu().numpy() for name, kept in reduce(rows[start:stop], logits).items()}
        for start, stop, logits in _read(model.eval(), *_documents(corpus, rows))
    ]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _documents(corpus: EncodedCorpus, rows: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    return (corpus.ids, corpus.offsets) if rows is None else take_documents(corpus.ids, corpus.offsets, rows)


@torch.no_grad()
def _read(
    model: MTCNN | Tabulated, ids: np.ndarray, offsets: np.ndarray
) -> Iterator[tuple[int, int, dict[str, Tensor]]]:
    """The logits of documents that lie end to end, some at a time, on the device that the model is on."""
    for start, stop in spans(offsets, tokens=INFERENCE_TOKENS):
        part = np.asarray(ids[offsets[start] : offsets[stop]])
        batch = TokenBatch(ids=part, offsets=offsets[start : stop + 1] - offsets[start])
        yield start, stop, model(batch.to(model.device))


def document_logits(
    model: MTCNN | Tabulated,
    ids: np.ndarray,
    offsets: np.ndarray,
    *,
    progress: Progress = silent,
    stage: str = "reading reports",
) -> dict[str, np.ndarray]:
    """Each task's logits (documents, classes) of documents that lie end to end, read on the device that the model is
    on."""
    documents = len(offsets) - 1
    logits = {task: np.empty((documents, size), np.float32) for task, size in model.classes.items()}
    for start, stop, read in _read(model, ids, offsets):
        for task, scores in read.items():
            logits[task][start:stop] = scores.float().cpu().numpy()
        progress(stage, stop, documents)
    return logits
