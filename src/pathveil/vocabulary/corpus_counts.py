"""Gather the counts that a vocabulary is chosen from: of corpora, of count files, or of both together.

A registry can count at home and give away the counts alone (``write_counts``). The files of several registries give the
same words, to the bit, as their reports.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pathveil.corpus import content_sha256, scan
from pathveil.corpus.schema import Paths
from pathveil.errors import UsageError
from pathveil.files import check_file
from pathveil.progress import Progress, silent
from pathveil.results import Result
from pathveil.text.tokenizer import IDENTIFIERS, WORDS
from pathveil.vocabulary.counting import count
from pathveil.vocabulary.counts import FIRST, WordCounts, merge, without_rare
from pathveil.vocabulary.encoding import read_labels
from pathveil.vocabulary.tokens import Tokens, case_number, tokens


class CountResult(Result):
    """A count file that a registry wrote for others to choose from."""

    out: str
    registries: list[str]
    reports: int
    cases: int
    words: int
    words_left_out: int
    tasks: dict[str, int]  # task: classes

    def rows(self) -> list[dict[str, Any]]:
        return [{"registries": self.registries, "reports": self.reports, "cases": self.cases, "words": self.words}]

    def summary(self) -> str:
        text = f"{self.out}: {self.words:,} words of {self.reports:,} reports, {', '.join(self.registries)}"
        return text + (f"; {self.words_left_out:,} rarer left out" if self.words_left_out else "")


def gather_counts(
    sources: Paths,
    *,
    tasks: Iterable[str] | None = None,
    leave_out: Sequence[str] = (),
    without: Paths | None = None,
    words: int = WORDS,
    progress: Progress = silent,
) -> WordCounts:
    """Gather the counts of corpora, of count files (``.npz``), or of both together.

    ``leave_out`` names registries to ignore; ``without`` is a corpus (the test reports) whose cases are left out of the
    others. A count file does not name its cases: leave them out where they are counted.
    """
    paths = [Path(sources)] if isinstance(sources, str | Path) else [Path(path) for path in sources]
    files = [path for path in paths if path.suffix == ".npz"]
    corpora = [path for path in paths if path.suffix != ".npz"]
    if without is not None and files:
        raise UsageError(f"{files[0]}: cases cannot be left out of counts; leave them out in 'pathveil vocab count'")
    parts = [WordCounts.load(path) for path in files]
    if corpora:
        parts.append(
            count_corpus(corpora, tasks=tasks, leave_out=leave_out, without=without, words=words, progress=progress)
        )
    registries = {name for part in parts for name in (*part.registry_names, *part.source.get("left_out", ()))}
    for name in leave_out:
        if name not in registries:
            raise UsageError(f"there is no registry '{name}' to leave out; there are {', '.join(sorted(registries))}")
    together = merge(parts)
    remaining = [name for name in together.registry_names if name not in leave_out]
    if not remaining:
        raise UsageError("every registry is left out; leave out fewer")
    return with_source(together.take(remaining), left_out=sorted(leave_out)) if leave_out else together


def write_counts(
    corpus: Paths,
    out: Path,
    *,
    tasks: Iterable[str] | None = None,
    without: Paths | None = None,
    min_cases: int = 1,
    identifiers: bool = IDENTIFIERS,
    progress: Progress = silent,
) -> CountResult:
    """Count a corpus's words into the file ``out``, without words of fewer than ``min_cases`` cases."""
    if out.suffix != ".npz":
        raise UsageError(f"{out}: a count file's name ends in .npz, so that 'vocab select' knows it for one")
    check_file(out, renews=[FIRST.encode()], reads=[corpus, without])
    counts = count_corpus(corpus, tasks=tasks, without=without, identifiers=identifiers, progress=progress)
    offered = len(counts.words)
    if min_cases > 1:
        counts = without_rare(counts, min_cases)
    counts.save(out)
    return CountResult(
        out=str(out),
        registries=list(counts.registry_names),
        reports=int(counts.total_reports.sum()),
        cases=int(counts.total_cases.sum()),
        words=len(counts.words),
        words_left_out=offered - len(counts.words),
        tasks={task: len(names) for task, names in counts.classes.items()},
    )


def count_corpus(
    paths: Paths,
    *,
    tasks: Iterable[str] | None = None,
    leave_out: Sequence[str] = (),
    without: Paths | None = None,
    words: int = WORDS,
    identifiers: bool = IDENTIFIERS,
    progress: Progress = silent,
) -> WordCounts:
    """Count the words of a corpus, without the registries and cases left out."""
    store = tokens(paths, words=words, identifiers=identifiers, progress=progress)
    rows, notes = remaining_rows(store, leave_out=leave_out, without=without)
    labels, classes = read_labels(paths, tasks=tasks)
    return with_source(count(store, labels, classes, rows=rows, progress=progress), **notes)


def remaining_rows(
    store: Tokens, *, leave_out: Sequence[str], without: Paths | None
) -> tuple[np.ndarray, dict[str, object]]:
    """Return the rows of no registry left out and no case of ``without``, and notes on that for the source."""
    absent = [name for name in leave_out if name in store.registry_names]
    remaining = ~np.isin(store.registries, [store.registry_names.index(name) for name in absent])
    notes: dict[str, object] = {"left_out": sorted(absent)} if absent else {}
    if without is not None:
        cases = scan(without).select("case_id").unique().collect(engine="streaming")["case_id"]
        remaining &= ~np.isin(store.cases, np.fromiter(map(case_number, cases), np.int64, len(cases)))
        notes["without_cases_of"] = content_sha256(without)
    return np.flatnonzero(remaining), notes


def with_source(counts: WordCounts, **notes: object) -> WordCounts:
    """Add notes to the source of counts."""
    return replace(counts, source={**counts.source, **notes})
