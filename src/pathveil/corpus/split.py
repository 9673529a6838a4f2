"""Divide a corpus into train, validation and test, never one case in two parts.

Either by case, a share of the cases drawn for testing; or by date as in the distribution paper (section II-A), where
cases with a report on or after a day are for testing, as a model meets them in production. The cases that are left are
divided 80:20 into train and validation. Both draws are stratified: cases stand in order of registry and of their rarest
label, shuffled within, and every n-th is taken, so each part gets its share of every class as far as cases allow. The
draw depends on the cases and the seed alone, not on the order of rows.

>>> import polars as pl
>>> reports = pl.LazyFrame({"report_id": list("abcdef"), "case_id": ["1", "1", "2", "3", "4", "5"],
...                         "registry": ["R"] * 6, "year": [2014, 2016, 2015, 2015, 2013, 2016]})
>>> parts = assign(reports, seed=1, validation=0.5, test_from="2016")
>>> parts.filter(pl.col("part") == "test")["case_id"].to_list(), parts["part"].value_counts().sort("part").rows()
(['1', '5'], [('test', 2), ('train', 2), ('validation', 1)])
"""

import datetime
import re
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pathveil.corpus.relevance import DAYS, relevant_reports
from pathveil.corpus.schema import scan, tasks_of, validate
from pathveil.corpus.tables.files import Paths, content_sha256, stream_parquet
from pathveil.errors import CorpusError, UsageError
from pathveil.files import check_new, check_writable, claimed, new_file, write_json
from pathveil.formatting import counted
from pathveil.progress import Progress, silent
from pathveil.results import Part, Result
from pathveil.rng import check_seed, generator

if TYPE_CHECKING:
    import numpy as np
    import polars as pl

PARTS = ("train", "validation", "test")
TEST = VALIDATION = 0.2


class PartCounts(Part):
    """What a part holds."""

    reports: int
    cases: int
    registries: dict[str, int]
    classes: dict[str, int]


class RelevanceCounts(Part):
    """Which reports were near enough to their case's date, and why others were not."""

    to: list[str]
    days: int
    kept: int
    outside: int
    without_date: int
    without_reference: int


class SplitResult(Result):
    """How a corpus was divided."""

    out: str
    corpus_sha256: str
    seed: int
    test: float | None  # share of the cases; none where cases were tested by date
    test_from: str | None
    validation: float
    relevance: RelevanceCounts | None = None
    parts: dict[str, PartCounts]
    untrained: dict[str, int]  # task: classes of the test that training never saw
    undated_cases: int

    def rows(self) -> list[dict[str, Any]]:
        return [
            {"part": name, "reports": part.reports, "cases": part.cases}
            | {f"classes_{task}": count for task, count in part.classes.items()}
            for name, part in self.parts.items()
        ]

    def summary(self) -> str:
        reports, cases = (sum(getattr(part, what) for part in self.parts.values()) for what in ("reports", "cases"))
        how = f"on or after {self.test_from}" if self.test_from else f"{self.test:.0%} of cases"
        lines = [
            f"{counted(reports, 'report')} of {counted(cases, 'case')} in {self.out}",
            f"test: {how}; validation: {self.validation:.0%} of the rest; seed {self.seed}",
        ]
        tasks = list(self.untrained)
        lines.append(f"  {'':<10}{'reports':>9}{'cases':>10}{'':5}" + "".join(f" {task}" for task in tasks))
        for name, part in self.parts.items():
            numbers = f"{part.reports:>9,}{part.cases:>10,}{part.cases / cases:>5.0%}"
            lines.append(f"  {name:<10}{numbers}" + "".join(f" {part.classes[task]:>{len(task)},}" for task in tasks))
        if any(self.untrained.values()):
            unseen = ", ".join(f"{count:,} {task}" for task, count in self.untrained.items() if count)
            lines.append(f"  the test has classes that training never saw: {unseen}")
        if rule := self.relevance:
            lines.append(
                f"  kept {counted(rule.kept, 'report')} within {counted(rule.days, 'day')} of {' or '.join(rule.to)};"
            )
            lines.append(
                f"  left out {rule.outside:,} that are further away, {rule.without_date:,} without a date, "
                f"{rule.without_reference:,} of cases without that date"
            )
        if self.test_from and self.undated_cases:
            lines.append(f"  {counted(self.undated_cases, 'case')} without any date went to train and validation")
        return "\n".join(lines)


def split_corpus(
    sources: Paths,
    *,
    out: Path,
    seed: int,
    test: float | None = None,
    validation: float = VALIDATION,
    test_from: str | None = None,
    relevant_to: Sequence[str] = (),
    days: int = DAYS,
    tasks: Iterable[str] | None = None,
    progress: Progress = silent,
) -> SplitResult:
    """Write ``train``, ``validation`` and ``test.parquet`` and ``split.json`` into ``out``, a new folder."""
    check_seed(seed)
    check_new(out)
    check_writable(out)
    progress("checking", 0, 0)
    frame = validate(scan(sources, tasks=tasks), source=sources)
    relevance = None
    if relevant_to:
        frame, counts = relevant_reports(frame, to=relevant_to, days=days)
        relevance = RelevanceCounts(to=list(relevant_to), days=days, **counts)
        if not relevance.kept:
            raise CorpusError(f"no report lies within {days} days of {' or '.join(relevant_to)}")
    parts = assign(frame, seed=seed, test=test, validation=validation, test_from=test_from, tasks=tasks)
    chosen = tasks_of(frame, tasks)
    counted = count_parts(frame, parts)
    labels = labels_of_parts(frame, parts, chosen)
    result = SplitResult(
        out=str(out),
        corpus_sha256=content_sha256(sources),
        seed=seed,
        test=(TEST if test is None else test) if test_from is None else None,
        test_from=test_from,
        validation=validation,
        relevance=relevance,
        parts={
            part: PartCounts(**numbers, classes={task: len(labels[task].get(part, ())) for task in chosen})
            for part, numbers in counted.items()
        },
        untrained={task: len(labels[task].get("test", set()) - labels[task].get("train", set())) for task in chosen},
        undated_cases=count_undated(frame, parts),
    )
    with claimed(out / "split.json"):  # parts of two draws in one folder would have cases on both sides
        write_parts(frame, parts, out, progress=progress)
        write_json(out / "split.json", result.to_dict())
    return result


def write_parts(frame: "pl.LazyFrame", parts: "pl.DataFrame", out: Path, *, progress: Progress) -> None:
    """One Parquet file a part; none takes its name before all are written."""
    import polars as pl

    made = [part for part in PARTS if part in parts["part"]]
    with ExitStack() as files:
        for number, part in enumerate(made):
            progress("writing", number, len(made))
            cases = parts.filter(pl.col("part") == part)["case_id"].implode()
            path = out / f"{part}.parquet"
            unfinished = files.enter_context(new_file(path, error=CorpusError))
            stream_parquet(frame.filter(pl.col("case_id").is_in(cases)), unfinished, path)


def assign(
    frame: "pl.LazyFrame",
    *,
    seed: int,
    test: float | None = None,
    validation: float = VALIDATION,
    test_from: str | None = None,
    tasks: Iterable[str] | None = None,
) -> "pl.DataFrame":
    """Draw each case's part: a frame of ``case_id`` and ``part``, in order of case_id."""
    import numpy as np
    import polars as pl

    if test_from is not None and test is not None:
        raise UsageError("--test and --test-from exclude each other; cases are tested by share or by date")
    for name, share in (("--test", test), ("--validation", validation)):
        if share is not None and not (isinstance(share, Real) and 0 <= share < 1):
            told = f"{share:g}" if isinstance(share, Real) else type(share).__name__
            raise UsageError(f"{name} {told} is no share of the cases; expected 0 or more and below 1")
    share = TEST if test is None else test
    cases = cases_of(frame, tasks_of(frame, tasks))
    rng = generator(seed)
    part = np.zeros(cases.height, np.int8)  # 0 train, 1 validation, 2 test
    if test_from is not None:
        part[on_or_after(cases["day"].to_numpy(), test_from)] = 2
    else:
        part[draw_share(cases, np.arange(cases.height), share, rng)] = 2
    left = np.flatnonzero(part == 0)
    part[draw_share(cases, left, validation, rng)] = 1
    for number, (name, wanted) in enumerate((("train", 1), ("validation", validation), ("test", test_from or share))):
        if wanted and not (part == number).any():
            raise CorpusError(
                f"of {counted(cases.height, 'case')} none is left for {name}; the corpus is too small for these shares"
            )
    return cases.select("case_id", pl.Series("part", [PARTS[number] for number in part]))


def cases_of(frame: "pl.LazyFrame", tasks: Sequence[str]) -> "pl.DataFrame":
    """One row for each case: its registry, its stratum, and the day of its last dated report."""
    import polars as pl

    cases = (
        frame.group_by("case_id")
        .agg(
            pl.col("registry").min(),
            known_day(frame).max().alias("day"),
            *(pl.col(task).drop_nulls().min() for task in tasks),
        )
        .collect(engine="streaming")
        .sort("case_id")
    )
    # The rarest of a case's labels is the one whose even division matters most.
    counts = [pl.len().over(task).alias(f"count {task}") for task in tasks]
    cases = cases.with_columns(counts).with_columns(
        pl.when(pl.col(task).is_not_null()).then(pl.col(f"count {task}")).alias(f"count {task}") for task in tasks
    )
    rarest = pl.min_horizontal(f"count {task}" for task in tasks) if tasks else pl.lit(0)
    label = pl.coalesce(
        *(pl.when(pl.col(f"count {t}") == rarest).then(pl.concat_str(pl.lit(f"{t} "), pl.col(t))) for t in tasks),
        pl.lit(""),
    )
    return cases.select("case_id", "registry", label.alias("stratum"), "day")


def draw_share(cases: "pl.DataFrame", rows: "np.ndarray", share: float, rng: "np.random.Generator") -> "np.ndarray":
    """A share of the rows, spread evenly over registries and strata: every n-th of a shuffled, sorted list."""
    import numpy as np

    order = rng.permutation(rows)
    keys = cases.select("registry", "stratum")[order]
    order = order[np.lexsort((keys["stratum"].rank("dense").to_numpy(), keys["registry"].rank("dense").to_numpy()))]
    steps = np.floor((np.arange(len(order) + 1) * share) + rng.random())
    return order[np.diff(steps) > 0]


def known_day(frame: "pl.LazyFrame") -> "pl.Expr":
    """A report's day: its date, else the first of its year; missing where it has neither."""
    import polars as pl

    names = frame.collect_schema().names()
    days = [pl.col("date")] * ("date" in names) + [pl.date(pl.col("year"), 1, 1)] * ("year" in names)
    return pl.max_horizontal(days) if days else pl.lit(None, pl.Date)


def on_or_after(days: "np.ndarray", day: str, *, option: str = "--test-from") -> "np.ndarray":
    """Mark the days (datetime64[D], see ``known_day``) that are ``day`` or later; a missing one is not.

    >>> import numpy as np
    >>> on_or_after(np.array(["2015-01-01", "2016-03-02", "NaT"], "datetime64[D]"), "2016").tolist()
    [False, True, False]
    """
    import numpy as np

    first = first_day(day, option=option)
    known = days[~np.isnat(days)]
    if not len(known):
        raise CorpusError(f"{option} needs a column 'date' or 'year'; the corpus has neither")
    if (first.month, first.day) != (1, 1) and (known == known.astype("datetime64[Y]")).all():
        raise UsageError(f"{option} {day}: the corpus has years only; expected a year such as {first.year}")
    late = days >= np.datetime64(first)
    if not late.any():
        raise CorpusError(f"no case has a report on or after {day}, so there is nothing to test on")
    return late


def first_day(day: str, *, option: str = "--test-from") -> datetime.date:
    if re.fullmatch(r"(?a:\d{4})", day):
        day = f"{day}-01-01"
    try:
        return datetime.date.fromisoformat(day)
    except ValueError:
        raise UsageError(f"{option} {day} is no date; expected 2016-01-01, or 2016 for its first day") from None


def count_parts(frame: "pl.LazyFrame", parts: "pl.DataFrame") -> dict[str, dict[str, Any]]:
    """Reports and cases of each part, and its reports by registry."""
    import polars as pl

    reports = frame.select("case_id", "registry").join(parts.lazy(), on="case_id", how="inner")
    by_registry = reports.group_by("part", "registry").len().collect(engine="streaming").sort("part", "registry")
    counts = {}
    for part in PARTS:
        rows = by_registry.filter(pl.col("part") == part)
        if cases := parts.filter(pl.col("part") == part).height:
            registries = dict(rows.select("registry", "len").iter_rows())
            counts[part] = {"reports": int(rows["len"].sum()), "cases": cases, "registries": registries}
    return counts


def labels_of_parts(
    frame: "pl.LazyFrame", parts: "pl.DataFrame", tasks: Sequence[str]
) -> dict[str, dict[str, set[str]]]:
    """For each task the labels that each part has."""
    import polars as pl

    reports = frame.select("case_id", *tasks).join(parts.lazy(), on="case_id", how="inner")
    labels = {}
    for task in tasks:
        groups = reports.drop_nulls(task).group_by("part").agg(pl.col(task).unique())
        labels[task] = {part: set(names) for part, names in groups.collect(engine="streaming").iter_rows()}
    return labels


def count_undated(frame: "pl.LazyFrame", parts: "pl.DataFrame") -> int:
    """How many cases have no report with a date or a year."""
    import polars as pl

    dates = [pl.col(column).is_not_null() for column in ("date", "year") if column in frame.collect_schema()]
    known = frame.filter(pl.any_horizontal(dates)) if dates else frame.head(0)
    return parts.height - known.select(pl.col("case_id").n_unique()).collect(engine="streaming").item()
