"""The end of the demo: may its model leave? A small audit, held against an appetite, and the release or the refusal.

Few shadow models make a weak audit: a pass here would say less than one of ``pathveil audit``. The model was trained
without a defence, so a refusal is what should be expected; the page says what would change it.
"""

import shutil
from datetime import UTC, datetime
from pathlib import Path

from pathveil.auditing.appetite import AppetiteAnswers, read_appetite, write_appetite
from pathveil.auditing.bundle_audit import audit_bundle
from pathveil.auditing.release import ReleaseRefused, release_bundle
from pathveil.auditing.settings import AuditSettings
from pathveil.bundle.release_folder import Signing
from pathveil.bundle.verification import verify_release
from pathveil.progress import Progress, silent
from pathveil.results import Part
from pathveil.signatures import new_key, read_private_key

SHADOWS = 2
MADE = ("audit", "release", "keys")  # folders that are made anew, beside appetite.toml and the log


class DemoRelease(Part):
    """Whether the demo's model was released, and why not."""

    sentence: str  # the verdict
    page: str  # to read and to sign
    released: str | None  # the folder
    refusals: list[str]
    would_change: list[str]

    def lines(self) -> list[str]:
        """For a terminal."""
        told = ["", "May it leave? " + self.sentence]
        if self.released is not None:
            told.append(f"Released, signed and verified: {self.released}.")
        else:
            told.append("Not released (pathveil release refuses with exit code 3), because")
            told += [f"  - {reason}" for reason in self.refusals]
        told += [f"  What would change it: {self.would_change[0]}"] if self.would_change else []
        return [*told, f"The page to read and to sign: {self.page}"]


def audit_and_release(
    out: Path, *, members: Path, non_members: Path, seed: int = 0, progress: Progress = silent
) -> DemoRelease:
    """Audit the bundle ``out/model`` with a few shadow models; release it, or say why not."""
    for name in MADE:
        shutil.rmtree(out / name, ignore_errors=True)
    for name in ("appetite.toml", "release-log.jsonl"):
        (out / name).unlink(missing_ok=True)
    today = datetime.now(UTC).date().isoformat()
    answers = AppetiteAnswers(name="Nobody in particular", organisation="the demo", date=today)
    write_appetite(answers, out / "appetite.toml")
    audit = audit_bundle(
        out / "model",
        members=members,
        non_members=non_members,
        appetite=read_appetite(out / "appetite.toml"),
        settings=AuditSettings(shadows=SHADOWS, edges=(25,), seed=seed),
        out=out / "audit",
        progress=progress,
    )
    (out / "keys").mkdir()
    new_key(out / "keys" / "demo.pem")
    key = read_private_key(out / "keys" / "demo.pem")
    signing = Signing(key=key, signer="the demo", log=out / "release-log.jsonl")
    refusals: list[str] = []
    released = None
    try:
        release_bundle(
            out / "model",
            out / "release",
            audit=out / "audit",
            appetite=out / "appetite.toml",
            signing=signing,
            reports=members,
            name="demo",
            progress=progress,
        )
        verify_release(out / "release", key.public, log=out / "release-log.jsonl")
        released = str(out / "release")
    except ReleaseRefused as refused:
        refusals = refused.reasons
    return DemoRelease(
        sentence=audit.verdict.sentence,
        page=str(out / "audit" / "audit.html"),
        released=released,
        refusals=refusals,
        would_change=list(audit.changes),
    )
