"""Cells as written become values: texts, numbers, truths, days, moments and spans of time, a column at a time.

A column may mix them: then its cells are kept both as texts (numbers with at most nine decimals, moments as
2016-05-02 00:00:00) and as numbers, since only the last of them tells what the column is (``excel_spool.py``). What
stands for a missing value (``NULLS``) makes no column one of texts, and an error such as #N/A is an empty cell.

>>> column = WrittenColumn(["8500", "1", "NA"], [">" + VALUE, ' t="b">' + VALUE, ">" + WHOLE], {">" + VALUE})
>>> column.ways.update(column.how)
>>> cells = read_cells(column, Context([], False, lambda numbers: numbers))
>>> cells.text.to_list(), cells.number.to_list(), sorted(kind.value for kind in cells.kinds)
(['8500', 'true', 'NA'], [8500.0, 1.0, None], ['number', 'truth'])
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pathveil.corpus.tables.excel_cells import (
    BLANKS,
    KEPT,
    NOTHING,
    TRIMMED,
    VALUE,
    WHOLE,
    WrittenColumn,
    attributes_of,
    cleaned,
)
from pathveil.untrusted import Refused

if TYPE_CHECKING:
    import polars as pl

NULLS = frozenset(
    (
        *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A"),
        *("NA", "NULL", "NaN", "None", "n/a", "nan", "null"),
    )
)
DAY = 86_400_000  # milliseconds
EPOCH = 25_569  # days from Excel's beginning to 1970
SYSTEM_1904 = 1_462  # days by which workbooks of old Macintoshes count less
YEARS = (-62_135_596_800_000, 253_402_300_799_999)  # milliseconds of the years 1 to 9999
MOST_WHOLE = 2.0**63


class Kind(Enum):
    """What a cell holds."""

    TEXT = "text"
    NUMBER = "number"
    TRUTH = "truth"
    MOMENT = "moment"
    DATE = "date"  # written out, without a time
    SPAN = "span"  # of time


class Sense(NamedTuple):
    """What cells hold by what they say of themselves: their type, where the value stands, what kind of number it is."""

    kind: str
    where: str
    form: Kind = Kind.NUMBER

    def may_hold(self, value: str | None) -> bool:
        """Whether a cell may be filled: only a text can be empty."""
        return bool(value) or (value is not None and (self.where != VALUE or self.kind == "str"))


ABSENT, EMPTY = Sense("", NOTHING), Sense("", VALUE)  # of cells that are not there, and of those without a value


@dataclass
class Context:
    """What the cells of a workbook refer to."""

    formats: Sequence[Kind]  # of numbers, by style
    is_1904: bool
    strings: "Callable[[pl.Series], pl.Series]"  # shared ones, by their numbers


@dataclass
class Cells:
    """Cells of one column: their texts, or their numbers, or both where they are mixed."""

    kinds: set[Kind]
    text: "pl.Series | None" = None
    number: "pl.Series | None" = None
    is_filled: bool = True  # an error is no value, and fills a cell

    def as_text(self) -> "pl.Series | None":
        if self.text is None and self.number is not None:
            (kind,) = self.kinds
            return written(self.number, kind)
        return self.text


def read_cells(column: WrittenColumn, context: Context) -> Cells:
    """Cells as written as what they are."""
    import polars as pl

    series = pl.Series(column.values, dtype=pl.String)
    sense_by_way = {way: sense_of(way, context) for way in column.ways}
    senses = list({*sense_by_way.values()} - {ABSENT})
    if len(senses) < 2:
        return cells_of(series, senses[0] if senses else ABSENT, context)
    senses.append(ABSENT)
    codes = {way: senses.index(sense) for way, sense in sense_by_way.items()}
    of_each = np.fromiter(map(codes.__getitem__, column.how), np.int64, len(series))
    places = [np.flatnonzero(of_each == code) for code in range(len(senses))]
    parts = [cells_of(series.gather(place), sense, context) for place, sense in zip(places, senses, strict=True)]
    return joined(parts, places)


def sense_of(how: str, context: Context) -> Sense:
    """What a cell holds that is written in a way, whatever else it looks like."""
    if how == NOTHING:
        return ABSENT
    attributes, where = attributes_of(how), how[how.index(">") + 1 :]
    if attributes is None:
        raise Refused("holds cells of a kind that is not known")
    kind, style = attributes.get("t", "n"), attributes.get("s", "")
    if where in (TRIMMED, KEPT, WHOLE):
        return Sense("inlineStr", where)
    if where != VALUE or kind == "inlineStr":
        return EMPTY
    at = int(style) if style.isdigit() and len(style) < 8 else 0
    is_styled = kind == "n" and style and at < len(context.formats)
    return Sense(kind, where, context.formats[at] if is_styled else Kind.NUMBER)


def joined(parts: Sequence[Cells], places: Sequence[np.ndarray]) -> Cells:
    """Cells of several kinds, each put to its places."""
    import polars as pl

    order = np.argsort(np.concatenate(places))

    def together(some: "Sequence[pl.Series | None]", dtype: "type[pl.DataType]") -> "pl.Series":
        sized = zip(some, map(len, places), strict=True)
        whole = [pl.repeat(None, size, dtype=dtype, eager=True) if one is None else one for one, size in sized]
        return pl.concat(whole).gather(order)

    kinds = set().union(*(part.kinds for part in parts))
    texts = any(part.text is not None for part in parts)
    numbers = any(part.number is not None for part in parts)
    return Cells(
        kinds,
        together([part.as_text() for part in parts], pl.String) if texts or len(kinds) > 1 else None,
        together([part.number for part in parts], pl.Float64) if numbers else None,
        any(part.is_filled for part in parts),
    )


def cells_of(series: "pl.Series", sense: Sense, context: Context) -> Cells:
    """Cells that all hold the same kind of thing."""
    kind, where, form = sense
    if sense in (ABSENT, EMPTY):
        return Cells(set(), is_filled=False)
    if where in (TRIMMED, KEPT):
        series = series.str.strip_chars(BLANKS) if where == TRIMMED else series
        escaped = series.str.contains("_x00", literal=True).any()
        return texts(changed(series, lambda text: cleaned(text, keep=True)) if escaped else series)
    if where == WHOLE or kind == "str":
        return texts(series)
    empty = series == ""
    series = series.set(empty, None) if empty.any() else series
    if series.null_count() == len(series):
        return Cells(set(), is_filled=False)
    if kind == "s":
        return texts(context.strings(series))
    if kind == "b":
        return numbers((series != "0").cast(float), Kind.TRUTH)
    if kind == "e":
        return Cells(set())
    if kind == "d":
        return dates(series)
    if kind == "n":
        return measured(series, form, is_1904=context.is_1904)
    raise Refused("holds cells of a kind that is not known")


def changed(series: "pl.Series", change: Callable[[str], str]) -> "pl.Series":
    import polars as pl

    return pl.Series([None if text is None else change(text) for text in series], dtype=pl.String)


def texts(series: "pl.Series") -> Cells:
    few = [series[place] for place in range(min(len(series), 3))]  # which nearly always tell
    holds_words = any(text is not None and text not in NULLS for some in (few, series) for text in some)
    return Cells({Kind.TEXT} if holds_words else set(), text=series, is_filled=series.null_count() < len(series))


def numbers(series: "pl.Series", kind: Kind) -> Cells:
    return Cells({kind}, number=series)


def measured(series: "pl.Series", kind: Kind, *, is_1904: bool) -> Cells:
    """Numbers, which may be dates by their style; what is none stays text."""
    import polars as pl

    number = series.cast(pl.Float64, strict=False)
    if number.null_count() > series.null_count():
        wrong = number.is_null() & series.is_not_null()
        parts = [texts(series.filter(wrong)), numbers_by_style(number.filter(~wrong), kind, is_1904=is_1904)]
        places = [wrong.arg_true().to_numpy(), (~wrong).arg_true().to_numpy()]
        return joined(parts, places)
    return numbers_by_style(number, kind, is_1904=is_1904)


def numbers_by_style(number: "pl.Series", kind: Kind, *, is_1904: bool) -> Cells:
    if number.null_count() == len(number):
        return Cells(set(), is_filled=False)
    if kind is Kind.MOMENT:
        days = number + SYSTEM_1904 if is_1904 else number
        days = days + (days < 60).cast(float)  # Excel has a 29th of February 1900
        number = rounded(days * DAY) - EPOCH * DAY
        number = number.set(~number.is_between(*YEARS), None)
    elif kind is Kind.SPAN:
        number = rounded(number * DAY)
        number = number.set(~(number.abs() < MOST_WHOLE), None)
    return numbers(number, kind)


def rounded(number: "pl.Series") -> "pl.Series":
    """To the nearest whole number, halves away from zero."""
    return (number.abs() + 0.5).floor() * number.sign()


def dates(series: "pl.Series") -> Cells:
    """Dates and times that are written out, in ISO's form."""
    import polars as pl

    moment = series.str.to_datetime("%Y-%m-%dT%H:%M:%S%.f", strict=False, time_unit="ms")
    day = series.str.to_date("%Y-%m-%d", strict=False).cast(pl.Datetime("ms"))
    kinds = {Kind.MOMENT} if moment.null_count() < len(series) else set()
    if (moment.is_null() & series.is_not_null()).any():
        kinds.add(Kind.DATE)
    found = pl.select(pl.coalesce(moment.to_physical(), day.to_physical())).to_series()
    return Cells(kinds, text=series, number=found.cast(pl.Float64))


def written(number: "pl.Series", kind: Kind) -> "pl.Series":
    """Numbers as they stand in a column of texts."""
    import polars as pl

    if kind is Kind.MOMENT:
        return number.cast(pl.Int64).cast(pl.Datetime("ms")).dt.strftime("%Y-%m-%d %H:%M:%S%.f")
    if kind is Kind.TRUTH:
        as_text = {None: None, 0.0: "false", 1.0: "true"}.get
    elif kind is Kind.SPAN:

        def as_text(value: float | None) -> str | None:
            if value is None:
                return None
            seconds = int(abs(value)) // 1000
            return f"{'-' * (value < 0)}{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    else:

        def as_text(value: float | None) -> str | None:
            return None if value is None else f"{value:.9f}".rstrip("0").rstrip(".")

    return pl.Series([as_text(value) for value in number], dtype=pl.String)
