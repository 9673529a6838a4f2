"""A corpus as studies read it: every report in the token store's own word numbers, once for all vocabularies.

It can be put into a folder that stands for the corpus (``pathveil study encode``): arrays, labels and the distinct
words, mapped on loading. A machine that runs studies from it needs neither the reports nor polars. The folder holds
every word of the corpus: it is as private as the corpus, and made for its owner's eyes only.
"""

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from pathveil.errors import CorpusError, UsageError
from pathveil.files import check_writable, new_folder
from pathveil.progress import Progress, silent
from pathveil.results import Result
from pathveil.studies.settings import naming_errors
from pathveil.untrusted import Refused, read_bytes
from pathveil.vocabulary.encoded import EncodedCorpus
from pathveil.vocabulary.encoding import read_days, read_labels
from pathveil.vocabulary.tokens import Tokens, tokens
from pathveil.vocabulary.words import FIRST_WORD, UNKNOWN

ENCODED, WORDS = "encoded.json", "words.txt"


def read_study_corpus(
    corpus: Path, *, tasks: Iterable[str] | None = None, progress: Progress = silent
) -> tuple[Tokens, EncodedCorpus]:
    """The token store of a corpus or an encoded folder, and its reports in the store's word numbers with labels."""
    if (corpus / ENCODED).is_file():
        return load_encoded(corpus, tasks=tasks)
    store = tokens(corpus, progress=progress)
    wanted = None if tasks is None else tuple(tasks)
    with naming_errors("'tasks'"):
        labels, classes = read_labels(corpus, tasks=wanted)
        for task in wanted or ():
            if not classes[task]:
                raise CorpusError(f"{corpus}: no report has a label of task '{task}'; a study learns from labels")
            if len(classes[task]) == 1:
                raise CorpusError(f"{corpus}: all labels of task '{task}' are the same; there is nothing to learn")
    if not any(classes.values()):
        raise CorpusError(f"{corpus}: has no task column with labels; a study learns from at least one, such as 'site'")
    # A task of one class is always right, and would only raise the means.
    classes = {task: names for task, names in classes.items() if len(names) > 1}
    if not classes:
        raise CorpusError(f"{corpus}: no task has two different labels; there is nothing to learn")
    labels = {task: labels[task] for task in classes}
    encoded = EncodedCorpus(
        ids=store.ids,
        offsets=np.asarray(store.offsets),
        cases=np.asarray(store.cases),
        registries=np.asarray(store.registries),
        registry_names=store.registry_names,
        labels=labels,
        classes=classes,
        vocabulary_size=len(store.words),
        provenance=store.provenance,
        days=read_days(corpus),
    )
    return store, encoded


class EncodedFolder(Result):
    """What is in an encoded folder."""

    out: str
    reports: int
    registries: list[str]
    words: int  # distinct
    running_words: int
    classes: dict[str, int]
    corpus_sha256: str
    text: str  # settings of the cleaning of text

    def rows(self) -> list[dict[str, Any]]:
        return [{"task": task, "classes": count} for task, count in self.classes.items()]

    def summary(self) -> str:
        classes = ", ".join(f"{task} {count}" for task, count in self.classes.items())
        return (
            f"Encoded {self.reports:,} reports of {len(self.registries)} registries: {self.running_words:,} "
            f"words, {self.words:,} of them distinct; classes: {classes or 'none'}.\n"
            f"Written: {self.out} (it holds every word of the corpus: keep it as you keep the corpus)"
        )


def encode_corpus(
    corpus: Path, out: Path, *, tasks: Iterable[str] | None = None, progress: Progress = silent
) -> EncodedFolder:
    """Put a corpus into a folder for studies, whole or not at all."""
    check_writable(out.parent)
    if out.exists() and not (out / ENCODED).is_file():
        raise UsageError(f"{out}: is there already, and is no encoded corpus; give --out a new folder")
    others = [path for path in out.glob("*") if path.suffix != ".npy" and path.name not in (ENCODED, WORDS)]
    if others:  # they would be gone with the folder that gives way
        raise UsageError(f"{out}: holds more than an encoded corpus ({others[0].name}); give --out a new folder")
    store, encoded = read_study_corpus(corpus, tasks=tasks, progress=progress)
    with new_folder(out, private=True, replace=True) as part:
        text = "".join(word + "\n" for word in store.words)
        (part / WORDS).write_text(text, encoding="utf-8", errors="surrogatepass")
        encoded.save(part)
    return EncodedFolder(
        out=str(out),
        reports=encoded.documents,
        registries=list(encoded.registry_names),
        words=len(store.words),
        running_words=len(encoded.ids),
        classes={task: len(names) for task, names in encoded.classes.items()},
        **encoded.provenance,
    )


def load_encoded(folder: Path, *, tasks: Iterable[str] | None = None) -> tuple[Tokens, EncodedCorpus]:
    """What ``read_study_corpus`` gives, from a folder that ``encode_corpus`` wrote."""
    try:
        encoded = EncodedCorpus.load(folder)
        text = read_bytes(folder / WORDS).decode("utf-8", "surrogatepass")
    except Refused as fault:
        raise CorpusError(
            f"{folder}: is not a whole encoded corpus ({fault}); make it again with 'pathveil study encode'"
        ) from None
    except (OSError, UnicodeError):
        raise CorpusError(
            f"{folder}: is not a whole encoded corpus; make it again with 'pathveil study encode'"
        ) from None
    words = tuple(text.split("\n")[:-1])
    if len(words) != encoded.vocabulary_size or any(first >= second for first, second in pairwise(words)):
        raise CorpusError(f"{folder}: its files do not belong together; make it again with 'pathveil study encode'")
    if tasks is not None:
        wanted = tuple(dict.fromkeys(tasks))
        for task in wanted:
            if task not in encoded.classes:
                raise CorpusError(
                    f"'tasks': there is no task '{task}' in {folder}; it has {', '.join(encoded.classes)}"
                )
        labels = {task: encoded.labels[task] for task in wanted}
        encoded = replace(encoded, labels=labels, classes={task: encoded.classes[task] for task in wanted})
    store = Tokens(
        words=words,
        ids=encoded.ids,
        offsets=encoded.offsets,
        cases=encoded.cases,
        registries=encoded.registries,
        registry_names=encoded.registry_names,
        provenance=encoded.provenance,
    )
    return store, encoded


def table_of(kept: np.ndarray, words: int) -> np.ndarray:
    """From a store's word numbers to a vocabulary's ids, given the numbers it keeps in its order: (words,) int32."""
    table = np.full(words, UNKNOWN, np.int32)
    table[kept] = np.arange(FIRST_WORD, FIRST_WORD + len(kept), dtype=np.int32)
    return table


def relabelled(corpus: EncodedCorpus, table: np.ndarray, size: int) -> EncodedCorpus:
    """A corpus in a store's word numbers, with the ids of a vocabulary of this size instead."""
    return replace(corpus, ids=table[corpus.ids], vocabulary_size=size)


def provenance(store: Tokens, corpus: EncodedCorpus) -> dict[str, Any]:
    """Where the numbers come from: hashes, registries and how many reports each has."""
    reports = np.bincount(corpus.registries, minlength=len(corpus.registry_names))
    return {
        **store.provenance,
        "reports": corpus.documents,
        "registries": {name: int(count) for name, count in zip(corpus.registry_names, reports, strict=True)},
    }
