"""Text to tokens: many texts at once beside one at a time, and beside bardi's pathology normaliser.

Every corpus is cleaned from nothing each round (no chunk is known beforehand). bardi is a peer, never a dependency: it
is compared where it can be imported (pip install bardi ipython in an environment of your own), in the same process.
It is timed on what it does alone, substitution; splitting its result into words would come on top. It replaces dates,
phones and the like by words of its own, so what is to be set beside it is the way that hides identifiers. All work
on one core; CPU seconds are compared, so that a busy machine does no harm.

``--start`` adds a process of its own for each: it starts, loads what it needs, reads the reports and has their
tokens.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from _timing import alternate, rss
from pathveil.errors import UsageError
from pathveil.progress import Progress
from pathveil.text.bulk import BulkTokenizer, Numbers
from pathveil.text.tokenizer import tokenize

HIDING = "bulk, identifiers hidden"  # the default, and what bardi does
CLINICAL = (
    "g3 t2 n0 c5 pt2 her2 ki-67 cd20 er pr 8500/3 c50.4 a. well-differentiated 50% 3+ 3+4 19-9 0/12 h&e in-situ pt1c 1p"
).split()


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("corpus", type=Path, nargs="?", help="a Parquet corpus; its texts are used")
    parser.add_argument("--reports", type=int, default=2000, help="reports to time (default 2000)")
    parser.add_argument("--rounds", type=int, default=5, help="alternating rounds (default 5)")
    parser.add_argument("--start", action="store_true", help="time whole processes too, from their start")
    parser.add_argument("--memory", type=int, default=0, metavar="N", help="instead, watch memory over N drawn reports")
    parser.add_argument(
        "--number", action="store_true", help="with --memory: keep distinct words, as a token store does"
    )


def run(options: argparse.Namespace, *, progress: Progress) -> dict[str, Any]:
    if options.memory:
        return {"memory": memory(options.memory, number_words=options.number, progress=progress)}
    if options.corpus is None:
        raise UsageError("bench text needs a corpus to time: pathveil bench text reports.parquet")
    if not options.corpus.is_file():
        raise UsageError(f"{options.corpus}: there is no such file")
    texts = next(batches(options.corpus, size=options.reports))
    things = {
        "one at a time": lambda: [tokenize(text, identifiers=False) for text in texts],
        "bulk": lambda: bulk(texts),
        HIDING: lambda: bulk(texts, identifiers=True),
    }
    normaliser = peer()
    if normaliser is not None:
        things["bardi"] = normaliser(texts)
    seconds = alternate(things, rounds=options.rounds, stage="timing", progress=progress, clock=time.process_time)
    tokens = [tokenize(text, identifiers=False) for text in texts]
    numbers = Numbers()
    ids, _ = BulkTokenizer(numbers.__getitem__).add(texts)
    words = list(numbers)
    result: dict[str, Any] = {
        "reports": len(texts),
        "words": len(ids),
        "distinct_words": len(words),
        "equal": [words[i] for i in ids] == [token for report in tokens for token in report],
        "reports_per_second": {name: round(len(texts) / value) for name, value in seconds.items()},
        "ratio_to_bulk": {name: round(value / seconds["bulk"], 2) for name, value in seconds.items()},
        "ratio_to_hiding": {name: round(value / seconds[HIDING], 2) for name, value in seconds.items()},
        "clinical_words_lost": {"bulk": [word for word in CLINICAL if word not in tokenize(f"seen {word} here")]},
    }
    if normaliser is not None:
        cleaned = normaliser([f"seen {word} here" for word in CLINICAL])()[0]["text"].to_pylist()
        lost = [word for word, text in zip(CLINICAL, cleaned, strict=True) if word not in text.split()]
        result["clinical_words_lost"]["bardi"] = lost
    if options.start:
        result["from_nothing"] = from_nothing(options, peer=normaliser is not None, progress=progress)
    return result


# What a process does from nothing, by name; `texts` are the reports.
PROGRAMS = {
    "bulk": "from text import bulk\nbulk(texts)",
    HIDING: "from text import bulk\nbulk(texts, identifiers=True)",
    "bardi": "from text import peer\npeer()(texts)()",
}


def from_nothing(options: argparse.Namespace, *, peer: bool, progress: Progress) -> dict[str, float]:
    """CPU seconds of whole processes, medians of alternating rounds; one before them fills caches."""
    names = [name for name in PROGRAMS if peer or name != "bardi"]
    paths = [str(Path(__file__).parent), *sys.path]
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for number in range(options.rounds + 1):
        for place, name in enumerate(names):
            program = (
                "import sys, time\nfrom pathlib import Path\nfrom text import batches\n"
                f"texts = next(batches(Path(sys.argv[1]), size={options.reports}))\n{PROGRAMS[name]}\n"
                "print(time.process_time())"
            )
            done = subprocess.run(
                [sys.executable, "-c", program, str(options.corpus)],
                env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
                capture_output=True,
                check=True,
                text=True,
            )
            if number:
                seconds[name].append(float(done.stdout.split()[-1]))
            progress("processes", number * len(names) + place + 1, (options.rounds + 1) * len(names))
    return {name: round(statistics.median(values), 3) for name, values in seconds.items()}


def bulk(texts: list[str], *, identifiers: bool = False) -> object:
    return BulkTokenizer(Numbers().__getitem__, identifiers=identifiers).add(texts)


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


def memory(reports: int, *, number_words: bool, progress: Progress) -> list[dict[str, float]]:
    """Resident memory while reports of 600 words go by, six words of each never seen before; tokens are thrown away.

    Encoding with a vocabulary keeps nothing of them; numbering keeps each distinct word, as a token store must.
    """
    random = np.random.default_rng(1)
    known = np.array([f"word{number}," if number % 5 == 0 else f"word{number}" for number in range(58_000)])
    shares = np.cumsum(1 / (np.arange(len(known)) + 2.7))
    numbers = Numbers()
    tokenizer = BulkTokenizer(numbers.__getitem__ if number_words else lambda word: 1)
    seen, done, size = [], 0, min(2000, max(1, reports // 10))
    while done < reports:
        drawn = known[np.searchsorted(shares, random.random((size, 594)) * shares[-1])]
        fresh = [" ".join(f"new{(done + row) * 6 + place}x" for place in range(6)) for row in range(size)]
        tokenizer.add([f"{' '.join(line)} {new}" for line, new in zip(drawn, fresh, strict=True)])
        done += size
        seen.append({"reports": done, "distinct_words_kept": len(numbers), "rss": rss()})
        progress("watching memory", done, reports)
    return seen


def describe(result: dict[str, Any]) -> str:
    if "memory" in result:
        rows = [row for i, row in enumerate(result["memory"]) if (i + 1) % max(1, len(result["memory"]) // 10) == 0]
        return "\n".join(
            f"{row['reports']:>9,} reports, {row['rss'] / 2**20:>6,.0f} MB resident"
            + (f", {row['distinct_words_kept']:>9,} distinct words kept" if row["distinct_words_kept"] else "")
            for row in rows
        )
    lines = [
        f"{result['reports']:,} reports, {result['words']:,} words, {result['distinct_words']:,} distinct; "
        f"bulk equals tokenize: {result['equal']}"
    ]
    for name, speed in result["reports_per_second"].items():
        ratios = result["ratio_to_bulk"][name], result["ratio_to_hiding"][name]
        lines.append(f"  {name:<26} {speed:>8,} reports/s   bulk is {ratios[0]:.2f}×, hiding {ratios[1]:.2f}×")
    whole = result.get("from_nothing", {})
    for name, seconds in whole.items():
        ratio = seconds / whole["bulk"]
        lines.append(f"  {name}, a process from nothing: {seconds:.2f} s of CPU, bulk is {ratio:.2f}×")
    for name, lost in result["clinical_words_lost"].items():
        lines.append(f"  of {len(CLINICAL)} clinical words {name} loses {len(lost)}: {' '.join(lost) or 'none'}")
    return "\n".join(lines)
