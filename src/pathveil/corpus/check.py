"""Judge a corpus as a careful data manager would, before anything is trained on it.

One streaming pass turns every report into a few numbers (``facts``: hashes, length, year, flags, labels; about 150
bytes), and all tables and warnings come from those, so the texts of a million reports never need to fit in memory.
What is reported are counts and report ids, never text.

>>> import polars as pl
>>> reports = pl.LazyFrame({"report_id": ["a", "b", "c"], "case_id": ["1", "1", "2"], "registry": ["R1", "R2", "R2"],
...                         "text": ["left breast, C50.4", "benign", "benign"], "subsite": ["C50.4", "C50.4", None]})
>>> result = check(reports)
>>> result["reports"], result["cases"], result["tasks"]["subsite"]["labelled"]
(3, 2, 2)
>>> [warning["id"] for warning in result["warnings"]]
['leaked-labels', 'shared-cases', 'repeated-texts', 'constant-task', 'rare-classes', 'undated', 'short-texts']
"""

import datetime
from collections.abc import Callable, Iterable
from itertools import combinations
from typing import TYPE_CHECKING, Any

from pathveil.corpus.schema import SHOWN, clipped, listed, tasks_of, validate
from pathveil.progress import Progress, silent

if TYPE_CHECKING:
    import polars as pl

CLIP = 1500  # words a model reads of a report (both papers)
SHORT = 10  # words; less is rarely a report
RARE = 5  # reports; a class below cannot be learnt, scored or hidden
CONSTANT = 0.95  # share of one class from which a task measures nothing
BUCKETS = ((1, 1), (2, 4), (5, 19), (20, 99), (100, None))  # classes by their number of reports

# Literal ICD-O-3 codes: topography with its point, morphology with its behavior. (ASCII classes: they are faster.)
CODE = r"(?-u:\b)[Cc][0-8][0-9]\.[0-9](?-u:\b)|(?-u:\b)[89][0-9]{3} ?/ ?[0-369](?-u:\b)"
NUMBER = r"(?-u:\b)[0-9]{3}-[0-9]{2}-[0-9]{4}(?-u:\b)|[0-9]{3}\)?[-. ][0-9]{3}[-. ][0-9]{4}(?-u:\b)"
NAMED_NUMBER = (
    r"(?i)(?:mrn|medical record|ssn|social security|date of birth|dob|d\.o\.b)[^\w\n]{0,9}(?:no|number)?"
    r"[^\w\n]{0,5}[0-9]{1,2}[0-9/.-]{2}"
)
MAIL = r"\w@\w+\.\w"
DAMAGE = r"[\x00-\x08\x0b\x0e-\x1f\x{FFFD}]"
MARKUP = r"\{\\rtf|<(?:html|HTML|body|BODY|div|DIV|span|SPAN|br|BR|p|P)[ />]"


def check(
    frame: "pl.LazyFrame",
    *,
    tasks: Iterable[str] | None = None,
    today: datetime.date | None = None,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Counts by registry, task, class rarity, length and year, the overlap of registries, and warnings."""
    progress("checking the schema", 0, 0)
    frame = validate(frame)
    chosen = tasks_of(frame, tasks)
    progress("reading texts", 0, 0)
    facts = facts_of(frame, chosen)
    progress("counting", 0, 0)
    result: dict[str, Any] = {
        "reports": facts.height,
        "cases": facts["case"].n_unique(),
        "registries": registries_of(facts, chosen),
        "years": years_of(facts),
        "words": words_of(facts),
        "tasks": {task: task_of(facts, task) for task in chosen},
        "overlap": overlap_of(facts, chosen),
    }
    result["warnings"] = warnings_of(facts, result, chosen, year=(today or datetime.date.today()).year)
    return result


def facts_of(frame: "pl.LazyFrame", tasks: Iterable[str]) -> "pl.DataFrame":
    """What the tables need of each report, without its text."""
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
    """Whether a text holds the very code that is its label: C50.4, or 8500/3 made of histology and behavior."""
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


def registries_of(facts: "pl.DataFrame", tasks: Iterable[str]) -> dict[str, dict[str, Any]]:
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
        rows[name] = row | {"labelled": labelled}
    return rows


def years_of(facts: "pl.DataFrame") -> dict[str, int]:
    counts = facts.drop_nulls("when").group_by("when").len().sort("when")
    return {str(year): count for year, count in counts.iter_rows()}


def words_of(facts: "pl.DataFrame") -> dict[str, Any]:
    import numpy as np

    words = facts["words"].to_numpy()
    edges = [0, 50, 100, 200, 400, 800, CLIP + 1, 3000]
    counts, _ = np.histogram(words, bins=[*edges, np.inf])
    return {
        "median": int(np.median(words)),
        "mean": round(float(words.mean()), 1),
        "p95": int(np.quantile(words, 0.95)),
        "longest": int(words.max()),
        "clipped": int((words > CLIP).sum()),
        "spread": [{"from": start, "reports": int(count)} for start, count in zip(edges, counts, strict=True)],
    }


def task_of(facts: "pl.DataFrame", task: str) -> dict[str, Any]:
    """A task's classes and how rare they are."""
    import polars as pl

    labels = facts[f"task {task}"].drop_nulls().cast(pl.String)
    counts = labels.value_counts().sort("count", task_column(task), descending=[True, False])
    reports = counts["count"]
    largest = counts.row(0) if counts.height else (None, 0)

    def bucket(low: int, high: int | None) -> dict[str, Any]:
        inside = reports.filter((reports >= low) & (reports <= (high or facts.height)))
        return {"from": low, "to": high, "classes": len(inside), "reports": int(inside.sum())}

    return {
        "labelled": len(labels),
        "missing": facts.height - len(labels),
        "classes": counts.height,
        "largest": largest[0],
        "largest_share": round(largest[1] / max(len(labels), 1), 4),
        "rarity": [bucket(low, high) for low, high in BUCKETS],
    }


def task_column(task: str) -> str:
    return f"task {task}"


def overlap_of(facts: "pl.DataFrame", tasks: tuple[str, ...]) -> dict[str, Any]:
    """What registries share: cases and texts that should not be, and how alike their classes are."""
    import polars as pl

    def shared(column: str) -> dict[tuple[str, str], int]:
        pairs = facts.select(column, pl.col("registry").cast(pl.String)).unique()
        groups = pairs.filter(pl.len().over(column) > 1).group_by(column).agg(pl.col("registry").sort())
        counts: dict[tuple[str, str], int] = {}
        for names, count in groups.group_by("registry").len().iter_rows():
            for pair in combinations(names, 2):
                counts[pair] = counts.get(pair, 0) + count
        return counts

    cases, texts = shared("case"), shared("content")
    names = sorted(facts["registry"].cast(pl.String).unique())
    mixes = {name: mix_of(facts, name, tasks[0]) for name in names} if tasks else {}
    pairs = []
    for one, other in combinations(names, 2):
        row: dict[str, Any] = {"registries": [one, other], "cases": cases.get((one, other), 0)}
        row["texts"] = texts.get((one, other), 0)
        if tasks:
            mine, theirs = mixes[one], mixes[other]
            row["same_mix"] = round(sum(min(share, theirs.get(label, 0.0)) for label, share in mine.items()), 3)
        pairs.append(row)
    own = {}
    for name in names:
        here = facts.filter(pl.col("registry").cast(pl.String) == name)
        away = facts.filter(pl.col("registry").cast(pl.String) != name)
        own[name] = {
            task: len(set(here[task_column(task)].drop_nulls()) - set(away[task_column(task)].drop_nulls()))
            for task in tasks
        }
    return {"pairs": pairs, "only_here": own, "mix_task": tasks[0] if tasks else None}


def mix_of(facts: "pl.DataFrame", registry: str, task: str) -> dict[str, float]:
    """The share of each class among a registry's labelled reports."""
    import polars as pl

    labels = facts.filter(pl.col("registry").cast(pl.String) == registry)[task_column(task)].drop_nulls()
    return {label: count / len(labels) for label, count in labels.cast(pl.String).value_counts().iter_rows()}


def warnings_of(
    facts: "pl.DataFrame", result: dict[str, Any], tasks: tuple[str, ...], *, year: int
) -> list[dict[str, Any]]:
    """What to mend or to know, gravest first: an id, a sentence, how many, and the first reports concerned."""
    import polars as pl

    found: list[dict[str, Any]] = []
    reports = facts.height

    def warn(name: str, sentence: str, count: int, where: "pl.Series | None" = None) -> None:
        if count:
            ids = [clipped(report) for report in facts["report_id"].filter(where)[:SHOWN]] if where is not None else []
            found.append({"id": name, "count": count, "sentence": sentence, "reports": ids})

    def share(count: int, verb: str) -> str:
        part = f" ({count / reports:.1%})" if count >= reports / 1000 else ""
        singular = {"have": "has", "are": "is"}.get(verb, f"{verb}s")
        return f"{count:,} of {reports:,} reports{part} {singular if count == 1 else verb}"

    def flagged(column: str) -> tuple[int, "pl.Series"]:
        return int(facts[column].sum()), facts[column]

    count, where = flagged("code")
    own = int(facts["own code"].sum())
    of_them = f"; in {own:,} it is the report's own label" if own else ""
    warn(
        "leaked-labels",
        f"{share(count, 'hold')} a literal ICD-O-3 code{of_them}: a model may read the label instead of the report",
        count,
        facts["own code"] if own else where,
    )
    several = facts.select((pl.col("registry").n_unique().over("case") > 1).alias("x"))["x"]
    count = facts["case"].filter(several).n_unique()
    warn(
        "shared-cases",
        f"{count:,} cases are in more than one registry: a split by registry is not apart",
        count,
        several,
    )
    again = facts.select((pl.col("case").n_unique().over("content") > 1).alias("x"))["x"]
    warn(
        "repeated-texts",
        f"{share(int(again.sum()), 'have')} word for word the text of another case",
        int(again.sum()),
        again,
    )
    count, where = flagged("identifier")
    warn(
        "identifiers",
        f"{share(count, 'hold')} what looks like a record number, birth date, phone or e-mail",
        count,
        where,
    )
    for task in tasks:
        task_warnings(facts, result, task, warn)
    code_warnings(facts, tasks, warn)
    undated = facts["when"].is_null()
    warn("undated", f"{share(int(undated.sum()), 'have')} neither a date nor a year", int(undated.sum()), undated)
    odd = ((facts["when"] < 1950) | (facts["when"] > year)).fill_null(False)
    warn("odd-years", f"{share(int(odd.sum()), 'are')} dated before 1950 or after {year}", int(odd.sum()), odd)
    count, where = flagged("years differ")
    warn("years-differ", f"{share(count, 'have')} a date and a year that differ", count, where)
    short = facts["words"] < SHORT
    warn("short-texts", f"{share(int(short.sum()), 'have')} fewer than {SHORT} words", int(short.sum()), short)
    count, where = flagged("damage")
    warn(
        "damaged-texts",
        f"{share(count, 'hold')} control or replacement characters: an encoding went wrong",
        count,
        where,
    )
    count, where = flagged("markup")
    warn("markup", f"{share(count, 'hold')} RTF or HTML markup", count, where)
    return found


def task_warnings(facts: "pl.DataFrame", result: dict[str, Any], task: str, warn: Callable[..., None]) -> None:
    """What a single task's labels give cause to say."""
    import polars as pl

    about, column = result["tasks"][task], facts[task_column(task)]
    if not about["labelled"]:
        warn("empty-task", f"task {task} has no label at all", facts.height)
        return
    if about["largest_share"] >= CONSTANT and about["labelled"] > 1:
        warn(
            "constant-task",
            f"task {task} is nearly constant: {about['largest']} is {about['largest_share']:.1%} of its labels",
            about["labelled"],
        )
    rare = [bucket for bucket in about["rarity"] if bucket["from"] < RARE]
    classes, reports = sum(bucket["classes"] for bucket in rare), sum(bucket["reports"] for bucket in rare)
    once = rare[0]["classes"]
    warn(
        "rare-classes",
        f"task {task} has {classes:,} of {about['classes']:,} classes with fewer than {RARE} reports "
        f"({once:,} with one), {reports:,} reports in all: hardly learnt, and easily recognised",
        classes,
    )
    if about["missing"] > facts.height / 2:
        warn(
            "missing-labels",
            f"task {task} has no label in {about['missing'] / facts.height:.0%} of reports",
            about["missing"],
        )
    without = [name for name, row in result["registries"].items() if not row["labelled"][task]]
    warn("registry-without-task", f"task {task} has no label in {listed(without[:SHOWN], len(without))}", len(without))
    spelt = column.unique().drop_nulls().cast(pl.String)
    doubled = len(spelt) - spelt.str.to_uppercase().str.replace_all(r"[\s._-]", "").n_unique()
    warn(
        "spelling", f"task {task} has {doubled:,} labels that differ from another only in case or punctuation", doubled
    )
    pairs = facts.select(pl.col("case"), pl.col(task_column(task)).alias("label")).drop_nulls()
    unlike = pairs.group_by("case").agg(pl.col("label").n_unique().alias("n")).filter(pl.col("n") > 1)["case"]
    where = facts["case"].is_in(unlike.implode()) if len(unlike) else None
    warn("differing-labels", f"task {task} has more than one label within {len(unlike):,} cases", len(unlike), where)


def code_warnings(facts: "pl.DataFrame", tasks: tuple[str, ...], warn: Callable[..., None]) -> None:
    """Codes that do not fit each other."""
    import polars as pl

    if {"site", "subsite"} <= set(tasks):
        site, subsite = (facts[task_column(task)].cast(pl.String) for task in ("site", "subsite"))
        outside = (site != subsite.str.slice(0, 3)).fill_null(False) & subsite.str.contains(r"^C\d\d").fill_null(False)
        count = int(outside.sum())
        warn("subsite-outside-site", f"{count:,} reports have a subsite that is not within their site", count, outside)
