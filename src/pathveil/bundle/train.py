"""From a corpus to a bundle: choose or take words, encode, train, judge on held-out cases, set thresholds.

The words come from the training text alone. Scores and thresholds in the bundle come from predictions by networks that
had not seen the case, weighed by what other cases chose (``training.blend``), so they promise no more than new cases
will keep.
"""

import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from pathveil import __version__
from pathveil.arguments import check_number, check_whole_number
from pathveil.bundle.class_floor import ClassFloor, without_rare_codes
from pathveil.bundle.defence import Statement, dp_statement, stated_defence, statement_of
from pathveil.bundle.model import Model
from pathveil.bundle.profile import profile_of
from pathveil.bundle.training_cases import write_training_cases
from pathveil.bundle.weights import architecture_of, to_arrays
from pathveil.corpus import Corpus, read
from pathveil.corpus.schema import Paths
from pathveil.errors import CorpusError, UsageError, VocabularyError, short
from pathveil.files import check_new, read_json
from pathveil.formatting import counted, listed, width_of
from pathveil.icdo.codes import tasks_in_another_form
from pathveil.progress import Progress, silent
from pathveil.results import Result
from pathveil.rng import check_seed
from pathveil.training.blend import HeldOut
from pathveil.training.calibration import threshold_for
from pathveil.training.defences import AnyDefence, DPSettings, defence_named
from pathveil.training.ensemble import Trained, train
from pathveil.training.metrics import evaluate
from pathveil.training.scores import Scores, Threshold
from pathveil.training.settings import TrainingSettings, settings_for
from pathveil.vocabulary.corpus_counts import count_corpus
from pathveil.vocabulary.encoded import MISSING, EncodedCorpus, join_documents
from pathveil.vocabulary.encoding import encode
from pathveil.vocabulary.selection import BASELINE_MIN_COUNT, DEFAULT_SENTENCE, Measures, select
from pathveil.vocabulary.words import Vocabulary

ACCURACY = 0.97  # what registries ask of codes that no person looks at


class TrainingSummary(Result):
    """A model that was trained and written as a bundle."""

    bundle: str  # the folder
    model_sha256: str
    reports: int
    cases: int
    words: int
    best_epochs: list[int]  # of each network
    held_out: dict[str, Scores]
    thresholds: dict[str, Threshold]
    defence: Statement | None = None  # how the model was defended, and what that promises
    warnings: tuple[str, ...] = ()

    def rows(self) -> list[dict[str, Any]]:
        return [
            {
                "task": task,
                "documents": score.documents,
                "micro": score.micro.value,
                "macro": score.macro.value,
                "threshold": self.thresholds[task].probability,
                "abstained": self.thresholds[task].abstained,
            }
            for task, score in self.held_out.items()
        ]

    def summary(self) -> str:
        lines = [
            f"{self.bundle}: trained on {self.reports:,} reports of {self.cases:,} cases, {self.words:,} words.",
            *([str(self.defence)] if self.defence else []),
            *(["On cases held out of training:"] if self.held_out else []),
            *(
                f"  {task:<{width_of(self.held_out)}}{score}; {self.thresholds[task]}"
                for task, score in self.held_out.items()
            ),
            *(f"Note: {warning}" for warning in self.warnings),
            f"Read {Path(self.bundle) / 'card.md'}; next: pathveil evaluate, pathveil audit.",
        ]
        return "\n".join(lines)


def training_summary(model: Model, path: Path) -> TrainingSummary:
    """What a model saved at ``path`` was trained on and reaches."""
    return TrainingSummary(
        bundle=str(path),
        model_sha256=model.model_sha256,
        reports=model.provenance["reports"],
        cases=model.provenance["cases"],
        words=len(model.words),
        best_epochs=model.provenance["best_epochs"],
        held_out=dict(model.scores),
        thresholds=dict(model.thresholds),
        defence=stated_defence(model.provenance),
        warnings=warnings_of(model),
    )


def warnings_of(model: Model) -> tuple[str, ...]:
    """What a model that was trained will say otherwise than its user may expect."""
    tasks = tasks_in_another_form(model.labels)
    if not tasks:
        return ()
    return (
        f"labels of {listed(tasks)} are codes written otherwise than in a corpus (C504 for C50.4), so the model "
        "answers with these, without terms; 'pathveil corpus import' puts them into one form.",
    )


def train_model(
    reports: Any,
    settings: TrainingSettings | None = None,
    *,
    validation: Any = None,
    preset: str | None = None,
    defence: str | Callable[..., Any] | AnyDefence | None = None,
    vocabulary: Vocabulary | None = None,
    tasks: Iterable[str] | None = None,
    accuracy: float = ACCURACY,
    seed: int = 0,
    device: str = "cpu",
    out: str | Path | None = None,
    public_classes: Mapping[str, Sequence[str]] | None = None,
    fewest_cases: int = 1,
    workers: int = 1,
    progress: Progress = silent,
) -> Model:
    """Train with the preset's settings or others, and write the model as a bundle where ``out`` says so.

    ``reports`` is whatever ``pathveil.corpus.read`` reads. ``validation``, reports of other cases, are held out to
    stop by and to set thresholds, and all of ``reports`` is learnt from; else a share of its cases is held out.
    Without a vocabulary, words that five cases hold are chosen from the reports' own text, with the preset ``paper``
    words that occur five times, as in the papers. With ``out``, a run that was
    stopped continues where it stood when it is started again. ``defence`` is teachers, dp, none, or a function of
    one's own (``training.own_defence``), in the place of the preset's or the settings' own. ``public_classes`` are
    each task's codes, from a public source, for a differentially private model: other labels are read as missing.
    Codes of fewer than ``fewest_cases`` cases are not learnt. ``workers`` processes share teachers on a CPU.
    """
    if settings is None:
        preset, settings = settings_for(preset, defence)
    elif defence is not None:
        settings = settings.changed(defence=defence_named(defence))
    check_seed(seed)
    check_whole_number(fewest_cases, "fewest_cases", least=1)
    check_number(accuracy, "accuracy", least=0.5, most=1)
    if public_classes is not None and not isinstance(settings.defence, DPSettings):
        raise UsageError("public classes are for differentially private training; leave them away without --defence dp")
    folder = None if out is None else Path(out)
    checkpoint = None if folder is None else folder.with_name(folder.name + ".training")
    if folder is not None:
        check_new(folder)
    if validation is not None and isinstance(settings.defence, DPSettings):
        raise UsageError("differentially private training draws its held-out cases by itself; leave out --validation")
    given = read_training_corpus(
        reports, vocabulary, preset=preset, tasks=tasks, public_classes=public_classes, fewest_cases=fewest_cases,
        progress=progress,
    )  # fmt: skip
    learnt = given.corpus.documents
    if validation is not None:
        given = with_validation(given, validation, progress)
    trained = train(
        given.corpus,
        settings,
        seed=seed,
        device=device,
        workers=workers,
        checkpoint=checkpoint,
        held_out=None if validation is None else np.arange(learnt, given.corpus.documents),
        progress=progress,
    )
    model = make_model(
        trained, given.judged, given.vocabulary, settings=settings, preset=preset or "default", accuracy=accuracy,
        seed=seed, device=device, public_classes=public_classes is not None, floor=given.floor,
        validation=given.validation,
    )  # fmt: skip
    if folder is None or checkpoint is None:
        return model
    model = model.save(folder)
    write_training_cases(given.corpus, model, folder)
    shutil.rmtree(checkpoint, ignore_errors=True)
    return model


@dataclass(frozen=True)
class TrainingCorpus:
    """What a model is trained with."""

    corpus: EncodedCorpus
    judged: EncodedCorpus  # the same with labels of codes that are not learnt, to judge held-out cases by
    vocabulary: Vocabulary
    floor: ClassFloor | None
    source: Corpus  # a frame's files last as long as this object
    validation: Mapping[str, Any] | None = None  # of the reports at the corpus's end that are only held out


def read_training_corpus(
    reports: Any,
    vocabulary: Vocabulary | None = None,
    *,
    preset: str | None = None,
    tasks: Iterable[str] | None = None,
    public_classes: Mapping[str, Sequence[str]] | None = None,
    fewest_cases: int = 1,
    progress: Progress = silent,
) -> TrainingCorpus:
    """Choose words where none are given, encode the reports, and leave out codes that are not to be learnt."""
    if fewest_cases > 1 and public_classes is not None:
        raise UsageError("--fewest-cases counts private cases; it does not go with --public-classes")
    wanted = list(tasks) if tasks is not None else None if public_classes is None else list(public_classes)
    source = read(reports, tasks=wanted, progress=progress)
    vocabulary = vocabulary or usual_words(source.paths, preset=preset, progress=progress)
    corpus = encode(source.paths, vocabulary, tasks=wanted, classes=public_classes, progress=progress)
    if public_classes is not None:
        corpus = with_classes(corpus, public_classes)
    check_labels(corpus)
    judged, floor = corpus, None
    if fewest_cases > 1:
        corpus, judged, floor = without_rare_codes(corpus, fewest_cases)
    return TrainingCorpus(corpus, judged, vocabulary, floor, source)


def with_validation(given: TrainingCorpus, validation: Any, progress: Progress = silent) -> TrainingCorpus:
    """The training corpus with reports of other cases behind it, to be held out; codes that only they have are judged
    by, as ones that the model cannot know."""
    tasks, classes = list(given.corpus.tasks), given.corpus.classes
    try:
        source = read(validation, tasks=tasks, progress=progress)
    except CorpusError as fault:
        raise CorpusError(f"the validation reports: {fault}") from None
    more = encode(source.paths, given.vocabulary, tasks=tasks, classes=classes, progress=progress)
    shared = len(np.intersect1d(more.cases, given.corpus.cases))
    if shared:
        raise UsageError(
            f"{counted(shared, 'case')} of the validation reports {'is' if shared == 1 else 'are'} among the training "
            "reports too; divide them by case ('pathveil corpus split')"
        )
    names = tuple(dict.fromkeys([*given.corpus.registry_names, *more.registry_names]))
    place = np.array([names.index(name) for name in more.registry_names], np.int32)
    more = replace(more, registries=place[more.registries])
    known = {task: np.where(label < len(classes[task]), label, MISSING) for task, label in more.labels.items()}
    first = replace(given.corpus, registry_names=names)
    return replace(
        given,
        corpus=join_documents([first, replace(more, labels=known)]),
        judged=join_documents([replace(given.judged, registry_names=names), more]),
        validation={
            "reports": more.documents,
            "cases": len(np.unique(more.cases)),
            "sha256": more.provenance["corpus_sha256"],
        },
    )


def usual_words(paths: Paths, *, preset: str | None = None, progress: Progress = silent) -> Vocabulary:
    """Words that enough cases hold; with the papers' preset, the vocabulary paper's baseline."""
    sentence = f"occurrences >= {BASELINE_MIN_COUNT}" if preset == "paper" else DEFAULT_SENTENCE
    try:
        return select(Measures(count_corpus(paths, tasks=(), progress=progress)), sentence)
    except VocabularyError as fault:
        raise VocabularyError(f"{fault}; train on more reports, or choose words yourself (--vocab)") from None


def read_public_classes(path: Path) -> dict[str, list[str]]:
    """Each task's codes from a JSON file such as {"site": ["C18", "C50"]}."""
    return checked_classes(read_json(path), source=str(path))


def checked_classes(classes: Mapping[str, Any], *, source: str = "public_classes") -> dict[str, list[str]]:
    """Each task's codes, whoever wrote them down."""
    for task, codes in classes.items():
        if not isinstance(codes, list | tuple) or not all(isinstance(code, str) for code in codes) or not codes:
            raise UsageError(f'{source}: task \'{short(task)}\' needs a list of codes, such as ["C18", "C50"]')
        if len(set(codes)) != len(codes):
            raise UsageError(f"{source}: task '{short(task)}' names a code twice")
    return {task: list(codes) for task, codes in classes.items()}


def with_classes(corpus: EncodedCorpus, classes: Mapping[str, Sequence[str]]) -> EncodedCorpus:
    """The corpus with the given codes only, of the tasks it has; other labels are missing."""
    for task in corpus.tasks:
        if not classes.get(task):
            raise UsageError(
                f"the public classes name no code of task '{task}'; name some, or leave it out with --tasks"
            )
    kept = {task: len(classes[task]) for task in corpus.tasks}
    return replace(
        corpus,
        classes={task: tuple(names[: kept[task]]) for task, names in corpus.classes.items()},
        labels={task: np.where(label < kept[task], label, MISSING) for task, label in corpus.labels.items()},
    )


def check_labels(corpus: EncodedCorpus) -> None:
    """A model needs a task, and each task a label."""
    if not corpus.tasks:
        raise CorpusError(
            "the corpus has no task column (site, subsite, laterality, histology, behavior) to learn from"
        )
    for task in corpus.tasks:
        if not corpus.classes[task]:
            raise CorpusError(f"column '{task}': no report has a label; leave the task out with --tasks")


def judge(
    held_out: HeldOut, corpus: EncodedCorpus, *, accuracy: float, seed: int
) -> tuple[dict[str, Scores], dict[str, Threshold]]:
    """Each task's scores and threshold by what was said about held-out cases; a task without labels there has none."""
    scores: dict[str, Scores] = {}
    thresholds: dict[str, Threshold] = {}
    cases = corpus.cases[held_out.rows]
    for task, predicted in held_out.chosen.items():
        labels = np.asarray(corpus.labels[task])[held_out.rows]
        known = labels >= 0
        if not known.any():
            continue
        found = evaluate(labels, predicted, cases=cases, seed=seed)
        scores[task] = Scores(documents=found.documents, micro=found.micro, macro=found.macro, accuracy=found.accuracy)
        probability = np.exp(held_out.log_probabilities[task][np.arange(len(labels)), predicted])
        thresholds[task] = threshold_for(
            probability[known], (predicted == labels)[known], cases=cases[known], accuracy=accuracy
        )
    return scores, thresholds


def make_model(
    trained: Trained,
    corpus: EncodedCorpus,
    vocabulary: Vocabulary,
    *,
    settings: TrainingSettings,
    preset: str,
    accuracy: float = ACCURACY,
    seed: int,
    device: str = "cpu",
    public_classes: bool = False,
    floor: ClassFloor | None = None,
    validation: Mapping[str, Any] | None = None,
) -> Model:
    """A trained model with its words, labels, scores on held-out cases and thresholds. Labels of the corpus beyond its
    classes are of codes that were not learnt."""
    scores, thresholds = judge(trained.held_out, corpus, accuracy=accuracy, seed=seed)
    learnt = slice(0, corpus.documents - (validation["reports"] if validation else 0))
    provenance: dict[str, Any] = {
        "pathveil": __version__,
        "corpus_sha256": corpus.provenance["corpus_sha256"],
        "vocabulary_sha256": vocabulary.sha256,
        "reports": learnt.stop,
        "cases": len(np.unique(corpus.cases[learnt])),
        "registries": list(corpus.registry_names),
        "preset": preset,
        "settings": settings.model_dump(mode="json"),
        "seed": seed,
        "device": device,
        "best_epochs": trained.best_epochs,
    }
    if validation is not None:
        provenance["validation"] = dict(validation)
    if trained.privacy is None:  # exact shares are not covered by a promise of differential privacy
        provenance["profile"] = profile_of(corpus, rows=learnt).to_dict()
    if floor is not None:
        provenance["class_floor"] = floor.to_dict()
    held_out_cases = len(np.unique(corpus.cases[trained.held_out.rows]))
    told = statement_of(settings.defence, word_dropout=settings.word_dropout, held_out_cases=held_out_cases)
    if told is not None:
        provenance["defence"] = told.to_dict()
    if trained.privacy is not None:
        promise = dp_statement(
            trained.privacy, vocabulary, public_classes=public_classes, held_out_cases=held_out_cases
        )
        provenance["defence"] = promise.to_dict()
        if not promise.not_covered:
            provenance["corpus_sha256"] = None  # who knows all cases but one could find that one by it
    return Model(
        architecture=architecture_of(trained.model),
        labels=corpus.classes,
        text=corpus.provenance["text"],
        vocabulary=vocabulary,
        tensors=to_arrays(trained.model),
        blend=trained.model.blend,
        thresholds=thresholds,
        scores=scores,
        provenance=provenance,
        history=tuple(tuple(member) for member in trained.histories),
    )
