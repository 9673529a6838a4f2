"""From scores to evidence: each attack measured under each protocol, for all records and by how rare their class is.

Two protocols ask two questions. ``matched``: non-members are unseen cases of the members' own registries, so a score
above chance is membership. ``cross-registry`` (the paper's): non-members come from registries the model never saw,
which mixes membership with change of source; its *control* puts unseen cases of the members' registries in the members'
place, and whatever that scores cannot be membership. Where registries are not known, the one protocol is ``given``.

A row is a plain dictionary, ready for JSON; a cell with fewer than ten cases on either side keeps no number.

>>> import numpy as np
>>> records = Records(member=np.arange(40) < 20, cases=np.arange(40), labels={"site": np.zeros(40, int)},
...                   classes={"site": ("C50",)})
>>> score = Score("loss", "site", np.arange(40.0)[::-1])
>>> [row] = measure([score], records, edges=(100,), fprs=(0.1,))
>>> row["protocol"], row["bucket"], row["n_members"], row["auc"]["value"]
('given', 'all', 20, 1.0)
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pathveil.audit import attacks, metrics, rarity
from pathveil.progress import Progress, silent

FEWEST_CASES = 10  # a cell with fewer members or non-members than this shows nothing
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

    @property
    def main_task(self) -> str:
        """The task whose class rarity stands for a report as a whole: site where there is one."""
        return "site" if "site" in self.classes else next(iter(self.classes))


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
    decides: bool = True  # may decide the verdict; the paper's own attack may not
    whole_only: bool = False  # not by class rarity: one point of a curve


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


def measure(
    scores: Sequence[Score],
    records: Records,
    *,
    edges: Sequence[int] = rarity.EDGES,
    fprs: Sequence[float] = metrics.FPRS,
    seed: int = 0,
    progress: Progress = silent,
) -> list[dict[str, Any]]:
    """One row for each score, protocol, unit (report; case where cases have several) and bucket that holds records.

    Each TPR carries, beside its interval, ``sure``: a lower bound that holds for all rows that may decide at once
    (Bonferroni), because the largest of many lower bounds is too high by chance.
    """
    several = len(np.unique(records.cases)) < len(records.cases)
    cells = [
        (protocol, score, name, inside)
        for protocol in protocols(records)
        for score in scores
        for name, inside in _buckets(score, records, edges)
    ]
    deciding = sum(score.decides and protocol.name != CONTROL for protocol, score, _, _ in cells)
    looks = max(deciding, 1) * (2 if several else 1) * len(fprs)
    rows: list[dict[str, Any]] = []
    current, weights = "", np.zeros((0, 0), np.float32)
    for done, (protocol, score, name, inside) in enumerate(cells):
        progress("measuring attacks", done, len(cells))
        if protocol.name != current:
            current = protocol.name
            kept = protocol.positive | protocol.negative
            weights = np.zeros((len(kept), metrics.RESAMPLES), np.float32)
            weights[kept] = metrics.case_weights(protocol.positive[kept], records.cases[kept], seed=seed)
        kept = inside & (protocol.positive | protocol.negative) & ~np.isnan(score.values)
        values, positive, cases = score.values[kept], protocol.positive[kept], records.cases[kept]
        settings: dict[str, Any] = {"fprs": fprs, "looks": looks, "seed": seed}
        head = _head(score, protocol, name)
        rows.append(head | figures(values, positive, cases, weights[kept], threshold=score.threshold, **settings))
        if several and name == ALL and (score.task == TOGETHER or len(records.classes) == 1):
            names, values = attacks.by_case(values, cases, ratio=score.adds_up)
            positive = np.isin(names, cases[positive])
            first = np.flatnonzero(kept)[
                np.unique(cases, return_index=True)[1]
            ]  # a report of each case, for its weights
            by_case = figures(values, positive, names, weights[first], threshold=None, **settings)
            rows.append(head | {"unit": "case"} | by_case)
    progress("measuring attacks", len(cells), len(cells))
    return rows


def _buckets(score: Score, records: Records, edges: Sequence[int]) -> list[tuple[str, np.ndarray]]:
    """(name, mask): all records, then the buckets of the task's classes that hold any."""
    task = records.main_task if score.task == TOGETHER else score.task
    labels = records.labels[task]
    training = rarity.class_counts([labels[records.member]], classes=len(records.classes[task]))
    bucket = rarity.bucket_of(labels, training, edges=edges)
    parts = [(name, bucket == number) for number, name in enumerate(rarity.bucket_names(edges))]
    parts = [(name, inside) for name, inside in parts if inside.any()]
    everything = (ALL, np.ones(len(labels), bool))
    return (
        [everything] if len(parts) < 2 or score.whole_only else [everything, *parts]
    )  # one bucket would only repeat the whole


def _head(score: Score, protocol: Protocol, bucket: str) -> dict[str, Any]:
    return {
        "protocol": protocol.name,
        "attack": score.attack,
        "task": score.task,
        "unit": "report",
        "bucket": bucket,
        "shadows": score.shadows,
        "label_only": score.label_only,
        "decides": score.decides and protocol.name != CONTROL,
    }


def figures(
    values: np.ndarray,
    positive: np.ndarray,
    cases: np.ndarray,
    weights: np.ndarray,
    *,
    threshold: float | None = None,
    fprs: Sequence[float] = metrics.FPRS,
    looks: int = 1,
    seed: int = 0,
) -> dict[str, Any]:
    """Everything measured in one cell, or the word that it is too small."""
    sizes = {"member_cases": len(np.unique(cases[positive])), "non_member_cases": len(np.unique(cases[~positive]))}
    if min(sizes.values()) < FEWEST_CASES:
        side = "member" if sizes["member_cases"] < FEWEST_CASES else "non-member"
        return {"suppressed": f"fewer than {FEWEST_CASES} {side} cases"}
    guess = metrics.cross_fitted_guess(values, positive, cases, seed=seed) if threshold is None else values >= threshold
    accuracy, balanced = metrics.accuracy_estimates(guess, positive, weights)
    curve = metrics.roc(values, positive)
    strict = 1 - (1 - metrics.CONFIDENCE) / looks
    tpr = {
        f"{fpr:g}": metrics.tpr_interval(curve, fpr, **sizes).as_json()
        | {"sure": round(metrics.tpr_interval(curve, fpr, **sizes, confidence=strict).low, 6)}
        for fpr in fprs
    }
    return {
        "n_members": int(positive.sum()),
        "n_non_members": int((~positive).sum()),
        **sizes,
        "accuracy": accuracy.as_json(),
        "balanced_accuracy": balanced.as_json(),
        "auc": metrics.auc_estimate(values, positive, weights).as_json(),
        "tpr_at_fpr": tpr,
    }


def curves(scores: Iterable[Score], records: Records, *, points: int = 60) -> list[dict[str, Any]]:
    """ROC curves on a logarithmic grid of FPRs with their bands, for drawing; small groups are left out."""
    drawn = []
    for protocol in protocols(records):
        for score in scores:
            kept = (protocol.positive | protocol.negative) & ~np.isnan(score.values)
            positive, cases = protocol.positive[kept], records.cases[kept]
            sizes = {
                "member_cases": len(np.unique(cases[positive])),
                "non_member_cases": len(np.unique(cases[~positive])),
            }
            if min(sizes.values()) < FEWEST_CASES:
                continue
            curve = metrics.roc(score.values[kept], positive)
            grid = np.geomspace(1 / sizes["non_member_cases"], 1, points)
            band = [metrics.tpr_interval(curve, float(fpr), **sizes) for fpr in grid]
            drawn.append(
                {
                    "protocol": protocol.name,
                    "attack": score.attack,
                    "task": score.task,
                    "shadows": score.shadows,
                    "fpr": [round(float(fpr), 6) for fpr in grid],
                    "tpr": [round(metrics.tpr_at(curve, float(fpr)), 5) for fpr in grid],
                    "low": [round(estimate.low, 5) for estimate in band],
                    "high": [round(estimate.high, 5) for estimate in band],
                }
            )
    return drawn
