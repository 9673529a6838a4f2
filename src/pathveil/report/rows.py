"""What the report's sections share: means and intervals over folds or seeds, numbers as people read them.

>>> tuple(round(end, 3) for end in spread([0.5, 0.6, 0.7]))
(0.352, 0.848)
>>> spread([0.5, 0.7]), spread([0.5])
((0.5, 0.7), None)
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pathveil.study.recommendation import up

Row = Mapping[str, Any]


@dataclass
class Table:
    """A table that can be sorted and downloaded; tables of one ``group`` are tabs of one another."""

    id: str
    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[Any]]
    group: str = ""
    tab: str = ""

    @property
    def numeric(self) -> list[bool]:
        """Which columns hold numbers, to be set flush right.

        >>> Table("t", "", ["a", "b"], [["B", "1,024"], ["I2", "–"]]).numeric
        [False, True]
        """
        columns = zip(*self.rows, strict=True) if self.rows else [()] * len(self.heads)
        return [all(re.match(r"[-+]?\d[\d.,]*|–|$", str(cell)) for cell in column) for column in columns]


@dataclass
class Section:
    """A study's part of the page."""

    id: str
    title: str
    text: str
    figures: list[tuple[str, str, str]] = field(default_factory=list)  # title, SVG, caption
    tables: list[Table] = field(default_factory=list)

    @property
    def blocks(self) -> list[list[Table]]:
        """Tables in order, those of one group together: the tabs of one block."""
        blocks: dict[str, list[Table]] = {}
        for table in self.tables:
            blocks.setdefault(table.group or table.id, []).append(table)
        return list(blocks.values())


def mean(values: Sequence[float | None]) -> float | None:
    there = [value for value in values if value is not None]
    return float(np.mean(there)) if there else None


def mean_of(rows: Sequence[Row], name: str) -> float | None:
    return mean([row.get(name) for row in rows])


def spread(values: Sequence[float]) -> tuple[float, float] | None:
    """Student's 95 % interval of the mean, or the range where there are only two; None for one value."""
    if len(values) < 2:
        return None
    if len(values) == 2:
        return min(values), max(values)
    from scipy.stats import t

    half = t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / np.sqrt(len(values))
    return round(float(np.mean(values) - half), 8), round(float(np.mean(values) + half), 8)


def number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def with_interval(figure: Mapping[str, float]) -> str:
    return f"{figure['value']:.3f} ({figure['low']:.3f}, {figure['high']:.3f})"


def appetites(recommendation: Row, id: str) -> list[Table]:
    """From which tolerated leak on what is the thing to use."""
    rows = [
        [up(step["from"]), step["use"], f"{step['words']:,}", number(step["macro"]), with_interval(step["auc"])]
        for step in recommendation["steps"]
    ]
    heads = ["tolerated AUC, from", "use", "words", "macro F1", "attacker's AUC (lowest, highest end)"]
    return [Table(id, "What to use under which appetite", heads, rows)] if rows else []


def newer(study: Row) -> str:
    """What is to be said of attacks where test cases were chosen by date."""
    day = study["settings"].get("test_from")
    newer = f" Test cases are those with a report on or after {day}: non-members are newer than members, and part of "
    return f"{newer}what an attack finds is change over time." if day else ""
