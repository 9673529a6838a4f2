"""An encoder's audit: shadows are federations, who learnt what is known exactly, and a memory is found."""

import json

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from pathveil.auditing.appetite import read_appetite
from pathveil.auditing.settings import AuditSettings
from pathveil.auditing.shadows import Job
from pathveil.cli import app
from pathveil.errors import UsageError
from pathveil.federation.heads import features_of
from pathveil.federation.plain import PlainSite
from pathveil.federation.release import Release
from pathveil.federation.settings import FederationSettings
from pathveil.studies import encoder_audit
from pathveil.studies.distribution import DistributionSettings, DistributionStudy
from pathveil.studies.encoder_audit import arm_of, audit_encoder, learnt_by_shadow, shadow_encoder, sites_of
from pathveil.studies.scheduler import run_in_folder
from pathveil.training.workers import ThisProcess
from studies.conftest import PLANTED

# Trained until everything is known by heart, and kept as it is then.
BY_HEART = {"dim": 16, "filters": 48, "epochs": 25, "keep_from": 0.99, "batch_size": 32, "dropout": 0.0}
BY_HEART |= {"optimiser": "adam", "learning_rate": 0.01, "private_every": 1}
MODES = ("centralized", "adversarial")


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """Two registries, one report a case. Half of the reports name their site; the others' can only be remembered."""
    rng = np.random.default_rng(0)
    rows = []
    for number in range(600):
        site = "C50" if rng.random() < 0.5 else "C61"
        words = [f"w{word}" for word in rng.integers(0, 40, 12)]
        told = {"C50": "breast", "C61": "prostate"}[site] if number % 4 < 2 else "specimen"
        rows.append((f"r{number}", f"c{number}", f"R{number % 2 + 1}", " ".join([*words, told, told]), site))
    rows[7] = (*rows[7][:3], rows[7][3] + f" {PLANTED}", rows[7][4])
    path = tmp_path_factory.mktemp("reports") / "reports.parquet"
    pl.DataFrame(rows, schema=["report_id", "case_id", "registry", "text", "site"], orient="row").write_parquet(path)
    return path


@pytest.fixture(scope="module")
def finished(reports, tmp_path_factory):
    """A run of two modes, which releases the shared encoder of one of them."""
    run = tmp_path_factory.mktemp("runs") / "run"
    settings = DistributionSettings(modes=MODES, release=True, training=BY_HEART, test_share=0.4)
    run_in_folder(DistributionStudy(reports, settings, out=run))
    return run


@pytest.fixture(scope="module")
def audited(finished, reports, tmp_path_factory):
    """The whole audit of the encoder that centralized training makes of them."""
    folder = tmp_path_factory.mktemp("audits")
    told = {"arm": "centralized", "appetite": read_appetite(None), "crew": ThisProcess()}
    told["settings"] = AuditSettings(shadows=8)
    audit = audit_encoder(finished, reports, out=folder / "audit", store=folder / "store", **told)
    return folder, told, audit


def test_what_an_encoder_knows_by_heart_is_found_under_a_public_head(audited):
    """The head never saw a member; shadows that did and did not learn from a report tell the two apart."""
    _, _, audit = audited
    area = {row.attack: row.auc for row in audit.measured if row.bucket == "all" and row.unit == "report"}
    assert area["RMIA online"].low > 0.55 and area["LiRA offline"].low > 0.55
    assert [control.holds for control in audit.controls] == [True, True]


def test_the_audit_is_a_document_like_any_other_and_names_nobody(audited):
    folder, _, audit = audited
    assert audit.kind == "encoder" and audit.settings["shadows"] == 8
    assert json.loads((folder / "audit" / "audit.json").read_text()) == json.loads(audit.to_json())
    assert "a federation’s encoder" in (folder / "audit" / "audit.html").read_text()
    for path in folder.rglob("*"):
        if path.is_file():
            assert PLANTED.encode() not in path.read_bytes(), path


def test_nothing_is_trained_twice(audited, finished, reports, monkeypatch):
    folder, told, audit = audited
    monkeypatch.setattr(encoder_audit, "shadow_encoder", None)  # whoever calls it fails
    again = audit_encoder(finished, reports, out=folder / "again", store=folder / "store", **told)
    assert again.evidence == audit.evidence and again.controls == audit.controls


def test_members_public_and_non_members_are_apart_and_the_released_encoder_is_audited(finished, reports):
    found, training = arm_of(finished, reports, arm="adversarial", seed=None)
    cases = [set(part.tolist()) for part in (found.corpus.cases[found.members], found.corpus.cases[found.non_members])]
    public = set(found.public.cases.tolist())
    assert not cases[0] & cases[1] and not cases[0] & public and not cases[1] & public
    assert len(cases[1]) == len(public) == 120 and training.documents == 360
    assert len(cases[0]) == 2 * 162  # a tenth of a registry's 180 cases chose the epoch
    released = Release.load(finished / "shared" / "adversarial-1")
    encoder = found.encoder(training, device="cpu", progress=lambda *_: None)
    assert (encoder.embedding.weight.numpy() == released.tensors["encoder.embedding.weight"]).all()


def test_trained_again_an_encoder_is_what_was_released(finished, reports):
    """Modes that release nothing are trained again: seen here on one that does."""
    found, training = arm_of(finished, reports, arm="adversarial", seed=1)
    told = {"mode": found.mode, "config": found.config, "seed": 1, "device": "cpu"}
    again = encoder_audit.train_encoder(training, **told)
    first = found.encoder(training, device="cpu", progress=lambda *_: None)
    np.testing.assert_allclose(features_of(again, found.public), features_of(first, found.public), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("rows", [np.arange(0, 600, 2), np.arange(1, 400)])  # the first are of one registry alone
def test_who_a_shadow_learnt_from_is_what_its_sites_train_on(finished, reports, rows):
    found, _ = arm_of(finished, reports, arm="centralized", seed=None)
    job, config = Job(0, rows, seed=5), FederationSettings(**BY_HEART)
    sites = PlainSite(sites_of(found.corpus, job), settings=config, seed=5, registry=0)
    expected = np.zeros(600, bool)
    expected[rows[sites.train]] = True
    assert (learnt_by_shadow(found.corpus, job, config) == expected).all() and not expected[rows[sites.validate]].any()


def test_a_shadow_is_the_same_wherever_it_is_trained(finished, reports):
    found, _ = arm_of(finished, reports, arm="adversarial", seed=None)
    config = FederationSettings(**(BY_HEART | {"epochs": 2}))
    once, again = (
        shadow_encoder(found.corpus, Job(3, np.arange(300), seed=9), config, "adversarial", found.public, "cpu")
        for _ in range(2)
    )
    assert once[0] == again[0] == 3 and once[1]["site"].shape == (600, 2)
    assert (once[1]["site"] == again[1]["site"]).all()


def test_what_cannot_be_audited_is_said_in_one_sentence(finished, reports, tmp_path):
    other = tmp_path / "other.parquet"
    pl.read_parquet(reports).head(500).write_parquet(other)
    for arm, seed, corpus, sentence in (
        (None, None, reports, "has several; choose one with --mode: centralized, adversarial"),
        ("adversariel", None, reports, "--mode: 'adversariel' is not in .*did you mean 'adversarial'"),
        ("centralized", 7, reports, "--seed: '7' is not in .* which has 1"),
        ("centralized", None, other, "is not the corpus of"),
    ):
        with pytest.raises(UsageError, match=sentence):
            arm_of(finished, corpus, arm=arm, seed=seed)
    quick = BY_HEART | {"epochs": 1, "keep_from": 0.0}
    for changes, sentence in (
        ({"modes": ("single",)}, "no common encoder to audit"),
        ({"modes": ("centralized",), "rehearsal": True}, "is a rehearsal"),
        ({"modes": ("centralized",), "test_share": 0.05}, "has 15 unseen cases; an encoder's audit needs at least 20"),
    ):
        run = tmp_path / str(len(list(tmp_path.iterdir())))
        run_in_folder(DistributionStudy(reports, DistributionSettings(training=quick, **changes), out=run))
        with pytest.raises(UsageError, match=sentence):
            arm_of(run, reports, arm=None, seed=None)


def test_from_the_command_line(finished, reports, tmp_path):
    """The exit code is the verdict's; bad input is 2, and leaves nothing."""

    def call(run, out, models=4):
        told = ["federate", "audit", run, reports, "--mode", "adversarial", "--models", models, "--out", out]
        return CliRunner().invoke(app, [*map(str, told)])

    done = call(finished, tmp_path / "audit")
    audit = json.loads((tmp_path / "audit" / "audit.json").read_text())
    assert done.exit_code == audit["verdict"]["exit_code"] and audit["verdict"]["sentence"] in done.stdout
    assert audit["provenance"]["shared sha256"] == Release.load(finished / "shared" / "adversarial-1").sha256
    few = call(finished, tmp_path / "other", models=2)
    assert isinstance(few.exception, UsageError)
    assert "at least 4 shadow federations (--models); got 2" in str(few.exception)
    assert isinstance((missing := call(tmp_path, tmp_path / "other")).exception, UsageError)
    assert "there is no finished result; run 'pathveil federate run' first" in str(missing.exception)
    assert not (tmp_path / "other").exists()
    (tmp_path / "file").write_text("mine")
    for out, sentence in ((tmp_path / "file", "is a file"), (tmp_path / "file" / "audit", "cannot be written to")):
        assert sentence in str(call(finished, out).exception)  # and not when all shadows are trained
    assert {path.name for path in tmp_path.iterdir()} == {"audit", "audit.shadows", "file"}
