"""Choose a vocabulary from counts, by a sentence or a function.

The papers' methods are sentences of `pathveil.vocabulary.sentence`:

    baseline             occurrences >= 5                 (vocabulary paper; the distribution paper: reports >= 5)
    intersection of k    registries >= k                  rare words too, as in the paper (its finding on I2)
    mutual information   top N by mutual-information      as in the paper, rare words first (see docs/vocabulary.md)
    lexicon              in lexicon

Words are in the order of their sha256, which says nothing about their counts.

>>> from scipy import sparse
>>> table = np.array([[5, 1, 2], [4, 0, 3]])
>>> counts = WordCounts(words=("breast", "kowalski", "left"), registry_names=("R1", "R2"), classes={},
...                 total_reports=np.array([9, 9]), total_cases=np.array([9, 9]),
...                 occurrences=table, reports=table, cases=table, labels=np.zeros((2, 0), np.int64),
...                 joint=(sparse.csr_array((3, 0), dtype=np.int32),) * 2)
>>> vocabulary = select(Measures(counts), "registries >= 2")
>>> vocabulary.words, vocabulary.method
(('left', 'breast'), 'registries >= 2')
"""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field

from pathveil.corpus.schema import Paths
from pathveil.errors import UsageError, VocabularyError
from pathveil.files import sha256_of_file
from pathveil.progress import Progress, silent
from pathveil.results import Result
from pathveil.settings import Settings
from pathveil.vocabulary.corpus_counts import gather_counts
from pathveil.vocabulary.counts import WordCounts
from pathveil.vocabulary.lexicon import read_lexicon
from pathveil.vocabulary.mutual_information import mutual_information
from pathveil.vocabulary.sentence import LEXICON, Sentence
from pathveil.vocabulary.words import Vocabulary

BASELINE_MIN_COUNT = 5  # occurrences, in both papers
DEFAULT_SENTENCE = "cases >= 5"  # a name in all page headers of one report has many occurrences, and one case


class SelectionSettings(Settings):
    """How words are chosen: by a method of the papers with its number, or by a sentence."""

    method: Literal["baseline", "intersection", "mutual-information", "lexicon"] | None = None
    choose: str | None = None  # a sentence of `pathveil.vocabulary.sentence`
    min_count: int | None = Field(default=None, ge=1)  # baseline: how often a word must occur
    unit: Literal["occurrences", "reports", "cases"] = "occurrences"  # baseline: what is counted
    threshold: int | None = None  # intersection: in reports of how many registries
    top: int | None = Field(default=None, ge=1)  # mutual information: how many words
    min_cases: int | None = Field(default=None, ge=1)  # any method: cases that must have a word

    def sentence(self, *, lexicon: bool = False) -> str:
        """Write these settings as a sentence; refuse options of another method."""
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
            return " and ".join(filter(None, [f"{self.unit} >= {self.min_count or BASELINE_MIN_COUNT}", rare]))
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
    """A chosen vocabulary: its file, its size, and what it was chosen from."""

    out: str
    words: int
    of: int | None  # words to choose from; None where the choice hides their number
    method: str
    sha256: str
    source: dict[str, Any]
    parameters: dict[str, Any]

    @classmethod
    def of_vocabulary(cls, vocabulary: Vocabulary, out: Path) -> "SelectionResult":
        return cls(
            out=str(out),
            words=len(vocabulary.words),
            of=vocabulary.parameters.get("words_offered"),
            method=vocabulary.method,
            sha256=vocabulary.sha256,
            source=dict(vocabulary.source),
            parameters=dict(vocabulary.parameters),
        )

    def rows(self) -> list[dict[str, Any]]:
        return [{"method": self.method, "words": self.words, "of": self.of}]

    def summary(self) -> str:
        offered = "" if self.of is None else f" of {self.of:,}"
        reports = f"{self.source['reports']:,} reports of " if "reports" in self.source else ""
        return (
            f"{self.out}: {self.words:,}{offered} words, by '{self.method}'\n"
            f"  from {reports}{self.source['cases']:,} cases in {', '.join(self.source['registries'])}"
        )


class Measures:
    """The measures of all words, each computed once, to choose several times from one corpus."""

    def __init__(self, counts: WordCounts, *, tasks: Iterable[str] | None = None, lexicon: Set[str] | None = None):
        self.counts, self.lexicon = counts, lexicon
        self.tasks = None if tasks is None else tuple(dict.fromkeys(tasks))
        self.values: dict[str, np.ndarray] = {}

    def __call__(self, name: str) -> np.ndarray:
        if name not in self.values:
            self.values[name] = self.compute(name)
        return self.values[name]

    def compute(self, name: str) -> np.ndarray:
        if name == "mutual-information":
            return mutual_information(self.counts, tasks=check_tasks(self.counts, self.tasks))
        if name == "registries":
            return (self.counts.reports > 0).sum(axis=0)
        if name == LEXICON:
            if self.lexicon is None:
                raise UsageError("'in lexicon' needs a lexicon; give a word list or an MRCONSO.RRF file with --lexicon")
            return np.fromiter((word in self.lexicon for word in self.counts.words), np.int8, len(self.counts.words))
        return getattr(self.counts, name).sum(axis=0)


Choice = Callable[[Measures], np.ndarray]  # a user's function that marks the words to keep: (words,) bool


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
        settings = Sentence.parse(settings.sentence(lexicon=lexicon is not None))
    elif not callable(settings):
        raise UsageError(
            "words are chosen by a sentence, such as 'registries >= 2 and cases >= 3', or by a function that marks "
            f"them; got {type(settings).__name__}"
        )
    terms, parameters = None, {}
    if lexicon is not None:
        terms, parameters = read_lexicon(lexicon), {"lexicon_sha256": sha256_of_file(lexicon)}
    chosen_tasks = None if tasks is None else tuple(tasks)
    counts = gather_counts(sources, tasks=chosen_tasks, leave_out=leave_out, without=without, progress=progress)
    return select(Measures(counts, tasks=chosen_tasks, lexicon=terms), settings, parameters=parameters)


def select(
    measures: Measures, choose: str | Sentence | Choice, *, parameters: Mapping[str, object] | None = None
) -> Vocabulary:
    """Choose a vocabulary by a sentence or a function; ``parameters`` are recorded in it beside the sentence.

    A function marks the words to keep: ``lambda measures: measures("cases") >= 5``.
    """
    counts = measures.counts
    sentence = Sentence.parse(choose) if isinstance(choose, str) else choose
    uses_labels = False
    if isinstance(sentence, Sentence):
        check_registries(counts, sentence)
        chosen = sentence.apply(measures, words=len(counts.words))
        method, uses_labels = str(sentence), sentence.uses("mutual-information")
    else:
        chosen = apply_function(measures, sentence)
        method = f"own choice: {getattr(sentence, '__name__', 'a function')}"
    return Vocabulary.from_words(
        (counts.words[number] for number in np.flatnonzero(chosen)),
        method=method,
        parameters={
            "words_offered": len(counts.words),
            "seed": None,  # nothing is drawn at random: equal counts choose equal words
            **({"tasks": list(check_tasks(counts, measures.tasks))} if uses_labels else {}),
            **(parameters or {}),
        },
        source={
            **counts.source,
            "registries": list(counts.registry_names),
            "reports": int(counts.total_reports.sum()),
            "cases": int(counts.total_cases.sum()),
        },
    )


def apply_function(measures: Measures, choose: Choice) -> np.ndarray:
    """Mark the words that a user's function chooses; refuse marks of another type or number."""
    chosen = np.asarray(choose(measures))
    if chosen.dtype != bool or chosen.shape != (len(measures.counts.words),):
        raise UsageError(
            f"a choice of words must give one true or false for each of the {len(measures.counts.words):,} words; "
            f"got {chosen.dtype} of shape {chosen.shape}"
        )
    if not chosen.any():
        raise VocabularyError(f"the choice keeps none of the {len(measures.counts.words):,} words")
    return chosen


def check_tasks(counts: WordCounts, tasks: Sequence[str] | None) -> tuple[str, ...]:
    """Return the tasks whose labels mutual information uses (all by default); refuse a task that is missing."""
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


def check_registries(counts: WordCounts, sentence: Sentence) -> None:
    """Refuse a sentence that asks for words of more registries than there are."""
    names = counts.registry_names
    for comparison in sentence.comparisons:
        if comparison.measure != "registries" or comparison.sign not in (">=", ">", "="):
            continue
        wanted = int(comparison.number) + (comparison.sign == ">")
        if len(names) == 1 and wanted > 1:
            raise VocabularyError(
                f"'{comparison}' compares registries, and there is only one ({names[0]}); add the corpora or count "
                "files of others, or choose with --method baseline or mutual-information"
            )
        if wanted > len(names):
            raise VocabularyError(
                f"'{comparison}' asks for words of {wanted} registries, and there are {len(names)} "
                f"({', '.join(names)}); ask for {len(names)} at most"
            )
