"""A release that was tampered with: every kind of file, every kind of change, each with its sentence."""

import json
import shutil
from datetime import date, timedelta

import pytest

from bundle.conftest import evidence_for
from pathveil.bundle import Model
from pathveil.bundle.encoder import load_encoder
from pathveil.bundle.release import Override
from pathveil.bundle.release_folder import Signing, digests_in, write_release
from pathveil.bundle.release_log import add_line
from pathveil.bundle.statements import sign, signature_bundle
from pathveil.bundle.verification import verify_release
from pathveil.errors import BundleError, UsageError
from pathveil.files import sha256_of_file, write_json, write_text
from pathveil.signatures import read_private_key, read_public_key

FILES = [
    "MANIFEST.json", "README.md", "appetite.toml", "audit.html", "audit.json", "bom.cdx.json", "bundle.json", "card.md",
    "exposure.json", "model.safetensors", "release.json", "test-result.dsse.json", "vocabulary.json",
]  # fmt: skip


@pytest.fixture
def copy(released, tmp_path):
    return shutil.copytree(released, tmp_path / "copy")


@pytest.fixture
def check(copy, keys):
    """Raise the sentence on a changed copy."""

    def refused(said: str, **options) -> None:
        with pytest.raises(BundleError, match=said):
            verify_release(copy, read_public_key(keys / "officer.pub.pem"), **options)
        with pytest.raises(BundleError):
            Model.load(copy, require_signature=keys / "officer.pub.pem") if not options else verify_release(
                copy, read_public_key(keys / "officer.pub.pem"), **options
            )

    return refused


def resigned(folder, keys, who="officer"):
    """Sign the files as they now are, as a forger with a key would."""
    (folder / "model.sig").unlink(missing_ok=True)
    key = read_private_key(keys / f"{who}.pem")
    write_json(folder / "model.sig", signature_bundle(digests_in(folder), name="m", ignored="model.sig", key=key))


def rehashed(folder):
    """Make the manifest fit the files."""
    manifest = json.loads((folder / "MANIFEST.json").read_text())
    for name in manifest["files"]:
        path = folder / name
        manifest["files"][name] = {"sha256": sha256_of_file(path), "bytes": path.stat().st_size}
    (folder / "MANIFEST.json").write_text(json.dumps(manifest))


def test_all_files_are_the_ones_tested_here(released, keys):
    assert sorted(path.name for path in released.iterdir()) == sorted([*FILES, "model.sig"])
    found = verify_release(released, read_public_key(keys / "officer.pub.pem"))
    assert found.files == 14 and "holds. All 14 files" in str(found) and found.rows()[0]["form"] == "weights"
    assert Model.load(released, require_signature=keys / "officer.pub.pem").tasks


@pytest.mark.parametrize("name", FILES)
def test_a_changed_removed_or_linked_file_is_named(copy, check, name, tmp_path):
    content = bytearray((copy / name).read_bytes())
    content[len(content) // 2] ^= 1
    (copy / name).write_bytes(content)
    check(f"{name} was changed after it was signed")
    (copy / name).rename(tmp_path / "elsewhere")
    check(f"{name} is missing, though it was signed")
    (copy / name).symlink_to(tmp_path / "elsewhere")
    check(f"{name} is a link to elsewhere")


@pytest.mark.parametrize("name", ["encoder.safetensors", "encoder.json", "vocabulary.json", "README.md"])
def test_an_encoder_and_hashed_words_are_held_as_well(bundle, signing, keys, name, tmp_path):
    """The forms with files of their own: every class of file that only they have, changed or taken away."""
    folder = tmp_path / "encoder"
    write_release(bundle, folder, evidence=evidence_for(bundle), signing=signing, form="encoder", words_key=b"k" * 16)
    public = keys / "officer.pub.pem"
    assert verify_release(folder, read_public_key(public)).release.words == "hashed"
    assert load_encoder(folder, require_signature=public).vocabulary.is_hashed
    content = bytearray((folder / name).read_bytes())
    content[-2] ^= 1
    (folder / name).write_bytes(content)
    with pytest.raises(BundleError, match=f"{name} was changed after it was signed"):
        load_encoder(folder, require_signature=public)
    (folder / name).unlink()
    with pytest.raises(BundleError, match=f"{name} is missing, though it was signed"):
        verify_release(folder, read_public_key(public))


def test_an_added_file_or_folder_is_named(copy, check):
    (copy / ".hidden").write_text("x")
    check(r"\.hidden was added after signing")
    (copy / ".hidden").unlink()
    (copy / "more").mkdir()
    check("more is no plain file")


def test_a_manifest_made_anew_does_not_help(copy, check):
    (copy / "card.md").write_text("# Another card\n")
    rehashed(copy)
    Model.load(copy)  # the manifest alone sees nothing
    check(r"MANIFEST.json was changed after it was signed")


def test_a_signature_that_is_missing_foreign_or_broken(copy, check, keys, released):
    with pytest.raises(BundleError, match="is not signed by this key; the signature is foreign"):
        verify_release(released, read_public_key(keys / "stranger.pub.pem"))
    resigned(copy, keys, "stranger")
    check("is not signed by this key; the signature is foreign, or what it signs was altered")
    (copy / "model.sig").write_text("{}")
    check("is not a Sigstore bundle")
    (copy / "model.sig").write_text("{")
    check("cannot be read as JSON")
    (copy / "model.sig").unlink()
    check(r"is not signed \(model.sig is missing\)")


def test_a_verdict_is_out_of_date_from_its_day_on(released, check, keys):
    key = read_public_key(keys / "officer.pub.pem")
    last = date.fromisoformat(verify_release(released, key).release.expires)
    verify_release(released, key, today=last)
    with pytest.raises(BundleError, match=f"its verdict expired on {last}"):
        verify_release(released, key, today=last + timedelta(days=1))


def test_a_verdict_of_another_model_is_refused_even_under_a_good_signature(
    copy, check, keys, bundle, signing, tmp_path
):
    other = tmp_path / "other"
    write_release(bundle, other, evidence=evidence_for(bundle), signing=signing, name="other")
    shutil.copy(other / "test-result.dsse.json", copy)
    resigned(copy, keys)
    check("its verdict is about another model: it names other files than these")
    (copy / "test-result.dsse.json").write_text(json.dumps(sign({"_type": "x"}, signing.key)))
    resigned(copy, keys)
    check("is not an in-toto statement")
    (copy / "test-result.dsse.json").unlink()
    resigned(copy, keys)
    check("nobody signed a verdict on this model")


def test_evidence_that_does_not_belong_is_refused_when_it_is_signed(bundle, signing, tmp_path):
    """The signer's own tool refuses to make such a release."""
    strange = {"provenance": {"model sha256": "00"}, "verdict": {"answer": "pass", "sentence": "Pass: x."}}
    for changes, said in (
        ({"audit": strange}, "audit.json is the audit of another model"),
        (
            {"audit": evidence_for(bundle).audit | {"verdict": {"answer": "fail", "sentence": "x"}}},
            "has another answer than",
        ),
        ({"appetite_text": "another"}, "appetite.toml is not the risk appetite"),
        ({"judgement": None, "audit": None}, "no passing verdict and no reason"),
    ):
        with pytest.raises(BundleError, match=said):
            write_release(bundle, tmp_path / "r", evidence=evidence_for(bundle, **changes), signing=signing)
        assert not (tmp_path / "r").exists()


def test_weights_under_anothers_verdict_are_refused(copy, check, keys, signing):
    """Files exchanged, everything signed again by the same key: release.json still names the audited model."""
    text = json.loads((copy / "bundle.json").read_text())
    text["thresholds"]["site"]["probability"] = 0.01
    (copy / "bundle.json").write_text(json.dumps(text))
    rehashed(copy)
    resigned(copy, keys)
    check("its verdict is about another model")


@pytest.mark.parametrize("who", ["nobody", "stranger", "officer"])
@pytest.mark.parametrize("field", ["what", "when", "who", "name", "form", "model", "verdict", "appetite", "override"])
def test_the_line_of_a_release_says_what_the_release_says(bundle, keys, tmp_path, field, who):
    """Altered as the last line of the log, and left so, or signed again with another's key or the release's own."""
    log, key = tmp_path / "log.jsonl", read_private_key(keys / "officer.pem")
    signing = Signing(key=key, signer="A. Officer", log=log)
    override = Override(reason="the board has decided so", refusals=["the audit did not pass"])
    write_release(bundle, tmp_path / "r", evidence=evidence_for(bundle), signing=signing, override=override)
    assert "whose lines are as they were signed" in str(verify_release(tmp_path / "r", key.public, log=log))
    line = json.loads(log.read_text()) | {field: None}
    log.unlink()
    if who == "nobody":
        write_text(log, json.dumps(line) + "\n")
    else:
        del line["line_signature"]
        add_line(log, line, key=read_private_key(keys / f"{who}.pem"))
    with pytest.raises(BundleError, match=r"line 1 (has another|is not as it was signed)"):
        verify_release(tmp_path / "r", key.public, log=log)


def test_a_bundle_is_not_signed(folder, keys, released, pathveil, fresh, tmp_path):
    with pytest.raises(BundleError, match="is not signed"):
        Model.load(folder, require_signature=keys / "officer.pub.pem")
    with pytest.raises(UsageError, match="is a private key"):
        Model.load(folder, require_signature=keys / "officer.pem")
    with pytest.raises(BundleError, match="there is no such folder"):
        verify_release(tmp_path / "none", read_public_key(keys / "officer.pub.pem"))
