"""An encoded corpus: the arrays that training, audit and studies need, without the reports' text.

``ids`` has the word ids of all documents, those of document ``i`` between ``offsets[i]`` and ``offsets[i + 1]``. Labels
are numbers into ``classes``, −1 if missing. The folder has ``.npy`` files, mapped on loading, and one JSON, so that a
hundred models share one copy and a GPU node needs neither polars nor the reports.

>>> import numpy as np
>>> corpus = EncodedCorpus(
...     ids=np.array([2, 3, 3], np.int32), offsets=np.array([0, 2, 3]), cases=np.array([0, 1]),
...     registries=np.array([0, 0]), registry_names=("R1",), labels={"site": np.array([0, -1])},
...     classes={"site": ("C50",)}, vocabulary_size=4)
>>> corpus.documents, corpus.lengths.tolist()
(2, [2, 1])
>>> corpus.take(np.array([1, 0])).ids.tolist()
[3, 2, 3]
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from pathveil.files import write_json
from pathveil.untrusted import Refused, are_names, bounds, parse_json, read_bytes
from pathveil.untrusted.arrays import check_offsets, check_range, check_whole, read_array

FORMAT = "pathveil-encoded/1"
MISSING = -1


@dataclass(frozen=True)
class EncodedCorpus:
    """Encoded documents with their labels, cases and registries."""

    ids: np.ndarray  # (tokens,) int32, word ids of a vocabulary
    offsets: np.ndarray  # (documents + 1,) int64
    cases: np.ndarray  # (documents,) int64, equal for reports of one case
    registries: np.ndarray  # (documents,) int32 into registry_names
    registry_names: tuple[str, ...]
    labels: Mapping[str, np.ndarray]  # task: (documents,) int32 into classes[task], −1 missing
    classes: Mapping[str, tuple[str, ...]]  # task: its label names, sorted
    vocabulary_size: int  # rows of an embedding
    provenance: Mapping[str, str] = field(default_factory=dict)  # sha256 of corpus, of vocabulary, text settings
    days: np.ndarray | None = None  # (documents,) datetime64[D], of each report as far as known, for splits by date

    @property
    def documents(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.offsets)

    @property
    def tasks(self) -> tuple[str, ...]:
        return tuple(self.classes)

    def take(self, rows: np.ndarray) -> "EncodedCorpus":
        """Take the given documents, in this order, as arrays in memory."""
        ids, offsets = take_documents(self.ids, self.offsets, rows)
        return EncodedCorpus(
            ids=ids,
            offsets=offsets,
            cases=self.cases[rows],
            registries=self.registries[rows],
            registry_names=self.registry_names,
            labels={task: label[rows] for task, label in self.labels.items()},
            classes=self.classes,
            vocabulary_size=self.vocabulary_size,
            provenance=self.provenance,
            days=None if self.days is None else self.days[rows],
        )

    def save(self, folder: Path) -> None:
        """Write into an existing, empty folder, such as one of ``files.new_folder``."""
        arrays = {"ids": self.ids, "offsets": self.offsets, "cases": self.cases, "registries": self.registries}
        arrays |= {f"label-{number}": self.labels[task] for number, task in enumerate(self.tasks)}
        if self.days is not None:
            arrays["days"] = self.days
        for name, array in arrays.items():
            np.save(folder / f"{name}.npy", array)
        content = {
            "format": FORMAT,
            "registry_names": self.registry_names,
            "classes": self.classes,
            "vocabulary_size": self.vocabulary_size,
            "provenance": dict(self.provenance),
        }
        write_json(folder / "encoded.json", content)

    @classmethod
    def load(cls, folder: Path) -> "EncodedCorpus":
        """Load the corpus in a folder, and check its numbers: another party may have made it.

        Raises ``Refused`` if something is wrong, OSError if a file is missing.
        """
        content = parse_json(read_bytes(folder / "encoded.json"))
        classes, registries, words, source = parse_description(content)

        def array(name: str) -> np.ndarray:
            return read_array(folder / f"{name}.npy", mapped=True)

        corpus = cls(
            ids=array("ids"),
            offsets=array("offsets"),
            cases=array("cases"),
            registries=array("registries"),
            registry_names=registries,
            labels={task: array(f"label-{number}") for number, task in enumerate(classes)},
            classes=classes,
            vocabulary_size=words,
            provenance=source,
            days=array("days") if (folder / "days.npy").is_file() else None,
        )
        corpus.check()
        return corpus

    def check(self) -> None:
        """Refuse arrays that do not belong together, or that would lead outside of what they point into."""
        check_whole(self.ids)
        check_offsets(self.offsets, end=len(self.ids))
        check_range(self.ids, low=0, below=self.vocabulary_size, what="word ids")
        check_whole(self.cases)
        check_whole(self.registries)
        check_range(self.registries, low=0, below=len(self.registry_names), what="registries")
        for task, labels in self.labels.items():
            check_whole(labels)
            check_range(labels, low=MISSING, below=len(self.classes[task]), what="labels")
        if self.days is not None and (self.days.ndim != 1 or self.days.dtype != np.dtype("datetime64[D]")):
            raise Refused("its days are no days")
        days = () if self.days is None else (self.days,)
        if any(len(part) != self.documents for part in (self.cases, self.registries, *self.labels.values(), *days)):
            raise Refused("its files do not belong together")


def parse_description(content: Any) -> tuple[dict[str, tuple[str, ...]], tuple[str, ...], int, dict[str, str]]:
    """Parse ``encoded.json``: classes, registries, number of words and provenance."""
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise Refused(f"is not of format {FORMAT}")
    classes, registries, words = (content.get(name) for name in ("classes", "registry_names", "vocabulary_size"))
    source = content.get("provenance")
    if not isinstance(classes, dict) or not all(map(are_names, (registries, *classes.values()))):
        raise Refused("has registries or classes without a name of their own")
    if type(words) is not int or not 0 <= words <= bounds.WORDS:
        raise Refused("has a number of words that no vocabulary has")
    if not isinstance(source, dict) or not all(isinstance(value, str) for value in source.values()):
        raise Refused("does not say what it was made from")
    return {task: tuple(names) for task, names in classes.items()}, tuple(registries or ()), words, source


def take_documents(ids: np.ndarray, offsets: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Take the word ids of some documents and their offsets: (tokens,) and (rows + 1,)."""
    lengths = offsets[rows + 1] - offsets[rows]
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    # Position of every token: its document's start, plus how far it is into the document.
    places = np.repeat(offsets[rows] - starts[:-1], lengths) + np.arange(starts[-1])
    return np.asarray(ids[places]), starts


def join_documents(parts: Sequence[EncodedCorpus]) -> EncodedCorpus:
    """Join corpora of one vocabulary that have the same registries and classes."""
    first = parts[0]
    starts = np.cumsum([0, *(len(part.ids) for part in parts)])
    return replace(
        first,
        ids=np.concatenate([part.ids for part in parts]),
        offsets=np.concatenate([[0], *(part.offsets[1:] + start for part, start in zip(parts, starts, strict=False))]),
        cases=np.concatenate([part.cases for part in parts]),
        registries=np.concatenate([part.registries for part in parts]),
        labels={task: np.concatenate([part.labels[task] for part in parts]) for task in first.labels},
        days=None,
    )
