"""Counts of corpora and of count files: what a vocabulary is chosen from, at one registry or from several together.

A registry can count at home and give away the counts alone (``write_counts``); choosing from the files of several gives
the same words, to the bit, as choosing from their reports.
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
from pathveil.text.identifiers import Hiding
from pathveil.text.tokenizer import IDENTIFIERS, WORDS
from pathveil.vocabulary.counting import count
from pathveil.vocabulary.counts import FIRST, Counts, merge, without_rare
from pathveil.vocabulary.encoding import read_labels
from pathveil.vocabulary.tokens import Tokens, case_number, tokens


class CountResult(Result):
    """What a registry counted for others to choose from."""

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
) -> Counts:
    """Counts of corpora, of count files (``.npz``), or of both together.

    ``leave_out`` names registries that are not looked at; ``without`` is a corpus (the test reports) whose cases are
    passed over in the others. Cases cannot be told apart in a count file: leave them out where they are counted.
    """
    given = [Path(sources)] if isinstance(sources, str | Path) else [Path(path) for path in sources]
    files = [path for path in given if path.suffix == ".npz"]
    corpora = [path for path in given if path.suffix != ".npz"]
    if without is not None and files:
        raise UsageError(f"{files[0]}: cases cannot be left out of counts; leave them out in 'pathveil vocab count'")
    parts = [Counts.load(path) for path in files]
    if corpora:
        parts.append(
            count_corpus(corpora, tasks=tasks, leave_out=leave_out, without=without, words=words, progress=progress)
        )
    there = {name for part in parts for name in (*part.registry_names, *part.source.get("left_out", ()))}
    for name in leave_out:
        if name not in there:
            raise UsageError(f"there is no registry '{name}' to leave out; there are {', '.join(sorted(there))}")
    together = merge(parts)
    kept = [name for name in together.registry_names if name not in leave_out]
    if not kept:
        raise UsageError("every registry is left out; leave out fewer")
    return with_source(together.take(kept), left_out=sorted(leave_out)) if leave_out else together


def write_counts(
    corpus: Paths,
    out: Path,
    *,
    tasks: Iterable[str] | None = None,
    without: Paths | None = None,
    min_cases: int = 1,
    identifiers: Hiding = IDENTIFIERS,
    progress: Progress = silent,
) -> CountResult:
    """Count a corpus's words into the file ``out``, without those that fewer than ``min_cases`` cases hold."""
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
    identifiers: Hiding = IDENTIFIERS,
    progress: Progress = silent,
) -> Counts:
    """Counts of a corpus; registries and cases that are left out are never counted."""
    store = tokens(paths, words=words, identifiers=identifiers, progress=progress)
    rows, notes = remaining_rows(store, leave_out=leave_out, without=without)
    labels, classes = read_labels(paths, tasks=tasks)
    return with_source(count(store, labels, classes, rows=rows, progress=progress), **notes)


def remaining_rows(
    store: Tokens, *, leave_out: Sequence[str], without: Paths | None
) -> tuple[np.ndarray, dict[str, object]]:
    """The reports that are neither of a registry left out nor of a case of ``without``; and what to say about that."""
    absent = [name for name in leave_out if name in store.registry_names]
    kept = ~np.isin(store.registries, [store.registry_names.index(name) for name in absent])
    notes: dict[str, object] = {"left_out": sorted(absent)} if absent else {}
    if without is not None:
        held = scan(without).select("case_id").unique().collect(engine="streaming")["case_id"]
        kept &= ~np.isin(store.cases, np.fromiter(map(case_number, held), np.int64, len(held)))
        notes["without_cases_of"] = content_sha256(without)
    return np.flatnonzero(kept), notes


def with_source(counts: Counts, **notes: object) -> Counts:
    """The counts with more said about their source."""
    return replace(counts, source={**counts.source, **notes})
