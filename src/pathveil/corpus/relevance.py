"""The distribution paper's rule of relevance (Alawad et al., section II-A): of a case's reports, those near its date.

The paper keeps a report when its case's diagnosis and the taking of the specimen, or the surgery, are at most ten
days apart, since nearly all reports and addenda about a tumour fall into that window. Here a corpus names its
reference dates in columns of its own (of diagnosis, of surgery, or both), filled in on any of a case's reports.

>>> import polars as pl
>>> reports = pl.LazyFrame({"report_id": ["a", "b", "c"], "case_id": ["1", "1", "2"],
...                         "date": ["2015-03-01", "2015-03-12", "2015-03-01"], "surgery": ["2015-03-01", None, None]})
>>> kept, counts = relevant_reports(reports, to=["surgery"])
>>> kept.collect()["report_id"].to_list(), counts
(['a'], {'kept': 1, 'outside': 1, 'without_date': 0, 'without_reference': 1})
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pathveil.corpus.dates import find_format, in_iso_form
from pathveil.corpus.schema import SHOWN, clipped, did_you_mean, parsed_date, shortened, with_dates
from pathveil.errors import CorpusError, UsageError
from pathveil.formatting import counted

if TYPE_CHECKING:
    import polars as pl

DAYS = 10


def relevant_reports(
    frame: "pl.LazyFrame", *, to: Sequence[str], days: int = DAYS
) -> "tuple[pl.LazyFrame, dict[str, int]]":
    """Keep the reports dated at most ``days`` from a reference date of their case, and count the others."""
    import polars as pl

    if days < 0:
        raise UsageError(f"--days {days} is below 0; expected the days a report may lie from its case's date")
    frame = with_dates(frame)
    schema = frame.collect_schema()
    if "date" not in schema:
        raise CorpusError("the relevance rule needs a column 'date'; the corpus has none (a year is not enough)")
    references = []
    for column in to:
        if column not in schema:
            raise CorpusError(f"there is no column '{column}' of reference dates{did_you_mean(column, schema.names())}")
        references.append(reference_dates(frame, column))
    distance = (pl.col("date") - pl.col("reference")).dt.total_days().abs()
    near = frame
    for number, reference in enumerate(references):
        near = (
            near.join(reference.lazy(), on="case_id", how="left", maintain_order="left")
            .with_columns(distance.alias(f"distance {number}"))
            .drop("reference")
        )
    distances = [f"distance {number}" for number in range(len(references))]
    near = near.with_columns(pl.min_horizontal(distances).alias("distance")).drop(distances)
    within = pl.col("distance") <= days
    dateless = pl.col("date").is_null()
    counts = near.select(
        within.fill_null(False).sum().alias("kept"),
        (~within).fill_null(False).sum().alias("outside"),
        dateless.sum().alias("without_date"),
        (pl.col("distance").is_null() & ~dateless).sum().alias("without_reference"),
    ).collect(engine="streaming")
    return near.filter(within).drop("distance"), counts.row(0, named=True)


def reference_dates(frame: "pl.LazyFrame", column: str) -> "pl.DataFrame":
    """The one reference date of each case, from any of its reports that has it."""
    import polars as pl

    dtype = frame.collect_schema()[column]
    given = pl.col(column)
    if dtype == pl.String:
        given = pl.when(given.str.contains(r"\S")).then(given)
        form = find_format(frame.select(given.unique()).collect(engine="streaming").to_series().drop_nulls())
        date = parsed_date(in_iso_form(pl.col(column), form) if form else pl.col(column))
    elif dtype.base_type() in (pl.Date, pl.Datetime, pl.Null):
        date = given.cast(pl.Date)
    else:
        raise CorpusError(f"column '{column}' holds {dtype}, expected dates")
    rows = frame.select("report_id", "case_id", date.alias("reference"), given.is_not_null().alias("given"))
    unread = rows.filter(pl.col("given") & pl.col("reference").is_null()).select("report_id")
    if bad := unread.head(SHOWN + 1).collect(engine="streaming")["report_id"].to_list():
        total = unread.select(pl.len()).collect(engine="streaming").item()
        ids = shortened([clipped(name) for name in bad])
        raise CorpusError(
            f"column '{column}': {counted(total, 'date')} cannot be read (reports {ids}); expected 2016-05-02, "
            "20160502, or one format in which day and month can be told apart"
        )
    cases = (
        rows.drop_nulls("reference")
        .group_by("case_id")
        .agg(pl.col("reference").min(), pl.col("reference").n_unique().alias("dates"))
        .collect(engine="streaming")
        .sort("case_id")
    )
    several = cases.filter(pl.col("dates") > 1)["case_id"]
    if len(several):
        ids = shortened([clipped(name) for name in several[:SHOWN]], total=len(several))
        raise CorpusError(
            f"column '{column}': {counted(len(several), 'case')} with more than one date ({ids}); expected one a case"
        )
    return cases.drop("dates")
