"""The public functions: what ``import pathveil`` offers, and what the commands are made of.

Every source of reports may be a path (``str`` or ``Path``), a folder, several paths, a polars or pandas frame, or a
``Corpus`` that was read before. Every result has ``to_frame()``, ``to_json()`` and a readable ``repr``. Heavy packages
are imported by the function that needs them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pathveil.errors import UsageError
from pathveil.progress import Progress, silent
from pathveil.training.device import choose_device

if TYPE_CHECKING:
    from pathveil.audit.all_attacks import OwnAttack
    from pathveil.audit.result import Audit
    from pathveil.audit.verdict import Appetite
    from pathveil.bundle import Model
    from pathveil.bundle.evaluation import Evaluation
    from pathveil.corpus import Corpus
    from pathveil.corpus.mapping import TableMapping
    from pathveil.study.result import StudyResult
    from pathveil.study.study_file import StudySettings
    from pathveil.vocabulary.selection import Choice
    from pathveil.vocabulary.words import Vocabulary

Reports = Any  # a path, a folder, several paths, a polars or pandas frame, or a Corpus


def read(
    source: Reports,
    *,
    registry: str | None = None,
    columns: Mapping[str, str] | None = None,
    mapping: "str | Path | TableMapping | None" = None,
    tasks: Iterable[str] | None = None,
    progress: Progress = silent,
) -> "Corpus":
    """Read and check reports.

    ``registry`` names the registry where the source does not; ``columns`` gives the names that columns have in the
    source, such as ``{"case_id": "TUMOR_ID"}``; ``mapping`` is a file of ``pathveil corpus map`` that says this and
    more; ``tasks`` names the label columns (else those of the usual five that are there).
    """
    from pathveil.corpus import read

    return read(source, registry=registry, columns=columns, mapping=mapping, tasks=tasks, progress=progress)


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
    ``pathveil corpus synth``, such as ``sites=12``.
    """
    from pathveil.corpus.reading import synthetic_corpus
    from pathveil.corpus.synth import configure

    settings = configure(reports=reports, registries=registries, seed=seed, **options)
    where, planted = (None if path is None else Path(path) for path in (out, truth))
    return synthetic_corpus(settings, out=where, truth=planted, progress=progress)


def select_words(
    source: Reports,
    choose: "str | Choice" = "occurrences >= 5",
    *,
    tasks: Iterable[str] | None = None,
    leave_out: Sequence[str] = (),
    without: Reports = None,
    lexicon: str | Path | None = None,
    out: str | Path | None = None,
    progress: Progress = silent,
) -> "Vocabulary":
    """Choose the words a model may know, from training reports (or from count files of several registries).

    ``choose`` is a sentence (``"registries >= 2 and cases >= 3"``; docs/vocabulary.md), or a function of your own that
    marks the words to keep: ``lambda measures: measures("cases") >= 5``. ``leave_out`` names registries that are not
    looked at, ``without`` is a corpus whose cases are passed over, ``lexicon`` a list of terms for ``in lexicon``.
    """
    from pathveil.vocabulary.selection import select_words

    reports, passed_over = _kept(source), None if without is None else _kept(without)
    vocabulary = select_words(
        _paths(reports),
        choose,
        tasks=tasks,
        leave_out=leave_out,
        without=None if passed_over is None else _paths(passed_over),
        lexicon=None if lexicon is None else Path(lexicon),
        progress=progress,
    )
    if out is not None:
        vocabulary.save(Path(out))
    return vocabulary


def train(
    source: Reports,
    *,
    vocabulary: "Vocabulary | str | Path | None" = None,
    preset: str | None = None,
    defence: "str | Callable[..., Any] | None" = None,
    tasks: Iterable[str] | None = None,
    fewest_cases: int = 1,
    accuracy: float = 0.97,
    out: str | Path | None = None,
    seed: int = 0,
    device: str = "auto",
    workers: int = 1,
    progress: Progress = silent,
    **settings: Any,
) -> "Model":
    """Train a model on labelled reports, and write it as a bundle where ``out`` names a new folder.

    ``vocabulary`` is what ``select_words`` gave, or its file; without one, every word that occurs five times.
    ``preset`` is default, small, paper, release or private; ``defence`` is teachers, dp, none or a function of your own
    (docs/api.md), in the place of the preset's. ``settings`` change the preset's (docs/training.md lists them):
    ``epochs=8``. Codes of fewer than ``fewest_cases`` cases are not learnt. With ``out``, a run that was stopped goes
    on when it is started again. ``workers`` processes share teachers on a CPU (then guard your script by
    ``if __name__ == "__main__"``).
    """
    from pathveil.bundle.train import train_model
    from pathveil.training.settings import settings_for
    from pathveil.vocabulary.words import Vocabulary

    words = vocabulary if isinstance(vocabulary, Vocabulary | None) else Vocabulary.load(Path(vocabulary))
    name, chosen = settings_for(preset, defence, **settings)
    reports = _kept(source)
    return train_model(
        _paths(reports),
        chosen,
        preset=name,
        vocabulary=words,
        tasks=tasks,
        fewest_cases=fewest_cases,
        accuracy=accuracy,
        out=out,
        seed=seed,
        device=choose_device(device),
        workers=workers,
        progress=progress,
    )


def load(path: str | Path) -> "Model":
    """The model of a bundle, every byte of it checked."""
    from pathveil.bundle import Model

    return Model.load(path)


def evaluate(
    model: "Model | str | Path",
    source: Reports,
    *,
    tasks: Iterable[str] | None = None,
    resamples: int = 1000,
    seed: int = 0,
    device: str = "auto",
    progress: Progress = silent,
) -> "Evaluation":
    """Score a model on labelled reports it was not trained on: micro and macro F1 and accuracy, intervals by case."""
    reports = _kept(source)
    return _model(model).evaluate(
        _paths(reports), tasks=tasks, resamples=resamples, seed=seed, device=choose_device(device), progress=progress
    )


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
    store: str | Path | None = None,
    out: str | Path | None = None,
    processes: int = 1,
    device: str = "auto",
    progress: Progress = silent,
    **settings: Any,
) -> "Audit":
    """Attack a model with shadow models and every attack known, and say whether it may be released.

    *A model of Pathveil's*, loaded or its folder: ``members`` are the reports it was trained on, ``non_members`` others
    it was not, ``attacker`` reports that an attacker owns. Members that are not its training corpus are refused, unless
    ``unbound``, which gives an audit without standing. ``defence`` is the function of a model defended by your own.

    *Anybody's model* with scikit-learn's ``fit`` and ``predict_proba``: ``records`` (texts or rows) and their
    ``labels``, ``cases`` where several records belong to one person. One that is not fitted yet is fitted on half of
    the cases; of one that is, ``members`` says for each record whether it was fitted on it.

    ``appetite`` is a risk appetite or its file. ``attacks`` are your own, by name (docs/api.md). ``settings`` are
    those of ``AuditSettings``, such as ``shadows=8``. ``out`` is a folder for audit.json and audit.html, ``store`` one
    that keeps shadows' answers, so that a stopped audit goes on.
    """
    from pathveil.audit.settings import AuditSettings

    shared: dict[str, Any] = {
        "appetite": _appetite(appetite),
        "settings": AuditSettings().changed(**settings),
        "attacks": attacks,
        "store": store,
        "out": out,
        "progress": progress,
    }
    if hasattr(model, "predict_proba"):
        from pathveil.audit.estimator_audit import audit_estimator

        if records is None or labels is None:
            raise UsageError("an audit of a model with fit and predict_proba needs its records and their labels")
        return audit_estimator(model, records, labels, cases=cases, members=members, registries=registries, **shared)
    from pathveil.audit.bundle_audit import audit_bundle
    from pathveil.audit.shadows import engine_for

    if members is None or non_members is None:
        raise UsageError("an audit of a bundle needs members, the reports it was trained on, and non_members")
    where = choose_device(device)
    held = [_kept(source) for source in (members, non_members, *([] if attacker is None else [attacker]))]
    paths = [_paths(source) for source in held]
    return audit_bundle(
        _model(model),
        members=paths[0],
        non_members=paths[1],
        attacker=paths[2] if len(paths) > 2 else None,
        defence=defence,
        unbound=unbound,
        engine=engine_for(processes=processes, device=where),
        device=where,
        **shared,
    )


def audit_predictions(
    predictions: Any,
    *,
    appetite: "Appetite | str | Path | None" = None,
    attacks: "Mapping[str, OwnAttack] | None" = None,
    out: str | Path | None = None,
    progress: Progress = silent,
    **settings: Any,
) -> "Audit":
    """Audit any system by a table of its answers on records whose membership is known: a file or a frame.

    Columns: record_id, case_id, member, label and ``p:<class>`` for each class (several tasks: ``label:<task>``,
    ``p:<task>:<class>``). There are no shadow models here, so a pass is weaker evidence than one of ``audit``.
    """
    from pathveil.audit.prediction_audit import audit_predictions
    from pathveil.audit.settings import AuditSettings

    return audit_predictions(
        predictions,
        appetite=_appetite(appetite),
        settings=AuditSettings().changed(**settings),
        attacks=attacks,
        out=out,
        progress=progress,
    )


def study(
    study: "str | Path | StudySettings | Mapping[str, Any]",
    *,
    corpus: Reports = None,
    out: str | Path | None = None,
    vocabularies: "Mapping[str, Vocabulary | Choice] | None" = None,
    device: str = "auto",
    workers: int = 1,
    progress: Progress = silent,
) -> "StudyResult":
    """Run the papers' experiments from a study file, or from a dictionary of the same shape (docs/studies.md).

    ``corpus`` stands in for the one that the file names. ``vocabularies`` are your own, by name, beside the paper's.
    ``out`` is the run's folder, in which a stopped study goes on; it also holds report.html.
    """
    from pathveil.report.run import run_study

    held = None if corpus is None else _kept(corpus)
    path = None if held is None else _paths(held)
    if isinstance(path, list):
        raise UsageError("a study reads one corpus, a file or a folder; got several paths")
    if path is not None and isinstance(study, Mapping) and "corpus" not in study:
        study = {**study, "corpus": {"path": str(path)}}
    return run_study(
        study,
        corpus=path,
        out=out,
        vocabularies=vocabularies,
        device=choose_device(device),
        workers=workers,
        progress=progress,
    )


def tokenize(text: str) -> list[str]:
    """One report's text as the words that models read."""
    from pathveil.text import tokenize

    return tokenize(text)


def _appetite(appetite: "Appetite | str | Path | None") -> "Appetite":
    from pathveil.audit.verdict import read_appetite

    if appetite is None or isinstance(appetite, str | Path):
        return read_appetite(None if appetite is None else Path(appetite))
    return appetite


def _model(model: "Model | str | Path") -> "Model":
    return load(model) if isinstance(model, str | Path) else model


def _kept(source: Reports) -> "Corpus | Path | list[Path]":
    """Paths as they are, anything else read. The caller holds on to it: a frame's temporary file goes with it."""
    if isinstance(source, str | Path):
        return Path(source)
    if isinstance(source, Sequence) and all(isinstance(path, str | Path) for path in source):
        return [Path(path) for path in source]
    return read(source)


def _paths(reports: "Corpus | Path | list[Path]") -> "Path | list[Path]":
    return reports if isinstance(reports, Path | list) else reports.paths
