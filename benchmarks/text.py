"""Text to tokens: the column path beside plain `re` and beside bardi's pathology normaliser.

Every column is cleaned from nothing each round (no chunk is known beforehand). bardi is a peer, never a dependency: it
is compared where it can be imported (pip install bardi ipython in an environment of your own), in the same process.
It is timed on what it does alone, substitution; splitting its result into words would come on top. All work on one
core; CPU seconds are compared, so that a busy machine does no harm.
"""

import argparse
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from _timing import alternate, rss
from pathveil.progress import Progress
from pathveil.text import tokenize
from pathveil.vocabulary.column import Column, Numbers

CLINICAL = (
    "g3 t2 n0 c5 pt2 her2 ki-67 cd20 er pr 8500/3 c50.4 a. well-differentiated 50% 3+ 3+4 19-9 0/12 h&e in-situ pt1c 1p"
).split()


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("corpus", type=Path, help="a Parquet corpus; its text column is used")
    parser.add_argument("--reports", type=int, default=2000, help="reports to time (default 2000)")
    parser.add_argument("--rounds", type=int, default=5, help="alternating rounds (default 5)")
    parser.add_argument("--memory", action="store_true", help="only run through the whole corpus, watching memory")


def run(options: argparse.Namespace, *, progress: Progress) -> dict[str, Any]:
    if options.memory:
        return {"memory": memory(options.corpus, progress=progress)}
    texts = next(batches(options.corpus, size=options.reports))
    things = {"plain re": lambda: [tokenize(text) for text in texts], "column": lambda: column(texts)}
    normaliser = peer()
    if normaliser is not None:
        things["bardi"] = normaliser(texts)
    seconds = alternate(things, rounds=options.rounds, stage="timing", progress=progress, clock=time.process_time)
    tokens = [tokenize(text) for text in texts]
    numbers = Numbers()
    ids, _ = Column(numbers.__getitem__).add(texts)
    words = list(numbers)
    result: dict[str, Any] = {
        "reports": len(texts),
        "words": len(ids),
        "distinct_words": len(words),
        "equal": [words[i] for i in ids] == [token for report in tokens for token in report],
        "reports_per_second": {name: round(len(texts) / value) for name, value in seconds.items()},
        "ratio_to_column": {name: round(value / seconds["column"], 2) for name, value in seconds.items()},
        "clinical_words_lost": {"column": [word for word in CLINICAL if word not in tokenize(f"seen {word} here")]},
    }
    if normaliser is not None:
        cleaned = normaliser([f"seen {word} here" for word in CLINICAL])()[0]["text"].to_pylist()
        lost = [word for word, text in zip(CLINICAL, cleaned, strict=True) if word not in text.split()]
        result["clinical_words_lost"]["bardi"] = lost
    return result


def column(texts: list[str]) -> object:
    return Column(Numbers().__getitem__).add(texts)


def peer() -> Callable[[list[str]], Callable[[], Any]] | None:
    """bardi's normaliser with its own expressions for pathology reports, given its own kind of table."""
    try:
        import pyarrow
        from bardi.nlp_engineering import CPUNormalizer
        from bardi.nlp_engineering.regex_library.pathology_report import PathologyReportRegexSet
    except ImportError:
        return None
    normaliser = CPUNormalizer(fields=["text"], regex_set=PathologyReportRegexSet().get_regex_set(), lowercase=True)

    def prepared(texts: list[str]) -> Callable[[], Any]:
        table = pyarrow.table({"text": texts})
        return lambda: normaliser.run(table)

    return prepared


def batches(corpus: Path, *, size: int) -> Iterator[list[str]]:
    import polars as pl

    total = pl.scan_parquet(corpus).select(pl.len()).collect().item()
    for start in range(0, total, size):
        yield pl.scan_parquet(corpus).select("text").slice(start, size).collect()["text"].to_list()


def memory(corpus: Path, *, progress: Progress) -> list[dict[str, float]]:
    """Resident memory and Python's own after each 5,000 reports, the tokens thrown away."""
    numbers = Numbers()
    column = Column(numbers.__getitem__)
    seen, reports, tokens = [], 0, 0
    tracemalloc.start()
    for texts in batches(corpus, size=5000):
        ids, _ = column.add(texts)
        reports += len(texts)
        tokens += len(ids)
        held, _ = tracemalloc.get_traced_memory()
        seen.append({"reports": reports, "words": tokens, "distinct": len(numbers), "rss": rss(), "python": held})
        progress("watching memory", reports, 0)
    return seen


def describe(result: dict[str, Any]) -> str:
    if "memory" in result:
        rows = [row for i, row in enumerate(result["memory"]) if (i + 1) % max(1, len(result["memory"]) // 10) == 0]
        return "\n".join(
            f"{row['reports']:>9,} reports {row['distinct']:>9,} distinct words {row['rss'] / 2**20:>7,.0f} MB resident"
            for row in rows
        )
    lines = [
        f"{result['reports']:,} reports, {result['words']:,} words, {result['distinct_words']:,} distinct; "
        f"column equals tokenize: {result['equal']}"
    ]
    for name, speed in result["reports_per_second"].items():
        lines.append(f"  {name:<10} {speed:>8,} reports/s   column is {result['ratio_to_column'][name]:.2f}×")
    for name, lost in result["clinical_words_lost"].items():
        lines.append(f"  of {len(CLINICAL)} clinical words {name} loses {len(lost)}: {' '.join(lost) or 'none'}")
    return "\n".join(lines)
