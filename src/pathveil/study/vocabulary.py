"""The vocabulary study: for each left-out registry and each way of choosing words, how much leaks and what F1 remains.

A fold leaves one registry to the attacker. Of the others' cases a share is held out for testing; the rest chooses the
words and trains the target model. The attacker trains shadow models on halves of the left-out registry (by case), with
the same words and settings, and learns from their answers what membership looks like. Units of work:

    target    one model a fold and vocabulary: its logits on all documents, its F1 on the held-out cases
    shadows   a block of the attacker's models a fold and vocabulary: their logits of the attacked task on all documents

Attacks are cheap and made anew from those. Two protocols stand side by side, the paper's with its control (see
``audit.evidence``). The paper's attack (one classifier a class) is there for each number of shadows; the loss threshold
and offline RMIA, which need no membership labels of the attacker's own records, are there as stronger ones.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from pathveil.audit import attacks, evidence, rmia, shokri
from pathveil.errors import UsageError
from pathveil.federation.run import unseen_rows
from pathveil.progress import Progress, silent
from pathveil.study.encoded import relabelled, whole
from pathveil.study.findings import vocabulary_findings
from pathveil.study.store import Cells, only_one, write_json
from pathveil.training.batches import hold_out_cases
from pathveil.training.metrics import evaluate
from pathveil.training.settings import TrainingSettings
from pathveil.vocabulary.counting import count
from pathveil.vocabulary.encoded import Encoded
from pathveil.vocabulary.encoding import lookup
from pathveil.vocabulary.selection import PAPER_BASELINE, PAPER_SIZES, Measures, paper_sentences, scaled, select
from pathveil.vocabulary.words import Vocabulary

if TYPE_CHECKING:
    from pathveil.vocabulary.tokens import Tokens

PER_CLASS = "per-class"  # the paper's attack


class VocabularySettings(BaseModel):
    """What a vocabulary study compares."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    strategies: tuple[str, ...] | None = None  # names as in the paper (B, I2, MI500) or None for all it has
    sizes: tuple[int, ...] | None = None  # of mutual-information vocabularies; None scales the paper's to the corpus
    minimum: int = Field(5, ge=1)  # occurrences of a baseline word
    folds: tuple[str, ...] | None = None  # registries to leave out in turn; None for all
    tasks: tuple[str, ...] | None = None
    attacked: str = "site"  # the task whose answers the paper's attack reads
    shadows: int = Field(20, ge=2)
    counts: tuple[int, ...] = (1, 10, 20, 40, 60, 80, 100)  # numbers of shadows to attack with, up to ``shadows``
    edges: tuple[int, ...] = (
        25,
        100,
    )  # training documents of a class that part the buckets; the paper's: 100, 1,000, 10,000
    test_share: float = Field(0.2, gt=0, lt=1)
    seed: int = 1
    training: Mapping[str, Any] = Field(default_factory=dict)  # changes to the training settings

    @property
    def numbers(self) -> tuple[int, ...]:
        """Numbers of shadows to attack with: those asked for, and all there are."""
        return tuple(sorted({n for n in self.counts if n < self.shadows} | {self.shadows}))


@dataclass(frozen=True)
class Fold:
    """One registry left to the attacker."""

    name: str
    training: np.ndarray  # rows the target may learn from
    unseen: np.ndarray  # held-out rows of the same registries
    foreign: np.ndarray  # rows of the left-out registry


def folds_of(corpus: Encoded, settings: VocabularySettings) -> list[Fold]:
    """The folds asked for; every registry's cases are held out alike in each of them."""
    names = settings.folds or corpus.registry_names
    for name in names:
        if name not in corpus.registry_names:
            raise UsageError(
                f"there is no registry '{name}' to leave out; there are {', '.join(corpus.registry_names)}"
            )
    if len(corpus.registry_names) < 3:
        raise UsageError(f"leaving one registry out needs at least three; there are {len(corpus.registry_names)}")
    held = unseen_rows(corpus, share=settings.test_share, seed=settings.seed)
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


def study(
    corpus: Path, settings: VocabularySettings, *, out: Path, device: str = "cpu", progress: Progress = silent
) -> dict[str, Any]:
    """Run what is not finished yet and write ``out/result.json``."""
    training = TrainingSettings().changed(**settings.training)
    with only_one(out):
        cells = Cells(out / "cells")
        store, everything = whole(corpus, tasks=settings.tasks, progress=progress)
        if settings.attacked not in everything.classes:
            raise UsageError(
                f"there is no task '{settings.attacked}' to attack; there are {', '.join(everything.classes)}"
            )
        table1: list[dict[str, Any]] = []
        table2: list[dict[str, Any]] = []
        vocabularies: list[dict[str, Any]] = []
        folds = folds_of(everything, settings)
        plan = [
            (fold, name, words)
            for fold in folds
            for name, words in chosen_from(store, everything, fold.training, settings)
        ]
        for done, (fold, name, words) in enumerate(plan):
            progress("folds and vocabularies", done, len(plan))
            unit = _Unit(everything, store, fold, name, words, settings, training, device)
            values, logits = unit.target(cells, progress)
            inside, shadows = unit.shadows(cells, progress)
            place = {"fold": fold.name, "strategy": name, "size": len(words.words)}
            vocabularies.append(place | {"method": words.method, "sha256": words.sha256, "epoch": values["epoch"]})
            table1 += [place | row for row in unit.attack(values, logits, inside, shadows)]
            table2 += [
                {"attack_registry": fold.name, "strategy": name, "size": len(words.words), "task": task} | scores
                for task, scores in values["scores"].items()
            ]
        progress("folds and vocabularies", len(plan), len(plan))
        result = {
            "study": "vocabulary",
            "settings": settings.model_dump(mode="json") | {"training": training.model_dump(mode="json")},
            "provenance": {**store.provenance, "registries": list(store.registry_names)},
            "vocabularies": vocabularies,
            "table1": table1,
            "table2": table2,
            "findings": vocabulary_findings([row for row in table1 if "accuracy" in row], table2),
        }
        write_json(out / "result.json", result)
    return result


def chosen_from(
    store: "Tokens", corpus: Encoded, training: np.ndarray, settings: VocabularySettings
) -> Iterator[tuple[str, Vocabulary]]:
    """Vocabularies by name, from the given training documents alone."""
    counts = count(store, corpus.labels, corpus.classes, rows=training)
    sizes = settings.sizes
    if sizes is None:
        # Scaled from the whole corpus, so that a vocabulary has the same name in every fold.
        words = (np.bincount(np.asarray(store.ids), minlength=len(store.words)) >= settings.minimum).sum()
        sizes = tuple(dict.fromkeys(scaled(size * float(words) / PAPER_BASELINE) for size in PAPER_SIZES))
    sentences = paper_sentences(len(counts.registry_names), minimum=settings.minimum, sizes=sizes)
    measures = Measures(counts)
    for name in settings.strategies or sentences:
        if name not in sentences:
            raise UsageError(f"there is no vocabulary '{name}' here; there are {', '.join(sentences)}")
        yield name, select(measures, sentences[name])


class _Unit:
    """One fold with one vocabulary."""

    def __init__(
        self,
        everything: Encoded,
        store: "Tokens",
        fold: Fold,
        name: str,
        words: Vocabulary,
        settings: VocabularySettings,
        training: TrainingSettings,
        device: str,
    ):
        self.fold, self.name, self.settings, self.training, self.device = fold, name, settings, training, device
        self.corpus = relabelled(everything, lookup(store, words), words)
        self.parts = {
            "study": "vocabulary",
            "corpus": store.provenance["corpus_sha256"],
            "text": store.provenance["text"],
            "vocabulary": words.sha256,
            "fold": fold.name,
            "training": training.model_dump(),
            "settings": settings.model_dump(include={"tasks", "test_share", "seed"}),
        }

    def target(self, cells: Cells, progress: Progress) -> tuple[dict[str, Any], Mapping[str, np.ndarray]]:
        """The attacked model: what it scores on unseen cases, and its logits on every document."""
        from pathveil.training.loop import fit, logits_of

        parts = self.parts | {"unit": "target"}
        if not cells.has(parts):
            corpus, fold = self.corpus, self.fold
            own = corpus.take(fold.training)
            stage = f"target {fold.name} {self.name}"
            fitted = fit(
                own, self.training, seed=self.settings.seed, device=self.device, progress=progress, stage=stage
            )
            logits = logits_of(fitted.model, corpus, device=self.device)
            scores = {}
            for task, values in logits.items():
                truth, cases = np.asarray(corpus.labels[task])[fold.unseen], corpus.cases[fold.unseen]
                if (truth >= 0).any():
                    found = evaluate(truth, values[fold.unseen].argmax(1), cases=cases, resamples=200)
                    values_of = {"micro": found.micro.value, "macro": found.macro.value}
                    scores[task] = values_of | {"micro_ci": _pair(found.micro), "macro_ci": _pair(found.macro)}
            members = np.setdiff1d(fold.training, fold.training[fitted.validation])
            arrays = {f"logits-{task}": values.astype(np.float16) for task, values in logits.items()}
            values = {"scores": scores, "epoch": fitted.best_epoch, "epochs": len(fitted.history)}
            cells.write(parts, values, arrays | {"members": members})
        values, arrays = cells.read(parts)
        return values | {"members": arrays["members"]}, arrays

    def shadows(self, cells: Cells, progress: Progress) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Who was in which shadow (shadows, documents), and each task's logits (shadows, documents, classes)."""
        from pathveil.training.stacked import logits_many

        settings, corpus, foreign = self.settings, self.corpus, self.fold.foreign
        inside = np.zeros((settings.shadows, corpus.documents), bool)
        for number in range(settings.shadows):
            half, _ = hold_out_cases(corpus.cases[foreign], share=0.5, seed=[settings.seed, 2, number])
            inside[number, foreign[half]] = True
        wanted = []
        for number in range(settings.shadows):
            if not cells.has(self._shadow(number)):
                wanted.append(number)
        members = [np.flatnonzero(inside[number]) for number in wanted]
        seeds = [settings.seed * 10_000 + number + 1 for number in wanted]
        stage = f"shadows {self.fold.name} {self.name}"
        for place, logits in logits_many(
            corpus, members, self.training, seeds=seeds, device=self.device, progress=progress, stage=stage
        ):
            arrays = {f"logits-{task}": values for task, values in logits.items()}
            cells.write(self._shadow(wanted[place]), {}, arrays)
        stacks: dict[str, list[np.ndarray]] = {task: [] for task in corpus.tasks}
        for number in range(settings.shadows):
            _, arrays = cells.read(self._shadow(number))
            for task, stack in stacks.items():
                stack.append(arrays[f"logits-{task}"])
        return inside, {task: np.stack(stack) for task, stack in stacks.items()}

    def _shadow(self, number: int) -> dict[str, Any]:
        return self.parts | {"unit": "shadow", "number": number}

    def attack(
        self,
        values: Mapping[str, Any],
        logits: Mapping[str, np.ndarray],
        inside: np.ndarray,
        shadows: Mapping[str, np.ndarray],
    ) -> list[dict[str, Any]]:
        """Rows of Table 1: every attack under every protocol and bucket."""
        corpus, fold, task = self.corpus, self.fold, self.settings.attacked
        member = np.zeros(corpus.documents, bool)
        member[values["members"]] = True
        kept = np.concatenate([values["members"], fold.unseen, fold.foreign])
        records = evidence.Records(
            member=member[kept],
            cases=corpus.cases[kept],
            labels={name: np.asarray(label)[kept] for name, label in corpus.labels.items()},
            classes=corpus.classes,
            registries=corpus.registries[kept],
        )
        scores = [*self._per_class(logits, inside, shadows, kept), *self._stronger(logits, inside, shadows, kept)]
        names = evidence.rarity.bucket_names(self.settings.edges)
        rows = evidence.measure(scores, records, edges=self.settings.edges, seed=self.settings.seed)
        flat = []
        for row in rows:
            if row["unit"] != "report":
                continue
            order = 0 if row["bucket"] == evidence.ALL else 1 + names.index(row["bucket"])
            flat.append(_flat(row) | {"bucket_order": order, "attacked_task": task})
        return flat

    def _per_class(
        self, logits: Mapping[str, np.ndarray], inside: np.ndarray, shadows: Mapping[str, np.ndarray], kept: np.ndarray
    ) -> Iterator[evidence.Score]:
        task = self.settings.attacked
        labels = np.asarray(self.corpus.labels[task])
        own, foreign = labels[kept], self.fold.foreign
        seen = shokri.attack_features(_softmax(shadows[task][:, foreign]), labels[foreign])
        answers = shokri.attack_features(_softmax(logits[f"logits-{task}"][kept]), own)
        for number in self.settings.numbers:
            features, of, member = shokri.pooled(seen, labels[foreign], inside[:, foreign], shadows=number)
            models = shokri.fit(features, of, member, classes=len(self.corpus.classes[task]))
            chance = models.predict(answers, own)
            yield evidence.Score(PER_CLASS, task, chance, shadows=number, threshold=0.5, decides=False)

    def _stronger(
        self, logits: Mapping[str, np.ndarray], inside: np.ndarray, shadows: Mapping[str, np.ndarray], kept: np.ndarray
    ) -> Iterator[evidence.Score]:
        """The loss threshold and offline RMIA, on the attacked task and on all tasks together."""
        target, reference = [], []
        for task in self.corpus.tasks:
            labels = np.asarray(self.corpus.labels[task])[kept]
            target.append(
                attacks.of_label(attacks.log_softmax(logits[f"logits-{task}"][kept].astype(np.float64)), labels)
            )
            answers = attacks.log_softmax(shadows[task][:, kept].astype(np.float32))
            reference.append(attacks.of_label(answers, labels))
        attacked = self.corpus.tasks.index(self.settings.attacked)
        foreign = np.isin(kept, self.fold.foreign)
        pairs = ((self.settings.attacked, target[attacked], reference[attacked]),)
        pairs += ((evidence.TOGETHER, np.nansum(target, axis=0), np.nansum(reference, axis=0)),)
        for task, own, others in pairs:
            yield evidence.Score("loss threshold", task, own)
            ratio = rmia.log_ratio(own, others, inside[:, kept], offline=True)
            # The attacker's own records, which he knows to be no members, are the population.
            yield evidence.Score("RMIA offline", task, rmia.rmia(ratio, population=ratio[foreign]), shadows=len(inside))


def _softmax(logits: np.ndarray) -> np.ndarray:
    return np.exp(attacks.log_softmax(logits.astype(np.float64)))


def _pair(interval: Any) -> list[float]:
    return [interval.low, interval.high]


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of the audit in Table 1's columns: values, with the intervals beside them."""
    if "accuracy" not in row:
        return dict(row)
    flat = dict(row) | {name: row[name]["value"] for name in ("accuracy", "balanced_accuracy", "auc")}
    flat["tpr_at_fpr"] = {fpr: estimate["value"] for fpr, estimate in row["tpr_at_fpr"].items()}
    flat["ci"] = {name: [row[name]["low"], row[name]["high"]] for name in ("accuracy", "balanced_accuracy", "auc")}
    flat["ci"] |= {f"tpr@{fpr}": [e["low"], e["high"]] for fpr, e in row["tpr_at_fpr"].items()}
    return flat


def strongest(table1: Sequence[Mapping[str, Any]], *, protocol: str = evidence.MATCHED) -> dict[str, float]:
    """A strategy's leak: the mean over folds of the largest AUC any attack reached under a protocol."""
    best: dict[tuple[str, str], float] = {}
    for row in table1:
        if row["protocol"] == protocol and row["bucket"] == evidence.ALL and row.get("auc") is not None:
            key = row["strategy"], row["fold"]
            best[key] = max(best.get(key, 0.0), row["auc"])
    names = dict.fromkeys(strategy for strategy, _ in best)
    return {name: float(np.mean([auc for (s, _), auc in best.items() if s == name])) for name in names}
