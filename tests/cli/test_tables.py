"""Every command that works on a corpus takes a table with its mapping, as if it had been imported first."""

import json
import tempfile

import polars as pl
import pytest
import typer.main

from pathveil.cli import app
from pathveil.cli.tables import corpora_made
from pathveil.corpus.intake import import_corpus
from pathveil.corpus.mapping import TableMapping, read_mapping
from pathveil.corpus.reading import is_corpus_already
from pathveil.corpus.synth import SynthSettings, synthesise
from pathveil.errors import CorpusError

SECRET = "Quastenflosser"
# One removes what is kept beside a corpus and reads none, the other needs a synthetic corpus with its truth.
OWN = {"cache", "vocab agree leftover"}


@pytest.fixture
def lab(tmp_path):
    """A laboratory's own table with its mapping; one record of it does not fit the header."""
    made = pl.concat(part for part, _ in synthesise(SynthSettings(reports=80, registries=1, seed=1, sites=3)))
    table = made.select(
        Pat="case_id",
        Nr="report_id",
        Datum=pl.col("date").dt.strftime("%d/%m/%Y"),
        Befund="text",
        Topo=pl.col("subsite").str.replace(".", "", literal=True),
    )
    path = tmp_path / "lab.csv"
    path.write_bytes((table.write_csv(separator=";") + f"{SECRET};too few\n").encode("cp1252", "replace"))
    (tmp_path / "map.toml").write_text(
        'dates = "dd/mm/yyyy"\nregistry = "North"\n[columns]\n'
        'case_id = "Pat"\nreport_id = "Nr"\ndate = "Datum"\ntext = "Befund"\nsubsite = "Topo"\n'
    )
    return path


def test_every_command_that_reads_a_corpus_takes_a_mapping():
    def commands(group, name=()):
        for word, command in group.commands.items():
            yield from commands(command, (*name, word)) if hasattr(command, "commands") else [((*name, word), command)]

    read = {
        " ".join(name): {option for one in command.params for option in one.opts}
        for name, command in commands(typer.main.get_command(app))
        if any("CORPUS" in (one.metavar or "") or {"--corpus", "--members"} & set(one.opts) for one in command.params)
    }
    assert {"train", "audit", "evaluate", "corpus check", "vocab exposure", "study run", "federate site"} <= set(read)
    assert [name for name, options in read.items() if "--map" not in options and name not in OWN] == []


def test_a_table_with_its_mapping_is_the_corpus_an_import_makes(lab, tmp_path, pathveil, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "private"))
    (tmp_path / "private").mkdir()
    mapping = read_mapping(tmp_path / "map.toml")
    made = import_corpus(lab, out=tmp_path / "lab.parquet", mapping=mapping)
    assert made.registries == {"North": 80}
    choose = ["--method", "baseline", "--min-count", 2]
    for name, reports in {"a": [lab, "--map", tmp_path / "map.toml"], "b": [tmp_path / "lab.parquet"]}.items():
        assert pathveil("corpus", "split", *reports, "--out", tmp_path / name).returncode == 0
        done = pathveil("vocab", "select", *reports, *choose, "--out", tmp_path / f"{name}.json")
        assert done.returncode == 0 and ("80 reports of" in done.stderr) == (name == "a")
    for file in ("a.json", "a/train.parquet", "a/validation.parquet", "a/test.parquet"):
        assert (tmp_path / file).read_bytes() == (tmp_path / file.replace("a", "b", 1)).read_bytes()
    splits = [json.loads((tmp_path / name / "split.json").read_text()) for name in "ab"]
    assert splits[0]["corpus_sha256"] == splits[1]["corpus_sha256"] == made.sha256
    assert not list((tmp_path / "private").iterdir())


def test_what_could_not_be_used_is_told_and_never_quoted(lab, tmp_path, pathveil):
    done = pathveil("corpus", "check", lab, "--map", tmp_path / "map.toml", "--json")
    assert json.loads(done.stdout)["reports"] == 80 and SECRET not in done.stdout + done.stderr
    assert f"{lab}: 80 reports of" in done.stderr and "81 read, 1 skipped" in done.stderr
    shown = pathveil("corpus", "check", lab, "--map", tmp_path / "map.toml")
    assert shown.stdout.splitlines()[0].strip() == "lab.csv"  # and not the corpus that was made of it
    (tmp_path / "folder").mkdir()
    lab.rename(tmp_path / "folder" / lab.name)
    (tmp_path / "folder" / "more.xlsx").write_bytes(b"")
    done = pathveil("corpus", "check", tmp_path / "folder", "--map", tmp_path / "map.toml")
    assert done.returncode == 0 and "not read  more.xlsx of the folder" in done.stderr


def test_of_several_corpora_those_that_are_one_stay_where_they_are(lab, tmp_path):
    mapping = read_mapping(tmp_path / "map.toml")
    import_corpus(lab, out=tmp_path / "lab.parquet", mapping=mapping)
    assert is_corpus_already(tmp_path / "lab.parquet", mapping) and not is_corpus_already(lab, mapping)
    assert not is_corpus_already(tmp_path / "lab.parquet", TableMapping(columns={"text": ["case_id", "Micro"]}))
    (tmp_path / "counts.npz").write_bytes(b"")
    with corpora_made(tmp_path / "map.toml") as made:
        assert made(tmp_path / "lab.parquet") == tmp_path / "lab.parquet" and made(None) is None
        first, second = made([tmp_path / "counts.npz", lab])
        assert second == tmp_path / "counts.npz" and pl.read_parquet(first).height == 80
    assert not first.exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["vocab", "select", "lab.csv", "--map", "map.toml", "--out", "map.toml"], "map.toml: is among what is read"),
        (["vocab", "count", "lab.csv", "--map", "map.toml", "--out", "lab.csv"], "lab.csv: is among what is read"),
        (
            ["study", "run", "standard", "--map", "map.toml", "--out", "r"],
            "--map says how a table of reports is written",
        ),
        (["corpus", "check", "lab.csv", "--map", "none.toml"], "none.toml"),
        (["corpus", "check", "lab.csv", "--map", "other.toml"], "has no column 'Bericht' to take text from"),
        (
            ["corpus", "split", "lab.csv", "--map", "nobody.toml", "--out", "p"],
            "--registry NAME of 'corpus import', or in a mapping",
        ),
        (["corpus", "check", "lab.csv"], "a corpus needs report_id, case_id, registry, text"),
    ],
)
def test_mistakes_are_one_sentence(lab, tmp_path, pathveil, monkeypatch, arguments, sentence):
    monkeypatch.chdir(tmp_path)
    before = (lab.read_bytes(), (tmp_path / "map.toml").read_bytes())
    (tmp_path / "other.toml").write_text('[columns]\ntext = "Bericht"\n')
    text = (tmp_path / "map.toml").read_text()
    (tmp_path / "nobody.toml").write_text(text.replace('registry = "North"\n', ""))
    done = pathveil(*arguments)
    assert done.returncode == 2 and sentence in done.stderr and done.stdout == "" and SECRET not in done.stderr
    assert (lab.read_bytes(), (tmp_path / "map.toml").read_bytes()) == before and not (tmp_path / "p").exists()


def test_a_table_without_reports_is_named_by_check(tmp_path, monkeypatch):
    (tmp_path / "lab.csv").write_text("report_id,case_id,registry,text\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CorpusError, match=r"lab\.csv: no report found"):
        app(["corpus", "check", "lab.csv"], standalone_mode=False)
