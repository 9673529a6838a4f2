"""Which reports a model learned from, kept beside its bundle as keyed fingerprints: the bundle's private side.

    MODEL/                                 the bundle
    MODEL.private/training-cases.json      a random key; for each training report fingerprints of its words, of its
                                           words and codes, and of its case; and whether it was learned or held out

With it an audit knows training reports again in a part of the corpus, or in another file format, and seals what it
found; an evaluation knows that it scores reports which the model has learned. A fingerprint is made of what the model
reads, its word ids, so spaces, encodings and formats do not matter. Whoever holds the file can ask of any report
whether it was in the training corpus: it stays where the reports are, and no release holds it.

>>> TrainingCases.path_of(Path("models/colon"))
PosixPath('models/colon.private/training-cases.json')
"""

import hmac
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pathveil.errors import BundleError
from pathveil.files import new_folder, read_json, sha256_of_json, write_json
from pathveil.training.settings import TrainingSettings
from pathveil.vocabulary.encoded import EncodedCorpus

if TYPE_CHECKING:
    from pathveil.bundle.model import Model

FORMAT = "pathveil-training-cases/1"
FILE = "training-cases.json"
Classes = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class TrainingCases:
    """Fingerprints of the reports that a model was trained with."""

    key: bytes
    model_sha256: str  # the model they belong to
    texts: frozenset[str]
    labelled: Mapping[str, bool]  # of words and codes: whether one of these reports was learned, or all held out
    cases: frozenset[str]

    @staticmethod
    def path_of(bundle: Path) -> Path:
        return bundle.with_name(bundle.name + ".private") / FILE

    def seal(self, content: Mapping[str, Any]) -> str:
        """A keyed hash of what was found with these reports: a file that somebody edited does not have it any more."""
        return hmac.digest(self.key, b"seal" + sha256_of_json(content).encode(), "sha256").hex()

    def trained_with(self, corpus: EncodedCorpus, classes: Classes) -> tuple[np.ndarray, np.ndarray]:
        """Which reports the model was trained with, words and codes alike, and which of those it learned."""
        found = [self.labelled.get(mark) for mark in labelled_marks(self.key, corpus, classes)]
        return np.array([one is not None for one in found], bool), np.array([one is True for one in found], bool)

    def has_cases_of(self, corpus: EncodedCorpus) -> np.ndarray:
        """Which reports belong to a case that the model was trained with."""
        return np.array([mark in self.cases for mark in case_marks(self.key, corpus)], bool)

    def has_texts_of(self, corpus: EncodedCorpus) -> np.ndarray:
        """Which reports read, to the model, like one that it was trained with; reports of a few words may by chance."""
        return np.array([mark in self.texts for mark in text_marks(self.key, corpus)], bool)

    def cases_covered(self, corpus: EncodedCorpus) -> tuple[int, int]:
        """How many of the training cases a corpus has, and of how many."""
        return len(self.cases & set(case_marks(self.key, corpus))), len(self.cases)


def write_training_cases(corpus: EncodedCorpus, model: "Model", bundle: Path) -> None:
    """Keep the fingerprints of a model's training reports beside its bundle, for its owner's eyes only."""
    key = secrets.token_bytes(32)
    corpus = corpus.take(np.arange(model.provenance["reports"]))  # what lies behind them was given to be held out
    settings = TrainingSettings.model_validate(model.provenance["settings"])
    unlearned = np.zeros(corpus.documents, bool)
    unlearned[never_learned(corpus.cases, settings, model.provenance)] = True
    content: dict[str, Any] = {
        "format": FORMAT,
        "note": "Tells who was in the training data. Keep it where the reports are; never publish it.",
        "model_sha256": model.model_sha256,
        "key": key.hex(),
        "texts": text_marks(key, corpus),
        "labelled": labelled_marks(key, corpus, model.labels),
        "cases": case_marks(key, corpus),
        "learned": [not one for one in unlearned.tolist()],
    }
    with new_folder(TrainingCases.path_of(bundle).parent, private=True, replace=True) as part:
        write_json(part / FILE, content, private=True)


def read_training_cases(model: "Model", bundle: Path | None) -> TrainingCases | None:
    """The fingerprints beside a bundle; none where there are none, or where they belong to another model."""
    path = None if bundle is None else TrainingCases.path_of(bundle)
    if path is None or not path.is_file():
        return None
    content = read_json(path, error=BundleError)
    if content.get("format") != FORMAT:
        raise BundleError(f"{path}: is of another format; expected {FORMAT}")
    if content.get("model_sha256") != model.model_sha256:
        return None
    try:
        labelled: dict[str, bool] = {}
        for mark, learned in zip(content["labelled"], content["learned"], strict=True):
            labelled[mark] = labelled.get(mark, False) or bool(learned)
        return TrainingCases(
            key=bytes.fromhex(content["key"]),
            model_sha256=content["model_sha256"],
            texts=frozenset(content["texts"]),
            labelled=labelled,
            cases=frozenset(content["cases"]),
        )
    except (KeyError, TypeError, ValueError):
        raise BundleError(f"{path}: is incomplete; expected what 'pathveil train' wrote") from None


def never_learned(cases: np.ndarray, settings: TrainingSettings, provenance: Mapping[str, Any]) -> np.ndarray:
    """Rows of the training corpus that a lone network held out; several networks together read all of them, and so does
    one that was given other reports to stop by."""
    from pathveil.training.loop import split

    if settings.members > 1 or not settings.validation_share or provenance.get("validation"):
        return np.arange(0)
    return split(cases, settings, seed=provenance["seed"])[1]


def text_marks(key: bytes, corpus: EncodedCorpus) -> list[str]:
    return [_mark(key, b"text", words) for words in _words(corpus)]


def labelled_marks(key: bytes, corpus: EncodedCorpus, classes: Classes) -> list[str]:
    """Of each report's words and its codes among ``classes``; other codes count as missing, as in training."""
    columns = []
    for task in sorted(classes):
        names = corpus.classes.get(task, ())
        known = [name if name in set(classes[task]) else "" for name in names]
        labels = np.asarray(corpus.labels[task]) if task in corpus.labels else np.full(corpus.documents, -1)
        columns.append([f"{task}={known[label]}" if 0 <= label < len(known) else f"{task}=" for label in labels])
    codes = ["\0".join(row).encode() for row in zip(*columns, strict=True)]
    return [_mark(key, b"labelled", words, row) for words, row in zip(_words(corpus), codes, strict=True)]


def case_marks(key: bytes, corpus: EncodedCorpus) -> list[str]:
    return [_mark(key, b"case", int(case).to_bytes(8, "little", signed=True)) for case in corpus.cases]


def _words(corpus: EncodedCorpus) -> list[bytes]:
    ids, offsets = np.ascontiguousarray(corpus.ids, "<i4"), np.asarray(corpus.offsets)
    return [ids[start:end].tobytes() for start, end in pairwise(offsets)]


def _mark(key: bytes, kind: bytes, *parts: bytes) -> str:
    """A fingerprint of 128 bits: parts cannot run into each other, for each is preceded by its length."""
    message = kind + b"".join(len(part).to_bytes(8, "big") + part for part in parts)
    return hmac.digest(key, message, "sha256")[:16].hex()
