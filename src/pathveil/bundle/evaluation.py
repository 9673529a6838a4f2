"""How a model does on a corpus with labels: micro and macro F1 and accuracy a task, with intervals by case.

Beside these stand details by class, registry and year (``pathveil.bundle.evaluation_details``), and contradictions
between the codes of a report; ``Evaluation.page`` shows all as a page.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from pathveil.bundle.coder import nothing_read, unread
from pathveil.bundle.evaluation_details import TaskDetails, detail_task
from pathveil.bundle.joint import RULES, Rules
from pathveil.bundle.model import Model
from pathveil.bundle.training_cases import read_training_cases
from pathveil.corpus import Corpus, read
from pathveil.corpus.rows import MOST_SKIPPED, RowCounts
from pathveil.errors import CorpusError, UsageError
from pathveil.formatting import counted, listed, width_of
from pathveil.icdo.codes import is_another_form
from pathveil.progress import Progress, silent
from pathveil.results import Part, Result
from pathveil.training.blend import choose
from pathveil.training.metrics import TaskScores, evaluate
from pathveil.training.scores import NEVER, Scores
from pathveil.vocabulary.encoded import EncodedCorpus
from pathveil.vocabulary.encoding import encode, read_days


class CodedShare(Part):
    """What the model's thresholds do."""

    share: float  # of the reports, at or above the threshold and with a word that the model knows
    accuracy: float | None  # of those; none where there are none
    cases: int = 0  # of how many they are


class TaskEvaluation(Scores):
    """A task's scores on reports the model has not seen."""

    unseen_labels: int  # reports whose label the model does not know; each is an error
    unseen_cases: int = 0  # of how many these are
    coded: CodedShare
    threshold: float | None = None  # probability from which on codes are taken; none where none are
    wanted: float | None = None  # accuracy that the threshold was chosen for
    details: TaskDetails | None = None


class Evaluation(Result):
    """Scores of a model on a corpus."""

    documents: int
    model_sha256: str
    tasks: dict[str, TaskEvaluation]
    cases: int | None = None
    contradictions: int | None = None  # reports whose codes contradict each other
    contradicting_cases: int = 0  # of how many these are
    warnings: tuple[str, ...] = ()
    training_reports: int | None = None  # of cases that the model was trained with; none where not known
    training_cases: int = 0  # of how many these are
    training_texts: int | None = None  # other reports that read word for word like one of training
    training_text_cases: int = 0
    unread: int = 0  # reports of which the model reads nothing
    unread_cases: int = 0
    tables: RowCounts | None = None  # what became of the rows of tables, where some could not be used

    @property
    def warning(self) -> str:
        """What makes these scores better than they are; empty where nothing is known to."""
        whole = f"of {self.documents:,} reports"
        found = []
        if number := self.training_reports:
            belong = "belongs" if number == 1 else "belong"
            found.append(f"{number:,} {whole} {belong} to cases that the model was trained with")
        if number := self.training_texts:
            read = "reads" if number == 1 else "read"
            found.append(f"{number:,} {whole} {read} word for word like one that it was trained with, of another case")
        if not found:
            return ""
        end = "these scores are better than new reports will keep; evaluate on cases it never saw"
        return f"{', and '.join(found)}: {end}"

    @property
    def unknown_labels(self) -> list[str]:
        """What to say where most labels of tasks are none of the model's: perhaps they are, in another form."""
        tasks = [task for task, one in self.tasks.items() if 2 * one.unseen_labels > one.documents]
        if not tasks:
            return []
        return [
            f"most labels of {listed(tasks)} are codes that the model does not know, and count as errors; codes in "
            "another form (C504 for C50.4, 8500/3 for 8500) are put in one by 'pathveil corpus import', or with --map."
        ]

    @property
    def unread_reports(self) -> list[str]:
        """What to say of reports that count as errors unread."""
        return [nothing_read(self.unread)] if self.unread else []

    @property
    def left_to_people(self) -> str:
        """What to say of tasks in which a person decides on every report; empty where there are none."""
        tasks = [task for task, one in self.tasks.items() if one.threshold is None]
        if not tasks:
            return ""
        return (
            f"All reports are left to a person for {listed(tasks)}: no threshold was found that keeps what was asked "
            "on cases held out of training. More reports to train on may bring one, or 'pathveil train' with a lower "
            "--accuracy."
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
        wide = width_of(self.tasks)
        lines = [
            f"{self.documents:,} reports",
            *(self.tables.lines() if self.tables else []),
            *([f"Warning: {self.warning}."] if self.warning else []),
            "",
            f"{'task':<{wide}}{'reports':>9}  {'micro F1':<22}{'macro F1':<22}{'coded':>7}{'right':>8}",
        ]
        for task, scores in self.tasks.items():
            right = scores.coded.accuracy
            lines.append(
                f"{task:<{wide}}{scores.documents:>9,}  {scores.micro!s:<22}{scores.macro!s:<22}"
                f"{scores.coded.share:>7.1%}" + (f"{right:>8.1%}" if right is not None else f"{'–':>8}")
            )
        lines += [
            "",
            "F1 with 95 % intervals by case; 'coded' are the reports above the bundle's thresholds, 'right' of those.",
            *([self.left_to_people] if self.left_to_people else []),
        ]
        if self.contradictions:
            lines.append(f"Codes of {counted(self.contradictions, 'report')} contradict each other.")
        return "\n".join(
            [*lines, *(f"Note: {warning}" for warning in (*self.warnings, *self.unknown_labels, *self.unread_reports))]
        )

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
    most_skipped: float = MOST_SKIPPED,
    device: str = "cpu",
    progress: Progress = silent,
) -> Evaluation:
    """Scores on all tasks that both the model and the reports have (or those named).

    ``reports`` is whatever ``pathveil.corpus.read`` reads. A label the model never saw counts as an error; codes that
    are written otherwise than the model's (C504) are put into one form. Rows that cannot be used are left out and
    counted; a table with more than the share ``most_skipped`` of them is refused.
    """
    wanted = None if tasks is None else list(tasks)
    for task in wanted or ():
        if task not in model.labels:
            raise UsageError(f"the bundle has no task '{task}'; it has {', '.join(model.tasks)}")
    # Files that are made of a frame, or of a table with rows left out, last as long as this object.
    source = read(reports, tasks=wanted, most_skipped=most_skipped, progress=progress)
    if is_written_otherwise(source, model):
        source = source.in_one_form(tasks=wanted)
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
    return found.model_copy(update={**training_overlap(model, corpus), "tables": source.tables})


def is_written_otherwise(reports: Corpus, model: Model) -> bool:
    """Whether a label is one of the model's in another form: as it is, it would count as an error."""
    labels = reports.lazy()
    for task in (task for task in model.tasks if task in reports.tasks):
        found = labels.select(task).drop_nulls().unique().collect(engine="streaming")[task]
        if any(is_another_form(task, label, model.labels[task]) for label in found):
            return True
    return False


def training_overlap(model: Model, corpus: EncodedCorpus) -> dict[str, int]:
    """How many reports belong to training cases, and how many others read exactly like a training report; empty where
    nothing tells."""
    named = model.provenance.get("corpus_sha256")
    if named is not None and named == corpus.provenance.get("corpus_sha256"):
        known, alike = np.ones(corpus.documents, bool), np.zeros(corpus.documents, bool)
    elif training := read_training_cases(model, model.folder):
        known = training.has_cases_of(corpus)
        alike = training.has_texts_of(corpus) & ~known
    else:
        return {}
    return {
        "training_reports": int(known.sum()),
        "training_cases": cases_among(corpus.cases, known),
        "training_texts": int(alike.sum()),
        "training_text_cases": cases_among(corpus.cases, alike),
    }


def cases_among(cases: np.ndarray, chosen: np.ndarray) -> int:
    """Of how many cases the chosen documents are."""
    return len(np.unique(cases[chosen]))


def evaluate_encoded(
    model: Model,
    corpus: EncodedCorpus,
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
    groups, empty = groups_of(corpus), unread(model, corpus.ids, corpus.offsets)
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
            empty=empty,
            cases=corpus.cases,
            groups=groups,
            names=corpus.classes[task],
        )
        sure = np.where(empty, 0.0, probability)
        found[task] = task_evaluation(model, task, scores, labels, predicted, sure, corpus.cases, details)
        progress("scoring", number + 1, len(shared))
    against = ~Rules.of(model.labels, RULES).allow(chosen)
    return Evaluation(
        documents=corpus.documents,
        model_sha256=model.model_sha256,
        tasks=found,
        cases=len(np.unique(corpus.cases)),
        contradictions=int(against.sum()),
        contradicting_cases=cases_among(corpus.cases, against),
        unread=int(empty.sum()),
        unread_cases=cases_among(corpus.cases, empty),
        warnings=warnings_of(model, corpus),
    )


def task_evaluation(
    model: Model,
    task: str,
    scores: TaskScores,
    labels: np.ndarray,
    predicted: np.ndarray,
    probability: np.ndarray,
    cases: np.ndarray,
    details: TaskDetails,
) -> TaskEvaluation:
    """A task's scores; ``probability`` is 0 where a report is left to a person whatever is said of it."""
    threshold = model.thresholds.get(task)
    known = labels >= 0
    taken = known & (probability > 0) & (probability >= (threshold.probability if threshold else NEVER))
    unseen = labels >= len(model.labels[task])
    return TaskEvaluation(
        documents=scores.documents,
        unseen_labels=int(unseen.sum()),
        unseen_cases=cases_among(cases, unseen),
        micro=scores.micro,
        macro=scores.macro,
        accuracy=scores.accuracy,
        coded=CodedShare(
            share=float(taken.sum() / known.sum()),
            accuracy=float((predicted == labels)[taken].mean()) if taken.any() else None,
            cases=cases_among(cases, taken),
        ),
        threshold=threshold.probability if threshold and threshold.probability < NEVER else None,
        wanted=threshold.wanted if threshold else None,
        details=details,
    )


def groups_of(corpus: EncodedCorpus) -> dict[str, np.ndarray]:
    """Each document's registry and year as text; empty where they are unknown."""
    names = np.array(corpus.registry_names or ("",), dtype=np.str_)
    years = np.full(corpus.documents, "", dtype="<U4")
    if corpus.days is not None:
        known = ~np.isnat(corpus.days)
        years[known] = corpus.days[known].astype("datetime64[Y]").astype(str)
    return {"registry": names[corpus.registries], "year": years}


def warnings_of(model: Model, corpus: EncodedCorpus) -> tuple[str, ...]:
    """What makes the figures say less than they seem to."""
    trained_on = model.provenance.get("corpus_sha256")
    if trained_on and trained_on == corpus.provenance.get("corpus_sha256"):
        return ("these are the reports that the model was trained on; of new ones it will be less often right.",)
    return ()
