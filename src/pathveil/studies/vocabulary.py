"""The vocabulary study: for each left-out registry and each way of choosing words, how much leaks and what F1 remains.

A fold leaves one registry to the attacker. Of the others' cases a share is held out for testing; the rest chooses the
words and trains the target model. The attacker trains shadow models on halves of the left-out registry (by case), with
the same words and settings, and learns from their answers what membership looks like. Units of work:

    target    one model a fold and vocabulary: its F1 on the held-out cases, its answers on all documents
    shadows   the attacker's models, a fold and vocabulary: their answers on all documents
    attack    every attack on that target from those answers

All of it can be repeated (``repeats``), each time with another split of the cases and other models, so that a fold's
figures rest on several trainings; folds stay the units (``studies.statistics``).

Two protocols stand side by side, the paper's with its control (see ``auditing.evidence``). The paper's attack (one
classifier a class) is there for each number of shadows; the loss and offline RMIA, which need no membership
labels of the attacker's own records, are there as stronger ones.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field, field_validator, model_validator

from pathveil.auditing.evidence import class_counts
from pathveil.disclosure import may_be_told
from pathveil.errors import UsageError
from pathveil.formatting import counted
from pathveil.progress import Progress, silent
from pathveil.studies import membership
from pathveil.studies.findings import compared_vocabularies, vocabulary_findings
from pathveil.studies.held_out import HeldOutSettings
from pathveil.studies.membership import Attack, Fold, Words
from pathveil.studies.over_cases import CaseDraws, ResampledFigures, class_accuracies
from pathveil.studies.recommendation import recommend, vocabulary_candidates
from pathveil.studies.rows import Provenance
from pathveil.studies.scheduler import WORK, Unit, WordChoices, finish, last_epoch_warnings, seconds_of
from pathveil.studies.settings import NOT_IN_STUDIES, Names, Numbers, Sizes, naming_errors, validated
from pathveil.studies.store import Cells
from pathveil.studies.study_corpus import provenance, read_study_corpus
from pathveil.studies.tables import AttackRow, ChosenWords, TaskScore, VocabularyResult
from pathveil.studies.vocabularies import (
    OwnWords,
    cell_of_words,
    choose,
    choose_numbers,
    key_of_own,
    own_words,
    sentences,
    sizes_for,
)
from pathveil.training.metrics import commonest_macro_f1
from pathveil.training.settings import TrainingSettings
from pathveil.training.workers import Crew
from pathveil.vocabulary.encoded import EncodedCorpus
from pathveil.vocabulary.encoding import id_table

TOGETHER = {"cpu": 1, "cuda": 50}  # shadows a unit: a GPU trains many at once
FEWEST_LEFT_OUT = 4  # cases of a left-out registry: each half has one to learn from and one to stop by


class VocabularySettings(HeldOutSettings):
    """What a vocabulary study compares."""

    strategies: Names | None = None  # names (B, I2, MI500) or sentences; None: all of the paper's
    own: Mapping[str, str] = Field(default_factory=dict)  # vocabulary files of one's own, by name
    sizes: Sizes | None = None  # of mutual-information vocabularies; None scales the paper's to the corpus
    minimum: int = Field(5, ge=1)  # occurrences of a baseline word
    folds: Names | None = None  # registries to leave out in turn; None for all
    tasks: Names | None = None
    attacked: str | None = None  # the task whose answers the paper's attack reads; None: site, or else the first
    shadows: int = Field(20, ge=2)
    counts: Numbers = (1, 10, 20, 40, 60, 80, 100)  # numbers of shadows to attack with, as far as there are
    edges: Sizes = (25, 100)  # training documents of a class that part the buckets
    seed: int = Field(1, ge=0)
    repeats: int = Field(1, ge=1)  # of every fold: other splits, starts and batches, with the seeds that follow
    tolerated: float = Field(0.6, ge=0.5, le=1)  # the largest upper bound of the attacker's AUC that may be released
    fixed_epochs: int | None = Field(None, ge=1)  # so many for every model, whatever its validation cases say
    training: Mapping[str, Any] = Field(default_factory=dict)  # changes to the training settings

    @field_validator("training")
    @classmethod
    def known_training(cls, training: Mapping[str, Any]) -> Mapping[str, Any]:
        for name, reason in NOT_IN_STUDIES.items():
            if name in training:
                raise ValueError(f"'{name}' {reason}")
        validated(TrainingSettings, training)
        return training

    @field_validator("edges")
    @classmethod
    def rising(cls, edges: tuple[int, ...]) -> tuple[int, ...]:
        if sorted(edges) != [*edges]:
            raise ValueError("each must be larger than the one before it")
        return edges

    @model_validator(mode="after")
    def enough_shadows(self) -> "VocabularySettings":
        for count in self.counts if "counts" in self.model_fields_set else ():
            if not 1 <= count <= self.shadows:
                raise ValueError(f"'counts' asks for an attack with {count} shadows, of 'shadows' = {self.shadows}")
        return self

    @property
    def of_models(self) -> TrainingSettings:
        """How every model is trained."""
        fixed = {} if self.fixed_epochs is None else {"epochs": self.fixed_epochs, "patience": None}
        return TrainingSettings().changed(**self.training, **fixed)

    @property
    def numbers(self) -> tuple[int, ...]:
        """Numbers of shadows to attack with: those asked for, and all there are."""
        return tuple(sorted({n for n in self.counts if n < self.shadows} | {self.shadows}))


def folds_of(corpus: EncodedCorpus, settings: VocabularySettings, *, seed: int | None = None) -> list[Fold]:
    """The folds asked for; every registry's cases are held out alike in each of them. Another ``seed`` than the
    settings' is another split."""
    names = settings.folds or corpus.registry_names
    for name in names:
        if name not in corpus.registry_names:
            raise UsageError(
                f"'folds': there is no registry '{name}' to leave out; there are {', '.join(corpus.registry_names)}"
            )
    if len(corpus.registry_names) < 3:
        raise UsageError(
            f"leaving one registry out needs at least three; there are {len(corpus.registry_names)} (leave the section "
            "out, and the other studies can be run)"
        )
    held = settings.unseen(corpus, seed=settings.seed if seed is None else seed)
    folds = []
    for name in names:
        left_out = corpus.registry_names.index(name)
        foreign = np.flatnonzero(corpus.registries == left_out)
        unseen = np.concatenate([rows for number, rows in held.items() if number != left_out])
        # A case that also reported to the left-out registry would be a member among the non-members.
        inside = np.setdiff1d(np.arange(corpus.documents), np.concatenate([foreign, unseen]))
        training = inside[~np.isin(corpus.cases[inside], corpus.cases[np.concatenate([foreign, unseen])])]
        folds.append(Fold(name, training, unseen, foreign))
    return folds


def check_left_out(corpus: EncodedCorpus, fold: Fold) -> None:
    """Refuse to leave out a registry too small for the attacker's halves."""
    cases = len(np.unique(corpus.cases[fold.foreign]))
    if cases < FEWEST_LEFT_OUT:
        raise UsageError(
            f"registry {fold.name} has {counted(cases, 'case')}; the attacker's models learn from half of them and "
            f"need at least {FEWEST_LEFT_OUT}: leave it out of 'folds', or add reports"
        )


@dataclass(frozen=True)
class Place:
    """One fold with one vocabulary, and the names of its cells."""

    repeat: int  # from 1
    seed: int  # of its split, starts and batches
    fold: Fold
    name: str
    sentence: str
    parts: Mapping[str, Any]
    settings: VocabularySettings

    @property
    def target(self) -> dict[str, Any]:
        return {**self.parts, "unit": "target"}

    @property
    def shadows(self) -> list[dict[str, Any]]:
        return [{**self.parts, "unit": "shadow", "number": number} for number in range(self.settings.shadows)]

    @property
    def attack(self) -> dict[str, Any]:
        told = self.settings.model_dump(include={"shadows", "edges"}) | {"numbers": self.settings.numbers}
        told |= {"folds": self.settings.folds, "repeats": self.settings.repeats}  # a class's size is a mean over them
        return {**self.parts, "unit": "attack", "attack": told, "rows": 4}  # raised when what a cell says changes


class VocabularyStudy:
    """A vocabulary study on one corpus: its places, what is left to do, and the result."""

    def __init__(
        self,
        corpus: Path,
        settings: VocabularySettings,
        *,
        out: Path,
        own: Mapping[str, OwnWords] | None = None,
        progress: Progress = silent,
    ):
        self.settings, self.out, self.progress = settings, out, progress
        self.training = settings.of_models
        self.cells = Cells(out / "cells")
        self.store, self.corpus = read_study_corpus(corpus, tasks=settings.tasks, progress=progress)
        self.attacked = settings.attacked or (
            "site" if "site" in self.corpus.classes else next(iter(self.corpus.classes))
        )
        if self.attacked not in self.corpus.classes:
            raise UsageError(
                f"'attacked': there is no task '{self.attacked}' to attack; there are {', '.join(self.corpus.classes)}"
            )
        sizes = settings.sizes or sizes_for(self.store, minimum=settings.minimum)
        repeats = {settings.seed + number: number + 1 for number in range(settings.repeats)}
        folds = [(seed, fold) for seed in repeats for fold in folds_of(self.corpus, settings, seed=seed)]
        chosen = {}
        with naming_errors("'strategies'"):
            for _, fold in folds:
                registries = len(np.unique(self.corpus.registries[fold.training]))
                about = {"registries": registries, "minimum": settings.minimum, "sizes": sizes}
                chosen[fold.name] = sentences(settings.strategies, **about)
        with naming_errors("'own'"):
            self.own = own_words(settings.own, own or {}, taken=[name for names in chosen.values() for name in names])
        for _, fold in folds:  # once the file has no mistake of its own
            check_left_out(self.corpus, fold)
        self.class_sizes = {
            task: class_counts(
                [labels[fold.learned(self.corpus, self.training, seed=seed)] for seed, fold in folds],
                classes=len(self.corpus.classes[task]),
            )
            for task, labels in self.corpus.labels.items()
        }
        keys = {name: key_of_own(words) for name, words in self.own.items()}
        self.places = [
            Place(repeats[seed], seed, fold, name, sentence, self._parts(fold, sentence, seed), settings)
            for seed, fold in folds
            for name, sentence in (chosen[fold.name] | keys).items()
        ]

    def _parts(self, fold: Fold, sentence: str, seed: int) -> dict[str, Any]:
        return {
            "study": "vocabulary",
            "corpus": self.store.provenance["corpus_sha256"],
            "text": self.store.provenance["text"],
            "vocabulary": sentence,
            "fold": fold.name,
            "training": self.training.model_dump(),
            "attacked": self.attacked,
            "answers": 3,  # raised when what is kept of a model's answers changes
            "settings": {"tasks": self.settings.tasks, "seed": seed} | self.settings.parts,
        }

    def units(self, *, device: str, words: Mapping[tuple[int, str, str], Words] | None = None) -> list[Unit]:
        """Everything the study needs done; without ``words`` for counting only."""
        settings, units = self.settings, []
        some = next((size for kind, size in TOGETHER.items() if device.startswith(kind)), 1)
        for place in self.places:
            again = f" ({place.repeat})" if settings.repeats > 1 else ""
            fold, where = place.fold, f"{place.fold.name} {place.name}{again}"
            chosen = (words or {}).get((place.repeat, fold.name, place.name))
            model = (fold, chosen, self.training, place.seed, device)
            half = len(fold.foreign) // 2
            units.append(
                Unit(
                    name=f"target {where}",
                    cells=(place.target,),
                    function=membership.train_target,
                    arguments=(*model, place.target),
                    kind="targets",
                    documents=len(fold.training),
                    epochs=self.training.epochs,
                    reads=self.corpus.documents,
                )
            )
            missing = [number for number, parts in enumerate(place.shadows) if not self.cells.has(parts)]
            there = [number for number in range(settings.shadows) if number not in set(missing)]
            for group in (*([there] if there else []), *_slices(missing, some)):
                wanted = {number: place.shadows[number] for number in group}
                units.append(
                    Unit(
                        name=f"shadows {where} {group[0] + 1}–{group[-1] + 1}",
                        cells=tuple(wanted.values()),
                        function=membership.train_shadows,
                        arguments=(*model, wanted),
                        kind="shadows",
                        documents=half * len(group),
                        epochs=self.training.epochs,
                        reads=self.corpus.documents * len(group),
                    )
                )
            told = Attack(
                task=self.attacked,
                shadows=settings.shadows,
                numbers=settings.numbers,
                edges=settings.edges,
                training=self.class_sizes,
                settings=self.training,
                seed=place.seed,
            )
            answers = (place.target, place.shadows)
            units.append(
                Unit(
                    name=f"attack {where}",
                    cells=(place.attack,),
                    function=membership.attack,
                    arguments=(str(self.cells.folder), fold, told, device, *answers, place.attack),
                    kind="attacks",
                    documents=len(fold.foreign) * sum(settings.numbers),
                    needs=(place.target, *place.shadows),
                    here=True,
                )
            )
        return units

    def choices(self) -> WordChoices:
        """What choosing the words of a fold takes, and how many folds there are."""
        fold = self.places[0].fold
        folds = len({(place.repeat, place.fold.name) for place in self.places})
        wanted = [place.sentence for place in self.places if place.fold is fold and place.name not in self.own]
        return WordChoices(wanted, fold.training, folds)

    def unfinished_folds(self) -> Iterator[tuple[list[Place], dict[str, Any]]]:
        """The places of each fold in which something is left to train, and what determines its words."""
        for fold in {id(place.fold): place.fold for place in self.places}.values():
            mine = [place for place in self.places if place.fold is fold]
            if not all(self.cells.has(parts) for place in mine for parts in (place.target, *place.shadows)):
                yield mine, {name: mine[0].parts[name] for name in ("study", "corpus", "text", "fold", "settings")}

    def word_units(self) -> list[Unit]:
        """The choosing of words by sentences, a fold a unit: own functions see words, and are asked in this process."""
        units = []
        for mine, parts in self.unfinished_folds():
            sentences = [place.sentence for place in mine if place.name not in self.own]
            wanted = {sentence: cell_of_words(parts, sentence) for sentence in sentences}
            fold = mine[0].fold
            units.append(
                Unit(
                    name=f"choosing words {fold.name} ({mine[0].repeat})",
                    cells=tuple(wanted.values()),
                    function=choose_numbers,
                    arguments=(fold.training, wanted),
                    kind="words",
                )
            )
        return units

    def words(self) -> dict[tuple[int, str, str], Words]:
        """The vocabularies of the folds in which something is left to train."""
        made = {}
        for mine, parts in self.unfinished_folds():
            repeat, fold = mine[0].repeat, mine[0].fold
            found = choose(
                {place.name: place.sentence for place in mine},
                store=self.store,
                corpus=self.corpus,
                rows=fold.training,
                cells=self.cells,
                parts=parts,
                progress=self.progress,
                stage=f"choosing words {fold.name}",
                own=self.own,
            )
            for name, vocabulary in found.items():
                table = id_table(self.store, vocabulary)
                own = Words(name, table, vocabulary.size, vocabulary.sha256, vocabulary.method)
                made[repeat, fold.name, name] = own
        return made

    def run(self, *, crew: Crew, device: str) -> VocabularyResult:
        """Do what is left, and put everything together."""

        def without_work(stage: str, done: int, total: int) -> None:  # words take no reports to train
            if stage != WORK:
                self.progress(stage, done, total)

        shared: dict[str, Any] = {"cells": self.cells, "crew": crew, "corpus": self.corpus, "device": device}
        finish(self.word_units(), **shared, progress=without_work, stage="choosing words")
        units = self.units(device=device, words=self.words())
        finish(units, **shared, progress=self.progress, stage="vocabulary study")
        return self.result()

    def result(self) -> VocabularyResult:
        table1: list[AttackRow] = []
        table2: list[TaskScore] = []
        vocabularies: list[ChosenWords] = []
        for place in self.places:
            values = self.cells.read(place.target)[0]
            epochs = [self.cells.read(parts)[0]["epoch"] for parts in place.shadows]
            words: dict[str, Any] = {"repeat": place.repeat, "strategy": place.name, "size": values["words"]}
            vocabularies.append(
                ChosenWords(
                    fold=place.fold.name,
                    **words,
                    **{name: values[name] for name in ("method", "sha256", "epoch", "epochs")},
                    shadow_epochs=epochs,
                    at_cap=self.at_cap(values["epoch"]),
                    shadows_at_cap=sum(map(self.at_cap, epochs)),
                )
            )
            attacks = self.cells.read(place.attack)[0]["rows"]
            table1 += [AttackRow(fold=place.fold.name, **words, **row) for row in attacks]
            for task in self.scored_tasks(place.fold):
                if task in values["scores"]:
                    score = values["scores"][task]
                    label = np.asarray(self.corpus.labels[task])
                    floor = commonest_macro_f1(label[place.fold.unseen], label[place.fold.training])
                    about: dict[str, Any] = {"attack_registry": place.fold.name, "task": task, "floor": floor}
                    table2.append(TaskScore(**about, **words, **score))
        candidates = vocabulary_candidates(table1, table2)
        at_cap = [self.at_cap(epoch) for row in vocabularies for epoch in row.shadow_epochs]
        return VocabularyResult(
            study="vocabulary",
            settings=self.settings.model_dump(mode="json") | {"training": self.training.model_dump(mode="json")},
            provenance=Provenance(**provenance(self.store, self.corpus)),
            vocabularies=vocabularies,
            table1=table1,
            table2=table2,
            recommendation=recommend(candidates, tolerated=self.settings.tolerated, kind="vocabulary"),
            findings=vocabulary_findings(table1, table2, resampled=self.resampled()),
            warnings=[
                *last_epoch_warnings("targets", [row.at_cap for row in vocabularies]),
                *last_epoch_warnings("shadows", at_cap),
            ],
        )

    def resampled(self) -> ResampledFigures | None:
        """What other cases would have made of the figures that findings compare; where folds are repeated."""
        if self.settings.repeats < 2:
            return None
        corpus, judged = self.corpus, compared_vocabularies({place.name for place in self.places})
        found = ResampledFigures(CaseDraws(cases=corpus.cases, registries=corpus.registries))
        for place in self.places:
            if place.name not in judged:
                continue
            guessed = self.cells.read(place.attack)[1]
            cross = guessed["member"] | np.isin(guessed["rows"], place.fold.foreign)
            rows, guess, member = (guessed[name][cross] for name in ("rows", "guess", "member"))
            weights = found.draws.of(rows)
            where = (place.fold.name, place.repeat)
            classes = np.asarray(corpus.labels[self.attacked])[rows]
            found.add(
                "accuracy", (*where, self.attacked), place.name, class_accuracies(guess, member, classes, weights)
            )
            answers = self.cells.read(place.target)[1]
            for task in self.scored_tasks(place.fold):
                truth = np.asarray(corpus.labels[task])[place.fold.unseen]
                found.add_scores((*where, task), place.name, place.fold.unseen, truth, answers[f"said-{task}"])
        return found

    def at_cap(self, epoch: int) -> bool:
        """Whether a model that was to stop by its validation cases was best at the last epoch allowed."""
        return self.training.patience is not None and epoch == self.training.epochs

    def scored_tasks(self, fold: Fold) -> list[str]:
        """The tasks whose scores may be told: enough unseen cases have a label."""
        cases = self.corpus.cases[fold.unseen]
        labels = {task: np.asarray(self.corpus.labels[task])[fold.unseen] for task in self.corpus.tasks}
        return [task for task, label in labels.items() if may_be_told(len(np.unique(cases[label >= 0])))]

    def seconds(self) -> list[dict[str, Any]]:
        """What each finished cell took."""
        parts = [part for place in self.places for part in (place.target, *place.shadows, place.attack)]
        return seconds_of(self.cells, parts)


def _slices(numbers: list[int], size: int) -> list[list[int]]:
    return [numbers[at : at + size] for at in range(0, len(numbers), size)]
