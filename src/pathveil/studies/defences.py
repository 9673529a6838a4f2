"""The defences study: ways to train a model, each judged by what the strongest attack finds and by what it codes.

Every way is a preset with changes (``ways``). For each seed there are worlds (``auditing.worlds``): half of the cases
are in one, a model is trained on them, and attackers who trained with the same defence ask who was in it. Canaries
stand for the most exposed. With several ``vocabularies`` every way is trained with each of them: does the choice of
words still matter once the model is defended? Units of work:

    worlds    a way with a vocabulary and a seed: what all its worlds' models answer; on a CPU some worlds a unit, so
              that all cores have work
    attacks   every attack on those answers, put together before where they are in several cells

The words of a seed are chosen from all cases that may be in a world, so that they say nothing about any one of them.
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field, field_validator, model_validator

from pathveil.auditing.worlds import FEWEST_JUDGED, KEPT, make_worlds
from pathveil.disclosure import FEWEST_CASES_TOLD
from pathveil.errors import UsageError, meant, short
from pathveil.progress import Progress, silent
from pathveil.settings import Settings
from pathveil.studies.defence_choice import points_of, recommend_way
from pathveil.studies.rows import Provenance
from pathveil.studies.scheduler import Unit, WordChoices, finish, seconds_of
from pathveil.studies.settings import Names, Sizes, each_once, naming_errors, not_empty
from pathveil.studies.store import Cells
from pathveil.studies.study_corpus import provenance, read_study_corpus
from pathveil.studies.tables import DefencesResult, WayRow
from pathveil.studies.vocabularies import choose, key_of_own, own_words, sentences, sizes_for
from pathveil.studies.world_models import WorldsDraw, attack_worlds, train_worlds
from pathveil.training.defences import DPSettings, TeacherSettings
from pathveil.training.metrics import commonest_macro_f1
from pathveil.training.settings import UNDONE_BY, TrainingSettings, preset_settings
from pathveil.training.workers import Crew
from pathveil.vocabulary.encoded import EncodedCorpus
from pathveil.vocabulary.encoding import id_table
from pathveil.vocabulary.selection import DEFAULT_SENTENCE
from pathveil.vocabulary.words import Vocabulary

Way = Mapping[str, Any]
ONE_NETWORK = ("members", "linear")  # a world's model is one network, as an attacker's are
ATTACKS = "attacks"
TOGETHER = {"cpu": 4}  # worlds a unit, at most; other devices train them all at once


class DefencesSettings(Settings):
    """What a defences study compares."""

    ways: Mapping[str, str | Mapping[str, Any]] = Field(
        default_factory=lambda: {"none": {}, "word dropout .5": {"word_dropout": 0.5}, "release": "release"}
    )  # by name: a preset, or a table with one and changes to it; the others are held against the first
    vocabularies: Names = (DEFAULT_SENTENCE,)  # names as in the vocabulary study, or sentences
    own: Mapping[str, str] = Field(default_factory=dict)  # vocabulary files of one's own, by name
    sizes: Sizes | None = None
    minimum: int = Field(5, ge=1)
    tasks: Names | None = None
    worlds: int = Field(20, ge=4)  # models a way, a vocabulary and a seed
    test_share: float = Field(0.2, gt=0, lt=1)  # of the cases: in no world
    canaries: int = Field(0, ge=0)  # of each kind, planted once each
    seeds: tuple[int, ...] = (1,)  # each draws other worlds
    tolerated: float = Field(0.6, ge=0.5, le=1)  # the largest upper bound of the attacker's AUC that may be released
    training: Mapping[str, Any] = Field(default_factory=dict)  # changes to every way's training settings

    @field_validator("seeds")
    @classmethod
    def different_seeds(cls, seeds: tuple[int, ...]) -> tuple[int, ...]:
        return each_once(not_empty(seeds))

    @field_validator("canaries")
    @classmethod
    def enough_canaries(cls, canaries: int) -> int:
        if 0 < canaries < FEWEST_JUDGED:
            raise ValueError(f"expected 0, or at least {FEWEST_JUDGED} of each kind: what fewer say is not told")
        return canaries

    @model_validator(mode="after")
    def known_ways(self) -> "DefencesSettings":
        if not self.ways:
            raise ValueError("'ways' is empty; name at least one")
        for name in self.ways:
            self.way(name)
        return self

    def way(self, name: str) -> TrainingSettings:
        """How a way's models are trained. A mistake is a ValueError with its place."""
        told = self.ways[name]
        own = {"preset": told} if isinstance(told, str) else dict(told)
        for place, changes in (("training", self.training), (f"ways.{name}", own)):
            for refused in ONE_NETWORK:
                if refused in changes:
                    raise ValueError(f"'{place}': '{refused}' is not for a world's model, which is one network")
        try:
            return settings_of_way(own.pop("preset", None), own, common=self.training)
        except UsageError as error:
            raise ValueError(f"'ways.{name}': {error}") from None


def settings_of_way(preset: str | None, changes: Way, *, common: Way) -> TrainingSettings:
    """A preset's network (the papers' at a CPU's size where none is named) with changes that all ways have and then its
    own; those that its defence has a setting for are the defence's.

    >>> made = settings_of_way("release", {"teachers": 5, "epochs": 9}, common={"filters": 8})
    >>> made.defence.teachers, made.epochs, made.filters
    (5, 9, 8)
    >>> settings_of_way(None, {}, common={}) == TrainingSettings()
    True
    >>> settings_of_way("private", {"epsilon": 2}, common={"patience": 3}).defence.epsilon
    2.0
    """
    settings = TrainingSettings() if preset is None else preset_settings(preset)
    settings = settings.changed(members=1, linear=False)
    defence = settings.defence
    private = isinstance(defence, DPSettings)
    # What differential privacy rules out is for the other ways.
    settings = settings.changed(
        **{name: value for name, value in common.items() if not (private and name in UNDONE_BY)}
    )
    own = {} if defence is None else {name: value for name, value in changes.items() if name in _settings_of(defence)}
    rest = {name: value for name, value in changes.items() if name not in own}
    for name in rest:
        if name not in TrainingSettings.model_fields:
            known = [*TrainingSettings.model_fields, *([] if defence is None else _settings_of(defence))]
            raise UsageError(f"'{short(name)}': there is no such setting{meant(name, known)}")
    if defence is not None and own:
        # Epsilon and noise follow from each other: the one that is given replaces the preset's.
        other = {"epsilon": {"noise": None}, "noise": {"epsilon": None}}
        cleared = {key: value for name in own for key, value in other.get(name, {}).items() if private}
        rest["defence"] = defence.changed(**(cleared | own))
    return settings.changed(**rest)


def _settings_of(defence: Settings) -> list[str]:
    return [name for name in type(defence).model_fields if name != "kind"]


@dataclass(frozen=True)
class Place:
    """A way with a vocabulary and a seed, and the names of its cells."""

    way: str
    vocabulary: str
    seed: int
    parts: Mapping[str, Any]

    @property
    def name(self) -> str:
        return f"{self.way}, {self.vocabulary}, seed {self.seed}"

    @property
    def worlds(self) -> dict[str, Any]:
        return {**self.parts, "unit": "worlds"}

    def some_worlds(self, numbers: range) -> dict[str, Any]:
        return {**self.worlds, "numbers": [*numbers]}

    @property
    def attacks(self) -> dict[str, Any]:
        return {**self.parts, "unit": ATTACKS, "rows": 2}  # raised when what a row says changes


class DefencesStudy:
    """A defences study on one corpus: its places, what is left to do, and the result."""

    def __init__(self, corpus: Path, settings: DefencesSettings, *, out: Path, progress: Progress = silent):
        self.settings, self.out, self.progress = settings, out, progress
        self.cells = Cells(out / "cells")
        self.store, self.corpus = read_study_corpus(corpus, tasks=settings.tasks, progress=progress)
        self.ways = {name: settings.way(name) for name in settings.ways}
        check_enough_cases(self.corpus, settings)
        with naming_errors("'vocabularies'"):
            self.sentences = sentences(
                settings.vocabularies,
                registries=len(np.unique(self.corpus.registries)),
                minimum=settings.minimum,
                sizes=settings.sizes or sizes_for(self.store, minimum=settings.minimum),
            )
        with naming_errors("'own'"):
            self.own = own_words(settings.own, {}, taken=self.sentences)
        self.sentences |= {name: key_of_own(words) for name, words in self.own.items()}
        self.places = [
            Place(way, vocabulary, seed, self._parts(way, vocabulary, seed))
            for seed in settings.seeds
            for vocabulary in self.sentences
            for way in self.ways
        ]

    def _parts(self, way: str, vocabulary: str, seed: int) -> dict[str, Any]:
        own = {"vocabulary": self.sentences[vocabulary], "training": self.ways[way].model_dump(mode="json")}
        return self._common(seed) | own | {"canaries": self.settings.canaries, "answers": KEPT}

    def _common(self, seed: int) -> dict[str, Any]:
        return {
            "study": "defences",
            "corpus": self.store.provenance["corpus_sha256"],
            "text": self.store.provenance["text"],
            "seed": seed,
            "settings": self.settings.model_dump(include={"tasks", "worlds", "test_share"}),
        }

    def units(self, *, device: str, words: Mapping[tuple[int, str], Vocabulary] | None = None) -> list[Unit]:
        """Everything the study needs done; without ``words`` for counting only."""
        settings, units = self.settings, []
        trained = round(self.corpus.documents * (1 - settings.test_share) / 2)  # by a world's model
        for place in self.places:
            own, way = (words or {}).get((place.seed, place.vocabulary)), self.ways[place.way]
            table = None if own is None else id_table(self.store, own)
            size = 0 if own is None else own.size
            draw = WorldsDraw(table, size, settings.worlds, settings.test_share, settings.canaries, place.seed)
            defence = way.defence
            teachers = defence.teachers if isinstance(defence, TeacherSettings) else 0
            seen = teachers - defence.unseen if isinstance(defence, TeacherSettings) else 0  # teachers a report trains
            pieces = self.pieces(place, device)
            for parts, numbers in pieces:
                some = "" if len(pieces) == 1 else f", {numbers[0] + 1}–{numbers[-1] + 1}"
                units.append(
                    Unit(
                        name=f"worlds {place.name}{some}",
                        cells=(parts,),
                        function=train_worlds,
                        arguments=(draw, numbers, way, device, parts),
                        kind=place.way,
                        documents=trained * len(numbers) * (1 + seen),
                        epochs=way.for_documents(trained).epochs,
                        reads=len(numbers) * (self.corpus.documents + trained * (teachers - seen)),
                        models=len(numbers) * (1 + teachers),
                    )
                )
            needs = tuple(parts for parts, _ in pieces)
            units.append(
                Unit(
                    name=f"attacks {place.name}",
                    cells=(place.attacks,),
                    function=attack_worlds,
                    arguments=(str(self.cells.folder), draw, place.way, way, needs, place.worlds, place.attacks),
                    kind=ATTACKS,
                    documents=self.corpus.documents * settings.worlds,
                    needs=needs,
                    here=True,
                )
            )
        return units

    def pieces(self, place: Place, device: str) -> list[tuple[dict[str, Any], range]]:
        """The cells that a place's worlds are trained into, with each one's worlds; one where they are finished."""
        worlds = self.settings.worlds
        most = next((size for kind, size in TOGETHER.items() if device.startswith(kind)), worlds)
        several = -(-worlds // most)
        if several == 1 or self.cells.has(place.worlds):
            return [(place.worlds, range(worlds))]
        ends = [worlds * number // several for number in range(several + 1)]
        return [(place.some_worlds(range(*pair)), range(*pair)) for pair in itertools.pairwise(ends)]

    def trainable(self, seed: int) -> np.ndarray:
        """The documents that may be in a world."""
        return np.flatnonzero(~make_worlds(self.corpus, worlds=1, test_share=self.settings.test_share, seed=seed).test)

    def choices(self) -> WordChoices:
        """What choosing its words takes, and how many times."""
        wanted = [sentence for name, sentence in self.sentences.items() if name not in self.own]
        return WordChoices(wanted, self.trainable(self.settings.seeds[0]), len(self.settings.seeds))

    def words(self) -> dict[tuple[int, str], Vocabulary]:
        """The vocabularies of the seeds of which something is left to do."""
        made = {}
        for seed in self.settings.seeds:
            mine = [place for place in self.places if place.seed == seed]
            if all(self.cells.has(place.attacks) for place in mine):
                continue
            found = choose(
                self.sentences,
                store=self.store,
                corpus=self.corpus,
                rows=self.trainable(seed),
                cells=self.cells,
                parts=self._common(seed),
                progress=self.progress,
                own=self.own,
            )
            made |= {(seed, name): vocabulary for name, vocabulary in found.items()}
        return made

    def run(self, *, crew: Crew, device: str) -> DefencesResult:
        """Do what is left, and put everything together."""
        finish(
            self.units(device=device, words=self.words()),
            cells=self.cells,
            crew=crew,
            corpus=self.corpus,
            device=device,
            progress=self.progress,
            stage="defences study",
        )
        return self.result()

    def result(self) -> DefencesResult:
        table = []
        floors = {seed: self.floor(seed) for seed in self.settings.seeds}
        for place in self.places:
            values = self.cells.read(place.attacks)[0]
            about = {"way": place.way, "vocabulary": place.vocabulary, "words": values["words"], "seed": place.seed}
            about["floor"] = floors[place.seed]
            table.append(WayRow.model_validate(about | values["row"]))
        points = points_of(table)
        return DefencesResult(
            study="defences",
            settings=self.settings.model_dump(mode="json")
            | {"ways": {name: way.model_dump(mode="json") for name, way in self.ways.items()}},
            provenance=Provenance(**provenance(self.store, self.corpus)),
            table=table,
            points=points,
            recommendation=recommend_way(table, points, tolerated=self.settings.tolerated),
            findings=[],
            warnings=[],
        )

    def floor(self, seed: int) -> float:
        """Macro F1 of always answering the commonest code of each task, on a seed's test cases."""
        tested = make_worlds(self.corpus, worlds=1, test_share=self.settings.test_share, seed=seed).test
        labels = [np.asarray(self.corpus.labels[task]) for task in self.corpus.tasks]
        return float(np.mean([commonest_macro_f1(label[tested], label[~tested]) for label in labels]))

    def seconds(self) -> list[dict[str, Any]]:
        """What each finished cell took."""
        return seconds_of(self.cells, [part for place in self.places for part in (place.worlds, place.attacks)])


def check_enough_cases(corpus: EncodedCorpus, settings: DefencesSettings) -> None:
    """Every task must have as many cases to test on, and a world as many to attack, as figures may be told of."""
    for seed in settings.seeds:
        worlds = make_worlds(corpus, worlds=1, test_share=settings.test_share, seed=seed)
        for task in corpus.tasks:
            tested = worlds.test & (np.asarray(corpus.labels[task]) >= 0)
            if len(np.unique(corpus.cases[tested])) < FEWEST_CASES_TOLD:
                raise UsageError(
                    f"it needs at least {FEWEST_CASES_TOLD} cases with a label of '{task}' to test on, and has fewer; "
                    "raise 'test_share', add reports, or leave the section out"
                )
        free = len(np.unique(corpus.cases[~worlds.test]))
        wanted = FEWEST_JUDGED + 3 * settings.canaries
        if free < wanted:
            remedy = "plant fewer canaries, lower 'test_share'" if settings.canaries else "lower 'test_share'"
            raise UsageError(f"it needs at least {wanted} cases to train on and has {free}; {remedy}, or add reports")
