"""From a registry's own files to coded reports: messages and abstracts, or a messy table, to a model's answers."""

import csv
import shlex
import sys
from pathlib import Path

import polars as pl
import pytest

from bundle.naaccr_reader import refusals
from conftest import ROOT
from pathveil.cli import main
from pathveil.corpus.synth import SynthSettings, write_corpus


def call(*arguments: object) -> int:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["pathveil", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            main()
            sys.exit(0)
    return left.value.code or 0


@pytest.fixture(scope="module")
def invented(tmp_path_factory):
    path = tmp_path_factory.mktemp("invented") / "s.parquet"
    settings = SynthSettings(reports=240, registries=2, seed=1, sites=3, subsites=4, histologies=4)
    write_corpus(settings, out=path)
    return pl.read_parquet(path)


def as_messages(reports: pl.DataFrame, folder) -> None:
    """The reports as laboratories send them, a file a laboratory, without a code in them."""
    folder.mkdir()
    for (lab,), some in reports.group_by(["registry"], maintain_order=True):
        with (folder / f"{lab}.hl7").open("w", newline="") as file:
            for number, row in enumerate(some.iter_rows(named=True)):
                text = row["text"].replace("\\", "/").replace("|", "/").replace("^", "/").replace("&", "+")
                lines = text.replace("~", "-").splitlines()
                file.write(f"MSH|^~\\&||{lab}|||||ORU^R01|{lab}-{number}\r")
                file.write(f"PID|1||{row['case_id']}1^^^{lab}^MR||Doe{number}^Ann||19570706\r")
                file.write(f"OBR|1||{row['report_id']}|11529-5|||{row['date']:%Y%m%d}\r")
                file.write(f"OBX|1|TX|22637-3^final^LN||{'~'.join(lines)}\r")


# What makes a line of the README quick: it is the same line.
QUICK = {
    "train": "--teachers 2 --unseen 1 --epochs 1 --set dim=8 --set filters=4 --set word_dropout=0.1 --workers 1",
    "audit": "--models 2 --networks 1 --canaries 0 --processes 1",
    "evaluate": "--resamples 20",
    "appetite": "--name 'A. Officer' --organisation 'A registry' --release weights",
    "release": "--override 'a rehearsal'",  # so small a model's audit cannot pass
}
LATER = {"audit": (0, 3, 4)}  # exit codes of a verdict


def readme_lines() -> list[list[str]]:
    """The commands of the README's pipeline, as a shell would take them apart."""
    text = (ROOT / "README.md").read_text()
    section = text.partition("## From reports to a model that may be released")[2].partition("\n\n`audit` ends")[0]
    lines = [shlex.split(line, comments=True) for line in section.splitlines() if line.startswith("    pathveil ")]
    assert len(lines) >= 9 and lines[0][:3] == ["pathveil", "corpus", "import"]
    return [line[1:] for line in lines]


def test_every_line_of_the_readme_runs(invented, tmp_path, one_thread, monkeypatch):
    """From HL7 messages and a table of abstracts, as other programs write it, to coded reports."""
    monkeypatch.chdir(tmp_path)
    as_messages(invented, tmp_path / "hl7")
    with (tmp_path / "abstracts.csv").open("w", encoding="cp1252", newline="") as file:
        table = csv.writer(file, delimiter=";")
        table.writerow(["report_number", "subsite", "histology", "laterality", "Größe"])
        for row in invented.drop_nulls(["subsite", "histology", "behavior"])[:-20].iter_rows(named=True):
            morphology = f"{row['histology']}/{row['behavior']}"
            table.writerow([row["report_id"], row["subsite"].replace(".", ""), morphology, row["laterality"], "ä"])
    invented[:30].select("report_id", "text").write_parquet(tmp_path / "new.parquet")
    for line in readme_lines():
        code = call(*line, *shlex.split(QUICK.get(line[0], "")))
        assert code in LATER.get(line[0], (0,)), line
    labelled = pl.read_parquet("reports.parquet")
    expected = invented.select("report_id", "site", "subsite", "histology", "behavior", "laterality")
    joined = labelled.drop_nulls("site").join(expected, left_on="report_number", right_on="report_id", suffix=" true")
    assert joined.height > 150 and all(
        joined[task].equals(joined[f"{task} true"], check_names=False)
        for task in ("subsite", "histology", "behavior", "laterality")
    )
    assert joined["site"].equals(joined["subsite true"].str.slice(0, 3), check_names=False)
    # Codes of messages lead back to them, and an abstracting system can read them.
    assert not call("predict", "model", "hl7", "--out", "codes.csv")
    coded = pl.read_csv("codes.csv", infer_schema=False)
    assert set(coded["report_number"]) == set(invented["report_id"]) and coded["message_id"].n_unique() == coded.height
    assert not call("predict", "model", "hl7", "--joint", "usual", "--out", "codes.xml")
    assert refusals(Path("codes.xml").read_text()) == []
