"""Rows of tables that cannot be used: found, counted, and named by where they stand and what is wrong, never quoted.

A row without an id, a case, a registry or a text, with a date that cannot be read, or with the id of an earlier row is
left out, as is a record that does not fit its header. Where more than a share of a table is such rows, the table as a
whole is not what it was taken for, and is refused.

>>> import polars as pl
>>> table = pl.DataFrame({"report_id": ["a", "b", "a"], "case_id": ["1"] * 3, "registry": ["R"] * 3,
...                       "text": ["colon", " ", "breast"], SOURCE: [0] * 3, ROW: [2, 3, 4]})
>>> check = RowCheck()
>>> check(table)["report_id"].to_list(), check.skipped({})
(['a'], [(0, 3, 'has no text'), (0, 4, 'has the report_id of an earlier row')])
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import TYPE_CHECKING, Literal

from pathveil.corpus.schema import EXPECTED_DATE, Fault, problems, with_faults
from pathveil.corpus.seen import Seen
from pathveil.corpus.tables.files import ROW, UNFIT, names_of
from pathveil.errors import CorpusError, UsageError
from pathveil.formatting import counted, percent
from pathveil.results import Part

if TYPE_CHECKING:
    import polars as pl

SOURCE = "number of the source"  # a column of the staged file: the place of the table in the list of sources
FAULTY, REASON = "cannot be used", "why it cannot be used"  # columns of rows that are checked
AGAIN = "has the report_id of an earlier row"
MOST_SKIPPED = 0.1  # of a table's rows
MOST_NOTED = 1_000_000
LISTED, SHOWN = 100, 10  # skipped rows that a result names, as data and to a person


def check_most_skipped(share: float) -> None:
    """Refuse what is no share of rows that may be left out."""
    if not (isinstance(share, Real) and 0 <= share < 1):
        told = f"{share:g}" if isinstance(share, Real) else type(share).__name__
        raise UsageError(f"--most-skipped {told}: expected a share such as 0.1, below 1")


class SkippedRow(Part):
    """A row that could not be used, and where it is: of CSV and JSONL the line where it begins, else its number,
    which of a sheet counts the records behind the header."""

    file: str
    row: int
    reason: str
    counted: Literal["line", "row", "record"] = "row"  # what ``row`` is the number of

    def sentence(self) -> str:
        return f"{self.file}: {self.counted} {self.row:,} {self.reason}"


class RowCounts(Part):
    """What became of the rows of tables."""

    rows: int
    skipped_total: int
    reasons: dict[str, int]  # reason: rows
    skipped: list[SkippedRow]  # the first of them

    def lines(self) -> list[str]:
        """As a summary tells it; nothing where no row was skipped."""
        if not self.skipped_total:
            return []
        lines = [f"  rows      {self.rows:,} read, {self.skipped_total:,} skipped"]
        lines += [f"            {one.sentence()}" for one in self.skipped[:SHOWN]]
        if self.skipped_total > SHOWN:
            reasons = ", ".join(f"{count:,} {reason}" for reason, count in list(self.reasons.items())[:SHOWN])
            lines.append(f"            … and {self.skipped_total - SHOWN:,} more; in all {reasons}")
        return lines


@dataclass
class Unread:
    """The records of one source that its reader passed over."""

    reasons: dict[int, str] = field(default_factory=dict)  # row: why
    within: bool = False  # they are in the frame as empty rows
    counted: Literal["line", "row", "record"] = "row"  # by what they are numbered

    @classmethod
    def of(cls, form: str) -> "Unread":
        """Of a source of this form."""
        names: dict[str, Literal["line", "record"]] = {"csv": "line", "jsonl": "line", "excel": "record"}
        return cls(within=form == "jsonl", counted=names.get(form, "row"))  # a sheet's rows have numbers of their own

    def __call__(self, row: int, reason: str) -> None:
        self.reasons[row] = reason
        if len(self.reasons) > MOST_NOTED:
            raise CorpusError(f"more than {MOST_NOTED:,} records cannot be read; is it a table of reports?")


class RowCheck:
    """Finds in batch after batch the rows that cannot be used, and keeps account of them.

    Ids are compared by their hashes, eight bytes each.
    """

    def __init__(self, *, seed: int = 0) -> None:
        self.seed = seed  # of the hashes
        self.seen = Seen()
        self.sizes: Counter[int] = Counter()  # source: rows
        self.total = 0
        self.faulty: list[pl.DataFrame] = []
        self.repeated: list[pl.Series] = []  # ids
        self.messages_again = 0  # reports of messages that a table has too

    def __call__(self, batch: "pl.DataFrame") -> "pl.DataFrame":
        """The rows that can be used, with dates as dates and years as whole numbers."""
        import polars as pl

        rows, faults = with_faults(batch.lazy())
        found = self.without(faults, rows)
        new = pl.Series(self.seen.add_all(found["report_id"].hash(self.seed).to_numpy()), dtype=pl.Boolean)
        if not new.all():
            again = found.filter(~new)
            self.repeated.append(again["report_id"])
            self.messages_again += again[SOURCE].null_count()
            again = again.drop_nulls(SOURCE)
            self.faulty.append(again.select(SOURCE, ROW, pl.lit(AGAIN).alias(REASON)))
            found = found.filter(new)
        return found.select(batch.columns)

    def without(self, faults: Mapping[str, Fault], rows: "pl.LazyFrame") -> "pl.DataFrame":
        """The rows that have none of these faults."""
        import polars as pl

        found = rows.with_columns(pl.any_horizontal(fault.found for fault in faults.values()).alias(FAULTY)).collect()
        self.total += found.height
        self.sizes.update(dict(found[SOURCE].drop_nulls().value_counts().iter_rows()))
        if found[FAULTY].any():
            reason = pl.coalesce(pl.when(fault.found).then(pl.lit(fault.row)) for fault in faults.values())
            self.faulty.append(found.filter(FAULTY).select(SOURCE, ROW, reason.alias(REASON)))
            found = found.filter(~pl.col(FAULTY))
        return found.drop(FAULTY)

    def is_mistaken(self, ids: "pl.LazyFrame") -> bool:
        """Whether an id was taken for another's of the same hash: none of those that were kept is the same."""
        import polars as pl

        if not self.repeated:
            return False
        repeated = pl.concat(self.repeated).unique()
        kept = ids.select("report_id").filter(pl.col("report_id").is_in(repeated.implode()))
        return kept.collect(engine="streaming").height < len(repeated)

    def skipped(self, unread: dict[int, Unread]) -> list[tuple[int, int, str]]:
        """The rows left out, those that were not read among them: source, row and reason, in order."""
        import polars as pl

        skipped = [(source, row, reason) for source, notes in unread.items() for row, reason in notes.reasons.items()]
        known = {(source, row) for source, row, _ in skipped}
        found = pl.concat(self.faulty).rows() if self.faulty else []
        skipped += [one for one in found if one[:2] not in known]
        return sorted(skipped, key=lambda one: (one[0], one[1] or 0))

    def account(
        self,
        *,
        names: Sequence[str],
        unread: dict[int, Unread],
        most_skipped: float,
        whole: "Callable[[], pl.LazyFrame] | None" = None,
        expected_date: str = EXPECTED_DATE,
    ) -> RowCounts:
        """What became of all rows. A table of which more than the share ``most_skipped`` cannot be used is refused.

        ``names`` are those of the sources, ``unread`` what their readers passed over, ``whole`` gives all rows of
        a corpus again, so that a refusal can say what is wrong with it.
        """
        skipped = self.skipped(unread)
        if not self.total and skipped:
            source, row, reason = skipped[0]
            fault = f"{names[source]}: no row could be read; the first, at line {row:,}, {reason}"
            raise CorpusError("\n  ".join([fault, *how_to_quote(reason for _, _, reason in skipped)]))
        if not self.total:
            raise CorpusError(f"{names_of(names)}: no report found")
        passed_over = {source: len(notes.reasons) for source, notes in unread.items() if not notes.within}
        for source, count in Counter(source for source, _, _ in skipped).items():
            total = self.sizes[source] + passed_over.get(source, 0)
            if count > most_skipped * total:
                raise CorpusError(refusal(whole, names[source], skipped, source, total, most_skipped, expected_date))
        return RowCounts(
            rows=self.sizes.total() + sum(passed_over.values()),
            skipped_total=len(skipped),
            reasons=dict(Counter(reason for _, _, reason in skipped).most_common()),
            skipped=[
                SkippedRow(file=names[source], row=row, reason=reason, counted=unread[source].counted)
                for source, row, reason in skipped[:LISTED]
            ],
        )


def refusal(
    whole: "Callable[[], pl.LazyFrame] | None",
    name: str,
    skipped: Sequence[tuple[int, int, str]],
    source: int,
    total: int,
    most_skipped: float,
    expected_date: str,
) -> str:
    """Why a table is refused: what is wrong with the corpus as a whole, and how much of the table that is."""
    sentences = problems(whole(), expected_date=expected_date) if whole else []
    mine = [(row, reason) for number, row, reason in skipped if number == source]
    if not sentences:
        sentences = [f"{name}: the record at line {row:,} {reason}" for row, reason in mine[:SHOWN]]
    if 2 * sum(reason == AGAIN for _, reason in mine) > len(mine):
        sentences.append(
            "a report that stands in several rows is put together with --column line=COLUMN or section=COLUMN"
        )
    sentences += how_to_quote(reason for _, reason in mine)
    if most_skipped:
        sentences.append(
            f"{name}: {len(mine):,} of {counted(total, 'row')} cannot be used, more than the "
            f"{percent(most_skipped)} that may be left out (--most-skipped)"
        )
    return "\n  ".join(sentences)


def how_to_quote(reasons: Iterable[str]) -> list[str]:
    """What to do where most records that cannot be used have fields too many or too few."""
    unfit = [UNFIT in reason for reason in reasons]
    hint = 'a field that holds a delimiter, a line end or a quotation mark must stand in "…", its own marks twice ("")'
    return [hint] if 2 * sum(unfit) > len(unfit) else []
