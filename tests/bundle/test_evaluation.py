"""Scores of a model on a corpus, against scikit-learn's."""

import json

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


def test_labels_never_seen_count_as_errors(bundle, fresh, tmp_path):
    path = tmp_path / "other.parquet"
    pl.read_parquet(fresh).with_columns(histology=pl.lit("9999")).write_parquet(path)
    score = bundle.evaluate(path, resamples=10).tasks["histology"]
    assert score.micro.value == 0.0 and score.unseen_labels == score.documents == 60


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
