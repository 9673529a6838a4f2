"""Reports that stand in several rows of a table, as laboratory systems keep them (a line of text a row, a section a
row, or pieces of a fixed width), put together.

A mapping says which column numbers the rows (``line``), which names the section that a row is of (``section``), or
both. Sections get the headings and the order that those of messages have. Rows of a report mostly stand together, and
are then streamed; where they do not, all rows are held at once, up to a bound.

>>> import polars as pl
>>> rows = pl.DataFrame({"report_id": ["b", "b", "a"], "case_id": ["7", None, "8"], "line": [2, 1, 1],
...                      "text": ["ductal carcinoma.", "Left breast:", "Colon."], PLACE: [0, 1, 2]})
>>> joined(rows, between="\\n").reports.rows()
[('b', '7', 'Left breast:\\nductal carcinoma.', 0), ('a', '8', 'Colon.', 2)]
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pathveil.corpus.mapping import Columns
from pathveil.corpus.messages.sections import TELLING, heading_of_name, render, tidy
from pathveil.corpus.schema import TASKS, given
from pathveil.corpus.seen import Seen
from pathveil.corpus.tables.files import ROW, Note, streamed
from pathveil.corpus.tables.opening import rename_columns, written_out
from pathveil.corpus.tables.text_files import with_texts_of_files
from pathveil.errors import CorpusError, UsageError
from pathveil.formatting import counted
from pathveil.results import Part

if TYPE_CHECKING:
    import polars as pl

LINE, SECTION = "line", "section"
PLACE = "place of a report's first row"  # a column, from 0
OWN = "place of a row without an id"  # a column: such a row is a report of its own
AT_ONCE = 10_000  # rows
MOST_ROWS = 100_000  # of one report; with more, its number is none
MOST_HELD = 20_000_000  # rows that are held at once where those of a report do not stand together
REPEATED, DIFFERENT = 0.7, 0.9  # of rows: at most so many have a report number, at least so many a text, of their own
LINE_NAMES = re.compile("line|seq|zeile|lfd|chunk|ordinal|setid|piece")
SECTION_NAMES = re.compile("section|component|heading|abschnitt|textart|texttype|observation|testname|resultname")
MOST_SECTIONS = 50
FULL, NARROWEST, FEWEST = 0.97, 40, 20  # of pieces of a fixed width: how full all but the last are, characters, pieces


class JoinedRows(Part):
    """How many rows were put together, and to how many reports."""

    rows: int
    reports: int
    differing: int  # reports whose rows say different codes, so that they have none

    def lines(self) -> list[str]:
        """As a summary tells it."""
        lines = [f"  joined    {counted(self.rows, 'row')} into {counted(self.reports, 'report')}"]
        if self.differing:
            lines.append(f"            codes that differ within a report left out: {counted(self.differing, 'report')}")
        return lines


def joins_rows(columns: Columns) -> bool:
    """Whether a mapping says that a report stands in several rows."""
    return LINE in columns or SECTION in columns


Cells = Sequence[str | None]


def row_columns(numbers: Cells, texts: Cells, others: Mapping[str, Cells]) -> dict[str, str]:
    """Which columns number the rows of reports and name their sections, by the first rows of a table; nothing where a
    report has one row, or several rows have its whole text.

    >>> texts = ["Left breast:", None, "ductal carcinoma.", "Colon:", "adenoma."]
    >>> others = {"age": ["7", "7", "7", "8", "8"], "LINE_NO": ["1", "2", "3", "1", "2"]}
    >>> row_columns(["a", "a", "a", "b", "b"], texts, others)
    {'line': 'LINE_NO'}
    """
    written = [(number, text) for number, text in zip(numbers, texts, strict=True) if number and text]
    if len({number for number, _ in written}) > REPEATED * len(written):
        return {}
    if len(set(written)) < DIFFERENT * len(written):
        return {}
    found = {}
    for name, cells in others.items():
        bare = re.sub(r"[\W_]+", "", name.lower())
        values = set(filter(None, cells))
        if LINE not in found and LINE_NAMES.search(bare) and all(value.isdecimal() for value in values):
            if len(set(zip(numbers, cells, strict=True))) >= DIFFERENT * len(cells):
                found[LINE] = name
        elif SECTION not in found and SECTION_NAMES.search(bare) and 1 < len(values) <= MOST_SECTIONS:
            if TELLING & set(map(heading_of_name, values)):
                found[SECTION] = name
    return found


def one_row_a_report(
    frame: "pl.LazyFrame", *, source: Path | str, columns: Columns, texts: str | None = None, note: Note | None = None
) -> tuple["pl.LazyFrame", Counter[str] | None]:
    """A table under our names for its columns, with ``texts`` out of the files of that folder, and with the rows of
    each report put together where the mapping says that there are several; then with the counts of that, and with
    ``PLACE``."""
    frame = rename_columns(frame, source=source, columns=columns)
    frame = with_texts_of_files(frame, Path(texts), source=source) if texts else frame
    return join_rows(frame, source=source, note=note) if joins_rows(columns) else (frame, None)


def join_rows(
    frame: "pl.LazyFrame", *, source: Path | str, note: Note | None = None
) -> tuple["pl.LazyFrame", Counter[str]]:
    """A table with one row a report, and the counts of ``JoinedRows``, of which the last is known once all was read.

    ``PLACE`` and ``ROW``, where there is one, are those of a report's first row. A report whose rows name different
    patients or registries is told to ``note`` and passed over; without it, it is refused.
    """
    import polars as pl

    schema = frame.collect_schema()
    for name in ("report_id", "text"):
        if name not in schema:
            raise UsageError(
                f"{source}: rows are put together by report_id, of texts, and there is no column '{name}'; say which "
                f"column it is with --column {name}=ITS_NAME, or in a mapping"
            )
    number = pl.col("report_id") if schema["report_id"] == pl.String else written_out("report_id", schema["report_id"])
    number = given(number).str.strip_chars()
    frame = frame.with_columns(
        pl.when(number != "").then(number).alias("report_id"), pl.col("text").cast(pl.String)
    ).with_row_index(PLACE)
    look = look_at(frame, source=source)
    between, counts = "" if look.is_cut else "\n", Counter(rows=look.rows, reports=look.reports, differing=0)
    if not look.is_together and look.rows > MOST_HELD:
        raise CorpusError(
            f"{source}: the rows of a report do not stand together, and there are more than {MOST_HELD:,}; order the "
            "table by report number (in a query: order by)"
        )

    def frames() -> Iterator["pl.DataFrame"]:
        counts["differing"] = 0
        batches = frame.collect_batches(chunk_size=AT_ONCE, maintain_order=True, engine="streaming")
        for rows in whole_reports(batches, source=source) if look.is_together else [frame.collect(engine="streaming")]:
            found = joined(rows, between=between)
            counts["differing"] += found.differing
            for row in found.torn:
                reason = "is of a report whose rows name different patients or registries"
                if note is None:
                    raise CorpusError(f"{source}: row {row:,} {reason}; is report_id the number of the report?")
                note(row, reason)
            yield found.reports

    return streamed(frames, joined(frame.collect_schema().to_frame(), between="").reports.schema), counts


class Look(NamedTuple):
    """What all rows say together."""

    rows: int
    reports: int
    is_together: bool  # the rows of each report
    is_cut: bool  # texts are cut at a fixed width, also within words


def look_at(frame: "pl.LazyFrame", *, source: Path | str) -> Look:
    """How the rows of reports stand in a table: read once, ids and lengths alone."""
    import polars as pl

    ids, is_together = Seen(), True
    rows = reports = alone = 0
    last: tuple[int, int] | None = None  # of the row before: the hash of its id, and the length of its text
    lengths: Counter[int] = Counter()  # of texts that another of the same report follows
    longest = 0
    length = pl.col("text").str.strip_chars_end().str.len_chars().fill_null(0).alias("length")
    wanted = frame.select(pl.col("report_id").hash().alias("hash"), pl.col("report_id").is_null().alias("none"), length)
    for batch in wanted.collect_batches(chunk_size=AT_ONCE, maintain_order=True, engine="streaming"):
        numbered = batch.filter(~pl.col("none"))
        rows, alone = rows + batch.height, alone + batch.height - numbered.height
        hashes, sizes = numbered["hash"].to_numpy(), numbered["length"].to_numpy().astype(np.int64)
        if not len(hashes):
            continue
        if last is not None:
            hashes, sizes = np.append(np.uint64(last[0]), hashes), np.append(last[1], sizes)
        follows = hashes[1:] == hashes[:-1]
        first = hashes[np.append(last is None, ~follows)]
        new = ids.add_all(first)
        is_together = is_together and bool(new.all())
        reports += int(new.sum())
        values, times = np.unique(sizes[:-1][follows], return_counts=True)
        lengths.update(dict(zip(values.tolist(), times.tolist(), strict=True)))
        longest, last = max(longest, int(sizes.max())), (int(hashes[-1]), int(sizes[-1]))
    full = sum(times for size, times in lengths.items() if size >= FULL * longest)
    is_cut = longest >= NARROWEST and lengths.total() >= FEWEST and full >= 0.9 * lengths.total()
    return Look(rows, reports + alone, is_together, is_cut)


def whole_reports(batches: "Iterable[pl.DataFrame]", *, source: Path | str) -> Iterator["pl.DataFrame"]:
    """Batches that end where a report does."""
    import polars as pl

    waiting: pl.DataFrame | None = None
    for batch in batches:
        batch = batch if waiting is None else pl.concat([waiting, batch])
        same = batch["report_id"].eq_missing(batch["report_id"][-1]).to_numpy()
        others = np.flatnonzero(~same)
        start = int(others[-1]) + 1 if len(others) else 0
        waiting = batch[start:]
        if waiting.height > MOST_ROWS and waiting["report_id"][0] is not None:
            raise CorpusError(
                f"{source}: more than {MOST_ROWS:,} rows have one report_id; is it the column of report numbers?"
            )
        if waiting["report_id"][0] is None:  # rows without an id are reports of their own
            start, waiting = batch.height, None
        if start:
            yield batch[:start]
    if waiting is not None:
        yield waiting


class Joined(NamedTuple):
    reports: "pl.DataFrame"
    torn: list[int]  # first rows of reports that are of several patients or registries
    differing: int


def joined(rows: "pl.DataFrame", *, between: str) -> Joined:
    """The reports of which these are all rows, with what stands ``between`` the texts of two.

    A row that a join repeated counts once. Codes that differ are none; of other columns the first value stands.
    """
    import polars as pl

    names = [name for name in rows.columns if name not in (LINE, SECTION, OWN)]
    by = ["report_id", OWN]
    rows = rows.with_columns(pl.when(pl.col("report_id").is_null()).then(PLACE).alias(OWN))
    keys = [name for name in (*by, LINE, SECTION, "text") if name in rows.columns]
    rows = rows.unique(keys, keep="first", maintain_order=True)
    order = [pl.col(PLACE).min().over(by), pl.col(PLACE)]
    if LINE in rows.columns:
        order.insert(1, pl.col(LINE).cast(pl.String).str.strip_chars().cast(pl.Float64, strict=False))
    rows = rows.sort(order, nulls_last=True)
    agreeing = [name for name in ("case_id", "registry", *TASKS) if name in names]
    values = {name: stripped(name, rows.schema[name]).drop_nulls() for name in agreeing}
    texts = pl.col("text").fill_null("")
    found = rows.group_by(by, maintain_order=True).agg(
        *(pl.col(name).min() for name in (PLACE, ROW) if name in names),
        *(pl.col(name).drop_nulls().first() for name in names if name not in (*by, PLACE, ROW, "text", *agreeing)),
        *(pl.when(value.n_unique() <= 1).then(value.first()).alias(name) for name, value in values.items()),
        *((value.n_unique() > 1).alias(f"{name} differs") for name, value in values.items()),
        *([texts, pl.col(SECTION).cast(pl.String)] if SECTION in rows.columns else [texts.str.join(between)]),
    )
    if SECTION in rows.columns:
        pairs = zip(found["text"].to_list(), found[SECTION].to_list(), strict=True)
        whole = [in_sections(texts, sections, between=between) for texts, sections in pairs]
    else:
        whole = [tidy(text) for text in found["text"].to_list()]
    found = found.with_columns(pl.Series("text", [text or None for text in whole], pl.String))
    torn = pl.any_horizontal(pl.lit(False), *(f"{name} differs" for name in ("case_id", "registry") if name in values))
    differing = pl.any_horizontal(pl.lit(False), *(f"{name} differs" for name in TASKS if name in values))
    first = found.filter(torn)[ROW if ROW in names else PLACE].to_list()
    kept = found.filter(~torn)
    return Joined(kept.select(names), first, kept.select(differing.sum()).item())


def stripped(name: str, dtype: "pl.DataType") -> "pl.Expr":
    """A column's values, of texts without blanks around them and without words such as NULL."""
    import polars as pl

    if dtype != pl.String:
        return pl.col(name)
    value = given(pl.col(name)).str.strip_chars()
    return pl.when(value != "").then(value)


def in_sections(texts: list[str], sections: list[str | None], *, between: str) -> str:
    """Texts under the headings of their sections; one without a section goes on with the one before it."""
    found: dict[str, list[str]] = {}
    heading = "OTHER"
    for text, section in zip(texts, sections, strict=True):
        heading = heading_of_name(section) if section and section.strip() else heading
        found.setdefault(heading, []).append(text)
    return render({heading: {"": [between.join(lines)]} for heading, lines in found.items()})
