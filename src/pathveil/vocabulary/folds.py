"""Choose the vocabulary paper's ten vocabularies (B, I2 …, MI at four sizes), each registry left out in turn."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pathveil.errors import VocabularyError
from pathveil.progress import Progress, silent
from pathveil.results import Result
from pathveil.vocabulary.corpus_counts import with_source
from pathveil.vocabulary.counts import WordCounts
from pathveil.vocabulary.selection import BASELINE_MIN_COUNT, Measures, select
from pathveil.vocabulary.words import Vocabulary

PAPER_BASELINE = 58_332  # words, on average over the paper's folds
PAPER_SIZES = (20_000, 10_000, 5_000, 2_000)


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


def paper_sentences(registries: int, *, minimum: int, sizes: Sequence[int]) -> dict[str, str]:
    """Write the sentences of the paper's vocabularies by name: B, I2 … I(R), and mutual information at the given sizes.

    >>> paper_sentences(2, minimum=5, sizes=[2000])
    {'B': 'occurrences >= 5', 'I2': 'registries >= 2', 'MI2000': 'top 2000 by mutual-information'}
    """
    sentences = {"B": f"occurrences >= {minimum}"}
    sentences |= {f"I{k}": f"registries >= {k}" for k in range(2, registries + 1)}
    return sentences | {f"MI{size}": f"top {size} by mutual-information" for size in sizes}


def two_digits(size: float) -> int:
    """Round a size to two digits, as people give them.

    >>> two_digits(3243.2), two_digits(87.6), two_digits(3)
    (3200, 88, 3)
    """
    digits = max(0, len(str(int(size))) - 2)
    return max(1, round(size / 10**digits) * 10**digits)


def folds(
    counts: WordCounts,
    *,
    minimum: int = BASELINE_MIN_COUNT,
    sizes: Sequence[int] | None = None,
    tasks: Iterable[str] | None = None,
    progress: Progress = silent,
) -> dict[str, dict[str, Vocabulary]]:
    """Leave each registry out in turn, and choose the paper's ten vocabularies from the others.

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
        sizes = list(dict.fromkeys(two_digits(size * np.mean(baselines) / PAPER_BASELINE) for size in PAPER_SIZES))
    sentences = paper_sentences(len(names) - 1, minimum=minimum, sizes=sizes)
    tasks = None if tasks is None else tuple(tasks)
    vocabularies: dict[str, dict[str, Vocabulary]] = {}
    for number, (left_out, fold) in enumerate(others.items()):
        progress("choosing words", number, len(names))
        measures = Measures(with_source(fold, left_out=[left_out]), tasks=tasks)
        vocabularies[left_out] = {name: select(measures, sentence) for name, sentence in sentences.items()}
    progress("choosing words", len(names), len(names))
    return vocabularies


def save_folds(vocabularies: Mapping[str, Mapping[str, Vocabulary]], out: Path) -> FoldsResult:
    """Write each fold's vocabularies into a folder of the registry left out: ``OUT/R1/I2.json``."""
    for registry, by_name in vocabularies.items():
        for name, vocabulary in by_name.items():
            vocabulary.save(out / registry / f"{name}.json")
    sizes = {
        registry: {name: len(vocabulary.words) for name, vocabulary in by_name.items()}
        for registry, by_name in vocabularies.items()
    }
    return FoldsResult(out=str(out), folds=sizes)
