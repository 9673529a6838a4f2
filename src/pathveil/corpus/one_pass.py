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

from pathveil.corpus.code_columns import CodeReader
from pathveil.corpus.dates import EXAMPLES, ISO, in_iso_form, mixed_formats, only_format, possible_formats
from pathveil.corpus.messages.markup import plain_texts
from pathveil.corpus.recurring import Recurring
from pathveil.corpus.rows import SOURCE, RowCheck
from pathveil.corpus.schema import EXPECTED_DATE, TASKS, given, parsed_date, with_dates
from pathveil.corpus.seen import Seen
from pathveil.corpus.tables.files import ROW, as_written, one_file, pieces_of, stream_parquet
from pathveil.formatting import listed

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


class Dates:
    """The dates of one source: what its rows wrote, and the days that are meant. Few rows have one that is new.

    ``form`` is their format where it is known, or told; else the first rows say what it is.
    """

    def __init__(self, form: str | None, *, is_known: bool):
        self.form, self.is_known = form, is_known
        self.days: set[str] = set()  # as written, without the time
        self.possible: Counter[frozenset[str]] = Counter()  # the formats in which days can be
        self._forget()

    def _forget(self) -> None:
        import polars as pl

        self.values = Recurring()
        self.iso = pl.Series("date", dtype=pl.String)  # of each value: in ISO's form, as far as it can be read
        self.day = pl.Series("date", dtype=pl.Date)
        self.is_bad = pl.Series(dtype=pl.Boolean)

    def read(self, written: "pl.Series") -> "tuple[pl.Series, bool]":
        """The dates of a batch, and whether all can be read; if not, they are texts, in ISO's form where possible."""
        import polars as pl

        if len(self.values.values) > MOST_DAYS:
            self._forget()
        if new := self.values.add(written):
            values = pl.DataFrame({"date": new}).select(given(pl.col("date")))
            bare = pl.col("date").str.replace(r"[T ]\d{1,2}:\d{2}.*$", "")  # with their times there would be millions
            days = set(values.select(bare.unique())["date"]) - self.days
            self.days |= days
            self.possible += possible_formats(days)
            if not self.is_known:
                self.form, self.is_known = only_format(self.possible), True
            is_iso = self.form == ISO and not self.possible  # else 2016-5-2 is among them
            iso = values.select(in_form(pl.col("date"), None if is_iso else self.form))
            read = iso.select(parsed_date(pl.col("date")), iso.to_series().str.contains(r"\S").alias("given"))
            self.iso.append(iso["date"])
            self.day.append(read["date"])
            self.is_bad.append(read.select(pl.col("date").is_null() & pl.col("given")).to_series())
        if self.is_bad.any() and self.values.answers(self.is_bad).any():
            return self.values.answers(self.iso), False
        return self.values.answers(self.day), True


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
        self.sources: dict[int | None, Dates] = {}  # with no number those of messages, in ISO's form
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
        batch = batch.with_columns(plain_texts(batch["text"]))
        batch = self._with_days(batch) if self.has_dates else batch
        batch = self.rows(batch) if self.rows else with_dates(batch.lazy()).collect()
        self.registries.update(dict(batch["registry"].value_counts().iter_rows()))
        self.cases.note_all(batch["case_id"].hash().to_numpy())
        return self._with_codes(batch.drop(SOURCE, ROW, strict=False))

    def learned(self, part: Path) -> Learned:
        """What should have been known; the same as what was, where nothing need be read again."""
        import polars as pl

        dates = {source: self.told or only_format(dates.possible) for source, dates in self._tables()}
        mistaken = self.rows is not None and self.rows.is_mistaken(pl.scan_parquet(one_file(part)))
        return Learned(dates, tuple(self.codes.others()), self.known.seed + mistaken)

    @property
    def used(self) -> Learned:
        return Learned(self._forms(), self.others, self.known.seed)

    def _tables(self) -> list[tuple[int, Dates]]:
        return [(source, dates) for source, dates in self.sources.items() if source is not None]

    def _forms(self) -> dict[int, str | None]:
        return {source: dates.form for source, dates in self._tables()}

    def dates(self) -> list["pl.Expr"]:
        """What puts the dates of all rows into ISO's form."""
        return [iso_dates(self._forms())] if self.has_dates else []

    def format_of(self, source: int) -> str | None:
        """The format of a source's dates, where it is not ISO's."""
        form = self._forms().get(source)
        return None if form == ISO else form

    def expected_date(self, names: list[str]) -> str:
        """What a complaint about dates should expect."""
        if self.told:
            return f"{self.told}, as told with --dates, or {EXPECTED_DATE}"
        expected = EXPECTED_DATE
        for source, dates in self._tables():
            if dates.form is None:
                expected = f"{EXPECTED_DATE}, or their format told with --dates ({EXAMPLES})"
                if mixed := mixed_formats(dates.days):
                    expected += f"; {names[source]} mixes {listed(mixed)}"
        return expected

    def _with_days(self, batch: "pl.DataFrame") -> "pl.DataFrame":
        """Dates as days; where one cannot be read, all of the batch as texts in ISO's form."""
        import polars as pl

        parts = batch.partition_by(SOURCE, maintain_order=True) if batch[SOURCE].n_unique() > 1 else [batch]
        found = []
        for part in parts:
            source = next(iter(part[SOURCE]), None)
            if source not in self.sources:
                form = ISO if source is None else self.told or self.known.dates.get(source)
                is_known = source is None or bool(self.told) or source in self.known.dates
                self.sources[source] = Dates(form, is_known=is_known)
            found.append(self.sources[source].read(part["date"]))
        days = [dates if all(sound for _, sound in found) else dates.cast(pl.String) for dates, _ in found]
        return batch.with_columns(pl.concat(days))

    def _with_codes(self, batch: "pl.DataFrame") -> "pl.DataFrame":
        import polars as pl

        self.codes.add(batch)
        if self.others is None:
            self.others = tuple(self.codes.others())
        labels = self.codes.labels()
        nothing = pl.lit(None, pl.String)
        return batch.with_columns(
            labels[task] if task in labels else nothing.alias(task) for task in (*self.codes.columns, *self.others)
        )


def in_form(date: "pl.Expr", form: str | None) -> "pl.Expr":
    """Dates of a format in ISO's form; without one they stay as they are, for others to refuse."""
    return date if form is None else in_iso_form(date, form).alias("date")


def iso_dates(forms: Mapping[int, str | None]) -> "pl.Expr":
    """Dates in ISO's form, each source's by its own format."""
    import polars as pl

    written = date = given(pl.col("date"))
    for source, form in forms.items():
        date = pl.when(pl.col(SOURCE) == source).then(in_form(written, form)).otherwise(date)
    return date.alias("date")
