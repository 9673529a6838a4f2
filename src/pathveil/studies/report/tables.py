"""What the report's sections share: means and intervals over folds or seeds, numbers as people read them.

>>> tuple(round(end, 3) for end in spread([0.5, 0.6, 0.7]))
(0.352, 0.848)
>>> spread([0.5, 0.7]), spread([0.5])
((0.5, 0.7), None)
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pathveil.disclosure import TOO_FEW
from pathveil.studies.recommendation import rounded_up
from pathveil.studies.rows import Estimate, Recommendation


class Cell(str):
    """What a table shows in a place, with the plain numbers behind it, which are sorted by and go into the CSV file.

    >>> shown = Cell("2,503", 2503)
    >>> f"{shown} words", shown.values
    ('2,503 words', (2503,))
    """

    values: tuple[float | None, ...]
    order: float | None  # what to sort by, where that is not the first value

    def __new__(cls, text: str, *values: float | None, order: float | None = None) -> "Cell":
        made = super().__new__(cls, text)
        made.values = tuple(round(value, 6) if isinstance(value, float) else value for value in values)
        made.order = order if order is not None else next(iter(made.values), None)
        return made


@dataclass
class Table:
    """A table that can be sorted and downloaded; tables of one ``group`` are tabs of one another."""

    id: str
    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[Any]]
    group: str = ""
    tab: str = ""
    note: str = ""  # below it
    parts: Sequence[str] = ("", "low", "high")  # what the numbers of a cell that has several are called in the CSV file

    def __post_init__(self) -> None:
        self.rows = [[Cell(str(one), one) if isinstance(one, int) else one for one in row] for row in self.rows]

    @property
    def numeric(self) -> list[bool]:
        """Which columns hold numbers, to be set flush right.

        >>> Table("t", "", ["a", "b"], [["B", count(1024)], ["I2", number(None)]]).numeric
        [False, True]
        """
        columns = [[row[place] for row in self.rows] for place in range(len(self.heads))]
        return [bool(column) and all(isinstance(one, Cell) and one.values for one in column) for column in columns]

    @property
    def columns(self) -> list[list[str]]:
        """The names in the CSV file of each column: more than one where its cells have several numbers.

        >>> Table("t", "", ["mode", "F1"], [["strong", with_interval(Estimate(value=0.5, low=0.4, high=0.6))]]).columns
        [['mode'], ['F1', 'F1 low', 'F1 high']]
        """
        found = []
        for place, head in enumerate(self.heads):
            most = max((len(row[place].values) for row in self.rows if isinstance(row[place], Cell)), default=1)
            found.append([f"{head} {part}".strip() for part in self.parts[:most]] if most > 1 else [head])
        return found


@dataclass
class Section:
    """A study's part of the page."""

    id: str
    title: str
    text: str
    figures: Sequence[tuple[str, str, str]] = ()  # title, SVG, caption
    tables: list[Table] = field(default_factory=list)
    points: Sequence[str] = ()  # a list below the tables
    link: tuple[str, str] | None = None  # to another page, with its words

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


def mean_of(rows: Sequence[Any], name: str) -> float | None:
    """The mean of a field over the rows that have it."""
    return mean([getattr(row, name) for row in rows])


def mean_estimate(estimates: Sequence[Estimate]) -> Estimate:
    """The mean of estimates, and the means of their limits."""
    return Estimate(**{end: mean_of(estimates, end) or 0.0 for end in ("value", "low", "high")})


def spread(values: Sequence[float]) -> tuple[float, float] | None:
    """Student's 95 % interval of the mean, or the range where there are only two; None for one value."""
    if len(values) < 2:
        return None
    if len(values) == 2:
        return min(values), max(values)
    from scipy.stats import t

    half = t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / np.sqrt(len(values))
    return round(float(np.mean(values) - half), 8), round(float(np.mean(values) + half), 8)


def number(value: float | None) -> Cell:
    return Cell("–" if value is None else f"{value:.3f}", value)


def count(value: float) -> Cell:
    """
    >>> count(1024)
    '1,024'
    """
    return Cell(f"{value:,.0f}", round(value))


def with_interval(figure: Estimate) -> Cell:
    """
    >>> with_interval(Estimate(value=0.5, low=0.4, high=0.6))
    '0.500 (0.400, 0.600)'
    """
    ends = figure.value, figure.low, figure.high
    return Cell("{:.3f} ({:.3f}, {:.3f})".format(*ends), *ends)


def suppressed(reason: str | None = None) -> Cell:
    """In the place of a figure that is not told.

    >>> suppressed("3 non-member cases"), suppressed()
    ('suppressed (3 non-member cases)', 'suppressed (fewer than 10 cases)')
    """
    return Cell(f"suppressed ({reason or TOO_FEW})", None)


def appetite_tables(recommendation: Recommendation, id: str) -> list[Table]:
    """A table of what to use, by the leak that is tolerated; none where there is nothing to choose from."""
    rows = [
        [
            Cell(rounded_up(step.tolerated), float(rounded_up(step.tolerated))),
            step.use,
            count(step.words),
            number(step.macro),
            with_interval(step.auc),
        ]
        for step in recommendation.steps
    ]
    heads = ["tolerated AUC, from", "use", "words", "macro F1", "attacker's AUC (lowest, highest end)"]
    note = "Of those that keep to it the best macro F1 is taken; of those that cannot be told from it, the least "
    note += (
        "leaking; of those alike in both, the fewest words. So a larger appetite may lead to one that looks no better."
    )
    return [Table(id, "What to use under which appetite", heads, rows, note=note)] if rows else []


def caveat_of_dates(settings: Mapping[str, Any]) -> str:
    """What is to be said of attacks where test cases were chosen by date."""
    day = settings.get("test_from")
    newer = f" Test cases are those with a report on or after {day}: non-members are newer than members, and part of "
    return f"{newer}what an attack finds is change over time." if day else ""
