"""Judge a corpus as a careful data manager would, before anything is trained on it.

One streaming pass turns every report into a few numbers (``facts``: hashes, length, year, flags, labels; about 150
bytes), and all tables and warnings come from those, so the texts of a million reports never need to fit in memory.
What is reported are counts and report ids, never text.

>>> import polars as pl
>>> reports = pl.LazyFrame({"report_id": ["a", "b", "c"], "case_id": ["1", "1", "2"], "registry": ["R1", "R2", "R2"],
...                         "text": ["left breast, C50.4", "benign", "benign"], "subsite": ["C50.4", "C50.4", None]})
>>> result = check(reports)
>>> result.reports, result.cases, result.tasks["subsite"].labelled
(3, 2, 2)
>>> [warning.id for warning in result.warnings]
['leaked-labels', 'shared-cases', 'repeated-texts', 'constant-task', 'rare-classes', 'undated', 'short-texts']
"""

import datetime
import io
from collections.abc import Iterable
from itertools import combinations
from typing import TYPE_CHECKING, Any

from pydantic import Field

from pathveil.corpus.check_warnings import CorpusWarning, warnings_of
from pathveil.corpus.schema import tasks_of, validate
from pathveil.corpus.tables.files import Paths, polars_faults
from pathveil.errors import CorpusError
from pathveil.icdo.codes import showable_label
from pathveil.progress import Progress, silent
from pathveil.results import Part, Result

if TYPE_CHECKING:
    import polars as pl

CLIP = 1500  # words a model reads of a report (both papers)
BUCKETS = ((1, 1), (2, 4), (5, 19), (20, 99), (100, None))  # classes by their number of reports

# Literal ICD-O-3 codes: topography with its point, morphology with its behavior. (ASCII classes: they are faster.)
CODE = r"(?-u:\b)[Cc][0-8][0-9]\.[0-9](?-u:\b)|(?-u:\b)[89][0-9]{3} ?/ ?[0-369](?-u:\b)"
NUMBER = r"(?-u:\b)[0-9]{3}-[0-9]{2}-[0-9]{4}(?-u:\b)|[0-9]{3}\)?[-. ][0-9]{3}[-. ][0-9]{4}(?-u:\b)"
NAMED_NUMBER = (
    r"(?i)(?:mrn|medical record|ssn|social security|date of birth|dob|d\.o\.b)[^\w\n]{0,9}(?:no|number)?"
    r"[^\w\n]{0,5}[0-9]{1,2}[0-9/.-]{2}"
)
MAIL = r"\w@\w+\.\w"
DAMAGE = r"[\x00-\x08\x0b\x0e-\x1f\x{FFFD}]|[ÂÃ][\x{80}-\x{BF}ŒœŠšŸŽžƒˆ˜–—‘’‚“”„†‡•…‰‹›€™]|â[€‰]"
MARKUP = r"\{\\rtf|<(?:html|HTML|body|BODY|div|DIV|span|SPAN|br|BR|p|P)[ />]"


class RegistryCounts(Part):
    """What a registry holds."""

    reports: int
    cases: int
    median_words: int
    first_year: int | None
    last_year: int | None
    labelled: dict[str, int]  # task: reports with a label


class LengthBucket(Part):
    """Reports of ``start`` words or more, but fewer than the next bucket's start."""

    start: int = Field(serialization_alias="from")
    reports: int


class WordCounts(Part):
    """How long reports are, in words."""

    median: int
    mean: float
    p95: int
    longest: int
    clipped: int  # reports longer than what a model reads
    spread: list[LengthBucket]


class RarityBucket(Part):
    """Classes that have from ``low`` to ``high`` reports."""

    low: int = Field(serialization_alias="from")
    high: int | None = Field(serialization_alias="to")
    classes: int
    reports: int


class TaskCounts(Part):
    """A task's classes and how rare they are."""

    labelled: int
    missing: int
    classes: int
    largest: str | None
    largest_share: float
    rarity: list[RarityBucket]


class RegistryPair(Part):
    """What two registries share."""

    registries: tuple[str, str]
    cases: int
    texts: int
    same_mix: float | None  # the share of their class mix that is the same


class Overlap(Part):
    """What registries share, and what only one has."""

    pairs: list[RegistryPair]
    only_here: dict[str, dict[str, int]]  # registry: {task: classes that no other has}
    mix_task: str | None  # the task whose mix is compared


class CheckResult(Result):
    """What is in a corpus, and what to mend or to know."""

    reports: int
    cases: int
    registries: dict[str, RegistryCounts]
    years: dict[str, int]
    words: WordCounts
    tasks: dict[str, TaskCounts]
    overlap: Overlap
    warnings: list[CorpusWarning]

    def rows(self) -> list[dict[str, Any]]:
        return [warning.to_dict() for warning in self.warnings]

    def summary(self) -> str:
        from rich.console import Console

        from pathveil.corpus.check_page import page

        text = io.StringIO()
        Console(file=text, width=80).print(page(self, title="Corpus"))
        return text.getvalue().rstrip()


def check(
    frame: "pl.LazyFrame",
    *,
    tasks: Iterable[str] | None = None,
    today: datetime.date | None = None,
    source: Paths = "the corpus",
    progress: Progress = silent,
) -> CheckResult:
    """Count by registry, task, rarity, length and year, compare the registries, and collect warnings."""
    progress("checking the schema", 0, 0)
    frame = validate(frame, source=source)
    try:
        chosen = tasks_of(frame, tasks)
        progress("reading texts", 0, 0)
        facts = facts_of(frame, chosen)
    except polars_faults():
        raise CorpusError("the corpus changed while it was read; check it once it is whole") from None
    progress("counting", 0, 0)
    year = (today or datetime.date.today()).year
    return CheckResult(
        reports=facts.height,
        cases=facts["case"].n_unique(),
        registries=registries_of(facts, chosen),
        years=years_of(facts),
        words=words_of(facts),
        tasks={task: task_of(facts, task) for task in chosen},
        overlap=overlap_of(facts, chosen),
        warnings=warnings_of(facts, chosen, year=year),
    )


ROUNDED = r"(?i)^\d(?:[.,]\d+)?E\+\d+$"  # 1.23E+11, as spreadsheets write long numbers


def facts_of(frame: "pl.LazyFrame", tasks: Iterable[str]) -> "pl.DataFrame":
    """Turn each report into the few numbers that the tables need; its text is not among them."""
    import polars as pl

    text, names = pl.col("text"), frame.collect_schema().names()
    year = pl.lit(None, pl.Int32)
    if "year" in names:
        year = pl.col("year")
    if "date" in names:
        year = pl.coalesce(pl.col("date").dt.year(), year)
    both = pl.col("date").dt.year() != pl.col("year") if {"date", "year"} <= set(names) else pl.lit(False)
    return frame.select(
        "report_id",
        pl.col("registry").cast(pl.Categorical),
        pl.col("case_id").hash().alias("case"),
        pl.col("case_id").str.contains(ROUNDED).alias("rounded"),
        text.str.strip_chars().hash().alias("content"),
        text.str.count_matches(r"\S+").alias("words"),
        year.cast(pl.Int32).alias("when"),
        both.fill_null(False).alias("years differ"),
        (text.str.contains(CODE) | own_code(names)).alias("code"),
        own_code(names).alias("own code"),
        (text.str.contains(NUMBER) | text.str.contains(NAMED_NUMBER) | text.str.contains(MAIL)).alias("identifier"),
        text.str.contains(DAMAGE).alias("damage"),
        text.str.contains(MARKUP).alias("markup"),
        *(pl.col(task).cast(pl.Categorical).alias(f"task {task}") for task in tasks),
    ).collect(engine="streaming")


def own_code(names: list[str]) -> "pl.Expr":
    """Whether a text holds its own label as a code: C50.4, or 8500/3 made of histology and behavior."""
    import polars as pl

    found = pl.lit(False)
    if "subsite" in names:
        code = pl.col("subsite")
        literal = pl.col("text").str.contains(code, literal=True) | pl.col("text").str.contains(
            code.str.to_lowercase(), literal=True
        )
        found = found | (code.str.contains(r"^C\d{2}\.\d$") & literal).fill_null(False)
    if {"histology", "behavior"} <= set(names):
        code = pl.concat_str("histology", "behavior", separator="/")
        found = found | (code.str.contains(r"^\d{4}/\d$") & pl.col("text").str.contains(code, literal=True)).fill_null(
            False
        )
    return found


def registries_of(facts: "pl.DataFrame", tasks: Iterable[str]) -> dict[str, RegistryCounts]:
    import polars as pl

    table = facts.group_by(pl.col("registry").cast(pl.String)).agg(
        pl.len().alias("reports"),
        pl.col("case").n_unique().alias("cases"),
        pl.col("words").median().cast(pl.Int64).alias("median_words"),
        pl.col("when").min().alias("first_year"),
        pl.col("when").max().alias("last_year"),
        *(pl.col(f"task {task}").count().alias(f"labelled {task}") for task in tasks),
    )
    rows = {}
    for row in table.sort("registry").iter_rows(named=True):
        name, labelled = row.pop("registry"), {task: row.pop(f"labelled {task}") for task in tasks}
        rows[name] = RegistryCounts(**row, labelled=labelled)
    return rows


def years_of(facts: "pl.DataFrame") -> dict[str, int]:
    counts = facts.drop_nulls("when").group_by("when").len().sort("when")
    return {str(year): count for year, count in counts.iter_rows()}


def words_of(facts: "pl.DataFrame") -> WordCounts:
    import numpy as np

    words = facts["words"].to_numpy()
    edges = [0, 50, 100, 200, 400, 800, CLIP + 1, 3000]
    counts, _ = np.histogram(words, bins=[*edges, np.inf])
    return WordCounts(
        median=int(np.median(words)),
        mean=round(float(words.mean()), 1),
        p95=int(np.quantile(words, 0.95)),
        longest=int(words.max()),
        clipped=int((words > CLIP).sum()),
        spread=[LengthBucket(start=start, reports=count) for start, count in zip(edges, counts.tolist(), strict=True)],
    )


def task_of(facts: "pl.DataFrame", task: str) -> TaskCounts:
    import polars as pl

    labels = facts[f"task {task}"].drop_nulls().cast(pl.String)
    counts = labels.value_counts().sort("count", f"task {task}", descending=[True, False])
    reports = counts["count"]
    largest = counts.row(0) if counts.height else (None, 0)

    def bucket(low: int, high: int | None) -> RarityBucket:
        inside = reports.filter((reports >= low) & (reports <= (high or facts.height)))
        return RarityBucket(low=low, high=high, classes=len(inside), reports=int(inside.sum()))

    return TaskCounts(
        labelled=len(labels),
        missing=facts.height - len(labels),
        classes=counts.height,
        largest=None if largest[0] is None else showable_label(task, largest[0]),
        largest_share=round(largest[1] / max(len(labels), 1), 4),
        rarity=[bucket(low, high) for low, high in BUCKETS],
    )


def overlap_of(facts: "pl.DataFrame", tasks: tuple[str, ...]) -> Overlap:
    """What registries share: cases and texts that should not be, and how alike their classes are."""
    import polars as pl

    cases, texts = shared_by_pairs(facts, "case"), shared_by_pairs(facts, "content")
    names = sorted(facts["registry"].cast(pl.String).unique())
    mixes = {name: mix_of(facts, name, tasks[0]) for name in names} if tasks else {}

    def same_mix(one: str, other: str) -> float:
        return round(sum(min(share, mixes[other].get(label, 0.0)) for label, share in mixes[one].items()), 3)

    pairs = [
        RegistryPair(
            registries=pair,
            cases=cases.get(pair, 0),
            texts=texts.get(pair, 0),
            same_mix=same_mix(*pair) if tasks else None,
        )
        for pair in combinations(names, 2)
    ]
    only_here = {}
    for name in names:
        own = facts.filter(pl.col("registry").cast(pl.String) == name)
        others = facts.filter(pl.col("registry").cast(pl.String) != name)
        only_here[name] = {
            task: len(set(own[f"task {task}"].drop_nulls()) - set(others[f"task {task}"].drop_nulls()))
            for task in tasks
        }
    return Overlap(pairs=pairs, only_here=only_here, mix_task=tasks[0] if tasks else None)


def shared_by_pairs(facts: "pl.DataFrame", column: str) -> dict[tuple[str, str], int]:
    """How many values of a column each two registries have in common."""
    import polars as pl

    values = facts.select(column, pl.col("registry").cast(pl.String)).unique()
    groups = values.filter(pl.len().over(column) > 1).group_by(column).agg(pl.col("registry").sort())
    counts: dict[tuple[str, str], int] = {}
    for names, count in groups.group_by("registry").len().iter_rows():
        for pair in combinations(names, 2):
            counts[pair] = counts.get(pair, 0) + count
    return counts


def mix_of(facts: "pl.DataFrame", registry: str, task: str) -> dict[str, float]:
    """The share of each class among a registry's labelled reports."""
    import polars as pl

    labels = facts.filter(pl.col("registry").cast(pl.String) == registry)[f"task {task}"].drop_nulls()
    return {label: count / len(labels) for label, count in labels.cast(pl.String).value_counts().iter_rows()}
