"""The audit of a model that can be trained again: shadows, all attacks, controls, both protocols.

Works from arrays alone (encoded documents, the attacked model's logits, its settings), so it runs where the reports are
not. ``bundle_audit`` makes the arrays from files, ``estimator_audit`` from other people's models; studies make them
themselves.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from pydantic import BaseModel

from pathveil.auditing import attacks, controls, evidence
from pathveil.auditing.all_attacks import all_scores, overall, shadowless_attacks, spread
from pathveil.auditing.attack_names import CLASSIFIERS
from pathveil.auditing.canaries import plant
from pathveil.auditing.controls import Control
from pathveil.auditing.evidence import MATCHED, CanaryRow, Records, Score
from pathveil.auditing.gradients import gradient_scores
from pathveil.auditing.model_answers import Logits, ModelAnswers, answered_codes, answers_of, taught_codes
from pathveil.auditing.own_attacks import OwnAttack
from pathveil.auditing.planted import measure_canaries
from pathveil.auditing.result import Attacked
from pathveil.auditing.settings import AuditSettings
from pathveil.auditing.shadows import Job, Sampling, ShadowTrainer, Store, jobs_of
from pathveil.auditing.worlds import CANARIES
from pathveil.errors import UsageError
from pathveil.rng import generator
from pathveil.training.settings import TrainingSettings
from pathveil.vocabulary.encoded import EncodedCorpus

FEWEST_TO_TRAIN = 20  # cases a shadow's pool must have
CANARY_BASE = 500  # documents beside the canaries, at most


@dataclass(frozen=True)
class AuditedModel:
    """A model under audit, and the documents it is audited with."""

    corpus: EncodedCorpus  # all documents below, labelled with the model's classes (−1 where it has none)
    members: np.ndarray  # rows it was trained on
    non_members: np.ndarray  # rows it was not
    attacker: np.ndarray  # rows an attacker owns, none of them members; may be empty, may overlap the non-members
    logits: Logits  # the model's, on all documents
    settings: BaseModel  # how it was trained, as the engine that trains its shadows takes it
    epochs: int | None = None  # how many passes its weights have seen, where known
    registries_known: bool = True  # else members and non-members may come from different sources
    gradient_norms: np.ndarray | None = None  # (documents,) as ``gradients.norm_scores``, where there are weights
    takes_canaries: bool = True  # made-up documents can be trained on; else a leak is planted in the answers

    @property
    def rows(self) -> np.ndarray:
        """The attacked documents: members, then non-members."""
        return np.concatenate([self.members, self.non_members])

    def records(self, rows: np.ndarray) -> Records:
        corpus = self.corpus
        return Records(
            member=np.isin(rows, self.members),
            cases=corpus.cases[rows],
            labels={task: label[rows] for task, label in self.labels.items()},
            classes=corpus.classes,
            registries=corpus.registries[rows] if self.registries_known else None,
        )

    @property
    def labels(self) -> dict[str, np.ndarray]:
        """Of all documents."""
        return {task: np.asarray(self.corpus.labels[task]).astype(np.int64) for task in self.corpus.tasks}

    @property
    def shadow_settings(self) -> BaseModel:
        """The auditor's shadows: the target's settings, stopped where it stopped, so that nothing is held out."""
        if self.epochs is None or not isinstance(self.settings, TrainingSettings):
            return self.settings
        return self.settings.changed(epochs=self.epochs, patience=None, validation_share=0.0)

    def check(self, *, canaries: int = 0) -> None:
        """Refuse overlaps that would make an audit meaningless, sides that are too small, and canaries that cannot be
        planted, before anything is trained."""
        cases = self.corpus.cases
        if canaries and not isinstance(self.settings, TrainingSettings):
            raise UsageError("canaries are planted in the training of a bundle's model; this audit cannot have any")
        needed, there = len(CANARIES) * canaries, len(np.unique(cases[self.rows]))
        if there < needed:
            raise UsageError(
                f"{canaries} canaries of each of {len(CANARIES)} kinds need {needed} cases; there are {there}"
            )
        both = np.intersect1d(cases[self.members], cases[self.non_members])
        if len(both):
            raise UsageError(
                f"{len(both)} cases are among the members and the non-members; membership goes by case, so a case may "
                "be on one side only"
            )
        owned = np.intersect1d(cases[self.members], cases[self.attacker])
        if len(owned):
            raise UsageError(f"{len(owned)} cases of the attacker's corpus are members; an attacker does not own those")
        for name, rows in (("members", self.members), ("non-members", self.non_members)):
            if len(np.unique(cases[rows])) < FEWEST_TO_TRAIN:
                raise UsageError(
                    f"an audit needs at least {FEWEST_TO_TRAIN} cases of {name}; got {len(np.unique(cases[rows]))}"
                )


@dataclass(frozen=True)
class Family:
    """Shadows trained on parts of one pool, and what they answer."""

    jobs: list[Job]
    store: Store
    answers: ModelAnswers
    taught: Mapping[str, np.ndarray] | None = None  # the codes that shadows which saw a document answer most often


def attack_model(
    model: AuditedModel,
    trainer: ShadowTrainer,
    settings: AuditSettings,
    *,
    fprs: Sequence[float],
    own_attacks: Mapping[str, OwnAttack] | None = None,
) -> Attacked:
    """Train the shadows, run every attack, measure it, and run the controls."""
    model.check(canaries=settings.canaries)
    attacker, auditor = train_families(model, trainer, settings)
    rows = model.rows
    records = model.records(rows)
    shared: dict[str, Any] = {
        "labels": model.labels,
        "taught": auditor.taught,
        "own_attacks": own_attacks,
        "settings": settings,
    }
    theirs = None if attacker is None else attacker.answers
    scores = all_scores(model.logits, records, rows, attacker=theirs, auditor=auditor.answers, **shared)
    if model.gradient_norms is not None:
        scores += _weight_scores(model, records, rows)
    seed = settings.seed
    measured = evidence.measure(scores, records, edges=settings.edges, fprs=fprs, seed=seed, progress=trainer.progress)
    if model.takes_canaries:
        planted = _canaries_found(model, trainer, seed=seed)
    else:
        planted = _planted_leak_found(model, records, rows, theirs, auditor.answers, shared)
    return Attacked(
        records=records,
        scores=scores,
        rows=measured,
        curves=evidence.curves(_with_most_shadows(overall(scores)), records),
        spread=spread(auditor.answers, records, rows, fprs),
        canaries=_canary_rows(model, trainer, settings),
        controls=[_null_control(model, trainer, records, rows, attacker, auditor, shared), planted],
    )


def _weight_scores(model: AuditedModel, records: Records, rows: np.ndarray) -> list[Score]:
    """Attacks that need the weights, on all tasks together."""
    assert model.gradient_norms is not None
    logs = [attacks.log_softmax(model.logits[task][rows]) for task in records.labels]
    labels = [records.labels[task] for task in records.labels]
    losses = attacks.joint([attacks.of_label(log, label) for log, label in zip(logs, labels, strict=True)])
    whole = evidence.TOGETHER if len(records.labels) > 1 else next(iter(records.labels))
    return gradient_scores(model.gradient_norms[rows], losses, task=whole)


def _canary_rows(model: AuditedModel, trainer: ShadowTrainer, settings: AuditSettings) -> list[CanaryRow]:
    if not settings.canaries:
        return []
    trained_by = model.shadow_settings
    assert isinstance(trained_by, TrainingSettings), "checked before"
    return measure_canaries(
        model.corpus.take(np.sort(model.rows)),
        trained_by,
        trainer,
        canaries=settings.canaries,
        models=settings.shadows,
        seed=settings.seed,
    )


def train_families(
    model: AuditedModel, trainer: ShadowTrainer, settings: AuditSettings
) -> tuple[Family | None, Family]:
    """The attacker's shadows (where there is a corpus for them) and the auditor's, trained or found in the store."""
    corpus, labels, seed = model.corpus, model.labels, settings.seed
    main = model.records(model.rows).main_task

    def family(name: str, pool: np.ndarray, trained_by: BaseModel, sampling: Sampling) -> Family:
        jobs = jobs_of(corpus, pool, count=settings.shadows, sampling=sampling, seed=seed)
        stage = f"the {name}'s shadows"
        store = trainer.train(corpus, jobs, trained_by, stage=stage, family=name, sampling=sampling, seed=seed)

        def read() -> Iterator[tuple[Logits, np.ndarray]]:
            return (store.read(job, corpus.documents) for job in jobs)

        taught = taught_codes(answered_codes(read()), labels, corpus.classes) if name == "auditor" else None
        answers = answers_of(
            read(), labels, main_task=main, pool=pool, features=settings.attack_features, taught=taught
        )
        return Family(jobs, store, answers, taught)

    attacker = None
    if len(np.unique(corpus.cases[model.attacker])) >= FEWEST_TO_TRAIN:
        attacker = family("attacker", np.sort(model.attacker), model.settings, settings.sampling)
    return attacker, family("auditor", np.sort(model.rows), model.shadow_settings, "split")


def _with_most_shadows(scores: Sequence[Score]) -> list[Score]:
    """Of each attack the score with the most shadows."""
    most = {one.attack: max(other.shadows for other in scores if other.attack == one.attack) for one in scores}
    return [one for one in scores if one.shadows == most[one.attack] and not one.whole_only]


def _null_control(
    model: AuditedModel,
    trainer: ShadowTrainer,
    records: Records,
    rows: np.ndarray,
    attacker: Family | None,
    auditor: Family,
    shared: dict[str, Any],
) -> Control:
    """All attacks on a model that was trained without the members: 0.5, or the two sides differ by more than that."""
    name, seed = "a model trained without the members", shared["settings"].seed
    home = ~records.member & ~records.foreign
    if not home.any():
        unseen = f"{name} (no unseen cases of the members' registries were given)"
        return Control(name=unseen, kind="null", holds=False)
    corpus = model.corpus
    if attacker is not None and attacker.answers.models > 1:
        job, store = attacker.jobs[0], attacker.store
        theirs = attacker.answers.only(slice(1, None))
    else:  # no corpus of the attacker's: half of the unseen cases make a model, the other half are attacked
        theirs = None
        cases = np.unique(records.cases[home])
        chosen = cases[generator(seed, 4).permutation(len(cases)) < len(cases) / 2]
        job = Job(0, rows[home & np.isin(records.cases, chosen)], seed=seed)
        store = trainer.train(corpus, [job], model.shadow_settings, stage="null control", family="null")
    logits, _ = store.read(job, corpus.documents)
    # What the null model saw, to learn or to stop by, is on neither side.
    kept = (records.member | home) & ~np.isin(corpus.cases[rows], corpus.cases[job.rows])
    part = replace(records.take(kept), registries=None)
    scores = all_scores(logits, part, rows[kept], attacker=theirs, auditor=auditor.answers, curve=False, **shared)
    wide = [*overall(scores), *(one for one in scores if one.attack == CLASSIFIERS)]
    unique = list({(one.attack, one.task): one for one in wide}.values())
    return controls.judge_null(f"{name} ({MATCHED})", part, unique, seed=seed)


def _canaries_found(model: AuditedModel, trainer: ShadowTrainer, *, seed: int) -> Control:
    """Canaries in a training set of the same kind, attacked by what needs no shadows.

    The model that learns them has no defence: whether attacks find what is there to be found is the question here.
    """
    corpus = model.corpus
    base = model.attacker if len(model.attacker) else model.non_members
    base = np.sort(generator(seed, 5).permutation(base)[:CANARY_BASE])
    planted = plant(corpus, base, seed=seed)
    settings = model.settings
    if isinstance(settings, TrainingSettings):
        settings = settings.changed(defence=None, word_dropout=0.0, robustness=0.0)
    store = trainer.train(planted.corpus, [planted.job], settings, stage="planted leak", family="canaries")
    logits, inside = store.read(planted.job, planted.corpus.documents)
    records = Records(
        member=inside[planted.canaries],  # a canary held out to stop by was not learned: it counts as not planted
        cases=planted.corpus.cases[planted.canaries],
        labels={task: planted.corpus.labels[task][planted.canaries].astype(np.int64) for task in corpus.tasks},
        classes=corpus.classes,
    )
    answers = {task: np.exp(attacks.log_softmax(logits[task][planted.canaries])) for task in corpus.tasks}
    scores = overall(shadowless_attacks(records, answers, seed=seed))
    return controls.judge_planted("canaries planted in a training set", records, scores, seed=seed)


def _planted_leak_found(
    model: AuditedModel,
    records: Records,
    rows: np.ndarray,
    theirs: ModelAnswers | None,
    ours: ModelAnswers,
    shared: dict[str, Any],
) -> Control:
    """A leak planted in the answers on non-members, attacked by everything."""

    def attack(planted: Records, moved: Mapping[str, np.ndarray], places: np.ndarray) -> list[Score]:
        logits = {task: np.array(model.logits[task], np.float64) for task in moved}
        for task, answer in moved.items():
            logits[task][rows[places]] = np.log(np.maximum(answer, attacks.SMALLEST))
        return all_scores(logits, planted, rows[places], attacker=theirs, auditor=ours, curve=False, **shared)

    answers = {task: np.exp(attacks.log_softmax(model.logits[task][rows])) for task in records.labels}
    return controls.planted_leak(records, answers, seed=shared["settings"].seed, attack=attack)
