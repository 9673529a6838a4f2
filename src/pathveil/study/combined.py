"""The combined study, which neither paper has: every way of training with every vocabulary, on one plane.

For each mode and each vocabulary the model is trained over the registries; its F1 on unseen cases is set against what
an attacker reads off its probabilities (all evidence for a report together: the AUC and the true-positive rate of
a threshold on it, members against unseen cases of the same registries). The Pareto front holds the combinations that
no other one beats on both; the recommendation is the best F1 among those within a given tolerance.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from pathveil.audit import evidence, metrics
from pathveil.federation.run import MODES, result_of, run, unseen_rows
from pathveil.progress import Progress, silent
from pathveil.study.distribution import config_of
from pathveil.study.encoded import relabelled, whole
from pathveil.study.store import Cells, only_one, write_json
from pathveil.study.vocabulary import VocabularySettings, chosen_from
from pathveil.vocabulary.encoded import Encoded
from pathveil.vocabulary.encoding import lookup


class CombinedSettings(BaseModel):
    """What the plane holds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    modes: tuple[str, ...] = ("centralized", "adversarial", "strong")
    strategies: tuple[str, ...] | None = None  # names as in the vocabulary study; None for all
    sizes: tuple[int, ...] | None = None
    minimum: int = Field(5, ge=1)
    tasks: tuple[str, ...] | None = None
    seed: int = 1
    test_share: float = Field(0.2, gt=0, lt=1)
    tolerated: float = Field(0.6, ge=0.5, le=1)  # the largest upper bound of the attacker's AUC that may be released
    training: Mapping[str, Any] = Field(default_factory=dict)


def study(corpus: Path, settings: CombinedSettings, *, out: Path, progress: Progress = silent) -> dict[str, Any]:
    """Run what is not finished yet and write ``out/result.json``."""
    with only_one(out):
        cells = Cells(out / "cells")
        store, everything = whole(corpus, tasks=settings.tasks, progress=progress)
        held = unseen_rows(everything, share=settings.test_share, seed=settings.seed)
        training = np.setdiff1d(np.arange(everything.documents), np.concatenate(list(held.values())))
        choice = VocabularySettings(strategies=settings.strategies, sizes=settings.sizes, minimum=settings.minimum)
        words = dict(chosen_from(store, everything, training, choice))
        plan = [(name, mode) for name in words for mode in settings.modes]
        points = []
        for done, (name, mode) in enumerate(plan):
            progress("combinations", done, len(plan))
            config = config_of(mode, settings.training)
            parts = {
                "study": "combined",
                "corpus": store.provenance["corpus_sha256"],
                "text": store.provenance["text"],
                "vocabulary": words[name].sha256,
                "mode": mode,
                "config": config.model_dump(),
                "settings": settings.model_dump(include={"tasks", "seed", "test_share"}),
            }
            encoded = relabelled(everything, lookup(store, words[name]), words[name])

            def work(mode: str = mode, encoded: Encoded = encoded, config: Any = config) -> dict[str, Any]:
                trained = mode if mode in MODES else "adversarial"
                outcome = run(
                    encoded,
                    mode=trained,
                    config=config,
                    seed=settings.seed,
                    test=settings.test_share,
                    progress=progress,
                )
                rows = result_of(encoded, [outcome], test=settings.test_share, resamples=200)
                return point_of(rows, outcome.confidence, seed=settings.seed)

            place = {"strategy": name, "size": len(words[name].words), "mode": mode}
            points.append(place | cells.once(parts, work))
        progress("combinations", len(plan), len(plan))
        result = {
            "study": "combined",
            "settings": settings.model_dump(mode="json"),
            "provenance": {**store.provenance, "registries": list(everything.registry_names)},
            "points": marked(points),
            "recommendation": recommend(points, tolerated=settings.tolerated),
            "findings": [],
        }
        write_json(out / "result.json", result)
    return result


def point_of(rows: Mapping[str, Any], confidence: Any, *, seed: int) -> dict[str, Any]:
    """F1 over registries and tasks, and what the attacker gets."""
    weights = metrics.case_weights(confidence.member, confidence.cases, seed=seed)
    found = evidence.figures(confidence.values, confidence.member, confidence.cases, weights, seed=seed)
    micro, macro = (float(np.mean([row[name]["value"] for row in rows["scores"]])) for name in ("micro", "macro"))
    probe = rows["probe"][0] if rows["probe"] else None
    told = None if probe is None else max(probe["linear"], probe["mlp"])
    return {"micro": micro, "macro": macro, "auc": found["auc"], "tpr_at_fpr": found["tpr_at_fpr"], "probe": told}


def front(points: Sequence[tuple[float, float]]) -> list[bool]:
    """Which (leak, F1) points no other point beats: less leak and at least the F1, or as little and more F1.

    >>> front([(0.6, 0.9), (0.5, 0.8), (0.55, 0.7), (0.5, 0.85)])
    [True, False, False, True]
    """
    return [
        not any((leak <= own and score >= f1) and (leak, score) != (own, f1) for leak, score in points)
        for own, f1 in points
    ]


def marked(points: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Points with their place on the front."""
    on = front([(point["auc"]["value"], point["macro"]) for point in points])
    return [{**point, "front": mark} for point, mark in zip(points, on, strict=True)]


def recommend(points: Sequence[Mapping[str, Any]], *, tolerated: float) -> dict[str, Any]:
    """The best macro F1 among combinations whose leak is surely tolerable, or else the least leaking one."""
    if not points:
        return {"sentence": "There is nothing to recommend: no combination was trained."}
    fitting = [point for point in points if point["auc"]["high"] <= tolerated]
    if fitting:
        best = max(fitting, key=lambda point: point["macro"])
        why = f"the best macro F1 ({best['macro']:.3f}) among the {len(fitting)} of {len(points)} combinations"
        sentence = (
            f"Use {best['strategy']} with {best['mode']} training: {why} whose attacker's AUC is at most {tolerated:g}."
        )
    else:
        best = min(points, key=lambda point: point["auc"]["high"])
        sentence = (
            f"No combination keeps the attacker's AUC to {tolerated:g}; the least leaking one is {best['strategy']} "
            f"with {best['mode']} training, AUC {best['auc']['value']:.3f} (up to {best['auc']['high']:.3f})."
        )
    return {"sentence": sentence, "strategy": best["strategy"], "mode": best["mode"], "within": bool(fitting)}
