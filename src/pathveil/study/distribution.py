"""The distribution study: modes × seeds over registries that share no reports, as a resumable run.

A unit of work is one mode with one seed. For every seed the registries' cases are split anew, the vocabulary is chosen
from the training documents alone (words that enough of them hold, as in the paper), and the mode is trained and judged
on the unseen cases. Registries can be pooled into larger sites (``groups``), as when halves stand for two registries.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, field_validator

from pathveil.errors import UsageError, VocabularyError
from pathveil.federation.config import FederationConfig
from pathveil.federation.run import MODES, result_of, run, unseen_rows
from pathveil.progress import Progress, silent
from pathveil.study.encoded import changed, relabelled, whole
from pathveil.study.findings import distribution_findings
from pathveil.study.store import Cells, only_one, write_json
from pathveil.vocabulary.encoded import Encoded
from pathveil.vocabulary.encoding import lookup
from pathveil.vocabulary.words import Vocabulary


class DistributionSettings(BaseModel):
    """What a distribution study compares."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    modes: tuple[str, ...] = ("single", "centralized", "adversarial")
    seeds: tuple[int, ...] = (1,)
    tasks: tuple[str, ...] | None = None  # None: the usual ones that the corpus has
    groups: Mapping[str, tuple[str, ...]] = Field(
        default_factory=dict
    )  # pooled site: its registries; empty: each alone
    test_share: float = Field(0.2, gt=0, lt=1)  # of every registry's cases
    minimum_documents: int = Field(5, ge=1)  # training documents that must hold a word, over all registries
    vocabulary: str | None = None  # a vocabulary file agreed on beforehand, instead of that rule
    training: Mapping[str, Any] = Field(default_factory=dict)  # changes to the federation's settings

    @field_validator("modes")
    @classmethod
    def known_modes(cls, modes: tuple[str, ...]) -> tuple[str, ...]:
        for mode in modes:
            if mode not in ARMS:
                raise ValueError(f"'{mode}' is not a mode; expected one of {', '.join(ARMS)}")
        return modes


# An arm is a mode of training, or one with a part switched off.
ARMS: dict[str, dict[str, Any]] = {mode: {} for mode in MODES} | {
    "no-adversary": {"adversary": 0.0},
    "no-orthogonality": {"orthogonality": 0.0},
}


def config_of(arm: str, changes: Mapping[str, Any]) -> FederationConfig:
    """The settings of an arm: its preset, then the study's changes, then what the arm itself switches off."""
    settings = {**changes, **ARMS[arm]}
    return FederationConfig.strong(**settings) if arm == "strong" else FederationConfig(**settings)


def study(corpus: Path, settings: DistributionSettings, *, out: Path, progress: Progress = silent) -> dict[str, Any]:
    """Run what is not finished yet and write ``out/result.json``."""

    agreed = Vocabulary.load(Path(settings.vocabulary)) if settings.vocabulary else None
    with only_one(out):
        cells = Cells(out / "cells")
        store, everything = whole(corpus, tasks=settings.tasks, progress=progress)
        everything = grouped(everything, settings.groups)
        collected: dict[str, list[Any]] = {"scores": [], "per_class": [], "probe": [], "traffic": []}
        arms = [(seed, arm) for seed in settings.seeds for arm in settings.modes]
        sizes = {}
        for done, (seed, arm) in enumerate(arms):
            progress("training modes", done, len(arms))
            config = config_of(arm, settings.training)
            parts = {
                "study": "distribution",
                "corpus": store.provenance["corpus_sha256"],
                "text": store.provenance["text"],
                "arm": arm,
                "seed": seed,
                "config": config.model_dump(),
                "settings": settings.model_dump(include={"tasks", "groups", "test_share", "minimum_documents"})
                | {"vocabulary": agreed.sha256 if agreed else None},
            }

            def work(arm: str = arm, seed: int = seed, config: FederationConfig = config) -> dict[str, Any]:
                held = unseen_rows(everything, share=settings.test_share, seed=seed)
                training = np.setdiff1d(np.arange(everything.documents), np.concatenate(list(held.values())))
                vocabulary = agreed or frequent_words(
                    store.words, everything, training, minimum=settings.minimum_documents
                )
                encoded = relabelled(everything, lookup(store, vocabulary), vocabulary)
                mode = arm if arm in MODES else "adversarial"
                outcome = run(encoded, mode=mode, config=config, seed=seed, test=settings.test_share, progress=progress)
                outcome.mode = arm
                return result_of(encoded, [outcome], test=settings.test_share) | {"vocabulary": vocabulary.size}

            values = cells.once(parts, work)
            sizes[seed] = values["vocabulary"]
            for name, rows in collected.items():
                rows.extend(values[name])
        progress("training modes", len(arms), len(arms))
        findings = distribution_findings(
            collected["scores"], per_class=collected["per_class"], probes=collected["probe"]
        )
        result = {
            "study": "distribution",
            "settings": settings.model_dump(mode="json"),
            "provenance": {
                **store.provenance,
                "registries": list(everything.registry_names),
                "vocabulary_sizes": sizes,
            },
            **collected,
            "findings": findings,
        }
        write_json(out / "result.json", result)
    return result


def grouped(corpus: Encoded, groups: Mapping[str, tuple[str, ...]]) -> Encoded:
    """Registries pooled into sites; reports of registries that no group names are left out."""
    if not groups:
        return corpus
    names = {name: number for number, name in enumerate(corpus.registry_names)}
    for group, members in groups.items():
        for member in members:
            if member not in names:
                have = ", ".join(corpus.registry_names)
                raise UsageError(f"group '{group}' names registry '{member}', but the corpus has {have}")
    site = np.full(len(names), -1)
    for place, members in enumerate(groups.values()):
        site[[names[member] for member in members]] = place
    kept = np.flatnonzero(site[corpus.registries] >= 0)
    taken = corpus.take(kept)
    return changed(taken, registries=site[taken.registries].astype(np.int32), registry_names=tuple(groups))


def frequent_words(words: tuple[str, ...], corpus: Encoded, rows: np.ndarray, *, minimum: int) -> Vocabulary:
    """Words that at least ``minimum`` of the given documents hold."""
    taken = corpus.take(rows)
    document = np.repeat(np.arange(taken.documents), taken.lengths)
    pairs = np.unique(document * len(words) + taken.ids)
    held = np.bincount(pairs % len(words), minlength=len(words))
    kept = np.flatnonzero(held >= minimum)
    if not len(kept):
        raise VocabularyError(f"no word is held by {minimum} training documents; lower the minimum or add reports")
    return Vocabulary(words=tuple(words[number] for number in kept), method=f"documents >= {minimum}")
