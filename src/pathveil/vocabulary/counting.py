"""Count the words of a token store, a registry at a time.

A registry's reports are a sparse table, reports × words. Cases are the same table with the reports of a case in one
row; the joint counts of words and classes are its product with reports × classes. Work grows with the length of the
text, memory with one registry.

>>> import tempfile, polars as pl
>>> from pathlib import Path
>>> from pathveil.vocabulary.encoding import read_labels
>>> from pathveil.vocabulary.tokens import tokens
>>> with tempfile.TemporaryDirectory() as folder:
...     corpus = Path(folder) / "reports.parquet"
...     table = {"report_id": ["a", "b", "c"], "case_id": ["1", "1", "2"], "registry": ["R1", "R1", "R2"],
...              "text": ["left left breast", "left", "colon"], "site": ["C50", None, "C18"]}
...     pl.DataFrame(table).write_parquet(corpus)
...     counts = count(tokens(corpus), *read_labels(corpus))
>>> counts.words, counts.registry_names, counts.occurrences.tolist()
(('breast', 'colon', 'left'), ('R1', 'R2'), [[1, 0, 3], [0, 1, 0]])
>>> counts.reports.tolist(), counts.cases.tolist()
([[1, 0, 2], [0, 1, 0]], [[1, 0, 1], [0, 1, 0]])
>>> counts.classes, counts.joint[0].toarray().tolist()
({'site': ('C18', 'C50')}, [[0, 1], [0, 0], [0, 1]])
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from pathveil.errors import VocabularyError
from pathveil.progress import Progress, silent
from pathveil.vocabulary.counts import ARRAYS, WordCounts
from pathveil.vocabulary.encoded import MISSING, take_documents
from pathveil.vocabulary.tokens import Tokens


def count(
    store: Tokens,
    labels: Mapping[str, np.ndarray],
    classes: Mapping[str, Sequence[str]],
    *,
    rows: np.ndarray | None = None,
    progress: Progress = silent,
) -> WordCounts:
    """Count the words of a token store (or of some rows of it)."""
    rows = np.arange(store.documents) if rows is None else np.asarray(rows)
    ids, offsets = np.asarray(store.ids), np.asarray(store.offsets)
    registries, cases = np.asarray(store.registries), np.asarray(store.cases)
    names = [name for number, name in enumerate(store.registry_names) if (registries[rows] == number).any()]
    if not names:
        raise VocabularyError("there is no report to count; is every registry or case left out?")
    starts = np.cumsum([0, *(len(classes[task]) for task in classes)])
    # (documents, tasks): the class of each report and task among all classes, −1 where it has none
    codes = np.full((store.documents, len(classes)), MISSING, np.int32)
    for place, task in enumerate(classes):
        numbers = np.asarray(labels[task])
        codes[:, place] = np.where(numbers == MISSING, MISSING, numbers + starts[place])

    words, kinds = len(store.words), int(starts[-1])
    tables: dict[str, list[Any]] = {name: [] for name in (*ARRAYS, "joint")}
    for number, name in enumerate(names):
        progress("counting words", number, len(names))
        reports = rows[registries[rows] == store.registry_names.index(name)]
        reports = reports[np.argsort(cases[reports], kind="stable")]  # those of a case side by side
        tokens, starts_of_reports = take_documents(ids, offsets, reports)
        tables["occurrences"].append(np.bincount(tokens, minlength=words))
        by_report = presence(tokens, starts_of_reports, words)
        tables["reports"].append(np.bincount(by_report.indices, minlength=words).astype(np.int32))
        _, first_reports = np.unique(cases[reports], return_index=True)
        starts_of_cases = np.append(by_report.indptr[first_reports], by_report.indptr[-1])
        by_case = presence(by_report.indices.copy(), starts_of_cases, words)
        tables["cases"].append(np.bincount(by_case.indices, minlength=words).astype(np.int32))
        labelled, task = np.nonzero(codes[reports] != MISSING)
        kind = codes[reports][labelled, task]
        by_class = sparse.csr_array((np.ones(len(kind), np.int32), (labelled, kind)), shape=(len(reports), kinds))
        joint = sparse.csr_array(by_report.T @ by_class)
        joint.sort_indices()
        tables["joint"].append(joint)
        tables["labels"].append(np.bincount(kind, minlength=kinds))
        tables["total_reports"].append(len(reports))
        tables["total_cases"].append(len(first_reports))
    progress("counting words", len(names), len(names))
    everything = WordCounts(
        words=store.words,
        registry_names=tuple(names),
        classes={task: tuple(classes[task]) for task in classes},
        joint=tuple(tables.pop("joint")),
        source={**store.provenance, "minimum_cases": 1},
        **{name: np.array(table) for name, table in tables.items()},
    )
    return everything.take(names)


def presence(words: np.ndarray, starts: np.ndarray, distinct: int) -> sparse.csr_array:
    """Mark which words each report (or case) has, from words that lie end to end: (reports, distinct words) of ones.

    Sorts ``words`` in place.
    """
    table = sparse.csr_array((np.ones(len(words), np.int32), words, starts), shape=(len(starts) - 1, distinct))
    table.sum_duplicates()
    table.data[:] = 1
    return table
