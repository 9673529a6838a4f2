"""Counting the words of a token store, a registry at a time.

A registry's reports are turned round once, from report → words to word → reports; a word's counts over all classes then
stay in the fastest cache while they are made. Work grows with the length of the text, memory with one registry.

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

import numba
import numpy as np
from scipy import sparse

from pathveil.errors import VocabularyError
from pathveil.progress import Progress, silent
from pathveil.vocabulary.counts import ARRAYS, Counts
from pathveil.vocabulary.encoded import MISSING
from pathveil.vocabulary.tokens import Tokens


def count(
    store: Tokens,
    labels: Mapping[str, np.ndarray],
    classes: Mapping[str, Sequence[str]],
    *,
    rows: np.ndarray | None = None,
    progress: Progress = silent,
) -> Counts:
    """Count a token store's reports (or the given rows of it), a registry at a time, so memory is bounded by one."""
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
        given = np.asarray(labels[task])
        codes[:, place] = np.where(given == MISSING, MISSING, given + starts[place])

    words, kinds = len(store.words), int(starts[-1])
    tables: dict[str, list[Any]] = {name: [] for name in (*ARRAYS, "joint")}
    for number, name in enumerate(names):
        progress("counting words", number, len(names))
        mine = rows[registries[rows] == store.registry_names.index(name)]
        mine = mine[np.argsort(cases[mine], kind="stable")]  # a case's reports together, so that cases can be counted
        occurrences, indptr, documents = _postings(ids, offsets, mine, words)
        held, in_cases, pointer, indices, data = _joint(indptr, documents, cases[mine], codes[mine], kinds)
        tables["total_reports"].append(len(mine))
        tables["total_cases"].append(len(np.unique(cases[mine])))
        tables["occurrences"].append(occurrences)
        tables["reports"].append(held)
        tables["cases"].append(in_cases)
        tables["labels"].append(np.bincount(codes[mine][codes[mine] != MISSING], minlength=kinds))
        tables["joint"].append(sparse.csr_array((data, indices, pointer), shape=(words, kinds)))
    progress("counting words", len(names), len(names))
    everything = Counts(
        words=store.words,
        registry_names=tuple(names),
        classes={task: tuple(classes[task]) for task in classes},
        joint=tuple(tables.pop("joint")),
        source={**store.provenance, "minimum_cases": 1},
        **{name: np.array(table) for name, table in tables.items()},
    )
    return everything.take(names)


@numba.njit(cache=True, nogil=True)
def _postings(ids, offsets, rows, words):
    """Occurrences of each word, and for each word which of the rows hold it (as a place in ``rows``), ascending."""
    occurrences = np.zeros(words, np.int64)
    indptr = np.zeros(words + 1, np.int64)
    last = np.full(words, -1, np.int32)  # the last row that was seen to hold the word
    for place in range(len(rows)):
        for token in ids[offsets[rows[place]] : offsets[rows[place] + 1]]:
            occurrences[token] += 1
            if last[token] != place:
                last[token] = place
                indptr[token + 1] += 1
    indptr = np.cumsum(indptr)
    documents = np.empty(indptr[-1], np.int32)
    following = indptr[:-1].copy()
    last[:] = -1
    for place in range(len(rows)):
        for token in ids[offsets[rows[place]] : offsets[rows[place] + 1]]:
            if last[token] != place:
                last[token] = place
                documents[following[token]] = place
                following[token] += 1
    return occurrences, indptr, documents


@numba.njit(cache=True, nogil=True)
def _joint(indptr, documents, cases, codes, kinds):
    """Reports and cases that hold each word, and the (words, kinds) joint counts in rows: pointer, indices, data.

    A word's row is dense while it is made: a few kilobytes that stay in the fastest cache.
    """
    words = len(indptr) - 1
    reports = np.zeros(words, np.int32)
    in_cases = np.zeros(words, np.int32)
    pointer = np.zeros(words + 1, np.int64)
    row = np.zeros(kinds, np.int32)
    for word in range(words):
        reports[word] = indptr[word + 1] - indptr[word]
        filled = 0
        for at in range(indptr[word], indptr[word + 1]):
            in_cases[word] += at == indptr[word] or cases[documents[at]] != cases[documents[at - 1]]
            for kind in codes[documents[at]]:
                if kind >= 0 and row[kind] != word + 1:  # stands for "this word had it", so nothing needs clearing
                    row[kind] = word + 1
                    filled += 1
        pointer[word + 1] = pointer[word] + filled
    indices = np.empty(pointer[-1], np.int32)
    data = np.empty(pointer[-1], np.int32)
    row[:] = 0
    for word in range(words):
        made = pointer[word]
        for at in range(indptr[word], indptr[word + 1]):
            for kind in codes[documents[at]]:
                if kind >= 0:
                    if row[kind] == 0:
                        indices[made] = kind
                        made += 1
                    row[kind] += 1
        indices[pointer[word] : made].sort()
        for at in range(pointer[word], made):
            data[at] = row[indices[at]]
            row[indices[at]] = 0
    return reports, in_cases, pointer, indices, data
