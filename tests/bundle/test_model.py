"""A loaded model: what it is, the device its networks are on, and an audit that is put into its bundle."""

import shutil
import subprocess
import sys

import numpy as np
import polars as pl
import pytest
import torch

from bundle import device_checks
from pathveil.bundle import Model, attach_audit
from pathveil.bundle.folder import AUDIT, CARD
from pathveil.errors import UsageError
from pathveil.training.loop import document_logits


@pytest.fixture
def copy(folder, tmp_path):
    return shutil.copytree(folder, tmp_path / "copy")


def test_a_model_prints_what_it_is(bundle, made):
    for wanted in ("site, subsite, laterality, histology and behavior", "2 networks and a linear view", "not audited"):
        assert wanted in repr(bundle)
    assert bundle.words == made.vocabulary.words and bundle.card.startswith("# Model card")
    assert bundle._repr_html_().startswith("<pre>Model for site")


def test_the_loaded_model_says_what_the_trained_one_said(made, bundle):
    ids, offsets = np.arange(2, 32, dtype=np.int32), np.array([0, 15, 15, 30])
    before, after = made.ensemble().log_probabilities(ids, offsets), bundle.ensemble().log_probabilities(ids, offsets)
    for task in made.tasks:
        np.testing.assert_array_equal(before[task], after[task])


def test_an_audit_joins_the_bundle(copy):
    before = Model.load(copy)
    after = attach_audit(copy, {"verdict": {"sentence": "Passes the written appetite."}})
    assert Model.load(copy).audit == {"verdict": {"sentence": "Passes the written appetite."}}
    assert after.folder_sha256 == Model.load(copy).folder_sha256 != before.folder_sha256
    assert after.model_sha256 == Model.load(copy).model_sha256 == before.model_sha256
    assert "Passes the written appetite." in (copy / CARD).read_text()
    assert sorted(path.name for path in copy.parent.iterdir()) == [copy.name]
    assert (copy / AUDIT).exists() and "Not audited" not in (copy / CARD).read_text()


def test_an_audit_of_another_model_or_of_other_members_is_refused(copy):
    sentence, card = {"sentence": "Passes."}, (copy / CARD).read_text()
    for audit in (
        {"bound": False},
        {"bound": True, "provenance": {"model sha256": "0" * 64}},
        {"bound": True, "provenance": {"model sha256": Model.load(copy).folder_sha256}},
    ):
        with pytest.raises(UsageError, match="not bound to this model"):
            attach_audit(copy, {"verdict": sentence, **audit})
    assert (copy / CARD).read_text() == card


def test_loading_needs_no_torch(folder):
    code = (
        "import sys; from pathlib import Path; from pathveil.bundle import Model\n"
        f"Model.load(Path({str(folder)!r})); print([m for m in ('torch', 'numba', 'polars') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


def test_networks_and_batches_are_on_the_device_that_was_asked_for(bundle):
    """On a machine with a GPU the networks stayed on the CPU while batches went to the GPU. PyTorch's device without
    memory stands in for one here."""
    ensemble = bundle.ensemble("meta")
    assert ensemble is bundle.ensemble("meta") and ensemble is not bundle.ensemble()
    assert {p.device.type for member in ensemble.members for p in member.parameters()} == {"meta"}
    assert {member.device.type for member in bundle.ensemble().members} == {"cpu"}

    class Elsewhere:
        classes, device = {"site": 3}, torch.device("meta")

        def __call__(self, batch):
            assert batch.ids.device.type == batch.offsets.device.type == "meta"
            return {"site": torch.zeros(len(batch.offsets) - 1, 3)}

    logits = document_logits(Elsewhere(), np.arange(2, 8, dtype=np.int32), np.array([0, 3, 6]))
    assert logits["site"].shape == (2, 3)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_a_model_is_trained_scored_and_asked_on_a_device(device):
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    device_checks.check(device)


def test_a_frame_is_not_coded_into_a_file(bundle, tmp_path):
    with pytest.raises(
        UsageError, match=r"expected the path of a file or folder; got DataFrame, whose reports predict"
    ):
        bundle.predict_to_file(pl.DataFrame({"text": ["left breast"]}), tmp_path / "codes.csv")
