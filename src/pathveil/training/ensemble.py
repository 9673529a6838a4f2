"""Several networks and a linear view as one model, weighed by what they say about cases they never saw.

Each member holds out validation cases of its own (so every case teaches most members) and stops by them. What a member
says about its held-out cases is what it would say about new ones: on these predictions the views are weighed against
each other, the probabilities calibrated and rare classes lifted (``pathveil.training.blend``). Nothing is chosen on
test cases.

>>> import numpy as np
>>> one, other = np.log([[0.8, 0.2]]), np.log([[0.4, 0.6]])
>>> np.exp(mean_log_probability([one, other])).round(2).tolist()
[[0.6, 0.4]]
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.special import log_softmax, logsumexp

from pathveil.model import MTCNN
from pathveil.model.inference import Tabulated
from pathveil.progress import Progress, silent
from pathveil.training.batches import hold_out_cases
from pathveil.training.blend import blended, fit_pool
from pathveil.training.linear import fit_linear, weighted_counts, word_weights
from pathveil.training.loop import document_logits, fit, logits_of
from pathveil.training.settings import TrainingSettings
from pathveil.training.vectors import word_vectors
from pathveil.vocabulary.encoded import Encoded, take_documents

LINEAR_STRENGTH, LINEAR_BALANCE, LINEAR_ITERATIONS = 100.0, 1.0, 60


@dataclass(frozen=True)
class LinearView:
    """Word weights and a logistic regression a task."""

    idf: np.ndarray  # (words,)
    weights: Mapping[str, np.ndarray]  # task: (classes, words)
    biases: Mapping[str, np.ndarray]  # task: (classes,)

    def logits(self, ids: np.ndarray, offsets: np.ndarray) -> dict[str, np.ndarray]:
        documents = weighted_counts(ids, offsets, self.idf)
        return {task: documents @ weight.T + self.biases[task] for task, weight in self.weights.items()}


@dataclass(frozen=True)
class Ensemble:
    """Networks of one shape, perhaps a linear view, and each task's coefficients for the two."""

    members: tuple[MTCNN, ...]
    linear: LinearView | None
    blend: Mapping[str, tuple[float, ...]]  # task: a coefficient a view
    lift: Mapping[str, np.ndarray]  # task: what is added to each class's log-probability when a code is chosen
    tables: tuple[Tabulated, ...] = ()  # the members' answers to every word, once ``tabulated``

    def tabulated(self) -> "Ensemble":
        """The same answers from tables made once: quicker for many documents, for more memory."""
        return replace(self, tables=tuple(Tabulated(member) for member in self.members))

    def log_probabilities(
        self, ids: np.ndarray, offsets: np.ndarray, *, device: str | torch.device = "cpu", progress: Progress = silent
    ) -> dict[str, np.ndarray]:
        """Each task's calibrated log-probabilities (documents, classes) of documents that lie end to end."""
        members = self.tables or self.members
        logits = [document_logits(member, ids, offsets, device=device, progress=progress) for member in members]
        plain = self.linear.logits(ids, offsets) if self.linear else None
        said = {}
        for task, coefficients in self.blend.items():
            views = [mean_log_probability([one[task] for one in logits])]
            if plain is not None:
                views.append(log_softmax(plain[task], axis=1))
            said[task] = blended(views, coefficients)
        return said

    def choose(self, log_probabilities: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Each task's chosen class (documents,)."""
        return {task: (logs + self.lift[task]).argmax(1) for task, logs in log_probabilities.items()}


@dataclass(frozen=True)
class Trained:
    """A trained model with what happened on the way and what it says about cases it never saw."""

    model: Ensemble
    histories: list[list[dict[str, Any]]]  # a member's epochs
    best_epochs: list[int]
    held_out: np.ndarray  # rows of the corpus that some member held out
    held_out_log_probabilities: dict[str, np.ndarray]  # task: (held-out rows, classes)


def train(
    corpus: Encoded,
    settings: TrainingSettings,
    *,
    seed: int = 0,
    device: str | torch.device = "cpu",
    checkpoint: Path | None = None,
    progress: Progress = silent,
) -> Trained:
    """Train all members and the linear view. ``checkpoint`` is a folder; a run killed at any moment continues there."""
    members, histories, best_epochs, held_rows = [], [], [], []
    networks: list[dict[str, np.ndarray]] = []  # a member's logits of its held-out rows
    plain: list[LinearView] = []
    if checkpoint:
        checkpoint.mkdir(parents=True, exist_ok=True)
    start = start_vectors(corpus, settings, seed=seed, progress=progress)
    for number in range(settings.members):
        held = np.arange(0)
        if settings.validation_share:
            held = hold_out_cases(corpus.cases, share=settings.validation_share, seed=[seed, 0], part=number)[1]
        fitted = fit(
            corpus,
            settings,
            seed=member_seed(seed, number),
            held_out=held,
            vectors=start,
            device=device,
            checkpoint=checkpoint / f"member-{number}.safetensors" if checkpoint else None,
            progress=progress,
            stage="training" if settings.members == 1 else f"training network {number + 1} of {settings.members}",
        )
        members.append(fitted.model)
        histories.append(fitted.history)
        best_epochs.append(fitted.best_epoch)
        held_rows.append(held)
        networks.append(logits_of(fitted.model, corpus, held, device=device))
    if settings.linear:
        for number, held in enumerate(held_rows):
            plain.append(linear_view(corpus, np.setdiff1d(np.arange(corpus.documents), held)))
            progress("fitting the linear view", number + 1, settings.members)
    rows = np.concatenate(held_rows)
    views: dict[str, list[np.ndarray]] = {
        task: [log_softmax(np.concatenate([one[task] for one in networks]), axis=1)] for task in corpus.classes
    }
    if settings.linear:
        answers = [
            view.logits(*take_documents(corpus.ids, corpus.offsets, held))
            for view, held in zip(plain, held_rows, strict=True)
        ]
        for task in corpus.classes:
            views[task].append(log_softmax(np.concatenate([one[task] for one in answers]), axis=1))
    labels = {task: np.asarray(label) for task, label in corpus.labels.items()}
    pool = fit_pool(views, {task: label[rows] for task, label in labels.items()}, labels)
    linear = mean_view(plain) if plain else None
    model = Ensemble(members=tuple(members), linear=linear, blend=pool.coefficients, lift=pool.lift)
    return Trained(
        model=model,
        histories=histories,
        best_epochs=best_epochs,
        held_out=rows,
        held_out_log_probabilities={task: blended(views[task], pool.coefficients[task]) for task in views},
    )


def start_vectors(
    corpus: Encoded, settings: TrainingSettings, *, seed: int = 0, progress: Progress = silent
) -> np.ndarray | None:
    """Where embeddings start (words, dim), from the corpus's text; None where the settings say at random."""
    if not settings.vectors:
        return None
    progress("word vectors", 0, 1)
    vectors = word_vectors(
        corpus.ids, corpus.offsets, vocabulary_size=corpus.vocabulary_size, dim=settings.dim, seed=seed
    )
    progress("word vectors", 1, 1)
    return settings.vectors * vectors


def member_seed(seed: int, number: int) -> int:
    """A member's seed; the first one's is the run's own.

    >>> member_seed(7, 0), member_seed(7, 1) == member_seed(8, 0)
    (7, False)
    """
    return seed if number == 0 else int.from_bytes(hashlib.sha256(f"{seed} {number}".encode()).digest()[:4])


def linear_view(corpus: Encoded, rows: np.ndarray) -> LinearView:
    """A logistic regression a task on the given documents."""
    ids, offsets = take_documents(corpus.ids, corpus.offsets, rows)
    idf = word_weights(ids, offsets, vocabulary_size=corpus.vocabulary_size)
    documents = weighted_counts(ids, offsets, idf)
    weights, biases = {}, {}
    for task, names in corpus.classes.items():
        weights[task], biases[task] = fit_linear(
            documents,
            np.asarray(corpus.labels[task])[rows],
            classes=len(names),
            strength=LINEAR_STRENGTH,
            balance=LINEAR_BALANCE,
            iterations=LINEAR_ITERATIONS,
        )
    return LinearView(idf=idf, weights=weights, biases=biases)


def mean_view(views: Sequence[LinearView]) -> LinearView:
    """The views' mean; the mean of linear models is the linear model of their mean weights."""
    return LinearView(
        idf=np.mean([view.idf for view in views], axis=0),
        weights={task: np.mean([view.weights[task] for view in views], axis=0) for task in views[0].weights},
        biases={task: np.mean([view.biases[task] for view in views], axis=0) for task in views[0].biases},
    )


def mean_log_probability(logits: Sequence[np.ndarray]) -> np.ndarray:
    """Log of the members' mean probability, each of logits (documents, classes)."""
    return logsumexp([log_softmax(one, axis=1) for one in logits], axis=0) - np.log(len(logits))
