"""The combined study, which neither paper has: every way of training with every vocabulary, on one plane.

For each mode and each vocabulary the model is trained over the registries; its F1 on unseen cases is set against what
an attacker reads off its probabilities (all evidence for a report together: the AUC and the true-positive rate of
a threshold on it, members against unseen cases of the same registries). The Pareto front holds the combinations that
no other one beats on both; the recommendation (``studies.recommendation``) is the best F1 within a given tolerance.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field, field_validator

from pathveil.auditing import evidence
from pathveil.auditing.resamples import resample
from pathveil.disclosure import FEWEST_CASES_TOLD
from pathveil.errors import UsageError
from pathveil.federation.run import Mode, cases_of, check_sites, result_of, run
from pathveil.federation.settings import FederationSettings
from pathveil.progress import Progress, silent
from pathveil.studies.distribution import at_cap, config_of, known_modes, mode_of, with_fixed_epochs
from pathveil.studies.held_out import HeldOutSettings
from pathveil.studies.recommendation import Candidate, front, recommend, recommend_briefly
from pathveil.studies.rows import Provenance, Recommendation
from pathveil.studies.scheduler import Keep, Parts, Unit, WordChoices, finish, last_epoch_warnings, seconds_of
from pathveil.studies.settings import Names, Sizes, naming_errors, not_empty, validated
from pathveil.studies.store import Cells
from pathveil.studies.study_corpus import provenance, read_study_corpus, relabelled
from pathveil.studies.tables import CombinedPoint, CombinedResult
from pathveil.studies.vocabularies import OwnWords, choose, key_of_own, own_words, sentences, sizes_for
from pathveil.training.workers import Crew
from pathveil.vocabulary.encoded import EncodedCorpus
from pathveil.vocabulary.encoding import id_table
from pathveil.vocabulary.words import FIRST_WORD, Vocabulary


class CombinedSettings(HeldOutSettings):
    """What the plane holds."""

    modes: tuple[str, ...] = ("centralized", "adversarial", "strong")
    strategies: Names | None = None  # names as in the vocabulary study; None for all
    own: Mapping[str, str] = Field(default_factory=dict)  # vocabulary files of one's own, by name
    sizes: Sizes | None = None
    minimum: int = Field(5, ge=1)
    tasks: Names | None = None
    seed: int = Field(1, ge=0)
    tolerated: float = Field(0.6, ge=0.5, le=1)  # the largest upper bound of the attacker's AUC that may be released
    fixed_epochs: int | None = Field(None, ge=1)  # so many for every combination: the stopping epoch confounds privacy
    training: Mapping[str, Any] = Field(default_factory=dict)

    def mode(self, arm: str) -> Mode:
        """The mode of training behind an arm."""
        return mode_of(arm)

    @field_validator("modes")
    @classmethod
    def known_modes(cls, modes: tuple[str, ...]) -> tuple[str, ...]:
        return known_modes(not_empty(modes))

    @field_validator("training")
    @classmethod
    def known_training(cls, training: Mapping[str, Any]) -> Mapping[str, Any]:
        validated(FederationSettings, training)
        return training


def check_enough_cases(corpus: EncodedCorpus, held: Mapping[int, np.ndarray]) -> None:
    """Some registry must have as many unseen cases of a task as scores may be told of, or no combination has any."""
    most = max(
        cases_of(np.asarray(corpus.labels[task])[rows], corpus.cases[rows], classes=len(names))[0]
        for rows in held.values()
        for task, names in corpus.classes.items()
    )
    if most < FEWEST_CASES_TOLD:
        raise UsageError(
            f"it needs a registry with at least {FEWEST_CASES_TOLD} labelled cases to test on, and none has more than "
            f"{most}; raise 'test_share', add reports, or leave the section out"
        )


class CombinedStudy:
    """A combined study on one corpus: its combinations, what is left to do, and the result."""

    def __init__(
        self,
        corpus: Path,
        settings: CombinedSettings,
        *,
        out: Path,
        own: Mapping[str, OwnWords] | None = None,
        progress: Progress = silent,
    ):
        self.settings, self.out, self.progress = settings, out, progress
        self.cells = Cells(out / "cells")
        self.store, self.corpus = read_study_corpus(corpus, tasks=settings.tasks, progress=progress)
        held = settings.unseen(self.corpus, seed=settings.seed)
        check_sites(self.corpus, held)
        self.rows = np.setdiff1d(np.arange(self.corpus.documents), np.concatenate(list(held.values())))
        with naming_errors("'strategies'"):
            self.sentences = sentences(
                settings.strategies,
                registries=len(np.unique(self.corpus.registries[self.rows])),
                minimum=settings.minimum,
                sizes=settings.sizes or sizes_for(self.store, minimum=settings.minimum),
            )
        with naming_errors("'own'"):
            self.own = own_words(settings.own, own or {}, taken=self.sentences)
        self.sentences |= {name: key_of_own(words) for name, words in self.own.items()}
        training = with_fixed_epochs(settings.training, settings.fixed_epochs)
        self.configs = {mode: config_of(mode, training) for mode in settings.modes}
        self.places = [(name, mode) for name in self.sentences for mode in settings.modes]
        check_enough_cases(self.corpus, held)

    def parts(self, name: str, mode: str) -> dict[str, Any]:
        return self._common() | {
            "vocabulary": self.sentences[name],
            "mode": mode,
            "config": self.configs[mode].model_dump(),
        }

    def _common(self) -> dict[str, Any]:
        return {
            "study": "combined",
            "corpus": self.store.provenance["corpus_sha256"],
            "text": self.store.provenance["text"],
            "scores": 2,  # raised when what is kept of a model's scores changes
            "settings": self.settings.model_dump(include={"tasks", "seed"}) | self.settings.parts,
        }

    def units(self, *, device: str, words: Mapping[str, Vocabulary] | None = None) -> list[Unit]:
        """Everything the study needs done; without ``words`` for counting only."""
        units = []
        for name in self.sentences:
            own = (words or {}).get(name)
            table = None if own is None else id_table(self.store, own)
            size = 0 if own is None else own.size
            for mode in self.settings.modes:
                parts = self.parts(name, mode)
                told = (mode, self.configs[mode], self.settings, table, size, device, parts)
                units.append(
                    Unit(
                        name=f"{name}, {mode}",
                        cells=(parts,),
                        function=train_point,
                        arguments=told,
                        kind=mode,
                        documents=len(self.rows),
                        epochs=self.configs[mode].epochs,
                    )
                )
        return units

    def choices(self) -> WordChoices:
        """What choosing its words takes."""
        wanted = [sentence for name, sentence in self.sentences.items() if name not in self.own]
        return WordChoices(wanted, self.rows, 1)

    def run(self, *, crew: Crew, device: str) -> CombinedResult:
        """Do what is left, and put everything together."""
        words: dict[str, Vocabulary] = {}
        if not all(self.cells.has(self.parts(*place)) for place in self.places):
            words = choose(
                self.sentences,
                store=self.store,
                corpus=self.corpus,
                rows=self.rows,
                cells=self.cells,
                parts=self._common(),
                progress=self.progress,
                own=self.own,
            )
        finish(
            self.units(device=device, words=words),
            cells=self.cells,
            crew=crew,
            corpus=self.corpus,
            device=device,
            progress=self.progress,
            stage="combined study",
        )
        return self.result()

    def result(self) -> CombinedResult:
        points: list[dict[str, Any]] = []
        for name, mode in self.places:
            values = self.cells.read(self.parts(name, mode))[0]
            last = at_cap(self.configs[mode], values["epoch"])
            points.append({"strategy": name, "mode": mode, **values, "at_cap": last})
        on_front = front([(point["auc"]["value"], point["macro"]) for point in points])
        rows = [CombinedPoint(**point, front=mark) for point, mark in zip(points, on_front, strict=True)]
        return CombinedResult(
            study="combined",
            settings=self.settings.model_dump(mode="json"),
            provenance=Provenance(**provenance(self.store, self.corpus)),
            points=rows,
            recommendation=recommend_combination(rows, tolerated=self.settings.tolerated),
            findings=[],
            warnings=last_epoch_warnings("models", [cap for point in rows for cap in point.at_cap]),
        )

    def seconds(self) -> list[dict[str, Any]]:
        """What each finished cell took."""
        return seconds_of(self.cells, [self.parts(*place) for place in self.places])


def train_point(
    corpus: EncodedCorpus,
    mode: str,
    config: FederationSettings,
    settings: CombinedSettings,
    table: np.ndarray,
    size: int,
    device: str,
    parts: Parts,
    keep: Keep,
    progress: Progress,
) -> None:
    """One mode with one vocabulary: its F1, and what an attacker reads off its probabilities."""
    encoded = relabelled(corpus, table, size)
    trained = settings.mode(mode)
    seed, unseen = settings.seed, settings.unseen(corpus, seed=settings.seed)
    outcome = run(encoded, mode=trained, settings=config, seed=seed, unseen=unseen, device=device, progress=progress)
    rows = result_of(encoded, [outcome], resamples=200)
    point = point_of(rows, outcome.confidence, seed=seed)
    keep(parts, {"size": size - FIRST_WORD, "epoch": rows["traffic"][0]["epoch"]} | point)


def point_of(rows: Mapping[str, Any], confidence: Any, *, seed: int) -> dict[str, Any]:
    """F1 over registries and tasks, and what the attacker gets."""
    drawn = resample(confidence.member, confidence.cases, seed=seed)
    found = evidence.figures(confidence.values, confidence.member, confidence.cases, drawn, seed=seed)
    if isinstance(found, evidence.NoFigures):
        raise UsageError(f"the combined study cannot attack a model with {found.suppressed}; add reports")
    micro, macro = (float(np.mean([row[name]["value"] for row in rows["scores"]])) for name in ("micro", "macro"))
    floor = float(np.mean([row["floor"] for row in rows["scores"]]))
    probe = rows["probe"][0] if rows["probe"] else None
    told = None if probe is None else max(probe["linear"], probe["mlp"])
    leak = {name: found.to_dict()[name] for name in ("auc", "tpr_at_fpr")}
    return {"micro": micro, "macro": macro, "floor": floor, **leak, "probe": told}


def recommend_combination(points: Sequence[CombinedPoint], *, tolerated: float) -> Recommendation:
    """What to use; and where that pools everybody's reports, what else to use without."""
    found = recommend([*map(candidate, points)], tolerated=tolerated, kind="combination")
    apart = [candidate(point) for point in points if point.mode != "centralized"]
    if not apart or found.use is None or found.use in [one.name for one in apart]:
        return found
    half = recommend_briefly(apart, tolerated=tolerated)
    sentence = f"{found.sentence} Where reports may not be pooled: {half}."
    without = recommend(apart, tolerated=tolerated, kind="combination")
    return found.model_copy(update={"sentence": sentence, "without_pooling": without})


def candidate(point: CombinedPoint) -> Candidate:
    """A combination as something that may be released; its scores were taken once, so it has no folds."""
    leak = (point.auc.value, point.auc.low, point.auc.high)
    name = f"{point.strategy} with {point.mode} training"
    return Candidate(name, point.size, {"all tasks": {"": point.macro}}, {"": leak}, point.floor)
