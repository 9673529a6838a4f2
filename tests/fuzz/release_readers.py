"""Readers of releases and of their evidence. The liar here holds the signing key: what is changed is signed again, so
that lies get past the signature to whatever reads what was signed."""

import base64
import gzip
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fuzz.reader import WORD, Reader, one, text_file

SEEDS = Path(__file__).parent / "seeds"
SENTENCE = "Pass: an attacker finds 9.0 % of the cases; the appetite tolerates 20 %."
LATER = {"MANIFEST.json", "test-result.dsse.json", "model.sig"}  # what is made of the other files, in this order


def release_folder(folder: Path) -> None:
    """A release of a small bundle, its two statements as plain JSON beside it, and the log that it stands in."""
    from fuzz.readers import bundle_folder
    from pathveil.bundle.model import Model
    from pathveil.bundle.release import JudgedBy, Judgement
    from pathveil.bundle.release_folder import Evidence, Signing, write_release
    from pathveil.signatures import new_key, read_private_key

    bundle_folder(folder)
    new_key(folder / "officer.pem")
    model, appetite = Model.load(folder / "bundle"), 'name = "A. Officer"\n'
    whose = {"release": "weights", "name": "A. Officer", "organisation": "North", "date": "2026-11-16"}
    evidence = Evidence(
        judgement=Judgement(answer="pass", sentence=SENTENCE, audit_sha256="", audited="2026-11-16"),
        appetite=JudgedBy(sha256=hashlib.sha256(appetite.encode()).hexdigest(), **whose),
        appetite_text=appetite,
        audit={
            "provenance": {"model sha256": model.model_sha256},
            "verdict": {"answer": "pass", "sentence": SENTENCE},
        },
        page="<!doctype html><p>the page</p>",
        tests={"overall": "kept"},
    )
    key = read_private_key(folder / "officer.pem")
    for form, log in (("weights", folder / "log.jsonl"), ("encoder", None)):
        signing = Signing(key=key, signer="A. Officer", log=log)
        write_release(model, folder / form, evidence=evidence, signing=signing, form=form)
    for name, file in (("verdict", "test-result.dsse.json"), ("files", "model.sig")):
        content = json.loads((folder / "weights" / file).read_bytes())
        envelope = content.get("dsseEnvelope", content)
        (folder / f"{name}.json").write_bytes(base64.b64decode(envelope["payload"]))


def signed(payload: bytes, folder: Path) -> dict[str, Any]:
    """Bytes in an envelope signed by the folder's key, whatever they say."""
    from pathveil.bundle.statements import PAYLOAD_TYPE, covered
    from pathveil.signatures import read_private_key

    key = read_private_key(folder / "officer.pem")
    signature = {"sig": base64.b64encode(key.sign(covered(payload))).decode(), "keyid": key.public.sha256}
    return {
        "payload": base64.b64encode(payload).decode(),
        "payloadType": PAYLOAD_TYPE,
        "signatures": [signature],
    }


def digests(folder: Path, *, without: set[str]) -> dict[str, str]:
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.iterdir())
        if path.name not in without
    }


def sign_again(folder: Path, form: str) -> None:
    """Make manifest, verdict and signature fit a release's files as they are now."""
    release = folder / form
    listed = {
        name: {"sha256": digest, "bytes": (release / name).stat().st_size}
        for name, digest in digests(release, without=LATER).items()
    }
    manifest = json.loads((release / "MANIFEST.json").read_bytes()) | {"files": listed}
    (release / "MANIFEST.json").write_text(json.dumps(manifest))
    told = json.loads(base64.b64decode(json.loads((release / "test-result.dsse.json").read_bytes())["payload"]))
    subject = digests(release, without=LATER - {"MANIFEST.json"})
    told["subject"] = [{"name": name, "digest": {"sha256": digest}} for name, digest in subject.items()]
    sign_verdict(folder, form, json.dumps(told).encode())


def sign_verdict(folder: Path, form: str, verdict: bytes) -> None:
    """Sign a verdict, and all files with it."""
    from pathveil.bundle.statements import signature_bundle
    from pathveil.signatures import read_private_key

    release, key = folder / form, read_private_key(folder / "officer.pem")
    (release / "test-result.dsse.json").write_text(json.dumps(signed(verdict, folder)))
    whole = signature_bundle(digests(release, without={"model.sig"}), name=form, ignored="model.sig", key=key)
    (release / "model.sig").write_text(json.dumps(whole))
    log_again(folder, release)


def verify(folder: Path, form: str = "weights") -> None:
    from pathveil.bundle.verification import verify_release
    from pathveil.signatures import read_public_key

    str(verify_release(folder / form, read_public_key(folder / "officer.pub.pem"), log=folder / "log.jsonl"))


def resigned(form: str = "weights") -> Callable[[Path], None]:
    def read(folder: Path) -> None:
        from pathveil.bundle.encoder import load_encoder
        from pathveil.bundle.release import read_release

        str(read_release(folder / form))  # what a server reads
        sign_again(folder, form)
        if form == "encoder":
            load_encoder(folder / form)
        verify(folder, form)

    return read


def log_again(folder: Path, release: Path) -> None:
    """Write a log that holds the release as it is now."""
    from pathveil.bundle.release import read_release
    from pathveil.bundle.release_log import add_line
    from pathveil.signatures import read_private_key

    described = read_release(release)
    assert described is not None
    line = described.log_line(signature=hashlib.sha256((release / "model.sig").read_bytes()).hexdigest())
    (folder / "log.jsonl").unlink(missing_ok=True)
    add_line(folder / "log.jsonl", line, key=read_private_key(folder / "officer.pem"))


def signed_verdict(folder: Path) -> None:
    sign_verdict(folder, "weights", (folder / "verdict.json").read_bytes())
    verify(folder)


def signed_files(folder: Path) -> None:
    path = folder / "weights" / "model.sig"
    whole = json.loads(path.read_bytes()) | {"dsseEnvelope": signed((folder / "files.json").read_bytes(), folder)}
    path.write_text(json.dumps(whole))
    log_again(folder, folder / "weights")
    verify(folder)


def log_file(path: Path) -> None:
    """A log of one signed line, and the key beside it."""
    from pathveil.bundle.release_log import add_line
    from pathveil.signatures import new_key, read_private_key

    new_key(path.with_name("k.pem"))
    line = {"what": "released", "signature": "ab" * 32, "name": WORD}
    add_line(path, line, key=read_private_key(path.with_name("k.pem")))


def release_log(folder: Path) -> None:
    from pathveil.bundle.release_log import check_in_log, head_of, read_log
    from pathveil.signatures import read_public_key

    path, key = folder / "log.jsonl", read_public_key(folder / "k.pub.pem")
    assert len(head_of(path)) == 64
    for line in read_log(path, key=key)[-1:]:
        check_in_log(path, {"signature": "ab" * 32, "name": WORD}, key=key, before=line["before"])


def public_key(path: Path) -> None:
    from pathveil.signatures import new_key

    new_key(path.with_name("k.pem"))
    (path.with_name("k.pub.pem")).rename(path)


def read_key(folder: Path) -> None:
    from pathveil.signatures import read_public_key

    assert read_public_key(folder / "public.pem").sha256


def audit_file(path: Path) -> None:
    from auditing.made import audit_of_predictions

    path.write_text(json.dumps(audit_of_predictions().to_dict()))


def read_audit(folder: Path) -> None:
    from pathveil.auditing.page import render
    from pathveil.auditing.result import read_audit as read

    audit = read(folder / "audit.json")
    assert str(audit) and render(audit)


def study_report(folder: Path) -> None:
    """A run's result that somebody sent, made into a page again."""
    from pathveil.studies.report.page import write_again

    write_again(folder)


def public_classes(folder: Path) -> None:
    from pathveil.bundle.train import read_public_classes

    read_public_classes(folder / "classes.json")


result = gzip.decompress((SEEDS / "result.json.gz").read_bytes())
READERS: dict[str, Reader] = {
    "release description": Reader("weights/release.json", "json", release_folder, resigned(), weight=0.2),
    "release audit": Reader("weights/audit.json", "json", release_folder, resigned(), weight=0.2),
    "release encoder": Reader("encoder/encoder.json", "json", release_folder, resigned("encoder"), weight=0.2),
    "release signature": Reader("weights/model.sig", "json", release_folder, verify, weight=0.3),
    "release files": Reader("files.json", "json", release_folder, signed_files, weight=0.2),
    "release verdict": Reader("verdict.json", "json", release_folder, signed_verdict, weight=0.2),
    "release log": Reader("log.jsonl", "jsonl", one("log.jsonl", log_file), release_log),
    "public key": Reader("public.pem", "bytes", one("public.pem", public_key), read_key, weight=0.5),
    "audit": Reader("audit.json", "json", one("audit.json", audit_file), read_audit, weight=0.1),
    "study result": Reader("result.json", "json", one("result.json", text_file(result)), study_report, weight=0.05),
    "public classes": Reader(
        "classes.json", "json", one("classes.json", text_file('{"site": ["C18", "C50"]}')), public_classes
    ),
}
