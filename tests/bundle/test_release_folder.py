"""The folder of a release: forms hold what they say, training stays behind, and a foreign tool verifies it."""

import json
import shutil
import subprocess
import sys
from datetime import UTC, datetime

import pytest

from bundle.conftest import evidence_for, people
from pathveil.bundle import Model
from pathveil.bundle.release import Override
from pathveil.bundle.release_folder import Evidence, Signing, write_release
from pathveil.bundle.release_log import read_log
from pathveil.bundle.verification import verify_release
from pathveil.errors import BundleError, UsageError, VocabularyError
from pathveil.signatures import read_private_key

TEXTS = ["invasive ductal carcinoma of the left breast", "adenocarcinoma of the sigmoid colon, formalin"]


def test_the_model_works_and_its_past_stays_behind(bundle, released):
    model = Model.load(released)
    assert model.predict(TEXTS).rows() == bundle.predict(TEXTS).rows() and model.model_sha256 == bundle.model_sha256
    assert model.history == () and not (released / "history.json").exists() and not (released / "training.svg").exists()
    content = json.loads((released / "bundle.json").read_text())["provenance"]
    assert not {"seed", "best_epochs", "corpus_sha256", "device"} & content.keys() and content["reports"] == 160
    everything = b"".join(path.read_bytes() for path in released.iterdir())
    assert bundle.provenance["corpus_sha256"].encode() not in everything
    for number in range(160):
        assert not any(name.lower().encode() in everything.lower() for name in people(number))


def test_openssf_accepts_it_and_not_a_changed_one(released, keys, tmp_path):
    command = [sys.executable, "-m", "model_signing", "verify", "key", "--public_key", str(keys / "officer.pub.pem")]

    def verify(folder) -> subprocess.CompletedProcess:
        return subprocess.run([*command, "--signature", f"{folder}/model.sig", str(folder)], capture_output=True)

    done = verify(released)
    assert done.returncode == 0, done.stderr
    copy = shutil.copytree(released, tmp_path / "copy")
    (copy / "card.md").write_text("another card")
    assert verify(copy).returncode != 0


def bytes_of(path):
    return path.read_bytes()


def test_hashed_words_need_their_key(bundle, signing, tmp_path, corpus):
    key = tmp_path / "words.key"
    key.write_text("a secret of more than sixteen bytes")
    (tmp_path / "wrong.key").write_text("a secret of another sixteen bytes")
    out = tmp_path / "hashed"
    made = write_release(
        bundle, out, evidence=evidence_for(bundle), signing=signing, words_key=key.read_bytes(), reports=corpus,
        names=["nottingham", "formalin"],
    )  # fmt: skip
    assert made.words == "hashed" and made.scan.reports == 160
    text = (out / "vocabulary.json").read_text()
    assert not [word for word in bundle.words if len(word) > 5 and word in text]
    verify_release(out, signing.key.public)
    with pytest.raises(VocabularyError, match="--words-key"):
        Model.load(out).predict(TEXTS)
    with pytest.raises(BundleError, match="hashed with another key"):
        Model.load(out, words_key=tmp_path / "wrong.key")
    model = Model.load(out, words_key=key)
    assert model.predict(TEXTS * 60).rows() == bundle.predict(TEXTS * 60).rows()  # both ways of reading texts
    assert key.read_bytes() not in b"".join(map(bytes_of, out.iterdir()))
    with pytest.raises(UsageError, match="hashed already"):
        write_release(model, tmp_path / "again", evidence=evidence_for(model), signing=signing)
    with pytest.raises(BundleError, match="are not hashed"):
        Model.load(bundle.folder, words_key=key)


def test_a_name_among_the_words_stops_the_release_and_leaves_nothing(bundle, signing, tmp_path):
    log = tmp_path / "log.jsonl"
    logged = Signing(key=signing.key, log=log)
    with pytest.raises(BundleError, match=r"vocabulary\.json.*: holds 1 names"):
        write_release(bundle, tmp_path / "r", evidence=evidence_for(bundle), signing=logged, names=["nottingham"])
    assert list(tmp_path.iterdir()) == []


def test_an_override_is_in_everything_and_in_the_log(bundle, signing, tmp_path):
    reason = "approved by the board on invented reports"
    override = Override(reason=reason, refusals=["there is no audit of this model"])
    logged = Signing(key=signing.key, log=tmp_path / "log.jsonl", now=datetime(2026, 11, 16, tzinfo=UTC), days=10_000)
    out = tmp_path / "r"
    made = write_release(bundle, out, evidence=Evidence(), signing=logged, override=override, form="labels")
    assert made.expires > "2050" and "Reason given" in str(verify_release(out, signing.key.public, log=logged.log))
    for name in ("release.json", "card.md", "README.md", "bom.cdx.json"):
        assert reason in (out / name).read_text(), name
    (line,) = read_log(tmp_path / "log.jsonl", key=signing.key.public)
    assert line["override"]["reason"] == reason and line["what"] == "released against a refusal"
    assert "audit.json" not in {path.name for path in out.iterdir()}
    again = write_release(bundle, tmp_path / "s", evidence=evidence_for(bundle), signing=logged)
    assert again.log is not None and len(read_log(tmp_path / "log.jsonl", key=signing.key.public)) == 2


def test_the_signer_is_named_or_the_key(keys):
    key = read_private_key(keys / "officer.pem")
    assert (
        Signing(key=key).who == f"the holder of key {key.public.sha256[:16]}" and Signing(key, "A. B.").who == "A. B."
    )
