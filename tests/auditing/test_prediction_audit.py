"""Audits of any system's predictions: reading, refusing, judging, and giving nothing away."""

import gzip
import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier

from auditing.made import two_tasks
from pathveil.auditing.all_attacks import shadowless_attacks
from pathveil.auditing.evidence import measure
from pathveil.auditing.prediction_audit import audit_predictions, read_predictions
from pathveil.auditing.result import schema
from pathveil.errors import CorpusError, UsageError


@pytest.fixture(scope="module")
def forests():
    """Answers of a forest fitted on the members and of one fitted on neither side, on noisy digits."""
    rng = np.random.default_rng(0)
    x, y = load_digits(return_X_y=True)
    y = np.where(rng.random(len(y)) < 0.15, rng.integers(0, 10, len(y)), y)
    members, others, elsewhere = np.array_split(rng.permutation(len(y)), 3)
    rows = np.concatenate([members, others])
    found = {}
    for name, fitted in (("overfit", members), ("blind", elsewhere)):
        p = RandomForestClassifier(60, random_state=0).fit(x[fitted], y[fitted]).predict_proba(x[rows])
        found[name] = pl.DataFrame(
            {
                "record_id": [f"MARIGOLD-{row}" for row in rows],
                "case_id": [f"PIMPERNEL-{row}" for row in rows],
                "member": np.arange(len(rows)) < len(members),
                "label": y[rows].astype(str),
                **{f"p:{label}": p[:, label] for label in range(10)},
            }
        )
    return found


def test_an_overfit_forest_fails_and_a_blind_one_does_not(forests, tmp_path, pathveil):
    wanted = {"overfit": {3}, "blind": {0, 4}}
    for name, table in forests.items():
        table.write_parquet(tmp_path / f"{name}.parquet")
        done = pathveil("audit", "--predictions", tmp_path / f"{name}.parquet", "--out", tmp_path / name)
        assert done.returncode in wanted[name], done.stderr
        audit = json.loads((tmp_path / name / "audit.json").read_text())
        assert audit["verdict"]["exit_code"] == done.returncode
        assert all(control["holds"] for control in audit["controls"])
        assert done.stdout.startswith(audit["verdict"]["sentence"])


def test_nothing_of_a_record_is_in_the_artefacts_unless_asked_for(forests, tmp_path, pathveil):
    forests["overfit"].write_csv(tmp_path / "answers.csv")
    arguments = ("audit", "--predictions", tmp_path / "answers.csv", "--out", tmp_path / "out", "--json")
    done = pathveil(*arguments, "--records", tmp_path / "records.csv")
    assert done.returncode == 3
    published = [done.stdout, *(path.read_text() for path in (tmp_path / "out").iterdir())]
    assert len(published) == 3
    for text in published:
        assert "MARIGOLD" not in text and "PIMPERNEL" not in text
    assert json.loads(done.stdout)["verdict"]["answer"] == "fail"
    assert "keep it where the records are" in done.stderr
    scores = pl.read_csv(tmp_path / "records.csv")
    assert scores.height == forests["overfit"].height and set(scores["record_id"]) == set(
        forests["overfit"]["record_id"]
    )


def write_semicolons(table: pl.DataFrame, path: Path) -> None:
    """As spreadsheets do where the comma stands in numbers."""
    commas = table.with_columns(pl.col(r"^p:.*$").cast(pl.String).str.replace(".", ",", literal=True))
    commas.write_csv(path, separator=";")


def test_an_audit_gives_way_to_an_audit_and_nothing_else_does(forests, tmp_path, monkeypatch):
    path, records = tmp_path / "answers.csv", tmp_path / "records.csv"
    forests["blind"].head(900).select("record_id", "member", "case_id", "label", "^p:.*$").write_csv(path)
    for _ in range(2):
        audit_predictions(path, out=tmp_path / "out", records_file=records)
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "audit.html").write_text("<!doctype html><title>Our audits</title>")
    other = tmp_path / "other.csv"
    other.write_bytes(path.read_bytes())
    monkeypatch.setattr("pathveil.auditing.prediction_audit.read_predictions", None)  # refused before anything is read
    for places, said in (
        ({"records_file": path}, r"answers\.csv: is among what is read"),
        ({"records_file": other}, r"other\.csv: is there already, and is no file that this makes"),
        ({"records_file": tmp_path / "out"}, "out: is a folder"),
        ({"out": tmp_path / "site"}, r"audit\.html: is there already, and is no file that this makes"),
        ({"out": path}, "is a file; expected a folder"),
    ):
        with pytest.raises(UsageError, match=said):
            audit_predictions(path, **places)
    assert other.read_bytes() == path.read_bytes()


@pytest.mark.parametrize("kind", ["parquet", "csv", "csv.gz", "semicolons.csv", "tsv", "jsonl"])
def test_all_formats_read_alike(forests, tmp_path, kind):
    table = forests["blind"]
    path = tmp_path / f"answers.{kind}"
    writers = {
        "parquet": table.write_parquet,
        "csv": table.write_csv,
        "csv.gz": lambda path: path.write_bytes(gzip.compress(table.write_csv().encode())),
        "semicolons.csv": lambda path: write_semicolons(table, path),
        "tsv": lambda path: table.write_csv(path, separator="\t"),
        "jsonl": table.write_ndjson,
    }
    writers[kind](path)
    found = read_predictions(path)
    assert found.records.member.sum() == 599
    np.testing.assert_allclose(found.probabilities["the label"], table.select(r"^p:.*$").to_numpy())
    assert found.records.labels["the label"].tolist() == [int(label) for label in table["label"]]


def test_several_tasks_and_registries(tmp_path):
    two_tasks().write_parquet(tmp_path / "two.parquet")
    found = read_predictions(tmp_path / "two.parquet")
    assert found.records.classes == {"site": ("a:1", "b"), "side": ("a:1", "b")}
    assert (found.records.labels["site"] == -1).sum() == 18
    scores = shadowless_attacks(found.records, found.probabilities)
    assert {one.task for one in scores} == {"site", "side", "all tasks"}
    rows = measure(scores, found.records, edges=(1,))
    assert {row.protocol for row in rows} == {"matched", "cross-registry", "cross-registry control"}
    areas = {row.task: row.auc.value for row in rows if (row.protocol, row.attack) == ("matched", "loss")}
    assert areas["all tasks"] > max(areas["site"], areas["side"]) > 0.6


def spoil(change):
    def made(tmp_path):
        table = change(two_tasks(60))
        table.write_parquet(tmp_path / "bad.parquet")
        return tmp_path / "bad.parquet"

    return made


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda t: t.drop("case_id"), "case_id missing"),
        (lambda t: t.drop("label:site", "label:side"), "label missing"),
        (lambda t: t.drop("p:site:b"), "fewer than two columns"),
        (lambda t: t.with_columns(pl.lit(True).alias("member")), "no non-members"),
        (lambda t: t.with_columns(pl.lit("perhaps").alias("member")), "neither true nor false in 60 rows"),
        (lambda t: t.with_columns(pl.lit("r0").alias("record_id")), "59 rows repeat a record_id"),
        (lambda t: t.with_columns(pl.lit("c").alias("case_id")), "1 cases hold both"),
        (lambda t: t.with_columns(pl.lit(None).cast(pl.String).alias("case_id")), "empty in 60 rows"),
        (lambda t: t.with_columns(pl.col("p:site:b") * 3), "not between 0 and 1"),
        (lambda t: t.with_columns(pl.lit(float("nan")).alias("p:side:b")), "not between 0 and 1"),
        (lambda t: t.with_columns(pl.col("^label:.*$") + "?"), "no member has a label"),
        (lambda t: t.with_columns(pl.when("member").then(pl.col("^label:.*$"))), "no non-member has a label"),
        (lambda t: t.with_columns(pl.lit("much").alias("p:site:b")), "must be numbers"),
    ],
)
def test_bad_tables_are_named_and_nothing_is_written(tmp_path, pathveil, change, said):
    path = spoil(change)(tmp_path)
    with pytest.raises(CorpusError, match=said):
        read_predictions(path)
    if said == "case_id missing":  # once through the command line: one sentence, exit code 2, no folder
        done = pathveil("audit", "--predictions", path, "--out", tmp_path / "out")
        assert done.returncode == 2 and said in done.stderr and "Traceback" not in done.stderr
        assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("given", [None, [1, 2]])
def test_what_is_no_table_is_named(given):
    with pytest.raises(UsageError, match=f"or a polars or pandas frame; got {type(given).__name__}"):
        read_predictions(given)


def test_unreadable_files_are_named(tmp_path):
    with pytest.raises(CorpusError, match="cannot be read"):
        read_predictions(tmp_path / "none.parquet")
    (tmp_path / "noise.parquet").write_bytes(b"noise")
    with pytest.raises(CorpusError, match="is not a Parquet file, or is cut short"):
        read_predictions(tmp_path / "noise.parquet")
    (tmp_path / "answers.xlsx").write_bytes(b"noise")
    with pytest.raises(CorpusError, match="its name ends in none of"):
        read_predictions(tmp_path / "answers.xlsx")
    two_tasks(60).with_columns(pl.lit("much").alias("p:site:b")).write_csv(tmp_path / "words.csv")
    with pytest.raises(CorpusError, match="must be numbers"):
        read_predictions(tmp_path / "words.csv")


def test_a_table_with_semicolons_is_audited(forests, tmp_path, pathveil):
    write_semicolons(forests["overfit"], tmp_path / "answers.csv")
    done = pathveil("audit", "--predictions", tmp_path / "answers.csv", "--out", tmp_path / "out")
    assert done.returncode == 3, done.stderr


def test_edges_and_options_are_checked(pathveil, tmp_path):
    for edges in ("ten", "100,10", "0,5"):
        done = pathveil("audit", "--predictions", "x.parquet", "--out", tmp_path, "--edges", edges)
        assert done.returncode == 2 and "--edges" in done.stderr
    assert "--predictions" in pathveil("audit", "--out", tmp_path).stderr
    shown = pathveil("audit", "--show-appetite")
    assert shown.returncode == 0 and "[[limits]]" in shown.stdout
    assert json.loads(pathveil("audit", "--show-schema").stdout) == schema()


def test_an_attack_of_ones_own_is_measured_beside_ours_and_may_decide(forests):
    """One that knows the truth breaks a limit that no other attack does."""
    table = forests["blind"]
    member = table["member"].to_numpy()
    noise = np.random.default_rng(0).normal(size=len(member))

    def insider(given):
        assert given.shadow_margin.shape == given.inside.shape == (0, len(member))
        np.testing.assert_allclose(given.log_probability, np.log(np.maximum(own(given), 1e-12)))
        return noise + 2 * member

    def own(given):
        return given.probabilities[np.arange(len(member)), given.labels]

    without, found = audit_predictions(table), audit_predictions(table, attacks={"insider": insider})
    assert without.verdict.answer != "fail" and found.verdict.answer == "fail"
    assert {number.attack for number in found.verdict.numbers if number.state == "broken"} == {"insider"}
    assert [row.attack for row in found.measured if row.bucket == "all"][-1] == "insider"
    assert found.attacks["insider"] == "An attack given by the auditor." and "insider attack" in found.verdict.sentence


def test_a_frame_is_audited_as_its_file_is(forests, tmp_path):
    forests["blind"].write_parquet(tmp_path / "blind.parquet")
    from_file, from_frame = audit_predictions(tmp_path / "blind.parquet"), audit_predictions(forests["blind"])
    assert from_file.evidence == from_frame.evidence and from_file.controls == from_frame.controls
    assert len(from_file.provenance["predictions sha256"]) == 64 and not from_frame.provenance


def test_the_permuted_control_lists_only_attacks_that_it_can_catch(forests):
    """Dealt out at random, an attack that looks at no membership has an AUC of 0.5 whatever it does."""
    null, planted = audit_predictions(forests["blind"]).controls
    assert [one.attack for one in null.attacks] == ["privacy risk"] and null.kind == "null"
    assert {"loss", "privacy risk", "label only"} <= {one.attack for one in planted.attacks}
