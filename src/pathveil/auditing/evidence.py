"""From scores to evidence: each attack measured under each protocol, for all records and by how rare their class is.

Two protocols ask two questions. ``matched``: non-members are unseen cases of the members' own registries, so a score
above chance is membership. ``cross-registry`` (the paper's): non-members come from registries the model never saw,
which mixes membership with change of source; its *control* puts unseen cases of the members' registries in the members'
place, and whatever that scores cannot be membership. Where registries are not known, the one protocol is ``given``.

Risk goes by how rare a class is: the buckets of the paper's Table 1, by the training samples a class has on average.
The paper's edges are 100, 1,000 and 10,000 training samples; a small corpus sets smaller ones. A cell with fewer than
ten cases on either side keeps no number.

>>> import numpy as np
>>> records = Records(member=np.arange(40) < 20, cases=np.arange(40), labels={"site": np.zeros(40, int)},
...                   classes={"site": ("C50",)})
>>> score = Score("loss", "site", np.arange(40.0)[::-1])
>>> [row] = measure([score], records, edges=(100,), fprs=(0.1,))
>>> row.protocol, row.bucket, row.n_members, row.auc.value
('given', 'all', 20, 1.0)
>>> training = class_counts([np.array([0, 0, 0, 1]), np.array([0, 1, 1, 2])], classes=4)
>>> training.tolist()
[2.0, 1.5, 0.5, 0.0]
>>> bucket_names((1, 2)), bucket_of(np.array([0, 1, 2, -1]), training, edges=(1, 2)).tolist()
(('< 1', '1 to 1', '≥ 2'), [2, 1, 0, -1])
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Any, Literal, Self

import numpy as np
from pydantic import SerializerFunctionWrapHandler, model_serializer

from pathveil.auditing import attacks, metrics
from pathveil.auditing.attacks import MISSING
from pathveil.auditing.resamples import Resamples, resample
from pathveil.disclosure import FEWEST_CASES_TOLD, may_be_told
from pathveil.progress import Progress, silent
from pathveil.results import Part

EDGES = (100, 1_000, 10_000)  # of the buckets of class rarity, in training samples
TOGETHER = "all tasks"
ALL = "all"
MATCHED, CROSS, CONTROL, GIVEN = "matched", "cross-registry", "cross-registry control", "given"

PROTOCOLS = {
    MATCHED: "Non-members are unseen cases of the members' own registries: what is scored is membership alone.",
    CROSS: "Non-members come from registries the model never saw (the paper's protocol): membership and change of "
    "source are mixed.",
    CONTROL: "Unseen cases of the members' registries stand in the members' place: whatever is scored here is change "
    "of source, not membership.",
    GIVEN: "Non-members are as the file gives them; whether they come from the members' own source is not known.",
}


@dataclass(frozen=True)
class Records:
    """The attacked records: who is a member, which reports belong together, their labels and where they come from."""

    member: np.ndarray  # (records,) bool
    cases: np.ndarray  # (records,) int, equal for reports of one case
    labels: Mapping[str, np.ndarray]  # task: (records,) int into classes[task], −1 missing
    classes: Mapping[str, tuple[str, ...]]
    registries: np.ndarray | None = None  # (records,) int, where known

    @property
    def foreign(self) -> np.ndarray:
        """Records of registries that hold no member."""
        if self.registries is None:
            return np.zeros(len(self.member), bool)
        return ~np.isin(self.registries, np.unique(self.registries[self.member]))

    def take(self, kept: np.ndarray) -> "Records":
        """Some of the records, by a mask or by their places."""
        return Records(
            member=self.member[kept],
            cases=self.cases[kept],
            labels={task: label[kept] for task, label in self.labels.items()},
            classes=self.classes,
            registries=None if self.registries is None else self.registries[kept],
        )

    @property
    def main_task(self) -> str:
        """The task whose class rarity stands for a report as a whole: site where there is one."""
        return "site" if "site" in self.classes else next(iter(self.classes))

    def task_of(self, score: "Score") -> str:
        """The task whose classes a score's records are grouped by."""
        return self.main_task if score.task == TOGETHER else score.task


@dataclass(frozen=True)
class Score:
    """One attack's scores on all records: higher for members, NaN where there is none."""

    attack: str
    task: str  # a task, or TOGETHER
    values: np.ndarray  # (records,)
    shadows: int = 0  # models it used
    threshold: float | None = None  # where the attack itself says "member"; learned on the other half where it does not
    adds_up: bool = False  # a case's reports add up (log-likelihood ratios) instead of being averaged
    label_only: bool = False  # needs no more than the top label
    weights_only: bool = False  # needs the model's weights
    decides: bool = True  # may decide the verdict; the paper's own attack may not
    whole_only: bool = False  # not by class rarity: one point of a curve
    learns: bool = False  # fitted to the membership of half of the cases, to judge the other half


class Figure(Part):
    """A measured number with its interval; no value where it cannot be measured, and ``note`` then says why."""

    value: float | None
    low: float
    high: float
    note: str = ""

    @classmethod
    def of(cls, estimate: metrics.Estimate, **more: float) -> Self:
        return cls.model_validate(estimate.as_json() | more)

    @model_serializer(mode="wrap")
    def _without_empty_note(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        content = handler(self)
        return content if self.note else {name: value for name, value in content.items() if name != "note"}


class ShareFound(Figure):
    """A TPR at a fixed FPR; ``sure`` is a lower bound that holds for all rows that may decide at once."""

    sure: float


class TooFew(StrEnum):
    """Why a cell shows no number."""

    MEMBERS = f"fewer than {FEWEST_CASES_TOLD} member cases"
    NON_MEMBERS = f"fewer than {FEWEST_CASES_TOLD} non-member cases"


class Figures(Part):
    """Everything that is measured of one attack on some records."""

    n_members: int
    n_non_members: int
    member_cases: int
    non_member_cases: int
    accuracy: Figure | None  # mean over the classes that have both sides, the paper's; none without classes
    report_accuracy: Figure  # share of the reports
    balanced_accuracy: Figure  # mean over members and non-members
    auc: Figure
    tpr_at_fpr: dict[str, ShareFound]


class NoFigures(Part):
    """In their place where the cases are too few."""

    suppressed: TooFew


class Cell(Part):
    """What a row of evidence is about: which attack, on whom, held against whom."""

    protocol: str
    attack: str
    task: str
    unit: Literal["report", "case"]
    bucket: str
    shadows: int
    label_only: bool
    decides: bool
    weights_only: bool = False


class MeasuredRow(Figures, Cell):
    """A row of evidence."""


class SuppressedRow(NoFigures, Cell):
    """A row whose cell is too small to be told."""


Row = MeasuredRow | SuppressedRow


class Curve(Part):
    """One attack's ROC curve on a logarithmic grid of FPRs, with its band."""

    protocol: str
    attack: str
    task: str
    shadows: int
    fpr: tuple[float, ...]
    tpr: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


class CanaryRow(Part):
    """How well one attack tells canaries of one kind that were learned from those that were not."""

    kind: str
    attack: str
    label_only: bool
    auc: float  # mean over the models, each attacked with the others' help
    low: float
    high: float
    sure: float  # a lower bound that holds for all kinds and attacks at once
    canaries: int
    models: int


@dataclass(frozen=True)
class Protocol:
    name: str
    positive: np.ndarray  # (records,) bool: those in the members' place
    negative: np.ndarray


def protocols(records: Records) -> list[Protocol]:
    """The protocols that the records allow, the control right after what it controls."""
    home = ~records.member & ~records.foreign
    if records.registries is None:
        return [Protocol(GIVEN, records.member, ~records.member)]
    found = []
    if home.any():
        found.append(Protocol(MATCHED, records.member, home))
    if records.foreign.any():
        found.append(Protocol(CROSS, records.member, records.foreign))
        if home.any():
            found.append(Protocol(CONTROL, home, records.foreign))
    return found


def class_counts(labels: Sequence[np.ndarray], *, classes: int) -> np.ndarray:
    """Training samples of each class, averaged over the models' training sets."""
    return np.mean([np.bincount(one[one != MISSING], minlength=classes) for one in labels], axis=0)


def bucket_names(edges: Sequence[int] = EDGES) -> tuple[str, ...]:
    """Names in order, rarest first."""
    inner = (f"{low:,} to {high - 1:,}" for low, high in pairwise(edges))
    return (f"< {edges[0]:,}", *inner, f"≥ {edges[-1]:,}")


def bucket_of(labels: np.ndarray, training: np.ndarray, *, edges: Sequence[int] = EDGES) -> np.ndarray:
    """The bucket of each record's class, −1 without a label."""
    where = np.searchsorted(np.asarray(edges), training, side="right")  # (classes,)
    return np.where(labels == MISSING, -1, where[np.maximum(labels, 0)])


def measure(
    scores: Sequence[Score],
    records: Records,
    *,
    edges: Sequence[int] = EDGES,
    training: Mapping[str, np.ndarray] | None = None,
    fprs: Sequence[float] = metrics.FPRS,
    seed: int = 0,
    progress: Progress = silent,
) -> list[Row]:
    """One row for each score, protocol, unit (report; case where cases have several) and bucket that holds records.

    ``training`` has the training samples of each task's classes, which decide a class's bucket; without it, members
    are counted.

    Each TPR carries, beside its interval, ``sure``: a lower bound that holds for all rows that may decide at once
    (Bonferroni), because the largest of many lower bounds is too high by chance.
    """
    several = len(np.unique(records.cases)) < len(records.cases)
    training = training or {
        task: class_counts([labels[records.member]], classes=len(records.classes[task]))
        for task, labels in records.labels.items()
    }
    cells = [(score, name, inside) for score in scores for name, inside in _buckets(score, records, training, edges)]
    held = protocols(records)
    deciding = sum(score.decides for score, _, _ in cells) * sum(protocol.name != CONTROL for protocol in held)
    looks = max(deciding, 1) * (2 if several else 1) * len(fprs)
    settings: dict[str, Any] = {"fprs": fprs, "looks": looks, "seed": seed}
    rows: list[Row] = []
    for number, protocol in enumerate(held):
        drawn = resample(protocol.positive, records.cases, others=protocol.negative, seed=seed)
        for done, (score, name, inside) in enumerate(cells, start=number * len(cells)):
            progress("measuring attacks", done, len(held) * len(cells))
            kept = inside & (protocol.positive | protocol.negative) & ~np.isnan(score.values)
            values, positive, cases = score.values[kept], protocol.positive[kept], records.cases[kept]
            classes = records.labels[records.task_of(score)][kept]
            found = figures(values, positive, cases, drawn.of(kept), classes, threshold=score.threshold, **settings)
            rows.append(_row(score, protocol, name, "report", found))
            if several and name == ALL and (score.task == TOGETHER or len(records.classes) == 1):
                names, values = attacks.by_case(values, cases, ratio=score.adds_up)
                positive = np.isin(names, cases[positive])
                # A report of each case: how often it is drawn, and the case's class.
                first = np.unique(cases, return_index=True)[1]
                again = drawn.of(np.flatnonzero(kept)[first])
                found = figures(values, positive, names, again, classes[first], threshold=None, **settings)
                rows.append(_row(score, protocol, name, "case", found))
    progress("measuring attacks", len(held) * len(cells), len(held) * len(cells))
    return rows


def _buckets(
    score: Score, records: Records, training: Mapping[str, np.ndarray], edges: Sequence[int]
) -> list[tuple[str, np.ndarray]]:
    """(name, mask): all records, then the buckets of the task's classes that hold any."""
    task = records.task_of(score)
    labels = records.labels[task]
    bucket = bucket_of(labels, training[task], edges=edges)
    parts = [(name, bucket == number) for number, name in enumerate(bucket_names(edges))]
    parts = [(name, inside) for name, inside in parts if inside.any()]
    everything = (ALL, np.ones(len(labels), bool))
    # One bucket would only repeat the whole.
    return [everything] if len(parts) < 2 or score.whole_only else [everything, *parts]


def _row(
    score: Score, protocol: Protocol, bucket: str, unit: Literal["report", "case"], found: Figures | NoFigures
) -> Row:
    cell = Cell(
        protocol=protocol.name,
        attack=score.attack,
        task=score.task,
        unit=unit,
        bucket=bucket,
        shadows=score.shadows,
        label_only=score.label_only,
        decides=score.decides and protocol.name != CONTROL,
        weights_only=score.weights_only,
    )
    kind = MeasuredRow if isinstance(found, Figures) else SuppressedRow
    return kind.model_construct(**dict(cell), **dict(found))


def figures(
    values: np.ndarray,
    positive: np.ndarray,
    cases: np.ndarray,
    drawn: Resamples,
    classes: np.ndarray | None = None,
    *,
    threshold: float | None = None,
    fprs: Sequence[float] = metrics.FPRS,
    looks: int = 1,
    seed: int = 0,
) -> Figures | NoFigures:
    """Everything measured in one cell, or why it is not told."""
    sizes = _cases_a_side(positive, cases)
    if not may_be_told(*sizes.values()):
        few_members = not may_be_told(sizes["member_cases"])
        return NoFigures(suppressed=TooFew.MEMBERS if few_members else TooFew.NON_MEMBERS)
    guess = metrics.cross_fitted_guess(values, positive, cases, seed=seed) if threshold is None else values >= threshold
    accuracy = None if classes is None else Figure.of(metrics.class_accuracy(guess, positive, classes, drawn))
    of_reports, balanced = metrics.report_accuracies(guess, positive, drawn)
    curve = metrics.roc(values, positive)
    strict = 1 - (1 - metrics.CONFIDENCE) / looks
    tpr = {
        f"{fpr:g}": ShareFound.of(
            metrics.tpr_interval(curve, fpr, **sizes),
            sure=round(metrics.tpr_interval(curve, fpr, **sizes, confidence=strict).low, 6),
        )
        for fpr in fprs
    }
    return Figures(
        n_members=int(positive.sum()),
        n_non_members=int((~positive).sum()),
        **sizes,
        accuracy=accuracy,
        report_accuracy=Figure.of(of_reports),
        balanced_accuracy=Figure.of(balanced),
        auc=Figure.of(metrics.auc_estimate(values, positive, drawn)),
        tpr_at_fpr=tpr,
    )


def _cases_a_side(positive: np.ndarray, cases: np.ndarray) -> dict[str, int]:
    return {"member_cases": len(np.unique(cases[positive])), "non_member_cases": len(np.unique(cases[~positive]))}


def curves(scores: Iterable[Score], records: Records, *, points: int = 60) -> list[Curve]:
    """ROC curves on a logarithmic grid of FPRs with their bands, for drawing; small groups are left out."""
    drawn = []
    for protocol in protocols(records):
        for score in scores:
            kept = (protocol.positive | protocol.negative) & ~np.isnan(score.values)
            positive, cases = protocol.positive[kept], records.cases[kept]
            sizes = _cases_a_side(positive, cases)
            if not may_be_told(*sizes.values()):
                continue
            curve = metrics.roc(score.values[kept], positive)
            grid = np.geomspace(1 / sizes["non_member_cases"], 1, points)
            band = [metrics.tpr_interval(curve, float(fpr), **sizes) for fpr in grid]
            drawn.append(
                Curve(
                    protocol=protocol.name,
                    attack=score.attack,
                    task=score.task,
                    shadows=score.shadows,
                    fpr=tuple(round(float(fpr), 6) for fpr in grid),
                    tpr=tuple(round(metrics.tpr_at(curve, float(fpr)), 5) for fpr in grid),
                    low=tuple(round(estimate.low, 5) for estimate in band),
                    high=tuple(round(estimate.high, 5) for estimate in band),
                )
            )
    return drawn
