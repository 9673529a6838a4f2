"""How a model does on a corpus with labels: micro and macro F1 and accuracy a task, with intervals by case.

Beside these stand details by class, registry and year (``pathveil.bundle.evaluation_details``), and contradictions
between the codes of a report; ``Evaluation.page`` shows all as a page.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from pathveil.bundle.evaluation_details import TaskDetails, detail_task
from pathveil.bundle.joint import RULES, Rules
from pathveil.bundle.model import Model
from pathveil.bundle.training_cases import read_training_cases
from pathveil.corpus import read
from pathveil.errors import CorpusError, UsageError
from pathveil.progress import Progress, silent
from pathveil.results import Part, Result
from pathveil.training.blend import choose
from pathveil.training.metrics import TaskScores, evaluate
from pathveil.training.scores import NEVER, Scores
from pathveil.vocabulary.encoded import Encoded
from pathveil.vocabulary.encoding import encode, read_days
from pathveil.wording import counted


class CodedShare(Part):
    """What the model's thresholds do."""

    share: float  # of the reports, at or above the threshold
    accuracy: float | None  # of those; none where there are none


class TaskEvaluation(Scores):
    """A task's scores on reports the model has not seen."""

    unseen_labels: int  # reports whose label the model does not know; each is an error
    coded: CodedShare
    threshold: float | None = None  # probability from which on codes are taken; none where none are
    wanted: float | None = None  # accuracy that the threshold was chosen for
    details: TaskDetails | None = None


class Evaluation(Result):
    """Scores of a model on a corpus."""

    documents: int
    bundle: str  # sha256
    tasks: dict[str, TaskEvaluation]
    cases: int | None = None
    contradictions: int | None = None  # reports whose codes contradict each other
    warnings: tuple[str, ...] = ()
    training_reports: int | None = None  # how many of the reports the model was trained with; none where not known

    @property
    def warning(self) -> str:
        """What makes these scores better than they are; empty where nothing is known to."""
        if not self.training_reports:
            return ""
        return (
            f"{self.training_reports:,} of {self.documents:,} reports belong to cases that the model was trained with: "
            "these scores are better than new reports will keep; evaluate on cases it never saw"
        )

    def rows(self) -> list[dict[str, Any]]:
        return [
            {
                "task": task,
                "documents": scores.documents,
                **{
                    f"{name}{end}": getattr(interval, field)
                    for name, interval in (("micro", scores.micro), ("macro", scores.macro))
                    for end, field in (("", "value"), ("_low", "low"), ("_high", "high"))
                },
                "coded": scores.coded.share,
                "coded_accuracy": scores.coded.accuracy,
            }
            for task, scores in self.tasks.items()
        ]

    def summary(self) -> str:
        lines = [
            f"{self.documents:,} reports",
            *([f"Warning: {self.warning}."] if self.warning else []),
            "",
            f"{'task':<12}{'reports':>9}  {'micro F1':<22}{'macro F1':<22}{'coded':>7}{'right':>8}",
        ]
        for task, scores in self.tasks.items():
            right = scores.coded.accuracy
            lines.append(
                f"{task:<12}{scores.documents:>9,}  {scores.micro!s:<22}{scores.macro!s:<22}{scores.coded.share:>7.1%}"
                + (f"{right:>8.1%}" if right is not None else f"{'–':>8}")
            )
        lines += [
            "",
            "F1 with 95 % intervals by case; 'coded' are the reports above the bundle's thresholds, 'right' of those.",
        ]
        if self.contradictions:
            lines.append(f"Codes of {counted(self.contradictions, 'report')} contradict each other.")
        return "\n".join([*lines, *(f"Note: {warning}" for warning in self.warnings)])

    def page(self) -> str:
        """All figures on one HTML page that needs nothing else."""
        from pathveil.bundle.evaluation_page import render

        return render(self)


def evaluate_model(
    model: Model,
    reports: Any,
    *,
    tasks: Iterable[str] | None = None,
    resamples: int = 1000,
    seed: int = 0,
    device: str = "cpu",
    progress: Progress = silent,
) -> Evaluation:
    """Scores on all tasks that both the model and the reports have (or those named).

    ``reports`` is whatever ``pathveil.corpus.read`` reads. A label the model never saw counts as an error.
    """
    wanted = None if tasks is None else list(tasks)
    for task in wanted or ():
        if task not in model.labels:
            raise UsageError(f"the bundle has no task '{task}'; it has {', '.join(model.tasks)}")
    source = read(reports, tasks=wanted, progress=progress)  # a frame's files last as long as this object
    corpus = encode(
        source.paths,
        model.vocabulary,
        tasks=wanted,
        classes=model.labels,
        words=model.clip,
        identifiers=model.identifiers,
        progress=progress,
    )
    days = read_days(source.paths)
    corpus = replace(corpus, days=days if len(days) == corpus.documents else None)
    found = evaluate_encoded(model, corpus, resamples=resamples, seed=seed, device=device, progress=progress)
    return found.model_copy(update={"training_reports": count_training_reports(model, corpus)})


def count_training_reports(model: Model, corpus: Encoded) -> int | None:
    """How many reports belong to training cases, or read exactly like a training report; none where nothing tells."""
    named = model.provenance.get("corpus_sha256")
    if named is not None and named == corpus.provenance.get("corpus_sha256"):
        return corpus.documents
    training = read_training_cases(model, model.folder)
    if training is None:
        return None
    return int((training.has_cases_of(corpus) | training.has_texts_of(corpus)).sum())


def evaluate_encoded(
    model: Model,
    corpus: Encoded,
    *,
    resamples: int = 1000,
    seed: int = 0,
    device: str = "cpu",
    progress: Progress = silent,
) -> Evaluation:
    """The same for a corpus that was encoded with the model's words and labels."""
    shared = [task for task in model.tasks if task in corpus.tasks and (np.asarray(corpus.labels[task]) >= 0).any()]
    if not shared:
        raise CorpusError(f"the corpus has no labels for any of the bundle's tasks ({', '.join(model.tasks)})")
    log_probabilities = model.ensemble(device).log_probabilities(corpus.ids, corpus.offsets, progress=progress)
    chosen = choose(log_probabilities, model.lift)
    groups = groups_of(corpus)
    found: dict[str, TaskEvaluation] = {}
    for number, task in enumerate(shared):
        labels, predicted = np.asarray(corpus.labels[task]), chosen[task]
        probability = np.exp(log_probabilities[task][np.arange(corpus.documents), predicted].astype(np.float64))
        scores = evaluate(labels, predicted, cases=corpus.cases, resamples=resamples, seed=seed)
        details = detail_task(
            task,
            scores,
            truth=labels,
            chosen=predicted,
            probability=probability,
            cases=corpus.cases,
            groups=groups,
            names=corpus.classes[task],
        )
        found[task] = task_evaluation(model, task, scores, labels, predicted, probability, details)
        progress("scoring", number + 1, len(shared))
    return Evaluation(
        documents=corpus.documents,
        bundle=model.sha256,
        tasks=found,
        cases=len(np.unique(corpus.cases)),
        contradictions=contradicting(model, chosen),
        warnings=warnings_of(model, corpus),
    )


def task_evaluation(
    model: Model,
    task: str,
    scores: TaskScores,
    labels: np.ndarray,
    predicted: np.ndarray,
    probability: np.ndarray,
    details: TaskDetails,
) -> TaskEvaluation:
    threshold = model.thresholds.get(task)
    known = labels >= 0
    taken = known & (probability >= (threshold.probability if threshold else NEVER))
    return TaskEvaluation(
        documents=scores.documents,
        unseen_labels=int((labels >= len(model.labels[task])).sum()),
        micro=scores.micro,
        macro=scores.macro,
        accuracy=scores.accuracy,
        coded=CodedShare(
            share=float(taken.sum() / known.sum()),
            accuracy=float((predicted == labels)[taken].mean()) if taken.any() else None,
        ),
        threshold=threshold.probability if threshold and threshold.probability < NEVER else None,
        wanted=threshold.wanted if threshold else None,
        details=details,
    )


def groups_of(corpus: Encoded) -> dict[str, np.ndarray]:
    """Each document's registry and year as text; empty where they are unknown."""
    names = np.array(corpus.registry_names or ("",), dtype=np.str_)
    years = np.full(corpus.documents, "", dtype="<U4")
    if corpus.days is not None:
        known = ~np.isnat(corpus.days)
        years[known] = corpus.days[known].astype("datetime64[Y]").astype(str)
    return {"registry": names[corpus.registries], "year": years}


def contradicting(model: Model, chosen: Mapping[str, np.ndarray]) -> int:
    """How many documents' chosen codes contradict each other."""
    return int((~Rules.of(model.labels, RULES).allow(chosen)).sum())


def warnings_of(model: Model, corpus: Encoded) -> tuple[str, ...]:
    """What makes the figures say less than they seem to."""
    trained_on = model.provenance.get("corpus_sha256")
    if trained_on and trained_on == corpus.provenance.get("corpus_sha256"):
        return ("these are the reports that the model was trained on; of new ones it will be less often right.",)
    return ()
