"""The figures that a model is shipped with: scores with intervals, and the thresholds of its tasks.

>>> print(Interval(0.85, 0.81, 0.89))
0.850 (0.810–0.890)
"""

from dataclasses import asdict, dataclass

from pathveil.results import Part

NEVER = 2.0  # a threshold no probability reaches: every report goes to a person


@dataclass(frozen=True)
class Interval:
    """A value with its 95 % interval."""

    value: float
    low: float
    high: float

    def as_dict(self) -> dict[str, float]:
        return asdict(self)

    def __str__(self) -> str:
        return f"{self.value:.3f} ({self.low:.3f}–{self.high:.3f})"


class Scores(Part):
    """A task's scores on reports with a label."""

    documents: int
    micro: Interval
    macro: Interval
    accuracy: Interval

    def __str__(self) -> str:
        return f"micro F1 {self.micro.value:.3f}, macro F1 {self.macro.value:.3f}"


class Threshold(Part):
    """From which probability on a task's code is taken, and what that promises for new cases."""

    probability: float
    wanted: float  # accuracy asked for
    accuracy: float  # of held-out documents above thresholds that other cases had chosen
    low: float  # lower end of that accuracy's 95 % interval: few cases promise little
    abstained: float  # share of the held-out documents below those thresholds
    documents: int  # held-out documents with a label
    left: float | None = None  # share of these below ``probability`` itself; not known of older models

    def __str__(self) -> str:
        if self.probability >= NEVER:
            return f"leaves all to a person: no threshold keeps {self.wanted:.1%} on held-out cases"
        right = f"{self.accuracy:.1%} (at least {self.low:.1%}) of the rest right"
        return f"leaves {self.abstained:.0%} to a person, {right}"
