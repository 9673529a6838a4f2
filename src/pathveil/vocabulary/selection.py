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

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field

from pathveil.corpus import content_sha256, scan
from pathveil.corpus.schema import Paths
from pathveil.errors import UsageError, VocabularyError
from pathveil.files import sha256_of_file
from pathveil.progress import Progress, silent
from pathveil.results import Result
from pathveil.settings import Settings
from pathveil.text import WORDS
from pathveil.vocabulary.counting import count
from pathveil.vocabulary.counts import Counts, merge, without_rare
from pathveil.vocabulary.encoding import read_labels
from pathveil.vocabulary.expression import LEXICON, Sentence, parse
from pathveil.vocabulary.information import information
from pathveil.vocabulary.lexicon import read_lexicon
from pathveil.vocabulary.tokens import case_number, tokens
from pathveil.vocabulary.words import Vocabulary

MINIMUM = 5  # occurrences, in both papers' baselines
PAPER_BASELINE = 58_332  # words, on average over the paper's folds
PAPER_SIZES = (20_000, 10_000, 5_000, 2_000)


class SelectionSettings(Settings):
    """How words are chosen: by one of the papers' methods with its number, or by a sentence that says everything."""

    method: Literal["baseline", "intersection", "mutual-information", "lexicon"] | None = None
    choose: str | None = None  # a sentence of `pathveil.vocabulary.expression`
    min_count: int | None = Field(default=None, ge=1)  # baseline: how often a word must occur
    unit: Literal["occurrences", "reports", "cases"] = "occurrences"  # baseline: what is counted
    threshold: int | None = None  # intersection: in reports of how many registries
    top: int | None = Field(default=None, ge=1)  # mutual information: how many words
    min_cases: int | None = Field(default=None, ge=1)  # any method: cases that must hold a word

    def sentence(self, *, lexicon: bool = False) -> str:
        """What these settings say as a sentence; an option of another method is a mistake, not ignored."""
        if self.choose:
            if self.method or self.min_count or self.threshold or self.min_cases or self.top:
                raise UsageError("--choose says everything; leave --method and its options away")
            return self.choose
        if self.method is None:
            raise UsageError(
                "say how to choose: --method baseline|intersection|mutual-information|lexicon, or --choose"
            )
        owners = {
            "--min-count": (self.min_count, "baseline"),
            "--threshold": (self.threshold, "intersection"),
            "--top": (self.top, "mutual-information"),
            "--lexicon": (lexicon or None, "lexicon"),
        }
        for option, (value, owner) in owners.items():
            if value is not None and self.method != owner:
                raise UsageError(f"{option} belongs to --method {owner}; to combine ways of choosing, use --choose")
        rare = f"cases >= {self.min_cases}" if self.min_cases else ""
        if self.method == "baseline":
            return " and ".join(filter(None, [f"{self.unit} >= {self.min_count or MINIMUM}", rare]))
        if self.method == "intersection":
            if self.threshold is None or self.threshold < 2:
                raise UsageError("--method intersection needs --threshold K: in how many registries, 2 or more")
            return " and ".join(filter(None, [f"registries >= {self.threshold}", rare]))
        if self.method == "mutual-information":
            if self.top is None:
                raise UsageError("--method mutual-information needs --top N: how many words to keep")
            return " then ".join(filter(None, [rare, f"top {self.top} by mutual-information"]))
        if not lexicon:
            raise UsageError("--method lexicon needs --lexicon FILE: a list of terms or UMLS's MRCONSO.RRF")
        return " and ".join(filter(None, ["in lexicon", rare]))


class SelectionResult(Result):
    """Which vocabulary was chosen, from what, and where it is."""

    out: str
    words: int
    of: int  # words there were to choose from
    method: str
    sha256: str
    source: dict[str, Any]
    parameters: dict[str, Any]

    @classmethod
    def of_vocabulary(cls, vocabulary: Vocabulary, out: Path) -> "SelectionResult":
        return cls(
            out=str(out),
            words=len(vocabulary.words),
            of=vocabulary.parameters["words_offered"],
            method=vocabulary.method,
            sha256=vocabulary.sha256,
            source=dict(vocabulary.source),
            parameters=dict(vocabulary.parameters),
        )

    def rows(self) -> list[dict[str, Any]]:
        return [{"method": self.method, "words": self.words, "of": self.of}]

    def summary(self) -> str:
        reports, cases, registries = (self.source[name] for name in ("reports", "cases", "registries"))
        return (
            f"{self.out}: {self.words:,} of {self.of:,} words, by '{self.method}'\n"
            f"  from {reports:,} reports of {cases:,} cases in {', '.join(registries)}"
        )


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


class FoldsResult(Result):
    """The sizes of the vocabularies of every fold."""

    out: str
    folds: dict[str, dict[str, int]]  # registry left out: {vocabulary: words}

    def rows(self) -> list[dict[str, Any]]:
        return [{"left_out": registry} | sizes for registry, sizes in self.folds.items()]

    def summary(self) -> str:
        names = list(dict.fromkeys(name for sizes in self.folds.values() for name in sizes))
        lines = [f"{'left out':<12}" + "".join(f"{name:>9}" for name in names)]
        for registry, sizes in self.folds.items():
            cells = (f"{sizes[name]:>9,}" if name in sizes else " " * 9 for name in names)
            lines.append(f"{registry:<12}" + "".join(cells))
        return "\n".join(lines)


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


Choice = Callable[[Measures], np.ndarray]  # which words to keep, (words,) bool: a way of choosing of one's own


def select_words(
    sources: Paths,
    choose: SelectionSettings | str | Choice,
    *,
    lexicon: Path | None = None,
    tasks: Iterable[str] | None = None,
    leave_out: Sequence[str] = (),
    without: Paths | None = None,
    progress: Progress = silent,
) -> Vocabulary:
    """Choose the words a model may know from training reports, or from counts of them (see ``gather_counts``).

    ``choose`` is one of the papers' methods, a sentence, or a function of ``Measures`` that marks the words to keep.
    """
    settings = SelectionSettings(choose=choose) if isinstance(choose, str) else choose
    if isinstance(settings, SelectionSettings):
        settings = parse(settings.sentence(lexicon=lexicon is not None))
    terms, parameters = None, {}
    if lexicon is not None:
        terms, parameters = read_lexicon(lexicon), {"lexicon_sha256": sha256_of_file(lexicon)}
    chosen_tasks = None if tasks is None else tuple(tasks)
    counts = gather_counts(sources, tasks=chosen_tasks, leave_out=leave_out, without=without, progress=progress)
    return select(Measures(counts, tasks=chosen_tasks, lexicon=terms), settings, parameters=parameters)


def select(
    measures: Measures, choose: str | Sentence | Choice, *, parameters: Mapping[str, object] | None = None
) -> Vocabulary:
    """The vocabulary a sentence or a function chooses; ``parameters`` are recorded in it beside the sentence.

    A function marks the words to keep: ``lambda measures: measures("cases") >= 5``.
    """
    counts = measures.counts
    sentence = parse(choose) if isinstance(choose, str) else choose
    informed = False
    if isinstance(sentence, Sentence):
        check_registries(counts, sentence)
        kept = sentence.keep(measures, words=len(counts.words))
        method, informed = str(sentence), sentence.uses("mutual-information")
    else:
        kept, method = own_choice(measures, sentence), f"own choice: {getattr(sentence, '__name__', 'a function')}"
    return Vocabulary(
        words=tuple(counts.words[number] for number in np.flatnonzero(kept)),
        method=method,
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


def own_choice(measures: Measures, choose: Choice) -> np.ndarray:
    """What a function of the user's chooses, checked."""
    kept = np.asarray(choose(measures))
    if kept.dtype != bool or kept.shape != (len(measures.counts.words),):
        raise UsageError(
            f"a choice of words must give one true or false for each of the {len(measures.counts.words):,} words; "
            f"got {kept.dtype} of shape {kept.shape}"
        )
    if not kept.any():
        raise VocabularyError(f"the choice keeps none of the {len(measures.counts.words):,} words")
    return kept


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
    progress: Progress = silent,
) -> CountResult:
    """Count a corpus's words into the file ``out``, without those that fewer than ``min_cases`` cases hold."""
    if out.suffix != ".npz":
        raise UsageError(f"{out}: a count file's name ends in .npz, so that 'vocab select' knows it for one")
    counts = count_corpus(corpus, tasks=tasks, without=without, progress=progress)
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
    progress: Progress = silent,
) -> Counts:
    """Counts of a corpus; registries and cases that are left out are never counted."""
    store = tokens(paths, words=words, progress=progress)
    absent = [name for name in leave_out if name in store.registry_names]
    kept = ~np.isin(store.registries, [store.registry_names.index(name) for name in absent])
    notes: dict[str, object] = {"left_out": sorted(absent)} if absent else {}
    if without is not None:
        held = scan(without).select("case_id").unique().collect(engine="streaming")["case_id"]
        kept &= ~np.isin(store.cases, np.fromiter(map(case_number, held), np.int64, len(held)))
        notes["without_cases_of"] = content_sha256(without)
    labels, classes = read_labels(paths, tasks=tasks)
    return with_source(count(store, labels, classes, rows=np.flatnonzero(kept), progress=progress), **notes)


def with_source(counts: Counts, **notes: object) -> Counts:
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
        measures = Measures(with_source(fold, left_out=[left_out]), tasks=tasks)
        made[left_out] = {name: select(measures, sentence) for name, sentence in sentences.items()}
    progress("choosing words", len(names), len(names))
    return made


def save_folds(made: Mapping[str, Mapping[str, Vocabulary]], out: Path) -> FoldsResult:
    """Write each fold's vocabularies into a folder of the registry left out: ``OUT/R1/I2.json``."""
    for registry, vocabularies in made.items():
        for name, vocabulary in vocabularies.items():
            vocabulary.save(out / registry / f"{name}.json")
    sizes = {
        registry: {name: len(vocabulary.words) for name, vocabulary in vocabularies.items()}
        for registry, vocabularies in made.items()
    }
    return FoldsResult(out=str(out), folds=sizes)
