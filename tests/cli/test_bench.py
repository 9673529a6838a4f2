"""``pathveil bench``: lists what there is, runs it, and says what to do where there is nothing."""

import json

import numpy as np
import polars as pl
import pytest

from pathveil.cli import bench
from pathveil.errors import UsageError
from pathveil.vocabulary import EncodedCorpus


def test_lists_the_benchmarks_with_a_line_each(pathveil):
    for arguments in (["bench"], ["bench", "--help"]):
        done = pathveil(*arguments)
        assert done.returncode == 0, done.stderr
        assert "  text         Text to tokens" in done.stdout


def test_a_name_that_is_none_names_those_there_are(pathveil):
    done = pathveil("bench", "speed")
    assert done.returncode == 2
    assert "no benchmark 'speed'" in done.stderr and "text" in done.stderr


def test_none_of_something_is_nothing_to_time(pathveil):
    for options, sentence in (
        (["serve", "--singles", "0"], "--singles: expected at least 1, not 0"),
        (["leaks", "--corpus", "c.parquet", "--local-steps", "8", "--reports", "-5"], "--reports: expected at least 1"),
    ):
        done = pathveil("bench", *options)
        assert done.returncode == 2 and sentence in done.stderr, done.stderr


def test_without_a_checkout_says_where_they_are(monkeypatch, tmp_path):
    monkeypatch.setattr(bench, "FOLDER", tmp_path / "benchmarks")
    with pytest.raises(UsageError, match="checkout"):
        bench.benchmarks()


def test_text_runs_and_its_paths_agree(pathveil, tmp_path):
    corpus = tmp_path / "reports.parquet"
    pl.DataFrame({"text": [f"Left breast, pT{number}. ER 1.5 cm" for number in range(30)]}).write_parquet(corpus)
    done = pathveil("bench", "text", corpus, "--rounds", "1", "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["equal"] and result["reports"] == 30 and result["clinical_words_lost"]["bulk"] == []
    assert "200" in pathveil("bench", "text", "--memory", "200").stdout
    assert "needs a corpus" in pathveil("bench", "text").stderr


def test_the_model_benchmark_runs_and_says_its_ratios(pathveil):
    small = ["--batch", 2, "--words", 40, "--vocabulary", 50, "--filters", 8, "--rounds", 1, "--threads", 1]
    done = pathveil("bench", "model", *small, "--only", "ragged", "--json")
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)["rows"]
    assert row["training"]["dense"]["ratio"] == 1.0 and row["inference"]["ours, table made once"]["ratio"] > 0
    assert "the matrix product alone" in pathveil("bench", "model", *small, "--profile", "--only", "full").stdout


def test_the_vocabulary_benchmark_agrees_with_scikit_learn(pathveil):
    sizes = ["--reports", "160", "--length", "40", "--distinct", "300", "--sklearn-reports", "80"]
    done = pathveil("bench", "vocabulary", *sizes, "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert [row["reports"] for row in result["growth"]] == [20, 40, 80, 160]
    assert result["classes"] == 1046 and result["scikit_learn"]["largest_difference"] < 1e-9


def test_the_federation_benchmark_trains_at_every_site(pathveil, tmp_path):
    rng = np.random.default_rng(0)
    EncodedCorpus(
        ids=rng.integers(2, 40, 600).astype(np.int32),
        offsets=np.arange(0, 601, 10),
        cases=np.arange(60),
        registries=np.zeros(60, np.int32),
        registry_names=("R1",),
        labels={"site": rng.integers(0, 3, 60)},
        classes={"site": ("C18", "C34", "C50")},
        vocabulary_size=40,
    ).save(tmp_path)
    done = pathveil("bench", "federation", "--encoded", tmp_path, "--sites", 3, "--filters", 4, "--rounds", 1, "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["sites"] == 3 and result["documents"] == 60
    seconds, ratios = result["seconds"], result["ratios"]["adversarial"]
    assert ratios["both"] == seconds["adversarial"] / seconds["centralized_both"]


def test_the_cost_benchmark_holds_scaled_runs_against_the_plan(pathveil, tmp_path):
    rng = np.random.default_rng(0)
    table = {name: [f"{name}{number}" for number in range(60)] for name in ("report_id", "case_id")}
    table |= {"registry": [f"R{number % 3}" for number in range(60)], "site": ["C50", "C61", "C34"] * 20}
    table["text"] = [" ".join(f"word{word}" for word in rng.integers(0, 40, 12)) for _ in range(60)]
    pl.DataFrame(table).write_parquet(tmp_path / "reports.parquet")
    (tmp_path / "study.toml").write_text(
        'name = "x"\n[corpus]\nreports = 6000\nregistries = 3\n[vocabulary]\ntasks = ["site"]\nshadows = 4\n'
        'strategies = ["B", "I2"]\n[vocabulary.training]\ndim = 8\nfilters = 4\nbatch_size = 16\n'
    )
    options = ["--study", tmp_path / "study.toml", "--scales", "50,25", "--models", "2", "--json"]
    done = pathveil("bench", "cost", tmp_path / "reports.parquet", *options)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert [row["reports"] for row in result["scaled"]] == [120, 240]
    assert result["whole"]["target"]["models"] == 6 and result["whole"]["shadows"]["models"] == 24
    assert result["whole"]["shadows"]["documents"] == 24 * 1000 * 12


def test_the_private_step_agrees_with_opacus_and_is_timed_beside_it(pathveil):
    small = ["--batch", 4, "--words", 60, "--vocabulary", 90, "--filters", 4, "--rounds", 1, "--json"]
    done = pathveil("bench", "dp", *small)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert [row["step"] for row in result["rows"]] == ["ours", "opacus, per-sample", "opacus, ghost"]
    # We scale to 1e-5 less than the bound; the rest is rounding.
    assert all(value < 1e-4 for value in result["largest_difference"].values())


def test_the_masking_benchmark_holds_the_sum_against_the_unmasked_one(pathveil):
    small = ["--sites", 3, "--words", 60, "--dim", 4, "--filters", 3, "--reports", 20, "--batch-size", 12]
    done = pathveil("bench", "masking", *small, "--bits", 24, "--local-steps", 2, "--rounds", 1, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["equal"] and found["local_steps"] == 2 and set(found["seconds"]) == {"training", "masking"}
    numbers = 60 * 4 + 3 * (3 + 4 + 5) * 4 + 3 * 3
    assert found["megabytes"] == pytest.approx(numbers * 3 / 1e6)


def test_the_intake_benchmark_reads_every_format(inside, tmp_path):
    small = ["--rows", "40", "--words", "20", "--folder", tmp_path, "--json"]
    done = inside("bench", "intake", *small, "--rounds", "1")
    assert done.returncode == 0, done.stderr
    rows = {row["format"]: row for row in json.loads(done.stdout)["speed"]}
    tables = ["csv", "tsv", "parquet", "excel", "excel-shared", "sqlite", "jsonl", "json", "nested"]
    assert list(rows) == [*tables, "fhir", "hl7"]
    assert rows["csv"]["ratio_to_import"]["polars, reading and writing"] > 0
    done = inside("bench", "intake", *small, "--memory", "--formats", "hl7")
    assert [one["rows"] for one in json.loads(done.stdout)["memory"][0]["imports"]] == [8, 40]
    assert list(tmp_path.iterdir()) == []


def test_the_identifiers_benchmark_finds_what_was_planted(inside):
    done = inside("bench", "identifiers", "--reports", "40", "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    everything = result["planted"]["all"]
    assert everything["stretches"] > 100 and everything["hidden"] < 0.3 < 0.9 < everything["as it stands"]
    assert [row["personal"] for row in result["exposure"]] == sorted(
        [row["personal"] for row in result["exposure"]], reverse=True
    )
