"""The rows of a sheet, kept a block at a time until the last of them has told the types of the columns: in memory while
they are few, then on disk.

What type a column has, only its last cell tells: numbers with one word among them are texts. So each block is kept with
its texts as texts and its numbers as numbers, and where it mixes both, as both; the types are given when all blocks are
there, and each is finished as it is read back. The first row that holds anything names the columns.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     spool = Spool(Path(folder), Context([], False, lambda numbers: numbers), sent=100)
...     block = Block()
...     block.add([0], 3, [["histology", "8500", "8140.0"]], [[' t="str"><v>', "><v>", "><v>"]])
...     spool.add(block)
...     [frame.to_dict(as_series=False) for frame in spool.frames()]
[{'histology': [8500, 8140]}]
"""

import re
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pathveil.corpus.tables.excel_cells import Block
from pathveil.corpus.tables.excel_columns import DAY, MOST_WHOLE, Cells, Context, Kind, read_cells, sense_of
from pathveil.corpus.tables.files import polars_faults
from pathveil.errors import CorpusError
from pathveil.untrusted import Refused, bounds

if TYPE_CHECKING:
    import polars as pl

MOST_HELD = 1 << 26  # bytes of rows that are held in memory: most sheets have no more
UNNAMED = re.compile(r"__UNNAMED__\d+|_duplicated_\d+|")  # names of columns that are left out where they hold nothing


@dataclass
class Column:
    """What is known of a column from all its cells."""

    kinds: set[Kind] = field(default_factory=set)
    is_whole: bool = True  # its numbers are
    is_midnight: bool = True  # its moments are
    is_zero: bool = True  # its numbers are
    holds_number: bool = False
    holds_text: bool = False  # though it may stand for a missing value

    def see(self, cells: Cells) -> None:
        self.kinds |= cells.kinds
        self.holds_text |= cells.text is not None and cells.text.null_count() < len(cells.text)
        if (number := cells.number) is None:
            return
        values = number.to_numpy()
        values = values[~np.isnan(values)]
        self.holds_number |= len(values) > 0
        self.is_zero = self.is_zero and not values.any()
        whole = (np.floor(values) == values) & (abs(values) < MOST_WHOLE)
        self.is_whole = self.is_whole and whole.all() and len(values) + number.null_count() == len(number)
        self.is_midnight = self.is_midnight and not bool(np.fmod(values, DAY).any())

    def dtype(self) -> "pl.DataType":
        import polars as pl

        if not self.kinds or Kind.TEXT in self.kinds:
            return pl.String()
        if self.kinds <= {Kind.NUMBER, Kind.TRUTH} and Kind.NUMBER in self.kinds:
            return pl.Int64() if self.is_whole else pl.Float64()
        if len(self.kinds) > 1:
            return pl.String()
        (kind,) = self.kinds
        moments = pl.Date() if self.is_midnight else pl.Datetime("ms")
        return {
            Kind.TRUTH: pl.Boolean(),
            Kind.MOMENT: moments,
            Kind.DATE: pl.Date(),
            Kind.SPAN: pl.Duration("ms"),
        }[kind]

    def holds_nothing(self) -> bool:
        """Whether it is left out where it has no name."""
        if self.dtype().is_numeric():
            return self.is_zero
        return not self.holds_number and not self.holds_text


@contextmanager
def kept_on_disk() -> Generator[None]:
    """What cannot be kept while it is read becomes a sentence."""
    try:
        yield
    except (OSError, *polars_faults()):
        raise CorpusError(
            "the temporary folder (TMPDIR) is full, or cannot be written; a spreadsheet needs it"
        ) from None


class Spool:
    """The rows of a sheet, in memory or in files of a folder; the first row that holds anything names the columns."""

    def __init__(self, folder: Path, context: Context, *, sent: int):
        self.folder, self.context, self.sent = folder, context, sent  # bytes of the sheet
        self.header: dict[int, str | None] | None = None
        self.columns: dict[int, Column] = {}
        self.parts: list[dict[int, set[Kind]]] = []  # of each block, what its columns hold
        self.held: list[pl.DataFrame] = []  # the rows, while they are few
        self.height = self.size = 0

    def add(self, block: Block) -> None:
        """Keep some rows."""
        import polars as pl

        skipped = 0 if self.header is not None else self._find_header(block)
        if block.height == skipped:
            return
        kept, part = [], {}
        for number, column in block.columns.items():
            cells = read_cells(column.rows(skipped) if skipped else column, self.context)
            if cells.is_filled:
                self.columns.setdefault(number, Column()).see(cells)
            if cells.text is not None:
                kept.append(cells.text.alias(f"t{number}"))
            if cells.number is not None:
                kept.append(cells.number.alias(f"n{number}"))
            if cells.text is not None or cells.number is not None:
                part[number] = cells.kinds
        if kept:
            self.parts.append(part)
            self.held.append(pl.DataFrame(kept))
            self.size += self.held[-1].estimated_size()
            if self.size > MOST_HELD:
                self._write_held()
            self.height += block.height - skipped
            if not bounds.grown(16 * self.height * len({*self.columns, *(self.header or ())}), sent=self.sent):
                raise Refused("says more columns and rows than its cells fill")

    def _file(self, place: int) -> Path:
        return self.folder / f"{place}.arrow"

    def _write_held(self) -> None:
        """Put rows on disk, as they lie in memory: to pack them takes four times as long."""
        for place, frame in enumerate(self.held, start=len(self.parts) - len(self.held)):
            with kept_on_disk(), self._file(place).open("wb") as file:  # polars' own way to a file costs more
                frame.write_ipc(file, compression="uncompressed")
        self.held.clear()

    def _find_header(self, block: Block) -> int:
        """How many rows of a block are read with its header, if it is in there."""
        ways = set().union(*(column.ways for column in block.columns.values()))
        senses = {way: sense_of(way, self.context) for way in ways}
        for row in range(block.height):
            cells = {
                number: read_cells(column.rows(row, row + 1), self.context)
                for number, column in block.columns.items()
                if senses[column.how[row]].may_hold(column.values[row])
            }
            if any(one.is_filled for one in cells.values()):
                self.header = {number: name_of(one) for number, one in cells.items() if one.is_filled}
                return row + 1
        return block.height

    def schema(self) -> "dict[int, tuple[str, pl.DataType]]":
        """The columns that there are, with names and types."""
        header, taken, times, found = self.header or {}, set(), Counter(), {}
        present = sorted({*header, *self.columns})
        for number in present:
            name = header.get(number)
            alias = name = f"__UNNAMED__{number - present[0]}" if name is None else name
            while alias in taken:
                times[name] += 1
                alias = f"{name}_{times[name]}"
            taken.add(alias)
            column = self.columns.get(number, Column())
            if not (UNNAMED.fullmatch(alias) and column.holds_nothing()):
                found[number] = alias, column.dtype()
        return found

    def same_names(self) -> tuple[int, int] | None:
        """Two columns that hold something under one name, counted from 1; none where there are none."""
        first: dict[str, int] = {}
        for number, name in sorted((self.header or {}).items()):
            column = self.columns.get(number, Column())
            if name and (column.holds_number or column.holds_text):
                if name in first:
                    return first[name] + 1, number + 1
                first[name] = number
        return None

    def frames(self) -> "Iterator[pl.DataFrame]":
        """All rows but those that hold nothing."""
        import polars as pl

        schema = self.schema()
        for place, part in enumerate(self.parts):
            rows = self.held[place] if self.held else pl.read_ipc(self._file(place))
            kept = {one.name: one for one in rows.get_columns()}
            frame = pl.DataFrame(
                {
                    name: finished(kept, number, part.get(number, set()), dtype)
                    for number, (name, dtype) in schema.items()
                }
            )
            yield frame.filter(~pl.all_horizontal(pl.all().is_null()))


def name_of(cells: Cells) -> str | None:
    """What a cell of the header calls its column."""
    if cells.text is not None and cells.number is None:
        return cells.text[0].replace("\0", "")
    if cells.number is not None and cells.kinds == {Kind.NUMBER}:
        return np.format_float_positional(cells.number[0], trim="-")
    return None


def finished(kept: "dict[str, pl.Series]", number: int, kinds: set[Kind], dtype: "pl.DataType") -> "pl.Series":
    """A column of a file as it is in the end."""
    import polars as pl

    text, value = kept.get(f"t{number}"), kept.get(f"n{number}")
    if dtype == pl.String:
        found = Cells(kinds, text, value).as_text()
    elif value is None:
        found = None
    elif dtype.is_temporal():
        found = value.cast(pl.Int64).cast(pl.Datetime("ms") if dtype == pl.Date else dtype).cast(dtype)
    else:
        found = value.cast(dtype)
    if found is None:
        return pl.Series([None], dtype=dtype).new_from_index(0, len(next(iter(kept.values()))))
    return found
