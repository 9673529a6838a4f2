"""Labels from elsewhere: reports get the codes that a table of abstracts has for them.

Both sides are compared by a column that they share: the report's number, the case, or the patient. With ``days``, a row
counts only within so many days of the report, and the nearest one does, so that two tumours of a patient stay apart.
Where rows that count equally say different things, the report is left without labels rather than given one of them;
so is one whose row is found by the report number of another case too, since every laboratory numbers its own.
Spreadsheets take leading zeros from numbers or make decimals of them, and people type capitals as they like: none of it
matters, but for ids of the reports or of the table that differ in nothing else.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     reports, labels = Path(folder) / "r.csv", Path(folder) / "labels.csv"
...     _ = reports.write_text("report_id,case_id,registry,text,number\\na,1,R,x,N1\\nb,2,R,y,N2\\nc,3,R,z,N3\\n")
...     _ = labels.write_text("number,site\\nN1,C504\\nN2,C18\\nN2,C20\\nN9,C61\\n")
...     result = label_corpus(reports, labels, on=["number"], out=Path(folder) / "labelled.parquet")
>>> result.matched, result.ambiguous, result.unmatched, result.unused_rows
(1, 1, 1, 1)
>>> result.labelled
{'site': 1, 'subsite': 1}
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pathveil.arguments import check_whole_number, names_given
from pathveil.corpus.code_columns import normalise_codes
from pathveil.corpus.dates import EXAMPLES, find_format, in_iso_form
from pathveil.corpus.intake import code_lines
from pathveil.corpus.keyed_patients import AUTHORITY, PADDED, PATIENT, with_case_ids
from pathveil.corpus.mapping import Columns, TableMapping
from pathveil.corpus.rows import LISTED, MOST_SKIPPED, SHOWN, SkippedRow, Unread
from pathveil.corpus.schema import TASKS, did_you_mean, parsed_date, scan, validate
from pathveil.corpus.tables.database import NAME as DATABASE
from pathveil.corpus.tables.files import (
    PARQUET,
    Paths,
    check_is_file,
    content_sha256,
    polars_faults,
    unchanged,
    write_parquet,
)
from pathveil.corpus.tables.opening import (
    MESSAGES,
    check_output,
    column_of,
    decimals_as_text,
    missing_as_empty,
    open_source,
    rename_columns,
    sources_of,
    tables_among,
    written_out,
)
from pathveil.errors import CorpusError, UsageError
from pathveil.formatting import counted, percent
from pathveil.icdo.codes import CodeCounts
from pathveil.progress import Progress, silent
from pathveil.results import Result

if TYPE_CHECKING:
    import polars as pl

ALIKE = " to compare by"  # behind a column's name
# Dates as NAACCR has them in part known.
NO_DAY = r"^\s*\d{4}(-?\d{2})?\s*$|^\s*\d{4}(99|00)\d{2}\s*$|^\s*\d{4}[01]\d(99|00)\s*$"


class LabelResult(Result):
    """How many reports found their labels."""

    out: str
    sha256: str
    on: list[str]
    days: int | None
    reports: int
    matched: int
    unmatched: int
    ambiguous: int  # several rows that say different things
    shared: int  # whose row reports of other cases have too, by the same report number
    loosely: int  # that found a row only since capitals, leading zeros and the .0 of decimals do not matter
    rows_read: int
    skipped_rows: int  # that do not fit the header
    skipped: list[SkippedRow]  # the first of them
    empty_rows: int  # without an id or without any code
    undated_rows: int  # without a day, where one is needed
    unused_rows: int  # that match no report
    labelled: dict[str, int]  # task: reports with a label
    codes: CodeCounts

    def rows(self) -> list[dict[str, Any]]:
        return [{"task": task, "labelled": count} for task, count in self.labelled.items()]

    def summary(self) -> str:
        near = f", the nearest within {counted(self.days, 'day')}" if self.days is not None else ""
        tasks = ", ".join(f"{task} {count:,}" for task, count in self.labelled.items())
        loosely = f", {self.loosely:,} with capitals or leading zeros aside" if self.loosely else ""
        row = "row with a code" if self.empty_rows else "row"
        empty = f"{self.empty_rows:,} without a code or without {' or '.join(self.on)}, " if self.empty_rows else ""
        unfit = f"{self.skipped_rows:,} skipped, " if self.skipped_rows else ""
        shared = f", {self.shared:,} whose number other cases have too" if self.shared else ""
        undated = f"{self.undated_rows:,} without a day, " if self.undated_rows else ""
        lines = [
            f"{self.matched:,} of {counted(self.reports, 'report')} labelled in {self.out}",
            f"  by        {', '.join(self.on)}{near}{loosely}",
            f"  labels    {tasks}",
            f"  without   {self.unmatched:,} that no {row} matches, {self.ambiguous:,} whose rows say different things"
            f"{shared}",
            f"  rows      {self.rows_read:,} read, {unfit}{empty}{undated}{self.unused_rows:,} match no report",
            *(f"            {one.sentence()}" for one in self.skipped[:SHOWN]),
            f"  sha256    {self.sha256}",
        ]
        return "\n".join(lines + code_lines(self.codes))


def label_corpus(
    reports: Paths,
    labels: Path | None,
    *,
    on: str | Sequence[str],
    out: Path,
    days: int | None = None,
    mapping: TableMapping | None = None,
    keep_unknown_codes: bool = False,
    tasks: str | Iterable[str] | None = None,
    database: str | None = None,
    key: bytes | None = None,
    authorities: Sequence[str] = (),
    progress: Progress = silent,
) -> LabelResult:
    """Write the reports with the labels of a table to ``out``, a Parquet file.

    The table is the file ``labels``, or without one what the mapping's query gives of the ``database`` at that address.

    ``on`` names the columns that must be equal, as the corpus calls them; ``mapping`` says how the table is written and
    what it calls them. With the ``key`` of the import of messages, ``patient`` among them is a record number, which the
    reports' case ids were made of; ``authorities`` gave these numbers, else the senders of the reports.
    """
    import polars as pl

    on, tasks = names_given(on, "on"), names_given(tasks, "tasks")
    if (key or authorities) and PATIENT not in (on or ()):
        option = "key-file" if key else "authority"
        raise UsageError(f"--{option} is for record numbers of patients: --on {PATIENT} --column {PATIENT}=THEIRS")
    if authorities and not key:
        raise UsageError("--authority needs --key-file, the secret from which the import made case ids")
    if days is not None:
        check_whole_number(days, "days", least=0)
    if out.suffix != ".parquet":
        raise UsageError(f"{out}: a corpus is written as Parquet; expected a name that ends in .parquet")
    given = [reports] if isinstance(reports, str | Path) else reports
    check_output(out, sources=[*given, *([labels] if labels else [])], renews=[PARQUET])
    progress("reading", 0, 0)
    frame = validate(scan(reports, takes_map=False), source=reports)
    theirs, on = on, ["case_id" if key and name == PATIENT else name for name in on or ()]
    keys = report_keys(frame, on=on, dated=days is not None)
    table, codes, skipped = read_labels(
        labels,
        database=database,
        on=theirs or (),
        dated=days is not None,
        mapping=mapping or TableMapping(),
        keep_unknown=keep_unknown_codes,
        tasks=tuple(tasks or ()),
        beside=[AUTHORITY] if key else [],
    )
    rows_read = table.height + len(skipped)
    if key:
        senders = authorities or [
            "",
            *frame.select(pl.col("registry").unique()).collect(engine="streaming")["registry"],
        ]
        table = with_case_ids(table, cases=set(keys["case_id"]), key=key, authorities=senders)
    chosen = [name for name in table.columns if name not in (*on, "date", "row", PADDED)]
    frame = without_empty(frame, chosen)
    progress("matching", 0, 0)
    coded = table.filter(pl.any_horizontal(pl.col(chosen).is_not_null()))
    filled = coded.drop_nulls(list(on))
    answers = filled.drop_nulls("date") if days is not None else filled
    exact = keys.join(answers, on=list(on), how="semi").height
    keys, answers = written_alike(keys, answers, on=on)
    same = [name for name in keys.columns if name.endswith(ALIKE)]
    loosely = keys.join(answers, on=same, how="semi").height - exact
    pairs = keys.join(answers, on=same, how="inner", suffix=" of the label")
    if days is not None:
        apart = (pl.col("date") - pl.col("date of the label")).dt.total_days().abs()
        pairs = pairs.with_columns(apart.alias("apart")).filter(pl.col("apart") <= days)
        used = pairs["row"].n_unique()
        pairs = pairs.filter(pl.col("apart") == pl.col("apart").min().over("report_id"))
    else:
        used = pairs["row"].n_unique()
    loosely += pairs.filter(PADDED)["report_id"].n_unique() if key else 0
    said = agreed(pairs, chosen)
    # Laboratories number their reports, and hospitals their patients, each for itself: S16-1 may be of several
    # patients, and the row of any of them.
    is_shared = pl.col("report_id").is_in(of_several_cases(pairs) if "report_number" in on or key else [])
    shared = said.filter(is_shared).height
    single = said.filter(pl.col("agree") & ~is_shared).drop("agree")
    if not single.height:
        near = f" within {counted(days, 'day')}" if days is not None else ""
        hint = "; do both write it alike?" if not said.height else ""
        if hint and "report_id" in on and "report_number" in frame.collect_schema():
            hint = "; messages have the laboratory's number: try --on report_number --column report_number=THEIRS"
        if hint and key:
            hint = "; is this the key of the import, and did the senders give these numbers (else --authority NAME)?"
        if filled.height and not answers.height:
            hint = "; no row with codes has a day"
        if not filled.height:
            hint = f"; no row with a code has a {' and a '.join(theirs or ())}"
        if not coded.height:
            hint = "; no row has a code that ICD-O-3 knows"
            hint += "".join(f"; {one.sentence()}" for one in codes.unknown)
        if said.height and days is None:
            hint = "; with --days the row that is nearest in date counts"
        if shared:
            way = f"--column {AUTHORITY}=THEIRS" if key else "--on registry,report_number"
            hint = f"; reports of several cases have one number: {way} tells them apart"
        raise CorpusError(
            f"{labels or DATABASE}: no report found its label by {', '.join(theirs or ())}{near} "
            f"({counted(answers.height, 'row')}, {counted(said.height, 'report')} ambiguous){hint}"
        )
    progress("writing", 0, 0)
    write_parquet(frame.join(single.lazy(), on="report_id", how="left", maintain_order="left"), out)
    matched, touched = single.height, said.height
    return LabelResult(
        out=str(out),
        sha256=content_sha256(out),
        on=list(theirs or ()),
        days=days,
        reports=keys.height,
        matched=matched,
        unmatched=keys.height - touched,
        ambiguous=touched - matched - shared,
        shared=shared,
        loosely=loosely,
        rows_read=rows_read,
        skipped_rows=len(skipped),
        skipped=skipped[:LISTED],
        empty_rows=table["row"].n_unique() - filled["row"].n_unique(),
        undated_rows=filled["row"].n_unique() - answers["row"].n_unique(),
        unused_rows=answers["row"].n_unique() - used,
        labelled={task: single[task].count() for task in chosen},
        codes=codes,
    )


def agreed(pairs: "pl.DataFrame", chosen: Sequence[str]) -> "pl.DataFrame":
    """What the rows of each report say together; ``agree`` says that no two say different things of one task. A blank
    says nothing.

    >>> import polars as pl
    >>> rows = [("a", "C50", "3"), ("a", "C50", None), ("b", "C50", "3"), ("b", "C61", "3")]
    >>> pairs = pl.DataFrame(rows, schema=["report_id", "site", "behavior"], orient="row")
    >>> agreed(pairs, ["site", "behavior"]).rows()
    [('a', 'C50', '3', True), ('b', 'C50', '3', False)]
    """
    import polars as pl

    values = pl.col(chosen).drop_nulls()
    answers = pairs.group_by("report_id", maintain_order=True).agg(
        values.first(), values.n_unique().name.suffix(" different")
    )
    agree = pl.all_horizontal(pl.col(f"{name} different") <= 1 for name in chosen)
    return answers.select("report_id", *chosen, agree.alias("agree"))


def of_several_cases(pairs: "pl.DataFrame") -> list[str]:
    """The reports whose rows belong to reports of other cases as well."""
    import polars as pl

    return pairs.filter(pl.col("case_id").n_unique().over("row") > 1)["report_id"].unique().to_list()


def read_labels(
    path: Path | None,
    *,
    database: str | None,
    on: Sequence[str],
    dated: bool,
    mapping: TableMapping,
    keep_unknown: bool,
    tasks: Sequence[str],
    beside: Sequence[str] = (),
) -> tuple["pl.DataFrame", CodeCounts, list[SkippedRow]]:
    """The table of labels in memory: what to compare (and ``beside`` it, where it is there), its number of row, and the
    labels in this project's form.

    Records that do not fit its header are skipped as by an import.
    """
    if path is not None:
        check_is_file(path)
    (source,) = sources_of([] if path is None else [path], mapping=mapping, database=None if path else database)
    name = source.name
    if source.form in MESSAGES:
        raise CorpusError(f"{name}: messages hold no labels; expected a table with columns such as site")
    unread = Unread.of(source.form)
    table = open_source(source, mapping=mapping, database=database, note=unread if source.form == "csv" else None)
    table = decimals_as_text(under_our_names(table, source=name, columns=mapping.columns, on=on))
    schema = table.collect_schema()
    others = [task for task in tasks if task not in TASKS]  # those may be told by another column: a site by its subsite
    check_has((*on, *(["date"] if dated else []), *others), schema.names(), source=name)
    labels = [task for task in dict.fromkeys((*TASKS, *tasks)) if task in schema and task not in on]
    if not labels:
        raise UsageError(f"{name}: has no column of labels ({', '.join(TASKS)}); say which with --column or --map")
    compared = [*on, *(name for name in beside if name in schema)]
    wanted = [*compared, *labels, *(["date"] if dated else [])]
    try:
        texts = table.select(as_text(name, schema[name]) for name in wanted)
        with unchanged(tables_among([source])):
            frame = missing_as_empty(texts, wanted).collect(engine="streaming")
    except polars_faults():
        raise CorpusError(f"{name}: cannot be read to its end; is it cut short or damaged?") from None
    skipped = [
        SkippedRow(file=str(name), row=row, reason=reason, counted=unread.counted)
        for row, reason in unread.reasons.items()
    ]
    if len(skipped) > MOST_SKIPPED * (frame.height + len(skipped)):
        raise CorpusError(
            f"{skipped[0].sentence()}; {len(skipped):,} of "
            f"{counted(frame.height + len(skipped), 'row')} cannot be used, more than {percent(MOST_SKIPPED)}"
        )
    if dated:
        frame = frame.with_columns(label_dates(frame["date"], source=name, told=mapping.dates))
    normal, codes = normalise_codes(frame.lazy(), keep_unknown=keep_unknown)
    check_has(tasks, normal.collect_schema().names(), source=name)
    chosen = normal.select(*dict.fromkeys([*compared, *(["date"] if dated else []), *tasks])) if tasks else normal
    return chosen.collect().with_row_index("row"), codes, skipped


def under_our_names(
    table: "pl.LazyFrame", *, source: Path | str, columns: Columns, on: Sequence[str]
) -> "pl.LazyFrame":
    """The table with our names for its columns. Where several hold what is compared (report_number=FIRST+SECOND), a row
    stands once for each that it has."""
    import polars as pl

    schema = table.collect_schema()
    for ours in on:
        theirs = columns.get(ours, "")
        if isinstance(theirs, str) and "+" in theirs and column_of(schema, theirs) is None:
            first, *others = (
                under_our_names(table, source=source, columns={**columns, ours: part.strip()}, on=on)
                for part in theirs.split("+")
            )
            return pl.concat([first, *(other.drop_nulls(ours) for other in others)], how="diagonal_relaxed")
    return rename_columns(table, source=source, columns=columns)


def check_has(columns: Iterable[str], names: Sequence[str], *, source: Path | str) -> None:
    for column in columns:
        if column not in names:
            raise UsageError(
                f"{source}: has no column '{column}'{did_you_mean(column, names)}; "
                f"say which it is with --column {column}=THEIRS ('pathveil corpus map' shows what it has)"
            )


def written_alike(
    keys: "pl.DataFrame", answers: "pl.DataFrame", *, on: Sequence[str]
) -> tuple["pl.DataFrame", "pl.DataFrame"]:
    """Both with columns to compare by, in which capitals, leading zeros and the .0 of numbers that became decimals do
    not matter, but for ids that nothing else tells apart."""
    import polars as pl

    for column in on:
        plain = pl.col(column).str.replace(r"^(\d+)\.0$", "$1").str.to_uppercase().str.strip_chars_start("0")
        told_apart = []  # what several ids of one table would become
        for table in (keys, answers):
            ids = table.select(pl.col(column).drop_nulls().unique()).select(plain).to_series()
            told_apart.append(ids.filter(ids.is_duplicated()))
        kept = plain.is_in(pl.concat(told_apart).unique().implode())
        same = pl.when(kept).then(column).otherwise(plain).alias(column + ALIKE)
        keys, answers = keys.with_columns(same), answers.with_columns(same)
    return keys, answers


def as_text(name: str, dtype: "pl.DataType") -> "pl.Expr":
    import polars as pl

    value = written_out(name, dtype).str.strip_chars()
    return pl.when(value != "").then(value).alias(name)


def label_dates(dates: "pl.Series", *, source: Path | str, told: str | None) -> "pl.Series":
    """The dates of the table of labels. A year or month alone is no day, nor are a few others that cannot be read; many
    are refused."""
    import polars as pl

    dates = dates.to_frame().select(pl.when(~pl.col("date").str.contains(NO_DAY)).then(pl.col("date")))["date"]
    form = told or find_format(dates)
    frame = dates.to_frame()
    if form:
        frame = frame.with_columns(in_iso_form(pl.col("date"), form))
    read = frame.select(parsed_date(pl.col("date")))["date"]
    wrong = read.is_null() & dates.is_not_null()
    count = int(wrong.sum())
    if count > MOST_SKIPPED * dates.count():
        row = (wrong.arg_max() or 0) + 1
        raise CorpusError(
            f"{source}: column 'date': {counted(count, 'row')} cannot be read (the first is row {row:,}); "
            f"expected 2016-05-02, or their format told with --dates ({EXAMPLES})"
        )
    return read


def report_keys(frame: "pl.LazyFrame", *, on: Sequence[str], dated: bool) -> "pl.DataFrame":
    """What reports are compared by, without their texts."""
    schema = frame.collect_schema()
    if not on:
        raise UsageError("--on names no column; expected for example report_number or case_id")
    for column in on:
        if column == "text":
            raise UsageError("--on text: reports are not compared by their texts; expected report_number, case_id, …")
        if column not in schema:
            way = "; of messages, --key-file finds patients by their numbers" if column == PATIENT else ""
            hint = did_you_mean(column, schema.names())
            raise UsageError(f"--on: the reports have no column '{column}'{hint}{way}")
    if dated and "date" not in schema:
        raise UsageError("--days: the reports have no column 'date'")
    columns = dict.fromkeys(["report_id", "case_id", *on])
    when = ["date"] if dated else []
    return frame.select(*(as_text(name, schema[name]) for name in columns), *when).collect(engine="streaming")


def without_empty(frame: "pl.LazyFrame", tasks: Sequence[str]) -> "pl.LazyFrame":
    """The reports without empty columns of these labels; labels that are there already are not replaced."""
    import polars as pl

    there = [task for task in tasks if task in frame.collect_schema()]
    if there:
        counts = frame.select(pl.col(there).count()).collect(engine="streaming").row(0, named=True)
        if full := [task for task, count in counts.items() if count]:
            raise CorpusError(f"the reports have labels of {', '.join(full)} already; give a corpus without them")
    return frame.drop(there)
