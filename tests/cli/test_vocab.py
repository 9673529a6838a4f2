"""``pathveil vocab``: the contract's options, one sentence for a mistake, no word ever shown."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from pathveil.cli.vocab import vocabularies_of


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    path = tmp_path_factory.mktemp("vocab") / "reports.parquet"
    rows = []
    for number in range(40):
        text = f"Left breast carcinoma G{number % 3} Kowalski{number} seen by Zbigniew" + " colon" * (number % 4)
        rows.append((f"r{number}", f"c{number // 2}", f"R{number % 3 + 1}", text, f"C{number % 4}0"))
    pl.DataFrame(rows, schema=["report_id", "case_id", "registry", "text", "site"], orient="row").write_parquet(path)
    return path


@pytest.mark.parametrize(
    ("options", "method"),
    [
        (["--method", "baseline"], "occurrences >= 5"),
        (["--method", "baseline", "--min-count", "3", "--unit", "reports"], "reports >= 3"),
        (["--method", "intersection", "--threshold", "2"], "registries >= 2"),
        (["--method", "intersection", "--threshold", "3", "--min-cases", "2"], "registries >= 3 and cases >= 2"),
        (["--method", "mutual-information", "--top", "4", "--tasks", "site"], "top 4 by mutual-information"),
        (
            ["--method", "mutual-information", "--top", "2", "--min-cases", "5"],
            "cases >= 5 then top 2 by mutual-information",
        ),
        (["--choose", "registries>=2 then top 3 by cases", "--leave-out", "R3"], "registries >= 2 then top 3 by cases"),
    ],
)
def test_select(pathveil, corpus, tmp_path, options, method):
    done = pathveil("vocab", "select", corpus, *options, "--out", tmp_path / "v.json", "--json")
    assert done.returncode == 0, done.stderr
    result, content = json.loads(done.stdout), json.loads((tmp_path / "v.json").read_text())
    assert result["method"] == content["method"] == method
    assert result["words"] == len(content["words"]) > 0
    assert "zbigniew" not in done.stdout + done.stderr


def test_counting_at_home_and_choosing_together(pathveil, corpus, tmp_path):
    frame = pl.read_parquet(corpus)
    for registry in ("R1", "R2", "R3"):
        frame.filter(pl.col("registry") == registry).write_parquet(tmp_path / f"{registry}.parquet")
        done = pathveil("vocab", "count", tmp_path / f"{registry}.parquet", "--out", tmp_path / f"{registry}.npz")
        assert done.returncode == 0 and registry in done.stdout, done.stderr
    options = ["--method", "mutual-information", "--top", "6"]
    files = [tmp_path / f"{registry}.npz" for registry in ("R2", "R1", "R3")]
    assert pathveil("vocab", "select", *files, *options, "--out", tmp_path / "a.json").returncode == 0
    assert pathveil("vocab", "select", corpus, *options, "--out", tmp_path / "b.json").returncode == 0
    a, b = (json.loads((tmp_path / name).read_text()) for name in ("a.json", "b.json"))
    assert a["words"] == b["words"] and a["sha256"] == b["sha256"]


def test_what_is_there_gives_way_only_to_its_own_kind(pathveil, corpus, tmp_path, monkeypatch):
    reports = tmp_path / "reports.parquet"
    reports.write_bytes(corpus.read_bytes())
    select, count = ("vocab", "select", reports, "--method", "baseline", "--out"), ("vocab", "count", reports, "--out")
    for name, command in (("v.json", select), ("c.npz", count)):
        for _ in range(2):  # made again, it is renewed
            assert pathveil(*command, tmp_path / name).returncode == 0
    np.savez(tmp_path / "theirs.npz", scores=np.arange(3))
    (tmp_path / "appetite.toml").write_text("release = 'weights'\n")
    (tmp_path / "result.json").write_text('{"name": "a study"}')
    (tmp_path / "model").mkdir()
    for name in ("MANIFEST.json", "vocabulary.json"):
        (tmp_path / "model" / name).write_bytes((tmp_path / "v.json").read_bytes())
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    monkeypatch.setattr("pathveil.vocabulary.corpus_counts.tokens", None)  # nothing is read before it is refused
    refused = [
        (select, "reports.parquet", "is among what is read"),
        (select, "model/vocabulary.json", "lies in the model's folder model"),
        (select, "appetite.toml", "is there already, and is no file that this makes"),
        (select, "result.json", "is there already, and is no file that this makes"),
        (select, "c.npz", "is there already, and is no file that this makes"),
        (select, "model", "lies in the model's folder model"),
        (select, ".", "is a folder"),
        (count, "theirs.npz", "is there already, and is no file that this makes"),
        (count, "model/c.npz", "lies in the model's folder model"),
    ]
    for command, name, sentence in refused:
        done = pathveil(*command, tmp_path / name)
        assert done.returncode == 2 and sentence in done.stderr, (name, done.stderr)
    assert pathveil("vocab", "agree", "publish", tmp_path / "v.json", "--out", tmp_path / "v.json").returncode == 2
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_rare_words_need_not_leave(pathveil, corpus, tmp_path):
    done = pathveil("vocab", "count", corpus, "--min-cases", "2", "--out", tmp_path / "c.npz", "--json")
    assert json.loads(done.stdout)["words_left_out"] >= 40
    assert b"kowalski" not in (tmp_path / "c.npz").read_bytes()


def test_folds(pathveil, corpus, tmp_path):
    done = pathveil("vocab", "folds", corpus, "--sizes", "8,4", "--out", tmp_path / "folds", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["folds"]
    assert list(found) == ["R1", "R2", "R3"] and list(found["R1"]) == ["B", "I2", "MI8", "MI4"]
    assert len(json.loads((tmp_path / "folds" / "R2" / "MI4.json").read_text())["words"]) == 4
    assert "left out" in pathveil("vocab", "folds", corpus, "--out", tmp_path / "others").stdout
    assert "is there already" in pathveil("vocab", "folds", corpus, "--out", tmp_path / "folds").stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "say how to choose"),
        (["--method", "intersection"], "needs --threshold"),
        (["--method", "intersection", "--threshold", "8"], "there are 3 (R1, R2, R3)"),
        (["--method", "intersection", "--threshold", "2", "--leave-out", "R1", "--leave-out", "R2"], "only one (R3)"),
        (["--method", "mutual-information"], "needs --top"),
        (["--method", "mutual-information", "--top", "100000"], "ask for at most that many"),
        (["--method", "baseline", "--min-count", "100000"], "no word is left"),
        (["--method", "baseline", "--top", "5"], "--top belongs to --method mutual-information"),
        (["--method", "lexicon"], "needs --lexicon"),
        (["--choose", "cases >"], "'cases >': cannot be read from 'cases >' on"),
        (["--choose", "cases > 1", "--method", "baseline"], "--choose says everything"),
        (["--choose", "in lexicon"], "--lexicon"),
        (["--method", "baseline", "--leave-out", "R7"], "no registry 'R7'"),
        (["--epsilon", "1", "--method", "baseline"], "--epsilon chooses the words by itself"),
        (["--epsilon", "1", "--leave-out", "R7"], "no registry 'R7'"),
        (["--epsilon", "-1"], "an epsilon above 0"),
        (["--epsilon", "0.1"], "take a larger epsilon"),
    ],
)
def test_mistakes_are_one_sentence(pathveil, corpus, tmp_path, options, said):
    done = pathveil("vocab", "select", corpus, *options, "--out", tmp_path / "v.json")
    assert done.returncode == 2 and said in done.stderr, done.stderr
    assert "Traceback" not in done.stderr and "kowalski" not in done.stderr.lower()
    assert not list(tmp_path.iterdir())


def test_select_with_noise(pathveil, corpus, tmp_path):
    done = pathveil("vocab", "select", corpus, "--epsilon", 30, "--delta", 0.01, "--out", tmp_path / "v.json", "--json")
    assert done.returncode == 0, done.stderr
    result, content = json.loads(done.stdout), json.loads((tmp_path / "v.json").read_text())
    assert result["words"] == len(content["words"]) and {"breast", "carcinoma", "left"} <= set(content["words"])
    assert content["parameters"] == result["parameters"] and content["parameters"]["epsilon"] == 30
    assert "corpus_sha256" not in content["source"] and "kowalski" not in done.stdout.lower()
    counts = tmp_path / "c.npz"
    assert pathveil("vocab", "count", corpus, "--out", counts).returncode == 0
    done = pathveil("vocab", "select", counts, "--epsilon", 3, "--out", tmp_path / "w.json")
    assert done.returncode == 2 and "not from counts" in done.stderr


def test_each_vocabulary_has_a_name_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for folder in ("a/R1", "b/R1", "b/R2"):
        Path(folder).mkdir(parents=True)
        Path(folder, "B.json").touch()
    assert list(vocabularies_of([Path("a/R1"), Path("a/R1/B.json")])) == ["B"]
    assert list(vocabularies_of([Path("b/R1"), Path("b/R2")])) == ["R1/B", "R2/B"]
    assert list(vocabularies_of([Path("a/R1"), Path("b/R1"), Path("b/R2")])) == ["a/R1/B", "b/R1/B", "R2/B"]


def test_exposure(pathveil, corpus, tmp_path):
    for name, threshold in (("I2", 2), ("I3", 3)):
        options = ["--method", "intersection", "--threshold", threshold, "--out", tmp_path / "v" / f"{name}.json"]
        (tmp_path / "v").mkdir(exist_ok=True)
        assert pathveil("vocab", "select", corpus, *options).returncode == 0
    done = pathveil("vocab", "exposure", tmp_path / "v", corpus, "--out", tmp_path / "page")
    assert done.returncode == 0, done.stderr
    assert "I2" in done.stdout and "I3" in done.stdout and "zbigniew" not in done.stdout
    assert {path.name for path in (tmp_path / "page").iterdir()} == {"exposure.html", "exposure.svg"}
    done = pathveil("vocab", "exposure", tmp_path / "v" / "I2.json", corpus, "--json")
    assert [row["name"] for row in json.loads(done.stdout)["vocabularies"]] == ["I2"]
    (tmp_path / "model").mkdir()
    for name in ("MANIFEST.json", "vocabulary.json"):
        (tmp_path / "model" / name).touch()
    for arguments, said in (
        ([corpus], "at least one vocabulary"),
        ([tmp_path / "page", corpus], "holds no vocabulary"),
        ([tmp_path / "v", corpus, "--out", tmp_path / "model"], "lies in the model's folder model"),
    ):
        done = pathveil("vocab", "exposure", *arguments)
        assert done.returncode == 2 and said in done.stderr
