"""The public functions: what ``import pathveil`` offers, and what the commands are made of.

Every source of reports may be a path (``str`` or ``Path``), a folder, several paths, a polars or pandas frame, or a
``Corpus`` that was read before. Every result has ``to_frame()``, ``to_json()`` and a readable ``repr``. Heavy packages
are imported by the function that needs them.
"""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pathveil.arguments import check_whole_number, names_given
from pathveil.errors import UsageError
from pathveil.progress import Progress, silent
from pathveil.training.device import choose_device

if TYPE_CHECKING:
    from pathveil.auditing.appetite import Appetite
    from pathveil.auditing.own_attacks import OwnAttack
    from pathveil.auditing.plan import AuditPlan
    from pathveil.auditing.result import Audit
    from pathveil.bundle import Model
    from pathveil.bundle.evaluation import Evaluation
    from pathveil.bundle.plan import TrainingPlan
    from pathveil.corpus import Corpus
    from pathveil.corpus.mapping import AnyMapping
    from pathveil.studies.plan import StudyPlan
    from pathveil.studies.result import StudyResult
    from pathveil.studies.study_file import StudySettings
    from pathveil.training.defences import AnyDefence
    from pathveil.training.settings import TrainingSettings
    from pathveil.training.workers import EngineName
    from pathveil.vocabulary.selection import Choice, SelectionSettings
    from pathveil.vocabulary.words import Vocabulary

Reports = Any  # a path, a folder, several paths, a polars or pandas frame, or a Corpus
Names = str | Iterable[str]  # one name, several with commas between them, or names one by one


def read(
    source: Reports,
    *,
    registry: str | None = None,
    columns: "Mapping[str, str | Sequence[str]] | None" = None,
    mapping: "AnyMapping" = None,
    tasks: Names | None = None,
    most_skipped: float = 0.0,
    progress: Progress = silent,
) -> "Corpus":
    """Read and check reports.

    ``registry`` names the registry where the source does not; ``columns`` gives the names that columns have in the
    source, such as ``{"case_id": "TUMOR_ID", "text": ["DIAGNOSIS", "GROSS"]}``; ``mapping`` is a file of
    ``pathveil corpus map`` that says this and more; ``tasks`` names the label columns (else those of the usual five
    that are there). Rows that cannot be used are refused; up to the share ``most_skipped`` of a table they are left
    out, and the corpus's ``tables`` counts them.
    """
    from pathveil.corpus import read

    if not isinstance(columns, Mapping | None):
        raise UsageError(f'columns: expected names such as {{"case_id": "TUMOR_ID"}}; got {type(columns).__name__}')
    told: dict[str, Any] = {"registry": registry, "columns": columns, "mapping": mapping, "tasks": tasks}
    return read(source, **told, most_skipped=most_skipped, progress=progress)


def synth(
    reports: int,
    *,
    registries: int = 7,
    seed: int = 0,
    out: str | Path | None = None,
    truth: str | Path | None = None,
    progress: Progress = silent,
    **options: Any,
) -> "Corpus":
    """Make up reports that no patient ever had, in ``out`` (a Parquet file) or in a private temporary one.

    ``truth`` is a file for the places of the planted personal information; ``options`` are those of
    ``pathveil corpus synth``, such as ``sites=12``. The corpus's ``made`` says what was made.
    """
    from pathveil.corpus.reading import synthetic_corpus
    from pathveil.corpus.synth import configure

    settings = configure(reports=reports, registries=registries, seed=seed, **options)
    where, planted = (None if path is None else Path(path) for path in (out, truth))
    return synthetic_corpus(settings, out=where, truth=planted, progress=progress)


def select_words(
    source: Reports,
    choose: "str | Choice | SelectionSettings | None" = None,
    *,
    epsilon: float | None = None,
    delta: float = 1e-5,
    tasks: Names | None = None,
    leave_out: Names = (),
    without: Reports = None,
    lexicon: str | Path | None = None,
    out: str | Path | None = None,
    progress: Progress = silent,
) -> "Vocabulary":
    """Choose the words a model may know, from training reports (or from count files of several registries).

    ``choose`` is a sentence (``"registries >= 2 and cases >= 3"``; docs/vocabulary.md), or a function of your own that
    marks the words to keep: ``lambda measures: measures("cases") >= 5``; without one, words that five cases hold.
    Instead, ``epsilon`` (with ``delta``) chooses words with noise, so that the list is differentially private for a
    case. ``leave_out`` names registries that are not looked at, ``without`` is a corpus whose cases are passed over,
    ``lexicon`` a list of terms for ``in lexicon``.
    """
    from pathveil.vocabulary.private_union import select_words_privately
    from pathveil.vocabulary.selection import DEFAULT_SENTENCE, select_words
    from pathveil.vocabulary.words import check_vocabulary_file

    if epsilon is not None and (choose is not None or lexicon is not None):
        raise UsageError("epsilon chooses the words by itself; leave choose and lexicon away")
    reports, passed_over = _kept(source), None if without is None else _kept(without)
    if out is not None:
        check_vocabulary_file(Path(out), reads=[_paths(reports), without, lexicon])
    shared: dict[str, Any] = {
        "leave_out": names_given(leave_out, "leave_out", commas=False),  # a registry may be called as it likes
        "without": None if passed_over is None else _paths(passed_over),
        "progress": progress,
    }
    if epsilon is not None:
        vocabulary = select_words_privately(_paths(reports), epsilon=epsilon, delta=delta, **shared)
    else:
        vocabulary = select_words(
            _paths(reports),
            DEFAULT_SENTENCE if choose is None else choose,
            tasks=names_given(tasks, "tasks"),
            lexicon=None if lexicon is None else Path(lexicon),
            **shared,
        )
    if out is not None:
        vocabulary.save(Path(out))
    return vocabulary


def train(
    source: Reports,
    *,
    validation: Reports = None,
    vocabulary: "Vocabulary | str | Path | None" = None,
    preset: str | None = None,
    defence: "str | Callable[..., Any] | AnyDefence | None" = None,
    tasks: Names | None = None,
    public_words: str | Path | None = None,
    public_classes: "Mapping[str, Sequence[str]] | str | Path | None" = None,
    fewest_cases: int = 1,
    accuracy: float = 0.97,
    out: str | Path | None = None,
    seed: int = 0,
    device: str = "auto",
    workers: int | None = 1,
    progress: Progress = silent,
    **settings: Any,
) -> "Model":
    """Train a model on labelled reports, and write it as a bundle where ``out`` names a new folder.

    ``validation``, reports of other cases, are held out to stop by; without them, a tenth of the cases is.
    ``vocabulary`` is what ``select_words`` gave, or its file; without one, words that five cases hold (with the
    preset paper: that occur five times).
    ``preset`` is default, small, paper, release or private; ``defence`` is teachers, dp, none, settings of
    ``pathveil.training.defences`` or a function of your own (docs/api.md), in the place of the preset's. ``settings``
    change the preset's (docs/training.md lists them): ``epochs=8``. Codes of fewer than ``fewest_cases`` cases are not
    learnt. With ``out``, a run that was stopped goes on when it is started again. ``workers`` processes share teachers
    on a CPU, ``None`` takes what suits the machine (then guard your script by ``if __name__ == "__main__"``).

    For dp: ``public_words`` is a list of words from a public source, in the place of a vocabulary, and
    ``public_classes`` are each task's codes, or a JSON file of them, so that epsilon covers these too.
    """
    from pathveil.bundle.train import train_model

    reports = _kept(source)
    name, chosen, given = _training(
        vocabulary, preset, defence, public_words=public_words, public_classes=public_classes, settings=settings
    )
    where = choose_device(device)
    held = None if validation is None else _kept(validation)
    return train_model(
        _paths(reports),
        chosen,
        validation=None if held is None else _paths(held),
        preset=name,
        tasks=names_given(tasks, "tasks"),
        fewest_cases=fewest_cases,
        accuracy=accuracy,
        out=out,
        seed=seed,
        device=where,
        workers=_teaching_workers(chosen, workers, where),
        progress=progress,
        **given,
    )


def plan_training(
    source: Reports,
    *,
    vocabulary: "Vocabulary | str | Path | None" = None,
    preset: str | None = None,
    defence: "str | Callable[..., Any] | AnyDefence | None" = None,
    tasks: Names | None = None,
    public_words: str | Path | None = None,
    public_classes: "Mapping[str, Sequence[str]] | str | Path | None" = None,
    fewest_cases: int = 1,
    device: str = "auto",
    workers: int | None = 1,
    progress: Progress = silent,
    **settings: Any,
) -> "TrainingPlan":
    """What ``train`` with the same arguments will take on this machine; a few batches are trained, nothing is kept."""
    from pathveil.bundle.plan import plan_training

    reports = _kept(source)
    name, chosen, given = _training(
        vocabulary, preset, defence, public_words=public_words, public_classes=public_classes, settings=settings
    )
    where = choose_device(device)
    return plan_training(
        _paths(reports),
        chosen,
        preset=name,
        tasks=names_given(tasks, "tasks"),
        fewest_cases=fewest_cases,
        device=where,
        workers=_teaching_workers(chosen, workers, where),
        progress=progress,
        **given,
    )


def load(
    path: str | Path, *, require_signature: str | Path | None = None, words_key: str | Path | None = None
) -> "Model":
    """The model of a bundle or release, every byte of it checked.

    With ``require_signature``, a public key's file, only a release that the key's owner signed is opened.
    ``words_key`` is the file with the secret of a release whose words are hashed.
    """
    from pathveil.bundle import Model

    if not isinstance(path, str | Path):
        raise UsageError(f"expected the folder of a model; got {type(path).__name__}")
    return Model.load(path, require_signature=require_signature, words_key=words_key)


def evaluate(
    model: "Model | str | Path",
    source: Reports,
    *,
    tasks: Names | None = None,
    resamples: int = 1000,
    seed: int = 0,
    most_skipped: float = 0.1,
    device: str = "auto",
    progress: Progress = silent,
) -> "Evaluation":
    """Score a model on labelled reports it was not trained on: micro and macro F1 and accuracy, intervals by case.

    Rows that cannot be used are left out and counted; a table with more than the share ``most_skipped`` is refused.
    """
    told = {"tasks": tasks, "resamples": resamples, "seed": seed, "most_skipped": most_skipped}
    return _model(model).evaluate(source, **told, device=choose_device(device), progress=progress)


def audit(
    model: Any,
    records: Any = None,
    labels: Any = None,
    *,
    members: Any = None,
    non_members: Reports = None,
    attacker: Reports = None,
    cases: Sequence[Any] | None = None,
    registries: Sequence[Any] | None = None,
    appetite: "Appetite | str | Path | None" = None,
    attacks: "Mapping[str, OwnAttack] | None" = None,
    defence: "str | Callable[..., Any] | None" = None,
    unbound: bool = False,
    attach: bool = False,
    store: str | Path | None = None,
    out: str | Path | None = None,
    records_file: str | Path | None = None,
    engine: "EngineName" = "local",
    scheduler: str | None = None,
    processes: int = 1,
    device: str = "auto",
    progress: Progress = silent,
    **settings: Any,
) -> "Audit":
    """Attack a model with shadow models and every attack known, and say whether it may be released.

    *A model of Pathveil's*, loaded or its folder: ``members`` are the reports it was trained on, ``non_members`` others
    it was not, ``attacker`` reports that an attacker owns. Members that are not its training corpus are refused, unless
    ``unbound``, which gives an audit without standing. ``attach`` puts the audit into the folder and on its card.
    ``defence`` is the function of a model defended by your own. Shadows are trained in this process, in several
    (``processes``), or on a Dask cluster (``engine="dask"``, ``scheduler``).

    *Anybody's model* with scikit-learn's ``fit`` and ``predict_proba``: ``records`` (texts or rows) and their
    ``labels``, ``cases`` where several records belong to one person. One that is not fitted yet is fitted on half of
    the cases; of one that is, ``members`` says for each record whether it was fitted on it. Several tasks: labels by
    task, and where each has a model of its own, these by task too.

    ``appetite`` is a risk appetite or its file. ``attacks`` are your own, by name (docs/api.md). ``settings`` are
    those of ``AuditSettings``, such as ``shadows=8``. ``out`` is a folder for audit.json and audit.html, ``store`` one
    that keeps shadows' answers, so that a stopped audit goes on. ``records_file`` is a CSV for each record's scores,
    which tell members apart: never publish it.
    """
    from pathveil.auditing.settings import AuditSettings

    shared: dict[str, Any] = {
        "appetite": _appetite(appetite),
        "settings": AuditSettings().changed(**settings),
        "attacks": _own_attacks(attacks),
        "store": store,
        "out": out,
        "records_file": records_file,
        "progress": progress,
    }
    if isinstance(model, Mapping) or hasattr(model, "predict_proba"):
        from pathveil.auditing.estimator_audit import audit_estimator

        if records is None or labels is None:
            raise UsageError("an audit of a model with fit and predict_proba needs its records and their labels")
        return audit_estimator(model, records, labels, cases=cases, members=members, registries=registries, **shared)
    if not isinstance(model, str | Path) and not hasattr(model, "model_sha256"):
        raise UsageError(
            "expected a model of Pathveil's, its folder, or an estimator with fit and predict_proba; "
            f"{type(model).__name__} is neither"
        )
    from pathveil.auditing.bundle_audit import audit_bundle
    from pathveil.auditing.shadows import engine_for
    from pathveil.bundle import attach_audit

    if attach and (unbound or not isinstance(model, str | Path)):
        raise UsageError("an audit is attached to a bundle's folder, and only if it is bound to it: not with unbound")
    where = choose_device(device)
    trained_there = engine_for(engine, processes=processes, scheduler=scheduler, device=where)
    with _corpora_of(members, non_members, attacker) as corpora:
        found = audit_bundle(
            model,
            **corpora,
            defence=defence,
            unbound=unbound,
            engine=trained_there,
            device=where,
            **shared,
        )
    if attach:
        attach_audit(Path(model), found.to_dict())
    return found


def plan_audit(
    bundle: str | Path,
    *,
    members: Reports,
    non_members: Reports,
    attacker: Reports = None,
    defence: "str | Callable[..., Any] | None" = None,
    unbound: bool = False,
    processes: int = 1,
    device: str = "auto",
    progress: Progress = silent,
    **settings: Any,
) -> "AuditPlan":
    """What ``audit`` of a bundle with the same arguments will train, and about how long that takes here."""
    from pathveil.auditing.plan import plan_audit
    from pathveil.auditing.settings import AuditSettings

    with _corpora_of(members, non_members, attacker) as corpora:
        return plan_audit(
            bundle,
            **corpora,
            defence=defence,
            settings=AuditSettings().changed(**settings),
            device=choose_device(device),
            processes=processes,
            unbound=unbound,
            progress=progress,
        )


def audit_predictions(
    predictions: Any,
    *,
    appetite: "Appetite | str | Path | None" = None,
    attacks: "Mapping[str, OwnAttack] | None" = None,
    out: str | Path | None = None,
    records_file: str | Path | None = None,
    progress: Progress = silent,
    **settings: Any,
) -> "Audit":
    """Audit any system by a table of its answers on records whose membership is known: a file or a frame.

    Columns: record_id, case_id, member, label and ``p:<class>`` for each class (several tasks: ``label:<task>``,
    ``p:<task>:<class>``). There are no shadow models here, so a pass is weaker evidence than one of ``audit``.
    """
    from pathveil.auditing.prediction_audit import audit_predictions
    from pathveil.auditing.settings import AuditSettings

    return audit_predictions(
        predictions,
        appetite=_appetite(appetite),
        settings=AuditSettings().changed(**settings),
        attacks=_own_attacks(attacks),
        out=out,
        records_file=records_file,
        progress=progress,
    )


def study(
    study: "str | Path | StudySettings | Mapping[str, Any]",
    *,
    corpus: Reports = None,
    out: str | Path | None = None,
    vocabularies: "Mapping[str, Vocabulary | Choice] | None" = None,
    device: str = "auto",
    workers: int | None = 1,
    engine: "EngineName" = "local",
    scheduler: str | None = None,
    progress: Progress = silent,
) -> "StudyResult":
    """Run the papers' experiments from a study file, or from a dictionary of the same shape (docs/studies.md).

    ``corpus`` stands in for the one that the file names. ``vocabularies`` are your own, by name, beside the paper's.
    ``out`` is the run's folder, in which a stopped study goes on; it also holds report.html. Without ``out`` the run is
    in a new temporary folder, which is left for you to keep or delete. ``workers`` processes share the work, ``None``
    takes what suits the machine; ``engine="dask"`` trains on the workers of a cluster's ``scheduler`` instead.
    """
    from pathveil.studies.report.run import run_study

    if not isinstance(vocabularies, Mapping | None):
        raise UsageError(f"vocabularies: expected vocabularies by name; got {type(vocabularies).__name__}")
    held = None if corpus is None else _kept(corpus)
    path = _one_path(held)
    if path is not None and isinstance(study, Mapping) and "corpus" not in study:
        study = {**study, "corpus": {"path": str(path)}}
    where = choose_device(device, here=engine != "dask", several=True)
    return run_study(
        study,
        corpus=path,
        out=out,
        vocabularies=vocabularies,
        device=where,
        workers=_workers(workers, where),
        engine=engine,
        scheduler=scheduler,
        progress=progress,
    )


def plan_study(
    study: str | Path,
    *,
    out: str | Path,
    corpus: Reports = None,
    device: str = "auto",
    workers: int | None = 1,
    progress: Progress = silent,
) -> "StudyPlan":
    """What is left of a study file's run in ``out``, and how long it will take on this machine."""
    from pathveil.studies.plan import plan

    held = None if corpus is None else _kept(corpus)
    where = choose_device(device)
    return plan(
        Path(study),
        out=Path(out),
        corpus=_one_path(held),
        device=where,
        workers=_workers(workers, where),
        progress=progress,
    )


def tokenize(text: str) -> list[str]:
    """One report's text as the words that models read."""
    from pathveil.text.tokenizer import tokenize

    if not isinstance(text, str):
        raise UsageError(f"expected the text of one report; got {type(text).__name__}")
    return tokenize(text)


def _own_attacks(attacks: Any) -> "Mapping[str, OwnAttack] | None":
    if not isinstance(attacks, Mapping | None):
        raise UsageError(f"attacks: expected functions by name; got {type(attacks).__name__}")
    return attacks


def _appetite(appetite: "Appetite | str | Path | None") -> "Appetite | None":
    """The appetite in a file; none where none is given: what stands in its place depends on what is audited."""
    from pathveil.auditing.appetite import Appetite, read_appetite

    if not isinstance(appetite, str | Path | Appetite | None):
        raise UsageError(f"appetite: expected a risk appetite or its file; got {type(appetite).__name__}")
    return read_appetite(Path(appetite)) if isinstance(appetite, str | Path) else appetite


def _training(
    vocabulary: "Vocabulary | str | Path | None",
    preset: str | None,
    defence: "str | Callable[..., Any] | AnyDefence | None",
    *,
    public_words: str | Path | None,
    public_classes: "Mapping[str, Sequence[str]] | str | Path | None",
    settings: dict[str, Any],
) -> "tuple[str, TrainingSettings, dict[str, Any]]":
    """The preset's name, the settings, and the words and classes that are given, as ``train_model`` takes them."""
    from pathveil.bundle.train import checked_classes, read_public_classes
    from pathveil.training.defences import DPSettings
    from pathveil.training.settings import settings_for
    from pathveil.vocabulary.lexicon import public_words as words_of
    from pathveil.vocabulary.words import Vocabulary

    if vocabulary is not None and public_words is not None:
        raise UsageError("give a vocabulary or public words, not both")
    name, chosen = settings_for(preset, defence, **settings)
    if not (public_words is None and public_classes is None) and not isinstance(chosen.defence, DPSettings):
        raise UsageError("--public-words and --public-classes need --defence dp")
    if not isinstance(vocabulary, Vocabulary | str | Path | None):
        raise UsageError(f"vocabulary: expected what select_words gave, or its file; got {type(vocabulary).__name__}")
    words = vocabulary if isinstance(vocabulary, Vocabulary | None) else Vocabulary.load(Path(vocabulary))
    if public_words is not None:
        words = words_of(Path(public_words))
    classes = public_classes
    if classes is not None:
        named = isinstance(classes, str | Path)
        classes = read_public_classes(Path(classes)) if named else checked_classes(classes)
    covered = words is not None and {"public", "mechanism"} & set(words.parameters)
    if classes is not None and covered and "validation_share" not in settings:
        chosen = chosen.changed(validation_share=0)  # cases that are held out would not be covered by epsilon
    return name, chosen, {"vocabulary": words, "public_classes": classes}


def _teaching_workers(settings: "TrainingSettings", workers: int | None, device: str) -> int:
    """Processes that share teachers; without these there is nothing to share."""
    from pathveil.training.defences import TeacherSettings

    asked = _workers(workers, device)
    return asked if isinstance(settings.defence, TeacherSettings) else 1


def _workers(workers: int | None, device: str) -> int:
    from pathveil.training.workers import usual_workers

    if workers is None:
        return usual_workers(device)
    check_whole_number(workers, "workers", least=1)
    return workers


@contextmanager
def _corpora_of(members: Any, non_members: Any, attacker: Any) -> Generator[dict[str, Any]]:
    """The paths that an audit reads. What had to be written for it, a frame, is there as long as the block lasts."""
    if members is None or non_members is None:
        raise UsageError(
            "an audit of a bundle needs members, the reports that the model was trained on, and non-members"
        )
    given = {"members": members, "non_members": non_members, "attacker": attacker}
    held = {name: _kept(source) for name, source in given.items() if source is not None}
    yield {name: _paths(reports) for name, reports in held.items()}


def _model(model: "Model | str | Path") -> "Model":
    if isinstance(model, str | Path) or not hasattr(model, "model_sha256"):
        return load(model)
    return model


def _kept(source: Reports) -> "Corpus | Path | list[Path]":
    """Paths as they are, anything else read. The caller holds on to it: a frame's temporary file goes with it."""
    if isinstance(source, str | Path) or (
        isinstance(source, Sequence) and all(isinstance(path, str | Path) for path in source)
    ):
        from pathveil.corpus.reading import as_paths

        return as_paths(source)
    return read(source)


def _paths(reports: "Corpus | Path | list[Path]") -> "Path | list[Path]":
    return reports if isinstance(reports, Path | list) else reports.paths


def _one_path(reports: "Corpus | Path | list[Path] | None") -> Path | None:
    path = None if reports is None else _paths(reports)
    if isinstance(path, list):
        raise UsageError("a study reads one corpus, a file or a folder; got several paths")
    return path
