"""The folder: what goes in comes out, the same bytes each time, and nothing altered or foreign is opened."""

import json
import re
import shutil

import numpy as np
import pytest

from bundle.conftest import TINY, people
from pathveil.bundle import Model
from pathveil.bundle.folder import CARD, CONTENT, FIGURE, HISTORY, MANIFEST, MODEL, NEEDED, WORDS
from pathveil.bundle.train import train_model
from pathveil.errors import BundleError, UsageError
from pathveil.files import sha256_of_file


@pytest.fixture
def copy(folder, tmp_path):
    return shutil.copytree(folder, tmp_path / "copy")


def resign(folder, name):
    """Make the manifest agree with a changed file, as a forger or a careless tool would."""
    manifest = json.loads((folder / MANIFEST).read_text())
    manifest["files"][name] = {"sha256": sha256_of_file(folder / name), "bytes": (folder / name).stat().st_size}
    (folder / MANIFEST).write_text(json.dumps(manifest))


def test_what_goes_in_comes_out(made, bundle):
    assert bundle.labels == made.labels and bundle.tasks == made.tasks
    assert bundle.vocabulary.words == made.vocabulary.words
    assert bundle.blend == made.blend and bundle.thresholds == made.thresholds and bundle.scores == made.scores
    assert bundle.provenance == made.provenance and list(bundle.history) == list(made.history)
    assert bundle.architecture | {"windows": (3, 4, 5)} == made.architecture
    for name, array in made.tensors.items():
        np.testing.assert_array_equal(bundle.tensors[name], array)


def test_same_training_same_bytes(corpus, folder, tmp_path):
    train_model(corpus, TINY, preset="tiny", seed=3).save(tmp_path / "again")
    for name in (*NEEDED, HISTORY, FIGURE, MANIFEST):
        assert (tmp_path / "again" / name).read_bytes() == (folder / name).read_bytes(), name


def test_the_files_are_the_designs(folder):
    assert {path.name for path in folder.iterdir()} == {*NEEDED, HISTORY, FIGURE, MANIFEST}
    assert len({path.stat().st_mode for path in folder.iterdir()}) == 1  # who may read one may read all


def test_no_name_and_no_text_in_any_file(folder):
    """Names occur once each, so the vocabulary of words of five cases must not have them; nor may anything else."""
    for path in folder.iterdir():
        content = path.read_bytes().lower()
        for number in range(160):
            for name in people(number):
                assert name.lower().encode() not in content, (path.name, name)
        assert b"final diagnosis:" not in content and b"case-" not in content.replace(b"upper-case", b"")
    words = json.loads((folder / WORDS).read_text())["words"]
    assert "carcinoma" in words
    for name in (CARD, CONTENT, HISTORY, FIGURE):
        text = (folder / name).read_text()
        assert not [word for word in ("nottingham", "gleason", "formalin") if word in text.lower()], name


@pytest.mark.parametrize("name", [*NEEDED, HISTORY, FIGURE, MANIFEST])
def test_a_missing_file_is_named(copy, name):
    (copy / name).unlink()
    with pytest.raises(BundleError, match=f"{re.escape(name)} is missing"):
        Model.load(copy)


@pytest.mark.parametrize("name", [*NEEDED, HISTORY, FIGURE])
def test_a_changed_byte_is_found(copy, name):
    content = bytearray((copy / name).read_bytes())
    content[len(content) // 2] ^= 1
    (copy / name).write_bytes(content)
    with pytest.raises(BundleError, match=f"{re.escape(name)} was altered"):
        Model.load(copy)


def test_a_foreign_file_is_named(copy):
    (copy / "weights.pkl").write_bytes(b"")
    with pytest.raises(BundleError, match=r"weights\.pkl is not part of the bundle"):
        Model.load(copy)
    (copy / "weights.pkl").unlink()
    (copy / ".hidden").write_bytes(b"anything at all")
    with pytest.raises(BundleError, match=r"\.hidden is not part of the bundle .*; remove it"):
        Model.load(copy)


def hold_elsewhere(folder, listed, name):
    """The manifest lists a file under another name than a file of the folder."""
    (folder.parent / "outside.txt").write_text("elsewhere")
    listed[name] = {"sha256": sha256_of_file(folder.parent / "outside.txt"), "bytes": 9}


def link(folder, listed, name):
    (folder / name).rename(folder.parent / name)
    (folder / name).symlink_to(folder.parent / name)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda folder, listed: hold_elsewhere(folder, listed, "../outside.txt"), "lists what is no file of a bundle"),
        (lambda folder, listed: hold_elsewhere(folder, listed, str(folder.parent / "outside.txt")), "lists what is no"),
        (lambda folder, listed: listed[CARD].update(bytes=listed[CARD]["bytes"] + 1), "card.md was altered"),
        (lambda folder, listed: listed[CARD].update(note="x"), "with their sha256 and bytes, and nothing else"),
        (lambda folder, listed: listed.update({MANIFEST: listed[CARD]}), "lists what is no file of a bundle"),
        (lambda folder, listed: (folder / "surprise").mkdir(), "surprise is not part of the bundle"),
        (lambda folder, listed: link(folder, listed, CARD), "card.md is a link or no file"),
        (lambda folder, listed: link(folder, listed, MODEL), "model.safetensors is a link or no file"),
    ],
)
def test_a_manifest_says_exactly_what_is_there(copy, change, message):
    """Nothing outside, no link, no other size, nothing more; with the payload intact each of these was once loaded."""
    manifest = json.loads((copy / MANIFEST).read_text())
    change(copy, manifest["files"])
    (copy / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(BundleError, match=re.escape(message)):
        Model.load(copy)


def test_a_file_of_no_bundle_is_refused_though_listed(copy):
    (copy / "extra.txt").write_text("x")
    resign(copy, "extra.txt")
    with pytest.raises(BundleError, match=r"extra\.txt is not part of a bundle"):
        Model.load(copy)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", ["member-0.embedding.weight", "linear.idf", "lift.site"])
def test_weights_that_are_no_numbers_are_refused(copy, name, value):
    """Comparisons with NaN are false: a model with one was sure of every report."""

    def change(tensors):
        tensors[name] = tensors[name].copy()
        tensors[name].flat[-1] = value

    change_tensors(copy, change)
    with pytest.raises(BundleError, match="its weights are not all finite"):
        Model.load(copy)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-1.0", "1e999", "2.1"])
def test_a_threshold_that_is_no_probability_is_refused(copy, number):
    text = (copy / CONTENT).read_text()
    changed = re.sub(r'("probability": )[0-9.]+', rf"\g<1>{number}", text)
    assert changed != text
    (copy / CONTENT).write_text(changed)
    resign(copy, CONTENT)
    with pytest.raises(BundleError, match=r"threshold that is no probability|number that is none"):
        Model.load(copy)


@pytest.mark.parametrize(
    "change",
    [{"members": 10**12}, {"members": 0}, {"dim": 1 << 40}, {"windows": [3] * 1000}, {"filters": -1}, {"linear": 2}],
)
def test_an_architecture_of_no_network_is_refused_before_it_is_built(copy, change):
    content = json.loads((copy / CONTENT).read_text())
    content["architecture"] |= change
    (copy / CONTENT).write_text(json.dumps(content))
    resign(copy, CONTENT)
    with pytest.raises(BundleError, match="its architecture"):
        Model.load(copy)


@pytest.mark.parametrize("name", [CONTENT, MANIFEST])
def test_a_foreign_version_is_named(copy, name):
    content = json.loads((copy / name).read_text())
    content["format"] = "pathveil-bundle/99"
    (copy / name).write_text(json.dumps(content))
    if name == CONTENT:
        resign(copy, name)
    with pytest.raises(BundleError, match=r"format 'pathveil-bundle/99'.*reads 'pathveil-bundle/1'"):
        Model.load(copy)


def change_tensors(folder, change):
    from safetensors.numpy import load_file, save_file

    tensors = load_file(folder / MODEL)
    change(tensors)
    save_file(tensors, folder / MODEL)
    resign(folder, MODEL)


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda t: t.update({"member-0.embedding.weight": t["member-0.embedding.weight"][:-1]}), "of shape"),
        (lambda t: t.update({"linear.idf": t["linear.idf"].astype(np.float64)}), "float64"),
        (lambda t: t.pop("member-1.heads.site.bias"), "member-1.heads.site.bias is missing"),
        (lambda t: t.update({"surprise": np.zeros(1, np.float32)}), "surprise does not belong"),
    ],
)
def test_a_wrong_shape_is_named(copy, change, message):
    change_tensors(copy, change)
    with pytest.raises(BundleError, match=message):
        Model.load(copy)


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda c: c["architecture"].update(vocabulary_size=7), "architecture says 7"),
        (lambda c: c["architecture"].pop("filters"), "architecture is incomplete"),
        (lambda c: c["labels"]["site"].append("C99"), "heads.site"),
        (lambda c: c["blend"].update(site=[1.0]), "2 blend coefficients"),
        (lambda c: c.pop("labels"), "'labels' is missing"),
        (lambda c: c["thresholds"]["site"].pop("low"), "its thresholds cannot be read"),
        (lambda c: c.update(scores=[]), "its scores cannot be read"),
    ],
)
def test_contents_that_do_not_fit_are_named(copy, change, message):
    content = json.loads((copy / CONTENT).read_text())
    change(content)
    (copy / CONTENT).write_text(json.dumps(content))
    resign(copy, CONTENT)
    with pytest.raises(BundleError, match=message):
        Model.load(copy)


@pytest.mark.parametrize("name", [CONTENT, HISTORY, WORDS, MODEL])
def test_garbage_is_one_sentence(copy, name):
    (copy / name).write_bytes(b"\x80\x04garbage")
    resign(copy, name)
    with pytest.raises(BundleError, match=re.escape(name)):
        Model.load(copy)


def test_a_folder_that_is_no_bundle(tmp_path):
    for path in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(BundleError, match="expected a bundle written by 'pathveil train'"):
            Model.load(path)


def test_nothing_is_overwritten_or_half_written(made, folder, tmp_path, monkeypatch):
    with pytest.raises(UsageError, match="is there already"):
        made.save(folder)
    monkeypatch.setattr("pathveil.bundle.folder.write_card", lambda bundle: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        made.save(tmp_path / "new")
    assert list(tmp_path.iterdir()) == []
