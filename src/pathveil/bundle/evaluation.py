"""How a bundle does on a corpus with labels: micro and macro F1 and accuracy a task, with intervals by case."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from pathveil.bundle.coder import clip_of
from pathveil.bundle.folder import Bundle
from pathveil.corpus.schema import Paths
from pathveil.errors import CorpusError, UsageError
from pathveil.progress import Progress, silent
from pathveil.training.calibration import NEVER
from pathveil.training.metrics import evaluate
from pathveil.vocabulary.encoding import encode


def evaluate_bundle(
    bundle: Bundle,
    paths: Paths,
    *,
    tasks: Iterable[str] | None = None,
    resamples: int = 1000,
    seed: int = 0,
    device: str = "cpu",
    progress: Progress = silent,
) -> dict[str, Any]:
    """Scores on all tasks that both the bundle and the corpus have (or those named).

    A label the model never saw counts as an error. ``coded`` is what the thresholds do: the share of reports above
    them, and how many of those are right.
    """
    wanted = None if tasks is None else list(tasks)
    for task in wanted or ():
        if task not in bundle.labels:
            raise UsageError(f"the bundle has no task '{task}'; it has {', '.join(bundle.tasks)}")
    corpus = encode(
        paths, bundle.vocabulary, tasks=wanted, classes=bundle.labels, words=clip_of(bundle), progress=progress
    )
    shared = [task for task in bundle.tasks if task in corpus.tasks and (np.asarray(corpus.labels[task]) >= 0).any()]
    if not shared:
        raise CorpusError(f"the corpus has no labels for any of the bundle's tasks ({', '.join(bundle.tasks)})")
    said = bundle.model.log_probabilities(corpus.ids, corpus.offsets, device=device, progress=progress)
    chosen = bundle.model.choose(said)
    result: dict[str, Any] = {"documents": corpus.documents, "bundle": bundle.sha256, "tasks": {}}
    for number, task in enumerate(shared):
        labels, predicted = np.asarray(corpus.labels[task]), chosen[task]
        known = labels >= 0
        scores = evaluate(labels, predicted, cases=corpus.cases, resamples=resamples, seed=seed)
        threshold = bundle.thresholds.get(task, {}).get("probability", NEVER)
        sure = np.exp(said[task][np.arange(corpus.documents), predicted])
        taken = known & (sure >= threshold)
        result["tasks"][task] = {
            "documents": scores.documents,
            "unseen_labels": int((labels >= len(bundle.labels[task])).sum()),
            **scores.as_dict(),
            "coded": {
                "share": float(taken.sum() / known.sum()),
                "accuracy": float((predicted == labels)[taken].mean()) if taken.any() else None,
            },
        }
        progress("scoring", number + 1, len(shared))
    return result


def describe(result: dict[str, Any]) -> str:
    """The scores as a table for people."""
    lines = [
        f"{result['documents']:,} reports",
        "",
        f"{'task':<12}{'reports':>9}  {'micro F1':<22}{'macro F1':<22}{'coded':>7}{'right':>8}",
    ]
    for task, score in result["tasks"].items():
        micro, macro = (
            f"{score[kind]['value']:.3f} ({score[kind]['low']:.3f}–{score[kind]['high']:.3f})"
            for kind in ("micro", "macro")
        )
        right = score["coded"]["accuracy"]
        lines.append(
            f"{task:<12}{score['documents']:>9,}  {micro:<22}{macro:<22}{score['coded']['share']:>7.1%}"
            + (f"{right:>8.1%}" if right is not None else f"{'–':>8}")
        )
    lines += [
        "",
        "F1 with 95 % intervals by case; 'coded' are the reports above the bundle's thresholds, 'right' of those.",
    ]
    return "\n".join(lines)
