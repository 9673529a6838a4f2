"""The audit of other people's models: anything with scikit-learn's ``fit`` and ``predict_proba``.

Shadows are copies of the estimator, fitted to halves of the records by case; all attacks are run, with controls, a
verdict and a page, as for a model of ours. Two ways in: an estimator that is not fitted yet and all records, which are
dealt out by case into members, to fit it on, and non-members; or one that is fitted, and ``members``, which says on
which records. Records may be texts, a NumPy array, a SciPy matrix, a polars or pandas frame: whatever the estimator
takes, as long as rows can be taken from it. scikit-learn itself is not needed.

No canaries can be made up for records of any kind, so the planted leak is planted in the answers (see ``controls``).

>>> import numpy as np
>>> class Memory:
...     "Knows by heart what it has seen, and guesses otherwise."
...     def fit(self, x, y):
...         self.classes_, self.seen = np.unique(y), dict(zip(x, y))
...         return self
...     def predict_proba(self, x):
...         known = np.array([self.seen.get(one, -1) for one in x])[:, None]
...         return np.where(known < 0, 0.5, np.where(self.classes_ == known, 0.9, 0.1))
>>> records = [f"report {number}" for number in range(400)]
>>> labels = np.random.default_rng(0).integers(0, 2, 400)
>>> audit = audit_estimator(Memory(), records, labels, settings=AuditSettings(shadows=4))
>>> audit.verdict.answer, audit.kind
('fail', 'estimator')
"""

import copy
import hashlib
import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from pathveil.auditing import result
from pathveil.auditing.appetite import Appetite, read_appetite
from pathveil.auditing.attacks import MISSING, SMALLEST
from pathveil.auditing.model_audit import AuditedModel, attack_model
from pathveil.auditing.own_attacks import OwnAttack
from pathveil.auditing.result import Audit
from pathveil.auditing.settings import AuditSettings
from pathveil.auditing.shadows import Job, ShadowTrainer
from pathveil.errors import UsageError
from pathveil.formatting import counted
from pathveil.progress import Progress, silent
from pathveil.rng import child, generator
from pathveil.settings import Settings
from pathveil.vocabulary.encoded import EncodedCorpus

ONE_TASK = "the label"
NUMBERS = "biuf"  # kinds of NumPy's types


def audit_estimator(
    estimator: Any,
    records: Any,
    labels: Any,
    *,
    cases: Sequence[Any] | None = None,
    members: Sequence[bool] | None = None,
    registries: Sequence[Any] | None = None,
    appetite: Appetite | None = None,
    settings: AuditSettings | None = None,
    attacks: Mapping[str, OwnAttack] | None = None,
    store: str | Path | None = None,
    out: str | Path | None = None,
    records_file: str | Path | None = None,
    progress: Progress = silent,
) -> Audit:
    """Audit an estimator with shadow models and all attacks.

    ``labels``: one array, or one for each task by name; then a copy of the estimator is fitted to each, unless
    ``estimator`` is itself a mapping with one for each task. A missing label is None or NaN. ``cases``: which records
    belong to one person, else each is a case of its own. ``members``: a mask of the records that a fitted estimator was
    fitted to; without it, half of the cases are taken and a copy of the estimator is fitted to them. ``registries``:
    where each record comes from, which tells the protocols apart. ``attacks``: one's own, by name (see
    ``own_attacks.AttackInput``). ``store``: a folder that keeps the shadows' answers, so that an interrupted audit
    goes on. ``out``: a folder for audit.json and audit.html; ``records_file``: where each record's scores go, by its
    number, if anywhere.
    """
    result.check_places(out, records_file)
    appetite, settings = appetite or read_appetite(None), settings or AuditSettings()
    records = list(records) if isinstance(records, Iterator) else records
    fitter = _fitter(estimator, records, labels, fitted=members is not None)
    corpus = _corpus(fitter, cases, registries)
    member = _membership(members, corpus, seed=settings.seed)
    target = fitter
    if members is None:
        progress("fitting the model", 0, 1)
        target = fitter.fitted(np.flatnonzero(member), seed=child(settings.seed, 7))
        progress("fitting the model", 1, 1)
    model = AuditedModel(
        corpus=corpus,
        members=np.flatnonzero(member),
        non_members=np.flatnonzero(~member),
        attacker=np.arange(0),
        logits=target.log_probabilities(),
        settings=NoSettings(),
        registries_known=registries is not None or members is None,
        takes_canaries=False,
    )
    with TemporaryDirectory() as unkept:
        trainer = ShadowTrainer(
            fitter.engine,
            Path(store or unkept),
            inside=_fitted_rows,
            inputs={"estimator": "not kept" if store is None else fitter.digest()},
            progress=progress,
        )
        found = attack_model(model, trainer, settings, fprs=appetite.measured_fprs, own_attacks=attacks)
    audit = result.assemble(
        found,
        kind="estimator",
        appetite=appetite,
        own_attacks=attacks,
        settings={
            "edges": list(settings.edges),
            "fprs": list(appetite.measured_fprs),
            "seed": settings.seed,
            "shadows": settings.shadows,
            "attack model": settings.attack_model,
            "attack features": settings.attack_features,
        },
        provenance={"estimator": ", ".join(sorted({type(one).__name__ for one in fitter.estimators.values()}))},
        notes=_notes(settings.shadows, given=members is not None),
    )
    if out is not None:
        result.write_audit(audit, Path(out))
    if records_file is not None:
        result.write_records(found.scores, found.records, [str(row) for row in model.rows], Path(records_file))
    return audit


class NoSettings(Settings):
    """A foreign estimator holds its own settings."""


@dataclass(frozen=True)
class EstimatorFitter:
    """Estimators, one a task, with the records and labels that copies of them are fitted to."""

    estimators: dict[str, Any]
    records: Any
    labels: dict[str, np.ndarray]  # task: (records,) int into classes[task], −1 missing
    classes: dict[str, np.ndarray]  # task: the labels as the estimators know them

    def fitted(self, rows: np.ndarray, *, seed: int) -> "EstimatorFitter":
        """The same with copies of the estimators, fitted to some of the records."""
        found = {}
        for task, estimator in self.estimators.items():
            labelled = rows[self.labels[task][rows] != MISSING]
            known = self.classes[task][self.labels[task][labelled]]
            if len(np.unique(known)) < 2:
                found[task] = _Constant(known[:1])
            else:
                made = unfitted_copy(estimator, seed=seed)
                made.fit(take_rows(self.records, labelled), known)
                found[task] = made if hasattr(made, "classes_") else _WithClasses(made, np.unique(known))
        return EstimatorFitter(found, self.records, self.labels, self.classes)

    def log_probabilities(self) -> dict[str, np.ndarray]:
        """What the estimators say of all records, in the order of the classes: task: (records, classes)."""
        found = {}
        for task, estimator in self.estimators.items():
            try:
                said = np.asarray(estimator.predict_proba(self.records), np.float64)
            except ValueError as fault:
                if type(fault).__name__ != "NotFittedError":  # scikit-learn's, which need not be here
                    raise
                told = "members are given, and the model is not fitted; fit it on them, or leave members out"
                raise UsageError(told) from None
            known = np.asarray(getattr(estimator, "classes_", self.classes[task]))
            if said.shape != (len(self.labels[task]), len(known)):
                raise UsageError(
                    f"predict_proba gave shape {said.shape}; expected {counted(len(self.labels[task]), 'row')} and "
                    f"{counted(len(known), 'class', 'classes')}"
                )
            if not np.isfinite(said).all() or (said < 0).any() or not np.isin(known, self.classes[task]).all():
                raise UsageError(f"{task}: predict_proba gave no probabilities, or of other classes than the labels")
            # A class that a shadow never met has no column: it is as good as impossible.
            aligned = np.zeros((len(said), len(self.classes[task])))
            aligned[:, np.searchsorted(self.classes[task], known)] = said
            found[task] = np.log(np.maximum(aligned, SMALLEST))
        return found

    def engine(
        self, corpus: EncodedCorpus, jobs: Sequence[Job], settings: Any, progress: Progress, stage: str
    ) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
        """Trains shadows for ``shadows.ShadowTrainer``; documents of the corpus are the records."""
        for job in jobs:
            said = self.fitted(job.rows, seed=job.seed).log_probabilities()
            yield job.number, {task: values.astype(np.float16) for task, values in said.items()}

    def digest(self) -> str:
        """A hash of what the shadows are made of, so that a store never gives the answers of others."""
        unfitted = {task: unfitted_copy(estimator, seed=0) for task, estimator in self.estimators.items()}
        try:
            return hashlib.sha256(pickle.dumps((unfitted, self.records))).hexdigest()
        except Exception:
            raise UsageError("a store needs an estimator and records that can be pickled; audit without one") from None


@dataclass(frozen=True)
class _Constant:
    """Fitted to records of one class, or none: says so."""

    classes_: np.ndarray

    def predict_proba(self, records: Any) -> np.ndarray:
        return np.ones((_length(records), len(self.classes_)))


@dataclass(frozen=True)
class _WithClasses:
    """An estimator that does not tell its classes."""

    estimator: Any
    classes_: np.ndarray

    def predict_proba(self, records: Any) -> np.ndarray:
        return self.estimator.predict_proba(records)


def unfitted_copy(estimator: Any, *, seed: int) -> Any:
    """A copy to fit; where its random states are left open they are set, so that an audit repeats.

    scikit-learn's ``clone`` for its own kind; else a deep copy, whose ``fit`` must start anew.
    """
    if not hasattr(estimator, "get_params"):
        return copy.deepcopy(estimator)
    try:
        from sklearn.base import clone
    except ImportError:
        made = copy.deepcopy(estimator)
    else:
        made = clone(estimator)
    states = [name for name, value in made.get_params(deep=True).items() if value is None and _is_random_state(name)]
    return made.set_params(**dict.fromkeys(states, seed)) if states else made


def _is_random_state(name: str) -> bool:
    return name.rpartition("__")[2] == "random_state"


def take_rows(records: Any, rows: np.ndarray) -> Any:
    """Some of the records, as the kind of thing they are."""
    if hasattr(records, "iloc"):  # pandas
        return records.iloc[rows]
    if isinstance(records, list | tuple):
        return [records[row] for row in rows]
    if hasattr(records, "tocsr"):  # SciPy; not all of its formats can be indexed
        return records.tocsr()[rows]
    return records[rows]


def _length(records: Any) -> int:
    return records.shape[0] if hasattr(records, "shape") else len(records)


def _fitter(estimator: Any, records: Any, labels: Any, *, fitted: bool) -> EstimatorFitter:
    """Check what was given, and number the labels."""
    if isinstance(labels, Mapping):
        by_task = dict(labels)
        if isinstance(estimator, Mapping):
            estimators = dict(estimator)
        elif fitted:
            raise UsageError("several tasks: a fitted estimator is expected for each, as a mapping by the task's name")
        else:
            estimators = dict.fromkeys(by_task, estimator)
        if estimators.keys() != by_task.keys():
            raise UsageError("estimators and labels are expected for the same tasks")
    else:
        by_task, estimators = {ONE_TASK: labels}, {ONE_TASK: estimator}
    for one in estimators.values():
        if not hasattr(one, "fit") or not hasattr(one, "predict_proba"):
            raise UsageError(f"{type(one).__name__} has no fit or no predict_proba; an audit needs both")
        if isinstance(one, type):
            raise UsageError(f"{one.__name__} is a class; give an estimator made of it, {one.__name__}()")
    numbers, classes = {}, {}
    for task, values in by_task.items():
        told = getattr(estimators[task], "classes_", None) if fitted else None
        numbers[task], classes[task] = _numbered(values, told, task)
        if len(numbers[task]) != _length(records):
            raise UsageError(f"{task}: {len(numbers[task])} labels for {counted(_length(records), 'record')}")
    return EstimatorFitter(estimators, records, numbers, classes)


def _numbered(values: Any, told: Any, task: str) -> tuple[np.ndarray, np.ndarray]:
    """Labels as numbers into the sorted classes, which are those met and those the estimator knows."""
    given = list(values)
    if any(isinstance(value, Sequence | np.ndarray) and not isinstance(value, str) for value in given):
        raise UsageError(f"{task}: expected one label for each record; give those of several tasks by the task's name")
    there = np.array([value is not None and value == value for value in given], bool)  # NaN is not itself
    known = np.asarray([value for value, is_there in zip(given, there, strict=True) if is_there])
    if told is not None and (known.dtype.kind in NUMBERS) != (np.asarray(told).dtype.kind in NUMBERS):
        raise UsageError(f"{task}: of the estimator's classes and the labels one are numbers, the other are not")
    classes = np.unique(known if told is None else np.concatenate([known, np.asarray(told)]))
    if len(classes) < 2:
        raise UsageError(f"{task}: expected labels of at least two classes")
    numbers = np.full(len(given), MISSING, np.int64)
    numbers[there] = np.searchsorted(classes, known)
    return numbers, classes


def _corpus(fitter: EstimatorFitter, cases: Sequence[Any] | None, registries: Sequence[Any] | None) -> EncodedCorpus:
    """The records as an audit sees them: cases, registries, labels. Each is a document of one word, its own number; the
    records themselves stay with the fitter."""
    count = _length(fitter.records)
    for name, given in (("cases", cases), ("registries", registries)):
        if given is not None and len(given) != count:
            raise UsageError(f"{name}: {len(given)} values for {counted(count, 'record')}")
    sources, places = np.unique(np.zeros(count) if registries is None else np.asarray(registries), return_inverse=True)
    return EncodedCorpus(
        ids=np.arange(count, dtype=np.int32),
        offsets=np.arange(count + 1),
        cases=np.arange(count) if cases is None else np.unique(np.asarray(cases), return_inverse=True)[1],
        registries=places.astype(np.int32),
        registry_names=tuple(map(str, sources)),
        labels={task: numbers.astype(np.int32) for task, numbers in fitter.labels.items()},
        classes={task: tuple(map(str, names)) for task, names in fitter.classes.items()},
        vocabulary_size=count,
    )


def _membership(members: Sequence[bool] | None, corpus: EncodedCorpus, *, seed: int) -> np.ndarray:
    """Which records are members: those told, or half of the cases."""
    if members is None:
        names, place = np.unique(corpus.cases, return_inverse=True)
        return (generator(seed, 6).permutation(len(names)) < len(names) / 2)[place]
    member = np.asarray(members)
    if member.dtype != bool or member.shape != (corpus.documents,):
        raise UsageError(f"members: expected true or false for each of {counted(corpus.documents, 'record')}")
    return member


def _fitted_rows(corpus: EncodedCorpus, job: Job, settings: Any) -> np.ndarray:  # (records,) bool
    inside = np.zeros(corpus.documents, bool)
    inside[job.rows] = True
    return inside


def _notes(shadows: int, *, given: bool) -> list[str]:
    dealt = (
        "Who is a member was told by the auditor."
        if given
        else "The members are a random half of the cases: a copy of the estimator was fitted to them for this audit."
    )
    return [
        f"{dealt} The {shadows} shadow models are copies of the estimator, fitted to random halves (by case) of "
        "members and non-members together, so that half of them saw any one record. A leak was planted in the answers "
        "to see that the attacks find one; no canaries were trained on."
    ]
