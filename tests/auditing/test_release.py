"""The gate: every reason against a release, one at a time; what passes is signed and verified."""

import json
import re
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from auditing.made import DECIDED, audit_without_leak, ready_to_release
from pathveil.auditing.appetite import read_appetite
from pathveil.auditing.binding import Binding
from pathveil.auditing.release import ReleaseRefused, own_text, read_given, reasons_against, release_bundle
from pathveil.auditing.result import write_audit
from pathveil.bundle import Model
from pathveil.bundle.release_folder import Signing
from pathveil.bundle.release_log import read_log
from pathveil.bundle.verification import verify_release
from pathveil.errors import UsageError
from pathveil.signatures import read_private_key


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    return ready_to_release(tmp_path_factory.mktemp("gate"))


@pytest.fixture(scope="module")
def model(place):
    return Model.load(place / "m")


@pytest.fixture(scope="module")
def given(place):
    return read_given(place / "audit", place / "mine.toml")


def release(place, out, *, form="weights", audit="audit", appetite="mine.toml", **options):
    signing = Signing(key=read_private_key(place / "k.pem"), signer="A. Officer", log=out.with_name("log.jsonl"))
    paths = {"audit": place / audit, "appetite": None if appetite is None else place / appetite}
    return release_bundle(place / "m", out, form=form, signing=signing, **paths, **options)


def test_what_passes_is_released_and_holds(place, tmp_path):
    made = release(place, tmp_path / "r", reports=place / "a.parquet")
    assert made.release.scan.of_training and "120 training reports" in str(made)
    key = read_private_key(place / "k.pem").public
    found = verify_release(tmp_path / "r", key, log=tmp_path / "log.jsonl")
    assert (
        found.release == made.release and made.release.judgement.answer == "pass" and made.release.scan.reports == 120
    )
    assert [line["what"] for line in read_log(tmp_path / "log.jsonl", key=key)] == ["released"]
    page = (tmp_path / "r" / "audit.html").read_text()
    assert f"A. Officer, North, {DECIDED}" in page and "members sha256" not in page + str(made.release)
    content = json.loads((tmp_path / "r" / "audit.json").read_text())
    assert set(content["provenance"]) == {"model sha256"}
    assert "the page to sign is" in str(made)


def changed(given, **changes):
    """The same with the audit changed."""
    return type(given)(**(vars(given) | {"audit": given.audit.model_copy(update=changes)}))


def test_every_reason_against_it(place, model, given):
    assert reasons_against(model, given, "weights") == reasons_against(model, given, "labels") == []
    leaking = audit_without_leak(model, given.appetite, leak=1.5)
    verdict = given.audit.verdict
    for one, said in (
        (changed(given, bound=False), "not bound to its model"),
        (changed(given, kind="predictions"), "is not of a bundle"),
        (changed(given, provenance={"model sha256": "00"}), "is of another model"),
        (changed(given, provenance={}), "is of another model"),
        (changed(given, binding=Binding(by="cases", cases=10, of=100)), "covers 10 % of the training cases"),
        (changed(given, verdict=leaking.verdict, evidence=leaking.evidence), "the audit did not pass: Fail"),
        (changed(given, evidence=leaking.evidence), "by its own figures the answer is 'fail'"),
        (changed(given, appetite=given.appetite.changed(valid_days=7)), "another risk appetite than this one, though"),
        (changed(given, appetite=given.appetite.changed(name="B. Other")), "another risk appetite (B. Other"),
        (changed(given, verdict=verdict.model_copy(update={"answer": "not enough evidence"})), "did not pass"),
        (changed(given, evidence=tuple(row for row in given.audit.evidence if "LiRA" not in row.attack)),
         "is not whole: it has no figures of LiRA online"),
        (changed(given, evidence=tuple(row.model_copy(update={"decides": False}) for row in given.audit.evidence)),
         "no figures of loss, label only"),
        (changed(given, notes=("nothing here",)), "its seal, made with the key beside the bundle, does not hold"),
        (changed(given, seal=""), "does not hold; was a figure edited?"),
        (changed(given, controls=()), "a model without the members and planted records"),
        (changed(given, settings=given.audit.settings | {"shadows": 2}), "had 2 shadow models, the risk appetite asks"),
        (changed(given, settings={}), "had 0 shadow models"),
        (changed(given, settings=given.audit.settings | {"edges": [10_000]}), "rare classes were not looked at apart"),
        (changed(given, settings=given.audit.settings | {"edges": [1]}), "rare classes were not looked at apart"),
        (changed(given, made="2020-01-01"), f"the risk appetite is of {DECIDED}, after the audit of 2020-01-01"),
        (changed(given, made="2099-01-01"), "dated in the future"),
        (changed(given, made=""), "does not say on which day"),
        (changed(given, made=DECIDED), f"the audit is of {DECIDED}, and a verdict is good for 365 days"),
    ):  # fmt: skip
        reasons = reasons_against(model, one, "weights", today=date(2026, 11, 16))
        assert any(said in reason for reason in reasons), (said, reasons)
    nothing = type(given)(None, "", None, "", "")
    assert [reason.split(" (")[0] for reason in reasons_against(model, nothing, "weights")] == [
        "there is no audit of this model", "no risk appetite was given",
    ]  # fmt: skip


def test_an_appetite_covers_its_form_and_what_tells_less(model, given):
    def forms(release):
        appetite = given.appetite.changed(release=release)
        one = type(given)(**(vars(given) | {"appetite": appetite, "audit": audit_without_leak(model, appetite)}))
        return [form for form in ("weights", "encoder", "labels") if not reasons_against(model, one, form)]

    assert forms("weights") == ["weights", "encoder", "labels"]
    assert forms("probabilities") == forms("label") == ["labels"]
    nobody = given.appetite.changed(name="")
    one = type(given)(**(vars(given) | {"appetite": nobody, "audit": audit_without_leak(model, nobody)}))
    (reason,) = reasons_against(model, one, "weights")
    assert "is an example: it names nobody" in reason


def test_an_appetite_that_limits_nothing_is_none(model, given):
    for limits in ([{"fpr": 0.1, "overall": 1}], [{"fpr": 0.9, "overall": 0.5}], [{"fpr": 0.1, "worst_task": 0.2}]):
        nothing = given.appetite.changed(limits=limits)
        one = type(given)(**(vars(given) | {"appetite": nothing, "audit": audit_without_leak(model, nothing)}))
        assert any("appetite limits nothing" in reason for reason in reasons_against(model, one, "weights"))


def test_a_verdict_grows_old_from_its_audit_on(place, tmp_path):
    """Half a year after the audit there is half a year left, and a release is no bundle to release again."""
    now = datetime.now(UTC) + timedelta(days=200)
    signing = Signing(key=read_private_key(place / "k.pem"), now=now)
    evidence = {"audit": place / "audit", "appetite": place / "mine.toml"}
    made = release_bundle(place / "m", tmp_path / "r", signing=signing, **evidence)
    assert date.fromisoformat(made.release.expires) - now.date() == timedelta(days=165)
    with pytest.raises(UsageError, match="is a release already; give the bundle"):
        release_bundle(tmp_path / "r", tmp_path / "s", signing=signing, **evidence)
    with pytest.raises(ReleaseRefused, match="and a verdict is good for 365 days: make a new one"):
        late = Signing(key=signing.key, now=now + timedelta(days=200))
        release_bundle(place / "m", tmp_path / "s", signing=late, **evidence)


def test_a_refusal_writes_nothing_and_an_override_is_told_everywhere(place, tmp_path):
    (place / "none").mkdir(exist_ok=True)
    with pytest.raises(ReleaseRefused, match="there is no audit of this model"):
        release(place, tmp_path / "r", audit="none")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(UsageError, match="reason in a sentence"):
        release(place, tmp_path / "r", audit="none", override="ok")
    with pytest.raises(UsageError, match="nothing refuses this release"):
        release(place, tmp_path / "r", override="the board has decided so")
    reason = "the board has decided so on Monday"
    release(place, tmp_path / "r", audit="none", override=reason)
    for path in ("r/release.json", "r/card.md", "r/README.md", "r/bom.cdx.json", "log.jsonl"):
        assert reason in (tmp_path / path).read_text(), path
    leaking = audit_without_leak(Model.load(place / "m"), read_appetite(place / "mine.toml"), leak=1.5)
    write_audit(leaking, place / "failed")
    release(place, tmp_path / "s", audit="failed", override=reason)
    assert reason in (tmp_path / "s" / "audit.html").read_text()
    told = str(verify_release(tmp_path / "s", read_private_key(place / "k.pem").public))
    assert "Released against a refusal" in told and "Fail" in told


def test_a_release_is_not_made_inside_the_bundle(place, tmp_path):
    before = sorted((place / "m").iterdir())
    with pytest.raises(UsageError, match="lies in the model's folder m; choose a place beside it"):
        release(place, place / "m" / "r")
    assert sorted((place / "m").iterdir()) == before


def test_one_hash_names_the_model_wherever_it_is_named(place, model, tmp_path):
    """Card, audit page with its box to sign, scores, drift, answers, release and its verification; hashed words too."""
    digest, folder = model.model_sha256, model.folder_sha256
    release(place, tmp_path / "r")
    release(place, tmp_path / "hashed", words_key=b"a secret of the registry's own")
    release(place, tmp_path / "encoder", form="encoder")
    key = read_private_key(place / "k.pem").public
    evaluation, drift = model.evaluate(place / "a.parquet", resamples=20), model.drift(place / "a.parquet")
    shown = {
        "card": model.card,
        "scores": evaluation.page(),
        "drift": drift.page(),
        "audit head": (place / "audit" / "audit.html").read_text().partition('id="sign"')[0],
        "decision": (place / "audit" / "audit.html").read_text().partition('id="sign"')[2],
        "verify": str(verify_release(tmp_path / "r", key)),
        **{
            f"{form} {name}": (tmp_path / form / name).read_text()
            for form in ("r", "hashed", "encoder")
            for name in ("card.md", "README.md", "release.json", "bom.cdx.json", "audit.html")
        },
    }
    assert {what for what, text in shown.items() if digest not in text} == set()
    assert {what for what, text in shown.items() if folder in text} == {
        f"{form} release.json" for form in ("r", "hashed", "encoder")
    }
    assert json.loads(shown["r release.json"])["folder_sha256"] == folder  # called what it is
    assert evaluation.model_sha256 == drift.model_sha256 == model.predict(["text"]).model_sha256 == digest
    for form in ("r", "hashed"):
        assert Model.load(tmp_path / form).model_sha256 == digest != Model.load(tmp_path / form).folder_sha256


def test_planted_people_are_in_no_file(place, model, tmp_path):
    """Every planted name that is no word of the model is searched for, found nowhere, and stops a release if it is."""
    import polars as pl

    from pathveil.bundle.release_scan import all_words, template_words
    from pathveil.vocabulary.planted import planted_words

    planted = planted_words(place / "a.parquet", place / "truth.parquet")
    personal = {word for words in planted.only.values() for word in words if len(word) >= 4 and word.isalpha()}
    kept = personal & set(model.words)
    away = sorted(personal - kept)
    assert len(away) > 50
    searched: dict[str, Any] = {"reports": place / "a.parquet", "names": tuple(away)}
    for form in ("weights", "encoder", "labels"):
        release(place, tmp_path / form, form=form, **searched)
    release(place, tmp_path / "hashed", words_key=b"a secret of the registry's own", **searched)
    frame = pl.read_parquet(place / "a.parquet")
    secrets = {one.lower() for one in (*away, *frame["report_id"], *frame["case_id"])}
    ours = {*all_words(own_text()), *template_words(), "north", "hashed"}  # what our own documents are written with
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) > 50 and tmp_path / "log.jsonl" in files
    for path in files:
        text = path.read_bytes().decode("latin-1").lower()
        assert not (secrets - ours) & set(re.split(r"[^a-z0-9_.-]+", text)), path
    with pytest.raises(Exception, match=r"vocabulary\.json.*: holds .* names that may not leave"):
        release(place, tmp_path / "s", names=(*kept, max(model.words, key=len)))  # as if it were somebody's name
    assert not (tmp_path / "s").exists()
