"""The vocabularies a study compares: the papers' by name, any sentence of ``pathveil.vocabulary.sentence``, and own
ones: a file, a ``Vocabulary``, or a function that chooses words in each fold from what was counted in its training
documents.

>>> sentences(("B", "I3", "registries>=2 and cases >= 5"), registries=6, minimum=5, sizes=(500,))
{'B': 'occurrences >= 5', 'I3': 'registries >= 3', 'registries >= 2 and cases >= 5': 'registries >= 2 and cases >= 5'}
>>> list(sentences(None, registries=3, minimum=5, sizes=(500,)))
['B', 'I2', 'I3', 'MI500']
>>> sentences(("I9",), registries=2, minimum=5, sizes=(500,))
Traceback (most recent call last):
pathveil.errors.UsageError: 'I9' is neither a vocabulary here (B, I2, MI500) nor a sentence such as 'registries >= 3'
"""

import hashlib
import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pathveil.errors import UsageError, VocabularyError
from pathveil.progress import Progress, silent
from pathveil.studies.scheduler import Keep
from pathveil.studies.store import Cells
from pathveil.vocabulary.counting import count
from pathveil.vocabulary.encoded import EncodedCorpus
from pathveil.vocabulary.folds import PAPER_BASELINE, PAPER_SIZES, paper_sentences, two_digits
from pathveil.vocabulary.selection import Measures, select
from pathveil.vocabulary.sentence import Sentence
from pathveil.vocabulary.tokens import Tokens
from pathveil.vocabulary.words import Vocabulary

OwnWords = Vocabulary | Callable[[Measures], Vocabulary | Iterable[str]]


def own_words(files: Mapping[str, str], given: Mapping[str, OwnWords], *, taken: Iterable[str]) -> dict[str, OwnWords]:
    """Own vocabularies by name: those of a study file, then those given in Python."""
    own = {name: Vocabulary.load(Path(file)) for name, file in files.items()} | dict(given)
    for name, words in own.items():
        if not isinstance(words, Vocabulary) and not callable(words):
            raise UsageError(f"'{name}': expected a vocabulary or a function; got {type(words).__name__}")
    for name in taken:
        if name in own:
            raise UsageError(f"'{name}' is the name of another vocabulary of the study; choose another name")
    return own


def key_of_own(words: OwnWords) -> str:
    """What stands for an own vocabulary where a sentence stands for others: it changes when its words may.

    >>> key_of_own(Vocabulary(("left", "right"), "by hand"))[:22]
    'own words, sha256 96e7'
    """
    if isinstance(words, Vocabulary):
        return f"own words, sha256 {words.sha256}"
    try:
        source = inspect.getsource(words)
    except (OSError, TypeError):
        source = repr(words)
    name = getattr(words, "__qualname__", type(words).__qualname__)
    return f"own choice {name}, sha256 {hashlib.sha256(source.encode()).hexdigest()}"


def sentences(names: Sequence[str] | None, *, registries: int, minimum: int, sizes: Sequence[int]) -> dict[str, str]:
    """What each name stands for; a sentence stands for itself. None is all of the paper's."""
    known = paper_sentences(registries, minimum=minimum, sizes=sizes)
    if names is None:
        return known
    chosen = {}
    for name in names:
        if name in known:
            chosen[name] = known[name]
            continue
        try:
            sentence = str(Sentence.parse(name))
        except VocabularyError as error:
            if " " in name.strip():
                raise UsageError(f"vocabulary '{name}': {error}") from None
            raise UsageError(
                f"'{name}' is neither a vocabulary here ({', '.join(known)}) nor a sentence such as 'registries >= 3'"
            ) from None
        chosen[sentence] = sentence
    return chosen


def kind_of(name: str) -> str:
    """
    >>> kind_of("B"), kind_of("I3"), kind_of("MI500"), kind_of("cases >= 5")
    ('baseline', 'intersection', 'mutual information', 'other')
    """
    if name == "B":
        return "baseline"
    if re.fullmatch(r"I\d+", name):
        return "intersection"
    return "mutual information" if re.fullmatch(r"MI\d+", name) else "other"


def described(name: str, words: int, *, minimum: int) -> str:
    """What a vocabulary of this name holds, in a few words.

    >>> described("MI100", 100, minimum=5), described("I3", 2276, minimum=5)
    ('the 100 words that tell most', '2,276 words of 3 registries or more')
    >>> described("B", 2735, minimum=5), described("cases >= 9", 800, minimum=5)
    ('2,735 words used 5 times or more', '800 words')
    """
    match kind_of(name):
        case "mutual information":
            return f"the {words:,} words that tell most"
        case "intersection":
            return f"{words:,} words of {name[1:]} registries or more"
        case "baseline":
            return f"{words:,} words used {minimum} times or more"
    return f"{words:,} words"


def sizes_for(store: Tokens, *, minimum: int) -> tuple[int, ...]:
    """The paper's sizes of mutual-information vocabularies, two_digits by the words of the whole corpus, so that
    a vocabulary has the same name in every fold."""
    words = (np.bincount(np.asarray(store.ids), minlength=len(store.words)) >= minimum).sum()
    return tuple(dict.fromkeys(two_digits(size * float(words) / PAPER_BASELINE) for size in PAPER_SIZES))


def cell_of_words(parts: Mapping[str, Any], sentence: str) -> dict[str, Any]:
    """The cell that keeps which words a sentence chose."""
    return {**parts, "unit": "words", "sentence": sentence}


def choose(
    wanted: Mapping[str, str],
    *,
    store: Tokens,
    corpus: EncodedCorpus,
    rows: np.ndarray,
    cells: Cells,
    parts: Mapping[str, Any],
    progress: Progress = silent,
    stage: str = "choosing words",
    own: Mapping[str, OwnWords] | None = None,
) -> dict[str, Vocabulary]:
    """Vocabularies by name, from these documents alone; what was chosen before is found again (as numbers of words,
    never as words) among the cells."""
    made: dict[str, Vocabulary] = {}
    measures: Measures | None = None
    for done, (name, sentence) in enumerate(wanted.items()):
        progress(stage, done, len(wanted))
        given = (own or {}).get(name)
        if isinstance(given, Vocabulary):
            made[name] = given
            continue
        kept = cell_of_words(parts, sentence)
        if not cells.has(kept):
            if measures is None:
                measures = Measures(count(store, corpus.labels, corpus.classes, rows=rows))
            words = select(measures, sentence).words if given is None else _words_of(given(measures))
            numbers = sorted(store.numbers[word] for word in words if word in store.numbers)
            cells.write(kept, {}, {"numbers": np.array(numbers, np.int32)})
        numbers = cells.read(kept)[1]["numbers"]
        made[name] = Vocabulary.from_words((store.words[number] for number in numbers), method=sentence)
        if not made[name].words:
            raise VocabularyError(f"'{sentence}' keeps no word of the training reports; ask for less")
    progress(stage, len(wanted), len(wanted))
    return made


def choose_numbers(
    corpus: EncodedCorpus, rows: np.ndarray, wanted: Mapping[str, Mapping[str, Any]], keep: Keep, progress: Progress
) -> None:
    """A unit of a study's work: the numbers of the words that each sentence chooses from these documents. Words stand
    in the order of their numbers, so numbers serve as words, and a worker needs no text."""
    width = len(str(corpus.vocabulary_size))
    store = Tokens(
        words=tuple(f"{number:0{width}}" for number in range(corpus.vocabulary_size)),
        ids=corpus.ids,
        offsets=corpus.offsets,
        cases=corpus.cases,
        registries=corpus.registries,
        registry_names=corpus.registry_names,
        provenance=corpus.provenance,
    )
    measures = Measures(count(store, corpus.labels, corpus.classes, rows=rows))
    for sentence, parts in wanted.items():
        numbers = np.sort(np.array([int(word) for word in select(measures, sentence).words], np.int32))
        keep(parts, {}, {"numbers": numbers})


def _words_of(chosen: Vocabulary | Iterable[str]) -> tuple[str, ...]:
    return chosen.words if isinstance(chosen, Vocabulary) else tuple(dict.fromkeys(chosen))
