"""The audit of a model that can be trained again: shadows, all attacks, controls, both protocols.

Works from arrays alone (encoded documents, the attacked model's logits, its settings), so it runs where the reports are
not. ``audit.run`` makes the arrays from files; studies make them themselves.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel

from pathveil.audit import attacks, battery, controls, evidence, metrics, rarity, shokri
from pathveil.audit.answers import Answers, Logits, from_store
from pathveil.audit.canaries import plant
from pathveil.audit.engines import averaged
from pathveil.audit.evidence import MATCHED, Records, Score
from pathveil.audit.predictions import score
from pathveil.audit.shadows import Inside, Job, Sampling, Store, Trainer, jobs_of, train, trained_on
from pathveil.errors import UsageError
from pathveil.progress import Progress, silent
from pathveil.training.settings import TrainingSettings
from pathveil.vocabulary.encoded import Encoded

FEWEST_TO_TRAIN = 20  # cases a shadow's pool must have
CANARY_BASE = 500  # documents beside the canaries, at most


@dataclass(frozen=True)
class Subject:
    """A model under audit, and the documents it is audited with."""

    corpus: Encoded  # all documents below, labelled with the model's classes (−1 where it has none)
    members: np.ndarray  # rows it was trained on
    non_members: np.ndarray  # rows it was not
    attacker: np.ndarray  # rows an attacker owns, none of them members; may be empty, may overlap the non-members
    logits: Logits  # the model's, on all documents
    settings: BaseModel  # how it was trained, as the workshop's trainer takes it
    epochs: int | None = None  # how many passes its weights have seen, where known

    def records(self, rows: np.ndarray) -> Records:
        corpus = self.corpus
        return Records(
            member=np.isin(rows, self.members),
            cases=corpus.cases[rows],
            labels={task: np.asarray(corpus.labels[task])[rows].astype(np.int64) for task in corpus.tasks},
            classes=corpus.classes,
            registries=corpus.registries[rows],
        )

    @property
    def shadow_settings(self) -> BaseModel:
        """The auditor's shadows: the target's settings, stopped where it stopped, so that nothing is held out."""
        if self.epochs is None or not isinstance(self.settings, TrainingSettings):
            return self.settings
        return self.settings.changed(epochs=self.epochs, patience=None, validation_share=0.0)


@dataclass(frozen=True)
class Workshop:
    """Where models are trained, and where their answers are kept."""

    trainer: Trainer
    store: Path
    device: str = "cpu"
    networks: int = 1  # that a shadow averages, as the model may do
    inside: Inside = trained_on
    inputs: Mapping[str, Any] = field(default_factory=dict)  # what else determines a trained model's answers
    progress: Progress = silent

    def train(self, corpus: Encoded, jobs: Sequence[Job], settings: BaseModel, *, stage: str, **inputs: Any) -> Store:
        """The store that holds the jobs' answers, trained now where they are not there yet."""
        several = {"networks": self.networks} if self.networks > 1 else {}
        store = Store(self.store, corpus, settings, {"device": self.device[:4], **several, **self.inputs, **inputs})
        trainer = averaged(self.trainer, self.networks)
        train(
            corpus,
            jobs,
            settings,
            store=store,
            trainer=trainer,
            inside=self.inside,
            progress=self.progress,
            stage=stage,
        )
        return store


@dataclass(frozen=True)
class Family:
    """Shadows trained on parts of one pool."""

    name: str
    jobs: list[Job]
    store: Store
    settings: BaseModel
    pool: np.ndarray

    def answers(self, labels: dict[str, np.ndarray], main_task: str, features: shokri.Features) -> Answers:
        return from_store(self.store, self.jobs, labels, main_task=main_task, pool=self.pool, features=features)


def check(subject: Subject) -> None:
    """Overlaps that would make an audit meaningless."""
    cases = subject.corpus.cases
    both = np.intersect1d(cases[subject.members], cases[subject.non_members])
    if len(both):
        raise UsageError(
            f"{len(both)} cases are among the members and the non-members; membership goes by case, so a case may be "
            "on one side only"
        )
    owned = np.intersect1d(cases[subject.members], cases[subject.attacker])
    if len(owned):
        raise UsageError(f"{len(owned)} cases of the attacker's corpus are members; an attacker does not own those")
    for name, rows in (("members", subject.members), ("non-members", subject.non_members)):
        if len(np.unique(cases[rows])) < FEWEST_TO_TRAIN:
            raise UsageError(
                f"an audit needs at least {FEWEST_TO_TRAIN} cases of {name}; got {len(np.unique(cases[rows]))}"
            )


def train_families(
    subject: Subject, workshop: Workshop, *, shadows: int, sampling: Sampling, seed: int
) -> tuple[Family | None, Family]:
    """The attacker's shadows (where there is a corpus for them) and the auditor's, trained or found in the store."""
    corpus = subject.corpus

    def family(name: str, pool: np.ndarray, settings: BaseModel, kind: Sampling) -> Family:
        jobs = jobs_of(corpus, pool, count=shadows, sampling=kind, seed=seed)
        stage = f"the {name}'s shadows"
        found = workshop.train(corpus, jobs, settings, stage=stage, family=name, sampling=kind, seed=seed)
        return Family(name, jobs, found, settings, pool)

    attacker = None
    if len(np.unique(corpus.cases[subject.attacker])) >= FEWEST_TO_TRAIN:
        attacker = family("attacker", np.sort(subject.attacker), subject.settings, sampling)
    pool = np.sort(np.concatenate([subject.members, subject.non_members]))
    return attacker, family("auditor", pool, subject.shadow_settings, "split")


def examine(
    subject: Subject,
    workshop: Workshop,
    *,
    shadows: int = 20,
    sampling: Sampling = "split",
    edges: Sequence[int] = rarity.EDGES,
    fprs: Sequence[float] = metrics.FPRS,
    kind: shokri.Kind = "mlp",
    features: shokri.Features = "sorted",
    seed: int = 0,
) -> dict[str, Any]:
    """All rows, curves, controls and the spread over targets, with the scores and the records they belong to."""
    check(subject)
    attacker, auditor = train_families(subject, workshop, shadows=shadows, sampling=sampling, seed=seed)
    rows = np.concatenate([subject.members, subject.non_members])
    records = subject.records(rows)
    labels = {task: np.asarray(subject.corpus.labels[task]).astype(np.int64) for task in subject.corpus.tasks}
    main = records.main_task
    theirs = None if attacker is None else attacker.answers(labels, main, features)
    ours = auditor.answers(labels, main, features)
    settings: dict[str, Any] = {"labels": labels, "kind": kind, "features": features, "seed": seed}
    scores = battery.all_scores(subject.logits, records, rows, attacker=theirs, auditor=ours, **settings)
    found = {
        "records": records,
        "rows_of_records": rows,
        "scores": scores,
        "rows": evidence.measure(scores, records, edges=edges, fprs=fprs, seed=seed, progress=workshop.progress),
        "curves": evidence.curves(_strongest_settings(controls.overall(scores)), records),
        "spread": battery.spread(ours, records, rows, fprs),
    }
    null = _null(subject, workshop, records, rows, attacker, theirs, ours, settings)
    planted = _planted(subject, workshop, seed=seed)
    return found | {"controls": [null, planted]}


def _strongest_settings(scores: Sequence[Score]) -> list[Score]:
    """Of each attack the score with the most shadows."""
    most = {one.attack: max(other.shadows for other in scores if other.attack == one.attack) for one in scores}
    return [one for one in scores if one.shadows == most[one.attack] and not one.whole_only]


def _null(
    subject: Subject,
    workshop: Workshop,
    records: Records,
    rows: np.ndarray,
    attacker: Family | None,
    theirs: Answers | None,
    ours: Answers,
    settings: dict[str, Any],
) -> dict[str, Any]:
    """All attacks on a model that was trained without the members: 0.5, or the two sides differ by more than that."""
    name = "a model trained without the members"
    home = ~records.member & ~records.foreign
    if not home.any():
        return {
            "name": f"{name} (no unseen cases of the members' registries were given)",
            "kind": "null",
            "holds": False,
            "attacks": [],
        }
    corpus = subject.corpus
    if attacker is not None and theirs is not None and theirs.models > 1:
        job, its_store = attacker.jobs[0], attacker.store
        theirs = theirs.only(list(range(1, theirs.models)))
    else:  # no corpus of the attacker's: half of the unseen cases make a model, the other half are attacked
        theirs = None
        cases = np.unique(records.cases[home])
        chosen = cases[np.random.default_rng([settings["seed"], 4]).permutation(len(cases)) < len(cases) / 2]
        job = Job(0, rows[home & np.isin(records.cases, chosen)], seed=settings["seed"])
        its_store = workshop.train(corpus, [job], subject.shadow_settings, stage="null control", family="null")
    logits, _ = its_store.read(job, corpus.documents)
    # What the null model saw, to learn or to stop by, is on neither side.
    kept = (records.member | home) & ~np.isin(corpus.cases[rows], corpus.cases[job.rows])
    part = replace(
        records,
        member=records.member[kept],
        cases=records.cases[kept],
        labels={task: label[kept] for task, label in records.labels.items()},
        registries=None,
    )
    scores = battery.all_scores(logits, part, rows[kept], attacker=theirs, auditor=ours, curve=False, **settings)
    wide = [*controls.overall(scores), *(one for one in scores if one.attack == "shadow classifiers")]
    unique = list({(one.attack, one.task): one for one in wide}.values())
    return controls.judged_null(f"{name} ({MATCHED})", part, unique, seed=settings["seed"])


def _planted(subject: Subject, workshop: Workshop, *, seed: int) -> dict[str, Any]:
    """Canaries in a training set of the same kind, attacked by what needs no shadows."""
    corpus = subject.corpus
    base = subject.attacker if len(subject.attacker) else subject.non_members
    base = np.sort(np.random.default_rng([seed, 5]).permutation(base)[:CANARY_BASE])
    planted = plant(corpus, base, seed=seed)
    its_store = workshop.train(planted.corpus, [planted.job], subject.settings, stage="planted leak", family="canaries")
    logits, inside = its_store.read(planted.job, planted.corpus.documents)
    # A canary held out to stop by was not learned: it counts as not planted.
    member = inside[planted.canaries]
    records = Records(
        member=member,
        cases=planted.corpus.cases[planted.canaries],
        labels={task: planted.corpus.labels[task][planted.canaries].astype(np.int64) for task in corpus.tasks},
        classes=corpus.classes,
    )
    answers = {task: np.exp(attacks.log_softmax(logits[task][planted.canaries])) for task in corpus.tasks}
    return controls.found(
        "canaries planted in a training set", records, controls.overall(score(records, answers, seed=seed)), seed=seed
    )
