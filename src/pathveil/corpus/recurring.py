"""Columns in which few values recur (registries, dates, codes): each value is read once, its rows get what was read.

Each value has a number, the same in every batch, so that a row costs one look into a table of values and one into a
table of answers, whatever it takes to answer.

>>> import polars as pl
>>> values = Recurring()
>>> values.add(pl.Series(["C50", None, "C61", "C50"])), values.add(pl.Series(["C61", "C18"]))
(['C50', 'C61'], ['C18'])
>>> values.answers(["breast", "prostate", "colon"]).to_list(), values.counts()
(['prostate', 'colon'], {'C50': 2, 'C61': 2, 'C18': 1})
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import polars as pl


class Recurring:
    """The values of a column, batch after batch."""

    def __init__(self) -> None:
        import polars as pl

        kind = pl.Categorical(pl.Categories.random())  # in which polars numbers values in the order they come
        self.batch = pl.Series(dtype=kind)  # the last one; numbers are forgotten once nothing has this type
        self.values: list[str] = []
        self.times = np.zeros(0, np.int64)  # of each value
        self.rows = self.batch.to_physical()  # of the last batch: the number of each one's value

    def add(self, column: "pl.Series") -> list[str]:
        """Take a batch; the values that none had before, in order."""
        import polars as pl

        self.batch = column.cast(self.batch.dtype)
        self.rows = self.batch.to_physical()
        times, known = np.bincount(self.rows.drop_nulls().to_numpy(), minlength=len(self.values)), len(self.values)
        if len(times) > known:
            pairs = pl.DataFrame({"number": self.rows, "value": column}).filter(pl.col("number") >= known)
            pairs = pairs.unique("number").sort("number")
            assert pairs["number"].to_list() == list(range(known, len(times)))
            self.values += pairs["value"].to_list()
        times[:known] += self.times
        self.times = times
        return self.values[known:]

    def answers(self, answers: "Sequence[str | None] | pl.Series") -> "pl.Series":
        """The rows of the last batch, each with what is answered to its value; missing where it has none."""
        import polars as pl

        table = answers if isinstance(answers, pl.Series) else pl.Series(answers, dtype=pl.String)
        return table.gather(self.rows)

    def counts(self) -> dict[str, int]:
        """How many rows had each value."""
        return dict(zip(self.values, self.times.tolist(), strict=True))
