"""An encoder that was released alone: the features of the model's own networks, and nothing that codes."""

import json

import numpy as np
import pytest

from bundle.conftest import evidence_for
from pathveil.bundle import Model
from pathveil.bundle.encoder import load_encoder
from pathveil.bundle.folder import write_manifest
from pathveil.bundle.release_folder import write_release
from pathveil.bundle.verification import verify_release
from pathveil.errors import BundleError

TEXTS = ["invasive ductal carcinoma of the left breast", "adenocarcinoma of the sigmoid colon, formalin"]


def test_an_encoder_has_no_heads_and_gives_the_same_features(bundle, signing, tmp_path):
    import torch

    from pathveil.model.batch import TokenBatch
    from pathveil.vocabulary.encoding import encode_texts

    out = tmp_path / "encoder"
    write_release(bundle, out, evidence=evidence_for(bundle), signing=signing, form="encoder")
    names = {path.name for path in out.iterdir()}
    assert "encoder.safetensors" in names and not names & {"model.safetensors", "bundle.json"}
    labels = {label for task in ("subsite", "histology") for label in bundle.labels[task]}
    assert not [
        label for label in labels if f'"{label}"'.encode() in b"".join(path.read_bytes() for path in out.iterdir())
    ]
    verify_release(out, signing.key.public)
    with pytest.raises(BundleError, match="codes nothing"):
        Model.load(out)
    found = load_encoder(out).features(TEXTS)
    batch = TokenBatch(*encode_texts(TEXTS, bundle.vocabulary, words=bundle.clip))
    with torch.no_grad():
        expected = [member.features(batch).numpy() for member in bundle.ensemble().members]
    np.testing.assert_array_equal(found, np.concatenate(expected, axis=1))


def test_an_encoder_is_asked_for_by_name(released):
    with pytest.raises(BundleError, match="was not released as an encoder"):
        load_encoder(released)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"members": 3}, "member-2.embedding.weight is missing"),
        ({"filters": 9}, "has another shape"),
        ({"windows": None}, "windows that no network has"),
        ({"text": "other rules"}, "cut by other rules"),
        ({"members": 10**12}, "not a whole number from 1 to"),
    ],
)
def test_a_shape_that_does_not_fit_is_refused(bundle, signing, tmp_path, change, said):
    out = tmp_path / "encoder"
    write_release(bundle, out, evidence=evidence_for(bundle), signing=signing, form="encoder")
    shape = json.loads((out / "encoder.json").read_text())
    (out / "encoder.json").write_text(json.dumps(shape | change))
    for name in ("MANIFEST.json", "model.sig", "test-result.dsse.json"):
        (out / name).unlink()
    write_manifest(out)
    with pytest.raises(BundleError, match=said):
        load_encoder(out)
