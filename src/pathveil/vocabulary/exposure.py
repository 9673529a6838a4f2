"""How much of a person is left in a vocabulary: what each strategy keeps of rare words, of words that look like people,
and, where a truth file says what was planted, of the personal words themselves.

A word that only one case holds points at that case: whoever sees it in the vocabulary learns that the case was in the
training text. So words are counted by the cases that hold them, and cases by whether they hold a word of their own.

>>> import tempfile, polars as pl
>>> with tempfile.TemporaryDirectory() as folder:
...     corpus = Path(folder) / "reports.parquet"
...     pl.DataFrame({"report_id": ["a", "b"], "case_id": ["1", "2"], "registry": ["R1", "R1"],
...                   "text": ["Carcinoma. Dr. Kowalski", "carcinoma"]}).write_parquet(corpus)
...     result = measure({"all": Vocabulary(words=("carcinoma", "kowalski"), method="by hand")}, corpus)
>>> (row,) = result["vocabularies"]
>>> row["words"], row["coverage"], row["by_cases"]["1"], row["cases_with_own_word"], row["suspects"]["name"]
(2, 0.75, 1, 1, 1)
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pathveil.corpus.schema import Paths, scan
from pathveil.errors import UsageError
from pathveil.progress import Progress, silent
from pathveil.vocabulary import traces
from pathveil.vocabulary.counting import count
from pathveil.vocabulary.planted import Planted, planted_words
from pathveil.vocabulary.tokens import Tokens, tokens
from pathveil.vocabulary.words import Vocabulary

BUCKETS = {"1": (1, 1), "2–4": (2, 4), "5–9": (5, 9), "10–49": (10, 49), "50+": (50, np.iinfo(np.int64).max)}
SHOWN = 20  # words of a kind, where they are asked for
BLOCK = 1 << 24  # tokens looked at a time


def measure(
    vocabularies: Mapping[str, Vocabulary],
    corpus: Paths,
    *,
    truth: Path | None = None,
    scores: Mapping[str, Mapping[str, Any]] | None = None,
    leave_out: Sequence[str] = (),
    show_words: bool = False,
    progress: Progress = silent,
) -> dict[str, Any]:
    """The exposure of each vocabulary in a corpus's reports (without the registries left out).

    ``scores`` are F1 of models, by vocabulary: {sha256: {task: {"micro": …, "macro": …}}}. Words are in the result only
    where ``show_words`` asks for them.
    """
    if not vocabularies:
        raise UsageError("no vocabulary was given; expected vocabulary files before the corpus")
    store = tokens(corpus, progress=progress)
    for name in leave_out:
        if name not in store.registry_names:
            raise UsageError(f"there is no registry '{name}' to leave out; there are {', '.join(store.registry_names)}")
    left_out = np.isin(store.registries, [store.registry_names.index(name) for name in leave_out])
    rows = np.flatnonzero(~left_out)
    counts = count(store, {}, {}, rows=rows, progress=progress)
    occurrences, cases = counts.occurrences.sum(axis=0), counts.cases.sum(axis=0)
    progress("looking for traces of people", 0, 0)
    texts = scan(corpus).select("text").collect(engine="streaming")["text"]
    suspected = traces.suspects(counts.words, occurrences, cases, traces.places(texts.gather(rows)))
    planted = planted_words(corpus, truth, progress=progress) if truth else None
    owners = only_case(store, rows)
    numbers = {word: number for number, word in enumerate(counts.words)}
    owner = np.array([owners[store.numbers[word]] for word in counts.words], np.int64)
    found = []
    for name, vocabulary in vocabularies.items():
        kept = np.zeros(len(counts.words), bool)
        here = [numbers[word] for word in vocabulary.words if word in numbers]
        kept[here] = True
        kinds = [kind for word in vocabulary.words if (kind := suspected.get(word))]
        row: dict[str, Any] = {
            "name": name,
            "method": vocabulary.method,
            "sha256": vocabulary.sha256,
            "words": len(vocabulary.words),
            "not_in_corpus": len(vocabulary.words) - len(here),
            "coverage": float(occurrences[kept].sum() / max(1, occurrences.sum())),
            "by_cases": {
                bucket: int((kept & (cases >= low) & (cases <= high)).sum()) for bucket, (low, high) in BUCKETS.items()
            },
            "cases_with_own_word": len(np.unique(owner[kept & (cases == 1)])),
            "suspects": {kind: kinds.count(kind) for kind in traces.KINDS},
        }
        if planted:
            row["planted"] = survivors(planted, set(counts.words), set(vocabulary.words))
        if scores:
            row["scores"] = averaged(scores.get(vocabulary.sha256))
        if show_words:
            row["shown"] = examples(vocabulary, suspected, numbers, cases)
        found.append(row)
    return {
        "corpus": dict(store.provenance),
        "reports": int(counts.total_reports.sum()),
        "cases": int(counts.total_cases.sum()),
        "registries": list(counts.registry_names),
        "words": len(counts.words),
        "vocabularies": found,
    }


def only_case(store: Tokens, rows: np.ndarray) -> np.ndarray:
    """A case that holds each word of the store; for a word of one case, that case: (words,)."""
    owner = np.zeros(len(store.words), np.int64)
    offsets, cases = np.asarray(store.offsets), np.asarray(store.cases)
    taken = np.zeros(store.documents, bool)
    taken[rows] = True
    for start in range(0, len(store.ids), BLOCK):
        block = np.asarray(store.ids[start : start + BLOCK])
        document = np.searchsorted(offsets, np.arange(start, start + len(block)), side="right") - 1
        owner[block[taken[document]]] = cases[document[taken[document]]]
    return owner


def survivors(planted: Planted, there: set[str], kept: set[str]) -> dict[str, dict[str, float]]:
    """Of the personal words in the reports, by kind: how many the vocabulary keeps."""
    kinds = {kind: words & there for kind, words in planted.only.items()}
    kinds["any"] = frozenset().union(*kinds.values())
    return {
        kind: {"planted": len(words), "kept": len(words & kept), "share": len(words & kept) / len(words)}
        for kind, words in kinds.items()
        if words
    }


def averaged(scores: Mapping[str, Any] | None) -> dict[str, float] | None:
    """Mean micro and macro F1 over a model's tasks."""
    if not scores:
        return None
    means = {}
    for average in ("micro", "macro"):
        values = [score[average]["value"] for score in scores.values() if average in score]
        means[average] = float(np.mean(values))
    return means


def examples(
    vocabulary: Vocabulary, suspected: Mapping[str, str], numbers: Mapping[str, int], cases: np.ndarray
) -> dict[str, list[str]]:
    """Words of each kind, those of the fewest cases first."""
    shown: dict[str, list[str]] = {kind: [] for kind in (*traces.KINDS, "in one case")}
    for word in sorted(vocabulary.words, key=lambda word: (cases[numbers[word]] if word in numbers else 0, word)):
        kind = suspected.get(word)
        if kind and len(shown[kind]) < SHOWN:
            shown[kind].append(word)
        if word in numbers and cases[numbers[word]] == 1 and len(shown["in one case"]) < SHOWN:
            shown["in one case"].append(word)
    return shown


def describe(result: Mapping[str, Any]) -> str:
    """The comparison as tables for a terminal."""
    rows = result["vocabularies"]
    width = max(12, *(len(row["name"]) for row in rows))
    lines = [
        f"{result['reports']:,} reports of {result['cases']:,} cases in {', '.join(result['registries'])}; "
        f"{result['words']:,} distinct words",
        "",
        f"{'':<{width}}{'words':>8}{'running':>9}  words that so many cases hold" + " " * 12 + "cases with",
        f"{'vocabulary':<{width}}{'kept':>8}{'text':>9}" + "".join(f"{name:>8}" for name in BUCKETS) + "   own word",
    ]
    for row in rows:
        held = "".join(f"{row['by_cases'][bucket]:>8,}" for bucket in BUCKETS)
        own = f"{row['cases_with_own_word']:>11,}"
        lines.append(f"{row['name']:<{width}}{row['words']:>8,}{row['coverage']:>9.1%}{held}{own}")
    kinds = traces.KINDS
    lines += ["", f"{'looks like':<{width}}" + "".join(f"{kind:>15}" for kind in kinds)]
    for row in rows:
        lines.append(f"{row['name']:<{width}}" + "".join(f"{row['suspects'][kind]:>15,}" for kind in kinds))
    if any("planted" in row for row in rows):
        kinds = tuple(rows[0]["planted"])
        lines += ["", f"{'planted, kept':<{width}}" + "".join(f"{kind.replace('_', ' '):>16}" for kind in kinds)]
        planted = "".join(f"{rows[0]['planted'][kind]['planted']:>16,}" for kind in kinds)
        lines.append(f"{'(of)':<{width}}{planted}")
        for row in rows:
            parts = [f"{row['planted'][kind]['kept']:,} ({row['planted'][kind]['share']:.0%})" for kind in kinds]
            lines.append(f"{row['name']:<{width}}" + "".join(f"{part:>16}" for part in parts))
    if any(row.get("scores") for row in rows):
        lines += ["", f"{'mean F1':<{width}}{'micro':>8}{'macro':>8}"]
        for row in rows:
            if row.get("scores"):
                lines.append(f"{row['name']:<{width}}{row['scores']['micro']:>8.3f}{row['scores']['macro']:>8.3f}")
    for row in rows:
        for kind, words in row.get("shown", {}).items():
            if words:
                lines += ["", f"{row['name']}, {kind}: {', '.join(words)}"]
    return "\n".join(lines)
