"""One reading of all sources: each batch of rows is checked, put into a corpus's form, and written at once.

Two things are told by all rows together, and needed for the first: the format of each source's dates, and which tasks
the codes of others speak of (8500/3 says a behavior). Both are guessed from a source's first rows and held against
all of them at the end; where the guess was wrong, everything is read again with what was learned. That is rare, and
reading twice costs less than keeping a copy of every text on the way would cost each time.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pathveil.corpus.codes import CodeReader
from pathveil.corpus.dates import EXAMPLES, ISO, find_format, in_iso_form, mixed_formats
from pathveil.corpus.rows import SOURCE, RowCheck
from pathveil.corpus.schema import EXPECTED_DATE, TASKS, with_dates
from pathveil.corpus.seen import Seen
from pathveil.corpus.tables import ROW, as_written, pieces_of, stream_parquet
from pathveil.wording import listed

if TYPE_CHECKING:
    import polars as pl


AT_ONCE = 10_000  # rows
MOST_DAYS = 50_000  # dates as written that are kept, with their time if they have one


@dataclass(frozen=True)
class Learned:
    """What one reading tells the next."""

    dates: dict[int, str | None] = field(default_factory=dict)  # source: the format of its dates, where there is one
    others: tuple[str, ...] | None = None  # the tasks of which only other columns speak
    seed: int = 0  # of the hashes by which ids are compared


class OnePass:
    """A reading of ``frame`` (all sources) into a Parquet file, with an account of what was met.

    ``dates`` is the format as told, ``known`` what was learned before.
    """

    def __init__(self, frame: "pl.LazyFrame", *, dates: str | None, keep_unknown: bool, known: Learned):
        import polars as pl

        schema = frame.collect_schema()
        self.frame, self.told, self.known = frame, dates, known
        self.has_dates = schema.get("date") == pl.String and SOURCE in schema
        self.rows = RowCheck(seed=known.seed) if ROW in schema else None  # messages are checked as they are read
        self.codes = CodeReader([task for task in TASKS if task in schema], keep_unknown=keep_unknown)
        self.registries: Counter[str] = Counter()  # reports of each
        self.cases = Seen()  # hashes of their ids
        self.days: dict[int, set[str]] = {}  # source: its dates, as written
        self.iso: dict[int, dict[str | None, str | None]] = {}  # source: dates as written, and in ISO's form
        self.forms: dict[int, str | None] = {}  # source: the format in which they were read
        self.others = known.others

    def write(self, part: Path, out: Path) -> None:
        """Read all sources, and write what can be used of them to the unfinished file ``part`` of ``out``."""
        from polars.io.plugins import register_io_source

        with as_written(out):
            found = self.frame.collect_batches(chunk_size=AT_ONCE, maintain_order=True, engine="streaming")
            rows = next(found, None)
            first = self.prepared(self.frame.collect_schema().to_frame() if rows is None else rows)

            def batches(
                wanted: list[str] | None, predicate: "pl.Expr | None", rows: int | None, size: int | None
            ) -> Iterator["pl.DataFrame"]:
                yield from pieces_of(first)
                for batch in found:
                    yield from pieces_of(self.prepared(batch))

            stream_parquet(register_io_source(batches, schema=first.schema), part, out)

    def prepared(self, batch: "pl.DataFrame") -> "pl.DataFrame":
        """The rows of a batch that can be used, as a corpus has them."""
        batch = self._with_iso_dates(batch) if self.has_dates else batch
        batch = self.rows(batch) if self.rows else with_dates(batch.lazy()).collect()
        self.registries.update(dict(batch["registry"].value_counts().iter_rows()))
        self.cases.add_all(batch["case_id"].hash().to_numpy())
        return self._with_codes(batch.drop(SOURCE, ROW, strict=False))

    def learned(self, part: Path) -> Learned:
        """What should have been known; the same as what was, where nothing need be read again."""
        import polars as pl

        dates = {source: self.told or find_format(days) for source, days in self.days.items()}
        mistaken = self.rows is not None and self.rows.is_mistaken(pl.scan_parquet(part))
        return Learned(dates, tuple(self.codes.others()), self.known.seed + mistaken)

    @property
    def used(self) -> Learned:
        return Learned(self.forms, self.others, self.known.seed)

    def dates(self) -> list["pl.Expr"]:
        """What puts the dates of all rows into ISO's form."""
        return [iso_dates(self.forms)] if self.has_dates else []

    def format_of(self, source: int) -> str | None:
        """The format of a source's dates, where it is not ISO's."""
        form = self.forms.get(source)
        return None if form == ISO else form

    def expected_date(self, names: list[str]) -> str:
        """What a complaint about dates should expect."""
        expected = EXPECTED_DATE
        for source, form in self.forms.items():
            if form is None:
                expected = f"{EXPECTED_DATE}, or their format told with --dates ({EXAMPLES})"
                if mixed := mixed_formats(self.days[source]):
                    expected += f"; {names[source]} mixes {listed(mixed)}"
        return expected

    def _with_iso_dates(self, batch: "pl.DataFrame") -> "pl.DataFrame":
        """Dates in ISO's form; what a source's format is, its first rows say, unless it is known."""
        import polars as pl

        parts = batch.partition_by(SOURCE, maintain_order=True) if batch[SOURCE].n_unique() > 1 else [batch]
        dates = [self._dates_of(next(iter(part[SOURCE]), None), part["date"]) for part in parts]
        return batch.with_columns(pl.concat(dates)) if dates else batch

    def _dates_of(self, source: int | None, dates: "pl.Series") -> "pl.Series":
        """The dates of one source in ISO's form. Few of many reports have a day that none had before."""
        import polars as pl

        if source is None:  # of messages
            return dates
        days, written = self.days.setdefault(source, set()), dates.to_list()
        iso = self.iso.setdefault(source, {})
        if len(iso) > MOST_DAYS:
            iso.clear()
        new = list({day for day in written if day not in iso})
        found = pl.DataFrame({SOURCE: source, "date": new}, schema_overrides={"date": pl.String})
        without_time = pl.col("date").str.replace(r"[T ]\d{1,2}:\d{2}.*$", "")  # with it there would be millions
        days.update(found.select(without_time.drop_nulls().unique())["date"])
        if source not in self.forms:
            known = self.known.dates
            self.forms[source] = self.told or (known[source] if source in known else find_format(days))
        iso.update(zip(new, found.select(iso_dates({source: self.forms[source]}))["date"], strict=True))
        return pl.Series("date", [iso[day] for day in written], pl.String)

    def _with_codes(self, batch: "pl.DataFrame") -> "pl.DataFrame":
        import polars as pl

        held = {}
        for column in self.codes.columns:
            held[column] = dict(batch[column].drop_nulls().value_counts().iter_rows())
            self.codes.count(column, held[column])
        if self.others is None:
            self.others = tuple(self.codes.others())
        said = self.codes.changes(held)
        nothing = [pl.lit(None, pl.String)]
        tasks = [*self.codes.columns, *self.others]
        return batch.with_columns(pl.coalesce(said.get(task, nothing)).alias(task) for task in tasks)


def iso_dates(forms: Mapping[int, str | None]) -> "pl.Expr":
    """Dates in ISO's form, each source's by its own format; without one they stay as they are, for others to refuse."""
    import polars as pl

    date = pl.col("date")
    for source, form in forms.items():
        if form not in (None, ISO):
            date = pl.when(pl.col(SOURCE) == source).then(in_iso_form(pl.col("date"), form)).otherwise(date)
    return date.alias("date")
