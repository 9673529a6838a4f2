"""The folder of a release: what may leave a bundle, its evidence, and two signatures; whole or not at all.

    model.safetensors, vocabulary.json, bundle.json   the model (for an encoder: encoder.safetensors, encoder.json)
    card.md, README.md                                the card, and the same with front matter for model hubs
    audit.json, audit.html, appetite.toml             the evidence: what was found, and what it was held against
    exposure.json                                     how much of people the words keep, in numbers
    bom.cdx.json                                      a CycloneDX ML-BOM
    release.json                                      form, signer, verdict, expiry, and why a refusal was overridden
    MANIFEST.json                                     sha256 of every file above
    test-result.dsse.json                             signed: the verdict on exactly these files
    model.sig                                         signed: all files, the verdict among them

Left behind: the history of training, the seed (from it the noise of a private model could be drawn again) and the hash
of the training corpus (whoever knows all its reports but one could find the last by it).
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from pathveil import __version__
from pathveil.bundle import folder as folders
from pathveil.bundle.encoder import SHAPE, TENSORS, write_encoder
from pathveil.bundle.model import Model
from pathveil.bundle.release import RELEASE, SIGNATURE, TEST_RESULT, Form, JudgedBy, Judgement, Override, Release, Scan
from pathveil.bundle.release_documents import (
    bill_of_materials,
    encoder_card,
    exposure_summary,
    hugging_face_card,
    release_card,
)
from pathveil.bundle.release_log import add_line, head_of
from pathveil.bundle.release_scan import RUN, scan_release
from pathveil.bundle.statements import TEST_RESULT_TYPE, sign, signature_bundle, statement
from pathveil.bundle.verification import APPETITE, AUDIT, verify_release
from pathveil.corpus.schema import Paths, scan
from pathveil.corpus.tables.files import content_sha256
from pathveil.errors import UsageError
from pathveil.files import new_folder, sha256_of_file, write_json, write_text
from pathveil.progress import Progress, silent
from pathveil.signatures import PrivateKey

PAGE, EXPOSURE, BOM, HUB_CARD = "audit.html", "exposure.json", "bom.cdx.json", "README.md"
LEFT_BEHIND = ("seed", "device", "best_epochs", "corpus_sha256", "validation")  # of a bundle's provenance
RESULTS = {"pass": "PASSED", "fail": "FAILED", "not enough evidence": "WARNED"}  # as in-toto names them


@dataclass(frozen=True)
class Evidence:
    """An audit and the appetite it was held against, as a release holds them."""

    judgement: Judgement | None = None  # its audit_sha256 is filled in when the file is written
    appetite: JudgedBy | None = None
    appetite_text: str = ""  # appetite.toml
    audit: Mapping[str, Any] | None = None  # audit.json
    page: str = ""  # audit.html
    tests: Mapping[str, str] = field(default_factory=dict)  # a limit: kept, broken or open
    original_sha256: str = ""  # of the audit's own file, for the log
    own_text: str = ""  # that its page is written with, whatever the model


@dataclass(frozen=True)
class Signing:
    """Who signs, with which key, when and for how long; and the log that it goes into."""

    key: PrivateKey
    signer: str = ""
    days: int = 365
    log: Path | None = None
    now: datetime | None = None  # else the clock's

    @property
    def who(self) -> str:
        return self.signer or f"the holder of key {self.key.public.sha256[:16]}"

    @property
    def time(self) -> datetime:
        return self.now or datetime.now(UTC)

    @property
    def expires(self) -> date:
        return self.time.date() + timedelta(days=self.days)


def files_of(form: Form, evidence: Evidence) -> set[str]:
    """The files that a release consists of."""
    model = {TENSORS, SHAPE} if form == "encoder" else {folders.MODEL, folders.CONTENT}
    proof = {AUDIT, PAGE} if evidence.audit is not None else set()
    appetite = {APPETITE} if evidence.appetite_text else set()
    always = {folders.WORDS, folders.CARD, HUB_CARD, EXPOSURE, BOM, RELEASE, folders.MANIFEST, TEST_RESULT, SIGNATURE}
    return model | proof | appetite | always


def write_release(
    model: Model,
    out: Path,
    *,
    evidence: Evidence,
    signing: Signing,
    form: Form = "weights",
    override: Override | None = None,
    words_key: bytes | None = None,
    reports: Paths | None = None,
    names: Collection[str] = (),
    name: str = "",
    progress: Progress = silent,
) -> Release:
    """Write, search and sign a release. Whether there may be one is for the caller to say (``auditing.release``).

    ``reports`` is the training corpus: its ids and text are looked for in every file, and the words' exposure is
    measured in it; ``names`` are looked for as well. ``words_key`` hashes the words.
    """
    if model.vocabulary.is_hashed:
        raise UsageError("the words of this model are hashed already; release the bundle it was made from")
    kept = {key: value for key, value in model.provenance.items() if key not in LEFT_BEHIND}
    source = {name: value for name, value in model.vocabulary.source.items() if name == "id_space"}
    words = replace(model.vocabulary, source=source)
    if words_key is not None:
        words = words.hashed(words_key)
    released = replace(model, vocabulary=words, provenance=kept, history=(), audit=evidence.audit)
    expected = files_of(form, evidence)
    with new_folder(out) as part:
        if form == "encoder":
            write_encoder(released, part)
            released.vocabulary.save(part / folders.WORDS)
            if evidence.audit is not None:
                write_json(part / AUDIT, evidence.audit)
        else:
            folders.write_model(released, part)
        if evidence.audit is not None:
            write_text(part / PAGE, evidence.page)
        if evidence.appetite_text:
            write_text(part / APPETITE, evidence.appetite_text)
        told = "shown" if words_key is None else "hashed"
        write_json(part / EXPOSURE, exposure_summary(model, words=told, reports=reports, progress=progress))
        described = Release(
            pathveil=__version__,
            name=name or out.name,
            form=form,
            words=told,
            released=signing.time.strftime("%Y-%m-%dT%H:%M:%SZ"),
            expires=signing.expires.isoformat(),
            signer=signing.who,
            key=signing.key.public.sha256,
            model_sha256=model.model_sha256,
            folder_sha256=model.folder_sha256,
            judgement=_with_digest(evidence.judgement, part),
            appetite=evidence.appetite,
            override=override,
            ask_again=reasons_to_ask_again(form),
            scan=Scan(
                files=len(expected),
                reports=_count(reports),
                names=len(names),
                words_run=RUN,
                of_training=reports is not None and content_sha256(reports) == model.provenance.get("corpus_sha256"),
            ),
            log=None if signing.log is None else head_of(signing.log),
        )
        _describe(released, described, part)
        _sign(described, evidence, part, signing.key)
        given = [evidence.own_text, evidence.appetite_text, signing.who, described.name]
        given += [] if override is None else [override.reason]
        own_text = "\n".join(given)
        public = {"labels": model.labels.values(), "own_text": own_text}
        scan_release(part, expected=expected, reports=reports, names=names, **public, progress=progress)
        verify_release(part, signing.key.public, today=signing.time.date())
        if signing.log is not None:
            line = described.log_line(signature=sha256_of_file(part / SIGNATURE))
            add_line(signing.log, line | {"audit": evidence.original_sha256}, key=signing.key)
    return described


def reasons_to_ask_again(form: Form) -> list[str]:
    """What asks for a new audit."""
    wider = {
        "weights": [],
        "encoder": ["more than the encoder is to leave"],
        "labels": ["more than the chosen codes is to be answered"],
    }
    return [
        "the model is trained again, or its words, labels or thresholds change",
        "the risk appetite changes",
        *wider[form],
        f"an attack becomes known that is stronger than those of Pathveil {__version__}",
        "another release from the same training cases leaves as well: together they tell more",
    ]


def _with_digest(judgement: Judgement | None, folder: Path) -> Judgement | None:
    return judgement and judgement.model_copy(update={"audit_sha256": sha256_of_file(folder / AUDIT)})


def _count(reports: Paths | None) -> int:
    import polars as pl

    return 0 if reports is None else int(scan(reports).select(pl.len()).collect().item())


def _describe(model: Model, release: Release, folder: Path) -> None:
    """The documents, and last the list of all files."""
    card = release_card(encoder_card(model) if release.form == "encoder" else model.card, release)
    write_text(folder / folders.CARD, card)
    write_text(folder / HUB_CARD, hugging_face_card(card, model, release))
    write_json(folder / RELEASE, release.to_dict())
    write_json(folder / BOM, bill_of_materials(model, release, digests_in(folder)))
    for path in folder.iterdir():
        path.chmod(0o644)  # safetensors makes a file for its owner's eyes only
    folders.write_manifest(folder)


def _sign(release: Release, evidence: Evidence, folder: Path, key: PrivateKey) -> None:
    """The verdict on all files there are, then all files with the verdict."""
    digests = digests_in(folder)
    verdict = statement(digests, kind=TEST_RESULT_TYPE, predicate=test_result(release, evidence))
    write_json(folder / TEST_RESULT, sign(verdict, key))
    everything = digests_in(folder)
    write_json(folder / SIGNATURE, signature_bundle(everything, name=release.name, ignored=SIGNATURE, key=key))


def test_result(release: Release, evidence: Evidence) -> dict[str, Any]:
    """The predicate of the verdict's statement: in-toto's test result, with what Pathveil says beyond it."""
    answer = "fail" if release.judgement is None else release.judgement.answer
    used = {
        AUDIT: release.judgement and release.judgement.audit_sha256,
        APPETITE: release.appetite and release.appetite.sha256,
    }
    states = {"passedTests": "kept", "warnedTests": "open", "failedTests": "broken"}
    return {
        "result": RESULTS[answer],
        "configuration": [{"name": name, "digest": {"sha256": digest}} for name, digest in used.items() if digest],
        **{name: [test for test, found in evidence.tests.items() if found == state] for name, state in states.items()},
        "pathveil": {
            "name": release.name,
            "form": release.form,
            "answer": None if release.judgement is None else answer,
            "sentence": None if release.judgement is None else release.judgement.sentence,
            "modelSha256": release.model_sha256,
            "signer": release.signer,
            "released": release.released,
            "expires": release.expires,
            "override": None if release.override is None else release.override.to_dict(),
            "asksForANewAudit": release.ask_again,
        },
    }


def digests_in(folder: Path) -> dict[str, str]:
    """The sha256 of every file."""
    return {path.name: sha256_of_file(path) for path in sorted(folder.iterdir())}
