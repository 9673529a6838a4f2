"""An encoder that was released alone: reports to features, for heads that somebody else trains.

    encoder.safetensors   word vectors and convolutions of every network; no heads, no linear view
    encoder.json          their shape and the text settings the words were cut by
    vocabulary.json       the words, or their hashes

The features are those the model's own heads read, network by network, end to end.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pathveil.bundle.folder import check_architecture, read_tensors, verify
from pathveil.bundle.release import form_of
from pathveil.errors import BundleError, VocabularyError
from pathveil.files import WORDS, read_json, write_json
from pathveil.text.tokenizer import read_settings
from pathveil.untrusted.tensors import written
from pathveil.vocabulary.encoding import encode_texts
from pathveil.vocabulary.words import Vocabulary

if TYPE_CHECKING:
    from pathveil.bundle.model import Model

TENSORS, SHAPE = "encoder.safetensors", "encoder.json"
PARTS = ("embedding.weight", "convolution.weight", "convolution.bias")
SIZES = ("vocabulary_size", "dim", "windows", "filters", "members")


@dataclass(frozen=True)
class ReleasedEncoder:
    """Words and the weights that turn them into features."""

    shape: Mapping[str, Any]
    tensors: Mapping[str, np.ndarray]
    vocabulary: Vocabulary
    words: int  # a report is clipped at
    identifiers: bool  # whether what names people and days is hidden in what it reads

    def features(self, texts: Sequence[str]) -> np.ndarray:
        """What heads read of each text: (texts, networks · windows · filters)."""
        import torch

        from pathveil.model.batch import TokenBatch
        from pathveil.model.mtcnn import Encoder

        batch = TokenBatch(*encode_texts(texts, self.vocabulary, words=self.words, identifiers=self.identifiers))
        found = []
        for number in range(self.shape["members"]):
            with torch.device("meta"):
                network = Encoder(**{name: self.shape[name] for name in SIZES if name != "members"})
            weights = {name: torch.from_numpy(self.tensors[f"member-{number}.{name}"]) for name in PARTS}
            network.load_state_dict(weights, assign=True)
            with torch.no_grad():
                found.append(network.features(batch).numpy())
        return np.concatenate(found, axis=1)


def write_encoder(model: "Model", folder: Path) -> None:
    """A model's encoder and its shape into a folder; the words are for the caller."""
    from safetensors.numpy import save_file

    names = [f"member-{number}.{part}" for number in range(model.architecture["members"]) for part in PARTS]
    with written():
        save_file({name: np.ascontiguousarray(model.tensors[name]) for name in sorted(names)}, folder / TENSORS)
    write_json(folder / SHAPE, {name: model.architecture[name] for name in SIZES} | {"text": model.text})


def load_encoder(folder: str | Path, *, require_signature: str | Path | None = None) -> ReleasedEncoder:
    """The encoder of a release of that form, every byte checked against its manifest; with ``require_signature``, a
    public key's file, only if that key's owner signed it and its verdict is good."""
    folder = Path(folder)
    if require_signature is not None:
        from pathveil.bundle.verification import check_signed

        check_signed(folder, require_signature)
    if form_of(folder) != "encoder":
        raise BundleError(f"{folder}: was not released as an encoder; pathveil.load gives the whole model")
    verify(folder, needed=(TENSORS, SHAPE, WORDS))
    shape = read_json(folder / SHAPE, error=BundleError)
    try:
        vocabulary = Vocabulary.load(folder / WORDS)
    except VocabularyError as error:
        raise BundleError(str(error)) from None
    check_architecture(shape, folder / SHAPE)
    tensors = read_tensors(folder / TENSORS)
    told = read_settings(str(shape.get("text", "")))
    if told is None:
        raise BundleError(f"{folder}: its text was cut by other rules than this version's; get a newer release")
    for name, size in expected_shapes(shape, folder).items():
        if name not in tensors or tensors[name].shape != size or tensors[name].dtype != np.float32:
            raise BundleError(f"{folder / TENSORS}: tensor {name} is missing or has another shape than {size}")
    if vocabulary.size != shape["vocabulary_size"]:
        raise BundleError(f"{folder}: its words do not fit its weights; get the whole release again")
    return ReleasedEncoder(shape, tensors, vocabulary, *told)


def expected_shapes(shape: Mapping[str, Any], folder: Path) -> dict[str, tuple[int, ...]]:
    """The tensors an encoder of this shape has."""
    try:
        words, dim, filters, windows = shape["vocabulary_size"], shape["dim"], shape["filters"], shape["windows"]
        sizes = ((words, dim), (sum(windows), filters, dim), (len(windows), filters))
        return {
            f"member-{number}.{part}": size
            for number in range(shape["members"])
            for part, size in zip(PARTS, sizes, strict=True)
        }
    except (KeyError, TypeError):
        raise BundleError(f"{folder / SHAPE}: is incomplete; get the whole release again") from None
