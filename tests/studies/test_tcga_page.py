"""The recipe of docs/tcga.md, on files of the form it describes, gives a corpus that Pathveil accepts."""

import re
import subprocess
import sys

import polars as pl
import pytest

from conftest import ROOT
from pathveil.corpus import scan, tasks_of, validate
from pathveil.studies import study_file

HEADER = "bcr_patient_barcode\ttissue_source_site\tinitial_pathologic_dx_year\ticd_o_3_site\ticd_o_3_histology"


def test_the_recipe_makes_a_corpus(tmp_path):
    barcodes = [f"TCGA-{number:02d}-{number:04d}" for number in range(40)]
    rows = [f'"{barcode}.SCAN-{number}","LEFT BREAST, {number}"' for number, barcode in enumerate(barcodes)]
    (tmp_path / "TCGA_Reports.csv").write_text("patient_filename,text\n" + "\n".join(rows))
    (tmp_path / "clinical").mkdir()
    for name, part, extra, side in (("brca", barcodes[:25], "\tlaterality", "\tLeft"), ("coad", barcodes[25:], "", "")):
        lines = [HEADER + extra, HEADER + extra, "CDE_ID:" + "\tCDE_ID:" * (4 + bool(extra))]
        for number, barcode in enumerate(part):
            year = "[Not Available]" if number == 3 else "2010"
            lines.append(f"{barcode}\tInstitution {number % 9}\t{year}\tC50.9\t8500/3{side}")
        path = tmp_path / "clinical" / f"nationwidechildrens.org_clinical_patient_{name}.txt"
        path.write_text("\n".join(lines) + "\n")
    code = re.search(r"```python\n(.*?)```", (ROOT / "docs" / "tcga.md").read_text(), re.S)
    assert code is not None
    done = subprocess.run([sys.executable, "-c", code[1]], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    frame = validate(scan(tmp_path / "tcga_reports.parquet"))
    assert tasks_of(frame) == ("site", "subsite", "laterality", "histology", "behavior")
    made = frame.collect()
    assert made.height == 40 and made["year"].null_count() == 2
    assert made.group_by("institution").agg(pl.col("registry").n_unique())["registry"].max() == 1
    assert sorted(made["registry"].unique()) == [f"R{number + 1}" for number in range(7)]
    assert made.row(0, named=True)["histology"] == "8500" and set(made["laterality"].unique()) == {"left", None}


@pytest.mark.parametrize(
    ("run", "of", "differing"),
    [
        ("vocabulary-tcga-repeats", "vocabulary-tcga", {"strategies", "sizes", "shadows", "counts", "repeats"}),
        ("distribution-tcga-two-five", "distribution-tcga-two", {"tasks"}),
        ("distribution-tcga-seven-subsite", "distribution-tcga", {"tasks", "arms"}),
    ],
)
def test_the_files_that_were_run_differ_from_their_models_as_they_say(run, of, differing):
    kind = run.split("-")[0]
    first, second = (getattr(study_file.read(ROOT / "studies" / f"{name}.toml"), kind) for name in (run, of))
    assert {name for name, value in first if value != getattr(second, name)} == differing
    assert run in (ROOT / "docs" / "tcga.md").read_text()
