"""What a corpus is, and the one way every room opens one: ``validate(scan(paths))``.

A report has a ``report_id``, a ``case_id`` (patient and tumour), a ``registry``, a ``text`` and, where it is known, a
``date`` or a ``year``; each task is one column of strings in which a label may be missing. Other columns are kept.
``scan`` checks columns and types from the files' headers alone; ``validate`` reads the contents once, in a streaming
pass, so a million reports never need to fit in memory. Messages name columns, counts and report ids, never text.

>>> import polars as pl
>>> reports = pl.LazyFrame({"report_id": ["a", "b", "b"], "case_id": ["1", None, "2"], "registry": ["R1"] * 3,
...                         "text": ["left breast", " ", "colon"], "site": ["C50", None, "C18"]})
>>> tasks_of(reports)
('site',)
>>> for sentence in problems(reports):
...     print(sentence)
column 'report_id': 1 id is used by more than one report (b); each report needs its own
column 'case_id': 1 report has none (b); expected the id of the patient's case
column 'text': 1 report is empty (b); remove it or fill it in
"""

import difflib
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pathveil.corpus.tables.files import Paths, files, names_of, open_table, polars_faults
from pathveil.errors import CorpusError

if TYPE_CHECKING:
    import polars as pl

TASKS = ("site", "subsite", "laterality", "histology", "behavior")
REQUIRED = ("report_id", "case_id", "registry", "text")
WHEN = ("date", "year")  # either, both or none; what needs a date says so
LONGEST_ID, LONGEST_REGISTRY = 40, 100  # characters of an id that a message repeats, and of a registry's name
SHOWN = 5  # offending ids in a message
# 2016-05-02, 20160502 and either with a time behind it, as HL7 writes them (201605020930); 20160502.0 is a number that
# a table made a decimal. 05/02/2016 is two days, so it is refused; seconds since 1970 (1420070400) are no day of 1420.
DATE = r"^\d{4}(-\d{2}-\d{2}|\d{4})([T ]\d{2}.*|\.0)?$|^(19|20)\d{6}\d{2}(\d{2}(\d{2}(\d{3})?)?)?(\D.*)?$"

EXPECTED_DATE = "2016-05-02 or 20160502"
# What databases, SAS, pandas, spreadsheets and people write where nothing is.
MISSING = (
    *("NULL", "Null", "null", r"\N", ".", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "None", "none"),
    *("<NA>", "NaT", "-", "--", "?"),
)
# Messages name their patients, which only their own reader takes out.
MESSAGE_STARTS = ("MSH|", "\x0bMSH|", "FHS|", "BHS|")
IMPORT_MESSAGES = "write them into a file whose name ends in .hl7, and import that"
PLACE, AS_WRITTEN = "place in the frame", "before it was checked: "  # columns of names that no table has


def scan(paths: Paths, *, tasks: Iterable[str] | None = None, takes_map: bool = True) -> "pl.LazyFrame":
    """The reports of one file, several, or a folder of them (Parquet, CSV, JSONL, either gzipped), not yet read.

    Ids, labels and text come as strings, ids and labels without surrounding blanks and with "" as missing; ``date`` and
    ``year`` as they are in the file until ``validate`` has judged them. ``tasks`` names task columns beside the usual.
    A refusal speaks of ``--map`` where the command ``takes_map`` for these reports.
    """
    import polars as pl

    def opened(path: Path) -> "pl.LazyFrame":
        table = open_table(path)
        try:
            return with_corpus_types(table, source=path, tasks=tasks)
        except CorpusError as fault:
            if set(REQUIRED) <= set(table.collect_schema()):
                raise
            mapped = ", and --map reads one by its mapping" if takes_map else ""
            raise CorpusError(f"{fault}; 'pathveil corpus import' makes one of other tables{mapped}") from None

    frames = [opened(path) for path in files(paths)]
    if len(frames) == 1:
        return frames[0]
    return pl.concat(frames, how="diagonal_relaxed")


def with_corpus_types(
    frame: "pl.LazyFrame", *, source: Path | str, tasks: Iterable[str] | None = None, stripped: bool = True
) -> "pl.LazyFrame":
    """The frame with the columns a corpus needs, in the types it needs; with labels ``stripped`` of blanks, or not."""
    import polars as pl

    schema = frame.collect_schema()
    for column in REQUIRED:
        if column not in schema:
            raise CorpusError(
                f"{source}: column '{column}' is missing{did_you_mean(column, schema.names())}; "
                f"a corpus needs {', '.join(REQUIRED)}"
            )
    labels = dict.fromkeys((*TASKS, *(tasks or ())))
    changes = []
    for column in dict.fromkeys((*REQUIRED, *labels)):  # whoever asks for a task "text" is refused by tasks_of
        if column not in schema:
            continue
        dtype, value = schema[column], pl.col(column)
        if dtype.is_float() or dtype.is_nested() or dtype.is_temporal():
            raise CorpusError(
                f"{source}: column '{column}' holds {dtype}, expected text; write codes as strings (8500, not 8500.0)"
            )
        if dtype != pl.String:
            value = value.cast(pl.String)
        if column != "text" and (stripped or column in REQUIRED):
            value = value.str.strip_chars()
            value = pl.when(value != "").then(value).alias(column)
        changes.append(value)
    if "date" in schema and schema["date"].base_type() not in (pl.Date, pl.Datetime, pl.String, pl.Null):
        raise CorpusError(f"{source}: column 'date' holds {schema['date']}, expected dates or text such as 2016-05-02")
    if "year" in schema and not (schema["year"].is_numeric() or schema["year"] in (pl.String, pl.Null)):
        raise CorpusError(f"{source}: column 'year' holds {schema['year']}, expected whole numbers such as 2016")
    if "date" in schema and schema["date"].base_type() in (pl.Datetime, pl.Null):
        changes.append(pl.col("date").cast(pl.Date))
    return frame.with_columns(changes)


def tasks_of(frame: "pl.LazyFrame | pl.DataFrame", wanted: Iterable[str] | None = None) -> tuple[str, ...]:
    """The usual task columns that are there, perhaps none; or those wanted, each of which must be there."""
    names = frame.collect_schema().names()
    if wanted is None:
        return tuple(task for task in TASKS if task in names)
    chosen = tuple(dict.fromkeys(wanted))
    for task in chosen:
        if task not in names or task in (*REQUIRED, *WHEN):
            others = [name for name in names if name not in (*REQUIRED, *WHEN)]
            there = ", ".join(tasks_of(frame))
            raise CorpusError(
                f"there is no task column '{task}'{did_you_mean(task, others)}; the corpus has "
                + (f"the tasks {there}" if there else "no labels at all: none of " + ", ".join(TASKS))
            )
    return chosen


def validate(frame: "pl.LazyFrame", *, source: Paths = "the corpus") -> "pl.LazyFrame":
    """Check the contents, and give the frame with ``date`` as dates and ``year`` as whole numbers.

    ``source`` is what a message calls it where it is empty.
    """
    found = problems(frame, source=source)
    if found:
        raise CorpusError("\n  ".join(found))
    return with_dates(frame)


def with_dates(frame: "pl.LazyFrame") -> "pl.LazyFrame":
    """``date`` as pl.Date and ``year`` as pl.Int32, missing where blank or where they cannot be read."""
    import polars as pl

    schema = frame.collect_schema()
    changes = []
    if "date" in schema and schema["date"] == pl.String:
        changes.append(parsed_date(pl.col("date")).alias("date"))
    if "year" in schema and schema["year"] != pl.Int32:
        year = pl.col("year")
        if schema["year"] == pl.String:  # 2016.0 is a number that a table made a decimal
            year = year.str.strip_chars().str.replace(r"\.0+$", "")
        changes.append(year.cast(pl.Int32, strict=False))
    return frame.with_columns(changes)


def given(value: "pl.Expr") -> "pl.Expr":
    """Cells with none where a word such as NULL stands for nothing, or dashes under the names of columns; and without
    the ="…" in which programs write what a spreadsheet is to leave as it is.

    >>> import polars as pl
    >>> cells = pl.DataFrame({"id": ['="0012"', "NULL", "0012", "------", "-0012-"]})
    >>> cells.select(given(pl.col("id")))["id"].to_list()
    ['0012', None, '0012', None, '-0012-']
    """
    import polars as pl

    short = pl.when(value.str.len_bytes() < 16).then(value)  # texts are not looked through
    is_nothing = short.str.strip_chars().is_in(MISSING).fill_null(False) | is_ruled(value).fill_null(False)
    bare = pl.when(begins(value, '="')).then(value).str.extract(r'(?s)^="(.*)"$')
    return pl.when(bare.is_not_null()).then(bare).when(~is_nothing).then(value)


def is_ruled(value: "pl.Expr") -> "pl.Expr":
    """Whether cells are nothing but dashes, as sqlcmd and others rule off the names of columns."""
    import polars as pl

    return pl.when(begins(value, "--")).then(value).str.contains(r"^-+\s*$")


def begins(value: "pl.Expr", start: str) -> "pl.Expr":
    """Whether texts begin so. Told by their order, for which polars has their first characters at hand;
    ``str.starts_with`` looks into each text.

    >>> import polars as pl
    >>> texts = pl.DataFrame({"text": ["--", "---", "-", "-a", "left", None]})
    >>> texts.select(begins(pl.col("text"), "--"))["text"].to_list()
    [True, True, False, False, False, None]
    """
    import polars as pl

    behind = start[:-1] + chr(ord(start[-1]) + 1)
    return value.is_between(pl.lit(start), pl.lit(behind), closed="left")


def parsed_date(column: "pl.Expr") -> "pl.Expr":
    """Text such as 2016-05-02 or 20160502 as a date; missing where it is none."""
    import polars as pl

    text = column.str.strip_chars()
    day = text.str.replace_all("-", "", literal=True).str.slice(0, 8).str.to_date("%Y%m%d", strict=False)
    return pl.when(text.str.contains(DATE)).then(day)


class Fault(NamedTuple):
    """Something that makes a report unusable: how it is found, and how one report and several are told of."""

    found: "pl.Expr"
    one: str
    many: str
    hint: str
    row: str  # of a row that has it
    column: str = ""  # where it is, if its own name is not the column's


def with_faults(
    frame: "pl.LazyFrame", *, expected_date: str = EXPECTED_DATE
) -> tuple["pl.LazyFrame", dict[str, Fault]]:
    """The frame's ids, texts and dates with the number of each row, and what can be wrong with them, by column."""
    import polars as pl

    schema = frame.collect_schema()
    parsed = [column for column in WHEN if column in schema]
    others = [name for name in schema.names() if name not in (*REQUIRED, *parsed)]
    raw = (pl.col(column).alias(AS_WRITTEN + column) for column in parsed)
    rows = with_dates(frame.select(*REQUIRED, *parsed, *raw, *others).with_row_index(PLACE))
    none = ("has none", "have none")
    faults = {
        "report_id": Fault(pl.col("report_id").is_null(), *none, "expected a unique id", "has no report_id"),
        "case_id": Fault(pl.col("case_id").is_null(), *none, "expected the id of the patient's case", "has no case_id"),
        "registry": Fault(pl.col("registry").is_null(), *none, "expected the registry it came from", "has no registry"),
        "registries": Fault(
            is_no_name(pl.col("registry")).fill_null(False),
            "has a text in the place of a name",
            "have a text in the place of a name",
            f"expected a registry's name, on one line and of at most {LONGEST_REGISTRY} characters",
            "has a text in the place of its registry's name",
            "registry",
        ),
        "text": no_text(),
        "messages": Fault(
            pl.any_horizontal(begins(pl.col("text"), start) for start in MESSAGE_STARTS).fill_null(False),
            "is an HL7 message",
            "are HL7 messages",
            IMPORT_MESSAGES,
            "holds an HL7 message in the place of its text",
            "text",
        ),
    }
    examples = {"date": expected_date, "year": "a whole number such as 2016"}
    for column in parsed:
        given = pl.col(AS_WRITTEN + column)
        if schema[column] == pl.String:
            given = pl.when(given.str.contains(r"\S")).then(given)
        elif schema[column].is_float():
            given = given.fill_nan(None)  # how pandas writes a missing year
        faults[column] = Fault(
            pl.col(column).is_null() & given.is_not_null(),
            "cannot be read",
            "cannot be read",
            f"expected {examples[column]}",
            f"has a {column} that cannot be read",
        )
    return rows, faults


def no_text() -> Fault:
    """The fault of a report that is coded as well as of one in a corpus."""
    import polars as pl

    found = ~holds_letters(pl.col("text")).fill_null(False)
    return Fault(found, "is empty", "are empty", "remove it or fill it in", "has no text")


def is_no_name(registry: "pl.Expr") -> "pl.Expr":
    """Whether registries are none: their names are shown wherever reports are counted, and such a text must not be."""
    return (registry.str.len_chars() > LONGEST_REGISTRY) | registry.str.contains("\n", literal=True)


def holds_letters(text: "pl.Expr") -> "pl.Expr":
    """Whether texts hold anything but blanks. Nearly all begin with a character that is seen, which polars keeps at
    hand: the others alone are looked at."""
    import polars as pl

    begins = text.is_between(pl.lit("!"), pl.lit("~"))
    return begins | pl.when(~begins).then(text).str.contains(r"\S")


def problems(frame: "pl.LazyFrame", *, expected_date: str = EXPECTED_DATE, source: Paths = "the corpus") -> list[str]:
    """What is wrong with the contents, one sentence each; empty when nothing is."""
    import polars as pl

    rows, faults = with_faults(frame, expected_date=expected_date)
    schema = frame.collect_schema()
    try:
        sums = (fault.found.sum().alias(column) for column, fault in faults.items())
        totals = rows.select(pl.len().alias("reports"), *sums).collect(engine="streaming").row(0, named=True)
        # What is looked at later must be readable as well: a damaged page of a label's column is found now.
        others = [name for name in schema.names() if name not in (*REQUIRED, *WHEN)]
        frame.select(pl.col(others).is_null().sum()).collect(engine="streaming")
        if not totals["reports"]:
            return [f"{names_of(source)}: no report found"]
        sentences = repeated_ids(frame)
        for column, fault in faults.items():
            if total := totals[column]:
                ids = first_ids(rows.filter(fault.found))
                reports = f"1 report {fault.one}" if total == 1 else f"{total:,} reports {fault.many}"
                sentences.append(f"column '{fault.column or column}': {reports} ({ids}); {fault.hint}")
        return sentences
    except polars_faults():
        raise CorpusError("the corpus cannot be read to its end; is a file cut short or damaged?") from None


def repeated_ids(frame: "pl.LazyFrame") -> list[str]:
    """A sentence on ids that are used more than once. Hashes are compared first: a million of them are eight MB."""
    import polars as pl

    hashes = frame.drop_nulls("report_id").select(pl.col("report_id").hash()).collect(engine="streaming")["report_id"]
    twice = hashes.filter(hashes.is_duplicated()).unique()
    if not len(twice):
        return []
    ids = frame.select("report_id").drop_nulls().filter(pl.col("report_id").hash().is_in(twice.implode()))
    again = ids.group_by("report_id").len().filter(pl.col("len") > 1).collect(engine="streaming")["report_id"].sort()
    if not len(again):
        return []
    ids = shortened([clipped(name) for name in again[:SHOWN]], total=len(again))
    count = "1 id is" if len(again) == 1 else f"{len(again):,} ids are"
    return [f"column 'report_id': {count} used by more than one report ({ids}); each report needs its own"]


def first_ids(rows: "pl.LazyFrame") -> str:
    """The first offending rows' ids, or their row numbers where they have none."""
    first = rows.select(PLACE, "report_id").head(SHOWN + 1).collect(engine="streaming").sort(PLACE)
    names = [clipped(name) if name else f"row {row + 1:,}" for row, name in first.iter_rows()]
    return shortened(names)


def shortened(names: Sequence[str], *, total: int | None = None) -> str:
    """The first few names, and a sign where there are more (of ``total``, if not all are given)."""
    more = (len(names) if total is None else total) > SHOWN
    return ", ".join(names[:SHOWN]) + (", …" if more else "")


def clipped(name: str) -> str:
    """An id, unless it looks like a text or a name in the wrong column, of which no message tells more than its length.

    >>> clipped("S97-1234"), clipped("S 97 1234"), clipped("Doe"), clipped("Doe Jane 7"), clipped("in 3 cores " * 9)
    ('S97-1234', 'S 97 1234', 'an id of 3 characters', 'an id of 10 characters', 'an id of 99 characters')
    """
    usual = len(name) <= LONGEST_ID and all(len(word) < 3 or re.search(r"\d", word) for word in name.split())
    return name if usual else f"an id of {len(name)} characters"


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """A hint at the column that was perhaps meant: a name like it and hardly longer, since in a table without a header
    the names may be what reports say.

    >>> did_you_mean("report_id", ["Report ID"]), did_you_mean("report_id", ["report_id of Jane Doe"])
    (" (did you mean 'Report ID'?)", '')
    """
    short = [other.lower() for other in names if len(other) <= len(name) + 4]
    close = difflib.get_close_matches(name.lower(), short, n=1, cutoff=0.6)
    return next((f" (did you mean '{other}'?)" for other in names if close and other.lower() == close[0]), "")
