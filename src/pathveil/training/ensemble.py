"""Several networks and a linear view as one model, weighed by what they say about cases they never saw.

Each member holds out validation cases of its own (so every case teaches most members) and stops by them. What a member
says about its held-out cases is what it would say about new ones: on these predictions the views are weighed against
each other, the probabilities calibrated and rare classes lifted (``pathveil.training.blend``). Nothing is chosen on
test cases, and nothing is judged on the cases it was chosen by.

>>> import numpy as np
>>> one, other = np.log([[0.8, 0.2]]), np.log([[0.4, 0.6]])
>>> np.exp(mean_log_probability([one, other])).round(2).tolist()
[[0.6, 0.4]]
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from threading import Event, Lock
from typing import Any, Unpack

import numpy as np
import torch

from pathveil.model import MTCNN, TokenBatch
from pathveil.model.inference import Tabulated
from pathveil.model.threads import side_by_side, spread
from pathveil.progress import Progress, silent
from pathveil.training.accounting import Privacy
from pathveil.training.batches import hold_out_cases
from pathveil.training.blend import HeldOut, blended, cross_fit, fit_pool, log_softmax
from pathveil.training.defences import DPSettings, OwnDefence, TeacherSettings
from pathveil.training.linear import word_weights
from pathveil.training.linear_view import FEW, LinearView, PlainViews, linear_view, linear_views
from pathveil.training.loop import Fitted, check_cases, document_logits, fit, logits_of, split
from pathveil.training.own_defence import defended
from pathveil.training.settings import TrainingSettings
from pathveil.training.stacked import ManyOptions, logits_many
from pathveil.training.teachers import teach
from pathveil.training.vectors import word_vectors
from pathveil.vocabulary.encoded import EncodedCorpus, take_documents


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
        linear = self.linear and replace(
            self.linear,  # a word's weights side by side
            weights={task: np.asfortranarray(weight) for task, weight in self.linear.weights.items()},
        )
        return replace(self, tables=tuple(Tabulated(member) for member in self.members), linear=linear)

    def log_probabilities(
        self, ids: np.ndarray, offsets: np.ndarray, *, progress: Progress = silent
    ) -> dict[str, np.ndarray]:
        """Each task's calibrated log-probabilities (documents, classes) of documents that lie end to end."""
        if len(offsets) - 1 <= FEW:
            return self._weigh([logits for logits, _, _ in self._read(ids, offsets)], ids, offsets)
        members = self.tables or self.members
        return self._weigh(
            [document_logits(member, ids, offsets, progress=progress) for member in members], ids, offsets
        )

    def read_windows(
        self, ids: np.ndarray, offsets: np.ndarray
    ) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
        """The same for a few documents, with what is behind it: features, and the word of its document at which the
        window that won each one starts (−1 for a feature of zero), both (documents, members, K, F)."""
        logits, features, starts = zip(*self._read(ids, offsets), strict=True)
        places = np.stack(starts, 1)
        places = np.where(places < 0, -1, places - offsets[:-1, None, None, None])
        return self._weigh(logits, ids, offsets), np.stack(features, 1), places

    def _read(self, ids: np.ndarray, offsets: np.ndarray) -> list[tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]]:
        """Each member's logits a task, features and windows' starts. Members are shared out among the threads: a report
        alone would keep them busy for too short a time in each member's turn."""
        members = self.tables or self.members
        batch = TokenBatch(ids=ids, offsets=offsets).to(members[0].device)
        found: list[Any] = [None] * len(members)

        @torch.no_grad()
        def read(number: int) -> None:
            features, starts = members[number].chosen(batch)  # (B, K, F)
            logits = members[number].logits(features.flatten(1))
            said = {task: scores.float().cpu().numpy() for task, scores in logits.items()}
            found[number] = said, features.cpu().numpy(), starts.cpu().numpy()

        spread(read, range(len(members)))
        return found

    def _weigh(
        self, logits: Sequence[Mapping[str, np.ndarray]], ids: np.ndarray, offsets: np.ndarray
    ) -> dict[str, np.ndarray]:
        """The members' logits and the linear view's as one answer, (documents, classes) a task."""
        linear = self.linear.logits(ids, offsets) if self.linear else None
        found = {}
        for task, coefficients in self.blend.items():
            views = [mean_log_probability([one[task] for one in logits])]
            if linear is not None:
                views.append(log_softmax(linear[task]))
            found[task] = blended(views, coefficients)
        return found


@dataclass(frozen=True)
class Trained:
    """A trained model with what happened on the way and what it says about cases it never saw."""

    model: Ensemble
    histories: list[list[dict[str, Any]]]  # a member's epochs
    best_epochs: list[int]
    held_out: HeldOut
    privacy: Privacy | None = None  # what differentially private training promises


def train(
    corpus: EncodedCorpus,
    settings: TrainingSettings,
    *,
    seed: int = 0,
    device: str | torch.device = "cpu",
    workers: int = 1,
    checkpoint: Path | None = None,
    held_out: np.ndarray | None = None,
    progress: Progress = silent,
) -> Trained:
    """Train all members and the linear view, on what the settings' defence makes of the corpus where they have one.

    ``checkpoint`` is a folder; a run killed at any moment continues there. ``workers`` processes share the teachers.
    ``held_out`` are rows that no member learns from and all stop by; without them, each member holds out a share of the
    cases of its own.
    """
    if checkpoint:
        checkpoint.mkdir(parents=True, exist_ok=True)
    start = start_vectors(corpus, settings, seed=seed, progress=progress)
    lessons, own = corpus, settings
    if isinstance(settings.defence, TeacherSettings):
        learners = np.setdiff1d(np.arange(corpus.documents), [] if held_out is None else held_out)
        taught = teach(
            corpus if held_out is None else corpus.take(learners),
            settings,
            seed=seed,
            vectors=start,
            device=str(device),
            workers=workers,
            checkpoint=checkpoint,
            progress=progress,
        )
        lessons = taught if held_out is None else with_lessons(corpus, learners, taught.labels)
        own = settings.changed(defence=None)
    elif isinstance(settings.defence, OwnDefence):
        lessons, own = defended(corpus, settings, seed=seed), settings.changed(defence=None)
    held_rows = [held_out_of(corpus, settings, number, seed, held_out) for number in range(settings.members)]
    judged = held_rows if held_out is None else [held_out]  # the same rows for all answer once
    fitted, plain = fit_views(
        lessons,
        own,
        held_rows,
        judged,
        seed=seed,
        vectors=start,
        device=device,
        checkpoint=checkpoint,
        progress=progress,
    )
    networks = [logits_of(member.model, corpus, held) for member, held in zip(fitted, held_rows, strict=True)]
    views = {task: [log_softmax(np.concatenate([one[task] for one in networks]))] for task in corpus.classes}
    if held_out is not None:  # the same rows for all, so they answer together, as they will new cases
        held_rows = judged
        views = {task: [mean_log_probability([one[task] for one in networks])] for task in corpus.classes}
    linear = None
    if plain is not None:
        linear, answers = plain
        for task in corpus.classes:
            views[task].append(log_softmax(np.concatenate([one[task] for one in answers])))
    members, rows = [member.model for member in fitted], np.concatenate(held_rows)
    privacy = getattr(fitted[0], "privacy", None)
    # Held-out cases taught their network nothing, so their labels may set the few numbers that weigh its answers. Which
    # classes are rare is told by what was taught; in private training by held-out cases, for that costs no privacy.
    common = lessons.labels if privacy is None else {task: np.asarray(corpus.labels[task])[rows] for task in views}
    model, answers = assemble(members, linear, views, corpus, rows, common=common)
    return Trained(
        model=model,
        histories=[member.history for member in fitted],
        best_epochs=[member.best_epoch for member in fitted],
        held_out=answers,
        privacy=privacy,
    )


def ensemble_logits_many(
    corpus: EncodedCorpus,
    members: Sequence[np.ndarray],
    settings: TrainingSettings,
    *,
    seeds: Sequence[int],
    **options: Unpack[ManyOptions],
) -> list[dict[str, np.ndarray]]:
    """Train a whole model on each of ``members`` (rows of the corpus), as many networks as the settings say and the
    linear view; each one's logits on all documents, float16 (documents, classes) a task.

    Networks and linear view count half each: what weighs them in a bundle is fitted to a single model's held-out cases.
    """
    networks: list[list[dict[str, np.ndarray]]] = [[] for _ in members]
    for number in range(settings.members):
        own = [member_seed(seed, number) for seed in seeds]
        for place, logits in logits_many(corpus, members, settings, seeds=own, **options):
            networks[place].append(logits)
    if settings.members == 1 and not settings.linear:
        return [said[0] for said in networks]

    def whole(place: int) -> dict[str, np.ndarray]:
        found = {
            task: mean_log_probability([one[task].astype(np.float32) for one in networks[place]])
            for task in corpus.classes
        }
        if settings.linear:
            ids, offsets = take_documents(corpus.ids, corpus.offsets, members[place])
            idf = word_weights(ids, offsets, vocabulary_size=corpus.vocabulary_size)
            linear = linear_view(corpus, members[place], idf).logits(corpus.ids, corpus.offsets)
            found = {task: blended([said, log_softmax(linear[task])], (0.5, 0.5)) for task, said in found.items()}
        return {task: said.astype(np.float16) for task, said in found.items()}

    return side_by_side([partial(whole, place) for place in range(len(members))])


def held_out_of(
    corpus: EncodedCorpus, settings: TrainingSettings, number: int, seed: int, held_out: np.ndarray | None
) -> np.ndarray:
    """The rows that a member, from 0, does not learn from."""
    if held_out is not None:
        return held_out
    if isinstance(settings.defence, DPSettings):
        return split(corpus.cases, settings, seed=seed)[1]
    if not settings.validation_share:
        return np.arange(0)
    check_cases(corpus.cases)
    return hold_out_cases(corpus.cases, share=settings.validation_share, seed=[seed, 0], part=number)[1]


def fit_views(
    lessons: EncodedCorpus,
    settings: TrainingSettings,
    held_rows: Sequence[np.ndarray],
    judged: Sequence[np.ndarray],
    *,
    seed: int,
    vectors: np.ndarray | None,
    device: str | torch.device,
    checkpoint: Path | None,
    progress: Progress,
) -> tuple[list[Fitted], PlainViews | None]:
    """The networks, each without its held-out rows, and the linear views with their answers on the judged rows.

    On a CPU as many are fitted at once as there are threads: two cores share one network's steps less well than they
    share two networks. Each is the same, to the bit, as when it is fitted alone.
    """
    telling = Together(progress, "training" if len(held_rows) == 1 else "training networks", len(held_rows))

    def network(number: int) -> Fitted:
        return fit(
            lessons,
            settings,
            seed=member_seed(seed, number),
            held_out=held_rows[number],
            vectors=vectors,
            device=device,
            checkpoint=checkpoint / f"member-{number}.safetensors" if checkpoint else None,
            progress=telling.of(number),
        )

    jobs: list[Callable[[], Any]] = [partial(network, number) for number in range(len(held_rows))]
    if settings.linear:
        jobs.append(partial(linear_views, lessons, judged, progress=telling.check))
    found = side_by_side(jobs, stop=telling.stop) if torch.device(device).type == "cpu" else [job() for job in jobs]
    return found[: len(held_rows)], found[-1] if settings.linear else None


class Together:
    """One progress for networks that are trained at the same time; it stops them when one of them fails."""

    def __init__(self, progress: Progress, stage: str, networks: int):
        self.progress, self.stage, self.networks = progress, stage, networks
        self.done, self.total = {}, {}
        self.stop, self.lock = Event(), Lock()

    def check(self, stage: str, done: int, total: int) -> None:
        if self.stop.is_set():
            raise Stopped

    def of(self, number: int) -> Progress:
        """What the network with this number tells how far it is."""

        def tell(stage: str, done: int, total: int) -> None:
            self.check(stage, done, total)
            with self.lock:
                self.done[number], self.total[number] = done, total
                self.progress(self.stage, sum(self.done.values()), self.networks * max(self.total.values()))

        return tell


class Stopped(Exception):
    """Another network failed, or the run was interrupted."""


def with_lessons(corpus: EncodedCorpus, rows: np.ndarray, lessons: Mapping[str, np.ndarray]) -> EncodedCorpus:
    """The corpus with lessons in the place of the labels of some rows; the others keep theirs, to be judged by."""
    labels = {task: np.array(label) for task, label in corpus.labels.items()}
    for task, lesson in lessons.items():
        labels[task][rows] = lesson
    return replace(corpus, labels=labels)


def assemble(
    members: Sequence[MTCNN],
    linear: LinearView | None,
    views: Mapping[str, Sequence[np.ndarray]],
    corpus: EncodedCorpus,
    rows: np.ndarray,
    *,
    common: Mapping[str, np.ndarray] | None = None,
) -> tuple[Ensemble, HeldOut]:
    """Weigh the views by what each says about held-out rows, log-probabilities (rows, classes) a task; and what the
    whole says about these rows when weighed by other cases. ``common`` are the labels whose counts tell rare classes
    from common ones, where they are not the corpus's own."""
    labels = {task: np.asarray(corpus.labels[task])[rows] for task in views}
    all_labels = {task: np.asarray((common or corpus.labels)[task]) for task in views}
    pool = fit_pool(views, labels, all_labels)
    held_out = cross_fit(views, labels, all_labels, rows=rows, cases=corpus.cases[rows])
    return Ensemble(members=tuple(members), linear=linear, blend=pool.coefficients, lift=pool.lift), held_out


def start_vectors(
    corpus: EncodedCorpus, settings: TrainingSettings, *, seed: int = 0, progress: Progress = silent
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


def learned(cases: np.ndarray, settings: TrainingSettings, *, seed: int, networks: int = 1) -> np.ndarray:
    """Find which of a model's documents (documents,) a gradient followed: all but those held out to stop by.

    Of several networks, each with a split of its own, one is enough.

    >>> learned(np.arange(10), TrainingSettings(validation_share=0.2), seed=1).sum()
    np.int64(8)
    """
    inside = np.zeros(len(cases), bool)
    for number in range(networks):
        inside[split(cases, settings, seed=member_seed(seed, number))[0]] = True
    return inside


def member_seed(seed: int, number: int) -> int:
    """A member's seed; the first one's is the run's own.

    >>> member_seed(7, 0), member_seed(7, 1) == member_seed(8, 0)
    (7, False)
    """
    return seed if number == 0 else int.from_bytes(hashlib.sha256(f"{seed} {number}".encode()).digest()[:4])


def mean_log_probability(logits: Sequence[np.ndarray]) -> np.ndarray:
    """Log of the members' mean probability, each of logits (documents, classes)."""
    logs = log_softmax(np.stack(logits))  # (members, documents, classes)
    best = logs.max(0)
    return best + np.log(np.exp(logs - best).mean(0))
