"""Codes, thresholds and abstention; scores of a bundle on a corpus."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from sklearn.metrics import f1_score

from bundle.conftest import reports
from pathveil.bundle.coder import Coder, decide
from pathveil.bundle.evaluation import describe, evaluate_bundle
from pathveil.errors import BundleError, CorpusError, UsageError


def test_codes_are_what_the_model_says(bundle):
    texts = reports(40, seed=9)["text"].to_list()
    coder = Coder(bundle)
    said, empty = coder.read(texts)
    assert not empty.any()
    for row, codes in enumerate(coder.code(texts)):
        for task, code in codes.items():
            best = int((said[task][row] + bundle.model.lift[task]).argmax())
            assert code.code == bundle.labels[task][best]
            assert code.probability == pytest.approx(np.exp(said[task][row, best]))
            assert code.abstained == (code.probability < bundle.thresholds[task]["probability"])


def test_one_text_is_coded_as_among_many(bundle):
    texts = reports(30, seed=9)["text"].to_list()
    many = Coder(bundle).code(texts)
    for text, codes in zip(texts[:5], many, strict=False):
        (alone,) = Coder(bundle).code([text])
        for task, code in alone.items():
            assert code.code == codes[task].code
            assert code.probability == pytest.approx(codes[task].probability, abs=1e-5)


def test_a_report_without_a_known_word_is_left_to_a_person(bundle):
    sure = replace(bundle, thresholds={task: {"probability": 0.0} for task in bundle.tasks})
    for codes in Coder(sure).code(["", "zyx wvu", "   "]):
        assert all(code.abstained for code in codes.values())
    assert not any(code.abstained for code in Coder(sure).code(["carcinoma of the left breast"])[0].values())


def test_without_thresholds_everything_is_left_to_a_person(bundle):
    bare = replace(bundle, thresholds={})
    assert all(code.abstained for code in Coder(bare).code(["carcinoma of the left breast"])[0].values())


def test_text_cut_by_other_rules_is_refused(bundle):
    with pytest.raises(BundleError, match="text settings"):
        Coder(replace(bundle, text="pathveil-text/0 words=1500"))


def test_decide_takes_the_likeliest(bundle):
    logs = {task: np.log(np.full((1, len(names)), 0.1 / len(names))) for task, names in bundle.labels.items()}
    logs["site"][0, 2] = np.log(0.9)
    codes = decide(bundle, logs, empty=np.array([False]))[0]
    assert codes["site"].code == bundle.labels["site"][2] and codes["site"].probability == pytest.approx(0.9)


def test_evaluation_agrees_with_scikit_learn(bundle, fresh):
    result = evaluate_bundle(bundle, fresh, resamples=50)
    frame = pl.read_parquet(fresh)
    assert result["documents"] == len(frame) and list(result["tasks"]) == list(bundle.tasks)
    coded = Coder(bundle).code(frame["text"].to_list())
    for task, score in result["tasks"].items():
        pairs = [(label, codes[task].code) for label, codes in zip(frame[task], coded, strict=True) if label]
        truth, predicted = zip(*pairs, strict=True)
        assert score["documents"] == len(pairs)
        assert score["micro"]["value"] == pytest.approx(np.mean([a == b for a, b in pairs]))
        assert score["macro"]["value"] == pytest.approx(f1_score(truth, predicted, average="macro"))
        assert score["micro"]["low"] <= score["micro"]["value"] <= score["micro"]["high"]
    assert "macro F1" in describe(result)


def test_labels_never_seen_count_as_errors(bundle, fresh, tmp_path):
    path = tmp_path / "other.parquet"
    pl.read_parquet(fresh).with_columns(histology=pl.lit("9999")).write_parquet(path)
    score = evaluate_bundle(bundle, path, resamples=10)["tasks"]["histology"]
    assert score["micro"]["value"] == 0.0 and score["unseen_labels"] == score["documents"] == 60


def test_corpora_with_fewer_tasks_or_none(bundle, fresh, tmp_path):
    path = tmp_path / "site.parquet"
    pl.read_parquet(fresh).select("report_id", "case_id", "registry", "text", "site").write_parquet(path)
    assert list(evaluate_bundle(bundle, path, resamples=10)["tasks"]) == ["site"]
    pl.read_parquet(fresh).select("report_id", "case_id", "registry", "text").write_parquet(path)
    with pytest.raises(CorpusError, match="no labels for any of the bundle's tasks"):
        evaluate_bundle(bundle, path)
    with pytest.raises(UsageError, match="no task 'grade'"):
        evaluate_bundle(bundle, fresh, tasks=["grade"])
