"""From a registry's own files to coded reports: messages and abstracts, or a messy table, to a model's answers."""

import csv
import sys

import polars as pl
import pytest

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
                file.write(f"MSH|^~\\&||{lab}|||||ORU^R01\r")
                file.write(f"PID|1||{row['case_id']}1^^^{lab}^MR||Doe{number}^Ann||19570706\r")
                file.write(f"OBR|1||{row['report_id']}|11529-5|||{row['date']:%Y%m%d}\r")
                file.write(f"OBX|1|TX|22637-3^final^LN||{'~'.join(lines)}\r")


def test_messages_and_abstracts_become_coded_reports(invented, tmp_path, one_thread):
    as_messages(invented, tmp_path / "hl7")
    with (tmp_path / "abstracts.csv").open("w", encoding="cp1252", newline="") as file:
        table = csv.writer(file, delimiter=";")
        table.writerow(["Prüfnummer", "primarySite", "morphology", "laterality"])
        for row in invented.drop_nulls(["subsite", "histology", "behavior"])[:-20].iter_rows(named=True):
            morphology = f"{row['histology']}/{row['behavior']}"
            table.writerow([row["report_id"], row["subsite"].replace(".", ""), morphology, row["laterality"]])
    names = ("raw.parquet", "reports.parquet", "parts", "words", "model", "codes.csv")
    raw, reports, parts, words, model, codes = (tmp_path / name for name in names)
    columns = ["report_number=Prüfnummer", "subsite=primarySite", "histology=morphology"]
    told = [word for column in columns for word in ("--column", column)]
    assert not call("corpus", "import", tmp_path / "hl7", "--out", raw)
    label = ["corpus", "label", raw, tmp_path / "abstracts.csv", "--on", "report_number", *told]
    assert not call(*label, "--out", reports)
    assert not call("corpus", "check", reports)
    assert not call("corpus", "split", reports, "--validation", 0, "--out", parts)
    rule = "registries >= 2 and cases >= 3"
    assert not call("vocab", "select", parts / "train.parquet", "--choose", rule, "--out", words)
    train = ["train", parts / "train.parquet", "--vocab", words, "--preset", "small", "--fixed-epochs", 1]
    assert not call(*train, "--out", model)
    assert not call("evaluate", model, parts / "test.parquet")
    assert not call("predict", model, raw, "--out", codes)
    labelled = pl.read_parquet(reports)
    expected = invented.select("report_id", "site", "subsite", "histology", "behavior", "laterality")
    joined = labelled.drop_nulls("site").join(expected, left_on="report_number", right_on="report_id", suffix=" true")
    assert joined.height > 150 and all(
        joined[task].equals(joined[f"{task} true"], check_names=False)
        for task in ("subsite", "histology", "behavior", "laterality")
    )
    assert joined["site"].equals(joined["subsite true"].str.slice(0, 3), check_names=False)
    assert pl.read_csv(codes).height == labelled.height
