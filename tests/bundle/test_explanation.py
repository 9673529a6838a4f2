"""Explanations add up to the model's own scores and point into the text."""

import json

import numpy as np
import polars as pl
import pytest

from bundle.conftest import people, reports
from pathveil.bundle.coder import Coder
from pathveil.bundle.explanation import explain_text
from pathveil.bundle.predict import predict
from pathveil.errors import UsageError
from pathveil.training.loop import document_logits
from pathveil.vocabulary.encoding import encode_texts

TEXT = "Patient: Quillfeather1x. Specimen received. Final diagnosis: invasive ductal carcinoma of the LEFT breast."


def test_places_add_up_to_the_score(bundle):
    """All places of a task sum to the blend of both views' logits, less their biases."""
    reasons = explain_text(bundle, TEXT, top=10_000)
    ids, offsets = encode_texts([TEXT], bundle.vocabulary)
    linear = bundle.model.linear.logits(ids, offsets)
    for task, reason in reasons.items():
        label = bundle.labels[task].index(reason.code.code)
        a, b = bundle.blend[task]
        networks = np.mean(
            [
                document_logits(member, ids, offsets)[task][0, label] - member.heads[task].bias[label].item()
                for member in bundle.model.members
            ]
        )
        expected = a * networks + b * (linear[task][0, label] - bundle.model.linear.biases[task][label])
        assert sum(weight for *_, weight in reason.places) == pytest.approx(expected, abs=1e-3)


def test_codes_are_the_coders_and_places_lie_in_the_text(bundle):
    reasons = explain_text(bundle, TEXT)
    (codes,) = Coder(bundle).code([TEXT])
    for task, reason in reasons.items():
        assert reason.code == codes[task]
        assert len(reason.places) <= 8
        assert all(0 <= start < end <= len(TEXT) for start, end, _ in reason.places)
        weights = [abs(weight) for *_, weight in reason.places]
        assert weights == sorted(weights, reverse=True)


def test_the_side_is_found_where_it_stands(bundle):
    places = explain_text(bundle, TEXT)["laterality"].places
    assert any("LEFT" in TEXT[start:end] for start, end, weight in places if weight > 0)


def test_an_empty_report_has_no_places(bundle):
    assert all(reason.places == () for reason in explain_text(bundle, "").values())


def test_predict_writes_places_and_never_text(bundle, tmp_path):
    table = reports(6, seed=2)
    table.write_parquet(tmp_path / "in.parquet")
    predict(bundle, tmp_path / "in.parquet", tmp_path / "out.jsonl", explain=3)
    content = (tmp_path / "out.jsonl").read_text()
    assert not [name for number in range(6) for name in people(number) if name.lower() in content.lower()]
    for line, text in zip(map(json.loads, content.splitlines()), table["text"], strict=True):
        for task in bundle.tasks:
            places = line["explanation"][task]["places"]
            assert len(places) == 3 and all(place["end"] <= len(text) for place in places)
    for options in ({"by_case": True}, {"output_format": "csv"}):
        with pytest.raises(UsageError, match="places in a report's text"):
            predict(bundle, tmp_path / "in.parquet", tmp_path / "no.jsonl", explain=3, **options)


def test_many_texts_come_from_tables_with_the_same_answers(bundle):
    texts = pl.concat([reports(60, seed=4), reports(60, seed=6)])["text"].to_list()
    coder = Coder(bundle)
    many, _ = coder.read(texts)
    assert coder._model is not None
    few, _ = Coder(bundle).read(texts[:5])
    for task in bundle.tasks:
        np.testing.assert_allclose(many[task][:5], few[task], atol=1e-5)
