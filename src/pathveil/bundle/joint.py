"""One decision over all tasks, so that a report's codes go together: the most probable combination that is valid.

Each task alone takes its best code, and the codes may then contradict each other (``pathveil.icdo.combinations``).
Such a report gets, of all combinations that the rules allow, the one of the largest product of probabilities. The
search is exact: for every place (subsite, or site where a model has no subsites) the best of everything else that fits
it. Lifts have no say in it, since they were chosen for each task alone. Reports whose codes go together keep them.

Probabilities stay what each task says of its code alone, and so do thresholds: a code that was taken for the sake of
the others is less probable, and is often left to a person for that.

That a side fits its place is no rule unless asked for: registries and projects differ in what they take for paired
(TCGA's own labels name a side of the prostate or the thyroid in 1,118 of 6,453 reports).

>>> rules = Rules.of({"site": ("C50", "C61"), "subsite": ("C50.9", "C61.9"), "laterality": ("left", "not_paired")})
>>> logs = {"site": np.log([[0.6, 0.4]]), "subsite": np.log([[0.1, 0.9]]), "laterality": np.log([[0.4, 0.6]])}
>>> alone = {task: one.argmax(1) for task, one in logs.items()}
>>> {task: chosen.tolist() for task, chosen in choose_together(alone, logs, rules).items()}
{'site': [1], 'subsite': [1], 'laterality': [1]}
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pathveil.arguments import names_given
from pathveil.errors import UsageError
from pathveil.formatting import listed
from pathveil.icdo.combinations import contradicts_pair_at, is_implausible_at, is_outside

RULES = ("subsite", "histology", "laterality")  # what must fit: a subsite its site, a morphology or a side the place
USUAL_RULES = ("subsite", "histology")

Labels = Mapping[str, Sequence[str]]


def rules_named(joint: str | Iterable[str] | None) -> list[str] | None:
    """The rules that a caller names; "usual" alone stands for the usual ones.

    >>> rules_named("usual"), rules_named("subsite"), rules_named(None)
    (['subsite', 'histology'], ['subsite'], None)
    """
    return list(USUAL_RULES) if joint == "usual" else names_given(joint, "joint")


@dataclass(frozen=True)
class Rules:
    """Which classes go together, as tables over the classes of a model's place task."""

    place: str  # subsite or site; empty where there is neither
    site: np.ndarray | None  # (places, sites): allowed
    laterality: np.ndarray | None  # (places, sides)
    histology: np.ndarray | None  # (places, histologies, behaviors); one behavior where that is no task
    behavior: bool  # whether it is a task

    @classmethod
    def of(cls, labels: Labels, rules: Iterable[str] = USUAL_RULES) -> "Rules":
        """The tables for a model's labels, of the rules named."""
        wanted, usual = tuple(rules), listed(USUAL_RULES)
        for rule in wanted:
            if rule not in RULES:
                raise UsageError(
                    f"joint: '{rule}' is not known; expected of {listed(RULES)}, or 'usual' alone for {usual}"
                )
        place = "subsite" if "subsite" in labels else "site" if "site" in labels else ""
        places, behavior = labels.get(place, ()), "behavior" in labels
        site = histology = laterality = None
        if place == "subsite" and "site" in labels and "subsite" in wanted:
            site = table(places, labels["site"], lambda subsite, one: is_outside(one, subsite))
        if place and "laterality" in labels and "laterality" in wanted:
            laterality = table(places, labels["laterality"], contradicts_pair_at)
        if place and "histology" in labels and "histology" in wanted:
            behaviors: Sequence[str | None] = labels["behavior"] if behavior else (None,)
            layers = [
                table(places, labels["histology"], lambda where, what, b=b: is_implausible_at(where, what, b))
                for b in behaviors
            ]
            histology = np.stack(layers, axis=2)
        return cls(place, site, laterality, histology, behavior)

    def allow(self, chosen: Mapping[str, np.ndarray]) -> np.ndarray:
        """Whether each document's classes go together (documents,)."""
        fits = np.ones(len(next(iter(chosen.values()))), bool)
        if not self.place:
            return fits
        where = chosen[self.place]
        if self.site is not None:
            fits &= self.site[where, chosen["site"]]
        if self.laterality is not None:
            fits &= self.laterality[where, chosen["laterality"]]
        if self.histology is not None:
            fits &= self.histology[where, chosen["histology"], chosen["behavior"] if self.behavior else 0]
        return fits


def table(places: Sequence[str], others: Sequence[str], contradicts: Callable[[str, str], bool]) -> np.ndarray:
    """Which pairs of classes go together, (places, others)."""
    return np.array([[not contradicts(place, other) for other in others] for place in places], bool)


def choose_together(
    chosen: Mapping[str, np.ndarray], log_probabilities: Mapping[str, np.ndarray], rules: Rules
) -> dict[str, np.ndarray]:
    """Each task's class (documents,), where classes that do not go together give way to the most probable that do.

    A report for which the rules allow nothing keeps what each task says alone.
    """
    together = {task: classes.copy() for task, classes in chosen.items()}
    for row in np.flatnonzero(~rules.allow(chosen)):
        best = best_combination({task: logs[row] for task, logs in log_probabilities.items()}, rules)
        for task, label in best.items():
            together[task][row] = label
    return together


def best_combination(logs: Mapping[str, np.ndarray], rules: Rules) -> dict[str, int]:
    """The best allowed classes of one document for the tasks that rules speak of; empty where none is allowed."""
    total = logs[rules.place].astype(np.float64)  # (places,): of each place and the best that fits it
    fitting: dict[str, np.ndarray] = {}  # task: the best class for each place
    for task, allowed in (("site", rules.site), ("laterality", rules.laterality)):
        if allowed is not None:
            within = np.where(allowed, logs[task], -np.inf)  # (places, classes)
            fitting[task] = within.argmax(1)
            total = total + within.max(1)
    if rules.histology is not None:
        pair = logs["histology"][:, None] + (logs["behavior"][None] if rules.behavior else 0.0)
        within = np.where(rules.histology, pair, -np.inf).reshape(len(total), -1)  # (places, histologies × behaviors)
        best = within.argmax(1)
        fitting["histology"], behavior = np.divmod(best, pair.shape[1])
        if rules.behavior:
            fitting["behavior"] = behavior
        total = total + within.max(1)
    place = int(total.argmax())
    if np.isneginf(total[place]):
        return {}
    return {rules.place: place} | {task: int(classes[place]) for task, classes in fitting.items()}
