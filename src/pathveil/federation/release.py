"""The shared part as it is given away: what a registry that comes later starts from.

    shared.safetensors   the shared encoder, and the common heads where there are any; float32, no pickle
    vocabulary.json      the agreed words; left out where they were agreed on privately, for each registry has its own
    shared.json          shape, labels, text settings, where it comes from, and the sha256 of the other files

The discriminator is no part of it: nobody needs it to code reports, and it is made to name registries. Private encoders
and heads never come near this folder.

>>> import tempfile
>>> arrays = {"encoder.embedding.weight": np.zeros((4, 3)), "encoder.convolution.weight": np.zeros((2, 5, 3))}
>>> arrays = {name: array.astype(np.float32) for name, array in arrays.items()}
>>> arrays["encoder.convolution.bias"] = np.zeros((1, 5), np.float32)
>>> shape = {"dim": 3, "windows": (2,), "filters": 5}
>>> released = Release(arrays, shape, {"site": ("C18",)}, "words 1500", Vocabulary(("left", "lung"), "by hand"))
>>> with tempfile.TemporaryDirectory() as folder:
...     Release.load(released.save(Path(folder) / "shared")).classes
{'site': ('C18',)}
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pathveil.errors import FederationError, UsageError, VocabularyError
from pathveil.federation import wire
from pathveil.files import new_folder, read_json, sha256_of_file, write_json
from pathveil.model.shared_private import Linear, Shared
from pathveil.untrusted import Refused, are_names
from pathveil.untrusted.tensors import read_tensors, written
from pathveil.vocabulary.words import Vocabulary

FORMAT = "pathveil-shared/1"
TENSORS, WORDS, CONTENT = "shared.safetensors", "vocabulary.json", "shared.json"
KEPT = ("encoder.", "heads.")  # of the shared part


@dataclass(frozen=True)
class Release:
    """A shared encoder with what is needed to use it."""

    tensors: Mapping[str, np.ndarray]  # by the names that ``Shared`` gives its parameters
    shape: Mapping[str, Any]  # dim, windows, filters
    classes: Mapping[str, tuple[str, ...]]  # task: its labels in the order of the common heads
    text: str  # the text settings the words were cut by
    vocabulary: Vocabulary | None
    provenance: Mapping[str, Any] = field(default_factory=dict)
    id_space: str = ""  # what an id stands for; the vocabulary's, where it is not given

    def save(self, folder: Path) -> Path:
        """Write the folder whole or not at all, in place of one that was there."""
        from safetensors.numpy import save_file

        words = self.vocabulary
        with new_folder(folder, replace=True, error=FederationError) as part:
            with written():
                save_file(
                    {name: np.ascontiguousarray(self.tensors[name]) for name in sorted(self.tensors)}, part / TENSORS
                )
            if words and "id_space" not in words.source:
                words.save(part / WORDS)
            content = {
                "format": FORMAT,
                "shape": dict(self.shape),
                "classes": dict(self.classes),
                "text": self.text,
                "id_space": self.id_space or (words.id_space if words else ""),
                "provenance": dict(self.provenance),
                "files": {path.name: sha256_of_file(path) for path in sorted(part.iterdir())},
            }
            write_json(part / CONTENT, content)
        return folder

    @classmethod
    def load(cls, folder: Path) -> "Release":
        """The release in a folder, its files checked against their hashes, its tensors against its shape."""
        if not (folder / CONTENT).is_file():
            raise UsageError(f"{folder}: {CONTENT} is missing; expected a folder that 'federate run' wrote")
        content = read_json(folder / CONTENT, error=FederationError)
        if content.get("format") != FORMAT:
            raise FederationError(f"{folder}: is not a shared encoder of format {FORMAT!r}")
        files = content.get("files")
        if not isinstance(files, dict) or TENSORS not in files or not set(files) <= {TENSORS, WORDS}:
            raise FederationError(f"{folder / CONTENT}: is not a shared encoder's description")
        for name, digest in files.items():
            path = folder / name
            if path.is_symlink() or not path.is_file() or sha256_of_file(path) != digest:
                raise FederationError(f"{folder}: {name} is missing or was altered; get the whole folder again")
        try:
            shape, classes = _described(content)
            tensors, _ = read_tensors(folder / TENSORS)
            _check_shapes(tensors, shape, classes)
            vocabulary = Vocabulary.load(folder / WORDS) if WORDS in files else None
            if vocabulary is not None and vocabulary.size != len(tensors["encoder.embedding.weight"]):
                raise Refused("its words do not fit its weights")
        except (OSError, Refused, VocabularyError) as fault:
            raise FederationError(f"{folder}: {fault}; get the whole folder again") from None
        return cls(
            tensors=tensors,
            shape=shape,
            classes=classes,
            text=content["text"],
            vocabulary=vocabulary,
            provenance=content["provenance"],
            id_space=content["id_space"],
        )

    @property
    def sha256(self) -> str:
        """Of all parameters, by name: two releases with it are equal to the bit."""
        return sha256_of(self.tensors)

    @property
    def words(self) -> int:
        """Rows of the embedding."""
        return len(self.tensors["encoder.embedding.weight"])

    @property
    def heads(self) -> bool:
        """Whether it has common heads."""
        return any(name.startswith("heads.") for name in self.tensors)

    def shared(self, classes: Mapping[str, int], *, device: torch.device | str = "cpu") -> Shared:
        """The shared part for one registry, frozen: the discriminator it has tells one registry from none.

        Where there are common heads, they get a row for each of the registry's ``classes``, which are the release's and
        then the registry's own; those that nobody had, and tasks without a common head, score nothing.
        """
        with torch.device("meta"):
            shared = Shared(vocabulary_size=self.words, registries=1, classes={}, **self.shape)
        encoder = {
            name.removeprefix("encoder."): torch.from_numpy(array)
            for name, array in self.tensors.items()
            if name.startswith("encoder.")
        }
        shared.encoder.load_state_dict(encoder, assign=True)
        width = shared.encoder.width
        shared.discriminator = torch.nn.ModuleList([Linear(width, 1, torch.Generator())])
        if self.heads:
            shared.heads = torch.nn.ModuleDict(
                {task: Linear(width, number, torch.Generator()) for task, number in classes.items()}
            )
            for name, parameter in shared.heads.named_parameters():
                known = self.tensors.get(f"heads.{name}")
                parameter.data.zero_()
                if known is not None:
                    parameter.data[: len(known)] = torch.from_numpy(known)
        return shared.requires_grad_(False).to(device)


def _described(content: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, tuple[str, ...]]]:
    """Shape and classes that a description names, as numbers and texts that can be used."""
    shape, classes = content.get("shape"), content.get("classes")
    if not isinstance(shape, dict) or set(shape) != {"dim", "windows", "filters"}:
        raise Refused("it has no shape")
    windows = shape["windows"]
    numbers = [shape["dim"], shape["filters"], *(windows if isinstance(windows, list) and windows else [0])]
    if len(numbers) > 64 or not all(type(number) is int and 1 <= number <= 1 << 14 for number in numbers):
        raise Refused("it has a shape that no network has")
    if not isinstance(classes, dict) or not all(map(are_names, classes.values())):
        raise Refused("it does not name its classes")
    texts = [content.get(name) for name in ("text", "id_space")]
    if not all(isinstance(text, str) for text in texts) or not isinstance(content.get("provenance"), dict):
        raise Refused("its description is incomplete")
    return shape | {"windows": tuple(windows)}, {task: tuple(names) for task, names in classes.items()}


def _check_shapes(tensors: wire.Arrays, shape: Mapping[str, Any], classes: Mapping[str, Sequence[str]]) -> None:
    """Refuse tensors that are not exactly an encoder of this shape, with or without the common heads."""
    dim, filters, windows = shape["dim"], shape["filters"], shape["windows"]
    words = tensors["encoder.embedding.weight"].shape[:1] if "encoder.embedding.weight" in tensors else (0,)
    expected = {
        "encoder.embedding.weight": (*words, dim),
        "encoder.convolution.weight": (sum(windows), filters, dim),
        "encoder.convolution.bias": (len(windows), filters),
    }
    for task, names in classes.items():
        if f"heads.{task}.weight" in tensors:
            expected[f"heads.{task}.weight"] = (len(names), len(windows) * filters)
            expected[f"heads.{task}.bias"] = (len(names),)
    if {name: array.shape for name, array in tensors.items()} != expected:
        raise Refused("its weights do not fit its shape")


def arrays_of(shared: Shared) -> dict[str, np.ndarray]:
    """What may be given away of a shared part."""
    return {
        name: parameter.detach().cpu().numpy().copy()
        for name, parameter in shared.named_parameters()
        if name.startswith(KEPT)
    }


def sha256_of(arrays: Mapping[str, np.ndarray]) -> str:
    digest = hashlib.sha256()
    for name in sorted(arrays):
        digest.update(name.encode() + b"\0" + np.ascontiguousarray(arrays[name]).tobytes())
    return digest.hexdigest()
