"""The distribution study as a run: complete, resumable, refused when it makes no sense, and silent about people."""

import json

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from pathveil.cli import app
from pathveil.errors import PathveilError, UsageError
from pathveil.federation.noise import epsilon
from pathveil.federation.release import Release, sha256_of
from pathveil.federation.run import unseen_rows
from pathveil.studies import distribution, vocabulary
from pathveil.studies.distribution import ARMS, DistributionSettings, DistributionStudy, config_of
from pathveil.studies.encoder_audit import arm_of
from pathveil.studies.scheduler import run_in_folder
from pathveil.studies.study_corpus import read_study_corpus
from pathveil.studies.vocabulary import VocabularySettings
from pathveil.vocabulary.encoding import id_table
from pathveil.vocabulary.words import Vocabulary
from studies.conftest import PLANTED

QUICK = {"dim": 8, "filters": 6, "epochs": 3, "batch_size": 32, "optimiser": "adam", "learning_rate": 0.02}


def study(corpus, settings, *, out):
    return run_in_folder(DistributionStudy(corpus, settings, out=out)).to_dict()


def test_a_run_is_complete_and_holds_aggregates_only(corpus, tmp_path):
    settings = DistributionSettings(modes=("single", "centralized", "adversarial"), seeds=(1, 2), training=QUICK)
    result = study(corpus, settings, out=tmp_path / "run")
    assert json.loads((tmp_path / "run" / "result.json").read_text()) == json.loads(json.dumps(result))
    assert len(result["scores"]) == 3 * 3 * 2
    assert [finding["id"] for finding in result["findings"]] == ["B1", "B2", "B3", "B4", "B5"]
    for path in (tmp_path / "run").rglob("*"):
        if path.is_file():
            assert PLANTED.encode() not in path.read_bytes(), path


def test_a_class_of_few_cases_is_not_shown_however_many_reports_it_has(tmp_path):
    """Every case has six reports: classes of some cases have more than ten unseen reports, of fewer than ten cases."""
    rng, rows = np.random.default_rng(3), []
    for case in range(180):
        site = ("C50", "C61", "C34", "C18")[0 if case % 4 else 1 + case // 4 % 3]
        for visit in range(6):
            text = f"{site.lower()} " + " ".join(rng.choice(["margin", "tumor", "node"], 5))
            rows.append((f"r{case}-{visit}", f"c{case}", f"R{case % 3 + 1}", text, site, "left" if case < 9 else None))
    names = ["report_id", "case_id", "registry", "text", "site", "laterality"]
    pl.DataFrame(rows, schema=names, orient="row").write_parquet(tmp_path / "c.parquet")
    settings = DistributionSettings(modes=("single",), test_share=0.3, training=QUICK | {"epochs": 1})
    result = study(tmp_path / "c.parquet", settings, out=tmp_path / "run")
    assert {row["task"] for row in result["scores"]} == {"site"} and len(result["scores"]) == 3
    assert {row["label"] for row in result["classes"]} == {row["label"] for row in result["per_class"]} == {"C50"}
    assert all(row["support"] == 6 * row["cases"] >= 60 for row in result["classes"] + result["per_class"])
    words = VocabularySettings(strategies=("B",), shadows=2, test_share=0.3, training={"dim": 4, "epochs": 1})
    tables = run_in_folder(vocabulary.VocabularyStudy(tmp_path / "c.parquet", words, out=tmp_path / "words")).to_dict()
    assert {row["task"] for row in tables["table2"]} == {"site"}
    for row in tables["table1"]:
        assert "suppressed" in row or min(row["member_cases"], row["non_member_cases"]) >= 10


def test_finished_units_are_not_trained_again(corpus, tmp_path, monkeypatch):
    settings = DistributionSettings(modes=("single",), training=QUICK)
    first = study(corpus, settings, out=tmp_path / "run")
    trained = []
    original = distribution.run
    monkeypatch.setattr(distribution, "run", lambda *a, **k: trained.append(k["mode"]) or original(*a, **k))
    assert study(corpus, settings, out=tmp_path / "run")["scores"] == first["scores"]
    assert trained == []
    study(corpus, settings.model_copy(update={"modes": ("single", "fedavg")}), out=tmp_path / "run")
    assert trained == ["fedavg"]


def test_registries_can_be_pooled(corpus, tmp_path):
    settings = DistributionSettings(modes=("single",), groups={"A": ("R1", "R2"), "B": ("R3",)}, training=QUICK)
    assert {row["registry"] for row in study(corpus, settings, out=tmp_path / "run")["scores"]} == {"A", "B"}
    wrong = DistributionSettings(modes=("single",), groups={"A": ("R1", "R9")}, training=QUICK)
    with pytest.raises(UsageError, match="'R9', but the corpus has R1, R2, R3"):
        study(corpus, wrong, out=tmp_path / "other")


def test_ablations_switch_off_one_thing():
    assert config_of("no-adversary", {}).adversary == 0 and config_of("no-adversary", {}).orthogonality > 0
    assert config_of("no-orthogonality", {}).orthogonality == 0 and config_of("no-orthogonality", {}).adversary > 0
    assert {"single", "centralized", "adversarial", "fedavg", "cyclic"} <= set(ARMS)


def test_an_arm_is_a_mode_with_changes(corpus, tmp_path):
    arms = {"stronger": {"mode": "strong", "adversary": 5.0}, "seldom": {"mode": "adversarial", "local_steps": 3}}
    settings = DistributionSettings(modes=(), arms=arms, training=QUICK)
    assert settings.config("stronger").adversary == 5 and settings.config("stronger").hidden > 0
    assert settings.config("seldom").local_steps == 3 and settings.config("seldom").filters == QUICK["filters"]
    result = study(corpus, settings, out=tmp_path / "run")
    assert {row["mode"] for row in result["scores"]} == {"stronger", "seldom"}
    for wrong, message in (
        ({"strong": {"mode": "strong"}}, "the name of a mode"),
        ({"new": {"adversary": 1.0}}, "needs the 'mode'"),
        ({"new": {"mode": "strong", "hiden": 3}}, "did you mean 'hidden'"),
    ):
        with pytest.raises(ValueError, match=message):
            DistributionSettings(modes=(), arms=wrong)


def test_a_rehearsal_never_sees_a_test_case(corpus, tmp_path, monkeypatch):
    seen = []

    def run(reports, **options):
        seen.append(set(reports.cases.tolist()))
        return original(reports, **options)

    original = distribution.run
    monkeypatch.setattr(distribution, "run", run)
    settings = DistributionSettings(modes=("single",), training=QUICK)
    study(corpus, settings, out=tmp_path / "real")
    study(corpus, settings.model_copy(update={"rehearsal": True}), out=tmp_path / "rehearsal")
    (everything, rehearsed), store = seen, read_study_corpus(corpus)[1]
    held = np.concatenate(list(unseen_rows(store, share=0.2, seed=1).values()))
    assert rehearsed == everything - set(store.cases[held].tolist())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--mode", "adversrial"], "did you mean 'adversarial'?"),
        (["--seeds", "one"], "'one' is not a whole number"),
        (["--group", "A"], "not of the form NAME=REGISTRY"),
        (["--tasks", "sit"], "sit"),
        (["--set", "adversry=1"], "did you mean 'adversary'?"),
        (["--set", "added_heads=true"], "set common_heads as well"),
    ],
)
def test_bad_options_are_one_sentence(pathveil, corpus, tmp_path, options, message):
    done = pathveil("federate", "run", corpus, "--out", tmp_path / "run", *options)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr and "Traceback" not in done.stderr


def test_the_command_writes_its_result(pathveil, corpus, tmp_path):
    options = ["--mode", "single", "--epochs", "1", "--filters", "4", "--json"]
    done = pathveil("federate", "run", corpus, "--out", tmp_path / "run", *options)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["scores"] == json.loads((tmp_path / "run" / "result.json").read_text())["scores"]
    (tmp_path / "run" / "report.html").write_text("a page of the result before")
    done = pathveil("federate", "run", corpus, "--out", tmp_path / "run", *options[:-1])
    assert f"Written: {tmp_path / 'run' / 'result.json'}, {tmp_path / 'run' / 'report.html'}" in done.stdout, (
        done.stderr
    )
    assert "of the result before" not in (tmp_path / "run" / "report.html").read_text()


def test_membership_and_privacy_loss_are_told(pathveil, corpus, tmp_path):
    noise = ["--set", "clip=1", "--set", "noise=8", "--set", "dim=8", "--epochs", "2", "--filters", "4"]
    done = pathveil("federate", "run", corpus, "--out", tmp_path / "run", *noise, "--local-steps", "50")
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert [row["model"] for row in result["membership"]] == ["as trained", "encoder, public head"]
    for row in result["membership"]:
        assert row["auc"]["low"] <= row["auc"]["value"] <= row["auc"]["high"] and row["n_non_members"] > 10
    (loss,) = result["traffic"][0]["epsilon"]
    assert loss == epsilon(multiplier=8.0, updates=4, delta=1e-5)  # an epoch's exchange and the discriminator's
    assert f"updates is {loss:.3g}" in done.stdout


def test_the_summary_shows_a_probe_beside_what_the_features_are_good_for(pathveil, corpus, tmp_path):
    """A collapsed encoder is no privacy: norm and F1 of the features stand in the probe's line, with what was sent."""
    quick = ["--epochs", "2", "--set", "dim=8", "--filters", "4", "--mode", "single,adversarial", "--seeds", "1,2"]
    done = pathveil("federate", "run", corpus, "--out", tmp_path / "run", *quick)
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    rows = [row.split() for row in done.stdout.splitlines() if row.startswith(("mode ", "adversarial "))]
    heads, line = rows[-2:]
    assert heads[1:4] == ["probe", "largest", "label"] and line[0] == "adversarial"
    rows = result["probe"]
    wanted = [np.mean([max(row["linear"], row["mlp"]) for row in rows]), np.mean([row["chance"] for row in rows])]
    wanted += [np.mean([row["head"]["site"][figure] for row in rows]) for figure in ("micro", "macro")]
    assert [float(line[place].strip(",")) for place in (1, 2, 4, 5)] == pytest.approx(wanted, abs=6e-4)
    assert float(line[6]) == pytest.approx(np.mean([row["norm"] for row in rows]), rel=0.06)
    sent = [row["bytes_to_hub"] / 1e6 for row in result["traffic"] if row["mode"] == "adversarial"]
    assert float(line[9]) == pytest.approx(np.mean(sent), abs=0.06)
    assert all(f"Note: {warning['text']}." in done.stdout for warning in result["warnings"]) and result["warnings"]
    assert f"'pathveil study report {tmp_path / 'run'}' makes a page of it" in done.stdout
    done = pathveil("study", "report", tmp_path / "run", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "name": "run",
        "studies": {"distribution": result},
        "findings": result["findings"],
    }
    assert f"{result['scores'][0]['micro']['value']:.3f}".lstrip("0") in (tmp_path / "run" / "report.html").read_text()
    (tmp_path / "run" / "result.json").write_text('{"study": "other"}')
    assert "is not a result of this version" in pathveil("study", "report", tmp_path / "run").stderr


def test_a_released_encoder_whose_words_nobody_agreed_on_is_told_of(corpus, tmp_path):
    def told(name: str, **settings) -> bool:
        chosen = DistributionSettings(training=QUICK, **settings)
        return "words not agreed" in [
            warning["kind"] for warning in study(corpus, chosen, out=tmp_path / name)["warnings"]
        ]

    Vocabulary(("carcinoma", "breast", "left"), "by hand").save(tmp_path / "words.json")
    assert told("own", modes=("adversarial",), release=True)
    assert not told("agreed", modes=("adversarial",), release=True, vocabulary=str(tmp_path / "words.json"))
    assert not told("kept", modes=("adversarial",)) and not told("alone", modes=("single",), release=True)


def test_epochs_can_be_fixed(corpus, tmp_path):
    settings = DistributionSettings(modes=("single", "adversarial"), fixed_epochs=4, training=QUICK)
    result = study(corpus, settings, out=tmp_path / "run")
    assert {epoch for row in result["traffic"] for epoch in row["epoch"]} == {4}


def test_bad_input_is_one_sentence_and_leaves_nothing(corpus, tmp_path):
    few = tmp_path / "few.parquet"
    frame = pl.read_parquet(corpus)
    pl.concat(
        [frame.filter(pl.col("registry") != "R3"), frame.filter(pl.col("registry") == "R3").head(4)]
    ).write_parquet(few)
    empty = tmp_path / "empty.parquet"
    frame.with_columns(site=pl.lit(None, pl.String)).write_parquet(empty)
    for given, options, sentence in (
        (corpus, ["--seeds", "1,1"], "'seeds': 1 is there twice"),
        (corpus, ["--seeds", "-1"], "'seeds': -1 is negative"),
        (corpus, ["--seeds", "4294967296"], "'seeds': 4294967296 is too large"),
        (corpus, ["--set", "adversary=inf"], "'adversary': Input should be a finite number"),
        (corpus, ["--mode", "single,single"], "'single' is there twice"),
        (corpus, ["--mode", "fedavg", "--local-steps", "3"], "--local-steps goes with shared/private modes"),
        (corpus, ["--group", "A=R1", "--group", "A=R2", "--group", "B=R3"], "--group: 'A' is there twice"),
        (corpus, ["--group", "A=R1,R2", "--group", "B=R2,R3"], "registry 'R2' is there twice"),
        (corpus, ["--group", "A=R1"], "it takes at least 2 registries, or groups of them, to train; here there is 1"),
        (corpus, ["--test-from", "2099"], "test_from needs a column 'date' or 'year'"),
        (corpus, ["--set", "windows=0"], "windows must be lengths of at least one word"),
        (few, [], "registry R3 has 1 case with labels to train on and 1 to test on"),
        (empty, [], "has no task column with labels"),
        (empty, ["--tasks", "site"], "no report has a label of task 'site'"),
    ):
        told = CliRunner().invoke(app, ["federate", "run", str(given), "--out", str(tmp_path / "run"), *options])
        assert isinstance(told.exception, PathveilError) and sentence in str(told.exception), (options, told.exception)
        assert not (tmp_path / "run").exists()


def test_a_run_has_the_releases_of_its_result_and_no_older_ones(corpus, tmp_path):
    for modes in (("adversarial", "strong"), ("adversarial",)):
        study(corpus, DistributionSettings(modes=modes, release=True, training=QUICK), out=tmp_path / "run")
        assert {path.name for path in (tmp_path / "run" / "shared").iterdir()} == {f"{mode}-1" for mode in modes}


def test_words_of_a_released_encoder_stand_in_the_order_of_their_sha256_and_keep_their_ids(corpus, tmp_path):
    settings = DistributionSettings(modes=("adversarial",), release=True, test_share=0.4, training=QUICK)
    study(corpus, settings, out=tmp_path / "run")
    words = Release.load(tmp_path / "run" / "shared" / "adversarial-1").vocabulary
    assert words.words == Vocabulary.from_words(words.words, method="").words != tuple(sorted(words.words))
    found, _ = arm_of(tmp_path / "run", corpus, arm=None, seed=None)
    store, _ = read_study_corpus(corpus)
    assert found.corpus.ids.tolist() == id_table(store, words)[store.ids].tolist()


def test_a_name_in_six_reports_of_one_case_is_no_word_of_a_released_encoder(corpus, tmp_path):
    frame = pl.read_parquet(corpus)
    more = (
        frame.head(1)
        .select(pl.all().repeat_by(6).explode())
        .with_columns(report_id=pl.format("more-{}", pl.int_range(6)), text=pl.lit("zorblatt ") + pl.col("text"))
    )
    pl.concat([frame, more]).write_parquet(tmp_path / "c.parquet")
    chosen = {}
    for name, rule in (("usual", {}), ("paper", {"minimum_documents": 5})):
        settings = DistributionSettings(modes=("adversarial",), release=True, training=QUICK | {"epochs": 1}, **rule)
        study(tmp_path / "c.parquet", settings, out=tmp_path / name)
        chosen[name] = Release.load(tmp_path / name / "shared" / "adversarial-1").vocabulary
    assert [chosen[name].method for name in ("usual", "paper")] == ["cases >= 5", "documents >= 5"]
    assert "zorblatt" in chosen["paper"].words and "zorblatt" not in chosen["usual"].words


def test_joining_says_at_once_what_it_cannot_do(corpus, tmp_path):
    study(corpus, DistributionSettings(modes=("adversarial",), release=True, training=QUICK), out=tmp_path / "run")
    study(corpus, DistributionSettings(modes=("single",), release=True, training=QUICK), out=tmp_path / "alone")
    for run, options, sentence in (
        ("run", ["--set", "noise=1"], "'noise' says nothing to a registry that joins; these do: dim, filters"),
        ("run", ["--set", "epoch=1"], "there is no such setting; did you mean 'epochs'?"),
        ("run", ["--device", "cude"], "--device: 'cude' is not one of auto, cpu, cuda"),
        ("run", ["--out", "/proc/nowhere/joined"], "cannot be written"),
        ("alone", [], "has no shared encoder; adversarial and strong training leave one"),
    ):
        given = [
            "federate",
            "join",
            str(tmp_path / run),
            str(corpus),
            "--registry",
            "R1",
            "--out",
            str(tmp_path / "out"),
        ]
        told = CliRunner().invoke(app, [*given, *options])
        assert isinstance(told.exception, PathveilError) and sentence in str(told.exception), (options, told.exception)
    assert {path.name for path in tmp_path.iterdir()} == {"run", "alone"}


def test_a_third_registry_joins_what_two_release(pathveil, tmp_path, corpus):
    """Two registries train, a third joins what they release; their run keeps no private parameter."""
    quick = ["--epochs", "2", "--set", "dim=8", "--filters", "4"]
    pooled = ["--group", "A=R1", "--group", "B=R2"]
    done = pathveil("federate", "run", corpus, *pooled, "--out", tmp_path / "run", *quick)
    assert done.returncode == 0, done.stderr
    (folder,) = (tmp_path / "run" / "shared").iterdir()
    assert folder.name == "adversarial-1"
    before = Release.load(folder)
    assert all(name.startswith("encoder.") for name in before.tensors)
    joining = ["federate", "join", tmp_path / "run", corpus, "--out", tmp_path / "joined"]
    assert "choose one with --registry" in pathveil(*joining).stderr and not (tmp_path / "joined").exists()
    done = pathveil(*joining, "--registry", "R3", "--epochs", "2", "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result == json.loads((tmp_path / "joined" / "result.json").read_text())
    assert result["shared"] == before.sha256 == sha256_of(Release.load(folder).tensors)
    assert {row["mode"] for row in result["scores"]} == {"joined", "single"}
    assert "adversary" not in result["config"] and result["config"]["added_heads"] is False
    done = pathveil("evaluate", tmp_path / "joined" / "bundle", corpus)
    assert done.returncode == 0, done.stderr
    for path in tmp_path.rglob("*"):
        if path.is_file():
            assert PLANTED.encode() not in path.read_bytes(), path
