"""Choosing words: from counts and a sentence to a vocabulary.

The papers' ways are sentences of `pathveil.vocabulary.expression`:

    baseline             occurrences >= 5                 (vocabulary paper; the distribution paper: reports >= 5)
    intersection of k    registries >= k                  rare words too, as in the paper (its finding on I2)
    mutual information   top N by mutual-information      as in the paper, rare words first (see docs/vocabulary.md)
    lexicon              in lexicon

Words are kept in sorted order: a vocabulary's order says nothing about their counts.

>>> from scipy import sparse
>>> held = np.array([[5, 1, 2], [4, 0, 3]])
>>> counts = Counts(words=("breast", "kowalski", "left"), registry_names=("R1", "R2"), classes={},
...                 total_reports=np.array([9, 9]), total_cases=np.array([9, 9]),
...                 occurrences=held, reports=held, cases=held, labels=np.zeros((2, 0), np.int64),
...                 joint=(sparse.csr_array((3, 0), dtype=np.int32),) * 2)
>>> vocabulary = select(Measures(counts), "registries >= 2")
>>> vocabulary.words, vocabulary.method
(('breast', 'left'), 'registries >= 2')
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from pathlib import Path

import numpy as np

from pathveil.corpus import content_sha256, scan
from pathveil.corpus.schema import Paths
from pathveil.errors import UsageError, VocabularyError
from pathveil.progress import Progress, silent
from pathveil.text import WORDS
from pathveil.vocabulary.counting import count
from pathveil.vocabulary.counts import Counts, merge
from pathveil.vocabulary.encoding import read_labels
from pathveil.vocabulary.expression import LEXICON, Sentence, parse
from pathveil.vocabulary.information import information
from pathveil.vocabulary.tokens import case_number, tokens
from pathveil.vocabulary.words import Vocabulary

MINIMUM = 5  # occurrences, in both papers' baselines
PAPER_BASELINE = 58_332  # words, on average over the paper's folds
PAPER_SIZES = (20_000, 10_000, 5_000, 2_000)


class Measures:
    """What a sentence can ask about words, each worked out once: hand it on to choose several times from one corpus."""

    def __init__(self, counts: Counts, *, tasks: Iterable[str] | None = None, lexicon: Set[str] | None = None):
        self.counts, self.lexicon = counts, lexicon
        self.tasks = None if tasks is None else tuple(dict.fromkeys(tasks))
        self.known: dict[str, np.ndarray] = {}

    def __call__(self, name: str) -> np.ndarray:
        if name not in self.known:
            self.known[name] = self.measure(name)
        return self.known[name]

    def measure(self, name: str) -> np.ndarray:
        if name == "mutual-information":
            return information(self.counts, tasks=informative_tasks(self.counts, self.tasks))
        if name == "registries":
            return (self.counts.reports > 0).sum(axis=0)
        if name == LEXICON:
            if self.lexicon is None:
                raise UsageError("'in lexicon' needs a lexicon; give a word list or an MRCONSO.RRF file with --lexicon")
            return np.fromiter((word in self.lexicon for word in self.counts.words), np.int8, len(self.counts.words))
        return getattr(self.counts, name).sum(axis=0)


def select(measures: Measures, choose: str | Sentence, *, parameters: Mapping[str, object] | None = None) -> Vocabulary:
    """The vocabulary a sentence chooses; ``parameters`` are recorded in it beside the sentence."""
    counts = measures.counts
    sentence = parse(choose) if isinstance(choose, str) else choose
    check_registries(counts, sentence)
    kept = np.flatnonzero(sentence.keep(measures, words=len(counts.words)))
    informed = sentence.uses("mutual-information")
    return Vocabulary(
        words=tuple(counts.words[number] for number in kept),
        method=str(sentence),
        parameters={
            "words_offered": len(counts.words),
            "seed": None,  # nothing is drawn at random: equal counts choose equal words
            **({"tasks": list(informative_tasks(counts, measures.tasks))} if informed else {}),
            **(parameters or {}),
        },
        source={
            **counts.source,
            "registries": list(counts.registry_names),
            "reports": int(counts.total_reports.sum()),
            "cases": int(counts.total_cases.sum()),
        },
    )


def informative_tasks(counts: Counts, tasks: Sequence[str] | None) -> tuple[str, ...]:
    """The tasks whose labels mutual information is about, each of which must be there."""
    chosen = counts.tasks if tasks is None else tuple(tasks)
    for task in chosen:
        if task not in counts.tasks:
            raise VocabularyError(f"there is no task '{task}'; the reports have {', '.join(counts.tasks) or 'none'}")
    if not chosen:
        raise VocabularyError(
            "mutual information needs labels, and the reports have no task column; name them with --tasks, or choose "
            "by counts, for example --method intersection"
        )
    return chosen


def check_registries(counts: Counts, sentence: Sentence) -> None:
    names = counts.registry_names
    for item in sentence.comparisons:
        if item.measure != "registries" or item.sign not in (">=", ">", "="):
            continue
        asked = int(item.number) + (item.sign == ">")
        if len(names) == 1 and asked > 1:
            raise VocabularyError(
                f"'{item}' compares registries, and there is only one ({names[0]}); add the corpora or count files of "
                "others, or choose with --method baseline or mutual-information"
            )
        if asked > len(names):
            raise VocabularyError(
                f"'{item}' asks for words of {asked} registries, and there are {len(names)} ({', '.join(names)}); "
                f"ask for {len(names)} at most"
            )


def gather(
    sources: Sequence[Path],
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
    files = [path for path in sources if path.suffix == ".npz"]
    corpora = [path for path in sources if path.suffix != ".npz"]
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
    return noted(together.take(kept), left_out=sorted(leave_out)) if leave_out else together


def count_corpus(
    paths: Paths,
    *,
    tasks: Iterable[str] | None = None,
    leave_out: Sequence[str] = (),
    without: Paths | None = None,
    words: int = WORDS,
    progress: Progress = silent,
) -> Counts:
    """Counts of a corpus; registries and cases that are left out are never counted."""
    store = tokens(paths, words=words, progress=progress)
    here = [name for name in leave_out if name in store.registry_names]
    kept = ~np.isin(store.registries, [store.registry_names.index(name) for name in here])
    notes: dict[str, object] = {"left_out": sorted(here)} if here else {}
    if without is not None:
        held = scan(without).select("case_id").unique().collect(engine="streaming")["case_id"]
        kept &= ~np.isin(store.cases, np.fromiter(map(case_number, held), np.int64, len(held)))
        notes["without_cases_of"] = content_sha256(without)
    labels, classes = read_labels(paths, tasks=tasks)
    return noted(count(store, labels, classes, rows=np.flatnonzero(kept), progress=progress), **notes)


def noted(counts: Counts, **notes: object) -> Counts:
    """The counts with more said about their source."""
    return replace(counts, source={**counts.source, **notes})


def paper_sentences(registries: int, *, minimum: int, sizes: Sequence[int]) -> dict[str, str]:
    """The paper's vocabularies by name: B, I2 … I(R), and mutual information at the given sizes.

    >>> paper_sentences(2, minimum=5, sizes=[2000])
    {'B': 'occurrences >= 5', 'I2': 'registries >= 2', 'MI2000': 'top 2000 by mutual-information'}
    """
    sentences = {"B": f"occurrences >= {minimum}"}
    sentences |= {f"I{k}": f"registries >= {k}" for k in range(2, registries + 1)}
    return sentences | {f"MI{size}": f"top {size} by mutual-information" for size in sizes}


def scaled(size: float) -> int:
    """A size in two digits, as people give them.

    >>> scaled(3243.2), scaled(87.6), scaled(3)
    (3200, 88, 3)
    """
    digits = max(0, len(str(int(size))) - 2)
    return max(1, round(size / 10**digits) * 10**digits)


def folds(
    counts: Counts,
    *,
    minimum: int = MINIMUM,
    sizes: Sequence[int] | None = None,
    tasks: Iterable[str] | None = None,
    progress: Progress = silent,
) -> dict[str, dict[str, Vocabulary]]:
    """For each registry, left out: the paper's ten vocabularies of the others, by name.

    ``sizes`` of mutual information default to the paper's, as shares of the baseline: to its 58,332 words and 2,000
    correspond 400 of a baseline of 11,700.
    """
    names = counts.registry_names
    if len(names) < 3:
        raise VocabularyError(
            f"leaving one registry out needs at least three, and there are {len(names)} ({', '.join(names)}); "
            "use 'pathveil vocab select' for a single vocabulary"
        )
    others = {name: counts.take([other for other in names if other != name]) for name in names}
    if sizes is None:
        baselines = [(fold.occurrences.sum(axis=0) >= minimum).sum() for fold in others.values()]
        sizes = list(dict.fromkeys(scaled(size * np.mean(baselines) / PAPER_BASELINE) for size in PAPER_SIZES))
    sentences = paper_sentences(len(names) - 1, minimum=minimum, sizes=sizes)
    tasks = None if tasks is None else tuple(tasks)
    made: dict[str, dict[str, Vocabulary]] = {}
    for number, (left_out, fold) in enumerate(others.items()):
        progress("choosing words", number, len(names))
        measures = Measures(noted(fold, left_out=[left_out]), tasks=tasks)
        made[left_out] = {name: select(measures, sentence) for name, sentence in sentences.items()}
    progress("choosing words", len(names), len(names))
    return made
