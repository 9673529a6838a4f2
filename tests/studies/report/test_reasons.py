"""A report's text on a page: of one that the run itself made up, and never of another."""

import json
import shutil
from html import unescape

import polars as pl
import pytest

from pathveil.files import sha256_of_file, write_json
from pathveil.studies.report import page
from pathveil.studies.report.reasons import REFUSED, made_up_text, reasons_of
from pathveil.studies.result import StudyResult
from pathveil.studies.study_file import CORPUS, RECIPE, CorpusSettings, prepared_corpus


@pytest.fixture(scope="module")
def run(tmp_path_factory, made):
    """A run whose studies read the corpus that was made in its folder, with the reasons of one report."""
    folder = tmp_path_factory.mktemp("reasons")
    prepared_corpus(CorpusSettings(reports=40, registries=2), folder, lambda *_: None)
    result = json.loads((made / "result.json").read_text())
    for study in result["studies"].values():
        study["provenance"]["corpus_sha256"] = sha256_of_file(folder / CORPUS)
    report = pl.read_parquet(folder / CORPUS).row(3, named=True)
    place = {"start": 10, "end": 30, "text": "", "weight": 1.5}
    code = {"truth": report["site"], "code": "C99", "probability": 0.75, "places": [place]}
    write_json(folder / "reasons.json", {"report_id": report["report_id"], "tasks": {"site": code}})
    return folder, StudyResult.model_validate(result), report


def test_a_made_up_report_is_shown_with_the_words_that_spoke(run):
    folder, result, report = run
    shown = reasons_of(folder, result)
    assert "".join(piece.text for piece in shown.pieces) == report["text"]
    assert [piece.text for piece in shown.pieces if piece.task] == [report["text"][10:30]]
    assert shown.table.rows[0][:4] == ["site", "C99", f"labelled {report['site']}", "75%"]
    page.write(result, folder / "report.html")
    text = (folder / "report.html").read_text()
    assert text.count("<mark") == 1 and "nobody's" in text and "the run wrote its own 40" in text


@pytest.mark.parametrize("change", ["no recipe", "another corpus", "another study"])
def test_the_text_of_a_real_report_is_never_shown(run, tmp_path, change):
    """Reasons that were left in a folder whose study read reports from elsewhere, in good faith or not."""
    folder, result, report = run
    shutil.copytree(folder, tmp_path / "run")
    here = tmp_path / "run"
    planted = "Zebulon Quackenbush, left breast"
    if change == "no recipe":
        (here / RECIPE).unlink()
    elif change == "another corpus":  # of real reports, under the made-up one's name
        frame = pl.read_parquet(here / CORPUS).with_columns(text=pl.lit(planted))
        frame.write_parquet(here / CORPUS)
    else:
        parts = {name: part for name, part in result.to_dict()["studies"].items()}
        parts["combined"]["provenance"]["corpus_sha256"] = "0" * 64
        result = StudyResult.model_validate(result.to_dict() | {"studies": parts})
    assert made_up_text(here, result, report["report_id"]) is None
    page.write(result, here / "report.html")
    text = unescape((here / "report.html").read_text())
    assert REFUSED in text and "<mark" not in text and "Quackenbush" not in text
    assert report["text"][:60] not in text


@pytest.mark.parametrize("content", ["{", '{"tasks": {}}'])
def test_damaged_reasons_leave_the_page_whole(run, tmp_path, content):
    folder, result, _ = run
    shutil.copytree(folder, tmp_path / "run")
    (tmp_path / "run" / "reasons.json").write_text(content)
    assert reasons_of(tmp_path / "run", result) is None
