"""The result of ``check`` as a page for a terminal: the corpus in tables that fit 80 columns, then what to mend.

>>> bar(3, 4, width=4), bar(1, 80, width=4), bar(0, 4, width=4)
('███', '▏', '')
>>> periods({"1999": 1, "2000": 2, "2003": 4}, rows=3)
[('1999–2000', 3), ('2001–2002', 0), ('2003', 4)]
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pathveil.corpus.check import CLIP, CheckResult
from pathveil.formatting import counted, whole_percent

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

EIGHTHS = " ▏▎▍▌▋▊▉█"
ROWS = 8  # of the two histograms
MANY = 10  # registries; past it a matrix of pairs does not fit a page
GRAVE = {
    "leaked-labels", "shared-cases", "repeated-texts", "identifiers", "differing-labels", "subsite-outside-site",
    "spelling", "damaged-texts", "empty-task", "years-differ", "no-labels", "unknown-codes",
    "another-form",
}  # fmt: skip


def page(result: CheckResult, *, title: str) -> "RenderableType":
    """The page, to be printed by a rich console of any width."""
    from rich.console import Group
    from rich.text import Text

    parts = [heading(result, title), registries(result), tasks(result), histograms(result), overlap(result)]
    spaced = [part for table in parts if table is not None for part in (table, Text())]
    return Group(*spaced, *warnings(result))


def heading(result: CheckResult, title: str) -> "RenderableType":
    from rich.text import Text

    years = list(result.years)
    facts = [
        counted(result.reports, "report"),
        counted(result.cases, "case"),
        counted(len(result.registries), "registry", "registries"),
        *([span(years[0], years[-1])] if years else []),
    ]
    return Text.assemble((title, "bold"), "\n", " · ".join(facts))


def registries(result: CheckResult) -> "RenderableType":
    table = plain_table("Registries", "reports", "cases", "words", "years", "labels")
    for name, row in result.registries.items():
        labelled = {task: count / row.reports for task, count in row.labelled.items()}
        least = min(labelled, key=lambda task: labelled[task], default=None)
        fewest = "" if least is None else f"{least} {whole_percent(labelled[least])}" if labelled[least] < 1 else "all"
        years = span(row.first_year, row.last_year) if row.first_year else "–"
        table.add_row(name, f"{row.reports:,}", f"{row.cases:,}", f"{row.median_words:,}", years, fewest)
    table.caption = "words: the median report; labels: the task with fewest"
    return table


def tasks(result: CheckResult) -> "RenderableType | None":
    if not result.tasks:
        return None
    buckets = [span(bucket.low, bucket.high) for bucket in next(iter(result.tasks.values())).rarity]
    table = plain_table("Tasks", "labelled", "classes", "largest", *buckets)
    for name, task in result.tasks.items():
        largest = f"{task.largest} {task.largest_share:.1%}" if task.classes else "–"
        counts = (f"{bucket.classes:,}" if bucket.classes else "·" for bucket in task.rarity)
        table.add_row(name, f"{task.labelled:,}", f"{task.classes:,}", largest, *counts)
    table.caption = f"from {buckets[0]} to {buckets[-1]}: how many classes have so many reports"
    return table


def histograms(result: CheckResult) -> "RenderableType":
    from rich.columns import Columns

    words = result.words
    starts = [bucket.start for bucket in words.spread]
    ends = [start - 1 for start in starts[1:]]
    names = [f"{start:,}–{end:,}" for start, end in zip(starts, ends, strict=False)] + [f"{starts[-1]:,}+"]
    rows = [(name, bucket.reports) for name, bucket in zip(names, words.spread, strict=True)]
    length = bars("Words a report", rows)
    length.caption = (
        f"median {words.median:,}, mean {words.mean:,.0f}, 95% within {words.p95:,}; "
        f"{words.clipped:,} longer than the {CLIP:,} a model reads"
    )
    years = bars("Years", periods(result.years, rows=ROWS))
    return Columns([length, years] if result.years else [length], padding=(0, 4))


def overlap(result: CheckResult) -> "RenderableType | None":
    names, shared = list(result.registries), result.overlap
    if not 1 < len(names) <= MANY or not shared.mix_task:
        return None
    table = plain_table("Overlap", *names, "only here")
    alike = {frozenset(pair.registries): pair.same_mix for pair in shared.pairs}
    for one in names:
        cells = ("·" if one == other else f"{alike[frozenset((one, other))]:.0%}" for other in names)
        only = ", ".join(f"{count} {task}" for task, count in shared.only_here[one].items() if count)
        table.add_row(one, *cells, only or "–")
    cases, texts = sum(pair.cases for pair in shared.pairs), sum(pair.texts for pair in shared.pairs)
    table.caption = (
        f"how much of their {shared.mix_task} mix two registries share; classes none but it has; "
        f"shared between any two: {cases:,} cases, {texts:,} texts"
    )
    return table


def warnings(result: CheckResult) -> "list[RenderableType]":
    from rich.padding import Padding
    from rich.text import Text

    if not result.warnings:
        return [Text("Nothing to warn of.", style="green")]
    lines: list[RenderableType] = [Text("To mend, or to know", style="bold")]
    for warning in sorted(result.warnings, key=lambda warning: warning.id not in GRAVE):
        mark, style = ("!", "bold yellow") if warning.id in GRAVE else ("·", "dim")
        sentence = Text.assemble((f"{mark} ", style), warning.sentence)
        if warning.reports:
            more = ", …" if warning.count > len(warning.reports) else ""
            sentence.append(f" ({', '.join(warning.reports)}{more})", style="dim")
        lines.append(Padding(hanging(sentence), (0, 0, 0, 1)))
    return lines


def hanging(sentence: Any) -> "RenderableType":
    """A mark, and a sentence that wraps beside it."""
    from rich.table import Table

    grid = Table.grid(padding=0)
    grid.add_column(width=2)
    grid.add_column()
    grid.add_row(sentence[:2], sentence[2:])
    return grid


def plain_table(first: str, *columns: str) -> "Table":
    """A table without lines: its name over the first column, numbers to the right."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", caption_justify="left", caption_style="dim")
    table.add_column(Text(first, style="bold not dim"), no_wrap=True)
    for column in columns:
        table.add_column(column, justify="left" if column in ("only here", "largest", "labels", "years") else "right")
    return table


def bars(title: str, rows: list[tuple[str, int]]) -> "Table":
    from rich.text import Text

    table = plain_table(title, "", "")
    table.columns[1].header = ""
    table.columns[1].justify = "left"
    most = max((count for _, count in rows), default=0)
    for label, count in rows:
        table.add_row(label, Text(bar(count, most, width=14), style="cyan"), f"{count:,}")
    return table


def bar(count: int, most: int, *, width: int) -> str:
    """A bar of up to ``width`` blocks, in eighths; something is never drawn as nothing."""
    if not count:
        return ""
    eighths = max(1, round(count / most * width * 8))
    return "█" * (eighths // 8) + EIGHTHS[eighths % 8].strip()


def periods(years: Mapping[str, int], *, rows: int) -> list[tuple[str, int]]:
    """Reports by period: a year each, or as many years each as keep the table to that many rows."""
    numbers = {int(year): count for year, count in years.items()}
    if not numbers:
        return []
    first, last = min(numbers), max(numbers)
    step = -(-(last - first + 1) // rows)
    starts = range(first, last + 1, step)
    return [
        (span(start, min(start + step - 1, last)), sum(numbers.get(year, 0) for year in range(start, start + step)))
        for start in starts
    ]


def span(low: Any, high: Any) -> str:
    if high is None:
        return f"{low}+"
    return str(low) if low == high else f"{low}–{high}"
