"""Where a model is right and where it is not: by class, registry and year, what it takes for what, and how sure it is.

All functions here are of arrays. What fewer than ten cases say is not told (``pathveil.disclosure``): their classes,
groups, confusions and bins are counted together or left out. Where all that is left out is of fewer than ten cases, the
smallest of what is told goes with it: the sum is known, and subtraction would tell of the few.

>>> right, cases = np.repeat([True, False], [90, 10]), np.arange(100)
>>> told = accuracy_of(right, cases)
>>> round(told.value, 2), round(told.low, 2), round(told.high, 2)
(0.9, 0.83, 0.94)
"""

from collections.abc import Mapping, Sequence

import numpy as np

from pathveil.disclosure import may_be_told
from pathveil.icdo.combinations import find_term
from pathveil.results import Part
from pathveil.training.metrics import TaskScores
from pathveil.training.scores import Interval

BINS = 10  # of probability
POINTS = 20  # of a curve of coverage
NORMAL = 1.959964  # of a 95 % interval


class ClassRow(Part):
    """A class of ten cases or more."""

    label: str
    term: str
    documents: int
    precision: float
    recall: float
    f1: Interval


class GroupRow(Part):
    """A registry or a year of ten cases or more."""

    name: str
    documents: int
    cases: int
    accuracy: Interval


class Confusion(Part):
    """A label that was taken for another in ten cases or more."""

    label: str
    said: str
    documents: int


class CalibrationBin(Part):
    """Reports that were answered about equally surely."""

    low: float
    high: float
    documents: int
    probability: float  # mean
    right: float  # share


class CoveragePoint(Part):
    """What would be right if the surest reports alone were coded."""

    coverage: float  # share of reports
    probability: float  # from which on
    accuracy: float


class TaskDetails(Part):
    """A task's figures beside its scores; nothing in it speaks of fewer than ten cases."""

    classes: list[ClassRow]  # commonest first
    rare_classes: int  # not told apart: with a label in fewer than ten cases, or the next rarest to hide these
    registries: list[GroupRow]
    years: list[GroupRow]
    small_groups: int  # registries and years of fewer than ten cases, and those that hide them
    confusions: list[Confusion]  # commonest first
    other_errors: int | None  # reports, in pairs of labels that are not told; none where they are of so few cases
    calibration: list[CalibrationBin]
    calibration_error: float | None  # mean distance between probability and share right, over reports of these bins
    coverage: list[CoveragePoint]


def accuracy_of(right: np.ndarray, cases: np.ndarray) -> Interval:
    """The share of documents that are right, with a 95 % interval (Wilson's) for whole cases.

    Reports of one case are right or wrong together: the interval is that of as many independent documents as have the
    spread which the cases have.
    """
    _, case = np.unique(cases, return_inverse=True)
    hits, sizes = np.bincount(case, weights=right), np.bincount(case)
    share, number = float(hits.sum() / sizes.sum()), len(sizes)
    spread = float(((hits - share * sizes) ** 2).sum() / sizes.sum() ** 2)
    trials = share * (1 - share) / spread if spread > 0 else float(number)
    return wilson(share, trials)


def wilson(share: float, trials: float) -> Interval:
    """A share with Wilson's 95 % interval, of this many independent trials."""
    centre = share + NORMAL**2 / (2 * trials)
    reach = NORMAL * np.sqrt(share * (1 - share) / trials + NORMAL**2 / (4 * trials**2))
    low, high = (float((centre + way * reach) / (1 + NORMAL**2 / trials)) for way in (-1, 1))
    return Interval(share, min(low, share), max(high, share))


def detail_task(
    task: str,
    scores: TaskScores,
    *,
    truth: np.ndarray,
    chosen: np.ndarray,
    probability: np.ndarray,
    empty: np.ndarray,
    cases: np.ndarray,
    groups: Mapping[str, np.ndarray],
    names: Sequence[str],
) -> TaskDetails:
    """A task's details: arrays are (documents,), ``truth`` with −1 where there is no label.

    ``groups`` are the documents' registries and years as strings, empty where unknown; ``names`` the labels, those that
    the model never saw among them. Of ``empty`` documents nothing was read: whatever their probability, a person
    decides on them, so it is held against nothing, and they are the last to be coded.
    """
    known = truth >= 0
    truth, chosen, probability, empty, cases = (part[known] for part in (truth, chosen, probability, empty, cases))
    right = truth == chosen
    holders = {int(label): len(np.unique(cases[truth == label])) for label in np.unique(truth)}
    told = [one for one in scores.per_class if may_be_told(holders.get(one.label, 0))]
    by = {kind: group_rows(group[known], right, cases) for kind, group in groups.items()}
    told.sort(key=lambda one: (-one.support, names[one.label]))
    rare = np.isin(truth, [label for label, number in holders.items() if not may_be_told(number)])
    told = told[:-1] if can_be_subtracted(cases[rare]) else told
    confusions, others = confused(truth, chosen, cases, names=names)
    bins = calibration_bins(probability[~empty], right[~empty], cases[~empty], unbinned=cases[empty])
    apart = sum(one.documents * abs(one.probability - one.right) for one in bins)
    return TaskDetails(
        classes=[
            ClassRow(
                label=names[one.label],
                term=find_term(task, names[one.label]),
                documents=one.support,
                precision=one.precision,
                recall=one.recall,
                f1=one.f1,
            )
            for one in told
        ],
        rare_classes=len(holders) - len(told),
        registries=by["registry"][0],
        years=by["year"][0],
        small_groups=sum(small for _, small in by.values()),
        confusions=confusions,
        other_errors=others,
        calibration=bins,
        calibration_error=apart / sum(one.documents for one in bins) if bins else None,
        coverage=coverage_curve(np.where(empty, 0.0, probability), right, cases),
    )


def can_be_subtracted(cases: np.ndarray) -> bool:
    """Whether documents of these cases, all that are not told, are so few that what is told must hide them."""
    return len(cases) > 0 and not may_be_told(len(np.unique(cases)))


def group_rows(group: np.ndarray, right: np.ndarray, cases: np.ndarray) -> tuple[list[GroupRow], int]:
    """The accuracy of each group of ten cases or more, by name, and how many groups are not told.

    Documents without a name (``""``) are told of nowhere, so they count to what subtraction would tell of.
    """
    rows, small, untold = [], 0, cases[group == ""]
    for name in np.unique(group[group != ""]):
        own = group == name
        number = len(np.unique(cases[own]))
        if may_be_told(number):
            accuracy = accuracy_of(right[own], cases[own])
            rows.append(GroupRow(name=str(name), documents=int(own.sum()), cases=number, accuracy=accuracy))
        else:
            small, untold = small + 1, np.concatenate([untold, cases[own]])
    if rows and can_be_subtracted(untold):
        rows.remove(min(rows, key=lambda row: row.documents))
        small += 1
    return rows, small


def confused(
    truth: np.ndarray, chosen: np.ndarray, cases: np.ndarray, *, names: Sequence[str]
) -> tuple[list[Confusion], int | None]:
    """Pairs of labels that are confused in ten cases or more, and the reports in all pairs that are not told."""
    wrong = truth != chosen
    pairs, place = np.unique(np.stack([truth[wrong], chosen[wrong]]), axis=1, return_inverse=True)
    found, rest = [], cases[:0]
    for number, (label, said) in enumerate(pairs.T):
        held = cases[wrong][place.ravel() == number]
        if may_be_told(len(np.unique(held))):
            found.append(Confusion(label=names[label], said=names[said], documents=len(held)))
        else:
            rest = np.concatenate([rest, held])
    found.sort(key=lambda one: (-one.documents, one.label, one.said))
    if not can_be_subtracted(rest):
        return found, len(rest)
    # The rarest pair of ten cases goes with them; where there is none, so few errors are in all.
    return (found[:-1], len(rest) + found[-1].documents) if found else ([], None)


def calibration_bins(
    probability: np.ndarray, right: np.ndarray, cases: np.ndarray, *, unbinned: np.ndarray
) -> list[CalibrationBin]:
    """Documents by tenths of probability, those of ten cases or more; ``unbinned`` are cases of documents in none."""
    number = np.minimum((probability * BINS).astype(int), BINS - 1)
    bins, untold = [], unbinned
    for which in range(BINS):
        own = number == which
        if not may_be_told(len(np.unique(cases[own]))):
            untold = np.concatenate([untold, cases[own]])
            continue
        bins.append(
            CalibrationBin(
                low=which / BINS,
                high=(which + 1) / BINS,
                documents=int(own.sum()),
                probability=float(probability[own].mean()),
                right=float(right[own].mean()),
            )
        )
    if bins and can_be_subtracted(untold):
        bins.remove(min(bins, key=lambda one: one.documents))
    return bins


def coverage_curve(probability: np.ndarray, right: np.ndarray, cases: np.ndarray) -> list[CoveragePoint]:
    """Accuracy of the surest share of documents, in twentieths; what lies between two points is of ten cases too.

    The last point is all documents, where they are of ten cases.
    """
    order = np.argsort(-probability, kind="stable")
    sure, hits = probability[order], np.cumsum(right[order])
    ends = [0]
    for step in range(1, POINTS + 1):
        taken = max(1, round(len(order) * step / POINTS))
        if may_be_told(len(np.unique(cases[order[ends[-1] : taken]]))):
            ends.append(taken)
    told = [*ends[1:-1], len(order)] if len(ends) > 1 else []  # what is left behind the last goes with it
    return [
        CoveragePoint(
            coverage=taken / len(order), probability=float(sure[taken - 1]), accuracy=float(hits[taken - 1] / taken)
        )
        for taken in told
    ]
