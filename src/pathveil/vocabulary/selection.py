"""Choosing words: from counts and a sentence to a vocabulary.

The papers' ways are sentences of `pathveil.vocabulary.sentence`:

    baseline             occurrences >= 5                 (vocabulary paper; the distribution paper: reports >= 5)
    intersection of k    registries >= k                  rare words too, as in the paper (its finding on I2)
    mutual information   top N by mutual-information      as in the paper, rare words first (see docs/vocabulary.md)
    lexicon              in lexicon

Words stand in the order of their sha256: a vocabulary's order says nothing about their counts.

>>> from scipy import sparse
>>> held = np.array([[5, 1, 2], [4, 0, 3]])
>>> counts = Counts(words=("breast", "kowalski", "left"), registry_names=("R1", "R2"), classes={},
...                 total_reports=np.array([9, 9]), total_cases=np.array([9, 9]),
...                 occurrences=held, reports=held, cases=held, labels=np.zeros((2, 0), np.int64),
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
from pathveil.vocabulary.counts import Counts
from pathveil.vocabulary.lexicon import read_lexicon
from pathveil.vocabulary.mutual_information import mutual_information
from pathveil.vocabulary.sentence import LEXICON, Sentence
from pathveil.vocabulary.words import Vocabulary

MINIMUM = 5  # occurrences, in both papers' baselines
USUAL = "cases >= 5"  # where nothing else is asked for: a name in all page headers of one report is no word of it


class SelectionSettings(Settings):
    """How words are chosen: by one of the papers' methods with its number, or by a sentence that says everything."""

    method: Literal["baseline", "intersection", "mutual-information", "lexicon"] | None = None
    choose: str | None = None  # a sentence of `pathveil.vocabulary.sentence`
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
    of: int | None  # words there were to choose from; not told of a choice that hides them
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
            return mutual_information(self.counts, tasks=informative_tasks(self.counts, self.tasks))
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
    """The vocabulary a sentence or a function chooses; ``parameters`` are recorded in it beside the sentence.

    A function marks the words to keep: ``lambda measures: measures("cases") >= 5``.
    """
    counts = measures.counts
    sentence = Sentence.parse(choose) if isinstance(choose, str) else choose
    informed = False
    if isinstance(sentence, Sentence):
        check_registries(counts, sentence)
        kept = sentence.apply(measures, words=len(counts.words))
        method, informed = str(sentence), sentence.uses("mutual-information")
    else:
        kept, method = own_choice(measures, sentence), f"own choice: {getattr(sentence, '__name__', 'a function')}"
    return Vocabulary.from_words(
        (counts.words[number] for number in np.flatnonzero(kept)),
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
