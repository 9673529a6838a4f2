"""The distribution study: modes × seeds over registries that share no reports, as a resumable run.

A unit of work is one mode with one seed. For every seed the registries' cases are split anew (or the newest are the
test, whatever the seed), the vocabulary is chosen from the training documents alone (words that enough of their cases
hold; in the paper, enough of them), and the mode is trained and judged on the unseen cases. Registries can be pooled
into larger sites (``groups``), as when halves stand for two registries.
"""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field, field_validator, model_validator

from pathveil.auditing import evidence
from pathveil.auditing.resamples import resample
from pathveil.disclosure import may_be_told
from pathveil.errors import UsageError, VocabularyError, meant
from pathveil.federation.release import Release
from pathveil.federation.run import (
    LARGEST_SEED,
    MODES,
    Mode,
    Outcome,
    cases_of,
    check_sites,
    result_of,
    run,
    unseen_rows,
)
from pathveil.federation.settings import FederationSettings, strong_with
from pathveil.progress import Progress, silent
from pathveil.studies.findings import distribution_findings, modes_compared, resampled_modes
from pathveil.studies.held_out import HeldOutSettings
from pathveil.studies.over_cases import ResampledFigures
from pathveil.studies.rows import Provenance, StudyWarning
from pathveil.studies.scheduler import Keep, Parts, Unit, finish, last_epoch_warnings, seconds_of
from pathveil.studies.settings import Names, Numbers, each_once, naming_errors, not_empty, validated
from pathveil.studies.statistics import CONFIDENCE
from pathveil.studies.store import Cells
from pathveil.studies.study_corpus import provenance, read_study_corpus, relabelled, table_of
from pathveil.studies.tables import (
    ClassScore,
    DistributionResult,
    MembershipRow,
    ProbeRow,
    RegistryClassScore,
    RegistryScore,
    TrafficRow,
)
from pathveil.studies.training_choice import recommend_training
from pathveil.training.metrics import evaluate
from pathveil.training.workers import Crew
from pathveil.vocabulary.encoded import EncodedCorpus
from pathveil.vocabulary.encoding import id_table
from pathveil.vocabulary.words import FIRST_WORD, Vocabulary, hash_order


class DistributionSettings(HeldOutSettings):
    """What a distribution study compares."""

    modes: tuple[str, ...] = ("single", "centralized", "adversarial")
    arms: Mapping[str, Mapping[str, Any]] = Field(
        default_factory=dict
    )  # more of them: a name, and the 'mode' it changes with what it changes
    rehearsal: bool = False  # test cases are left out altogether and a share of the others takes their place
    seeds: Numbers = (1,)
    tasks: Names | None = None  # None: the usual ones that the corpus has
    groups: Mapping[str, tuple[str, ...]] = Field(
        default_factory=dict
    )  # pooled site: its registries; empty: each alone
    minimum_cases: int = Field(5, ge=1)  # training cases that must hold a word, over all registries
    minimum_documents: int | None = Field(None, ge=1)  # training documents that must, as in the paper, and not cases
    vocabulary: str | None = None  # a vocabulary file agreed on beforehand, instead of that rule
    release: bool = False  # keep each arm's shared encoder, for registries that join later
    class_samples: int = Field(100, ge=10)  # reports of a class that let it be among the ten most or least frequent
    tolerated: float = Field(0.6, ge=0.5, le=1)  # the largest upper bound of the attacker's AUC that may be released
    fixed_epochs: int | None = Field(None, ge=1)  # so many for every arm, whatever its validation cases say
    training: Mapping[str, Any] = Field(default_factory=dict)  # changes to the federation's settings

    @field_validator("modes")
    @classmethod
    def known_modes(cls, modes: tuple[str, ...]) -> tuple[str, ...]:
        return known_modes(modes)

    @field_validator("seeds")
    @classmethod
    def from_nought(cls, seeds: tuple[int, ...]) -> tuple[int, ...]:
        for seed in not_empty(seeds):
            if not 0 <= seed <= LARGEST_SEED:
                problem = "negative" if seed < 0 else "too large"
                raise ValueError(f"{seed} is {problem}; seeds are different, from 0 to {LARGEST_SEED}")
        return seeds

    @field_validator("groups")
    @classmethod
    def one_site_each(cls, groups: Mapping[str, tuple[str, ...]]) -> Mapping[str, tuple[str, ...]]:
        for group, members in groups.items():
            if not members:
                raise ValueError(f"'{group}' is empty; name at least one registry")
        pooled = [member for members in groups.values() for member in members]
        for member in pooled:
            if pooled.count(member) > 1:
                raise ValueError(f"registry '{member}' is there twice; a registry's reports go to one site")
        return groups

    @field_validator("training")
    @classmethod
    def known_training(cls, training: Mapping[str, Any]) -> Mapping[str, Any]:
        validated(FederationSettings, training)
        return training

    @model_validator(mode="after")
    def known_arms(self) -> "DistributionSettings":
        if not self.modes and not self.arms:
            raise ValueError("'modes' is empty and there are no 'arms'; name at least one")
        for arm, changes in self.arms.items():
            if arm in ARMS:
                raise ValueError(f"arm '{arm}' has the name of a mode; give it another")
            mode = changes.get("mode")
            if mode not in MODES:
                raise ValueError(
                    f"arm '{arm}' needs the 'mode' it changes, one of {', '.join(MODES)}{meant(str(mode), MODES)}"
                )
            try:
                self.config(arm)
            except ValueError as error:
                raise ValueError(f"arm '{arm}': {error}") from None
        return self

    @property
    def minimum(self) -> tuple[int, str]:
        """How many training cases, or documents, must hold a word."""
        return (
            (self.minimum_cases, "cases") if self.minimum_documents is None else (self.minimum_documents, "documents")
        )

    def mode(self, arm: str) -> Mode:
        """The mode of training behind an arm."""
        if arm in self.arms:
            return self.arms[arm]["mode"]
        return mode_of(arm)

    def config(self, arm: str) -> FederationSettings:
        """The settings of an arm: its mode's, then the study's changes, then its own."""
        training = with_fixed_epochs(self.training, self.fixed_epochs)
        if arm not in self.arms:
            return config_of(arm, training)
        own = {name: value for name, value in self.arms[arm].items() if name != "mode"}
        return config_of(self.mode(arm), {**training, **own})


# An arm is a mode of training, or one with a part switched off.
ARMS: dict[str, dict[str, Any]] = {mode: {} for mode in MODES} | {
    "no-adversary": {"adversary": 0.0},
    "no-orthogonality": {"orthogonality": 0.0},
}


def mode_of(arm: str) -> Mode:
    """The mode of training behind an arm that is a mode, or one with a part switched off."""
    return next((mode for mode in MODES if mode == arm), "adversarial")


def known_modes(modes: tuple[str, ...]) -> tuple[str, ...]:
    """The modes, each of which must be one."""
    for mode in modes:
        if mode not in ARMS:
            raise ValueError(f"'{mode}' is not a mode; expected one of {', '.join(ARMS)}{meant(mode, ARMS)}")
    return each_once(modes)


def with_fixed_epochs(training: Mapping[str, Any], epochs: int | None) -> dict[str, Any]:
    """The changes with so many epochs, of which the last is kept.

    >>> config = config_of("single", with_fixed_epochs({}, 7))
    >>> [epoch for epoch in range(7) if config.may_keep(epoch)]
    [6]
    """
    return {**training} if epochs is None else {**training, "epochs": epochs, "keep_from": 1 - 0.5 / epochs}


def config_of(arm: str, changes: Mapping[str, Any]) -> FederationSettings:
    """The settings of an arm: its preset, then the study's changes, then what the arm itself switches off."""
    return validated(FederationSettings, {**(strong_with(changes) if arm == "strong" else changes), **ARMS[arm]})


def at_cap(config: FederationSettings, epochs: Sequence[int]) -> list[bool]:
    """Of models that kept these epochs, which were best at the last one allowed. Where only the end may be kept, as
    with fixed epochs or a learning rate that falls to 0, it was meant.

    >>> at_cap(FederationSettings(epochs=4), [3, 4]), at_cap(FederationSettings.strong(epochs=4), [3, 4])
    ([False, True], [False, False])
    """
    return [config.keep_from == 0 and epoch == config.epochs for epoch in epochs]


class DistributionStudy:
    """A distribution study on one corpus: its arms, what is left to do, and the result."""

    def __init__(self, corpus: Path, settings: DistributionSettings, *, out: Path, progress: Progress = silent):
        self.settings, self.out, self.progress = settings, out, progress
        with naming_errors("'vocabulary'"):
            self.agreed = Vocabulary.load(Path(settings.vocabulary)) if settings.vocabulary else None
        self.cells = Cells(out / "cells")
        self.store, everything = read_study_corpus(corpus, tasks=settings.tasks, progress=progress)
        self.corpus = pooled_registries(everything, settings.groups)
        self.order = np.array(hash_order(self.store.words), np.int64)
        arms = (*settings.modes, *settings.arms)
        self.arms = [(seed, arm) for seed in settings.seeds for arm in arms]
        self.configs = {arm: settings.config(arm) for arm in arms}
        for seed in settings.seeds:  # before anything is written
            check_sites(self.corpus, settings.unseen(self.corpus, seed=seed))

    def parts(self, seed: int, arm: str) -> dict[str, Any]:
        names = {"tasks", "groups", "minimum_cases", "minimum_documents", "rehearsal", "release"}
        return {
            "study": "distribution",
            "corpus": self.store.provenance["corpus_sha256"],
            "text": self.store.provenance["text"],
            "arm": arm,
            "seed": seed,
            "config": self.configs[arm].model_dump(),
            "scores": 3,  # raised when what is kept of an arm's scores changes
            "settings": self.settings.model_dump(include=names)
            | self.settings.parts
            | {"vocabulary": self.agreed.sha256 if self.agreed else None},
        }

    @property
    def words(self) -> tuple[np.ndarray | None, int]:
        """The agreed words as a table of ids and their number; none where each seed's training documents choose."""
        return (id_table(self.store, self.agreed), self.agreed.size) if self.agreed else (None, 0)

    def units(self, *, device: str) -> list[Unit]:
        """Everything the study needs done."""
        table, size = self.words
        held = self.settings.unseen(self.corpus, seed=1)
        documents = self.corpus.documents - sum(map(len, held.values()))
        return [
            Unit(
                name=f"{arm}, seed {seed}",
                cells=(self.parts(seed, arm),),
                function=train_arm,
                arguments=(
                    *(arm, seed, self.configs[arm], self.settings),
                    *(table, size, self.order, device, self.parts(seed, arm)),
                ),
                kind=arm,
                documents=documents,
                epochs=self.configs[arm].epochs,
            )
            for seed, arm in self.arms
        ]

    def run(self, *, crew: Crew, device: str) -> DistributionResult:
        """Do what is left, and put everything together."""
        finish(
            self.units(device=device),
            cells=self.cells,
            crew=crew,
            corpus=self.corpus,
            device=device,
            progress=self.progress,
            stage="distribution study",
        )
        if self.settings.release:
            self.write_releases()
        return self.result()

    def write_releases(self) -> None:
        """Write the shared encoder of every arm that has one to ``shared/<arm>-<seed>``, in place of all before."""
        shutil.rmtree(self.out / "shared", ignore_errors=True)
        for seed, arm in self.arms:
            values, arrays = self.cells.read(self.parts(seed, arm))
            kept = arrays.pop("words", None)
            arrays = {name: array for name, array in arrays.items() if not name.startswith("said-")}
            if not arrays:
                continue
            config, words = self.configs[arm], self.agreed
            if words is None and kept is not None:
                least, unit = self.settings.minimum
                method = f"{unit} >= {least}"
                words = Vocabulary(tuple(self.store.words[number] for number in kept), method)
            Release(
                tensors=arrays,
                shape={"dim": config.dim, "windows": list(config.windows), "filters": config.filters},
                classes=self.corpus.classes,
                text=self.store.provenance["text"],
                vocabulary=words,
                provenance={
                    "mode": arm,
                    "seed": seed,
                    "config": config.model_dump(mode="json"),
                    "registries": list(self.corpus.registry_names),
                    "probe": values["probe"],
                },
            ).save(self.out / "shared" / f"{arm}-{seed}")

    def result(self) -> DistributionResult:
        scores: list[RegistryScore] = []
        per_class: list[RegistryClassScore] = []
        classes: list[ClassScore] = []
        probes: list[ProbeRow] = []
        attacks: list[MembershipRow] = []
        traffic: list[TrafficRow] = []
        sizes = {}
        for seed, arm in self.arms:
            values = self.cells.read(self.parts(seed, arm))[0]
            sizes[str(seed)] = values["vocabulary"]
            scores += [RegistryScore(**row) for row in values["scores"]]
            per_class += [RegistryClassScore(**row) for row in values["per_class"]]
            classes += [ClassScore(**row) for row in values["classes"]]
            probes += [ProbeRow(**row) for row in values["probe"]]
            attacks += [MembershipRow(**row) for row in values["membership"]]
            for row in values["traffic"]:
                traffic.append(TrafficRow(**row, at_cap=at_cap(self.configs[arm], row["epoch"])))
        adversaries = ("adversarial", *(["strong"] if "strong" in self.settings.modes else []))
        resampled = self.resampled(scores, per_class, adversaries)
        found = distribution_findings(
            scores, per_class=per_class, probes=probes, adversaries=adversaries, resampled=resampled
        )
        beside = [
            one.difference(CONFIDENCE)
            for arm in self.settings.arms
            for one in modes_compared(scores, arm, self.settings.mode(arm), near=False, resampled=resampled)
        ]
        return DistributionResult(
            study="distribution",
            settings=self.settings.model_dump(mode="json"),
            provenance=Provenance(**provenance(self.store, self.corpus), vocabulary_sizes=sizes),
            scores=scores,
            per_class=per_class,
            classes=classes,
            probe=probes,
            membership=attacks,
            traffic=traffic,
            recommendation=recommend_training(
                scores,
                attacks,
                probes,
                arms={arm: self.settings.mode(arm) for arm in self.settings.arms},
                words=round(sum(sizes.values()) / len(sizes)),
                tolerated=self.settings.tolerated,
            ),
            findings=found["adversarial"],
            findings_of_strong=found.get("strong", []),
            arms=beside,
            warnings=[*self.last_epochs(traffic), *self.not_agreed()],
        )

    def resampled(
        self, scores: Sequence[RegistryScore], per_class: Sequence[RegistryClassScore], adversaries: Sequence[str]
    ) -> ResampledFigures | None:
        """What other cases would have made of the figures that are compared; where there are several seeds."""
        settings = self.settings
        if len(settings.seeds) < 2 or settings.rehearsal:
            return None
        wanted = {"single", "centralized", *adversaries, *settings.arms, *map(settings.mode, settings.arms)}
        answers = (
            (arm, seed, settings.unseen(self.corpus, seed=seed), self.cells.read(self.parts(seed, arm))[1])
            for seed, arm in self.arms
            if arm in wanted
        )
        return resampled_modes(self.corpus, answers, scores, per_class, adversaries)

    def last_epochs(self, traffic: Sequence[TrafficRow]) -> list[StudyWarning]:
        found = []
        for arm in self.configs:
            caps = [cap for row in traffic if row.mode == arm for cap in row.at_cap]
            found += last_epoch_warnings(f"models of {arm}", caps)
        return found

    def not_agreed(self) -> list[StudyWarning]:
        """A warning where a shared encoder is left to give away, with words that nobody has agreed on."""
        given = {"adversarial", "strong"} & {self.settings.mode(arm) for arm in self.configs}
        if not self.settings.release or self.agreed or not given:
            return []
        least, unit = self.settings.minimum
        text = (
            f"the words in shared/ are those that at least {least} training {unit} hold, "
            "people's names perhaps among them: agree on words and give them with --vocab before a shared encoder is "
            "given away"
        )
        return [StudyWarning(kind="words not agreed", text=text)]

    def choices(self) -> None:
        """Words are those that enough training documents hold, or agreed on: no sentence chooses them."""

    def seconds(self) -> list[dict[str, Any]]:
        """What each finished cell took."""
        return seconds_of(self.cells, [self.parts(seed, arm) for seed, arm in self.arms])


def train_arm(
    corpus: EncodedCorpus,
    arm: str,
    seed: int,
    config: FederationSettings,
    settings: DistributionSettings,
    table: np.ndarray | None,
    size: int,
    order: np.ndarray,
    device: str,
    parts: Parts,
    keep: Keep,
    progress: Progress,
) -> None:
    """One arm with one seed: its split, its words (given as a table, or those frequent in training), its scores."""
    unseen = settings.unseen(corpus, seed=seed)
    if settings.rehearsal:
        held = np.concatenate(list(unseen.values()))
        corpus = corpus.take(np.setdiff1d(np.arange(corpus.documents), held))
        unseen = unseen_rows(corpus, share=settings.test_share, seed=seed)
    encoded, kept = in_vocabulary(corpus, unseen, table=table, size=size, order=order, minimum=settings.minimum)
    mode = settings.mode(arm)
    outcome = run(encoded, mode=mode, settings=config, seed=seed, unseen=unseen, device=device, progress=progress)
    outcome.mode = arm
    found = result_of(encoded, [outcome])
    # A result is the same whenever it is made; times are kept beside it.
    training = sum(row.pop("seconds") for row in found["traffic"])
    classes = class_scores(encoded, outcome)
    found["membership"] = membership_rows(outcome)
    arrays = outcome.shared if settings.release else {}
    if arrays and kept is not None:
        arrays = arrays | {"words": kept}
    found |= {"classes": classes, "vocabulary": encoded.vocabulary_size}
    if not settings.rehearsal:
        arrays = arrays | said_by(outcome, corpus)
    keep(parts, found, arrays, training_seconds=training)


def said_by(outcome: Outcome, corpus: EncodedCorpus) -> dict[str, np.ndarray]:
    """The classes that an arm names for unseen documents, by task, −1 for others: what a bootstrap over cases reads."""
    found = {f"said-{task}": np.full(corpus.documents, -1, np.int32) for task in corpus.tasks}
    for number, predicted in outcome.predictions.items():
        for task, answer in predicted.items():
            found[f"said-{task}"][outcome.unseen[number]] = answer
    return found


def in_vocabulary(
    corpus: EncodedCorpus,
    unseen: Mapping[int, np.ndarray],
    *,
    table: np.ndarray | None,
    size: int,
    order: np.ndarray,
    minimum: tuple[int, str],
) -> tuple[EncodedCorpus, np.ndarray | None]:
    """The corpus in the ids of its vocabulary: the agreed one, given as a table; or the words that enough training
    cases or documents hold, whose numbers are returned beside it. ``order`` lists the numbers of all words as a
    vocabulary orders them."""
    if table is not None:
        return relabelled(corpus, table, size), None
    training = np.setdiff1d(np.arange(corpus.documents), np.concatenate(list(unseen.values())))
    frequent = frequent_words(corpus, training, *minimum)
    kept = order[np.isin(order, frequent)]
    return relabelled(corpus, table_of(kept, corpus.vocabulary_size), FIRST_WORD + len(kept)), kept


def membership_rows(outcome: Outcome) -> list[dict[str, Any]]:
    """What an attacker learns about who was trained on, members against unseen cases of the same registries: from a
    mode's own answers, and from its encoder under a head trained on other reports. All evidence for a report together,
    by a threshold on the probability of its labels; cells under ten cases are suppressed."""
    found = []
    for model, confidence in (("as trained", outcome.confidence), ("encoder, public head", outcome.public)):
        if confidence is not None:
            drawn = resample(confidence.member, confidence.cases, seed=outcome.seed)
            told = (confidence.values, confidence.member, confidence.cases, drawn)
            row = {"mode": outcome.mode, "seed": outcome.seed, "model": model, "attack": "loss"}
            found.append(row | evidence.figures(*told, seed=outcome.seed).to_dict())
    return found


def class_scores(corpus: EncodedCorpus, outcome: Outcome) -> list[dict[str, Any]]:
    """F1 of each class over all registries' unseen cases together, beside how many reports of it there are."""
    rows = np.concatenate([outcome.unseen[number] for number in outcome.predictions])
    found = []
    for task, names in corpus.classes.items():
        labels = np.asarray(corpus.labels[task])
        samples = np.bincount(labels[labels >= 0], minlength=len(names))
        answers = np.concatenate([predicted[task] for predicted in outcome.predictions.values()])
        cases, by_class = cases_of(labels[rows], corpus.cases[rows], classes=len(names))
        if not may_be_told(cases):
            continue
        scores = evaluate(labels[rows], answers, cases=corpus.cases[rows], seed=outcome.seed)
        for one in scores.per_class:
            if may_be_told(by_class[one.label]):
                place = {"mode": outcome.mode, "seed": outcome.seed, "task": task, "label": names[one.label]}
                counts = {"samples": int(samples[one.label]), "support": one.support}
                counts |= {"cases": int(by_class[one.label])}
                found.append(place | counts | {"f1": one.f1.as_dict()})
    return found


def pooled_registries(corpus: EncodedCorpus, groups: Mapping[str, tuple[str, ...]]) -> EncodedCorpus:
    """Registries pooled into sites; reports of registries that no group names are left out."""
    if not groups:
        return corpus
    names = {name: number for number, name in enumerate(corpus.registry_names)}
    for group, members in groups.items():
        for member in members:
            if member not in names:
                have = ", ".join(corpus.registry_names)
                raise UsageError(f"'groups': '{group}' names registry '{member}', but the corpus has {have}")
    site = np.full(len(names), -1)
    for place, members in enumerate(groups.values()):
        site[[names[member] for member in members]] = place
    kept = np.flatnonzero(site[corpus.registries] >= 0)
    taken = corpus.take(kept)
    return replace(taken, registries=site[taken.registries].astype(np.int32), registry_names=tuple(groups))


def frequent_words(corpus: EncodedCorpus, rows: np.ndarray, least: int, unit: str) -> np.ndarray:
    """Numbers of the words that at least so many of the documents, or of their cases, hold."""
    words, taken = corpus.vocabulary_size, corpus.take(rows)
    if unit == "cases":
        _, holder = np.unique(taken.cases, return_inverse=True)
    else:
        holder = np.arange(taken.documents)
    pairs = np.unique(np.repeat(holder, taken.lengths) * words + taken.ids)
    frequent = np.flatnonzero(np.bincount(pairs % words, minlength=words) >= least)
    if not len(frequent):
        raise VocabularyError(f"no word is held by {least} training {unit}; lower the minimum or add reports")
    return frequent
