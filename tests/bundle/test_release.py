"""What a release says of itself: read whole or refused, and its form obeyed."""

import json
import shutil

import pytest

from pathveil.bundle import Model
from pathveil.bundle.folder import MANIFEST
from pathveil.bundle.release import RELEASE, Release, check_may_code, form_of, read_release
from pathveil.errors import BundleError
from pathveil.files import sha256_of_file


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
        "bundle_sha256": "11" * 32,
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
    assert read_release(folder) is None and form_of(folder) == "weights"
    check_may_code(folder)


def test_the_form_is_read_and_labels_are_only_served(folder, tmp_path, pathveil, fresh):
    copy = placed(folder, tmp_path, release_text(form="labels"))
    assert form_of(copy) == "labels" and Model.load(copy).tasks  # its owner's server loads it
    told = str(read_release(copy))
    assert "as labels" in told and "Reason given: a trial with invented reports" in told
    done = pathveil("predict", copy, fresh, "--out", tmp_path / "codes.csv")
    assert done.returncode == 2 and "released as labels" in done.stderr
    assert not (tmp_path / "codes.csv").exists()


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
    ],
)
def test_anything_else_is_refused(folder, tmp_path, text, told):
    with pytest.raises(BundleError, match=told):
        Model.load(placed(folder, tmp_path, text))


def test_it_is_its_json():
    release = Release.model_validate_json(release_text())
    assert Release.model_validate_json(release.to_json()) == release
    assert release.rows()[0]["form"] == "weights"
