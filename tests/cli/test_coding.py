"""evaluate and predict as a user runs them."""

import csv
import io
import json
import shutil
import sys

import pytest

from bundle.conftest import TINY, reports
from pathveil.bundle.train import train_model


@pytest.fixture(scope="module", autouse=True)
def quiet(one_thread):
    """Small models need no threads."""


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A model, and reports that it has not seen."""
    folder = tmp_path_factory.mktemp("coding")
    reports(160).write_parquet(folder / "train.parquet")
    reports(40, seed=3).write_parquet(folder / "test.parquet")
    train_model(folder / "train.parquet", TINY, preset="tiny", seed=3, out=folder / "model")
    return folder


def test_evaluate_follows_the_contract(files, inside, tmp_path):
    done = inside("evaluate", files / "model", files / "test.parquet", "--json", "--resamples", 50)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["documents"] == 40
    for task in ("site", "subsite", "laterality", "histology", "behavior"):
        for kind in ("micro", "macro", "accuracy"):
            score = result["tasks"][task][kind]
            assert 0 <= score["low"] <= score["value"] <= score["high"] <= 1
        assert result["tasks"][task]["details"]["calibration"]
    page = tmp_path / "scores.html"
    plain = inside("evaluate", files / "model", files / "test.parquet", "--tasks", "site,histology", "--page", page)
    assert "micro F1" in plain.stdout and "laterality" not in plain.stdout and "Accuracy against" in page.read_text()


def test_training_reports_are_warned_of_once(files, inside):
    """The summary says it; where JSON takes its place, a line beside it."""
    plain, as_json = (inside("evaluate", files / "model", files / "train.parquet", *way) for way in ((), ("--json",)))
    said = "160 of 160 reports belong to cases that the model was trained with"
    assert said in plain.stdout and plain.stderr == "" and said in as_json.stderr


def test_a_mapping_is_obeyed_by_whatever_reads_reports(files, inside, tmp_path):
    """A table with columns of its own and a delimiter: the same scores, codes and drift as from the corpus."""
    import polars as pl

    theirs = {"text": "Befund", "report_id": "Nr", "case_id": "Fall", "site": "Topographie"}
    table = pl.read_parquet(files / "test.parquet").rename(theirs)
    table.write_csv(tmp_path / "lab.csv", separator="|")
    columns = "".join(f'{ours} = "{name}"\n' for ours, name in theirs.items())
    (tmp_path / "lab.toml").write_text(f'delimiter = "|"\n[columns]\n{columns}')
    told = ["--map", tmp_path / "lab.toml"]

    def shown(command, source, *options):
        done = inside(command, files / "model", source, *options)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    scored = ["--json", "--resamples", 20]
    whole = shown("evaluate", files / "test.parquet", *scored)
    assert shown("evaluate", tmp_path / "lab.csv", *scored, *told)["tasks"]["site"] == whole["tasks"]["site"]
    drift = shown("drift", files / "test.parquet", "--json")
    assert shown("drift", tmp_path / "lab.csv", "--json", *told) == drift
    against = shown(
        "drift", tmp_path / "lab.csv", "--json", *told, "--reference", tmp_path / "lab.csv", "--reference-map", told[1]
    )
    assert against["reference"] == "reports" and against["findings"] == []
    for options in (["--column", "text=Nirgends"], [*told, "--reference-map", told[1]]):
        wrong = inside("drift", files / "model", tmp_path / "lab.csv", *options)
        assert wrong.returncode == 2 and ("Nirgends" in wrong.stderr or "give both" in wrong.stderr)


def test_what_a_folder_holds_besides_is_named_by_all(files, inside, tmp_path):
    folder = tmp_path / "new"
    folder.mkdir()
    shutil.copy(files / "test.parquet", folder)
    (folder / "more.xlsx").write_bytes(b"")
    for command, out in (("evaluate", ()), ("drift", ("--reference", folder)), ("predict", ("--out", "-"))):
        done = inside(command, files / "model", folder, *out)
        assert done.returncode == 0 and "not read: more.xlsx of the folder" in done.stderr, done.stderr


def test_predict_writes_each_format(files, inside, tmp_path):
    for name in ("codes.csv", "codes.jsonl", "codes.xml"):
        done = inside("predict", files / "model", files / "test.parquet", "--out", tmp_path / name, "--json")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["reports"] == 40
    with (tmp_path / "codes.csv").open(newline="") as file:
        assert len(list(csv.DictReader(file))) == 40


def test_one_text_is_answered(files, inside, monkeypatch):
    text = "Final diagnosis: invasive ductal carcinoma of the left breast."
    done = inside("predict", files / "model", "--text", text, "--explain", 2)
    assert done.returncode == 0, done.stderr
    assert "breast" in done.stdout and "C18" in done.stdout and "invasive +" in done.stdout  # term, alternative, words
    written = f"Präparat.\r\n{text}".encode("cp1252")  # read as files are, whatever the system reads by itself
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(written), encoding="ascii"))
    answer = json.loads(inside("predict", files / "model", "--text", "-", "--out", "-", "--joint", "usual").stdout)
    assert set(answer) == {"codes", "contradictions", "explanation", "unread"}
    assert len(answer["codes"]["site"]["alternatives"]) == 2 and answer["codes"]["site"]["code"] == "C50"


def test_drift_is_told(files, inside, tmp_path):
    page = tmp_path / "drift.html"
    done = inside("drift", files / "model", files / "train.parquet", "--page", page, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["findings"] == [] and "Nothing differs" in page.read_text()
    done = inside("drift", files / "model", files / "nowhere.parquet")
    assert done.returncode == 2 and "nowhere.parquet" in done.stderr


def test_codes_go_to_the_standard_output(files, inside):
    done = inside("predict", files / "model", files / "test.parquet", "--out", "-", "--to", "csv")
    assert done.returncode == 0 and "40 reports coded into the standard output" in done.stderr
    assert len(list(csv.DictReader(done.stdout.splitlines()))) == 40


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((), "give INPUT, a file or folder of reports, or --text"),
        (("test.parquet", "--text", "x"), "give INPUT"),
        (("test.parquet",), "give --out FILE"),
        (("--text", "x", "--out", "x.csv"), "--out is for INPUT"),
        (("--text", " "), "--text: is empty"),
        (("--text", "x", "--out", "-", "--to", "csv"), "--to is for INPUT"),
        (("--text", "x", "--by-case"), "--by-case is for INPUT"),
        (("--text", "MSH|", "--format", "hl7"), "--format is for INPUT"),
        (("--text", "x", "--column", "text=DX"), "a mapping (--map, --column, …) is for INPUT"),
        (("test.parquet", "--out", "x.csv", "--one-tumor"), "give --by-case too"),
        (("test.parquet", "--out", "-", "--json"), "--out - writes the codes"),
        (("test.parquet", "--out", "x.csv", "--joint", "sides"), "'sides' is not known; expected of subsite"),
        (("test.parquet", "--out", "x.csv", "--with-text"), "write JSONL"),
    ],
)
def test_predict_with_options_that_do_not_go_together(files, inside, monkeypatch, arguments, message):
    monkeypatch.chdir(files)
    done = inside("predict", "model", *arguments)
    assert done.returncode == 2 and message in done.stderr and not (files / "x.csv").exists()


def test_an_altered_bundle_is_refused(files, inside, tmp_path):
    copy = shutil.copytree(files / "model", tmp_path / "model")
    (copy / "card.md").write_text("better than it is")
    done = inside("predict", copy, files / "test.parquet", "--out", tmp_path / "codes.csv")
    assert done.returncode == 2 and "card.md was altered" in done.stderr
    assert not (tmp_path / "codes.csv").exists()


@pytest.mark.parametrize(
    "page, message",
    [
        ("test.parquet", "is among what is read"),
        (".", "is a folder"),
        ("model/page.html", "lies in the model's folder"),
        ("theirs.html", "is there already, and is no file that this makes"),
        ("codes.csv", "is there already, and is no file that this makes"),
        ("scores.pdf", "the page is HTML; give a name that ends in .html"),
    ],
)
def test_a_page_never_takes_the_place_of_what_is_read(files, inside, monkeypatch, page, message):
    monkeypatch.chdir(files)
    before = (files / "test.parquet").read_bytes()
    (files / "theirs.html").write_text("<!doctype html><title>Our website</title>")
    assert inside("predict", "model", "test.parquet", "--out", "codes.csv").returncode == 0
    for command in ("evaluate", "drift"):
        done = inside(command, "model", "test.parquet", "--page", page)
        assert done.returncode == 2 and message in done.stderr
    assert (files / "test.parquet").read_bytes() == before and not (files / "model" / "page.html").exists()
    assert not (files / "scores.pdf").exists()


def test_codes_never_take_the_place_of_somebodys_table(files, inside, tmp_path):
    mine = tmp_path / "mine.csv"
    mine.write_text("report_id,case_id,report_number,message_id,text\n1,1,S1,M1,my only copy\n")
    done = inside("predict", files / "model", files / "test.parquet", "--out", mine)
    assert done.returncode == 2 and "is there already, and is no file that this makes" in done.stderr
    assert "my only copy" in mine.read_text()


def test_codes_are_not_written_into_the_model(files, inside):
    done = inside("predict", files / "model", files / "test.parquet", "--out", files / "model" / "codes.csv")
    assert done.returncode == 2 and "lies in the model's folder" in done.stderr
    assert inside("predict", files / "model", "--text", "breast").returncode == 0
