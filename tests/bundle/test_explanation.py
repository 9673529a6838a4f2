"""Explanations add up to the model's own scores and point into the text."""

import json

import numpy as np
import polars as pl
import pytest

from bundle.conftest import people, reports
from pathveil.bundle import predict as predict_module
from pathveil.bundle.coder import Code, Coder
from pathveil.bundle.explanation import TOP, explain_reading, read_to_explain
from pathveil.bundle.predict import predict_to_file
from pathveil.corpus.mapping import TableMapping
from pathveil.errors import UsageError
from pathveil.model.explain import explain, spans
from pathveil.text.tokenizer import tokenize_spans
from pathveil.training.linear import weighted_counts
from pathveil.training.loop import document_logits
from pathveil.vocabulary.encoding import encode_texts
from pathveil.vocabulary.words import FIRST_WORD

TEXT = "Patient: Quillfeather1x. Specimen received. Final diagnosis: invasive ductal carcinoma of the LEFT breast."


def test_places_add_up_to_the_score(bundle):
    """All places of a task sum to the blend of both views' logits, less their biases."""
    reasons = bundle.explain(TEXT, top=10_000).tasks
    ids, offsets = encode_texts([TEXT], bundle.vocabulary)
    linear = bundle.ensemble().linear.logits(ids, offsets)
    for task, reason in reasons.items():
        label = bundle.labels[task].index(reason.code.code)
        a, b = bundle.blend[task]
        networks = np.mean(
            [
                document_logits(member, ids, offsets)[task][0, label] - member.heads[task].bias[label].item()
                for member in bundle.ensemble().members
            ]
        )
        expected = a * networks + b * (linear[task][0, label] - bundle.ensemble().linear.biases[task][label])
        assert sum(place.weight for place in reason.places) == pytest.approx(expected, abs=1e-3)


def test_codes_are_the_coders_and_places_lie_in_the_text(bundle):
    reasons = bundle.explain(TEXT).tasks
    (codes,) = Coder(bundle).code([TEXT])
    for task, reason in reasons.items():
        assert reason.code == codes[task]
        assert len(reason.places) <= 8
        assert all(0 <= place.start < place.end <= len(TEXT) for place in reason.places)
        weights = [abs(place.weight) for place in reason.places]
        assert weights == sorted(weights, reverse=True)


def test_the_side_is_found_where_it_stands(bundle):
    places = bundle.explain(TEXT).tasks["laterality"].places
    assert any("LEFT" in TEXT[place.start : place.end] for place in places if place.weight > 0)


def test_an_empty_report_has_no_places(bundle):
    assert all(reason.places == () for reason in bundle.explain("").tasks.values())


def test_predict_writes_places_and_never_text(bundle, tmp_path):
    table = reports(6, seed=2)
    table.write_parquet(tmp_path / "in.parquet")
    predict_to_file(bundle, tmp_path / "in.parquet", tmp_path / "out.jsonl", explain=3)
    content = (tmp_path / "out.jsonl").read_text()
    assert not [name for number in range(6) for name in people(number) if name.lower() in content.lower()]
    for line, text in zip(map(json.loads, content.splitlines()), table["text"], strict=True):
        for task in bundle.tasks:
            places = line["explanation"][task]["places"]
            assert len(places) == 3 and all(place["end"] <= len(text) for place in places)
    for options in ({"by_case": True}, {"output_format": "csv"}):
        with pytest.raises(UsageError, match="places in a report's text"):
            predict_to_file(bundle, tmp_path / "in.parquet", tmp_path / "no.jsonl", explain=3, **options)


def explain_codes(bundle, text, codes, *, top=TOP):
    """The places behind codes that a report was given."""
    coder = Coder(bundle)
    _, _, (reading,) = read_to_explain(coder, [text])
    return explain_reading(coder, reading, codes, top=top)


def test_the_code_that_was_given_is_explained(bundle):
    """Not the one that a second look at the text would give it."""
    (codes,) = Coder(bundle).code([TEXT])
    other = next(label for label in bundle.labels["site"] if label != codes["site"].code)
    given = dict(codes) | {"site": Code(other, 0.2, abstained=True, lifted=True)}
    explained = explain_codes(bundle, TEXT, given).tasks
    assert {task: reasons.code for task, reasons in explained.items()} == given
    assert explained["site"].places != bundle.explain(TEXT).tasks["site"].places


def test_what_is_written_is_what_is_explained(bundle, tmp_path, monkeypatch):
    """The places in the file are those of the file's codes, whatever another reading of the report would say."""
    reports(6, seed=2).write_parquet(tmp_path / "in.parquet")
    decided = predict_module.decide

    def other_site(model, log_probabilities, *, empty, joint):
        coded = decided(model, log_probabilities, empty=empty, joint=joint)
        for codes in coded:
            other = next(label for label in model.labels["site"] if label != codes["site"].code)
            codes["site"] = Code(other, 0.2, abstained=True)
        return coded

    monkeypatch.setattr(predict_module, "decide", other_site)
    predict_to_file(bundle, tmp_path / "in.parquet", tmp_path / "out.jsonl", explain=3)
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    for line, text in zip(lines, reports(6, seed=2)["text"], strict=True):
        given = {"site": Code(line["codes"]["site"]["code"], 0.2, abstained=True)}
        expected = explain_codes(bundle, text, given, top=3).tasks["site"].places
        assert [place["start"] for place in line["explanation"]["site"]["places"]] == [p.start for p in expected]
        assert line["explanation"]["site"]["places"][0]["weight"] == pytest.approx(expected[0].weight, abs=1e-4)


def test_explanations_are_results(bundle):
    explanation = bundle.explain(TEXT, top=2)
    assert explanation.to_frame().columns == ["task", "code", "probability", "start", "end", "weight"]
    assert (
        "laterality" in repr(explanation) and "quillfeather" not in (repr(explanation) + explanation.to_json()).lower()
    )


def test_many_texts_come_from_tables_with_the_same_answers(bundle):
    texts = pl.concat([reports(60, seed=4), reports(60, seed=6)])["text"].to_list()
    coder = Coder(bundle)
    many, _ = coder.read(texts)
    assert coder._tabulated is not None
    few, _ = Coder(bundle).read(texts[:5])
    for task in bundle.tasks:
        # Single precision: of a log-probability of -200, the last bit is 1.5e-5.
        np.testing.assert_allclose(many[task][:5], few[task], atol=1e-5, rtol=4 * np.finfo(np.float32).eps)


@pytest.mark.parametrize("tabulated", [False, True])
def test_places_are_the_windows_and_words_of_each_view(bundle, tabulated):
    """Against each network's logit divided among its windows one task at a time, and the linear view word by word."""
    coder = Coder(bundle)
    if tabulated:
        coder.prepare()
    texts = [TEXT, "", "zzz", "Lobular carcinoma – ½ cm – of the right breast. " * 3]
    logs, empty, readings = read_to_explain(coder, texts)
    alone, without = Coder(bundle).read(texts)
    assert empty.tolist() == without.tolist() == [False, True, True, False]
    for task in bundle.tasks:
        np.testing.assert_allclose(logs[task], alone[task], atol=1e-5)
    ensemble, label = bundle.ensemble(), 0
    given = {task: Code(bundle.labels[task][label], 0.5, False) for task in bundle.tasks}
    for text, reading in zip(texts, readings, strict=True):
        tokens = tokenize_spans(text, words=bundle.clip, identifiers=bundle.identifiers)
        ids = [bundle.vocabulary.id_of(word) for word, _, _ in tokens]
        found = explain_reading(coder, reading, given, top=10**6).tasks
        for task in bundle.tasks:
            expected: dict[tuple[int, int], float] = {}
            for member in ensemble.members:
                parts = explain(member, ids, task=task, label=label)
                for start, end, weight in spans(parts, [span[1:] for span in tokens]):
                    share = weight * bundle.blend[task][0] / len(ensemble.members)
                    expected[start, end] = expected.get((start, end), 0.0) + share
            counts = weighted_counts(np.array(ids, np.int64), np.array([0, len(ids)]), ensemble.linear.idf)
            for (_, *place), word in zip(tokens, ids, strict=True):
                if word >= FIRST_WORD:
                    weight = counts[0, word] * ensemble.linear.weights[task][label, word] * bundle.blend[task][1]
                    expected[tuple(place)] = expected.get(tuple(place), 0.0) + weight / ids.count(word)
            assert {(p.start, p.end): p.weight for p in found[task].places} == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("name, columns", [("in.csv", {"text": "DX+GROSS"}), ("in.jsonl", {"text": ["DX", "GROSS"]})])
def test_places_in_a_text_of_several_columns_come_with_that_text(bundle, tmp_path, name, columns):
    table = pl.DataFrame({"DX": ["carcinoma of the left breast"], "GROSS": ["received in formalin"]})
    (table.write_csv if name.endswith("csv") else table.write_ndjson)(tmp_path / name)
    asked = {"explain": 2, "mapping": TableMapping(columns=columns)}
    with pytest.raises(UsageError, match="put together from several columns, rows or a list, which you do not have"):
        predict_to_file(bundle, tmp_path / name, tmp_path / "out.jsonl", **asked)
    predict_to_file(bundle, tmp_path / name, tmp_path / "out.jsonl", with_text=True, **asked)
    line = json.loads((tmp_path / "out.jsonl").read_text())
    places = [place for task in line["explanation"].values() for place in task["places"]]
    assert places and all(line["text"][place["start"] : place["end"]] for place in places) and "GROSS" in line["text"]
    one = TableMapping(columns={"text": "DX"})  # which is there as it came
    predict_to_file(bundle, tmp_path / name, tmp_path / "out.jsonl", explain=2, mapping=one)


def test_places_in_a_text_that_is_a_list_come_with_that_text(bundle, tmp_path):
    (tmp_path / "in.jsonl").write_text('{"text": ["left breast", "carcinoma"]}\n')
    with pytest.raises(UsageError, match="put together from several columns, rows or a list"):
        predict_to_file(bundle, tmp_path / "in.jsonl", tmp_path / "out.jsonl", explain=2)
