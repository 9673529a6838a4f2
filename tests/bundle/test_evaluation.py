"""Scores of a model on a corpus, against scikit-learn's."""

import json
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from sklearn.metrics import f1_score

from pathveil.bundle.coder import Coder
from pathveil.corpus import read
from pathveil.errors import CorpusError, UsageError


def test_evaluation_agrees_with_scikit_learn(bundle, fresh):
    result = bundle.evaluate(fresh, resamples=50)
    frame = pl.read_parquet(fresh)
    assert result.documents == len(frame) and list(result.tasks) == list(bundle.tasks)
    coded = Coder(bundle).code(frame["text"].to_list())
    for task, score in result.tasks.items():
        pairs = [(label, codes[task].code) for label, codes in zip(frame[task], coded, strict=True) if label]
        truth, predicted = zip(*pairs, strict=True)
        assert score.documents == len(pairs)
        assert score.micro.value == pytest.approx(np.mean([a == b for a, b in pairs]))
        assert score.macro.value == pytest.approx(f1_score(truth, predicted, average="macro"))
        assert score.micro.low <= score.micro.value <= score.micro.high
    assert "macro F1" in repr(result)
    assert result.to_frame()["micro"].to_list() == [score.micro.value for score in result.tasks.values()]
    content = json.loads(result.to_json())
    assert set(content["tasks"]["site"]["micro"]) == {"value", "low", "high"} and content["documents"] == 60


def test_reports_without_a_known_word_are_left_to_a_person_as_predict_leaves_them(bundle, fresh):
    """However sure the model is of what it says of nothing."""
    threshold = next(iter(bundle.thresholds.values())).model_copy(update={"probability": 0.0})
    sure = replace(bundle, thresholds=dict.fromkeys(bundle.tasks, threshold))
    table = pl.read_parquet(fresh)
    silent = table.with_columns(text=pl.when(pl.int_range(pl.len()) < 24).then(pl.lit("zzyzx qwrk")).otherwise("text"))
    result, coded = sure.evaluate(silent, resamples=10), sure.predict(silent).results
    for task, score in result.tasks.items():
        pairs = [(label, one.codes[task]) for label, one in zip(table[task], coded, strict=True) if label]
        taken = [label == code.code for label, code in pairs if not code.abstained]
        assert score.coded.share == pytest.approx(len(taken) / len(pairs)) and len(taken) < len(pairs)
        assert score.coded.accuracy == pytest.approx(np.mean(taken))
        assert sum(one.documents for one in score.details.calibration) <= len(taken)
        first = score.details.coverage[0]
        assert first.probability > 0 and score.details.coverage[-1].probability == 0


def test_reports_that_nothing_is_read_of_are_told(bundle, fresh):
    """On the page not where they are of fewer than ten cases."""
    frame = pl.read_parquet(fresh)
    for number, is_told in ((2, False), (40, True)):
        texts = pl.when(pl.int_range(pl.len()) < number).then(pl.lit("zzyzx")).otherwise("text")
        result = bundle.evaluate(frame.with_columns(text=texts), resamples=20)
        said = f"{number} reports hold nothing the model can read"
        assert said in repr(result) and (said in result.page()) == is_told
    assert "nothing the model can read" not in repr(bundle.evaluate(frame, resamples=20))


def test_labels_never_seen_count_as_errors(bundle, fresh, tmp_path):
    path = tmp_path / "other.parquet"
    pl.read_parquet(fresh).with_columns(histology=pl.lit("9999")).write_parquet(path)
    score = bundle.evaluate(path, resamples=10).tasks["histology"]
    assert score.micro.value == 0.0 and score.unseen_labels == score.documents == 60


def test_codes_that_are_written_otherwise_are_no_errors(bundle, fresh, tmp_path):
    """A table that has a corpus's columns is used as it lies; all its labels counted as errors."""
    ours = pl.read_parquet(fresh)
    theirs = ours.with_columns(
        subsite=pl.col("subsite").str.replace(".", "", literal=True),
        histology=pl.concat_str("histology", pl.lit("/"), "behavior"),
        laterality=pl.col("laterality").replace({"left": "2", "right": "R", "not_paired": "0"}),
    )
    theirs.write_csv(tmp_path / "lab.csv")
    theirs.write_parquet(tmp_path / "lab.parquet")
    theirs.drop("site", "behavior").write_parquet(tmp_path / "less.parquet")
    expected = bundle.evaluate(fresh, resamples=20)
    for reports in (theirs, tmp_path / "lab.csv", tmp_path / "lab.parquet", tmp_path / "less.parquet"):
        result = bundle.evaluate(reports, resamples=20)
        assert {task: one.micro for task, one in result.tasks.items()} == {
            task: one.micro for task, one in expected.tasks.items()
        }


def test_labels_in_another_form_are_told_of(bundle, fresh, tmp_path):
    """Scores of nothing but errors, without a word, would be the model's fault."""
    other = pl.read_parquet(fresh).with_columns(
        pl.format("ICD-10 {}", "subsite").alias("subsite"), histology=pl.format("SNOMED {}", "histology")
    )
    other.write_parquet(tmp_path / "other.parquet")
    result = bundle.evaluate(tmp_path / "other.parquet", resamples=10)
    told = "ost labels of subsite and histology are codes that the model"
    assert f"Note: m{told} does not know" in repr(result) and f"<p>M{told} does not know" in result.page()
    assert bundle.evaluate(fresh, resamples=10).unknown_labels == []


def test_corpora_with_fewer_tasks_or_none(bundle, fresh, tmp_path):
    path = tmp_path / "site.parquet"
    pl.read_parquet(fresh).select("report_id", "case_id", "registry", "text", "site").write_parquet(path)
    assert list(bundle.evaluate(path, resamples=10).tasks) == ["site"]
    pl.read_parquet(fresh).select("report_id", "case_id", "registry", "text").write_parquet(path)
    with pytest.raises(CorpusError, match="no labels for any of the bundle's tasks"):
        bundle.evaluate(path)
    with pytest.raises(UsageError, match="no task 'grade'"):
        bundle.evaluate(fresh, tasks=["grade"])


def test_frames_and_corpora_are_scored_as_files_are(bundle, fresh):
    expected = bundle.evaluate(fresh, resamples=20)
    assert bundle.evaluate(pl.read_parquet(fresh), resamples=20) == expected
    assert bundle.evaluate(read(fresh), resamples=20) == expected
    assert list(bundle.evaluate(read(fresh), tasks=["site"], resamples=20).tasks) == ["site"]


def test_rows_that_cannot_be_used_are_left_out_and_counted(bundle, fresh, tmp_path):
    """A record that does not fit its header, and one without a text: as an import leaves them out."""
    frame = pl.read_parquet(fresh)
    lines = frame.with_columns(text=pl.when(pl.int_range(pl.len()) != 20).then("text")).write_csv().splitlines()
    lines[9] += ",Quillfeather"
    (tmp_path / "test.csv").write_text("\n".join(lines) + "\n")
    result = bundle.evaluate(tmp_path / "test.csv", resamples=10)
    assert result.documents == 58 and (result.tables.rows, result.tables.skipped_total) == (60, 2)
    assert [(one.row, one.reason) for one in result.tables.skipped][1] == (22, "has no text")
    assert "60 read, 2 skipped" in repr(result) and "2 of 60 rows could not be used" in result.page()
    pl.concat([frame[:8], frame[9:20], frame[21:]]).write_parquet(tmp_path / "rest.parquet")
    rest = bundle.evaluate(tmp_path / "rest.parquet", resamples=10)
    assert rest.tasks == result.tasks and rest.tables is None
    assert bundle.evaluate(read(tmp_path / "test.csv", most_skipped=0.1), resamples=10).tables == result.tables
    for strict in (0.0, 0.02):
        with pytest.raises(CorpusError, match=r"record at line 10 has 10 fields|2 of 60 rows cannot be used"):
            bundle.evaluate(tmp_path / "test.csv", resamples=10, most_skipped=strict)
