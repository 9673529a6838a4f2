"""What a release says of itself: read whole or refused, and its form obeyed."""

import json
import shutil

import pytest

from pathveil.bundle import Model, attach_audit
from pathveil.bundle.drift import measure_drift
from pathveil.bundle.folder import MANIFEST
from pathveil.bundle.release import RELEASE, Release, form_of, read_release
from pathveil.errors import BundleError
from pathveil.files import sha256_of_file
from pathveil.serve.coding import Answerer
from pathveil.serve.sent import Sent


def release_text(**changes) -> str:
    content = {
        "format": "pathveil-release/1",
        "pathveil": "0.2.0",
        "name": "colon-2026",
        "form": "weights",
        "words": "shown",
        "released": "2026-11-16T05:00:00Z",
        "expires": "2027-11-16",
        "signer": "A. Officer",
        "key": "00" * 32,
        "model_sha256": "22" * 32,
        "folder_sha256": "11" * 32,
        "judgement": None,
        "appetite": None,
        "override": {"reason": "a trial with invented reports", "refusals": ["there is no audit of this model"]},
        "ask_again": ["the model is trained again"],
        "scan": {"files": 4, "reports": 0, "names": 0, "words_run": 6},
        "log": None,
    }
    return json.dumps(content | changes)


def placed(folder, tmp_path, text):
    """A copy of a bundle with a release.json that its manifest lists."""
    copy = tmp_path / "release"
    shutil.copytree(folder, copy)
    (copy / RELEASE).write_text(text)
    manifest = json.loads((copy / MANIFEST).read_text())
    manifest["files"][RELEASE] = {"sha256": sha256_of_file(copy / RELEASE), "bytes": len(text)}
    (copy / MANIFEST).write_text(json.dumps(manifest))
    return copy


def test_a_bundle_is_no_release_and_holds_weights(folder):
    assert read_release(folder) is None and form_of(folder) == Model.load(folder).form == "weights"


def test_the_form_is_read_and_labels_are_only_served(folder, tmp_path, inside, fresh):
    """No door answers with a probability: the command, the library, a server that was told to; nor is it copied away.
    Counts over many reports are given."""
    copy = placed(folder, tmp_path, release_text(form="labels"))
    told = str(read_release(copy))
    assert "as labels" in told and "Reason given: a trial with invented reports" in told
    model, text, out = Model.load(copy), "carcinoma of the left breast", tmp_path / "codes.csv"
    for door in (
        lambda: model.predict([text]),
        lambda: model.predict_to_file(fresh, out),
        lambda: model.explain(text),
        lambda: model.answer(text),
        lambda: Answerer(model, detail="probabilities"),
        lambda: Answerer(model, detail="bands"),
    ):
        with pytest.raises(BundleError, match="released as labels, for its owner to serve"):
            door()
    with pytest.raises(BundleError, match="is a release, and stays as it was signed"):
        model.save(tmp_path / "copy")
    with pytest.raises(BundleError, match="is a release, and stays as it was signed"):
        attach_audit(copy, {"bound": True, "provenance": {"model sha256": model.model_sha256}})
    done = inside("predict", copy, "--text", text)
    assert done.returncode == 2 and "released as labels" in done.stderr and not done.stdout
    assert not out.exists() and not (tmp_path / "copy").exists()
    (answer,) = Answerer(model, detail="labels").answer([Sent("r", text)])
    assert answer.codes["site"].code == "C50" and answer.codes["site"].probability is None
    assert model.evaluate(fresh, resamples=10).documents == 60 and measure_drift(model, fresh).cases == 30


def test_an_appetite_for_codes_alone_holds_whatever_was_overridden(folder, tmp_path):
    """Weights that left against an appetite for labels: their answers tell no more than it allows."""
    whose = {"sha256": "00", "release": "label", "name": "A", "organisation": "N", "date": "2026-11-16"}
    copy = placed(folder, tmp_path, release_text(form="weights", appetite=whose))
    assert form_of(copy) == "labels"
    with pytest.raises(BundleError, match="released as labels"):
        Model.load(copy).predict(["text"])


def test_an_encoder_codes_nothing(folder, tmp_path):
    with pytest.raises(BundleError, match="no heads and no labels"):
        Model.load(placed(folder, tmp_path, release_text(form="encoder")))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "cannot be read as JSON"),
        (release_text(format="pathveil-release/9"), "expected the format pathveil-release/1"),
        (release_text(form="everything"), "is not a whole release: 'form'"),
        (release_text(extra=1), "there is no such setting"),
        (release_text(expires="MARIGOLD" * 40), "'expires': expected a day such as 2026-11-16$"),
    ],
)
def test_anything_else_is_refused(folder, tmp_path, text, told):
    with pytest.raises(BundleError, match=told):
        Model.load(placed(folder, tmp_path, text))


def test_it_is_its_json():
    release = Release.model_validate_json(release_text())
    assert Release.model_validate_json(release.to_json()) == release
    assert release.rows()[0]["form"] == "weights"
