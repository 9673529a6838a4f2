"""Counts of words by registry: all that choosing words needs, and all that a site must share.

For every registry and word: its occurrences, reports and cases; for every task the reports of each class; for every
word and class the reports with both (the joint counts of mutual information).
All are whole numbers that add up over registries, so counting at home and combining gives the same vocabulary, to the
bit, as counting pooled text. Cases are counted within a registry.

>>> def site(name, words, numbers):
...     row, joint = np.array([numbers]), (sparse.csr_array((len(words), 0), dtype=np.int32),)
...     return WordCounts(words=words, registry_names=(name,), classes={}, total_reports=np.array([9]),
...                   total_cases=np.array([9]), occurrences=row, reports=row, cases=row,
...                   labels=np.zeros((1, 0), np.int64), joint=joint, source={"corpus_sha256": name})
>>> both = merge([site("R2", ("left", "zebra"), [4, 1]), site("R1", ("breast", "left"), [2, 3])])
>>> both.words, both.registry_names, both.cases.tolist()
(('breast', 'left', 'zebra'), ('R1', 'R2'), [[2, 3, 0], [0, 4, 1]])
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from pathveil.errors import VocabularyError
from pathveil.files import new_file
from pathveil.untrusted import Refused, are_names, bounds, parse_json
from pathveil.untrusted.arrays import check_range, check_sparse, check_whole, read_arrays

FORMAT = "pathveil-counts/1"
ARRAYS = ("total_reports", "total_cases", "occurrences", "reports", "cases", "labels")
FIRST = f"{ARRAYS[0]}.npy"  # what the archive of a count file begins with


@dataclass(frozen=True)
class WordCounts:
    """Counts of words: R registries, W words (sorted), C classes (of all tasks, one after another)."""

    words: tuple[str, ...]
    registry_names: tuple[str, ...]
    classes: Mapping[str, tuple[str, ...]]  # task: its labels
    total_reports: np.ndarray  # (R,)
    total_cases: np.ndarray  # (R,)
    occurrences: np.ndarray  # (R, W)
    reports: np.ndarray  # (R, W)
    cases: np.ndarray  # (R, W)
    labels: np.ndarray  # (R, C) reports of each class
    joint: tuple[sparse.csr_array, ...]  # R of (W, C): reports that have the word and are of the class
    source: Mapping[str, Any] = field(default_factory=dict)  # corpus hashes, text settings, what was left out at home

    @property
    def tasks(self) -> tuple[str, ...]:
        return tuple(self.classes)

    def take(self, registries: Iterable[str]) -> "WordCounts":
        """Take the given registries, and the words they have."""
        rows = np.array([self.registry_names.index(name) for name in registries], np.int64)
        words = np.flatnonzero(self.reports[rows].any(axis=0))
        return WordCounts(
            words=tuple(self.words[number] for number in words),
            registry_names=tuple(self.registry_names[row] for row in rows),
            classes=self.classes,
            total_reports=self.total_reports[rows],
            total_cases=self.total_cases[rows],
            occurrences=self.occurrences[np.ix_(rows, words)],
            reports=self.reports[np.ix_(rows, words)],
            cases=self.cases[np.ix_(rows, words)],
            labels=self.labels[rows],
            joint=tuple(self.joint[row][words] for row in rows),
            source=self.source,
        )

    def save(self, path: Path) -> None:
        """Write one compressed ``.npz`` file without pickles."""
        about = {
            "format": FORMAT,
            "registry_names": self.registry_names,
            "classes": {task: list(names) for task, names in self.classes.items()},
            "source": dict(self.source),
        }
        arrays = {name: getattr(self, name) for name in ARRAYS}
        arrays["about"] = np.frombuffer(json.dumps(about, ensure_ascii=False).encode(), np.uint8)
        arrays["words"] = np.frombuffer("\n".join(self.words).encode("utf-8", "surrogatepass"), np.uint8)
        for number, joint in enumerate(self.joint):
            arrays |= {f"joint-{number}-{part}": getattr(joint, part) for part in ("data", "indices", "indptr")}
        with new_file(path, error=VocabularyError) as part, part.open("wb") as file:
            np.savez_compressed(file, **arrays)

    @classmethod
    def load(cls, path: Path) -> "WordCounts":
        """Read a count file and check its tables against each other: it may come from an unknown site."""
        wrong = f"{path}: is not a whole counts file"
        try:
            arrays = read_arrays(path)
            counts = counts_from_arrays(arrays)
            check_counts(counts)
        except OSError as error:
            raise VocabularyError(f"{path}: cannot be read ({error.strerror}); expected a counts file") from None
        except Refused as fault:
            raise VocabularyError(f"{wrong}: it {fault}; expected one written by 'pathveil vocab count'") from None
        except (ValueError, KeyError, TypeError, IndexError, AttributeError):
            raise VocabularyError(f"{wrong}; expected one written by 'pathveil vocab count'") from None
        return counts


def counts_from_arrays(arrays: Mapping[str, np.ndarray]) -> WordCounts:
    """Make counts from a file's arrays; the parts of sparse tables are checked first."""
    about = parse_json(arrays["about"].tobytes())
    if about["format"] != FORMAT:
        raise Refused(f"is not of format {FORMAT}")
    text = arrays["words"].tobytes().decode("utf-8", "surrogatepass")
    words = tuple(text.split("\n")) if text else ()
    names, classes = about["registry_names"], about["classes"]
    if not are_names(names) or not isinstance(classes, dict) or not all(map(are_names, classes.values())):
        raise Refused("has registries or classes without a name of their own")
    if not isinstance(about["source"], dict) or not isinstance(about["source"].get("corpus_sha256", ""), str):
        raise Refused("does not say what it counts")
    shape = (len(words), sum(map(len, classes.values())))
    joint = []
    for number in range(len(names)):
        data, indices, indptr = (arrays[f"joint-{number}-{part}"] for part in ("data", "indices", "indptr"))
        check_sparse(data, indices, indptr, shape=shape)
        joint.append(sparse.csr_array((data, indices, indptr), shape=shape))
    return WordCounts(
        words=words,
        registry_names=tuple(names),
        classes={task: tuple(labels) for task, labels in classes.items()},
        joint=tuple(joint),
        source=about["source"],
        **{name: arrays[name] for name in ARRAYS},
    )


def check_counts(counts: WordCounts) -> None:
    """Refuse counts that no corpus has: out of order, negative, or a part larger than its whole."""
    registries, words = len(counts.registry_names), len(counts.words)
    classes = sum(map(len, counts.classes.values()))
    if words > bounds.WORDS or any(first >= second for first, second in pairwise(counts.words)):
        raise Refused("has words that are not in order, each once")
    for name in ARRAYS:
        table = getattr(counts, name)
        check_whole(table, dimensions=1 if name.startswith("total") else 2)
        check_range(table, low=0, below=bounds.COUNT, what=name)
        expected = {"total": (registries,), "label": (registries, classes)}.get(name[:5], (registries, words))
        if table.shape != expected:
            raise Refused(f"has {name} of another shape than its words and registries")
    reports, cases = counts.total_reports[:, None], counts.total_cases[:, None]
    parts = (counts.cases, counts.reports), (counts.reports, counts.occurrences), (counts.reports, reports)
    for part, whole in (*parts, (counts.cases, cases), (counts.labels, reports), (counts.total_cases, reports[:, 0])):
        if (part > whole).any():
            raise Refused("has a count that is larger than the whole it is part of")
    for row, table in enumerate(counts.joint):
        by_word = np.repeat(counts.reports[row], np.diff(table.indptr))  # by the reports that have the word, …
        if (
            (table.data < 0).any()
            or (table.data > by_word).any()
            or (table.data > counts.labels[row][table.indices]).any()
        ):
            raise Refused("has a count that is larger than the whole it is part of")  # … and by those of the class


def merge(parts: Sequence[WordCounts]) -> WordCounts:
    """Merge the counts of several sites; equal to counting their reports together."""
    if len(parts) == 1:
        return parts[0]
    names = sorted(name for part in parts for name in part.registry_names)
    for name, following in pairwise(names):
        if name == following:
            raise VocabularyError(f"registry '{name}' is counted twice; give each registry's counts once")
    for key, meaning in (("text", "cleaned their text"), ("minimum_cases", "left rare words out")):
        if len({str(part.source.get(key)) for part in parts}) > 1:
            raise VocabularyError(f"the sites {meaning} by different settings; count again with the same")
    words = sorted({word for part in parts for word in part.words})
    tasks = dict.fromkeys(task for part in parts for task in part.tasks)
    classes = {task: tuple(sorted({name for part in parts for name in part.classes.get(task, ())})) for task in tasks}
    rows: dict[str, dict[str, Any]] = {}
    for part in parts:
        rows |= widen(part, words, classes)
    tables = {key: np.array([rows[name][key] for name in names]) for key in ARRAYS}
    hashes = sorted({value for part in parts for value in str(part.source.get("corpus_sha256", "")).split()})
    return WordCounts(
        words=tuple(words),
        registry_names=tuple(names),
        classes=classes,
        joint=tuple(rows[name]["joint"] for name in names),
        source={**parts[0].source, "corpus_sha256": " ".join(hashes)},
        **tables,
    )


def widen(part: WordCounts, words: Sequence[str], classes: Mapping[str, Sequence[str]]) -> dict[str, dict[str, Any]]:
    """Widen a site's tables, by registry, to the words and classes of all sites."""
    numbers = {word: number for number, word in enumerate(words)}
    kinds = {key: place for place, key in enumerate((task, name) for task in classes for name in classes[task])}
    word_at = np.fromiter((numbers[word] for word in part.words), np.int64, len(part.words))
    own_classes = [(task, name) for task in part.classes for name in part.classes[task]]
    class_at = np.fromiter((kinds[key] for key in own_classes), np.int64, len(own_classes))
    rows = {}
    for row, name in enumerate(part.registry_names):
        joint = part.joint[row].tocoo()
        places = (word_at[joint.coords[0]], class_at[joint.coords[1]])
        labels = np.zeros(len(kinds), np.int64)
        labels[class_at] = part.labels[row]
        rows[name] = {
            "total_reports": part.total_reports[row],
            "total_cases": part.total_cases[row],
            "labels": labels,
            "joint": sparse.csr_array((joint.data, places), shape=(len(words), len(kinds))),
        }
        for key in ("occurrences", "reports", "cases"):
            table = np.zeros(len(words), getattr(part, key).dtype)
            table[word_at] = getattr(part, key)[row]
            rows[name][key] = table
    return rows


def without_rare(counts: WordCounts, minimum_cases: int) -> WordCounts:
    """Leave out words that fewer cases of a registry have, for a site that shows its rare words to nobody."""
    rare = counts.cases < minimum_cases

    joint = []
    for row, table in enumerate(counts.joint):
        table = table.copy()
        table.data[np.repeat(rare[row], np.diff(table.indptr))] = 0
        table.eliminate_zeros()
        joint.append(table)
    thinned = replace(
        counts,
        occurrences=np.where(rare, 0, counts.occurrences),
        reports=np.where(rare, 0, counts.reports),
        cases=np.where(rare, 0, counts.cases),
        joint=tuple(joint),
        source={**counts.source, "minimum_cases": minimum_cases},
    )
    return thinned.take(counts.registry_names)
