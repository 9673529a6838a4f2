"""A model as a folder that anyone can read and nobody can alter unseen.

    model.safetensors   weights of the networks and of the linear view; numbers only, no pickle
    vocabulary.json     the words the model knows, and how they were chosen
    bundle.json         architecture, labels, text settings, provenance, scores, blend and thresholds
    card.md             the same for a person to read
    history.json        the loss and accuracy of every epoch; training.svg draws it
    audit.json          what a membership audit found, once there was one
    MANIFEST.json       sha256 and size of every other file; its own sha256 names the bundle

Nothing in it is report text: of the reports there are the vocabulary's words, the names of the labels, and counts. The
same training gives the same bytes (no dates, no hidden state). Opening checks every byte, and needs no torch until a
model is asked for.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pathveil import __version__
from pathveil.bundle.card import write_card
from pathveil.bundle.figure import draw_history
from pathveil.errors import BundleError, UsageError, VocabularyError
from pathveil.vocabulary.words import Vocabulary

if TYPE_CHECKING:
    from pathveil.training.ensemble import Ensemble

FORMAT = "pathveil-bundle/1"
MODEL, WORDS, CONTENT, CARD = "model.safetensors", "vocabulary.json", "bundle.json", "card.md"
HISTORY, FIGURE, AUDIT, MANIFEST = "history.json", "training.svg", "audit.json", "MANIFEST.json"
NEEDED = (MODEL, WORDS, CONTENT, CARD, HISTORY, FIGURE)
FIELDS = ("architecture", "labels", "text", "blend", "thresholds", "scores", "provenance")


@dataclass(frozen=True)
class Bundle:
    """What a bundle holds. ``tensors`` are NumPy arrays, by the names that ``shapes`` gives."""

    architecture: Mapping[str, Any]  # vocabulary_size, dim, windows, filters, dropout, members, linear
    labels: Mapping[str, tuple[str, ...]]  # task: the label of each class
    text: str  # the text settings the words were cut by
    vocabulary: Vocabulary
    tensors: Mapping[str, np.ndarray]
    blend: Mapping[str, tuple[float, ...]]  # task: coefficients of the views
    thresholds: Mapping[str, Mapping[str, float]]  # task: from which probability on a code is taken
    scores: Mapping[str, Any]  # task: micro, macro and accuracy on held-out cases
    provenance: Mapping[str, Any]  # corpus and vocabulary hashes, counts, settings, seed, version
    history: tuple[tuple[Mapping[str, Any], ...], ...] = ()  # a member's epochs
    audit: Mapping[str, Any] | None = None
    sha256: str = ""  # of the manifest; known once the bundle is on disk

    @property
    def tasks(self) -> tuple[str, ...]:
        return tuple(self.labels)

    @cached_property
    def model(self) -> "Ensemble":
        """The model, ready to predict; imports torch."""
        from pathveil.bundle.weights import to_model

        return to_model(self)

    def save(self, folder: Path) -> "Bundle":
        """Write to a new folder, whole or not at all; the bundle with its sha256."""
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise UsageError(f"{folder}: is there already; choose another name, or remove it first")
        part = folder.with_name(folder.name + ".part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        try:
            self._write(part)
            if folder.exists():
                folder.rmdir()
            os.replace(part, folder)
        except BaseException:
            shutil.rmtree(part, ignore_errors=True)
            raise
        return replace(self, sha256=sha256_of(folder / MANIFEST))

    def _write(self, folder: Path) -> None:
        from safetensors.numpy import save_file

        check_shapes(self, "the model")
        ordered = {name: np.ascontiguousarray(self.tensors[name]) for name in sorted(self.tensors)}
        save_file(ordered, folder / MODEL, metadata={"pathveil": json.dumps({"format": FORMAT})})
        self.vocabulary.save(folder / WORDS)
        shutil.copymode(folder / WORDS, folder / MODEL)  # safetensors makes a file for its owner's eyes only
        content = {"format": FORMAT, "pathveil": __version__} | {name: getattr(self, name) for name in FIELDS}
        write_json(folder / CONTENT, content)
        write_json(folder / HISTORY, {"members": self.history})
        (folder / FIGURE).write_text(draw_history(self.history), encoding="utf-8")
        if self.audit is not None:
            write_json(folder / AUDIT, self.audit)
        (folder / CARD).write_text(write_card(self), encoding="utf-8")
        files = {
            path.name: {"sha256": sha256_of(path), "bytes": path.stat().st_size} for path in sorted(folder.iterdir())
        }
        write_json(folder / MANIFEST, {"format": FORMAT, "files": files})

    @classmethod
    def load(cls, folder: Path) -> "Bundle":
        """The bundle in a folder, every byte checked against its manifest."""
        present = verify(folder)
        content = read_json(folder / CONTENT)
        if content.get("format") != FORMAT:
            raise foreign(folder, content.get("format"))
        for name in FIELDS:
            if name not in content:
                raise BundleError(f"{folder / CONTENT}: '{name}' is missing; expected a bundle of format {FORMAT}")
        try:
            vocabulary = Vocabulary.load(folder / WORDS)
        except VocabularyError as error:
            raise BundleError(str(error)) from None
        history = read_json(folder / HISTORY).get("members", [])
        bundle = cls(
            architecture=content["architecture"],
            labels={task: tuple(names) for task, names in content["labels"].items()},
            text=content["text"],
            vocabulary=vocabulary,
            tensors=read_tensors(folder / MODEL),
            blend={task: tuple(numbers) for task, numbers in content["blend"].items()},
            thresholds=content["thresholds"],
            scores=content["scores"],
            provenance=content["provenance"],
            history=tuple(tuple(member) for member in history),
            audit=read_json(folder / AUDIT) if AUDIT in present else None,
            sha256=sha256_of(folder / MANIFEST),
        )
        check_shapes(bundle, str(folder))
        return bundle


def attach_audit(folder: Path, audit: Mapping[str, Any]) -> Bundle:
    """Put what an audit found (aggregates only) into the bundle, its card and its manifest; the bundle as it now is."""
    bundle = replace(Bundle.load(folder), audit=audit)
    beside, before = folder.with_name(folder.name + ".audited"), folder.with_name(folder.name + ".before")
    for leftover in (beside, before):
        shutil.rmtree(leftover, ignore_errors=True)
    saved = bundle.save(beside)
    os.replace(folder, before)
    os.replace(beside, folder)
    shutil.rmtree(before)
    return saved


def verify(folder: Path) -> set[str]:
    """Check every file of a bundle against its manifest; the names of the files."""
    if not folder.is_dir():
        raise BundleError(f"{folder}: there is no such folder; expected a bundle written by 'pathveil train'")
    if not (folder / MANIFEST).is_file():
        raise BundleError(f"{folder}: {MANIFEST} is missing; expected a bundle written by 'pathveil train'")
    manifest = read_json(folder / MANIFEST)
    if manifest.get("format") != FORMAT:
        raise foreign(folder, manifest.get("format"))
    listed = manifest.get("files")
    if not isinstance(listed, dict) or not all(isinstance(entry, dict) for entry in listed.values()):
        raise BundleError(f"{folder / MANIFEST}: 'files' is missing; expected a bundle of format {FORMAT}")
    for name in (*NEEDED, *listed):
        if name not in listed:
            raise BundleError(f"{folder / MANIFEST}: does not list {name}; the bundle is incomplete")
        if not (folder / name).is_file():
            raise BundleError(f"{folder}: {name} is missing; get the whole bundle again")
    # A hidden file (a desktop leaves some) is never read, so it can do no harm.
    present = {path.name for path in folder.iterdir() if not path.name.startswith(".")}
    foreign_files = sorted(present - set(listed) - {MANIFEST})
    if foreign_files:
        raise BundleError(f"{folder}: {foreign_files[0]} is not part of the bundle ({MANIFEST} does not list it)")
    for name, entry in listed.items():
        if sha256_of(folder / name) != entry.get("sha256"):
            raise BundleError(f"{folder}: {name} was altered (its sha256 is not the manifest's); get the bundle again")
    return set(listed)


def foreign(folder: Path, found: Any) -> BundleError:
    return BundleError(
        f"{folder}: is a bundle of format {found!r}, this version of Pathveil ({__version__}) reads {FORMAT!r}"
    )


def shapes(architecture: Mapping[str, Any], labels: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[int, ...]]:
    """The tensors an architecture has, with their shapes.

    >>> shape = {"vocabulary_size": 9, "dim": 4, "windows": [2, 3], "filters": 5, "members": 1, "linear": False}
    >>> for name, size in shapes(shape, {"site": ("C18", "C50")}).items():
    ...     print(name, size)
    member-0.embedding.weight (9, 4)
    member-0.convolution.weight (5, 5, 4)
    member-0.convolution.bias (2, 5)
    member-0.heads.site.weight (2, 10)
    member-0.heads.site.bias (2,)
    lift.site (2,)
    """
    words, windows, filters = architecture["vocabulary_size"], architecture["windows"], architecture["filters"]
    expected: dict[str, tuple[int, ...]] = {}
    for number in range(architecture["members"]):
        expected |= {
            f"member-{number}.embedding.weight": (words, architecture["dim"]),
            f"member-{number}.convolution.weight": (sum(windows), filters, architecture["dim"]),
            f"member-{number}.convolution.bias": (len(windows), filters),
        }
        for task, names in labels.items():
            expected[f"member-{number}.heads.{task}.weight"] = (len(names), len(windows) * filters)
            expected[f"member-{number}.heads.{task}.bias"] = (len(names),)
    if architecture["linear"]:
        expected["linear.idf"] = (words,)
        for task, names in labels.items():
            expected[f"linear.{task}.weight"] = (len(names), words)
            expected[f"linear.{task}.bias"] = (len(names),)
    return expected | {f"lift.{task}": (len(names),) for task, names in labels.items()}


def check_shapes(bundle: Bundle, where: str) -> None:
    """Weights, words, labels and the tasks' numbers must fit each other."""
    try:
        expected = shapes(bundle.architecture, bundle.labels)
    except (KeyError, TypeError):
        raise BundleError(f"{where}: its architecture is incomplete; expected a bundle of format {FORMAT}") from None
    if bundle.vocabulary.size != bundle.architecture["vocabulary_size"]:
        raise BundleError(
            f"{where}: the vocabulary has {bundle.vocabulary.size} entries, "
            f"the architecture says {bundle.architecture['vocabulary_size']}"
        )
    odd = sorted(set(expected) ^ set(bundle.tensors))
    if odd:
        what = "is missing from" if odd[0] in expected else "does not belong into"
        raise BundleError(f"{where}: tensor {odd[0]} {what} {MODEL}")
    for name, shape in expected.items():
        tensor = bundle.tensors[name]
        if tensor.shape != shape or tensor.dtype != np.float32:
            raise BundleError(
                f"{where}: tensor {name} is {tensor.dtype} of shape {tensor.shape}, expected float32 of shape {shape}"
            )
    views = 1 + bool(bundle.architecture["linear"])
    for task in bundle.labels:
        if len(bundle.blend.get(task, ())) != views:
            raise BundleError(f"{where}: task {task} needs {views} blend coefficients, one for each view")


def read_tensors(path: Path) -> dict[str, np.ndarray]:
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        return load_file(path)
    except (SafetensorError, OSError, ValueError):
        raise BundleError(f"{path}: cannot be read as safetensors") from None


def read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise BundleError(f"{path}: cannot be read as JSON") from None
    if not isinstance(content, dict):
        raise BundleError(f"{path}: expected a JSON object")
    return content


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    text = json.dumps(content, ensure_ascii=False, indent=1, default=plain)
    path.write_text(text + "\n", encoding="utf-8")


def plain(value: Any) -> Any:
    """What JSON does not know: mappings and sequences of other kinds."""
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
