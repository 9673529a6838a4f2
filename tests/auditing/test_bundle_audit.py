"""A bundle and corpora to a model under audit, and the whole command on a small synthetic corpus."""

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from pathveil.auditing.bundle_audit import _unlike_shadows, audit_bundle, read_audited_model, with_fewer_teachers
from pathveil.auditing.settings import AuditSettings
from pathveil.bundle import Model
from pathveil.bundle.train import train_model
from pathveil.errors import UsageError
from pathveil.training.defences import DPSettings
from pathveil.training.settings import PRESETS, TrainingSettings

SETTINGS = TrainingSettings(dim=12, filters=8, epochs=14, patience=6, batch_size=16, learning_rate=0.02, dropout=0.0)


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """Members of two registries, unseen cases of the same, and a third registry; a bundle that learned the members."""
    folder = tmp_path_factory.mktemp("audit")
    rng = np.random.default_rng(0)
    words = [f"word{number}" for number in range(150)]
    reports = []
    for number in range(540):
        site, side = rng.choice(["C18", "C34", "C50"], p=[0.6, 0.3, 0.1]), rng.choice(["left", "right"])
        text = [f"tumour{site.lower()}", side, *rng.choice(words, 12)]
        reports.append(
            {
                "report_id": f"MARIGOLD-{number}",
                "case_id": f"PIMPERNEL-{number // 2 * 2 if number % 20 < 2 else number}",
                "registry": f"R{number % 3 + 1}" if number % 20 >= 2 else f"R{number // 2 % 3 + 1}",
                "year": 2020,
                "text": " ".join([*text, "Quigley"]),
                "site": site if rng.random() > 0.15 else rng.choice(["C18", "C34", "C50"]),
                "laterality": side,
            }
        )
    table = pl.DataFrame(reports)
    home = table.filter(pl.col("registry") != "R3")
    cases = home["case_id"].unique(maintain_order=True)
    learned = home.filter(pl.col("case_id").is_in(cases.gather_every(2).to_list()))
    learned.write_parquet(folder / "members.parquet")
    unseen = table.filter(~pl.col("case_id").is_in(learned["case_id"].to_list()))
    # A label the model has never met.
    unseen = unseen.with_columns(
        pl.when(pl.int_range(pl.len()) == 5).then(pl.lit("C80")).otherwise("site").alias("site")
    )
    unseen.write_parquet(folder / "non-members.parquet")
    unseen.filter(pl.col("registry") == "R3").write_parquet(folder / "attacker.parquet")
    train_model(folder / "members.parquet", SETTINGS, preset="small", seed=3).save(folder / "bundle")
    taught = SETTINGS.changed(epochs=4, patience=2, defence={"kind": "teachers", "teachers": 2, "unseen": 1})
    train_model(folder / "members.parquet", taught, preset="release", seed=3).save(folder / "taught")
    return folder


def test_each_report_is_taken_once_and_sides_are_kept(made):
    bundle = Model.load(made / "bundle")
    found = read_audited_model(
        bundle,
        members=made / "members.parquet",
        non_members=made / "non-members.parquet",
        attacker=made / "attacker.parquet",
    )
    tables = {name: pl.read_parquet(made / f"{name}.parquet") for name in ("members", "non-members", "attacker")}
    assert (
        found.model.corpus.documents == len(found.report_ids) == tables["members"].height + tables["non-members"].height
    )
    assert [found.report_ids[row] for row in found.model.non_members] == tables["non-members"]["report_id"].to_list()
    assert [found.report_ids[row] for row in found.model.attacker] == tables["attacker"]["report_id"].to_list()
    assert len(found.hashes) == 3 and len(set(found.hashes.values())) == 3
    # The network's own validation cases are no members: the history's epochs were judged on exactly those.
    held = tables["members"].height - len(found.model.members)
    assert held == pytest.approx(0.1 * tables["members"].height, abs=4) and f"{held} reports" in found.notes[0]
    assert found.model.epochs == bundle.provenance["best_epochs"][0]
    assert (found.model.corpus.labels["site"] == -1).sum() == 1
    foreign = found.model.records(np.concatenate([found.model.members, found.model.non_members])).foreign
    assert foreign.sum() == tables["attacker"].height
    # By default the attacker owns the non-members of other registries.
    alone = read_audited_model(bundle, members=made / "members.parquet", non_members=made / "non-members.parquet")
    assert sorted(alone.model.attacker) == sorted(found.model.attacker)


def test_members_that_the_bundle_does_not_name_are_refused_or_told_apart(made, tmp_path):
    some = pl.read_parquet(made / "members.parquet").head(60)
    some.write_parquet(tmp_path / "some.parquet")
    bundle = Model.load(made / "bundle")
    sides = {"members": tmp_path / "some.parquet", "non_members": made / "non-members.parquet"}
    with pytest.raises(UsageError, match="is not the corpus that the model was trained on"):
        read_audited_model(bundle, **sides)
    with pytest.raises(UsageError, match="does not name the corpus"):
        read_audited_model(replace(bundle, provenance={**bundle.provenance, "corpus_sha256": None}), **sides)
    swapped = {"members": sides["non_members"], "non_members": made / "members.parquet"}
    with pytest.raises(UsageError, match="are swapped"):
        read_audited_model(bundle, **swapped)
    found = read_audited_model(bundle, **sides, unbound=True)
    assert len(found.model.members) == 60 and not any("held out" in note for note in found.notes)
    assert found.binding is None and "cannot be attached" in found.notes[0]


def test_a_wrong_members_file_exits_with_2_and_leaves_no_trace(made, tmp_path):
    from typer.testing import CliRunner

    from pathveil.cli import app

    before = (made / "bundle" / "card.md").read_bytes()
    arguments = ["audit", made / "bundle", "--members", made / "attacker.parquet", "--non-members",
                 made / "non-members.parquet", "--out", tmp_path / "audit", "--device", "cpu", "--attach"]  # fmt: skip
    for more, said in (([], "not the corpus"), (["--unbound"], "cannot be attached")):
        result = CliRunner().invoke(app, [str(one) for one in [*arguments, *more]])
        assert isinstance(result.exception, UsageError) and said in str(result.exception)
    assert (made / "bundle" / "card.md").read_bytes() == before and not (tmp_path / "audit").exists()


@pytest.mark.parametrize("option", ["out", "store", "records_file"])
def test_nothing_is_written_into_the_bundle(made, tmp_path, option):
    before = sorted(made.joinpath("bundle").iterdir())
    for inside in (made / "bundle" / "audit", made / "bundle"):
        places = {"out": tmp_path / "out", option: inside}
        with pytest.raises(UsageError, match="lies in the model's folder bundle; choose a place beside it"):
            audit_bundle(
                made / "bundle", members=made / "members.parquet", non_members=made / "non-members.parquet", **places
            )
    assert sorted(made.joinpath("bundle").iterdir()) == before and not (tmp_path / "out").exists()


def test_shadows_of_a_private_model_are_private(made):
    settings = TrainingSettings(
        dim=12, filters=8, epochs=2, patience=None, batch_size=30, defence=DPSettings(epsilon=10, delta=1e-3)
    )
    bundle = train_model(made / "members.parquet", settings, preset="private", seed=3)
    found = read_audited_model(bundle, members=made / "members.parquet", non_members=made / "non-members.parquet")
    promise = bundle.provenance["defence"]
    held = pl.read_parquet(made / "members.parquet").height - len(found.model.members)
    assert held >= promise["held_out_cases"] > 5 and f"{held} reports" in found.notes[0]
    shadow = found.model.shadow_settings
    assert shadow.defence.noise == promise["training"]["noise"] and shadow.defence.clip == 1.0
    assert shadow.epochs == 2 and shadow.validation_share == 0


def test_a_plan_says_what_is_trained_and_writes_nothing(made, tmp_path):
    from typer.testing import CliRunner

    from pathveil.cli import app

    sides = ["--members", made / "members.parquet", "--non-members", made / "non-members.parquet"]

    def written() -> set[str]:  # but for the words of a corpus, which lie beside it
        return {path.name for path in made.iterdir() if path.suffix != ".pathveil"}

    before = written()
    arguments = ["audit", made / "taught", *sides, "--plan", "--device", "cpu", "--models", 6, "--canaries", 20]
    done = CliRunner().invoke(app, [str(one) for one in arguments])
    assert done.exit_code == 0, done.output
    for sentence in ("the attacker's shadows: 6 models", "models with canaries: 6", "2 teachers of its own"):
        assert sentence in done.output
    assert "55 networks in all, about" in done.output  # 18 · 3, and the planted leak's one without a defence
    assert written() == before and not list(tmp_path.iterdir())
    refused = CliRunner().invoke(app, ["audit", str(made / "bundle"), *map(str, sides)])
    assert isinstance(refused.exception, UsageError) and "--out" in str(refused.exception)


def test_shadows_of_a_taught_model_are_taught(made, tmp_path):
    """Members are what the student read; its teachers' shadows have teachers of their own."""
    audit = audit_bundle(
        made / "taught",
        members=made / "members.parquet",
        non_members=made / "non-members.parquet",
        settings=AuditSettings(shadows=2, networks=2, edges=(40,)),
        store=tmp_path / "store",
    )
    assert audit.bound and "student of 2 teachers of its own" in audit.notes[0]
    assert "held out to stop training by" in audit.notes[1]
    described = [json.loads(path.read_text()) for path in (tmp_path / "store").glob("*/inputs.json")]
    defences = {one["family"]: (one["settings"]["defence"] or {}).get("kind") for one in described}
    assert defences == {"attacker": "teachers", "auditor": "teachers", "canaries": None}
    held = pl.read_parquet(made / "members.parquet").height - audit.data.members
    assert held > 0
    assert {row.attack for row in audit.measured} >= {"LiRA online, taught code", "label only, with shadows"}


def test_the_whole_command(made, tmp_path, pathveil):
    arguments = [
        "audit", made / "bundle", "--members", made / "members.parquet", "--non-members", made / "non-members.parquet",
        "--out", tmp_path / "audit", "--models", 4, "--edges", "40", "--device", "cpu", "--json", "--attach",
        "--canaries", 20,
    ]  # fmt: skip
    env = os.environ | {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    done = pathveil(*arguments, env=env)
    assert done.returncode in (3, 4), done.stderr
    audit = json.loads(done.stdout)
    assert audit["verdict"]["exit_code"] == done.returncode and audit["bound"]
    assert list(audit["protocols"]) == ["matched", "cross-registry", "cross-registry control"]
    assert {row["unit"] for row in audit["rows"]} == {"report", "case"}
    assert {row["attack"] for row in audit["rows"]} >= {
        "LiRA online",
        "RMIA online",
        "RMIA offline",
        "shadow classifiers",
    }
    assert [control["kind"] for control in audit["controls"]] == ["null", "planted"]
    assert "gradient norm" in {row["attack"] for row in audit["rows"] if row["weights_only"]}
    assert {row["kind"] for row in audit["canaries"]} >= {"mislabelled", "one wrong code"}
    assert "mislabelled, with a near-duplicate" in (tmp_path / "audit" / "audit.html").read_text()
    assert Model.load(made / "bundle").audit == json.loads((tmp_path / "audit" / "audit.json").read_text())
    published = [done.stdout, *(path.read_text() for path in (tmp_path / "audit").iterdir())]
    for text in published:
        for secret in ("MARIGOLD", "PIMPERNEL", "uigley", "word7"):
            assert secret not in text
    for path in (tmp_path / "audit.shadows").rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert b"MARIGOLD" not in content and b"uigley" not in content


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "give a BUNDLE"),
        (("bundle", "--predictions", "x.csv"), "give a BUNDLE"),
        (("bundle",), "needs --members"),
        (("--predictions", "x.csv", "--canaries", "20"), "--canaries goes with a BUNDLE"),
        (("--predictions", "x.csv", "--plan"), "--plan goes with a BUNDLE"),
        (("--predictions", "x.csv", "--members", "y.csv"), "go with a BUNDLE"),
        (("nowhere", "--members", "a", "--non-members", "b"), "nowhere: there is no such folder"),
        (("bundle", "--members", "a", "--non-members", "b", "--engine", "dask"), "--scheduler ADDRESS"),
        (("nowhere", "--members", "a", "--non-members", "b", "--out", __file__), "is a file; expected a folder"),
    ],
)
def test_mistakes_are_one_sentence(tmp_path, arguments, said):
    from typer.testing import CliRunner

    from pathveil.cli import app
    from pathveil.errors import PathveilError

    result = CliRunner().invoke(app, ["audit", "--out", str(tmp_path / "out"), "--device", "cpu", *arguments])
    assert isinstance(result.exception, PathveilError) and said in str(result.exception)
    assert not (tmp_path / "out").exists()


def test_shadows_may_have_fewer_teachers_and_the_page_says_so():
    settings, said = with_fewer_teachers(PRESETS["release"], 10)
    assert (settings.defence.teachers, settings.defence.unseen) == (10, 1)
    assert "a shadow has 10 teachers, of whom 1 did not see a case; the model has 20 and 2" in said
    for preset, why in (("release", "which has 20"), ("small", "which has none")):
        with pytest.raises(UsageError, match=why):
            with_fewer_teachers(PRESETS[preset], 20)


def test_a_single_network_is_told_as_one():
    settings = PRESETS["small"].model_copy(update={"linear": True})
    assert "averages 1 network and a linear view, a shadow one network" in _unlike_shadows(settings, 1)
