"""May this model leave? The gate before a release: a passing audit of exactly this model under exactly this appetite.

Every reason against it is a sentence. A release is refused where there is one, unless somebody overrides that with a
reason of their own, which then stands in everything: ``release.json``, the card, the signed verdict, the bill of
materials, the audit's page and the log.
"""

from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from importlib.resources import files
from pathlib import Path
from typing import Any

from pathveil.auditing.appetite import RELEASES, Appetite, ReleaseForm, read_appetite
from pathveil.auditing.attack_names import LABEL_ONLY, LABEL_WITH_SHADOWS, LIRA_ONLINE, LOSS, RMIA_ONLINE
from pathveil.auditing.binding import seal_of
from pathveil.auditing.changes import ORDER
from pathveil.auditing.evidence import ALL
from pathveil.auditing.page import render
from pathveil.auditing.result import Audit, read_audit
from pathveil.auditing.verdict import judge
from pathveil.bundle import Model
from pathveil.bundle.release import FORMS, Form, JudgedBy, Judgement, Override, Release, read_release
from pathveil.bundle.release_folder import Evidence, Signing, write_release
from pathveil.corpus.schema import Paths
from pathveil.errors import PathveilError, UsageError
from pathveil.files import check_new, check_outside, sha256_of_file
from pathveil.formatting import listed, percent
from pathveil.progress import Progress, silent
from pathveil.results import Result

# Attacks without which an audit of a bundle is none, whoever took them out.
NEEDED_ATTACKS = (LOSS, LABEL_ONLY, LABEL_WITH_SHADOWS, LIRA_ONLINE, RMIA_ONLINE)
NEEDED_CONTROLS = {"null": "a model without the members", "planted": "planted records"}
RARE = (10, 100)  # training samples a class: between these a group of rare classes must end
NEEDS: dict[Form, ReleaseForm] = {"weights": "weights", "encoder": "weights", "labels": "label"}
SHORTEST_REASON = 10  # characters of a reason to override


class ReleaseRefused(PathveilError):
    """A release that the evidence does not allow; ``reasons`` says why, one sentence each."""

    def __init__(self, reasons: list[str]):
        self.reasons = reasons
        more = "".join(f"\n- {reason}" for reason in reasons)
        super().__init__(f"not released:{more}")


class ReleaseMade(Result):
    """A release that was written and signed."""

    out: str
    release: Release
    log: str | None

    def rows(self) -> list[dict[str, Any]]:
        return self.release.rows()

    def summary(self) -> str:
        lines = [
            str(self.release),
            f"{self.out}: signed. Next: pathveil verify {self.out} --key PUBLIC; the page to sign is "
            f"{Path(self.out) / 'audit.html'}.",
        ]
        return "\n".join(lines + ([f"Written to the release log {self.log}."] if self.log else []))


@dataclass(frozen=True)
class Given:
    """What a release is asked for with: an audit and an appetite, as far as they are there."""

    audit: Audit | None
    audit_sha256: str
    appetite: Appetite | None
    appetite_text: str
    appetite_sha256: str


def read_given(audit: Path | None, appetite: Path | None) -> Given:
    """Read the evidence. A folder without an audit is no evidence, a broken audit is a mistake."""
    path = None if audit is None else audit / "audit.json" if audit.is_dir() else audit
    found = read_audit(path) if path is not None and path.is_file() else None
    text, digest, parsed = "", "", None
    if appetite is not None:
        parsed, digest = read_appetite(appetite), sha256_of_file(appetite)
        text = appetite.read_text(encoding="utf-8")
    return Given(found, "" if found is None or path is None else sha256_of_file(path), parsed, text, digest)


def reasons_against(model: Model, given: Given, form: Form, *, today: date | None = None) -> list[str]:
    """Why this model may not be released in this form; none where it may."""
    audit, appetite = given.audit, given.appetite
    reasons = []
    if audit is None:
        reasons.append("there is no audit of this model (--audit names no audit.json)")
    else:
        reasons += against_audit(model, audit)
    if appetite is None:
        reasons.append("no risk appetite was given (--appetite FILE; 'pathveil appetite new' writes one)")
        return reasons
    if appetite.is_example:
        reasons.append(
            "the risk appetite is an example: it names nobody; 'pathveil appetite new' writes one with name, "
            "organisation and date"
        )
    if ORDER.index(appetite.release) > ORDER.index(NEEDS[form]):
        reasons.append(
            f"the risk appetite is about a release of {RELEASES[appetite.release]} ({appetite.release}); this release "
            f"holds more: {FORMS[form]} ({form})"
        )
    if appetite.limits_nothing:
        reasons.append(
            "the risk appetite limits nothing: it needs a share of all tasks together, below 1, at one false "
            "accusation in ten or fewer"
        )
    if audit is not None:
        reasons += too_weak(audit, appetite) + out_of_date(audit, appetite, today or datetime.now(UTC).date())
    if audit is not None and audit.appetite != appetite:
        whose = audit.appetite.whose or "an example"
        reasons.append(
            f"the audit was held against another risk appetite than this one, though both are of {whose}: it was "
            "changed in between; give the one of the audit, or audit again under this one"
            if whose == appetite.whose
            else f"the audit was held against another risk appetite ({whose}) than {appetite.whose or 'this one'}"
        )
    return reasons


def against_audit(model: Model, audit: Audit) -> list[str]:
    """What is wrong with an audit as evidence for this model."""
    reasons = []
    if audit.kind != "bundle":
        reasons.append("the audit is not of a bundle, so nothing binds it to this model")
    elif audit.bound is not True:
        reasons.append("the audit is not bound to its model: whether its members were training reports is not known")
    if audit.kind == "bundle" and audit.provenance.get("model sha256") != model.model_sha256:
        reasons.append("the audit is of another model: its weights, words, labels or thresholds are not these")
    elif audit.kind == "bundle" and seal_of(audit, model) not in ("", audit.seal):
        reasons.append(
            "the audit is not as it was written: its seal, made with the key beside the bundle, does not hold; was a "
            "figure edited?"
        )
    found = judge(audit.evidence, controls=audit.controls, appetite=audit.appetite, canaries=audit.canaries)
    if found.answer != audit.verdict.answer:
        reasons.append(
            f"the audit says '{audit.verdict.answer}', but by its own figures the answer is '{found.answer}': the file "
            "was altered, or is of another version"
        )
    if audit.verdict.answer != "pass":
        reasons.append(f"the audit did not pass: {audit.verdict.sentence}")
    if audit.binding is not None and audit.binding.cases < audit.binding.of / 2:
        reasons.append(f"the audit covers {percent(audit.binding.cases / audit.binding.of)} of the training cases only")
    return reasons


def too_weak(audit: Audit, appetite: Appetite) -> list[str]:
    """How an audit looked away: attacks or controls that are not in it, few shadow models, rare classes not apart."""
    reasons = []
    ran = {row.attack for row in audit.measured if row.decides and row.bucket == ALL}
    missing = [name for name in NEEDED_ATTACKS if name not in ran]
    missing += [what for kind, what in NEEDED_CONTROLS.items() if kind not in {one.kind for one in audit.controls}]
    if missing:
        reasons.append(f"the audit is not whole: it has no figures of {listed(missing)}")
    shadows = audit.settings.get("shadows")
    if not isinstance(shadows, int) or shadows < appetite.shadows:
        told = shadows if isinstance(shadows, int) else 0
        reasons.append(
            f"the attacks had {told} shadow models, the risk appetite asks for {appetite.shadows} (audit --models)"
        )
    edges = audit.settings.get("edges")
    if not isinstance(edges, list) or not any(isinstance(edge, int) and RARE[0] <= edge <= RARE[1] for edge in edges):
        reasons.append(
            f"rare classes were not looked at apart: one of --edges must lie between {RARE[0]} and {RARE[1]} training "
            "samples"
        )
    return reasons


def out_of_date(audit: Audit, appetite: Appetite, today: date) -> list[str]:
    """An audit that was good once, or days that cannot be."""
    made = day_of(audit)
    if made is None:
        return ["the audit does not say on which day it was made"]
    tomorrow = (today + timedelta(days=1)).isoformat()  # where clocks and time zones differ
    if made.isoformat() > tomorrow or appetite.date > tomorrow:
        return ["the audit or the risk appetite is dated in the future"]
    if appetite.date > (made + timedelta(days=1)).isoformat():
        return [f"the risk appetite is of {appetite.date}, after the audit of {made}: the answer was known by then"]
    if last_day(made, appetite) < today:
        return [f"the audit is of {made}, and a verdict is good for {appetite.valid_days} days: make a new one"]
    return []


def day_of(audit: Audit) -> date | None:
    try:
        return date.fromisoformat(audit.made)
    except ValueError:
        return None


def last_day(made: date, appetite: Appetite) -> date:
    return made + timedelta(days=appetite.valid_days)


def as_long_as_it_is_good(signing: Signing, given: Given) -> Signing:
    """A verdict grows old from the day of its audit on, whenever the model leaves."""
    made = None if given.audit is None else day_of(given.audit)
    if made is None or given.appetite is None:
        return signing
    left = (last_day(made, given.appetite) - signing.time.date()).days
    return replace(signing, days=min(signing.days, left)) if left > 0 else signing


def release_bundle(
    bundle: str | Path,
    out: str | Path,
    *,
    audit: Path | None,
    appetite: Path | None,
    signing: Signing,
    form: Form = "weights",
    override: str | None = None,
    words_key: bytes | None = None,
    reports: Paths | None = None,
    names: tuple[str, ...] = (),
    name: str = "",
    progress: Progress = silent,
) -> ReleaseMade:
    """Make a release, or refuse (``ReleaseRefused``): see the module's first lines and ``write_release``."""
    if override is not None and len(override.strip()) < SHORTEST_REASON:
        raise UsageError("--override: give the reason in a sentence; it will stand in everything")
    model = Model.load(bundle)
    if read_release(Path(bundle)) is not None:
        raise UsageError(f"{bundle}: is a release already; give the bundle that it was made from")
    check_new(Path(out))
    check_outside(signing.log)
    given = read_given(audit, appetite)
    reasons = reasons_against(model, given, form, today=signing.time.date())
    if reasons and override is None:
        raise ReleaseRefused(reasons)
    if override is not None and not reasons:
        raise UsageError("--override: nothing refuses this release; leave it out, so that no reason stands in it")
    overridden = None if override is None else Override(reason=" ".join(override.split()), refusals=reasons)
    made = write_release(
        model,
        Path(out),
        evidence=evidence_of(model, given, overridden),
        signing=as_long_as_it_is_good(signing, given),
        form=form,
        override=overridden,
        words_key=words_key,
        reports=reports,
        names=names,
        name=name,
        progress=progress,
    )
    return ReleaseMade(out=str(out), release=made, log=None if signing.log is None else str(signing.log))


def own_text() -> str:
    """What an audit's page is written with, whatever the model: this room's template and sentences."""
    parts = [path for path in files("pathveil.auditing").iterdir() if path.name.endswith((".py", ".html", ".toml"))]
    return "\n".join(path.read_text(encoding="utf-8") for path in parts)


def evidence_of(model: Model, given: Given, override: Override | None) -> Evidence:
    """The audit and the appetite as a release holds them: without the hashes of corpora. An audit of another model or
    without binding stays outside, whatever was overridden: it is evidence of nothing here."""
    audit, appetite = given.audit, given.appetite
    judged_by = None
    if appetite is not None:
        judged_by = JudgedBy(
            sha256=given.appetite_sha256,
            release=appetite.release,
            name=appetite.name or "nobody (an example)",
            organisation=appetite.organisation or "none",
            date=appetite.date or "undated",
        )
    usable = audit is not None and audit.bound is True and audit.provenance.get("model sha256") == model.model_sha256
    if audit is None or not usable:
        return Evidence(appetite=judged_by, appetite_text=given.appetite_text, original_sha256=given.audit_sha256)
    told = {name: digest for name, digest in audit.provenance.items() if name in ("model sha256", "vocabulary sha256")}
    published = audit.model_copy(update={"provenance": told, "seal": ""})
    tests = {
        f"{number.criterion} at {number.fpr:g} false accusations: at most {number.tolerated:g} found": number.state
        for number in audit.verdict.numbers
    }
    tests |= {f"control: {control.name}": "kept" if control.holds else "broken" for control in audit.controls}
    if audit.verdict.canary is not None:
        tests["canaries"] = audit.verdict.canary.state
    return Evidence(
        judgement=Judgement(
            answer=audit.verdict.answer, sentence=audit.verdict.sentence, audit_sha256="", audited=audit.made
        ),
        appetite=judged_by,
        appetite_text=given.appetite_text,
        audit=published.to_dict(),
        page=render(published, override=override),
        own_text=own_text(),
        tests=tests,
        original_sha256=given.audit_sha256,
    )
