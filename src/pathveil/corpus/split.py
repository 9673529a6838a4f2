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
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pathveil.corpus.relevance import DAYS, relevant
from pathveil.corpus.schema import scan, tasks_of, validate
from pathveil.corpus.tables import Paths, content_sha256, replacing, write
from pathveil.errors import CorpusError, UsageError
from pathveil.progress import Progress, silent

if TYPE_CHECKING:
    import numpy as np
    import polars as pl

PARTS = ("train", "validation", "test")
TEST = VALIDATION = 0.2


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
) -> dict[str, Any]:
    """Write ``train.parquet``, ``validation.parquet``, ``test.parquet`` and ``split.json`` into the folder ``out``."""
    import polars as pl

    progress("checking", 0, 0)
    frame = validate(scan(sources, tasks=tasks))
    result: dict[str, Any] = {
        "out": str(out),
        "corpus_sha256": content_sha256(sources),
        "seed": seed,
        "test": (test if test is not None else TEST) if test_from is None else None,
        "test_from": test_from,
        "validation": validation,
    }
    if relevant_to:
        frame, counts = relevant(frame, to=relevant_to, days=days)
        result["relevance"] = {"to": list(relevant_to), "days": days, **counts}
        if not counts["kept"]:
            raise CorpusError(f"no report lies within {days} days of {' or '.join(relevant_to)}")
    parts = assign(frame, seed=seed, test=test, validation=validation, test_from=test_from, tasks=tasks)
    made = [part for part in PARTS if part in parts["part"]]
    written: list[tuple[Path, Path]] = []
    try:
        for number, part in enumerate(made):
            progress("writing", number, len(made))
            cases = parts.filter(pl.col("part") == part)["case_id"].implode()
            path, staged = out / f"{part}.parquet", out / f"{part}.parquet.staged"
            written.append((staged, path))
            write(frame.filter(pl.col("case_id").is_in(cases)), staged)
        result |= account(frame, parts, tasks_of(frame, tasks))
        for staged, path in written:
            os.replace(staged, path)
        for part in set(PARTS) - set(made):
            (out / f"{part}.parquet").unlink(missing_ok=True)  # of an earlier split into this folder
        with replacing(out / "split.json") as note:
            note.write_text(json.dumps(result, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    finally:
        for staged, _ in written:
            with suppress(OSError):
                staged.unlink(missing_ok=True)
    return result


def assign(
    frame: "pl.LazyFrame",
    *,
    seed: int,
    test: float | None = None,
    validation: float = VALIDATION,
    test_from: str | None = None,
    tasks: Iterable[str] | None = None,
) -> "pl.DataFrame":
    """``case_id`` and ``part`` of every case, in order of case_id."""
    import numpy as np
    import polars as pl

    if test_from is not None and test is not None:
        raise UsageError("--test and --test-from exclude each other; cases are tested by share or by date")
    for name, share in (("--test", test), ("--validation", validation)):
        if share is not None and not 0 <= share < 1:
            raise UsageError(f"{name} {share:g} is no share of the cases; expected 0 or more and below 1")
    share = TEST if test is None else test
    cases = cases_of(frame, tasks_of(frame, tasks))
    rng = np.random.default_rng(seed)
    part = np.zeros(cases.height, np.int8)  # 0 train, 1 validation, 2 test
    if test_from is not None:
        part[on_or_after(cases["day"].to_numpy(), test_from)] = 2
    else:
        part[drawn(cases, np.arange(cases.height), share, rng)] = 2
    left = np.flatnonzero(part == 0)
    part[drawn(cases, left, validation, rng)] = 1
    for number, (name, wanted) in enumerate((("train", 1), ("validation", validation), ("test", test_from or share))):
        if wanted and not (part == number).any():
            raise CorpusError(f"{cases.height:,} cases leave none for {name}; the corpus is too small for these shares")
    return cases.select("case_id", pl.Series("part", [PARTS[number] for number in part]))


def cases_of(frame: "pl.LazyFrame", tasks: Sequence[str]) -> "pl.DataFrame":
    """One row a case: its registry, its stratum, and the last day it is known to have a report of."""
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


def drawn(cases: "pl.DataFrame", rows: "np.ndarray", share: float, rng: "np.random.Generator") -> "np.ndarray":
    """A share of the rows, spread evenly over registries and strata: every n-th of a shuffled, sorted list."""
    import numpy as np

    order = rng.permutation(rows)
    keys = cases.select("registry", "stratum")[order]
    order = order[np.lexsort((keys["stratum"].rank("dense").to_numpy(), keys["registry"].rank("dense").to_numpy()))]
    steps = np.floor((np.arange(len(order) + 1) * share) + rng.random())
    return order[np.diff(steps) > 0]


def known_day(frame: "pl.LazyFrame") -> "pl.Expr":
    """The day a report is known to be of: its date, or the first of its year; missing where it has neither."""
    import polars as pl

    names = frame.collect_schema().names()
    days = [pl.col("date")] * ("date" in names) + [pl.date(pl.col("year"), 1, 1)] * ("year" in names)
    return pl.max_horizontal(days) if days else pl.lit(None, pl.Date)


def on_or_after(days: "np.ndarray", day: str, *, option: str = "--test-from") -> "np.ndarray":
    """Which days (datetime64[D], as of ``known_day``) are that one or later; a missing one is not.

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


def account(frame: "pl.LazyFrame", parts: "pl.DataFrame", tasks: Sequence[str]) -> dict[str, Any]:
    """What each part holds, and which classes of the test were never trained on."""
    import polars as pl

    reports = frame.select("case_id", "registry", *tasks).join(parts.lazy(), on="case_id", how="inner")
    by_registry = reports.group_by("part", "registry").len().collect(engine="streaming").sort("part", "registry")
    labels = {
        task: {part: set(names) for part, names in held.iter_rows()}
        for task, held in (
            (task, reports.drop_nulls(task).group_by("part").agg(pl.col(task).unique()).collect(engine="streaming"))
            for task in tasks
        )
    }
    result: dict[str, Any] = {"parts": {}}
    for part in PARTS:
        rows = by_registry.filter(pl.col("part") == part)
        cases = parts.filter(pl.col("part") == part).height
        if cases:
            result["parts"][part] = {
                "reports": int(rows["len"].sum()),
                "cases": cases,
                "registries": dict(rows.select("registry", "len").iter_rows()),
                "classes": {task: len(labels[task].get(part, ())) for task in tasks},
            }
    result["untrained"] = {
        task: len(labels[task].get("test", set()) - labels[task].get("train", set())) for task in tasks
    }
    when = [column for column in ("date", "year") if column in frame.collect_schema()]
    known = frame.filter(pl.any_horizontal(pl.col(column).is_not_null() for column in when)) if when else frame.head(0)
    result["undated_cases"] = (
        parts.height - known.select(pl.col("case_id").n_unique()).collect(engine="streaming").item()
    )
    return result


def describe(result: Mapping[str, Any]) -> str:
    """The account as a person reads it."""
    parts = result["parts"]
    reports, cases = (sum(part[what] for part in parts.values()) for what in ("reports", "cases"))
    how = f"on or after {result['test_from']}" if result["test_from"] else f"{result['test']:.0%} of cases"
    lines = [
        f"{reports:,} reports of {cases:,} cases in {result['out']}",
        f"test: {how}; validation: {result['validation']:.0%} of the rest; seed {result['seed']}",
    ]
    tasks = list(result["untrained"])
    lines.append(f"  {'':<10}{'reports':>9}{'cases':>10}{'':5}" + "".join(f" {task}" for task in tasks))
    for name, part in parts.items():
        numbers = f"{part['reports']:>9,}{part['cases']:>10,}{part['cases'] / cases:>5.0%}"
        lines.append(f"  {name:<10}{numbers}" + "".join(f" {part['classes'][task]:>{len(task)},}" for task in tasks))
    if any(result["untrained"].values()):
        unseen = ", ".join(f"{count:,} {task}" for task, count in result["untrained"].items() if count)
        lines.append(f"  the test has classes that training never saw: {unseen}")
    if rule := result.get("relevance"):
        lines.append(f"  kept {rule['kept']:,} reports within {rule['days']} days of {' or '.join(rule['to'])};")
        lines.append(
            f"  left out {rule['outside']:,} that are further away, {rule['without_date']:,} without a date, "
            f"{rule['without_reference']:,} of cases without that date"
        )
    if result["test_from"] and result["undated_cases"]:
        lines.append(f"  {result['undated_cases']:,} cases without any date went to train and validation")
    return "\n".join(lines)
