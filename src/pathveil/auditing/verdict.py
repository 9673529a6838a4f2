"""The verdict: evidence held against a written risk appetite, by someone who will be asked why.

Three numbers decide: the strongest attack on all tasks together, on the worst single task and in the worst bucket of
class rarity, each as a TPR at an FPR that the appetite names. A limit is *kept* where the upper end of every attack's
interval is at or below it (all must be, so no allowance for many looks is needed), *broken* where a lower end that
holds for all looks at once is above it, *open* otherwise. Pass: all kept. Fail: one broken. Else: not enough evidence;
also where a control failed. Which rows count depends on the release: where only top labels leave, only attacks on
labels; attacks on weights only where these leave. A cross-registry row counts where it lies above its control; the rest
of it is change of source, not membership. An appetite may also limit how well canaries are told apart, of the kind that
is found best.

The row that decides a limit is not always the worst one: a few cases of rare codes may be found more often, and less
surely, than many of common ones. So a verdict holds both: the row that decides (``numbers``), and the row with most
members found (``worst``).

>>> import numpy as np
>>> from pathveil.auditing.appetite import Limit
>>> from pathveil.auditing.evidence import Records, Score, measure
>>> records = Records(np.arange(900) < 400, np.arange(900), {"site": np.zeros(900, int)}, {"site": ("C50",)})
>>> surer = Score("loss", "site", np.random.default_rng(0).normal(size=900) + records.member)
>>> appetite = Appetite(release="probabilities", limits=(Limit(fpr=0.1, overall=0.2),))
>>> judge(measure([surer], records), controls=[], appetite=appetite).answer
'fail'
"""

from collections.abc import Sequence
from typing import Literal

from pathveil.auditing.appetite import Appetite
from pathveil.auditing.controls import Control
from pathveil.auditing.evidence import (
    ALL,
    CONTROL,
    CROSS,
    TOGETHER,
    CanaryRow,
    Cell,
    MeasuredRow,
    Row,
    SuppressedRow,
    TooFew,
)
from pathveil.formatting import percent
from pathveil.results import Part

Answer = Literal["pass", "fail", "not enough evidence"]
Criterion = Literal["overall", "worst_task", "worst_bucket"]
EXIT_CODES: dict[Answer, int] = {"pass": 0, "fail": 3, "not enough evidence": 4}
CRITERIA: dict[Criterion, str] = {
    "overall": "all tasks together",
    "worst_task": "the worst task",
    "worst_bucket": "the worst bucket",
}


class Number(Part):
    """What one row says of one criterion."""

    criterion: Criterion
    fpr: float
    tolerated: float
    state: Literal["kept", "broken", "open"]
    value: float | None
    low: float
    high: float
    sure: float
    attack: str
    task: str
    bucket: str
    protocol: str
    unit: Literal["report", "case"]
    note: str = ""


class CanaryNumber(Part):
    """The kind of canary that is found best, held against the appetite."""

    kind: str
    attack: str
    tolerated: float
    state: Literal["kept", "broken", "open"]
    auc: float
    low: float
    high: float

    def __str__(self) -> str:
        found = f"{self.auc:.2f} ({self.low:.2f} to {self.high:.2f})"
        return (
            f"an attacker who is shown two canaries ({self.kind}), one of which the model learnt, names the right one "
            f"with a chance of {found}; the appetite tolerates {self.tolerated:.2f} ({self.attack} attack)"
        )


class Verdict(Part):
    """The answer, the sentence that says it, and the numbers that decided."""

    answer: Answer
    exit_code: int
    sentence: str
    reasons: tuple[str, ...]
    numbers: tuple[Number, ...]  # that decided, one a criterion
    worst: tuple[Number, ...]  # with the highest value at the same false-positive rate, one for each of ``numbers``
    canary: CanaryNumber | None = None  # where the appetite limits canaries and some were planted


def judge(
    rows: Sequence[Row], *, controls: Sequence[Control], appetite: Appetite, canaries: Sequence[CanaryRow] = ()
) -> Verdict:
    """Hold the rows of ``evidence.measure``, the controls and the canaries against the appetite."""
    counted = [row for row in _counted(rows, appetite) if isinstance(row, MeasuredRow)]
    failed = [control for control in controls if not control.holds]
    numbers: list[Number] = []
    worst: list[Number] = []
    unanswered: list[str] = []
    for criterion in CRITERIA:
        asked = [limit for limit in appetite.limits if getattr(limit, criterion) is not None]
        chosen = [row for row in counted if _belongs(row, criterion, rows)]
        found = [_number(row, criterion, limit.fpr, getattr(limit, criterion)) for limit in asked for row in chosen]
        if found:
            numbers.append(max(found, key=_badness))
            worst.append(_worst(found, numbers[-1]))
        elif asked:
            unanswered.append(f"no attack could be measured for {CRITERIA[criterion]}")
        if asked and criterion == "worst_bucket":
            unanswered += _unmeasured_buckets(rows, appetite)
    canary = _worst_canary(canaries, appetite)
    if appetite.worst_canary is not None and canary is None:
        unanswered.append("the appetite limits what canaries may give away, and none were planted (--canaries)")
    broken = [number for number in numbers if number.state == "broken"]
    open_ = [number for number in numbers if number.state == "open"]
    reasons = [f"control failed: {control.name}" for control in failed] + unanswered
    null_failed = any(control.kind == "null" for control in failed)
    if broken and not null_failed:
        answer: Answer = "fail"
        decisive = max(broken, key=_badness)
    elif canary is not None and canary.state == "broken" and not null_failed:
        answer, decisive = "fail", None
    elif canary is not None and canary.state == "open" and not (failed or open_ or unanswered) and numbers:
        answer, decisive = "not enough evidence", None
    elif failed or open_ or unanswered or not numbers:
        answer = "not enough evidence"
        decisive = max(open_ or numbers, key=_badness) if numbers else None
    else:
        answer = "pass"
        decisive = max(numbers, key=_badness)
    reasons += [_open_reason(number) for number in open_]
    if canary is not None and canary.state != "kept":
        reasons.append(str(canary))
    by_canary = canary if canary is not None and decisive is None and numbers else None
    return Verdict(
        answer=answer,
        exit_code=EXIT_CODES[answer],
        sentence=_sentence(answer, decisive, failed) if by_canary is None else f"{answer.capitalize()}: {by_canary}.",
        reasons=tuple(reasons),
        numbers=tuple(numbers),
        worst=tuple(worst),
        canary=canary,
    )


def _worst_canary(canaries: Sequence[CanaryRow], appetite: Appetite) -> CanaryNumber | None:
    """The attack and kind that is worst beside the appetite; all must be kept, one broken is enough."""
    limit = appetite.worst_canary
    if limit is None:
        return None

    def state(row: CanaryRow) -> Literal["kept", "broken", "open"]:
        return "broken" if row.sure > limit else "kept" if row.high <= limit else "open"

    counted = [row for row in canaries if row.label_only or appetite.release != "label"]
    rank = {"kept": 0, "open": 1, "broken": 2}
    worst = max(counted, key=lambda row: (rank[state(row)], row.auc), default=None)
    if worst is None:
        return None
    figures = {"auc": worst.auc, "low": worst.low, "high": worst.high}
    return CanaryNumber(kind=worst.kind, attack=worst.attack, tolerated=limit, state=state(worst), **figures)


def _counted(rows: Sequence[Row], appetite: Appetite) -> list[Row]:
    """Rows that may decide under this release, cross-registry ones only where they lie above their control."""
    controls = {_same_but_protocol(row): row for row in rows if row.protocol == CONTROL}
    kept = []
    for row in rows:
        if not (row.decides and fits_release(row, appetite)):
            continue
        control = controls.get(_same_but_protocol(row)) if row.protocol == CROSS else None
        if control is None or _above(row, control):
            kept.append(row)
    return kept


def fits_release(row: Cell, appetite: Appetite) -> bool:
    """Whether an attack can be made on what is to be released."""
    if appetite.release == "label" and not row.label_only:
        return False
    return appetite.release == "weights" or not row.weights_only


def _same_but_protocol(row: Cell) -> tuple[str | int, ...]:
    return row.attack, row.task, row.unit, row.bucket, row.shadows


def _unmeasured_buckets(rows: Sequence[Row], appetite: Appetite) -> list[str]:
    """Buckets whose members have too few non-members beside them; one with hardly any members is passed over."""
    small = {
        (row.task, row.bucket)
        for row in _counted(rows, appetite)
        if row.bucket != ALL and isinstance(row, SuppressedRow) and row.suppressed == TooFew.NON_MEMBERS
    }
    return [
        f"classes with {bucket} training samples ({task}): too few non-member cases" for task, bucket in sorted(small)
    ]


def _above(row: Row, control: Row) -> bool:
    if isinstance(row, MeasuredRow) and isinstance(control, MeasuredRow):
        return row.auc.low > control.auc.high
    return False


def _belongs(row: Cell, criterion: Criterion, rows: Sequence[Row]) -> bool:
    single = not any(other.task == TOGETHER for other in rows)
    if criterion == "worst_bucket" and any(other.bucket != ALL for other in rows):
        return row.bucket != ALL
    if row.bucket != ALL:
        return False
    together = row.task == TOGETHER or single  # with one task, it is the whole and the worst
    return row.task != TOGETHER and row.unit == "report" if criterion == "worst_task" else together


def _number(row: MeasuredRow, criterion: Criterion, fpr: float, tolerated: float) -> Number:
    found = row.tpr_at_fpr[f"{fpr:g}"]
    if found.sure > tolerated:
        state: Literal["kept", "broken", "open"] = "broken"
    else:
        state = "kept" if found.high <= tolerated else "open"
    return Number(
        criterion=criterion,
        fpr=fpr,
        tolerated=tolerated,
        state=state,
        value=found.value,
        low=found.low,
        high=found.high,
        sure=found.sure,
        attack=row.attack,
        task=row.task,
        bucket=row.bucket,
        protocol=row.protocol,
        unit=row.unit,
        note=found.note,
    )


def _badness(number: Number) -> tuple[int, bool, float]:
    """Broken above open above kept; among broken the surest, among others the highest upper end, beside the limit.

    A limit that is broken is shown by a row that measures membership alone where there is one.
    """
    rank = {"kept": 0, "open": 1, "broken": 2}[number.state]
    broken = number.state == "broken"
    return rank, broken and number.protocol != CROSS, (number.sure if broken else number.high) / number.tolerated


def _worst(found: Sequence[Number], decisive: Number) -> Number:
    """The row with most members found at the false-positive rate of the one that decided; of membership alone where
    there is one, as for a broken limit. Of equal ones the one that decided."""
    same = [number for number in (decisive, *found) if number.fpr == decisive.fpr and number.value is not None]
    return max(same, key=lambda number: (number.protocol != CROSS, number.value), default=decisive)


def _where(number: Number) -> str:
    part = "" if number.bucket == ALL else f", in classes with {number.bucket} training samples"
    unit = ", judging whole cases" if number.unit == "case" else ""
    return f"{number.attack} attack on {number.task}{part}{unit}, {number.protocol} protocol"


def _open_reason(number: Number) -> str:
    note = f" ({number.note})" if number.note else ""
    return (
        f"{CRITERIA[number.criterion]}: at a false-positive rate of {percent(number.fpr)} the share found may be as "
        f"high as {percent(number.high)}, {percent(number.tolerated)} is tolerated{note} [{_where(number)}]"
    )


def _sentence(answer: Answer, number: Number | None, failed: Sequence[Control]) -> str:
    names = " and ".join(control.name for control in failed)
    if number is None:
        return "Not enough evidence: no attack could be measured on these records."
    price = f"an attacker who wrongly accuses {percent(number.fpr)} of the people who were not in the training data"
    allowed = f"the appetite tolerates {percent(number.tolerated)}"
    if answer == "fail":
        return f"Fail: {price} finds {found_share(number)} of those who were; {allowed} ({_where(number)})."
    if answer == "pass":
        return (
            f"Pass: {price} finds {found_share(number)} of those who were by the attack that comes closest to a "
            f"limit; {allowed} ({_where(number)})."
        )
    if failed:
        return (
            f"Not enough evidence: the audit's own controls did not hold ({names}), so its numbers cannot be relied on."
        )
    return (
        f"Not enough evidence: {price} finds {found_share(number)} of those who were; {allowed}, and more cases are "
        f"needed to tell ({_where(number)})."
    )


def found_share(number: Number) -> str:
    """The estimate with its interval; where there is no estimate, what it is at most."""
    if number.value is None:
        return f"at most {percent(number.high)}"
    return f"{percent(number.value)} ({percent(number.low)} to {percent(number.high)})"
