"""Is a release whole, signed by the key one trusts, and its verdict about this model and still good?

Everything is held against the two signed statements: the files themselves (one changed, added, taken away or replaced
by a link), the manifest (one made anew to fit changed files), the verdict (of another model, or out of date) and the
evidence it names. Each fault is one sentence.
"""

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from pathveil.bundle import folder as folders
from pathveil.bundle.encoder import SHAPE, TENSORS
from pathveil.bundle.release import RELEASE, SIGNATURE, TEST_RESULT, Release, read_release
from pathveil.bundle.release_log import check_in_log
from pathveil.bundle.statements import TEST_RESULT_TYPE, opened, signed_files
from pathveil.errors import BundleError
from pathveil.files import read_json, sha256_of_file
from pathveil.formatting import counted
from pathveil.results import Result
from pathveil.signatures import PublicKey, read_public_key

AUDIT, APPETITE = folders.AUDIT, "appetite.toml"


class Verification(Result):
    """A release that holds."""

    folder: str
    files: int
    key: str  # sha256 of the public key
    release: Release
    log: str | None  # the log that holds it, where one was given
    lines_of_other_keys: int = 0  # in that log

    def rows(self) -> list[dict[str, Any]]:
        return self.release.rows()

    def summary(self) -> str:
        lines = [
            f"{self.folder}: holds. All {self.files} files are as they were signed by {self.release.signer} "
            f"(key {self.key[:16]}…).",
            str(self.release),
        ]
        if self.log:
            others = counted(self.lines_of_other_keys, "line")
            more = f"; {others} of other keys: check them with theirs" if self.lines_of_other_keys else ""
            lines.append(f"It stands in {self.log}, whose lines are as they were signed{more}.")
        return "\n".join(lines)


def verify_release(folder: Path, key: PublicKey, *, today: date | None = None, log: Path | None = None) -> Verification:
    """Check everything; the first fault is raised as a ``BundleError``."""
    present = plain_files(folder)
    if SIGNATURE not in present:
        raise BundleError(f"{folder}: is not signed ({SIGNATURE} is missing); expected a release by 'pathveil release'")
    bundle = read_json(folder / SIGNATURE, error=BundleError)
    signed = signed_files(bundle, key, str(folder / SIGNATURE))
    check_present(folder, present - {SIGNATURE}, set(signed))
    for name, digest in sorted(signed.items()):
        if sha256_of_file(folder / name) != digest:
            raise BundleError(f"{folder}: {name} was changed after it was signed; get the release again")
    release = read_release(folder)
    if release is None:
        raise BundleError(f"{folder}: {RELEASE} is missing, though the folder is signed; it is no release")
    needed = (TENSORS, SHAPE, folders.WORDS) if release.form == "encoder" else folders.NEEDED
    folders.verify(folder, needed=needed)
    check_verdict(folder, release, signed, key)
    check_evidence(folder, release)
    if (today or datetime.now(UTC).date()) > date.fromisoformat(release.expires):
        raise BundleError(
            f"{folder}: its verdict expired on {release.expires}; ask {release.signer} for a release with a new audit"
        )
    others = 0
    if log is not None:
        line = release.log_line(signature=sha256_of_file(folder / SIGNATURE))
        others = check_in_log(log, line, key=key, before=release.log)
    return Verification(
        folder=str(folder),
        files=len(present),
        key=key.sha256,
        release=release,
        log=None if log is None else str(log),
        lines_of_other_keys=others,
    )


def check_signed(folder: Path, public: str | Path) -> Verification:
    """What ``--require-signature`` asks before a model is opened: a release that holds under the key in this file."""
    return verify_release(folder, read_public_key(Path(public)))


def plain_files(folder: Path) -> set[str]:
    """The names of a folder's files; a link or a folder among them is refused."""
    if not folder.is_dir():
        raise BundleError(f"{folder}: there is no such folder; expected a release")
    for path in sorted(folder.iterdir()):
        if path.is_symlink():
            raise BundleError(f"{folder}: {path.name} is a link to elsewhere; a release holds plain files only")
        if not path.is_file():
            raise BundleError(f"{folder}: {path.name} is no plain file; a release holds plain files only")
    return {path.name for path in folder.iterdir()}


def check_present(folder: Path, present: set[str], signed: set[str]) -> None:
    """All files that were signed, and no others."""
    removed, added = sorted(signed - present), sorted(present - signed)
    if removed:
        raise BundleError(f"{folder}: {removed[0]} is missing, though it was signed; get the whole release again")
    if added:
        raise BundleError(f"{folder}: {added[0]} was added after signing; it is no part of the release")


def check_verdict(folder: Path, release: Release, signed: dict[str, str], key: PublicKey) -> None:
    """The verdict's statement is about exactly these files, and says what ``release.json`` says."""
    where = f"{folder / TEST_RESULT}"
    if TEST_RESULT not in signed:
        raise BundleError(f"{folder}: {TEST_RESULT} is missing: nobody signed a verdict on this model")
    content = opened(read_json(folder / TEST_RESULT, error=BundleError), key, where)
    if content.get("predicateType") != TEST_RESULT_TYPE:
        raise BundleError(f"{where}: is a statement of another kind, not a test result")
    try:
        about = {one["name"]: one["digest"]["sha256"] for one in content["subject"]}
        told = content["predicate"]["pathveil"]
        used = {one["name"]: one["digest"]["sha256"] for one in content["predicate"]["configuration"]}
        said = [told[name] for name in ("form", "modelSha256", "expires", "signer", "override", "answer")]
    except (KeyError, TypeError):
        raise BundleError(f"{where}: is incomplete; expected a verdict made by 'pathveil release'") from None
    if about != {name: digest for name, digest in signed.items() if name != TEST_RESULT}:
        raise BundleError(f"{where}: its verdict is about another model: it names other files than these")
    judged, whose = release.judgement, release.appetite
    override = release.override and release.override.to_dict()
    answer = judged and judged.answer
    expected: list[Any] = [release.form, release.model_sha256, release.expires, release.signer, override, answer]
    evidence = {AUDIT: judged and judged.audit_sha256, APPETITE: whose and whose.sha256}
    if said != expected or used != {name: digest for name, digest in evidence.items() if digest}:
        raise BundleError(f"{where}: does not say what {RELEASE} says; get the release again")
    if release.key != key.sha256:
        raise BundleError(f"{folder / RELEASE}: names another key than the one that signed it")


def check_evidence(folder: Path, release: Release) -> None:
    """The audit is of this model, its answer the one that is told, and the appetite the one it was held against."""
    if release.judgement is not None:
        if sha256_of_file(folder / AUDIT) != release.judgement.audit_sha256:
            raise BundleError(f"{folder}: {AUDIT} is not the audit that the verdict names")
        audit = read_json(folder / AUDIT, error=BundleError)
        provenance, verdict = audit.get("provenance"), audit.get("verdict")
        if not isinstance(provenance, dict) or not isinstance(verdict, dict):
            raise BundleError(f"{folder}: {AUDIT} is not an audit")
        if provenance.get("model sha256") != release.model_sha256:
            raise BundleError(f"{folder}: {AUDIT} is the audit of another model")
        if [verdict.get("answer"), verdict.get("sentence")] != [release.judgement.answer, release.judgement.sentence]:
            raise BundleError(f"{folder}: {AUDIT} has another answer than {RELEASE}")
    if release.appetite is not None and sha256_of_file(folder / APPETITE) != release.appetite.sha256:
        raise BundleError(f"{folder}: {APPETITE} is not the risk appetite that the verdict names")
    if release.override is None and (release.judgement is None or release.judgement.answer != "pass"):
        raise BundleError(f"{folder}: has no passing verdict and no reason why it was released all the same")
    if release.form != "encoder":
        from pathveil.bundle.model import Model

        if Model.load(folder).model_sha256 != release.model_sha256:
            raise BundleError(f"{folder}: its weights, words or labels are not those that were audited")
