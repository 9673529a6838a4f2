"""Rows of tables that cannot be used: found, counted, and named by where they stand and what is wrong, never quoted.

A row without an id, a case, a registry or a text, with a date that cannot be read, or with the id of an earlier row is
left out, as is a record that does not fit its header. Where more than a share of a table is such rows, the table as a
whole is not what it was taken for, and is refused.

>>> import polars as pl
>>> table = pl.LazyFrame({"report_id": ["a", "b", "a"], "case_id": ["1"] * 3, "registry": ["R"] * 3,
...                       "text": ["colon", " ", "breast"], SOURCE: [0] * 3, ROW: [2, 3, 4]})
>>> find_faulty(table).select(ROW, "reason").rows()
[(3, 'has no text'), (4, 'has the report_id of an earlier row')]
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pathveil.corpus.schema import EXPECTED_DATE, problems, with_faults
from pathveil.corpus.tables import ROW
from pathveil.errors import CorpusError
from pathveil.results import Part
from pathveil.wording import counted, percent

if TYPE_CHECKING:
    import polars as pl

SOURCE = "number of the source"  # a column of the staged file: the place of the table in the list of sources
AGAIN = "has the report_id of an earlier row"
MOST_SKIPPED = 0.1  # of a table's rows
MOST_NOTED = 1_000_000
LISTED, SHOWN = 100, 10  # skipped rows that a result names, as data and to a person


class SkippedRow(Part):
    """A row that could not be used, and where it is: of CSV the line where it begins, else its number."""

    file: str
    row: int
    reason: str


class RowCounts(Part):
    """What became of the rows of tables."""

    rows: int
    skipped_total: int
    reasons: dict[str, int]  # reason: rows
    skipped: list[SkippedRow]  # the first of them

    def lines(self) -> list[str]:
        """As a summary tells it."""
        lines = [f"  rows      {self.rows:,} read, {self.skipped_total:,} skipped"]
        lines += [f"            {one.file}: row {one.row:,} {one.reason}" for one in self.skipped[:SHOWN]]
        if self.skipped_total > SHOWN:
            reasons = ", ".join(f"{count:,} {reason}" for reason, count in list(self.reasons.items())[:SHOWN])
            lines.append(f"            … and {self.skipped_total - SHOWN:,} more; in all {reasons}")
        return lines


@dataclass
class Unread:
    """The records of one source that its reader passed over."""

    reasons: dict[int, str] = field(default_factory=dict)  # row: why
    within: bool = False  # they are in the frame as empty rows

    def __call__(self, row: int, reason: str) -> None:
        self.reasons[row] = reason
        if len(self.reasons) > MOST_NOTED:
            raise CorpusError(f"more than {MOST_NOTED:,} records cannot be read; is it a table of reports?")


def find_faulty(frame: "pl.LazyFrame", *, expected_date: str = EXPECTED_DATE) -> "pl.DataFrame":
    """The rows that cannot be used: ``row`` (their place in the frame), source, row of the source, and reason.

    Ids are compared by their hashes first: a million of them are eight megabytes, and sorting them takes as much again.
    """
    import polars as pl

    rows, faults = with_faults(frame, expected_date=expected_date)
    reason = pl.coalesce(pl.when(fault.found).then(pl.lit(fault.row)) for fault in faults.values())
    where = ["row", SOURCE, ROW]
    wrong = rows.with_columns(reason=reason).filter(pl.col("reason").is_not_null()).select(*where, "reason")
    faulty = wrong.collect(engine="streaming")
    hashes = rows.select("row", pl.col("report_id").hash().alias("hash")).collect(engine="streaming")
    hashes = hashes.filter(~pl.col("row").is_in(faulty["row"].implode())) if faulty.height else hashes
    ordered = hashes["hash"].sort()
    if (ordered == ordered.shift()).any():
        twice = hashes.filter(pl.col("hash").is_duplicated())["row"]
        same = rows.filter(pl.col("row").is_in(twice.implode())).select(*where, "report_id").collect(engine="streaming")
        again = same.sort("row").filter(~pl.col("report_id").is_first_distinct())
        faulty = pl.concat([faulty, again.select(*where, pl.lit(AGAIN).alias("reason"))])
    return faulty.sort("row")


def check_rows(
    frame: "pl.LazyFrame",
    *,
    names: Sequence[str],
    unread: dict[int, Unread],
    most_skipped: float,
    expected_date: str = EXPECTED_DATE,
) -> tuple["pl.LazyFrame", RowCounts | None]:
    """The frame without rows that cannot be used, and an account of them; none where no source is a table.

    ``names`` are those of the sources, ``unread`` what their readers passed over. A table of which more than the share
    ``most_skipped`` cannot be used is refused.
    """
    import polars as pl

    if ROW not in frame.collect_schema():  # messages alone, which are checked as they are read
        return frame, None
    faulty = find_faulty(frame, expected_date=expected_date)
    sizes = dict(frame.drop_nulls(ROW).group_by(SOURCE).len().collect(engine="streaming").iter_rows())
    if not frame.select(pl.len()).collect(engine="streaming").item():
        raise CorpusError("the corpus holds no report")
    skipped = [(source, row, reason) for source, notes in unread.items() for row, reason in notes.reasons.items()]
    known = {(source, row) for source, row, _ in skipped}
    found = faulty.select(SOURCE, ROW, "reason").rows()
    skipped += [one for one in found if one[:2] not in known]
    skipped.sort(key=lambda one: (one[0], one[1] or 0))
    by_source = Counter(source for source, _, _ in skipped)
    for source, count in by_source.items():
        notes = unread.get(source)
        total = sizes.get(source, 0) + (len(notes.reasons) if notes and not notes.within else 0)
        if count > most_skipped * total:
            raise CorpusError(refusal(frame, names[source], skipped, source, total, most_skipped, expected_date))
    if faulty.height:
        frame = frame.with_row_index("row").filter(~pl.col("row").is_in(faulty["row"].implode())).drop("row")
    counts = RowCounts(
        rows=sum(sizes.values()) + sum(len(notes.reasons) for notes in unread.values() if not notes.within),
        skipped_total=len(skipped),
        reasons=dict(Counter(reason for _, _, reason in skipped).most_common()),
        skipped=[SkippedRow(file=names[source], row=row, reason=reason) for source, row, reason in skipped[:LISTED]],
    )
    return frame, counts


def refusal(
    frame: "pl.LazyFrame",
    name: str,
    skipped: Sequence[tuple[int, int, str]],
    source: int,
    total: int,
    most_skipped: float,
    expected_date: str,
) -> str:
    """Why a table is refused: what is wrong with the corpus as a whole, and how much of the table that is."""
    sentences = problems(frame, expected_date=expected_date)
    mine = [(row, reason) for number, row, reason in skipped if number == source]
    if not sentences:
        sentences = [f"{name}: the record at line {row:,} {reason}" for row, reason in mine[:SHOWN]]
    if most_skipped:
        sentences.append(
            f"{name}: {len(mine):,} of {counted(total, 'row')} cannot be used, more than the "
            f"{percent(most_skipped)} that may be left out (--most-skipped)"
        )
    return "\n  ".join(sentences)
