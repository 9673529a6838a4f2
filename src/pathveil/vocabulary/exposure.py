"""Measure what vocabularies expose of people: rare words, words that look like people, and, of a synthetic corpus
with a truth file, the personal words themselves.

A word of only one case points at that case: a reader of the vocabulary learns that the case was in the training text.
So words are counted by the number of cases that have them, and cases by whether they have a word of their own.

>>> import tempfile, polars as pl
>>> with tempfile.TemporaryDirectory() as folder:
...     corpus = Path(folder) / "reports.parquet"
...     pl.DataFrame({"report_id": ["a", "b"], "case_id": ["1", "2"], "registry": ["R1", "R1"],
...                   "text": ["Carcinoma. Dr. Kowalski", "carcinoma"]}).write_parquet(corpus)
...     result = measure_exposure({"all": Vocabulary(words=("carcinoma", "kowalski"), method="by hand")}, corpus)
>>> (row,) = result.vocabularies
>>> row.words, row.coverage, row.by_cases["1"], row.cases_with_own_word, row.suspects["name"]
(2, 0.75, 1, 1, 1)
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pathveil.corpus.schema import Paths, scan
from pathveil.errors import UsageError
from pathveil.progress import Progress, silent
from pathveil.results import Part, Result
from pathveil.text.identifiers import TOKENS
from pathveil.vocabulary.counting import count
from pathveil.vocabulary.planted import PlantedWords, planted_words
from pathveil.vocabulary.suspect_words import KINDS, count_places, suspects
from pathveil.vocabulary.tokens import Tokens, tokens
from pathveil.vocabulary.words import Vocabulary

IDENTIFIER_WORDS = frozenset(TOKENS.values())
BUCKETS = {"1": (1, 1), "2–4": (2, 4), "5–9": (5, 9), "10–49": (10, 49), "50+": (50, np.iinfo(np.int64).max)}
SHOWN = 20  # words of a kind, where they are asked for
BLOCK = 1 << 24  # tokens in memory at a time


class PlantedCount(Part):
    """How many of the planted personal words of a kind are in a vocabulary."""

    planted: int
    kept: int
    share: float


class MeanScores(Part):
    """F1 of a model, averaged over its tasks."""

    micro: float
    macro: float


class VocabularyExposure(Part):
    """What a vocabulary exposes of people."""

    name: str
    method: str
    sha256: str
    words: int
    not_in_corpus: int
    coverage: float  # share of the running text
    by_cases: dict[str, int]  # words by the number of cases that have them
    cases_with_own_word: int  # cases with a word that no other case has
    suspects: dict[str, int]  # words that look like people, by kind
    planted: dict[str, PlantedCount] | None = None  # by kind, for a synthetic corpus
    scores: MeanScores | None = None  # of a model with these words
    shown: dict[str, list[str]] | None = None  # suspected words, where they are asked for


class ExposureResult(Result):
    """The exposure of several vocabularies in one corpus."""

    corpus: dict[str, str]  # its hash and text settings
    reports: int
    cases: int
    registries: list[str]
    words: int
    vocabularies: list[VocabularyExposure]

    def rows(self) -> list[dict[str, Any]]:
        return [
            {"name": row.name, "words": row.words, "coverage": row.coverage}
            | {f"in_{bucket}_cases": count for bucket, count in row.by_cases.items()}
            | {"cases_with_own_word": row.cases_with_own_word}
            | {f"suspect_{kind.replace(' ', '_')}": count for kind, count in row.suspects.items()}
            for row in self.vocabularies
        ]

    def summary(self) -> str:
        registries = ", ".join(self.registries)
        head = f"{self.reports:,} reports of {self.cases:,} cases in {registries}; {self.words:,} distinct words"
        width = max(12, *(len(row.name) for row in self.vocabularies))
        tables = (cases_table, suspects_table, planted_table, scores_table, shown_words)
        return "\n".join([head, *(line for table in tables for line in table(self.vocabularies, width))])


def cases_table(rows: Sequence[VocabularyExposure], width: int) -> list[str]:
    lines = [
        "",
        f"{'':<{width}}{'words':>8}{'running':>9}  words that so many cases hold" + " " * 12 + "cases with",
        f"{'vocabulary':<{width}}{'kept':>8}{'text':>9}" + "".join(f"{name:>8}" for name in BUCKETS) + "   own word",
    ]
    for row in rows:
        by_cases = "".join(f"{row.by_cases[bucket]:>8,}" for bucket in BUCKETS)
        own = f"{row.cases_with_own_word:>11,}"
        lines.append(f"{row.name:<{width}}{row.words:>8,}{row.coverage:>9.1%}{by_cases}{own}")
    return lines


def suspects_table(rows: Sequence[VocabularyExposure], width: int) -> list[str]:
    lines = ["", f"{'looks like':<{width}}" + "".join(f"{kind:>15}" for kind in KINDS)]
    return lines + [f"{row.name:<{width}}" + "".join(f"{row.suspects[kind]:>15,}" for kind in KINDS) for row in rows]


def planted_table(rows: Sequence[VocabularyExposure], width: int) -> list[str]:
    kinds = rows[0].planted
    if not kinds:
        return []
    lines = ["", f"{'planted, kept':<{width}}" + "".join(f"{kind.replace('_', ' '):>16}" for kind in kinds)]
    lines.append(f"{'(of)':<{width}}" + "".join(f"{count.planted:>16,}" for count in kinds.values()))
    for row in rows:
        cells = (f"{count.kept:,} ({count.share:.0%})" for count in (row.planted or {}).values())
        lines.append(f"{row.name:<{width}}" + "".join(f"{cell:>16}" for cell in cells))
    return lines


def scores_table(rows: Sequence[VocabularyExposure], width: int) -> list[str]:
    lines = [f"{row.name:<{width}}{row.scores.micro:>8.3f}{row.scores.macro:>8.3f}" for row in rows if row.scores]
    return ["", f"{'mean F1':<{width}}{'micro':>8}{'macro':>8}", *lines] if lines else []


def shown_words(rows: Sequence[VocabularyExposure], width: int) -> list[str]:
    lines = []
    for row in rows:
        for kind, words in (row.shown or {}).items():
            lines += ["", f"{row.name}, {kind}: {', '.join(words)}"] if words else []
    return lines


def measure_exposure(
    vocabularies: Mapping[str, Vocabulary],
    corpus: Paths,
    *,
    truth: Path | None = None,
    scores: Mapping[str, Mapping[str, Any]] | None = None,
    leave_out: Sequence[str] = (),
    show_words: bool = False,
    progress: Progress = silent,
) -> ExposureResult:
    """Measure the exposure of each vocabulary in a corpus's reports (without the registries left out).

    ``scores`` are F1 of models, by vocabulary: {sha256: {task: {"micro": …, "macro": …}}}. Words are in the result only
    where ``show_words`` asks for them.
    """
    if not vocabularies:
        raise UsageError("no vocabulary was given; expected vocabulary files before the corpus")
    store = tokens(corpus, identifiers=False, progress=progress)  # a list of words exposes what the text says
    for name in leave_out:
        if name not in store.registry_names:
            raise UsageError(f"there is no registry '{name}' to leave out; there are {', '.join(store.registry_names)}")
    left_out = np.isin(store.registries, [store.registry_names.index(name) for name in leave_out])
    rows = np.flatnonzero(~left_out)
    counts = count(store, {}, {}, rows=rows, progress=progress)
    occurrences, cases = counts.occurrences.sum(axis=0), counts.cases.sum(axis=0)
    progress("looking for traces of people", 0, 0)
    texts = scan(corpus).select("text").collect(engine="streaming")["text"]
    suspected = suspects(counts.words, occurrences, cases, count_places(texts.gather(rows)))
    planted = planted_words(corpus, truth, progress=progress) if truth else None
    owners = find_case(store, rows)
    numbers = {word: number for number, word in enumerate(counts.words)}
    owner = np.array([owners[store.numbers[word]] for word in counts.words], np.int64)

    def exposure_of(name: str, vocabulary: Vocabulary) -> VocabularyExposure:
        known = [numbers[word] for word in vocabulary.words if word in numbers]
        made_up = sum(word in IDENTIFIER_WORDS for word in vocabulary.words)  # they stand for people without naming one
        chosen = np.zeros(len(counts.words), bool)
        chosen[known] = True
        kinds = [suspected[word] for word in vocabulary.words if word in suspected]
        return VocabularyExposure(
            name=name,
            method=vocabulary.method,
            sha256=vocabulary.sha256,
            words=len(vocabulary.words),
            not_in_corpus=len(vocabulary.words) - len(known) - made_up,
            coverage=float(occurrences[chosen].sum() / max(1, occurrences.sum())),
            by_cases={
                bucket: int((chosen & (cases >= low) & (cases <= high)).sum())
                for bucket, (low, high) in BUCKETS.items()
            },
            cases_with_own_word=len(np.unique(owner[chosen & (cases == 1)])),
            suspects={kind: kinds.count(kind) for kind in KINDS},
            planted=count_planted(planted, set(counts.words), set(vocabulary.words)) if planted else None,
            scores=mean_scores((scores or {}).get(vocabulary.sha256)),
            shown=examples(vocabulary, suspected, numbers, cases) if show_words else None,
        )

    return ExposureResult(
        corpus=dict(store.provenance),
        reports=int(counts.total_reports.sum()),
        cases=int(counts.total_cases.sum()),
        registries=list(counts.registry_names),
        words=len(counts.words),
        vocabularies=[exposure_of(name, vocabulary) for name, vocabulary in vocabularies.items()],
    )


def find_case(store: Tokens, rows: np.ndarray) -> np.ndarray:
    """Find for each word of the store one case that has it: (words,)."""
    owner = np.zeros(len(store.words), np.int64)
    offsets, cases = np.asarray(store.offsets), np.asarray(store.cases)
    is_counted = np.zeros(store.documents, bool)
    is_counted[rows] = True
    for start in range(0, len(store.ids), BLOCK):
        block = np.asarray(store.ids[start : start + BLOCK])
        document = np.searchsorted(offsets, np.arange(start, start + len(block)), side="right") - 1
        owner[block[is_counted[document]]] = cases[document[is_counted[document]]]
    return owner


def count_planted(planted: PlantedWords, corpus_words: set[str], vocabulary: set[str]) -> dict[str, PlantedCount]:
    """Count the planted words of the reports, by kind, and those in the vocabulary."""
    kinds = {kind: words & corpus_words for kind, words in planted.only.items()}
    kinds["any"] = frozenset().union(*kinds.values())
    return {
        kind: PlantedCount(planted=len(words), kept=len(words & vocabulary), share=len(words & vocabulary) / len(words))
        for kind, words in kinds.items()
        if words
    }


def mean_scores(scores: Mapping[str, Any] | None) -> MeanScores | None:
    """Average micro and macro F1 over a model's tasks."""
    if not scores:
        return None
    micro, macro = (
        float(np.mean([score[average]["value"] for score in scores.values() if average in score]))
        for average in ("micro", "macro")
    )
    return MeanScores(micro=micro, macro=macro)


def examples(
    vocabulary: Vocabulary, suspected: Mapping[str, str], numbers: Mapping[str, int], cases: np.ndarray
) -> dict[str, list[str]]:
    """List words of each kind, those of the fewest cases first."""
    shown: dict[str, list[str]] = {kind: [] for kind in (*KINDS, "in one case")}
    for word in sorted(vocabulary.words, key=lambda word: (cases[numbers[word]] if word in numbers else 0, word)):
        kind = suspected.get(word)
        if kind and len(shown[kind]) < SHOWN:
            shown[kind].append(word)
        if word in numbers and cases[numbers[word]] == 1 and len(shown["in one case"]) < SHOWN:
            shown["in one case"].append(word)
    return shown
