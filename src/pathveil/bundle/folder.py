"""A model as a folder that anyone can read, and whose every byte is in its name.

    model.safetensors   weights of the networks and of the linear view; numbers only, no pickle
    vocabulary.json     the words the model knows, and how they were chosen
    bundle.json         architecture, labels, text settings, provenance, scores, blend and thresholds
    card.md             the same for a person to read
    history.json        the loss and accuracy of every epoch; training.svg draws it
    audit.json          what a membership audit found, once there was one
    MANIFEST.json       sha256 and size of every other file; its own sha256 is the folder's. Who changes a file and the
                        manifest with it makes another bundle: only its name, or the signature of a release, shows it

A release (``bundle.release``) is such a folder without history, and with more files, a signature among them.

Nothing in it is report text: of the reports there are the vocabulary's words, the names of the labels, and counts. The
same training gives the same bytes (no dates, no hidden state). Opening checks every byte, and needs no torch until a
model is asked for.
"""

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import ValidationError

from pathveil import __version__
from pathveil.bundle.card import write_card
from pathveil.bundle.figure import draw_history
from pathveil.bundle.release import RELEASE, SIGNATURE, TEST_RESULT, form_of
from pathveil.errors import BundleError, VocabularyError
from pathveil.files import MANIFEST, WORDS, read_json, sha256_of_file, write_json, write_text
from pathveil.training.scores import NEVER, Scores, Threshold
from pathveil.untrusted import Refused, are_names, bounds, tensors
from pathveil.vocabulary.words import Vocabulary

if TYPE_CHECKING:
    from pathveil.bundle.model import Model

FORMAT = "pathveil-bundle/1"
MODEL, CONTENT, CARD = "model.safetensors", "bundle.json", "card.md"
HISTORY, FIGURE, AUDIT = "history.json", "training.svg", "audit.json"
NEEDED = (MODEL, WORDS, CONTENT, CARD)
OPTIONAL = (HISTORY, FIGURE, AUDIT)
BESIDE = (MANIFEST, SIGNATURE, TEST_RESULT)  # what a manifest cannot list: itself, and what signs it
PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")  # a file's name: no folder, nothing hidden, no way out
LARGEST = {"vocabulary_size": bounds.WORDS + 2, "dim": 1 << 14, "filters": 1 << 14, "members": 1 << 10}
WINDOWS, WIDEST = 64, 256  # of a network: how many, and how wide
FIELDS = ("architecture", "labels", "text", "blend", "thresholds", "scores", "provenance")
TYPED = {"thresholds": Threshold, "scores": Scores}  # fields that are a typed part a task


def write(model: "Model", folder: Path) -> None:
    """Write a model's files into an empty folder."""
    write_model(model, folder)
    write_json(folder / HISTORY, {"members": model.history})
    write_text(folder / FIGURE, draw_history(model.history))
    write_text(folder / CARD, write_card(model))
    write_manifest(folder)


def write_model(model: "Model", folder: Path) -> None:
    """What a model needs to work, and its audit."""
    from safetensors.numpy import save_file

    check_shapes(model, "the model")
    ordered = {name: np.ascontiguousarray(model.tensors[name]) for name in sorted(model.tensors)}
    with tensors.written():
        save_file(ordered, folder / MODEL, metadata={"pathveil": json.dumps({"format": FORMAT})})
    model.vocabulary.save(folder / WORDS)
    shutil.copymode(folder / WORDS, folder / MODEL)  # safetensors makes a file for its owner's eyes only
    content = {"format": FORMAT, "pathveil": __version__} | {name: getattr(model, name) for name in FIELDS}
    content |= {name: {task: part.to_dict() for task, part in getattr(model, name).items()} for name in TYPED}
    write_json(folder / CONTENT, content)
    if model.audit is not None:
        write_json(folder / AUDIT, model.audit)


def write_manifest(folder: Path) -> None:
    """The list of all files there are, with their hashes."""
    files = {
        path.name: {"sha256": sha256_of_file(path), "bytes": path.stat().st_size} for path in sorted(folder.iterdir())
    }
    write_json(folder / MANIFEST, {"format": FORMAT, "files": files})


def read(folder: Path) -> dict[str, Any]:
    """The fields of the model in a folder, every byte checked against its manifest."""
    form = form_of(folder)
    if form == "encoder":
        raise BundleError(
            f"{folder}: was released as an encoder: it has no heads and no labels, so it codes nothing; "
            "pathveil.bundle.encoder.load_encoder gives its features"
        )
    present = verify(folder)
    content = read_json(folder / CONTENT, error=BundleError)
    if content.get("format") != FORMAT:
        raise foreign(folder, content.get("format"))
    for name in FIELDS:
        if name not in content:
            raise BundleError(f"{folder / CONTENT}: '{name}' is missing; expected a bundle of format {FORMAT}")
    try:
        vocabulary = Vocabulary.load(folder / WORDS)
    except VocabularyError as error:
        raise BundleError(str(error)) from None
    check_fields(content, folder / CONTENT)
    fields = {name: content[name] for name in FIELDS}
    for name, kind in TYPED.items():
        try:
            fields[name] = {task: kind(**part) for task, part in content[name].items()}
        except (ValidationError, TypeError, AttributeError):
            raise BundleError(
                f"{folder / CONTENT}: its {name} cannot be read; expected a bundle of format {FORMAT}"
            ) from None
    if not all(0 <= threshold.probability <= NEVER for threshold in fields["thresholds"].values()):
        raise BundleError(f"{folder / CONTENT}: has a threshold that is no probability; it would be sure of every code")
    history = read_json(folder / HISTORY, error=BundleError).get("members", []) if HISTORY in present else []
    if not isinstance(history, list) or not all(isinstance(member, list) for member in history):
        raise BundleError(f"{folder / HISTORY}: 'members' does not list epochs; expected a bundle of format {FORMAT}")
    return fields | {
        "labels": {task: tuple(names) for task, names in content["labels"].items()},
        "vocabulary": vocabulary,
        "tensors": read_tensors(folder / MODEL),
        "blend": {task: tuple(numbers) for task, numbers in content["blend"].items()},
        "history": tuple(tuple(member) for member in history),
        "audit": read_json(folder / AUDIT, error=BundleError) if AUDIT in present else None,
        "folder_sha256": sha256_of_file(folder / MANIFEST),
        "form": form,
    }


def check_fields(content: Mapping[str, Any], path: Path) -> None:
    """Refuse fields of other types, and an architecture of a size that nobody trains, before it is built."""
    wrong = f"expected a bundle of format {FORMAT}"
    for name in ("architecture", "labels", "blend", "provenance"):
        if not isinstance(content[name], dict):
            raise BundleError(f"{path}: '{name}' is no object; {wrong}")
    if not content["labels"] or not all(are_names(names) and names for names in content["labels"].values()):
        raise BundleError(f"{path}: 'labels' does not name the classes of each task; {wrong}")
    if not isinstance(content["text"], str):
        raise BundleError(f"{path}: 'text' is no text; {wrong}")
    for numbers in content["blend"].values():
        if not isinstance(numbers, list) or not all(type(number) in (int, float) for number in numbers):
            raise BundleError(f"{path}: 'blend' does not hold numbers; {wrong}")
    if set(content["blend"]) != set(content["labels"]) or not all(
        set(content[name]) <= set(content["labels"]) for name in TYPED if isinstance(content[name], dict)
    ):
        raise BundleError(
            f"{path}: its blend, thresholds and scores are not of the tasks that its labels have; {wrong}"
        )
    if not {"dropout", "linear"} <= set(content["architecture"]):
        raise BundleError(f"{path}: its architecture is incomplete; {wrong}")
    check_architecture(content["architecture"], path)


def check_architecture(shape: Mapping[str, Any], path: Path) -> None:
    """Refuse numbers that no network has: what is built of them is allocated, not read."""
    wrong = f"expected a bundle of format {FORMAT}"
    for name, most in LARGEST.items():
        if name not in shape:
            raise BundleError(f"{path}: its architecture is incomplete; {wrong}")
        if type(shape[name]) is not int or not 1 <= shape[name] <= most:
            raise BundleError(f"{path}: its architecture has a '{name}' that is not a whole number from 1 to {most:,}")
    windows, dropout = shape.get("windows"), shape.get("dropout", 0.0)
    right = isinstance(windows, list) and 1 <= len(windows) <= WINDOWS
    if not right or not all(type(width) is int and 1 <= width <= WIDEST for width in windows):
        raise BundleError(f"{path}: its architecture has windows that no network has")
    if type(shape.get("linear", False)) is not bool or type(dropout) not in (int, float) or not 0 <= dropout < 1:
        raise BundleError(f"{path}: its architecture is incomplete; {wrong}")


def verify(folder: Path, needed: Sequence[str] = NEEDED) -> set[str]:
    """Check every file of a bundle against its manifest; the names of the files."""
    if not folder.is_dir():
        raise BundleError(f"{folder}: there is no such folder; expected a bundle written by 'pathveil train'")
    if not (folder / MANIFEST).is_file():
        raise BundleError(f"{folder}: {MANIFEST} is missing; expected a bundle written by 'pathveil train'")
    manifest = read_json(folder / MANIFEST, error=BundleError)
    if manifest.get("format") != FORMAT:
        raise foreign(folder, manifest.get("format"))
    listed = manifest.get("files")
    if not isinstance(listed, dict) or not all(map(is_entry, listed.values())) or set(manifest) != {"format", "files"}:
        raise BundleError(f"{folder / MANIFEST}: does not list files with their sha256 and bytes, and nothing else")
    for name in listed:
        if not PLAIN.fullmatch(name) or name in BESIDE:
            raise BundleError(f"{folder / MANIFEST}: lists what is no file of a bundle; get the whole bundle again")
        if RELEASE not in listed and name not in (*needed, *OPTIONAL):
            raise BundleError(f"{folder}: {name} is not part of a bundle; get the whole bundle again")
    present = {path.name: path for path in folder.iterdir()}
    for name in (*needed, *listed):
        if name not in listed:
            raise BundleError(f"{folder / MANIFEST}: does not list {name}; the bundle is incomplete")
        if name not in present:
            raise BundleError(f"{folder}: {name} is missing; get the whole bundle again")
    for name in sorted(present):
        if name not in listed and name not in BESIDE:
            raise BundleError(f"{folder}: {name} is not part of the bundle ({MANIFEST} does not list it); remove it")
        if present[name].is_symlink() or not present[name].is_file():
            raise BundleError(f"{folder}: {name} is a link or no file; get the whole bundle again")
    for name, entry in listed.items():
        if present[name].stat().st_size != entry["bytes"] or sha256_of_file(present[name]) != entry["sha256"]:
            raise BundleError(f"{folder}: {name} was altered (its sha256 is not the manifest's); get the bundle again")
    return set(listed)


def is_entry(entry: Any) -> bool:
    """Whether a manifest's entry says what it has to, and nothing else."""
    return isinstance(entry, dict) and set(entry) == {"sha256", "bytes"} and type(entry["bytes"]) is int


def foreign(folder: Path, found: Any) -> BundleError:
    named = repr(found) if isinstance(found, str) and re.fullmatch(r"[a-z/0-9-]{1,40}", found) else "that is not ours"
    return BundleError(
        f"{folder}: is a bundle of format {named}, this version of Pathveil ({__version__}) reads {FORMAT!r}"
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


def check_shapes(model: "Model", where: str) -> None:
    """Weights, words, labels and the tasks' numbers must fit each other."""
    try:
        expected = shapes(model.architecture, model.labels)
    except (KeyError, TypeError):
        raise BundleError(f"{where}: its architecture is incomplete; expected a bundle of format {FORMAT}") from None
    if model.vocabulary.size != model.architecture["vocabulary_size"]:
        raise BundleError(
            f"{where}: the vocabulary has {model.vocabulary.size} entries, "
            f"the architecture says {model.architecture['vocabulary_size']}"
        )
    odd = sorted(set(expected) ^ set(model.tensors))
    if odd:
        what = "is missing from" if odd[0] in expected else "does not belong into"
        raise BundleError(f"{where}: tensor {odd[0]} {what} {MODEL}")
    for name, shape in expected.items():
        tensor = model.tensors[name]
        if tensor.shape != shape or tensor.dtype != np.float32:
            raise BundleError(
                f"{where}: tensor {name} is {tensor.dtype} of shape {tensor.shape}, expected float32 of shape {shape}"
            )
    views = 1 + bool(model.architecture["linear"])
    for task in model.labels:
        if len(model.blend.get(task, ())) != views:
            raise BundleError(f"{where}: task {task} needs {views} blend coefficients, one for each view")


def read_tensors(path: Path) -> dict[str, np.ndarray]:
    """A folder's weights, all of them numbers: with one that is none a model would be sure of every code."""
    try:
        return tensors.read_tensors(path)[0]
    except Refused as fault:
        raise BundleError(f"{path}: cannot be read as safetensors; it {fault}") from None
    except OSError:
        raise BundleError(f"{path}: cannot be read as safetensors") from None
